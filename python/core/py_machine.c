/*
 * py_machine.c - gram._core.Machine: a trained kernel machine, which gram/machine.py makes public
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_machine.h"
#include "py_table.h"
#include "py_waiting.h"

struct machine_object {
    PyObject head;
    struct py_state *state;
    PyObject *owner; /* the module, which keeps state */
    gram_machine *machine;
};

PyObject *py_machine_wrap(PyObject *module, gram_machine *machine)
{
    struct py_state *state = py_state_of(module);
    struct machine_object *self = py_new(state->machine_type);

    if (!self) {
        gram_machine_destroy(machine);
        return NULL;
    }
    self->state = state;
    self->owner = Py_NewRef(module);
    self->machine = machine;
    return (PyObject *)self;
}

static void dealloc(PyObject *object)
{
    struct machine_object *self = (struct machine_object *)object;

    gram_machine_destroy(self->machine);
    py_delete(object, self->owner);
}

/* The context of a device for one call. */
static int open_on(struct py_state *state, PyObject *device, struct py_idle *context)
{
    *context = (struct py_idle){.threads = state->threads};
    if (py_device("gram.Machine", device, &context->device))
        return -1;
    context->g = py_take_context(state, context->device, NULL, false);
    return context->g ? 0 : -1;
}

enum {
    WAIT_ROWS = 2000 /* the number of rows from which the 50 us of a thread are negligible */
};

/* A request to a machine. */
struct question {
    gram_status (*ask)(const struct question *q);
    gram_context *g;
    const gram_machine *machine;
    const gram_table *table;
    const gram_column *target;
    gram_tensor *out;
    double level;
    gram_machine_score *score;
    const gram_permutation_options *permutation;
};

static gram_status ask_predict(const struct question *q)
{
    return gram_machine_predict(q->g, q->machine, q->table, q->out);
}

static gram_status ask_proba(const struct question *q)
{
    return gram_machine_predict_proba(q->g, q->machine, q->table, q->out);
}

static gram_status ask_interval(const struct question *q)
{
    return gram_machine_predict_interval(q->g, q->machine, q->table, q->level, NULL, q->out);
}

static gram_status ask_set(const struct question *q)
{
    return gram_machine_predict_set(q->g, q->machine, q->table, q->level, NULL, q->out);
}

static gram_status ask_score(const struct question *q)
{
    return gram_machine_evaluate(q->g, q->machine, q->table, q->target, q->score);
}

static gram_status ask_permutation(const struct question *q)
{
    return gram_machine_permutation_importance(q->g, q->machine, q->table, q->target,
                                               q->permutation, q->out);
}

static gram_status ask(void *argument)
{
    const struct question *q = argument;

    return q->ask(q);
}

/* Makes the request in the context, which is given back.  A request with many rows can be
 * interrupted. -1 with an exception. */
static int answer(struct py_state *state, const struct py_idle *context, struct question *q)
{
    struct py_waiting waiting = {.g = context->g, .work = ask, .argument = q};
    gram_status status = GRAM_OK;

    q->g = context->g;
    if (q->table->rows < WAIT_ROWS) {
        PY_WORK(status, q->ask(q));
    } else if (py_wait_for(&waiting, &status)) {
        gram_context_destroy(context->g);
        return -1;
    }
    if (status != GRAM_OK)
        py_raise(state, context->g, status);
    py_give_context(state, context);
    return status == GRAM_OK ? 0 : -1;
}

/* What is asked of the rows of a table into out, a writable array: by the public name. */
struct request {
    const char *name;
    gram_status (*ask)(const struct question *q);
    bool level; /* a number after the device */
};

static PyObject *predict(PyObject *object, PyObject *args, const struct request *r)
{
    const struct machine_object *self = (const struct machine_object *)object;
    struct question q = {.ask = r->ask, .machine = self->machine};
    PyObject *list, *to, *device;
    struct py_idle context = {0};
    struct py_table t = {0};
    struct py_call call;
    int failed;

    if (!PyArg_ParseTuple(args, r->level ? "OOOd" : "OOO", &list, &to, &device, &q.level) ||
        py_open(&call, self->state, r->name))
        return NULL;
    q.out = py_inout(&call, "out", to);
    q.table = &t.table;
    failed = !q.out || py_read_table(list, &t) || open_on(self->state, device, &context) ||
             answer(self->state, &context, &q);
    py_release_table(&t);
    py_close(&call);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *machine_predict(PyObject *object, PyObject *args)
{
    static const struct request request = {"gram.Machine.predict", ask_predict, false};

    return predict(object, args, &request);
}

static PyObject *machine_predict_proba(PyObject *object, PyObject *args)
{
    static const struct request request = {"gram.Machine.predict_proba", ask_proba, false};

    return predict(object, args, &request);
}

static PyObject *machine_predict_interval(PyObject *object, PyObject *args)
{
    static const struct request request = {"gram.Machine.predict_interval", ask_interval, true};

    return predict(object, args, &request);
}

static PyObject *machine_predict_set(PyObject *object, PyObject *args)
{
    static const struct request request = {"gram.Machine.predict_set", ask_set, true};

    return predict(object, args, &request);
}

static PyObject *machine_evaluate(PyObject *object, PyObject *args)
{
    const struct machine_object *self = (const struct machine_object *)object;
    gram_machine_score score = {.size = sizeof score};
    struct question q = {.ask = ask_score, .machine = self->machine, .score = &score};
    PyObject *list, *pair, *device;
    struct py_idle context = {0};
    struct py_column column = {0};
    struct py_table t = {0};
    gram_column target;
    int failed;

    if (!PyArg_ParseTuple(args, "OOO:score", &list, &pair, &device))
        return NULL;
    failed = py_read_table(list, &t) || py_read_column(pair, &column, &target);
    if (!failed && column.rows != t.table.rows) {
        PyErr_Format(PyExc_ValueError,
                     "gram.Machine.score: target has %lld rows, but the table has %lld",
                     (long long)column.rows, (long long)t.table.rows);
        failed = -1;
    }
    q.table = &t.table;
    q.target = &target;
    failed = failed || open_on(self->state, device, &context) || answer(self->state, &context, &q);
    py_release_column(&column);
    py_release_table(&t);
    if (failed)
        return NULL;
    return Py_BuildValue("{s:s,s:d,s:L,s:d,s:d,s:d}", "metric", score.metric, "score", score.score,
                         "rows", (long long)score.rows, "mae", score.mae, "r2", score.r2,
                         "log_loss", score.log_loss);
}

/* (table, target, device, out (features by repeats), seed) */
static PyObject *machine_permutation(PyObject *object, PyObject *args)
{
    const struct machine_object *self = (const struct machine_object *)object;
    gram_permutation_options options = GRAM_PERMUTATION_OPTIONS_INIT;
    struct question q = {.ask = ask_permutation, .machine = self->machine, .permutation = &options};
    PyObject *list, *pair, *device, *to;
    struct py_idle context = {0};
    struct py_column column = {0};
    struct py_table t = {0};
    struct py_call call;
    unsigned long long seed;
    gram_column target;
    int failed;

    if (!PyArg_ParseTuple(args, "OOOOK:permutation_importance", &list, &pair, &device, &to,
                          &seed) ||
        py_open(&call, self->state, "gram.Machine.permutation_importance"))
        return NULL;
    q.out = py_inout(&call, "out", to);
    failed = !q.out || py_read_table(list, &t) || py_read_column(pair, &column, &target);
    if (!failed && column.rows != t.table.rows) {
        PyErr_Format(PyExc_ValueError,
                     "gram.Machine.permutation_importance: target has %lld rows, but the table has "
                     "%lld",
                     (long long)column.rows, (long long)t.table.rows);
        failed = -1;
    }
    options.seed = seed;
    if (!failed)
        options.repeats = q.out->shape[1];
    q.table = &t.table;
    q.target = &target;
    failed = failed || open_on(self->state, device, &context) || answer(self->state, &context, &q);
    py_release_column(&column);
    py_release_table(&t);
    py_close(&call);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *machine_save(PyObject *object, PyObject *path)
{
    const struct machine_object *self = (const struct machine_object *)object;
    struct py_call call;
    PyObject *bytes;
    gram_status status;

    if (!PyUnicode_FSConverter(path, &bytes))
        return NULL;
    if (py_open(&call, self->state, "gram.Machine.save")) {
        Py_DECREF(bytes);
        return NULL;
    }
    PY_WORK(status, gram_machine_save(call.g, self->machine, PyBytes_AsString(bytes)));
    Py_DECREF(bytes);
    return py_end_none(&call, status);
}

/* [(name, number of categories, importance), ...] */
static PyObject *machine_features(PyObject *object, PyObject *unused)
{
    const struct machine_object *self = (const struct machine_object *)object;
    int64_t count = gram_machine_feature_count(self->machine);
    gram_status status = GRAM_OK;
    struct py_call call;
    PyObject *list;

    (void)unused;
    list = py_open_list(&call, self->state, "gram.Machine.features");
    if (!list)
        return NULL;
    for (int64_t i = 0; i < count && list && status == GRAM_OK; i++) {
        gram_machine_feature f = {.size = sizeof f};
        status = gram_machine_feature_at(call.g, self->machine, i, &f);
        if (status == GRAM_OK)
            py_add(&list, Py_BuildValue("(sid)", f.name, f.categories, f.importance));
    }
    return py_end_list(&call, list, status);
}

/* (targets, is a classification, classes, classes are numbers, description as JSON) */
static PyObject *machine_facts(PyObject *object, PyObject *unused)
{
    const gram_machine *m = ((const struct machine_object *)object)->machine;
    PyObject *classes = PyList_New(0), *targets = PyList_New(0);

    (void)unused;
    for (int64_t i = 0; classes && i < gram_machine_class_count(m); i++)
        py_add(&classes, PyUnicode_FromString(gram_machine_class_name(m, i)));
    for (int64_t i = 0; targets && i < gram_machine_target_count(m); i++)
        py_add(&targets, PyUnicode_FromString(gram_machine_target_name(m, i)));
    if (!classes || !targets) {
        Py_XDECREF(classes);
        Py_XDECREF(targets);
        return NULL;
    }
    return Py_BuildValue("(NONOs)", targets,
                         gram_machine_task(m) == GRAM_CLASSIFICATION ? Py_True : Py_False, classes,
                         gram_machine_classes_are_numbers(m) ? Py_True : Py_False,
                         gram_machine_describe(m));
}

static PyMethodDef methods[] = {
    {         "predict",          machine_predict, METH_VARARGS, NULL},
    {   "predict_proba",    machine_predict_proba, METH_VARARGS, NULL},
    {"predict_interval", machine_predict_interval, METH_VARARGS, NULL},
    {     "predict_set",      machine_predict_set, METH_VARARGS, NULL},
    {        "evaluate",         machine_evaluate, METH_VARARGS, NULL},
    {     "permutation",      machine_permutation, METH_VARARGS, NULL},
    {            "save",             machine_save,       METH_O, NULL},
    {        "features",         machine_features,  METH_NOARGS, NULL},
    {           "facts",            machine_facts,  METH_NOARGS, NULL},
    {              NULL,                     NULL,            0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc,                                (void *)dealloc},
    {Py_tp_methods,                                (void *)methods},
    {    Py_tp_doc, (void *)"A trained machine; see gram.Machine."},
    {            0,                                           NULL},
};

PyType_Spec py_machine_spec = {
    .name = "gram._core.Machine",
    .basicsize = sizeof(struct machine_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

/*
 * py_machine_fit.c - gram._core.machine_fit and machine_load
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_machine.h"
#include "py_table.h"

/* What the progress of a fit needs: the caller's function, and an exception on its way. */
struct progress {
    gram_context *g;
    PyObject *function; /* or NULL */
    PyObject *type, *value, *trace;
};

/* Called by the thread that fits, without the interpreter's lock: lets a signal in (Ctrl-C). */
static void report(void *user, double fraction, const char *stage)
{
    PyGILState_STATE lock = PyGILState_Ensure();
    struct progress *p = user;
    PyObject *answer = NULL;
    int failed = p->type ? -1 : PyErr_CheckSignals();

    if (!failed && p->function) {
        answer = PyObject_CallFunction(p->function, "ds", fraction, stage);
        failed = answer ? 0 : -1;
    }
    Py_XDECREF(answer);
    if (failed && !p->type) {
        PyErr_Fetch(&p->type, &p->value, &p->trace);
        gram_context_cancel(p->g);
    }
    PyGILState_Release(lock);
}

/* One option by its name in gram_machine_options. */
struct option_row {
    const char *name;
    size_t offset;
    const char *const *names; /* of a choice, which begins with its 0 */
    enum {
        WHOLE,
        WHOLE64,
        NUMBER,
        CHOICE
    } kind;
};

static const char *const tasks[] = {"auto", "regression", "classification", NULL};
static const char *const solvers[] = {"auto", "cholesky", "cg", NULL};
static const char *const transforms[] = {"auto", "none", "log", "sqrt", NULL};
static const char *const metrics[] = {"auto", "diagonal", "full", NULL};
static const char *const dtypes[] = {"auto", "float32", "float64", NULL};

#define AT(member) offsetof(gram_machine_options, member)
static const struct option_row rows[] = {
    {            "task",             AT(task),      tasks,  CHOICE},
    {          "search",           AT(search),       NULL,   WHOLE},
    {               "p",                AT(p),       NULL,  NUMBER},
    {               "q",                AT(q),       NULL,  NUMBER},
    {       "bandwidth",        AT(bandwidth),       NULL,  NUMBER},
    {  "regularization",   AT(regularization),       NULL,  NUMBER},
    {      "iterations",       AT(iterations),       NULL,   WHOLE},
    {          "metric",           AT(metric),    metrics,  CHOICE},
    {    "metric_power",     AT(metric_power),       NULL,  NUMBER},
    {"target_transform", AT(target_transform), transforms,  CHOICE},
    {          "solver",           AT(solver),    solvers,  CHOICE},
    {       "tolerance",        AT(tolerance),       NULL,  NUMBER},
    {      "validation",       AT(validation),       NULL,  NUMBER},
    {       "leaf_rows",        AT(leaf_rows),       NULL, WHOLE64},
    {    "memory_limit",     AT(memory_limit),       NULL, WHOLE64},
    {      "time_limit",       AT(time_limit),       NULL,  NUMBER},
    {            "seed",             AT(seed),       NULL, WHOLE64},
    {           "dtype",            AT(dtype),     dtypes,  CHOICE},
    {  "max_categories",   AT(max_categories),       NULL, WHOLE64},
};

static int read_option(const struct option_row *row, PyObject *value, gram_machine_options *o)
{
    const char *function = "gram.Machine.fit";
    char *at = (char *)o + row->offset;
    int64_t whole = 0;
    int choice = 0;

    if (row->kind == NUMBER)
        return py_double(function, row->name, value, (double *)at);
    if (row->kind == CHOICE) {
        if (py_choice(function, row->name, value, row->names, &choice))
            return -1;
        *(int *)at = choice;
        return 0;
    }
    if (py_int64(function, row->name, value, &whole))
        return -1;
    if (row->kind == WHOLE64) {
        *(int64_t *)at = whole;
        return 0;
    }
    if (whole < INT32_MIN || whole > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "%s: %s is %R", function, row->name, value);
        return -1;
    }
    *(int *)at = (int)whole;
    return 0;
}

static int read_options(PyObject *dict, gram_machine_options *o)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    size_t i;

    while (PyDict_Next(dict, &at, &name, &value)) {
        for (i = 0; i < sizeof rows / sizeof *rows; i++)
            if (PyUnicode_CompareWithASCIIString(name, rows[i].name) == 0)
                break;
        if (i == sizeof rows / sizeof *rows) {
            PyErr_Format(PyExc_TypeError, "gram.Machine.fit() has no argument %R", name);
            return -1;
        }
        if (value != Py_None && read_option(&rows[i], value, o))
            return -1;
    }
    return 0;
}

/* What a fit borrows while it runs. */
struct job {
    struct py_table table;
    struct py_column target_column, weight_column;
    gram_column target, weights;
    gram_machine_options options;
    struct py_idle context;
};

static int read_job(struct py_state *state, PyObject *args, struct job *job, PyObject **progress)
{
    PyObject *table, *target, *weights, *device, *options;

    if (!PyArg_ParseTuple(args, "OOOOOO!:fit", &table, &target, &weights, &device, progress,
                          &PyDict_Type, &options) ||
        read_options(options, &job->options) || py_read_table(table, &job->table) ||
        py_read_column(target, &job->target_column, &job->target) ||
        py_device("gram.Machine.fit", device, &job->context.device))
        return -1;
    if (py_given(weights)) {
        if (py_read_column(weights, &job->weight_column, &job->weights))
            return -1;
        job->options.weights = job->weights.numbers;
    }
    if (job->target_column.rows != job->table.table.rows ||
        (py_given(weights) && job->weight_column.rows != job->table.table.rows)) {
        PyErr_Format(PyExc_ValueError, "gram.Machine.fit: the table has %lld rows, the target %lld",
                     (long long)job->table.table.rows, (long long)job->target_column.rows);
        return -1;
    }
    job->context.threads = state->threads;
    job->context.g = py_take_context(state, job->context.device, NULL);
    return job->context.g ? 0 : -1;
}

PyObject *py_machine_fit(PyObject *module, PyObject *args)
{
    struct py_state *state = py_state_of(module);
    struct job job = {.options = GRAM_MACHINE_OPTIONS_INIT};
    PyObject *function = NULL;
    gram_machine *machine = NULL;
    gram_status status = GRAM_INVALID_ARGUMENT;

    if (read_job(state, args, &job, &function) == 0) {
        struct progress p = {.g = job.context.g, .function = py_given(function) ? function : NULL};
        job.options.progress = report;
        job.options.progress_user = &p;
        PY_WORK(status, gram_machine_fit(job.context.g, &job.table.table, &job.target, &job.options,
                                         &machine));
        if (p.type)
            PyErr_Restore(p.type, p.value, p.trace);
        if (status != GRAM_OK)
            py_raise(state, job.context.g, status);
    }
    if (job.context.g)
        py_give_context(state, &job.context);
    py_release_table(&job.table);
    py_release_column(&job.target_column);
    py_release_column(&job.weight_column);
    if (status != GRAM_OK || PyErr_Occurred()) {
        gram_machine_destroy(machine);
        return NULL;
    }
    return py_machine_wrap(module, machine);
}

PyObject *py_machine_load(PyObject *module, PyObject *path)
{
    gram_machine *machine = NULL;
    struct py_call call;
    PyObject *bytes;
    gram_status status;

    if (!PyUnicode_FSConverter(path, &bytes))
        return NULL;
    if (py_open(&call, py_state_of(module), "gram.Machine.load")) {
        Py_DECREF(bytes);
        return NULL;
    }
    PY_WORK(status, gram_machine_load(call.g, PyBytes_AsString(bytes), &machine));
    Py_DECREF(bytes);
    if (status != GRAM_OK)
        return py_end(&call, status);
    py_close(&call);
    return py_machine_wrap(module, machine);
}

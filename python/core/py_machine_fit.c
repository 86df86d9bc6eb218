/*
 * py_machine_fit.c - gram._core.machine_fit and machine_load
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_communicator.h"
#include "py_functions.h"
#include "py_machine.h"
#include "py_options.h"
#include "py_table.h"
#include "py_waiting.h"

static const char *const tasks[] = {"auto", "regression", "classification", NULL};
static const char *const solvers[] = {"auto", "cholesky", "cg", NULL};
static const char *const transforms[] = {"auto", "none", "log", "sqrt", NULL};
static const char *const metrics[] = {"auto", "diagonal", "full", "ard", NULL};
static const char *const statistics[] = {"auto", "none", NULL};
static const char *const losses[] = {"auto", "squared", "logistic", NULL};
static const char *const dtypes[] = {"auto", "float32", "float64", NULL};

#define AT(member) offsetof(gram_machine_options, member)
static const struct py_option rows[] = {
    {               "task",                AT(task),      tasks,  PY_CHOICE},
    {             "search",              AT(search),       NULL,   PY_WHOLE},
    {                  "p",                   AT(p),       NULL,  PY_NUMBER},
    {                  "q",                   AT(q),       NULL,  PY_NUMBER},
    {          "bandwidth",           AT(bandwidth),       NULL,  PY_NUMBER},
    {     "regularization",      AT(regularization),       NULL,  PY_NUMBER},
    {         "iterations",          AT(iterations),       NULL,   PY_WHOLE},
    {             "metric",              AT(metric),    metrics,  PY_CHOICE},
    {       "metric_power",        AT(metric_power),       NULL,  PY_NUMBER},
    {   "target_transform",    AT(target_transform), transforms,  PY_CHOICE},
    {             "solver",              AT(solver),    solvers,  PY_CHOICE},
    {          "tolerance",           AT(tolerance),       NULL,  PY_NUMBER},
    {         "validation",          AT(validation),       NULL,  PY_NUMBER},
    {          "leaf_rows",           AT(leaf_rows),       NULL, PY_WHOLE64},
    {       "memory_limit",        AT(memory_limit),       NULL, PY_WHOLE64},
    {         "time_limit",          AT(time_limit),       NULL,  PY_NUMBER},
    {               "seed",                AT(seed),       NULL, PY_WHOLE64},
    {              "dtype",               AT(dtype),     dtypes,  PY_CHOICE},
    {     "max_categories",      AT(max_categories),       NULL, PY_WHOLE64},
    {        "metric_rows",         AT(metric_rows),       NULL, PY_WHOLE64},
    {           "ensemble",            AT(ensemble),       NULL,   PY_WHOLE},
    {            "centres",             AT(centres),       NULL, PY_WHOLE64},
    {"category_statistics", AT(category_statistics), statistics,  PY_CHOICE},
    {              "trees",               AT(trees),       NULL,   PY_WHOLE},
    {        "temperature",         AT(temperature),       NULL,  PY_NUMBER},
    {               "loss",                AT(loss),     losses,  PY_CHOICE},
};

enum {
    MOST_DEVICES = 16
};

/* The objects that a fit borrows while it runs. */
struct job {
    struct py_table table, targets;
    struct py_column weight_column;
    gram_column weights;
    gram_machine_options options;
    struct py_idle context[MOST_DEVICES]; /* the first is the call's */
    gram_context *g[MOST_DEVICES];
    gram_group group; /* of these, where there are several */
    int contexts;
    struct py_communicator *ranks; /* whose context is the call's; NULL: none */
    gram_machine *machine;
};

static const char *const function = "gram.Machine.fit";

static int take_context(struct py_state *state, struct job *job, PyObject *device)
{
    struct py_idle *at = &job->context[job->contexts];

    if (py_device(function, device, &at->device))
        return -1;
    at->threads = state->threads;
    at->g = py_take_context(state, at->device, NULL, false);
    job->g[job->contexts] = at->g;
    job->contexts += at->g != NULL;
    return at->g ? 0 : -1;
}

/* Of one device, of several that share the leaves, or that of the communicator. */
static int take_contexts(struct py_state *state, struct job *job, PyObject *device)
{
    Py_ssize_t count;
    int failed = 0;

    if (job->ranks) {
        job->g[0] = job->ranks->context.g;
        return 0;
    }
    if (!PyList_Check(device) && !PyTuple_Check(device))
        return take_context(state, job, device);
    count = PySequence_Size(device);
    if (count < 1 || count > MOST_DEVICES) {
        PyErr_Format(PyExc_ValueError, "%s: device has %zd names, expected 1 to %d", function,
                     count, MOST_DEVICES);
        return -1;
    }
    for (Py_ssize_t i = 0; !failed && i < count; i++) {
        PyObject *one = PySequence_GetItem(device, i);
        failed = one ? take_context(state, job, one) : -1;
        Py_XDECREF(one);
    }
    job->group =
        (gram_group){.size = sizeof job->group, .contexts = job->g, .count = job->contexts};
    job->options.group = &job->group;
    return failed;
}

/* After an exception while it worked the call's context may still hold the request to stop. */
static void give_contexts(struct py_state *state, struct job *job, bool interrupted)
{
    for (int i = 0; i < job->contexts; i++)
        if (i == 0 && interrupted)
            gram_context_destroy(job->context[i].g);
        else
            py_give_context(state, &job->context[i]);
    if (job->ranks)
        job->ranks->busy = false;
}

/* table, target, weights, device, progress, communicator, options */
enum {
    TABLE,
    TARGET,
    WEIGHTS,
    DEVICE,
    PROGRESS,
    COMMUNICATOR,
    OPTIONS,
    ARGUMENTS
};

static int read_data(struct job *job, PyObject *const *v)
{
    if (py_read_options(function, rows, sizeof rows / sizeof *rows, v[OPTIONS], &job->options) ||
        py_read_table(v[TABLE], &job->table) || py_read_table(v[TARGET], &job->targets))
        return -1;
    if (py_given(v[WEIGHTS])) {
        if (py_read_column(v[WEIGHTS], &job->weight_column, &job->weights))
            return -1;
        job->options.weights = job->weights.numbers;
    }
    if (job->targets.table.rows != job->table.table.rows ||
        (py_given(v[WEIGHTS]) && job->weight_column.rows != job->table.table.rows)) {
        PyErr_Format(PyExc_ValueError, "%s: the table has %lld rows, but the target has %lld",
                     function, (long long)job->table.table.rows,
                     (long long)job->targets.table.rows);
        return -1;
    }
    return 0;
}

static int read_job(struct py_state *state, PyObject *args, struct job *job, PyObject **progress)
{
    PyObject *v[ARGUMENTS];

    if (!PyArg_ParseTuple(args, "OOOOOOO!:fit", &v[TABLE], &v[TARGET], &v[WEIGHTS], &v[DEVICE],
                          progress, &v[COMMUNICATOR], &PyDict_Type, &v[OPTIONS]))
        return -1;
    if (py_given(v[COMMUNICATOR])) {
        job->ranks = py_communicator_take(state, function, v[COMMUNICATOR]);
        if (!job->ranks)
            return -1;
    }
    if (read_data(job, v) == 0 && take_contexts(state, job, v[DEVICE]) == 0) {
        job->options.communicator = job->ranks ? job->ranks->c : NULL;
        return 0;
    }
    if (job->ranks)
        py_communicator_fail(job->ranks);
    return -1;
}

static gram_status fit(void *argument)
{
    struct job *job = argument;

    if (job->targets.table.columns == 1)
        return gram_machine_fit(job->g[0], &job->table.table, job->targets.column, &job->options,
                                &job->machine);
    return gram_machine_fit_targets(job->g[0], &job->table.table, job->targets.column,
                                    job->targets.table.columns, &job->options, &job->machine);
}

PyObject *py_machine_fit(PyObject *module, PyObject *args)
{
    struct py_state *state = py_state_of(module);
    struct job job = {.options = GRAM_MACHINE_OPTIONS_INIT};
    struct py_waiting waiting = {.work = fit, .argument = &job};
    gram_status status = GRAM_INVALID_ARGUMENT;
    int failed = read_job(state, args, &job, &waiting.progress);
    bool interrupted = false;

    if (!failed) {
        waiting.g = job.g[0];
        if (!py_given(waiting.progress))
            waiting.progress = NULL;
        job.options.progress = py_report;
        job.options.progress_user = &waiting;
        failed = py_wait_for(&waiting, &status);
        interrupted = failed != 0;
        if (!failed && status != GRAM_OK)
            py_raise(state, job.g[0], status);
    }
    give_contexts(state, &job, interrupted);
    py_release_table(&job.table);
    py_release_table(&job.targets);
    py_release_column(&job.weight_column);
    if (failed || status != GRAM_OK) {
        gram_machine_destroy(job.machine);
        return NULL;
    }
    if (!job.machine) /* the first rank has it */
        Py_RETURN_NONE;
    return py_machine_wrap(module, job.machine);
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

/*
 * py_machine_fit.c - gram._core.machine_fit and machine_load
 *
 * SPDX-License-Identifier: MIT
 */
#include "py_functions.h"
#include "py_machine.h"
#include "py_options.h"
#include "py_table.h"
#include "py_waiting.h"

static const char *const tasks[] = {"auto", "regression", "classification", NULL};
static const char *const solvers[] = {"auto", "cholesky", "cg", NULL};
static const char *const transforms[] = {"auto", "none", "log", "sqrt", NULL};
static const char *const metrics[] = {"auto", "diagonal", "full", NULL};
static const char *const statistics[] = {"auto", "none", NULL};
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
};

/* The objects that a fit borrows while it runs. */
struct job {
    struct py_table table, targets;
    struct py_column weight_column;
    gram_column weights;
    gram_machine_options options;
    struct py_idle context;
    gram_machine *machine;
};

static int read_job(struct py_state *state, PyObject *args, struct job *job, PyObject **progress)
{
    PyObject *table, *target, *weights, *device, *options;

    if (!PyArg_ParseTuple(args, "OOOOOO!:fit", &table, &target, &weights, &device, progress,
                          &PyDict_Type, &options) ||
        py_read_options("gram.Machine.fit", rows, sizeof rows / sizeof *rows, options,
                        &job->options) ||
        py_read_table(table, &job->table) || py_read_table(target, &job->targets) ||
        py_device("gram.Machine.fit", device, &job->context.device))
        return -1;
    if (py_given(weights)) {
        if (py_read_column(weights, &job->weight_column, &job->weights))
            return -1;
        job->options.weights = job->weights.numbers;
    }
    if (job->targets.table.rows != job->table.table.rows ||
        (py_given(weights) && job->weight_column.rows != job->table.table.rows)) {
        PyErr_Format(PyExc_ValueError,
                     "gram.Machine.fit: the table has %lld rows, but the target has %lld",
                     (long long)job->table.table.rows, (long long)job->targets.table.rows);
        return -1;
    }
    job->context.threads = state->threads;
    job->context.g = py_take_context(state, job->context.device, NULL, false);
    return job->context.g ? 0 : -1;
}

static gram_status fit(void *argument)
{
    struct job *job = argument;

    if (job->targets.table.columns == 1)
        return gram_machine_fit(job->context.g, &job->table.table, job->targets.column,
                                &job->options, &job->machine);
    return gram_machine_fit_targets(job->context.g, &job->table.table, job->targets.column,
                                    job->targets.table.columns, &job->options, &job->machine);
}

PyObject *py_machine_fit(PyObject *module, PyObject *args)
{
    struct py_state *state = py_state_of(module);
    struct job job = {.options = GRAM_MACHINE_OPTIONS_INIT};
    struct py_waiting waiting = {.work = fit, .argument = &job};
    gram_status status = GRAM_INVALID_ARGUMENT;
    int failed = read_job(state, args, &job, &waiting.progress);

    if (!failed) {
        waiting.g = job.context.g;
        if (!py_given(waiting.progress))
            waiting.progress = NULL;
        job.options.progress = py_report;
        job.options.progress_user = &waiting;
        failed = py_wait_for(&waiting, &status);
        if (failed) {
            gram_context_destroy(job.context.g);
        } else {
            if (status != GRAM_OK)
                py_raise(state, job.context.g, status);
            py_give_context(state, &job.context);
        }
    }
    py_release_table(&job.table);
    py_release_table(&job.targets);
    py_release_column(&job.weight_column);
    if (failed || status != GRAM_OK) {
        gram_machine_destroy(job.machine);
        return NULL;
    }
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

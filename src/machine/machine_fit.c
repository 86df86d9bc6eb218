/*
 * machine_fit.c - gram_machine_fit: check what is given, choose what is not, train
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_fit.h"
#include "core/random.h"
#include "core/view.h"
#include "krr/machine_place.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_CATEGORIES = 256, /* as many features of one column as bytes have values */
    FULL_FEATURES = 500   /* widest default full metric: its eigenproblem grows with the cube */
};

void gram_machine_progress(const struct machine_job *job, double done, const char *stage)
{
    if (job->o.progress)
        job->o.progress(job->o.progress_user, job->from + done * (job->to - job->from), stage);
}

static gram_status check_range(gram_context *g, const char *name, double value, double least,
                               double most)
{
    if (value == 0 || (value >= least && value <= most))
        return GRAM_OK;
    return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.%s is %g, expected %g to %g, or 0", name,
                     value, least, most);
}

static gram_status check_options(gram_context *g, const gram_machine_options *o)
{
    TRY(check_range(g, "p", o->p, 0.01, 2));
    TRY(check_range(g, "q", o->q, 0.01, 2));
    if (o->p > 0 && o->q > o->p)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.q is %g, expected at most p = %g: the kernel would not be "
                         "positive definite",
                         o->q, o->p);
    TRY(check_range(g, "bandwidth", o->bandwidth, 1e-30, 1e30));
    TRY(check_range(g, "regularization", o->regularization, 1e-15, 1e15));
    TRY(check_range(g, "tolerance", o->tolerance, 1e-15, 0.5));
    TRY(check_range(g, "validation", o->validation, 1e-6, 0.9));
    TRY(check_range(g, "metric_power", o->metric_power, 0.01, 2));
    TRY(check_range(g, "time_limit", o->time_limit, 1e-3, 1e9));
    TRY(check_range(g, "iterations", o->iterations, -1, 100));
    TRY(check_range(g, "leaf_rows", (double)o->leaf_rows, 10, 1e12));
    TRY(check_range(g, "max_categories", (double)o->max_categories, 2, 1e9));
    TRY(check_range(g, "metric_rows", (double)o->metric_rows, 10, 1e12));
    TRY(check_range(g, "memory_limit", (double)o->memory_limit, 1e6, 1e18));
    if (o->dtype && o->dtype != GRAM_F32 && o->dtype != GRAM_F64)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.dtype is %s, expected f32 or f64",
                         gram_dtype_name(o->dtype));
    if ((unsigned)o->task > GRAM_CLASSIFICATION || (unsigned)o->solver > GRAM_SOLVER_CG ||
        (unsigned)o->metric > GRAM_METRIC_FULL ||
        (unsigned)o->target_transform > GRAM_TRANSFORM_SQRT)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.task, solver, metric or target_transform is not a value of its "
                         "enum");
    return GRAM_OK;
}

static gram_status check_target(gram_context *g, const gram_table *table, const gram_column *target)
{
    if (!target || !target->name || !*target->name)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "target is NULL or has no name");
    if (!target->numbers == !target->labels)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "target \"%s\" has both numbers and labels or neither", target->name);
    for (int64_t i = 0; target->numbers && i < table->rows; i++)
        if (isinf(target->numbers[i]))
            return gram_fail(g, GRAM_BAD_DATA, "target \"%s\" is infinite in row %lld",
                             target->name, (long long)i);
    return GRAM_OK;
}

/* Bytes of the device that a fit may take, no more than given (0: any). */
static double device_limit(gram_context *g, double given)
{
    gram_info info = {.size = sizeof info};
    double room = given;

    if (gram_context_info(g, &info) == GRAM_OK)
        room = 0.8 * (double)info.device_memory_available;
    return given > 0 && given < room ? given : room;
}

/* Most rows of a leaf whose training stays within the memory limit. */
static int64_t rows_that_fit(gram_context *g, const struct machine_job *job)
{
    gram_info info = {.size = sizeof info};
    double limit = (double)job->o.memory_limit;
    int64_t low = 10, high = job->rows;
    int64_t outputs = gram_machine_target_outputs(&job->kind);

    if (!gram_machine_on_host(g))
        limit = device_limit(g, limit);
    else if (limit == 0 && gram_context_info(g, &info) == GRAM_OK)
        limit = 0.8 * (double)info.memory_available;
    g->call = "gram_machine_fit";
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        double need =
            (double)gram_machine_solve_bytes(g, middle, outputs, job->o.dtype, job->o.solver);
        if (need <= 0.9 * limit)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static gram_status job_open(gram_context *g, struct machine_job *job)
{
    uint64_t state = job->o.seed;
    int64_t n = job->table->rows;

    job->started = gram_machine_seconds();
    job->row = gram_alloc(g, (size_t)n * sizeof *job->row);
    if (!job->row)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld rows", (long long)n);
    for (int64_t i = 0; i < n; i++)
        if (!gram_machine_target_missing(job->target, i))
            job->row[job->rows++] = i;
    if (job->rows < 2)
        return gram_fail(g, GRAM_BAD_DATA, "%lld rows have a target, expected at least 2",
                         (long long)job->rows);
    for (int64_t i = 0; job->o.weights && i < job->rows; i++)
        if (!(job->o.weights[job->row[i]] > 0) || isinf(job->o.weights[job->row[i]]))
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "options.weights is %g in row %lld, expected more than 0, and finite",
                             job->o.weights[job->row[i]], (long long)job->row[i]);
    gram_random_choose(&state, job->row, job->rows, job->rows);
    TRY(gram_machine_target_fit(g, job->target, job->o.task, job->row, job->rows, &job->kind));
    job->leaf_rows = job->o.leaf_rows ? job->o.leaf_rows : rows_that_fit(g, job);
    return GRAM_OK;
}

static void job_close(gram_context *g, struct machine_job *job)
{
    gram_machine_target_destroy(&job->kind);
    free(job->history.data);
    gram_free(g, job->row, (size_t)job->table->rows * sizeof *job->row);
}

bool gram_machine_full_metric(const struct machine_job *job, int64_t width)
{
    return job->o.metric == GRAM_METRIC_FULL ||
           (job->o.metric == GRAM_METRIC_AUTO && width <= FULL_FEATURES);
}

void gram_machine_default_recipe(const struct machine_job *job, struct machine_recipe *out)
{
    const gram_machine_options *o = &job->o;
    bool classes = job->kind.classes > 0;
    struct machine_params *params = &out->params;

    *out = (struct machine_recipe){.scaling = GRAM_STANDARDISE, .transform = o->target_transform};
    if (out->transform == GRAM_TRANSFORM_AUTO)
        out->transform = GRAM_TRANSFORM_NONE;
    params->p = o->p > 0 ? o->p : fmax(1.5, o->q);
    params->q = o->q > 0 ? o->q : fmin(params->p, 1.4);
    params->relative_bandwidth = o->bandwidth == 0;
    params->bandwidth = o->bandwidth > 0 ? o->bandwidth : classes ? 1 : 4;
    params->ridge = o->regularization > 0 ? o->regularization : 1e-2;
    params->iterations = o->iterations > 0 ? o->iterations : 0;
    params->full = gram_machine_full_metric(job, job->table->columns);
    params->power = o->metric_power > 0 ? o->metric_power : classes ? 0.5 : 0.25;
    params->solver = o->solver;
    params->tolerance = o->tolerance > 0 ? o->tolerance : classes ? 1e-2 : 1e-3;
    params->seed = o->seed;
}

static gram_status fit(gram_context *g, struct machine_job *job, gram_machine **out)
{
    struct machine_recipe recipe;

    TRY(job_open(g, job));
    gram_machine_default_recipe(job, &recipe);
    if (job->o.search)
        TRY(gram_machine_search(g, job, &recipe));
    return gram_machine_build(g, job, &recipe, out);
}

gram_status gram_machine_fit(gram_context *g, const gram_table *table, const gram_column *target,
                             const gram_machine_options *options, gram_machine **out)
{
    struct machine_job job = {.table = table, .target = target, .o = GRAM_MACHINE_OPTIONS_INIT};
    gram_status status;

    TRY(gram_begin(g, __func__));
    if (!out)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out is NULL");
    *out = NULL;
    TRY(gram_options_copy(g, &job.o, sizeof job.o, options));
    TRY(check_options(g, &job.o));
    TRY(gram_table_check(g, table));
    TRY(check_target(g, table, target));
    job.o.dtype = job.o.dtype ? job.o.dtype : GRAM_F32;
    job.o.max_categories = job.o.max_categories ? job.o.max_categories : MAX_CATEGORIES;
    status = fit(g, &job, out);
    job_close(g, &job);
    return gram_call_ended(g, status);
}

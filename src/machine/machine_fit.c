/*
 * machine_fit.c - gram_machine_fit: check what is given, choose what is not, train
 *
 * The last fit encodes all rows, and trains leaves on them (machine_leaves.c).
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/random.h"
#include "core/view.h"
#include "machine.h"
#include "machine_deal.h"
#include "machine_large.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The last fit ---------------------------------------------------------------------------- */

void gram_machine_encoded_destroy(gram_context *g, struct machine_encoded *e)
{
    gram_free(g, e->memory, e->bytes);
    *e = (struct machine_encoded){0};
}

gram_status gram_machine_encoded_create(gram_context *g, const struct machine_job *job,
                                        const int64_t rows_width[2], int64_t outputs,
                                        struct machine_encoded *out)
{
    gram_dtype dtype = job->o.dtype;
    size_t size = gram_dtype_size(dtype), rows = (size_t)rows_width[0];
    size_t x = gram_round64(rows * (size_t)rows_width[1] * size);
    size_t y = gram_round64(rows * (size_t)outputs * size);

    *out = (struct machine_encoded){.bytes = x + y + rows * sizeof(double)};
    out->memory = gram_alloc(g, out->bytes);
    if (!out->memory)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes for %lld rows",
                         out->bytes, (long long)rows_width[0]);
    out->data = (struct machine_data){
        .rows = rows_width[0],
        .width = rows_width[1],
        .outputs = outputs,
        .dtype = dtype,
        .x = out->memory,
        .y = out->memory + x,
        .weights = job->o.weights ? (double *)(out->memory + x + y) : NULL,
    };
    return GRAM_OK;
}

gram_status gram_machine_encode(gram_context *g, const struct machine_job *job,
                                const struct gram_encoder *encoder, const int64_t *rows,
                                int64_t count, struct machine_scales scales,
                                struct machine_encoded *out)
{
    int64_t each = gram_machine_target_outputs(&job->kind);
    size_t column = (size_t)(count * each) * gram_dtype_size(job->o.dtype);
    gram_status status;

    TRY(gram_machine_encoded_create(g, job, (int64_t[2]){count, encoder->width},
                                    each * scales.count, out));
    status = gram_encoder_apply_training(g, encoder, job->table, rows,
                                         (int64_t[2]){rows - job->row, count}, job->o.dtype,
                                         (char *)out->data.x);
    for (int t = 0; t < scales.count; t++)
        gram_machine_target_encode(&scales.of[t], job->target, rows, count, job->o.dtype,
                                   (char *)out->data.y + (size_t)t * column);
    for (int64_t i = 0; out->data.weights && i < count; i++)
        ((double *)out->data.weights)[i] = job->o.weights[rows[i]];
    if (status != GRAM_OK)
        gram_machine_encoded_destroy(g, out);
    return status;
}

struct gram_encoding gram_machine_encoding(const struct machine_job *job, enum gram_scaling scaling)
{
    return (struct gram_encoding){
        .scaling = scaling,
        .max_categories = job->o.max_categories,
        .categorical = job->o.categorical_columns,
        .categorical_name = job->o.categorical_column,
        .target = job->target,
        .targets = job->targets,
    };
}

/* How many of kernel, bandwidth, ridge and metric leave-one-out has chosen. */
static int choices(const gram_machine_options *o)
{
    if (o->search < 0)
        return 0;
    return (o->p == 0 || o->q == 0) + (o->bandwidth == 0) + (o->regularization == 0) +
           (o->iterations >= 0);
}

static gram_status build(gram_context *g, struct machine_job *job,
                         const struct machine_recipe *recipe, gram_machine *machine)
{
    struct machine_recipe last = *recipe;
    struct machine_encoded all = {0};
    bool large = false;
    double sum = 0;
    gram_status status = GRAM_OK;

    machine->dtype = job->o.dtype;
    TRY(gram_machine_encoder_fit(g, job, recipe->scaling, job->rows, &machine->encoder));
    if (job->kind.classes == 0)
        TRY(gram_machine_target_scale(g, job->target, recipe->transform, job->row, job->rows,
                                      &job->kind));
    TRY(gram_machine_encode(g, job, machine->encoder, job->row, job->rows,
                            (struct machine_scales){1, &job->kind}, &all));
    gram_encoder_forget_training(machine->encoder);
    for (int m = 0; m < recipe->members; m++) {
        if (!gram_machine_full_metric(job, all.data.width))
            last.member[m].params.full = false;
        machine->weight[m] = recipe->member[m].weight;
        last.member[m].params.memory = job->memory;
    }
    machine->importance =
        calloc((size_t)machine->encoder->columns + 1, sizeof *machine->importance);
    if (!machine->importance)
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the importances");
    else if (gram_machine_first(job))
        status = gram_machine_look_at_time(g, job, &last, &all.data);
    large = status == GRAM_OK && gram_machine_is_large(g, job, job->rows);
    status = gram_machine_ranks_spread(g, job, status, &large, sizeof large);
    if (status == GRAM_OK)
        status = large ? gram_machine_train_large(g, job, &last, &all.data, machine)
                       : gram_machine_train_leaves(g, job, &last, &all.data, machine);
    gram_machine_encoded_destroy(g, &all);
    if (status == GRAM_OK && !gram_machine_first(job)) /* which does the rest */
        return GRAM_OK;
    for (int64_t c = 0; status == GRAM_OK && c < machine->encoder->columns; c++)
        sum += machine->importance[c];
    for (int64_t c = 0; status == GRAM_OK && c < machine->encoder->columns; c++)
        machine->importance[c] = sum > 0 ? machine->importance[c] / sum : 0;
    if (status == GRAM_OK && job->kind.classes > 0 && job->held.f)
        status =
            gram_machine_target_calibrate(g, job->target, job->row + job->held.first,
                                          job->o.weights, job->held.count, job->held.f, &job->kind);
    if (status == GRAM_OK && job->held.f)
        status =
            gram_machine_target_conform(g, job->target, job->row + job->held.first, job->o.weights,
                                        &job->held, choices(&job->o), &job->kind);
    machine->target = job->kind; /* the machine owns it from here on */
    job->kind = (struct machine_target){0};
    return status == GRAM_OK ? gram_machine_describe_fit(g, job, &last, machine) : status;
}

/* Trains on all rows of the job. */
static gram_status train(gram_context *g, struct machine_job *job,
                         const struct machine_recipe *recipe, gram_machine **out)
{
    gram_machine *machine = calloc(1, sizeof *machine);
    gram_status status;

    if (!machine)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate a machine");
    status = build(g, job, recipe, machine);
    if (status != GRAM_OK) {
        gram_machine_destroy(machine);
        return status;
    }
    gram_machine_progress(job, 1, "done");
    *out = machine;
    return GRAM_OK;
}

/* ---- The call -------------------------------------------------------------------------------- */

enum {
    MAX_CATEGORIES = 256, /* as many features of one column as bytes have values */
    FULL_FEATURES = 500,  /* widest default full metric: its eigenproblem grows with the cube */
    ARD_FEATURES = 64     /* likewise of a metric by likelihood, of a tenth of the rows it sees */
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

static gram_status check_categorical(gram_context *g, const gram_machine_options *o)
{
    if (o->categorical_columns < 0 || (o->categorical_columns > 0 && !o->categorical_column))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.categorical_columns is %lld with categorical_column %s, expected "
                         "that many names",
                         (long long)o->categorical_columns,
                         o->categorical_column ? "given" : "NULL");
    for (int64_t i = 0; i < o->categorical_columns; i++)
        if (!o->categorical_column[i])
            return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.categorical_column[%lld] is NULL",
                             (long long)i);
    return GRAM_OK;
}

static gram_status check_options(gram_context *g, const gram_machine_options *o)
{
    TRY(check_range(g, "search", o->search, -1, 1));
    TRY(check_range(g, "p", o->p, 0.01, 2));
    TRY(check_range(g, "q", o->q, 0.01, 2));
    if (o->p > 0 && o->q > o->p)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.q is %g, expected at most p, which is %g, because otherwise the "
                         "kernel is not positive definite",
                         o->q, o->p);
    TRY(check_range(g, "bandwidth", o->bandwidth, 1e-30, 1e30));
    TRY(check_range(g, "regularization", o->regularization, 1e-15, 1e15));
    TRY(check_range(g, "tolerance", o->tolerance, 1e-15, 0.5));
    TRY(check_range(g, "validation", o->validation, 1e-6, 0.9));
    TRY(check_range(g, "metric_power", o->metric_power, 0.01, 2));
    TRY(check_range(g, "time_limit", o->time_limit, 1e-3, 1e9));
    TRY(check_range(g, "iterations", o->iterations, -1, 100));
    TRY(check_range(g, "ensemble", o->ensemble, 1, o->search < 0 ? 1 : MOST_MEMBERS));
    TRY(check_range(g, "leaf_rows", (double)o->leaf_rows, 10, 1e12));
    if (o->centres != -1)
        TRY(check_range(g, "centres", (double)o->centres, 10, 1e6));
    if (o->centres > 0 && (o->search < 0 || o->ensemble > 1))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.centres is %lld, expected 0 or -1 with search = -1 or ensemble",
                         (long long)o->centres);
    TRY(check_range(g, "trees", o->trees, 1, MOST_TREES));
    if (o->temperature != -1)
        TRY(check_range(g, "temperature", o->temperature, 1e-3, 1e3));
    TRY(check_range(g, "max_categories", (double)o->max_categories, 2, 1e9));
    TRY(check_range(g, "metric_rows", (double)o->metric_rows, 10, 1e12));
    TRY(check_range(g, "memory_limit", (double)o->memory_limit, 1e6, 1e18));
    TRY(gram_machine_class_weights_check(g, o));
    TRY(check_categorical(g, o));
    if (o->dtype && o->dtype != GRAM_F32 && o->dtype != GRAM_F64)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.dtype is %s, expected f32 or f64",
                         gram_dtype_name(o->dtype));
    if ((unsigned)o->task > GRAM_CLASSIFICATION || (unsigned)o->solver > GRAM_SOLVER_CG ||
        (unsigned)o->metric > GRAM_METRIC_ARD ||
        (unsigned)o->target_transform > GRAM_TRANSFORM_SQRT ||
        (unsigned)o->category_statistics > GRAM_STATISTICS_NONE ||
        (unsigned)o->loss > GRAM_LOSS_LOGISTIC)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.task, solver, metric, target_transform, category_statistics or "
                         "loss is not a value of its type");
    return GRAM_OK;
}

static gram_status check_target(gram_context *g, const gram_table *table, const gram_column *target)
{
    if (!target->name || !*target->name)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "a target has no name");
    if (!target->numbers == !target->labels)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "target \"%s\" must have either numbers or labels", target->name);
    for (int64_t i = 0; target->numbers && i < table->rows; i++)
        if (isinf(target->numbers[i]))
            return gram_fail(g, GRAM_BAD_DATA, "target \"%s\" is infinite in row %lld",
                             target->name, (long long)i);
    return GRAM_OK;
}

static gram_status job_open(gram_context *g, struct machine_job *job)
{
    uint64_t state = job->o.seed;
    int64_t n = job->table->rows;

    job->started = gram_seconds();
    job->row = gram_alloc(g, (size_t)n * sizeof *job->row);
    if (!job->row)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld rows", (long long)n);
    for (int64_t i = 0; i < n; i++)
        if (!gram_machine_targets_missing(job->target, job->targets, i))
            job->row[job->rows++] = i;
    if (job->rows < 2)
        return gram_fail(g, GRAM_BAD_DATA, "only %lld rows have a target, expected at least 2",
                         (long long)job->rows);
    for (int64_t i = 0; job->o.weights && i < job->rows; i++)
        if (!(job->o.weights[job->row[i]] > 0) || isinf(job->o.weights[job->row[i]]))
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "options.weights is %g in row %lld, expected a finite number of more "
                             "than 0",
                             job->o.weights[job->row[i]], (long long)job->row[i]);
    gram_random_choose(&state, job->row, job->rows, job->rows);
    TRY(gram_machine_targets_fit(g, job->target, job->targets, job->o.task, job->row, job->rows,
                                 &job->kind));
    TRY(gram_machine_class_weights(g, job));
    gram_machine_limits(g, job);
    return GRAM_OK;
}

static void job_close(gram_context *g, struct machine_job *job)
{
    gram_machine_shared_close(g, job);
    gram_machine_target_destroy(&job->kind);
    gram_machine_trials_destroy(&job->trials);
    free(job->held.f);
    gram_machine_target_return(&job->held.scale);
    free(job->weights);
    free(job->class_weight);
    gram_free(g, job->row, (size_t)job->table->rows * sizeof *job->row);
}

bool gram_machine_may_be_ard(const struct machine_job *job, int64_t width)
{
    return job->o.metric == GRAM_METRIC_ARD ||
           (job->o.metric == GRAM_METRIC_AUTO && width <= ARD_FEATURES);
}

bool gram_machine_full_metric(const struct machine_job *job, int64_t width)
{
    return job->o.metric == GRAM_METRIC_FULL ||
           (job->o.metric == GRAM_METRIC_AUTO && width <= FULL_FEATURES);
}

/* The documented defaults, under what the options give. */
static void default_recipe(const struct machine_job *job, struct machine_recipe *out)
{
    const gram_machine_options *o = &job->o;
    bool classes = job->kind.classes > 0;
    struct machine_params *params = &out->member[0].params;

    *out = (struct machine_recipe){
        .scaling = GRAM_STANDARDISE, .transform = o->target_transform, .members = 1};
    out->member[0].weight = 1;
    if (out->transform == GRAM_TRANSFORM_AUTO)
        out->transform = GRAM_TRANSFORM_NONE;
    params->p = o->p > 0 ? o->p : fmax(1.5, o->q);
    params->q = o->q > 0 ? o->q : fmin(params->p, 1.4);
    params->relative_bandwidth = o->bandwidth == 0;
    params->bandwidth = o->bandwidth > 0 ? o->bandwidth : classes ? 1 : 4;
    params->ridge = o->regularization > 0 ? o->regularization : 1e-2;
    params->iterations = o->iterations > 0 ? o->iterations : 0;
    params->full = gram_machine_full_metric(job, job->table->columns);
    params->ard = o->metric == GRAM_METRIC_ARD;
    params->power = o->metric_power > 0 ? o->metric_power : classes ? 0.5 : 0.25;
    params->solver = o->solver;
    params->tolerance = o->tolerance > 0 ? o->tolerance : classes ? 1e-2 : 1e-3;
    params->seed = o->seed;
}

static gram_status fit(gram_context *g, struct machine_job *job, gram_machine **out)
{
    struct machine_recipe recipe;
    gram_status status = job_open(g, job);

    memset(&recipe, 0, sizeof recipe);
    if (status == GRAM_OK)
        status = gram_machine_loss_check(g, job);
    if (status == GRAM_OK)
        default_recipe(job, &recipe);
    TRY(gram_machine_ranks_open(g, job, status));
    if (gram_machine_first(job))
        TRY(gram_machine_halves_dismiss(g, job, gram_machine_search(g, job, &recipe, &job->held)));
    else
        TRY(gram_machine_halves_serve(g, job));
    TRY(gram_machine_ranks_spread(g, job, GRAM_OK, &recipe, sizeof recipe));
    TRY(train(g, job, &recipe, out));
    if (!gram_machine_first(job)) { /* which alone has all leaves */
        gram_machine_destroy(*out);
        *out = NULL;
    }
    return GRAM_OK;
}

/* Every target, and that no two have one name. */
static gram_status check_targets(gram_context *g, const gram_table *table,
                                 const gram_column *target, int64_t targets)
{
    if (!target)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "target is NULL");
    if (targets < 1)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "targets is %lld, expected at least 1",
                         (long long)targets);
    for (int64_t i = 0; i < targets; i++) {
        TRY(check_target(g, table, &target[i]));
        for (int64_t j = 0; j < i; j++)
            if (strcmp(target[i].name, target[j].name) == 0)
                return gram_fail(g, GRAM_INVALID_ARGUMENT, "two targets have the name \"%s\"",
                                 target[i].name);
    }
    return GRAM_OK;
}

static gram_status check_all(gram_context *g, const struct machine_job *job, gram_machine **out)
{
    if (!out)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out is NULL");
    *out = NULL;
    TRY(check_options(g, &job->o));
    TRY(gram_machine_shares_check(g, &job->o));
    TRY(gram_table_check(g, job->table));
    return check_targets(g, job->table, job->target, job->targets);
}

/* The call, whose name the messages have. */
static gram_status fit_all(gram_context *g, struct machine_job *job,
                           const gram_machine_options *options, gram_machine **out)
{
    gram_status status;

    TRY(gram_options_copy(g, &job->o, sizeof job->o, options));
    status = check_all(g, job, out);
    if (status != GRAM_OK)
        return gram_call_ended(g, gram_machine_ranks_end(g, job, status));
    job->o.trees = job->o.trees ? job->o.trees : 1;
    job->o.dtype = job->o.dtype ? job->o.dtype : GRAM_F32;
    job->o.max_categories = job->o.max_categories ? job->o.max_categories : MAX_CATEGORIES;
    status = gram_machine_ranks_end(g, job, fit(g, job, out));
    if (status != GRAM_OK) { /* of another rank, perhaps */
        gram_machine_destroy(*out);
        *out = NULL;
    }
    job_close(g, job);
    return gram_call_ended(g, status);
}

gram_status gram_machine_fit(gram_context *g, const gram_table *table, const gram_column *target,
                             const gram_machine_options *options, gram_machine **out)
{
    struct machine_job job = {
        .table = table, .target = target, .targets = 1, .o = GRAM_MACHINE_OPTIONS_INIT};

    TRY(gram_begin(g, __func__));
    return fit_all(g, &job, options, out);
}

gram_status gram_machine_fit_targets(gram_context *g, const gram_table *table,
                                     const gram_column *target, int64_t targets,
                                     const gram_machine_options *options, gram_machine **out)
{
    struct machine_job job = {
        .table = table, .target = target, .targets = targets, .o = GRAM_MACHINE_OPTIONS_INIT};

    TRY(gram_begin(g, __func__));
    return fit_all(g, &job, options, out);
}

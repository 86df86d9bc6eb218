/*
 * machine_leaf.c - one kernel expansion: rounds of solve and feature learning, and its values
 *
 * Each round is a whole leaf of its own; the best on the validation rows is kept.
 *
 * SPDX-License-Identifier: MIT
 */
#include "blas.h"
#include "machine.h"
#include "threads.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A round may be so much worse than the best before the rounds end. */
static const double worse = 1.1;

enum {
    MEDIAN_ROWS = 3000,       /* of the sample whose median distance is the unit of the bandwidth */
    KERNEL_ENTRIES = 1 << 22, /* of the kernel block that a prediction holds: 16 MiB in f32 */
    LEAST_POINTS = 16,        /* that it has at least */
};

void gram_machine_leaf_destroy(struct machine_leaf *leaf)
{
    gram_machine_metric_destroy(&leaf->metric);
    if (!leaf->borrowed) {
        free(leaf->x);
        free(leaf->alpha);
    }
    *leaf = (struct machine_leaf){0};
}

static gram_status leaf_create(gram_context *g, const struct machine_params *params,
                               const struct machine_data *data, const struct machine_metric *metric,
                               struct machine_leaf *out)
{
    size_t size = gram_dtype_size(data->dtype);

    *out = (struct machine_leaf){
        .rows = data->rows,
        .width = data->width,
        .outputs = data->outputs,
        .dtype = data->dtype,
        .p = params->p,
        .q = params->q,
    };
    out->x = malloc((size_t)(data->rows * data->width) * size + 1);
    out->alpha = malloc((size_t)(data->rows * data->outputs) * size + 1);
    if (!out->x || !out->alpha)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate a leaf of %lld rows",
                         (long long)data->rows);
    return gram_machine_metric_copy(g, metric, &out->metric);
}

/* L of a leaf: given, or so many medians of the distance in its metric. */
static gram_status set_bandwidth(gram_context *g, const struct machine_params *params,
                                 struct machine_leaf *leaf)
{
    gram_tensor z = gram_matrix(leaf->x, leaf->rows, leaf->width, leaf->dtype), out = {0};
    gram_median_options options = GRAM_MEDIAN_OPTIONS_INIT;
    double wide = 0;
    float narrow = 0;

    leaf->bandwidth = params->bandwidth;
    if (!params->relative_bandwidth)
        return GRAM_OK;
    options.rows = MEDIAN_ROWS;
    options.seed = params->seed;
    out.dtype = leaf->dtype;
    out.data = leaf->dtype == GRAM_F32 ? (void *)&narrow : (void *)&wide;
    TRY(gram_median_distance(g, &z, gram_number(leaf->p), &options, &out));
    wide = leaf->dtype == GRAM_F32 ? (double)narrow : wide;
    leaf->bandwidth *= wide > 0 ? wide : 1; /* all rows alike, or one row: any L will do */
    return GRAM_OK;
}

/* Trains one leaf in a given metric. */
static gram_status solve_leaf(gram_context *g, const struct machine_params *params,
                              const struct machine_data *data, const struct machine_metric *metric,
                              struct machine_leaf *leaf, struct machine_report *report)
{
    struct machine_data z = *data;

    TRY(leaf_create(g, params, data, metric, leaf));
    gram_machine_metric_apply(g, metric, data->dtype, data->rows, data->x, leaf->x);
    z.x = leaf->x;
    TRY(set_bandwidth(g, params, leaf));
    return gram_machine_solve(g, params, leaf->bandwidth, &z, leaf->alpha, report);
}

/* Mean squared error of all outputs on rows with known targets. */
static gram_status mean_squared_error(gram_context *g, const struct machine_leaf *leaf,
                                      const struct machine_data *valid, double *out)
{
    int64_t count = valid->rows * valid->outputs;
    size_t bytes = (size_t)count * sizeof(double);
    double *values = gram_alloc(g, bytes), sum = 0;
    gram_status status;

    if (!values)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    status = gram_machine_leaf_predict(g, leaf, valid->rows, valid->x, values);
    for (int64_t i = 0; status == GRAM_OK && i < count; i++) {
        double y = valid->dtype == GRAM_F32 ? (double)((const float *)valid->y)[i]
                                            : ((const double *)valid->y)[i];
        sum += (values[i] - y) * (values[i] - y);
    }
    *out = sum / (double)count;
    gram_free(g, values, bytes);
    return status;
}

struct rounds {
    const struct machine_params *params;
    const struct machine_data *train, *valid;
    struct machine_metric metric; /* of the round now running */
    struct machine_leaf best;
    double best_score;
    int round, best_round;
    struct machine_report *report;
};

/* A leaf in the metric, its score, whether it is the best, and the next metric if there is one. */
static gram_status one_round(gram_context *g, struct rounds *r, struct machine_leaf *leaf,
                             bool *more)
{
    struct machine_data z = *r->train;
    double score = 0;

    TRY(solve_leaf(g, r->params, r->train, &r->metric, leaf, r->report));
    if (r->valid->rows > 0)
        TRY(mean_squared_error(g, leaf, r->valid, &score));
    *more = r->round < r->params->iterations && score <= worse * r->best_score;
    if (*more) {
        double start = gram_machine_seconds();

        z.x = leaf->x;
        TRY(gram_machine_metric_learn(g, r->params, leaf->bandwidth, &z, leaf->alpha, &r->metric));
        r->report->feature_seconds += gram_machine_seconds() - start;
    }
    if (score < r->best_score || (r->valid->rows == 0 && score <= r->best_score)) {
        struct machine_leaf former = r->best;
        r->best = *leaf;
        *leaf = former;
        r->best_score = score;
        r->best_round = r->round;
    }
    return GRAM_OK;
}

gram_status gram_machine_leaf_fit(gram_context *g, const struct machine_params *params,
                                  const struct machine_data *train,
                                  const struct machine_data *valid, struct machine_leaf *out,
                                  struct machine_report *report)
{
    struct rounds r = {.params = params,
                       .train = train,
                       .valid = valid,

                       .best_score = INFINITY,
                       .report = report};
    bool more = true;
    gram_status status = params->start
                             ? gram_machine_metric_copy(g, params->start, &r.metric)
                             : gram_machine_metric_create(g, train->width, params->full, &r.metric);

    for (; status == GRAM_OK && more; r.round++) {
        struct machine_leaf leaf = {0};

        status = one_round(g, &r, &leaf, &more);
        gram_machine_leaf_destroy(&leaf);
    }
    gram_machine_metric_destroy(&r.metric);
    if (status == GRAM_OK && r.best.rows == 0)
        status = gram_fail(g, GRAM_NUMERICAL, "the validation error is not a number");
    if (status != GRAM_OK)
        gram_machine_leaf_destroy(&r.best);
    report->rounds = r.best_round;
    report->score = r.best_score;
    *out = r.best;
    return status;
}

/* What a prediction holds: a block of points in the metric, their kernel with all centres, and the
 * same and the coefficients in f64. */
struct predict_scratch {
    int64_t points;
    char *z, *kernel;
    double *wide, *alpha;
    char *memory;
    size_t bytes;
};

static gram_status scratch_create(gram_context *g, const struct machine_leaf *leaf, int64_t rows,
                                  struct predict_scratch *s)
{
    size_t size = gram_dtype_size(leaf->dtype), z, kernel, wide, alpha;
    int64_t points = KERNEL_ENTRIES / (leaf->rows > 0 ? leaf->rows : 1);

    points = points < LEAST_POINTS ? LEAST_POINTS : points;
    s->points = points < rows ? points : rows;
    z = gram_round64((size_t)(s->points * leaf->width) * size);
    kernel = gram_round64((size_t)(s->points * leaf->rows) * size);
    wide = gram_round64((size_t)(s->points * leaf->rows) * sizeof(double));
    alpha = gram_round64((size_t)(leaf->rows * leaf->outputs) * sizeof(double));
    s->bytes = z + kernel + wide + alpha;
    s->memory = gram_alloc(g, s->bytes);
    if (!s->memory)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", s->bytes);
    s->z = s->memory;
    s->kernel = s->z + z;
    s->wide = (double *)(s->kernel + kernel);
    s->alpha = (double *)((char *)s->wide + wide);
    return GRAM_OK;
}

struct widen_job {
    gram_dtype dtype;
    int64_t columns;
    const void *from;
    double *to;
};

static void widen_row(void *arg, int64_t row, int thread)
{
    const struct widen_job *job = arg;
    int64_t first = row * job->columns;

    (void)thread;
    for (int64_t i = first; i < first + job->columns; i++)
        job->to[i] = job->dtype == GRAM_F32 ? (double)((const float *)job->from)[i]
                                            : ((const double *)job->from)[i];
}

/* to = from in f64, rows by columns, by rows. */
static void widen(gram_context *g, const struct widen_job *job, int64_t rows)
{
    struct widen_job copy = *job;

    gram_parallel_for(g, rows, widen_row, &copy);
}

/* Values at count points of x.  The sum is in f64: coefficients of both signs cancel to a small
 * part of their size, and f32 sums would depend on how many points are predicted at a time. */
static gram_status predict_block(gram_context *g, const struct machine_leaf *leaf, int64_t count,
                                 const void *x, const struct predict_scratch *s, double *out,
                                 int64_t out_ld)
{
    gram_tensor points = gram_matrix(s->z, count, leaf->width, leaf->dtype);
    gram_tensor centres = gram_matrix(leaf->x, leaf->rows, leaf->width, leaf->dtype);
    gram_tensor kernel = gram_matrix(s->kernel, count, leaf->rows, leaf->dtype);
    gram_kernel_options options = gram_machine_kernel(leaf->p, leaf->q, leaf->bandwidth);

    gram_machine_metric_apply(g, &leaf->metric, leaf->dtype, count, x, s->z);
    TRY(gram_kernel(g, &points, &centres, &options, &kernel));
    widen(g, &(struct widen_job){leaf->dtype, leaf->rows, s->kernel, s->wide}, count);
    gram_blas_threads(g);
    gram_blas_gemm(GRAM_F64, (int64_t[3]){count, leaf->outputs, leaf->rows}, 1,
                   (struct gram_blas_matrix){s->wide, leaf->rows, true},
                   (struct gram_blas_matrix){s->alpha, leaf->rows, false}, 0, out, out_ld);
    return GRAM_OK;
}

gram_status gram_machine_leaf_predict(gram_context *g, const struct machine_leaf *leaf,
                                      int64_t rows, const void *x, double *out)
{
    size_t row = (size_t)leaf->width * gram_dtype_size(leaf->dtype);
    struct predict_scratch s = {0};
    gram_status status = scratch_create(g, leaf, rows, &s);

    if (status == GRAM_OK)
        widen(g, &(struct widen_job){leaf->dtype, leaf->rows, leaf->alpha, s.alpha}, leaf->outputs);
    for (int64_t first = 0; status == GRAM_OK && first < rows; first += s.points) {
        int64_t count = rows - first < s.points ? rows - first : s.points;

        status = predict_block(g, leaf, count, (const char *)x + (size_t)first * row, &s,
                               out + first, rows);
        if (status == GRAM_OK && gram_cancelled(g))
            status = gram_fail(g, GRAM_CANCELLED, "cancelled");
    }
    gram_free(g, s.memory, s.bytes);
    return status;
}

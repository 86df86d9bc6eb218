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
    KERNEL_ENTRIES = 1 << 24, /* of the kernel block that a prediction holds: 64 MiB in f32 */
};

void gram_machine_leaf_destroy(struct machine_leaf *leaf)
{
    gram_machine_metric_destroy(&leaf->metric);
    free(leaf->x);
    free(leaf->alpha);
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

/* Values at rows [first, first + count) of x. */
static gram_status predict_block(gram_context *g, const struct machine_leaf *leaf, int64_t count,
                                 const void *x, char *scratch, double *out, int64_t out_ld)
{
    size_t size = gram_dtype_size(leaf->dtype);
    char *z = scratch, *k = z + gram_round64((size_t)(count * leaf->width) * size);
    char *f = k + gram_round64((size_t)(count * leaf->rows) * size);
    gram_tensor points = gram_matrix(z, count, leaf->width, leaf->dtype);
    gram_tensor centres = gram_matrix(leaf->x, leaf->rows, leaf->width, leaf->dtype);
    gram_tensor kernel = gram_matrix(k, count, leaf->rows, leaf->dtype);
    gram_kernel_options options = gram_machine_kernel(leaf->p, leaf->q, leaf->bandwidth);

    gram_machine_metric_apply(g, &leaf->metric, leaf->dtype, count, x, z);
    TRY(gram_kernel(g, &points, &centres, &options, &kernel));
    gram_blas_threads(g);
    gram_blas_gemm(leaf->dtype, (int64_t[3]){count, leaf->outputs, leaf->rows}, 1,
                   (struct gram_blas_matrix){k, leaf->rows, true},
                   (struct gram_blas_matrix){leaf->alpha, leaf->rows, false}, 0, f, count);
    for (int64_t j = 0; j < leaf->outputs; j++)
        for (int64_t i = 0; i < count; i++)
            out[j * out_ld + i] = leaf->dtype == GRAM_F32
                                      ? (double)((const float *)f)[j * count + i]
                                      : ((const double *)f)[j * count + i];
    return GRAM_OK;
}

gram_status gram_machine_leaf_predict(gram_context *g, const struct machine_leaf *leaf,
                                      int64_t rows, const void *x, double *out)
{
    size_t size = gram_dtype_size(leaf->dtype), bytes;
    int64_t most = KERNEL_ENTRIES / (leaf->rows > 0 ? leaf->rows : 1);
    gram_status status = GRAM_OK;
    char *scratch;

    most = most < 64 ? 64 : most;
    most = most < rows ? most : rows;
    bytes = gram_round64((size_t)(most * leaf->width) * size) +
            gram_round64((size_t)(most * leaf->rows) * size) +
            (size_t)(most * leaf->outputs) * size;
    scratch = gram_alloc(g, bytes);
    if (!scratch)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    for (int64_t first = 0; status == GRAM_OK && first < rows; first += most) {
        int64_t count = rows - first < most ? rows - first : most;

        status =
            predict_block(g, leaf, count, (const char *)x + (size_t)(first * leaf->width) * size,
                          scratch, out + first, rows);
        if (status == GRAM_OK && gram_cancelled(g))
            status = gram_fail(g, GRAM_CANCELLED, "cancelled");
    }
    gram_free(g, scratch, bytes);
    return status;
}

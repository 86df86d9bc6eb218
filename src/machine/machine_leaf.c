/*
 * machine_leaf.c - one kernel expansion: rounds of solve and feature learning
 *
 * Each round is a whole leaf of its own; the best on the validation rows is kept.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_leaf.h"
#include <math.h>
#include <stdlib.h>

/* The rounds end when the error of one is above this multiple of the best. */
static const double worse = 1.1;

enum {
    MEDIAN_ROWS = 3000 /* of the sample whose median distance is the unit of the bandwidth */
};

void gram_machine_leaf_free(gram_context *g, struct machine_leaf *leaf)
{
    if (leaf->device.type != GRAM_CPU) {
        gram_memory_free(g, leaf->x, 0);
        gram_memory_free(g, leaf->alpha, 0);
    } else if (!leaf->borrowed) {
        free(leaf->x);
        free(leaf->alpha);
    }
}

void gram_machine_leaf_destroy(gram_context *g, struct machine_leaf *leaf)
{
    gram_machine_metric_destroy(&leaf->metric);
    gram_machine_leaf_free(g, leaf);
    *leaf = (struct machine_leaf){0};
}

gram_status gram_machine_leaf_allocate(gram_context *g, struct machine_leaf *leaf)
{
    leaf->x = leaf->alpha = NULL;
    leaf->device = g->options.device;
    leaf->borrowed = false;
    if (!gram_machine_on_host(g)) {
        TRY(g->backend->memory_allocate(g, gram_machine_x_bytes(leaf) + 1, (void **)&leaf->x));
        return g->backend->memory_allocate(g, gram_machine_alpha_bytes(leaf) + 1,
                                           (void **)&leaf->alpha);
    }
    leaf->x = malloc(gram_machine_x_bytes(leaf) + 1);
    leaf->alpha = malloc(gram_machine_alpha_bytes(leaf) + 1);
    if (!leaf->x || !leaf->alpha)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate a leaf of %lld rows",
                         (long long)leaf->rows);
    return GRAM_OK;
}

gram_status gram_machine_leaf_settle(gram_context *g, struct machine_leaf *leaf)
{
    struct machine_leaf here = *leaf;
    gram_status status;

    if (leaf->device.type == GRAM_CPU)
        return GRAM_OK;
    here.device = (gram_device){GRAM_CPU, 0};
    here.x = malloc(gram_machine_x_bytes(leaf) + 1);
    here.alpha = malloc(gram_machine_alpha_bytes(leaf) + 1);
    if (!here.x || !here.alpha)
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate a leaf of %lld rows",
                           (long long)leaf->rows);
    else
        status = gram_machine_fetch(g, here.x, leaf->x, gram_machine_x_bytes(leaf));
    if (status == GRAM_OK)
        status = gram_machine_fetch(g, here.alpha, leaf->alpha, gram_machine_alpha_bytes(leaf));
    if (status != GRAM_OK) {
        free(here.x);
        free(here.alpha);
        return status;
    }
    gram_machine_leaf_free(g, leaf);
    *leaf = here;
    return GRAM_OK;
}

static gram_status leaf_create(gram_context *g, const struct machine_params *params,
                               const struct machine_data *data, const struct machine_metric *metric,
                               struct machine_leaf *out)
{
    *out = (struct machine_leaf){
        .rows = data->rows,
        .width = data->width,
        .outputs = data->outputs,
        .dtype = data->dtype,
        .p = params->p,
        .q = params->q,
    };
    TRY(gram_machine_leaf_allocate(g, out));
    return gram_machine_metric_copy(g, metric, &out->metric);
}

/* The median distance of a leaf's rows, to the host. */
static gram_status median_of(gram_context *g, uint64_t seed, const struct machine_leaf *leaf,
                             double *out)
{
    gram_tensor z = gram_machine_matrix(g, leaf->x, leaf->rows, leaf->width, leaf->dtype);
    gram_tensor median = {.dtype = leaf->dtype, .device = z.device};
    gram_median_options options = GRAM_MEDIAN_OPTIONS_INIT;
    struct machine_array there;
    union {
        float narrow;
        double wide;
    } value = {0};
    gram_status status;

    TRY(gram_machine_room(g, sizeof value, &there));
    median.data = there.data;
    options.rows = MEDIAN_ROWS;
    options.seed = seed;
    status = gram_median_distance(g, &z, gram_number(leaf->p), &options, &median);
    if (status == GRAM_OK)
        status = gram_machine_fetch(g, &value, there.data, gram_dtype_size(leaf->dtype));
    *out = leaf->dtype == GRAM_F32 ? (double)value.narrow : value.wide;
    gram_machine_array_free(g, &there);
    return status;
}

/* L of a leaf: given, or a multiple of the median distance in its metric. */
static gram_status set_bandwidth(gram_context *g, const struct machine_params *params,
                                 struct machine_leaf *leaf)
{
    double median = 0;

    leaf->bandwidth = params->bandwidth;
    if (!params->relative_bandwidth)
        return GRAM_OK;
    TRY(median_of(g, params->seed, leaf, &median));
    leaf->bandwidth *= median > 0 ? median : 1; /* all rows alike, or one row: any L will do */
    return GRAM_OK;
}

/* Trains one leaf in a given metric; data->x is where the context computes. */
static gram_status solve_leaf(gram_context *g, const struct machine_params *params,
                              const struct machine_data *data, const struct machine_metric *metric,
                              struct machine_leaf *leaf, struct machine_report *report)
{
    struct machine_data z = *data;

    TRY(leaf_create(g, params, data, metric, leaf));
    TRY(gram_machine_metric_apply(g, metric, data->dtype, data->rows, data->x, leaf->x));
    z.x = leaf->x;
    TRY(set_bandwidth(g, params, leaf));
    return gram_machine_solve(g, params, leaf->bandwidth, &z, leaf->alpha, report);
}

/* Mean squared error of all outputs on rows with known targets; valid->x is where the context
 * computes. */
static gram_status mean_squared_error(gram_context *g, const struct machine_leaf *leaf,
                                      const struct machine_data *valid, double *out)
{
    int64_t count = valid->rows * valid->outputs;
    size_t bytes = (size_t)count * sizeof(double);
    double *values = gram_alloc(g, bytes), sum = 0;
    gram_status status;

    if (!values)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    status = gram_machine_leaf_predict_there(g, leaf, valid->rows, valid->x, values);
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
    struct machine_data train, valid; /* their x is where the context computes */
    struct machine_metric metric;     /* of the round now running */
    struct machine_leaf best;
    double best_score;
    int round, best_round;
    struct machine_report *report;
};

/* A leaf in the metric, its score, whether it is the best, and the next metric if there is one. */
static gram_status one_round(gram_context *g, struct rounds *r, struct machine_leaf *leaf,
                             bool *more)
{
    struct machine_data z = r->train;
    double score = 0;

    TRY(solve_leaf(g, r->params, &r->train, &r->metric, leaf, r->report));
    if (r->valid.rows > 0)
        TRY(mean_squared_error(g, leaf, &r->valid, &score));
    *more = r->round < r->params->iterations && score <= worse * r->best_score;
    if (*more) {
        double start = gram_machine_seconds();

        z.x = leaf->x;
        TRY(gram_machine_metric_learn(g, r->params, leaf->bandwidth, &z, leaf->alpha, &r->metric));
        r->report->feature_seconds += gram_machine_seconds() - start;
    }
    if (score < r->best_score || (r->valid.rows == 0 && score <= r->best_score)) {
        struct machine_leaf former = r->best;
        r->best = *leaf;
        *leaf = former;
        r->best_score = score;
        r->best_round = r->round;
    }
    return GRAM_OK;
}

/* Brings the features of some rows to where the context computes. */
static gram_status send_features(gram_context *g, struct machine_data *data,
                                 struct machine_array *there)
{
    TRY(gram_machine_send(
        g, data->x, (size_t)(data->rows * data->width) * gram_dtype_size(data->dtype), there));
    data->x = there->data;
    return GRAM_OK;
}

gram_status gram_machine_leaf_fit(gram_context *g, const struct machine_params *params,
                                  const struct machine_data *train,
                                  const struct machine_data *valid, struct machine_leaf *out,
                                  struct machine_report *report)
{
    struct rounds r = {.params = params,
                       .train = *train,
                       .valid = *valid,
                       .best_score = INFINITY,
                       .report = report};
    struct machine_array features = {0}, held = {0};
    bool more = true;
    gram_status status = params->start
                             ? gram_machine_metric_copy(g, params->start, &r.metric)
                             : gram_machine_metric_create(g, train->width, params->full, &r.metric);

    if (status == GRAM_OK)
        status = send_features(g, &r.train, &features);
    if (status == GRAM_OK && valid->rows > 0)
        status = send_features(g, &r.valid, &held);
    for (; status == GRAM_OK && more; r.round++) {
        struct machine_leaf leaf = {0};

        status = one_round(g, &r, &leaf, &more);
        gram_machine_leaf_destroy(g, &leaf);
    }
    gram_machine_metric_destroy(&r.metric);
    gram_machine_array_free(g, &features);
    gram_machine_array_free(g, &held);
    if (status == GRAM_OK && r.best.rows == 0)
        status = gram_fail(g, GRAM_NUMERICAL, "the validation error is not a number");
    if (status != GRAM_OK)
        gram_machine_leaf_destroy(g, &r.best);
    report->rounds = r.best_round;
    report->score = r.best_score;
    *out = r.best;
    return status;
}

/*
 * metric.c - what the fronts of cdist and kernels do with a gram_distance: checks, and the p-norm
 * of other rows that some metrics are
 *
 * SPDX-License-Identifier: MIT
 */
#include "pairwise.h"
#include <math.h>

enum {
    HAVERSINE_COLUMNS = 2
};

/* Panels hold whole rows: more columns than this have no room anywhere. */
#define MOST_COLUMNS (INT64_C(1) << 40)

gram_status gram_metric_rows_fit(gram_context *g, const struct gram_cdist_op *op)
{
    return op->x.cols <= MOST_COLUMNS ? GRAM_OK
                                      : gram_fail(g, GRAM_OUT_OF_MEMORY,
                                                  "x has %lld columns, expected at most 2^40 where "
                                                  "whole rows are packed",
                                                  (long long)op->x.cols);
}

static gram_status check_bits(gram_context *g, const gram_distance *metric)
{
    const gram_distance_kind kind = metric->kind;

    if (metric->bits < 0 || metric->bits > INT32_MAX)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.metric->bits is %lld, expected 0 to 2^31 - 1",
                         (long long)metric->bits);
    if (metric->bits && kind != GRAM_DISTANCE_HAMMING && kind != GRAM_DISTANCE_JACCARD)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.metric->bits is %lld with the kind %d, expected 0 unless it is "
                         "GRAM_DISTANCE_HAMMING or GRAM_DISTANCE_JACCARD",
                         (long long)metric->bits, (int)kind);
    if (metric->bits && metric->weights)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.metric->weights is not NULL, which packed bits do not have");
    return GRAM_OK;
}

void gram_metric_take_bits(gram_context *g, const gram_distance *metric)
{
    g->takes_bytes = metric->bits != 0;
}

gram_status gram_metric_copy(gram_context *g, const gram_distance *given, gram_distance *metric)
{
    *metric = (gram_distance)GRAM_DISTANCE_INIT;
    TRY(gram_struct_copy(g, "options.metric->", metric, sizeof *metric, given));
    if (metric->kind < GRAM_DISTANCE_MINKOWSKI || metric->kind > GRAM_DISTANCE_NAN_EUCLIDEAN)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.metric->kind is %d, expected a gram_distance_kind, 0 to %d",
                         (int)metric->kind, (int)GRAM_DISTANCE_NAN_EUCLIDEAN);
    if (metric->kind == GRAM_DISTANCE_SEUCLIDEAN && !metric->weights)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.metric->weights is NULL, expected the variances of the columns "
                         "with GRAM_DISTANCE_SEUCLIDEAN");
    if (metric->kind == GRAM_DISTANCE_HAVERSINE && metric->weights)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.metric->weights is not NULL, which GRAM_DISTANCE_HAVERSINE does "
                         "not have");
    return check_bits(g, metric);
}

gram_status gram_metric_check_apart(gram_context *g, const gram_kernel_options *kernel,
                                    const char *name, const gram_tensor *t)
{
    gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;
    gram_distance metric;

    TRY(gram_options_copy(g, &o, sizeof o, kernel));
    if (!o.metric)
        return GRAM_OK;
    TRY(gram_metric_copy(g, o.metric, &metric));
    return metric.weights ? gram_check_apart(g, name, t, "options.metric->weights", metric.weights)
                          : GRAM_OK;
}

gram_status gram_metric_join(gram_context *g, const gram_distance *metric, struct gram_batch *batch)
{
    if (metric->kind == GRAM_DISTANCE_MINKOWSKI && metric->p.tensor)
        TRY(gram_batch_join(g, batch, "options.metric->p", metric->p.tensor, 0));
    if (metric->weights)
        TRY(gram_batch_join(g, batch, "options.metric->weights", metric->weights, 1));
    return GRAM_OK;
}

/* The p-norm whose tiles serve a metric: 2 where it is the distance of other rows, else one that no
 * tile of a p-norm is chosen for. */
static double norm_of(gram_distance_kind kind)
{
    return gram_metric_is_norm(kind) ? 2 : 1;
}

gram_status gram_metric_view(gram_context *g, const gram_distance *metric, bool no_root,
                             struct gram_cdist_op *op)
{
    const bool minkowski = metric->kind == GRAM_DISTANCE_MINKOWSKI;

    op->metric =
        (struct gram_metric_op){.kind = metric->kind, .no_root = no_root, .bits = metric->bits};
    op->p = (struct gram_hyper){.value = norm_of(metric->kind)};
    op->root = minkowski && !no_root;
    TRY(gram_metric_rows_fit(g, op));
    if (metric->kind == GRAM_DISTANCE_KULLBACK_LEIBLER)
        op->symmetric = false;
    if (metric->kind == GRAM_DISTANCE_HAVERSINE && op->x.cols != HAVERSINE_COLUMNS)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "x has %lld columns, expected latitude and longitude with "
                         "GRAM_DISTANCE_HAVERSINE",
                         (long long)op->x.cols);
    if (minkowski) {
        TRY(gram_hyper_of(g, &op->batch, "options.metric->p", metric->p, &op->p));
        TRY(gram_hyper_check(g, &op->batch, "options.metric->p", &op->p, 0, INFINITY, true));
    }
    if (!metric->weights)
        return GRAM_OK;
    TRY(gram_view_of(g, &op->batch, "options.metric->weights", metric->weights, 1, GRAM_READ,
                     &op->metric.weights));
    TRY(gram_check_real(g, "options.metric->weights", metric->weights));
    if (op->metric.weights.cols != op->x.cols)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.metric->weights has %lld numbers, expected %lld, one per column "
                         "of x",
                         (long long)op->metric.weights.cols, (long long)op->x.cols);
    return GRAM_OK;
}

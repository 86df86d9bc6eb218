/*
 * nearest.c - gram_nearest: checks the arguments, describes the work, hands it to the device
 *
 * SPDX-License-Identifier: MIT
 */
#include "pairwise.h"
#include <math.h>

/* Fills in what op says of the distance: the p-norm, or the metric where one is given. */
static gram_status describe_distance(gram_context *g, const struct gram_nearest_args *args,
                                     const gram_distance *given, struct gram_cdist_op *op)
{
    struct gram_pair pair = {.x = args->x, .y = args->y, .no_out = true};
    gram_distance metric = GRAM_DISTANCE_INIT;

    if (given)
        TRY(gram_metric_copy(g, given, &metric));
    gram_metric_take_bits(g, &metric);
    pair.bits = metric.bits;
    *op = (struct gram_cdist_op){.batch.count = 1,
                                 .inner = GRAM_DIFFERENCE,
                                 .root = true,
                                 .outer_power.value = 1,
                                 .function = GRAM_IDENTITY,
                                 .output = GRAM_VALUE};
    TRY(gram_pair_join(g, &pair, &op->batch));
    if (given)
        TRY(gram_metric_join(g, &metric, &op->batch));
    else if (args->p.tensor)
        TRY(gram_batch_join(g, &op->batch, "p", args->p.tensor, 0));
    TRY(gram_pair_view(g, &pair, op));
    if (given)
        return gram_metric_view(g, &metric, false, op);
    TRY(gram_hyper_of(g, &op->batch, "p", args->p, &op->p));
    return gram_hyper_check(g, &op->batch, "p", &op->p, 0, INFINITY, false);
}

/* An output: a matrix (core 2) or a vector (1). */
struct output {
    const char *name;
    const gram_tensor *t;
    int core;
    gram_dtype dtype;
    const gram_tensor *weights; /* of the metric; or NULL */
};

/* One of the outputs, which must not overlap the inputs. */
static gram_status view_output(gram_context *g, const struct gram_nearest_args *args,
                               const struct output *out, const struct gram_nearest_op *op,
                               struct gram_view *view)
{
    const int64_t m = op->distance.x.rows;
    const gram_tensor *t = out->t;
    const char *name = out->name;
    const int core = out->core;

    TRY(gram_view_of(g, &op->distance.batch, name, t, core, GRAM_WRITE, view));
    TRY(gram_check_dtype(g, name, t, out->dtype));
    if (core == 1 && view->cols != m)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s has %lld elements, expected %lld", name,
                         (long long)view->cols, (long long)m);
    if (core == 2 && view->rows != m)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s has %lld rows, expected %lld", name,
                         (long long)view->rows, (long long)m);
    if (core == 2 && view->cols > GRAM_MAX_NEIGHBOURS)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s has %lld columns, expected at most %d", name,
                         (long long)view->cols, GRAM_MAX_NEIGHBOURS);
    TRY(gram_check_apart(g, name, t, "x", args->x));
    if (args->y)
        TRY(gram_check_apart(g, name, t, "y", args->y));
    return out->weights ? gram_check_apart(g, name, t, "options.metric->weights", out->weights)
                        : GRAM_OK;
}

static gram_status view_outputs(gram_context *g, const struct gram_nearest_args *args,
                                const gram_nearest_options *options, struct gram_nearest_op *op)
{
    const gram_tensor *counts = options->counts,
                      *w = options->metric ? options->metric->weights : NULL;
    const gram_dtype real = op->distance.x.dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;

    op->has_indices = args->indices, op->has_distances = args->distances, op->has_counts = counts;
    if (!args->indices && !args->distances && !counts)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "indices, distances and options.counts are NULL, expected at least one "
                         "of them");
    if (args->indices)
        TRY(view_output(g, args, &(struct output){"indices", args->indices, 2, GRAM_I64, w}, op,
                        &op->indices));
    if (args->distances)
        TRY(view_output(g, args, &(struct output){"distances", args->distances, 2, real, w}, op,
                        &op->distances));
    if (counts)
        TRY(view_output(g, args, &(struct output){"options.counts", counts, 1, GRAM_I64, w}, op,
                        &op->counts));
    op->count = op->has_indices ? op->indices.cols : op->has_distances ? op->distances.cols : 0;
    if (op->has_distances && op->distances.cols != op->count)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "distances has %lld columns, expected %lld, those of indices",
                         (long long)op->distances.cols, (long long)op->count);
    if (args->indices && args->distances)
        TRY(gram_check_apart(g, "distances", args->distances, "indices", args->indices));
    if (counts && args->indices)
        TRY(gram_check_apart(g, "options.counts", counts, "indices", args->indices));
    if (counts && args->distances)
        TRY(gram_check_apart(g, "options.counts", counts, "distances", args->distances));
    return GRAM_OK;
}

gram_status gram_nearest_describe(gram_context *g, const struct gram_nearest_args *args,
                                  const gram_nearest_options *options, struct gram_nearest_op *op)
{
    const gram_nearest_options o = *options;

    if (o.within && !(o.radius >= 0))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.radius is %g, expected at least 0",
                         o.radius);
    *op = (struct gram_nearest_op){.exclude_self = o.exclude_self != 0,
                                   .radius = o.within ? o.radius : INFINITY,
                                   .progress = o.progress,
                                   .progress_user = o.progress_user};
    TRY(describe_distance(g, args, o.metric, &op->distance));
    if (op->exclude_self && args->y && !gram_tensors_same(args->x, args->y))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.exclude_self is set, expected y to be NULL or x");
    TRY(view_outputs(g, args, &o, op));
    if (!g->backend->nearest)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return GRAM_OK;
}

static gram_status describe(gram_context *g, const struct gram_nearest_args *args,
                            struct gram_nearest_op *op)
{
    gram_nearest_options o = GRAM_NEAREST_OPTIONS_INIT;

    TRY(gram_options_copy(g, &o, sizeof o, args->options));
    if (o.communicator)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.communicator is given, which is for gram_nearest_multi");
    return gram_nearest_describe(g, args, &o, op);
}

gram_status gram_nearest(gram_context *g, const gram_tensor *x, const gram_tensor *y, gram_scalar p,
                         const gram_nearest_options *options, gram_tensor *indices,
                         gram_tensor *distances)
{
    const struct gram_nearest_args args = {x, y, p, options, indices, distances};
    struct gram_nearest_op op;

    TRY(gram_begin_without_blas(g, __func__));
    TRY(describe(g, &args, &op));
    return gram_call_ended(g, g->backend->nearest(g, &op));
}

/* NOLINTNEXTLINE(readability-function-size): the arguments are those of the call */
gram_status gram_nearest_workspace(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                   gram_scalar p, const gram_nearest_options *options,
                                   const gram_tensor *indices, const gram_tensor *distances,
                                   gram_workspace *need)
{
    const struct gram_nearest_args args = {x, y, p, options, indices, distances};
    struct gram_nearest_op op;
    size_t bytes;

    TRY(gram_begin_without_blas(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, &args, &op));
    TRY(gram_measure(g, &bytes, g->backend->nearest(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}

/*
 * nearest_multi.c - gram_nearest_multi: neighbours among the rows of several processes
 *
 * A call checks its arguments, agrees on them with the other ranks, and takes scratch, in which the
 * rows of y of all ranks come to each of them.  The backend then searches for the rows of x that
 * this rank has.
 *
 * SPDX-License-Identifier: MIT
 */
#include "multi/communicator.h"
#include "pairwise.h"
#include <math.h>
#include <string.h>

/* A call as it is given, and what it comes to. */
struct nearest_multi {
    struct gram_nearest_args args;
    gram_nearest_options options;
    gram_communicator *c;
    struct gram_nearest_op given; /* this rank's rows, as they are */
    struct gram_nearest_op op;    /* what the backend does */
    int64_t rows, first;          /* of y, of all ranks, and of those before this one */
    char *points;                 /* scratch: all rows of y */
    void *inner;                  /* the search's */
    size_t inner_bytes;
};

static int list_common(const struct nearest_multi *m, struct gram_common *common)
{
    const struct gram_cdist_op *d = &m->given.distance;
    const struct gram_common all[] = {
        {                       "the dtype of x", -1,                                      d->x.dtype},
        {           "the number of columns of x", -1,                                       d->x.cols},
        {                      "y, NULL or not,", -1,                               m->args.y != NULL},
        {             "the number of neighbours", -1,                                  m->given.count},
        {                        "the bits of p", -1, d->p.tensor.data ? 0 : gram_bits_of(d->p.value)},
        {           "the kind of options.metric", -1,                                  d->metric.kind},
        {"options.metric->weights, NULL or not,", -1,                  d->metric.weights.data != NULL},
        {                 "options.exclude_self", -1,                           m->given.exclude_self},
        {           "the bits of options.radius", -1,                   gram_bits_of(m->given.radius)},
    };

    memcpy(common, all, sizeof all);
    return (int)(sizeof all / sizeof *all);
}

/* What a backend checks before its first launch, here before any rank begins. */
static gram_status check_pointers(gram_context *g, const struct gram_nearest_op *op)
{
    const struct gram_view *const views[] = {&op->distance.x, &op->distance.y, &op->indices,
                                             &op->distances, &op->counts};
    const char *const names[] = {"x", "y", "indices", "distances", "options.counts"};
    const bool there[] = {true, true, op->has_indices, op->has_distances, op->has_counts};

    for (int i = 0; i < 5 && g->backend->check_pointer; i++)
        if (there[i] && views[i]->rows > 0 && views[i]->cols > 0)
            TRY(g->backend->check_pointer(g, names[i], views[i]));
    return GRAM_OK;
}

/* The arguments of this rank, by themselves. */
static gram_status check_arguments(gram_context *g, struct nearest_multi *m)
{
    struct gram_nearest_op *op = &m->given;

    TRY(gram_nearest_describe(g, &m->args, &m->options, op));
    if (op->distance.batch.ndim > 0)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "the arguments have %d batch dimensions, expected matrices: ranks share "
                         "one search",
                         op->distance.batch.ndim);
    if (op->distance.x.dtype != GRAM_F32 && op->distance.x.dtype != GRAM_F64)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "x has dtype %s, expected f32 or f64",
                         gram_dtype_name(op->distance.x.dtype));
    TRY(gram_check_transport(g, m->c));
    return check_pointers(g, op);
}

/* All but the work: the ranks agree on their arguments, and tell how many rows they have. */
static gram_status describe(gram_context *g, struct nearest_multi *m)
{
    struct gram_common common[GRAM_MAX_COMMON];
    gram_status status;
    int used;

    m->options = (gram_nearest_options)GRAM_NEAREST_OPTIONS_INIT;
    TRY(gram_options_copy(g, &m->options, sizeof m->options, m->args.options));
    m->c = m->options.communicator;
    if (!m->c)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.communicator is NULL, expected a communicator");
    status = check_arguments(g, m);
    used = list_common(m, common);
    TRY(gram_agree(g, m->c, status, common, used));
    return gram_count_rows(g, m->c, 1, m->given.distance.y.rows, &m->first, &m->rows);
}

static size_t row_bytes(const struct nearest_multi *m)
{
    const struct gram_view *y = &m->given.distance.y;

    return (size_t)y->cols * gram_dtype_size(y->dtype);
}

/* The backend's work, with its pointers where they are known. */
static void set_op(struct nearest_multi *m)
{
    const struct gram_view *y = &m->given.distance.y;

    m->op = m->given;
    m->op.distance.y = gram_view_dense(m->points, y->dtype, m->rows, y->cols);
    m->op.distance.symmetric = false;
    m->op.self = m->first;
}

static gram_status plan(gram_context *g, struct nearest_multi *m, struct gram_layout *layout)
{
    if ((double)m->rows * (double)row_bytes(m) > 0x1p52)
        return gram_fail(g, GRAM_OUT_OF_MEMORY,
                         "the ranks have %lld rows of %lld numbers, whose size overflows",
                         (long long)m->rows, (long long)m->given.distance.y.cols);
    set_op(m);
    TRY(gram_measure(g, &m->inner_bytes, g->backend->nearest(g, &m->op)));
    gram_take(layout, &m->points, (size_t)m->rows * row_bytes(m));
    gram_take(layout, &m->inner, m->inner_bytes);
    return GRAM_OK;
}

/* Scratch, and in it the rows of y that this rank has. */
static gram_status begin(gram_context *g, struct nearest_multi *m)
{
    const struct gram_view *y = &m->given.distance.y;
    struct gram_kron_move_op move = {.batch.count = 1, .view = *y, .gather = true};
    struct gram_layout layout = {0};

    TRY(plan(g, m, &layout));
    TRY(gram_layout_open(g, &layout));
    set_op(m);
    move.dense = m->points + (size_t)m->first * row_bytes(m);
    return y->rows > 0 && y->cols > 0 ? g->backend->kron_move(g, &move) : GRAM_OK;
}

static gram_status search(gram_context *g, struct nearest_multi *m)
{
    struct gram_scratch_before before;
    gram_status status;

    gram_scratch_lend(g, m->inner, m->inner_bytes, &before);
    status = g->backend->nearest(g, &m->op);
    gram_scratch_return(g, &before);
    return status;
}

static gram_status run(gram_context *g, struct nearest_multi *m)
{
    gram_status status;

    TRY(gram_agree(g, m->c, begin(g, m), NULL, 0));
    status = gram_gather_rows(g, m->c, m->c->rows[1], row_bytes(m), m->points);
    if (status == GRAM_OK)
        status = search(g, m);
    return gram_agree_or_abandon(g, m->c, status);
}

gram_status gram_nearest_multi(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                               gram_scalar p, const gram_nearest_options *options,
                               gram_tensor *indices, gram_tensor *distances)
{
    struct nearest_multi m = {
        .args = {x, y, p, options, indices, distances}
    };

    TRY(gram_begin_without_blas(g, __func__));
    TRY(describe(g, &m));
    return gram_call_ended(g, run(g, &m));
}

/* NOLINTNEXTLINE(readability-function-size): the arguments are those of the call */
gram_status gram_nearest_multi_workspace(gram_context *g, const gram_tensor *x,
                                         const gram_tensor *y, gram_scalar p,
                                         const gram_nearest_options *options,
                                         const gram_tensor *indices, const gram_tensor *distances,
                                         gram_workspace *need)
{
    struct nearest_multi m = {
        .args = {x, y, p, options, indices, distances}
    };
    struct gram_layout layout = {0};

    TRY(gram_begin_without_blas(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, &m));
    TRY(gram_agree(g, m.c, plan(g, &m, &layout), NULL, 0));
    *need = gram_workspace_on(g, gram_layout_bytes(&layout));
    return GRAM_OK;
}

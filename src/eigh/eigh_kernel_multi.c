/*
 * eigh_kernel_multi.c - gram_eigh_kernel_multi: a few pairs of a kernel matrix, whose products
 * several processes share
 *
 * The points of all ranks come to each of them, which then all take the same steps of
 * gram_eigh_operator.  Its products are those of gram_kernel_matmul_multi, whose rows come to all.
 * Should rounding lead ranks to different ends, as on processors of two kinds, they notice it where
 * they meet, and all of them fail.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "core/scratch.h"
#include "multi/communicator.h"
#include <string.h>

/* A call of one rank: what it is given, and what it has of all. */
struct together {
    gram_context *g;
    gram_communicator *c;
    const char *call;
    const gram_tensor *x;
    const gram_kernel_options *kernel;
    gram_eigh_options options;
    gram_tensor *values, *vectors, *info;
    int64_t n, first, own, width; /* rows of all, of those before this rank, of this one */
    gram_tensor points, pairs;    /* of all, row by row without gaps */
    size_t points_bytes, pairs_bytes, scratch_bytes;
    void *scratch; /* of products of so many columns: */
    int64_t columns;
    bool ended; /* a failure has been told: no rank waits for this one */
    char why[sizeof((gram_context *)0)->message]; /* of a product that failed */
};

static gram_status noted(struct together *t, gram_status status)
{
    t->ended |= status != GRAM_OK;
    return status;
}

/* All ranks are here, and all of them are at a product, or all of them are done. */
static gram_status meet(struct together *t, bool done)
{
    int64_t seen[2] = {done, !done};

    TRY(noted(t, gram_share(t->g, t->c, GRAM_OK, true, seen, 2)));
    if (!seen[0] || !seen[1])
        return GRAM_OK;
    t->ended = true;
    return gram_fail(t->g, GRAM_NUMERICAL,
                     "rounding has led the ranks to different numbers of products: they need "
                     "processors of one kind");
}

static gram_tensor rows_of(const gram_tensor *t, int64_t first, int64_t rows)
{
    gram_tensor part = *t;

    part.shape[0] = rows;
    part.data = (char *)t->data + first * t->stride[0] * (int64_t)gram_dtype_size(t->dtype);
    return part;
}

/* ---- Products -------------------------------------------------------------------------------- */

/* Scratch for products of so many columns; every rank makes the call. */
static gram_status make_scratch(struct together *t, const gram_tensor *in,
                                const gram_kernel_matmul_options *options, const gram_tensor *out)
{
    gram_workspace need = {0};
    gram_status status;

    if (in->shape[1] <= t->columns)
        return GRAM_OK;
    TRY(noted(t, gram_kernel_matmul_multi_workspace(t->g, &t->points, NULL, t->kernel, in, options,
                                                    out, &need)));
    gram_memory_free(t->g, t->scratch, t->scratch_bytes);
    t->scratch = NULL;
    t->scratch_bytes = t->g->options.device.type == GRAM_CPU ? need.host_bytes : need.device_bytes;
    status = gram_memory_allocate(t->g, t->scratch_bytes, &t->scratch);
    t->columns = in->shape[1];
    return noted(t, gram_agree(t->g, t->c, status, NULL, 0));
}

static gram_status multiply(struct together *t, const gram_tensor *in, gram_tensor *out)
{
    gram_kernel_matmul_options options = GRAM_KERNEL_MATMUL_OPTIONS_INIT;
    const gram_tensor own = rows_of(in, t->first, t->own);
    gram_tensor product = rows_of(out, t->first, t->own);
    const size_t row = (size_t)out->stride[0] * gram_dtype_size(out->dtype);
    struct gram_scratch_before before;
    gram_status status;

    options.communicator = t->c;
    options.all_points = 1;
    TRY(meet(t, false));
    TRY(make_scratch(t, &own, &options, &product));
    gram_scratch_lend(t->g, t->scratch, t->scratch_bytes, &before);
    status = gram_kernel_matmul_multi(t->g, &t->points, NULL, t->kernel, &own, &options, &product);
    gram_scratch_return(t->g, &before);
    TRY(noted(t, status));
    status = gram_gather_rows(t->g, t->c, t->c->rows[0], row, out->data);
    return noted(t, gram_agree_or_abandon(t->g, t->c, status));
}

static gram_status apply(void *user, const gram_tensor *in, gram_tensor *out)
{
    struct together *t = user;
    const char *call = t->g->call;
    const gram_status status = multiply(t, in, out);

    if (status != GRAM_OK)
        memcpy(t->why, t->g->message, sizeof t->why);
    t->g->call = call;
    return status;
}

/* ---- Arguments ------------------------------------------------------------------------------- */

static gram_status check_matrix(gram_context *g, const char *name, const gram_tensor *t)
{
    if (!t)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is NULL", name);
    if (t->ndim != 2)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s has %d dimensions, expected 2", name,
                         t->ndim);
    if (t->shape[0] < 0 || t->shape[1] < 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is %lld by %lld, expected 0 or more", name,
                         (long long)t->shape[0], (long long)t->shape[1]);
    if (t->dtype != GRAM_F32 && t->dtype != GRAM_F64)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s has dtype %s, expected f32 or f64", name,
                         gram_dtype_name(t->dtype));
    return GRAM_OK;
}

/* This rank's arguments, as far as gram_eigh_operator does not see to them. */
static gram_status check(gram_context *g, struct together *t, const gram_eigh_options *options)
{
    t->options = (gram_eigh_options)GRAM_EIGH_OPTIONS_INIT;
    TRY(gram_options_copy(g, &t->options, sizeof t->options, options));
    TRY(check_matrix(g, "x", t->x));
    if (!t->kernel)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "kernel is NULL");
    if (t->vectors) {
        TRY(check_matrix(g, "vectors", t->vectors));
        TRY(gram_check_dtype(g, "vectors", t->vectors, t->x->dtype));
        if (t->vectors->shape[0] != t->x->shape[0] || t->vectors->shape[1] != t->options.count)
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "vectors is %lld by %lld, expected %lld by %lld",
                             (long long)t->vectors->shape[0], (long long)t->vectors->shape[1],
                             (long long)t->x->shape[0], (long long)t->options.count);
    }
    t->own = t->x->shape[0];
    t->width = t->x->shape[1];
    return gram_check_transport(g, t->c);
}

static gram_status agree(gram_context *g, struct together *t, gram_status status)
{
    const gram_eigh_options *o = &t->options;
    const bool good = status == GRAM_OK;
    const struct gram_common common[] = {
        {               "the dtype of x", -1,     good ? t->x->dtype : 0},
        {   "the number of columns of x", -1,                   t->width},
        {        "vectors, NULL or not,", -1,         t->vectors != NULL},
        {           "info, NULL or not,", -1,            t->info != NULL},
        {               "options.select", -1,                  o->select},
        {                "options.count", -1,                   o->count},
        {"the bits of options.tolerance", -1, gram_bits_of(o->tolerance)},
        {             "options.products", -1,                o->products},
        {     "the bits of options.seed", -1,           (int64_t)o->seed},
    };

    TRY(noted(t, gram_agree(g, t->c, status, common, (int)(sizeof common / sizeof *common))));
    return noted(t, gram_count_rows(g, t->c, 0, t->own, &t->first, &t->n));
}

/* ---- All rows -------------------------------------------------------------------------------- */

static gram_status make_matrix(struct together *t, int64_t columns, gram_tensor *out, size_t *bytes)
{
    const gram_dtype dtype = t->x->dtype;

    if ((double)t->n * (double)columns > 0x1p48)
        return gram_fail(t->g, GRAM_OUT_OF_MEMORY,
                         "the ranks have %lld rows of %lld numbers, whose size overflows",
                         (long long)t->n, (long long)columns);
    *bytes = (size_t)(t->n * columns) * gram_dtype_size(dtype);
    *out = (gram_tensor){
        .dtype = dtype,
        .device = t->g->options.device,
        .ndim = 2,
        .shape = {                     t->n, columns},
        .stride = {columns > 1 ? columns : 1,       1}
    };
    return gram_memory_allocate(t->g, *bytes, &out->data);
}

/* Between a tensor of the caller's and this rank's rows of a matrix of all. */
static gram_status move(struct together *t, const char *name, const gram_tensor *given,
                        const gram_tensor *all, bool gather)
{
    struct gram_kron_move_op op = {.batch.count = 1, .gather = gather};

    TRY(gram_view_of(t->g, &op.batch, name, given, 2, gather ? GRAM_READ : GRAM_WRITE, &op.view));
    if (op.view.rows == 0 || op.view.cols == 0)
        return GRAM_OK;
    if (t->g->backend->check_pointer)
        TRY(t->g->backend->check_pointer(t->g, name, &op.view));
    op.dense = (char *)all->data + t->first * all->stride[0] * (int64_t)gram_dtype_size(all->dtype);
    return t->g->backend->kron_move(t->g, &op);
}

static gram_status place(struct together *t)
{
    TRY(make_matrix(t, t->width, &t->points, &t->points_bytes));
    if (t->vectors)
        TRY(make_matrix(t, t->options.count, &t->pairs, &t->pairs_bytes));
    return move(t, "x", t->x, &t->points, true);
}

static gram_status solve(struct together *t)
{
    const gram_operator a = {.n = t->n, .dtype = t->x->dtype, .apply = apply, .user = t};
    gram_status status, kept;

    TRY(noted(t, gram_agree(t->g, t->c, place(t), NULL, 0)));
    status = gram_gather_rows(t->g, t->c, t->c->rows[0],
                              (size_t)t->width * gram_dtype_size(t->x->dtype), t->points.data);
    TRY(noted(t, gram_agree_or_abandon(t->g, t->c, status)));
    status = gram_eigh_operator(t->g, &a, &t->options, t->values, t->vectors ? &t->pairs : NULL,
                                t->info);
    t->g->call = t->call;
    if (t->why[0])
        memcpy(t->g->message, t->why, sizeof t->why);
    if (t->ended || (status != GRAM_OK && status != GRAM_NUMERICAL))
        return status;
    TRY(meet(t, true));
    kept = t->vectors ? move(t, "vectors", t->vectors, &t->pairs, false) : GRAM_OK;
    return kept == GRAM_OK ? status : kept;
}

/* NOLINTNEXTLINE(readability-function-size): the arguments are those of the call */
gram_status gram_eigh_kernel_multi(gram_context *g, gram_communicator *communicator,
                                   const gram_tensor *x, const gram_kernel_options *kernel,
                                   const gram_eigh_options *options, gram_tensor *values,
                                   gram_tensor *vectors, gram_tensor *info)
{
    struct together t = {.g = g,
                         .c = communicator,
                         .call = __func__,
                         .x = x,
                         .kernel = kernel,
                         .values = values,
                         .vectors = vectors,
                         .info = info};
    gram_status status;

    TRY(gram_begin(g, __func__));
    if (!communicator)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "communicator is NULL");
    status = agree(g, &t, check(g, &t, options));
    if (status == GRAM_OK)
        status = solve(&t);
    gram_memory_free(g, t.scratch, t.scratch_bytes);
    gram_memory_free(g, t.pairs.data, t.pairs_bytes);
    gram_memory_free(g, t.points.data, t.points_bytes);
    g->call = t.call;
    if (!t.ended && communicator)
        status = gram_agree(g, communicator, status, NULL, 0);
    return gram_call_ended(g, status);
}

/*
 * matmul_chunked.c - gram_matmul_chunked: a product cut into pieces that fit into memory
 *
 * A piece is m_t rows of a and out by n_t columns of b and out by k_t of the sum: m_t n_t numbers
 * of out stay while pieces of a and b pass, so a is read n / n_t times and b m / m_t times.  The
 * squarest m_t and n_t that leave room for K_LEAST of the sum read least; what they leave over
 * goes to k_t.
 *
 * SPDX-License-Identifier: MIT
 */
#include "matmul_batched.h"
#include <math.h>

enum {
    K_LEAST = 512 /* terms of a sum, from which on BLAS is as fast as it gets */
};

struct chunks {
    const struct gram_matmul_batched_op *whole;
    int64_t m, n, k; /* of a piece */
    bool all;        /* one piece */
};

/* Bytes of the matrices of a piece: elements of a, b, out, and of c where it is another matrix. */
static double piece_bytes(const struct gram_matmul_batched_op *op, double m, double n, double k)
{
    double outs = op->has_c && !op->c_is_out ? 2 : 1;

    return (m * k + k * n + outs * m * n) * (double)gram_dtype_size(op->out.dtype);
}

/* The piece [i, i + m) by [j, j + n) of an item, terms [l, l + k). */
static struct gram_matmul_batched_op piece_of(const struct chunks *c, int64_t item, int64_t i,
                                              int64_t j, int64_t l)
{
    const struct gram_matmul_batched_op *w = c->whole;
    struct gram_matmul_batched_op op = *w;
    int64_t size = (int64_t)gram_dtype_size(w->out.dtype);

    op.batch = (struct gram_batch){.count = 1};
    op.a = gram_view_alone(&w->a, &w->batch, item);
    op.b = gram_view_alone(&w->b, &w->batch, item);
    op.out = gram_view_alone(&w->out, &w->batch, item);
    op.a.rows = op.out.rows = gram_least(c->m, w->out.rows - i);
    op.b.cols = op.out.cols = gram_least(c->n, w->out.cols - j);
    op.a.cols = op.b.rows = gram_least(c->k, w->a.cols - l);
    if (op.a.cols > 0) {
        op.a.data += (i * w->a.row_stride + l * w->a.col_stride) * size;
        op.b.data += (l * w->b.row_stride + j * w->b.col_stride) * size;
    }
    op.out.data += (i * w->out.row_stride + j * w->out.col_stride) * size;
    op.alpha = gram_hyper_alone(&w->alpha, &w->batch, item);
    op.beta = gram_hyper_alone(&w->beta, &w->batch, item);
    if (w->has_c) {
        op.c = gram_view_alone(&w->c, &w->batch, item);
        op.c.data += (i * w->c.row_stride + j * w->c.col_stride) * size;
        op.c.rows = op.out.rows, op.c.cols = op.out.cols;
    }
    if (l > 0) { /* added to what the pieces before gave */
        op.has_c = op.c_is_out = true;
        op.c = op.out;
        op.beta = (struct gram_hyper){.value = 1};
    }
    return op;
}

/* The largest piece whose matrices take no more than so many elements; false if there is none. */
static bool divide(struct chunks *c, double elements)
{
    const struct gram_matmul_batched_op *w = c->whole;
    double outs = w->has_c && !w->c_is_out ? 2 : 1, m = (double)w->out.rows;
    double n = (double)w->out.cols, k = fmin((double)w->a.cols, K_LEAST), side;

    if (elements < 2 + outs)
        return false;
    k = fmax(fmin(k, floor(sqrt(elements / 4))), 1);
    side = floor((sqrt(k * k + outs * elements) - k) / outs); /* outs s^2 + 2 s k = elements */
    side = fmax(side, 1);
    if (m <= side) {
        n = fmin(n, floor((elements - m * k) / (k + outs * m)));
    } else if (n <= side) {
        m = fmin(m, floor((elements - n * k) / (k + outs * n)));
    } else {
        m = n = side;
    }
    k = fmin((double)w->a.cols, floor((elements - outs * m * n) / (m + n)));
    c->m = (int64_t)m, c->n = (int64_t)n, c->k = (int64_t)fmax(k, 1);
    return m >= 1 && n >= 1 &&
           piece_bytes(w, m, n, fmax(k, 1)) <= elements * (double)gram_dtype_size(w->out.dtype);
}

/* The scratch that the product, or its first and largest piece, takes. */
static gram_status scratch_of(gram_context *g, const struct chunks *c, size_t *bytes)
{
    struct gram_matmul_batched_op op;

    if (c->all)
        return g->backend->matmul_batched_workspace(g, c->whole, bytes);
    op = piece_of(c, 0, 0, 0, 0);
    return g->backend->matmul_batched_workspace(g, &op, bytes);
}

/* Finds the pieces, and the scratch of one. */
static gram_status plan(gram_context *g, const struct gram_matmul_batched_op *op, size_t memory,
                        struct chunks *c, size_t *scratch)
{
    double size = (double)gram_dtype_size(op->out.dtype), limit = (double)memory, elements;
    double m = (double)op->out.rows, n = (double)op->out.cols, k = (double)op->a.cols;

    *c = (struct chunks){.whole = op, .all = true};
    TRY(scratch_of(g, c, scratch));
    if (op->batch.count == 0 || m == 0 || n == 0 ||
        piece_bytes(op, m, n, k) * (double)op->batch.count + (double)*scratch <= limit)
        return GRAM_OK;
    c->all = false;
    for (elements = floor(limit / size); divide(c, elements); elements = floor(elements * 0.9)) {
        TRY(scratch_of(g, c, scratch));
        if (piece_bytes(op, (double)c->m, (double)c->n, (double)c->k) + (double)*scratch <= limit)
            return GRAM_OK;
    }
    return gram_fail(g, GRAM_INVALID_ARGUMENT,
                     "memory is %zu bytes, too few for one element of a, b and out", memory);
}

static gram_status describe(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                            const gram_matmul_options *options, const gram_tensor *out,
                            struct gram_matmul_batched_op *op)
{
    if (g->options.device.type != GRAM_CPU)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s has no products in pieces", g->backend->name);
    return gram_matmul_describe(g, a, b, options, out, op);
}

/* What the caller allows, or half of what there is. */
static gram_status limit_of(gram_context *g, size_t memory, size_t *limit)
{
    gram_info info = {.size = sizeof info};

    *limit = memory;
    if (memory > 0)
        return GRAM_OK;
    TRY(gram_context_info(g, &info));
    *limit = info.memory_available > 0 ? (size_t)(info.memory_available / 2) : 0;
    return GRAM_OK;
}

/* One tile of out: the pieces of its sum. */
static gram_status run_tile(gram_context *g, const struct chunks *c, int64_t item, int64_t i,
                            int64_t j)
{
    int64_t l = 0;

    do { /* once even without terms */
        struct gram_matmul_batched_op op = piece_of(c, item, i, j, l);
        if (gram_cancelled(g))
            return gram_fail(g, GRAM_CANCELLED, "cancelled");
        TRY(g->backend->matmul_batched(g, &op));
        l += c->k;
    } while (l < c->whole->a.cols);
    return GRAM_OK;
}

static gram_status run(gram_context *g, const struct chunks *c, size_t scratch)
{
    const struct gram_matmul_batched_op *op = c->whole;
    void *memory;

    TRY(gram_scratch(g, scratch, &memory)); /* before anything is written */
    if (c->all)
        return g->backend->matmul_batched(g, op);
    for (int64_t item = 0; item < op->batch.count; item++)
        for (int64_t i = 0; i < op->out.rows; i += c->m)
            for (int64_t j = 0; j < op->out.cols; j += c->n)
                TRY(run_tile(g, c, item, i, j));
    return GRAM_OK;
}

gram_status gram_matmul_chunked(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                const gram_matmul_options *options, size_t memory, gram_tensor *out)
{
    struct gram_matmul_batched_op op;
    struct chunks c;
    size_t scratch;

    g->call = __func__;
    TRY(describe(g, a, b, options, out, &op));
    TRY(limit_of(g, memory, &memory));
    g->call = __func__;
    TRY(plan(g, &op, memory, &c, &scratch));
    return gram_call_ended(g, run(g, &c, scratch));
}

gram_status gram_matmul_chunked_workspace(gram_context *g, const gram_tensor *a,
                                          const gram_tensor *b, const gram_matmul_options *options,
                                          size_t memory, const gram_tensor *out,
                                          gram_workspace *need)
{
    struct gram_matmul_batched_op op;
    struct chunks c;
    size_t scratch;

    g->call = __func__;
    TRY(gram_check_need(g, need));
    TRY(describe(g, a, b, options, out, &op));
    TRY(limit_of(g, memory, &memory));
    g->call = __func__;
    TRY(plan(g, &op, memory, &c, &scratch));
    *need = gram_workspace_on(g, scratch);
    return GRAM_OK;
}

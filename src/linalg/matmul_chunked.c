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
#include "core/scratch.h"
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

/* The largest piece whose matrices take at most `elements` elements; false if there is none. */
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
    const struct gram_matmul_place first = {0};
    struct gram_matmul_batched_op op;

    if (c->all)
        return gram_measure(g, bytes, g->backend->matmul_batched(g, c->whole));
    op = gram_matmul_piece(c->whole, &first, c->m, c->n, c->k);
    return gram_measure(g, bytes, g->backend->matmul_batched(g, &op));
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
                     "memory is %zu bytes, which is too small for one element each of a, b and out",
                     memory);
}

/* What the caller allows, or half of what the device has. */
static gram_status limit_of(gram_context *g, size_t memory, size_t *limit)
{
    int64_t available;

    *limit = memory;
    if (memory > 0)
        return GRAM_OK;
    TRY(gram_memory_available(g, &available));
    *limit = available > 0 ? (size_t)(available / 2) : 0;
    return GRAM_OK;
}

/* A tensor of the CPU as if it were the device's; whether it was. */
static bool adopt(const gram_context *g, const gram_tensor *t, gram_tensor *own)
{
    if (!t)
        return false;
    *own = *t;
    if (g->options.device.type == GRAM_CPU || t->device.type != GRAM_CPU)
        return false;
    own->device = g->options.device;
    return true;
}

static gram_status describe(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                            const gram_matmul_options *given, const gram_tensor *out,
                            struct gram_matmul_chunked_op *op)
{
    gram_matmul_options options = GRAM_MATMUL_OPTIONS_INIT;
    gram_tensor own[4];

    *op = (struct gram_matmul_chunked_op){.parallel = gram_parallel_for};
    TRY(gram_options_copy(g, &options, sizeof options, given));
    op->host_a = adopt(g, a, &own[0]);
    op->host_b = adopt(g, b, &own[1]);
    op->host_c = adopt(g, options.c, &own[2]);
    op->host_out = adopt(g, out, &own[3]);
    options.c = options.c ? &own[2] : NULL;
    return gram_matmul_describe(g, a ? &own[0] : NULL, b ? &own[1] : NULL, &options,
                                out ? &own[3] : NULL, &op->product);
}

/* One tile of out: the pieces of its sum. */
static gram_status run_tile(gram_context *g, const struct chunks *c, struct gram_matmul_place at)
{
    do { /* once even without terms */
        struct gram_matmul_batched_op op = gram_matmul_piece(c->whole, &at, c->m, c->n, c->k);
        if (gram_cancelled(g))
            return gram_fail(g, GRAM_CANCELLED, "cancelled");
        TRY(g->backend->matmul_batched(g, &op));
        at.l += c->k;
    } while (at.l < c->whole->a.cols);
    return GRAM_OK;
}

static gram_status run(gram_context *g, const struct chunks *c, size_t scratch)
{
    const struct gram_matmul_batched_op *op = c->whole;
    struct gram_layout layout = {0};
    void *memory;

    gram_take(&layout, &memory, scratch); /* of each piece in turn, before anything is written */
    TRY(gram_layout_open(g, &layout));
    if (c->all)
        return g->backend->matmul_batched(g, op);
    for (int64_t item = 0; item < op->batch.count; item++)
        for (int64_t i = 0; i < op->out.rows; i += c->m)
            for (int64_t j = 0; j < op->out.cols; j += c->n)
                TRY(run_tile(g, c, (struct gram_matmul_place){item, i, j, 0}));
    return GRAM_OK;
}

/* All of a call but its work: what it is, the memory that it may take, on the CPU its pieces. */
static gram_status prepare(gram_context *g, size_t memory, struct gram_matmul_chunked_op *op,
                           struct chunks *c, size_t *scratch)
{
    const char *call = g->call;

    TRY(limit_of(g, memory, &op->memory));
    g->call = call;
    if (g->backend->matmul_chunked)
        return gram_measure(g, scratch, g->backend->matmul_chunked(g, op));
    return plan(g, &op->product, op->memory, c, scratch);
}

gram_status gram_matmul_chunked(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                const gram_matmul_options *options, size_t memory, gram_tensor *out)
{
    struct gram_matmul_chunked_op op;
    struct chunks c = {.whole = &op.product};
    size_t scratch;

    TRY(gram_begin(g, __func__));
    TRY(describe(g, a, b, options, out, &op));
    TRY(prepare(g, memory, &op, &c, &scratch));
    if (g->backend->matmul_chunked)
        return gram_call_ended(g, g->backend->matmul_chunked(g, &op));
    return gram_call_ended(g, run(g, &c, scratch));
}

gram_status gram_matmul_chunked_workspace(gram_context *g, const gram_tensor *a,
                                          const gram_tensor *b, const gram_matmul_options *options,
                                          size_t memory, const gram_tensor *out,
                                          gram_workspace *need)
{
    struct gram_matmul_chunked_op op;
    struct chunks c = {.whole = &op.product};
    size_t scratch;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, a, b, options, out, &op));
    TRY(prepare(g, memory, &op, &c, &scratch));
    *need = gram_workspace_on(g, scratch);
    return GRAM_OK;
}

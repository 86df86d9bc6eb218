/*
 * cuda_matmul_chunked_plan.c - how a product is cut, on the device or between it and the host
 *
 * A piece has all terms of its sums where 256 rows and columns with all of them fit: then an
 * element of out is one sum as in the whole product.  Pieces of the host's operands lie in two
 * slots each, one in use, the other on its way.  A row of pieces keeps its piece of a while those
 * of b pass; 8192 rows give the multiplications of an H200 (50 Tflop/s in f32) 12 GB/s of b to wait
 * for, a fifth of what the bus brings, and 2048 columns make the first piece come soon.  Where all
 * pieces of b have room they stay, and b is read once.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda/transfer.h"
#include "cuda_matmul_chunked.h"
#include "matmul_piece.h"
#include <math.h>

enum {
    HOST_ROWS = 8192,
    HOST_COLUMNS = 2048,
    LEAST_SIDE = 256, /* of pieces with all terms */
    ROUND = 128       /* cuBLAS's tiles */
};

/* What a piece costs, in elements. */
struct weights {
    double a, b, out; /* out: with c */
};

static struct weights weigh(const struct cuda_chunks *c)
{
    const struct gram_matmul_batched_op *op = &c->op;
    double of_c = !op->has_c || (op->c_is_out && !c->host[CHUNK_C]) ? 0 : 1 + c->host[CHUNK_C];

    return (struct weights){1 + c->host[CHUNK_A], 1 + c->host[CHUNK_B],
                            1 + c->host[CHUNK_OUT] + of_c};
}

static double cost(const struct weights *w, double m, double n, double k)
{
    return w->a * m * k + w->b * k * n + w->out * m * n;
}

/* As many parts as there are of this size, of nearly one size. */
static int64_t even(int64_t total, double part)
{
    int64_t most = gram_least(total, (int64_t)part);
    int64_t size = gram_ceil_div(total, gram_ceil_div(total, most));
    int64_t rounded = gram_ceil_div(size, ROUND) * ROUND;

    return rounded <= most ? rounded : size;
}

/* Pieces with all terms. */
static bool cut_sides(struct cuda_chunks *c, const struct weights *w, double elements)
{
    const struct gram_matmul_batched_op *op = &c->op;
    double k = (double)op->a.cols, ratio = c->streamed ? (double)HOST_ROWS / HOST_COLUMNS : 1;
    double m = (double)op->out.rows, n = (double)op->out.cols;
    double least_m = fmin(m, LEAST_SIDE), least_n = fmin(n, LEAST_SIDE);

    if (c->streamed)
        m = fmin(m, HOST_ROWS), n = fmin(n, HOST_COLUMNS);
    while (cost(w, m, n, k) > elements) {
        if (m <= least_m && n <= least_n)
            return false;
        if (n <= least_n || (m > least_m && m >= ratio * n))
            m = fmax(floor(m * 0.95), least_m);
        else
            n = fmax(floor(n * 0.95), least_n);
    }
    c->m = even(op->out.rows, m);
    c->n = even(op->out.cols, n);
    c->k = op->a.cols > 0 ? op->a.cols : 1;
    return true;
}

/* Half of the memory is out's, so that the sums of a piece are few. */
static bool cut_sums(struct cuda_chunks *c, const struct weights *w, double elements)
{
    const struct gram_matmul_batched_op *op = &c->op;
    double side = floor(sqrt(elements / (2 * w->out)));
    double m = fmin((double)op->out.rows, side), n = fmin((double)op->out.cols, side);
    double k = floor((elements - w->out * m * n) / (w->a * m + w->b * n));

    if (side < 1 || k < 1)
        return false;
    c->m = (int64_t)m, c->n = (int64_t)n;
    c->k = gram_least(op->a.cols, (int64_t)fmin(k, 0x1p62));
    return true;
}

static int most_slots(double pieces)
{
    return pieces < 2 ? 1 : 2;
}

static void count_slots(struct cuda_chunks *c, const struct weights *w, double elements)
{
    const struct gram_matmul_batched_op *op = &c->op;
    double m = (double)gram_ceil_div(op->out.rows, c->m), batch = (double)op->batch.count;
    double n = (double)gram_ceil_div(op->out.cols, c->n);
    double k = op->a.cols > 0 ? (double)gram_ceil_div(op->a.cols, c->k) : 1;
    double used = cost(w, (double)c->m, (double)c->n, (double)c->k);

    c->slots[CHUNK_A] = most_slots(batch * m * k);
    c->slots[CHUNK_B] = most_slots(batch * n * k);
    c->slots[CHUNK_C] = c->slots[CHUNK_OUT] = most_slots(batch * m * n);
    if (m > 1 && n * k > 2 && n * k <= CHUNK_SLOTS &&
        used + (n * k - 2) * (double)c->n * (double)c->k <= elements)
        c->slots[CHUNK_B] = (int)(n * k);
}

/* Where everything lies in scratch. */
static gram_status lay_out(gram_context *g, struct cuda_chunks *c)
{
    const size_t size = gram_dtype_size(c->op.out.dtype);
    const int64_t counts[] = {c->m * c->k, c->k * c->n, c->m * c->n, c->m * c->n};
    const struct gram_matmul_place first = {0};
    struct gram_matmul_batched_op op = gram_matmul_piece(&c->op, &first, c->m, c->n, c->k);
    struct gram_view *const views[] = {&op.a, &op.b, &op.c, &op.out};

    for (int i = 0; i < CHUNK_OPERANDS; i++) {
        c->slot_bytes[i] = c->host[i] ? gram_round64((size_t)counts[i] * size) : 0;
        c->slots_at[i] = c->product_at;
        c->product_at += (size_t)c->slots[i] * c->slot_bytes[i];
        if (c->host[i])
            *views[i] = gram_cuda_transfer_view(views[i], views[i]->data);
    }
    if (c->host[CHUNK_C])
        op.c_is_out = false;
    TRY(cuda_matmul_batched_workspace(g, &op, &c->product_bytes));
    c->bytes = c->product_at + c->product_bytes;
    return GRAM_OK;
}

static void describe(const struct gram_matmul_chunked_op *op, struct cuda_chunks *c)
{
    *c = (struct cuda_chunks){
        .op = op->product,
        .host = {op->host_a, op->host_b, op->host_c && op->product.has_c, op->host_out},
    };
    c->streamed = op->host_a || op->host_b || c->host[CHUNK_C] || op->host_out;
    if (c->host[CHUNK_B] && !c->host[CHUNK_A]) {
        gram_matmul_transpose(&c->op);
        c->host[CHUNK_A] = true, c->host[CHUNK_B] = false;
    }
}

gram_status cuda_matmul_chunks(gram_context *g, const struct gram_matmul_chunked_op *op,
                               struct cuda_chunks *c)
{
    const struct gram_matmul_batched_op *w = &op->product;
    const double elements = floor((double)op->memory / (double)gram_dtype_size(w->out.dtype));
    struct weights weights;

    describe(op, c);
    weights = weigh(c);
    c->all =
        gram_matmul_is_empty(w) ||
        (!c->streamed && (double)w->batch.count * cost(&weights, (double)w->out.rows,
                                                       (double)w->out.cols, (double)w->a.cols) <=
                             elements);
    if (c->all) {
        TRY(cuda_matmul_batched_workspace(g, w, &c->product_bytes));
        c->bytes = c->product_bytes;
        return GRAM_OK;
    }
    if (!cut_sides(c, &weights, elements) && !cut_sums(c, &weights, elements))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "memory is %zu bytes, too few for one element of a, b and out",
                         op->memory);
    count_slots(c, &weights, elements);
    return lay_out(g, c);
}

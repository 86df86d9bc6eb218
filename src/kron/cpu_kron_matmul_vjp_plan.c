/*
 * cpu_kron_matmul_vjp_plan.c - how the gradients of a Kronecker product are cut: see
 * cpu_kron_matmul_vjp.h
 *
 * Rows are independent but for the sums of the factors' gradients.  Many rows: each thread takes
 * as many at a time as its share of the cache holds on their whole way, and every unit of them has
 * sums of its own, so that results do not depend on the number of threads.  Few rows, or factors
 * whose sums are too large to have often: all threads work on one step after the other.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "cpu_kron_matmul_vjp.h"

static const int64_t most_elements = (int64_t)1 << 48; /* of a row: their bytes can be counted */

enum {
    CHAIN_BYTES = 1 << 20, /* of rows on their way: what a core's second-level cache holds */
    WIDE_BYTES = 16 << 20, /* of those that all threads share: few steps, little overhead */
    SUM_BYTES = 256 << 10, /* of sums that a thread may have of its own */
    UNITS = 16,            /* of an item at most */
    LEAST_UNITS = 8,       /* fewer would leave threads without work */
};

size_t cpu_kron_matmul_vjp_sum_bytes(const struct gram_kron_matmul_vjp_op *op, int i)
{
    const struct gram_view *f = &op->factor[i];

    return gram_round64((size_t)(f->rows * f->cols) * gram_dtype_size(f->dtype));
}

static void choose_steps(struct kron_vjp_plan *p)
{
    const struct gram_kron_matmul_vjp_op *op = p->op;

    p->first = op->count, p->last = -1;
    for (int i = 0; i < op->count; i++)
        if (op->want_factor[i]) {
            p->first = p->first < i ? p->first : i;
            p->last = i;
        }
    p->steps = op->want_x ? op->count : p->last > 0 ? p->last : 0;
    for (int i = 0; i < op->batch.ndim; i++)
        p->x_shared |= op->want_x && op->batch.shape[i] > 1 && op->to_x.batch_stride[i] == 0;
}

/* Elements a row of left[i] and of right[i], 0 <= i <= N for the latter. */
static int64_t left_elements(const struct kron_vjp_plan *p, int i)
{
    return p->per_row[i] * p->op->factor[i].rows;
}

static int64_t right_elements(const struct kron_vjp_plan *p, int i)
{
    return i < p->op->count ? p->per_row[i] * p->op->factor[i].cols : p->op->x.cols;
}

/* Lays out what a number of rows needs; false if BLAS cannot count it. */
static bool lay_out(struct kron_vjp_plan *p, int64_t rows)
{
    const struct gram_kron_matmul_vjp_op *op = p->op;
    size_t size = gram_dtype_size(op->x.dtype), at = 0, most[2] = {0, 0};

    p->rows = rows;
    for (int i = 0; i < op->count; i++) {
        const struct gram_view *f = &op->factor[i];
        if (p->per_row[i] > INT32_MAX / rows || !gram_blas_fits(f->rows, f->cols, 0))
            return false;
        p->at.factor[i] = at;
        if (cpu_kron_matmul_vjp_packed(f))
            at += gram_round64((size_t)(f->rows * f->cols) * size);
        p->at.left[i] = at;
        if (i >= p->first)
            at += gram_round64((size_t)(left_elements(p, i) * rows) * size);
    }
    for (int i = 0; i <= p->steps; i++)
        most[i % 2] = gram_most_bytes(most[i % 2],
                                      gram_round64((size_t)(right_elements(p, i) * rows) * size));
    p->at.right[0] = at;
    p->at.right[1] = at + most[0];
    p->at.bytes = p->at.right[1] + most[1];
    return true;
}

/* How many rows go through the chains in buffers of `bytes` bytes. */
static int64_t rows_in(const struct kron_vjp_plan *p, int64_t bytes)
{
    int64_t elements = 2 * gram_most(p->op->x.cols, p->op->grad.cols);

    for (int i = p->first; i < p->op->count; i++)
        elements += left_elements(p, i);
    return gram_most(
        1, gram_least(p->op->x.rows, bytes / (int64_t)gram_dtype_size(p->op->x.dtype) / elements));
}

static void choose_units(struct kron_vjp_plan *p)
{
    const struct gram_kron_matmul_vjp_op *op = p->op;
    int64_t pieces;
    size_t sums = 0;

    p->rows = rows_in(p, CHAIN_BYTES);
    pieces = gram_ceil_div(op->x.rows, p->rows);
    p->unit_rows = gram_ceil_div(pieces, UNITS) * p->rows;
    p->units = gram_ceil_div(op->x.rows, p->unit_rows);
    p->total = p->units * op->batch.count;
    for (int i = p->first; i <= p->last; i++)
        sums += op->want_factor[i] ? cpu_kron_matmul_vjp_sum_bytes(op, i) : 0;
    p->wide = p->total < LEAST_UNITS || sums > SUM_BYTES;
    if (p->wide)
        p->rows = rows_in(p, WIDE_BYTES);
}

gram_status cpu_kron_matmul_vjp_plan(gram_context *g, const struct gram_kron_matmul_vjp_op *op,
                                     struct kron_vjp_plan *p)
{
    int64_t after = 1, before = 1;

    *p = (struct kron_vjp_plan){.g = g, .op = op};
    choose_steps(p);
    for (int i = op->count - 1; i >= 0; i--) {
        p->per_row[i] = after;
        after *= op->factor[i].cols;
    }
    for (int i = 0; i < op->count; i++) {
        if (__builtin_mul_overflow(p->per_row[i], before, &p->per_row[i]) ||
            p->per_row[i] > INT32_MAX || p->per_row[i] > most_elements / op->factor[i].rows ||
            p->per_row[i] > most_elements / op->factor[i].cols)
            return gram_fail(g, GRAM_UNSUPPORTED,
                             "a row has more elements on its way than BLAS can count");
        before *= op->factor[i].rows;
    }
    choose_units(p);
    if (!lay_out(p, p->rows))
        return gram_fail(g, GRAM_UNSUPPORTED, "the factors are larger than BLAS can count");
    p->sums_at = (p->wide ? 1 : (size_t)g->threads) * p->at.bytes;
    p->bytes = p->sums_at;
    for (int i = 0; i < op->count; i++) {
        bool large = op->factor[i].rows >= VJP_LARGE && op->factor[i].cols >= VJP_LARGE;
        p->slots[i] = p->wide ? (large ? 1 : VJP_SLICES) : gram_least(p->total, VJP_SLOTS);
        p->sum_at[i] = p->bytes;
        if (op->want_factor[i])
            p->bytes += (size_t)p->slots[i] * cpu_kron_matmul_vjp_sum_bytes(op, i);
    }
    return GRAM_OK;
}

/*
 * cpu_matmul_batched.c - gram_matmul_batched on the CPU: items of the batch as products of BLAS
 *
 * BLAS is column-major: a row-major out is its transpose there, out^T = b^T a^T.  An out whose
 * columns have the unit stride is turned into one whose rows have it, by turning everything.
 * Batch dimensions along which b does not change and the rows of a, c and out go on evenly become
 * rows.  What has no unit stride is packed by rows: a and b before, out before and after.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "cpu/cpu.h"
#include "cpu/cpu_blas.h"
#include "cpu/move.h"
#include "kron/kron.h"

enum {
    SMALL_ITEM = 1 << 27 /* multiplications of an item up to which threads take items: tens of ms */
};

struct matmul_plan {
    gram_context *g;
    struct gram_matmul_batched_op op; /* turned, its batch folded */
    bool pack_a, pack_b, pack_out;
    size_t b_at, out_at, worker_bytes; /* of the scratch of each worker, a first */
    int workers;
    char *scratch;
};

/* True if the matrices along a batch dimension are each other's next rows. */
static bool goes_on(const struct gram_view *v, int dimension)
{
    return v->batch_stride[dimension] == v->rows * v->row_stride;
}

/* Takes batch dimensions from the last one on into the rows. */
static void fold(struct gram_matmul_batched_op *op)
{
    while (op->batch.ndim > 0 && !op->alpha.tensor.data && !op->beta.tensor.data) {
        int last = op->batch.ndim - 1;
        int64_t rows, count = op->batch.shape[last];
        if (op->b.batch_stride[last] != 0 || !goes_on(&op->a, last) || !goes_on(&op->out, last) ||
            (op->has_c && !goes_on(&op->c, last)) ||
            __builtin_mul_overflow(op->out.rows, count, &rows) || rows > INT32_MAX)
            return;
        op->a.rows = op->out.rows = op->c.rows = rows;
        op->batch.ndim = last;
        op->batch.count /= count;
    }
}

static bool add_matrix(size_t *total, const struct gram_view *v)
{
    size_t size = gram_dtype_size(v->dtype), bytes;

    return !__builtin_mul_overflow((size_t)v->rows, (size_t)v->cols, &bytes) &&
           !__builtin_mul_overflow(bytes, size, &bytes) && bytes <= SIZE_MAX - 63 &&
           !__builtin_add_overflow(*total, gram_round64(bytes), total);
}

/* How many take items at the same time. */
static int count_workers(const gram_context *g, const struct gram_matmul_batched_op *op)
{
    double work = (double)op->a.rows * (double)op->a.cols * (double)op->b.cols;

    return work > SMALL_ITEM ? 1 : (int)gram_least(op->batch.count, g->threads);
}

/* op is not empty. */
static gram_status make_plan(gram_context *g, const struct gram_matmul_batched_op *op,
                             struct matmul_plan *p)
{
    bool fits = true;

    *p = (struct matmul_plan){.g = g, .op = *op};
    if (!gram_blas_fits(op->a.rows, op->b.cols, op->a.cols))
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "a is %lld by %lld and b %lld by %lld, BLAS takes sizes up to %d",
                         (long long)op->a.rows, (long long)op->a.cols, (long long)op->b.rows,
                         (long long)op->b.cols, INT32_MAX);
    if (!gram_blas_by_rows(&p->op.out) && gram_blas_direct(&p->op.out))
        gram_matmul_transpose(&p->op);
    fold(&p->op);
    p->pack_a = !gram_blas_direct(&p->op.a);
    p->pack_b = !gram_blas_direct(&p->op.b);
    p->pack_out = !gram_blas_by_rows(&p->op.out) || !gram_blas_direct(&p->op.out);
    p->workers = count_workers(g, &p->op);
    if (p->pack_a)
        fits = add_matrix(&p->worker_bytes, &p->op.a);
    p->b_at = p->worker_bytes;
    if (p->pack_b)
        fits = fits && add_matrix(&p->worker_bytes, &p->op.b);
    p->out_at = p->worker_bytes;
    if (p->pack_out)
        fits = fits && add_matrix(&p->worker_bytes, &p->op.out);
    if (!fits || p->worker_bytes > SIZE_MAX / (size_t)p->workers)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "the bytes of copies of a, b and out overflow");
    return GRAM_OK;
}

/* Copies an item of a matrix to another one of the same shape and dtype. */
static void copy(const struct gram_view *to, void *to_item, const struct gram_view *from,
                 const void *from_item)
{
    const struct cpu_move m = cpu_move_between(to, to_item, from, from_item);

    cpu_move(from->dtype, &m);
}

/* The transpose of an item as BLAS sees it, packed first where it has to be. */
static struct gram_blas_matrix load(const struct gram_view *v, bool pack, const char *data,
                                    char *scratch)
{
    struct gram_view dense = gram_view_dense(scratch, v->dtype, v->rows, v->cols);

    if (!pack)
        return gram_blas_transpose_of(v, data);
    copy(&dense, scratch, v, data);
    return gram_blas_transpose_of(&dense, scratch);
}

static void run_item(void *arg, int64_t item, int worker)
{
    const struct matmul_plan *p = arg;
    const struct gram_matmul_batched_op *op = &p->op;
    char *scratch = p->scratch ? p->scratch + (size_t)worker * p->worker_bytes : NULL;
    char *out = gram_view_item(&op->out, &op->batch, item);
    int64_t start = gram_trace_begin(p->g);
    struct gram_view to = op->out;
    double beta = gram_hyper_at(&op->beta, &op->batch, item);
    struct gram_blas_matrix a, b;

    a = load(&op->a, p->pack_a, gram_view_item(&op->a, &op->batch, item), scratch);
    b = load(&op->b, p->pack_b, gram_view_item(&op->b, &op->batch, item), scratch + p->b_at);
    to.data = out;
    if (p->pack_out)
        to = gram_view_dense(scratch + p->out_at, to.dtype, to.rows, to.cols);
    if (beta != 0 && (p->pack_out || !op->c_is_out))
        copy(&to, to.data, &op->c, gram_view_item(&op->c, &op->batch, item));
    gram_blas_gemm(to.dtype, (int64_t[]){to.cols, to.rows, op->a.cols},
                   gram_hyper_at(&op->alpha, &op->batch, item), b, a, beta, to.data,
                   to.rows == 1 ? to.cols : to.row_stride);
    if (p->pack_out)
        copy(&op->out, out, &to, to.data);
    gram_trace_end(p->g, "matmul", worker, start);
}

gram_status cpu_matmul_batched(gram_context *g, const struct gram_matmul_batched_op *op)
{
    struct matmul_plan plan;
    void *scratch;

    if (gram_matmul_is_empty(op))
        return GRAM_OK;
    TRY(make_plan(g, op, &plan));
    TRY(gram_scratch(g, (size_t)plan.workers * plan.worker_bytes, &scratch));
    plan.scratch = scratch;
    cpu_blas_for(g, plan.workers > 1, plan.op.batch.count, run_item, &plan);
    return GRAM_OK;
}

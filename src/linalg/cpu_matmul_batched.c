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
#include "core/scratch.h"
#include "cpu/cpu.h"
#include "cpu/move.h"
#include "kron/kron.h"

enum {
    SMALL_ITEM = 1 << 27 /* multiplications of an item up to which threads take items: tens of ms */
};

struct matmul_plan {
    gram_context *g;
    struct gram_matmul_batched_op op; /* turned, its batch folded */
    bool pack_a, pack_b, pack_out;
    int workers;
    char *scratch; /* share_bytes for each worker */
    size_t share_bytes;
};

/* Packed copies of a worker. */
struct matmul_share {
    char *a, *b, *out;
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

/* BLAS counts rows and columns in 32 bits: their product does not overflow. */
static void take_matrix(struct gram_layout *l, char **to, const struct gram_view *v, bool pack)
{
    gram_take_many(l, to, pack ? (size_t)(v->rows * v->cols) : 0, gram_dtype_size(v->dtype));
}

static void lay_out(const struct matmul_plan *p, struct gram_layout *l, struct matmul_share *s)
{
    take_matrix(l, &s->a, &p->op.a, p->pack_a);
    take_matrix(l, &s->b, &p->op.b, p->pack_b);
    take_matrix(l, &s->out, &p->op.out, p->pack_out);
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
    struct gram_layout share = {0};
    struct matmul_share one;

    *p = (struct matmul_plan){.g = g, .op = *op};
    if (!gram_blas_fits(op->a.rows, op->b.cols, op->a.cols))
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "a is %lld by %lld and b is %lld by %lld, but BLAS takes sizes of at "
                         "most %d",
                         (long long)op->a.rows, (long long)op->a.cols, (long long)op->b.rows,
                         (long long)op->b.cols, INT32_MAX);
    if (!gram_blas_by_rows(&p->op.out) && gram_blas_direct(&p->op.out))
        gram_matmul_transpose(&p->op);
    fold(&p->op);
    p->pack_a = !gram_blas_direct(&p->op.a);
    p->pack_b = !gram_blas_direct(&p->op.b);
    p->pack_out = !gram_blas_by_rows(&p->op.out) || !gram_blas_direct(&p->op.out);
    p->workers = count_workers(g, &p->op);
    lay_out(p, &share, &one);
    p->share_bytes = gram_layout_bytes(&share);
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
    char *out = gram_view_item(&op->out, &op->batch, item);
    int64_t start = gram_trace_begin(p->g);
    struct gram_view to = op->out;
    double beta = gram_hyper_at(&op->beta, &op->batch, item);
    struct gram_blas_matrix a, b;
    struct matmul_share s = {NULL, NULL, NULL};
    struct gram_layout layout = {0};

    if (p->share_bytes > 0) { /* else small items are not held up */
        lay_out(p, &layout, &s);
        gram_layout_place(&layout, p->scratch + (size_t)worker * p->share_bytes);
    }
    a = load(&op->a, p->pack_a, gram_view_item(&op->a, &op->batch, item), s.a);
    b = load(&op->b, p->pack_b, gram_view_item(&op->b, &op->batch, item), s.b);
    to.data = out;
    if (p->pack_out)
        to = gram_view_dense(s.out, to.dtype, to.rows, to.cols);
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
    struct gram_layout layout = {0};
    struct matmul_plan plan;

    if (gram_matmul_is_empty(op))
        return GRAM_OK;
    TRY(make_plan(g, op, &plan));
    gram_take_many(&layout, &plan.scratch, (size_t)plan.workers, plan.share_bytes);
    TRY(gram_layout_open(g, &layout));
    cpu_blas_for(g, plan.workers > 1, plan.op.batch.count, run_item, &plan);
    return GRAM_OK;
}

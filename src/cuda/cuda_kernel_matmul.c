/*
 * cuda_kernel_matmul.c - products with kernel matrices on the device, a panel of the matrix at a
 * time
 *
 * A panel of K is computed as gram_kernel does it and multiplied by cuBLAS while it is in the
 * cache; where K is symmetric its transpose is multiplied too, and only panels on and above the
 * diagonal are computed.  v and out go through the scratch, by columns.
 *
 * SPDX-License-Identifier: MIT
 */
#include "../cdist.h"
#include "arena.h"
#include "cuda_krylov.h"

enum {
    MATMUL_ROWS = 2048,
    MATMUL_COLUMNS = 4096 /* 32 MiB of f32: more than half of what an H200's L2 has */
};

size_t cuda_kernel_product_bytes(gram_dtype dtype, int64_t m, int64_t n)
{
    int64_t rows = gram_least(m, MATMUL_ROWS), cols = gram_least(n, MATMUL_COLUMNS);

    return gram_round64((size_t)(rows * cols) * gram_dtype_size(dtype));
}

/* A panel of K: rows from i on, columns from j on. */
struct panel {
    int64_t i, rows, j, cols;
};

/* out[to...] += op(panel) v[from...] */
static gram_status multiply(gram_context *g, const struct cuda_kernel_product *p,
                            const struct panel *at, bool turned)
{
    const int64_t m = p->kernel.x.rows, n = p->kernel.y.rows;
    const int64_t from = turned ? at->i : at->j, to = turned ? at->j : at->i;
    const size_t size = gram_dtype_size(p->dtype);
    const struct cuda_gemm_items product = {
        .dtype = p->dtype,
        .compute = gram_cuda_compute_of(p->dtype),
        .m = turned ? at->cols : at->rows,
        .n = p->columns,
        .k = turned ? at->rows : at->cols,
        .count = 1,
        .a = {                                .data = p->panel, .ld = at->cols, .transposed = !turned},
        .b = {.data = (const char *)p->v + (size_t)from * size,        .ld = n                      },
        .c = (char *)p->out + (size_t)to * size,
        .ldc = m,
        .alpha = 1,
        .beta = 1,
    };

    return gram_cuda_gemm_items(g, p->blas, &product);
}

static gram_status run_panel(gram_context *g, const struct cuda_kernel_product *p,
                             const struct panel *at)
{
    struct gram_cdist_op op = p->kernel;

    op.symmetric = p->mirrors && at->i == at->j && at->rows == at->cols;
    op.row_offset += at->i;
    op.column_offset += at->j;
    op.x = gram_view_rows(&op.x, at->i, at->rows);
    op.y = gram_view_rows(&op.y, at->j, at->cols);
    op.out = gram_view_dense(p->panel, p->dtype, at->rows, at->cols);
    TRY(cuda_cdist_queue(g, &op));
    TRY(multiply(g, p, at, false));
    return p->mirrors && at->i != at->j ? multiply(g, p, at, true) : GRAM_OK;
}

gram_status cuda_kernel_product(gram_context *g, const struct cuda_kernel_product *p)
{
    const int64_t m = p->kernel.x.rows, n = p->kernel.y.rows;
    struct panel at;

    for (at.i = 0; at.i < m; at.i += at.rows) {
        at.rows = gram_least(MATMUL_ROWS, m - at.i);
        if (gram_cancelled(g))
            return gram_fail(g, GRAM_CANCELLED, "cancelled");
        for (at.j = p->mirrors ? at.i : 0; at.j < n; at.j += at.cols) {
            /* The square on the diagonal alone. */
            bool on = p->mirrors && at.i == at.j;
            at.cols = on ? at.rows : gram_least(MATMUL_COLUMNS, n - at.j);
            TRY(run_panel(g, p, &at));
        }
    }
    return GRAM_OK;
}

/* ---- gram_kernel_matmul ---------------------------------------------------------------------- */

/* Where the scratch lies. */
struct layout {
    size_t panel, v, out, bytes;
};

static struct layout layout_of(const struct gram_kernel_matmul_op *op)
{
    const size_t size = gram_dtype_size(op->out.dtype), columns = (size_t)op->out.cols;
    struct layout at = {.panel = CUDA_BLAS_BYTES};

    at.v = at.panel + cuda_kernel_product_bytes(op->out.dtype, op->out.rows, op->v.rows);
    at.out = at.v + gram_round64((size_t)op->v.rows * columns * size);
    at.bytes = at.out + gram_round64((size_t)op->out.rows * columns * size);
    return at;
}

/* Between a view and columns one after the other. */
static gram_status move(gram_context *g, const struct gram_view *v, void *columns, bool back)
{
    struct krylov_copy_params p = {
        .rows = v->rows,
        .columns = v->cols,
        .from = back ? columns : v->data,
        .from_row = back ? 1 : v->row_stride,
        .from_column = back ? v->rows : v->col_stride,
        .to = back ? v->data : columns,
        .to_row = back ? v->row_stride : 1,
        .to_column = back ? v->col_stride : v->rows,
    };

    return cuda_krylov_copy(g, v->dtype, &p);
}

static gram_status run_item(gram_context *g, const struct gram_kernel_matmul_op *op, int64_t item,
                            struct cuda_kernel_product *p, void *columns)
{
    const struct gram_batch *batch = &op->kernel.batch;
    const struct gram_view v = gram_view_alone(&op->v, batch, item),
                           out = gram_view_alone(&op->out, batch, item);

    p->kernel = gram_cdist_alone(&op->kernel, item);
    TRY(move(g, &v, columns, false));
    if (op->accumulate)
        TRY(move(g, &out, p->out, false));
    else
        TRY(cuda_memory_zero(g, p->out,
                             (size_t)(out.rows * out.cols) * gram_dtype_size(out.dtype)));
    TRY(cuda_kernel_product(g, p));
    return move(g, &out, p->out, true);
}

static bool is_empty(const struct gram_kernel_matmul_op *op)
{
    return op->kernel.batch.count == 0 || op->out.rows == 0 || op->out.cols == 0;
}

static gram_status run(gram_context *g, const struct gram_kernel_matmul_op *op)
{
    const struct layout at = layout_of(op);
    struct cuda_kernel_product p = {
        .mirrors = gram_cdist_mirrors(&op->kernel),
        .dtype = op->out.dtype,
        .columns = op->out.cols,
    };
    struct cuda_blas *blas;
    void *memory;
    gram_status status = gram_cuda_scratch(g, at.bytes, &memory);

    if (status != GRAM_OK)
        return status;
    TRY(gram_cuda_blas(g, memory, &blas));
    p.blas = blas;
    p.panel = (char *)memory + at.panel;
    p.v = (char *)memory + at.v;
    p.out = (char *)memory + at.out;
    for (int64_t item = 0; item < op->kernel.batch.count && status == GRAM_OK; item++)
        status = run_item(g, op, item, &p, (char *)memory + at.v);
    return status;
}

gram_status cuda_kernel_matmul(gram_context *g, const struct gram_kernel_matmul_op *op)
{
    struct gram_cdist_op kernel = op->kernel;
    gram_status status;
    bool entered;

    if (is_empty(op))
        return GRAM_OK;
    if (op->v.rows > INT32_MAX || op->out.rows > INT32_MAX || op->out.cols > INT32_MAX)
        return gram_fail(g, GRAM_UNSUPPORTED, "v is %lld by %lld, cuBLAS takes at most %d",
                         (long long)op->v.rows, (long long)op->v.cols, INT32_MAX);
    kernel.out = op->out;
    TRY(cuda_cdist_check(g, &kernel));
    TRY(gram_cuda_check_pointer(g, "v", &op->v));
    entered = gram_cuda_enter(g->device);
    status = run(g, op);
    gram_cuda_leave(g->device, entered);
    return status;
}

size_t cuda_kernel_matmul_workspace(const gram_context *g, const struct gram_kernel_matmul_op *op)
{
    (void)g;
    return is_empty(op) ? 0 : layout_of(op).bytes;
}

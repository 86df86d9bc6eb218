/*
 * cuda_kernel_matmul.c - products with kernel matrices on the device: by elements in registers
 * (cuda_kernel_matmul_fused.c) where that costs less, else a panel of the matrix at a time
 *
 * A panel of K is computed as gram_kernel does it and multiplied by cuBLAS while it is in the
 * cache; where K is symmetric its transpose is multiplied too, and only panels on and above the
 * diagonal are computed.  v and out go through the scratch, by columns.  Items go together, in
 * rounds of as many as scratch has room for.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda/arena.h"
#include "cuda_cdist.h"
#include "linalg/cuda_matmul.h"
#include "pairwise.h"

enum {
    MATMUL_ROWS = 2048,
    MATMUL_COLUMNS = 4096, /* 32 MiB of f32: more than half of what an H200's L2 has */
    ROUND_BYTES = 1 << 28, /* of panels, v and out of many small items */
};

/* Elements of the largest panel of an item. */
static int64_t panel_size(int64_t m, int64_t n)
{
    return gram_least(m, MATMUL_ROWS) * gram_least(n, MATMUL_COLUMNS);
}

/* A panel of K: rows from i on, columns from j on. */
struct panel {
    int64_t i, rows, j, cols;
};

/* out[to...] += op(panel) v[from...] */
static gram_status multiply(gram_context *g, const struct cuda_kernel_product *p,
                            const struct panel *at, bool transposed)
{
    const int64_t m = p->kernel.x.rows, n = p->kernel.y.rows;
    const int64_t from = transposed ? at->i : at->j, to = transposed ? at->j : at->i;
    const size_t size = gram_dtype_size(p->dtype);
    const struct cuda_gemm_items product = {
        .dtype = p->dtype,
        .compute = gram_cuda_compute_of(p->dtype),
        .m = transposed ? at->cols : at->rows,
        .n = p->columns,
        .k = transposed ? at->rows : at->cols,
        .count = p->kernel.batch.count,
        .a = {                              .data = p->scratch,
              .ld = at->cols,
              .stride = at->rows * at->cols,
              .transposed = !transposed},
        .b = {.data = (const char *)p->v + (size_t)from * size, .ld = n, .stride = n * p->columns },
        .c = (char *)p->out + (size_t)to * size,
        .ldc = m,
        .stride_c = m * p->columns,
        .alpha = 1,
        .beta = 1,
    };

    return gram_cuda_gemm_items(g, p->blas, &product);
}

/* A panel of K is written and multiplied while it is in the second-level cache; its transpose
 * serves the mirrored place, so that a symmetric K is computed once. */
static gram_status run_panel(gram_context *g, const struct cuda_kernel_product *p,
                             const struct panel *at)
{
    struct gram_cdist_op op = p->kernel;

    op.symmetric = p->mirrors && at->i == at->j && at->rows == at->cols;
    op.row_offset += at->i;
    op.column_offset += at->j;
    op.x = gram_view_rows(&op.x, at->i, at->rows);
    op.y = gram_view_rows(&op.y, at->j, at->cols);
    op.out = gram_view_dense_items(p->scratch, p->dtype, at->rows, at->cols, &op.batch);
    TRY(cuda_cdist_queue(g, &op));
    TRY(multiply(g, p, at, false));
    return p->mirrors && at->i != at->j ? multiply(g, p, at, true) : GRAM_OK;
}

/* Panels row by row; where K is symmetric those left of the diagonal are the transposes of
 * others. */
static gram_status run_panels(gram_context *g, const struct cuda_kernel_product *p)
{
    const int64_t n = p->kernel.y.rows;
    int64_t end = p->kernel.x.rows;
    struct panel at = {.i = 0};

    if (p->parts > 1) {
        at.i = gram_part_row(n, p->mirrors, MATMUL_ROWS, p->part, p->parts);
        end = gram_part_row(n, p->mirrors, MATMUL_ROWS, p->part + 1, p->parts);
    }
    for (; at.i < end; at.i += at.rows) {
        at.rows = gram_least(MATMUL_ROWS, end - at.i);
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

/* ---- Products for other operations ----------------------------------------------------------- */

/* The same as an operation, whose sums are added to out. */
static struct gram_kernel_matmul_op op_of(const struct cuda_kernel_product *p)
{
    struct gram_kernel_matmul_op op = {.kernel = p->kernel, .accumulate = true};

    op.v = gram_view_dense((void *)p->v, p->dtype, p->columns, p->kernel.y.rows);
    op.out = gram_view_dense(p->out, p->dtype, p->columns, p->kernel.x.rows);
    gram_view_transpose(&op.v);
    gram_view_transpose(&op.out);
    return op;
}

/* One panel at a time, or the sums of a round, whatever the size of the kernel matrix. */
size_t cuda_kernel_product_bytes(const gram_context *g, const struct cuda_kernel_product *p)
{
    struct cuda_kernel_product narrow = *p;
    size_t bytes = 0;

    for (narrow.columns = 1; narrow.columns <= p->columns; narrow.columns++) {
        const struct gram_kernel_matmul_op op = op_of(&narrow);
        const int64_t panel = panel_size(op.out.rows, op.v.rows);
        const size_t need = cuda_kernel_fused(g, &op) ? cuda_kernel_fused_bytes(g, &op)
                                                      : (size_t)panel * gram_dtype_size(p->dtype);
        bytes = need > bytes ? need : bytes;
    }
    return gram_round64(bytes);
}

gram_status cuda_kernel_product(gram_context *g, const struct cuda_kernel_product *p)
{
    const struct gram_kernel_matmul_op op = op_of(p);

    return cuda_kernel_fused(g, &op) ? cuda_kernel_fused_in(g, &op, p->scratch) : run_panels(g, p);
}

/* ---- gram_kernel_matmul ---------------------------------------------------------------------- */

/* As many items at a time as fill about ROUND_BYTES with their panels, v and out. */
static struct gram_rounds rounds_of(const struct gram_kernel_matmul_op *op)
{
    const int64_t item =
        panel_size(op->out.rows, op->v.rows) + (op->v.rows + op->out.rows) * op->out.cols;
    const int64_t bytes = item * (int64_t)gram_dtype_size(op->out.dtype);

    return gram_rounds_of(&op->kernel.batch, gram_most(1, ROUND_BYTES / gram_most(1, bytes)));
}

/* Copies between `count` items of a view, from `first` on, and columns one after the other. */
static gram_status move(gram_context *g, const struct gram_batch *batch, int64_t first,
                        int64_t count, const struct gram_view *v, void *columns, bool back)
{
    struct gram_view dense = gram_view_dense(columns, v->dtype, v->rows, v->cols);
    struct move_params p = {
        .begin = first, .count = count, .rows = v->rows, .cols = v->cols, .alpha.value = 1};

    dense.row_stride = 1, dense.col_stride = v->rows;
    p.from.view = cuda_device_view(back ? &dense : v);
    p.to.view = cuda_device_view(back ? v : &dense);
    *(back ? &p.from.dense : &p.to.dense) = v->rows * v->cols;
    return cuda_move(g, v->dtype, batch, &p);
}

/* The product is added to zeros, or to what out holds. */
static gram_status run_round(gram_context *g, const struct gram_kernel_matmul_op *op,
                             const struct gram_batch *round, int64_t first,
                             struct cuda_kernel_product *p, void *columns)
{
    const struct gram_batch *batch = &op->kernel.batch;
    const struct gram_view *out = &op->out;
    const int64_t count = round->count;

    p->kernel = gram_cdist_round(&op->kernel, round, first);
    TRY(move(g, batch, first, count, &op->v, columns, false));
    if (op->accumulate)
        TRY(move(g, batch, first, count, out, p->out, false));
    else
        TRY(cuda_memory_zero(
            g, p->out, (size_t)(count * out->rows * out->cols) * gram_dtype_size(out->dtype)));
    TRY(run_panels(g, p));
    return move(g, batch, first, count, out, p->out, true);
}

/* True if out has no elements; a v without rows still sets out to zeros. */
static bool is_empty(const struct gram_kernel_matmul_op *op)
{
    return op->kernel.batch.count == 0 || op->out.rows == 0 || op->out.cols == 0;
}

/* Scratch of a round of so many items: cuBLAS's own, panels, v and out by columns. */
static gram_status open_scratch(gram_context *g, const struct gram_kernel_matmul_op *op,
                                int64_t items, struct cuda_kernel_product *p, void **blas)
{
    const size_t size = gram_dtype_size(op->out.dtype) * (size_t)items;
    const size_t columns = (size_t)op->out.cols;
    struct gram_layout layout = {0};

    gram_take(&layout, blas, CUDA_BLAS_BYTES);
    gram_take(&layout, &p->scratch, (size_t)panel_size(op->out.rows, op->v.rows) * size);
    gram_take(&layout, &p->v, (size_t)op->v.rows * columns * size);
    gram_take(&layout, &p->out, gram_round64((size_t)op->out.rows * columns * size));
    return gram_layout_open(g, &layout);
}

/* v and out are read and written where they are. */
static gram_status run_fused(gram_context *g, const struct gram_kernel_matmul_op *op)
{
    struct gram_layout layout = {0};
    void *sums;

    gram_take(&layout, &sums, cuda_kernel_fused_bytes(g, op));
    TRY(gram_layout_open(g, &layout));
    return cuda_kernel_fused_in(g, op, sums);
}

/* cuBLAS gets its memory once for all rounds. */
static gram_status run(gram_context *g, const struct gram_kernel_matmul_op *op)
{
    const struct gram_batch *batch = &op->kernel.batch;
    const struct gram_rounds rounds = rounds_of(op);
    struct cuda_kernel_product p = {
        .mirrors = gram_cdist_mirrors(&op->kernel),
        .part = op->part,
        .parts = op->parts,
        .dtype = op->out.dtype,
        .columns = op->out.cols,
    };
    struct gram_batch round;
    struct cuda_blas *blas;
    void *memory;

    TRY(open_scratch(g, op, rounds.items, &p, &memory));
    TRY(gram_cuda_blas(g, memory, &blas));
    p.blas = blas;
    for (int64_t first = 0; first < batch->count; first += round.count) {
        round = gram_round_at(batch, &rounds, first);
        TRY(run_round(g, op, &round, first, &p, (void *)p.v));
    }
    return GRAM_OK;
}

static gram_status run_call(gram_context *g, const void *work)
{
    const struct gram_kernel_matmul_op *op = work;
    struct gram_cdist_op kernel = op->kernel;
    gram_status status;
    const bool fused = cuda_kernel_fused(g, op);
    bool entered;

    if (!fused && (op->v.rows > INT32_MAX || op->out.rows > INT32_MAX || op->out.cols > INT32_MAX))
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "v is %lld by %lld, but cuBLAS takes sizes of at most %d",
                         (long long)op->v.rows, (long long)op->v.cols, INT32_MAX);
    kernel.out = op->out;
    TRY(cuda_cdist_check(g, &kernel));
    TRY(gram_cuda_check_pointer(g, "v", &op->v));
    entered = gram_cuda_enter(g->device);
    status = fused ? run_fused(g, op) : run(g, op);
    gram_cuda_leave(g->device, entered);
    return status;
}

gram_status cuda_kernel_matmul(gram_context *g, const struct gram_kernel_matmul_op *op)
{
    struct gram_kernel_matmul_op rows = *op;

    return is_empty(op) ? GRAM_OK : cuda_metric_call(g, &rows.kernel, run_call, &rows);
}

/*
 * cuda_natural_gradient.c - gram_natural_gradient on the device: by the smaller of two Gram
 * matrices
 *
 * As on the CPU, with J the N by P gradients and l the damping:
 *   P <= N: (J^T J / N + l I) out = v                       by Cholesky
 *   P > N:  (J J^T / N + l I) s = J v                       by Cholesky
 *           out = (v - J^T s / N) / l                       (Sherman, Morrison, Woodbury)
 *
 * Amari, Natural gradient works efficiently in learning, Neural Computation 1998.
 *
 * All of it is operations of the backend, whose scratch is a piece of this one's.  Nothing waits:
 * info says which items have failed, and out of such an item is NaN, as the solve leaves it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/scratch.h"
#include "cuda/arena.h"
#include "cuda/cuda_ops.h"
#include "cuda/device_view.h"
#include "kfac_params.h"

static const struct cuda_kernel natural_shift = {"natural_gradient.cu", "natural_shift"};
static const struct cuda_kernel natural_finish = {"natural_gradient.cu", "natural_finish"};

enum {
    MOST_BLOCKS = 1 << 16 /* beyond these, blocks loop */
};

struct natural_job {
    const struct gram_natural_gradient_op *op;
    bool wide;                              /* more columns than rows */
    bool empty;                             /* J has no rows, or no columns: nothing is solved */
    struct gram_matmul_batched_op gram;     /* K */
    struct gram_matmul_batched_op down, up; /* wide: J v, J^T s */
    struct gram_solve_op solve;
    /* Scratch: K, then J v and J^T s if there are more columns than rows, and what parts take. */
    void *matrices, *right, *projected, *inner;
    size_t inner_bytes;
};

/* The vector that a view of one row is, as a column. */
static struct gram_view column_of(const struct gram_view *v)
{
    struct gram_view column = *v;

    column.rows = v->cols;
    column.row_stride = v->col_stride;
    column.cols = 1;
    column.col_stride = 1;
    return column;
}

/* rows by cols matrices in scratch, one for each item of the batch. */
static struct gram_view dense(const struct natural_job *job, void *scratch, int64_t rows,
                              int64_t cols)
{
    return cuda_dense_view(scratch, job->op->v.dtype, &job->op->batch, rows, cols);
}

static struct gram_view transposed(struct gram_view v)
{
    gram_view_transpose(&v);
    return v;
}

/* Describes the parts; before the scratch is there they are only measured. */
static void describe_parts(struct natural_job *job)
{
    const struct gram_natural_gradient_op *op = job->op;
    const struct gram_view *j = &op->gradients, swapped = transposed(*j);
    const int64_t n = gram_least(j->rows, j->cols);

    job->gram = (struct gram_matmul_batched_op){
        .batch = op->batch,
        .a = job->wide ? *j : swapped,
        .b = job->wide ? swapped : *j,
        .out = dense(job, job->matrices, n, n),
        .alpha.value = 1 / (double)j->rows,
    };
    job->solve = (struct gram_solve_op){
        .batch = op->batch,
        .a = job->gram.out,
        .b = job->wide ? dense(job, job->right, n, 1) : column_of(&op->v),
        .x = job->wide ? dense(job, job->right, n, 1) : column_of(&op->out),
        .info = op->info,
        .has_info = op->has_info,
        .x_is_b = job->wide || op->v.data == op->out.data,
        .uplo = GRAM_LOWER,
    };
    job->down = (struct gram_matmul_batched_op){
        .batch = op->batch,
        .a = *j,
        .b = column_of(&op->v),
        .out = job->solve.x,
        .alpha.value = 1,
    };
    job->up = (struct gram_matmul_batched_op){
        .batch = op->batch,
        .a = swapped,
        .b = job->solve.x,
        .out = dense(job, job->projected, j->cols, 1),
        .alpha.value = 1,
    };
}

/* The parts run one after the other, so that they share memory as large as the largest takes. */
static gram_status measure_parts(gram_context *g, struct natural_job *job)
{
    size_t bytes;

    TRY(gram_measure(g, &job->inner_bytes, cuda_matmul_batched(g, &job->gram)));
    TRY(gram_measure(g, &bytes, cuda_solve_cholesky(g, &job->solve)));
    job->inner_bytes = gram_most_bytes(job->inner_bytes, bytes);
    if (job->wide) {
        TRY(gram_measure(g, &bytes, cuda_matmul_batched(g, &job->down)));
        job->inner_bytes = gram_most_bytes(job->inner_bytes, bytes);
        TRY(gram_measure(g, &bytes, cuda_matmul_batched(g, &job->up)));
        job->inner_bytes = gram_most_bytes(job->inner_bytes, bytes);
    }
    return GRAM_OK;
}

/* Chooses the smaller Gram matrix, and refuses what cuBLAS or the memory cannot hold. */
static gram_status make_job(gram_context *g, const struct gram_natural_gradient_op *op,
                            struct natural_job *job)
{
    int64_t rows = op->gradients.rows, cols = op->gradients.cols, n = gram_least(rows, cols);
    size_t count = (size_t)op->batch.count, size = gram_dtype_size(op->v.dtype), most;
    int64_t elements;

    *job = (struct natural_job){.op = op, .wide = cols > rows, .empty = rows == 0 || cols == 0};
    if (job->empty)
        return GRAM_OK;
    if (rows > INT32_MAX || cols > INT32_MAX)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "gradients is %lld by %lld, but cuBLAS takes sizes of at most %d",
                         (long long)rows, (long long)cols, INT32_MAX);
    if (__builtin_mul_overflow(n, gram_most(n, cols), &elements) ||
        __builtin_mul_overflow((size_t)elements, count, &most) || most > SIZE_MAX / 16 / size)
        return gram_fail(g, GRAM_OUT_OF_MEMORY,
                         "the size of the Gram matrices of gradients overflows");
    return GRAM_OK;
}

/* The parts are described twice: first to measure what they take, then with their addresses. */
static gram_status lay_out(gram_context *g, struct natural_job *job)
{
    const struct gram_view *j = &job->op->gradients;
    const size_t n = (size_t)gram_least(j->rows, j->cols), cols = (size_t)j->cols;
    const size_t items = (size_t)job->op->batch.count * gram_dtype_size(job->op->v.dtype);
    struct gram_layout layout = {0};

    describe_parts(job);
    TRY(measure_parts(g, job));
    gram_take(&layout, &job->matrices, items * n * n);
    gram_take(&layout, &job->right, job->wide ? items * n : 0);
    gram_take(&layout, &job->projected, job->wide ? items * cols : 0);
    gram_take(&layout, &job->inner, job->inner_bytes);
    TRY(gram_layout_open(g, &layout));
    describe_parts(job);
    return GRAM_OK;
}

/* One of the kernels, over n elements of each item.  info: it sets these to 0 too, or NULL. */
static gram_status launch(gram_context *g, const struct natural_job *job,
                          const struct cuda_kernel *kernel, int64_t n, const struct gram_view *info)
{
    const struct gram_natural_gradient_op *op = job->op;
    struct natural_params p = {
        .count = op->batch.count,
        .blocks = gram_most(1, gram_ceil_div(n, NATURAL_THREADS)),
        .n = n,
        .gram = job->gram.out.data,
        .turned = job->empty ? NULL : job->up.out.data,
        .rows = (double)gram_most(op->gradients.rows, 1),
        .v = cuda_device_view(&op->v),
        .out = cuda_device_view(&op->out),
        .damping = cuda_device_number(&op->damping),
    };

    cuda_set_batch(&op->batch, &p.ndim, p.shape);
    for (int d = 0; info && d < GRAM_MAX_DIMS; d++)
        p.info.batch_stride[d] = info->batch_stride[d];
    p.info.data = info ? info->data : NULL;
    return cuda_launch_plain(g, kernel, op->v.dtype,
                             p.count > MOST_BLOCKS / p.blocks ? MOST_BLOCKS : p.count * p.blocks,
                             NATURAL_THREADS, &p);
}

/* The order of the parts is that of the formulas above. */
static gram_status run_parts(gram_context *g, struct natural_job *job)
{
    TRY(cuda_matmul_batched(g, &job->gram));
    TRY(launch(g, job, &natural_shift, job->gram.out.rows, NULL));
    if (job->wide)
        TRY(cuda_matmul_batched(g, &job->down));
    TRY(cuda_solve_cholesky(g, &job->solve));
    if (!job->wide)
        return GRAM_OK;
    TRY(cuda_matmul_batched(g, &job->up));
    return launch(g, job, &natural_finish, job->op->v.cols, NULL);
}

static gram_status run(gram_context *g, struct natural_job *job)
{
    struct gram_scratch_before before;
    gram_status status;

    if (job->empty)
        return launch(g, job, &natural_finish, job->op->v.cols,
                      job->op->has_info ? &job->op->info : NULL);
    TRY(lay_out(g, job));
    gram_scratch_lend(g, job->inner, job->inner_bytes, &before);
    status = run_parts(g, job);
    gram_scratch_return(g, &before);
    return status;
}

gram_status cuda_natural_gradient(gram_context *g, const struct gram_natural_gradient_op *op)
{
    struct natural_job job;
    gram_status status;
    bool entered;

    if (op->batch.count == 0)
        return GRAM_OK;
    TRY(gram_cuda_check_pointer(g, "gradients", &op->gradients));
    TRY(gram_cuda_check_pointer(g, "v", &op->v));
    TRY(gram_cuda_check_pointer(g, "out", &op->out));
    TRY(gram_cuda_check_pointer(g, "damping", &op->damping.tensor));
    if (op->has_info)
        TRY(gram_cuda_check_pointer(g, "info", &op->info));
    TRY(make_job(g, op, &job));
    entered = gram_cuda_enter(g->device);
    status = run(g, &job);
    gram_cuda_leave(g->device, entered);
    return status;
}

/*
 * cuda_kernel_vjp_block.c - a block of the kernel matrix as operations of its own
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kernel_vjp.h"

bool cuda_vjp_next(struct vjp_job *job)
{
    struct vjp_block *b = &job->block;
    int64_t m = job->kernel.x.rows, n = job->kernel.y.rows;
    bool first = b->rows == 0 && b->cols == 0;

    if (!first) {
        b->j += b->cols;
        if (b->j >= n)
            b->i += b->rows, b->j = 0;
        if (b->i >= m)
            return false;
    }
    b->rows = m - b->i < job->block_rows ? m - b->i : job->block_rows;
    b->cols = n - b->j < job->block_cols ? n - b->j : job->block_cols;
    return b->rows > 0 || b->cols > 0; /* once without rows or without columns: zeros */
}

/* ---- Parts as operations ----------------------------------------------------------------------
 */

static char *row_of(const struct gram_view *v, int64_t row)
{
    return v->data ? v->data + row * v->row_stride * (int64_t)gram_dtype_size(v->dtype) : NULL;
}

/* The block's rows of x and y as a kernel of their own, with its result in scratch. */
static struct gram_cdist_op kernel_of(const struct vjp_job *job, gram_kernel_output output)
{
    const struct vjp_block *b = &job->block;
    struct gram_cdist_op op = job->kernel;

    op.symmetric = false;
    op.output = output;
    op.regularization = (struct gram_hyper){.value = 0};
    op.x.data = row_of(&op.x, b->i), op.y.data = row_of(&op.y, b->j);
    op.x.rows = b->rows, op.y.rows = b->cols;
    op.out = (struct gram_view){.data = job->scratch,
                                .dtype = op.x.dtype,
                                .planes = 1,
                                .rows = b->rows,
                                .cols = b->cols,
                                .row_stride = b->cols,
                                .col_stride = 1};
    return op;
}

/* Rows [first, first + rows) of a matrix, transposed. */
static struct gram_view turned(const struct gram_view *v, int64_t first, int64_t rows)
{
    struct gram_view t = *v;

    t.planes = 1;
    t.rows = v->cols, t.cols = rows;
    t.row_stride = v->col_stride, t.col_stride = v->row_stride;
    t.data = row_of(v, first);
    return t;
}

/* The number which, 1, -1 or 0, seen as a matrix. */
static struct gram_view constant(const struct vjp_job *job, int which, int64_t rows, int64_t cols)
{
    int place = which == 1 ? 0 : which == -1 ? 1 : 2;

    return (struct gram_view){
        .data = job->scratch ? job->scratch + job->constants + (size_t)place * job->element : NULL,
        .dtype = job->kernel.x.dtype,
        .planes = 1,
        .rows = rows,
        .cols = cols};
}

/* What the block's weights contribute to the gradient of x, or of y. */
static struct gram_cdist_grad_op gradient_of(const struct vjp_job *job, bool of_x)
{
    const struct gram_cdist_op *k = &job->kernel;
    const struct vjp_block *b = &job->block;
    bool dot = k->inner == GRAM_DOT;
    const struct gram_view weights = {.data = job->scratch,
                                      .dtype = k->x.dtype,
                                      .planes = 1,
                                      .rows = b->rows,
                                      .cols = b->cols,
                                      .row_stride = b->cols,
                                      .col_stride = 1};
    struct gram_cdist_grad_op op = {
        .batch = {.count = 1},
        .a = of_x ? turned(&weights, 0, b->rows) : weights,
        .b = of_x ? turned(&k->y, b->j, b->cols) : turned(&k->x, b->i, b->rows),
        .c = constant(job, dot ? -1 : 1, 1, of_x ? b->cols : b->rows),
        .d = of_x ? turned(&k->x, b->i, b->rows) : turned(&k->y, b->j, b->cols),
        .out = of_x ? turned(&job->to_x, b->i, b->rows) : turned(&job->to_y, b->j, b->cols),
        .p = k->p,
    };

    if (dot) {
        op.d = constant(job, 0, op.d.rows, op.d.cols);
        op.p = (struct gram_hyper){.value = 2};
    }
    return op;
}

gram_status cuda_vjp_kernel(const struct vjp_job *job, gram_kernel_output output)
{
    const struct gram_cdist_op op = kernel_of(job, output);

    return cuda_cdist_queue(job->g, &op);
}

gram_status cuda_vjp_gradients(const struct vjp_job *job)
{
    const struct gram_view *wanted[] = {&job->to_y, &job->to_x};

    for (int of_x = 0; of_x < 2; of_x++) {
        struct gram_cdist_grad_op op = gradient_of(job, of_x);
        bool add = of_x ? job->block.j > 0 : job->block.i > 0;
        struct cuda_grad_plan plan;
        if (!wanted[of_x]->data)
            continue;
        cuda_cdist_grad_plan(&op, add, job->processors, &plan);
        TRY(cuda_cdist_grad_queue(job->g, &plan, job->scratch + job->more));
    }
    return GRAM_OK;
}

size_t cuda_vjp_block_workspace(const struct vjp_job *job, const struct gram_kernel_vjp_op *op)
{
    const bool wanted[] = {op->want_y, op->want_x};
    size_t most = 0;

    for (int of_x = 0; of_x < 2; of_x++) {
        const struct gram_cdist_grad_op grad = gradient_of(job, of_x);
        struct cuda_grad_plan plan;
        cuda_cdist_grad_plan(&grad, false, job->processors, &plan);
        if (wanted[of_x] && plan.bytes > most)
            most = plan.bytes;
    }
    return most;
}

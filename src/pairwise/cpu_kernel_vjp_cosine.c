/*
 * cpu_kernel_vjp_cosine.c - vector-Jacobian products of k = x . y / (|x| |y|)
 *
 *   d k / d x = y / (|x| |y|) - k x / |x|^2,   y alike
 *
 * so the gradient of row i of x is sum_j w[i, j] y[j] - r[i] x[i] / |x[i]|^2 with weights
 * w[i, j] = grad[i, j] / (|x[i]| |y[j]|) and r[i] = sum_j grad[i, j] k[i, j]; that of y has the
 * sums over rows.  Where a norm is 0 the kernel is 0 and so is the gradient.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/threads.h"
#include "cpu_kernel_vjp.h"

/* Norms and sums of x's rows, then of y's, after the sums of a block. */
struct cosine {
    struct vjp_job *job;
    double *x_norm, *x_sum, *y_norm, *y_sum;
};

int64_t cpu_vjp_cosine_doubles(const struct gram_cdist_op *kernel)
{
    return 2 * (kernel->x.rows + kernel->y.rows);
}

static void find_norms(const struct vjp_job *job, const struct gram_view *v, double *norm,
                       double *sum)
{
    for (int64_t i = 0; i < v->rows; i++) {
        norm[i] = v->cols ? job->each->norm(vjp_row_of(job, v, i), v->col_stride, v->cols) : 0;
        sum[i] = 0;
    }
}

/* A row of the block from kernel to weights; its sums of grad times kernel. */
static void weigh_row(void *arg, int64_t row, int thread)
{
    const struct cosine *c = arg;
    const struct vjp_job *job = c->job;
    const struct vjp_block *b = &job->block;
    void *w = vjp_row(job, row);

    (void)thread;
    c->x_sum[b->i + row] +=
        job->each->grad_sum(w, vjp_grad_row(job, row), job->grad.col_stride, b->cols);
    job->each->times_grad(w, vjp_grad_row(job, row), job->grad.col_stride, b->cols);
}

static void divide_row(void *arg, int64_t row, int thread)
{
    const struct cosine *c = arg;
    const struct vjp_job *job = c->job;

    (void)thread;
    job->each->cosine_row(vjp_row(job, row), vjp_grad_row(job, row), job->grad.col_stride,
                          c->x_norm[job->block.i + row], c->y_norm + job->block.j, job->block.cols);
}

/* The products grad times kernel are in the block: their sums down the columns. */
static void sum_columns(const struct cosine *c)
{
    const struct vjp_block *b = &c->job->block;
    bool f32 = c->job->element == sizeof(float);

    for (int64_t i = 0; i < b->rows; i++) {
        const void *row = vjp_row(c->job, i);
        double *sum = c->y_sum + b->j;
        for (int64_t j = 0; j < b->cols; j++)
            sum[j] += f32 ? (double)((const float *)row)[j] : ((const double *)row)[j];
    }
}

static void correct(const struct vjp_job *job, const struct gram_view *to,
                    const struct gram_view *v, const double *norm, const double *sum)
{
    for (int64_t i = 0; to->data && i < v->rows; i++)
        if (norm[i] != 0)
            job->each->cosine_correct(vjp_row_of(job, to, i), to->col_stride, vjp_row_of(job, v, i),
                                      v->col_stride, sum[i] / norm[i] / norm[i], v->cols);
}

void cpu_vjp_cosine(struct vjp_job *job)
{
    const struct gram_view *x = &job->kernel.x, *y = &job->kernel.y;
    struct cosine c = {.job = job, .x_norm = vjp_sums(job) + job->block_rows};

    c.x_sum = c.x_norm + x->rows;
    c.y_norm = c.x_sum + x->rows;
    c.y_sum = c.y_norm + y->rows;
    find_norms(job, x, c.x_norm, c.x_sum);
    find_norms(job, y, c.y_norm, c.y_sum);
    while (vjp_next(job)) {
        cpu_vjp_kernel(job, GRAM_VALUE);
        gram_parallel_for(job->g, job->block.rows, weigh_row, &c);
        sum_columns(&c);
        gram_parallel_for(job->g, job->block.rows, divide_row, &c);
        cpu_vjp_gradients(job);
    }
    correct(job, &job->to_x, x, c.x_norm, c.x_sum);
    correct(job, &job->to_y, y, c.y_norm, c.y_sum);
}

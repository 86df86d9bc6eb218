/*
 * cuda_kernel_vjp_cosine.c - the gradients of the cosine k = x . y / (|x| |y|) on the device
 *
 *   d k / d x = y / (|x| |y|) - x k / |x|^2
 * The first part is that of an inner product with weights grad / (|x| |y|); the second takes from
 * each row x its sum of grad k over the other side, divided by |x|^2.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kernel_vjp.h"

/* Squares of norms and sums of grad k of each row of x, then of y, of the first item. */
struct cosine {
    double *x_squares, *x_sums, *y_squares, *y_sums;
};

int64_t cuda_vjp_cosine_doubles(const struct gram_cdist_op *kernel)
{
    return 2 * (kernel->x.rows + kernel->y.rows);
}

static gram_status find_squares(const struct vjp_job *job, const struct gram_view *v, double *to)
{
    const struct vjp_matrix m = cuda_vjp_matrix(v, 0, 0);

    return cuda_vjp_sum(job, (struct vjp_sums_params){.u = m, .v = m, .sums = to}, v->rows,
                        v->cols);
}

/* A block of k is in scratch. */
static gram_status add_sums(const struct vjp_job *job, const struct cosine *c)
{
    const struct vjp_block *b = &job->block;
    const struct vjp_matrix k = cuda_vjp_elements(job),
                            grad = cuda_vjp_matrix(&job->grad, b->i, b->j);

    TRY(cuda_vjp_sum(
        job, (struct vjp_sums_params){.u = k, .v = grad, .sums = c->x_sums + b->i, .add = b->j > 0},
        b->rows, b->cols));
    return cuda_vjp_sum(job,
                        (struct vjp_sums_params){.u = cuda_vjp_transposed(k),
                                                 .v = cuda_vjp_transposed(grad),
                                                 .sums = c->y_sums + b->j,
                                                 .add = b->i > 0},
                        b->cols, b->rows);
}

gram_status cuda_vjp_cosine(struct vjp_job *job)
{
    const struct gram_view *x = &job->kernel.x, *y = &job->kernel.y;
    struct cosine c = {.x_squares = (double *)(job->scratch + job->sums) + x->rows};
    bool empty = x->rows == 0 || y->rows == 0;

    c.x_sums = c.x_squares + x->rows;
    c.y_squares = c.x_sums + x->rows;
    c.y_sums = c.y_squares + y->rows;
    TRY(find_squares(job, x, c.x_squares));
    TRY(find_squares(job, y, c.y_squares));
    while (cuda_vjp_next(job)) {
        TRY(cuda_vjp_kernel(job, GRAM_VALUE));
        TRY(add_sums(job, &c));
        TRY(cuda_vjp_weigh(job, c.x_squares, c.y_squares));
        TRY(cuda_vjp_gradients(job));
    }
    if (empty)
        return GRAM_OK; /* the gradients are 0, and there are no sums */
    TRY(cuda_vjp_correct(job, &job->to_x, x, c.x_sums, c.x_squares));
    return cuda_vjp_correct(job, &job->to_y, y, c.y_sums, c.y_squares);
}

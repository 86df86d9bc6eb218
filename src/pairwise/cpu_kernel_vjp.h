/*
 * cpu_kernel_vjp.h - the pieces of gram_kernel_vjp on the CPU: a block of the kernel matrix
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_KERNEL_VJP_H
#define GRAM_CPU_KERNEL_VJP_H
#include "cpu/cpu.h"
#include "kernel_vjp.h"

/* One row at a time; steps are strides in elements, the rows of a block have step 1. */
struct vjp_rows {
    void (*times_grad)(void *row, const void *grad, int64_t step, int64_t n);
    void (*zero)(void *row, int64_t step, int64_t n);
    /* the sum of row times grad; row NULL: of grad */
    double (*grad_sum)(const void *row, const void *grad, int64_t step, int64_t n);
    double (*norm)(const void *row, int64_t step, int64_t n);
    /* row[j] = grad[j] / (norm norms[j]), 0 where that is 0 */
    void (*cosine_row)(void *row, const void *grad, int64_t step, double norm, const double *norms,
                       int64_t n);
    /* to -= factor row */
    void (*cosine_correct)(void *to, int64_t to_step, const void *row, int64_t step, double factor,
                           int64_t n);
};

const struct vjp_rows *cpu_vjp_rows(gram_dtype dtype);

/* One item's work.  Views are of the item; data NULL: not wanted. */
struct vjp_job {
    gram_context *g;
    struct gram_cdist_op kernel; /* of the item */
    struct gram_view grad, to_x, to_y;
    const struct vjp_rows *each;
    size_t element;
    int64_t block_rows, block_cols;
    /* Scratch: the block's elements; a sum and, for the cosine, more doubles for each row and
     * column; what the parts need themselves. */
    size_t sums, more, total;
    char *scratch;
    struct vjp_block block;
};

/* cpu_kernel_vjp_cosine.c: adds the gradients of one item to to_x and to_y, which are 0. */
void cpu_vjp_cosine(struct vjp_job *job);
/* Doubles it needs beyond the sums of a block's rows. */
int64_t cpu_vjp_cosine_doubles(const struct gram_cdist_op *kernel);

/* The block's kernel (of the given output) into scratch. */
void cpu_vjp_kernel(struct vjp_job *job, gram_kernel_output output);
/* Adds what the block's weights in scratch give to to_x and to_y. */
void cpu_vjp_gradients(struct vjp_job *job);

static inline void *vjp_row(const struct vjp_job *job, int64_t row)
{
    return job->scratch + (size_t)(row * job->block.cols) * job->element;
}

/* Element [row][0] of a view. */
static inline char *vjp_row_of(const struct vjp_job *job, const struct gram_view *v, int64_t row)
{
    return v->data + row * v->row_stride * (int64_t)job->element;
}

/* grad at the block's row and first column. */
static inline const void *vjp_grad_row(const struct vjp_job *job, int64_t row)
{
    return vjp_row_of(job, &job->grad, job->block.i + row) +
           job->block.j * job->grad.col_stride * (int64_t)job->element;
}

static inline double *vjp_sums(const struct vjp_job *job)
{
    return (double *)(job->scratch + job->sums);
}

/* The next block in the order of rows, columns inside; false after the last. */
static inline bool vjp_next(struct vjp_job *job)
{
    int64_t m = job->kernel.x.rows, n = job->kernel.y.rows;
    struct vjp_block *b = &job->block;

    if (b->rows == 0)
        b->i = b->j = 0;
    else if (b->j + b->cols < n)
        b->j += b->cols;
    else
        b->i += b->rows, b->j = 0;
    if (b->i >= m || b->j >= n) {
        b->rows = 0;
        return false;
    }
    b->rows = m - b->i < job->block_rows ? m - b->i : job->block_rows;
    b->cols = n - b->j < job->block_cols ? n - b->j : job->block_cols;
    return true;
}
#endif

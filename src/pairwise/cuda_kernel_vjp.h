/*
 * cuda_kernel_vjp.h - the pieces of gram_kernel_vjp on the device: a block of the kernel matrix
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_KERNEL_VJP_H
#define GRAM_CUDA_KERNEL_VJP_H
#include "cuda_cdist_grad.h"
#include "kernel_vjp.h"
#include "vjp_params.h"

/* The work of a round of items (gram_round_at): kernel.batch.  Views are of its first item; data
 * NULL: not wanted. */
struct vjp_job {
    gram_context *g;
    int processors;
    struct gram_cdist_op kernel;
    struct gram_view grad, to_x, to_y;
    size_t element;
    int64_t block_rows, block_cols;
    /* Scratch: the elements of each item's block, the numbers 1, -1, 0, doubles for each item (one
     * for each row of x, for the cosine three and two for each row of y), what the parts need. */
    size_t constants, sums, more, total;
    int64_t doubles; /* of an item */
    char *scratch;
    struct vjp_block block;
};

/* cuda_kernel_vjp_parts.c: each queues one kernel. */

struct vjp_matrix cuda_vjp_matrix(const struct gram_view *v, int64_t i, int64_t j);
struct vjp_matrix cuda_vjp_transposed(struct vjp_matrix m);
/* The blocks' elements in scratch. */
struct vjp_matrix cuda_vjp_elements(const struct vjp_job *job);

/* sums[i] = or += the sum over j of u[i][j] v[i][j], for i < rows and j < cols of each item; sums
 * is the first item's, in its doubles */
gram_status cuda_vjp_sum(const struct vjp_job *job, struct vjp_sums_params params, int64_t rows,
                         int64_t cols);
/* The sum of an item's count sums to the number that v is. */
gram_status cuda_vjp_number(const struct vjp_job *job, const struct gram_view *v,
                            const double *sums, int64_t count);
/* The blocks' elements times grad, or the cosine's share; the squares are of the first row of x and
 * of y, or NULL. */
gram_status cuda_vjp_weigh(const struct vjp_job *job, const double *x_squares,
                           const double *y_squares);
gram_status cuda_vjp_correct(const struct vjp_job *job, const struct gram_view *to,
                             const struct gram_view *x, const double *sums, const double *squares);

/* cuda_kernel_vjp_block.c */

/* The block's kernel (of the given output) into scratch. */
gram_status cuda_vjp_kernel(const struct vjp_job *job, gram_kernel_output output);
/* Adds what the block's weights in scratch give to to_x and to_y; a first block sets them. */
gram_status cuda_vjp_gradients(const struct vjp_job *job);
/* Moves on to the next block; from {0} to the first.  False at the end. */
bool cuda_vjp_next(struct vjp_job *job);
/* Scratch that the parts of the job's block need. */
size_t cuda_vjp_block_workspace(const struct vjp_job *job, const struct gram_kernel_vjp_op *op);

/* cuda_kernel_vjp_cosine.c: the gradients with respect to x and y. */
gram_status cuda_vjp_cosine(struct vjp_job *job);
/* Doubles of an item that it needs behind the sums. */
int64_t cuda_vjp_cosine_doubles(const struct gram_cdist_op *kernel);
#endif

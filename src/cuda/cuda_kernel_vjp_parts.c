/*
 * cuda_kernel_vjp_parts.c - the launches of gram_kernel_vjp's small kernels
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kernel_vjp.h"

enum {
    THREADS = 256, /* of every kernel here */
    BLOCKS = 4096, /* enough for every processor */
};

static gram_status launch(const struct vjp_job *job, enum cuda_variant_file file, int64_t blocks,
                          void *params)
{
    if (blocks > BLOCKS)
        blocks = BLOCKS;
    return blocks == 0
               ? GRAM_OK
               : gram_cuda_launch_plain(job->g, file, job->kernel.x.dtype, blocks, THREADS, params);
}

struct vjp_matrix cuda_vjp_matrix(const struct gram_view *v, int64_t i, int64_t j)
{
    struct vjp_matrix m = {
        .data = v->data, .row_stride = v->row_stride, .col_stride = v->col_stride};

    if (m.data)
        m.data += (i * v->row_stride + j * v->col_stride) * (int64_t)gram_dtype_size(v->dtype);
    return m;
}

struct vjp_matrix cuda_vjp_transposed(struct vjp_matrix m)
{
    return (struct vjp_matrix){
        .data = m.data, .row_stride = m.col_stride, .col_stride = m.row_stride};
}

struct vjp_matrix cuda_vjp_elements(const struct vjp_job *job)
{
    return (struct vjp_matrix){
        .data = job->scratch, .row_stride = job->block.cols, .col_stride = 1};
}

gram_status cuda_vjp_sum(const struct vjp_job *job, struct vjp_sums_params params)
{
    return launch(job, CUDA_VARIANT_VJP_SUMS, params.rows, &params);
}

gram_status cuda_vjp_number(const struct vjp_job *job, const struct gram_view *v,
                            const double *sums, int64_t count)
{
    struct vjp_number_params params = {.sums = sums, .out = v->data, .count = count};

    return launch(job, CUDA_VARIANT_VJP_NUMBER, 1, &params);
}

gram_status cuda_vjp_weigh(const struct vjp_job *job, const double *x_squares,
                           const double *y_squares)
{
    const struct vjp_block *b = &job->block;
    struct vjp_weigh_params params = {
        .w = cuda_vjp_elements(job),
        .grad = cuda_vjp_matrix(&job->grad, b->i, b->j),
        .x_squares = x_squares ? x_squares + b->i : NULL,
        .y_squares = y_squares ? y_squares + b->j : NULL,
        .constants = job->scratch + job->constants,
        .rows = b->rows,
        .cols = b->cols,
    };

    return launch(job, CUDA_VARIANT_VJP_WEIGH, b->cols > 0 ? b->rows : 0, &params);
}

gram_status cuda_vjp_correct(const struct vjp_job *job, const struct gram_view *to,
                             const struct gram_view *x, const double *sums, const double *squares)
{
    struct vjp_correct_params params = {
        .to = cuda_vjp_matrix(to, 0, 0),
        .x = cuda_vjp_matrix(x, 0, 0),
        .sums = sums,
        .squares = squares,
        .rows = x->rows,
        .cols = x->cols,
    };

    return to->data ? launch(job, CUDA_VARIANT_VJP_CORRECT, x->cols > 0 ? x->rows : 0, &params)
                    : GRAM_OK;
}

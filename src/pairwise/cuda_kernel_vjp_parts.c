/*
 * cuda_kernel_vjp_parts.c - the launches of gram_kernel_vjp's small kernels
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kernel_vjp.h"

enum {
    BLOCKS = 4096, /* enough for every processor */
    WARP = 32,     /* lanes at least of a row that is summed */
    FEW = 8,       /* and of another one */
};

/* A row's lanes have at most this many elements before there are more lanes. */
static const int64_t elements_of_a_lane = 16;

/* Rows of the round's items; a long one takes a whole block. */
static struct vjp_rows rows_of(const struct vjp_job *job, int64_t rows, int64_t cols, int64_t lanes)
{
    const struct gram_batch *batch = &job->kernel.batch;
    struct vjp_rows of = {
        .items = batch->count, .ndim = batch->ndim, .rows = rows, .cols = cols, .lanes = lanes};

    for (int d = 0; d < batch->ndim; d++)
        of.shape[d] = batch->shape[d];
    while (of.lanes < VJP_THREADS && of.lanes * elements_of_a_lane < cols)
        of.lanes *= 2;
    return of;
}

static gram_status launch(const struct vjp_job *job, enum cuda_variant_file file,
                          const struct vjp_rows *of, void *params)
{
    const int64_t blocks = gram_ceil_div(of->items * of->rows, VJP_THREADS / of->lanes);

    return blocks == 0 ? GRAM_OK
                       : gram_cuda_launch_plain(job->g, file, job->kernel.x.dtype,
                                                gram_least(blocks, BLOCKS), VJP_THREADS, params);
}

struct vjp_matrix cuda_vjp_matrix(const struct gram_view *v, int64_t i, int64_t j)
{
    struct vjp_matrix m = {
        .data = v->data, .row_stride = v->row_stride, .col_stride = v->col_stride};

    for (int d = 0; d < GRAM_MAX_DIMS; d++)
        m.batch_stride[d] = v->batch_stride[d];
    if (m.data)
        m.data += (i * v->row_stride + j * v->col_stride) * (int64_t)gram_dtype_size(v->dtype);
    return m;
}

struct vjp_matrix cuda_vjp_transposed(struct vjp_matrix m)
{
    const long long stride = m.row_stride;

    m.row_stride = m.col_stride, m.col_stride = stride;
    return m;
}

struct vjp_matrix cuda_vjp_elements(const struct vjp_job *job)
{
    const struct gram_view dense = gram_view_dense_items(
        job->scratch, job->kernel.x.dtype, job->block.rows, job->block.cols, &job->kernel.batch);

    return cuda_vjp_matrix(&dense, 0, 0);
}

gram_status cuda_vjp_sum(const struct vjp_job *job, struct vjp_sums_params params, int64_t rows,
                         int64_t cols)
{
    params.of = rows_of(job, rows, cols, WARP);
    params.step = job->doubles;
    return launch(job, CUDA_VARIANT_VJP_SUMS, &params.of, &params);
}

gram_status cuda_vjp_number(const struct vjp_job *job, const struct gram_view *v,
                            const double *sums, int64_t count)
{
    struct vjp_number_params params = {.of = rows_of(job, 1, count, WARP),
                                       .sums = sums,
                                       .out = cuda_vjp_matrix(v, 0, 0),
                                       .step = job->doubles};

    return launch(job, CUDA_VARIANT_VJP_NUMBER, &params.of, &params);
}

gram_status cuda_vjp_weigh(const struct vjp_job *job, const double *x_squares,
                           const double *y_squares)
{
    const struct vjp_block *b = &job->block;
    struct vjp_weigh_params params = {
        .of = rows_of(job, b->cols > 0 ? b->rows : 0, b->cols, FEW),
        .w = cuda_vjp_elements(job),
        .grad = cuda_vjp_matrix(&job->grad, b->i, b->j),
        .x_squares = x_squares ? x_squares + b->i : NULL,
        .y_squares = y_squares ? y_squares + b->j : NULL,
        .step = job->doubles,
        .constants = job->scratch + job->constants,
    };

    return launch(job, CUDA_VARIANT_VJP_WEIGH, &params.of, &params);
}

gram_status cuda_vjp_correct(const struct vjp_job *job, const struct gram_view *to,
                             const struct gram_view *x, const double *sums, const double *squares)
{
    struct vjp_correct_params params = {
        .of = rows_of(job, x->cols > 0 ? x->rows : 0, x->cols, FEW),
        .to = cuda_vjp_matrix(to, 0, 0),
        .x = cuda_vjp_matrix(x, 0, 0),
        .sums = sums,
        .squares = squares,
        .step = job->doubles,
    };

    return to->data ? launch(job, CUDA_VARIANT_VJP_CORRECT, &params.of, &params) : GRAM_OK;
}

/*
 * cuda_kernel_reduce_vjp.c - gradients of soft sums of the rows of a kernel matrix on the device
 *
 * As on the CPU (cpu_kernel_reduce_vjp.c): the blocks of cuda_kernel_vjp.c are gone through, and
 * kernel_vjp.cu makes weights and the cotangent of K of a block of K and one of grad v^T.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kernel_reduce_vjp.h"
#include "cuda/arena.h"
#include "cuda_cdist.h"
#include "pairwise.h"

static const struct cuda_kernel kernel_vjp_soften = {"kernel_reduce_vjp.cu", "kernel_vjp_soften"},
                                kernel_vjp_scale = {"kernel_reduce_vjp.cu", "kernel_vjp_scale"},
                                kernel_vjp_store = {"kernel_reduce_vjp.cu", "kernel_vjp_store"},
                                kernel_vjp_number = {"kernel_vjp.cu", "kernel_vjp_number"},
                                kernel_vjp_sums = {"kernel_vjp.cu", "kernel_vjp_sums"};

/* ---- Descriptions --------------------------------------------------------------------------- */

int64_t cuda_soft_doubles(const struct gram_kernel_vjp_op *op)
{
    return (op->soft.want_log_weights ? op->kernel.y.rows : 0) + 1;
}

void cuda_soft_begin(struct soft_vjp *soft, gram_context *g, const struct gram_kernel_vjp_op *op,
                     const struct gram_cdist_op *kernel, int64_t first)
{
    const struct gram_batch *batch = &op->kernel.batch;

    *soft = (struct soft_vjp){
        .g = g,
        .op = op,
        .kernel = *kernel,
        .grad = gram_view_alone(&op->grad, batch, first),
        .v = gram_view_alone(&op->v, batch, first),
        .to_v = gram_view_alone(&op->to_v, batch, first),
        .log_weights = gram_view_alone(&op->soft.log_weights, batch, first),
        .to_log_weights = gram_view_alone(&op->soft.to_log_weights, batch, first),
        .averages = gram_view_alone(&op->soft.averages, batch, first),
        .regularization = gram_view_alone(&op->regularization, batch, first),
        .sides = true,
    };
    if (op->soft.logarithms)
        soft->logarithms = op->soft.logarithms + first * kernel->x.rows;
}

static struct gram_cdist_grad_op v_gradient_of(const struct soft_vjp *soft,
                                               const struct vjp_block *b)
{
    const struct gram_cdist_op kernel = gram_soft_product(&soft->kernel, &soft->grad, &soft->v);

    return gram_vjp_gradient(&kernel, b, false, &soft->to_v, soft->at.elements, soft->at.constants);
}

gram_status cuda_soft_measure(const struct soft_vjp *soft, const struct vjp_block *b, size_t *bytes)
{
    const struct gram_cdist_grad_op of_v = v_gradient_of(soft, b);
    size_t own;

    if (!soft->op->want_v)
        return GRAM_OK;
    TRY(gram_measure(soft->g, &own, cuda_cdist_grad_queue(soft->g, &of_v, false)));
    *bytes = gram_most_bytes(*bytes, own);
    return GRAM_OK;
}

/* ---- A block -------------------------------------------------------------------------------- */

/* One of the two blocks in scratch. */
static struct device_view block_of(const struct soft_vjp *soft, const struct vjp_block *b,
                                   char *elements)
{
    const struct gram_view dense = gram_view_dense_items(elements, soft->kernel.x.dtype, b->rows,
                                                         b->cols, &soft->kernel.batch);

    return cuda_device_view(&dense);
}

static gram_status soften(const struct soft_vjp *soft, const struct vjp_block *b, double factor)
{
    const struct gram_soft_op *op = &soft->op->soft;
    struct vjp_soften_params params = {
        .of =
            cuda_vjp_rows(&soft->kernel.batch, b->cols > 0 ? b->rows : 0, b->cols, CUDA_VJP_LANES),
        .w = block_of(soft, b, soft->at.elements),
        .d = block_of(soft, b, soft->at.cotangent),
        .grad = cuda_device_view_at(&soft->grad, b->i, 0),
        .averages = cuda_device_view_at(&soft->averages, b->i, 0),
        .logarithms = soft->logarithms + b->i,
        .step = soft->kernel.x.rows,
        .is_logarithm = op->what == GRAM_REDUCE_LOGSUMEXP,
        .columns = soft->v.cols,
        .scale = op->scale,
        .factor = factor,
        .constants = soft->at.constants,
    };

    if (op->has_log_weights)
        params.log_weights = cuda_device_view_at(&soft->log_weights, 0, b->j);
    return cuda_vjp_launch(soft->g, &kernel_vjp_soften, soft->kernel.x.dtype, &params.of, &params);
}

static gram_status scale_block(const struct soft_vjp *soft, const struct vjp_block *b)
{
    struct vjp_scale_params params = {
        .of =
            cuda_vjp_rows(&soft->kernel.batch, b->cols > 0 ? b->rows : 0, b->cols, CUDA_VJP_LANES),
        .d = block_of(soft, b, soft->at.cotangent),
        .scale = soft->op->soft.scale,
    };

    return cuda_vjp_launch(soft->g, &kernel_vjp_scale, soft->kernel.x.dtype, &params.of, &params);
}

/* sums[i] = or += the sum of row i of a matrix of each item */
static gram_status add_sums(const struct soft_vjp *soft, struct vjp_sums_params params,
                            int64_t rows, int64_t cols)
{
    params.of = cuda_vjp_rows(&soft->kernel.batch, rows, cols, CUDA_VJP_SUM_LANES);
    params.step = soft->at.step;
    return cuda_vjp_launch(soft->g, &kernel_vjp_sums, soft->kernel.x.dtype, &params.of, &params);
}

/* Those of the columns of the cotangent. */
static gram_status add_columns(const struct soft_vjp *soft, const struct vjp_block *b)
{
    struct device_view columns = block_of(soft, b, soft->at.cotangent);
    const long long stride = columns.row_stride;

    columns.row_stride = columns.col_stride, columns.col_stride = stride;
    return add_sums(
        soft,
        (struct vjp_sums_params){.v = columns, .sums = soft->at.sums + 1 + b->j, .add = b->i > 0},
        b->cols, b->rows);
}

/* That of the cotangent where the regularization was added. */
static gram_status add_diagonal(const struct soft_vjp *soft, const struct vjp_block *b)
{
    const struct gram_cdist_op values = gram_soft_values(soft->op, &soft->kernel, b, NULL);
    const struct vjp_diagonal d = gram_vjp_diagonal(&values);
    const struct gram_view cotangent = gram_view_dense_items(
        soft->at.cotangent, soft->kernel.x.dtype, b->rows, b->cols, &soft->kernel.batch);
    struct device_view diagonal =
        d.count > 0 ? cuda_device_view_at(&cotangent, d.i, d.j) : cuda_device_view(&cotangent);

    diagonal.col_stride += diagonal.row_stride;
    return add_sums(
        soft,
        (struct vjp_sums_params){.v = diagonal, .sums = soft->at.sums, .add = b->i > 0 || b->j > 0},
        1, d.count);
}

gram_status cuda_soft_block(struct soft_vjp *soft, const struct vjp_block *b)
{
    const struct gram_kernel_vjp_op *op = soft->op;
    const struct gram_cdist_op values = gram_soft_values(op, &soft->kernel, b, soft->at.elements);
    const struct gram_cdist_grad_op of_v = v_gradient_of(soft, b);
    const bool later = soft->sides && op->soft.want_log_weights && op->soft.scale != 1;

    TRY(cuda_cdist_queue(soft->g, &values));
    TRY(soften(soft, b, later ? 1 : op->soft.scale));
    if (soft->sides && op->want_v)
        TRY(cuda_cdist_grad_in(soft->g, &of_v, b->i > 0, soft->at.inner, soft->at.inner_bytes));
    if (soft->sides && op->soft.want_log_weights)
        TRY(add_columns(soft, b));
    if (later)
        TRY(scale_block(soft, b));
    return soft->sides && op->want_regularization ? add_diagonal(soft, b) : GRAM_OK;
}

gram_status cuda_soft_end(struct soft_vjp *soft)
{
    const struct gram_kernel_vjp_op *op = soft->op;
    const gram_dtype dtype = soft->kernel.x.dtype;
    struct vjp_number_params params = {.step = soft->at.step};

    soft->sides = false;
    if (op->soft.want_log_weights) {
        params.of = cuda_vjp_rows(&soft->kernel.batch, soft->to_log_weights.cols, 1, 1);
        params.sums = soft->at.sums + 1, params.out = cuda_device_view(&soft->to_log_weights);
        TRY(cuda_vjp_launch(soft->g, &kernel_vjp_store, dtype, &params.of, &params));
    }
    if (!op->want_regularization)
        return GRAM_OK;
    /* Without pairs there were no blocks, and no sum. */
    params.of = cuda_vjp_rows(&soft->kernel.batch, 1,
                              soft->kernel.x.rows > 0 && soft->kernel.y.rows > 0 ? 1 : 0,
                              CUDA_VJP_SUM_LANES);
    params.sums = soft->at.sums, params.out = cuda_device_view(&soft->regularization);
    return cuda_vjp_launch(soft->g, &kernel_vjp_number, dtype, &params.of, &params);
}

/* ---- The call ------------------------------------------------------------------------------- */

gram_status cuda_kernel_reduce_vjp(gram_context *g, const struct gram_kernel_vjp_op *op)
{
    TRY(gram_cuda_check_pointer(g, "grads.v", &op->to_v));
    TRY(gram_cuda_check_pointer(g, "options.log_weights", &op->soft.log_weights));
    TRY(gram_cuda_check_pointer(g, "grads.log_weights", &op->soft.to_log_weights));
    return cuda_kernel_vjp(g, op);
}

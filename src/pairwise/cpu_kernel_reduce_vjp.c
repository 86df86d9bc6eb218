/*
 * cpu_kernel_reduce_vjp.c - gradients of soft sums of the rows of a kernel matrix on the CPU
 *
 * The blocks of cpu_kernel_vjp.c are gone through: a block of grad v^T and one of K in scratch
 * become the cotangent of K and the weights.  The first time, the weights times grad are added to
 * the gradient of v, which is that of an inner product, columns of the cotangent to that of the
 * log-weights, and its diagonal to that of the regularization.
 *
 * Exponents are subtracted in double, so that a weight has the error of its value alone.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_kernel_reduce_vjp.h"
#include "core/threads.h"
#include "cpu_cdist.h"
#include "pairwise.h"
#include <math.h>
#include <string.h>

enum {
    PIECE = 1024,  /* bytes of a row whose exponentials are found at a time */
    COLUMNS = 256, /* of a task that adds columns: a page of f32 is not shared by many */
    ALIGNED = 64
};

/* A row of a block. */
struct soft_row {
    void *values, *cotangent;
    const void *logs; /* log-weights of the block's columns; NULL: none */
    int64_t logs_stride;
    double scale, logarithm;
    double mean; /* grad times the average; of a logarithm grad */
    double factor;
    bool is_average;
};

#define TEMPLATE "pairwise/kernel_reduce_vjp_loops.h"
#define HALVES   0
#define INTEGERS 0
#include "cpu/each_dtype.h"

/* A block's work, for tasks. */
struct soft_job {
    struct soft_vjp *soft;
    const struct vjp_block *b;
    double factor;
};

/* ---- Descriptions --------------------------------------------------------------------------- */

static const void *numbers_of(gram_dtype dtype)
{
    static const float f32[VJP_NUMBERS] = {[VJP_ONE] = 1, [VJP_MINUS_ONE] = -1};
    static const double f64[VJP_NUMBERS] = {[VJP_ONE] = 1, [VJP_MINUS_ONE] = -1};

    return dtype == GRAM_F32 ? (const void *)f32 : (const void *)f64;
}

static struct gram_cdist_grad_op v_gradient_of(const struct soft_vjp *soft,
                                               const struct vjp_block *b)
{
    const struct gram_cdist_op kernel = gram_soft_product(&soft->kernel, &soft->grad, &soft->v);

    return gram_vjp_gradient(&kernel, b, false, &soft->to_v, soft->elements,
                             numbers_of(soft->kernel.x.dtype));
}

void cpu_soft_begin(struct soft_vjp *soft, const struct gram_kernel_vjp_op *op,
                    const struct gram_cdist_op *kernel, int64_t item)
{
    const struct gram_batch *batch = &op->kernel.batch;
    const int64_t first = item * op->kernel.x.rows;

    soft->op = op;
    soft->kernel = *kernel;
    soft->grad = gram_view_alone(&op->grad, batch, item);
    soft->v = gram_view_alone(&op->v, batch, item);
    soft->to_v = gram_view_alone(&op->to_v, batch, item);
    soft->log_weights = gram_view_alone(&op->soft.log_weights, batch, item);
    soft->to_log_weights = gram_view_alone(&op->soft.to_log_weights, batch, item);
    soft->averages = gram_view_alone(&op->soft.averages, batch, item);
    soft->logarithms = op->soft.logarithms ? op->soft.logarithms + first : NULL;
    soft->sides = true;
    soft->diagonal = 0;
    for (int64_t j = 0; soft->columns && j < op->kernel.y.rows; j++)
        soft->columns[j] = 0;
}

gram_status cpu_soft_measure(const struct soft_vjp *soft, const struct vjp_block *b, size_t *bytes)
{
    const struct gram_cdist_op values =
        gram_soft_values(soft->op, &soft->kernel, b, soft->elements);
    const struct gram_cdist_grad_op of_v = v_gradient_of(soft, b);
    size_t own;

    TRY(gram_measure(soft->g, &own, cpu_cdist(soft->g, &values)));
    *bytes = gram_most_bytes(*bytes, own);
    if (!soft->op->want_v)
        return GRAM_OK;
    TRY(gram_measure(soft->g, &own, cpu_cdist_grad(soft->g, &of_v)));
    *bytes = gram_most_bytes(*bytes, own);
    return GRAM_OK;
}

/* ---- A block -------------------------------------------------------------------------------- */

static char *element_of(const struct gram_view *v, int64_t i, int64_t j)
{
    return v->data + (i * v->row_stride + j * v->col_stride) * (int64_t)gram_dtype_size(v->dtype);
}

static double value_at(const struct gram_view *v, int64_t i, int64_t j)
{
    const char *at = element_of(v, i, j);

    return v->dtype == GRAM_F32 ? (double)*(const float *)at : *(const double *)at;
}

/* grad times the average of a row; of a logarithm grad. */
static double mean_of(const struct soft_vjp *soft, int64_t i)
{
    if (soft->op->soft.what == GRAM_REDUCE_LOGSUMEXP)
        return value_at(&soft->grad, i, 0);
    return soft->grad.dtype == GRAM_F32 ? dot_row_f32(&soft->grad, &soft->averages, i)
                                        : dot_row_f64(&soft->grad, &soft->averages, i);
}

static struct soft_row row_of(const struct soft_job *job, int64_t row)
{
    const struct soft_vjp *soft = job->soft;
    const struct gram_soft_op *op = &soft->op->soft;
    const int64_t i = job->b->i + row;
    const size_t at = (size_t)(row * job->b->cols) * gram_dtype_size(soft->kernel.x.dtype);
    const bool is_average = op->what == GRAM_REDUCE_SOFTMAX;
    struct soft_row r = {.values = soft->elements + at,
                         .cotangent = soft->cotangent + at,
                         .scale = op->scale,
                         .logarithm = soft->logarithms[i],
                         .mean = mean_of(soft, i),
                         .factor = job->factor,
                         .is_average = is_average};

    if (op->has_log_weights) {
        r.logs = element_of(&soft->log_weights, 0, job->b->j);
        r.logs_stride = soft->log_weights.col_stride;
    }
    if (!is_average && r.logarithm == -INFINITY) /* there is nothing to weigh: all weights are 0 */
        r.logarithm = INFINITY;
    return r;
}

/* The weights of a row, and its cotangent. */
static void soften_row(void *arg, int64_t index, int thread)
{
    _Alignas(ALIGNED) char exponents[PIECE], weights[PIECE], sum[ALIGNED];
    const struct soft_job *job = arg;
    const gram_dtype dtype = job->soft->kernel.x.dtype;
    const struct gram_reduce_kernels *kernels = gram_cpu_kernels_of(job->soft->g)->reduce[dtype];
    const struct soft_row row = row_of(job, index);
    const int64_t most = PIECE / (int64_t)gram_dtype_size(dtype), n = job->b->cols;
    const double largest = 0;
    struct gram_reduce_tile tile = {.rows = 1,
                                    .values = exponents,
                                    .largest = &largest,
                                    .scale = 1,
                                    .weights = weights,
                                    .sums = sum};

    (void)thread;
    for (int64_t first = 0; first < n; first += most) {
        tile.cols = gram_least(most, n - first);
        if (dtype == GRAM_F32)
            exponents_f32(&row, first, tile.cols, exponents);
        else
            exponents_f64(&row, first, tile.cols, exponents);
        memset(sum, 0, sizeof sum);
        kernels->weights(&tile);
        if (dtype == GRAM_F32)
            weigh_row_f32(&row, first, tile.cols, weights);
        else
            weigh_row_f64(&row, first, tile.cols, weights);
    }
}

static void scale_row(void *arg, int64_t index, int thread)
{
    const struct soft_job *job = arg;
    const gram_dtype dtype = job->soft->kernel.x.dtype;
    void *row = job->soft->cotangent + (size_t)(index * job->b->cols) * gram_dtype_size(dtype);

    (void)thread;
    if (dtype == GRAM_F32)
        scale_row_f32(row, job->soft->op->soft.scale, job->b->cols);
    else
        scale_row_f64(row, job->soft->op->soft.scale, job->b->cols);
}

/* Some columns of the cotangent, row after row. */
static void add_columns(void *arg, int64_t index, int thread)
{
    const struct soft_job *job = arg;
    const gram_dtype dtype = job->soft->kernel.x.dtype;
    const int64_t first = index * COLUMNS, count = gram_least(COLUMNS, job->b->cols - first);
    double *sums = job->soft->columns + job->b->j + first;

    (void)thread;
    for (int64_t i = 0; i < job->b->rows; i++) {
        const void *row =
            job->soft->cotangent + (size_t)(i * job->b->cols + first) * gram_dtype_size(dtype);
        if (dtype == GRAM_F32)
            add_row_f32(row, count, sums);
        else
            add_row_f64(row, count, sums);
    }
}

/* Adds the cotangent where the regularization was added. */
static void add_diagonal(struct soft_vjp *soft, const struct vjp_block *b)
{
    const struct gram_cdist_op values =
        gram_soft_values(soft->op, &soft->kernel, b, soft->elements);
    const struct vjp_diagonal d = gram_vjp_diagonal(&values);
    const struct gram_view cotangent =
        gram_view_dense(soft->cotangent, soft->kernel.x.dtype, b->rows, b->cols);

    for (int64_t i = 0; i < d.count; i++)
        soft->diagonal += value_at(&cotangent, d.i + i, d.j + i);
}

/* What the weights and the cotangent give beside the gradients of the kernel. */
static gram_status add_sides(const struct soft_job *job, double ns)
{
    struct soft_vjp *soft = job->soft;
    const struct gram_kernel_vjp_op *op = soft->op;
    const struct gram_cdist_grad_op of_v = v_gradient_of(soft, job->b);

    if (op->want_v)
        TRY(cpu_cdist_grad_in(soft->g, &of_v, true, soft->inner, soft->inner_bytes));
    if (op->soft.want_log_weights)
        gram_for(soft->g, ns, gram_ceil_div(job->b->cols, COLUMNS), add_columns, (void *)job);
    return GRAM_OK;
}

gram_status cpu_soft_block(struct soft_vjp *soft, const struct vjp_block *b)
{
    const struct gram_soft_op *op = &soft->op->soft;
    const struct gram_cdist_op values =
        gram_soft_values(soft->op, &soft->kernel, b, soft->elements);
    const bool later = soft->sides && op->want_log_weights && op->scale != 1;
    struct soft_job job = {.soft = soft, .b = b, .factor = later ? 1 : op->scale};
    const double pairs = (double)b->rows * (double)b->cols;

    TRY(cpu_cdist_in(soft->g, &values, soft->inner, soft->inner_bytes));
    gram_for(soft->g, 3 * pairs, b->rows, soften_row, &job);
    if (soft->sides)
        TRY(add_sides(&job, pairs));
    if (later)
        gram_for(soft->g, pairs, b->rows, scale_row, &job);
    if (soft->sides && soft->op->want_regularization)
        add_diagonal(soft, b);
    return GRAM_OK;
}

void cpu_soft_end(struct soft_vjp *soft)
{
    soft->sides = false;
    if (!soft->op->soft.want_log_weights)
        return;
    if (soft->kernel.x.dtype == GRAM_F32)
        store_row_f32(&soft->to_log_weights, soft->columns);
    else
        store_row_f64(&soft->to_log_weights, soft->columns);
}

/* ---- The call ------------------------------------------------------------------------------- */

gram_status cpu_kernel_reduce_vjp(gram_context *g, const struct gram_kernel_vjp_op *op)
{
    return cpu_kernel_vjp(g, op);
}

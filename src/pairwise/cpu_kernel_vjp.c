/*
 * cpu_kernel_vjp.c - vector-Jacobian products of kernels on the CPU, a block of the matrix at a
 * time
 *
 * A block of the weights w,
 *   d k / d x = w sgn(x - y) |x - y|^(p - 1), or w y for an inner product,
 * is computed as gram_kernel does it, multiplied by grad and given to gram_cdist_grad's machinery
 * with one output:
 *   gradient of x: centres y, points x, a = w^T
 *   gradient of y: centres x, points y, a = w
 * The gradients of an inner product are the same with p = 2, all points at 0 and coefficients -1.
 * The cosine, whose norms are functions of x and y too, is in cpu_kernel_vjp_cosine.c.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_kernel_vjp.h"
#include "core/threads.h"
#include "cpu_cdist.h"
#include "cpu_cdist_grad.h"
#include <math.h>

enum {
    BLOCK = 1024 /* rows and columns: 4 MiB of f32, few calls for large matrices */
};

#define real           float
#define TIMES_GRAD     times_grad_f32
#define ZERO           zero_f32
#define GRAD_SUM       grad_sum_f32
#define NORM           norm_f32
#define COSINE_ROW     cosine_row_f32
#define COSINE_CORRECT cosine_correct_f32
#include "cpu_kernel_vjp_rows.h"
#define real           double
#define TIMES_GRAD     times_grad_f64
#define ZERO           zero_f64
#define GRAD_SUM       grad_sum_f64
#define NORM           norm_f64
#define COSINE_ROW     cosine_row_f64
#define COSINE_CORRECT cosine_correct_f64
#include "cpu_kernel_vjp_rows.h"

const struct vjp_rows *cpu_vjp_rows(gram_dtype dtype)
{
    static const struct vjp_rows f32 = {times_grad_f32, zero_f32,       grad_sum_f32,
                                        norm_f32,       cosine_row_f32, cosine_correct_f32};
    static const struct vjp_rows f64 = {times_grad_f64, zero_f64,       grad_sum_f64,
                                        norm_f64,       cosine_row_f64, cosine_correct_f64};

    return dtype == GRAM_F32 ? &f32 : &f64;
}

static const void *numbers_of(gram_dtype dtype)
{
    static const float f32[VJP_NUMBERS] = {[VJP_ONE] = 1, [VJP_MINUS_ONE] = -1};
    static const double f64[VJP_NUMBERS] = {[VJP_ONE] = 1, [VJP_MINUS_ONE] = -1};

    return dtype == GRAM_F32 ? (const void *)f32 : (const void *)f64;
}

static struct gram_cdist_grad_op gradient_of(const struct vjp_job *job, const struct vjp_block *b,
                                             bool of_x)
{
    return gram_vjp_gradient(&job->kernel, b, of_x, of_x ? &job->to_x : &job->to_y, job->scratch,
                             numbers_of(job->kernel.x.dtype));
}

/* Scratch of the parts of a block of this size. */
static size_t block_workspace(const struct vjp_job *job, const struct vjp_block *b,
                              const struct gram_kernel_vjp_op *op)
{
    const gram_kernel_output outputs[] = {GRAM_VALUE, GRAM_WEIGHT, GRAM_BANDWIDTH_DERIVATIVE};
    bool cosine = op->kernel.function == GRAM_COSINE, gradients = op->want_x || op->want_y;
    const bool used[] = {cosine && gradients, !cosine && gradients, op->want_bandwidth};
    const bool wanted[] = {op->want_y, op->want_x};
    size_t most = 0;

    for (int i = 0; i < 3; i++) {
        struct gram_cdist_op kernel = gram_vjp_kernel(&job->kernel, b, outputs[i], NULL);
        if (used[i])
            most = gram_most_bytes(most, cpu_cdist_workspace(job->g, &kernel));
    }
    for (int of_x = 0; of_x < 2; of_x++) {
        struct gram_cdist_grad_op grad = gradient_of(job, b, of_x);
        if (wanted[of_x])
            most = gram_most_bytes(most, cpu_cdist_grad_workspace(job->g, &grad));
    }
    return most;
}

/* The whole work of an item, with the layout of scratch, which depends on no item's data. */
static struct vjp_job make_job(gram_context *g, const struct gram_kernel_vjp_op *op, int64_t item)
{
    const struct gram_batch *batch = &op->kernel.batch;
    struct vjp_job job = {.g = g, .kernel = gram_cdist_alone(&op->kernel, item)};
    const struct gram_cdist_op *k = &job.kernel;
    int64_t m = k->x.rows, n = k->y.rows, doubles;

    job.grad = gram_view_alone(&op->grad, batch, item);
    job.to_x = gram_view_alone(&op->x, batch, item);
    job.to_y = gram_view_alone(&op->y, batch, item);
    job.each = cpu_vjp_rows(k->x.dtype);
    job.element = gram_dtype_size(k->x.dtype);
    job.block_rows = m < BLOCK ? m : BLOCK;
    job.block_cols = n < BLOCK ? n : BLOCK;
    doubles = job.block_rows + (k->function == GRAM_COSINE ? cpu_vjp_cosine_doubles(k) : 0);
    job.sums = gram_round64((size_t)(job.block_rows * job.block_cols) * job.element);
    job.more = job.sums + gram_round64((size_t)doubles * sizeof(double));
    for (int i = 0; i < 4; i++) {
        const struct vjp_block b = {0, i & 1 ? m % BLOCK : job.block_rows, 0,
                                    i & 2 ? n % BLOCK : job.block_cols};
        size_t need = b.rows && b.cols ? job.more + block_workspace(&job, &b, op) : job.more;
        job.total = gram_most_bytes(job.total, need);
    }
    return job;
}

void cpu_vjp_kernel(struct vjp_job *job, gram_kernel_output output)
{
    struct gram_cdist_op op = gram_vjp_kernel(&job->kernel, &job->block, output, job->scratch);
    struct cdist_plan plan;

    cpu_cdist_plan(job->g, &op, &plan);
    cpu_cdist_run(&plan, job->scratch + job->more);
}

void cpu_vjp_gradients(struct vjp_job *job)
{
    struct gram_cdist_grad_op op;

    if (job->to_x.data) {
        op = gradient_of(job, &job->block, true);
        cpu_cdist_grad_in(job->g, &op, true, job->scratch + job->more);
    }
    if (job->to_y.data) {
        op = gradient_of(job, &job->block, false);
        cpu_cdist_grad_in(job->g, &op, true, job->scratch + job->more);
    }
}

static void multiply_row(void *arg, int64_t row, int thread)
{
    const struct vjp_job *job = arg;

    (void)thread;
    job->each->times_grad(vjp_row(job, row), vjp_grad_row(job, row), job->grad.col_stride,
                          job->block.cols);
}

static void sum_row(void *arg, int64_t row, int thread)
{
    const struct vjp_job *job = arg;

    (void)thread;
    vjp_sums(job)[row] = job->each->grad_sum(vjp_row(job, row), vjp_grad_row(job, row),
                                             job->grad.col_stride, job->block.cols);
}

static void zero_rows(const struct vjp_job *job, const struct gram_view *v)
{
    for (int64_t i = 0; v->data && i < v->rows; i++)
        job->each->zero(vjp_row_of(job, v, i), v->col_stride, v->cols);
}

static double bandwidth_gradient(struct vjp_job *job)
{
    double total = 0;

    while (gram_vjp_has_bandwidth(job->kernel.function) && vjp_next(job)) {
        cpu_vjp_kernel(job, GRAM_BANDWIDTH_DERIVATIVE);
        gram_for(job->g, (double)job->block.rows * (double)job->block.cols, job->block.rows,
                 sum_row, job);
        for (int64_t i = 0; i < job->block.rows; i++)
            total += vjp_sums(job)[i];
    }
    return total;
}

/* grad summed where the regularization was added. */
static double regularization_gradient(const struct vjp_job *job)
{
    const struct vjp_diagonal d = gram_vjp_diagonal(&job->kernel);
    const struct gram_view *v = &job->grad;

    return d.count == 0
               ? 0
               : job->each->grad_sum(
                     NULL, vjp_row_of(job, v, d.i) + d.j * v->col_stride * (int64_t)job->element,
                     v->row_stride + v->col_stride, d.count);
}

static void put_number(const struct gram_view *v, const struct gram_batch *batch, int64_t item,
                       double value)
{
    char *to = gram_view_item(v, batch, item);

    if (v->dtype == GRAM_F32)
        *(float *)to = (float)value;
    else
        *(double *)to = value;
}

static void run_item(gram_context *g, const struct gram_kernel_vjp_op *op, int64_t item,
                     void *scratch)
{
    struct vjp_job job = make_job(g, op, item);
    const struct gram_batch *batch = &op->kernel.batch;

    job.scratch = scratch;
    zero_rows(&job, &job.to_x);
    zero_rows(&job, &job.to_y);
    if (job.kernel.function == GRAM_COSINE && (op->want_x || op->want_y))
        cpu_vjp_cosine(&job);
    else
        while ((op->want_x || op->want_y) && vjp_next(&job)) {
            cpu_vjp_kernel(&job, GRAM_WEIGHT);
            gram_for(g, (double)job.block.rows * (double)job.block.cols, job.block.rows,
                     multiply_row, &job);
            cpu_vjp_gradients(&job);
        }
    if (op->want_bandwidth)
        put_number(&op->bandwidth, batch, item, bandwidth_gradient(&job));
    if (op->want_regularization)
        put_number(&op->regularization, batch, item, regularization_gradient(&job));
}

size_t cpu_kernel_vjp_workspace(const gram_context *g, const struct gram_kernel_vjp_op *op)
{
    return op->kernel.batch.count ? make_job((gram_context *)g, op, 0).total : 0;
}

gram_status cpu_kernel_vjp(gram_context *g, const struct gram_kernel_vjp_op *op)
{
    void *scratch;

    TRY(gram_scratch(g, cpu_kernel_vjp_workspace(g, op), &scratch));
    for (int64_t item = 0; item < op->kernel.batch.count; item++)
        run_item(g, op, item, scratch);
    return GRAM_OK;
}

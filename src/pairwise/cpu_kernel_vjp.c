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
 *
 * The norms of the cosine k = x . y / (|x| |y|) are functions of x and y too:
 *   d k / d x = y / (|x| |y|) - k x / |x|^2,   y alike
 * so the gradient of row i of x is sum_j w[i, j] y[j] - r[i] x[i] / |x[i]|^2 with weights
 * w[i, j] = grad[i, j] / (|x[i]| |y[j]|) and r[i] = sum_j grad[i, j] k[i, j]; that of y has the
 * sums over rows.  Where a norm is 0 the kernel is 0 and so is the gradient.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/threads.h"
#include "cpu_cdist.h"
#include "kernel_vjp.h"
#include <math.h>

enum {
    BLOCK = 1024 /* rows and columns: 4 MiB of f32, few calls for large matrices */
};

/* ---- Rows ----------------------------------------------------------------------------------- */

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

#define SUFFIX f32
#define real   float
#include "cpu_kernel_vjp_rows.h"

#define SUFFIX f64
#define real   double
#include "cpu_kernel_vjp_rows.h"

static const struct vjp_rows *rows_of(gram_dtype dtype)
{
    static const struct vjp_rows f32 = {times_grad_f32, zero_f32,       grad_sum_f32,
                                        norm_f32,       cosine_row_f32, cosine_correct_f32};
    static const struct vjp_rows f64 = {times_grad_f64, zero_f64,       grad_sum_f64,
                                        norm_f64,       cosine_row_f64, cosine_correct_f64};

    return dtype == GRAM_F32 ? &f32 : &f64;
}

/* ---- Blocks of an item ---------------------------------------------------------------------- */

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

static void *block_row(const struct vjp_job *job, int64_t row)
{
    return job->scratch + (size_t)(row * job->block.cols) * job->element;
}

/* Element [row][0] of a view. */
static char *view_row(const struct vjp_job *job, const struct gram_view *v, int64_t row)
{
    return v->data + row * v->row_stride * (int64_t)job->element;
}

/* grad at the block's row and first column. */
static const void *grad_row(const struct vjp_job *job, int64_t row)
{
    return view_row(job, &job->grad, job->block.i + row) +
           job->block.j * job->grad.col_stride * (int64_t)job->element;
}

static double *sums_of(const struct vjp_job *job)
{
    return (double *)(job->scratch + job->sums);
}

/* The next block in the order of rows, columns inside; false after the last. */
static bool next_block(struct vjp_job *job)
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

/* The cosine's doubles behind the sums of a block's rows: norms and sums of x's rows, then of y's.
 */
static int64_t cosine_doubles(const struct gram_cdist_op *kernel)
{
    return 2 * (kernel->x.rows + kernel->y.rows);
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
    job.each = rows_of(k->x.dtype);
    job.element = gram_dtype_size(k->x.dtype);
    job.block_rows = m < BLOCK ? m : BLOCK;
    job.block_cols = n < BLOCK ? n : BLOCK;
    doubles = job.block_rows + (k->function == GRAM_COSINE ? cosine_doubles(k) : 0);
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

/* The block's kernel (of the given output) into scratch. */
static void find_kernel(struct vjp_job *job, gram_kernel_output output)
{
    struct gram_cdist_op op = gram_vjp_kernel(&job->kernel, &job->block, output, job->scratch);
    struct cdist_plan plan;

    cpu_cdist_plan(job->g, &op, &plan);
    cpu_cdist_run(&plan, job->scratch + job->more);
}

/* Adds what the block's weights in scratch give to to_x and to_y. */
static void add_gradients(struct vjp_job *job)
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

/* ---- The cosine ----------------------------------------------------------------------------- */

/* Norms and sums of x's rows, then of y's, after the sums of a block. */
struct cosine {
    struct vjp_job *job;
    double *x_norm, *x_sum, *y_norm, *y_sum;
};

static void find_norms(const struct vjp_job *job, const struct gram_view *v, double *norm,
                       double *sum)
{
    for (int64_t i = 0; i < v->rows; i++) {
        norm[i] = v->cols ? job->each->norm(view_row(job, v, i), v->col_stride, v->cols) : 0;
        sum[i] = 0;
    }
}

/* A row of the block from kernel to weights; its sums of grad times kernel. */
static void weigh_row(void *arg, int64_t row, int thread)
{
    const struct cosine *c = arg;
    const struct vjp_job *job = c->job;
    const struct vjp_block *b = &job->block;
    void *w = block_row(job, row);

    (void)thread;
    c->x_sum[b->i + row] +=
        job->each->grad_sum(w, grad_row(job, row), job->grad.col_stride, b->cols);
    job->each->times_grad(w, grad_row(job, row), job->grad.col_stride, b->cols);
}

static void divide_row(void *arg, int64_t row, int thread)
{
    const struct cosine *c = arg;
    const struct vjp_job *job = c->job;

    (void)thread;
    job->each->cosine_row(block_row(job, row), grad_row(job, row), job->grad.col_stride,
                          c->x_norm[job->block.i + row], c->y_norm + job->block.j, job->block.cols);
}

/* The products grad times kernel are in the block: their sums down the columns. */
static void sum_columns(const struct cosine *c)
{
    const struct vjp_block *b = &c->job->block;
    bool f32 = c->job->element == sizeof(float);

    for (int64_t i = 0; i < b->rows; i++) {
        const void *row = block_row(c->job, i);
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
            job->each->cosine_correct(view_row(job, to, i), to->col_stride, view_row(job, v, i),
                                      v->col_stride, sum[i] / norm[i] / norm[i], v->cols);
}

/* Adds the gradients of an item to to_x and to_y, which are 0. */
static void cosine_gradients(struct vjp_job *job)
{
    const struct gram_view *x = &job->kernel.x, *y = &job->kernel.y;
    struct cosine c = {.job = job, .x_norm = sums_of(job) + job->block_rows};

    c.x_sum = c.x_norm + x->rows;
    c.y_norm = c.x_sum + x->rows;
    c.y_sum = c.y_norm + y->rows;
    find_norms(job, x, c.x_norm, c.x_sum);
    find_norms(job, y, c.y_norm, c.y_sum);
    while (next_block(job)) {
        find_kernel(job, GRAM_VALUE);
        gram_parallel_for(job->g, job->block.rows, weigh_row, &c);
        sum_columns(&c);
        gram_parallel_for(job->g, job->block.rows, divide_row, &c);
        add_gradients(job);
    }
    correct(job, &job->to_x, x, c.x_norm, c.x_sum);
    correct(job, &job->to_y, y, c.y_norm, c.y_sum);
}

/* ---- Other gradients ------------------------------------------------------------------------ */

static void multiply_row(void *arg, int64_t row, int thread)
{
    const struct vjp_job *job = arg;

    (void)thread;
    job->each->times_grad(block_row(job, row), grad_row(job, row), job->grad.col_stride,
                          job->block.cols);
}

static void sum_row(void *arg, int64_t row, int thread)
{
    const struct vjp_job *job = arg;

    (void)thread;
    sums_of(job)[row] = job->each->grad_sum(block_row(job, row), grad_row(job, row),
                                            job->grad.col_stride, job->block.cols);
}

static void zero_rows(const struct vjp_job *job, const struct gram_view *v)
{
    for (int64_t i = 0; v->data && i < v->rows; i++)
        job->each->zero(view_row(job, v, i), v->col_stride, v->cols);
}

static double bandwidth_gradient(struct vjp_job *job)
{
    double total = 0;

    while (gram_vjp_has_bandwidth(job->kernel.function) && next_block(job)) {
        find_kernel(job, GRAM_BANDWIDTH_DERIVATIVE);
        gram_for(job->g, (double)job->block.rows * (double)job->block.cols, job->block.rows,
                 sum_row, job);
        for (int64_t i = 0; i < job->block.rows; i++)
            total += sums_of(job)[i];
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
                     NULL, view_row(job, v, d.i) + d.j * v->col_stride * (int64_t)job->element,
                     v->row_stride + v->col_stride, d.count);
}

static void store_number(const struct gram_view *v, const struct gram_batch *batch, int64_t item,
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
        cosine_gradients(&job);
    else
        while ((op->want_x || op->want_y) && next_block(&job)) {
            find_kernel(&job, GRAM_WEIGHT);
            gram_for(g, (double)job.block.rows * (double)job.block.cols, job.block.rows,
                     multiply_row, &job);
            add_gradients(&job);
        }
    if (op->want_bandwidth)
        store_number(&op->bandwidth, batch, item, bandwidth_gradient(&job));
    if (op->want_regularization)
        store_number(&op->regularization, batch, item, regularization_gradient(&job));
}

/* ---- The call ------------------------------------------------------------------------------- */

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

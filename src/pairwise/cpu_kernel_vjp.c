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
 * An expression of |x| and |y| also has w x, with w = (dk / d|x|) / |x|: the same with p = 2 and
 * all centres at 0.
 *
 * The norms of the cosine k = x . y / (|x| |y|) are functions of x and y too:
 *   d k / d x = y / (|x| |y|) - k x / |x|^2,   y alike
 * so the gradient of row i of x is sum_j w[i, j] y[j] - r[i] x[i] / |x[i]|^2 with weights
 * w[i, j] = grad[i, j] / (|x[i]| |y[j]|) and r[i] = sum_j grad[i, j] k[i, j]; that of y has the
 * sums over rows.  Where a norm is 0 the kernel is 0 and so is the gradient.
 *
 * Of a product with the kernel (gram_kernel_matmul_vjp) a block of grad v^T takes the place of
 * grad, and of a soft reduction (gram_kernel_reduce_vjp) what cpu_kernel_reduce_vjp.c makes of it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/threads.h"
#include "cpu_cdist.h"
#include "cpu_kernel_reduce_vjp.h"
#include "pairwise.h"
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

#define TEMPLATE "pairwise/kernel_vjp_loops.h"
#define HALVES   0
#define INTEGERS 0
#include "cpu/each_dtype.h"

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
    const struct gram_kernel_vjp_op *op;
    struct gram_cdist_op kernel; /* of the item */
    struct gram_view grad, to_x, to_y;
    struct gram_view product_grad,
        v; /* of_product: grad is the block of their product in scratch */
    const struct vjp_rows *each;
    size_t element;
    int64_t block_rows, block_cols;
    /* Scratch: the block's elements; a sum and, for the cosine, more doubles for each row and
     * column; what the parts take themselves. */
    char *elements, *cotangent, *inner;
    double *sums;
    size_t inner_bytes;
    struct vjp_block block;
    struct soft_vjp soft; /* of a reduction */
};

static void *block_row(const struct vjp_job *job, int64_t row)
{
    return job->elements + (size_t)(row * job->block.cols) * job->element;
}

/* Element [row][0] of a view. */
static char *view_row(const struct vjp_job *job, const struct gram_view *v, int64_t row)
{
    return v->data + row * v->row_stride * (int64_t)job->element;
}

/* grad at the block's row and first column. */
static const void *grad_row(const struct vjp_job *job, int64_t row)
{
    if (job->op->of_product)
        return view_row(job, &job->grad, row);
    return view_row(job, &job->grad, job->block.i + row) +
           job->block.j * job->grad.col_stride * (int64_t)job->element;
}

/* Whether the call goes on: gradients of a product can be cancelled. */
static gram_status go_on(struct vjp_job *job)
{
    return job->op->of_product && gram_cancelled(job->g)
               ? gram_fail(job->g, GRAM_CANCELLED, "cancelled")
               : GRAM_OK;
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

static bool is_soft(const struct vjp_job *job)
{
    return job->op->soft.what != 0;
}

static struct gram_cdist_op cotangent_of(const struct vjp_job *job, const struct vjp_block *b)
{
    return gram_vjp_cotangent(&job->kernel.batch, &job->product_grad, &job->v, b, job->cotangent);
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
    return gram_vjp_gradient(&job->kernel, b, of_x, of_x ? &job->to_x : &job->to_y, job->elements,
                             numbers_of(job->kernel.x.dtype));
}

static struct gram_cdist_grad_op norm_gradient_of(const struct vjp_job *job,
                                                  const struct vjp_block *b, bool of_x)
{
    return gram_vjp_norm_gradient(&job->kernel, b, of_x, of_x ? &job->to_x : &job->to_y,
                                  job->elements, numbers_of(job->kernel.x.dtype));
}

static struct gram_cdist_grad_op sum_gradient_of(const struct vjp_job *job,
                                                 const struct vjp_block *b, bool of_x, bool squares)
{
    const struct gram_cdist_op kernel = gram_vjp_sum_of(&job->kernel, squares);

    return gram_vjp_gradient(&kernel, b, of_x, of_x ? &job->to_x : &job->to_y, job->elements,
                             numbers_of(job->kernel.x.dtype));
}

/* The same for what an expression's sums beside s add. */
static gram_status measure_sums(struct vjp_job *job, const struct vjp_block *b,
                                const bool wanted[2])
{
    size_t bytes;

    for (int i = 0; i < 4; i++) { /* sides and sums */
        const bool of_x = i % 2, squares = i / 2;
        const struct gram_cdist_op kernel =
            gram_vjp_sum_kernel(job->op, &job->kernel, b, squares, NULL);
        const struct gram_cdist_grad_op grad = sum_gradient_of(job, b, of_x, squares);
        if (!kernel.expression || !wanted[of_x])
            continue;
        TRY(gram_measure(job->g, &bytes, cpu_cdist(job->g, &kernel)));
        job->inner_bytes = gram_most_bytes(job->inner_bytes, bytes);
        TRY(gram_measure(job->g, &bytes, cpu_cdist_grad(job->g, &grad)));
        job->inner_bytes = gram_most_bytes(job->inner_bytes, bytes);
    }
    return GRAM_OK;
}

/* Finds the scratch of the parts of a block of this size, with all that is found before. */
static gram_status measure_block(struct vjp_job *job, const struct vjp_block *b)
{
    const struct gram_kernel_vjp_op *op = job->op;
    const gram_kernel_output outputs[] = {GRAM_VALUE, GRAM_WEIGHT, GRAM_BANDWIDTH_DERIVATIVE};
    bool cosine = op->kernel.function == GRAM_COSINE, gradients = op->want_x || op->want_y;
    const bool used[] = {cosine && gradients, !cosine && gradients, op->want_bandwidth};
    const bool wanted[] = {op->want_y || op->whole, op->want_x};
    size_t bytes;

    for (int i = 0; i < 3; i++) {
        struct gram_cdist_op kernel = gram_vjp_kernel(&job->kernel, b, outputs[i], NULL);
        if (!used[i])
            continue;
        TRY(gram_measure(job->g, &bytes, cpu_cdist(job->g, &kernel)));
        job->inner_bytes = gram_most_bytes(job->inner_bytes, bytes);
    }
    if (is_soft(job))
        TRY(cpu_soft_measure(&job->soft, b, &job->inner_bytes));
    if (op->of_product && op->soft.what != GRAM_REDUCE_LOGSUMEXP) {
        const struct gram_cdist_op cotangent = cotangent_of(job, b);
        TRY(gram_measure(job->g, &bytes, cpu_cdist(job->g, &cotangent)));
        job->inner_bytes = gram_most_bytes(job->inner_bytes, bytes);
    }
    for (int of_x = 0; of_x < 2; of_x++) {
        struct gram_cdist_grad_op grad = gradient_of(job, b, of_x);
        struct gram_cdist_op kernel;
        if (!wanted[of_x])
            continue;
        TRY(gram_measure(job->g, &bytes, cpu_cdist_grad(job->g, &grad)));
        job->inner_bytes = gram_most_bytes(job->inner_bytes, bytes);
        if (!op->by_norm[of_x ? 0 : 1])
            continue;
        grad = norm_gradient_of(job, b, of_x);
        TRY(gram_measure(job->g, &bytes, cpu_cdist_grad(job->g, &grad)));
        job->inner_bytes = gram_most_bytes(job->inner_bytes, bytes);
        kernel = gram_vjp_norm_kernel(op, &job->kernel, b, of_x, NULL);
        TRY(gram_measure(job->g, &bytes, cpu_cdist(job->g, &kernel)));
        job->inner_bytes = gram_most_bytes(job->inner_bytes, bytes);
    }
    return measure_sums(job, b, wanted);
}

/* The cosine's doubles behind the sums of a block's rows: norms and sums of x's rows, then of y's.
 */
static int64_t cosine_doubles(const struct gram_cdist_op *kernel)
{
    return 2 * (kernel->x.rows + kernel->y.rows);
}

static void set_item(struct vjp_job *job, int64_t item)
{
    const struct gram_batch *batch = &job->op->kernel.batch;

    job->kernel = gram_cdist_alone(&job->op->kernel, item);
    job->grad = gram_view_alone(&job->op->grad, batch, item);
    job->to_x = gram_view_alone(&job->op->x, batch, item);
    job->to_y = gram_view_alone(job->op->whole ? &job->op->x : &job->op->y, batch, item);
    if (job->op->of_product) {
        job->product_grad = job->grad;
        job->v = gram_view_alone(&job->op->v, batch, item);
    }
    if (is_soft(job))
        cpu_soft_begin(&job->soft, job->op, &job->kernel, item);
    job->block = (struct vjp_block){0};
}

/* Blocks of all sizes that come, and scratch for the largest need of any. */
static gram_status open_job(gram_context *g, const struct gram_kernel_vjp_op *op,
                            struct vjp_job *job)
{
    const struct gram_cdist_op *k = &op->kernel;
    const int64_t m = k->x.rows, n = k->y.rows;
    struct gram_layout layout = {0};
    int64_t doubles;

    *job = (struct vjp_job){.g = g,
                            .op = op,
                            .each = rows_of(k->x.dtype),
                            .element = gram_dtype_size(k->x.dtype),
                            .block_rows = gram_least(m, BLOCK),
                            .block_cols = gram_least(n, BLOCK),
                            .soft = {.g = g}};
    set_item(job, 0);
    for (int i = 0; i < 4; i++) {
        const struct vjp_block b = {0, i & 1 ? m % BLOCK : job->block_rows, 0,
                                    i & 2 ? n % BLOCK : job->block_cols};
        if (b.rows && b.cols)
            TRY(measure_block(job, &b));
    }
    doubles = job->block_rows + (k->function == GRAM_COSINE ? cosine_doubles(k) : 0);
    gram_take(&layout, &job->elements, (size_t)(job->block_rows * job->block_cols) * job->element);
    if (op->of_product)
        gram_take(&layout, &job->cotangent,
                  (size_t)(job->block_rows * job->block_cols) * job->element);
    gram_take(&layout, &job->sums, (size_t)doubles * sizeof(double));
    gram_take(&layout, &job->soft.columns,
              op->soft.want_log_weights ? (size_t)n * sizeof(double) : 0);
    gram_take(&layout, &job->inner, job->inner_bytes);
    return gram_layout_open(g, &layout);
}

/* The cotangent of the block of a product or of a reduction. */
static gram_status find_cotangent(struct vjp_job *job)
{
    const struct gram_cdist_op op = cotangent_of(job, &job->block);

    if (job->op->soft.what != GRAM_REDUCE_LOGSUMEXP)
        TRY(cpu_cdist_in(job->g, &op, job->inner, job->inner_bytes));
    job->grad = op.out;
    if (!is_soft(job))
        return GRAM_OK;
    job->soft.elements = job->elements, job->soft.cotangent = job->cotangent;
    job->soft.inner = job->inner, job->soft.inner_bytes = job->inner_bytes;
    return cpu_soft_block(&job->soft, &job->block);
}

/* The block's kernel (of the given output), and the cotangent of a product, into scratch. */
static gram_status find_kernel(struct vjp_job *job, gram_kernel_output output)
{
    struct gram_cdist_op op = gram_vjp_kernel(&job->kernel, &job->block, output, job->elements);

    if (job->op->of_product)
        TRY(find_cotangent(job));
    return cpu_cdist_in(job->g, &op, job->inner, job->inner_bytes);
}

/* Adds what the block's weights in scratch give to to_x and to_y. */
static gram_status add_gradients(struct vjp_job *job)
{
    const struct gram_view *wanted[] = {&job->to_y, &job->to_x};

    for (int of_x = 1; of_x >= 0; of_x--) {
        const struct gram_cdist_grad_op op = gradient_of(job, &job->block, of_x);
        if (wanted[of_x]->data)
            TRY(cpu_cdist_grad_in(job->g, &op, true, job->inner, job->inner_bytes));
    }
    return GRAM_OK;
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
static gram_status cosine_gradients(struct vjp_job *job)
{
    const struct gram_view *x = &job->kernel.x, *y = &job->kernel.y;
    struct cosine c = {.job = job, .x_norm = job->sums + job->block_rows};

    c.x_sum = c.x_norm + x->rows;
    c.y_norm = c.x_sum + x->rows;
    c.y_sum = c.y_norm + y->rows;
    find_norms(job, x, c.x_norm, c.x_sum);
    find_norms(job, y, c.y_norm, c.y_sum);
    while (next_block(job)) {
        TRY(go_on(job));
        TRY(find_kernel(job, GRAM_VALUE));
        gram_parallel_for(job->g, job->block.rows, weigh_row, &c);
        sum_columns(&c);
        gram_parallel_for(job->g, job->block.rows, divide_row, &c);
        TRY(add_gradients(job));
    }
    correct(job, &job->to_x, x, c.x_norm, c.x_sum);
    correct(job, &job->to_y, y, c.y_norm, c.y_sum);
    return GRAM_OK;
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
    job->sums[row] = job->each->grad_sum(block_row(job, row), grad_row(job, row),
                                         job->grad.col_stride, job->block.cols);
}

static void zero_rows(const struct vjp_job *job, const struct gram_view *v)
{
    for (int64_t i = 0; v->data && i < v->rows; i++)
        job->each->zero(view_row(job, v, i), v->col_stride, v->cols);
}

static gram_status bandwidth_gradient(struct vjp_job *job, double *total)
{
    *total = 0;
    while (gram_vjp_has_bandwidth(job->kernel.function) && next_block(job)) {
        TRY(go_on(job));
        TRY(find_kernel(job, GRAM_BANDWIDTH_DERIVATIVE));
        gram_for(job->g, (double)job->block.rows * (double)job->block.cols, job->block.rows,
                 sum_row, job);
        for (int64_t i = 0; i < job->block.rows; i++)
            *total += job->sums[i];
    }
    return GRAM_OK;
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

/* The block's elements times grad. */
static void multiply_block(struct vjp_job *job)
{
    gram_for(job->g, (double)job->block.rows * (double)job->block.cols, job->block.rows,
             multiply_row, job);
}

/* Adds what the block's derivatives by |x| and |y| give. */
static gram_status add_norm_gradients(struct vjp_job *job)
{
    const struct gram_view *wanted[] = {&job->to_y, &job->to_x};

    for (int of_x = 1; of_x >= 0; of_x--) {
        const struct gram_cdist_op kernel =
            gram_vjp_norm_kernel(job->op, &job->kernel, &job->block, of_x, job->elements);
        const struct gram_cdist_grad_op op = norm_gradient_of(job, &job->block, of_x);
        if (!wanted[of_x]->data || !kernel.expression)
            continue;
        TRY(cpu_cdist_in(job->g, &kernel, job->inner, job->inner_bytes));
        multiply_block(job);
        TRY(cpu_cdist_grad_in(job->g, &op, true, job->inner, job->inner_bytes));
    }
    return GRAM_OK;
}

/* Adds what the block's derivatives by sums beside s give. */
static gram_status add_sum_gradients(struct vjp_job *job)
{
    const struct gram_view *wanted[] = {&job->to_y, &job->to_x};

    for (int squares = 0; squares < 2; squares++) {
        const struct gram_cdist_op kernel =
            gram_vjp_sum_kernel(job->op, &job->kernel, &job->block, squares, job->elements);
        if (!kernel.expression)
            continue;
        TRY(cpu_cdist_in(job->g, &kernel, job->inner, job->inner_bytes));
        multiply_block(job);
        for (int of_x = 1; of_x >= 0; of_x--) {
            const struct gram_cdist_grad_op op = sum_gradient_of(job, &job->block, of_x, squares);
            if (wanted[of_x]->data)
                TRY(cpu_cdist_grad_in(job->g, &op, true, job->inner, job->inner_bytes));
        }
    }
    return GRAM_OK;
}

static gram_status points_gradients(struct vjp_job *job)
{
    if (job->kernel.function == GRAM_COSINE)
        return cosine_gradients(job);
    while (next_block(job)) {
        TRY(go_on(job));
        TRY(find_kernel(job, GRAM_WEIGHT));
        multiply_block(job);
        TRY(add_gradients(job));
        TRY(add_norm_gradients(job));
        TRY(add_sum_gradients(job));
    }
    return GRAM_OK;
}

/* What a reduction has beside the gradients of its kernel, where these have not found it. */
static gram_status soft_gradients(struct vjp_job *job)
{
    while (is_soft(job) && gram_soft_has_sides(job->op) && next_block(job)) {
        TRY(go_on(job));
        TRY(find_cotangent(job));
    }
    return GRAM_OK;
}

static gram_status run_item(struct vjp_job *job, int64_t item)
{
    const struct gram_kernel_vjp_op *op = job->op;
    const struct gram_batch *batch = &op->kernel.batch;
    double total;

    set_item(job, item);
    zero_rows(job, &job->to_x);
    zero_rows(job, &job->to_y);
    zero_rows(job, &job->soft.to_v);
    if (op->want_x || op->want_y)
        TRY(points_gradients(job));
    else
        TRY(soft_gradients(job));
    if (is_soft(job))
        cpu_soft_end(&job->soft);
    if (op->want_bandwidth) {
        TRY(bandwidth_gradient(job, &total));
        store_number(&op->bandwidth, batch, item, total);
    }
    if (op->want_regularization)
        store_number(&op->regularization, batch, item,
                     is_soft(job) ? job->soft.diagonal : regularization_gradient(job));
    return GRAM_OK;
}

/* ---- The call ------------------------------------------------------------------------------- */

gram_status cpu_kernel_vjp(gram_context *g, const struct gram_kernel_vjp_op *op)
{
    struct vjp_job job;

    if (op->kernel.batch.count == 0)
        return GRAM_OK;
    TRY(open_job(g, op, &job));
    for (int64_t item = 0; item < op->kernel.batch.count; item++)
        TRY(run_item(&job, item));
    return GRAM_OK;
}

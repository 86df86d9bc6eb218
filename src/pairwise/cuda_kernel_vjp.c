/*
 * cuda_kernel_vjp.c - vector-Jacobian products of kernels on the device, a block of the matrices at
 * a time
 *
 * Items go together, in rounds of as many as scratch has room for.  A block of the weights w,
 *   d k / d x = w sgn(x - y) |x - y|^(p - 1), or w y for an inner product,
 * is computed as gram_kernel does it, multiplied by grad and given to gram_cdist_grad's kernels
 * with one output:
 *   gradient of x: centres y, points x, a = w^T
 *   gradient of y: centres x, points y, a = w
 * The gradients of an inner product are the same with p = 2, all points at 0 and coefficients -1.
 *
 * An expression of |x| and |y| also has w x, with w = (dk / d|x|) / |x|: the same with p = 2 and
 * all centres at 0.
 *
 * The norms of the cosine k = x . y / (|x| |y|) are functions of x and y too:
 *   d k / d x = y / (|x| |y|) - x k / |x|^2
 * The first part is that of an inner product with weights grad / (|x| |y|); the second takes from
 * each row x its sum of grad k over the other side, divided by |x|^2.
 *
 * Of a product with the kernel (gram_kernel_matmul_vjp) a block of grad v^T takes the place of
 * grad, where cuda_kernel_matmul_vjp.c does not do without blocks, and of a soft reduction
 * (gram_kernel_reduce_vjp) what cuda_kernel_reduce_vjp.c makes of it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda/arena.h"
#include "cuda_cdist.h"
#include "cuda_kernel_reduce_vjp.h"
#include "pairwise.h"

enum {
    BLOCK = 4096, /* rows and columns at most: 64 MiB of f32, few calls for large matrices */
    GRAIN = 64,   /* of both: the sides of tiles */
    ROUND_BYTES = 1 << 28, /* of the blocks of many small items */
    MOST_BLOCKS = 4096,    /* of a launch of kernel_vjp.cu: enough for every processor */
};

/* A row's lanes have at most this many elements before there are more lanes. */
static const int64_t elements_of_a_lane = 16;

static const struct cuda_kernel kernel_vjp_sums = {"kernel_vjp.cu", "kernel_vjp_sums"},
                                kernel_vjp_number = {"kernel_vjp.cu", "kernel_vjp_number"},
                                kernel_vjp_weigh = {"kernel_vjp.cu", "kernel_vjp_weigh"},
                                kernel_vjp_correct = {"kernel_vjp.cu", "kernel_vjp_correct"},
                                kernel_vjp_project = {"kernel_vjp.cu", "kernel_vjp_project"};

/* The work of a round of items (gram_round_at): kernel.batch.  Views are of its first item; data
 * NULL: not wanted. */
struct vjp_job {
    gram_context *g;
    const struct gram_kernel_vjp_op *op;
    struct gram_cdist_op kernel;
    struct gram_view grad, to_x, to_y;
    struct gram_view v; /* of a product, whose cotangent has the factors grad and v */
    size_t element;
    int64_t block_rows, block_cols;
    /* Scratch: the elements of each item's block, the numbers 1, -1, 0, doubles for each item (one
     * for each row of x, for the cosine three and two for each row of y), what the parts take. */
    char *elements, *cotangent, *constants, *inner;
    double *sums;
    size_t inner_bytes;
    int64_t doubles; /* of an item */
    struct vjp_block block;
    struct soft_vjp soft; /* of a reduction */
};

/* ---- Blocks --------------------------------------------------------------------------------- */

/* Blocks of equal size. */
static int64_t block_of(int64_t size)
{
    int64_t block = size > 0 ? gram_ceil_div(size, gram_ceil_div(size, BLOCK)) : 0;

    block = gram_round_up(block, GRAIN);
    return block < size ? block : size;
}

/* Moves on to the next block; from {0} to the first.  False at the end. */
static bool next_block(struct vjp_job *job)
{
    struct vjp_block *b = &job->block;
    int64_t m = job->kernel.x.rows, n = job->kernel.y.rows;
    bool first = b->rows == 0 && b->cols == 0;

    if (!first) {
        b->j += b->cols;
        if (b->j >= n)
            b->i += b->rows, b->j = 0;
        if (b->i >= m)
            return false;
    }
    b->rows = m - b->i < job->block_rows ? m - b->i : job->block_rows;
    b->cols = n - b->j < job->block_cols ? n - b->j : job->block_cols;
    return b->rows > 0 || b->cols > 0; /* once without rows or without columns: zeros */
}

static struct gram_cdist_grad_op gradient_of(const struct vjp_job *job, bool of_x)
{
    return gram_vjp_gradient(&job->kernel, &job->block, of_x, of_x ? &job->to_x : &job->to_y,
                             job->elements, job->constants);
}

static struct gram_cdist_grad_op norm_gradient_of(const struct vjp_job *job, bool of_x)
{
    return gram_vjp_norm_gradient(&job->kernel, &job->block, of_x, of_x ? &job->to_x : &job->to_y,
                                  job->elements, job->constants);
}

static struct gram_cdist_grad_op sum_gradient_of(const struct vjp_job *job, bool of_x, bool squares)
{
    const struct gram_cdist_op kernel = gram_vjp_sum_of(&job->kernel, squares);

    return gram_vjp_gradient(&kernel, &job->block, of_x, of_x ? &job->to_x : &job->to_y,
                             job->elements, job->constants);
}

/* Finds the scratch that the gradients of the job's block take, with that of others before. */
static gram_status measure_gradients(struct vjp_job *job)
{
    const bool wanted[] = {job->op->want_y || job->op->whole, job->op->want_x};
    size_t bytes;

    for (int of_x = 0; of_x < 2; of_x++) {
        struct gram_cdist_grad_op grad = gradient_of(job, of_x);
        if (!wanted[of_x])
            continue;
        TRY(gram_measure(job->g, &bytes, cuda_cdist_grad_queue(job->g, &grad, false)));
        job->inner_bytes = gram_most_bytes(job->inner_bytes, bytes);
        if (!job->op->by_norm[of_x ? 0 : 1])
            continue;
        grad = norm_gradient_of(job, of_x);
        TRY(gram_measure(job->g, &bytes, cuda_cdist_grad_queue(job->g, &grad, true)));
        job->inner_bytes = gram_most_bytes(job->inner_bytes, bytes);
    }
    for (int i = 0; i < 4; i++) { /* sides and sums */
        const struct gram_cdist_grad_op grad = sum_gradient_of(job, i % 2, i / 2);
        if (!wanted[i % 2] || !job->op->by_sum[i / 2])
            continue;
        TRY(gram_measure(job->g, &bytes, cuda_cdist_grad_queue(job->g, &grad, true)));
        job->inner_bytes = gram_most_bytes(job->inner_bytes, bytes);
    }
    return job->op->soft.what ? cuda_soft_measure(&job->soft, &job->block, &job->inner_bytes)
                              : GRAM_OK;
}

/* ---- Scratch -------------------------------------------------------------------------------- */

/* The doubles of an item: a sum for each row of x; for the cosine squares of norms and sums of
 * grad k of each row of x, then of y; and of a reduction those of cuda_kernel_reduce_vjp.c. */
static int64_t doubles_of(const struct gram_kernel_vjp_op *op)
{
    const struct gram_cdist_op *kernel = &op->kernel;
    const int64_t cosine =
        kernel->function == GRAM_COSINE ? 2 * (kernel->x.rows + kernel->y.rows) : 0;

    return kernel->x.rows + cosine + (op->soft.what ? cuda_soft_doubles(op) : 0);
}

/* The regularization needs no elements. */
static bool has_blocks(const struct gram_kernel_vjp_op *op)
{
    return op->want_x || op->want_y || op->want_bandwidth || op->soft.what;
}

/* So many items at a time that their blocks and sums fill about ROUND_BYTES. */
static struct gram_rounds rounds_of(const struct gram_kernel_vjp_op *op)
{
    const struct gram_cdist_op *k = &op->kernel;
    const int64_t item = (op->of_product ? 2 : 1) * block_of(k->x.rows) * block_of(k->y.rows) *
                             (int64_t)gram_dtype_size(k->x.dtype) +
                         doubles_of(op) * (int64_t)sizeof(double);

    return gram_rounds_of(&k->batch, gram_most(1, ROUND_BYTES / gram_most(1, item)));
}

/* Scratch of a round, with what blocks of all sizes that come take. */
static gram_status lay_out(struct vjp_job *job)
{
    const struct gram_cdist_op *k = &job->kernel;
    const int64_t m = k->x.rows, n = k->y.rows;
    const size_t items = (size_t)k->batch.count;
    struct gram_layout layout = {0};

    for (int i = 0; i < 4; i++) {
        int64_t rest_rows = job->block_rows ? m % job->block_rows : 0;
        int64_t rest_cols = job->block_cols ? n % job->block_cols : 0;
        job->block = (struct vjp_block){.rows = i & 1 ? rest_rows : job->block_rows,
                                        .cols = i & 2 ? rest_cols : job->block_cols};
        TRY(measure_gradients(job));
    }
    job->block = (struct vjp_block){0};
    if (has_blocks(job->op))
        gram_take(&layout, &job->elements,
                  items * (size_t)(job->block_rows * job->block_cols) * job->element);
    if (has_blocks(job->op) && job->op->of_product)
        gram_take(&layout, &job->cotangent,
                  items * (size_t)(job->block_rows * job->block_cols) * job->element);
    gram_take(&layout, &job->constants, VJP_NUMBERS * job->element);
    gram_take(&layout, &job->sums, gram_round64(items * (size_t)job->doubles * sizeof(double)));
    gram_take(&layout, &job->inner, job->inner_bytes);
    return gram_layout_open(job->g, &layout);
}

static gram_status open_round(gram_context *g, const struct gram_kernel_vjp_op *op,
                              const struct gram_batch *round, int64_t first, struct vjp_job *job)
{
    const struct gram_batch *batch = &op->kernel.batch;

    *job = (struct vjp_job){.g = g,
                            .op = op,
                            .kernel = gram_cdist_round(&op->kernel, round, first),
                            .grad = gram_view_alone(&op->grad, batch, first),
                            .to_x = gram_view_alone(&op->x, batch, first),
                            .to_y = gram_view_alone(op->whole ? &op->x : &op->y, batch, first),
                            .element = gram_dtype_size(op->kernel.x.dtype),
                            .block_rows = block_of(op->kernel.x.rows),
                            .block_cols = block_of(op->kernel.y.rows),
                            .doubles = doubles_of(op)};
    if (op->of_product)
        job->v = gram_view_alone(&op->v, batch, first);
    if (op->soft.what)
        cuda_soft_begin(&job->soft, g, op, &job->kernel, first);
    TRY(lay_out(job));
    if (op->soft.what)
        job->soft.at = (struct soft_scratch){job->elements,
                                             job->cotangent,
                                             job->constants,
                                             job->inner,
                                             job->inner_bytes,
                                             job->doubles,
                                             job->sums + job->doubles - cuda_soft_doubles(op)};
    return GRAM_OK;
}

/* ---- Launches ------------------------------------------------------------------------------- */

static struct gram_cdist_op cotangent_of(const struct vjp_job *job)
{
    return gram_vjp_cotangent(&job->kernel.batch, &job->grad, &job->v, &job->block, job->cotangent);
}

/* The cotangent of the block of a product or of a reduction. */
static gram_status queue_cotangent(struct vjp_job *job)
{
    const struct gram_cdist_op cotangent = cotangent_of(job);

    if (job->op->soft.what != GRAM_REDUCE_LOGSUMEXP)
        TRY(cuda_cdist_queue(job->g, &cotangent));
    return job->op->soft.what ? cuda_soft_block(&job->soft, &job->block) : GRAM_OK;
}

/* The block's kernel (of the given output), and the cotangent of a product, into scratch. */
static gram_status queue_kernel(struct vjp_job *job, gram_kernel_output output)
{
    const struct gram_cdist_op op =
        gram_vjp_kernel(&job->kernel, &job->block, output, job->elements);

    if (job->op->of_product)
        TRY(queue_cotangent(job));
    return cuda_cdist_queue(job->g, &op);
}

/* Adds what the block's weights in scratch give to to_x and to_y; a first block sets them.  Where
 * both are one, the first block of rows comes first as one of y. */
static gram_status queue_gradients(const struct vjp_job *job)
{
    const struct gram_view *wanted[] = {&job->to_y, &job->to_x};

    for (int of_x = 0; of_x < 2; of_x++) {
        const struct gram_cdist_grad_op op = gradient_of(job, of_x);
        const bool add = of_x ? job->block.j > 0 || job->op->whole : job->block.i > 0;
        if (wanted[of_x]->data)
            TRY(cuda_cdist_grad_in(job->g, &op, add, job->inner, job->inner_bytes));
    }
    return GRAM_OK;
}

/* Rows of a batch's items; a long one takes a whole block. */
struct vjp_rows cuda_vjp_rows(const struct gram_batch *batch, int64_t rows, int64_t cols,
                              int64_t lanes)
{
    struct vjp_rows of = {
        .items = batch->count, .ndim = batch->ndim, .rows = rows, .cols = cols, .lanes = lanes};

    for (int d = 0; d < batch->ndim; d++)
        of.shape[d] = batch->shape[d];
    while (of.lanes < VJP_THREADS && of.lanes * elements_of_a_lane < cols)
        of.lanes *= 2;
    return of;
}

/* Nothing is queued where there are no rows. */
gram_status cuda_vjp_launch(gram_context *g, const struct cuda_kernel *kernel, gram_dtype dtype,
                            const struct vjp_rows *of, void *params)
{
    const int64_t blocks = gram_ceil_div(of->items * of->rows, VJP_THREADS / of->lanes);

    return blocks == 0 ? GRAM_OK
                       : cuda_launch_plain(g, kernel, dtype, gram_least(blocks, MOST_BLOCKS),
                                           VJP_THREADS, params);
}

static struct device_view transposed(struct device_view m)
{
    const long long stride = m.row_stride;

    m.row_stride = m.col_stride, m.col_stride = stride;
    return m;
}

/* grad of the block's elements. */
static struct device_view grad_of(const struct vjp_job *job)
{
    const struct gram_view product = cotangent_of(job).out;

    return job->op->of_product ? cuda_device_view(&product)
                               : cuda_device_view_at(&job->grad, job->block.i, job->block.j);
}

/* The blocks' elements in scratch. */
static struct device_view elements_of(const struct vjp_job *job)
{
    const struct gram_view dense = gram_view_dense_items(
        job->elements, job->kernel.x.dtype, job->block.rows, job->block.cols, &job->kernel.batch);

    return cuda_device_view(&dense);
}

/* sums[i] = or += the sum over j of u[i][j] v[i][j], for i < rows and j < cols of each item; sums
 * is the first item's, in its doubles. */
static gram_status queue_sums(const struct vjp_job *job, struct vjp_sums_params params,
                              int64_t rows, int64_t cols)
{
    params.of = cuda_vjp_rows(&job->kernel.batch, rows, cols, CUDA_VJP_SUM_LANES);
    params.step = job->doubles;
    return cuda_vjp_launch(job->g, &kernel_vjp_sums, job->kernel.x.dtype, &params.of, &params);
}

/* The sum of an item's count sums to the number that v is. */
static gram_status queue_number(const struct vjp_job *job, const struct gram_view *v,
                                const double *sums, int64_t count)
{
    struct vjp_number_params params = {
        .of = cuda_vjp_rows(&job->kernel.batch, 1, count, CUDA_VJP_SUM_LANES),
        .sums = sums,
        .out = cuda_device_view(v),
        .step = job->doubles};

    return cuda_vjp_launch(job->g, &kernel_vjp_number, job->kernel.x.dtype, &params.of, &params);
}

/* The blocks' elements times grad, or the cosine's share; the squares are of the first row of x and
 * of y, or NULL. */
static gram_status queue_weights(const struct vjp_job *job, const double *x_squares,
                                 const double *y_squares)
{
    const struct vjp_block *b = &job->block;
    struct vjp_weigh_params params = {
        .of = cuda_vjp_rows(&job->kernel.batch, b->cols > 0 ? b->rows : 0, b->cols, CUDA_VJP_LANES),
        .w = elements_of(job),
        .grad = grad_of(job),
        .x_squares = x_squares ? x_squares + b->i : NULL,
        .y_squares = y_squares ? y_squares + b->j : NULL,
        .step = job->doubles,
        .constants = job->constants,
    };

    return cuda_vjp_launch(job->g, &kernel_vjp_weigh, job->kernel.x.dtype, &params.of, &params);
}

/* Takes from the gradient of a side what the norms of its rows take away. */
static gram_status queue_correction(const struct vjp_job *job, const struct gram_view *to,
                                    const struct gram_view *x, const double *sums,
                                    const double *squares)
{
    struct vjp_correct_params params = {
        .of = cuda_vjp_rows(&job->kernel.batch, x->cols > 0 ? x->rows : 0, x->cols, CUDA_VJP_LANES),
        .to = cuda_device_view(to),
        .x = cuda_device_view(x),
        .sums = sums,
        .squares = squares,
        .step = job->doubles,
    };

    return to->data ? cuda_vjp_launch(job->g, &kernel_vjp_correct, job->kernel.x.dtype, &params.of,
                                      &params)
                    : GRAM_OK;
}

/* ---- The cosine ----------------------------------------------------------------------------- */

/* Squares of norms and sums of grad k of each row of x, then of y, of the first item. */
struct cosine {
    double *x_squares, *x_sums, *y_squares, *y_sums;
};

/* The squares of the norms of the rows of a side are sums of products of a row with itself. */
static gram_status find_squares(const struct vjp_job *job, const struct gram_view *v, double *to)
{
    const struct device_view m = cuda_device_view(v);

    return queue_sums(job, (struct vjp_sums_params){.u = m, .v = m, .sums = to}, v->rows, v->cols);
}

/* A block of k is in scratch. */
static gram_status add_sums(const struct vjp_job *job, const struct cosine *c)
{
    const struct vjp_block *b = &job->block;
    const struct device_view k = elements_of(job), grad = grad_of(job);

    TRY(queue_sums(
        job, (struct vjp_sums_params){.u = k, .v = grad, .sums = c->x_sums + b->i, .add = b->j > 0},
        b->rows, b->cols));
    return queue_sums(
        job,
        (struct vjp_sums_params){
            .u = transposed(k), .v = transposed(grad), .sums = c->y_sums + b->j, .add = b->i > 0},
        b->cols, b->rows);
}

static gram_status cosine_gradients(struct vjp_job *job)
{
    const struct gram_view *x = &job->kernel.x, *y = &job->kernel.y;
    struct cosine c = {.x_squares = job->sums + x->rows};
    bool empty = x->rows == 0 || y->rows == 0;

    c.x_sums = c.x_squares + x->rows;
    c.y_squares = c.x_sums + x->rows;
    c.y_sums = c.y_squares + y->rows;
    TRY(find_squares(job, x, c.x_squares));
    TRY(find_squares(job, y, c.y_squares));
    while (next_block(job)) {
        TRY(queue_kernel(job, GRAM_VALUE));
        TRY(add_sums(job, &c));
        TRY(queue_weights(job, c.x_squares, c.y_squares));
        TRY(queue_gradients(job));
    }
    if (empty)
        return GRAM_OK; /* the gradients are 0, and there are no sums */
    TRY(queue_correction(job, &job->to_x, x, c.x_sums, c.x_squares));
    return queue_correction(job, &job->to_y, y, c.y_sums, c.y_squares);
}

/* ---- The gradients --------------------------------------------------------------------------- */

/* Adds what the block's derivatives by |x| and |y| give to gradients that are set. */
static gram_status queue_norm_gradients(const struct vjp_job *job)
{
    const struct gram_view *wanted[] = {&job->to_y, &job->to_x};

    for (int of_x = 0; of_x < 2; of_x++) {
        const struct gram_cdist_op kernel =
            gram_vjp_norm_kernel(job->op, &job->kernel, &job->block, of_x, job->elements);
        const struct gram_cdist_grad_op op = norm_gradient_of(job, of_x);
        if (!wanted[of_x]->data || !kernel.expression)
            continue;
        TRY(cuda_cdist_queue(job->g, &kernel));
        TRY(queue_weights(job, NULL, NULL));
        TRY(cuda_cdist_grad_in(job->g, &op, true, job->inner, job->inner_bytes));
    }
    return GRAM_OK;
}

/* Adds what the block's derivatives by sums beside s give to gradients that are set. */
static gram_status queue_sum_gradients(const struct vjp_job *job)
{
    const struct gram_view *wanted[] = {&job->to_y, &job->to_x};

    for (int squares = 0; squares < 2; squares++) {
        const struct gram_cdist_op kernel =
            gram_vjp_sum_kernel(job->op, &job->kernel, &job->block, squares, job->elements);
        if (!kernel.expression)
            continue;
        TRY(cuda_cdist_queue(job->g, &kernel));
        TRY(queue_weights(job, NULL, NULL));
        for (int of_x = 0; of_x < 2; of_x++) {
            const struct gram_cdist_grad_op op = sum_gradient_of(job, of_x, squares);
            if (wanted[of_x]->data)
                TRY(cuda_cdist_grad_in(job->g, &op, true, job->inner, job->inner_bytes));
        }
    }
    return GRAM_OK;
}

/* The gradients of x and y, a block of weights at a time. */
static gram_status points_gradients(struct vjp_job *job)
{
    if (job->kernel.function == GRAM_COSINE)
        return cosine_gradients(job);
    while (next_block(job)) {
        TRY(queue_kernel(job, GRAM_WEIGHT));
        TRY(queue_weights(job, NULL, NULL));
        TRY(queue_gradients(job));
        TRY(queue_norm_gradients(job));
        TRY(queue_sum_gradients(job));
    }
    return GRAM_OK;
}

/* The derivatives of a block, times grad, are summed row by row; the sums of rows are added up
 * at the end.  Kernels without a bandwidth have no rows. */
static gram_status bandwidth_gradient(struct vjp_job *job, const struct gram_view *out)
{
    double *sums = job->sums;
    int64_t rows = 0;

    job->block = (struct vjp_block){0};
    while (gram_vjp_has_bandwidth(job->kernel.function) && job->kernel.y.rows > 0 &&
           next_block(job)) {
        const struct vjp_block *b = &job->block;
        TRY(queue_kernel(job, GRAM_BANDWIDTH_DERIVATIVE));
        TRY(queue_sums(
            job,
            (struct vjp_sums_params){
                .u = elements_of(job), .v = grad_of(job), .sums = sums + b->i, .add = b->j > 0},
            b->rows, b->cols));
        rows = job->kernel.x.rows;
    }
    return queue_number(job, out, sums, rows);
}

/* What a reduction has beside the gradients of its kernel, where these have not found it. */
static gram_status soft_gradients(struct vjp_job *job)
{
    while (gram_soft_has_sides(job->op) && next_block(job))
        TRY(queue_cotangent(job));
    return GRAM_OK;
}

/* grad summed where the regularization was added. */
static gram_status regularization_gradient(const struct vjp_job *job, const struct gram_view *out)
{
    const struct vjp_diagonal d = gram_vjp_diagonal(&job->kernel);
    double *sums = job->sums;
    struct device_view diagonal;

    if (d.count == 0)
        return queue_number(job, out, sums, 0);
    if (job->op->of_product) {
        TRY(queue_sums(job,
                       (struct vjp_sums_params){.u = cuda_device_view_at(&job->grad, d.i, 0),
                                                .v = cuda_device_view_at(&job->v, d.j, 0),
                                                .sums = sums},
                       d.count, job->v.cols));
        return queue_number(job, out, sums, d.count);
    }
    diagonal = cuda_device_view_at(&job->grad, d.i, d.j);
    diagonal.col_stride += diagonal.row_stride;
    TRY(queue_sums(job, (struct vjp_sums_params){.v = diagonal, .sums = sums}, 1, d.count));
    return queue_number(job, out, sums, 1);
}

static gram_status run_round(gram_context *g, void *of, const struct gram_batch *round,
                             int64_t first)
{
    const struct gram_kernel_vjp_op *op = of;
    const struct gram_batch *batch = &op->kernel.batch;
    struct gram_view out;
    struct vjp_job job;

    TRY(open_round(g, op, round, first, &job));
    if (op->want_x || op->want_y)
        TRY(points_gradients(&job));
    else if (op->soft.what)
        TRY(soft_gradients(&job));
    if (op->soft.what)
        TRY(cuda_soft_end(&job.soft));
    out = gram_view_alone(&op->bandwidth, batch, first);
    if (op->want_bandwidth)
        TRY(bandwidth_gradient(&job, &out));
    out = gram_view_alone(&op->regularization, batch, first);
    return op->want_regularization && !op->soft.what ? regularization_gradient(&job, &out)
                                                     : GRAM_OK;
}

gram_status cuda_kernel_vjp_check(gram_context *g, const struct gram_kernel_vjp_op *op)
{
    struct gram_cdist_op kernel = op->kernel;

    TRY(cuda_cdist_check(g, &kernel));
    for (int i = 0; i < 4; i++) {
        kernel.expression = i < 2 ? op->by_norm[i] : op->by_sum[i - 2];
        TRY(cuda_cdist_check_expression(g, &kernel));
    }
    TRY(gram_cuda_check_pointer(g, "grad", &op->grad));
    if (op->v.cols > 0)
        TRY(gram_cuda_check_pointer(g, "v", &op->v));
    TRY(gram_cuda_check_pointer(g, "grads.x", &op->x));
    TRY(gram_cuda_check_pointer(g, "grads.y", &op->y));
    TRY(gram_cuda_check_pointer(g, "grads.bandwidth", &op->bandwidth));
    return gram_cuda_check_pointer(g, "grads.regularization", &op->regularization);
}

gram_status cuda_kernel_vjp(gram_context *g, const struct gram_kernel_vjp_op *op)
{
    const struct gram_batch *batch = &op->kernel.batch;
    const struct gram_rounds rounds = rounds_of(op);
    gram_status status;
    bool entered;

    TRY(cuda_kernel_vjp_check(g, op));
    if (batch->count == 0)
        return GRAM_OK;
    entered = gram_cuda_enter(g->device);
    status = cuda_run_rounds(g, batch, &rounds, run_round, (void *)op);
    gram_cuda_leave(g->device, entered);
    return status;
}

/* ---- For products ---------------------------------------------------------------------------- */

gram_status cuda_vjp_dot(gram_context *g, const struct gram_batch *batch, const struct gram_view *a,
                         const struct gram_view *b, double *sums, const struct gram_view *to)
{
    struct vjp_sums_params dots = {.of = cuda_vjp_rows(batch, a->rows, a->cols, CUDA_VJP_SUM_LANES),
                                   .u = cuda_device_view(a),
                                   .v = cuda_device_view(b),
                                   .step = a->rows};
    struct vjp_number_params number = {.of = cuda_vjp_rows(batch, 1, a->rows, CUDA_VJP_SUM_LANES),
                                       .sums = sums,
                                       .out = cuda_device_view(to),
                                       .step = a->rows};

    dots.sums = sums;
    TRY(cuda_vjp_launch(g, &kernel_vjp_sums, a->dtype, &dots.of, &dots));
    return cuda_vjp_launch(g, &kernel_vjp_number, a->dtype, &number.of, &number);
}

gram_status cuda_vjp_project(gram_context *g, const struct gram_batch *batch,
                             const struct gram_view *x, const struct gram_view *to)
{
    struct vjp_project_params params = {.of = cuda_vjp_rows(batch, x->rows, 1, 1),
                                        .to = cuda_device_view(to),
                                        .x = cuda_device_view(x),
                                        .depth = x->cols};

    return cuda_vjp_launch(g, &kernel_vjp_project, x->dtype, &params.of, &params);
}

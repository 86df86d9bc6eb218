/*
 * cpu_kernel_matmul_vjp.c - gradients of products with kernel matrices on the CPU
 *
 *   to[i] = sum_j w[i, j] (sum_c left[j, c] right[i, c]) sgn(x[i] - y[j]) |x[i] - y[j]|^(p - 1)
 * is the gradient of the points x, with the weights w of their kernel with the centres y
 * (GRAM_WEIGHT); for an inner product the last factor is y[j].  The gradient of y is the same with
 * the two exchanged.  Where one array is both, its whole gradient has the cotangent
 * grad v^T + v grad^T, which is one of twice as many columns.
 *
 * A task is some points, with all centres or a part of them.  It takes a block of centres and a
 * panel of points at a time: tiles of sums (cdist_tile.h) and the function (covariance_tile.h) in a
 * strip, the cotangent (kernel_matmul_vjp_tile.h) into a panel of weights that stays in the cache,
 * and from it the sums of CENTRES terms for some features at a time (cdist_grad_tile.h), which are
 * added in double.  So nothing depends on the number of threads, and differences are taken as such
 * for p = 2 too: an expansion would save a subtraction of two instructions, and lose digits of
 * points far from the origin.
 *
 * What is left to cpu_kernel_vjp.c, a block of the matrix at a time: norms of rows, p = infinity, p
 * as a tensor, and points of very many coordinates.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/expression.h"
#include "core/threads.h"
#include "cpu_cdist.h"
#include "pairwise.h"
#include <math.h>
#include <string.h>

enum {
    STRIP = 48,        /* rows that are computed at a time: whole tiles of every instruction set */
    CENTRES = 192,     /* of a block: 24 KiB of weights of a panel; whole strips */
    POINTS = 512,      /* of a task: packing the centres costs 5 % */
    SIDE = 1 << 18,    /* bytes of the points of a task, or of a block's centres, if so few do */
    MOST_DEPTH = 8192, /* coordinates: a panel of points has 1 MiB then */
    FEW_POINTS = 1024, /* if there are fewer, the centres are shared out too, in MOST_PARTS or */
    MOST_PARTS = 8,
    PART = 2048 /* with at least so many in each */
};

/* Doubles in the order of tiles. */
struct vjp_sums {
    const double *data;
    int64_t row, column, part, parts;
    double sign;
};

#define TEMPLATE "pairwise/kernel_matmul_vjp_loops.h"
#define HALVES   0
#define INTEGERS 0
#include "cpu/each_dtype.h"

struct product_vjp_job {
    struct gram_power power; /* first, since it begins on a line of the cache */
    gram_context *g;
    const struct gram_kernel_vjp_op *op;
    struct vjp_pass pass;
    struct cdist_plan plan; /* of the pass's kernel matrix: what items are made from */
    const struct gram_grad_kernels *tiles;
    int64_t element, depth, features; /* features: coordinates, in whole tiles */
    int64_t columns;                  /* of the cotangent's factors */
    int64_t points, centres;          /* of a task, of a block */
    int64_t blocks, parts, part;      /* tasks of an item; centres of a part */
    /* Scratch: what shared hyperparameters come to, a share of each thread, sums of parts. */
    char *item, *shares;
    double *sums;
    size_t share_bytes;
    gram_dtype dtype;
    enum gram_grad_power kind;
};

/* A thread's scratch. */
struct product_vjp_share {
    char *points, *features, *right;    /* panels of a task's points */
    char *centres, *centre_rows, *left; /* of a block of centres */
    char *strip, *weights, *tile, *item;
    double *sums; /* [panel][feature][point] */
};

/* A task: points [i, i + rows), centres [j, end). */
struct product_vjp_task {
    const struct product_vjp_job *job;
    const struct cdist_item *item;
    struct product_vjp_share at;
    struct vjp_pass pass; /* of the item */
    int64_t i, rows, j, end;
};

/* ---- Choices -------------------------------------------------------------------------------- */

static bool fits(const struct gram_kernel_vjp_op *op)
{
    const struct gram_cdist_op *k = &op->kernel;

    if (gram_expression_is_of_wide(k->expression))
        return false;
    if (k->function == GRAM_COSINE || gram_metric_given(&k->metric) || k->x.cols > MOST_DEPTH)
        return false;
    return k->inner == GRAM_DOT || (!k->p.tensor.data && k->p.value > 0 && !isinf(k->p.value));
}

/* How many rows of a side fill SIDE bytes: from least on, whole groups of step. */
static int64_t rows_of_side(const struct product_vjp_job *job, int64_t most, int64_t step)
{
    const int64_t rows = SIDE / (gram_most(1, job->depth) * job->element) / step * step;

    return gram_most(step, gram_least(most, rows));
}

/* What the sums are, the centres of blocks and of parts, depends on sizes alone. */
static void cut(struct product_vjp_job *job)
{
    const int64_t m = job->pass.points.rows, n = job->pass.centres.rows;
    const int64_t nr = job->plan.kernels->cdist[job->dtype].nr, items = job->op->kernel.batch.count;

    job->centres = rows_of_side(job, CENTRES, STRIP);
    job->parts = 1;
    if (items == 1 && m < FEW_POINTS)
        job->parts = gram_most(1, gram_least(MOST_PARTS, n / PART));
    job->part = gram_round_up(gram_ceil_div(n, job->parts), job->centres);
    job->points = gram_least(rows_of_side(job, POINTS, nr), gram_round_up(gram_most(1, m), nr));
    for (;;) {
        job->blocks = gram_ceil_div(m, job->points);
        if (job->points <= 2 * nr ||
            (double)job->blocks * (double)job->parts * (double)items >= 4 * job->g->threads)
            return;
        job->points = gram_round_up(job->points / 2, nr);
    }
}

static void describe(gram_context *g, const struct gram_kernel_vjp_op *op, bool of_y,
                     struct product_vjp_job *job)
{
    struct gram_cdist_op kernel = op->kernel;

    *job = (struct product_vjp_job){.g = g,
                                    .op = op,
                                    .pass = gram_vjp_pass(op, of_y),
                                    .dtype = op->kernel.x.dtype,
                                    .depth = op->kernel.x.cols};
    kernel.symmetric = false;
    kernel.output = GRAM_WEIGHT;
    kernel.regularization = (struct gram_hyper){.value = 0};
    kernel.x = job->pass.points, kernel.y = job->pass.centres;
    kernel.out = gram_view_dense(NULL, job->dtype, kernel.x.rows, kernel.y.rows);
    cpu_cdist_plan(g, &kernel, &job->plan);
    job->plan.dtype = job->dtype; /* of a plan without pairs too */
    job->tiles = job->plan.kernels->cdist_grad[job->dtype];
    job->element = (int64_t)gram_dtype_size(job->dtype);
    job->features = gram_round_up(job->depth, job->tiles->features);
    job->columns = job->pass.factors * op->v.cols;
    job->kind = kernel.inner == GRAM_DOT ? GRAM_GRAD_LINEAR : cpu_cdist_grad_power(kernel.p.value);
    if (kernel.inner == GRAM_DIFFERENCE)
        gram_power_prepare(&job->power, job->dtype, kernel.p.value - 1, 0);
    cut(job);
}

/* ---- Scratch -------------------------------------------------------------------------------- */

static void take_share(const struct product_vjp_job *job, struct product_vjp_share *share,
                       struct gram_layout *layout)
{
    const size_t element = (size_t)job->element, depth = (size_t)job->depth * element;
    const size_t features = (size_t)job->features, columns = (size_t)job->columns * element;
    const size_t points = (size_t)job->points, centres = (size_t)job->centres;
    const size_t nr = (size_t)job->plan.kernels->cdist[job->dtype].nr;

    gram_take(layout, &share->points, points * depth);
    gram_take(layout, &share->features, points * features * element);
    gram_take(layout, &share->right, points * columns);
    gram_take(layout, &share->centres, centres * depth);
    gram_take(layout, &share->centre_rows, centres * features * element);
    gram_take(layout, &share->left, centres * columns);
    gram_take(layout, &share->strip, STRIP * nr * element);
    gram_take(layout, &share->weights, centres * nr * element);
    gram_take(layout, &share->tile,
              (size_t)job->tiles->features * (size_t)job->tiles->width * element);
    gram_take(layout, &share->sums, points * features * sizeof(double));
    gram_take(layout, &share->item, job->plan.shared_item ? 0 : job->plan.item_bytes);
}

/* Sums of parts, each [coordinate][point]. */
static size_t part_bytes(const struct product_vjp_job *job)
{
    return job->parts > 1 ? (size_t)job->pass.to.rows * (size_t)job->depth * sizeof(double) : 0;
}

static gram_status open_job(struct product_vjp_job *job)
{
    struct gram_layout layout = {0}, one = {0};
    struct product_vjp_share share;

    take_share(job, &share, &one);
    job->share_bytes = gram_layout_bytes(&one);
    gram_take(&layout, &job->item, job->plan.shared_item ? job->plan.item_bytes : 0);
    gram_take_many(&layout, &job->sums, (size_t)job->parts, part_bytes(job));
    gram_take_many(&layout, &job->shares, (size_t)job->g->threads, job->share_bytes);
    return gram_layout_open(job->g, &layout);
}

/* ---- Panels --------------------------------------------------------------------------------- */

static void copy_rows(const struct gram_view *v, int64_t padded, int64_t stride, char *to)
{
    if (v->dtype == GRAM_F32)
        rows_of_f32(v, padded, stride, to);
    else
        rows_of_f64(v, padded, stride, to);
}

/* Panels of `width` rows of v: [row / width][column][row % width], columns behind each other. */
static void pack(const struct gram_view *v, int64_t first, int64_t rows, int64_t width,
                 int64_t panel_bytes, char *to)
{
    for (int64_t r = 0; r < rows; r += width, to += panel_bytes)
        cpu_cdist_pack(v, first + r, gram_least(width, rows - r), width, to);
}

/* A task's points; their features are 0 for an inner product, whose gradients have no difference.
 */
static void pack_points(const struct product_vjp_task *task)
{
    const struct product_vjp_job *job = task->job;
    const struct vjp_pass *pass = &task->pass;
    const int64_t nr = job->plan.kernels->cdist[job->dtype].nr, width = job->tiles->width;
    const int64_t feature_bytes = job->features * width * job->element;
    const int64_t column_bytes = job->op->v.cols * width * job->element;

    pack(&pass->points, task->i, task->rows, nr, nr * job->depth * job->element, task->at.points);
    memset(task->at.features, 0, (size_t)(job->points * job->features * job->element));
    if (job->op->kernel.inner == GRAM_DIFFERENCE)
        pack(&pass->points, task->i, task->rows, width, feature_bytes, task->at.features);
    for (int f = 0; f < pass->factors; f++)
        pack(&pass->right[f], task->i, task->rows, width, pass->factors * column_bytes,
             task->at.right + f * column_bytes);
}

static void pack_centres(const struct product_vjp_task *task, int64_t first, int64_t count)
{
    const struct product_vjp_job *job = task->job;
    const struct vjp_pass *pass = &task->pass;
    const struct gram_view rows = gram_view_rows(&pass->centres, first, count);
    const int64_t mr = job->plan.kernels->cdist[job->dtype].mr, columns = job->op->v.cols;

    pack(&pass->centres, first, count, mr, mr * job->depth * job->element, task->at.centres);
    copy_rows(&rows, job->features, job->features, task->at.centre_rows);
    for (int f = 0; f < pass->factors; f++) {
        const struct gram_view left = gram_view_rows(&pass->left[f], first, count);
        copy_rows(&left, columns, job->columns, task->at.left + f * columns * job->element);
    }
}

/* ---- Tasks ---------------------------------------------------------------------------------- */

/* The weights of `rows` centres from `row` on for a panel of points, times the cotangent. */
static void weigh_strip(const struct product_vjp_task *task, int64_t panel, int64_t row,
                        int64_t rows)
{
    const struct product_vjp_job *job = task->job;
    const struct gram_cdist_kernels *cdist = &job->plan.kernels->cdist[job->dtype];
    const int64_t element = job->element, depth = job->depth * element, width = job->tiles->width;
    const int64_t whole = gram_round_up(rows, cdist->mr);
    struct gram_tile tile = {.depth = job->depth,
                             .ldc = cdist->nr,
                             .power = &task->item->power,
                             .y = task->at.points + panel * cdist->nr * depth};

    for (int64_t r = 0; r < whole; r += cdist->mr) {
        tile.x = task->at.centres + (row + r) * depth;
        tile.c = task->at.strip + r * cdist->nr * element;
        task->item->tile(&tile);
    }
    job->plan.kernels->map[job->dtype](whole * cdist->nr, task->at.strip, &task->item->map, NULL);
    for (int64_t w = 0; w < cdist->nr && panel * cdist->nr + w < task->rows; w += width) {
        const struct gram_cotangent_tile t = {
            .rows = rows,
            .depth = job->columns,
            .ldk = cdist->nr,
            .k = task->at.strip + w * element,
            .left = task->at.left + row * job->columns * element,
            .right = task->at.right + (panel * cdist->nr + w) * job->columns * element,
            .out = task->at.weights + (w * job->centres + row * width) * element,
        };
        job->plan.kernels->cotangent[job->dtype](&t);
    }
}

/* The sums of `count` weighted centres, of `width` points from `point` on; their weights are those
 * from `weights` on. */
static void add_features(const struct product_vjp_task *task, int64_t point, const char *weights,
                         int64_t count)
{
    const struct product_vjp_job *job = task->job;
    const int64_t features = job->tiles->features, width = job->tiles->width;
    struct gram_grad_tile tile = {
        .depth = count, .b_stride = job->features, .a = weights, .power = &job->power};

    for (int64_t n = 0; n < job->features; n += features) {
        const int64_t at = point * job->features + n * width;
        tile.b = task->at.centre_rows + n * job->element;
        tile.d = task->at.features + at * job->element;
        job->tiles->one[job->kind](&tile, task->at.tile);
        if (job->dtype == GRAM_F32)
            add_tile_f32(task->at.tile, features * width, task->at.sums + at);
        else
            add_tile_f64(task->at.tile, features * width, task->at.sums + at);
    }
}

/* A block of centres, with all points of the task. */
static void add_block(const struct product_vjp_task *task, int64_t first, int64_t count)
{
    const struct product_vjp_job *job = task->job;
    const int64_t nr = job->plan.kernels->cdist[job->dtype].nr, width = job->tiles->width;

    pack_centres(task, first, count);
    for (int64_t panel = 0; panel * nr < task->rows; panel++) {
        for (int64_t row = 0; row < count; row += STRIP)
            weigh_strip(task, panel, row, gram_least(STRIP, count - row));
        for (int64_t w = 0; w < nr && panel * nr + w < task->rows; w += width)
            add_features(task, panel * nr + w, task->at.weights + w * job->centres * job->element,
                         count);
    }
}

static void store(const struct gram_view *to, const struct vjp_sums *sums)
{
    if (to->dtype == GRAM_F32)
        store_sums_f32(to, sums);
    else
        store_sums_f64(to, sums);
}

static double sign_of(const struct product_vjp_job *job)
{
    return job->op->kernel.inner == GRAM_DOT ? -1 : 1;
}

/* The sums of a task's points to their place, or to those of its part. */
static void store_task(const struct product_vjp_task *task, int64_t part)
{
    const struct product_vjp_job *job = task->job;
    const int64_t width = job->tiles->width, m = job->pass.to.rows;

    for (int64_t r = 0; r < task->rows; r += width) {
        const int64_t rows = gram_least(width, task->rows - r);
        const struct vjp_sums sums = {
            task->at.sums + r * job->features, 1, width, 0, 1, sign_of(job)};
        struct gram_view to = gram_view_rows(&task->pass.to, task->i + r, rows);
        if (job->parts > 1) {
            to = gram_view_dense((char *)(job->sums + part * m * job->depth + task->i + r),
                                 GRAM_F64, rows, job->depth);
            to.row_stride = 1, to.col_stride = m;
        }
        store(&to, &sums);
    }
}

static struct product_vjp_share share_of(const struct product_vjp_job *job, int thread)
{
    struct gram_layout layout = {0};
    struct product_vjp_share share = {0};

    take_share(job, &share, &layout);
    gram_layout_place(&layout, job->shares + (size_t)thread * job->share_bytes);
    return share;
}

static struct vjp_pass pass_alone(const struct product_vjp_job *job, int64_t item)
{
    const struct gram_batch *batch = &job->op->kernel.batch;
    struct vjp_pass pass = job->pass;

    pass.points = gram_view_alone(&pass.points, batch, item);
    pass.centres = gram_view_alone(&pass.centres, batch, item);
    pass.to = gram_view_alone(&pass.to, batch, item);
    for (int f = 0; f < pass.factors; f++) {
        pass.left[f] = gram_view_alone(&pass.left[f], batch, item);
        pass.right[f] = gram_view_alone(&pass.right[f], batch, item);
    }
    return pass;
}

static void run_task(void *arg, int64_t index, int thread)
{
    const struct product_vjp_job *job = arg;
    const int64_t block = index % job->blocks, part = index / job->blocks % job->parts;
    const int64_t item = index / job->blocks / job->parts, start = gram_trace_begin(job->g);
    struct product_vjp_task task = {.job = job,
                                    .item = (const struct cdist_item *)job->item,
                                    .at = share_of(job, thread),
                                    .pass = pass_alone(job, item),
                                    .i = block * job->points,
                                    .j = part * job->part};

    task.rows = gram_least(job->points, job->pass.points.rows - task.i);
    task.end = gram_least(job->pass.centres.rows, task.j + job->part);
    if (!job->plan.empty && !job->plan.shared_item) {
        cpu_cdist_item(&job->plan, item, (struct cdist_item *)task.at.item);
        task.item = (const struct cdist_item *)task.at.item;
    }
    pack_points(&task);
    memset(task.at.sums, 0, (size_t)(job->points * job->features) * sizeof(double));
    for (int64_t j = task.j; j < task.end; j += job->centres) {
        if (gram_cancelled(job->g))
            return;
        add_block(&task, j, gram_least(job->centres, task.end - j));
    }
    store_task(&task, part);
    gram_trace_end(job->g, "kernel product's gradient", thread, start);
}

/* ---- The gradients of points ----------------------------------------------------------------- */

/* About how long one thread takes with AVX-512, which cares for p = 1 and 2 in f32. */
static double nanoseconds(const struct product_vjp_job *job)
{
    return 0.03 * (double)job->op->kernel.batch.count * (double)job->pass.points.rows *
           (double)job->pass.centres.rows * (double)(2 * job->depth + job->columns + 16);
}

static void add_parts(const struct product_vjp_job *job)
{
    const int64_t m = job->pass.to.rows;
    const struct vjp_sums sums = {job->sums, 1, m, m * job->depth, job->parts, 1};
    const struct gram_view to = gram_view_alone(&job->pass.to, &job->op->kernel.batch, 0);

    store(&to, &sums);
}

static gram_status run_pass(gram_context *g, const struct gram_kernel_vjp_op *op, bool of_y)
{
    struct product_vjp_job job;

    describe(g, op, of_y, &job);
    TRY(open_job(&job));
    if (job.pass.to.rows == 0 || job.depth == 0)
        return GRAM_OK;
    if (!job.plan.empty && job.plan.shared_item)
        cpu_cdist_item(&job.plan, 0, (struct cdist_item *)job.item);
    gram_for(g, nanoseconds(&job), op->kernel.batch.count * job.parts * job.blocks, run_task, &job);
    if (gram_cancelled(g))
        return gram_fail(g, GRAM_CANCELLED, "cancelled");
    if (job.parts > 1)
        add_parts(&job);
    return GRAM_OK;
}

static gram_status run_in(gram_context *g,
                          gram_status (*run)(gram_context *g, const struct gram_kernel_vjp_op *op),
                          const struct gram_kernel_vjp_op *op, void *memory, size_t bytes)
{
    struct gram_scratch_before before;
    gram_status status;

    gram_scratch_lend(g, memory, bytes, &before);
    status = run(g, op);
    gram_scratch_return(g, &before);
    return status;
}

static gram_status x_gradient(gram_context *g, const struct gram_kernel_vjp_op *op)
{
    return op->want_x && fits(op) ? run_pass(g, op, false) : GRAM_OK;
}

static gram_status y_gradient(gram_context *g, const struct gram_kernel_vjp_op *op)
{
    return op->want_y && fits(op) ? run_pass(g, op, true) : GRAM_OK;
}

/* A block of the cotangent and of the weights at a time. */
static gram_status gradients_by_blocks(gram_context *g, const struct gram_kernel_vjp_op *op)
{
    struct gram_kernel_vjp_op points = *op;

    points.want_bandwidth = points.want_regularization = false;
    return (op->want_x || op->want_y) && !fits(op) ? cpu_kernel_vjp(g, &points) : GRAM_OK;
}

/* ---- The gradients of numbers ---------------------------------------------------------------- */

static void store_number(const struct gram_view *v, const struct gram_batch *batch, int64_t item,
                         double value)
{
    char *to = gram_view_item(v, batch, item);

    if (v->dtype == GRAM_F32)
        *(float *)to = (float)value;
    else
        *(double *)to = value;
}

static double dot(const struct gram_view *a, const struct gram_view *b)
{
    return a->dtype == GRAM_F32 ? dot_f32(a, b) : dot_f64(a, b);
}

/* The sum of grad times the product of dK / dL with v; that product is in scratch. */
static gram_status bandwidth_gradient(gram_context *g, const struct gram_kernel_vjp_op *op)
{
    const struct gram_batch *batch = &op->kernel.batch;
    const int64_t m = op->grad.rows, r = op->grad.cols;
    struct gram_kernel_matmul_op product = {.kernel = op->kernel, .v = op->v};
    struct gram_scratch_before before;
    struct gram_layout layout = {0};
    gram_status status = GRAM_OK;
    const bool any = op->want_bandwidth && gram_vjp_has_bandwidth(op->kernel.function);
    char *to, *inner;
    size_t bytes = 0;

    product.kernel.output = GRAM_BANDWIDTH_DERIVATIVE;
    product.out = gram_view_dense_items(NULL, op->grad.dtype, m, r, batch);
    if (any)
        TRY(gram_measure(g, &bytes, cpu_kernel_matmul(g, &product)));
    gram_take_many(&layout, &to, any ? (size_t)batch->count : 0,
                   (size_t)(m * r) * gram_dtype_size(op->grad.dtype));
    gram_take(&layout, &inner, bytes);
    TRY(gram_layout_open(g, &layout));
    product.out.data = to;
    if (any) {
        gram_scratch_lend(g, inner, bytes, &before);
        status = cpu_kernel_matmul(g, &product);
        gram_scratch_return(g, &before);
    }
    TRY(status);
    for (int64_t item = 0; op->want_bandwidth && item < batch->count; item++) {
        const struct gram_view a = gram_view_alone(&op->grad, batch, item);
        const struct gram_view b = gram_view_alone(&product.out, batch, item);
        store_number(&op->bandwidth, batch, item, any ? dot(&a, &b) : 0);
    }
    return GRAM_OK;
}

/* The sum of the products of the rows of grad and of v where the regularization was added. */
static void regularization_gradient(const struct gram_kernel_vjp_op *op)
{
    const struct gram_batch *batch = &op->kernel.batch;
    const struct vjp_diagonal d = gram_vjp_diagonal(&op->kernel);

    for (int64_t item = 0; op->want_regularization && item < batch->count; item++) {
        const struct gram_view grad = gram_view_alone(&op->grad, batch, item);
        const struct gram_view v = gram_view_alone(&op->v, batch, item);
        double sum = 0;
        if (d.count > 0) {
            const struct gram_view a = gram_view_rows(&grad, d.i, d.count);
            const struct gram_view b = gram_view_rows(&v, d.j, d.count);
            sum = dot(&a, &b);
        }
        store_number(&op->regularization, batch, item, sum);
    }
}

/* ---- The call ------------------------------------------------------------------------------- */

gram_status cpu_kernel_matmul_vjp(gram_context *g, const struct gram_kernel_vjp_op *op)
{
    gram_status (*const parts[])(gram_context *, const struct gram_kernel_vjp_op *) = {
        x_gradient, y_gradient, gradients_by_blocks, bandwidth_gradient};
    struct gram_layout layout = {0};
    size_t bytes[4], most = 0;
    void *lent;

    if (op->kernel.batch.count == 0)
        return GRAM_OK;
    for (int i = 0; i < 4; i++) {
        TRY(gram_measure(g, &bytes[i], parts[i](g, op)));
        most = gram_most_bytes(most, bytes[i]);
    }
    gram_take(&layout, &lent, most);
    TRY(gram_layout_open(g, &layout));
    for (int i = 0; i < 4; i++)
        TRY(run_in(g, parts[i], op, lent, bytes[i]));
    regularization_gradient(op);
    return GRAM_OK;
}

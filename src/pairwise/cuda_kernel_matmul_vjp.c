/*
 * cuda_kernel_matmul_vjp.c - gradients of products with kernel matrices on the device, with nothing
 * of the size of the matrix in memory
 *
 * The gradient of a set of points is one launch of kernel_matmul_vjp.cu a round, with the points of
 * the other set as centres, and one of kernel_matmul_sum.cu, which adds the sums of slices of the
 * centres and of groups of columns.  Where one set is both, its whole gradient has the cotangent
 * grad v^T + v grad^T, which is one of twice as many columns.  Of the cosine, the sums are
 * gradients to unit vectors, from which kernel_vjp.cu takes the part along the point, and divides
 * the rest by its norm.
 *
 * The gradient of the bandwidth is the sum of grad times the product of dK / dL with v, whose
 * kernels are those of gram_kernel_matmul.  What the registers do not hold, or what costs more so,
 * is left to cuda_kernel_vjp.c, by blocks of the matrix.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kernel_fused.h"

enum {
    ROUND_BYTES = 1 << 28, /* of sums */
    MOST_ROWS = 4,         /* points a thread; half of them in f64, and where w needs registers */
    MOST_NUMBERS = 160,    /* coordinates, their sums and columns of these points; half likewise */
    MOST_CODE = 4096       /* instructions of the steps of one centre */
};

/*
 * Issue slots of a pair.  By blocks, what differs from here is that the cotangent and the weights
 * pass through memory, and the weights into the gradients: about eight times a number of f32, which
 * is 9 ps, or 300 slots of an H200 (see cuda_kernel_matmul_fused.c).  That is the least: an H100
 * took 41 ps by blocks, and 1.3 ps so (n = 3 10^5, d = 10).
 */
enum {
    BLOCK_SLOTS = 300,
    BLOCK_COLUMN_SLOTS = 2
};

static const struct cuda_kernel kernel_matmul_vjp = {"kernel_matmul_vjp.cu", "kernel_matmul_vjp"};

/* The gradient of one set of points. */
struct gradient {
    struct vjp_pass pass;
    struct gram_kernel_matmul_op sum; /* with it as the product, as kernel_matmul_sum.cu is told */
    struct fused f;                   /* slices: those of all groups */
    int64_t slices;                   /* of the centres */
};

/* ---- The plan -------------------------------------------------------------------------------- */

static bool is_quick(const struct gram_cdist_op *kernel)
{
    return kernel->function <= GRAM_MATERN52 && kernel->x.dtype == GRAM_F32;
}

/* Instructions of the steps of a centre, which are unrolled for each point. */
static int64_t code_of(const struct gradient *d, int rows)
{
    return 2 * d->sum.kernel.x.cols * cuda_fused_step_slots(&d->f.plan.options) * rows;
}

/* Points a thread: fewer where their numbers do not fit, or where there are few. */
static int rows_of(const struct gradient *d, int64_t columns)
{
    const struct gram_cdist_op *kernel = &d->sum.kernel;
    const int share = is_quick(kernel) ? 1 : 2;
    const int64_t numbers = (2 * kernel->x.cols + columns) * (kernel->x.dtype == GRAM_F64 ? 2 : 1);
    const int64_t room = kernel->x.dtype == GRAM_F64 ? MOST_NUMBERS : MOST_NUMBERS / share;
    int rows = MOST_ROWS / share;

    while (rows > 1 && (rows * numbers > room || code_of(d, rows) > MOST_CODE ||
                        kernel->x.rows <= (int64_t)MATMUL_THREADS * (rows / 2)))
        rows /= 2;
    return rows;
}

/* True if nothing else costs less; a pair's steps come once for its sum and once for its term. */
static bool costs_less(const struct gradient *d, int64_t columns)
{
    const struct gram_cdist_op *kernel = &d->sum.kernel;
    const int64_t element = 2 * kernel->x.cols * cuda_fused_step_slots(&d->f.plan.options) +
                            cuda_fused_function_slots(is_quick(kernel));

    return d->f.groups * (element + d->f.columns) <=
           element + BLOCK_SLOTS + BLOCK_COLUMN_SLOTS * columns;
}

/* Fills in all but the rounds; false if there is no room for the problem, or it is empty. */
static bool plan_gradient(const gram_context *g, const struct gram_kernel_vjp_op *op, bool of_y,
                          struct gradient *d)
{
    const int64_t depth = op->kernel.x.cols;
    int64_t columns;

    *d = (struct gradient){.pass = gram_vjp_pass(op, of_y)};
    columns = d->pass.factors * op->v.cols;
    d->sum = (struct gram_kernel_matmul_op){
        .kernel = op->kernel, .v = d->pass.left[0], .out = d->pass.to};
    d->sum.kernel.symmetric = false;
    d->sum.kernel.output = GRAM_WEIGHT;
    d->sum.kernel.x = d->pass.points, d->sum.kernel.y = d->pass.centres;
    d->f.op = &d->sum;
    if (d->pass.points.rows == 0 || d->pass.centres.rows == 0 || depth == 0 || columns == 0 ||
        gram_expression_is_of_wide(op->kernel.expression))
        return false;
    cuda_fused_plan_matrix(g, &d->f);
    if (cuda_fused_step_slots(&d->f.plan.options) == 0 || d->f.plan.options.step == PAIR_ZERO ||
        !cuda_fused_holds(&d->f.plan.options, depth) || code_of(d, 1) > MOST_CODE)
        return false;
    d->f.columns = cuda_fused_columns(&d->f.plan.options, depth, columns);
    d->f.groups = gram_ceil_div(columns, d->f.columns);
    d->f.rows = rows_of(d, d->f.columns);
    cuda_fused_cut(&d->f, (int64_t)MATMUL_THREADS * d->f.rows);
    d->slices = d->f.slices;
    d->f.slices *= d->f.groups;
    return true;
}

/* The plan of a gradient that goes this way; false: it goes by blocks. */
static bool choose(const gram_context *g, const struct gram_kernel_vjp_op *op, bool of_y,
                   struct gradient *d)
{
    const int form = g->matmul_form;
    const bool fused = form == GRAM_MATMUL_FUSED || form == GRAM_MATMUL_BLOCKS;

    if (form == GRAM_MATMUL_PANELS || gram_metric_given(&op->kernel.metric))
        return false;
    return plan_gradient(g, op, of_y, d) && (fused || costs_less(d, d->pass.factors * op->v.cols));
}

/* Bytes of the sums of so many points. */
static int64_t sum_bytes(const struct gradient *d, int64_t rows)
{
    return rows * d->f.slices * d->sum.out.cols * (int64_t)gram_dtype_size(d->sum.out.dtype);
}

/* Whole items, or blocks of points of one, for about as many bytes as a round has. */
static void plan_rounds(const gram_context *g, struct gradient *d)
{
    const int64_t m = d->sum.out.rows, block = (int64_t)MATMUL_THREADS * d->f.rows;
    const int64_t bytes = g->matmul_form == GRAM_MATMUL_BLOCKS ? 1 : ROUND_BYTES;
    const int64_t blocks = bytes / sum_bytes(d, block);

    d->f.round_items =
        gram_least(gram_most(1, blocks / gram_ceil_div(m, block)), d->sum.kernel.batch.count);
    d->f.round_rows = gram_least(m, gram_most(1, blocks) * block);
}

/* ---- Launches -------------------------------------------------------------------------------- */

static void set_variant(const struct gradient *d, struct cuda_variant *v)
{
    const struct cuda_cdist_options *o = &d->f.plan.options;

    cuda_variant(v, &kernel_matmul_vjp,
                 CUDA_OPTIONS({"REAL", cuda_type(o->is_double ? GRAM_F64 : GRAM_F32)},
                              {"IS_DOUBLE", o->is_double}, {"STEP", o->step}, {"WHOLE", o->whole},
                              {"FRACTION", o->fraction}, {"FUNCTION", o->function},
                              {"BASE", o->base}, {"SLOPE", o->slope}, {"HYPERS", o->hypers},
                              {"DEPTH", d->sum.kernel.x.cols}, {"ROWS", d->f.rows},
                              {"COLUMNS", d->f.columns}));
}

static gram_status launch(gram_context *g, const struct gradient *d,
                          const struct matmul_round *round)
{
    const int64_t blocks = gram_ceil_div(round->rows, (int64_t)MATMUL_THREADS * d->f.rows);
    const struct cuda_grid grid = {.blocks = blocks * d->f.slices * round->items,
                                   .threads = MATMUL_THREADS};
    struct kernel_vjp_params params = {.round = *round,
                                       .sums = d->f.sums,
                                       .columns = d->pass.factors * d->pass.left[0].cols,
                                       .factor_columns = d->pass.left[0].cols,
                                       .groups = d->f.groups,
                                       .slices = d->slices,
                                       .slice_points = d->f.slice_points,
                                       .pair = d->f.plan.params};
    struct cuda_variant v;

    for (int f = 0; f < d->pass.factors; f++) {
        params.left[f] = cuda_device_view(&d->pass.left[f]);
        params.right[f] = cuda_device_view(&d->pass.right[f]);
    }
    set_variant(d, &v);
    return gram_cuda_expression_launch(g, d->f.plan.expression, &v, &grid, (void *[]){&params});
}

/* The rounds one after the other, which use the same scratch. */
static gram_status run(gram_context *g, const struct gradient *d)
{
    const int64_t items = d->sum.kernel.batch.count, m = d->sum.out.rows;
    struct matmul_round round;

    for (round.first_item = 0; round.first_item < items; round.first_item += round.items) {
        round.items = gram_least(d->f.round_items, items - round.first_item);
        for (round.first_row = 0; round.first_row < m; round.first_row += round.rows) {
            round.rows = gram_least(d->f.round_rows, m - round.first_row);
            if (gram_cancelled(g))
                return gram_fail(g, GRAM_CANCELLED, "cancelled");
            TRY(launch(g, d, &round));
            TRY(cuda_fused_sum(g, &d->f, &round));
        }
    }
    if (d->sum.kernel.function != GRAM_COSINE)
        return GRAM_OK;
    return cuda_vjp_project(g, &d->sum.kernel.batch, &d->pass.points, &d->pass.to);
}

static gram_status gradient(gram_context *g, const struct gram_kernel_vjp_op *op, bool of_y)
{
    struct gram_layout layout = {0};
    struct gradient d;
    gram_status status;
    bool entered;

    if (!(of_y ? op->want_y : op->want_x) || !choose(g, op, of_y, &d))
        return GRAM_OK;
    plan_rounds(g, &d);
    gram_take(&layout, &d.f.sums, (size_t)(sum_bytes(&d, d.f.round_rows) * d.f.round_items));
    TRY(gram_layout_open(g, &layout));
    entered = gram_cuda_enter(g->device);
    status = run(g, &d);
    gram_cuda_leave(g->device, entered);
    return status;
}

static gram_status x_gradient(gram_context *g, const struct gram_kernel_vjp_op *op)
{
    return gradient(g, op, false);
}

static gram_status y_gradient(gram_context *g, const struct gram_kernel_vjp_op *op)
{
    return gradient(g, op, true);
}

/* ---- The bandwidth --------------------------------------------------------------------------- */

/* The product of dK / dL with v; its place is not known yet. */
static struct gram_kernel_matmul_op derivative_of(const struct gram_kernel_vjp_op *op)
{
    struct gram_kernel_matmul_op product = {.kernel = op->kernel, .v = op->v};

    product.kernel.output = GRAM_BANDWIDTH_DERIVATIVE;
    product.out = gram_view_dense_items(NULL, op->grad.dtype, op->grad.rows, op->grad.cols,
                                        &op->kernel.batch);
    return product;
}

/* True if the bandwidth's gradient goes by that product. */
static bool by_product(const gram_context *g, const struct gram_kernel_vjp_op *op)
{
    const struct gram_kernel_matmul_op product = derivative_of(op);

    return op->want_bandwidth && gram_vjp_has_bandwidth(op->kernel.function) &&
           product.out.rows > 0 && product.out.cols > 0 && cuda_kernel_fused(g, &product);
}

static gram_status bandwidth_gradient(gram_context *g, const struct gram_kernel_vjp_op *op)
{
    const struct gram_batch *batch = &op->kernel.batch;
    const int64_t m = op->grad.rows, r = op->grad.cols;
    struct gram_kernel_matmul_op product = derivative_of(op);
    struct gram_scratch_before before;
    struct gram_layout layout = {0};
    gram_status status;
    void *inner;
    double *sums;
    size_t bytes;
    bool entered;

    if (!by_product(g, op))
        return GRAM_OK;
    TRY(gram_measure(g, &bytes, cuda_kernel_matmul(g, &product)));
    gram_take_many(&layout, &product.out.data, (size_t)batch->count,
                   (size_t)(m * r) * gram_dtype_size(op->grad.dtype));
    gram_take_many(&layout, &sums, (size_t)batch->count, (size_t)m * sizeof *sums);
    gram_take(&layout, &inner, bytes);
    TRY(gram_layout_open(g, &layout));
    gram_scratch_lend(g, inner, bytes, &before);
    status = cuda_kernel_matmul(g, &product);
    gram_scratch_return(g, &before);
    TRY(status);
    entered = gram_cuda_enter(g->device);
    status = cuda_vjp_dot(g, batch, &op->grad, &product.out, sums, &op->bandwidth);
    gram_cuda_leave(g->device, entered);
    return status;
}

/* ---- The call -------------------------------------------------------------------------------- */

/* What is left to blocks of the matrix. */
static gram_status others(gram_context *g, const struct gram_kernel_vjp_op *op)
{
    struct gram_kernel_vjp_op rest = *op;
    struct gradient d;

    rest.want_x = op->want_x && !choose(g, op, false, &d);
    rest.want_y = op->want_y && !choose(g, op, true, &d);
    rest.want_bandwidth = op->want_bandwidth && !by_product(g, op);
    if (!rest.want_x)
        rest.x.data = NULL;
    if (!rest.want_y)
        rest.y.data = NULL;
    return rest.want_x || rest.want_y || rest.want_bandwidth || rest.want_regularization
               ? cuda_kernel_vjp(g, &rest)
               : GRAM_OK;
}

gram_status cuda_kernel_matmul_vjp(gram_context *g, const struct gram_kernel_vjp_op *op)
{
    gram_vjp_part *const parts[] = {x_gradient, y_gradient, bandwidth_gradient, others};

    TRY(cuda_kernel_vjp_check(g, op));
    if (op->kernel.batch.count == 0)
        return GRAM_OK;
    return gram_vjp_parts(g, op, parts, sizeof parts / sizeof *parts);
}

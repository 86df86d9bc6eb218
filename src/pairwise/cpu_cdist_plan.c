/*
 * cpu_cdist_plan.c - sizes of rounds and blocks, and what the hyperparameters of an item come to
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_cdist.h"
#include "pairwise.h"
#include <math.h>

enum {
    DEPTH_BYTES = 8192,      /* of a row in a round: 2048 columns of f32 */
    SIDE_BYTES = 4 << 20,    /* packed rows of x, and of y, in a round */
    BLOCK_BYTES = 512 << 10, /* packed rows of y that a block goes over: half of a 1 MiB L2 */
    BLOCK_COLS_BYTES = 2048, /* of a row of a block: a strip of 12 rows stays in L1 */
    BLOCK_ROWS = 480,        /* how often a block's rows of y are used once they are in L2 */
    MIRROR_ROWS = 48, /* whole cache lines of the mirrored part, whole strips for mr 4, 6 and 12 */
    MAX_ITEMS = 256,
    SHORTEST_EXPANDED = 32,   /* columns from which the norms and checks of a tile pay */
    STREAMED_BYTES = 8 << 20, /* an out from this size on is streamed: 2000 x 2000 x 64 in 6.0 ms,
                                 by common stores 6.8 ms; 10000 x 10000 x 16 3 % faster (Zen 4) */
};

static void swap_views(struct gram_view *a, struct gram_view *b)
{
    struct gram_view t = *a;

    *a = *b, *b = t;
}

/* The same problem with rows and columns exchanged: every step is symmetric in x and y. */
static void transpose(struct gram_cdist_op *op)
{
    int64_t rows = op->out.rows, row_stride = op->out.row_stride, offset = op->row_offset;

    swap_views(&op->x, &op->y);
    op->out.rows = op->out.cols, op->out.cols = rows;
    op->out.row_stride = op->out.col_stride, op->out.col_stride = row_stride;
    op->row_offset = op->column_offset, op->column_offset = offset;
}

static int64_t padded_work(const struct cdist_plan *plan, int64_t m, int64_t n)
{
    return gram_round_up(m, plan->mr) / 4 * gram_round_up(n, plan->nr);
}

/* Contiguous columns of out suit the vectors; thin problems are transposed to waste fewer lanes. */
static void orient(struct cdist_plan *plan)
{
    struct gram_cdist_op *op = &plan->op;
    int64_t m = op->out.rows, n = op->out.cols;
    bool thin = m < 4 * plan->nr || n < 4 * plan->nr;

    if (!gram_cdist_turns(op))
        return;
    if (thin && padded_work(plan, m, n) != padded_work(plan, n, m)) {
        if (padded_work(plan, m, n) > padded_work(plan, n, m))
            transpose(op);
    } else if (op->out.col_stride != 1 && op->out.row_stride == 1)
        transpose(op);
}

/* Common stores first read the lines of out that they overwrite; that pays if they stay in a cache
 * until somebody reads them. */
static bool streams(const struct cdist_plan *plan)
{
    const struct gram_view *out = &plan->op.out;

    return out->col_stride == 1 && !plan->op.condensed &&
           (double)plan->op.batch.count * (double)out->rows * (double)out->cols *
                   (double)plan->element >=
               STREAMED_BYTES;
}

/* True if subtractions have execution units of their own. */
static bool subtracts_aside(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_is("amd") != 0;
#else
    return false;
#endif
}

/*
 * True if norms and products are faster for p = 2.  A step by differences is a subtraction and a
 * fused multiply-add, by products the latter alone.  Where both wait for the same execution units,
 * as on Intel's processors, products take half of the time; AMD's since Zen subtract on units of
 * their own, so differences cost nothing there.
 */
static bool expands(const struct cdist_plan *plan)
{
    const struct gram_cdist_op *op = &plan->op;

    if (op->inner != GRAM_DIFFERENCE || op->p.tensor.data || op->p.value != 2 || op->x.cols == 0 ||
        !gram_metric_is_norm(op->metric.kind))
        return false;
    if (plan->g->cdist_form != GRAM_FORM_AUTO)
        return plan->g->cdist_form == GRAM_FORM_EXPANSION;
    return op->x.cols >= SHORTEST_EXPANDED && !subtracts_aside();
}

static void choose_rounds(struct cdist_plan *plan)
{
    int64_t k = plan->columns, m = gram_round_up(plan->op.out.rows, plan->mr),
            n = gram_round_up(plan->op.out.cols, plan->nr), row_bytes, budget;

    plan->depth = gram_ceil_div(k, gram_most(1, gram_ceil_div(k, DEPTH_BYTES / plan->element)));
    if (plan->metric || plan->op.condensed || plan->sums)
        plan->depth = k; /* rows are changed as a whole, and out does not take sums in between */
    row_bytes = gram_most(1, plan->depth) * plan->element;
    budget = SIDE_BYTES / row_bytes;
    plan->x_rows = gram_least(m, gram_most(plan->mr, budget / plan->mr * plan->mr));
    plan->y_rows = gram_least(n, gram_most(plan->nr, budget / plan->nr * plan->nr));
    plan->items = 1;
    if (plan->x_rows == m && plan->y_rows == n)
        plan->items =
            gram_least(plan->op.batch.count,
                       gram_most(1, gram_least(MAX_ITEMS, budget / gram_most(1, gram_most(m, n)))));
}

/* Blocks for the caches, then smaller ones until every thread has a few. */
static void choose_blocks(struct cdist_plan *plan)
{
    int64_t depth_bytes = gram_most(1, plan->depth) * plan->element, wanted = 4 * plan->threads;
    int64_t cols = gram_least(BLOCK_BYTES / depth_bytes, BLOCK_COLS_BYTES / plan->element);
    int64_t rows = BLOCK_ROWS;

    cols = gram_most(cols / plan->nr, 1) * plan->nr;
    while (plan->items * gram_ceil_div(plan->x_rows, rows) * gram_ceil_div(plan->y_rows, cols) <
           wanted) {
        if (rows > MIRROR_ROWS)
            rows /= 2;
        else if (cols > 4 * plan->nr)
            cols /= 2;
        else
            break;
    }
    plan->block_rows = gram_least(gram_round_up(rows, plan->mr), plan->x_rows);
    plan->block_cols = gram_least(gram_round_up(cols, plan->nr), plan->y_rows);
}

static size_t panel_bytes(const struct cdist_plan *plan, int64_t rows)
{
    return (size_t)(plan->items * rows * plan->depth * plan->element);
}

void cpu_cdist_take(struct cdist_plan *plan, struct gram_layout *layout)
{
    const size_t x_bytes = panel_bytes(plan, plan->x_rows),
                 y_bytes = panel_bytes(plan, plan->y_rows);
    const size_t items = (size_t)plan->items;

    if (plan->empty)
        return;
    gram_take(layout, &plan->x_panels, x_bytes);
    gram_take(layout, &plan->y_panels, y_bytes);
    if (plan->expand) {
        gram_take(layout, &plan->x_centred, x_bytes);
        gram_take(layout, &plan->y_centred, y_bytes);
        gram_take(layout, &plan->centre, panel_bytes(plan, 1));
    }
    if (plan->op.function == GRAM_COSINE || plan->expand) {
        gram_take(layout, &plan->x_norms, items * (size_t)plan->x_rows * sizeof(double));
        gram_take(layout, &plan->y_norms, items * (size_t)plan->y_rows * sizeof(double));
    }
    if (plan->norms) {
        gram_take(layout, &plan->x_lengths, items * (size_t)(plan->x_rows * plan->element));
        gram_take(layout, &plan->y_lengths, items * (size_t)(plan->y_rows * plan->element));
    }
    gram_take(layout, &plan->item_memory, (plan->shared_item ? 1 : items) * plan->item_bytes);
    gram_take(layout, &plan->buffers, (size_t)plan->threads * plan->buffer_bytes);
}

static void choose_buffers(struct cdist_plan *plan)
{
    plan->item_bytes = cpu_cdist_metric_at(&plan->op) + cpu_metric_bytes(&plan->op);
    plan->buffer_rows = plan->op.symmetric ? MIRROR_ROWS : plan->mr;
    plan->buffer_bytes =
        gram_round64((size_t)(plan->buffer_rows * plan->block_cols * plan->element));
    plan->second_bytes = plan->buffer_bytes;
    if (plan->sums)
        plan->buffer_bytes *= 3;
    else if (cpu_metric_has_second(&plan->op))
        plan->buffer_bytes *= 2;
}

static void plan_for(const gram_context *g, const struct gram_cdist_op *op, int threads,
                     struct cdist_plan *plan)
{
    const struct gram_cdist_kernels *tiles;

    *plan = (struct cdist_plan){
        .g = g, .op = *op, .kernels = gram_cpu_kernels_of(g), .threads = threads};
    plan->empty = op->batch.count == 0 || op->out.rows == 0 || op->out.cols == 0;
    if (plan->empty)
        return;
    plan->dtype = op->out.dtype;
    plan->element = (int64_t)gram_dtype_size(plan->dtype);
    tiles = &plan->kernels->cdist[plan->dtype];
    plan->mr = tiles->mr, plan->nr = tiles->nr;
    plan->shared_item = gram_cdist_of_numbers(op) && !op->metric.weights.data;
    plan->metric = gram_metric_given(&op->metric);
    plan->norms = op->expression && op->expression->norms;
    plan->sums = op->expression && op->expression->sums;
    plan->columns = cpu_metric_columns(op);
    plan->op.symmetric = gram_cdist_mirrors(op);
    orient(plan);
    plan->stream = streams(plan);
    plan->expand = expands(plan);
    choose_rounds(plan);
    choose_blocks(plan);
    choose_buffers(plan);
}

void cpu_cdist_plan(const gram_context *g, const struct gram_cdist_op *op, struct cdist_plan *plan)
{
    plan_for(g, op, g->threads, plan);
}

void cpu_cdist_plan_alone(const gram_context *g, const struct gram_cdist_op *op,
                          struct cdist_plan *plan)
{
    plan_for(g, op, 1, plan);
}

/* The tile for a sum of |d|^p. */
static enum gram_step step_of(double p)
{
    static const struct {
        double p;
        enum gram_step step;
    } special[] = {
        {       0,         GRAM_STEP_ZERO},
        {     0.5,         GRAM_STEP_HALF},
        {       1,          GRAM_STEP_ONE},
        {     1.5, GRAM_STEP_THREE_HALVES},
        {       2,          GRAM_STEP_TWO},
        {       3,        GRAM_STEP_THREE},
        {       4,         GRAM_STEP_FOUR},
        {INFINITY,     GRAM_STEP_INFINITY},
    };

    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (special[i].p == p)
            return special[i].step;
    return gram_power_is_wide(p) ? GRAM_STEP_WIDE_POWER : GRAM_STEP_POWER;
}

/* The expression with the parameters of an item, in the memory behind the item. */
static void evaluate(const struct gram_cdist_op *op, gram_dtype dtype, int64_t item,
                     struct cdist_item *out)
{
    double value[GRAM_MAX_PARAMETERS];

    for (int i = 0; i < op->parameters; i++)
        value[i] = gram_hyper_at(&op->parameter[i], &op->batch, item);
    out->map.evaluation = gram_evaluation_prepare(
        op->expression, value, dtype, (char *)out + gram_round64(sizeof(struct cdist_item)));
}

void cpu_cdist_item(const struct cdist_plan *plan, int64_t item, struct cdist_item *out)
{
    const struct gram_cdist_op *op = &plan->op;
    const struct gram_batch *batch = &op->batch;
    double p = gram_hyper_at(&op->p, batch, item);
    enum gram_step step = op->inner == GRAM_DOT ? GRAM_STEP_DOT : step_of(p);
    double outer = gram_hyper_at(&op->outer_power, batch, item);

    if (plan->metric) {
        step = cpu_metric_step(op, step);
        cpu_metric_item(op, plan->dtype, item, (char *)out + cpu_cdist_metric_at(op), &out->metric);
    }
    if (op->inner == GRAM_DOT)
        outer = 1;
    else if (op->root)
        outer = p > 0 && p < INFINITY ? 1 / p : 1;
    out->tile = op->metric.bits ? cpu_metric_bits_tile(op, plan->kernels)
                                : plan->kernels->cdist[plan->dtype].tile[step];
    if (step == GRAM_STEP_POWER || step == GRAM_STEP_WIDE_POWER)
        gram_power_prepare(&out->power, plan->dtype, p, 0);
    out->regularization =
        op->output == GRAM_VALUE ? gram_hyper_at(&op->regularization, batch, item) : 0;
    out->map = (struct gram_map){
        .inner = op->inner,
        .function = op->function == GRAM_COSINE ? GRAM_IDENTITY : op->function,
        .output = op->output,
        .p = p,
        .outer = outer,
        .bandwidth = gram_hyper_at(&op->bandwidth, batch, item),
        .exponent = gram_hyper_at(&op->exponent, batch, item),
        .alpha = gram_hyper_at(&op->alpha, batch, item),
        .gamma = gram_hyper_at(&op->gamma, batch, item),
        .coef0 = gram_hyper_at(&op->coef0, batch, item),
        .degree = gram_hyper_at(&op->degree, batch, item),
    };
    if (op->expression)
        evaluate(op, plan->dtype, item, out);
    out->mapped = out->map.function != GRAM_IDENTITY || outer != 1 || op->output != GRAM_VALUE;
    if (out->mapped)
        gram_map_prepare(&out->map, plan->dtype);
}

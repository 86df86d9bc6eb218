/*
 * cpu_cdist_grad.c - gradients of kernel expansions on the CPU, by tiles
 *
 *   out[o, n, m] = sum_k c[o, k] a[k, m] sgn(d[n, m] - b[n, k]) |d[n, m] - b[n, k]|^(p - 1)
 *
 * A task is a block of outputs o, features n and points m of one item, with all its centres k in
 * blocks of DEPTH.  Each block of k is packed into panels of the kernel's width and its sum is
 * added to out, so that rounding errors grow with DEPTH + K / DEPTH and not with K, and the value
 * of an element does not depend on how the tasks are cut or on the number of threads.
 *
 * One output (regression, two classes): c is multiplied into a as it is packed, and a step costs a
 * difference, its power and one fma.  More outputs: the weights a * power of one feature go to a
 * buffer in the first-level cache, once for all outputs, and a small product applies c to them.
 * p = 2 needs neither: see cpu_cdist_grad_square.c; for p = infinity cpu_cdist_grad_largest.c.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_cdist_grad.h"
#include "core/threads.h"
#include "cpu/cpu_kernels.h"
#include "cpu/power.h"
#include <math.h>

enum {
    /* Centres of a block.  256 rows of a panel are 32 KiB, the whole first-level cache, which only
     * one feature's weights in a buffer would compete for. */
    DEPTH = 256,
    DEPTH_MANY = 128,
    FEATURES = 64,  /* of a task: how often a packed block of a is used */
    OUTPUTS = 64,   /* of a task: how often a power is used */
    MAX_PANELS = 8, /* of points in a task: how often a packed block of b is used */
};

/* How the problem is cut into tasks, and where a thread keeps what: bytes from its scratch. */
struct grad_plan {
    gram_context *g;
    const struct gram_cdist_grad_op *op;
    const struct gram_grad_kernels *kernels;
    const struct grad_moves *moves;
    size_t element; /* bytes */
    bool add;
    int64_t depth, features, points;               /* of a block of centres, of a task */
    int64_t o_tasks, n_tasks, m_tasks, item_tasks; /* item_tasks: the product */
    size_t a, b, c, d, weights, tile, size;
    char *scratch;
    struct gram_power power; /* of all items, if p is a number */
};

/* A task's pieces of the inputs, its place in the output, and its scratch. */
struct grad_task {
    const struct grad_plan *plan;
    struct grad_piece a, b, c, d; /* a: K by points, b: features by K, c: outputs by K */
    struct grad_piece out;        /* features by points of the first output */
    enum gram_grad_power kind;
    const struct gram_power *power;
    bool one; /* c is multiplied into a */
    int64_t padded_features;
    char *a_panels, *b_panel, *c_panels, *d_panels, *weights, *tile;
};

static bool by_products(const struct gram_cdist_grad_op *op, double p)
{
    return p == 2 && op->a.rows > 0;
}

/* Of what is not here; p is that of an item. */
static bool elsewhere(const struct gram_cdist_grad_op *op, double p)
{
    return by_products(op, p) || isinf(p);
}

static bool nothing_to_do(const struct gram_cdist_grad_op *op)
{
    return op->batch.count == 0 || op->out.planes == 0 || op->out.rows == 0 || op->out.cols == 0;
}

/* Tasks as large as caches and reuse want, but enough of them for every thread. */
static void cut(struct grad_plan *plan, int threads)
{
    const struct gram_cdist_grad_op *op = plan->op;
    int width = plan->kernels->width, features = plan->kernels->features;

    plan->features = FEATURES;
    plan->points = MAX_PANELS * width;
    for (;;) {
        plan->o_tasks = gram_ceil_div(op->c.rows, OUTPUTS);
        plan->n_tasks = gram_ceil_div(op->d.rows, plan->features);
        plan->m_tasks = gram_ceil_div(op->d.cols, plan->points);
        plan->item_tasks = plan->o_tasks * plan->n_tasks * plan->m_tasks;
        if (plan->item_tasks >= 4 * threads || plan->item_tasks * op->batch.count >= 4 * threads)
            break;
        if (plan->points > width)
            plan->points /= 2;
        else if (plan->features > 2 * features)
            plan->features /= 2;
        else
            break;
    }
}

static struct grad_plan make_plan(const gram_context *g, const struct gram_cdist_grad_op *op)
{
    const struct gram_grad_kernels *kernels = gram_cpu_kernels_of(g)->cdist_grad[op->a.dtype];
    struct grad_plan plan = {
        .op = op,
        .kernels = kernels,
        .moves = cpu_grad_moves(op->a.dtype),
        .element = gram_dtype_size(op->a.dtype),
    };
    int64_t outputs = gram_least(op->c.rows, OUTPUTS), depth, width, rows;

    plan.depth = outputs > GRAM_GRAD_MAX_OUTPUTS ? DEPTH_MANY : DEPTH;
    depth = gram_least(op->a.rows, plan.depth);
    cut(&plan, g->threads);
    rows = gram_round_up(gram_least(op->d.rows, plan.features), kernels->features);
    width = gram_round_up(gram_least(op->d.cols, plan.points), kernels->width);
    plan.b = plan.a + gram_round64((size_t)(depth * width) * plan.element);
    plan.c = plan.b + gram_round64((size_t)(depth * rows) * plan.element);
    plan.d =
        plan.c + (outputs > 1
                      ? gram_round64((size_t)(depth * 2 * gram_ceil_div(outputs, 2)) * plan.element)
                      : 0);
    plan.weights = plan.d + gram_round64((size_t)(rows * width) * plan.element);
    plan.tile = plan.weights +
                (outputs > 1 ? gram_round64((size_t)(depth * kernels->width) * plan.element) : 0);
    rows = kernels->features > GRAM_GRAD_MAX_OUTPUTS ? kernels->features : GRAM_GRAD_MAX_OUTPUTS;
    plan.size = plan.tile + gram_round64((size_t)(rows * kernels->width) * plan.element);
    return plan;
}

static enum gram_grad_power kind_of(double p)
{
    return p == 1                      ? GRAM_GRAD_SIGN
           : p == 1.5                  ? GRAM_GRAD_SQRT
           : p == 3                    ? GRAM_GRAD_SQUARE
           : p == 4                    ? GRAM_GRAD_CUBE
           : gram_power_is_wide(p - 1) ? GRAM_GRAD_WIDE
                                       : GRAM_GRAD_ANY;
}

static struct grad_task task_at(const struct grad_plan *plan, int64_t index, int thread)
{
    const struct gram_cdist_grad_op *op = plan->op;
    int64_t item = index / plan->item_tasks, rest = index % plan->item_tasks, k = op->a.rows;
    int64_t m0 = rest % plan->m_tasks * plan->points;
    int64_t n0 = rest / plan->m_tasks % plan->n_tasks * plan->features;
    int64_t o0 = rest / plan->m_tasks / plan->n_tasks * OUTPUTS;
    int64_t features = plan->features, points = plan->points;
    char *scratch = plan->scratch + (size_t)thread * plan->size;
    double p = gram_hyper_at(&op->p, &op->batch, item);
    struct grad_task t = {
        .plan = plan,
        .a = cpu_grad_piece(&op->a, &op->batch, item, (struct grad_range){0, m0, k, points}),
        .b = cpu_grad_piece(&op->b, &op->batch, item, (struct grad_range){n0, 0, features, k}),
        .c = cpu_grad_piece(&op->c, &op->batch, item, (struct grad_range){o0, 0, OUTPUTS, k}),
        .d =
            cpu_grad_piece(&op->d, &op->batch, item, (struct grad_range){n0, m0, features, points}),
        .out = cpu_grad_piece(&op->out, &op->batch, item,
                              (struct grad_range){n0, m0, features, points}),
        .kind = kind_of(p),
        .one = op->c.rows == 1,
        .power = &plan->power,
        .a_panels = scratch + plan->a,
        .b_panel = scratch + plan->b,
        .c_panels = scratch + plan->c,
        .d_panels = scratch + plan->d,
        .weights = scratch + plan->weights,
        .tile = scratch + plan->tile,
    };

    t.out.data += o0 * op->out.plane_stride * (int64_t)plan->element;
    t.padded_features = gram_round_up(t.d.rows, plan->kernels->features);
    return t;
}

/* The outputs of the next sum kernel when `left` are left: an even number, as large as the largest
 * kernel or, for the last ones, split evenly (26 = 10 + 8 + 8). */
static int64_t sum_rows(int64_t left)
{
    int64_t calls = gram_ceil_div(left, GRAM_GRAD_MAX_OUTPUTS);

    return 2 * gram_ceil_div(left, 2 * calls);
}

/* Panels of centres [k, k + depth): a by points, b by features, c by outputs or into a. */
static void pack_block(const struct grad_task *t, int64_t k, int64_t depth)
{
    const struct grad_plan *plan = t->plan;
    const struct gram_grad_kernels *kernels = plan->kernels;
    const struct grad_range all = {k, 0, depth, INT64_MAX};
    struct grad_piece a = cpu_grad_part(&t->a, all, plan->element);
    struct grad_piece b = cpu_grad_part_transposed(&t->b, all, plan->element);
    struct grad_piece c = cpu_grad_part_transposed(&t->c, all, plan->element);
    char *panel = t->c_panels;

    plan->moves->pack(&a, &(struct grad_panels){t->a_panels, depth, kernels->width,
                                                t->one ? c.data : NULL, c.row_stride});
    plan->moves->pack(&b, &(struct grad_panels){
                              .panel = t->b_panel, .depth = depth, .width = t->padded_features});
    for (int64_t o = 0, width; !t->one && o < c.cols; o += width) {
        struct grad_piece part;
        width = sum_rows(c.cols - o);
        part = cpu_grad_part(&c, (struct grad_range){0, o, depth, width}, plan->element);
        plan->moves->pack(&part,
                          &(struct grad_panels){.panel = panel, .depth = depth, .width = width});
        panel += (size_t)(depth * width) * plan->element;
    }
}

/* The tile of features from n and points from m on, as the kernels take it. */
static struct gram_grad_tile tile_at(const struct grad_task *t, int64_t n, int64_t m, int64_t depth)
{
    size_t element = t->plan->element;
    int64_t width = t->plan->kernels->width;

    return (struct gram_grad_tile){
        .depth = depth,
        .b_stride = t->padded_features,
        .a = t->a_panels + (size_t)(m * depth) * element,
        .b = t->b_panel + (size_t)n * element,
        .c = t->c_panels,
        .d = t->d_panels + (size_t)(m * t->padded_features + n * width) * element,
        .power = t->power,
    };
}

/* One output: a call gives features by points. */
static void one_output(const struct grad_task *t, int64_t depth, bool add)
{
    const struct grad_plan *plan = t->plan;
    int64_t rows = plan->kernels->features, width = plan->kernels->width;

    for (int64_t m = 0; m < t->d.cols; m += width)
        for (int64_t n = 0; n < t->d.rows; n += rows) {
            const struct gram_grad_tile tile = tile_at(t, n, m, depth);
            struct grad_piece to =
                cpu_grad_part(&t->out, (struct grad_range){n, m, rows, width}, plan->element);
            plan->kernels->one[t->kind](&tile, t->tile);
            plan->moves->store(&to, t->tile, width, add);
        }
}

/* Outputs [o, o + rows) of feature n and points from m on go from the tile to their place. */
static void store_outputs(const struct grad_task *t, const int64_t nm[2], int64_t o, int64_t rows,
                          bool add)
{
    const struct grad_plan *plan = t->plan;
    int64_t width = plan->kernels->width;
    struct grad_piece outputs = t->out, to;

    outputs.data += nm[0] * t->out.row_stride * (int64_t)plan->element;
    outputs.rows = t->c.rows;
    outputs.row_stride = plan->op->out.plane_stride;
    to = cpu_grad_part(&outputs, (struct grad_range){o, nm[1], rows, width}, plan->element);
    plan->moves->store(&to, t->tile, width, add);
}

/* Few outputs: a call gives all of them for one feature. */
static void few_outputs(const struct grad_task *t, int64_t depth, bool add)
{
    const struct gram_grad_kernels *kernels = t->plan->kernels;
    int64_t rows = sum_rows(t->c.rows);

    for (int64_t m = 0; m < t->d.cols; m += kernels->width)
        for (int64_t n = 0; n < t->d.rows; n++) {
            const struct gram_grad_tile tile = tile_at(t, n, m, depth);
            kernels->few[t->kind][rows / 2 - 1](&tile, t->tile);
            store_outputs(t, (int64_t[]){n, m}, 0, rows, add);
        }
}

/* Many outputs: the weights of one feature, then some outputs at a time. */
static void many_outputs(const struct grad_task *t, int64_t depth, bool add)
{
    const struct grad_plan *plan = t->plan;
    const struct gram_grad_kernels *kernels = plan->kernels;

    for (int64_t m = 0; m < t->d.cols; m += kernels->width)
        for (int64_t n = 0; n < t->d.rows; n++) {
            const struct gram_grad_tile tile = tile_at(t, n, m, depth);
            const char *c = t->c_panels;
            kernels->weights[t->kind](&tile, t->weights);
            for (int64_t o = 0, rows; o < t->c.rows; o += rows) {
                rows = sum_rows(t->c.rows - o);
                kernels->sum[rows / 2 - 1](depth, c, t->weights, t->tile);
                store_outputs(t, (int64_t[]){n, m}, o, rows, add);
                c += (size_t)(depth * rows) * plan->element;
            }
        }
}

static void run_task(void *arg, int64_t index, int thread)
{
    const struct grad_plan *plan = arg;
    const struct gram_cdist_grad_op *op = plan->op;
    int64_t start = gram_trace_begin(plan->g), k = 0;
    double p = gram_hyper_at(&op->p, &op->batch, index / plan->item_tasks);
    void (*block)(const struct grad_task *t, int64_t depth, bool add) = many_outputs;
    struct gram_power own;
    struct grad_task t;

    if (elsewhere(op, p))
        return;
    t = task_at(plan, index, thread);
    if (op->p.tensor.data) {
        gram_power_prepare(&own, op->a.dtype, p - 1, 0);
        t.power = &own;
    }
    if (op->c.rows <= GRAM_GRAD_MAX_OUTPUTS && plan->kernels->few[t.kind][0])
        block = few_outputs;
    if (t.one)
        block = one_output;
    plan->moves->pack(&t.d, &(struct grad_panels){.panel = t.d_panels,
                                                  .depth = t.padded_features,
                                                  .width = plan->kernels->width});
    do { /* once even without centres: their sum is zero */
        int64_t depth = gram_least(op->a.rows - k, plan->depth);
        pack_block(&t, k, depth);
        block(&t, depth, plan->add || k > 0);
        k += plan->depth;
    } while (k < op->a.rows);
    gram_trace_end(plan->g, "cdist_grad", thread, start);
}

size_t cpu_cdist_grad_workspace(const gram_context *g, const struct gram_cdist_grad_op *op)
{
    size_t tiles = 0, products = 0, largest = 0;
    bool any = op->p.tensor.data != NULL;

    if (nothing_to_do(op))
        return 0;
    if (any || !elsewhere(op, op->p.value))
        tiles = make_plan(g, op).size * (size_t)g->threads;
    if (any || by_products(op, op->p.value))
        products = cpu_cdist_grad_square_bytes(op);
    if (any || isinf(op->p.value))
        largest = cpu_cdist_grad_largest_bytes(g, op);
    return gram_most_bytes(largest, gram_most_bytes(tiles, products));
}

void cpu_cdist_grad_in(gram_context *g, const struct gram_cdist_grad_op *op, bool add,
                       void *scratch)
{
    struct grad_plan plan;

    if (nothing_to_do(op))
        return;
    if (op->p.tensor.data || !elsewhere(op, op->p.value)) {
        plan = make_plan(g, op);
        plan.g = g;
        plan.add = add;
        plan.scratch = scratch;
        if (!op->p.tensor.data)
            gram_power_prepare(&plan.power, op->a.dtype, op->p.value - 1, 0);
        gram_parallel_for(g, plan.item_tasks * op->batch.count, run_task, &plan);
    }
    for (int64_t i = 0; i < op->batch.count; i++) {
        double p = gram_hyper_at(&op->p, &op->batch, i);
        if (by_products(op, p))
            cpu_cdist_grad_square(g, op, i, add, scratch);
        else if (isinf(p))
            cpu_cdist_grad_largest(g, op, i, add, scratch);
    }
}

gram_status cpu_cdist_grad(gram_context *g, const struct gram_cdist_grad_op *op)
{
    void *scratch;

    TRY(gram_scratch(g, cpu_cdist_grad_workspace(g, op), &scratch));
    cpu_cdist_grad_in(g, op, false, scratch);
    return GRAM_OK;
}

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
 *
 * p = 2 is two products of matrices, by BLAS:
 *   out[o, n, m] = (d[n, m] - mean[n]) (c a)[o, m] - sum_k c[o, k] (b[n, k] - mean[n]) a[k, m]
 * with mean[n] the mean of b[n, :]: the differences are the same, and what cancels is smaller when
 * a feature is far from 0.  Both products are one: the rows c and c (b - mean) of the left factor
 * are written a block at a time and multiplied into a scratch matrix, which has no larger size for
 * larger problems; a is read where it lies if BLAS can, else a block of it is packed.
 *
 * With p = infinity the largest difference decides:
 *   out[o, n, m] = sum_k c[o, k] a[k, m] sgn(t[n]) [|t[n]| = max |t|], t = d[:, m] - b[:, k]
 * A task is a point.  Each of its centres takes two passes over the features: the first finds the
 * largest difference, the second one adds where it is taken, which is mostly once.  The sums are in
 * double, in the order of the centres.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/threads.h"
#include "cpu/cpu_kernels.h"
#include "cpu/power.h"
#include "cpu_cdist.h"
#include <limits.h>
#include <math.h>
#include <string.h>

enum {
    /* Centres of a block.  256 rows of a panel are 32 KiB, the whole first-level cache, which only
     * one feature's weights in a buffer would compete for. */
    DEPTH = 256,
    DEPTH_MANY = 128,
    FEATURES = 64,  /* of a task: how often a packed block of a is used */
    OUTPUTS = 64,   /* of a task: how often a power is used */
    MAX_PANELS = 8, /* of points in a task: how often a packed block of b is used */
    AHEAD = 4, /* rows between what is prefetched and what is packed: 10 % of p = 1, one output */

    /* p = 2 */
    PRODUCT_OUTPUTS = 64,  /* of a block */
    PRODUCT_ROWS = 512,    /* of the left factor: features times outputs, at least one feature */
    PRODUCT_DEPTH = 512,   /* centres of a block */
    PRODUCT_POINTS = 2048, /* of a block: 512 x 512 x 2048 products keep BLAS at its full speed */
    PRODUCT_GRAIN = 16384, /* elements moved by one piece of a parallel loop */
};

/* ---- Pieces of strided matrices, panels and tiles ------------------------------------------- */

/* A piece of a matrix: rows by cols elements from data on; strides in elements. */
struct grad_piece {
    char *data;
    int64_t rows, cols, row_stride, col_stride;
};

/* At most `rows` rows from `row` on and `cols` columns from `col` on. */
struct grad_range {
    int64_t row, col, rows, cols;
};

/* Panels next to each other, each with all rows of the piece: panel[q][r][w], w < width, is
 * piece[r][q width + w] factor[r], or 0 where that is outside; there are depth >= rows rows. */
struct grad_panels {
    void *panel;
    int64_t depth, width;
    const char *factor; /* NULL: 1 */
    int64_t factor_stride;
};

struct grad_moves {
    void (*pack)(const struct grad_piece *piece, const struct grad_panels *to);
    /* piece[r][w] = tile[r stride + w], or += with add */
    void (*store)(const struct grad_piece *piece, const void *tile, int64_t stride, bool add);
};

/* p = 2: a block of features, outputs and points of one item, and its scratch. */
struct square_block {
    struct grad_piece a, b, c, d, out; /* all centres; out: the plane of the first output */
    int64_t out_plane, k, depth;       /* centres [k, k + depth) are at work */
    bool add;
    double *mean;             /* one per feature */
    void *factors, *products; /* (features + 1) outputs rows by depth, by points */
    void *packed;             /* a as depth by points, where BLAS cannot read it */
    void (*step)(const struct square_block *s, int64_t n);
    int64_t first, last, grain; /* features n of a parallel loop */
};

/* p = infinity: one item, and where its threads keep their sums. */
struct largest_item {
    struct gram_view a, b, c, d, out;
    bool add;
    char *scratch;
    size_t size; /* of a thread's sums, in bytes */
};

#define TEMPLATE "pairwise/cdist_grad_loops.h"
#define HALVES   0
#define INTEGERS 0
#include "cpu/each_dtype.h"

static const struct grad_moves *moves_of(gram_dtype dtype)
{
    static const struct grad_moves f32 = {pack_f32, store_f32}, f64 = {pack_f64, store_f64};

    return dtype == GRAM_F32 ? &f32 : &f64;
}

static int64_t overlap(int64_t size, int64_t first, int64_t wanted)
{
    return size - first < wanted ? size - first : wanted;
}

/* The part of a piece that lies in range. */
static struct grad_piece part_at(const struct grad_piece *of, struct grad_range range,
                                 size_t element)
{
    struct grad_piece part = *of;
    int64_t offset = range.row * of->row_stride + range.col * of->col_stride;

    part.rows = overlap(of->rows, range.row, range.rows);
    part.cols = overlap(of->cols, range.col, range.cols);
    if (part.data) /* an empty matrix may have none */
        part.data += offset * (int64_t)element;
    return part;
}

/* The part of its transpose. */
static struct grad_piece part_transposed(const struct grad_piece *of, struct grad_range range,
                                         size_t element)
{
    const struct grad_piece t = {of->data, of->cols, of->rows, of->col_stride, of->row_stride};

    return part_at(&t, range, element);
}

/* The part of an item's first plane. */
static struct grad_piece piece_of(const struct gram_view *v, const struct gram_batch *batch,
                                  int64_t item, struct grad_range range)
{
    const struct grad_piece whole = {gram_view_item(v, batch, item), v->rows, v->cols,
                                     v->row_stride, v->col_stride};

    return part_at(&whole, range, gram_dtype_size(v->dtype));
}

/* ---- p = 2: products ------------------------------------------------------------------------ */

/* Sizes of the largest block. */
struct square_sizes {
    int64_t outputs, features, depth, points;
};

/* True if BLAS can read a: unit stride in one dimension, no overlap in the other. */
static bool readable(const struct gram_view *a)
{
    int64_t r = a->row_stride, c = a->col_stride;

    return (c == 1 && r >= a->cols && r <= INT_MAX) || (r == 1 && c >= a->rows && c <= INT_MAX);
}

static struct square_sizes sizes_of(const struct gram_cdist_grad_op *op)
{
    struct square_sizes s = {.outputs = gram_least(op->c.rows, PRODUCT_OUTPUTS)};

    s.features = gram_least(op->d.rows, PRODUCT_ROWS / s.outputs);
    s.depth = gram_least(op->a.rows, PRODUCT_DEPTH);
    s.points = gram_least(op->a.cols, PRODUCT_POINTS);
    return s;
}

static void take_square(const struct gram_cdist_grad_op *op, const struct square_sizes *size,
                        struct square_block *s, struct gram_layout *layout)
{
    const size_t element = gram_dtype_size(op->a.dtype);
    const int64_t rows = (size->features + 1) * size->outputs;

    gram_take(layout, &s->mean, (size_t)size->features * sizeof *s->mean);
    gram_take(layout, &s->factors, (size_t)(rows * size->depth) * element);
    gram_take(layout, &s->products, (size_t)(rows * size->points) * element);
    if (!readable(&op->a))
        gram_take(layout, &s->packed, (size_t)(size->depth * size->points) * element);
}

static size_t bytes_of_square(const struct gram_cdist_grad_op *op)
{
    const struct square_sizes size = sizes_of(op);
    struct gram_layout layout = {0};
    struct square_block s;

    take_square(op, &size, &s, &layout);
    return gram_layout_bytes(&layout);
}

static void run_step(void *arg, int64_t index, int thread)
{
    const struct square_block *s = arg;
    int64_t first = s->first + index * s->grain, last = gram_least(first + s->grain, s->last);

    (void)thread;
    for (int64_t n = first; n < last; n++)
        s->step(s, n);
}

/* Runs step for the features from first on, each of which moves `elements` elements. */
static void for_features(gram_context *g, struct square_block *s, int64_t first, int64_t elements,
                         void (*step)(const struct square_block *s, int64_t n))
{
    s->step = step;
    s->first = first;
    s->last = s->b.rows;
    s->grain = 1 + PRODUCT_GRAIN / (elements + 1);
    gram_for(g, (double)(s->last - first) * (double)elements,
             (s->last - first + s->grain - 1) / s->grain, run_step, s);
}

/* products = or += factors times centres [k, k + depth) of a. */
static void multiply(const struct square_block *s, const struct gram_view *whole)
{
    size_t element = gram_dtype_size(whole->dtype);
    struct grad_piece a =
        part_at(&s->a, (struct grad_range){s->k, 0, s->depth, s->a.cols}, element);
    struct gram_blas_matrix left = {a.data, a.row_stride, false};
    struct gram_blas_matrix right = {s->factors, s->depth, false};
    const int64_t mnk[3] = {a.cols, (s->b.rows + 1) * s->c.rows, s->depth};

    if (!readable(whole)) {
        const struct grad_panels panels = {.panel = s->packed, .depth = s->depth, .width = a.cols};
        moves_of(whole->dtype)->pack(&a, &panels);
        left = (struct gram_blas_matrix){s->packed, a.cols, false};
    } else if (a.col_stride != 1 || a.row_stride < whole->cols)
        left = (struct gram_blas_matrix){a.data, a.col_stride, true};
    gram_blas_gemm(whole->dtype, mnk, 1, left, right, s->k > 0, s->products, a.cols);
}

static void run_block(gram_context *g, struct square_block *s, const struct gram_view *whole)
{
    bool f32 = whole->dtype == GRAM_F32;

    for (s->k = 0; s->k < s->b.cols; s->k += PRODUCT_DEPTH) {
        s->depth = gram_least(s->b.cols - s->k, PRODUCT_DEPTH);
        for_features(g, s, -1, s->c.rows * s->depth, f32 ? write_factors_f32 : write_factors_f64);
        multiply(s, whole);
    }
    for_features(g, s, 0, s->c.rows * s->d.cols, f32 ? combine_f32 : combine_f64);
}

static void run_products(gram_context *g, const struct gram_cdist_grad_op *op, int64_t item,
                         bool add, void *scratch)
{
    const struct square_sizes size = sizes_of(op);
    const struct gram_batch *batch = &op->batch;
    int64_t o, n, m, start = gram_trace_begin(g), all = op->a.rows;
    int64_t plane = op->out.plane_stride * (int64_t)gram_dtype_size(op->out.dtype);
    struct square_block s = {
        .out_plane = op->out.plane_stride,
        .add = add,
    };
    struct gram_layout layout = {0};

    take_square(op, &size, &s, &layout);
    gram_layout_place(&layout, scratch);
    gram_blas_threads(g);
    for (n = 0; n < op->d.rows; n += size.features) {
        s.b = piece_of(&op->b, batch, item, (struct grad_range){n, 0, size.features, all});
        for_features(g, &s, 0, all, op->a.dtype == GRAM_F32 ? find_mean_f32 : find_mean_f64);
        for (o = 0; o < op->c.rows; o += size.outputs)
            for (m = 0; m < op->a.cols; m += size.points) {
                const struct grad_range part = {n, m, size.features, size.points};
                s.a = piece_of(&op->a, batch, item, (struct grad_range){0, m, all, size.points});
                s.c = piece_of(&op->c, batch, item, (struct grad_range){o, 0, size.outputs, all});
                s.d = piece_of(&op->d, batch, item, part);
                s.out = piece_of(&op->out, batch, item, part);
                s.out.data += o * plane;
                run_block(g, &s, &op->a);
            }
    }
    gram_trace_end(g, "cdist_grad square", 0, start);
}

/* ---- p = infinity: the largest difference --------------------------------------------------- */

static size_t bytes_of_sums(const struct gram_cdist_grad_op *op)
{
    return gram_round64((size_t)(op->c.rows * op->d.rows) * sizeof(double));
}

static void store_sum(const struct largest_item *item, int64_t at, double sum)
{
    const struct gram_view *v = &item->out;
    char *to = (char *)v->data + at * (int64_t)gram_dtype_size(v->dtype);

    if (v->dtype == GRAM_F32)
        *(float *)(void *)to = (float)(item->add ? (double)*(float *)(void *)to + sum : sum);
    else
        *(double *)(void *)to = item->add ? *(double *)(void *)to + sum : sum;
}

static void run_point(void *arg, int64_t m, int thread)
{
    const struct largest_item *item = arg;
    const struct gram_view *v = &item->out;
    double *sums = (double *)(void *)(item->scratch + (size_t)thread * item->size);

    memset(sums, 0, item->size);
    if (v->dtype == GRAM_F32)
        add_largest_f32(item, m, sums);
    else
        add_largest_f64(item, m, sums);
    for (int64_t o = 0; o < item->c.rows; o++)
        for (int64_t n = 0; n < item->d.rows; n++)
            store_sum(item, o * v->plane_stride + n * v->row_stride + m * v->col_stride,
                      sums[o * item->d.rows + n]);
}

static void run_largest(gram_context *g, const struct gram_cdist_grad_op *op, int64_t index,
                        bool add, void *scratch)
{
    struct largest_item item = {
        .a = gram_view_alone(&op->a, &op->batch, index),
        .b = gram_view_alone(&op->b, &op->batch, index),
        .c = gram_view_alone(&op->c, &op->batch, index),
        .d = gram_view_alone(&op->d, &op->batch, index),
        .out = gram_view_alone(&op->out, &op->batch, index),
        .add = add,
        .scratch = scratch,
        .size = bytes_of_sums(op),
    };

    gram_parallel_for(g, op->d.cols, run_point, &item);
}

/* ---- Tiles: every other p ------------------------------------------------------------------- */

/* How the problem is cut into tasks. */
struct grad_plan {
    gram_context *g;
    const struct gram_cdist_grad_op *op;
    const struct gram_grad_kernels *kernels;
    const struct grad_moves *moves;
    size_t element; /* bytes */
    bool add;
    int64_t depth, features, points;               /* of a block of centres, of a task */
    int64_t o_tasks, n_tasks, m_tasks, item_tasks; /* item_tasks: the product */
    size_t size;                                   /* of a thread's scratch */
    char *scratch;                                 /* of all threads, one after the other */
    struct gram_power power;                       /* of all items, if p is a number */
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

/* True if p, that of an item, takes no tiles. */
static bool takes_no_tiles(const struct gram_cdist_grad_op *op, double p)
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

/* The scratch of a task, as large as the largest one needs. */
static void take_task(const struct grad_plan *plan, struct grad_task *t, struct gram_layout *layout)
{
    const struct gram_cdist_grad_op *op = plan->op;
    const struct gram_grad_kernels *kernels = plan->kernels;
    const int64_t depth = gram_least(op->a.rows, plan->depth);
    const int64_t outputs = gram_least(op->c.rows, OUTPUTS);
    const int64_t features =
        gram_round_up(gram_least(op->d.rows, plan->features), kernels->features);
    const int64_t points = gram_round_up(gram_least(op->d.cols, plan->points), kernels->width);
    const int64_t rows = gram_most(kernels->features, GRAM_GRAD_MAX_OUTPUTS);
    const size_t element = plan->element;

    gram_take(layout, &t->a_panels, (size_t)(depth * points) * element);
    gram_take(layout, &t->b_panel, (size_t)(depth * features) * element);
    gram_take(layout, &t->c_panels,
              outputs > 1 ? (size_t)(depth * 2 * gram_ceil_div(outputs, 2)) * element : 0);
    gram_take(layout, &t->d_panels, (size_t)(features * points) * element);
    gram_take(layout, &t->weights, outputs > 1 ? (size_t)(depth * kernels->width) * element : 0);
    gram_take(layout, &t->tile, (size_t)(rows * kernels->width) * element);
}

static struct grad_plan make_plan(const gram_context *g, const struct gram_cdist_grad_op *op)
{
    const struct gram_grad_kernels *kernels = gram_cpu_kernels_of(g)->cdist_grad[op->a.dtype];
    struct grad_plan plan = {
        .op = op,
        .kernels = kernels,
        .moves = moves_of(op->a.dtype),
        .element = gram_dtype_size(op->a.dtype),
    };
    struct gram_layout layout = {0};
    struct grad_task task;

    plan.depth = gram_least(op->c.rows, OUTPUTS) > GRAM_GRAD_MAX_OUTPUTS ? DEPTH_MANY : DEPTH;
    cut(&plan, g->threads);
    take_task(&plan, &task, &layout);
    plan.size = gram_layout_bytes(&layout);
    return plan;
}

enum gram_grad_power cpu_cdist_grad_power(double p)
{
    return p == 1                      ? GRAM_GRAD_SIGN
           : p == 1.5                  ? GRAM_GRAD_SQRT
           : p == 2                    ? GRAM_GRAD_LINEAR
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
    struct gram_layout layout = {0};
    double p = gram_hyper_at(&op->p, &op->batch, item);
    struct grad_task t = {
        .plan = plan,
        .a = piece_of(&op->a, &op->batch, item, (struct grad_range){0, m0, k, points}),
        .b = piece_of(&op->b, &op->batch, item, (struct grad_range){n0, 0, features, k}),
        .c = piece_of(&op->c, &op->batch, item, (struct grad_range){o0, 0, OUTPUTS, k}),
        .d = piece_of(&op->d, &op->batch, item, (struct grad_range){n0, m0, features, points}),
        .out = piece_of(&op->out, &op->batch, item, (struct grad_range){n0, m0, features, points}),
        .kind = cpu_cdist_grad_power(p),
        .one = op->c.rows == 1,
        .power = &plan->power,
    };

    take_task(plan, &t, &layout);
    gram_layout_place(&layout, plan->scratch + (size_t)thread * plan->size);
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
    struct grad_piece a = part_at(&t->a, all, plan->element);
    struct grad_piece b = part_transposed(&t->b, all, plan->element);
    struct grad_piece c = part_transposed(&t->c, all, plan->element);
    char *panel = t->c_panels;

    plan->moves->pack(&a, &(struct grad_panels){t->a_panels, depth, kernels->width,
                                                t->one ? c.data : NULL, c.row_stride});
    plan->moves->pack(&b, &(struct grad_panels){
                              .panel = t->b_panel, .depth = depth, .width = t->padded_features});
    for (int64_t o = 0, width; !t->one && o < c.cols; o += width) {
        struct grad_piece part;
        width = sum_rows(c.cols - o);
        part = part_at(&c, (struct grad_range){0, o, depth, width}, plan->element);
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
                part_at(&t->out, (struct grad_range){n, m, rows, width}, plan->element);
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
    to = part_at(&outputs, (struct grad_range){o, nm[1], rows, width}, plan->element);
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

    if (takes_no_tiles(op, p))
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

/* ---- The call ------------------------------------------------------------------------------- */

/* The bytes of scratch, which ways of different items use one after the other. */
static size_t bytes_of(const gram_context *g, const struct gram_cdist_grad_op *op)
{
    size_t tiles = 0, products = 0, largest = 0;
    bool any = op->p.tensor.data != NULL;

    if (any || !takes_no_tiles(op, op->p.value))
        tiles = make_plan(g, op).size * (size_t)g->threads;
    if (any || by_products(op, op->p.value))
        products = bytes_of_square(op);
    if (any || isinf(op->p.value))
        largest = bytes_of_sums(op) * (size_t)g->threads;
    return gram_most_bytes(largest, gram_most_bytes(tiles, products));
}

static void run_tiles(gram_context *g, const struct gram_cdist_grad_op *op, bool add, void *scratch)
{
    struct grad_plan plan = make_plan(g, op);

    plan.g = g;
    plan.add = add;
    plan.scratch = scratch;
    if (!op->p.tensor.data)
        gram_power_prepare(&plan.power, op->a.dtype, op->p.value - 1, 0);
    gram_parallel_for(g, plan.item_tasks * op->batch.count, run_task, &plan);
}

static gram_status run(gram_context *g, const struct gram_cdist_grad_op *op, bool add)
{
    struct gram_layout layout = {0};
    void *scratch;

    if (nothing_to_do(op))
        return GRAM_OK;
    gram_take(&layout, &scratch, bytes_of(g, op));
    TRY(gram_layout_open(g, &layout));
    if (op->p.tensor.data || !takes_no_tiles(op, op->p.value))
        run_tiles(g, op, add, scratch);
    for (int64_t i = 0; i < op->batch.count; i++) {
        double p = gram_hyper_at(&op->p, &op->batch, i);
        if (by_products(op, p))
            run_products(g, op, i, add, scratch);
        else if (isinf(p))
            run_largest(g, op, i, add, scratch);
    }
    return GRAM_OK;
}

gram_status cpu_cdist_grad(gram_context *g, const struct gram_cdist_grad_op *op)
{
    return run(g, op, false);
}

gram_status cpu_cdist_grad_in(gram_context *g, const struct gram_cdist_grad_op *op, bool add,
                              void *memory, size_t bytes)
{
    struct gram_scratch_before before;
    gram_status status;

    gram_scratch_lend(g, memory, bytes, &before);
    status = run(g, op, add);
    gram_scratch_return(g, &before);
    return status;
}

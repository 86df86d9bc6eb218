/*
 * cuda_cdist_grad.c - gram_cdist_grad on the device: one to three launches, nothing waited for
 *
 *   p = 2            ranges of the numbers, then tiles by products (cdist_grad_mma.cu in f32)
 *   p = infinity     the largest differences, then the gradients (cdist_grad_passes.cu)
 *   any other p      tiles, a term for every centre (cdist_grad.cu)
 * Where the tiles would leave processors idle the centres are cut into parts, whose gradients lie
 * in scratch until a last launch adds them up in their order.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda/arena.h"
#include "cuda_cdist.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    TX = 16,           /* threads of cdist_grad.cu along points */
    TX_SIGNS = 4,      /* with p = 1 and several outputs */
    TY = 8,            /* and along features */
    TY_SQUARE = 16,    /* with p = 2 in f64 */
    PER_PROCESSOR = 3, /* blocks that run side by side */
    PER_PROCESSOR_WIDE = 2,
    THREADS_OF_TERMS = TX * TY,
    THREADS_OF_SQUARE = TX * TY_SQUARE,
    LEAST_CENTRES = 256, /* of a part: fewer would not be worth its sum */
    MOST_SPLITS = 16,
    CENTRE_GRAIN = 16,     /* a part is a whole number of panels */
    PASS_THREADS = 256,    /* of cdist_grad_passes.cu */
    SUM_BLOCKS = 2048,     /* that keep every processor busy */
    MOST_BLOCKS = 1 << 16, /* of p = infinity */
};

static const int64_t most_part_bytes = 512 << 20; /* of all parts */

static const struct cuda_kernel cdist_grad = {"cdist_grad.cu", "cdist_grad"},
                                cdist_grad_mma = {"cdist_grad_mma.cu", "cdist_grad_mma"},
                                cdist_grad_range = {"cdist_grad_passes.cu", "cdist_grad_range"},
                                cdist_grad_sum = {"cdist_grad_passes.cu", "cdist_grad_sum"},
                                cdist_grad_largest = {"cdist_grad_passes.cu", "cdist_grad_largest"},
                                cdist_grad_where = {"cdist_grad_passes.cu", "cdist_grad_where"};

/* ---- Powers that are not whole -------------------------------------------------------------- */

/* The numbers with which pair_terms.cuh raises to such a power. */
static const long double middle = PAIR_POWER_MIDDLE, radius = 0.375L; /* of the range of P */

/* The polynomial of powers of P - center through P^g at the zeros of a Chebyshev polynomial, which
 * comes within 3 times the best one's error: Newton's divided differences, multiplied out. */
static void interpolate(double g, long double center, int terms, long double *c)
{
    long double at[PAIR_POWER_TERMS], difference[PAIR_POWER_TERMS];

    for (int i = 0; i < terms; i++) {
        at[i] = middle + radius * cosl(acosl(-1) * (2 * i + 1) / (2 * terms));
        difference[i] = powl(at[i], g);
        c[i] = 0;
    }
    for (int order = 1; order < terms; order++)
        for (int i = terms - 1; i >= order; i--)
            difference[i] = (difference[i] - difference[i - 1]) / (at[i] - at[i - order]);
    for (int i = terms - 1; i >= 0; i--) {
        for (int k = terms - 1; k > 0; k--)
            c[k] = c[k - 1] - (at[i] - center) * c[k];
        c[0] = difference[i] - (at[i] - center) * c[0];
    }
}

/* The host finds these numbers once per plan, in long double: kernels only evaluate a polynomial
 * and look up two small tables.  The f32 polynomial is scaled so that it stays below 1. */
void cuda_cdist_power(double g, struct pair_power *power)
{
    const double most = pow(4.5, g) * (1 + 0x1p-20); /* P^g / most stays under 1 */
    long double c[PAIR_POWER_TERMS];

    interpolate(g, 0, 4, c);
    for (int k = 0; k < 4; k++)
        power->f32[k] = (float)(c[k] / most);
    interpolate(g, middle, PAIR_POWER_TERMS, c);
    for (int k = 0; k < PAIR_POWER_TERMS; k++)
        power->f64[k] = (double)c[k];
    /* inv^-g for inv = 2^(e - bias) (1 + m / 8) */
    for (int m = 0; m < 8; m++)
        power->mantissa[m] = pow(1 + m / 8.0, -g);
    for (int bit = 0; bit < 10; bit++) {
        power->shrink[bit] = exp2(-g * (1 << bit));
        power->grow[bit] = exp2(g * (1 << bit));
    }
    power->f32_most = most;
}

/* ---- Options -------------------------------------------------------------------------------- */

/* The term that has code of its own for this p; see grad_params.h. */
static void choose_step(const struct gram_cdist_grad_op *op, struct cuda_grad_options *o)
{
    double p = op->p.value, rest = floor(p - 2);

    o->step = GRAD_ANY;
    o->hypers = op->p.tensor.data != NULL;
    if (o->hypers)
        return;
    if (isinf(p))
        o->step = GRAD_MOST;
    else if (p == 1)
        o->step = GRAD_SIGN;
    else if (p == 1.5)
        o->step = GRAD_ROOT;
    else if (p == 2)
        o->step = op->a.rows > 0 ? GRAD_SQUARE : GRAD_SIGN;
    else if (p == floor(p) && rest <= GRAD_MOST_WHOLE) {
        o->step = GRAD_WHOLE;
        o->whole = (int)rest;
    } else if (!o->is_double && p < 1)
        o->step = GRAD_FLAT;
    else if (!o->is_double && rest < GRAD_MOST_WHOLE) {
        o->step = GRAD_POWER;
        o->whole = (int)rest + 1;
    }
}

/* True if cdist_grad_mma.cu serves the plan: p = 2 in f32, whose products tensor cores make from
 * pairs of halves. */
static bool by_products(const struct cuda_grad_options *o)
{
    return o->step == GRAD_SQUARE && !o->is_double;
}

/* True if cdist_grad.cu is compiled with SIGNS: p = 1 in f32 with several outputs, whose
 * sums of signs tensor cores make. */
static bool by_signs(const struct cuda_grad_options *o, int64_t outputs)
{
    return o->step == GRAD_SIGN && outputs > 1 && !o->is_double;
}

/* Outputs of a tile: few rounds of equal size, the largest that registers hold. */
static void choose_tile(const struct gram_cdist_grad_op *op, struct cuda_grad_options *o)
{
    int64_t outputs = op->c.rows, most = o->is_double ? 8 : 16;

    if (by_products(o)) {
        o->to = 1;
        return;
    }
    if (o->step == GRAD_SQUARE) {
        int all = 4;
        o->to = 1;
        while (2 * o->to <= all && outputs % (2L * o->to) == 0)
            o->to *= 2;
        o->tn = all / o->to;
        o->tm = all;
        return;
    }
    if (by_signs(o, outputs)) {
        o->to = outputs <= 8 ? 8 : 16;
        o->tn = 8, o->tm = 2;
        return;
    }
    o->to = (int)gram_ceil_div(outputs, gram_ceil_div(outputs, most));
    if (o->is_double)
        o->tn = o->to <= 4 ? 4 : 2, o->tm = o->to == 1 ? 4 : 2;
    else {
        o->tn = o->to == 1 ? 8 : o->to <= 10 ? 4 : 2;
        o->tm = o->to <= 4 ? 4 : 2;
    }
}

/* How a matrix comes to shared memory: see A_LOAD in cdist_grad.cu.  near: its stride along points
 * or features, far: along centres. */
static int load_of(const struct gram_view *v, const struct gram_batch *batch, int64_t near,
                   int64_t far)
{
    int64_t size = (int64_t)gram_dtype_size(v->dtype);
    bool aligned = near == 1 && (uintptr_t)v->data % 16 == 0 && far * size % 16 == 0;

    for (int i = 0; i < batch->ndim; i++)
        aligned &= v->batch_stride[i] * size % 16 == 0 || batch->shape[i] == 1;
    if (aligned)
        return 2;
    return llabs(near) <= llabs(far);
}

/* Features and points of a tile, and the threads that make it. */
static unsigned tile_of(const struct cuda_grad_options *o, int64_t *features, int64_t *points)
{
    int tx = by_signs(o, o->to) ? TX_SIGNS : TX;

    if (by_products(o)) {
        *features = *points = GRAD_MMA_TILE;
        return GRAD_MMA_THREADS;
    }
    *features = (int64_t)o->tn * (o->step == GRAD_SQUARE ? TY_SQUARE : TY);
    *points = (int64_t)o->tm * tx;
    return o->step == GRAD_SQUARE ? THREADS_OF_SQUARE : THREADS_OF_TERMS;
}

/* Dynamic shared memory: two panels and the totals, as cdist_grad.cu lays them out. */
static size_t shared_bytes(const struct cuda_grad_options *o)
{
    bool signs = by_signs(o, o->to), square = o->step == GRAD_SQUARE;
    int64_t size = o->is_double ? 8 : 4, lanes = 16 / size, own = signs ? o->to / 4 : o->to;
    int64_t centres = signs ? GRAD_SIGN_CENTRES : o->to > 1 && !square ? 8 : 16;
    int64_t c_ld = o->to == 1 ? 1 : gram_round_up(o->to, lanes), features, points, centre, totals;
    unsigned threads = tile_of(o, &features, &points);

    if (by_products(o))
        return GRAD_MMA_BYTES;
    centre = features + points + (signs ? 3 : 2) * lanes + c_ld;
    totals = square ? 0 : own * o->tn * o->tm * (int64_t)threads;
    return (size_t)((2 * centres * centre + totals) * size);
}

/* ---- Shapes --------------------------------------------------------------------------------- */

/* p as a number or where it lies, with the range that gram_cdist_grad demands of it. */
static void fill_p(const struct gram_cdist_grad_op *op, struct grad_params *params)
{
    const struct gram_hyper *p = &op->p;

    params->p = (struct pair_hyper){
        .number = cuda_device_number(p), .least = 0, .most = DBL_MAX, .open = 1};
    params->exponent = p->value - 1;
    params->fraction = p->value < 1 ? p->value - 1 : p->value - floor(p->value);
}

/* Shapes and strides of the inputs and the output. */
static void fill_shapes(const struct gram_cdist_grad_op *op, struct grad_params *params)
{
    params->a = cuda_device_view(&op->a), params->b = cuda_device_view(&op->b);
    params->c = cuda_device_view(&op->c), params->d = cuda_device_view(&op->d);
    params->out = cuda_device_view(&op->out);
    params->plane_stride = op->out.plane_stride;
    params->outputs = op->c.rows, params->features = op->d.rows;
    params->points = op->d.cols, params->centres = op->a.rows;
    params->items = op->batch.count;
    params->batch_ndim = op->batch.ndim;
    for (int d = 0; d < op->batch.ndim; d++)
        params->batch_shape[d] = op->batch.shape[d];
}

/* How many tiles there are along outputs, features and points. */
static void fill_tiles(const struct cuda_grad_options *o, struct grad_params *params)
{
    int64_t features, points;

    tile_of(o, &features, &points);
    params->output_tiles = gram_ceil_div(params->outputs, o->to);
    params->feature_tiles = gram_ceil_div(params->features, features);
    params->point_tiles = gram_ceil_div(params->points, points);
}

/* ---- Parts of the centres -------------------------------------------------------------------- */

/* The time of the slowest processor with `splits` parts, and of adding them up, about half a
 * percent per part, in units of one part's time on all processors. */
static double time_of(int64_t tiles, int64_t slots, int64_t splits)
{
    return (double)gram_ceil_div(tiles * splits, slots) / (double)splits + 0.005 * (double)splits;
}

/* So many parts that the last round of blocks is as full as the others. */
static int64_t best_splits(const struct grad_params *params, int64_t tiles, int64_t slots,
                           int64_t element)
{
    int64_t all = params->items * params->outputs * params->features * params->points * element;
    int64_t most = params->centres / LEAST_CENTRES, best = 1;

    if (most > MOST_SPLITS)
        most = MOST_SPLITS;
    if (most > most_part_bytes / all)
        most = most_part_bytes / all;
    if (tiles < 16 * slots)
        for (int64_t splits = 2; splits <= most; splits++)
            if (time_of(tiles, slots, splits) < time_of(tiles, slots, best))
                best = splits;
    return best;
}

/* The parts lie in scratch one after the other, each with all items, row-major. */
static void cut(struct cuda_grad_plan *plan, int64_t slots, bool add)
{
    struct grad_params *params = &plan->params;
    int64_t element = plan->options.is_double ? 8 : 4, stride, tiles;

    tiles = params->items * params->output_tiles * params->feature_tiles * params->point_tiles;
    params->splits = best_splits(params, tiles, slots, element);
    params->split_centres = gram_ceil_div(params->centres, params->splits);
    params->split_centres = gram_round_up(
        params->split_centres, by_products(&plan->options) ? GRAD_RANGE_CENTRES : CENTRE_GRAIN);
    if (params->centres > 0)
        params->splits = gram_ceil_div(params->centres, params->split_centres);
    params->add = add;
    plan->tiles = tiles * params->splits;
    if (params->splits == 1)
        return;
    plan->sum = (struct grad_sum_params){.out = params->out,
                                         .plane_stride = params->plane_stride,
                                         .outputs = params->outputs,
                                         .features = params->features,
                                         .points = params->points,
                                         .splits = params->splits,
                                         .items = params->items,
                                         .batch_ndim = params->batch_ndim,
                                         .add = add};
    memcpy(plan->sum.batch_shape, params->batch_shape, sizeof params->batch_shape);
    params->add = 0;
    params->out.col_stride = 1, params->out.row_stride = params->points;
    params->plane_stride = params->points * params->features;
    stride = params->plane_stride * params->outputs;
    for (int d = (int)params->batch_ndim - 1; d >= 0; d--) {
        params->out.batch_stride[d] = stride;
        stride *= params->batch_shape[d];
    }
    params->split_stride = stride;
}

/* ---- The plan ------------------------------------------------------------------------------- */

/* True if there is no gradient to write.  Without centres there is: it is zero. */
static bool is_empty(const struct gram_cdist_grad_op *op)
{
    return op->batch.count == 0 || op->out.planes == 0 || op->out.rows == 0 || op->out.cols == 0;
}

/* The step is known first, since it decides which file the options are for; then tile, loads and
 * shared memory, and last how many parts the centres are cut into. */
void cuda_cdist_grad_plan(const struct gram_cdist_grad_op *op, bool add, int processors,
                          struct cuda_grad_plan *plan)
{
    struct cuda_grad_options o = {.is_double = op->a.dtype == GRAM_F64};
    int64_t slots, features, points;

    *plan = (struct cuda_grad_plan){0};
    if (is_empty(op))
        return;
    choose_step(op, &o);
    fill_shapes(op, &plan->params);
    plan->options = o;
    if (o.step == GRAD_MOST) { /* two launches, which params alone describe */
        plan->params.add = add, plan->params.splits = 1;
        plan->tiles = 1;
        return;
    }
    choose_tile(op, &o);
    o.a_load = load_of(&op->a, &op->batch, op->a.col_stride, op->a.row_stride);
    o.b_load = load_of(&op->b, &op->batch, op->b.row_stride, op->b.col_stride);
    fill_p(op, &plan->params);
    if (o.step == GRAD_POWER)
        cuda_cdist_power(plan->params.fraction, &plan->params.power);
    fill_tiles(&o, &plan->params);
    plan->options = o;
    plan->shared_bytes = shared_bytes(&o);
    plan->threads = tile_of(&o, &features, &points);
    slots = o.step == GRAD_SQUARE || by_signs(&o, o.to) ? PER_PROCESSOR_WIDE : PER_PROCESSOR;
    cut(plan, slots * processors, add);
}

/* ---- Launches ------------------------------------------------------------------------------- */

/* The dtype of the arithmetic, which is that of all matrices. */
static gram_dtype dtype_of(const struct cuda_grad_plan *plan)
{
    return plan->options.is_double ? GRAM_F64 : GRAM_F32;
}

/* p = 2 in f32 is a file of its own, whose only options say how a and b come to shared memory. */
void cuda_cdist_grad_variant(const struct cuda_grad_plan *plan, struct cuda_variant *v)
{
    const struct cuda_grad_options *o = &plan->options;

    if (by_products(o)) {
        cuda_variant(v, &cdist_grad_mma,
                     CUDA_OPTIONS({"A_LOAD", o->a_load}, {"B_LOAD", o->b_load}));
        return;
    }
    cuda_variant(v, &cdist_grad,
                 CUDA_OPTIONS({"REAL", cuda_type(dtype_of(plan))}, {"IS_DOUBLE", o->is_double},
                              {"STEP", o->step}, {"WHOLE", o->whole}, {"TO", o->to}, {"TN", o->tn},
                              {"TM", o->tm}, {"A_LOAD", o->a_load}, {"B_LOAD", o->b_load},
                              {"P_TENSOR", o->hypers}));
}

/* For p = 2: the range of the numbers of each row, from which the tiles take their scales and
 * means. */
static gram_status queue_ranges(gram_context *g, struct cuda_grad_plan *plan)
{
    struct grad_params *params = &plan->params;
    int64_t groups = gram_ceil_div(params->points, GRAD_RANGE_ROWS) +
                     gram_ceil_div(params->features, GRAD_RANGE_ROWS) +
                     gram_ceil_div(params->outputs, GRAD_RANGE_ROWS);
    int64_t parts = gram_ceil_div(params->centres, GRAD_RANGE_CENTRES);

    return cuda_launch_plain(g, &cdist_grad_range, dtype_of(plan), params->items * groups * parts,
                             PASS_THREADS, params);
}

/* Adds up the gradients that the parts of the centres gave, in the order of the parts. */
static gram_status queue_sum(gram_context *g, struct cuda_grad_plan *plan)
{
    struct grad_sum_params *params = &plan->sum;
    int64_t all = params->items * params->outputs * params->features * params->points;

    return cuda_launch_plain(g, &cdist_grad_sum, dtype_of(plan),
                             gram_least(gram_ceil_div(all, PASS_THREADS), SUM_BLOCKS), PASS_THREADS,
                             params);
}

/* Has the plan's kernels compiled side by side, if the first call of a process needs them. */
static void load_ahead(const gram_context *g, const struct cuda_grad_plan *plan,
                       const struct cuda_variant *tiles)
{
    struct cuda_variant ahead[3];
    int count = 0;

    if (cuda_is_loaded(g, tiles))
        return;
    ahead[count++] = *tiles;
    if (plan->options.step == GRAD_SQUARE)
        cuda_variant(&ahead[count++], &cdist_grad_range,
                     CUDA_OPTIONS({"REAL", cuda_type(dtype_of(plan))}));
    if (plan->params.splits > 1)
        cuda_variant(&ahead[count++], &cdist_grad_sum,
                     CUDA_OPTIONS({"REAL", cuda_type(dtype_of(plan))}));
    cuda_load_ahead(g, ahead, count);
}

/* p = infinity: for every centre and point the size of the largest difference, then the sums of
 * those terms whose difference is as large.  The first launch has nothing to do without centres. */
static gram_status queue_largest(gram_context *g, struct cuda_grad_plan *plan)
{
    struct grad_params *params = &plan->params;
    const gram_dtype dtype = dtype_of(plan);
    int64_t pairs = gram_ceil_div(params->items * params->centres * params->points, PASS_THREADS);
    int64_t sums = gram_ceil_div(
        params->items * params->outputs * params->features * params->points, PASS_THREADS);

    if (pairs > 0)
        TRY(cuda_launch_plain(g, &cdist_grad_largest, dtype, gram_least(pairs, MOST_BLOCKS),
                              PASS_THREADS, params));
    return cuda_launch_plain(g, &cdist_grad_where, dtype, gram_least(sums, MOST_BLOCKS),
                             PASS_THREADS, params);
}

/* The scratch of a plan: for p = 2 the ranges, then the parts; for p = infinity the largest
 * differences. */
static gram_status open_scratch(gram_context *g, struct cuda_grad_plan *plan)
{
    struct grad_params *p = &plan->params;
    const size_t element = gram_dtype_size(dtype_of(plan));
    struct gram_layout layout = {0};
    char *parts = NULL;

    if (plan->options.step == GRAD_MOST)
        gram_take(&layout, &p->largest,
                  gram_round64((size_t)(p->items * p->centres * p->points) * element));
    if (plan->options.step == GRAD_SQUARE)
        gram_take(&layout, &p->ranges,
                  gram_round64((size_t)(gram_ceil_div(p->centres, GRAD_RANGE_CENTRES) * p->items *
                                        (p->points + p->features + p->outputs)) *
                               sizeof(struct grad_range)));
    if (p->splits > 1)
        gram_take(&layout, &parts, gram_round64((size_t)(p->split_stride * p->splits) * element));
    TRY(gram_layout_open(g, &layout));
    if (p->splits > 1)
        p->out.data = parts, plan->sum.parts = parts;
    return GRAM_OK;
}

/* Tiles, and what comes before and after them. */
static gram_status queue(gram_context *g, struct cuda_grad_plan *plan)
{
    const struct cuda_grid grid = {
        .blocks = plan->tiles, .threads = plan->threads, .shared = plan->shared_bytes};
    struct cuda_variant v;

    if (plan->options.step == GRAD_MOST)
        return queue_largest(g, plan);
    cuda_cdist_grad_variant(plan, &v);
    load_ahead(g, plan, &v);
    if (plan->options.step == GRAD_SQUARE)
        TRY(queue_ranges(g, plan));
    TRY(cuda_launch(g, &v, &grid, (void *[]){&plan->params}));
    return plan->params.splits > 1 ? queue_sum(g, plan) : GRAM_OK;
}

/* Opening the scratch ends a workspace query before anything is queued. */
gram_status cuda_cdist_grad_queue(gram_context *g, const struct gram_cdist_grad_op *op, bool add)
{
    const struct cuda_device *device = g->device;
    struct cuda_grad_plan plan;

    cuda_cdist_grad_plan(op, add, device->processors, &plan);
    if (plan.tiles == 0)
        return GRAM_OK;
    TRY(open_scratch(g, &plan));
    return queue(g, &plan);
}

/* The lent piece stands for the context's arena while the launches are planned and queued. */
gram_status cuda_cdist_grad_in(gram_context *g, const struct gram_cdist_grad_op *op, bool add,
                               void *memory, size_t bytes)
{
    struct gram_scratch_before before;
    gram_status status;

    gram_scratch_lend(g, memory, bytes, &before);
    status = cuda_cdist_grad_queue(g, op, add);
    gram_scratch_return(g, &before);
    return status;
}

/* ---- The call ------------------------------------------------------------------------------- */

/* The names are those of the arguments of gram_cdist_grad. */
gram_status cuda_cdist_grad_check(gram_context *g, const struct gram_cdist_grad_op *op)
{
    TRY(gram_cuda_check_pointer(g, "a", &op->a));
    TRY(gram_cuda_check_pointer(g, "b", &op->b));
    TRY(gram_cuda_check_pointer(g, "c", &op->c));
    TRY(gram_cuda_check_pointer(g, "d", &op->d));
    TRY(gram_cuda_check_pointer(g, "p", &op->p.tensor));
    return gram_cuda_check_pointer(g, "out", &op->out);
}

gram_status cuda_cdist_grad(gram_context *g, const struct gram_cdist_grad_op *op)
{
    gram_status status;
    bool entered;

    if (is_empty(op))
        return GRAM_OK;
    TRY(cuda_cdist_grad_check(g, op));
    entered = gram_cuda_enter(g->device);
    status = cuda_cdist_grad_queue(g, op, false);
    gram_cuda_leave(g->device, entered);
    return status;
}

/*
 * cuda_cdist_grad_plan.c - which variant of cdist_grad.cu serves a problem, and how it is cut
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_cdist_grad.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
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
    CENTRE_GRAIN = 16, /* a part is a whole number of panels */
};

static const int64_t most_part_bytes = 512 << 20; /* of all parts */

/* ---- Variants ------------------------------------------------------------------------------- */

static void choose_step(const struct gram_cdist_grad_op *op, struct cuda_grad_variant *v)
{
    double p = op->p.value, rest = floor(p - 2);

    v->step = GRAD_ANY;
    v->hypers = op->p.tensor.data != NULL;
    if (v->hypers)
        return;
    if (isinf(p))
        v->step = GRAD_MOST;
    else if (p == 1)
        v->step = GRAD_SIGN;
    else if (p == 1.5)
        v->step = GRAD_ROOT;
    else if (p == 2)
        v->step = op->a.rows > 0 ? GRAD_SQUARE : GRAD_SIGN;
    else if (p == floor(p) && rest <= GRAD_MOST_WHOLE) {
        v->step = GRAD_WHOLE;
        v->whole = (int)rest;
    } else if (!v->is_double && p < 1)
        v->step = GRAD_FLAT;
    else if (!v->is_double && rest < GRAD_MOST_WHOLE) {
        v->step = GRAD_POWER;
        v->whole = (int)rest + 1;
    }
}

/* By cdist_grad_mma.cu. */
static bool by_products(const struct cuda_grad_variant *v)
{
    return v->step == GRAD_SQUARE && !v->is_double;
}

/* SIGNS of cdist_grad.cu. */
static bool by_signs(const struct cuda_grad_variant *v, int64_t outputs)
{
    return v->step == GRAD_SIGN && outputs > 1 && !v->is_double;
}

/* Outputs of a tile: few rounds of equal size, the largest that registers hold. */
static void choose_tile(const struct gram_cdist_grad_op *op, struct cuda_grad_variant *v)
{
    int64_t outputs = op->c.rows, most = v->is_double ? 8 : 16;

    if (by_products(v)) {
        v->to = 1;
        return;
    }
    if (v->step == GRAD_SQUARE) {
        int all = 4;
        v->to = 1;
        while (2 * v->to <= all && outputs % (2L * v->to) == 0)
            v->to *= 2;
        v->tn = all / v->to;
        v->tm = all;
        return;
    }
    if (by_signs(v, outputs)) {
        v->to = outputs <= 8 ? 8 : 16;
        v->tn = 8, v->tm = 2;
        return;
    }
    v->to = (int)gram_ceil_div(outputs, gram_ceil_div(outputs, most));
    if (v->is_double)
        v->tn = v->to <= 4 ? 4 : 2, v->tm = v->to == 1 ? 4 : 2;
    else {
        v->tn = v->to == 1 ? 8 : v->to <= 10 ? 4 : 2;
        v->tm = v->to <= 4 ? 4 : 2;
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

static uint64_t pack(const struct cuda_grad_variant *v)
{
    const int field[][2] = {
        {v->is_double, 1},
        {     v->step, 3},
        {    v->whole, 4},
        {       v->to, 5},
        {       v->tn, 4},
        {       v->tm, 4},
        {   v->a_load, 2},
        {   v->b_load, 2},
        {   v->hypers, 1},
    };

    return gram_cuda_variant(CUDA_VARIANT_GRAD,
                             gram_cuda_pack(field, sizeof field / sizeof *field));
}

static const char *real_of(const struct cuda_grad_plan *plan)
{
    return plan->variant.is_double ? "double" : "float";
}

/* Features and points of a tile, and the threads that make it. */
static unsigned tile_of(const struct cuda_grad_variant *v, int64_t *features, int64_t *points)
{
    int tx = by_signs(v, v->to) ? TX_SIGNS : TX;

    if (by_products(v)) {
        *features = *points = GRAD_MMA_TILE;
        return GRAD_MMA_THREADS;
    }
    *features = (int64_t)v->tn * (v->step == GRAD_SQUARE ? TY_SQUARE : TY);
    *points = (int64_t)v->tm * tx;
    return v->step == GRAD_SQUARE ? THREADS_OF_SQUARE : THREADS_OF_TERMS;
}

/* Dynamic shared memory: two panels and the totals, as cdist_grad.cu lays them out. */
static size_t shared_bytes(const struct cuda_grad_variant *v)
{
    bool signs = by_signs(v, v->to), square = v->step == GRAD_SQUARE;
    int64_t size = v->is_double ? 8 : 4, lanes = 16 / size, own = signs ? v->to / 4 : v->to;
    int64_t centres = signs ? GRAD_SIGN_CENTRES : v->to > 1 && !square ? 8 : 16;
    int64_t c_ld = v->to == 1 ? 1 : gram_round_up(v->to, lanes), features, points, centre, totals;
    unsigned threads = tile_of(v, &features, &points);

    if (by_products(v))
        return GRAD_MMA_BYTES;
    centre = features + points + (signs ? 3 : 2) * lanes + c_ld;
    totals = square ? 0 : own * v->tn * v->tm * (int64_t)threads;
    return (size_t)((2 * centres * centre + totals) * size);
}

struct jit_request cuda_cdist_grad_request(const struct cuda_grad_plan *plan,
                                           char defines[CUDA_GRAD_DEFINES])
{
    const struct cuda_grad_variant *v = &plan->variant;

    if (by_products(v)) {
        snprintf(defines, CUDA_GRAD_DEFINES, "-DA_LOAD=%d -DB_LOAD=%d", v->a_load, v->b_load);
        return (struct jit_request){.file = "cdist_grad_mma.cu",
                                    .kernel = "cdist_grad_mma",
                                    .defines = defines,
                                    .variant = plan->number,
                                    .shared_bytes = plan->shared_bytes};
    }
    snprintf(defines, CUDA_GRAD_DEFINES,
             "-DREAL=%s -DIS_DOUBLE=%d -DSTEP=%d -DWHOLE=%d -DTO=%d -DTN=%d -DTM=%d -DA_LOAD=%d "
             "-DB_LOAD=%d -DP_TENSOR=%d",
             real_of(plan), v->is_double, v->step, v->whole, v->to, v->tn, v->tm, v->a_load,
             v->b_load, v->hypers);
    return (struct jit_request){.file = "cdist_grad.cu",
                                .kernel = "cdist_grad",
                                .defines = defines,
                                .variant = plan->number,
                                .shared_bytes = plan->shared_bytes};
}

struct jit_request cuda_cdist_grad_range_request(const struct cuda_grad_plan *plan)
{
    return gram_cuda_plain_request(CUDA_VARIANT_GRAD_RANGE,
                                   plan->variant.is_double ? GRAM_F64 : GRAM_F32);
}

/* ---- Shapes --------------------------------------------------------------------------------- */

static struct grad_side side_of(const struct gram_view *v)
{
    struct grad_side side = {
        .data = v->data, .row_stride = v->row_stride, .col_stride = v->col_stride};

    for (int d = 0; d < GRAM_MAX_DIMS; d++)
        side.batch_stride[d] = v->batch_stride[d];
    return side;
}

static void fill_p(const struct gram_cdist_grad_op *op, struct grad_params *params)
{
    const struct gram_hyper *p = &op->p;

    params->p = (struct pair_hyper){.value = p->value,
                                    .data = p->tensor.data,
                                    .is_double = p->tensor.dtype == GRAM_F64,
                                    .least = 0,
                                    .most = DBL_MAX,
                                    .open = 1};
    for (int d = 0; d < GRAM_MAX_DIMS; d++)
        params->p.batch_stride[d] = p->tensor.batch_stride[d];
    params->exponent = p->value - 1;
    params->fraction = p->value < 1 ? p->value - 1 : p->value - floor(p->value);
}

static void fill_shapes(const struct gram_cdist_grad_op *op, struct grad_params *params)
{
    params->a = side_of(&op->a), params->b = side_of(&op->b);
    params->c = side_of(&op->c), params->d = side_of(&op->d);
    params->out = side_of(&op->out);
    params->plane_stride = op->out.plane_stride;
    params->outputs = op->c.rows, params->features = op->d.rows;
    params->points = op->d.cols, params->centres = op->a.rows;
    params->items = op->batch.count;
    params->batch_ndim = op->batch.ndim;
    for (int d = 0; d < op->batch.ndim; d++)
        params->batch_shape[d] = op->batch.shape[d];
}

static void fill_tiles(const struct cuda_grad_variant *v, struct grad_params *params)
{
    int64_t features, points;

    tile_of(v, &features, &points);
    params->output_tiles = gram_ceil_div(params->outputs, v->to);
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
    int64_t element = plan->variant.is_double ? 8 : 4, stride, tiles;

    tiles = params->items * params->output_tiles * params->feature_tiles * params->point_tiles;
    params->splits = best_splits(params, tiles, slots, element);
    params->split_centres = gram_ceil_div(params->centres, params->splits);
    params->split_centres = gram_round_up(
        params->split_centres, by_products(&plan->variant) ? GRAD_RANGE_CENTRES : CENTRE_GRAIN);
    if (params->centres > 0)
        params->splits = gram_ceil_div(params->centres, params->split_centres);
    params->add = add;
    plan->tiles = tiles * params->splits;
    if (plan->variant.step == GRAD_SQUARE)
        plan->bytes = gram_round64(
            (size_t)(gram_ceil_div(params->centres, GRAD_RANGE_CENTRES) * params->items *
                     (params->points + params->features + params->outputs)) *
            sizeof(struct grad_range));
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
    plan->parts_at = plan->bytes;
    plan->bytes += gram_round64((size_t)(stride * params->splits * element));
}

/* p = infinity: two launches, of which params and the scratch tell everything. */
static void plan_largest(bool add, struct cuda_grad_plan *plan)
{
    struct grad_params *params = &plan->params;
    int64_t element = plan->variant.is_double ? 8 : 4;

    params->add = add, params->splits = 1;
    plan->tiles = 1;
    plan->bytes =
        gram_round64((size_t)(params->items * params->centres * params->points * element));
}

void cuda_cdist_grad_plan(const struct gram_cdist_grad_op *op, bool add, int processors,
                          struct cuda_grad_plan *plan)
{
    struct cuda_grad_variant v = {.is_double = op->a.dtype == GRAM_F64};
    int64_t slots, features, points;

    *plan = (struct cuda_grad_plan){0};
    if (op->batch.count == 0 || op->out.planes == 0 || op->out.rows == 0 || op->out.cols == 0)
        return;
    choose_step(op, &v);
    fill_shapes(op, &plan->params);
    plan->variant = v;
    if (v.step == GRAD_MOST) {
        plan_largest(add, plan);
        return;
    }
    choose_tile(op, &v);
    v.a_load = load_of(&op->a, &op->batch, op->a.col_stride, op->a.row_stride);
    v.b_load = load_of(&op->b, &op->batch, op->b.row_stride, op->b.col_stride);
    fill_p(op, &plan->params);
    if (v.step == GRAD_POWER)
        cuda_cdist_power(plan->params.fraction, &plan->params.power);
    fill_tiles(&v, &plan->params);
    plan->variant = v;
    plan->number = pack(&v);
    plan->shared_bytes = shared_bytes(&v);
    plan->threads = tile_of(&v, &features, &points);
    slots = v.step == GRAD_SQUARE || by_signs(&v, v.to) ? PER_PROCESSOR_WIDE : PER_PROCESSOR;
    cut(plan, slots * processors, add);
}

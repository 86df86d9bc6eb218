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
    TY = 8,            /* and along features */
    TY_SQUARE = 16,    /* with p = 2 */
    PER_PROCESSOR = 3, /* blocks that run side by side */
    PER_PROCESSOR_SQUARE = 2,
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
    if (p == 1)
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
    else if (!v->is_double && rest <= GRAD_MOST_WHOLE) {
        v->step = GRAD_POWER;
        v->whole = rest > 0 ? (int)rest : 0;
    }
}

/* Outputs of a tile: few rounds of equal size, the largest that registers hold. */
static void choose_tile(const struct gram_cdist_grad_op *op, struct cuda_grad_variant *v)
{
    int64_t outputs = op->c.rows, most = v->is_double ? 8 : 16;

    if (v->step == GRAD_SQUARE) {
        int all = v->is_double ? 4 : 8;
        v->to = 1;
        while (2 * v->to <= all && outputs % (2L * v->to) == 0)
            v->to *= 2;
        v->tn = all / v->to;
        v->tm = all;
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

struct jit_request cuda_cdist_grad_request(const struct cuda_grad_plan *plan,
                                           char defines[CUDA_GRAD_DEFINES])
{
    const struct cuda_grad_variant *v = &plan->variant;

    snprintf(defines, CUDA_GRAD_DEFINES,
             "-DREAL=%s -DIS_DOUBLE=%d -DSTEP=%d -DWHOLE=%d -DTO=%d -DTN=%d -DTM=%d -DA_LOAD=%d "
             "-DB_LOAD=%d -DP_TENSOR=%d",
             real_of(plan), v->is_double, v->step, v->whole, v->to, v->tn, v->tm, v->a_load,
             v->b_load, v->hypers);
    return (struct jit_request){
        .file = "cdist_grad.cu", .kernel = "cdist_grad", .defines = defines, .variant = pack(v)};
}

struct jit_request cuda_cdist_grad_mean_request(const struct cuda_grad_plan *plan,
                                                char defines[CUDA_GRAD_DEFINES])
{
    const struct cuda_grad_variant *v = &plan->variant;
    uint64_t near = v->b_load == 0, is_double = (uint64_t)v->is_double;

    snprintf(defines, CUDA_GRAD_DEFINES, "-DREAL=%s -DNEAR=%d", real_of(plan), (int)near);
    return (struct jit_request){
        .file = "cdist_grad_mean.cu",
        .kernel = "cdist_grad_mean",
        .defines = defines,
        .variant = gram_cuda_variant(CUDA_VARIANT_GRAD_MEAN, 2 * near + is_double)};
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
    params->fraction = p->value < 1 ? p->value - 1 : p->value - 2;
    if (p->value > 2)
        params->fraction -= floor(params->fraction);
}

static void fill_shapes(const struct gram_cdist_grad_op *op, const struct cuda_grad_variant *v,
                        struct grad_params *params)
{
    int ty = v->step == GRAD_SQUARE ? TY_SQUARE : TY;

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
    params->output_tiles = gram_ceil_div(params->outputs, v->to);
    params->feature_tiles = gram_ceil_div(params->features, (int64_t)ty * v->tn);
    params->point_tiles = gram_ceil_div(params->points, (int64_t)TX * v->tm);
}

/* ---- Parts of the centres ----------------------------------------------------------------------
 */

/* Time of the slowest processor with so many parts, and of their sum, about half a percent a part,
 * in units of one part's time on all processors. */
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
    params->split_centres = gram_round_up(params->split_centres, CENTRE_GRAIN);
    if (params->centres > 0)
        params->splits = gram_ceil_div(params->centres, params->split_centres);
    params->add = add;
    plan->tiles = tiles * params->splits;
    if (plan->variant.step == GRAD_SQUARE)
        plan->bytes = gram_round64((size_t)(gram_ceil_div(params->centres, GRAD_MEAN_CENTRES) *
                                            params->items * params->features) *
                                   sizeof(double));
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

void cuda_cdist_grad_plan(const struct gram_cdist_grad_op *op, bool add, int processors,
                          struct cuda_grad_plan *plan)
{
    struct cuda_grad_variant v = {.is_double = op->a.dtype == GRAM_F64};
    int64_t slots;

    *plan = (struct cuda_grad_plan){0};
    if (op->batch.count == 0 || op->out.planes == 0 || op->out.rows == 0 || op->out.cols == 0)
        return;
    choose_step(op, &v);
    choose_tile(op, &v);
    v.a_load = load_of(&op->a, &op->batch, op->a.col_stride, op->a.row_stride);
    v.b_load = load_of(&op->b, &op->batch, op->b.row_stride, op->b.col_stride);
    fill_p(op, &plan->params);
    fill_shapes(op, &v, &plan->params);
    plan->variant = v;
    slots = v.step == GRAD_SQUARE ? PER_PROCESSOR_SQUARE : PER_PROCESSOR;
    cut(plan, slots * processors, add);
}

/*
 * cuda_cdist_plan.c - which variant of cdist.cu serves a problem, and what it is told
 *
 * SPDX-License-Identifier: MIT
 */
#include "cdist.h"
#include "cuda/cuda_ops.h"
#include <float.h>
#include <math.h>
#include <stdio.h>

#define PAIR_FN static
#include "pair_map_params.h"

_Static_assert((int)GRAM_EXPRESSION == PAIR_EXPRESSION && (int)GRAM_MATERN52 == PAIR_MATERN52 &&
                   (int)GRAM_BANDWIDTH_DERIVATIVE == PAIR_BANDWIDTH_DERIVATIVE,
               "pair_params.h repeats enums of gram.h");
_Static_assert((int)GRAM_MAX_DIMS == PAIR_DIMS, "pair_params.h repeats a size of gram.h");
_Static_assert((int)GRAM_MAX_PARAMETERS == PAIR_PARAMETERS, "and another one");
_Static_assert((int)GRAM_HYPERS == PAIR_HYPERS &&
                   offsetof(struct gram_cdist_op, regularization) ==
                       offsetof(struct gram_cdist_op, hyper[PAIR_REGULARIZATION]),
               "pair_hyper_name repeats the order of gram_cdist_op's hyperparameters");

/* ---- Hyperparameters ------------------------------------------------------------------------ */

/* The ranges that the fronts demand of numbers. */
static void set_range(const struct gram_cdist_op *op, int name, struct pair_hyper *h)
{
    bool positive = name == PAIR_BANDWIDTH || name == PAIR_EXPONENT || name == PAIR_ALPHA;
    bool weight = op->output == GRAM_WEIGHT && op->inner == GRAM_DIFFERENCE;
    bool distance = op->function == GRAM_IDENTITY && op->output == GRAM_VALUE;

    h->least = positive || name == PAIR_P ? 0 : -DBL_MAX;
    h->most = name == PAIR_P && !weight ? (double)INFINITY : DBL_MAX;
    h->open = positive || (name == PAIR_P && !distance);
}

static void fill_hyper(const struct gram_hyper *from, struct pair_hyper *h)
{
    *h = (struct pair_hyper){.value = from->value,
                             .data = from->tensor.data,
                             .is_double = from->tensor.dtype == GRAM_F64,
                             .least = -DBL_MAX,
                             .most = DBL_MAX};
    for (int d = 0; d < GRAM_MAX_DIMS; d++)
        h->batch_stride[d] = from->tensor.batch_stride[d];
}

static bool fill_hypers(const struct gram_cdist_op *op, struct pair_params *params)
{
    bool tensors = false;

    for (int name = 0; name < PAIR_HYPERS; name++) {
        struct pair_hyper *h = &params->hyper[name];
        fill_hyper(&op->hyper[name], h);
        if (name == PAIR_OUTER && op->root)
            h->value = (double)NAN, h->data = NULL;
        set_range(op, name, h);
        tensors |= h->data != NULL;
    }
    for (int i = 0; i < op->parameters; i++) {
        fill_hyper(&op->parameter[i], &params->hyper[PAIR_HYPERS + i]);
        tensors |= op->parameter[i].tensor.data != NULL;
    }
    return tensors;
}

static void prepare_map(const struct gram_cdist_op *op, struct pair_params *params)
{
    const struct pair_what what = {(int)op->function, (int)op->output, op->inner == GRAM_DOT,
                                   op->out.dtype == GRAM_F64};
    double values[PAIR_HYPERS + PAIR_PARAMETERS];

    for (int name = 0; name < PAIR_HYPERS + PAIR_PARAMETERS; name++)
        values[name] = params->hyper[name].value;
    pair_map_prepare(&params->map, &what, values);
    if (op->expression)
        (void)gram_cuda_expression_constants(op->expression, values + PAIR_HYPERS,
                                             params->map.constant);
}

/* ---- Variants ------------------------------------------------------------------------------- */

/* How far from a whole number special functions are exact enough: see pair_power.cuh. */
static const double most_mixed = 0.34;

/* MIX of cdist.cu. */
static int mix_of(double p, const struct cuda_cdist_variant *v)
{
    if (!v->fraction || p < 1 || v->is_double)
        return 0;
    return p - floor(p) <= most_mixed ? 1 : ceil(p) - p <= most_mixed ? 2 : 0;
}

static void choose_step(const struct gram_cdist_op *op, struct cuda_cdist_variant *v)
{
    double p = op->p.value;

    v->step = PAIR_ANY;
    if (op->inner == GRAM_DOT)
        v->step = PAIR_DOT;
    else if (op->p.tensor.data)
        return;
    else if (p == 0)
        v->step = PAIR_ZERO;
    else if (p == 0.5)
        v->step = PAIR_HALF;
    else if (p == 1)
        v->step = PAIR_ONE;
    else if (p == 1.5)
        v->step = PAIR_THREE_HALVES;
    else if (p == 2)
        v->step = PAIR_TWO;
    else if (isinf(p))
        v->step = PAIR_INFINITY;
    else if (p < PAIR_MOST_WHOLE + 1 && (p == floor(p) || p > 1 || !v->is_double)) {
        v->step = PAIR_POWER;
        v->whole = (int)p;
        v->fraction = p != floor(p);
        v->mix = mix_of(p, v);
    }
}

/* How a side comes to shared memory: see X_LOAD in cdist.cu.  y's f32 columns change places there,
 * so that they come one by one. */
static int load_of(const struct gram_view *v, const struct gram_batch *batch, bool is_y)
{
    int64_t size = (int64_t)gram_dtype_size(v->dtype);
    bool aligned = size >= (is_y ? 8 : 4) && (v->col_stride == 1 || v->cols == 1) &&
                   v->cols * size % 16 == 0 && (uintptr_t)v->data % 16 == 0 &&
                   (v->row_stride * size % 16 == 0 || v->rows == 1);

    for (int i = 0; i < batch->ndim; i++)
        aligned &= v->batch_stride[i] * size % 16 == 0 || batch->shape[i] == 1;
    if (aligned)
        return 2;
    return llabs(v->col_stride) <= llabs(v->row_stride) || v->rows == 1;
}

int cuda_cdist_most_tile(const struct cuda_cdist_variant *v)
{
    return v->is_double || v->step == PAIR_ANY || v->step == PAIR_ZERO ? 4 : 8;
}

/* The largest tile that still gives every processor two blocks, and whose half would not hold an
 * item whole: of 100,000 items of 8 by 8 tiles of 128 by 128 took 4.4 ms on an H200. */
static int tile_of(const struct gram_cdist_op *op, const struct cuda_cdist_variant *v,
                   int processors)
{
    int tm = cuda_cdist_most_tile(v);
    double work = (double)op->batch.count * (double)op->out.rows * (double)op->out.cols;

    if (gram_cdist_mirrors(op))
        work /= 2;
    while (tm > 2 && (work / (16.0 * tm * 16.0 * tm) < 2.0 * processors ||
                      gram_most(op->out.rows, op->out.cols) <= 8L * tm))
        tm /= 2;
    return tm;
}

static void choose_kinds(const struct gram_cdist_op *op, const struct pair_params *params,
                         struct cuda_cdist_variant *v)
{
    v->base = v->hypers ? PAIR_RUN_TIME : (int)params->map.base.kind;
    v->slope = op->output != GRAM_WEIGHT ? PAIR_SAME
               : v->hypers               ? PAIR_RUN_TIME
                                         : (int)params->map.slope.kind;
}

static uint64_t pack(const struct cuda_cdist_variant *v)
{
    const int field[][2] = {
        {v->is_double, 1},
        {     v->half, 2},
        {       v->tm, 4},
        {      v->mix, 2},
        {     v->step, 4},
        {    v->whole, 4},
        { v->fraction, 1},
        {   v->x_load, 2},
        {   v->y_load, 2},
        { v->function, 4},
        {   v->output, 2},
        { v->base + 1, 3},
        {v->slope + 1, 3},
        {   v->hypers, 1},
        {   v->listed, 1},
        {   v->packed, 1},
    };

    return gram_cuda_pack(field, sizeof field / sizeof *field);
}

/* The assembler's full optimization moves the reads of a short loop so far ahead that it runs out
 * of registers; a long one needs it to hide latencies. */
static bool is_short(const struct cuda_cdist_variant *v)
{
    return v->step == PAIR_ONE || v->step == PAIR_TWO || v->step == PAIR_INFINITY ||
           v->step == PAIR_DOT || (v->step == PAIR_POWER && !v->fraction);
}

size_t cuda_cdist_shared(const struct cuda_cdist_variant *v, int arch)
{
    bool narrow = arch < 90 || (arch >= 120 && arch < 130);
    size_t row = narrow ? 64 : 128, rows = 2 * 16 * (size_t)v->tm;

    return v->packed ? 3 * rows * row : 2 * rows * (row + 16);
}

struct jit_request cuda_cdist_request(const struct cuda_cdist_plan *plan, char *defines)
{
    const struct cuda_cdist_variant *v = &plan->variant;
    const char *level = is_short(v) && !v->packed ? " --ptxas-options=-O1" : "";

    snprintf(defines, CUDA_CDIST_DEFINES,
             "-DREAL=%s -DIS_DOUBLE=%d -DHALF=%d -DTM=%d -DSTEP=%d -DWHOLE=%d -DFRACTION=%d "
             "-DMIX=%d -DX_LOAD=%d -DY_LOAD=%d -DFUNCTION=%d -DOUTPUT=%d -DBASE=%d -DSLOPE=%d "
             "-DHYPERS=%d -DLISTED=%d -DPACKED=%d%s",
             v->is_double ? "double" : "float", v->is_double, v->half, v->tm, v->step, v->whole,
             v->fraction, v->mix, v->x_load, v->y_load, v->function, v->output, v->base, v->slope,
             v->hypers, v->listed, v->packed, level);
    return (struct jit_request){
        .file = "cdist.cu", .kernel = "cdist", .defines = defines, .variant = plan->number};
}

/* ---- Shapes --------------------------------------------------------------------------------- */

static struct pair_side side_of(const struct gram_view *v)
{
    struct pair_side side = {
        .data = v->data, .rows = v->rows, .row_stride = v->row_stride, .col_stride = v->col_stride};

    for (int d = 0; d < GRAM_MAX_DIMS; d++)
        side.batch_stride[d] = v->batch_stride[d];
    return side;
}

/* Contiguous columns of out suit the stores; every step is symmetric in x and y. */
static bool is_turned(const struct gram_cdist_op *op)
{
    return op->out.col_stride != 1 && op->out.row_stride == 1;
}

static void fill_shapes(const struct gram_cdist_op *op, int tm, struct pair_params *params)
{
    bool turned = is_turned(op);
    struct gram_view out = op->out;

    if (turned) {
        out.rows = op->out.cols, out.cols = op->out.rows;
        out.row_stride = op->out.col_stride, out.col_stride = op->out.row_stride;
    }
    params->x = side_of(turned ? &op->y : &op->x);
    params->y = side_of(turned ? &op->x : &op->y);
    params->out = side_of(&out);
    params->depth = op->x.cols;
    params->items = op->batch.count;
    params->batch_ndim = op->batch.ndim;
    for (int d = 0; d < op->batch.ndim; d++)
        params->batch_shape[d] = op->batch.shape[d];
    params->tile_rows = gram_ceil_div(out.rows, 16L * tm);
    params->tile_cols = gram_ceil_div(out.cols, 16L * tm);
    params->symmetric = gram_cdist_mirrors(op);
    params->diagonal = op->column_offset - op->row_offset;
    if (turned)
        params->diagonal = -params->diagonal;
}

void cuda_cdist_plan(const struct gram_cdist_op *op, int processors, struct cuda_cdist_plan *plan)
{
    struct cuda_cdist_variant v = {.is_double = op->out.dtype == GRAM_F64,
                                   .function = (int)op->function,
                                   .output = (int)op->output};
    struct pair_params *params = &plan->params;
    bool turned = is_turned(op);

    plan->tiles = 0;
    if (op->batch.count == 0 || op->out.rows == 0 || op->out.cols == 0)
        return;
    v.half = op->x.dtype == GRAM_F16 ? 1 : op->x.dtype == GRAM_BF16 ? 2 : 0;
    choose_step(op, &v);
    v.tm = plan->tile ? plan->tile : tile_of(op, &v, processors);
    v.x_load = load_of(turned ? &op->y : &op->x, &op->batch, false);
    v.y_load = load_of(turned ? &op->x : &op->y, &op->batch, true);
    v.hypers = fill_hypers(op, params);
    if (!v.hypers)
        prepare_map(op, params);
    choose_kinds(op, params, &v);
    fill_shapes(op, v.tm, params);
    plan->tiles = params->items * params->tile_rows * params->tile_cols;
    if (v.fraction && v.whole > 0)
        cuda_cdist_power(op->p.value - v.whole + 1, &params->power);
    plan->variant = v;
    plan->number = pack(&v);
    plan->expression = op->expression;
    if (op->expression) /* the topmost bit is not one of pack()'s */
        plan->number =
            (gram_cuda_expression_number(op->expression) ^ plan->number * 0x9E3779B97F4A7C15u) |
            (uint64_t)1 << 63;
}

size_t cuda_cdist_identify(const struct cuda_cdist_plan *plan, struct cuda_cdist_identity *out)
{
    if (!plan->expression)
        return 0;
    out->variant = pack(&plan->variant);
    return (1 + gram_cuda_expression_words(plan->expression, out->words)) * sizeof *out->words;
}

/* Steps of a few instructions, where those that fetch panels tell. */
bool cuda_cdist_plan_packed(struct cuda_cdist_plan *plan)
{
    struct cuda_cdist_variant *v = &plan->variant;
    struct pair_params *p = &plan->params;

    if (plan->expression || !is_short(v) || v->step == PAIR_TWO || v->step == PAIR_DOT)
        return false;
    v->half = v->x_load = v->y_load = 0;
    v->packed = 1;
    v->tm = PANEL_ROWS / 16;
    p->depth = gram_round_up(p->depth, PANEL_COLS);
    p->tile_rows = gram_ceil_div(p->x.rows, PANEL_ROWS);
    p->tile_cols = gram_ceil_div(p->y.rows, PANEL_ROWS);
    p->x.row_stride = p->y.row_stride = p->depth;
    plan->tiles = p->items * p->tile_rows * p->tile_cols;
    plan->number = pack(v);
    return true;
}

void cuda_cdist_plan_listed(struct cuda_cdist_plan *plan)
{
    plan->variant.listed = 1;
    plan->variant.tm = SQUARE_LEFT_ROWS(plan->variant.is_double) / 16;
    plan->number = pack(&plan->variant);
}

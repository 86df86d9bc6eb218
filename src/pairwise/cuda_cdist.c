/*
 * cuda_cdist.c - gram_cdist and gram_kernel on the device: launches, nothing waited for
 *
 * A problem goes one of four ways, which `choose_way` decides from its plan:
 *   WAY_DIRECT     one launch of cdist.cu
 *   WAY_SQUARES    p = 2 and inner products by tensor cores (cuda_cdist_square.c)
 *   WAY_PACKED     cdist_panels.cu writes panels of x and y in the order in which cdist.cu reads
 *                  them, which a thread then fetches instead of all
 *   WAY_SPLIT      where out has fewer tiles than the device has processors, the columns of x and y
 *                  are cut into pieces, which are a dimension of the batch for cdist.cu; it leaves
 *                  plain sums in scratch, and cdist_reduce.cu adds them and applies the function
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_cdist.h"
#include "cuda/arena.h"
#include "pairwise.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define PAIR_FN static
#include "pair_map_params.h"

_Static_assert((int)GRAM_EXPRESSION == PAIR_EXPRESSION && (int)GRAM_MATERN52 == PAIR_MATERN52 &&
                   (int)GRAM_BANDWIDTH_DERIVATIVE == PAIR_BANDWIDTH_DERIVATIVE,
               "pair_params.h repeats enums of gram.h");
_Static_assert((int)GRAM_MAX_PARAMETERS == PAIR_PARAMETERS,
               "pair_params.h repeats a size of gram.h");
_Static_assert((int)GRAM_HYPERS == PAIR_HYPERS &&
                   offsetof(struct gram_cdist_op, regularization) ==
                       offsetof(struct gram_cdist_op, hyper[PAIR_REGULARIZATION]),
               "pair_hyper_name repeats the order of gram_cdist_op's hyperparameters");

enum {
    THREADS = 256,       /* of every kernel here */
    LISTED_BLOCKS = 2,   /* a processor, for tiles whose number only the device knows */
    PANEL_BLOCKS = 16,   /* a processor, for panels that are written */
    LEAST_ROWS = 1024,   /* from which packing a row is little beside using it */
    LEAST_COLS = 32,     /* and a panel is filled */
    PIECE_COLUMNS = 512, /* of a piece at least: less is not worth a second launch */
    PIECE_GRAIN = 16,    /* so that a piece is loaded as its matrix is */
    PIECE_TILE = 2,      /* cdist.cu's smallest tm */
    PIECE_BLOCKS = 2     /* a processor */
};

/* From this many terms on packing pays: 130 us on an H200; packing and a launch take 10. */
static const double least_packed = 0x1p31;

static const struct cuda_kernel cdist = {"cdist.cu", "cdist"},
                                cdist_panels = {"cdist_panels.cu", "cdist_panels"},
                                cdist_reduce = {"cdist_reduce.cu", "cdist_reduce"};

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

/* A number is the value itself, a tensor the place where the device reads one for each item. */
static void fill_hyper(const struct gram_hyper *from, struct pair_hyper *h)
{
    *h =
        (struct pair_hyper){.number = cuda_device_number(from), .least = -DBL_MAX, .most = DBL_MAX};
}

/* Fills in all hyperparameters and parameters; the result is true if one of them is a tensor.
 * An outer power that undoes p is left to the device as NaN, since p may be a tensor. */
static bool fill_hypers(const struct gram_cdist_op *op, struct pair_params *params)
{
    bool tensors = false;

    for (int name = 0; name < PAIR_HYPERS; name++) {
        struct pair_hyper *h = &params->hyper[name];
        fill_hyper(&op->hyper[name], h);
        if (name == PAIR_OUTER && op->root)
            h->number.value = (double)NAN, h->number.data = NULL;
        set_range(op, name, h);
        tensors |= h->number.data != NULL;
    }
    for (int i = 0; i < op->parameters; i++) {
        fill_hyper(&op->parameter[i], &params->hyper[PAIR_HYPERS + i]);
        tensors |= op->parameter[i].tensor.data != NULL;
    }
    return tensors;
}

/* Where every hyperparameter is a number, the host finds the coefficients of the function once,
 * and the kernel need not. */
static void prepare_map(const struct gram_cdist_op *op, struct pair_params *params)
{
    const struct pair_what what = {(int)op->function, (int)op->output, op->inner == GRAM_DOT,
                                   op->out.dtype == GRAM_F64};
    double values[PAIR_HYPERS + PAIR_PARAMETERS];

    for (int name = 0; name < PAIR_HYPERS + PAIR_PARAMETERS; name++)
        values[name] = params->hyper[name].number.value;
    pair_map_prepare(&params->map, &what, values);
    if (op->expression)
        (void)gram_cuda_expression_constants(op->expression, values + PAIR_HYPERS,
                                             params->map.constant);
}

/* ---- Options -------------------------------------------------------------------------------- */

/* How far from a whole number special functions are exact enough: see pair_terms.cuh. */
static const double most_mixed = 0.34;

/* MIX of cdist.cu. */
static int mix_of(double p, const struct cuda_cdist_options *o)
{
    if (!o->fraction || p < 1 || o->is_double)
        return 0;
    return p - floor(p) <= most_mixed ? 1 : ceil(p) - p <= most_mixed ? 2 : 0;
}

/* The term of the inner sum that has code of its own for this p.  In f64 a power below 1 that is
 * not 1/2 takes the general term, whose pow is exact to the last digits. */
static void choose_step(const struct gram_cdist_op *op, struct cuda_cdist_options *o)
{
    double p = op->p.value;

    o->step = PAIR_ANY;
    if (op->inner == GRAM_DOT)
        o->step = PAIR_DOT;
    else if (op->p.tensor.data)
        return;
    else if (p == 0)
        o->step = PAIR_ZERO;
    else if (p == 0.5)
        o->step = PAIR_HALF;
    else if (p == 1)
        o->step = PAIR_ONE;
    else if (p == 1.5)
        o->step = PAIR_THREE_HALVES;
    else if (p == 2)
        o->step = PAIR_TWO;
    else if (isinf(p))
        o->step = PAIR_INFINITY;
    else if (p < PAIR_MOST_WHOLE + 1 && (p == floor(p) || p > 1 || !o->is_double)) {
        o->step = PAIR_POWER;
        o->whole = (int)p;
        o->fraction = p != floor(p);
        o->mix = mix_of(p, o);
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

/* A thread has tm by tm sums in registers, of which a sum in f64 takes two; an expression may have
 * two sums beside that of s. */
int cuda_cdist_most_tile(const struct cuda_cdist_options *o)
{
    return o->is_double || o->step >= PAIR_ANY || o->step == PAIR_ZERO || o->sums ? 4 : 8;
}

/* The largest tile that still gives every processor two blocks, and whose half would not hold an
 * item whole: of 100,000 items of 8 by 8 tiles of 128 by 128 took 4.4 ms on an H200. */
static int tile_of(const struct gram_cdist_op *op, const struct cuda_cdist_options *o,
                   int processors)
{
    int tm = cuda_cdist_most_tile(o);
    double work = (double)op->batch.count * (double)op->out.rows * (double)op->out.cols;

    if (gram_cdist_mirrors(op))
        work /= 2;
    while (tm > 2 && (work / (16.0 * tm * 16.0 * tm) < 2.0 * processors ||
                      gram_most(op->out.rows, op->out.cols) <= 8L * tm))
        tm /= 2;
    return tm;
}

/* How the two powers of a finished sum are taken, which is known here unless the device reads
 * the exponent. */
static void choose_kinds(const struct gram_cdist_op *op, const struct pair_params *params,
                         struct cuda_cdist_options *o)
{
    o->base = o->hypers ? PAIR_RUN_TIME : (int)params->map.base.kind;
    o->slope = op->output != GRAM_WEIGHT ? PAIR_SAME
               : o->hypers               ? PAIR_RUN_TIME
                                         : (int)params->map.slope.kind;
}

/* The assembler's full optimization moves the reads of a short loop so far ahead that it runs out
 * of registers; a long one needs it to hide latencies. */
static bool is_short(const struct cuda_cdist_options *o)
{
    return o->step == PAIR_ONE || o->step == PAIR_TWO || o->step == PAIR_INFINITY ||
           o->step == PAIR_DOT || (o->step == PAIR_POWER && !o->fraction);
}

/* ---- Shapes --------------------------------------------------------------------------------- */

/* Contiguous columns of out suit the stores. */
static bool is_transposed(const struct gram_cdist_op *op)
{
    return op->out.col_stride != 1 && op->out.row_stride == 1 && gram_cdist_turns(op);
}

/* Shapes and strides; x and y change places where is_transposed() says so. */
static void fill_shapes(const struct gram_cdist_op *op, struct pair_params *params)
{
    bool transposed = is_transposed(op);
    struct gram_view out = op->out;

    if (transposed) {
        out.rows = op->out.cols, out.cols = op->out.rows;
        out.row_stride = op->out.col_stride, out.col_stride = op->out.row_stride;
    }
    params->x = cuda_device_view(transposed ? &op->y : &op->x);
    params->y = cuda_device_view(transposed ? &op->x : &op->y);
    params->out = cuda_device_view(&out);
    params->rows = out.rows, params->cols = out.cols, params->depth = op->x.cols;
    params->items = op->batch.count;
    params->batch_ndim = op->batch.ndim;
    for (int d = 0; d < op->batch.ndim; d++)
        params->batch_shape[d] = op->batch.shape[d];
    params->symmetric = gram_cdist_mirrors(op);
    params->diagonal = op->column_offset - op->row_offset;
    if (transposed)
        params->diagonal = -params->diagonal;
}

/* ---- Plans ---------------------------------------------------------------------------------- */

/* The plan of an empty problem has no tiles, and nothing else of it is set. */
void cuda_cdist_plan(const struct gram_cdist_op *op, int processors, struct cuda_cdist_plan *plan)
{
    struct cuda_cdist_options o = {.is_double = op->out.dtype == GRAM_F64,
                                   .function = (int)op->function,
                                   .output = (int)op->output};
    struct pair_params *params = &plan->params;
    bool transposed = is_transposed(op);

    plan->tiles = 0;
    if (op->batch.count == 0 || op->out.rows == 0 || op->out.cols == 0)
        return;
    o.stored = cuda_stored_as(op->x.dtype);
    o.sums = op->expression && op->expression->sums;
    choose_step(op, &o);
    cuda_metric_plan(op, &o, &params->metric);
    o.x_load = load_of(transposed ? &op->y : &op->x, &op->batch, false);
    o.y_load = load_of(transposed ? &op->x : &op->y, &op->batch, true);
    o.hypers = fill_hypers(op, params);
    if (!o.hypers)
        prepare_map(op, params);
    choose_kinds(op, params, &o);
    fill_shapes(op, params);
    if (o.fraction && o.whole > 0)
        cuda_cdist_power(op->p.value - o.whole + 1, &params->power);
    plan->options = o;
    plan->expression = op->expression;
    cuda_cdist_set_tile(plan, tile_of(op, &o, processors));
}

/* The number of tiles follows from their size, which is all that a plan must know anew. */
void cuda_cdist_set_tile(struct cuda_cdist_plan *plan, int tm)
{
    struct pair_params *p = &plan->params;

    plan->options.tm = tm;
    p->tile_rows = gram_ceil_div(p->rows, 16L * tm);
    p->tile_cols = gram_ceil_div(p->cols, 16L * tm);
    plan->tiles = p->items * p->tile_rows * p->tile_cols;
}

/* Panels serve steps of a few instructions, where those that fetch operands count. */
bool cuda_cdist_plan_packed(struct cuda_cdist_plan *plan)
{
    struct cuda_cdist_options *o = &plan->options;
    struct pair_params *p = &plan->params;

    if (plan->expression || o->metric || !is_short(o) || o->step == PAIR_TWO || o->step == PAIR_DOT)
        return false;
    o->stored = o->x_load = o->y_load = 0;
    o->packed = 1;
    p->depth = gram_round_up(p->depth, PANEL_COLS);
    p->x.row_stride = p->y.row_stride = p->depth;
    cuda_cdist_set_tile(plan, PANEL_ROWS / 16);
    return true;
}

/* The number of tiles is the list's, on the device. */
void cuda_cdist_plan_listed(struct cuda_cdist_plan *plan)
{
    plan->options.listed = 1;
    plan->options.tm = SQUARE_LEFT_ROWS(plan->options.is_double) / 16;
}

/* ---- The launch of a plan ------------------------------------------------------------------- */

/* The dynamic shared memory of a block: panels of x and y. */
static size_t shared_bytes(const struct cuda_cdist_options *o, int arch)
{
    bool narrow = arch < 90 || (arch >= 120 && arch < 130);
    size_t row = narrow ? 64 : 128, rows = 2 * 16 * (size_t)o->tm;

    return o->packed ? 3 * rows * row : 2 * rows * (row + 16);
}

/* The options that cdist_reduce.cu shares with cdist.cu. */
static void set_options(const struct cuda_cdist_plan *plan, const struct cuda_kernel *kernel,
                        struct cuda_variant *v)
{
    const struct cuda_cdist_options *o = &plan->options;

    cuda_variant(v, kernel,
                 CUDA_OPTIONS({"REAL", cuda_type(o->is_double ? GRAM_F64 : GRAM_F32)},
                              {"IS_DOUBLE", o->is_double}, {"STORED", o->stored}, {"TM", o->tm},
                              {"STEP", o->step}, {"WHOLE", o->whole}, {"FRACTION", o->fraction},
                              {"MIX", o->mix}, {"X_LOAD", o->x_load}, {"Y_LOAD", o->y_load},
                              {"FUNCTION", o->function}, {"OUTPUT", o->output}, {"BASE", o->base},
                              {"SLOPE", o->slope}, {"HYPERS", o->hypers}, {"LISTED", o->listed},
                              {"PACKED", o->packed}));
    if (o->metric) {
        cuda_option(v, "METRIC", 1);
        cuda_option(v, "FINISH", o->finish);
        cuda_option(v, "WEIGHTED", o->weighted && o->step > PAIR_ANY);
        cuda_option(v, "CONDENSED", o->condensed);
    }
    if (plan->expression && plan->expression->norms)
        cuda_option(v, "NORMS", 1);
    if (o->sums)
        cuda_option(v, "SUMS", 1);
    if (is_short(o) && !o->packed)
        cuda_option(v, "--ptxas-options=-O", 1);
}

/* The name of the tiles' kernel and its options alone; whoever launches adds an expression. */
void cuda_cdist_variant(const struct cuda_cdist_plan *plan, struct cuda_variant *v)
{
    set_options(plan, &cdist, v);
}

/* Kernels go on from tile to tile, so that a list whose length only the device knows gets a few
 * blocks on each processor. */
gram_status cuda_cdist_launch(gram_context *g, const struct cuda_cdist_plan *plan,
                              const struct square_list *list)
{
    const struct cuda_device *device = g->device;
    const int64_t listed = LISTED_BLOCKS * (int64_t)device->processors;
    const struct cuda_grid grid = {.blocks = list ? gram_least(plan->tiles, listed) : plan->tiles,
                                   .threads = THREADS,
                                   .shared = shared_bytes(&plan->options, device->arch)};
    struct cuda_variant v;

    cuda_cdist_variant(plan, &v);
    return gram_cuda_expression_launch(g, plan->expression, &v, &grid,
                                       (void *[]){(void *)&plan->params, &list});
}

/* ---- Panels --------------------------------------------------------------------------------- */

/* Panels are worth their launch for one large item, from sm_90 on, where that was measured.  A
 * context that is told to expand packs whatever the size, so that small tests come here. */
bool cuda_cdist_packs(const gram_context *g, const struct cuda_device *device,
                      const struct cuda_cdist_plan *plan)
{
    const struct pair_params *p = &plan->params;
    struct cuda_cdist_plan packed = *plan;
    bool pays = p->rows >= LEAST_ROWS && p->cols >= LEAST_ROWS && p->depth >= LEAST_COLS &&
                (double)p->rows * (double)p->cols * (double)p->depth >= least_packed;

    return plan->tiles > 0 && device->arch >= 90 && p->items == 1 && p->depth > 0 &&
           (pays || g->cdist_form == GRAM_FORM_EXPANSION) && cuda_cdist_plan_packed(&packed);
}

/* Panels depend on how x and y are stored, not on p or on the function. */
void cuda_cdist_panels_variant(const struct cuda_cdist_plan *plan, struct cuda_variant *v)
{
    const struct cuda_cdist_options *o = &plan->options;

    cuda_variant(v, &cdist_panels,
                 CUDA_OPTIONS({"REAL", cuda_type(o->is_double ? GRAM_F64 : GRAM_F32)},
                              {"IS_DOUBLE", o->is_double}, {"STORED", o->stored}));
}

/* The panels of so many rows are filled up with zeros to whole tiles and whole chunks of
 * columns. */
static size_t panel_bytes(const struct cuda_cdist_plan *plan, int64_t rows)
{
    const size_t size = plan->options.is_double ? sizeof(double) : sizeof(float);

    return (size_t)(gram_round_up(rows, PANEL_ROWS) *
                    gram_round_up(plan->params.depth, PANEL_COLS)) *
           size;
}

/* Few blocks go through the tiles of both sides: they wait for memory, not for arithmetic. */
static gram_status write_panels(gram_context *g, const struct cuda_cdist_plan *plan,
                                struct panel_params *params)
{
    const struct cuda_device *device = g->device;
    const struct pair_params *p = &plan->params;
    struct cuda_grid grid = {.threads = THREADS};
    struct cuda_variant v;

    params->side[0] = p->x, params->side[1] = p->y;
    params->rows[0] = p->rows, params->rows[1] = p->cols;
    params->tiles[0] = gram_ceil_div(p->rows, PANEL_ROWS);
    params->tiles[1] = gram_ceil_div(p->cols, PANEL_ROWS);
    params->depth = p->depth;
    params->chunks = gram_ceil_div(p->depth, PANEL_COLS);
    grid.blocks = gram_least((params->tiles[0] + params->tiles[1]) * params->chunks,
                             (int64_t)PANEL_BLOCKS * device->processors);
    cuda_cdist_panels_variant(plan, &v);
    return cuda_launch(g, &v, &grid, (void *[]){params});
}

/* The panels stand in for x and y in a second plan, which reads them in the order of its loop. */
static gram_status run_packed(gram_context *g, const struct cuda_cdist_plan *plan)
{
    struct cuda_cdist_plan packed = *plan;
    struct gram_layout layout = {0};
    struct panel_params params;

    gram_take(&layout, &params.panels[0], panel_bytes(plan, plan->params.rows));
    gram_take(&layout, &params.panels[1], panel_bytes(plan, plan->params.cols));
    TRY(gram_layout_open(g, &layout));
    TRY(write_panels(g, plan, &params));
    (void)cuda_cdist_plan_packed(&packed);
    packed.params.x.data = params.panels[0];
    packed.params.y.data = params.panels[1];
    return cuda_cdist_launch(g, &packed, NULL);
}

/* ---- Pieces of long sums -------------------------------------------------------------------- */

/* What cannot be added up afterwards, or needs more than the sum. */
static bool is_whole(const struct gram_cdist_op *op)
{
    bool largest = op->inner == GRAM_DIFFERENCE && isinf(op->p.value);

    return !gram_cdist_of_numbers(op) || largest || op->function == GRAM_COSINE || op->expression ||
           op->metric.kind != GRAM_DISTANCE_MINKOWSKI || op->condensed ||
           op->batch.ndim == GRAM_MAX_DIMS;
}

/* How the columns of a problem are cut: `pieces` of `columns` columns, then a narrower one. */
struct pieces {
    int64_t columns, pieces, left; /* left: columns of the last one, or 0; all: one piece */
    size_t piece_bytes;            /* of the sums of a piece */
};

/* Columns of a piece; those of x where nothing is cut. */
static int64_t columns_of_piece(const struct gram_cdist_op *op, int processors)
{
    int64_t tiles, pieces;

    if (is_whole(op) || op->x.cols < 2 * PIECE_COLUMNS || op->batch.count >= processors)
        return op->x.cols;
    tiles = gram_ceil_div(op->out.rows, 16L * PIECE_TILE);
    if (tiles < processors)
        tiles *= gram_ceil_div(op->out.cols, 16L * PIECE_TILE);
    if (tiles < processors)
        tiles *= op->batch.count;
    if (tiles == 0 || tiles >= processors)
        return op->x.cols;
    pieces = PIECE_BLOCKS * (int64_t)processors / tiles;
    if (pieces > op->x.cols / PIECE_COLUMNS)
        pieces = op->x.cols / PIECE_COLUMNS;
    return gram_round_up(gram_ceil_div(op->x.cols, pieces), PIECE_GRAIN);
}

/* Whole pieces come first, so that their launch sees one regular batch; the sums of a piece are
 * those of all items. */
static struct pieces pieces_of(const struct gram_cdist_op *op, int processors)
{
    struct pieces p = {.columns = columns_of_piece(op, processors)};

    p.pieces = p.columns > 0 ? op->x.cols / p.columns : 0;
    p.left = op->x.cols - p.pieces * p.columns;
    p.piece_bytes =
        (size_t)(op->batch.count * op->out.rows * op->out.cols) * gram_dtype_size(op->out.dtype);
    return p;
}

/* One piece is no split: the direct way then saves the scratch and the second launch. */
bool cuda_cdist_splits(const struct gram_cdist_op *op, int processors)
{
    return columns_of_piece(op, processors) < op->x.cols;
}

/* v with the first piece'th columns, and a dimension for the pieces before its batch. */
static struct gram_view cut(const struct gram_view *v, int64_t first, int64_t columns)
{
    struct gram_view piece = *v;

    piece.data += first * v->col_stride * (int64_t)gram_dtype_size(v->dtype);
    for (int d = GRAM_MAX_DIMS - 1; d > 0; d--)
        piece.batch_stride[d] = v->batch_stride[d - 1];
    piece.batch_stride[0] = columns * v->col_stride;
    piece.cols = columns;
    return piece;
}

/* Plain sums of `pieces` pieces, from column `first` on, go to sums, one after the other. */
static void plan_sum(const struct gram_cdist_op *op, int64_t first, int64_t columns, int64_t pieces,
                     void *sums, int processors, struct cuda_cdist_plan *plan)
{
    struct gram_cdist_op part = {.inner = op->inner,
                                 .symmetric = op->symmetric,
                                 .p = op->p,
                                 .outer_power.value = 1,
                                 .output = GRAM_VALUE};
    int64_t stride = op->out.rows * op->out.cols;

    part.x = cut(&op->x, first, columns);
    part.y = cut(&op->y, first, columns);
    part.out = op->out;
    part.out.data = sums;
    part.out.row_stride = op->out.cols;
    part.out.col_stride = 1;
    part.batch.ndim = op->batch.ndim + 1;
    part.batch.count = pieces * op->batch.count;
    part.batch.shape[0] = pieces;
    for (int d = op->batch.ndim; d > 0; d--) {
        part.batch.shape[d] = op->batch.shape[d - 1];
        part.out.batch_stride[d] = stride;
        stride *= part.batch.shape[d];
    }
    part.out.batch_stride[0] = stride;
    *plan = (struct cuda_cdist_plan){0};
    cuda_cdist_plan(&part, processors, plan);
    if (plan->tiles > 0)
        cuda_cdist_set_tile(plan, PIECE_TILE);
}

/* Queues the sums of `pieces` pieces from column `first` on. */
static gram_status sum(gram_context *g, const struct gram_cdist_op *op, int64_t first,
                       int64_t columns, int64_t pieces, void *sums)
{
    const struct cuda_device *device = g->device;
    struct cuda_cdist_plan plan;

    plan_sum(op, first, columns, pieces, sums, device->processors, &plan);
    return cuda_cdist_launch(g, &plan, NULL);
}

/* Adds up the sums of all pieces in their order, applies the function, and stores in the strides
 * of out. */
static gram_status reduce(gram_context *g, const struct gram_cdist_op *op,
                          const struct cuda_cdist_plan *plan, int64_t pieces, const void *sums)
{
    struct reduce_params params = {.sums = sums,
                                   .out = op->out.data,
                                   .pieces = pieces,
                                   .elements = op->batch.count * op->out.rows * op->out.cols,
                                   .rows = op->out.rows,
                                   .cols = op->out.cols,
                                   .row_stride = op->out.row_stride,
                                   .col_stride = op->out.col_stride,
                                   .diagonal = op->column_offset - op->row_offset,
                                   .batch_ndim = op->batch.ndim,
                                   .map = plan->params.map};
    const struct cuda_grid grid = {.blocks = gram_ceil_div(params.elements, THREADS),
                                   .threads = THREADS};
    struct cuda_variant v;

    for (int d = 0; d < op->batch.ndim; d++) {
        params.batch_shape[d] = op->batch.shape[d];
        params.batch_stride[d] = op->out.batch_stride[d];
    }
    set_options(plan, &cdist_reduce, &v);
    return cuda_launch(g, &v, &grid, (void *[]){&params});
}

/* The narrower last piece has a launch of its own, since pieces of a batch have one shape. */
static gram_status run_split(gram_context *g, const struct gram_cdist_op *op,
                             const struct cuda_cdist_plan *plan)
{
    const struct cuda_device *device = g->device;
    const struct pieces p = pieces_of(op, device->processors);
    const int64_t whole = p.pieces * p.columns;
    struct gram_layout layout = {0};
    char *sums;

    gram_take_many(&layout, &sums, (size_t)(p.pieces + (p.left > 0)), p.piece_bytes);
    TRY(gram_layout_open(g, &layout));
    TRY(sum(g, op, 0, p.columns, p.pieces, sums));
    if (p.left > 0)
        TRY(sum(g, op, whole, p.left, 1, sums + (size_t)p.pieces * p.piece_bytes));
    return reduce(g, op, plan, p.pieces + (p.left > 0), sums);
}

/* The same kernels as run_split launches, for lists of what is compiled ahead: nothing is queued,
 * so that the address of out stands for the scratch. */
bool cuda_cdist_split_variant(const struct gram_cdist_op *op, const struct cuda_cdist_plan *plan,
                              int processors, int which, struct cuda_variant *v)
{
    const struct pieces p = pieces_of(op, processors);
    const bool last = which == 1 && p.left > 0;
    struct cuda_cdist_plan part;

    if (which < 2) {
        plan_sum(op, last ? p.pieces * p.columns : 0, last ? p.left : p.columns,
                 last ? 1 : p.pieces, op->out.data, processors, &part);
        cuda_cdist_variant(&part, v);
    } else if (which == 2) {
        set_options(plan, &cdist_reduce, v);
    }
    return which <= 2;
}

/* ---- Checks --------------------------------------------------------------------------------- */

/* Memory that the device cannot use would be a fault in the middle of the work. */
gram_status cuda_cdist_check_pointers(gram_context *g, const struct gram_cdist_op *op)
{
    static const char *const names[GRAM_HYPERS] = {
        "p",
        "options.outer_power",
        "options.bandwidth",
        "options.exponent",
        "options.alpha",
        "options.gamma",
        "options.coef0",
        "options.degree",
        "options.regularization",
    };

    TRY(gram_cuda_check_pointer(g, "x", &op->x));
    if (op->y.data != op->x.data)
        TRY(gram_cuda_check_pointer(g, "y", &op->y));
    TRY(gram_cuda_check_pointer(g, "out", &op->out));
    if (op->metric.weights.data)
        TRY(gram_cuda_check_pointer(g, "options.metric->weights", &op->metric.weights));
    for (int i = 0; i < GRAM_HYPERS; i++)
        TRY(gram_cuda_check_pointer(g, names[i], &op->hyper[i].tensor));
    for (int i = 0; i < op->parameters; i++) {
        char name[40];
        if (op->parameter[i].tensor.data) {
            snprintf(name, sizeof name, "options.parameters[%d].value", i);
            TRY(gram_cuda_check_pointer(g, name, &op->parameter[i].tensor));
        }
    }
    return GRAM_OK;
}

/* Constants of an expression travel in the parameters of a launch, whose room is limited. */
gram_status cuda_cdist_check_expression(gram_context *g, const struct gram_cdist_op *op)
{
    if (op->expression &&
        gram_cuda_expression_constants(op->expression, NULL, NULL) > PAIR_CONSTANTS)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "options.expression needs more than %d values that depend on parameters "
                         "alone, which the CUDA backend does not have",
                         PAIR_CONSTANTS);
    return GRAM_OK;
}

/* What no device could do is said before what is wrong with the memory. */
gram_status cuda_cdist_check(gram_context *g, const struct gram_cdist_op *op)
{
    TRY(cuda_cdist_check_expression(g, op));
    return cuda_cdist_check_pointers(g, op);
}

/* ---- The call ------------------------------------------------------------------------------- */

/* See the top of this file. */
enum way {
    WAY_DIRECT,
    WAY_SQUARES,
    WAY_PACKED,
    WAY_SPLIT
};

/* The way of a problem; with a tile that the caller has chosen, one of those of cdist.cu. */
static enum way choose_way(const gram_context *g, const struct gram_cdist_op *op,
                           const struct cuda_cdist_plan *plan, bool chosen)
{
    const struct cuda_device *device = g->device;

    if (!chosen && cuda_cdist_squares(g, device, plan))
        return WAY_SQUARES;
    if (!chosen && cuda_cdist_packs(g, device, plan))
        return WAY_PACKED;
    return cuda_cdist_splits(op, device->processors) ? WAY_SPLIT : WAY_DIRECT;
}

/* Queues the launches of the way that was chosen. */
static gram_status run(gram_context *g, const struct gram_cdist_op *op, enum way way,
                       struct cuda_cdist_plan *plan)
{
    switch (way) {
    case WAY_SQUARES:
        return cuda_cdist_square(g, plan);
    case WAY_PACKED:
        return run_packed(g, plan);
    case WAY_SPLIT:
        return run_split(g, op, plan);
    default:
        return cuda_cdist_launch(g, plan, NULL);
    }
}

/* What tensor cores and panels do not serve takes the tile that was measured to be the fastest,
 * if one was. */
gram_status cuda_cdist_tiled(gram_context *g, const struct gram_cdist_op *op, int tm)
{
    const struct cuda_device *device = g->device;
    struct cuda_cdist_plan plan = {0};
    gram_status status;
    bool entered;
    enum way way;

    TRY(cuda_cdist_check_expression(g, op));
    cuda_cdist_plan(op, device->processors, &plan);
    if (plan.tiles == 0)
        return GRAM_OK;
    way = choose_way(g, op, &plan, tm != 0);
    if (!tm && (way == WAY_DIRECT || way == WAY_SPLIT))
        tm = cuda_tuned_tile(g, op, &plan.options);
    if (tm)
        cuda_cdist_set_tile(&plan, tm);
    TRY(cuda_cdist_check_pointers(g, op));
    entered = gram_cuda_enter(device);
    status = run(g, op, way, &plan);
    gram_cuda_leave(device, entered);
    return status;
}

static gram_status run_bits(gram_context *g, const struct gram_cdist_op *op)
{
    gram_status status;
    bool entered;

    TRY(cuda_cdist_check_pointers(g, op));
    entered = gram_cuda_enter(g->device);
    status = cuda_cdist_bits(g, op);
    gram_cuda_leave(g->device, entered);
    return status;
}

/* No tile is asked for, so that what was tuned counts. */
static gram_status run_call(gram_context *g, const void *work)
{
    const struct gram_cdist_op *op = work;

    return op->metric.bits ? run_bits(g, op) : cuda_cdist_tiled(g, op, 0);
}

/* The entry of the plugin's table. */
gram_status cuda_cdist(gram_context *g, const struct gram_cdist_op *op)
{
    struct gram_cdist_op rows = *op;

    return cuda_metric_call(g, &rows, run_call, &rows);
}

/* One launch without scratch, whatever the size: callers have checked the pointers, and cut their
 * problems into blocks that fill the device. */
gram_status cuda_cdist_queue(gram_context *g, const struct gram_cdist_op *op)
{
    const struct cuda_device *device = g->device;
    struct cuda_cdist_plan plan = {0};

    if (op->metric.bits)
        return cuda_cdist_bits(g, op);
    cuda_cdist_plan(op, device->processors, &plan);
    return plan.tiles > 0 ? cuda_cdist_launch(g, &plan, NULL) : GRAM_OK;
}

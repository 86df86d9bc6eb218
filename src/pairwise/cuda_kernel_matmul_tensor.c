/*
 * cuda_kernel_matmul_tensor.c - products with kernel matrices of squared distances by tensor cores
 *
 * cdist_pack.cu writes the rows of x and y of some items as halves; kernel_matmul_tensor.cu finds
 * inner products of them, elements and their products.  With few columns of v the products are
 * multiply-adds and serve mirror images; many columns go by tensor cores, from panels that
 * kernel_matmul_pack.cu writes (WIDE).  How y is cut, and what adds the sums, is shared with
 * cuda_kernel_matmul_fused.c.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kernel_fused.h"

enum {
    PACK_THREADS = 256,
    PACK_GROUPS = 8,       /* of eight rows that a block packs */
    PACK_BLOCKS = 16,      /* a processor */
    MOST_STRIPS = 4,       /* of 128 rows of x a block */
    TENSOR_COLUMNS = 8,    /* of v a pass: shared memory of every chip holds their sums */
    WIDE_MOST = 16,        /* a pass: shared memory of every chip holds their panels */
    TENSOR_DEPTH = 10,     /* from which an H100 took less time than by differences: see below */
    PANEL_BYTES = 1 << 28, /* of many small items */
    COLUMN_SLOTS = 5,      /* of two columns of v; the same for their mirror images */
    WIDE_SLOTS = 4,        /* of an element that becomes two numbers, and of two columns of v */
    STEP_COLUMNS = 3       /* of x and y, whose products take as long as a slot */
};

/* Packing and three launches take 15 us; so many terms take 30 as differences on an H200. */
static const double least_work = 0x1p29;

static const struct cuda_kernel cdist_centre = {"cdist_pack.cu", "cdist_centre"},
                                cdist_pack = {"cdist_pack.cu", "cdist_pack"},
                                kernel_matmul_pack = {"kernel_matmul_pack.cu",
                                                      "kernel_matmul_pack"},
                                kernel_matmul_tensor = {"kernel_matmul_tensor.cu",
                                                        "kernel_matmul_tensor"};

/* ---- The plan -------------------------------------------------------------------------------- */

/* COLUMNS for so many columns of v: powers of two, so that there are few kernels. */
static int columns_of(int64_t columns, bool wide)
{
    const int64_t most = wide ? WIDE_MOST : TENSOR_COLUMNS;
    const int64_t share = gram_ceil_div(columns, gram_ceil_div(columns, most));
    int taken = wide ? 8 : 1;

    while (taken < share)
        taken *= 2;
    return taken;
}

/* Functions that decay from 1: kernel_matmul_tensor.cu tests fewer of their sums, and tensor cores
 * may multiply them. */
static bool decays(const struct gram_cdist_op *op)
{
    return op->function >= GRAM_LAPLACE && op->function <= GRAM_MATERN52 &&
           op->output == GRAM_VALUE;
}

/* True if elements pass through shared memory to one copy of the function: SHORT is 0. */
static bool has_slots(const struct fused *f)
{
    const struct cuda_cdist_options *o = &f->plan.options;

    return !(o->output == PAIR_VALUE && o->base != PAIR_POW && o->base != PAIR_RUN_TIME &&
             o->function <= PAIR_MATERN52);
}

static bool may_be_wide(const struct fused *f)
{
    return f->op->v.rows >= WIDE_POINTS && decays(&f->op->kernel) && !has_slots(f);
}

/* All of the block's rows but in one last block mirror each other. */
static bool mirrors(const struct gram_kernel_matmul_op *op, int64_t block)
{
    return op->kernel.symmetric && op->out.rows >= 2 * block;
}

/* How columns go together. */
static void plan_columns(struct fused *f, bool wide)
{
    const int64_t block = (int64_t)SQUARE_ROWS * f->rows;

    f->wide = wide;
    f->columns = columns_of(f->op->out.cols, wide);
    f->groups = gram_ceil_div(f->op->out.cols, f->columns);
    f->mirrors = !wide && mirrors(f->op, block);
    cuda_fused_cut(f, block);
}

/*
 * Issue slots of a pair in all passes.
 *
 * n = 10^6, or 3 10^5 for d = 90 and more, x = y, Gaussian, seconds on an H100, where differences
 * are those of kernel_matmul.cu, and narrow products of 16 columns those of an earlier version:
 *   d                         3      10     28     90      256
 *   one column                0.336  0.336  0.435  0.0847  0.192
 *   differences               0.233  0.480  1.43   0.56    1.08
 *   8 columns, wide           0.802  0.802  1.03   0.191   0.418
 *   16 columns, wide          1.00   1.01   1.26   0.209   0.431
 *   16 columns, narrow               2.26   2.52   0.313   0.530
 *   16 columns, differences          1.66   3.70   0.96    1.47
 */
static int64_t slots_of(const struct fused *f)
{
    const struct gram_cdist_op *op = &f->op->kernel;
    const int64_t columns = gram_ceil_div(f->op->out.cols, f->groups);
    const int64_t element =
        cuda_fused_function_slots(cuda_fused_is_quick(op)) + op->x.cols / STEP_COLUMNS;

    if (f->wide)
        return f->groups * (element + WIDE_SLOTS + f->columns / 2);
    return f->groups * (f->mirrors ? (element + COLUMN_SLOTS * columns) / 2
                                   : element + COLUMN_SLOTS * columns / 2);
}

bool cuda_tensor_plan(const gram_context *g, const struct gram_kernel_matmul_op *op,
                      struct fused *f)
{
    const struct cuda_device *device = g->device;
    const struct cuda_cdist_options *o = &f->plan.options;
    struct fused wide;

    *f = (struct fused){.op = op, .tensor = true};
    if (device->arch < 80 || op->v.rows == 0 || op->kernel.x.cols == 0 ||
        gram_expression_is_wide(op->kernel.expression))
        return false;
    cuda_fused_plan_matrix(g, f);
    if (o->is_double || o->step != PAIR_TWO || o->metric)
        return false;
    f->rows = MOST_STRIPS;
    while (f->rows > 1 && op->out.rows <= (int64_t)SQUARE_ROWS * (f->rows / 2))
        f->rows /= 2;
    plan_columns(f, false);
    wide = *f;
    plan_columns(&wide, true);
    if (may_be_wide(f) && slots_of(&wide) < slots_of(f))
        *f = wide;
    return true;
}

bool cuda_tensor_pays(const struct fused *f)
{
    const struct gram_cdist_op *op = &f->op->kernel;
    const int64_t depth = op->x.cols;
    const bool many = f->wide && f->columns == WIDE_MOST;
    const double work =
        (double)op->batch.count * (double)f->op->out.rows * (double)f->op->v.rows * (double)depth;

    return (many || depth >= TENSOR_DEPTH) && work >= least_work &&
           slots_of(f) <= cuda_fused_panel_slots(
                              f, 2 * depth + cuda_fused_function_slots(cuda_fused_is_quick(op)));
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static bool is_packed(const struct fused *f, int side)
{
    return side == 0 || !f->op->kernel.symmetric;
}

static int64_t rows_of(const struct fused *f, int side)
{
    return gram_round_up(side ? f->op->v.rows : f->op->out.rows, SQUARE_ROWS);
}

/* Bytes of an item's panels of a side: two planes of 16 bits. */
static int64_t panel_bytes(const struct fused *f, int side)
{
    const int64_t depth = gram_round_up(f->op->kernel.x.cols, TENSOR_BK);

    return is_packed(f, side) ? rows_of(f, side) * depth * 4 : 0;
}

static int64_t end_bytes(const struct fused *f, int side)
{
    return is_packed(f, side) ? rows_of(f, side) * (int64_t)sizeof(struct square_row) : 0;
}

static int64_t centre_bytes(const struct fused *f)
{
    return (int64_t)gram_round64((size_t)f->op->kernel.x.cols * sizeof(float));
}

/* Of a group of columns of v of an item. */
static int64_t v_bytes(const struct fused *f)
{
    return f->wide ? gram_ceil_div(f->op->v.rows, SQUARE_ROWS) * WIDE_PANEL((int64_t)f->columns)
                   : 0;
}

int64_t cuda_tensor_items(const struct fused *f, int64_t items)
{
    int64_t bytes = centre_bytes(f) + f->groups * v_bytes(f);

    for (int i = 0; i < 2; i++)
        bytes += panel_bytes(f, i) + end_bytes(f, i);
    return gram_least(items, gram_most(1, PANEL_BYTES / bytes));
}

void cuda_tensor_take(struct fused *f, struct gram_layout *layout)
{
    struct square_params *s = &f->square;
    const size_t items = (size_t)f->round_items;

    for (int i = 0; i < 2; i++)
        gram_take_many(layout, &s->side[i].data, items, (size_t)panel_bytes(f, i));
    for (int i = 0; i < 2; i++)
        gram_take_many(layout, &s->side[i].rows, items, (size_t)end_bytes(f, i));
    gram_take_many(layout, &s->centre, items, (size_t)centre_bytes(f));
    gram_take(layout, &s->list, sizeof *s->list);
    gram_take_many(layout, &f->v_panels, items, (size_t)(f->groups * v_bytes(f)));
}

/* ---- Launches -------------------------------------------------------------------------------- */

static void pack_variant(const struct fused *f, const struct cuda_kernel *kernel,
                         struct cuda_variant *v)
{
    cuda_variant(v, kernel,
                 CUDA_OPTIONS({"STORED", f->plan.options.stored}, {"STEP", PAIR_TWO}, {"PLANES", 2},
                              {"BK", TENSOR_BK}, {"COSINE", 0}));
}

/* See the top of kernel_matmul_tensor.cu. */
static bool is_relaxed(const struct fused *f)
{
    return decays(&f->op->kernel) && f->op->v.rows >= 2 * f->op->kernel.x.cols + 64;
}

void cuda_tensor_variant(const struct fused *f, struct cuda_variant *v)
{
    const struct cuda_cdist_options *o = &f->plan.options;

    cuda_variant(v, &kernel_matmul_tensor,
                 CUDA_OPTIONS({"STORED", o->stored}, {"FUNCTION", o->function},
                              {"OUTPUT", o->output}, {"BASE", o->base}, {"SLOPE", o->slope},
                              {"HYPERS", o->hypers}, {"COLUMNS", f->columns},
                              {"MIRROR", f->mirrors}, {"RELAXED", is_relaxed(f)},
                              {"WIDE", f->wide}));
}

/* The panels of v. */
static gram_status pack_v(gram_context *g, const struct fused *f, const struct matmul_round *round)
{
    const struct cuda_device *device = g->device;
    const int64_t units = round->items * f->groups * v_bytes(f) / 32; /* of four rows of a column */
    const struct cuda_grid grid = {.blocks = gram_least(gram_ceil_div(units, PACK_THREADS),
                                                        (int64_t)PACK_BLOCKS * device->processors),
                                   .threads = PACK_THREADS};
    struct kernel_pack_params params = {
        .v = cuda_device_view(&f->op->v),
        .panels = f->v_panels,
        .first_item = round->first_item,
        .items = round->items,
        .groups = f->groups,
        .rows = f->op->v.rows,
        .columns = f->op->out.cols,
    };
    struct cuda_variant v;

    cuda_set_batch(&f->op->kernel.batch, &params.batch_ndim, params.batch_shape);
    cuda_variant(&v, &kernel_matmul_pack, CUDA_OPTIONS({"COLUMNS", f->columns}));
    return cuda_launch(g, &v, &grid, (void *[]){&params});
}

/* The list is no tile's: cdist_pack.cu empties it. */
gram_status cuda_tensor_pack(gram_context *g, struct fused *f, const struct matmul_round *round)
{
    const struct cuda_device *device = g->device;
    struct square_params *s = &f->square;
    struct cuda_grid centre = {.threads = PACK_THREADS}, pack = {.threads = PACK_THREADS};
    struct cuda_variant v;
    int64_t groups = 0;

    s->pair = f->plan.params;
    s->pair.items = round->items;
    s->first = round->first_item;
    s->sides = f->op->kernel.symmetric ? 1 : 2;
    s->chunks = gram_ceil_div(s->pair.depth, TENSOR_BK);
    for (int i = 0; i < s->sides; i++) {
        s->side[i].item_bytes = panel_bytes(f, i);
        s->side[i].item_rows = rows_of(f, i);
        groups += rows_of(f, i) / 8;
    }
    if (s->sides == 1)
        s->side[1] = s->side[0];
    centre.blocks = round->items * gram_ceil_div(s->pair.depth, 32);
    pack.blocks = gram_least(1 + round->items * groups / PACK_GROUPS,
                             (int64_t)PACK_BLOCKS * device->processors);
    pack_variant(f, &cdist_centre, &v);
    TRY(cuda_launch(g, &v, &centre, (void *[]){s}));
    pack_variant(f, &cdist_pack, &v);
    TRY(cuda_launch(g, &v, &pack, (void *[]){s}));
    return f->wide ? pack_v(g, f, round) : GRAM_OK;
}

gram_status cuda_tensor_launch(gram_context *g, const struct fused *f,
                               const struct matmul_round *round)
{
    const int64_t blocks = gram_ceil_div(round->rows, (int64_t)SQUARE_ROWS * f->rows);
    const struct cuda_grid grid = {.blocks = blocks * f->slices * f->groups * round->items,
                                   .threads = TENSOR_THREADS,
                                   .shared = f->wide
                                                 ? WIDE_SHARED((size_t)f->columns)
                                                 : TENSOR_SHARED((size_t)f->columns, has_slots(f))};
    struct kernel_tensor_params params = {
        .side = {f->square.side[0],f->square.side[1]                     },
        .v_panels = f->v_panels,
        .v_group_bytes = v_bytes(f),
        .chunks = f->square.chunks,
        .strips = f->rows,
        .product = { .round = *round,
                 .v = cuda_device_view(&f->op->v),.sums = f->sums,
                 .mirrors = f->images,
                 .columns = f->op->out.cols,
                 .groups = f->groups,
                 .slices = f->slices,
                 .slice_points = f->slice_points,
                 .pair = f->plan.params},
    };
    struct cuda_variant v;

    cuda_tensor_variant(f, &v);
    return gram_cuda_expression_launch(g, f->plan.expression, &v, &grid, (void *[]){&params});
}

/*
 * cuda_kernel_matmul_tensor.c - products with kernel matrices of squared distances by tensor cores
 *
 * cdist_pack.cu writes the rows of x and y of some items as halves; kernel_matmul_tensor.cu finds
 * inner products of them, elements and their products.  How y is cut, and what adds the sums, is
 * shared with cuda_kernel_matmul_fused.c.
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
    TENSOR_DEPTH = 20,     /* from which an H100 took less time than by differences: see below */
    SINGLE_DEPTH = 10,     /* the same for one column of v */
    PANEL_BYTES = 1 << 28, /* of many small items */
    SIDE_SLOTS = 8,        /* of a pair whose sum is known, beside its function */
    COLUMN_SLOTS = 2,      /* of a column of v; the same for its mirror image */
    STEP_COLUMNS = 4       /* of x and y, whose products take as long as a slot */
};

/* Packing and three launches take 15 us; so many terms take 30 as differences on an H200. */
static const double least_work = 0x1p29;

static const struct cuda_kernel cdist_centre = {"cdist_pack.cu", "cdist_centre"},
                                cdist_pack = {"cdist_pack.cu", "cdist_pack"},
                                kernel_matmul_tensor = {"kernel_matmul_tensor.cu",
                                                        "kernel_matmul_tensor"};

/* ---- The plan -------------------------------------------------------------------------------- */

/* COLUMNS for so many columns of v: powers of two, so that there are few kernels. */
static int columns_of(int64_t columns)
{
    const int64_t share = gram_ceil_div(columns, gram_ceil_div(columns, TENSOR_COLUMNS));
    int taken = 1;

    while (taken < share)
        taken *= 2;
    return taken;
}

/* All of the block's rows but in one last block mirror each other. */
static bool mirrors(const struct gram_kernel_matmul_op *op, int64_t block)
{
    return op->kernel.symmetric && op->out.rows >= 2 * block;
}

bool cuda_tensor_plan(const gram_context *g, const struct gram_kernel_matmul_op *op,
                      struct fused *f)
{
    const struct cuda_device *device = g->device;
    const struct cuda_cdist_options *o = &f->plan.options;

    *f = (struct fused){.op = op, .tensor = true};
    if (device->arch < 80 || op->v.rows == 0 || op->kernel.x.cols == 0 ||
        (op->kernel.expression && op->kernel.expression->norms))
        return false;
    cuda_fused_plan_matrix(g, f);
    if (o->is_double || o->step != PAIR_TWO || o->metric)
        return false;
    f->rows = MOST_STRIPS;
    while (f->rows > 1 && op->out.rows <= (int64_t)SQUARE_ROWS * (f->rows / 2))
        f->rows /= 2;
    f->columns = columns_of(op->out.cols);
    f->groups = gram_ceil_div(op->out.cols, f->columns);
    f->mirrors = mirrors(op, (int64_t)SQUARE_ROWS * f->rows);
    cuda_fused_cut(f, (int64_t)SQUARE_ROWS * f->rows);
    return true;
}

/*
 * n = 10^6, or 3 10^5 for d = 90 and more, x = y, Gaussian, seconds on an H100, where differences
 * are those of kernel_matmul.cu, and of panels for d = 90 and more:
 *   d                            10      28      90      256
 *   tensor cores, one column     0.415   0.521   0.0855  0.191
 *   differences                  0.480   1.43    0.56    1.08
 *   tensor cores, 16 columns     2.42    2.67    0.314   0.534
 *   differences                  1.66    3.70    0.96    1.47
 */
bool cuda_tensor_pays(const struct fused *f)
{
    const struct gram_cdist_op *op = &f->op->kernel;
    const int64_t depth = op->x.cols,
                  function = cuda_fused_is_quick(op) ? FUSED_QUICK_SLOTS : FUSED_SLOW_SLOTS;
    const int64_t element = function + SIDE_SLOTS + depth / STEP_COLUMNS;
    const int64_t pass = f->mirrors ? (element + 2L * COLUMN_SLOTS * f->columns) / 2
                                    : element + (int64_t)COLUMN_SLOTS * f->columns;
    const double work =
        (double)op->batch.count * (double)f->op->out.rows * (double)f->op->v.rows * (double)depth;

    return depth >= (f->op->out.cols == 1 ? SINGLE_DEPTH : TENSOR_DEPTH) && work >= least_work &&
           f->groups * pass <= cuda_fused_panel_slots(f, 2 * depth + function);
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

int64_t cuda_tensor_items(const struct fused *f, int64_t items)
{
    int64_t bytes = centre_bytes(f);

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
    const struct gram_cdist_op *op = &f->op->kernel;

    return op->function >= GRAM_LAPLACE && op->function <= GRAM_MATERN52 &&
           op->output == GRAM_VALUE && f->op->v.rows >= 2 * op->x.cols + 64;
}

void cuda_tensor_variant(const struct fused *f, struct cuda_variant *v)
{
    const struct cuda_cdist_options *o = &f->plan.options;

    cuda_variant(v, &kernel_matmul_tensor,
                 CUDA_OPTIONS({"STORED", o->stored}, {"FUNCTION", o->function},
                              {"OUTPUT", o->output}, {"BASE", o->base}, {"SLOPE", o->slope},
                              {"HYPERS", o->hypers}, {"COLUMNS", f->columns},
                              {"MIRROR", f->mirrors}, {"RELAXED", is_relaxed(f)}));
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
    return cuda_launch(g, &v, &pack, (void *[]){s});
}

/* True if elements pass through shared memory to one copy of the function: SHORT is 0. */
static bool has_slots(const struct fused *f)
{
    const struct cuda_cdist_options *o = &f->plan.options;

    return !(o->output == PAIR_VALUE && o->base != PAIR_POW && o->base != PAIR_RUN_TIME &&
             o->function <= PAIR_MATERN52);
}

gram_status cuda_tensor_launch(gram_context *g, const struct fused *f,
                               const struct matmul_round *round)
{
    const int64_t blocks = gram_ceil_div(round->rows, (int64_t)SQUARE_ROWS * f->rows);
    const struct cuda_grid grid = {.blocks = blocks * f->slices * f->groups * round->items,
                                   .threads = TENSOR_THREADS,
                                   .shared = TENSOR_SHARED((size_t)f->columns, has_slots(f))};
    struct kernel_tensor_params params = {
        .side = {f->square.side[0],f->square.side[1]                     },
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

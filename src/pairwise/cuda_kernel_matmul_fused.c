/*
 * cuda_kernel_matmul_fused.c - products with kernel matrices whose elements stay in registers
 *
 * kernel_matmul.cu computes elements and multiplies them; kernel_matmul_sum.cu adds the slices of y
 * that it sums apart.  How y is cut depends on the sizes of the problem alone, so that results do
 * not depend on the device.  Where y is x, elements serve their mirror images too, unless v has so
 * many columns that adding these up costs more than elements.  The sums of slices, and of mirror
 * images, lie in scratch: items go together, or the rows of a large one one after the other, in
 * rounds of as many as it has room for.
 *
 * Squared distances of many coordinates go by tensor cores: cuda_kernel_matmul_tensor.c plans and
 * launches these.  What does not fit the registers, or costs more than panels of the matrix and
 * cuBLAS do, is left to cuda_kernel_matmul.c.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kernel_fused.h"

enum {
    SUM_THREADS = 256,
    MOST_ROWS = 4,         /* of x a thread, so that reads of shared memory take less time than
                             arithmetic; half of them in f64, and where f needs registers too */
    MOST_COLUMNS = 32,     /* of v a pass */
    MOST_NUMBERS = 44,     /* coordinates and columns of v a point: 4 rows of them are registers */
    TABLED_NUMBERS = 28,   /* the same in f64 beside a table of powers, for shared memory */
    SLICE_POINTS = 2048,   /* of y at most: sums of f32 are no longer */
    LEAST_SHARES = 4096,   /* blocks that slices are made for, of enough points */
    ROUND_BYTES = 1 << 26, /* of sums */
    LARGE_ROUND_BYTES =
        1 << 28,         /* with those of mirror images, of which a block has n a column; and of
                            many columns by tensor cores, whose blocks take as long as rounds */
    MIRROR_COLUMNS = 8,  /* of v a pass */
    MIRROR_NUMBERS = 38, /* coordinates of a point, and twice the columns */
    MIRROR_SHARED =
        47104,     /* bytes of a block; every chip has 48 KiB for one, less some variables */
    POWERS = 2056, /* numbers of pair_terms.cuh's table */
};

static const struct cuda_kernel kernel_matmul = {"kernel_matmul.cu", "kernel_matmul"},
                                kernel_matmul_sum = {"kernel_matmul_sum.cu", "kernel_matmul_sum"};

/* ---- The choice ------------------------------------------------------------------------------ */

/*
 * Issue slots, of which an H200 has 3.3e13 a second and lane.  A pair costs `depth` steps and one
 * function whichever way is taken; beside these, panels of the matrix through memory and cuBLAS
 * take 3.2 ps, or 95 slots, and for 16 columns 8.2 ps in all (Gaussian, n = 10^6, d = 10).  Where
 * a matrix mirrors itself, panels compute half of it.
 */
enum {
    PANEL_SLOTS = 95,
    NARROW_COLUMN_SLOTS = 9, /* of each further column of v, up to 16 */
    WIDE_COLUMN_SLOTS = 2,   /* of each further one */
    MIRROR_SLOTS = 4,        /* of a column: two products, and the sum of one over a warp */
    MOST_CODE = 4096         /* instructions of the steps of one point */
};

/* f64 has half the rate. */
int64_t cuda_fused_step_slots(const struct cuda_cdist_options *o)
{
    const int scale = o->is_double ? 2 : 1;

    switch (o->step) {
    case PAIR_DOT:
        return scale;
    case PAIR_ONE:
    case PAIR_TWO:
    case PAIR_INFINITY:
        return 2L * scale;
    case PAIR_ZERO:
        return 5L * scale;
    case PAIR_HALF:
    case PAIR_THREE_HALVES:
        return o->is_double ? 40 : 6;
    case PAIR_POWER:
        if (!o->fraction)
            return (2L + o->whole / 2) * scale;
        return o->whole > 0 ? 10L * scale + (o->is_double ? 14 : 0) : 28;
    default:
        return 0;
    }
}

bool cuda_fused_is_quick(const struct gram_cdist_op *op)
{
    return op->function <= GRAM_MATERN52 && op->output == GRAM_VALUE && op->x.dtype != GRAM_F64;
}

/* Coordinates of a point and columns of v that go with them in a pass, at most. */
static int64_t most_numbers(const struct cuda_cdist_options *o)
{
    return o->is_double && o->fraction ? TABLED_NUMBERS : MOST_NUMBERS;
}

bool cuda_fused_holds(const struct cuda_cdist_options *o, int64_t depth)
{
    return depth < most_numbers(o);
}

/* Powers of two, so that there are few kernels. */
int cuda_fused_columns(const struct cuda_cdist_options *o, int64_t depth, int64_t columns)
{
    const int64_t room = most_numbers(o) - depth;
    int64_t most = MOST_COLUMNS, share;
    int taken = 1;

    while (most > room)
        most /= 2;
    share = gram_ceil_div(columns, gram_ceil_div(columns, most));
    while (taken < share)
        taken *= 2;
    return taken;
}

/* Slots of an element. */
static int64_t slots_of_element(const struct fused *f)
{
    const struct gram_cdist_op *op = &f->op->kernel;

    return op->x.cols * cuda_fused_step_slots(&f->plan.options) +
           cuda_fused_function_slots(cuda_fused_is_quick(op));
}

int64_t cuda_fused_panel_slots(const struct fused *f, int64_t element)
{
    const int64_t more = f->op->out.cols - 1;

    return (gram_cdist_mirrors(&f->op->kernel) ? element / 2 : element) + PANEL_SLOTS +
           NARROW_COLUMN_SLOTS * gram_least(more, 15) + WIDE_COLUMN_SLOTS * gram_most(more - 15, 0);
}

/* Slots of a pair in all passes, and those of panels. */
static bool costs_less(const struct fused *f)
{
    const int64_t element = slots_of_element(f);
    const int64_t pass =
        f->mirrors ? (element + MIRROR_SLOTS * f->columns) / 2 : element + f->columns;

    return f->groups * pass <= cuda_fused_panel_slots(f, element);
}

/* ---- The plan -------------------------------------------------------------------------------- */

void cuda_fused_plan_matrix(const gram_context *g, struct fused *f)
{
    const struct cuda_device *device = g->device;
    struct gram_cdist_op op = f->op->kernel;

    op.out = gram_view_dense(NULL, f->op->out.dtype, op.x.rows, op.y.rows);
    cuda_cdist_plan(&op, device->processors, &f->plan);
}

/* True if registers and shared memory hold what mirror images need: points, the sums of four warps,
 * and perhaps a table of powers. */
static bool mirrors_fit(const struct fused *f)
{
    const int64_t depth = f->op->kernel.x.cols, size = f->plan.options.is_double ? 8 : 4;
    const int64_t point = gram_round_up((depth + f->columns) * size, 16);
    const int64_t table = f->plan.options.fraction ? POWERS * size : 0;

    return depth + 2 * f->columns <= MIRROR_NUMBERS &&
           MATMUL_POINTS * (point + 4 * f->columns * size) + table <= MIRROR_SHARED;
}

/* True if mirror images pay: a pass costs less than half of its elements more. */
static bool mirrors_pay(const struct fused *f)
{
    const int64_t block = (int64_t)MATMUL_THREADS * f->rows;

    return f->op->kernel.symmetric && f->op->out.rows >= 2 * block &&
           f->columns <= MIRROR_COLUMNS && mirrors_fit(f) &&
           slots_of_element(f) > (MIRROR_SLOTS - 2) * f->columns;
}

void cuda_fused_cut(struct fused *f, int64_t block)
{
    const int64_t n = f->op->v.rows;
    const int64_t shares =
        gram_ceil_div(f->op->out.rows, block) * f->groups * f->op->kernel.batch.count;
    const int64_t wanted = gram_most(1, LEAST_SHARES / shares);

    f->slice_points = gram_round_up(gram_ceil_div(n, wanted), MATMUL_POINTS);
    f->slice_points = gram_least(f->slice_points, SLICE_POINTS);
    f->slices = gram_ceil_div(n, f->slice_points);
}

/* How rows, columns and points are shared among blocks. */
static void plan_shares(struct fused *f)
{
    const int64_t m = f->op->out.rows;

    f->rows = cuda_fused_is_quick(&f->op->kernel) ? MOST_ROWS : MOST_ROWS / 2;
    while (f->rows > 1 && m <= (int64_t)MATMUL_THREADS * (f->rows / 2))
        f->rows /= 2;
    f->columns = cuda_fused_columns(&f->plan.options, f->op->kernel.x.cols, f->op->out.cols);
    f->groups = gram_ceil_div(f->op->out.cols, f->columns);
    f->mirrors = mirrors_pay(f);
    cuda_fused_cut(f, (int64_t)MATMUL_THREADS * f->rows);
}

/* Fills in all but the rounds; false if the registers do not hold the problem. */
static bool plan_fused(const gram_context *g, const struct gram_kernel_matmul_op *op,
                       struct fused *f)
{
    const int64_t depth = op->kernel.x.cols;
    int64_t slots;

    *f = (struct fused){.op = op};
    if (op->v.rows == 0 || depth == 0 || gram_expression_is_wide(op->kernel.expression))
        return false;
    cuda_fused_plan_matrix(g, f);
    slots = cuda_fused_step_slots(&f->plan.options);
    if (slots == 0 || !cuda_fused_holds(&f->plan.options, depth) ||
        depth * slots * MOST_ROWS > MOST_CODE)
        return false;
    f->plan.options.mix = 0;
    plan_shares(f);
    return true;
}

/* The way of a product that the registers hold; false: there is none, or panels cost less. */
static bool choose(const gram_context *g, const struct gram_kernel_matmul_op *op, struct fused *f)
{
    const int form = g->matmul_form;
    const bool tensor = form == GRAM_MATMUL_TENSOR || form == GRAM_MATMUL_TENSOR_BLOCKS;
    const bool differences = form == GRAM_MATMUL_FUSED || form == GRAM_MATMUL_BLOCKS;

    if (form == GRAM_MATMUL_PANELS || gram_metric_given(&op->kernel.metric))
        return false;
    if (!differences && cuda_tensor_plan(g, op, f) && (tensor || cuda_tensor_pays(f)))
        return true;
    return plan_fused(g, op, f) && (differences || costs_less(f));
}

#if SQUARE_ROWS != MATMUL_THREADS
#  error "block_of takes a strip of a tile for as many rows as threads have"
#endif

/* Rows of x that a block has. */
static int64_t block_of(const struct fused *f)
{
    return (int64_t)MATMUL_THREADS * f->rows;
}

/* Bytes of the sums of so many rows of x, and of their mirror images. */
static int64_t slice_bytes(const struct fused *f, int64_t rows)
{
    return rows * f->slices * f->op->out.cols * (int64_t)gram_dtype_size(f->op->out.dtype);
}

static int64_t image_bytes(const struct fused *f, int64_t rows)
{
    const int64_t numbers = gram_ceil_div(rows, block_of(f)) * f->op->out.cols * f->op->v.rows;

    return f->mirrors ? numbers * (int64_t)gram_dtype_size(f->op->out.dtype) : 0;
}

/* Whole items, or blocks of rows of one, for about as many bytes as a round has. */
static void plan_rounds(const gram_context *g, struct fused *f)
{
    const int64_t m = f->op->out.rows, block = block_of(f);
    const bool narrow =
        g->matmul_form == GRAM_MATMUL_BLOCKS || g->matmul_form == GRAM_MATMUL_TENSOR_BLOCKS;
    const int64_t bytes = narrow ? 1 : f->mirrors || f->wide ? LARGE_ROUND_BYTES : ROUND_BYTES;
    const int64_t blocks = bytes / (slice_bytes(f, block) + image_bytes(f, block));
    const int64_t item_blocks = gram_ceil_div(m, block);

    f->round_items = gram_least(gram_most(1, blocks / item_blocks), f->op->kernel.batch.count);
    if (f->tensor)
        f->round_items = cuda_tensor_items(f, f->round_items);
    f->round_rows = gram_least(m, gram_most(1, blocks) * block);
}

/* Names the pieces of scratch. */
static void take_sums(struct fused *f, struct gram_layout *layout)
{
    const bool waits = f->mirrors && (f->round_rows < f->op->out.rows || f->op->parts > 1);
    const int64_t numbers = waits ? f->op->out.rows * f->op->out.cols : 0;

    gram_take(layout, &f->sums, (size_t)(slice_bytes(f, f->round_rows) * f->round_items));
    gram_take(layout, &f->images, (size_t)(image_bytes(f, f->round_rows) * f->round_items));
    gram_take(layout, &f->kept, (size_t)numbers * sizeof *f->kept);
    if (f->tensor)
        cuda_tensor_take(f, layout);
}

/* ---- Launches -------------------------------------------------------------------------------- */

/* The kernel of a plan, but for the code of its expression. */
static void set_variant(const struct fused *f, struct cuda_variant *v)
{
    const struct cuda_cdist_options *o = &f->plan.options;

    cuda_variant(v, &kernel_matmul,
                 CUDA_OPTIONS({"REAL", cuda_type(o->is_double ? GRAM_F64 : GRAM_F32)},
                              {"IS_DOUBLE", o->is_double}, {"STORED", o->stored}, {"STEP", o->step},
                              {"WHOLE", o->whole}, {"FRACTION", o->fraction},
                              {"FUNCTION", o->function}, {"OUTPUT", o->output}, {"BASE", o->base},
                              {"SLOPE", o->slope}, {"HYPERS", o->hypers},
                              {"DEPTH", f->op->kernel.x.cols}, {"ROWS", f->rows},
                              {"COLUMNS", f->columns}, {"MIRROR", f->mirrors}));
}

static gram_status launch(gram_context *g, const struct fused *f, const struct matmul_round *round)
{
    const int64_t blocks = gram_ceil_div(round->rows, block_of(f));
    const struct cuda_grid grid = {.blocks = blocks * f->slices * f->groups * round->items,
                                   .threads = MATMUL_THREADS};
    struct kernel_matmul_params params = {.round = *round,
                                          .v = cuda_device_view(&f->op->v),
                                          .sums = f->sums,
                                          .mirrors = f->images,
                                          .columns = f->op->out.cols,
                                          .groups = f->groups,
                                          .slices = f->slices,
                                          .slice_points = f->slice_points,
                                          .pair = f->plan.params};
    struct cuda_variant v;

    set_variant(f, &v);
    return gram_cuda_expression_launch(g, f->plan.expression, &v, &grid, (void *[]){&params});
}

/* A number that is 0 stands for no regularization; other outputs than values have none. */
gram_status cuda_fused_sum(gram_context *g, const struct fused *f, const struct matmul_round *round)
{
    const struct gram_cdist_op *kernel = &f->op->kernel;
    struct kernel_sum_params params = {
        .round = *round,
        .v = cuda_device_view(&f->op->v),
        .out = cuda_device_view(&f->op->out),
        .sums = f->sums,
        .mirrors = f->mirrors ? f->images : NULL,
        .kept = f->kept,
        .block = block_of(f),
        .slice_points = f->slice_points,
        .reach = f->mirrors ? f->op->out.rows - round->first_row : round->rows,
        .spills = f->op->parts > 1 && round->first_row + round->rows == f->end_row,
        .columns = f->op->out.cols,
        .slices = f->slices,
        .points = f->op->v.rows,
        .accumulate = f->op->accumulate,
        .diagonal = kernel->column_offset - kernel->row_offset,
    };
    const int64_t elements = round->items * params.reach * f->op->out.cols;

    if (kernel->output == GRAM_VALUE)
        params.regularization = cuda_device_number(&kernel->regularization);
    cuda_set_batch(&kernel->batch, &params.batch_ndim, params.batch_shape);
    return cuda_launch_plain(g, &kernel_matmul_sum, f->op->out.dtype,
                             gram_ceil_div(elements, SUM_THREADS), SUM_THREADS, &params);
}

/* Rows of x that are multiplied: all, or those of a part.  What a part does not reach is 0. */
static gram_status begin_part(gram_context *g, struct fused *f)
{
    const struct gram_kernel_matmul_op *op = f->op;
    const size_t numbers = (size_t)(op->out.rows * op->out.cols);
    const int64_t m = op->out.rows, block = block_of(f);

    f->first_row = 0, f->end_row = m;
    if (op->parts <= 1)
        return GRAM_OK;
    f->first_row = gram_part_row(m, f->mirrors, block, op->part, op->parts);
    f->end_row = gram_part_row(m, f->mirrors, block, op->part + 1, op->parts);
    TRY(cuda_memory_zero(g, op->out.data, numbers * gram_dtype_size(op->out.dtype)));
    return f->mirrors ? cuda_memory_zero(g, f->kept, numbers * sizeof *f->kept) : GRAM_OK;
}

/* The rounds one after the other, which use the same scratch. */
static gram_status run(gram_context *g, struct fused *f)
{
    const int64_t items = f->op->kernel.batch.count;
    struct matmul_round round;

    TRY(begin_part(g, f));
    for (round.first_item = 0; round.first_item < items; round.first_item += round.items) {
        round.items = gram_least(f->round_items, items - round.first_item);
        if (f->tensor)
            TRY(cuda_tensor_pack(g, f, &round));
        for (round.first_row = f->first_row; round.first_row < f->end_row;
             round.first_row += round.rows) {
            round.rows = gram_least(f->round_rows, f->end_row - round.first_row);
            if (gram_cancelled(g))
                return gram_fail(g, GRAM_CANCELLED, "cancelled");
            TRY(f->tensor ? cuda_tensor_launch(g, f, &round) : launch(g, f, &round));
            TRY(cuda_fused_sum(g, f, &round));
        }
    }
    return GRAM_OK;
}

/* ---- Entries --------------------------------------------------------------------------------- */

bool cuda_kernel_fused(const gram_context *g, const struct gram_kernel_matmul_op *op)
{
    struct fused f;

    return choose(g, op, &f);
}

size_t cuda_kernel_fused_bytes(const gram_context *g, const struct gram_kernel_matmul_op *op)
{
    struct gram_layout layout = {0};
    struct fused f;

    if (!choose(g, op, &f))
        return 0;
    plan_rounds(g, &f);
    take_sums(&f, &layout);
    return gram_layout_bytes(&layout);
}

gram_status cuda_kernel_fused_in(gram_context *g, const struct gram_kernel_matmul_op *op,
                                 void *memory)
{
    struct gram_layout layout = {0};
    struct fused f;

    if (!choose(g, op, &f))
        return GRAM_OK;
    plan_rounds(g, &f);
    take_sums(&f, &layout);
    gram_layout_place(&layout, memory);
    return run(g, &f);
}

/*
 * cuda_kron_matmul_plan.c - the factors that each launch applies together, and the sizes of tiles
 *
 * Every launch reads and writes all elements, so there are as few launches as shared memory allows:
 * factors of at most SMALL by SMALL are fused, from the last one on, as long as a tile fits.  Of
 * the plans with the fewest launches the one with the smallest tiles is taken, since more blocks
 * then share a processor.  Launches and the contractions in them are ordered as on the CPU
 * (cpu_kron_matmul_plan.c): factors that shrink x come first.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kron.h"

enum {
    SMALL = 32,           /* largest P and Q of a fused factor */
    LEAST_MMA = 16,       /* least P and Q of a factor for tensor cores */
    MOST_PAIRED = 8,      /* P of factors that kron_matmul.cu takes two at a time */
    RUN_BYTES = 64,       /* neighbours in memory that a tile should read at least */
    LEAST_BUDGET = 16384, /* least limit of a tile: smaller tiles are no better */
    WANTED_BYTES = 32768, /* size to aim at of a tile that may have any size */
    MANY_TILES = 8,       /* tiles for a processor: with more, tiles are made larger */
    MMA_BK = 16,          /* as in kron_matmul_mma.cu */
    MMA_STAGES = 3,
};

/* The elements that factors take in shared memory, with a gap behind each row. */
static int64_t factors_elements(const struct gram_kron_matmul_op *op, int first, int count)
{
    int64_t elements = 0;

    for (int f = first; f < first + count; f++)
        elements += op->factor[f].rows * (op->factor[f].cols + 4);
    return elements;
}

/* The most shared memory of a block on a chip, less the offsets that a kernel keeps there. */
int64_t cuda_kron_shared(int arch)
{
    int64_t kib = arch == 80 || arch == 87 ? 163 : arch >= 90 && arch < 120 ? 227 : 99;

    return kib * 1024 - 4096;
}

static bool is_whole(const struct gram_kron_matmul_op *op)
{
    return op->x.dtype == GRAM_I32 || op->x.dtype == GRAM_I64;
}

/* True if a factor goes to tensor cores by itself: one that is too large to be fused, and in f64
 * one of 32 by 32 where kron_matmul_tile.cu does not use them. */
static bool is_for_mma(const struct cuda_kron_plan *plan, int factor)
{
    const struct gram_kron_matmul_op *op = plan->op;
    const struct gram_view *f = &op->factor[factor];
    int64_t least = gram_least(f->rows, f->cols), most = gram_most(f->rows, f->cols);

    return !is_whole(op) && least >= LEAST_MMA &&
           (most > SMALL ||
            (op->x.dtype == GRAM_F64 && least == SMALL && !cuda_kron_tile_by_mma(plan, factor)));
}

static bool is_small(const struct cuda_kron_plan *plan, int factor)
{
    const struct gram_view *f = &plan->op->factor[factor];

    return f->rows <= SMALL && f->cols <= SMALL && f->rows > 0 && !is_for_mma(plan, factor);
}

static bool all_square(const struct gram_kron_matmul_op *op, const struct cuda_kron_pass *pass)
{
    for (int f = pass->span.first; f < pass->span.first + pass->span.count; f++)
        if (op->factor[f].rows != op->factor[f].cols)
            return false;
    return true;
}

/* The shared memory of a block in bytes: the factors, one tile, or two where a step cannot work in
 * place, and padding. */
static double tile_bytes(const struct cuda_kron_plan *plan, const struct cuda_kron_pass *pass,
                         int64_t most, int64_t width)
{
    double buffers = all_square(plan->op, pass) ? 1 : 2;

    return ((double)most * (double)width * buffers * 33 / 32 + 2 +
            (double)factors_elements(plan->op, pass->span.first, pass->span.count)) *
           (double)plan->element;
}

/* Cuts the factors into passes whose tiles fit into the budget, and returns how many there are. */
static int cut(struct cuda_kron_plan *plan, double budget)
{
    const struct gram_kron_matmul_op *op = plan->op;
    int64_t run = RUN_BYTES / (int64_t)plan->element, after = plan->extra;

    plan->passes = 0;
    for (int last = op->count - 1; last >= 0;) {
        struct cuda_kron_pass *pass = &plan->pass[plan->passes++];
        *pass = (struct cuda_kron_pass){
            .span = {.first = last, .count = 1}
        };
        bool tiled = plan->tiled && cuda_kron_tile_takes(op, last);
        pass->kernel = is_small(plan, last) ? CUDA_KRON_FUSED : CUDA_KRON_ONE;
        if (plan->pairs && last == op->count - 1)
            pass->span.first--, pass->span.count = 2;
        while (pass->kernel == CUDA_KRON_FUSED && pass->span.first > 0 &&
               is_small(plan, pass->span.first - 1)) {
            struct cuda_kron_pass longer = {
                .span = {.first = pass->span.first - 1, .count = pass->span.count + 1}
            };
            int64_t most = gram_kron_span_order(op, &longer.span);
            bool fits = tiled && cuda_kron_tile_takes(op, longer.span.first)
                            ? cuda_kron_tile_holds(plan, &longer.span, after) &&
                                  tile_bytes(plan, &longer, most, gram_least(after, run)) <=
                                      (double)plan->shared_bytes
                            : tile_bytes(plan, &longer, most, gram_least(after, run)) <= budget;
            if (!fits)
                break;
            tiled = tiled && cuda_kron_tile_takes(op, longer.span.first);
            pass->span.first = longer.span.first, pass->span.count = longer.span.count;
        }
        gram_kron_span_order(op, &pass->span);
        last = pass->span.first - 1;
        if (after < run)
            after *= gram_most(pass->span.in, pass->span.out);
    }
    return plan->passes;
}

/* Makes the passes with the budget of a choice; 0 takes the least budget with which there are as
 * few passes as with all memory. */
static void make_passes(const struct cuda_device *device, int choice, struct cuda_kron_plan *plan)
{
    double budget = (double)plan->shared_bytes;
    const int64_t large = cuda_kron_tile_size(device, plan, choice);
    const int64_t small = plan->tile_bytes;
    int passes = cut(plan, budget);

    plan->tile_bytes = large;
    if (large == small || cut(plan, budget) >= passes)
        plan->tile_bytes = small;
    passes = cut(plan, budget);

    if (choice > 0) {
        cut(plan, budget / (1 << (choice - 1) / CUDA_KRON_TILES));
        return;
    }
    while (budget / 2 >= LEAST_BUDGET && cut(plan, budget / 2) == passes)
        budget /= 2;
    cut(plan, budget);
}

static bool is_paired(const struct cuda_kron_plan *plan, const struct cuda_kron_pass *pass)
{
    bool paired = pass->in_place && plan->element == 4 && pass->span.count > 1;

    for (int f = pass->span.first; f < pass->span.first + pass->span.count; f++)
        paired = paired && plan->op->factor[f].rows <= MOST_PAIRED;
    return paired;
}

static bool is_power(int64_t n)
{
    return (n & (n - 1)) == 0;
}

/* Threads for a tile, of which each has `each` elements, as were fastest on an H200. */
static int threads_for(int64_t elements, int64_t each, int64_t most)
{
    return (int)gram_most(64, gram_least(most, gram_round_up(elements / each, 32)));
}

static void choose_tile(const struct cuda_device *device, const struct cuda_kron_plan *plan,
                        struct cuda_kron_pass *pass)
{
    const struct gram_kron_matmul_op *op = plan->op;
    int64_t most = gram_kron_span_order(op, &pass->span), run = RUN_BYTES / (int64_t)plan->element;
    int64_t units = plan->rows * op->batch.count * pass->span.before;
    int64_t many = (int64_t)MANY_TILES * device->processors, size, buffers;
    int64_t wanted = plan->wanted_bytes / (int64_t)plan->element;

    pass->columns = gram_least(pass->span.after, run);
    pass->units = 1;
    while (pass->columns < pass->span.after && most * pass->columns * 2 <= wanted &&
           units * (pass->span.after / pass->columns) / 2 >= many)
        pass->columns = gram_least(pass->span.after, pass->columns * 2);
    while (pass->columns == pass->span.after && most * pass->columns * pass->units * 2 <= wanted &&
           units / pass->units / 2 >= many && pass->units < plan->rows * pass->span.before)
        pass->units *= 2;
    pass->in_place = all_square(op, pass);
    pass->padded = is_power(pass->columns);
    for (int f = pass->span.first; f < pass->span.first + pass->span.count; f++)
        pass->padded = pass->padded && is_power(op->factor[f].rows) && is_power(op->factor[f].cols);
    size = most * pass->columns * pass->units * (int64_t)plan->element;
    buffers = pass->in_place ? 1 : 2;
    size = size / (int64_t)plan->element;
    pass->threads =
        is_paired(plan, pass) ? threads_for(size, 128, 256) : threads_for(size, 32, 512);
    size += (pass->padded ? size / (32 * 4 / (int64_t)plan->element) : 0) + 1;
    pass->shared_bytes =
        (size_t)(size * buffers + factors_elements(op, pass->span.first, pass->span.count)) *
        plan->element;
}

/* The shared memory that the stages of kron_matmul_mma.cu take. */
static size_t mma_bytes(const struct cuda_kron_plan *plan, int number)
{
    const struct cuda_kron_pass *pass = &plan->pass[number];
    size_t x = cuda_kron_stored(plan, false, number), f = cuda_kron_stored(plan, true, number);
    size_t columns = (size_t)pass->columns, units = (size_t)pass->units;
    size_t pad = 16 / x < 4 ? 4 : 16 / x;

    x *= pass->along ? columns * (MMA_BK + pad) : MMA_BK * (columns + 32 / x);
    f *= MMA_BK * (units + 32 / f);
    return MMA_STAGES * (x + f);
}

/* A tile has 16, 32, 64 or 128 of the factor's columns: the number that leaves the fewest unused.
 * It becomes narrower in the other direction where processors would be idle. */
static void choose_mma(const struct cuda_device *device, const struct cuda_kron_plan *plan,
                       int number, struct cuda_kron_pass *pass)
{
    int64_t across; /* columns of the warps that stand side by side, 8 each */
    bool is_double = plan->element == 8;
    double columns = (double)plan->rows * (double)pass->span.before * (double)pass->span.after *
                     (double)plan->op->batch.count;

    pass->units = 128;
    while (pass->units > 16 && gram_round_up(pass->span.out, pass->units / 2) <
                                   gram_round_up(pass->span.out, pass->units))
        pass->units /= 2;
    pass->mt = pass->units == 16 ? 1 : 2;
    pass->wq = (int)(pass->units / 16 / pass->mt);
    pass->nt = is_double && pass->units < 128 ? 2 : 4;
    across = 8 * (int64_t)(8 / pass->wq);
    while (pass->nt > 1 && columns / (double)(pass->nt * across) *
                                   (double)gram_ceil_div(pass->span.out, pass->units) <
                               device->processors)
        pass->nt /= 2;
    pass->columns = pass->nt * across;
    pass->shared_bytes = mma_bytes(plan, number);
}

static void choose_one(const struct cuda_device *device, const struct cuda_kron_plan *plan,
                       int number, struct cuda_kron_pass *pass)
{
    double columns = (double)plan->rows * (double)pass->span.before * (double)pass->span.after *
                     (double)plan->op->batch.count;

    pass->threads = 256;
    pass->along = pass->span.after == 1 && (number > 0 || plan->x.col_stride == 1);
    if (is_for_mma(plan, pass->span.first)) {
        if (cuda_kron_keep(device, plan, number, pass))
            return;
        pass->kernel = CUDA_KRON_MMA;
        choose_mma(device, plan, number, pass);
        return;
    }
    pass->units = pass->span.out <= 16 ? 16 : pass->span.out <= 32 ? 32 : 64;
    pass->columns = 64;
    if (columns / 64 * (double)gram_ceil_div(pass->span.out, pass->units) <
        2.0 * device->processors)
        pass->columns = 16;
}

/* True if the elements of a column are neighbours, and the columns follow without gaps.  Such a
 * matrix is seen as one long row, whose index after the factors is the row. */
static bool rows_are_inside(const struct gram_view *v)
{
    return v->rows > 1 && v->row_stride != 0 && v->col_stride == v->rows * v->row_stride;
}

static void turn(struct gram_view *v)
{
    v->cols *= v->rows;
    v->col_stride = v->row_stride;
    v->rows = 1, v->row_stride = 0;
}

void cuda_kron_plan_of(const struct gram_kron_matmul_op *op, struct cuda_kron_plan *plan)
{
    plan->op = op;
    plan->x = op->x, plan->y = op->y, plan->z = op->z;
    plan->rows = op->x.rows, plan->extra = gram_most(1, op->after);
    if (op->after > 1 || !rows_are_inside(&op->x) || !rows_are_inside(&op->y) ||
        (op->z.data && !rows_are_inside(&op->z)))
        return;
    plan->extra = plan->rows, plan->rows = 1;
    turn(&plan->x);
    turn(&plan->y);
    turn(&plan->z);
}

static bool fits(const struct cuda_kron_plan *plan)
{
    for (int i = 0; i < plan->passes; i++)
        if (plan->pass[i].shared_bytes > (size_t)plan->shared_bytes)
            return false;
    return true;
}

static void make(const struct cuda_device *device, const struct gram_kron_matmul_op *op, int choice,
                 struct cuda_kron_plan *plan)
{
    static const int64_t wanted[CUDA_KRON_TILES] = {WANTED_BYTES, WANTED_BYTES / 2,
                                                    WANTED_BYTES * 2};

    *plan = (struct cuda_kron_plan){
        .element = op->x.dtype == GRAM_F64 || op->x.dtype == GRAM_I64 ? 8 : 4,
        .shared_bytes = cuda_kron_shared(device->arch),
        .wanted_bytes = wanted[choice > 0 ? (choice - 1) % CUDA_KRON_TILES : 0]};
    cuda_kron_plan_of(op, plan);
    plan->tiled = plan->x.col_stride == 1 && plan->y.col_stride == 1 &&
                  (!cuda_kron_adds(op) || plan->z.col_stride == 1);
    plan->tensor = plan->tiled && cuda_kron_has_tensor(device->arch, op);
    plan->pairs = cuda_kron_pairs(device, plan) && is_for_mma(plan, op->count - 1) &&
                  is_for_mma(plan, op->count - 2);
    make_passes(device, choice, plan);
    plan->wide =
        gram_kron_spans_arrange(plan->pass, sizeof plan->pass[0], plan->passes, plan->extra);
    for (int i = 0; i < plan->passes; i++)
        if (plan->pass[i].kernel != CUDA_KRON_FUSED)
            choose_one(device, plan, i, &plan->pass[i]);
        else if (!cuda_kron_tile_choose(device, plan, i, &plan->pass[i]))
            choose_tile(device, plan, &plan->pass[i]);
    plan->chunk_rows = plan->rows, plan->chunk_items = op->batch.count;
    plan->bytes = (double)plan->wide * (double)plan->chunk_rows * (double)plan->chunk_items *
                  (double)plan->element;
    plan->bytes = plan->passes > 2 ? 2 * (plan->bytes + 64) : plan->bytes;
}

void cuda_kron_plan(const struct cuda_device *device, const struct gram_kron_matmul_op *op,
                    int choice, struct cuda_kron_plan *plan)
{
    make(device, op, choice, plan);
    if (choice > 0 && !fits(plan))
        make(device, op, 0, plan);
}

/*
 * cuda_kron_tile.c - passes of kron_matmul_tile.cu: their steps, their tiles, and where the
 * elements of a tile lie in shared memory
 *
 * The kernel applies small factors to a tile that lies in the registers of a block.  A step
 * contracts one factor, or two small neighbours at once; between two steps the tile goes through
 * shared memory.  Tensor cores take the steps of square factors that nearly fill their blocks of
 * eight.  They read columns of the tile across its rows, so that lanes would meet in the same bank:
 * gaps behind the elements of a factor and longer rows of the factors themselves keep them apart.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kron.h"
#include <limits.h>

enum {
    LEAST = 4,                /* least P and Q of a factor */
    MOST = 32,                /* and most */
    PAIRED = 8,               /* most P of factors of 4-byte numbers that a step takes in pairs */
    RUN_BYTES = 32,           /* neighbours in memory that a tile has at least */
    LINE_BYTES = 128,         /* neighbours that are worth a large tile, by tensor cores in f64 */
    TILE_BYTES = 32768,       /* size to aim at; for the last factors half of it is faster */
    LARGE_BYTES = 131072,     /* size of a tile that saves a launch */
    LARGE_SHARED = 200 << 10, /* shared memory that a chip needs for such a tile */
    MANY_TILES = 4,     /* tiles for a processor: where there are fewer, tiles are made smaller */
    THREAD_BYTES = 256, /* of a tile that a thread has, twice as many of the largest tiles */
    LEAST_THREADS = 64,
    MOST_THREADS = 512,
    FEWER_THREADS = 384, /* on a processor, where a thread needs more than 128 registers */
    MMA_THREADS = 128,
    MOST_TRIED = 256, /* largest divisor that is looked for by trying all numbers */
    EIGHT = 8,        /* rows and columns of a block of the tensor cores */
    LANES = 4,        /* lanes of a warp that have elements of the same column */
    BANK_BYTES = 128, /* that all banks of shared memory give together */
    ROWS_TRIED = 5,   /* lengths of a factor's row that are tried */
};

/* ---- Factors that the kernel takes ---------------------------------------------------------- */

bool cuda_kron_tile_takes(const struct gram_kron_matmul_op *op, int factor)
{
    const struct gram_view *f = &op->factor[factor];

    return gram_least(f->rows, f->cols) >= LEAST && gram_most(f->rows, f->cols) <= MOST;
}

/* True on chips whose tensor cores are at least twice as fast as their other units, in f64 and with
 * three products of TF32 in the place of one of f32. */
bool cuda_kron_tile_has_tensor(int arch, const struct gram_kron_matmul_op *op)
{
    return !cuda_kron_is_whole(op->x.dtype) && (arch == 80 || (arch >= 90 && arch < 120));
}

/* True for a square factor that nearly fills blocks of eight rows and columns.  In f32 it has to
 * fill them, and one of 16 rows is taken only where the compiler knows the indices behind the
 * group.  Up to 8 rows the other units are as fast. */
bool cuda_kron_tile_by_mma(const struct cuda_kron_plan *plan, int factor)
{
    const struct gram_view *f = &plan->op->factor[factor];
    int64_t p = f->rows, all = gram_round_up(p, EIGHT);

    if (!plan->tensor || !cuda_kron_tile_takes(plan->op, factor) || p != f->cols || p <= EIGHT)
        return false;
    return plan->element == 8 ? 2 * p * p >= all * all
                              : p == all && (p > 16 || plan->inside == 1 || plan->op->after > 1);
}

/* ---- Sizes of tiles ------------------------------------------------------------------------- */

/* The four variations are those of the model, no large tiles, small tiles only, and no tiles of
 * this kernel. */
int64_t cuda_kron_tile_size(const struct cuda_device *device, struct cuda_kron_plan *plan,
                            int choice)
{
    const struct gram_kron_matmul_op *op = plan->op;
    int variation = choice > 0 ? (choice - 1) / CUDA_KRON_TILES : 0;
    double bytes =
        (double)op->x.rows * (double)op->x.cols * (double)op->batch.count * (double)plan->element;

    plan->tile_bytes = variation == 2 ? TILE_BYTES / 2 : TILE_BYTES;
    plan->tiled = plan->tiled && variation < 3;
    plan->tensor = plan->tensor && plan->tiled;
    return variation == 0 && plan->shared_bytes >= LARGE_SHARED &&
                   bytes >= (double)LARGE_BYTES * device->processors
               ? LARGE_BYTES
               : plan->tile_bytes;
}

/* The most elements that a column of a tile has before, between and after the steps of a group.
 * Steps take the first factor and then the others from the right, or all from the right. */
static int64_t most_elements(const struct gram_kron_matmul_op *op,
                             const struct gram_kron_span *span)
{
    const struct gram_view *f = &op->factor[span->first];
    int64_t all = 1, most, last, first;

    for (int i = 0; i < span->count; i++)
        all *= f[i].rows;
    last = all, first = all / f[0].rows * f[0].cols, most = gram_most(all, first);
    for (int i = span->count - 1; i >= 0; i--) {
        last = last / f[i].rows * f[i].cols;
        if (i > 0)
            first = first / f[i].rows * f[i].cols;
        most = gram_most(most, gram_most(last, first));
    }
    return most;
}

bool cuda_kron_tile_holds(const struct cuda_kron_plan *plan, const struct gram_kron_span *span,
                          int64_t after)
{
    int64_t run = RUN_BYTES / (int64_t)plan->element, most = most_elements(plan->op, span);

    return most * gram_least(after, run) * (int64_t)plan->element <= plan->tile_bytes;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

static void add_step(struct cuda_kron_pass *pass, int factor, int with)
{
    pass->tile.step[pass->tile.steps] = factor, pass->tile.with[pass->tile.steps] = with;
    pass->tile.steps++;
}

static int64_t rows_of(const struct cuda_kron_plan *plan, const struct cuda_kron_pass *pass, int i)
{
    return plan->op->factor[pass->span.first + i].rows;
}

/* True if a step can take factors i and i + 1 at once: their block fits into registers. */
static bool is_pair(const struct cuda_kron_plan *plan, const struct cuda_kron_pass *pass, int i)
{
    const struct gram_view *f = &plan->op->factor[pass->span.first + i];

    return plan->element == 4 && f[0].rows == f[0].cols && f[1].rows == f[1].cols &&
           gram_most(f[0].rows, f[1].rows) <= PAIRED;
}

/* Adds steps for the factors first .. last - 1, from the right, in pairs where that is possible. */
static void add_steps(const struct cuda_kron_plan *plan, struct cuda_kron_pass *pass, int first,
                      int last)
{
    while (last > first) {
        int with = last - first >= 2 && is_pair(plan, pass, last - 2) ? 2 : 1;
        last -= with;
        add_step(pass, last, with);
    }
}

/* How many elements are behind an index of factor i in memory: the smaller number of x and y. */
static int64_t behind(const struct cuda_kron_plan *plan, const struct cuda_kron_pass *pass, int i)
{
    int64_t in = pass->columns, out = pass->columns;

    for (i++; i < pass->span.count; i++) {
        in *= rows_of(plan, pass, i);
        out *= plan->op->factor[pass->span.first + i].cols;
    }
    return gram_least(in, out);
}

/* The first and the last step take factors whose indices have a run of neighbours behind them.
 * Where there is no such factor, that step only copies the tile. */
static void choose_steps(const struct cuda_kron_plan *plan, struct cuda_kron_pass *pass)
{
    int64_t run = RUN_BYTES / (int64_t)plan->element;
    int count = pass->span.count, first = 0;
    bool has_last;

    pass->tile.steps = 0;
    if (pass->columns >= run) {
        add_steps(plan, pass, 0, count);
        return;
    }
    if (behind(plan, pass, 0) >= run)
        first = 1;
    if (count > 4 && is_pair(plan, pass, 0) && behind(plan, pass, 1) >= run)
        first = 2;
    has_last = count > first + 1 && first > 0 && behind(plan, pass, first) >= run;
    add_step(pass, 0, first);
    add_steps(plan, pass, first + has_last, count);
    add_step(pass, has_last ? first : 0, has_last);
}

/* ---- Places in shared memory ---------------------------------------------------------------- */

/* How many elements are behind an index of factor i in a tile, without gaps. */
static int64_t elements_behind(const struct cuda_kron_plan *plan, const struct cuda_kron_pass *pass,
                               int i)
{
    int64_t elements = pass->columns;

    for (i++; i < pass->span.count; i++)
        elements *= plan->op->factor[pass->span.first + i].rows;
    return elements;
}

/* The place of an element of a tile, with the gaps before it. */
static int64_t padded_place(const struct cuda_kron_plan *plan, const struct cuda_kron_pass *pass,
                            int64_t element)
{
    int64_t at = element;

    for (int i = 0; i < pass->span.count; i++)
        at += element / elements_behind(plan, pass, i) * pass->tile.gap[i];
    return at;
}

/* The most lanes that meet in one bank.  Lane 4 g + t has element `across` t of column g, and
 * columns lie side by side in groups of `few`, which are `apart` elements from each other. */
static int conflicts(size_t element, int few, int apart, int across)
{
    int banks = BANK_BYTES / (int)element, most = 0;
    uint8_t used[BANK_BYTES / 4] = {0};

    for (int lane = 0; lane < banks; lane++) {
        int g = lane / LANES, at = g / few * apart + g % few + lane % LANES * across;
        most = (int)gram_most(most, ++used[at % banks]);
    }
    return most;
}

/* The conflicts of a factor's step with the better of two spreads.  `apart` is the distance of two
 * indices before the factor's, and `across` that of two of its own. */
static int choose_spread(size_t element, int few, int apart, int across, int *spread)
{
    int one = conflicts(element, few, apart, across);
    int two = one == 1 ? 1 : conflicts(element, few, apart, 2 * across);

    *spread = two < one ? 2 : 1;
    return two < one ? two : one;
}

/* Chooses the gap behind the elements of each factor, from the right: the one with the fewest
 * conflicts in the factor's step, and in that of the next factor if its columns reach across. */
static void choose_gaps(const struct cuda_kron_plan *plan, struct cuda_kron_pass *pass)
{
    const struct gram_view *f = &plan->op->factor[pass->span.first];
    int banks = BANK_BYTES / (int)plan->element, few = banks / LANES, across = 0;

    for (int i = pass->span.count - 1; i >= 0; i--) {
        bool last = i + 1 == pass->span.count;
        int64_t after = elements_behind(plan, pass, i), next = last ? after : after / f[i + 1].rows;
        bool own = after >= few, reached = !last && next < few;
        int inner = last ? (int)after : across * (int)f[i + 1].rows;
        int least = INT_MAX, spread = 1, next_spread = 1;
        pass->tile.spread[i] = 1, pass->tile.gap[i] = 0;
        for (int gap = 0; gap <= (after > 1 ? few * 2 : 0) && least > own + reached; gap++) {
            int all = own ? choose_spread(plan->element, few, 0, inner + gap, &spread) : 0;
            if (reached)
                all += choose_spread(plan->element, (int)next, inner + gap, across, &next_spread);
            if (all >= least)
                continue;
            least = all, pass->tile.gap[i] = gap, pass->tile.spread[i] = spread;
            if (reached)
                pass->tile.spread[i + 1] = next_spread;
        }
        across = inner + pass->tile.gap[i];
    }
}

/* The most lanes that meet in one bank where they read four rows of a factor, with a spread of 1 in
 * the columns 0, 4, 1, 5, 2, ..., else in eight neighbours. */
static int row_conflicts(size_t element, int spread, int row)
{
    int banks = BANK_BYTES / (int)element, most = 0;
    uint8_t used[BANK_BYTES / 4] = {0};

    for (int lane = 0; lane < banks; lane++) {
        int g = lane / LANES, column = spread == 1 ? g / 2 + g % 2 * LANES : g;
        most = (int)gram_most(most, ++used[(lane % LANES * spread * row + column) % banks]);
    }
    return most;
}

/* Chooses the shortest row of factor i with the fewest conflicts. */
static void choose_row(const struct cuda_kron_plan *plan, struct cuda_kron_pass *pass, int i)
{
    int lanes = 16 / (int)plan->element, least = BANK_BYTES;
    int row = (int)gram_round_up(plan->op->factor[pass->span.first + i].cols, lanes);

    for (int more = 0; more < ROWS_TRIED && least > 1; more++) {
        int now = row_conflicts(plan->element, pass->tile.spread[i], row + more * lanes);
        if (now < least)
            least = now, pass->tile.row[i] = row + more * lanes;
    }
}

/* Lays out the shared memory of a pass whose steps are chosen and whose tile has this number of
 * elements; false: there is too little shared memory. */
static bool lay_out_mma(const struct cuda_kron_plan *plan, struct cuda_kron_pass *pass,
                        int64_t elements)
{
    int64_t all = 0;

    choose_gaps(plan, pass);
    for (int i = 0; i < pass->span.count; i++) {
        choose_row(plan, pass, i);
        all += plan->op->factor[pass->span.first + i].rows * pass->tile.row[i];
    }
    if (pass->tile.steps > 1)
        all += padded_place(plan, pass, elements - 1) + 1;
    if (all > plan->shared_bytes / (int64_t)plan->element)
        return false;
    pass->shared_bytes = (size_t)all * plan->element;
    return true;
}

/* ---- Tiles ---------------------------------------------------------------------------------- */

/* The shared memory of a block without tensor cores: the factors, with rows of whole 16 bytes, and
 * between two steps the tile of `most` elements for each column. */
static size_t shared_bytes(const struct cuda_kron_plan *plan, const struct cuda_kron_pass *pass,
                           int64_t most)
{
    int64_t lanes = 16 / (int64_t)plan->element, banks = 128 / (int64_t)plan->element;
    int64_t elements = 0;

    for (int f = pass->span.first; f < pass->span.first + pass->span.count; f++)
        elements += plan->op->factor[f].rows * gram_round_up(plan->op->factor[f].cols, lanes);
    if (pass->tile.steps > 1)
        elements += most * pass->units * pass->columns * (banks + 1) / banks + 1;
    return (size_t)elements * plan->element;
}

/* The largest divisor of `after` from `run` to `most`; one that is no power of two is at most
 * MOST_TRIED.  0: there is none. */
static int64_t find_divisor(int64_t after, int64_t most, int64_t run)
{
    int64_t power = after & -after;

    if (after <= most)
        return after;
    if (power >= run) {
        while (power > most)
            power /= 2;
        return power;
    }
    most = gram_least(most, MOST_TRIED);
    while (most >= run && after % most != 0)
        most--;
    return most >= run ? most : 0;
}

/* Chooses the threads of a block, the blocks of a processor, and the sums of a thread, for a tile
 * of this many bytes. */
static void choose_threads(const struct cuda_kron_plan *plan, struct cuda_kron_pass *pass,
                           int64_t tile)
{
    bool large = tile > TILE_BYTES;
    int all = pass->span.after == 1 ? MOST_THREADS : FEWER_THREADS;

    for (int i = 0; i < pass->tile.steps; i++)
        if (pass->tile.with[i] == 2)
            all = FEWER_THREADS;
    pass->threads = LEAST_THREADS;
    while (pass->threads < MOST_THREADS &&
           (int64_t)pass->threads * THREAD_BYTES * (large ? 2 : 1) < tile)
        pass->threads *= 2;
    pass->tile.blocks =
        (int)gram_most(1, large ? MOST_THREADS / 2 / pass->threads : all / pass->threads);
    pass->tile.at_once = (large ? 64 : 32) * 4 / (int)plan->element;
}

/* The same by tensor cores.  The sums of a warp take many registers, and so do the factors, unless
 * they are of f64 with more than 16 rows. */
static void choose_mma_threads(const struct cuda_kron_plan *plan, struct cuda_kron_pass *pass,
                               int64_t tile)
{
    bool large = tile > TILE_BYTES;
    bool in_registers = plan->element == 4 || rows_of(plan, pass, 0) <= 16;

    pass->threads = large ? MOST_THREADS : MMA_THREADS;
    pass->tile.blocks = large ? 1 : (in_registers ? FEWER_THREADS : MOST_THREADS) / MMA_THREADS;
}

/* True if rows lie one behind the other without gaps, or there is no matrix. */
static bool is_linear(const struct cuda_kron_plan *plan, const struct gram_view *v)
{
    return !v->data || plan->rows == 1 || v->row_stride == v->cols;
}

bool cuda_kron_adds(const struct gram_kron_matmul_op *op)
{
    return op->z.data && (op->beta.tensor.data || op->beta.value != 0);
}

/* Finds out what simplifies the kernel: y is the product itself (plain), and units lie one behind
 * the other (linear). */
static void choose_ends(const struct cuda_kron_plan *plan, int number, struct cuda_kron_pass *pass)
{
    const struct gram_hyper *alpha = &plan->op->alpha;
    bool last = number + 1 == plan->passes, has_z = cuda_kron_adds(plan->op);

    pass->tile.plain = !last || (!alpha->tensor.data && alpha->value == 1 && !has_z);
    pass->tile.linear =
        (number > 0 || is_linear(plan, &plan->x)) &&
        (!last || (is_linear(plan, &plan->y) && (!has_z || is_linear(plan, &plan->z))));
}

/* Tiles of x are copied ahead where 16 bytes are neighbours: with a single step before the sums,
 * else as soon as the first step has read the previous tile. */
static void choose_stages(const struct cuda_kron_plan *plan, int number,
                          struct cuda_kron_pass *pass, size_t shared)
{
    size_t stored = cuda_kron_stored(plan, false, number);
    size_t tile = (size_t)(pass->span.in * pass->columns * pass->units) * stored;
    size_t run = pass->columns == pass->span.after ? tile : (size_t)pass->columns * stored;
    size_t behind = (size_t)pass->span.after * stored; /* from one run to the next */
    bool aligned = number > 0 || (uintptr_t)plan->x.data % 16 == 0;

    if (run % 16 != 0 || (run != tile && behind % 16 != 0) || !aligned || !pass->tile.linear ||
        plan->op->batch.count > 1)
        return;
    pass->tile.stages = pass->tile.steps == 1 ? 2 : 1;
    pass->tile.stage_bytes = tile + tile / 16 + 16;
    if (pass->shared_bytes + (size_t)pass->tile.stages * pass->tile.stage_bytes > shared / 2)
        pass->tile.stages = 0;
}

/* True if the kernel, or its tensor cores, takes all factors of a pass. */
static bool takes_all(const struct cuda_kron_plan *plan, const struct cuda_kron_pass *pass,
                      bool mma)
{
    bool all = plan->tiled;

    for (int f = pass->span.first; f < pass->span.first + pass->span.count; f++)
        all = all && (mma ? cuda_kron_tile_by_mma(plan, f) : cuda_kron_tile_takes(plan->op, f));
    return all;
}

/* Chooses the units and columns of a tile that has `most` elements for each column; false: no
 * number of columns divides those that there are.  In f64 by tensor cores whole lines of x are
 * worth a large tile. */
static bool choose_size(const struct cuda_device *device, const struct cuda_kron_plan *plan,
                        struct cuda_kron_pass *pass, int64_t most)
{
    int64_t element = (int64_t)plan->element, units = plan->rows * pass->span.before;
    int64_t after = pass->span.after, all = units * after * plan->op->batch.count;
    int64_t run = RUN_BYTES / element, line = LINE_BYTES / element;
    int64_t many = MANY_TILES * (int64_t)device->processors;
    int64_t wanted = gram_least(plan->tile_bytes, TILE_BYTES) / element;

    if (after == 1)
        wanted /= 2;
    while (wanted > gram_most(most, run) && all * most / wanted < many)
        wanted /= 2;
    if (element == 8 && takes_all(plan, pass, true) && after > 1 &&
        most * LINE_BYTES <= LARGE_BYTES && all >= many * line)
        wanted = gram_most(wanted, most * line);
    pass->columns = find_divisor(after, gram_most(wanted / most, run), run);
    pass->units = 1;
    while (pass->columns == after && most * pass->columns * pass->units * 2 <= wanted &&
           pass->units < units)
        pass->units *= 2;
    return pass->columns > 0;
}

/* Chooses the tile, its steps, its threads and its shared memory, in this order. */
static bool plan_pass(const struct cuda_device *device, const struct cuda_kron_plan *plan,
                      int number, struct cuda_kron_pass *pass)
{
    int64_t most = most_elements(plan->op, &pass->span), tile, tiles;

    if (!takes_all(plan, pass, false) || !choose_size(device, plan, pass, most))
        return false;
    pass->tile = (struct cuda_kron_tile_pass){0};
    choose_steps(plan, pass);
    tile = most * pass->columns * pass->units;
    tiles = plan->rows * pass->span.before * pass->span.after * plan->op->batch.count * most / tile;
    choose_threads(plan, pass, tile * (int64_t)plan->element);
    pass->shared_bytes = shared_bytes(plan, pass, most);
    pass->tile.mma = takes_all(plan, pass, true) && lay_out_mma(plan, pass, tile);
    if (pass->tile.mma)
        choose_mma_threads(plan, pass, tile * (int64_t)plan->element);
    choose_ends(plan, number, pass);
    if (tiles >= 2 * (int64_t)pass->tile.blocks * device->processors)
        choose_stages(plan, number, pass, (size_t)plan->shared_bytes);
    pass->shared_bytes += (size_t)pass->tile.stages * pass->tile.stage_bytes;
    pass->tile.blocks = (int)gram_least(pass->tile.blocks,
                                        plan->shared_bytes / ((int64_t)pass->shared_bytes + 1024));
    return true;
}

/* ---- The solver ----------------------------------------------------------------------------- */

static void add_list(struct cuda_variant *v, const char *name, const int *numbers, int count)
{
    for (int i = 0; i < count; i++)
        cuda_option(v, name, numbers[i]);
}

static void add_options(const struct cuda_kron_plan *plan, int number,
                        const struct kron_params *params, struct cuda_variant *v)
{
    const struct cuda_kron_pass *pass = &plan->pass[number];
    const struct cuda_kron_tile_pass *t = &pass->tile;
    const struct gram_view *f = &plan->op->factor[pass->span.first];
    const bool is_batch = plan->op->batch.count > 1, simple = t->plain && t->linear && !is_batch;
    const bool after_is_known = plan->inside == 1 || plan->op->after > 1;

    (void)params;
    for (int i = 0; i < pass->span.count; i++)
        cuda_option(v, "P_OF", f[i].rows);
    for (int i = 0; i < pass->span.count; i++)
        cuda_option(v, "Q_OF", f[i].cols);
    add_list(v, "STEP_OF", t->step, t->steps);
    add_list(v, "WITH_OF", t->with, t->steps);
    if (t->mma) {
        add_list(v, "GAP_OF", t->gap, pass->span.count);
        add_list(v, "SPREAD_OF", t->spread, pass->span.count);
        add_list(v, "ROW_OF", t->row, pass->span.count);
        cuda_option(v, "DOUBLES", plan->element == 8);
    }
    cuda_option(v, "TB", pass->units);
    cuda_option(v, "TA", pass->columns);
    cuda_option(v, "AFTER", after_is_known ? pass->span.after : 0);
    cuda_option(v, "THREADS", pass->threads);
    cuda_option(v, "BLOCKS", simple ? t->blocks : (t->blocks + 1) / 2);
    cuda_option(v, "WIDE", t->at_once);
    cuda_option(v, "PLAIN", t->plain);
    cuda_option(v, "LINEAR", t->linear);
    cuda_option(v, "BATCHED", is_batch);
    cuda_option(v, "STAGES", t->stages);
    cuda_option(v, "MMA", t->mma);
}

/* Blocks stay on their processors and go from tile to tile. */
static int64_t count_blocks(const struct cuda_device *device, const struct cuda_kron_plan *plan,
                            const struct cuda_kron_pass *pass, struct kron_params *params)
{
    params->unit_tiles = gram_ceil_div(plan->rows * pass->span.before, pass->units);
    params->col_tiles = gram_ceil_div(pass->span.after, pass->columns);
    return cuda_kron_count_tiles(params, (double)device->processors * pass->tile.blocks);
}

const struct cuda_kron_solver cuda_kron_tile = {
    .kernel = {"kron_matmul_tile.cu", "kron_matmul_tile"},
    .plan = plan_pass,
    .add_options = add_options,
    .count_blocks = count_blocks,
};

/*
 * cuda_kron_tile.c - the groups, steps and tiles of kron_matmul_tile.cu
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kron.h"
#include <stdio.h>

enum {
    LEAST = 4,            /* least P and Q of a factor */
    MOST = 32,            /* and most */
    PAIRED = 8,           /* most P of factors of 4-byte numbers that a step takes in pairs */
    RUN_BYTES = 32,       /* neighbours in memory that a tile has at least */
    LINE_BYTES = 128,     /* neighbours that are worth a large tile, by tensor cores in f64 */
    TILE_BYTES = 32768,   /* size to aim at; for the last factors half of it is faster */
    LARGE_BYTES = 131072, /* size of a tile that saves a launch */
    LARGE_SHARED = 200 << 10,
    MANY_TILES = 4,     /* tiles for a processor: where there are fewer, tiles are made smaller */
    THREAD_BYTES = 256, /* of a tile that a thread has, twice as many of the largest tiles */
    LEAST_THREADS = 64,
    MOST_THREADS = 512,
    FEWER_THREADS = 384, /* on a processor, where a thread needs more than 128 registers */
    MMA_THREADS = 128,
    MOST_TRIED = 256, /* largest divisor that is looked for by trying all numbers */
};

bool cuda_kron_tile_takes(const struct gram_kron_matmul_op *op, int factor)
{
    const struct gram_view *f = &op->factor[factor];

    return gram_least(f->rows, f->cols) >= LEAST && gram_most(f->rows, f->cols) <= MOST;
}

static size_t shared_of(const struct cuda_kron_plan *plan, const struct cuda_kron_pass *pass,
                        int64_t most)
{
    int64_t lanes = 16 / (int64_t)plan->element, banks = 128 / (int64_t)plan->element;
    int64_t elements = 0;

    for (int f = pass->span.first; f < pass->span.first + pass->span.count; f++)
        elements += plan->op->factor[f].rows * gram_round_up(plan->op->factor[f].cols, lanes);
    if (pass->steps > 1)
        elements += most * pass->units * pass->columns * (banks + 1) / banks + 1;
    return (size_t)elements * plan->element;
}

/* The four choices are those of the model, no large tiles, small tiles only, and no tiles of this
 * kernel. */
int64_t cuda_kron_tile_size(const struct cuda_device *device, struct cuda_kron_plan *plan,
                            int choice)
{
    const struct gram_kron_matmul_op *op = plan->op;
    int way = choice > 0 ? (choice - 1) / CUDA_KRON_TILES : 0;
    double bytes =
        (double)op->x.rows * (double)op->x.cols * (double)op->batch.count * (double)plan->element;

    plan->tile_bytes = way == 2 ? TILE_BYTES / 2 : TILE_BYTES;
    plan->tiled = plan->tiled && way < 3;
    plan->tensor = plan->tensor && plan->tiled;
    return way == 0 && plan->shared_bytes >= LARGE_SHARED &&
                   bytes >= (double)LARGE_BYTES * device->processors
               ? LARGE_BYTES
               : plan->tile_bytes;
}

/* The most elements that a column of a tile has before, between and after the steps of a group.
 * Steps take the first factor and then the others from the right, or all from the right. */
static int64_t most_of(const struct gram_kron_matmul_op *op, const struct gram_kron_span *span)
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
    int64_t run = RUN_BYTES / (int64_t)plan->element, most = most_of(plan->op, span);

    return most * gram_least(after, run) * (int64_t)plan->element <= plan->tile_bytes;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

static void add_step(struct cuda_kron_pass *pass, int factor, int with)
{
    pass->step[pass->steps] = factor, pass->with[pass->steps] = with;
    pass->steps++;
}

static int64_t rows_of(const struct cuda_kron_plan *plan, const struct cuda_kron_pass *pass, int i)
{
    return plan->op->factor[pass->span.first + i].rows;
}

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

    pass->steps = 0;
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

/* ---- Tiles ---------------------------------------------------------------------------------- */

/* The largest divisor of `after` from `run` to `most`; one that is no power of two is at most
 * MOST_TRIED.  0: there is none. */
static int64_t divisor_of(int64_t after, int64_t most, int64_t run)
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

static void choose_threads(const struct cuda_kron_plan *plan, struct cuda_kron_pass *pass,
                           int64_t tile)
{
    bool large = tile > TILE_BYTES;
    int all = pass->span.after == 1 ? MOST_THREADS : FEWER_THREADS;

    for (int i = 0; i < pass->steps; i++)
        if (pass->with[i] == 2)
            all = FEWER_THREADS;
    pass->threads = LEAST_THREADS;
    while (pass->threads < MOST_THREADS &&
           (int64_t)pass->threads * THREAD_BYTES * (large ? 2 : 1) < tile)
        pass->threads *= 2;
    pass->blocks =
        (int)gram_most(1, large ? MOST_THREADS / 2 / pass->threads : all / pass->threads);
    pass->wide = (large ? 64 : 32) * 4 / (int)plan->element;
}

/* The same by tensor cores.  The sums of a warp take many registers, and so do the factors, unless
 * they are of f64 with more than 16 rows. */
static void choose_mma_threads(const struct cuda_kron_plan *plan, struct cuda_kron_pass *pass,
                               int64_t tile)
{
    bool large = tile > TILE_BYTES;
    bool kept = plan->element == 4 || rows_of(plan, pass, 0) <= 16;

    pass->threads = large ? MOST_THREADS : MMA_THREADS;
    pass->blocks = large ? 1 : (kept ? FEWER_THREADS : MOST_THREADS) / MMA_THREADS;
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

/* Finds what simplifies a kernel: y is the product itself (plain), and units lie one behind the
 * other (linear). */
static void see_ends(const struct cuda_kron_plan *plan, int number, struct cuda_kron_pass *pass)
{
    const struct gram_hyper *alpha = &plan->op->alpha;
    bool last = number + 1 == plan->passes, has_z = cuda_kron_adds(plan->op);

    pass->plain = !last || (!alpha->tensor.data && alpha->value == 1 && !has_z);
    pass->linear = (number > 0 || is_linear(plan, &plan->x)) &&
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

    if (run % 16 != 0 || (run != tile && behind % 16 != 0) || !aligned || !pass->linear ||
        plan->op->batch.count > 1)
        return;
    pass->stages = pass->steps == 1 ? 2 : 1;
    pass->stage_bytes = tile + tile / 16 + 16;
    if (pass->shared_bytes + (size_t)pass->stages * pass->stage_bytes > shared / 2)
        pass->stages = 0;
}

static bool is_taken(const struct cuda_kron_plan *plan, const struct cuda_kron_pass *pass, bool mma)
{
    bool taken = plan->tiled;

    for (int f = pass->span.first; f < pass->span.first + pass->span.count; f++)
        taken = taken && (mma ? cuda_kron_tile_by_mma(plan, f) : cuda_kron_tile_takes(plan->op, f));
    return taken;
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
    if (element == 8 && is_taken(plan, pass, true) && after > 1 &&
        most * LINE_BYTES <= LARGE_BYTES && all >= many * line)
        wanted = gram_most(wanted, most * line);
    pass->columns = divisor_of(after, gram_most(wanted / most, run), run);
    pass->units = 1;
    while (pass->columns == after && most * pass->columns * pass->units * 2 <= wanted &&
           pass->units < units)
        pass->units *= 2;
    return pass->columns > 0;
}

bool cuda_kron_tile_choose(const struct cuda_device *device, const struct cuda_kron_plan *plan,
                           int number, struct cuda_kron_pass *pass)
{
    int64_t most = most_of(plan->op, &pass->span), tile, tiles;

    if (!is_taken(plan, pass, false) || !choose_size(device, plan, pass, most))
        return false;
    choose_steps(plan, pass);
    tile = most * pass->columns * pass->units;
    tiles = plan->rows * pass->span.before * pass->span.after * plan->op->batch.count * most / tile;
    choose_threads(plan, pass, tile * (int64_t)plan->element);
    pass->shared_bytes = shared_of(plan, pass, most);
    pass->mma = is_taken(plan, pass, true) && cuda_kron_tile_choose_mma(plan, pass, tile);
    if (pass->mma)
        choose_mma_threads(plan, pass, tile * (int64_t)plan->element);
    pass->kernel = CUDA_KRON_TILE;
    see_ends(plan, number, pass);
    if (tiles >= 2 * (int64_t)pass->blocks * device->processors)
        choose_stages(plan, number, pass, (size_t)plan->shared_bytes);
    pass->shared_bytes += (size_t)pass->stages * pass->stage_bytes;
    pass->blocks =
        (int)gram_least(pass->blocks, plan->shared_bytes / ((int64_t)pass->shared_bytes + 1024));
    return true;
}

/* ---- The defines of the kernel -------------------------------------------------------------- */

static int list(char *to, size_t room, const char *name, const int *numbers, int count)
{
    int used = snprintf(to, room, " -D%s", name);

    for (int i = 0; i < count; i++)
        used += snprintf(to + used, room - (size_t)used, "%c%d", i ? ',' : '=', numbers[i]);
    return used;
}

void cuda_kron_tile_define(const struct cuda_kron_plan *plan, int number, char *to, size_t room)
{
    const struct cuda_kron_pass *pass = &plan->pass[number];
    bool is_batch = plan->op->batch.count > 1, simple = pass->plain && pass->linear && !is_batch;
    int p[GRAM_MAX_FACTORS], q[GRAM_MAX_FACTORS], used = 0;

    for (int i = 0; i < pass->span.count; i++) {
        p[i] = (int)plan->op->factor[pass->span.first + i].rows;
        q[i] = (int)plan->op->factor[pass->span.first + i].cols;
    }
    used += list(to, room, "P_OF", p, pass->span.count);
    used += list(to + used, room - (size_t)used, "Q_OF", q, pass->span.count);
    used += list(to + used, room - (size_t)used, "STEP_OF", pass->step, pass->steps);
    used += list(to + used, room - (size_t)used, "WITH_OF", pass->with, pass->steps);
    if (pass->mma) {
        used += list(to + used, room - (size_t)used, "GAP_OF", pass->gap, pass->span.count);
        used += list(to + used, room - (size_t)used, "SPREAD_OF", pass->spread, pass->span.count);
        used += list(to + used, room - (size_t)used, "ROW_OF", pass->row, pass->span.count);
        used += snprintf(to + used, room - (size_t)used, " -DDOUBLES=%d", plan->element == 8);
    }
    snprintf(to + used, room - (size_t)used,
             " -DTB=%lld -DTA=%lld -DAFTER=%lld -DTHREADS=%d -DBLOCKS=%d -DWIDE=%d -DPLAIN=%d"
             " -DLINEAR=%d -DBATCHED=%d -DSTAGES=%d -DMMA=%d",
             (long long)pass->units, (long long)pass->columns,
             plan->extra == 1 || plan->op->after > 1 ? (long long)pass->span.after : 0,
             pass->threads, simple ? pass->blocks : (pass->blocks + 1) / 2, pass->wide, pass->plain,
             pass->linear, is_batch, pass->stages, pass->mma);
}

/*
 * cpu_pair_blocks.c - how a pairwise matrix is cut into strips, parts and blocks, and the walk
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_pair_blocks.h"
#include "pairwise.h"

enum {
    STRIP_ROWS = 960,      /* a block of y is packed once for each strip: 2.5 % of the time */
    FEWER_ROWS = 240,      /* as many, 10 % of the time, where columns can be cut instead */
    LEAST_ROWS = 48,       /* whole register tiles of all instruction sets */
    BLOCK_BYTES = 4096,    /* of a row of a block */
    STATE_BYTES = 1 << 20, /* of the rows of a strip, unless LEAST_ROWS have more */
    TASKS = 64,            /* there are so many, if the matrix is large enough */
    PART_COLS = 2048       /* the least columns of a part, unless there are fewer */
};

static void choose_strips(struct pair_walk *walk, size_t row_bytes)
{
    const int64_t m = walk->op.x.rows, items = gram_most(1, walk->op.batch.count);
    const int64_t least = walk->op.y.rows >= 2 * PART_COLS ? FEWER_ROWS : LEAST_ROWS;
    int64_t rows = STRIP_ROWS;

    while (rows > LEAST_ROWS && (size_t)rows * row_bytes > STATE_BYTES)
        rows -= LEAST_ROWS;
    while (rows > least && items * gram_ceil_div(m, rows) < TASKS)
        rows -= LEAST_ROWS;
    walk->strip_rows = rows;
    walk->strips = gram_ceil_div(m, rows);
}

/* A part begins with no state of its rows, and what it finds first costs most: it has columns in
 * proportion to the state. */
static void choose_parts(struct pair_walk *walk, size_t row_bytes)
{
    const int64_t n = walk->op.y.rows, all = walk->strips * gram_most(1, walk->op.batch.count);
    const int64_t least = gram_most(PART_COLS, 4 * (int64_t)row_bytes);
    int64_t parts = all > 0 ? gram_ceil_div(TASKS, all) : 1;

    parts = gram_most(1, gram_least(parts, n / least));
    walk->part_cols = gram_round_up(gram_most(1, gram_ceil_div(n, parts)), walk->block_cols);
    walk->parts = gram_most(1, gram_ceil_div(n, walk->part_cols));
    walk->tasks = walk->op.batch.count * walk->strips * walk->parts;
}

/* A block as an operation of cpu_cdist. */
static struct gram_cdist_op block_op(const struct pair_walk *walk, const struct pair_strip *strip,
                                     int64_t j, int64_t cols, void *values)
{
    struct gram_cdist_op op = gram_cdist_alone(&walk->op, strip->item);

    op.symmetric = false;
    op.row_offset += strip->i;
    op.column_offset += j;
    op.x = gram_view_rows(&op.x, strip->i, strip->rows);
    op.y = gram_view_rows(&op.y, j, cols);
    op.out = gram_view_dense(values, walk->dtype, strip->rows, cols);
    op.out.row_stride = walk->ld;
    return op;
}

/* The most scratch that cpu_cdist takes for a block, of all shapes that occur. */
static size_t inner_bytes(const struct pair_walk *walk)
{
    const int64_t m = walk->op.x.rows, n = walk->op.y.rows;
    const int64_t rows[] = {gram_least(m, walk->strip_rows), m % walk->strip_rows},
                  cols[] = {gram_least(n, walk->block_cols), n % walk->block_cols};
    size_t most = 0;

    for (int i = 0; i < 4 && walk->op.batch.count > 0; i++) {
        const struct pair_strip strip = {.rows = rows[i & 1]};
        struct gram_cdist_op op = block_op(walk, &strip, 0, cols[i >> 1], NULL);
        struct gram_layout layout = {0};
        struct cdist_plan plan;
        cpu_cdist_plan_alone(walk->g, &op, &plan);
        cpu_cdist_take(&plan, &layout);
        most = gram_most_bytes(most, gram_layout_bytes(&layout));
    }
    return most;
}

void cpu_pair_walk_plan(struct pair_walk *walk, size_t row_bytes)
{
    walk->dtype = walk->op.x.dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    walk->element = (int64_t)gram_dtype_size(walk->dtype);
    walk->block_cols = BLOCK_BYTES / walk->element;
    choose_strips(walk, row_bytes);
    choose_parts(walk, row_bytes);
    walk->ld = gram_round_up(gram_least(walk->op.y.rows, walk->block_cols), 64 / walk->element);
    walk->values_bytes = gram_round64(
        (size_t)(gram_least(walk->op.x.rows, walk->strip_rows) * walk->ld * walk->element));
    walk->inner_bytes = inner_bytes(walk);
    atomic_init(&walk->done, 0);
    atomic_init(&walk->stopped, false);
}

void cpu_pair_walk_take(struct pair_walk *walk, struct gram_layout *layout)
{
    const size_t threads = (size_t)gram_least(walk->g->threads, walk->tasks);

    gram_take_many(layout, &walk->values, threads, walk->values_bytes);
    gram_take_many(layout, &walk->inner, threads, walk->inner_bytes);
}

static void compute(const struct pair_walk *walk, const struct pair_strip *strip,
                    const struct pair_block *block)
{
    const struct gram_cdist_op op = block_op(walk, strip, block->j, block->cols, block->values);
    struct gram_layout layout = {0};
    struct cdist_plan plan;

    cpu_cdist_plan_alone(walk->g, &op, &plan);
    cpu_cdist_take(&plan, &layout);
    gram_layout_place(&layout, walk->inner + (size_t)strip->thread * walk->inner_bytes);
    cpu_cdist_run(&plan);
}

static void task(void *arg, int64_t index, int thread)
{
    struct pair_walk *walk = arg;
    const int64_t strip_index = index / walk->parts, start = gram_trace_begin(walk->g);
    struct pair_strip strip = {.item = strip_index / walk->strips,
                               .i = strip_index % walk->strips * walk->strip_rows,
                               .part = index % walk->parts,
                               .task = index,
                               .thread = thread};
    struct pair_block block = {.ld = walk->ld,
                               .values = walk->values + (size_t)thread * walk->values_bytes};

    strip.rows = gram_least(walk->strip_rows, walk->op.x.rows - strip.i);
    strip.j = strip.part * walk->part_cols;
    strip.end = gram_least(strip.j + walk->part_cols, walk->op.y.rows);
    walk->begin(walk->of, &strip);
    for (block.j = strip.j; block.j < strip.end; block.j += block.cols) {
        if (gram_cancelled(walk->g)) {
            atomic_store(&walk->stopped, true);
            return;
        }
        block.cols = gram_least(walk->block_cols, strip.end - block.j);
        compute(walk, &strip, &block);
        walk->take(walk->of, &strip, &block);
    }
    walk->end(walk->of, &strip);
    gram_trace_end(walk->g, walk->name, thread, start);
    index = atomic_fetch_add(&walk->done, 1) + 1;
    if (thread == 0 && walk->progress)
        walk->progress(walk->progress_user, (double)index / (double)walk->tasks);
}

gram_status cpu_pair_walk_run(struct pair_walk *walk)
{
    /* A step of a pair is a coordinate; fewer than these take less time than a thread wakes. */
    const double steps = (double)walk->op.batch.count * (double)walk->op.x.rows *
                         (double)walk->op.y.rows * (double)(walk->op.x.cols + 8);

    gram_for(walk->g, steps / 8, walk->tasks, task, walk);
    if (atomic_load(&walk->stopped))
        return gram_fail(walk->g, GRAM_CANCELLED, "cancelled");
    return GRAM_OK;
}

/*
 * cpu_cdist.c - pairwise sums on the CPU: rounds of packing, then blocks of register tiles
 *
 * Every element of out is one sequential sum over k from the same panels, so its value depends
 * neither on the number of threads nor on how blocks are cut, and out[i][j] of x, y is out[j][i]
 * of y, x.  Only blocks that reach above the diagonal are computed where x and y are one matrix.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_cdist.h"
#include "cpu/cpu_pack.h"
#include <string.h>

enum {
    SERIAL_WORK = 270000, /* steps: 64^3 take 10 us (p = 2, f32) to 60, a thread as long to wake */
    PACK_PANELS = 8       /* of a packing task */
};

void cpu_cdist_loop(const struct cdist_round *round, int64_t count, gram_loop_body *body)
{
    const struct cdist_plan *plan = round->plan;
    double work = (double)round->items * (double)round->rows * (double)round->cols *
                  (double)(round->depth + 1);

    if (work > SERIAL_WORK)
        gram_parallel_for((gram_context *)plan->g, count, body, (void *)round);
    else
        for (int64_t i = 0; i < count; i++)
            body((void *)round, i, 0);
}

static struct cdist_item *item_of(const struct cdist_plan *plan, int64_t in_round)
{
    size_t at = plan->shared_item ? 0 : (size_t)in_round * plan->item_bytes;

    return (struct cdist_item *)(plan->item_memory + at);
}

/* Norms of rows of a round, from its first one on; NULL where the function needs none. */
static double *norms_of(char *norms, int64_t rows, int64_t item)
{
    return norms ? (double *)norms + item * rows : NULL;
}

/* ---- Packing -------------------------------------------------------------------------------- */

/* One side's panels from `panel` on: where they come from and where they go. */
struct side {
    const struct gram_view *view;
    int64_t first, rows, width; /* of the round */
    char *to;
    double *norms;
};

static void pack_panel(const struct cdist_round *round, const struct side *side, int64_t item,
                       int64_t panel)
{
    const struct cdist_plan *plan = round->plan;
    int64_t row = panel * side->width, count = gram_least(side->width, side->rows - row);
    struct gram_rows from =
        gram_rows_at(side->view, &plan->op.batch, round->item + item, side->first + row, round->k);

    gram_pack_panel(&from, count, round->depth, side->width, side->to);
    if (plan->op.function == GRAM_COSINE && round->first) {
        from = gram_rows_at(side->view, &plan->op.batch, round->item + item, side->first + row, 0);
        gram_pack_norms(&from, count, side->view->cols, side->norms + row);
    }
}

/* Packing task: some panels of x or of y of one item. */
static void pack_task(void *arg, int64_t index, int thread)
{
    const struct cdist_round *round = arg;
    const struct cdist_plan *plan = round->plan;
    int64_t x_tasks = gram_ceil_div(round->x_panels, PACK_PANELS),
            y_tasks = round->pack_y ? gram_ceil_div(round->y_panels, PACK_PANELS) : 0;
    int64_t item = index / (x_tasks + y_tasks), task = index % (x_tasks + y_tasks);
    bool of_x = task < x_tasks;
    int64_t panel = (of_x ? task : task - x_tasks) * PACK_PANELS,
            end = gram_least(panel + PACK_PANELS, of_x ? round->x_panels : round->y_panels);
    int64_t start = gram_trace_begin(plan->g);

    for (; panel < end; panel++) {
        struct side side;
        if (of_x)
            side = (struct side){&plan->op.x,
                                 round->i,
                                 round->rows,
                                 plan->mr,
                                 plan->x_panels + cpu_cdist_x_panel(plan, item, panel),
                                 norms_of(plan->x_norms, plan->x_rows, item)};
        else
            side = (struct side){&plan->op.y,
                                 round->j,
                                 round->cols,
                                 plan->nr,
                                 plan->y_panels + cpu_cdist_y_panel(plan, item, panel),
                                 norms_of(plan->y_norms, plan->y_rows, item)};
        pack_panel(round, &side, item, panel);
    }
    gram_trace_end(plan->g, "cdist pack", thread, start);
}

/* ---- Pieces of out -------------------------------------------------------------------------- */

static int64_t first_column(const struct cdist_piece *piece, int64_t row)
{
    int64_t first = row + piece->diagonal;

    return first < 0 ? 0 : first > piece->cols ? piece->cols : first;
}

#define SUFFIX f32
#define real   float
#include "cpu_cdist_move.h"

#define SUFFIX f64
#define real   double
#include "cpu_cdist_move.h"

/* Moves a piece to out, past the caches where out is too large to stay there. */
static void store_piece(const struct cdist_plan *plan, const struct cdist_piece *piece)
{
    if (plan->stream && first_column(piece, piece->rows - 1) == 0)
        plan->kernels->stream_rows(piece->out, piece->row_stride * plan->element, piece->buffer,
                                   piece->ld * plan->element, piece->rows,
                                   piece->cols * plan->element);
    else if (plan->dtype == GRAM_F32)
        store_f32(piece);
    else
        store_f64(piece);
}

/* Fills the buffer of a piece from out. */
static void load_piece(const struct cdist_plan *plan, const struct cdist_piece *piece)
{
    if (plan->dtype == GRAM_F32)
        load_f32(piece);
    else
        load_f64(piece);
}

/* Moves a piece to the transposed place in out, which is where piece->out points. */
static void mirror_piece(const struct cdist_plan *plan, const struct cdist_piece *piece)
{
    if (plan->dtype == GRAM_F32)
        mirror_f32(piece);
    else
        mirror_f64(piece);
}

/* ---- Blocks --------------------------------------------------------------------------------- */

/* A block: its place in the round, its piece of out, what its items need. */
struct block {
    const struct cdist_round *round;
    const struct cdist_item *what;
    int64_t item, row, col; /* of the round */
    struct cdist_piece piece;
};

static void scale_by_norms(const struct block *block, const struct cdist_piece *strip, int64_t row)
{
    const struct cdist_plan *plan = block->round->plan;
    const double *x = norms_of(plan->x_norms, plan->x_rows, block->item) + row,
                 *y = norms_of(plan->y_norms, plan->y_rows, block->item) + block->col;

    for (int64_t r = 0; r < strip->rows; r++)
        for (int64_t c = 0; c < strip->cols; c++)
            if (plan->dtype == GRAM_F32) {
                float *e = (float *)strip->buffer + r * strip->ld + c;
                *e = (float)((double)*e * x[r] * y[c]);
            } else {
                double *e = (double *)strip->buffer + r * strip->ld + c;
                *e = *e * x[r] * y[c];
            }
}

/* Adds to what lies on the diagonal of the whole matrix: row_offset + i == column_offset + j. */
static void regularize(const struct block *block, const struct cdist_piece *strip, int64_t row)
{
    const struct cdist_round *round = block->round;
    const struct gram_cdist_op *op = &round->plan->op;
    int64_t column =
        op->row_offset - op->column_offset + (round->i + row) - (round->j + block->col);

    for (int64_t r = 0; r < strip->rows; r++, column++) {
        if (column < 0 || column >= strip->cols)
            continue;
        if (round->plan->dtype == GRAM_F32)
            ((float *)strip->buffer)[r * strip->ld + column] += (float)block->what->regularization;
        else
            ((double *)strip->buffer)[r * strip->ld + column] += block->what->regularization;
    }
}

static void finish(const struct block *block, const struct cdist_piece *strip, int64_t row)
{
    const struct cdist_plan *plan = block->round->plan;

    if (plan->op.function == GRAM_COSINE)
        scale_by_norms(block, strip, row);
    if (block->what->mapped)
        plan->kernels->map[plan->dtype](strip->rows * strip->ld, strip->buffer, &block->what->map);
    if (block->what->regularization != 0)
        regularize(block, strip, row);
}

/* Sums, maps and stores the strip of a block that begins at row of the round. */
static void one_strip(const struct block *block, const struct cdist_piece *strip, int64_t row)
{
    const struct cdist_round *round = block->round;
    const struct cdist_plan *plan = round->plan;
    int64_t first = strip->diagonal > 0 ? strip->diagonal : 0; /* column of the strip's first row */
    int64_t panel[2] = {row / plan->mr, 0};
    struct gram_tile tile = {.depth = round->depth,
                             .x = plan->x_panels + cpu_cdist_x_panel(plan, block->item, panel[0]),
                             .ldc = strip->ld,
                             .accumulate = !round->first,
                             .power = &block->what->power};

    if (!round->first)
        load_piece(plan, strip);
    for (int64_t c = first / plan->nr * plan->nr; c < strip->cols; c += plan->nr) {
        panel[1] = (block->col + c) / plan->nr;
        tile.y = plan->y_panels + cpu_cdist_y_panel(plan, block->item, panel[1]);
        tile.c = strip->buffer + c * plan->element;
        if (plan->expand)
            cpu_cdist_square(round, block->item, panel, &tile);
        else
            block->what->tile(&tile);
    }
    if (round->last)
        finish(block, strip, row);
    store_piece(plan, strip);
}

/* The strips of some rows of a block, which begin at row of the round. */
static void strips(const struct block *block, const struct cdist_piece *rows, int64_t row)
{
    const struct cdist_plan *plan = block->round->plan;
    struct cdist_piece strip = *rows;

    for (int64_t r = 0; r < rows->rows && strip.diagonal < strip.cols; r += plan->mr) {
        strip.rows = gram_least(plan->mr, rows->rows - r);
        one_strip(block, &strip, row + r);
        strip.out += plan->mr * strip.row_stride * plan->element;
        strip.buffer += plan->mr * strip.ld * plan->element;
        strip.diagonal += plan->mr;
    }
}

static void block_task(void *arg, int64_t index, int thread)
{
    const struct cdist_round *round = arg;
    const struct cdist_plan *plan = round->plan;
    const struct gram_view *out = &plan->op.out;
    int64_t place = index % round->item_blocks, start = gram_trace_begin(plan->g);
    struct block block = {.round = round, .item = index / round->item_blocks};
    struct cdist_piece piece;
    int64_t row_end, j;
    char *origin;

    block.row = place / round->blocks_across * plan->block_rows;
    block.col = place % round->blocks_across * plan->block_cols;
    block.what = item_of(plan, block.item);
    row_end = gram_least(block.row + plan->block_rows, round->rows), j = round->j + block.col;
    origin = gram_view_item(out, &plan->op.batch, round->item + block.item);
    piece.row_stride = out->row_stride, piece.col_stride = out->col_stride;
    piece.cols = gram_least(plan->block_cols, round->cols - block.col);
    piece.buffer = plan->buffers + (size_t)thread * plan->buffer_bytes;
    piece.ld = gram_round_up(piece.cols, plan->nr);
    for (int64_t row = block.row; row < row_end; row += plan->buffer_rows) {
        int64_t i = round->i + row;
        piece.rows = gram_least(plan->buffer_rows, row_end - row);
        piece.out = origin + (i * out->row_stride + j * out->col_stride) * plan->element;
        piece.diagonal = plan->op.symmetric ? i - j : INT64_MIN / 2;
        strips(&block, &piece, row);
        if (plan->op.symmetric && round->last) {
            piece.out = origin + (j * out->row_stride + i * out->col_stride) * plan->element;
            mirror_piece(plan, &piece);
        }
    }
    gram_trace_end(plan->g, "cdist block", thread, start);
}

/* ---- Rounds --------------------------------------------------------------------------------- */

static void run_round(struct cdist_round *round)
{
    const struct cdist_plan *plan = round->plan;
    int64_t tasks;

    round->x_panels = gram_ceil_div(round->rows, plan->mr);
    round->y_panels = gram_ceil_div(round->cols, plan->nr);
    tasks = gram_ceil_div(round->x_panels, PACK_PANELS) +
            (round->pack_y ? gram_ceil_div(round->y_panels, PACK_PANELS) : 0);
    cpu_cdist_loop(round, round->items * tasks, pack_task);
    if (plan->expand)
        cpu_cdist_centre(round);
    round->blocks_across = gram_ceil_div(round->cols, plan->block_cols);
    round->item_blocks = gram_ceil_div(round->rows, plan->block_rows) * round->blocks_across;
    cpu_cdist_loop(round, round->items * round->item_blocks, block_task);
}

/* All k of some rows and columns of out. */
static void run_depth(struct cdist_round *round)
{
    const struct cdist_plan *plan = round->plan;
    int64_t all = plan->op.x.cols;

    round->k = 0;
    do {
        round->depth = gram_least(plan->depth, all - round->k);
        round->first = round->k == 0;
        round->last = round->k + round->depth == all;
        run_round(round);
        round->k += round->depth;
    } while (round->k < all);
}

static void run_items(struct cdist_round *round)
{
    const struct cdist_plan *plan = round->plan;
    int64_t m = plan->op.out.rows, n = plan->op.out.cols;

    for (round->j = 0; round->j < n; round->j += plan->y_rows) {
        round->cols = gram_least(plan->y_rows, n - round->j);
        round->pack_y = true;
        for (round->i = 0; round->i < m; round->i += plan->x_rows) {
            round->rows = gram_least(plan->x_rows, m - round->i);
            if (plan->op.symmetric && round->i >= round->j + round->cols)
                break;
            run_depth(round);
            round->pack_y = plan->depth < plan->op.x.cols;
        }
    }
}

void cpu_cdist_run(struct cdist_plan *plan)
{
    struct cdist_round round = {.plan = plan};
    int64_t count = plan->op.batch.count;

    for (; round.item < count && !plan->empty; round.item += plan->items) {
        round.items = gram_least(plan->items, count - round.item);
        for (int64_t i = 0; i < (plan->shared_item ? round.item == 0 : round.items); i++)
            cpu_cdist_item(plan, round.item + i, item_of(plan, i));
        run_items(&round);
    }
}

/* ---- The call ------------------------------------------------------------------------------- */

gram_status cpu_cdist(gram_context *g, const struct gram_cdist_op *op)
{
    struct gram_layout layout = {0};
    struct cdist_plan plan;

    cpu_cdist_plan(g, op, &plan);
    cpu_cdist_take(&plan, &layout);
    TRY(gram_layout_open(g, &layout));
    cpu_cdist_run(&plan);
    return GRAM_OK;
}

gram_status cpu_cdist_in(gram_context *g, const struct gram_cdist_op *op, void *memory,
                         size_t bytes)
{
    struct gram_scratch_before before;
    gram_status status;

    gram_scratch_lend(g, memory, bytes, &before);
    status = cpu_cdist(g, op);
    gram_scratch_return(g, &before);
    return status;
}

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
#include "pairwise.h"
#include <math.h>
#include <string.h>

enum {
    SERIAL_WORK = 270000, /* steps: 64^3 take 10 us (p = 2, f32) to 60, a thread as long to wake */
    PACK_PANELS = 8,      /* of a packing task */
    CENTRE_PANELS = 8,    /* of y that the centre is the mean of: any centre is right */
    SHIFT_PANELS = 16     /* of a shifting task */
};

/* Hands count tasks of a round to the threads, or does them itself if they are small. */
static void loop(const struct cdist_round *round, int64_t count, gram_loop_body *body)
{
    const struct cdist_plan *plan = round->plan;
    double work = (double)round->items * (double)round->rows * (double)round->cols *
                  (double)(round->depth + 1);

    if (plan->threads > 1 && work > SERIAL_WORK)
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

/* The |x| or |y| of the rows of a round, likewise, in the dtype of the arithmetic. */
static char *lengths_of(const struct cdist_plan *plan, char *lengths, int64_t rows, int64_t item)
{
    return lengths ? lengths + item * rows * plan->element : NULL;
}

/* ---- Loops over one dtype ------------------------------------------------------------------- */

/* Rows from data on; strides in elements of dtype. */
struct rows {
    const char *data;
    gram_dtype dtype;
    int64_t row_stride, col_stride;
};

static int64_t first_column(const struct cdist_piece *piece, int64_t row)
{
    int64_t first = row + piece->diagonal;

    return first < 0 ? 0 : first > piece->cols ? piece->cols : first;
}

#define TEMPLATE "pairwise/cdist_loops.h"
#define HALVES   1
#define INTEGERS 0
#include "cpu/each_dtype.h"

/* ---- Packing: one pass over x and y, against n or m steps for each of their elements --------- */

/* A panel holds `width` rows of a matrix with the columns outermost: panel[k*width + r] = row r,
 * column k, zeros where there is no row.  count <= width rows of `depth` columns are packed; f16
 * and bf16 become f32. */
static void pack(const struct rows *from, int64_t count, int64_t depth, int64_t width, void *panel)
{
    if (from->dtype == GRAM_F32)
        pack_f32(from, count, depth, width, panel);
    else if (from->dtype == GRAM_F64)
        pack_f64(from, count, depth, width, panel);
    else if (from->dtype == GRAM_F16)
        pack_f16(from, count, depth, width, panel);
    else
        pack_bf16(from, count, depth, width, panel);
}

/* inverse[r] = 1 / |row r|, or 0 for a row of zeros, in double. */
static void find_norms(const struct rows *from, int64_t count, int64_t cols, double *inverse)
{
    if (from->dtype == GRAM_F32)
        norms_f32(from, count, cols, inverse);
    else if (from->dtype == GRAM_F64)
        norms_f64(from, count, cols, inverse);
    else if (from->dtype == GRAM_F16)
        norms_f16(from, count, cols, inverse);
    else
        norms_bf16(from, count, cols, inverse);
}

/* norms[r] = |row r| in the dtype of the arithmetic, 0 for r from count to width. */
static void find_lengths(const struct rows *from, int64_t count, int64_t width, int64_t cols,
                         void *norms)
{
    if (from->dtype == GRAM_F32)
        lengths_f32(from, count, width, cols, norms);
    else if (from->dtype == GRAM_F64)
        lengths_f64(from, count, width, cols, norms);
    else if (from->dtype == GRAM_F16)
        lengths_f16(from, count, width, cols, norms);
    else
        lengths_bf16(from, count, width, cols, norms);
}

/* The part of an item that begins at a row and a column. */
static struct rows rows_at(const struct gram_view *v, const struct gram_batch *batch, int64_t item,
                           int64_t row, int64_t col)
{
    struct rows at = {gram_view_item(v, batch, item), v->dtype, v->row_stride, v->col_stride};

    if (at.data)
        at.data += (row * v->row_stride + col * v->col_stride) * (int64_t)gram_dtype_size(v->dtype);
    return at;
}

/* Rows of packed bits as words of 32 bits, the first byte of a word in its lowest bits; bits behind
 * the last one of a row become zeros. */
static void pack_bits(const struct rows *from, int64_t bits, const struct cpu_metric_rows *to)
{
    const int64_t bytes = gram_ceil_div(bits, 8);
    const unsigned last = 0xffu << (8 * bytes - bits) & 0xffu;
    uint32_t *panel = to->panel;

    memset(panel, 0, (size_t)(to->width * to->depth) * sizeof *panel);
    for (int64_t r = 0; r < to->count; r++) {
        const unsigned char *row = (const unsigned char *)from->data + r * from->row_stride;
        for (int64_t b = 0; b < bytes; b++) {
            const uint32_t byte = row[b * from->col_stride] & (b == bytes - 1 ? last : 0xffu);
            panel[b / 4 * to->width + r] |= byte << (8 * (b % 4));
        }
    }
}

void cpu_cdist_pack(const struct gram_view *v, int64_t first, int64_t count, int64_t width,
                    void *panel)
{
    const struct rows from = rows_at(v, &(struct gram_batch){.count = 1}, 0, first, 0);

    pack(&from, count, v->cols, width, panel);
}

/* One side's panels from `panel` on: where they come from and where they go. */
struct side {
    const struct gram_view *view;
    int64_t first, rows, width; /* of the round */
    char *to;
    double *norms; /* NULL: the function needs none */
    char *lengths; /* of the rows, for an expression; or NULL */
};

/* The metric sees whole rows. */
static void change_panel(const struct cdist_round *round, const struct side *side, int64_t item,
                         int64_t count)
{
    const struct cdist_plan *plan = round->plan;
    const struct cpu_metric_rows rows = {side->to, count, round->depth, side->width};

    cpu_metric_change(&plan->op, &item_of(plan, item)->metric, plan->dtype, &rows);
}

static void pack_panel(const struct cdist_round *round, const struct side *side, int64_t item,
                       int64_t panel)
{
    const struct cdist_plan *plan = round->plan;
    int64_t row = panel * side->width, count = gram_least(side->width, side->rows - row);
    int64_t depth = gram_least(round->depth, side->view->cols - round->k);
    struct rows from =
        rows_at(side->view, &plan->op.batch, round->item + item, side->first + row, round->k);

    if (plan->op.metric.bits) {
        const struct cpu_metric_rows to = {side->to, count, round->depth, side->width};
        pack_bits(&from, plan->op.metric.bits, &to);
        return;
    }
    pack(&from, count, depth, side->width, side->to);
    if (plan->metric)
        change_panel(round, side, item, count);
    if (side->norms && round->first) {
        from = rows_at(side->view, &plan->op.batch, round->item + item, side->first + row, 0);
        find_norms(&from, count, side->view->cols, side->norms + row);
    }
    if (side->lengths && round->first) {
        from = rows_at(side->view, &plan->op.batch, round->item + item, side->first + row, 0);
        find_lengths(&from, count, side->width, side->view->cols,
                     side->lengths + row * plan->element);
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
                                 norms_of(plan->x_norms, plan->x_rows, item),
                                 lengths_of(plan, plan->x_lengths, plan->x_rows, item)};
        else
            side = (struct side){&plan->op.y,
                                 round->j,
                                 round->cols,
                                 plan->nr,
                                 plan->y_panels + cpu_cdist_y_panel(plan, item, panel),
                                 norms_of(plan->y_norms, plan->y_rows, item),
                                 lengths_of(plan, plan->y_lengths, plan->y_rows, item)};
        pack_panel(round, &side, item, panel);
    }
    gram_trace_end(plan->g, "cdist pack", thread, start);
}

/* ---- p = 2 by norms and products ------------------------------------------------------------- */

/*
 * Where the plan expands |x - y|^2, tiles read panels that are shifted by one vector, the centre,
 * and the |.|^2 of their rows; cdist_square_tile.h says why.
 */

static char *centre_of(const struct cdist_plan *plan, int64_t item)
{
    return plan->centre + item * plan->depth * plan->element;
}

/* Of `rows` rows the panel counts those that exist. */
static double column_sum(const struct cdist_plan *plan, const char *panel, int64_t k, int64_t rows)
{
    double sum = 0;

    for (int64_t r = 0; r < rows; r++)
        sum += plan->dtype == GRAM_F32 ? (double)((const float *)panel)[k * plan->nr + r]
                                       : ((const double *)panel)[k * plan->nr + r];
    return sum;
}

/* The mean of some rows of y; 0 where it is no number. */
static void centre_task(void *arg, int64_t item, int thread)
{
    const struct cdist_round *round = arg;
    const struct cdist_plan *plan = round->plan;
    int64_t step = gram_ceil_div(round->y_panels, CENTRE_PANELS);

    (void)thread;
    for (int64_t k = 0; k < round->depth; k++) {
        double sum = 0, mean;
        int64_t rows = 0;
        for (int64_t q = 0; q < round->y_panels; q += step) {
            int64_t count = gram_least(plan->nr, round->cols - q * plan->nr);
            sum += column_sum(plan, plan->y_panels + cpu_cdist_y_panel(plan, item, q), k, count);
            rows += count;
        }
        mean = isfinite(sum) ? sum / (double)rows : 0;
        if (plan->dtype == GRAM_F32)
            ((float *)centre_of(plan, item))[k] = (float)mean;
        else
            ((double *)centre_of(plan, item))[k] = mean;
    }
}

static char *x_squares(const struct cdist_plan *plan, int64_t item, int64_t panel)
{
    return plan->x_norms + (item * plan->x_rows + panel * plan->mr) * plan->element;
}

static char *y_squares(const struct cdist_plan *plan, int64_t item, int64_t panel)
{
    return plan->y_norms + (item * plan->y_rows + panel * plan->nr) * plan->element;
}

static void shift_task(void *arg, int64_t index, int thread)
{
    const struct cdist_round *round = arg;
    const struct cdist_plan *plan = round->plan;
    int64_t panels = round->x_panels + round->y_panels, tasks = gram_ceil_div(panels, SHIFT_PANELS);
    int64_t item = index / tasks, first = index % tasks * SHIFT_PANELS;
    struct gram_centre t = {.depth = round->depth, .centre = centre_of(plan, item)};

    (void)thread;
    for (int64_t q = first; q < gram_least(first + SHIFT_PANELS, panels); q++) {
        bool of_x = q < round->x_panels;
        int64_t panel = of_x ? q : q - round->x_panels;
        size_t at =
            of_x ? cpu_cdist_x_panel(plan, item, panel) : cpu_cdist_y_panel(plan, item, panel);
        t.width = of_x ? plan->mr : plan->nr;
        t.count = gram_least(t.width, (of_x ? round->rows : round->cols) - panel * t.width);
        t.panel = (of_x ? plan->x_panels : plan->y_panels) + at;
        t.centred = (of_x ? plan->x_centred : plan->y_centred) + at;
        t.norms = of_x ? x_squares(plan, item, panel) : y_squares(plan, item, panel);
        plan->kernels->cdist[plan->dtype].centre(&t);
    }
}

/* The shifted panels and norms of a packed round. */
static void centre_round(struct cdist_round *round)
{
    int64_t panels = round->x_panels + round->y_panels;

    loop(round, round->items, centre_task);
    loop(round, round->items * gram_ceil_div(panels, SHIFT_PANELS), shift_task);
}

/* The tile of x and y panels of a block, set in direct. */
static void square_tile(const struct cdist_round *round, int64_t item, const int64_t panel[2],
                        const struct gram_tile *direct)
{
    const struct cdist_plan *plan = round->plan;
    const struct gram_square_tile t = {
        .direct = *direct,
        .x = plan->x_centred + cpu_cdist_x_panel(plan, item, panel[0]),
        .y = plan->y_centred + cpu_cdist_y_panel(plan, item, panel[1]),
        .x_norms = x_squares(plan, item, panel[0]),
        .y_norms = y_squares(plan, item, panel[1]),
    };

    plan->kernels->cdist[plan->dtype].square(&t);
}

/* ---- Pieces of out -------------------------------------------------------------------------- */

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

/* An expression of |x| and |y| too: row by row, since |x| is one number in a row; or of two more
 * sums, which lie behind s. */
static void map_rows(const struct block *block, const struct cdist_piece *strip, int64_t row)
{
    const struct cdist_plan *plan = block->round->plan;
    const char *x = lengths_of(plan, plan->x_lengths, plan->x_rows, block->item),
               *y = lengths_of(plan, plan->y_lengths, plan->y_rows, block->item);

    for (int64_t r = 0; r < strip->rows; r++) {
        char *s = strip->buffer + r * strip->ld * plan->element;
        const struct gram_map_norms norms = {
            .x = x ? x + (row + r) * plan->element : NULL,
            .y = y ? y + block->col * plan->element : NULL,
            .sum = plan->sums ? s + plan->second_bytes : NULL,
            .squares = plan->sums ? s + 2 * plan->second_bytes : NULL,
        };
        plan->kernels->map[plan->dtype](strip->cols, s, &block->what->map, &norms);
    }
}

static void finish(const struct block *block, const struct cdist_piece *strip, int64_t row)
{
    const struct cdist_plan *plan = block->round->plan;

    if (plan->op.function == GRAM_COSINE)
        scale_by_norms(block, strip, row);
    if (plan->metric)
        plan->kernels->cdist[plan->dtype].finish(strip->rows * strip->ld, strip->buffer,
                                                 strip->buffer + plan->second_bytes,
                                                 &block->what->metric.finish);
    if (plan->norms || plan->sums)
        map_rows(block, strip, row);
    else if (block->what->mapped)
        plan->kernels->map[plan->dtype](strip->rows * strip->ld, strip->buffer, &block->what->map,
                                        NULL);
    if (block->what->regularization != 0)
        regularize(block, strip, row);
}

/* The elements of a strip that lie above the diagonal, to their places in a vector. */
static void store_condensed(const struct block *block, const struct cdist_piece *strip, int64_t row)
{
    const struct cdist_round *round = block->round;
    const struct cdist_plan *plan = round->plan;
    const struct gram_view *out = &plan->op.out;
    char *origin = gram_view_item(out, &plan->op.batch, round->item + block->item);
    const int64_t j = round->j + block->col, size = plan->element;

    for (int64_t r = 0; r < strip->rows; r++) {
        const int64_t i = round->i + row + r, first = gram_most(0, i + 1 - j);
        const char *from = strip->buffer + (r * strip->ld + first) * size;
        char *to = origin + gram_condensed_at(out->rows, i, j + first) * out->col_stride * size;

        if (first >= strip->cols)
            continue;
        if (out->col_stride == 1)
            memcpy(to, from, (size_t)((strip->cols - first) * size));
        else
            for (int64_t c = first; c < strip->cols; c++, from += size)
                memcpy(to + (c - first) * out->col_stride * size, from, (size_t)size);
    }
}

/* The sums of |x - y| and (x - y)^2 for an expression, of all columns. */
static void sum_tiles(const struct cdist_plan *plan, const struct gram_tile *of_s)
{
    static const enum gram_step steps[] = {GRAM_STEP_ONE, GRAM_STEP_TWO};
    struct gram_tile tile = *of_s;

    for (int i = 0; i < 2; i++) {
        tile.c = (char *)tile.c + plan->second_bytes;
        plan->kernels->cdist[plan->dtype].tile[steps[i]](&tile);
    }
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
                             .power = &block->what->power,
                             .weights = block->what->metric.weights};

    if (!round->first)
        load_piece(plan, strip);
    for (int64_t c = first / plan->nr * plan->nr; c < strip->cols; c += plan->nr) {
        panel[1] = (block->col + c) / plan->nr;
        tile.y = plan->y_panels + cpu_cdist_y_panel(plan, block->item, panel[1]);
        tile.c = strip->buffer + c * plan->element;
        tile.second = (char *)tile.c + plan->second_bytes;
        if (plan->expand)
            square_tile(round, block->item, panel, &tile);
        else
            block->what->tile(&tile);
        if (plan->sums)
            sum_tiles(plan, &tile);
    }
    if (round->last)
        finish(block, strip, row);
    if (plan->op.condensed)
        store_condensed(block, strip, row);
    else
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
        piece.diagonal = plan->op.symmetric || plan->op.condensed ? i - j : INT64_MIN / 2;
        strips(&block, &piece, row);
        if (plan->op.symmetric && round->last && !plan->op.condensed) {
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
    loop(round, round->items * tasks, pack_task);
    if (plan->expand)
        centre_round(round);
    round->blocks_across = gram_ceil_div(round->cols, plan->block_cols);
    round->item_blocks = gram_ceil_div(round->rows, plan->block_rows) * round->blocks_across;
    loop(round, round->items * round->item_blocks, block_task);
}

/* All k of some rows and columns of out. */
static void run_depth(struct cdist_round *round)
{
    const struct cdist_plan *plan = round->plan;
    int64_t all = plan->columns;

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
            round->pack_y = plan->depth < plan->columns;
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

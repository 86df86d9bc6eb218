/*
 * cpu_kernel_matmul.c - products with kernel matrices on the CPU that are never stored
 *
 * Points are cut into blocks.  A task is a pair of blocks, done by one thread without waiting for
 * others: it packs the points and their rows of v, and goes over its part of K in strips of rows.
 * Where v has few columns a strip is computed in pieces that stay in L1: tiles of sums
 * (cdist_tile.h), the function (covariance_tile.h), and the products (kernel_matmul_tile.h).  For
 * many columns the rows of a group stay in L2, and BLAS multiplies them.
 *
 * Where K is symmetric each pair of blocks is one task, and K's transpose is multiplied too.  Of
 * the blocks on the diagonal GROUP rows at a time begin with a square that is multiplied once.
 *
 * The sums of a task are of the dtype; they are added to sums of all tasks in double.  Each block
 * of these has a turn, the number of tasks that have added to it, and a task waits for its own: so
 * the order of additions depends on the sizes alone.  Tasks are handed out in the order of their
 * turns; a task that comes first never waits for another one, and the others rarely do, since those
 * that meet in a block are far apart.
 *
 * What is left to cpu_kernel_matmul_blocks.c: kernels that need norms of rows, and points of so
 * many coordinates that panels of a block would not stay in the cache.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_kernel_matmul.h"
#include "core/blas.h"
#include "cpu_cdist.h"
#include "pairwise.h"
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum {
    STRIP = 24,        /* rows that are computed at a time: whole tiles of every instruction set */
    PIECE_BYTES = 768, /* of a row of a piece: with a strip of rows 18 KiB of L1 */
    GROUP = 96,        /* rows for BLAS; whole strips, and whole panels of columns */
    MOST_EDGE = 1536,  /* rows and columns of a block: 16 groups */
    PANEL_BYTES = 512 << 10, /* of a block's points */
    LEAST_EDGE = 384, /* of a block whose points would be more: packing them costs 10 % then */
    BLOCKS = 16,      /* of points that fill so many blocks only if these are smaller, */
    FEW_BLOCKS = 8,   /* and so many if they are smaller than FEW_EDGE */
    FEW_EDGE = 288,
    BATCH = 8,        /* items from which each one is one task, if it can be */
    FEW_COLUMNS = 16, /* of v that are multiplied without BLAS */
    FINISHED = 256    /* rows of out of a task */
};

/* The points on a side of a block, and the rows of v or out that belong to them. */
struct fused_side {
    struct gram_view points;
    int64_t edge, blocks, offset;
    int64_t width; /* of a panel */
};

struct fused_job {
    gram_context *g;
    const struct gram_kernel_matmul_op *op;
    struct cdist_plan plan; /* of the whole kernel matrix: what items are made from */
    const struct gram_product_kernels *products;
    struct fused_side rows, columns; /* of blocks of the item */
    struct gram_view v, out;         /* of the item */
    /* Which sums are wanted: for the points of rows and for those of columns; both where K is
     * symmetric. */
    bool to_rows, to_columns, symmetric, blas;
    bool alone;                    /* every item is one task */
    int64_t depth, values, padded; /* coordinates; columns of v, and with zeros behind them */
    int64_t first_task, tasks;     /* of an item: all, or those of a part */
    /* Scratch: what the hyperparameters of an item come to, sums in double and their turns, and a
     * share of each thread. */
    char *item, *shares;
    double *sums;
    _Atomic int64_t *turns;
    size_t share_bytes;
};

/* A thread's scratch. */
struct fused_share {
    char *row_points, *column_points; /* panels */
    char *row_v, *column_v;           /* for sums of columns, and of rows */
    char *piece;                      /* of K */
    char *strip_sums;                 /* of a strip's rows: vectors; or BLAS's product of a group */
    char *column_sums;                /* [column of v][point] */
    double *row_sums;                 /* [point][column of v] */
    /* Where items are side by side. */
    char *item;
    double *sums;
};

/* A task: rows [i, i + rows) and columns [j, j + cols) of K, and the turns of its sums. */
struct fused_task {
    const struct fused_job *job;
    const struct cdist_item *item;
    struct fused_share at;
    int64_t row_block, column_block, i, rows, j, cols;
    int64_t row_turn, column_turn;
    bool diagonal;
};

/* ---- Choices -------------------------------------------------------------------------------- */

/* The sizes of blocks depend on those of the problem alone, as the order of the sums does. */
static int64_t edge_of(const struct fused_job *job, int64_t points)
{
    const int64_t element = job->plan.element, count = job->op->kernel.batch.count;
    const int64_t row_bytes = gram_least(gram_most(1, job->depth), PANEL_BYTES) * element,
                  v_bytes = job->values * element;
    const int64_t most =
        gram_most(LEAST_EDGE, gram_least(MOST_EDGE, PANEL_BYTES / gram_most(row_bytes, v_bytes)) /
                                  GROUP * GROUP);
    int64_t edge = gram_ceil_div(points, BLOCKS);

    if (count >= BATCH && points <= most)
        edge = points;
    edge = gram_most(edge, gram_least(FEW_EDGE, gram_ceil_div(points, FEW_BLOCKS)));
    return gram_most(GROUP, gram_least(most, gram_round_up(edge, GROUP)));
}

static void choose_sides(struct fused_job *job)
{
    const struct gram_cdist_op *op = &job->op->kernel;
    const struct gram_cdist_kernels *tiles = &job->plan.kernels->cdist[job->plan.dtype];
    const int64_t m = op->x.rows, n = op->y.rows, mr = tiles->mr, nr = tiles->nr;
    const bool by_columns = (double)gram_round_up(n, mr) * (double)gram_round_up(m, nr) <=
                            (double)gram_round_up(m, mr) * (double)gram_round_up(n, nr);
    struct fused_side x = {.points = op->x, .edge = edge_of(job, m), .offset = op->row_offset};
    struct fused_side y = {.points = op->y, .edge = edge_of(job, n), .offset = op->column_offset};

    job->symmetric = gram_cdist_mirrors(op);
    x.blocks = gram_ceil_div(m, x.edge), y.blocks = gram_ceil_div(n, y.edge);
    job->to_columns = job->symmetric || by_columns;
    job->to_rows = job->symmetric || !by_columns;
    job->rows = job->to_rows ? x : y;
    job->columns = job->to_rows ? y : x;
    job->rows.width = mr, job->columns.width = nr;
    job->tasks = job->symmetric ? x.blocks * (x.blocks + 1) / 2 : x.blocks * y.blocks;
}

/* The task with which a part of a symmetric matrix begins.  Those of the diagonal, which come
 * first, have half of the pairs of others. */
static int64_t part_begin(const struct fused_job *job, int64_t tasks, int part)
{
    const int64_t diagonal = job->rows.blocks, halves = 2 * tasks - diagonal;
    const int64_t at = (int64_t)((double)halves * (double)part / (double)job->op->parts + 0.5);

    return at <= diagonal ? at : gram_least(tasks, diagonal + (at - diagonal + 1) / 2);
}

static void choose_part(struct fused_job *job)
{
    const struct gram_kernel_matmul_op *op = job->op;
    const int64_t tasks = job->tasks;

    if (op->parts <= 1)
        return;
    job->first_task = part_begin(job, tasks, op->part);
    job->tasks = part_begin(job, tasks, op->part + 1) - job->first_task;
}

static void describe(gram_context *g, const struct gram_kernel_matmul_op *op, struct fused_job *job)
{
    struct gram_cdist_op kernel = op->kernel;

    kernel.out = gram_view_dense(NULL, op->out.dtype, kernel.x.rows, kernel.y.rows);
    *job = (struct fused_job){
        .g = g, .op = op, .depth = kernel.x.cols, .values = op->v.cols, .v = op->v, .out = op->out};
    cpu_cdist_plan(g, &kernel, &job->plan);
    job->plan.dtype = op->out.dtype; /* of a plan without pairs too */
    job->plan.element = (int64_t)gram_dtype_size(op->out.dtype);
    job->products = job->plan.kernels->product[op->out.dtype];
    job->padded = gram_product_padded(job->products, job->values);
    job->blas = job->values > FEW_COLUMNS;
    choose_sides(job);
    choose_part(job);
    job->alone = op->kernel.batch.count > 1 && job->tasks <= 1;
}

/* True if the work is done here. */
static bool fits(const struct fused_job *job)
{
    return job->op->kernel.function != GRAM_COSINE && !job->plan.norms && !job->plan.sums &&
           !job->plan.expand && !job->plan.metric &&
           job->depth <= 2 * PANEL_BYTES / (job->plan.element * LEAST_EDGE);
}

/* ---- Scratch -------------------------------------------------------------------------------- */

static size_t sum_bytes(const struct fused_job *job)
{
    return (size_t)job->out.rows * (size_t)job->values * sizeof(double);
}

static void take_share(const struct fused_job *job, struct fused_share *share,
                       struct gram_layout *layout)
{
    const size_t element = (size_t)job->plan.element, values = (size_t)job->padded;
    const size_t rows = (size_t)job->rows.edge, columns = (size_t)job->columns.edge;
    const size_t point = (size_t)job->depth * element;
    const size_t vectors = STRIP * values * (size_t)job->products->vector_bytes;

    gram_take(layout, &share->row_points, rows * point);
    gram_take(layout, &share->column_points, columns * point);
    if (job->to_columns) {
        gram_take(layout, &share->row_v, rows * values * element);
        gram_take(layout, &share->column_sums, columns * values * element);
    }
    if (job->to_rows) {
        gram_take(layout, &share->column_v, columns * values * element);
        gram_take(layout, &share->strip_sums, job->blas ? GROUP * values * element : vectors);
        gram_take(layout, &share->row_sums, rows * (size_t)job->values * sizeof(double));
    }
    gram_take(layout, &share->piece,
              job->blas ? GROUP * columns * element : (size_t)STRIP * PIECE_BYTES);
    if (job->alone) {
        gram_take(layout, &share->item, job->plan.item_bytes);
        gram_take(layout, &share->sums, sum_bytes(job));
    }
}

static gram_status open_job(struct fused_job *job)
{
    struct gram_layout layout = {0}, one = {0};
    struct fused_share share;

    take_share(job, &share, &one);
    job->share_bytes = gram_layout_bytes(&one);
    gram_take(&layout, &job->item, job->plan.item_bytes);
    gram_take(&layout, &job->sums, job->alone ? 0 : sum_bytes(job));
    gram_take(&layout, &job->turns,
              (size_t)gram_most(job->rows.blocks, job->columns.blocks) * sizeof *job->turns);
    gram_take_many(&layout, &job->shares, (size_t)job->g->threads, job->share_bytes);
    return gram_layout_open(job->g, &layout);
}

/* ---- Loops over one dtype ------------------------------------------------------------------- */

/* Some rows of v, and what they are padded to: points of a block, columns. */
struct v_rows {
    struct gram_view v;
    int64_t edge, padded;
};

#define TEMPLATE "pairwise/kernel_matmul_loops.h"
#define HALVES   0
#define INTEGERS 0
#include "cpu/each_dtype.h"

/* Rows [first, first + count) of v, and zeros up to `edge` rows and to whole groups of columns: by
 * columns, or by rows. */
static void pack_v(const struct fused_job *job, int64_t first, int64_t count, int64_t edge,
                   bool by_rows, void *to)
{
    const struct v_rows v = {gram_view_rows(&job->v, first, count), edge, job->padded};

    if (job->v.dtype == GRAM_F32 && by_rows)
        v_by_rows_f32(&v, to);
    else if (job->v.dtype == GRAM_F32)
        v_by_columns_f32(&v, to);
    else if (by_rows)
        v_by_rows_f64(&v, to);
    else
        v_by_columns_f64(&v, to);
}

/* to[r*values + c] += from[c*ld + r], values columns of v. */
static void add_sums(const struct fused_job *job, const void *from, int64_t ld, int64_t rows,
                     double *to)
{
    if (job->plan.dtype == GRAM_F32)
        add_columns_f32(from, ld, rows, job->values, to);
    else
        add_columns_f64(from, ld, rows, job->values, to);
}

/* ---- A piece of K --------------------------------------------------------------------------- */

/* Rows [row, row + rows) of the block and columns [col, col + cols). */
struct piece {
    int64_t row, rows, col, cols;
    int64_t ld; /* whole panels */
    char *values;
};

static void regularize(const struct fused_task *task, const struct piece *p)
{
    const struct fused_job *job = task->job;
    const double lambda = task->item->regularization;
    int64_t column = job->rows.offset + task->i + p->row - job->columns.offset - task->j - p->col;

    for (int64_t r = 0; r < p->rows; r++, column++) {
        if (column < 0 || column >= p->cols)
            continue;
        if (job->plan.dtype == GRAM_F32)
            ((float *)p->values)[r * p->ld + column] += (float)lambda;
        else
            ((double *)p->values)[r * p->ld + column] += lambda;
    }
}

/* The columns behind the last one become zeros: what v has there are zeros too, but a function may
 * be infinite. */
static void clear_rest(const struct fused_job *job, const struct piece *p)
{
    const int64_t element = job->plan.element;

    for (int64_t r = 0; r < p->rows; r++)
        memset(p->values + (r * p->ld + p->cols) * element, 0,
               (size_t)((p->ld - p->cols) * element));
}

static void compute_piece(const struct fused_task *task, const struct piece *p)
{
    const struct fused_job *job = task->job;
    const int64_t mr = job->rows.width, nr = job->columns.width, element = job->plan.element;
    const int64_t rows = gram_round_up(p->rows, mr), point = job->depth * element;
    struct gram_tile tile = {.depth = job->depth, .ldc = p->ld, .power = &task->item->power};

    for (int64_t c = 0; c < p->cols; c += nr) {
        tile.y = task->at.column_points + (p->col + c) * point;
        for (int64_t r = 0; r < rows; r += mr) {
            tile.x = task->at.row_points + (p->row + r) * point;
            tile.c = p->values + (r * p->ld + c) * element;
            task->item->tile(&tile);
        }
    }
    if (task->item->mapped)
        job->plan.kernels->map[job->plan.dtype](rows * p->ld, p->values, &task->item->map, NULL);
    if (task->item->regularization != 0)
        regularize(task, p);
    if (p->cols < p->ld)
        clear_rest(job, p);
}

/* ---- Few columns of v: pieces in L1 --------------------------------------------------------- */

static void multiply_piece(const struct fused_task *task, const struct piece *p, bool to_columns)
{
    const struct fused_job *job = task->job;
    const int64_t element = job->plan.element;
    struct gram_product_tile t = {
        .rows = p->rows,
        .vectors = p->ld * element / job->products->vector_bytes,
        .k = p->values,
        .ldk = p->ld,
    };

    for (int64_t c = 0; c < job->padded;
         c += INT64_C(1) << gram_product_width(job->products, job->padded - c)) {
        if (job->to_rows) {
            t.v = task->at.column_v + (c * job->columns.edge + p->col) * element;
            t.ldv = job->columns.edge;
            t.sums = task->at.strip_sums + c * STRIP * job->products->vector_bytes;
            job->products->rows[gram_product_width(job->products, job->padded - c)](&t);
        }
        if (to_columns) {
            t.v = task->at.row_v + (p->row * job->padded + c) * element;
            t.ldv = job->padded;
            t.sums = task->at.column_sums + (c * job->columns.edge + p->col) * element;
            t.ld_sums = job->columns.edge;
            job->products->columns[gram_product_width(job->products, job->padded - c)](&t);
        }
    }
}

/* The sums of the strip's rows, of all pieces. */
static void add_strip(const struct fused_task *task, int64_t row, int64_t rows)
{
    const struct fused_job *job = task->job;

    for (int64_t c = 0; c < job->values;
         c += INT64_C(1) << gram_product_width(job->products, job->padded - c)) {
        const int64_t width = INT64_C(1) << gram_product_width(job->products, job->padded - c);
        const char *sums = task->at.strip_sums + c * STRIP * job->products->vector_bytes;
        for (int64_t r = 0; r < rows; r++)
            job->products->lanes(gram_least(width, job->values - c),
                                 sums + r * width * job->products->vector_bytes,
                                 task->at.row_sums + (row + r) * job->values + c);
    }
}

/* Some rows of a block from a column on; columns before `once`, which is `first` or GROUP columns
 * behind it, are multiplied once. */
struct strip {
    int64_t row, rows, first, once;
};

static void run_strip(const struct fused_task *task, const struct strip *s)
{
    const struct fused_job *job = task->job;
    const int64_t element = job->plan.element;
    struct piece p = {.row = s->row, .rows = s->rows, .values = task->at.piece};

    if (job->to_rows)
        memset(task->at.strip_sums, 0, (size_t)(STRIP * job->padded * job->products->vector_bytes));
    for (p.col = s->first; p.col < task->cols; p.col += p.cols) {
        const int64_t most = p.col < s->once ? GROUP : PIECE_BYTES / element;
        p.cols = gram_least(gram_least(most, PIECE_BYTES / element), task->cols - p.col);
        p.ld = gram_round_up(p.cols, job->columns.width);
        compute_piece(task, &p);
        multiply_piece(task, &p, job->to_columns && p.col >= s->once);
    }
    if (job->to_rows)
        add_strip(task, s->row, s->rows);
}

/* ---- Many columns of v: groups of rows in L2, and BLAS -------------------------------------- */

static void multiply_group(const struct fused_task *task, const struct piece *p, int64_t once)
{
    const struct fused_job *job = task->job;
    const int64_t element = job->plan.element, skipped = gram_most(0, once - p->col);

    if (job->to_rows) {
        const struct gram_blas_matrix k = {p->values, p->ld, true};
        const struct gram_blas_matrix v = {task->at.column_v + p->col * element, job->columns.edge,
                                           false};
        gram_blas_gemm(job->plan.dtype, (int64_t[3]){p->rows, job->values, p->cols}, 1, k, v, 0,
                       task->at.strip_sums, GROUP);
        add_sums(job, task->at.strip_sums, GROUP, p->rows,
                 task->at.row_sums + p->row * job->values);
    }
    if (job->to_columns && skipped < p->cols) {
        const struct gram_blas_matrix k = {p->values + skipped * element, p->ld, false};
        const struct gram_blas_matrix v = {task->at.row_v + p->row * element, job->rows.edge,
                                           false};
        gram_blas_gemm(job->plan.dtype, (int64_t[3]){p->cols - skipped, job->values, p->rows}, 1, k,
                       v, 1, task->at.column_sums + (p->col + skipped) * element,
                       job->columns.edge);
    }
}

static void run_group(const struct fused_task *task, const struct strip *s)
{
    const struct fused_job *job = task->job;
    struct piece group = {.row = s->row,
                          .rows = s->rows,
                          .col = s->first,
                          .cols = task->cols - s->first,
                          .values = task->at.piece};

    group.ld = gram_round_up(group.cols, job->columns.width);
    for (int64_t r = 0; r < group.rows; r += STRIP) {
        struct piece strip = group;
        strip.row += r, strip.rows = gram_least(STRIP, group.rows - r);
        strip.values += r * group.ld * job->plan.element;
        compute_piece(task, &strip);
    }
    multiply_group(task, &group, s->once);
}

/* ---- Tasks ---------------------------------------------------------------------------------- */

/*
 * The blocks of a task, and their turns.  Symmetric: round d has the pairs (I, I + d modulo the
 * blocks), each once; of an even number of blocks the last round has half.  A block has two pairs
 * in a round, and the turn of the one that is handed out first comes first.
 */
static void place_task(struct fused_task *task, int64_t index)
{
    const struct fused_job *job = task->job;
    const int64_t blocks = job->rows.blocks;
    int64_t d, first;

    if (!job->symmetric) {
        const int64_t outputs = job->to_rows ? blocks : job->columns.blocks;
        task->row_turn = task->column_turn = index / outputs;
        task->row_block = job->to_rows ? index % outputs : index / outputs;
        task->column_block = job->to_rows ? index / outputs : index % outputs;
        return;
    }
    d = index / blocks;
    first = d == 0 ? 0 : 2 * d - 1;
    task->row_block = index % blocks;
    task->column_block = (task->row_block + d) % blocks;
    task->diagonal = d == 0;
    task->row_turn = task->column_turn = first;
    if (d > 0 && 2 * d < blocks) {
        task->row_turn = first + (task->row_block >= d);
        task->column_turn = first + (task->column_block < d);
    }
}

static void pack_points(const struct fused_job *job, const struct fused_side *side, int64_t first,
                        int64_t count, char *to)
{
    for (int64_t r = 0; r < count; r += side->width)
        cpu_cdist_pack(&side->points, first + r, gram_least(side->width, count - r), side->width,
                       to + r * job->depth * job->plan.element);
}

static void open_task(struct fused_task *task)
{
    const struct fused_job *job = task->job;
    const int64_t element = job->plan.element;

    task->i = task->row_block * job->rows.edge, task->j = task->column_block * job->columns.edge;
    task->rows = gram_least(job->rows.edge, job->rows.points.rows - task->i);
    task->cols = gram_least(job->columns.edge, job->columns.points.rows - task->j);
    pack_points(job, &job->rows, task->i, task->rows, task->at.row_points);
    pack_points(job, &job->columns, task->j, task->cols, task->at.column_points);
    if (job->to_columns) {
        pack_v(job, task->i, task->rows, job->rows.edge, !job->blas, task->at.row_v);
        memset(task->at.column_sums, 0, (size_t)(job->columns.edge * job->padded * element));
    }
    if (job->to_rows) {
        pack_v(job, task->j, task->cols, job->columns.edge, false, task->at.column_v);
        memset(task->at.row_sums, 0, (size_t)(task->rows * job->values) * sizeof(double));
    }
}

/* All products of a task; false if the call is cancelled. */
static bool compute_task(const struct fused_task *task)
{
    const struct fused_job *job = task->job;
    const int64_t step = job->blas ? GROUP : STRIP;

    for (int64_t row = 0; row < task->rows; row += step) {
        struct strip s = {.row = row, .rows = gram_least(step, task->rows - row)};
        if (task->diagonal)
            s.first = row / GROUP * GROUP, s.once = s.first + GROUP;
        if (gram_cancelled(job->g))
            return false;
        if (job->blas)
            run_group(task, &s);
        else
            run_strip(task, &s);
    }
    return true;
}

/* Waits for a block's turn; false if the call is cancelled, whose tasks leave turns out. */
static bool wait_for(const struct fused_job *job, int64_t block, int64_t turn)
{
    while (!job->alone && atomic_load_explicit(&job->turns[block], memory_order_acquire) != turn) {
        if (gram_cancelled(job->g))
            return false;
        sched_yield();
    }
    return true;
}

static void end_turn(const struct fused_job *job, int64_t block, int64_t turn)
{
    if (!job->alone)
        atomic_store_explicit(&job->turns[block], turn + 1, memory_order_release);
}

static void add_rows(const struct fused_task *task)
{
    double *to = task->job->sums + task->i * task->job->values;

    for (int64_t e = 0; e < task->rows * task->job->values; e++)
        to[e] += task->at.row_sums[e];
}

static void add_columns(const struct fused_task *task)
{
    const struct fused_job *job = task->job;

    add_sums(job, task->at.column_sums, job->columns.edge, task->cols,
             job->sums + task->j * job->values);
}

/* A block on the diagonal has one turn for both of its sums. */
static void add_task(const struct fused_task *task)
{
    const struct fused_job *job = task->job;

    if (job->to_rows) {
        if (!wait_for(job, task->row_block, task->row_turn))
            return;
        add_rows(task);
        if (task->diagonal)
            add_columns(task);
        end_turn(job, task->row_block, task->row_turn);
    }
    if (job->to_columns && !task->diagonal) {
        if (!wait_for(job, task->column_block, task->column_turn))
            return;
        add_columns(task);
        end_turn(job, task->column_block, task->column_turn);
    }
}

static struct fused_share share_of(const struct fused_job *job, int thread)
{
    struct gram_layout layout = {0};
    struct fused_share share = {0};

    take_share(job, &share, &layout);
    gram_layout_place(&layout, job->shares + (size_t)thread * job->share_bytes);
    return share;
}

static void pair_task(void *arg, int64_t index, int thread)
{
    const struct fused_job *job = arg;
    const int64_t start = gram_trace_begin(job->g);
    struct fused_task task = {
        .job = job, .item = (const struct cdist_item *)job->item, .at = share_of(job, thread)};

    place_task(&task, job->first_task + index);
    open_task(&task);
    if (compute_task(&task))
        add_task(&task);
    gram_trace_end(job->g, "kernel product", thread, start);
}

/* ---- The call ------------------------------------------------------------------------------- */

/* Points, v and out of an item. */
static void set_item(struct fused_job *job, int64_t item)
{
    const struct gram_batch *batch = &job->op->kernel.batch;
    const struct gram_cdist_op one = gram_cdist_alone(&job->op->kernel, item);
    const bool x_first = job->symmetric || job->to_rows;

    job->rows.points = x_first ? one.x : one.y;
    job->columns.points = x_first ? one.y : one.x;
    job->v = gram_view_alone(&job->op->v, batch, item);
    job->out = gram_view_alone(&job->op->out, batch, item);
}

/* What an item's hyperparameters come to. */
static void set_numbers(const struct fused_job *job, int64_t item)
{
    if (job->tasks > 0)
        cpu_cdist_item(&job->plan, item, (struct cdist_item *)job->item);
}

/* Turns begin behind those of tasks that other parts have. */
static void set_turns(const struct fused_job *job)
{
    struct fused_task task = {.job = job};

    for (int64_t b = 0; b < gram_most(job->rows.blocks, job->columns.blocks); b++)
        atomic_init(&job->turns[b], 0);
    for (int64_t index = 0; index < job->first_task; index++) {
        place_task(&task, index);
        atomic_fetch_add_explicit(&job->turns[task.row_block], 1, memory_order_relaxed);
        if (index >= job->rows.blocks)
            atomic_fetch_add_explicit(&job->turns[task.column_block], 1, memory_order_relaxed);
    }
}

/* Rows of out from FINISHED times index on. */
static void finish_task(void *arg, int64_t index, int thread)
{
    const struct fused_job *job = arg;
    const int64_t first = index * FINISHED;
    const struct gram_view out =
        gram_view_rows(&job->out, first, gram_least(FINISHED, job->out.rows - first));
    const double *sums = job->sums + first * job->values;

    (void)thread;
    if (out.dtype == GRAM_F32)
        finish_f32(&out, job->op->accumulate, sums);
    else
        finish_f64(&out, job->op->accumulate, sums);
}

/* A whole item. */
static void item_task(void *arg, int64_t index, int thread)
{
    const struct fused_job *all = arg;
    const struct fused_share share = share_of(all, thread);
    struct fused_job job = *all;

    if (gram_cancelled(job.g))
        return;
    job.sums = share.sums;
    set_item(&job, index);
    if (!job.plan.shared_item) {
        job.item = share.item;
        set_numbers(&job, index);
    }
    memset(job.sums, 0, sum_bytes(&job));
    if (job.tasks > 0)
        pair_task(&job, 0, thread);
    for (int64_t i = 0; i < gram_ceil_div(job.out.rows, FINISHED) && !gram_cancelled(job.g); i++)
        finish_task(&job, i, thread);
}

/* About how long one thread takes with AVX-512, which cares for p = 1 and 2 in f32. */
static double nanoseconds(const struct fused_job *job, double items)
{
    return 0.03 * items * (double)job->rows.points.rows * (double)job->columns.points.rows *
           (double)(job->depth + job->values + 16);
}

static void loop(struct fused_job *job, double items, int64_t count, gram_loop_body *body)
{
    if (job->blas)
        gram_blas_for(job->g, count, body, job);
    else
        gram_for(job->g, nanoseconds(job, items), count, body, job);
}

static void run_item(struct fused_job *job, int64_t item)
{
    const double elements = (double)job->out.rows * (double)job->values;

    set_item(job, item);
    if (item == 0 || !job->plan.shared_item)
        set_numbers(job, item);
    memset(job->sums, 0, sum_bytes(job));
    set_turns(job);
    loop(job, 1, job->tasks, pair_task);
    if (!gram_cancelled(job->g))
        gram_for(job->g, elements, gram_ceil_div(job->out.rows, FINISHED), finish_task, job);
}

static gram_status run(struct fused_job *job)
{
    const int64_t items = job->op->kernel.batch.count;

    if (job->alone && job->plan.shared_item)
        set_numbers(job, 0);
    if (job->alone)
        loop(job, (double)items, items, item_task);
    for (int64_t item = 0; item < items && !job->alone && !gram_cancelled(job->g); item++)
        run_item(job, item);
    if (gram_cancelled(job->g))
        return gram_fail(job->g, GRAM_CANCELLED, "cancelled");
    return GRAM_OK;
}

/* True if out has no elements. */
static bool is_empty(const struct gram_kernel_matmul_op *op)
{
    return op->kernel.batch.count == 0 || op->out.rows == 0 || op->out.cols == 0;
}

gram_status cpu_kernel_matmul(gram_context *g, const struct gram_kernel_matmul_op *op)
{
    struct fused_job job;

    if (is_empty(op))
        return GRAM_OK;
    describe(g, op, &job);
    if (!fits(&job))
        return cpu_kernel_matmul_blocks(g, op);
    TRY(open_job(&job));
    return run(&job);
}

gram_status cpu_kernel_matmul_in(gram_context *g, const struct gram_kernel_matmul_op *op,
                                 void *memory, size_t bytes)
{
    struct gram_scratch_before before;
    gram_status status;

    gram_scratch_lend(g, memory, bytes, &before);
    status = cpu_kernel_matmul(g, op);
    gram_scratch_return(g, &before);
    return status;
}

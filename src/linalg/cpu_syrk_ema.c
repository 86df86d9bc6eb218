/*
 * cpu_syrk_ema.c - gram_syrk_ema on the CPU: rows of the Gram matrix by BLAS, added to the average
 *
 * A panel of 256 rows of the upper triangle of weight x x^T is made in scratch, its square part by
 * syrk, the rest by gemm, and added to l: l may have any strides and may be packed, and both of its
 * triangles get the same numbers.  BLAS sees the panel column-major, as the lower triangle.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/scratch.h"
#include "core/threads.h"
#include "cpu/cpu.h"
#include "cpu/move.h"
#include <math.h>

enum {
    PANEL = 256,        /* rows: gemm is as fast as with the whole height, see
                           cpu_matrix_power.c */
    SMALL_ORDER = 1024, /* up to here threads take items, above they share one */
    TILE = 32 /* columns of a panel that are added at a time: their mirror image are rows */
};

struct ema_panel {
    const struct gram_view *l;
    char *data; /* of the item of l */
    bool packed;
    int64_t n, row, rows;
    void *product; /* rows by width: columns row to n */
    int64_t width;
    double beta;
};

#define TEMPLATE "linalg/syrk_ema_loops.h"
#define HALVES   0
#define INTEGERS 0
#include "cpu/each_dtype.h"

struct ema_plan {
    gram_context *g;
    const struct gram_syrk_ema_op *op;
    bool pack;
    size_t panel_at, worker_bytes; /* of each worker: a packed x, then a panel */
    int workers;
    char *scratch; /* of all workers */
};

static bool is_empty(const struct gram_syrk_ema_op *op)
{
    return op->batch.count == 0 || (op->x.rows == 0 && !op->has_info);
}

static gram_status make_plan(gram_context *g, const struct gram_syrk_ema_op *op, struct ema_plan *p)
{
    size_t rows = (size_t)op->x.rows, cols = (size_t)op->x.cols;
    size_t size = gram_dtype_size(op->x.dtype);
    size_t panel = (size_t)gram_least(op->x.rows, PANEL) * rows * size;

    *p = (struct ema_plan){.g = g, .op = op, .pack = !gram_blas_direct(&op->x), .workers = 1};
    if (!gram_blas_fits(op->x.rows, op->x.cols, 0))
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "x is %lld by %lld, but BLAS takes sizes of at most %d",
                         (long long)op->x.rows, (long long)op->x.cols, INT32_MAX);
    if (op->x.rows <= SMALL_ORDER)
        p->workers = (int)gram_least(op->batch.count, g->threads);
    if (p->pack && cols > 0 && rows > (SIZE_MAX / 4 / GRAM_MAX_THREADS) / size / cols)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "the size of a copy of x overflows");
    if (p->pack)
        p->panel_at = gram_round64(rows * cols * size);
    p->worker_bytes = p->panel_at + gram_round64(panel);
    return GRAM_OK;
}

static void add(const struct ema_panel *p, int64_t tile)
{
    int64_t first = p->row + tile * TILE, last = gram_least(first + TILE, p->n);

    if (p->l->dtype == GRAM_F32)
        ema_add_f32(p, first, last);
    else
        ema_add_f64(p, first, last);
}

static void add_tile(void *arg, int64_t tile, int thread)
{
    (void)thread;
    add(arg, tile);
}

/* Rows row to row + rows of weight x x^T, from column row on; t is x^T as BLAS sees it. */
static void multiply(const struct ema_panel *p, const struct gram_view *x,
                     struct gram_blas_matrix t, double weight)
{
    int64_t size = (int64_t)gram_dtype_size(x->dtype), rest = p->width - p->rows;
    int64_t step = (t.transposed ? 1 : t.ld) * size; /* from a row of x to the next one */
    struct gram_blas_matrix square = {gram_blas_behind(t.data, p->row * step), t.ld, !t.transposed};
    struct gram_blas_matrix below = {gram_blas_behind(square.data, p->rows * step), t.ld,
                                     !t.transposed};
    char *product = p->product;

    gram_blas_syrk(x->dtype, GRAM_LOWER, p->rows, x->cols, weight, square, 0, product, p->width);
    square.transposed = t.transposed;
    if (rest > 0)
        gram_blas_gemm(x->dtype, (int64_t[]){rest, p->rows, x->cols}, weight, below, square, 0,
                       product + p->rows * size, p->width);
}

static void add_item(const struct ema_plan *plan, int64_t item, struct gram_blas_matrix t,
                     void *scratch)
{
    const struct gram_syrk_ema_op *op = plan->op;
    double beta = gram_hyper_at(&op->beta, &op->batch, item);
    double weight = gram_hyper_at(&op->alpha, &op->batch, item) * (op->sum ? 1 : 1 - beta);
    struct ema_panel p = {
        .l = &op->l,
        .data = gram_view_item(&op->l, &op->batch, item),
        .packed = op->packed,
        .n = op->x.rows,
        .product = scratch,
        .beta = beta,
    };

    for (; p.row < p.n; p.row += PANEL) {
        int64_t tiles = gram_ceil_div(p.n - p.row, TILE);
        p.rows = gram_least(p.n - p.row, PANEL);
        p.width = p.n - p.row;
        multiply(&p, &op->x, t, weight);
        if (plan->workers == 1)
            gram_for(plan->g, (double)p.rows * (double)p.width, tiles, add_tile, &p);
        else
            for (int64_t tile = 0; tile < tiles; tile++)
                add(&p, tile);
    }
}

static void run_item(void *arg, int64_t item, int worker)
{
    const struct ema_plan *plan = arg;
    const struct gram_syrk_ema_op *op = plan->op;
    const char *x = gram_view_item(&op->x, &op->batch, item);
    char *scratch = plan->scratch + (size_t)worker * plan->worker_bytes;
    struct gram_view dense = gram_view_dense(scratch, op->x.dtype, op->x.rows, op->x.cols);
    int64_t start = gram_trace_begin(plan->g);
    bool finite = true;

    if (op->keep || op->has_info)
        finite = op->x.dtype == GRAM_F32 ? ema_finite_f32(&op->x, x) : ema_finite_f64(&op->x, x);
    if (op->has_info)
        *(int32_t *)(void *)gram_view_item(&op->info, &op->batch, item) = !finite;
    if (!finite && op->keep)
        return;
    if (plan->pack) {
        const struct cpu_move m = cpu_move_between(&dense, scratch, &op->x, x);
        cpu_move(op->x.dtype, &m);
    }
    add_item(plan, item,
             plan->pack ? gram_blas_transpose_of(&dense, scratch)
                        : gram_blas_transpose_of(&op->x, x),
             scratch + plan->panel_at);
    gram_trace_end(plan->g, "syrk ema", worker, start);
}

gram_status cpu_syrk_ema(gram_context *g, const struct gram_syrk_ema_op *op)
{
    struct gram_layout layout = {0};
    struct ema_plan plan;

    if (is_empty(op))
        return GRAM_OK;
    TRY(make_plan(g, op, &plan));
    gram_take_many(&layout, &plan.scratch, (size_t)plan.workers, plan.worker_bytes);
    TRY(gram_layout_open(g, &layout));
    cpu_blas_for(g, plan.workers > 1, op->batch.count, run_item, &plan);
    return GRAM_OK;
}

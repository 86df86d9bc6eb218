/*
 * cuda_nearest_points.c - nearest neighbours by the distances of p = 2 on the device, where tensor
 * cores choose the candidates
 *
 * y is seen in parts.  The first is every step-th row, a sample of all of y whatever its order: it
 * is compared with every row of x by panels, which gives each row of x a bound on the distance of
 * its last neighbour.  Each further part has about as many rows as were seen, those half a step
 * away, and then the step is halved.  Of a part cdist_mma.cu lists the columns that may be within
 * the bound of a row, about as many as neighbours are wanted, and nearest_points.cu sums their
 * distances from the differences and improves the neighbours and the bound.  So no distance is
 * stored, and each that counts has the error of differences.  Parts end to grow where their panels
 * would take more than PART_BYTES.
 *
 * Where more columns are listed than there is room for, as among many equal points, the row is
 * compared with all of y in the end.  Nothing waits for the device.
 *
 * Scratch, for at most MOST_ROWS rows of x at a time: their neighbours so far, bounds and
 * candidates, and the panels of cdist_pack.cu for these rows and a part.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_nearest.h"
#include "pairwise.h"
#include <float.h>
#include <math.h>

enum {
    FIRST_COLUMNS = 1024, /* of the first part, or up to twice as many */
    FIRST_ROWS = 2048,    /* of x, where these are compared with the first part */
    MOST_ROWS = 16384,
    SPARE = 1024, /* candidates of a row beside twice as many as are wanted: of near points and
                     bounds that are far from the centre, many are within the margin */
    LEAST_ROWS = 1 << 15,
    PART_BYTES = 1 << 26,
    BLOCKS = 1 << 20
};

static const size_t band_bytes = (size_t)1 << 27;
/* Pairs from which the launches of the parts take less time than panels. */
static const double least_pairs = 0x1p27;

static const struct cuda_kernel nearest_begin = {"nearest_points.cu", "nearest_begin"},
                                nearest_improve = {"nearest_points.cu", "nearest_improve"},
                                nearest_end = {"nearest_points.cu", "nearest_end"};

/* ---- When ------------------------------------------------------------------------------------ */

bool cuda_nearest_filters(const gram_context *g, const struct gram_nearest_op *op)
{
    const struct gram_cdist_op *d = &op->distance;
    const int64_t m = d->x.rows, n = d->y.rows;

    if (d->metric.kind != GRAM_DISTANCE_MINKOWSKI || d->metric.weights.data ||
        d->inner != GRAM_DIFFERENCE || d->p.tensor.data || d->p.value != 2 || d->lengths.data ||
        d->x.dtype == GRAM_F64 || op->has_counts || op->radius < INFINITY || op->count == 0 ||
        d->x.cols == 0 || n < 2 || g->cdist_form == GRAM_FORM_DIRECT)
        return false;
    return g->cdist_form == GRAM_FORM_EXPANSION ||
           (n >= LEAST_ROWS && (double)m * (double)n >= least_pairs);
}

/* ---- Parts ----------------------------------------------------------------------------------- */

struct search {
    const struct gram_nearest_op *op;
    struct gram_cdist_op distance; /* of an item */
    struct nearest_points_params params;
    int64_t first_step, last_step; /* of the first part, and of those that grow no more */
    int64_t rows;                  /* of x at a time */
    void *panel, *squares;         /* distances to the first part; scratch of cdist_mma.cu's work */
    size_t squares_bytes;
};

/* Rows whose panels take at most PART_BYTES. */
static int64_t rows_of_panels(const struct gram_nearest_op *op)
{
    return (int64_t)PART_BYTES / (4 * gram_round_up(op->distance.x.cols, 32));
}

/* Steps, of which the first is the last one times a power of 2.  Where a form is forced, for tests,
 * few rows have parts that grow and parts that do not.  A first step of 1: there are no parts. */
static void choose_steps(const gram_context *g, const struct gram_nearest_op *op, struct search *s)
{
    const bool forced = g->cdist_form == GRAM_FORM_EXPANSION;
    const int64_t n = op->distance.y.rows,
                  least = gram_most(2 * op->count, forced ? 1 : FIRST_COLUMNS);
    int64_t most = rows_of_panels(op);

    most = forced ? gram_ceil_div(n, 3) : gram_most(most, 2 * least);
    s->last_step = gram_ceil_div(n, most);
    if (n / s->last_step < least)
        s->last_step = 1;
    s->first_step = s->last_step;
    while (n / (2 * s->first_step) >= least)
        s->first_step *= 2;
}

/* Rows first, first + step, ... of y as an operation for the rows of x at work. */
static struct gram_cdist_op part_of(const struct search *s, int64_t first, int64_t step)
{
    const struct pair_panel *p = &s->params.nearest.panel;
    struct gram_cdist_op op = s->distance;

    op.symmetric = false;
    op.x = gram_view_rows(&op.x, p->i, p->rows);
    op.y = gram_view_rows(&op.y, first, gram_ceil_div(op.y.rows - first, step));
    op.y.row_stride *= step;
    op.out = gram_view_dense(NULL, GRAM_F32, op.x.rows, op.y.rows);
    return op;
}

/* Lists the candidates of a part for the rows at work. */
static gram_status filter(gram_context *g, const struct search *s, int64_t first, int64_t step)
{
    const struct cuda_device *device = g->device;
    struct gram_cdist_op op = part_of(s, first, step);
    struct cuda_cdist_plan plan = {0};

    op.root = false;
    cuda_cdist_plan(&op, device->processors, &plan);
    return cuda_cdist_filter(g, &plan, &s->params.filter);
}

/* ---- The work -------------------------------------------------------------------------------- */

static gram_status open_scratch(gram_context *g, struct search *s)
{
    struct nearest_params *n = &s->params.nearest;
    struct square_filter *f = &s->params.filter;
    const size_t rows = (size_t)s->rows, count = (size_t)n->count;
    struct gram_layout layout = {0};
    size_t panel = 0;

    n->panel.i = 0, n->panel.rows = s->rows;
    if (s->first_step > 1) {
        const int64_t columns = gram_ceil_div(s->distance.y.rows, s->first_step);
        panel = (size_t)(gram_least(s->rows, FIRST_ROWS) * columns) * sizeof(float);
        TRY(gram_measure(g, &s->squares_bytes, filter(g, s, 0, s->last_step)));
    }
    gram_take_many(&layout, &n->values, rows, count * sizeof(float));
    gram_take_many(&layout, &n->places, rows, count * sizeof(int));
    gram_take_many(&layout, &n->state, rows, sizeof(struct nearest_state));
    gram_take_many(&layout, &f->bound, rows, sizeof(float));
    gram_take_many(&layout, &f->count, rows, sizeof(int));
    gram_take_many(&layout, &f->place, rows, (size_t)f->capacity * sizeof(int));
    gram_take(&layout, &s->panel, panel);
    gram_take(&layout, &s->squares, s->squares_bytes);
    return gram_layout_open(g, &layout);
}

static gram_status launch(gram_context *g, const struct search *s, const struct cuda_kernel *kernel)
{
    const struct nearest_params *n = &s->params.nearest;
    const bool begins = kernel == &nearest_begin;
    const struct cuda_grid grid = {.blocks = begins ? gram_ceil_div(n->panel.rows, NEAREST_THREADS)
                                                    : gram_least(n->panel.rows, BLOCKS),
                                   .threads = NEAREST_THREADS,
                                   .shared = begins ? 0 : cuda_nearest_shared(n, GRAM_F32)};
    struct cuda_variant v;

    cuda_variant(&v, kernel, CUDA_OPTIONS({"STORED", cuda_stored_as(s->distance.x.dtype)}));
    return cuda_launch(g, &v, &grid, (void *[]){(void *)&s->params});
}

/* The neighbours in the first part of some of the rows at work, from `from` on. */
static gram_status take_panel(gram_context *g, const struct search *s, int64_t from)
{
    const struct nearest_params *all = &s->params.nearest;
    const int64_t rows = gram_least(FIRST_ROWS, all->panel.rows - from);
    struct gram_cdist_op op = part_of(s, 0, s->first_step);
    struct nearest_params n = *all;

    op.x = gram_view_rows(&op.x, from, rows);
    op.out = gram_view_dense(s->panel, GRAM_F32, rows, op.y.rows);
    TRY(cuda_cdist_queue(g, &op));
    n.panel.values = s->panel;
    n.panel.i += from, n.panel.rows = rows;
    n.panel.j = 0, n.panel.cols = op.y.rows;
    n.panel.begin = 1, n.panel.end = 0;
    n.step = s->first_step;
    n.values += (size_t)(from * n.count) * sizeof(float);
    n.places += from * n.count;
    n.state += from;
    return cuda_nearest_take(g, &n, GRAM_F32);
}

static gram_status improve(gram_context *g, struct search *s, int64_t first, int64_t step)
{
    struct gram_scratch_before before;
    gram_status status;

    if (gram_cancelled(g))
        return gram_fail(g, GRAM_CANCELLED, "cancelled");
    gram_scratch_lend(g, s->squares, s->squares_bytes, &before);
    status = filter(g, s, first, step);
    gram_scratch_return(g, &before);
    TRY(status);
    s->params.first = first, s->params.step = step;
    return launch(g, s, &nearest_improve);
}

/* All parts, for the rows at work. */
static gram_status search_rows(gram_context *g, struct search *s)
{
    struct pair_panel *panel = &s->params.nearest.panel;

    panel->begin = s->first_step == 1;
    if (s->first_step > 1) {
        for (int64_t from = 0; from < panel->rows; from += FIRST_ROWS)
            TRY(take_panel(g, s, from));
        TRY(launch(g, s, &nearest_begin));
        for (int64_t step = s->first_step; step > s->last_step; step /= 2)
            TRY(improve(g, s, step / 2, step));
        for (int64_t first = 1; first < s->last_step; first++)
            TRY(improve(g, s, first, s->last_step));
    }
    return launch(g, s, &nearest_end);
}

static void describe(const gram_context *g, struct search *s, const struct gram_nearest_op *op)
{
    const int64_t m = op->distance.x.rows;
    struct nearest_points_params *p = &s->params;
    size_t row_bytes;

    s->op = op;
    choose_steps(g, op, s);
    cuda_nearest_describe(op, &p->nearest);
    cuda_set_batch(&op->distance.batch, &p->nearest.panel.ndim, p->nearest.panel.shape);
    p->nearest.panel.items = 1;
    p->filter.capacity = 2 * op->count + SPARE;
    p->filter.margin = cuda_cdist_filter_margin(op->distance.x.cols);
    /* A warp adds depth / 32 squares in a lane, and then five times. */
    p->slack = 1 + FLT_EPSILON * (16 + (float)op->distance.x.cols / 16);
    p->depth = op->distance.x.cols;
    p->rows = op->distance.y.rows;
    row_bytes = (size_t)op->count * (sizeof(float) + sizeof(int)) +
                (size_t)p->filter.capacity * sizeof(int) + sizeof(struct nearest_state);
    s->rows =
        gram_least((int64_t)(band_bytes / row_bytes), gram_most(rows_of_panels(op), FIRST_ROWS));
    s->rows = gram_least(gram_least(m, MOST_ROWS), s->rows);
}

/* Items come one after the other, and so do the rows of x. */
static gram_status search_items(gram_context *g, struct search *s)
{
    const struct gram_nearest_op *op = s->op;
    struct pair_panel *panel = &s->params.nearest.panel;

    for (int64_t item = 0; item < op->distance.batch.count; item++) {
        s->distance = gram_cdist_alone(&op->distance, item);
        s->params.x = cuda_device_view(&s->distance.x);
        s->params.y = cuda_device_view(&s->distance.y);
        panel->first = item;
        for (panel->i = 0; panel->i < op->distance.x.rows; panel->i += s->rows) {
            panel->rows = gram_least(s->rows, op->distance.x.rows - panel->i);
            TRY(search_rows(g, s));
        }
    }
    return GRAM_OK;
}

gram_status cuda_nearest_points(gram_context *g, const struct gram_nearest_op *op)
{
    struct search s = {0};
    gram_status status;
    bool entered;

    describe(g, &s, op);
    s.distance = gram_cdist_alone(&op->distance, 0);
    TRY(open_scratch(g, &s));
    entered = gram_cuda_enter(g->device);
    status = search_items(g, &s);
    gram_cuda_leave(g->device, entered);
    return status;
}

/*
 * cuda_metric.c - metrics on the device: rows that the sums want, then the kernels of cdist
 *
 * Metrics whose terms take x and y as they are go straight to cdist.cu.  For the others, and for
 * all with weights, metric_rows.cu first writes the rows into scratch, once per call; a metric that
 * is a p-norm of such rows then goes every way that a p-norm goes.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda/arena.h"
#include "cuda_cdist.h"
#include "metric_params.h"
#include "pairwise.h"
#include <math.h>

enum {
    THREADS = 256,
    BLOCKS = 16, /* a processor: they wait for memory */
    HAVERSINE_COLUMNS = 3
};

static const struct cuda_kernel metric_rows = {"metric_rows.cu", "metric_rows"};

/* step PAIR_ANY: that of p; divisor 0: the sum of the weights; change ROWS_COPY: rows stay as they
 * are. */
static const struct {
    int change, step, finish, finish_no_root;
    double divisor, most;
} metrics[] = {
  /* clang-format off */
    [GRAM_DISTANCE_MINKOWSKI] = {ROWS_SCALE, PAIR_ANY,
        PAIR_AS_IT_IS, PAIR_AS_IT_IS, 1, INFINITY},
    [GRAM_DISTANCE_SEUCLIDEAN] = {ROWS_VARIANCES, PAIR_ANY,
        PAIR_DIVIDE_ROOT, PAIR_AS_IT_IS, 1, INFINITY},
    [GRAM_DISTANCE_COSINE] = {ROWS_NORMALISE, PAIR_ANY,
        PAIR_DIVIDE, PAIR_DIVIDE, 2, 2},
    [GRAM_DISTANCE_CORRELATION] = {ROWS_CENTRE, PAIR_ANY,
        PAIR_DIVIDE, PAIR_DIVIDE, 2, 2},
    [GRAM_DISTANCE_CANBERRA] = {ROWS_COPY, PAIR_CANBERRA,
        PAIR_AS_IT_IS, PAIR_AS_IT_IS, 1, INFINITY},
    [GRAM_DISTANCE_BRAYCURTIS] = {ROWS_COPY, PAIR_BRAYCURTIS,
        PAIR_RATIO, PAIR_RATIO, 1, INFINITY},
    [GRAM_DISTANCE_HAMMING] = {ROWS_COPY, PAIR_DIFFERS,
        PAIR_DIVIDE, PAIR_DIVIDE, 0, 1},
    [GRAM_DISTANCE_JACCARD] = {ROWS_ONES, PAIR_BRAYCURTIS,
        PAIR_UNION, PAIR_UNION, 1, INFINITY},
    [GRAM_DISTANCE_JENSENSHANNON] = {ROWS_DISTRIBUTE, PAIR_JENSEN_SHANNON,
        PAIR_DIVIDE_ROOT, PAIR_DIVIDE, 2, INFINITY},
    [GRAM_DISTANCE_KULLBACK_LEIBLER] = {ROWS_COPY, PAIR_KULLBACK_LEIBLER,
        PAIR_AS_IT_IS, PAIR_AS_IT_IS, 1, INFINITY},
    [GRAM_DISTANCE_HELLINGER] = {ROWS_ROOTS, PAIR_ANY,
        PAIR_DIVIDE_ROOT, PAIR_DIVIDE, 2, INFINITY},
    [GRAM_DISTANCE_CHI2] = {ROWS_COPY, PAIR_CHI2,
        PAIR_AS_IT_IS, PAIR_AS_IT_IS, 1, INFINITY},
    [GRAM_DISTANCE_HAVERSINE] = {ROWS_COSINES, PAIR_HAVERSINE,
        PAIR_ANGLE, PAIR_ANGLE, 1, INFINITY},
    [GRAM_DISTANCE_NAN_EUCLIDEAN] = {ROWS_COPY, PAIR_PRESENT,
        PAIR_PRESENT_ROOT, PAIR_PRESENT_SHARE, 0, INFINITY},
  /* clang-format on */
};

/* ---- Plans ---------------------------------------------------------------------------------- */

static bool prepares(const struct gram_cdist_op *op)
{
    const bool plain =
        op->metric.kind == GRAM_DISTANCE_MINKOWSKI || metrics[op->metric.kind].change == ROWS_COPY;

    return !op->metric.prepared && !op->metric.bits && (op->metric.weights.data || !plain);
}

/* Weights that op has here are those that metric_rows.cu wrote. */
void cuda_metric_plan(const struct gram_cdist_op *op, struct cuda_cdist_options *o,
                      struct pair_metric *m)
{
    const gram_distance_kind kind = op->metric.kind;

    if (metrics[kind].step != PAIR_ANY)
        o->step = metrics[kind].step;
    o->finish = op->metric.no_root ? metrics[kind].finish_no_root : metrics[kind].finish;
    o->weighted = op->metric.weights.data != NULL;
    o->condensed = op->condensed;
    o->metric = o->step > PAIR_ANY || o->finish || o->condensed;
    *m = (struct pair_metric){.weights = op->metric.weights.data,
                              .weight_stride = op->x.cols + 1,
                              .divisor = metrics[kind].divisor,
                              .most = metrics[kind].most};
    if (m->divisor == 0 && !o->weighted)
        m->divisor = (double)op->x.cols;
}

/* ---- Rows in scratch ------------------------------------------------------------------------ */

static int64_t columns_of(const struct gram_cdist_op *op)
{
    return op->metric.kind == GRAM_DISTANCE_HAVERSINE ? HAVERSINE_COLUMNS : op->x.cols;
}

static gram_dtype real_of(const struct gram_cdist_op *op)
{
    return op->x.dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
}

/* Where the rows and the weights go. */
struct places {
    char *x, *y, *weights;
};

static bool keeps_weights(const struct gram_cdist_op *op)
{
    return op->metric.weights.data && !gram_metric_is_norm(op->metric.kind);
}

/* y's rows are x's where x and y are one matrix. */
static bool is_one(const struct gram_cdist_op *op)
{
    return op->symmetric;
}

/* op with the rows that metric_rows.cu writes.  Weights of an item have their sum behind them. */
static struct gram_cdist_op of_rows(const struct gram_cdist_op *op, const struct places *p)
{
    const gram_dtype real = real_of(op);
    const int64_t columns = columns_of(op);
    struct gram_cdist_op rows = *op;

    rows.x = cuda_dense_view(p->x, real, &op->batch, op->x.rows, columns);
    rows.y = is_one(op) ? rows.x : cuda_dense_view(p->y, real, &op->batch, op->y.rows, columns);
    rows.metric.prepared = true;
    rows.metric.weights = p->weights ? cuda_dense_view(p->weights, real, &op->batch, 1, columns + 1)
                                     : (struct gram_view){0};
    return rows;
}

static gram_status write_rows(gram_context *g, const struct gram_cdist_op *op,
                              const struct places *places)
{
    const struct cuda_device *device = g->device;
    const struct gram_view *w = &op->metric.weights;
    struct metric_rows_params p = {
        .side = {cuda_device_view(&op->x),    cuda_device_view(&op->y)},
        .to = {               places->x,                   places->y},
        .rows = {              op->x.rows, is_one(op) ? 0 : op->y.rows},
        .depth = op->x.cols,
        .columns = columns_of(op),
        .items = op->batch.count,
        .weights = cuda_given_view(w, w->data != NULL),
        .weights_dtype = w->dtype == GRAM_F64 ? DEVICE_F64 : DEVICE_F32,
        .weights_to = places->weights,
        .p = cuda_device_number(&op->p),
    };
    struct cuda_grid grid = {.threads = THREADS};
    struct cuda_variant v;

    cuda_set_batch(&op->batch, &p.batch_ndim, p.batch_shape);
    grid.blocks =
        gram_least(p.items * (p.rows[0] + p.rows[1] + 1), (int64_t)BLOCKS * device->processors);
    cuda_variant(&v, &metric_rows,
                 CUDA_OPTIONS({"REAL", cuda_type(real_of(op))},
                              {"STORED", cuda_stored_as(op->x.dtype)},
                              {"CHANGE", metrics[op->metric.kind].change}));
    return cuda_launch(g, &v, &grid, (void *[]){&p});
}

/* ---- Calls ---------------------------------------------------------------------------------- */

static gram_status check_pointers(gram_context *g, const struct gram_cdist_op *op)
{
    const struct gram_view *w = &op->metric.weights;

    TRY(gram_cuda_check_pointer(g, "x", &op->x));
    if (!is_one(op))
        TRY(gram_cuda_check_pointer(g, "y", &op->y));
    return w->data ? gram_cuda_check_pointer(g, "options.metric->weights", w) : GRAM_OK;
}

/* Any memory of the device serves where only sizes are asked for. */
static void put_any(const struct gram_cdist_op *op, struct gram_cdist_op *rows)
{
    const struct gram_view *w = &op->metric.weights;
    const struct places any = {op->x.data, op->y.data, keeps_weights(op) ? w->data : NULL};

    *rows = of_rows(op, &any);
}

static void take_rows(struct gram_layout *layout, const struct gram_cdist_op *op,
                      struct places *places)
{
    const size_t size = gram_dtype_size(real_of(op));
    const size_t row = (size_t)columns_of(op) * size, items = (size_t)op->batch.count;

    gram_take_many(layout, &places->x, items * (size_t)op->x.rows, row);
    if (!is_one(op))
        gram_take_many(layout, &places->y, items * (size_t)op->y.rows, row);
    if (keeps_weights(op))
        gram_take(layout, &places->weights, items * (row + size));
}

/* The rows are written in front of the work on them, whose scratch is a piece of this one's. */
gram_status cuda_metric_call(gram_context *g, struct gram_cdist_op *kernel,
                             gram_status (*run)(gram_context *g, const void *work),
                             const void *work)
{
    const struct gram_cdist_op given = *kernel;
    struct gram_layout layout = {0};
    struct gram_scratch_before before;
    struct places places = {0};
    gram_status status;
    size_t bytes;
    bool entered;
    void *memory;

    if (!prepares(&given) || given.batch.count == 0)
        return run(g, work);
    TRY(check_pointers(g, &given));
    put_any(&given, kernel);
    TRY(gram_measure(g, &bytes, run(g, work)));
    take_rows(&layout, &given, &places);
    gram_take(&layout, &memory, bytes);
    TRY(gram_layout_open(g, &layout));
    entered = gram_cuda_enter(g->device);
    status = write_rows(g, &given, &places);
    gram_cuda_leave(g->device, entered);
    if (status != GRAM_OK)
        return status;
    *kernel = of_rows(&given, &places);
    gram_scratch_lend(g, memory, bytes, &before);
    status = run(g, work);
    gram_scratch_return(g, &before);
    return status;
}

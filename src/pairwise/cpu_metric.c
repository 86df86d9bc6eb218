/*
 * cpu_metric.c - metrics on the CPU: which tile sums, what panels become before, and the sums after
 *
 * Metrics that are a p-norm of other rows change the packed panels, and take the tiles of the
 * p-norm; the others have tiles of their own (metric_kernels.h).
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_metric.h"
#include "pairwise.h"
#include <float.h>
#include <math.h>

enum {
    METRIC_WIDTH = 64,    /* rows of a panel at most */
    HAVERSINE_COLUMNS = 3 /* of a panel: the cosine of the latitude too */
};

/* Rows of a panel that are to be changed. */
struct metric_panel {
    void *panel;
    int64_t count, depth, width;
    const double *factors; /* of the columns */
    double total;          /* of the weights */
    bool centred;
};

#define TEMPLATE "pairwise/metric_loops.h"
#define HALVES   0
#define INTEGERS 0
#include "cpu/each_dtype.h"

/* ---- The table of metrics ------------------------------------------------------------------- */

typedef void change(const struct metric_panel *p);

/* change NULL: panels stay as they are; step GRAM_STEP_COUNT: that of p; divisor 0: the sum of the
 * weights. */
static const struct {
    change *f32, *f64;
    enum gram_step step;
    enum gram_finish form, form_no_root;
    double divisor, most;
} metrics[] = {
  /* clang-format off */
#define CHANGE(f) f##_f32, f##_f64
#define KEEP      NULL, NULL
    [GRAM_DISTANCE_MINKOWSKI]   = {CHANGE(scale), GRAM_STEP_COUNT,
                                   GRAM_FINISH_NONE, GRAM_FINISH_NONE, 1, INFINITY},
    [GRAM_DISTANCE_SEUCLIDEAN]  = {CHANGE(scale), GRAM_STEP_COUNT,
                                   GRAM_FINISH_ROOT, GRAM_FINISH_NONE, 1, INFINITY},
    [GRAM_DISTANCE_COSINE]      = {CHANGE(normalise), GRAM_STEP_COUNT,
                                   GRAM_FINISH_DIVIDE, GRAM_FINISH_DIVIDE, 2, 2},
    [GRAM_DISTANCE_CORRELATION] = {CHANGE(normalise), GRAM_STEP_COUNT,
                                   GRAM_FINISH_DIVIDE, GRAM_FINISH_DIVIDE, 2, 2},
    [GRAM_DISTANCE_CANBERRA]    = {KEEP, GRAM_STEP_CANBERRA,
                                   GRAM_FINISH_NONE, GRAM_FINISH_NONE, 1, INFINITY},
    [GRAM_DISTANCE_BRAYCURTIS]  = {KEEP, GRAM_STEP_BRAYCURTIS,
                                   GRAM_FINISH_RATIO, GRAM_FINISH_RATIO, 1, INFINITY},
    [GRAM_DISTANCE_HAMMING]     = {KEEP, GRAM_STEP_HAMMING,
                                   GRAM_FINISH_DIVIDE, GRAM_FINISH_DIVIDE, 0, 1},
    [GRAM_DISTANCE_JACCARD]     = {CHANGE(ones), GRAM_STEP_BRAYCURTIS,
                                   GRAM_FINISH_UNION, GRAM_FINISH_UNION, 1, INFINITY},
    [GRAM_DISTANCE_JENSENSHANNON] = {CHANGE(distribute), GRAM_STEP_JENSEN_SHANNON,
                                   GRAM_FINISH_ROOT, GRAM_FINISH_DIVIDE, 2, INFINITY},
    [GRAM_DISTANCE_KULLBACK_LEIBLER] = {KEEP, GRAM_STEP_KULLBACK_LEIBLER,
                                   GRAM_FINISH_NONE, GRAM_FINISH_NONE, 1, INFINITY},
    [GRAM_DISTANCE_HELLINGER]   = {CHANGE(roots), GRAM_STEP_COUNT,
                                   GRAM_FINISH_ROOT, GRAM_FINISH_DIVIDE, 2, INFINITY},
    [GRAM_DISTANCE_CHI2]        = {KEEP, GRAM_STEP_CHI2,
                                   GRAM_FINISH_NONE, GRAM_FINISH_NONE, 1, INFINITY},
    [GRAM_DISTANCE_HAVERSINE]   = {CHANGE(cosines), GRAM_STEP_HAVERSINE,
                                   GRAM_FINISH_ANGLE, GRAM_FINISH_ANGLE, 1, INFINITY},
    [GRAM_DISTANCE_NAN_EUCLIDEAN] = {KEEP, GRAM_STEP_NAN_EUCLIDEAN,
                                   GRAM_FINISH_PRESENT_ROOT, GRAM_FINISH_PRESENT, 0, INFINITY},
#undef CHANGE
#undef KEEP
  /* clang-format on */
};

/* ---- What an item's metric comes to --------------------------------------------------------- */

int64_t cpu_metric_columns(const struct gram_cdist_op *op)
{
    if (op->metric.bits)
        return gram_ceil_div(op->metric.bits, 32);
    return op->metric.kind == GRAM_DISTANCE_HAVERSINE ? HAVERSINE_COLUMNS : op->x.cols;
}

bool cpu_metric_has_second(const struct gram_cdist_op *op)
{
    enum gram_step step = metrics[op->metric.kind].step;

    if (op->metric.bits)
        return op->metric.kind == GRAM_DISTANCE_JACCARD;
    return step == GRAM_STEP_BRAYCURTIS || step == GRAM_STEP_NAN_EUCLIDEAN;
}

static size_t numbers_bytes(int64_t columns)
{
    return gram_round64((size_t)columns * sizeof(double));
}

size_t cpu_metric_bytes(const struct gram_cdist_op *op)
{
    return gram_metric_given(&op->metric) ? 2 * numbers_bytes(cpu_metric_columns(op)) : 0;
}

static double weight_at(const struct gram_view *weights, const char *item, int64_t k)
{
    int64_t at = k * weights->col_stride;

    if (!weights->data)
        return 1;
    return weights->dtype == GRAM_F32 ? (double)((const float *)item)[at]
                                      : ((const double *)item)[at];
}

/* What a column is multiplied by, so that its share of a p-norm is multiplied by w. */
static double factor_of(gram_distance_kind kind, double w, double p)
{
    if (kind == GRAM_DISTANCE_SEUCLIDEAN)
        return 1 / sqrt(w);
    if (kind == GRAM_DISTANCE_MINKOWSKI)
        return isinf(p) ? w > 0 : pow(w, 1 / p);
    return sqrt(w);
}

void cpu_metric_item(const struct gram_cdist_op *op, gram_dtype dtype, int64_t item, void *memory,
                     struct cpu_metric *out)
{
    const struct gram_view *weights = &op->metric.weights;
    const int64_t columns = cpu_metric_columns(op);
    const double p = gram_hyper_at(&op->p, &op->batch, item);
    const char *data = weights->data ? gram_view_item(weights, &op->batch, item) : NULL;
    double total = 0, *factors = memory;

    out->factors = factors;
    out->weights = (char *)memory + numbers_bytes(columns);
    for (int64_t k = 0; k < columns; k++) {
        double w = weight_at(weights, data, k);
        total += w;
        factors[k] = factor_of(op->metric.kind, w, p);
        if (dtype == GRAM_F32)
            ((float *)out->weights)[k] = (float)w;
        else
            ((double *)out->weights)[k] = w;
    }
    out->total = total;
    out->finish = (struct gram_metric_finish){
        .form = op->metric.no_root ? metrics[op->metric.kind].form_no_root
                                   : metrics[op->metric.kind].form,
        .divisor = metrics[op->metric.kind].divisor,
        .most = metrics[op->metric.kind].most,
    };
    if (op->metric.bits && op->metric.kind == GRAM_DISTANCE_HAMMING)
        out->finish.divisor = (double)op->metric.bits;
    if (out->finish.divisor == 0)
        out->finish.divisor = total;
}

enum gram_step cpu_metric_step(const struct gram_cdist_op *op, enum gram_step of_p)
{
    enum gram_step step = metrics[op->metric.kind].step;

    return step == GRAM_STEP_COUNT ? of_p : step;
}

static bool has_popcount(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512vpopcntdq");
#else
    return false;
#endif
}

gram_cdist_tile *cpu_metric_bits_tile(const struct gram_cdist_op *op,
                                      const struct gram_cpu_kernels *kernels)
{
    const bool by_popcount = kernels->bits[1].hamming && has_popcount();
    const struct gram_bits_tiles *tiles = &kernels->bits[by_popcount];

    return op->metric.kind == GRAM_DISTANCE_JACCARD ? tiles->jaccard : tiles->hamming;
}

void cpu_metric_change(const struct gram_cdist_op *op, const struct cpu_metric *m, gram_dtype dtype,
                       const struct cpu_metric_rows *rows)
{
    const struct metric_panel panel = {
        .panel = rows->panel,
        .count = rows->count,
        .depth = rows->depth,
        .width = rows->width,
        .factors = m->factors,
        .total = m->total,
        .centred = op->metric.kind == GRAM_DISTANCE_CORRELATION,
    };
    change *f = dtype == GRAM_F32 ? metrics[op->metric.kind].f32 : metrics[op->metric.kind].f64;

    if (f && !op->metric.bits)
        f(&panel);
}

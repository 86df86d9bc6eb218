/*
 * cpu_cdist_grad_square.c - gradients with p = 2 by matrix products
 *
 *   out[o, n, m] = (d[n, m] - mean[n]) (c a)[o, m] - sum_k c[o, k] (b[n, k] - mean[n]) a[k, m]
 *
 * with mean[n] the mean of b[n, :]: the differences are the same, and what cancels is smaller when
 * a feature is far from 0.  Both products are one: the rows c and c (b - mean) of the left factor
 * are written a block at a time and multiplied into a scratch matrix, which has no larger size for
 * larger problems; a is read where it lies if BLAS can, else a block of it is packed.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/threads.h"
#include "cpu_cdist_grad.h"
#include <limits.h>
#include <math.h>

enum {
    OUTPUTS = 64,  /* of a block */
    ROWS = 512,    /* of the left factor: features times outputs, at least one feature */
    DEPTH = 512,   /* centres of a block */
    POINTS = 2048, /* of a block: 512 x 512 x 2048 products keep BLAS at its full speed */
    GRAIN = 16384, /* elements moved by one piece of a parallel loop */
};

/* A block of features, outputs and points of one item, and its scratch. */
struct square_block {
    struct grad_piece a, b, c, d, out; /* all centres; out: the plane of the first output */
    int64_t out_plane, k, depth;       /* centres [k, k + depth) are at work */
    bool add;
    double *mean;             /* one a feature */
    void *factors, *products; /* (features + 1) outputs rows by depth, by points */
    void *packed;             /* a as depth by points, where BLAS cannot read it */
    void (*step)(const struct square_block *s, int64_t n);
    int64_t first, last, grain; /* features n of a parallel loop */
};

#define real    float
#define MEANS   means_f32
#define FACTORS factors_f32
#define COMBINE combine_f32
#include "cpu_cdist_grad_factor.h"
#define real    double
#define MEANS   means_f64
#define FACTORS factors_f64
#define COMBINE combine_f64
#include "cpu_cdist_grad_factor.h"

/* Sizes of the largest block. */
struct square_sizes {
    int64_t outputs, features, depth, points;
    size_t factors, products, packed, total; /* where they are, in bytes */
};

/* True if BLAS can read a: unit stride in one dimension, no overlap in the other. */
static bool readable(const struct gram_view *a)
{
    int64_t r = a->row_stride, c = a->col_stride;

    return (c == 1 && r >= a->cols && r <= INT_MAX) || (r == 1 && c >= a->rows && c <= INT_MAX);
}

static struct square_sizes sizes_of(const struct gram_cdist_grad_op *op)
{
    size_t element = gram_dtype_size(op->a.dtype);
    struct square_sizes s = {.outputs = gram_least(op->c.rows, OUTPUTS)};
    int64_t rows;

    s.features = gram_least(op->d.rows, ROWS / s.outputs);
    s.depth = gram_least(op->a.rows, DEPTH);
    s.points = gram_least(op->a.cols, POINTS);
    rows = (s.features + 1) * s.outputs;
    s.factors = gram_round64((size_t)s.features * sizeof(double));
    s.products = s.factors + gram_round64((size_t)(rows * s.depth) * element);
    s.packed = s.products + gram_round64((size_t)(rows * s.points) * element);
    s.total = s.packed;
    if (!readable(&op->a))
        s.total += gram_round64((size_t)(s.depth * s.points) * element);
    return s;
}

size_t cpu_cdist_grad_square_bytes(const struct gram_cdist_grad_op *op)
{
    return sizes_of(op).total;
}

static void run_step(void *arg, int64_t index, int thread)
{
    const struct square_block *s = arg;
    int64_t first = s->first + index * s->grain, last = gram_least(first + s->grain, s->last);

    (void)thread;
    for (int64_t n = first; n < last; n++)
        s->step(s, n);
}

/* Runs step for the features from first on, each of which moves `elements` elements. */
static void for_features(gram_context *g, struct square_block *s, int64_t first, int64_t elements,
                         void (*step)(const struct square_block *s, int64_t n))
{
    s->step = step;
    s->first = first;
    s->last = s->b.rows;
    s->grain = 1 + GRAIN / (elements + 1);
    gram_for(g, (double)(s->last - first) * (double)elements,
             (s->last - first + s->grain - 1) / s->grain, run_step, s);
}

/* products = or += factors times centres [k, k + depth) of a. */
static void multiply(const struct square_block *s, const struct gram_view *whole)
{
    size_t element = gram_dtype_size(whole->dtype);
    struct grad_piece a =
        cpu_grad_part(&s->a, (struct grad_range){s->k, 0, s->depth, s->a.cols}, element);
    struct gram_blas_matrix left = {a.data, a.row_stride, false};
    struct gram_blas_matrix right = {s->factors, s->depth, false};
    const int64_t mnk[3] = {a.cols, (s->b.rows + 1) * s->c.rows, s->depth};

    if (!readable(whole)) {
        const struct grad_panels panels = {.panel = s->packed, .depth = s->depth, .width = a.cols};
        cpu_grad_moves(whole->dtype)->pack(&a, &panels);
        left = (struct gram_blas_matrix){s->packed, a.cols, false};
    } else if (a.col_stride != 1 || a.row_stride < whole->cols)
        left = (struct gram_blas_matrix){a.data, a.col_stride, true};
    gram_blas_gemm(whole->dtype, mnk, 1, left, right, s->k > 0, s->products, a.cols);
}

static void run_block(gram_context *g, struct square_block *s, const struct gram_view *whole)
{
    bool f32 = whole->dtype == GRAM_F32;

    for (s->k = 0; s->k < s->b.cols; s->k += DEPTH) {
        s->depth = gram_least(s->b.cols - s->k, DEPTH);
        for_features(g, s, -1, s->c.rows * s->depth, f32 ? factors_f32 : factors_f64);
        multiply(s, whole);
    }
    for_features(g, s, 0, s->c.rows * s->d.cols, f32 ? combine_f32 : combine_f64);
}

void cpu_cdist_grad_square(gram_context *g, const struct gram_cdist_grad_op *op, int64_t item,
                           bool add, void *scratch)
{
    const struct square_sizes size = sizes_of(op);
    const struct gram_batch *batch = &op->batch;
    int64_t o, n, m, start = gram_trace_begin(g), all = op->a.rows;
    int64_t plane = op->out.plane_stride * (int64_t)gram_dtype_size(op->out.dtype);
    struct square_block s = {
        .out_plane = op->out.plane_stride,
        .add = add,
        .mean = scratch,
        .factors = (char *)scratch + size.factors,
        .products = (char *)scratch + size.products,
        .packed = (char *)scratch + size.packed,
    };

    gram_blas_threads(g);
    for (n = 0; n < op->d.rows; n += size.features) {
        s.b = cpu_grad_piece(&op->b, batch, item, (struct grad_range){n, 0, size.features, all});
        for_features(g, &s, 0, all, op->a.dtype == GRAM_F32 ? means_f32 : means_f64);
        for (o = 0; o < op->c.rows; o += size.outputs)
            for (m = 0; m < op->a.cols; m += size.points) {
                const struct grad_range part = {n, m, size.features, size.points};
                s.a = cpu_grad_piece(&op->a, batch, item,
                                     (struct grad_range){0, m, all, size.points});
                s.c = cpu_grad_piece(&op->c, batch, item,
                                     (struct grad_range){o, 0, size.outputs, all});
                s.d = cpu_grad_piece(&op->d, batch, item, part);
                s.out = cpu_grad_piece(&op->out, batch, item, part);
                s.out.data += o * plane;
                run_block(g, &s, &op->a);
            }
    }
    gram_trace_end(g, "cdist_grad square", 0, start);
}

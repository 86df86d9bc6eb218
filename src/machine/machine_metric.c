/*
 * machine_metric.c - the learned linear map W: start, copy, apply, and the next one from an AGOP
 *
 * In the features z = x W the predictor's average gradient outer product is A; in x it is W A W
 * (W symmetric), and the next W is a power of it, scaled so that its largest entry is 1 before.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/random.h"
#include "machine.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    POINTS = 4096,     /* of the sample at which gradients are averaged */
    POINT_BLOCK = 1024 /* whose kernel weights are held at a time */
};

static int64_t entries(const struct machine_metric *m)
{
    return gram_machine_metric_entries(m->width, m->full);
}

gram_status gram_machine_metric_create(gram_context *g, int64_t width, bool full,
                                       struct machine_metric *out)
{
    *out = (struct machine_metric){.width = width, .full = full};
    out->w = calloc((size_t)entries(out) + 1, sizeof *out->w);
    if (!out->w)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate a metric of %lld features",
                         (long long)width);
    for (int64_t i = 0; i < width; i++)
        out->w[full ? i * (width + 1) : i] = 1;
    return GRAM_OK;
}

gram_status gram_machine_metric_copy(gram_context *g, const struct machine_metric *from,
                                     struct machine_metric *to)
{
    TRY(gram_machine_metric_create(g, from->width, from->full, to));
    memcpy(to->w, from->w, (size_t)entries(from) * sizeof *to->w);
    return GRAM_OK;
}

void gram_machine_metric_destroy(struct machine_metric *metric)
{
    free(metric->w);
    *metric = (struct machine_metric){0};
}

gram_status gram_machine_metric_apply(gram_context *g, const struct machine_metric *metric,
                                      gram_dtype dtype, int64_t rows, const void *x, void *z)
{
    struct krr_map op = {dtype, rows, metric->width, metric->full, NULL, x, z};
    struct krr_array w;
    gram_status status;

    TRY(gram_krr_send(g, metric->w, (size_t)entries(metric) * sizeof *metric->w, &w));
    op.w = w.data;
    status = gram_krr_map(g, &op);
    gram_krr_free(g, &w);
    return status;
}

/* Scales so that the largest entry is 1; a zero matrix becomes the identity: nothing was learned.
 */
static void normalise(int64_t width, bool full, double *m)
{
    int64_t count = full ? width * width : width;
    double largest = 0;

    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(m[i]));
    for (int64_t i = 0; i < count; i++)
        m[i] = largest > 0 ? m[i] / largest : (!full || i % (width + 1) == 0);
}

/* m = m^power by its eigenvectors; what rounding made negative counts as 0. */
static gram_status matrix_power(gram_context *g, int64_t width, double power, double *m)
{
    int64_t lwork, liwork, square = width * width;
    size_t bytes;
    double *w, *work, *scaled;
    int info;

    gram_blas_syevd_sizes(width, &lwork, &liwork);
    bytes = (size_t)(width + lwork + square) * sizeof(double) + (size_t)liwork * sizeof(int32_t);
    w = gram_alloc(g, bytes);
    if (!w)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    work = w + width;
    scaled = work + lwork;
    gram_blas_threads(g);
    info = gram_blas_syevd(GRAM_F64, GRAM_LOWER, width, m, width, w, work, lwork,
                           (int32_t *)(scaled + square), liwork);
    for (int64_t j = 0; !info && j < width; j++)
        for (int64_t i = 0; i < width; i++)
            scaled[j * width + i] = m[j * width + i] * pow(w[j] > 0 ? w[j] : 0, power);
    if (!info) /* V w^power V^T: work holds V, which m is about to replace */
        memcpy(work, m, (size_t)square * sizeof *m);
    if (!info)
        gram_blas_gemm(GRAM_F64, (int64_t[3]){width, width, width}, 1,
                       (struct gram_blas_matrix){scaled, width, false},
                       (struct gram_blas_matrix){work, width, true}, 0, m, width);
    gram_free(g, w, bytes);
    return info ? gram_fail(g, GRAM_NUMERICAL, "the eigendecomposition of the metric failed")
                : GRAM_OK;
}

/* a = W a W: from the features in the metric to those before it. */
static gram_status before_metric(gram_context *g, const struct machine_metric *metric, double *a)
{
    int64_t n = metric->width;
    size_t bytes = (size_t)(n * n) * sizeof(double);

    if (!metric->full) {
        for (int64_t i = 0; i < n; i++)
            a[i] *= metric->w[i] * metric->w[i];
        return GRAM_OK;
    }
    double *half = gram_alloc(g, bytes);
    if (!half)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    gram_blas_threads(g);
    gram_blas_gemm(GRAM_F64, (int64_t[3]){n, n, n}, 1,
                   (struct gram_blas_matrix){metric->w, n, false},
                   (struct gram_blas_matrix){a, n, false}, 0, half, n);
    gram_blas_gemm(GRAM_F64, (int64_t[3]){n, n, n}, 1, (struct gram_blas_matrix){half, n, false},
                   (struct gram_blas_matrix){metric->w, n, false}, 0, a, n);
    gram_free(g, half, bytes);
    return GRAM_OK;
}

/* What the averaging works with: the index here, the rest where the context computes. */
struct sample {
    const struct machine_data *at; /* whose rows the points are */
    int64_t count;                 /* points */
    int64_t *index;                /* of all rows, the first count chosen */
    size_t index_bytes;
    struct krr_array chosen, memory;
    char *points;  /* POINT_BLOCK by width */
    char *weights; /* rows by POINT_BLOCK */
    char *agop;    /* dtype */
};

static void sample_destroy(gram_context *g, struct sample *s)
{
    gram_krr_free(g, &s->chosen);
    gram_krr_free(g, &s->memory);
    gram_free(g, s->index, s->index_bytes);
}

/* Room for `size` entries of an average, and points among the rows of `at`. */
static gram_status sample_create(gram_context *g, const struct machine_data *z,
                                 const struct machine_data *at, int64_t size, uint64_t seed,
                                 struct sample *s)
{
    size_t element_size = gram_dtype_size(z->dtype);
    size_t points = gram_round64((size_t)(POINT_BLOCK * z->width) * element_size);
    size_t weights = gram_round64((size_t)(POINT_BLOCK * z->rows) * element_size);
    size_t agop = gram_round64((size_t)size * element_size);

    s->at = at;
    s->index_bytes = (size_t)at->rows * sizeof(int64_t);
    s->index = gram_alloc(g, s->index_bytes);
    if (!s->index)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes for gradients",
                         s->index_bytes);
    TRY(gram_krr_allocate(g, points + weights + agop, &s->memory));
    s->points = s->memory.data;
    s->weights = s->points + points;
    s->agop = s->weights + weights;
    s->count = at->rows < POINTS ? at->rows : POINTS;
    for (int64_t i = 0; i < at->rows; i++)
        s->index[i] = i;
    gram_random_choose(&seed, s->index, at->rows, s->count);
    return gram_krr_send(g, s->index, (size_t)s->count * sizeof(int64_t), &s->chosen);
}

/* Adds the points [first, first + count) of the sample to the average. */
static gram_status add_points(gram_context *g, const gram_kernel_options *kernel,
                              const struct machine_data *z, const void *alpha, bool full,
                              struct sample *s, int64_t first)
{
    int64_t count = s->count - first < POINT_BLOCK ? s->count - first : POINT_BLOCK;
    const int64_t *index = (const int64_t *)s->chosen.data + first;
    const struct krr_gather gather = {z->dtype, count, z->width, index, s->at->x, s->points};
    gram_tensor x = gram_krr_matrix(g, z->x, z->rows, z->width, z->dtype);
    gram_tensor points = gram_krr_matrix(g, s->points, count, z->width, z->dtype);
    gram_tensor a = gram_krr_matrix(g, s->weights, z->rows, count, z->dtype);
    gram_tensor c = gram_krr_matrix(g, alpha, z->outputs, z->rows, z->dtype);
    gram_tensor b = {
        x.data, x.dtype, x.device, 2, {z->width,  z->rows},
            {       1, z->width}
    };
    gram_tensor d = {
        points.data, x.dtype, x.device, 2, {z->width,    count},
            {       1, z->width}
    };
    gram_tensor out = full ? gram_matrix(s->agop, z->width, z->width, z->dtype)
                           : gram_vector(s->agop, z->width, z->dtype);
    gram_agop_options options = GRAM_AGOP_OPTIONS_INIT;

    out.device = x.device;
    options.diagonal = !full;
    options.accumulate = first > 0;
    options.points = s->count;
    TRY(gram_krr_gather(g, &gather));
    TRY(gram_kernel(g, &x, &points, kernel, &a));
    return gram_agop(g, &a, &b, &c, &d, kernel->p, &options, &out);
}

/* The average to the host, in f64. */
static gram_status fetch_agop(gram_context *g, gram_dtype dtype, const struct sample *s,
                              int64_t count, double *out)
{
    size_t bytes = (size_t)count * gram_dtype_size(dtype);
    void *narrow = gram_alloc(g, bytes);
    gram_status status;

    if (!narrow)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    status = gram_krr_fetch(g, narrow, s->agop, bytes);
    for (int64_t i = 0; status == GRAM_OK && i < count; i++)
        out[i] = krr_element(dtype, narrow, i);
    gram_free(g, narrow, bytes);
    return status;
}

gram_status gram_machine_metric_agop(gram_context *g, const struct machine_gradients *e,
                                     const struct machine_metric *metric, double *out)
{
    gram_kernel_options kernel = gram_machine_kernel(e->params->p, e->params->q, e->bandwidth);
    struct sample s = {0};
    gram_status status = sample_create(g, e->z, e->at, entries(metric), e->params->seed, &s);

    kernel.output = GRAM_WEIGHT;
    for (int64_t first = 0; status == GRAM_OK && first < s.count; first += POINT_BLOCK) {
        status = add_points(g, &kernel, e->z, e->alpha, metric->full, &s, first);
        if (status == GRAM_OK && gram_cancelled(g))
            status = gram_fail(g, GRAM_CANCELLED, "cancelled");
    }
    if (status == GRAM_OK)
        status = fetch_agop(g, e->z->dtype, &s, entries(metric), out);
    sample_destroy(g, &s);
    return status == GRAM_OK ? before_metric(g, metric, out) : status;
}

gram_status gram_machine_metric_learn(gram_context *g, const struct machine_gradients *e,
                                      struct machine_metric *metric,
                                      struct machine_learned *learned)
{
    const double power = e->params->power;
    int64_t count = entries(metric);
    size_t bytes = (size_t)count * sizeof(double);
    double *agop;
    gram_status status;

    if (e->params->ard)
        return gram_machine_metric_ard(g, e, metric, learned);
    agop = gram_alloc(g, bytes);
    if (!agop)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    status = gram_machine_metric_agop(g, e, metric, agop);
    normalise(metric->width, metric->full, agop);
    if (status == GRAM_OK && metric->full)
        status = matrix_power(g, metric->width, power, agop);
    for (int64_t i = 0; status == GRAM_OK && i < count; i++)
        metric->w[i] = metric->full ? agop[i] : pow(agop[i], power);
    gram_free(g, agop, bytes);
    return status;
}

/*
 * machine_ard.c - a weight per feature by marginal likelihood: automatic relevance determination
 *
 * The targets of n rows are taken for values of a Gaussian process with the covariance s A,
 *   A = K + r diag(1 / w),   K = exp(-||(z - z') / l||_p^q / L^q),
 * of which the amplitude s is the best one for each output: s_c = y_c^T A^-1 y_c / n.  Then
 *   F(l, r) = mean over outputs of (log s_c) / 2 + (log det A) / (2 n)
 * is the negative logarithm of the likelihood for each row, up to a constant, and with
 *   G = dF/dA = (A^-1 - mean over outputs of a_c a_c^T / s_c) / (2 n),   a_c = A^-1 y_c,
 * gram_kernel_vjp gives dF/dl.  A limited-memory quasi-Newton method (Nocedal, 1980) takes some
 * steps in the logarithms of l and r.  Each feature of the metric is divided by its l.
 *
 * An average gradient tells only of what the present machine has learned: where it sees nothing but
 * noise because many features count for nothing, the gradient does not say which ones.  The
 * likelihood does from some hundreds of rows.
 * C. E. Rasmussen and C. K. I. Williams, Gaussian Processes for Machine Learning, 2006, section 5.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/context.h"
#include "core/view.h"
#include "machine.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    USUAL_ROWS = 600, /* whose likelihood it is: the factorisations grow with the cube */
    STEPS = 10,       /* of a round */
    MEMORY = 8,       /* steps that the method remembers */
    SHRINKS = 5       /* of a step that does not lower F enough */
};

static const double longest = 2, /* a step, in any logarithm */
    enough = 1e-4,               /* of the decrease that the slope promises */
    least_ridge = 1e-5, most_ridge = 10;

static double dot(int64_t count, const double *x, const double *y)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++)
        sum += x[i] * y[i];
    return sum;
}

static void add(int64_t count, double factor, const double *x, double *y)
{
    for (int64_t i = 0; i < count; i++)
        y[i] += factor * x[i];
}

/* ---- F and its gradient ---------------------------------------------------------------------- */

/* All is f64 and on the CPU, whatever the context computes on: so few rows take milliseconds there,
 * and a GPU would compile kernels for them first. */
struct ard {
    gram_context *host; /* the caller's, or one of its own */
    int64_t rows, width, outputs;
    gram_kernel_options kernel;
    const double *weights;  /* of the rows, or NULL */
    double *points;         /* rows by width, row-major */
    double *y, *a;          /* targets, centred, and A^-1 y: rows by outputs, column-major */
    double *matrix;         /* A, its inverse and G in turn */
    double *length, *slope; /* per feature */
    double *amplitude;      /* per output */
    void *memory;           /* of all of them */
    size_t bytes;
};

static void ard_close(gram_context *g, struct ard *a)
{
    gram_free(g, a->memory, a->bytes);
    if (a->host != g)
        gram_context_destroy(a->host);
}

/* Does what a call on the host's context says, with its message. */
static gram_status on_host(gram_context *g, const struct ard *a, gram_status status)
{
    if (status == GRAM_OK || a->host == g)
        return status;
    return gram_fail(g, status, "%s", gram_message(a->host));
}

/* The targets of the first rows less their means, in which weights count. */
static void centre(const struct machine_data *z, int64_t rows, double *y)
{
    for (int64_t j = 0; j < z->outputs; j++) {
        double sum = 0, weights = 0;

        for (int64_t i = 0; i < rows; i++) {
            const double w = z->weights ? z->weights[i] : 1;

            y[j * rows + i] = krr_element(z->dtype, z->y, j * z->rows + i);
            sum += w * y[j * rows + i];
            weights += w;
        }
        for (int64_t i = 0; i < rows; i++)
            y[j * rows + i] -= sum / weights;
    }
}

static int64_t most_rows(const struct machine_gradients *e)
{
    return e->params->ard_rows > 0 ? e->params->ard_rows : USUAL_ROWS;
}

/* The first rows of z, in f64. */
static gram_status take_points(gram_context *g, const struct machine_data *z, struct ard *a)
{
    const int64_t count = a->rows * a->width;
    const size_t bytes = (size_t)count * gram_dtype_size(z->dtype);
    char *narrow = gram_alloc(g, bytes);
    gram_status status;

    if (!narrow)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    status = gram_krr_fetch(g, narrow, z->x, bytes);
    for (int64_t i = 0; status == GRAM_OK && i < count; i++)
        a->points[i] = krr_element(z->dtype, narrow, i);
    gram_free(g, narrow, bytes);
    return status;
}

static gram_status ard_open(gram_context *g, const struct machine_gradients *e, struct ard *a)
{
    const struct machine_data *z = e->z;
    const size_t n = (size_t)gram_least(z->rows, most_rows(e)), k = (size_t)z->width,
                 c = (size_t)z->outputs;

    *a = (struct ard){.host = g,
                      .rows = (int64_t)n,
                      .width = z->width,
                      .outputs = z->outputs,
                      .kernel = gram_machine_kernel(e->params->p, e->params->q, e->bandwidth),
                      .weights = z->weights,
                      .bytes = (n * k + 2 * n * c + n * n + 2 * k + c) * sizeof(double)};
    if (gram_context_device(g).type != GRAM_CPU)
        TRY(gram_context_beside(g, 0, &a->host));
    a->memory = gram_alloc(g, a->bytes);
    if (!a->memory)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", a->bytes);
    a->points = a->memory;
    a->y = a->points + n * k;
    a->a = a->y + n * c;
    a->matrix = a->a + n * c;
    a->length = a->matrix + n * n;
    a->slope = a->length + k;
    a->amplitude = a->slope + k;
    centre(z, a->rows, a->y);
    return take_points(g, z, a);
}

static double ridge_of(const struct ard *a, double ridge, int64_t row)
{
    return ridge / (a->weights ? a->weights[row] : 1);
}

/* A of the lengths. */
static gram_status fill(gram_context *g, struct ard *a, double ridge)
{
    gram_tensor x = gram_matrix(a->points, a->rows, a->width, GRAM_F64);
    gram_tensor k = gram_matrix(a->matrix, a->rows, a->rows, GRAM_F64);
    gram_tensor lengths = gram_vector(a->length, a->width, GRAM_F64);
    gram_kernel_options kernel = a->kernel;

    kernel.lengths = &lengths;
    TRY(on_host(g, a, gram_kernel(a->host, &x, NULL, &kernel, &k)));
    for (int64_t i = 0; i < a->rows; i++)
        a->matrix[i * (a->rows + 1)] += ridge_of(a, ridge, i);
    return GRAM_OK;
}

/* slope of G. */
static gram_status differentiate(gram_context *g, struct ard *a)
{
    gram_tensor x = gram_matrix(a->points, a->rows, a->width, GRAM_F64);
    gram_tensor grad = gram_matrix(a->matrix, a->rows, a->rows, GRAM_F64);
    gram_tensor lengths = gram_vector(a->length, a->width, GRAM_F64);
    gram_kernel_options kernel = a->kernel;
    gram_tensor out = gram_vector(a->slope, a->width, GRAM_F64);
    const gram_kernel_grads grads = {.lengths = &out};

    kernel.lengths = &lengths;
    return on_host(g, a, gram_kernel_vjp(a->host, &x, &x, &kernel, &grad, &grads));
}

/* log det A / (2 n), and the inverse in place of A; INFINITY where A cannot be factorised. */
static double invert(struct ard *a)
{
    const int64_t n = a->rows;
    double half = 0;

    gram_blas_threads(a->host);
    if (gram_blas_potrf(GRAM_F64, GRAM_LOWER, n, a->matrix, n) != 0)
        return INFINITY;
    for (int64_t i = 0; i < n; i++)
        half += log(a->matrix[i * (n + 1)]) / (double)n;
    if (gram_blas_potri(GRAM_F64, GRAM_LOWER, n, a->matrix, n) != 0)
        return INFINITY;
    for (int64_t i = 0; i < n; i++) /* the triangle is that of columns */
        for (int64_t j = 0; j < i; j++)
            a->matrix[i * n + j] = a->matrix[j * n + i];
    return half;
}

/* The rest of F, with a and the amplitudes; and G in place of the inverse.  An output that is
 * constant says nothing; NaN where all are. */
static double likelihood(struct ard *a)
{
    const int64_t n = a->rows;
    double value = 0, counted = 0;

    gram_blas_gemm(GRAM_F64, (int64_t[3]){n, a->outputs, n}, 1,
                   (struct gram_blas_matrix){a->matrix, n, false},
                   (struct gram_blas_matrix){a->y, n, false}, 0, a->a, n);
    for (int64_t c = 0; c < a->outputs; c++) {
        a->amplitude[c] = dot(n, a->y + c * n, a->a + c * n) / (double)n;
        if (a->amplitude[c] > 0) {
            value += 0.5 * log(a->amplitude[c]);
            counted++;
        }
    }
    for (int64_t i = 0; i < n * n; i++)
        a->matrix[i] *= 0.5 / (double)n;
    for (int64_t c = 0; c < a->outputs; c++)
        for (int64_t i = 0; a->amplitude[c] > 0 && i < n; i++)
            add(n, -0.5 / ((double)n * counted * a->amplitude[c]) * a->a[c * n + i], a->a + c * n,
                a->matrix + i * n);
    return value / counted;
}

/* F and its gradient in the logarithms of the lengths and of the ridge; F is INFINITY where there
 * is none. */
static gram_status evaluate(gram_context *g, struct ard *a, const double *at, double *value,
                            double *slope)
{
    const int64_t n = a->rows, k = a->width;

    for (int64_t j = 0; j < k; j++)
        a->length[j] = exp(at[j]);
    TRY(fill(g, a, exp(at[k])));
    *value = invert(a);
    if (isfinite(*value))
        *value += likelihood(a);
    if (!isfinite(*value)) {
        *value = INFINITY;
        return GRAM_OK;
    }
    TRY(differentiate(g, a));
    slope[k] = 0;
    for (int64_t i = 0; i < n; i++)
        slope[k] += a->matrix[i * (n + 1)] * ridge_of(a, exp(at[k]), i);
    for (int64_t j = 0; j < k; j++)
        slope[j] = a->slope[j] * a->length[j];
    return gram_cancelled(g) ? gram_fail(g, GRAM_CANCELLED, "cancelled") : GRAM_OK;
}

/* ---- The steps ------------------------------------------------------------------------------- */

/* Where the method is, and the steps and changes of the slope that it remembers. */
struct descent {
    int64_t count;
    double value;
    double *at, *slope, *next, *next_slope, *direction;
    double *step, *change; /* MEMORY by count each, the oldest first */
    int known;
    double product[MEMORY]; /* step . change */
};

/* direction = -H slope with the inverse Hessian H of what is known, no entry above the longest. */
static void set_direction(struct descent *d)
{
    const int64_t n = d->count;
    double weight[MEMORY], scale = 1, most = 0;

    for (int64_t i = 0; i < n; i++)
        d->direction[i] = -d->slope[i];
    for (int m = d->known - 1; m >= 0; m--) {
        weight[m] = dot(n, d->step + m * n, d->direction) / d->product[m];
        add(n, -weight[m], d->change + m * n, d->direction);
    }
    if (d->known > 0) {
        const double *last = d->change + (d->known - 1) * n;

        scale = d->product[d->known - 1] / dot(n, last, last);
    }
    for (int64_t i = 0; i < n; i++)
        d->direction[i] *= scale;
    for (int m = 0; m < d->known; m++)
        add(n, weight[m] - dot(n, d->change + m * n, d->direction) / d->product[m], d->step + m * n,
            d->direction);
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(d->direction[i]));
    /* Nothing is known of the size of the first step. */
    scale = d->known == 0 ? 0.5 / most : fmin(1, longest / most);
    for (int64_t i = 0; i < n && most > 0; i++)
        d->direction[i] *= scale;
}

/* Adds the last step to what is known, unless F is not convex along it. */
static void remember(struct descent *d)
{
    const int64_t n = d->count;
    double product = 0, squares = 0;

    for (int64_t i = 0; i < n; i++) {
        const double change = d->next_slope[i] - d->slope[i];

        product += (d->next[i] - d->at[i]) * change;
        squares += change * change;
    }
    if (!(product > 1e-10 * squares))
        return;
    if (d->known == MEMORY) {
        memmove(d->step, d->step + n, (size_t)((MEMORY - 1) * n) * sizeof(double));
        memmove(d->change, d->change + n, (size_t)((MEMORY - 1) * n) * sizeof(double));
        memmove(d->product, d->product + 1, (MEMORY - 1) * sizeof(double));
        d->known--;
    }
    for (int64_t i = 0; i < n; i++) {
        d->step[d->known * n + i] = d->next[i] - d->at[i];
        d->change[d->known * n + i] = d->next_slope[i] - d->slope[i];
    }
    d->product[d->known++] = product;
}

/* One step along the direction, shorter until F is lower by enough; *moved is false if it never
 * is. */
static gram_status take_step(gram_context *g, struct ard *a, struct descent *d, bool *moved)
{
    const int64_t n = d->count;
    double length = 1, value = INFINITY;
    const double promised = dot(n, d->slope, d->direction);

    *moved = false;
    for (int shrinks = 0; !*moved && shrinks <= SHRINKS && promised < 0; shrinks++, length *= 0.3) {
        for (int64_t i = 0; i < n; i++)
            d->next[i] = d->at[i] + length * d->direction[i];
        d->next[n - 1] = fmin(fmax(d->next[n - 1], log(least_ridge)), log(most_ridge));
        TRY(evaluate(g, a, d->next, &value, d->next_slope));
        *moved = value <= d->value + enough * length * promised;
    }
    if (!*moved)
        return GRAM_OK;
    remember(d);
    d->value = value;
    memcpy(d->at, d->next, (size_t)n * sizeof(double));
    memcpy(d->slope, d->next_slope, (size_t)n * sizeof(double));
    return GRAM_OK;
}

/* A round of steps from the lengths and the ridge that are given as logarithms, which become those
 * of the last one; whether there was one. */
static gram_status descend(gram_context *g, struct ard *a, double *at, bool *any)
{
    const int64_t n = a->width + 1;
    const size_t bytes = (size_t)(n * (4 + 2 * MEMORY)) * sizeof(double);
    double *memory = gram_alloc(g, bytes);
    struct descent d = {.count = n, .at = at, .slope = memory};
    bool moved = true;
    gram_status status;

    if (!memory)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    d.next = d.slope + n;
    d.next_slope = d.next + n;
    d.direction = d.next_slope + n;
    d.step = d.direction + n;
    d.change = d.step + MEMORY * n;
    status = evaluate(g, a, at, &d.value, d.slope);
    for (int i = 0; status == GRAM_OK && isfinite(d.value) && moved && i < STEPS; i++) {
        set_direction(&d);
        status = take_step(g, a, &d, &moved);
        *any = *any || moved;
    }
    gram_free(g, memory, bytes);
    return status;
}

/* ---- The metric ------------------------------------------------------------------------------ */

/* L in medians of the distance of z after its features were divided by lengths (the largest weight
 * is then 1): lengths come in units in which L was e->bandwidth. */
static gram_status medians_of(gram_context *g, const struct machine_gradients *e,
                              const struct machine_metric *scale, double bandwidth, double *out)
{
    struct machine_params unit = *e->params;
    struct machine_data z = *e->z;
    struct krr_array there = {0};
    double median = 1;
    gram_status status =
        gram_krr_allocate(g, (size_t)(z.rows * z.width) * gram_dtype_size(z.dtype) + 1, &there);

    unit.bandwidth = 1;
    if (status == GRAM_OK)
        status = gram_machine_metric_apply(g, scale, z.dtype, z.rows, z.x, there.data);
    z.x = there.data;
    if (status == GRAM_OK)
        status = gram_machine_bandwidth(g, &unit, &z, &median);
    gram_krr_free(g, &there);
    *out = bandwidth / median;
    return status;
}

/* The metric, the bandwidth and the ridge of lengths and a ridge that are given as logarithms. */
static gram_status take(gram_context *g, const struct machine_gradients *e, const double *at,
                        struct machine_metric *metric, struct machine_learned *learned)
{
    const bool relative = e->params->relative_bandwidth;
    struct machine_metric scale = {0};
    double most = 0;
    gram_status status = gram_machine_metric_create(g, metric->width, false, &scale);

    for (int64_t j = 0; j < metric->width; j++)
        most = fmax(most, relative ? metric->w[j] * exp(-at[j]) : 1);
    most = most > 0 ? most : 1;
    for (int64_t j = 0; status == GRAM_OK && j < metric->width; j++) {
        scale.w[j] = exp(-at[j]) / most;
        metric->w[j] *= scale.w[j];
    }
    if (learned)
        learned->ridge = exp(at[metric->width]);
    if (status == GRAM_OK && relative && learned)
        status = medians_of(g, e, &scale, e->bandwidth / most, &learned->bandwidth);
    gram_machine_metric_destroy(&scale);
    return status;
}

gram_status gram_machine_metric_ard(gram_context *g, const struct machine_gradients *e,
                                    struct machine_metric *metric, struct machine_learned *learned)
{
    const size_t bytes = (size_t)(metric->width + 1) * sizeof(double);
    double *at = gram_alloc(g, bytes);
    struct ard a = {0};
    bool any = false;
    gram_status status;

    if (!at)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    memset(at, 0, bytes); /* every length is 1 */
    at[metric->width] = log(fmin(fmax(e->params->ridge, least_ridge), most_ridge));
    status = ard_open(g, e, &a);
    if (status == GRAM_OK)
        status = descend(g, &a, at, &any);
    ard_close(g, &a);
    if (learned)
        *learned = (struct machine_learned){e->params->bandwidth, e->params->ridge};
    if (status == GRAM_OK && any)
        status = take(g, e, at, metric, learned);
    gram_free(g, at, bytes);
    return status;
}

/*
 * cpu_krylov.c - the Krylov solver's tall matrices on the CPU
 *
 * V, Q and W are stored by rows: the elements of one row lie together.  Sums over n have a fixed
 * number of parts, so results do not depend on the number of threads.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/random.h"
#include "core/threads.h"
#include "cpu/cpu_kernels.h"
#include "cpu_eigh.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
    PARTS = 6,      /* of sums over n */
    TURN_ROWS = 512 /* of V that are turned at a time */
};

/* ---- Numbers of the dtype and doubles -------------------------------------------------------- */

static double get(const struct krylov *z, const char *from, int64_t i)
{
    return z->dtype == GRAM_F32 ? (double)((const float *)from)[i] : ((const double *)from)[i];
}

static void put(const struct krylov *z, char *to, int64_t i, double value)
{
    if (z->dtype == GRAM_F32)
        ((float *)to)[i] = (float)value;
    else
        ((double *)to)[i] = value;
}

static size_t bytes_of(const struct krylov *z, int64_t elements)
{
    return (size_t)elements * z->element;
}

/* The small matrix of a part, of most by block elements at least. */
static char *small_of(const struct krylov *z, int64_t part)
{
    return z->small + (size_t)part * gram_round64(bytes_of(z, z->most * z->block));
}

/* Rows of a part. */
static void part_rows(const struct krylov *z, int64_t part, int64_t *first, int64_t *rows)
{
    int64_t each = gram_ceil_div(z->n, PARTS);

    *first = gram_least(part * each, z->n);
    *rows = gram_least(each, z->n - *first);
}

/* ---- Sums over rows -------------------------------------------------------------------------- */

/* One product of a tall matrix with another. */
struct tall {
    const struct krylov *z;
    int64_t dim, cols;
    bool own; /* W^T W instead of V^T W */
};

static void project_part(void *arg, int64_t part, int thread)
{
    const struct tall *job = arg;
    const struct krylov *z = job->z;
    int64_t first, rows, ld = job->own ? job->cols : z->most;
    struct gram_blas_matrix left, right;

    (void)thread;
    part_rows(z, part, &first, &rows);
    left = (struct gram_blas_matrix){(job->own ? z->w : z->v) + bytes_of(z, first * ld), ld, false};
    right = (struct gram_blas_matrix){z->w + bytes_of(z, first * job->cols), job->cols, true};
    gram_blas_gemm(z->dtype, (int64_t[3]){job->dim, job->cols, rows}, 1, left, right, 0,
                   small_of(z, part), job->dim);
}

static void project(const struct tall *job, double *h)
{
    const struct krylov *z = job->z;

    if (job->dim == 0)
        return;
    gram_blas_for(z->g, PARTS, project_part, (void *)job);
    for (int64_t i = 0; i < job->dim * job->cols; i++) {
        h[i] = get(z, small_of(z, 0), i);
        for (int64_t part = 1; part < PARTS; part++)
            h[i] += get(z, small_of(z, part), i);
    }
}

static void project_out(const struct krylov *z, int64_t dim, int64_t cols, double *h)
{
    project(&(struct tall){z, dim, cols, false}, h);
}

static void gram_of(const struct krylov *z, int64_t cols, double *gram)
{
    project(&(struct tall){z, cols, cols, true}, gram);
}

static void subtract_part(void *arg, int64_t part, int thread)
{
    const struct tall *job = arg;
    const struct krylov *z = job->z;
    const struct gram_blas_matrix h = {small_of(z, 0), job->dim, true};
    int64_t first, rows;

    (void)thread;
    part_rows(z, part, &first, &rows);
    gram_blas_gemm(z->dtype, (int64_t[3]){job->cols, rows, job->dim}, -1, h,
                   (struct gram_blas_matrix){z->v + bytes_of(z, first * z->most), z->most, false},
                   1, z->w + bytes_of(z, first * job->cols), job->cols);
}

static void subtract(const struct krylov *z, int64_t dim, int64_t cols, const double *h)
{
    struct tall job = {z, dim, cols, false};

    if (dim == 0)
        return;
    for (int64_t i = 0; i < dim * cols; i++)
        put(z, small_of(z, 0), i, h[i]);
    gram_blas_for(z->g, PARTS, subtract_part, &job);
}

/* ---- Columns --------------------------------------------------------------------------------- */

static gram_status append(struct krylov *z, int64_t at)
{
    for (int64_t row = 0; row < z->n; row++)
        memcpy(z->v + bytes_of(z, row * z->most + at), z->q + bytes_of(z, row * z->width),
               bytes_of(z, z->width));
    return GRAM_OK;
}

static gram_status extract(struct krylov *z, int64_t at, int64_t cols)
{
    for (int64_t row = 0; row < z->n; row++)
        memcpy(z->q + bytes_of(z, row * cols), z->v + bytes_of(z, row * z->most + at),
               bytes_of(z, cols));
    return GRAM_OK;
}

static gram_status residuals_of(struct krylov *z, int64_t at, int64_t cols, double *values,
                                double *residuals)
{
    for (int64_t c = 0; c < cols; c++) {
        double value = 0, length = 0, sum = 0;
        for (int64_t row = 0; row < z->n; row++) {
            double v = get(z, z->v, row * z->most + at + c);
            value += v * get(z, z->w, row * cols + c);
            length += v * v;
        }
        value /= length;
        for (int64_t row = 0; row < z->n; row++) {
            double r = get(z, z->w, row * cols + c) - value * get(z, z->v, row * z->most + at + c);
            sum += r * r;
        }
        values[c] = value;
        residuals[c] = sqrt(sum / length);
    }
    return GRAM_OK;
}

static gram_status turn(struct krylov *z, int64_t dim, int64_t cols, const double *s)
{
    char *turned = z->w, *rotation = z->small;
    int64_t most_rows = gram_least(TURN_ROWS, gram_most(1, z->n * z->block / cols));

    for (int64_t c = 0; c < cols; c++)
        for (int64_t i = 0; i < dim; i++)
            put(z, rotation, c * dim + i, s[c * z->most + i]);
    for (int64_t first = 0; first < z->n; first += most_rows) {
        int64_t rows = gram_least(most_rows, z->n - first);
        char *v = z->v + bytes_of(z, first * z->most);
        gram_blas_gemm(z->dtype, (int64_t[3]){cols, rows, dim}, 1,
                       (struct gram_blas_matrix){rotation, dim, true},
                       (struct gram_blas_matrix){v, z->most, false}, 0, turned, cols);
        for (int64_t row = 0; row < rows; row++)
            memcpy(v + bytes_of(z, row * z->most), turned + bytes_of(z, row * cols),
                   bytes_of(z, cols));
    }
    return GRAM_OK;
}

/* ---- Orthonormal blocks ---------------------------------------------------------------------- */

/* Normal numbers by the polar method (Marsaglia and Bray, 1964). */
static double normal(uint64_t *state)
{
    double x, y, r;

    do {
        x = 2 * gram_random_unit(state) - 1;
        y = 2 * gram_random_unit(state) - 1;
        r = x * x + y * y;
    } while (r >= 1 || r == 0);
    return x * sqrt(-2 * log(r) / r);
}

static gram_status fill_random(struct krylov *z, int64_t cols)
{
    for (int64_t i = 0; i < z->n * cols; i++)
        put(z, z->w, i, normal(&z->random));
    return GRAM_OK;
}

/* W m for an m of width by width in doubles, to Q. */
struct combine {
    const struct krylov *z;
    const double *m;
};

static void combine_part(void *arg, int64_t part, int thread)
{
    const struct combine *job = arg;
    const struct krylov *z = job->z;
    int64_t first, rows, b = z->width;

    (void)thread;
    part_rows(z, part, &first, &rows);
    gram_blas_gemm(z->dtype, (int64_t[3]){b, rows, b}, 1,
                   (struct gram_blas_matrix){small_of(z, 0), b, true},
                   (struct gram_blas_matrix){z->w + bytes_of(z, first * b), b, false}, 0,
                   z->q + bytes_of(z, first * b), b);
}

/*
 * One round: m such that the columns of W m are orthonormal where the Gram matrix says that W has
 * directions, and 0 elsewhere.  Gives the number of directions that are missing; *least is the
 * smallest eigenvalue of the Gram matrix of W's columns at length 1, or a length^2 if that is less:
 * far below 1 if W has lost what it had before.  -1: not a number.
 */
static int64_t whiten(struct krylov *z, double *m, double *least)
{
    double eps = z->dtype == GRAM_F32 ? FLT_EPSILON : DBL_EPSILON;
    int64_t b = z->width, missing = 0;
    double *gram = z->s, *scale = z->s + b * b, *w = scale + b; /* s is free here */

    gram_of(z, b, gram);
    *least = INFINITY;
    for (int64_t i = 0; i < b; i++) {
        double length = gram[i * b + i];
        if (!isfinite(length))
            return -1;
        *least = fmin(*least, length);
        scale[i] = length > 0 ? 1 / sqrt(length) : 0;
        scale[i] = isfinite(scale[i]) ? scale[i] : 0;
    }
    for (int64_t j = 0; j < b; j++)
        for (int64_t i = 0; i < b; i++)
            gram[j * b + i] *= scale[i] * scale[j];
    if (!gram_krylov_small_eigh(z, b, gram, b, w))
        return -1;
    *least = fmin(*least, w[0]);
    for (int64_t j = 0; j < b; j++) {
        bool there = w[j] > 32 * (double)b * eps;
        missing += !there;
        for (int64_t i = 0; i < b; i++)
            m[j * b + i] = there ? scale[i] * gram[j * b + i] / sqrt(w[j]) : 0;
    }
    return missing;
}

/* Q = W m, random in the first columns, which m leaves empty; then Q and W change places. */
static void combine(struct krylov *z, const double *m, int64_t missing)
{
    struct combine job = {z, m};
    int64_t b = z->width;
    char *q = z->q;

    for (int64_t i = 0; i < b * b; i++)
        put(z, small_of(z, 0), i, m[i]);
    gram_blas_for(z->g, PARTS, combine_part, &job);
    for (int64_t row = 0; row < z->n; row++)
        for (int64_t c = 0; c < missing; c++)
            put(z, q, row * b + c, normal(&z->random));
    z->q = z->w;
    z->w = q;
}

static gram_status orthonormalise(struct krylov *z, int64_t dim)
{
    enum {
        ROUNDS = 8 /* two are the rule, random columns take two more */
    };
    double *h = z->other, *m = z->mix, least = 0;

    for (int round = 0; round < ROUNDS; round++) {
        int64_t missing;
        if (round > 0) {
            project_out(z, dim, z->width, h);
            subtract(z, dim, z->width, h);
        }
        missing = whiten(z, m, &least);
        if (missing < 0) {
            z->not_finite = true;
            return GRAM_OK;
        }
        combine(z, m, missing);
        if (round > 0 && missing == 0 && least > 0.5)
            break;
    }
    memcpy(z->q, z->w, bytes_of(z, z->n * z->width));
    return GRAM_OK;
}

/* ---- The table ------------------------------------------------------------------------------- */

/* The small matrices are those of the parts, or a rotation. */
static void take(struct krylov *z, struct gram_layout *l)
{
    const size_t block = bytes_of(z, z->n * z->block);
    const size_t part = gram_round64(bytes_of(z, z->most * z->block));
    const size_t rotation = bytes_of(z, z->most * gram_most(z->keep, z->block));

    gram_take(l, &z->v, bytes_of(z, z->n * z->most));
    gram_take(l, &z->q, block);
    gram_take(l, &z->w, block);
    gram_take(l, &z->small, gram_most_bytes(PARTS * part, rotation));
}

static gram_status expand(struct krylov *z, int64_t dim, int64_t cols)
{
    gram_blas_one_thread(); /* multiply may have changed it */
    project_out(z, dim, cols, z->column);
    subtract(z, dim, cols, z->column);
    gram_of(z, cols, z->gram);
    return GRAM_OK;
}

static gram_status fetch(struct krylov *z)
{
    (void)z;
    return GRAM_OK;
}

const struct krylov_ops cpu_krylov_ops = {
    .take = take,
    .append = append,
    .extract = extract,
    .random = fill_random,
    .project = expand,
    .orthonormalise = orthonormalise,
    .fetch = fetch,
    .residuals = residuals_of,
    .turn = turn,
};

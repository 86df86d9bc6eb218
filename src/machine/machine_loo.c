/*
 * machine_loo.c - leave-one-out outputs of a leaf, for several ridges at once
 *
 * On the CPU gram_krr_path has them.  On a GPU the inverse of A = K + r diag(1 / w) comes from a
 * Cholesky factorisation in f64 with the identity among its right-hand sides: with a = A^-1 y the
 * residual of row i is a_i / (A^-1)_ii.  The identity is made there, and of the inverse only the
 * diagonal comes back.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine.h"
#include <math.h>
#include <string.h>

static size_t entries(const struct machine_loo *loo)
{
    return (size_t)(loo->z->rows * loo->z->outputs);
}

/* ---- On the CPU ------------------------------------------------------------------------------ */

/* Ridges by rows by outputs, where the rows of an output lie side by side. */
static gram_tensor path_of(const struct machine_loo *loo, void *data)
{
    const struct machine_data *z = loo->z;

    return (gram_tensor){
        data,
        z->dtype,
        {            GRAM_CPU,       0},
        3,
        { loo->count, z->rows,          z->outputs},
        { z->rows * z->outputs,       1,             z->rows}
    };
}

static gram_status by_path(gram_context *g, const struct machine_loo *loo, void *matrix,
                           void *residual, void *weights)
{
    const struct machine_data *z = loo->z;
    gram_tensor x = gram_krr_matrix(g, z->x, z->rows, z->width, z->dtype);
    gram_tensor k = gram_krr_matrix(g, matrix, z->rows, z->rows, z->dtype);
    gram_tensor y = gram_krr_matrix(g, z->y, z->rows, z->outputs, z->dtype);
    gram_tensor out = path_of(loo, residual), alpha = path_of(loo, loo->alpha);
    gram_tensor w = gram_vector(weights, z->rows, z->dtype);
    gram_krr_path_options options = GRAM_KRR_PATH_OPTIONS_INIT;
    int32_t failed = 0; /* such ridges have NaN, which loses against every other */
    gram_tensor info = {.data = &failed, .dtype = GRAM_I32};

    y.stride[0] = 1;
    y.stride[1] = z->rows;
    for (int64_t i = 0; z->weights && i < z->rows; i++)
        krr_set_element(z->dtype, weights, i, z->weights[i]);
    options.weights = z->weights ? &w : NULL;
    options.method = GRAM_KRR_PATH_CHOLESKY;
    options.alpha = &alpha;
    TRY(gram_kernel(g, &x, NULL, loo->kernel, &k));
    return gram_krr_path(g, &k, &y, loo->ridge, loo->count, &options, &out, &info);
}

static gram_status on_cpu(gram_context *g, const struct machine_loo *loo)
{
    const struct machine_data *z = loo->z;
    size_t size = gram_dtype_size(z->dtype), n = (size_t)z->rows;
    size_t residuals = gram_round64((size_t)loo->count * entries(loo) * size);
    size_t matrix = gram_round64(n * n * size);
    struct krr_array memory;
    gram_status status;

    TRY(gram_krr_allocate(g, matrix + residuals + n * size, &memory));
    char *at = memory.data;
    status = by_path(g, loo, at, at + matrix, at + matrix + residuals);
    for (int r = 0; status == GRAM_OK && r < loo->count; r++)
        for (size_t i = 0; i < entries(loo); i++) {
            int64_t e = (int64_t)((size_t)r * entries(loo) + i);

            loo->out[e] =
                krr_element(z->dtype, z->y, (int64_t)i) - krr_element(z->dtype, at + matrix, e);
        }
    gram_krr_free(g, &memory);
    return status;
}

/* ---- On a GPU -------------------------------------------------------------------------------- */

/* What a call on a GPU holds, all in f64. */
struct inverse {
    double *y, *diagonal, *ridge; /* y: as the targets are, then the coefficients */
    size_t bytes;
    int64_t *index; /* of rows and elements on the device, twice the rows: see fill and diagonal */
    struct krr_array points, matrix, places, zeros;
    struct krr_array sides; /* the outputs and then the identity, column-major */
};

static void inverse_close(gram_context *g, struct inverse *v)
{
    gram_krr_free(g, &v->points);
    gram_krr_free(g, &v->matrix);
    gram_krr_free(g, &v->places);
    gram_krr_free(g, &v->zeros);
    gram_krr_free(g, &v->sides);
    gram_free(g, v->y, v->bytes);
}

static gram_status inverse_open(gram_context *g, const struct machine_loo *loo, struct inverse *v)
{
    const struct machine_data *z = loo->z;
    const size_t n = (size_t)z->rows, e = entries(loo);

    v->bytes = (e + 2 * n) * sizeof(double) + 2 * n * sizeof(int64_t);
    v->y = gram_alloc(g, v->bytes);
    if (!v->y)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", v->bytes);
    v->diagonal = v->y + e;
    v->ridge = v->diagonal + n;
    v->index = (int64_t *)(void *)(v->ridge + n);
    memset(v->index, 0, n * sizeof *v->index);
    for (size_t i = 0; i < n; i++) {
        v->index[n + i] = (int64_t)(i * (n + 1));
        v->ridge[i] = 0;
    }
    TRY(gram_krr_send(g, v->index, 2 * n * sizeof *v->index, &v->places));
    TRY(gram_krr_send(g, v->ridge, n * sizeof(double), &v->zeros));
    TRY(gram_machine_widen(g, z->dtype, z->x, z->rows * z->width, &v->points));
    TRY(gram_krr_allocate(g, n * n * sizeof(double), &v->matrix));
    return gram_krr_allocate(g, (n * n + e) * sizeof(double), &v->sides);
}

/* The identity, behind the outputs. */
static double *identity_of(const struct machine_loo *loo, const struct inverse *v)
{
    return (double *)v->sides.data + entries(loo);
}

/* The targets and the identity. */
static gram_status fill(gram_context *g, const struct machine_loo *loo, struct inverse *v)
{
    const struct machine_data *z = loo->z;
    double *identity = identity_of(loo, v);
    const struct krr_gather nothing = {GRAM_F64,       z->rows,       z->rows,
                                       v->places.data, v->zeros.data, identity};
    gram_tensor square = gram_krr_matrix(g, identity, z->rows, z->rows, GRAM_F64);

    for (size_t i = 0; i < entries(loo); i++)
        v->y[i] = krr_element(z->dtype, z->y, (int64_t)i);
    for (int64_t i = 0; i < z->rows; i++)
        v->diagonal[i] = 1;
    TRY(gram_krr_store(g, v->sides.data, v->y, entries(loo) * sizeof *v->y));
    TRY(gram_krr_gather(g, &nothing));
    return gram_krr_add_diagonal(g, &square, v->diagonal);
}

/* The coefficients, and the diagonal of the inverse. */
static gram_status fetch(gram_context *g, const struct machine_loo *loo, struct inverse *v)
{
    const int64_t n = loo->z->rows;
    const struct krr_gather diagonal = {
        GRAM_F64, n, 1, (const int64_t *)v->places.data + n, identity_of(loo, v), v->matrix.data};

    TRY(gram_krr_gather(g, &diagonal)); /* the factor is no longer needed */
    TRY(gram_krr_fetch(g, v->diagonal, v->matrix.data, (size_t)n * sizeof(double)));
    return gram_krr_fetch(g, v->y, v->sides.data, entries(loo) * sizeof *v->y);
}

/* The outputs and the coefficients of one ridge; NaN where it is too small. */
static gram_status take_inverse(gram_context *g, const struct machine_loo *loo, struct inverse *v,
                                int r, bool failed)
{
    const struct machine_data *z = loo->z;
    const size_t size = gram_dtype_size(z->dtype), count = entries(loo);
    const size_t from = (size_t)r * count;
    char *alpha = gram_alloc(g, count * size);
    gram_status status;

    if (!alpha)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the coefficients of a leaf");
    status = fetch(g, loo, v);
    for (size_t e = 0; status == GRAM_OK && e < count; e++) {
        const double a = failed ? NAN : v->y[e];

        loo->out[from + e] =
            krr_element(z->dtype, z->y, (int64_t)e) - a / v->diagonal[e % (size_t)z->rows];
        krr_set_element(z->dtype, alpha, (int64_t)e, a);
    }
    if (status == GRAM_OK)
        status = gram_krr_store(g, (char *)loo->alpha + from * size, alpha, count * size);
    gram_free(g, alpha, count * size);
    return status;
}

static gram_status one_ridge(gram_context *g, const struct machine_loo *loo, struct inverse *v,
                             int r)
{
    const struct machine_data *z = loo->z;
    gram_tensor x = gram_krr_matrix(g, v->points.data, z->rows, z->width, GRAM_F64);
    gram_tensor k = gram_krr_matrix(g, v->matrix.data, z->rows, z->rows, GRAM_F64);
    gram_tensor b = gram_krr_matrix(g, v->sides.data, z->rows, z->outputs + z->rows, GRAM_F64);
    gram_status status;

    b.stride[0] = 1;
    b.stride[1] = z->rows;
    for (int64_t i = 0; i < z->rows; i++)
        v->ridge[i] = loo->ridge[r] / (z->weights ? z->weights[i] : 1);
    TRY(fill(g, loo, v));
    TRY(gram_kernel(g, &x, NULL, loo->kernel, &k));
    TRY(gram_krr_add_diagonal(g, &k, v->ridge));
    status = gram_machine_factorise(g, &k, &b);
    if (status != GRAM_OK && status != GRAM_NUMERICAL)
        return status;
    return take_inverse(g, loo, v, r, status == GRAM_NUMERICAL);
}

static gram_status on_gpu(gram_context *g, const struct machine_loo *loo)
{
    struct inverse v = {0};
    gram_status status = inverse_open(g, loo, &v);

    for (int r = 0; status == GRAM_OK && r < loo->count; r++)
        status = one_ridge(g, loo, &v, r);
    inverse_close(g, &v);
    return status;
}

gram_status gram_machine_loo(gram_context *g, const struct machine_loo *loo)
{
    if (gram_context_device(g).type == GRAM_CPU)
        return on_cpu(g, loo);
    return on_gpu(g, loo);
}

int64_t gram_machine_loo_rows(const gram_context *g, double bytes)
{
    /* The matrix in f64 at most, and gram_krr_path's copies of it; or the inverse, twice. */
    size_t each = (gram_context_device(g).type == GRAM_CPU ? 3 : 4) * sizeof(double);

    return (int64_t)sqrt(bytes / (double)each);
}

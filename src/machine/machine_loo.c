/*
 * machine_loo.c - leave-one-out outputs of a leaf, for several ridges at once
 *
 * On the CPU gram_krr_path has them.  On a GPU the inverse of A = K + r diag(1 / w) comes from a
 * Cholesky factorisation in f64 with the identity among its right-hand sides: with a = A^-1 y the
 * residual of row i is a_i / (A^-1)_ii.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine.h"
#include <math.h>

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
    double *right, *ridge; /* right: row-major, the outputs and then the identity */
    int64_t columns;
    size_t bytes;
    struct krr_array points, matrix, sides;
};

static void inverse_close(gram_context *g, struct inverse *v)
{
    gram_krr_free(g, &v->points);
    gram_krr_free(g, &v->matrix);
    gram_krr_free(g, &v->sides);
    gram_free(g, v->right, v->bytes);
}

static gram_status inverse_open(gram_context *g, const struct machine_loo *loo, struct inverse *v)
{
    const struct machine_data *z = loo->z;
    size_t n = (size_t)z->rows;

    v->columns = z->outputs + z->rows;
    v->bytes = (n * (size_t)v->columns + n) * sizeof(double);
    v->right = gram_alloc(g, v->bytes);
    if (!v->right)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", v->bytes);
    v->ridge = v->right + n * (size_t)v->columns;
    TRY(gram_machine_widen(g, z->dtype, z->x, z->rows * z->width, &v->points));
    TRY(gram_krr_allocate(g, n * n * sizeof(double), &v->matrix));
    return gram_krr_allocate(g, n * (size_t)v->columns * sizeof(double), &v->sides);
}

/* The outputs and the coefficients of one ridge; NaN where it is too small. */
static gram_status take_inverse(gram_context *g, const struct machine_loo *loo, struct inverse *v,
                                int r, bool failed)
{
    const struct machine_data *z = loo->z;
    size_t size = gram_dtype_size(z->dtype), from = (size_t)r * entries(loo);
    void *alpha = gram_alloc(g, entries(loo) * size);
    gram_status status;

    if (!alpha)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the coefficients of a leaf");
    status =
        gram_krr_fetch(g, v->right, v->sides.data, (size_t)(z->rows * v->columns) * sizeof(double));
    for (int64_t j = 0; status == GRAM_OK && j < z->outputs; j++)
        for (int64_t i = 0; i < z->rows; i++) {
            int64_t e = j * z->rows + i;
            const double *row = v->right + i * v->columns;
            double a = failed ? NAN : row[j];

            loo->out[from + (size_t)e] = krr_element(z->dtype, z->y, e) - a / row[z->outputs + i];
            krr_set_element(z->dtype, alpha, e, a);
        }
    if (status == GRAM_OK)
        status = gram_krr_store(g, (char *)loo->alpha + from * size, alpha, entries(loo) * size);
    gram_free(g, alpha, entries(loo) * size);
    return status;
}

static gram_status one_ridge(gram_context *g, const struct machine_loo *loo, struct inverse *v,
                             int r)
{
    const struct machine_data *z = loo->z;
    gram_tensor x = gram_krr_matrix(g, v->points.data, z->rows, z->width, GRAM_F64);
    gram_tensor k = gram_krr_matrix(g, v->matrix.data, z->rows, z->rows, GRAM_F64);
    gram_tensor b = gram_krr_matrix(g, v->sides.data, z->rows, v->columns, GRAM_F64);
    gram_status status;

    for (int64_t i = 0; i < z->rows; i++) {
        double *row = v->right + i * v->columns;

        v->ridge[i] = loo->ridge[r] / (z->weights ? z->weights[i] : 1);
        for (int64_t j = 0; j < v->columns; j++)
            row[j] =
                j < z->outputs ? krr_element(z->dtype, z->y, j * z->rows + i) : j - z->outputs == i;
    }
    TRY(gram_krr_store(g, v->sides.data, v->right,
                       (size_t)(z->rows * v->columns) * sizeof(double)));
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

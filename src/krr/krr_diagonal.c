/*
 * krr_diagonal.c - what gram_krr_solve finds of a kernel on its diagonal, and of its symmetry
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "krr_solve.h"
#include <math.h>

enum {
    SYMMETRY_ROWS = 16
};

/* Whether k(x, x) is the same for all x. */
static bool is_constant(const struct krr_problem *p)
{
    return p->kernel.inner == GRAM_DIFFERENCE && p->kernel.function != GRAM_EXPRESSION;
}

/* k(x_i, x_i) of some rows, by kernel matrices of one point each; one is enough where it is the
 * same for all. */
static gram_status load_block(gram_context *g, struct krr_problem *p, int64_t first, int64_t rows,
                              const double *wide)
{
    int64_t count = is_constant(p) ? gram_least(rows, 1) : rows;
    gram_tensor x = gram_krr_matrix(g, wide, count, p->width, GRAM_F64), out;
    struct krr_array there = {0};
    double *diagonal = p->diagonal + first;
    gram_status status;

    TRY(gram_krr_allocate(g, (size_t)count * sizeof(double), &there));
    x.ndim = 3;
    x.shape[1] = 1, x.shape[2] = p->width;
    x.stride[1] = p->width, x.stride[2] = 1;
    out = gram_krr_matrix(g, there.data, count, 1, GRAM_F64);
    out.ndim = 3;
    out.shape[2] = 1, out.stride[2] = 1;
    status = gram_kernel(g, &x, NULL, &p->wide_kernel, &out);
    if (status == GRAM_OK)
        status = gram_krr_fetch(g, diagonal, there.data, (size_t)count * sizeof(double));
    gram_krr_free(g, &there);
    g->call = p->call;
    for (int64_t i = count; i < rows && status == GRAM_OK; i++)
        diagonal[i] = diagonal[0];
    return status;
}

gram_status gram_krr_load_diagonal(gram_context *g, const char *name, struct krr_problem *p)
{
    if (p->rows.read)
        TRY(gram_krr_rows_scan(g, p, load_block));
    else
        TRY(load_block(g, p, 0, p->n, p->wide_x.data));
    for (int64_t i = 0; i < p->n; i++) {
        if (!(p->diagonal[i] >= 0 && p->diagonal[i] < INFINITY))
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "kernel is not positive definite: k(x, x) is %g for row %lld of %s",
                             p->diagonal[i], (long long)i, name);
        p->most_diagonal = fmax(p->most_diagonal, p->diagonal[i]);
    }
    return GRAM_OK;
}

/* Some rows of x in f64, `step` rows apart, where the context computes. */
static gram_status sample(gram_context *g, struct krr_problem *p, int64_t count, int64_t step,
                          struct krr_array *read, gram_tensor *x)
{
    int64_t row[SYMMETRY_ROWS];
    struct krr_array narrow = {0};
    size_t bytes = (size_t)(count * p->width) * gram_dtype_size(p->dtype);
    gram_status status;

    *x = gram_krr_matrix(g, p->wide_x.data, count, p->width, GRAM_F64);
    x->stride[0] = step * p->width;
    if (!p->rows.read)
        return GRAM_OK;
    for (int64_t i = 0; i < count; i++)
        row[i] = i * step;
    status = gram_krr_allocate(g, bytes, &narrow);
    if (status == GRAM_OK)
        status = gram_krr_rows_load(g, p, row, count, narrow.data);
    if (status == GRAM_OK)
        status = gram_krr_widen(g, "x", (int64_t[2]){count, p->width}, p->dtype, &narrow, read);
    gram_krr_free(g, &narrow);
    *x = gram_krr_matrix(g, read->data, count, p->width, GRAM_F64);
    return status;
}

gram_status gram_krr_check_expression(gram_context *g, struct krr_problem *p)
{
    int64_t count = gram_least(p->n, SYMMETRY_ROWS), step = count > 0 ? p->n / count : 1;
    gram_tensor x, y, out;
    double k[SYMMETRY_ROWS * SYMMETRY_ROWS] = {0};
    struct krr_array there = {0}, read = {0};
    gram_status status;

    if (p->kernel.function != GRAM_EXPRESSION)
        return GRAM_OK;
    TRY(gram_krr_allocate(g, sizeof k, &there));
    status = sample(g, p, count, step, &read, &x);
    y = x;
    out = gram_krr_matrix(g, there.data, count, count, GRAM_F64);
    if (status == GRAM_OK)
        status = gram_kernel(g, &x, &y, &p->wide_kernel, &out);
    if (status == GRAM_OK)
        status = gram_krr_fetch(g, k, there.data, (size_t)(count * count) * sizeof *k);
    gram_krr_free(g, &read);
    gram_krr_free(g, &there);
    TRY(status);
    g->call = p->call;
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < i; j++) {
            double one = k[i * count + j], other = k[j * count + i];

            if (fabs(one - other) > 1e-6 * (fabs(one) + fabs(other)))
                return gram_fail(g, GRAM_INVALID_ARGUMENT,
                                 "kernel.expression is not symmetric: it is %g for the rows %lld "
                                 "and %lld of x, and %g the other way",
                                 one, (long long)(i * step), (long long)(j * step), other);
        }
    return GRAM_OK;
}

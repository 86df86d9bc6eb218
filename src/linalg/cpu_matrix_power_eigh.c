/*
 * cpu_matrix_power_eigh.c - powers by the eigendecomposition, always in double
 *
 * For f32 this is as fast as LAPACK's f32 driver within a factor of two and the only way that is
 * right for condition numbers above 1e5.  X = (V f(L)^(1/2)) (V f(L)^(1/2))^T by syrk: half of the
 * work of a product, and exactly symmetric.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "cpu_matrix_power.h"
#include <float.h>
#include <math.h>

/* Scratch of one item, in elements of double. */
struct eigh_scratch {
    double *v, *work, *values, *more; /* more: two matrices for the estimate */
    int32_t *iwork;
    int64_t lwork, liwork;
};

static struct eigh_scratch lay_out(int64_t n, char *memory)
{
    struct eigh_scratch s = {0};
    size_t matrix = gram_round64((size_t)(n * n) * sizeof(double)), at = 0;

    gram_blas_syevd_sizes(n, &s.lwork, &s.liwork);
    s.v = (double *)(void *)(memory + at);
    at += matrix;
    s.work = (double *)(void *)(memory + at);
    at += gram_round64((size_t)s.lwork * sizeof(double));
    s.values = (double *)(void *)(memory + at);
    at += gram_round64((size_t)n * sizeof(double));
    s.iwork = (int32_t *)(void *)(memory + at);
    at += gram_round64((size_t)s.liwork * sizeof(int32_t));
    s.more = (double *)(void *)(memory + at);
    return s;
}

size_t cpu_matrix_power_eigh_bytes(int64_t n, bool estimate)
{
    int64_t lwork, liwork;

    gram_blas_syevd_sizes(n, &lwork, &liwork);
    return (estimate ? 3 : 1) * gram_round64((size_t)(n * n) * sizeof(double)) +
           gram_round64((size_t)lwork * sizeof(double)) + gram_round64((size_t)n * sizeof(double)) +
           gram_round64((size_t)liwork * sizeof(int32_t));
}

/* The ridge of A', and whether the power exists; values are ascending. */
static gram_power_outcome check_values(struct power_work *w, const double *values)
{
    const struct gram_matrix_power_op *op = w->plan->op;
    double least = values[0], most = values[w->n - 1], n = (double)w->n;
    double eps = op->a.dtype == GRAM_F32 ? (double)FLT_EPSILON : DBL_EPSILON;

    w->shift = cpu_matrix_power_ridge(w, fmax(least, 0), most);
    if (op->factor)
        return GRAM_POWER_DONE;
    if (op->floor > 0 && (op->numerator > 0 || fmax(most, 0) + w->shift > 0))
        return GRAM_POWER_DONE;
    if (least < -fmax(4 * n * eps * fmax(most, -least), w->shift))
        return GRAM_POWER_NOT_DEFINITE;
    if (op->numerator < 0 &&
        fmax(least, 0) + w->shift <= n * DBL_EPSILON * (fmax(most, 0) + w->shift))
        return GRAM_POWER_NOT_DEFINITE;
    return GRAM_POWER_DONE;
}

gram_power_outcome cpu_matrix_power_eigh(struct power_work *w)
{
    const struct gram_matrix_power_op *op = w->plan->op;
    struct eigh_scratch s = lay_out(w->n, w->memory);
    int64_t n = w->n;
    double low; /* the least eigenvalue that counts */
    gram_power_outcome outcome;

    cpu_matrix_power_load(w, s.v);
    if (gram_blas_syevd(GRAM_F64, GRAM_LOWER, n, s.v, n, s.values, s.work, s.lwork, s.iwork,
                        s.liwork))
        return GRAM_POWER_NOT_CONVERGED;
    outcome = check_values(w, s.values);
    if (outcome)
        return outcome;
    low = op->floor * (fmax(s.values[n - 1], 0) + w->shift);
    for (int64_t j = 0; j < n; j++) {
        double root =
            sqrt(pow(fmax(fmax(s.values[j], 0) + w->shift, low), gram_power_exponent(op)));
        for (int64_t i = 0; i < n; i++)
            s.v[i + j * n] *= root;
    }
    w->x = s.work;
    cpu_matrix_power_symmetric(w, s.v, s.v, w->x); /* of v and its transpose */
    w->spare[0] = s.v;
    w->spare[1] = s.work + n * n;
    w->spare[2] = s.more;
    w->spare[3] = s.more + gram_round64((size_t)(n * n) * sizeof(double)) / sizeof(double);
    return GRAM_POWER_DONE;
}

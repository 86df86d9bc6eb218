/*
 * cpu_soap_basis.c - the eigenbasis of a factor: eigenvectors at first, then steps of power
 * iteration
 *
 * Every vector of a basis belongs to one coordinate of the moments.  Power iteration keeps the
 * vectors in their order except that it sorts them by estimated eigenvalue; the caller sorts the
 * second moment in the same way.  LAPACK is column-major: the rows of a basis are its columns.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "cpu_soap.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Scratch, in doubles: a matrix, then LAPACK's work, which has room for two more matrices. */
struct basis_scratch {
    double *product, *work, *values;
    int32_t *iwork;
    int64_t lwork, liwork;
};

static void work_sizes(int64_t n, int64_t *lwork, int64_t *liwork)
{
    gram_blas_syevd_sizes(n, lwork, liwork);
    *lwork = gram_most(*lwork, 2 * n * n + n + gram_blas_qr_work(n));
    *liwork = gram_most(*liwork, n);
}

static struct basis_scratch lay_out(int64_t n, char *memory)
{
    struct basis_scratch s = {0};
    size_t at = gram_round64((size_t)(n * n) * sizeof(double));

    work_sizes(n, &s.lwork, &s.liwork);
    s.product = (double *)(void *)memory;
    s.work = (double *)(void *)(memory + at);
    at += gram_round64((size_t)s.lwork * sizeof(double));
    s.values = (double *)(void *)(memory + at);
    at += gram_round64((size_t)n * sizeof(double));
    s.iwork = (int32_t *)(void *)(memory + at);
    return s;
}

size_t cpu_soap_basis_bytes(int64_t n)
{
    int64_t lwork, liwork;

    work_sizes(n, &lwork, &liwork);
    return gram_round64((size_t)(n * n) * sizeof(double)) +
           gram_round64((size_t)lwork * sizeof(double)) + gram_round64((size_t)n * sizeof(double)) +
           gram_round64((size_t)liwork * sizeof(int32_t));
}

/* ---- The first basis ------------------------------------------------------------------------- */

/* Replaces a by its eigenvectors, that of the largest eigenvalue first; false: LAPACK failed. */
static bool eigenvectors(gram_dtype dtype, int64_t n, void *a, const struct basis_scratch *s)
{
    size_t column = (size_t)n * gram_dtype_size(dtype);

    if (gram_blas_syevd(dtype, GRAM_LOWER, n, a, n, s->values, s->work, s->lwork, s->iwork,
                        s->liwork))
        return false;
    for (int64_t j = 0; j < n / 2; j++) {
        char *left = (char *)a + (size_t)j * column,
             *right = (char *)a + (size_t)(n - 1 - j) * column;
        memcpy(s->work, left, column);
        memcpy(left, right, column);
        memcpy(right, s->work, column);
    }
    return cpu_optimizer_math(dtype)->finite(n * n, a);
}

bool cpu_soap_basis_first(gram_dtype dtype, int64_t n, const void *factor, void *q, void *scratch)
{
    const struct cpu_optimizer_math *kernels = cpu_optimizer_math(dtype);
    struct basis_scratch s = lay_out(n, scratch);

    if (!kernels->finite(n * n, factor))
        return false; /* with such numbers LAPACK may not return */
    memcpy(s.product, factor, (size_t)(n * n) * gram_dtype_size(dtype));
    if (eigenvectors(dtype, n, s.product, &s)) {
        memcpy(q, s.product, (size_t)(n * n) * gram_dtype_size(dtype));
        return true;
    }
    kernels->widen(n * n, factor, s.product);
    if (dtype == GRAM_F64 || !eigenvectors(GRAM_F64, n, s.product, &s))
        return false;
    kernels->narrow(n * n, s.product, q);
    return true;
}

/* ---- The next one ---------------------------------------------------------------------------- */

struct estimate {
    double value;
    int64_t column;
};

static int by_value_descending(const void *left, const void *right)
{
    const struct estimate *a = left, *b = right;

    if (a->value != b->value)
        return a->value > b->value ? -1 : 1;
    return a->column < b->column ? -1 : 1;
}

/* Sets order to the vectors by their estimated eigenvalues q . product, the largest first. */
static void sort_columns(gram_dtype dtype, int64_t n, const void *q, const struct basis_scratch *s,
                         int32_t *order)
{
    struct estimate *estimates = (struct estimate *)(void *)s->work;
    int64_t column = n * (int64_t)gram_dtype_size(dtype);

    for (int64_t j = 0; j < n; j++)
        estimates[j] = (struct estimate){
            .value = cpu_optimizer_math(dtype)->dot(n, (const char *)q + j * column,
                                                    (const char *)s->product + j * column),
            .column = j,
        };
    qsort(estimates, (size_t)n, sizeof *estimates, by_value_descending);
    for (int64_t j = 0; j < n; j++)
        order[j] = (int32_t)estimates[j].column;
}

/* True if the off-diagonal part of q^T product has at most skip times its norm. */
static bool fits(gram_dtype dtype, int64_t n, const void *q, double skip,
                 const struct basis_scratch *s)
{
    const struct cpu_optimizer_math *kernels = cpu_optimizer_math(dtype);
    struct gram_blas_matrix left = {.data = q, .ld = n, .transposed = true};
    struct gram_blas_matrix right = {.data = s->product, .ld = n};

    gram_blas_gemm(dtype, (int64_t[]){n, n, n}, 1, left, right, 0, s->work, n);
    return kernels->off_diagonal(n, s->work) <= skip * skip * kernels->dot(n * n, s->work, s->work);
}

/* Computes the next basis to s->work, in dtype. */
static enum soap_outcome iterate(gram_dtype dtype, int64_t n, const void *factor, const void *q,
                                 double skip, const struct basis_scratch *s, int32_t *order)
{
    const struct cpu_optimizer_math *kernels = cpu_optimizer_math(dtype);
    struct gram_blas_matrix left = {.data = factor, .ld = n}, right = {.data = q, .ld = n};
    struct cpu_mode columns = {.before = 1, .n = n, .after = n};

    gram_blas_gemm(dtype, (int64_t[]){n, n, n}, 1, left, right, 0, s->product, n);
    if (!kernels->finite(n * n, s->product))
        return SOAP_FAILED;
    if (skip > 0 && fits(dtype, n, q, skip, s))
        return SOAP_KEPT;
    sort_columns(dtype, n, q, s, order);
    kernels->permute(&columns, order, s->product, s->work);
    gram_blas_qr(dtype, n, s->work, s->values, s->work + n * n);
    return kernels->finite(n * n, s->work) ? SOAP_REFRESHED : SOAP_FAILED;
}

enum soap_outcome cpu_soap_basis_next(gram_dtype dtype, int64_t n, const struct soap_factor *from,
                                      void *next, int32_t *order, void *scratch)
{
    const struct cpu_optimizer_math *kernels = cpu_optimizer_math(dtype);
    struct basis_scratch s = lay_out(n, scratch);
    double *factor = s.work, *q = s.work + n * n;
    enum soap_outcome outcome = iterate(dtype, n, from->factor, from->q, from->skip, &s, order);

    if (outcome == SOAP_REFRESHED)
        memcpy(next, s.work, (size_t)(n * n) * gram_dtype_size(dtype));
    if (outcome != SOAP_FAILED || dtype == GRAM_F64)
        return outcome;
    kernels->widen(n * n, from->factor, factor);
    kernels->widen(n * n, from->q, q);
    outcome = iterate(GRAM_F64, n, factor, q, 0, &s, order);
    if (outcome == SOAP_REFRESHED)
        kernels->narrow(n * n, s.work, next);
    return outcome;
}

/*
 * blas_eigh.c - LAPACK's parts of a symmetric eigenproblem: to tridiagonal form, a range of its
 * pairs, and back
 *
 * SPDX-License-Identifier: MIT
 */
#include "blas.h"
#include "blas_fortran.h"
#include "blas_threads.h"
#include <float.h>

#define DECLARE(real, s)                                                                          \
  void B(s##sytrd_)(const char *uplo, const bint *n, real *a, const bint *lda, real *d, real *e,  \
                    real *tau, real *work, const bint *lwork, bint *info, size_t);                \
  void B(s##sterf_)(const bint *n, real *d, real *e, bint *info);                                 \
  void B(s##stebz_)(const char *range, const char *order, const bint *n, const real *vl,          \
                    const real *vu, const bint *il, const bint *iu, const real *abstol,           \
                    const real *d, const real *e, bint *m, bint *nsplit, real *w, bint *iblock,   \
                    bint *isplit, real *work, bint *iwork, bint *info, size_t, size_t);           \
  void B(s##stein_)(const bint *n, const real *d, const real *e, const bint *m, const real *w,    \
                    const bint *iblock, const bint *isplit, real *z, const bint *ldz, real *work, \
                    bint *iwork, bint *ifail, bint *info);                                        \
  void B(s##ormtr_)(const char *side, const char *uplo, const char *trans, const bint *m,         \
                    const bint *n, const real *a, const bint *lda, const real *tau, real *c,      \
                    const bint *ldc, real *work, const bint *lwork, bint *info, size_t, size_t,   \
                    size_t);
DECLARE(float, s)
DECLARE(double, d)

enum {
    WORK_BLOCK = 64,      /* LAPACK's blocks are of 32 columns, ormtr's of up to 64 */
    WORK_REFLECTOR = 4160 /* and ormtr keeps a triangle of 65 by 64 */
};

int64_t gram_blas_eigh_work(int64_t n)
{
    return WORK_BLOCK * n + WORK_REFLECTOR;
}

static bint work_size(int64_t n)
{
    int64_t size = gram_blas_eigh_work(n);

    return size > INT_MAX ? INT_MAX : (bint)size;
}

/* NOLINTBEGIN(readability-function-size): the arguments are those of LAPACK */

void gram_blas_sytrd(gram_dtype dtype, gram_uplo uplo, int64_t n, void *a, int64_t lda, void *d,
                     void *e, void *tau, void *work)
{
    bint bn = (bint)n, la = gram_blas_lead(lda), lw = work_size(n), info = 0;
    const char *u = uplo == GRAM_LOWER ? "L" : "U";
    bool lent = gram_blas_begin(gram_blas_cube(n, n, n));

    if (dtype == GRAM_F32)
        B(ssytrd_)(u, &bn, a, &la, d, e, tau, work, &lw, &info, 1);
    else
        B(dsytrd_)(u, &bn, a, &la, d, e, tau, work, &lw, &info, 1);
    gram_blas_end(lent);
}

void gram_blas_ormtr(gram_dtype dtype, gram_uplo uplo, int64_t n, int64_t m, const void *a,
                     int64_t lda, const void *tau, void *c, int64_t ldc, void *work)
{
    bint bn = (bint)n, bm = (bint)m, la = gram_blas_lead(lda), lc = gram_blas_lead(ldc);
    bint lw = work_size(n), info = 0;
    const char *u = uplo == GRAM_LOWER ? "L" : "U";
    bool lent = gram_blas_begin(gram_blas_cube(n, n, m));

    if (dtype == GRAM_F32)
        B(sormtr_)("L", u, "N", &bn, &bm, a, &la, tau, c, &lc, work, &lw, &info, 1, 1, 1);
    else
        B(dormtr_)("L", u, "N", &bn, &bm, a, &la, tau, c, &lc, work, &lw, &info, 1, 1, 1);
    gram_blas_end(lent);
}

/* NOLINTEND(readability-function-size) */

int gram_blas_sterf(gram_dtype dtype, int64_t n, void *d, void *e)
{
    bint bn = (bint)n, info = 0;

    if (dtype == GRAM_F32)
        B(ssterf_)(&bn, d, e, &info);
    else
        B(dsterf_)(&bn, d, e, &info);
    return info;
}

int gram_blas_stebz(struct gram_blas_tridiagonal *t)
{
    bint n = (bint)t->n, il = (bint)t->first, iu = (bint)t->last, m = 0, splits, info = 0;
    const char *range = t->by_value ? "V" : "I";

    /* Twice the smallest number: LAPACK's advice for the most accurate values. */
    if (t->dtype == GRAM_F32) {
        float lower = (float)t->lower, upper = (float)t->upper, tiny = 2 * FLT_MIN;
        B(sstebz_)
        (range, "B", &n, &lower, &upper, &il, &iu, &tiny, t->d, t->e, &m, &splits, t->w, t->block,
         t->split, t->work, t->iwork, &info, 1, 1);
    } else {
        double tiny = 2 * DBL_MIN;
        B(dstebz_)
        (range, "B", &n, &t->lower, &t->upper, &il, &iu, &tiny, t->d, t->e, &m, &splits, t->w,
         t->block, t->split, t->work, t->iwork, &info, 1, 1);
    }
    t->m = m;
    return info;
}

int gram_blas_stein(const struct gram_blas_tridiagonal *t, void *z, int64_t ldz, int32_t *fail)
{
    bint n = (bint)t->n, m = (bint)t->m, lz = gram_blas_lead(ldz), info = 0;
    bool lent = gram_blas_begin(gram_blas_cube(t->n, t->n, t->m));

    if (t->dtype == GRAM_F32)
        B(sstein_)
    (&n, t->d, t->e, &m, t->w, t->block, t->split, z, &lz, t->work, t->iwork, fail, &info);
    else B(dstein_)(&n, t->d, t->e, &m, t->w, t->block, t->split, z, &lz, t->work, t->iwork, fail,
                    &info);
    gram_blas_end(lent);
    return info;
}

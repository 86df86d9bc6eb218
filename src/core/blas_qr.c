/*
 * blas_qr.c - the orthogonal factor of a square matrix, by LAPACK's geqrf and orgqr
 *
 * SPDX-License-Identifier: MIT
 */
#include "blas.h"
#include "blas_fortran.h"
#include "blas_threads.h"

#define DECLARE(real, s)                                                                           \
  void B(s##geqrf_)(const bint *m, const bint *n, real *a, const bint *lda, real *tau, real *work, \
                    const bint *lwork, bint *info);                                                \
  void B(s##orgqr_)(const bint *m, const bint *n, const bint *k, real *a, const bint *lda,         \
                    const real *tau, real *work, const bint *lwork, bint *info);
DECLARE(float, s)
DECLARE(double, d)

enum {
    WORK_BLOCK = 64 /* LAPACK's blocks are of 32 columns */
};

int64_t gram_blas_qr_work(int64_t n)
{
    return WORK_BLOCK * n;
}

void gram_blas_qr(gram_dtype dtype, int64_t n, void *a, void *tau, void *work)
{
    int64_t size = gram_blas_qr_work(n);
    bint bn = (bint)n, la = gram_blas_lead(n), lw = size > INT_MAX ? INT_MAX : (bint)size, info = 0;
    bool lent = gram_blas_begin(gram_blas_cube(n, n, n));

    if (dtype == GRAM_F32) {
        B(sgeqrf_)(&bn, &bn, a, &la, tau, work, &lw, &info);
        B(sorgqr_)(&bn, &bn, &bn, a, &la, tau, work, &lw, &info);
    } else {
        B(dgeqrf_)(&bn, &bn, a, &la, tau, work, &lw, &info);
        B(dorgqr_)(&bn, &bn, &bn, a, &la, tau, work, &lw, &info);
    }
    gram_blas_end(lent);
}

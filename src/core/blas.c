/*
 * blas.c - calls BLAS and LAPACK by their Fortran names, with the prefix of the library linked
 *
 * Products and triangular solves, factorisations, the eigenproblem as a whole and in parts (to
 * tridiagonal form, a range of its pairs, and back), and an orthogonal factor.  Workspace sizes
 * come from LAPACK's documented formulas, not from a query: a query answers in a float, which
 * rounds large sizes down.
 *
 * SPDX-License-Identifier: MIT
 */
#include "blas.h"
#include "blas_process.h"
#include <float.h>
#include <stdio.h>

/* The trailing size_t are the hidden lengths of the character arguments. */
#define DECLARE(real, s)                                                                          \
  void B(s##gemm_)(const char *ta, const char *tb, const bint *m, const bint *n, const bint *k,   \
                   const real *alpha, const real *a, const bint *lda, const real *b,              \
                   const bint *ldb, const real *beta, real *c, const bint *ldc, size_t, size_t);  \
  void B(s##syrk_)(const char *uplo, const char *trans, const bint *n, const bint *k,             \
                   const real *alpha, const real *a, const bint *lda, const real *beta, real *c,  \
                   const bint *ldc, size_t, size_t);                                              \
  void B(s##gemv_)(const char *t, const bint *m, const bint *n, const real *alpha, const real *a, \
                   const bint *lda, const real *x, const bint *incx, const real *beta, real *y,   \
                   const bint *incy, size_t);                                                     \
  void B(s##trsm_)(const char *side, const char *uplo, const char *trans, const char *diag,       \
                   const bint *m, const bint *n, const real *alpha, const real *a,                \
                   const bint *lda, real *b, const bint *ldb, size_t, size_t, size_t, size_t);    \
  void B(s##potrf_)(const char *uplo, const bint *n, real *a, const bint *lda, bint *info,        \
                    size_t);                                                                      \
  void B(s##potri_)(const char *uplo, const bint *n, real *a, const bint *lda, bint *info,        \
                    size_t);                                                                      \
  void B(s##potrs_)(const char *uplo, const bint *n, const bint *nrhs, const real *a,             \
                    const bint *lda, real *b, const bint *ldb, bint *info, size_t);               \
  void B(s##getrf_)(const bint *m, const bint *n, real *a, const bint *lda, bint *ipiv,           \
                    bint *info);                                                                  \
  void B(s##getrs_)(const char *trans, const bint *n, const bint *nrhs, const real *a,            \
                    const bint *lda, const bint *ipiv, real *b, const bint *ldb, bint *info,      \
                    size_t);                                                                      \
  void B(s##pocon_)(const char *uplo, const bint *n, const real *a, const bint *lda,              \
                    const real *anorm, real *rcond, real *work, bint *iwork, bint *info, size_t); \
  void B(s##gecon_)(const char *norm, const bint *n, const real *a, const bint *lda,              \
                    const real *anorm, real *rcond, real *work, bint *iwork, bint *info, size_t); \
  void B(s##syevd_)(const char *jobz, const char *uplo, const bint *n, real *a, const bint *lda,  \
                    real *w, real *work, const bint *lwork, bint *iwork, const bint *liwork,      \
                    bint *info, size_t, size_t);
DECLARE(float, s)
DECLARE(double, d)

enum {
    GEMV_WORK = 32 /* gemv reads its matrix once: a multiplication takes as long as 32 of gemm */
};

/* OpenBLAS only; other libraries do not define it. */
char *B(openblas_get_config)(void) __attribute__((weak));

/* Of other libraries, each NULL where another is linked. */
void B(MKL_Get_Version_String)(char *text, int bytes) __attribute__((weak));
const char *B(bli_info_get_version_str)(void) __attribute__((weak));

const char *gram_blas_name(void)
{
    static _Thread_local char name[200];

    if (B(openblas_get_config))
        return B(openblas_get_config)();
    if (B(MKL_Get_Version_String)) {
        B(MKL_Get_Version_String)(name, sizeof name);
        return name;
    }
    if (B(bli_info_get_version_str)) {
        snprintf(name, sizeof name, "BLIS %s", B(bli_info_get_version_str)());
        return name;
    }
    return "BLAS";
}

bool gram_blas_fits(int64_t m, int64_t n, int64_t k)
{
    return m <= INT_MAX && n <= INT_MAX && k <= INT_MAX;
}

/* One column: gemm would pack the matrix, which costs more than the product. */
static void gemv(gram_dtype dtype, const int64_t mnk[3], double alpha, struct gram_blas_matrix a,
                 const void *x, double beta, void *y)
{
    bint rows = (bint)(a.transposed ? mnk[2] : mnk[0]),
         cols = (bint)(a.transposed ? mnk[0] : mnk[2]);
    bint la = gram_blas_lead(a.ld), one = 1;
    const char *t = a.transposed ? "T" : "N";
    float alpha32 = (float)alpha, beta32 = (float)beta;
    bool lent = gram_blas_begin(GEMV_WORK * (double)rows * (double)cols);

    if (dtype == GRAM_F32)
        B(sgemv_)(t, &rows, &cols, &alpha32, a.data, &la, x, &one, &beta32, y, &one, 1);
    else
        B(dgemv_)(t, &rows, &cols, &alpha, a.data, &la, x, &one, &beta, y, &one, 1);
    gram_blas_end(lent);
}

/* NOLINTBEGIN(readability-function-size): the arguments are those of BLAS and LAPACK */

void gram_blas_gemm(gram_dtype dtype, const int64_t mnk[3], double alpha, struct gram_blas_matrix a,
                    struct gram_blas_matrix b, double beta, void *c, int64_t ldc)
{
    bint m = (bint)mnk[0], n = (bint)mnk[1], k = (bint)mnk[2];
    bint la = gram_blas_lead(a.ld), lb = gram_blas_lead(b.ld), lc = gram_blas_lead(ldc);
    const char *ta = a.transposed ? "T" : "N", *tb = b.transposed ? "T" : "N";
    float alpha32 = (float)alpha, beta32 = (float)beta;
    bool lent;

    if (n == 1 && !b.transposed && m > 0 && k > 0) {
        gemv(dtype, mnk, alpha, a, b.data, beta, c);
        return;
    }
    lent = gram_blas_begin(gram_blas_cube(mnk[0], mnk[1], mnk[2]));
    if (dtype == GRAM_F32)
        B(sgemm_)(ta, tb, &m, &n, &k, &alpha32, a.data, &la, b.data, &lb, &beta32, c, &lc, 1, 1);
    else
        B(dgemm_)(ta, tb, &m, &n, &k, &alpha, a.data, &la, b.data, &lb, &beta, c, &lc, 1, 1);
    gram_blas_end(lent);
}

void gram_blas_syrk(gram_dtype dtype, gram_uplo uplo, int64_t n, int64_t k, double alpha,
                    struct gram_blas_matrix a, double beta, void *c, int64_t ldc)
{
    bint bn = (bint)n, bk = (bint)k, la = gram_blas_lead(a.ld), lc = gram_blas_lead(ldc);
    const char *u = uplo == GRAM_LOWER ? "L" : "U", *t = a.transposed ? "T" : "N";
    float alpha32 = (float)alpha, beta32 = (float)beta;
    bool lent = gram_blas_begin(gram_blas_cube(n, n, k));

    if (dtype == GRAM_F32)
        B(ssyrk_)(u, t, &bn, &bk, &alpha32, a.data, &la, &beta32, c, &lc, 1, 1);
    else
        B(dsyrk_)(u, t, &bn, &bk, &alpha, a.data, &la, &beta, c, &lc, 1, 1);
    gram_blas_end(lent);
}

void gram_blas_trsm(gram_dtype dtype, int64_t m, int64_t n, const void *l, int64_t ldl, void *c,
                    int64_t ldc)
{
    bint bm = (bint)m, bn = (bint)n, ll = gram_blas_lead(ldl), lc = gram_blas_lead(ldc);
    float one32 = 1;
    double one = 1;
    bool lent = gram_blas_begin(gram_blas_cube(m, n, n));

    if (dtype == GRAM_F32)
        B(strsm_)("R", "L", "T", "N", &bm, &bn, &one32, l, &ll, c, &lc, 1, 1, 1, 1);
    else
        B(dtrsm_)("R", "L", "T", "N", &bm, &bn, &one, l, &ll, c, &lc, 1, 1, 1, 1);
    gram_blas_end(lent);
}

int gram_blas_potrf(gram_dtype dtype, gram_uplo uplo, int64_t n, void *a, int64_t lda)
{
    bint bn = (bint)n, la = gram_blas_lead(lda), info = 0;
    const char *u = uplo == GRAM_LOWER ? "L" : "U";
    bool lent = gram_blas_begin(gram_blas_cube(n, n, n));

    if (dtype == GRAM_F32)
        B(spotrf_)(u, &bn, a, &la, &info, 1);
    else
        B(dpotrf_)(u, &bn, a, &la, &info, 1);
    gram_blas_end(lent);
    return info;
}

int gram_blas_potri(gram_dtype dtype, gram_uplo uplo, int64_t n, void *a, int64_t lda)
{
    bint bn = (bint)n, la = gram_blas_lead(lda), info = 0;
    const char *u = uplo == GRAM_LOWER ? "L" : "U";
    bool lent = gram_blas_begin(gram_blas_cube(n, n, n));

    if (dtype == GRAM_F32)
        B(spotri_)(u, &bn, a, &la, &info, 1);
    else
        B(dpotri_)(u, &bn, a, &la, &info, 1);
    gram_blas_end(lent);
    return info;
}

void gram_blas_potrs(gram_dtype dtype, gram_uplo uplo, int64_t n, int64_t rhs, const void *a,
                     int64_t lda, void *b, int64_t ldb)
{
    bint bn = (bint)n, br = (bint)rhs, la = gram_blas_lead(lda), lb = gram_blas_lead(ldb), info = 0;
    const char *u = uplo == GRAM_LOWER ? "L" : "U";
    bool lent = gram_blas_begin(gram_blas_cube(n, n, rhs));

    if (dtype == GRAM_F32)
        B(spotrs_)(u, &bn, &br, a, &la, b, &lb, &info, 1);
    else
        B(dpotrs_)(u, &bn, &br, a, &la, b, &lb, &info, 1);
    gram_blas_end(lent);
}

int gram_blas_getrf(gram_dtype dtype, int64_t n, void *a, int64_t lda, int32_t *pivots)
{
    bint bn = (bint)n, la = gram_blas_lead(lda), info = 0;
    bool lent = gram_blas_begin(gram_blas_cube(n, n, n));

    if (dtype == GRAM_F32)
        B(sgetrf_)(&bn, &bn, a, &la, pivots, &info);
    else
        B(dgetrf_)(&bn, &bn, a, &la, pivots, &info);
    gram_blas_end(lent);
    return info;
}

void gram_blas_getrs(gram_dtype dtype, bool transposed, int64_t n, int64_t rhs, const void *a,
                     int64_t lda, const int32_t *pivots, void *b, int64_t ldb)
{
    bint bn = (bint)n, br = (bint)rhs, la = gram_blas_lead(lda), lb = gram_blas_lead(ldb), info = 0;
    const char *t = transposed ? "T" : "N";
    bool lent = gram_blas_begin(gram_blas_cube(n, n, rhs));

    if (dtype == GRAM_F32)
        B(sgetrs_)(t, &bn, &br, a, &la, pivots, b, &lb, &info, 1);
    else
        B(dgetrs_)(t, &bn, &br, a, &la, pivots, b, &lb, &info, 1);
    gram_blas_end(lent);
}

double gram_blas_pocon(gram_dtype dtype, gram_uplo uplo, int64_t n, const void *a, int64_t lda,
                       double norm, void *work, int32_t *iwork)
{
    bint bn = (bint)n, la = gram_blas_lead(lda), info = 0;
    const char *u = uplo == GRAM_LOWER ? "L" : "U";
    float norm32 = (float)norm, rcond32 = 0;
    double rcond = 0;
    bool lent = gram_blas_begin(gram_blas_cube(n, n, n));

    if (dtype == GRAM_F32)
        B(spocon_)(u, &bn, a, &la, &norm32, &rcond32, work, iwork, &info, 1);
    else
        B(dpocon_)(u, &bn, a, &la, &norm, &rcond, work, iwork, &info, 1);
    gram_blas_end(lent);
    return dtype == GRAM_F32 ? (double)rcond32 : rcond;
}

double gram_blas_gecon(gram_dtype dtype, bool infinity, int64_t n, const void *a, int64_t lda,
                       double norm, void *work, int32_t *iwork)
{
    bint bn = (bint)n, la = gram_blas_lead(lda), info = 0;
    const char *kind = infinity ? "I" : "1";
    float norm32 = (float)norm, rcond32 = 0;
    double rcond = 0;
    bool lent = gram_blas_begin(gram_blas_cube(n, n, n));

    if (dtype == GRAM_F32)
        B(sgecon_)(kind, &bn, a, &la, &norm32, &rcond32, work, iwork, &info, 1);
    else
        B(dgecon_)(kind, &bn, a, &la, &norm, &rcond, work, iwork, &info, 1);
    gram_blas_end(lent);
    return dtype == GRAM_F32 ? (double)rcond32 : rcond;
}

void gram_blas_syevd_sizes(int64_t n, int64_t *lwork, int64_t *liwork)
{
    *lwork = n <= 1 ? 1 : 1 + 6 * n + 2 * n * n;
    *liwork = n <= 1 ? 1 : 3 + 5 * n;
}

int gram_blas_syevd(gram_dtype dtype, gram_uplo uplo, int64_t n, void *a, int64_t lda, void *w,
                    void *work, int64_t lwork, int32_t *iwork, int64_t liwork)
{
    bint bn = (bint)n, la = gram_blas_lead(lda), info = 0;
    bint lw = lwork > INT_MAX ? INT_MAX : (bint)lwork, li = (bint)liwork;
    const char *u = uplo == GRAM_LOWER ? "L" : "U";
    bool lent = gram_blas_begin(gram_blas_cube(n, n, n));

    if (dtype == GRAM_F32)
        B(ssyevd_)("V", u, &bn, a, &la, w, work, &lw, iwork, &li, &info, 1, 1);
    else
        B(dsyevd_)("V", u, &bn, a, &la, w, work, &lw, iwork, &li, &info, 1, 1);
    gram_blas_end(lent);
    return info;
}

/* NOLINTEND(readability-function-size) */

/* ---- Parts of a symmetric eigenproblem ------------------------------------------------------- */

#define DECLARE_EIGH(real, s)                                                                     \
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
DECLARE_EIGH(float, s)
DECLARE_EIGH(double, d)

enum {
    EIGH_BLOCK = 64,      /* LAPACK's blocks are of 32 columns, ormtr's of up to 64 */
    EIGH_REFLECTOR = 4160 /* and ormtr keeps a triangle of 65 by 64 */
};

int64_t gram_blas_eigh_work(int64_t n)
{
    return EIGH_BLOCK * n + EIGH_REFLECTOR;
}

static bint eigh_work_size(int64_t n)
{
    int64_t size = gram_blas_eigh_work(n);

    return size > INT_MAX ? INT_MAX : (bint)size;
}

/* NOLINTBEGIN(readability-function-size): the arguments are those of LAPACK */

void gram_blas_sytrd(gram_dtype dtype, gram_uplo uplo, int64_t n, void *a, int64_t lda, void *d,
                     void *e, void *tau, void *work)
{
    bint bn = (bint)n, la = gram_blas_lead(lda), lw = eigh_work_size(n), info = 0;
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
    bint lw = eigh_work_size(n), info = 0;
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

/* ---- The orthogonal factor of a square matrix, by geqrf and orgqr ---------------------------- */

#define DECLARE_QR(real, s)                                                                        \
  void B(s##geqrf_)(const bint *m, const bint *n, real *a, const bint *lda, real *tau, real *work, \
                    const bint *lwork, bint *info);                                                \
  void B(s##orgqr_)(const bint *m, const bint *n, const bint *k, real *a, const bint *lda,         \
                    const real *tau, real *work, const bint *lwork, bint *info);
DECLARE_QR(float, s)
DECLARE_QR(double, d)

enum {
    QR_BLOCK = 64 /* LAPACK's blocks are of 32 columns */
};

int64_t gram_blas_qr_work(int64_t n)
{
    return QR_BLOCK * n;
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

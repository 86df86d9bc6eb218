/*
 * blas.h - BLAS and LAPACK under one set of names, column-major, f32 and f64
 *
 * Matrices are column-major with a leading dimension, as LAPACK has them: a row-major matrix is its
 * own transpose here.  Sizes are int64_t and are refused by gram_blas_fits() where the library's
 * 32-bit integers cannot hold them.  blas_process.c has the number of threads that BLAS uses: it is
 * the process's own between calls.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_BLAS_H
#define GRAM_BLAS_H
#include "threads.h"
#include "view.h"

/* Before a series of BLAS calls of this thread: they use the context's threads, where they are
 * large enough to gain from it (blas_process.c), or one. */
void gram_blas_threads(const gram_context *g);

/* From true to false, calls of any threads that overlap and want different numbers of threads wait
 * for each other, so that each computes with its own: its sums are in the order that they have
 * where it is alone.  Such spans may overlap. */
void gram_blas_take_turns(bool on);
void gram_blas_one_thread(void);

/* gram_parallel_for with a body that calls BLAS, on one thread each time: a body of
 * gram_parallel_for itself calls no BLAS. */
void gram_blas_for(gram_context *g, int64_t count, gram_loop_body *body, void *arg);

/* As "OpenBLAS 0.3.21 ... SkylakeX", or of MKL and BLIS; "BLAS" where the library does not say, as
 * the reference BLAS.  Valid until this thread asks again. */
const char *gram_blas_name(void);

/* True if every size can be given to BLAS. */
bool gram_blas_fits(int64_t m, int64_t n, int64_t k);

/* A matrix operand: its first element and leading dimension; transposed when used as its own
 * transpose. */
struct gram_blas_matrix {
    const void *data;
    int64_t ld;
    bool transposed;
};

/* c = alpha op(a) op(b) + beta c, c is m by n with leading dimension ldc, op(a) is m by k. */
void gram_blas_gemm(gram_dtype dtype, const int64_t mnk[3], double alpha, struct gram_blas_matrix a,
                    struct gram_blas_matrix b, double beta, void *c, int64_t ldc);

/* One triangle of c = alpha a a^T + beta c (a is n by k; transposed: a is k by n, a^T a). */
void gram_blas_syrk(gram_dtype dtype, gram_uplo uplo, int64_t n, int64_t k, double alpha,
                    struct gram_blas_matrix a, double beta, void *c, int64_t ldc);

/* c = c l^-T: c is m by n with leading dimension ldc, l lower triangular, n by n. */
void gram_blas_trsm(gram_dtype dtype, int64_t m, int64_t n, const void *l, int64_t ldl, void *c,
                    int64_t ldc);

/* LAPACK: the returned info is 0, or i > 0 as LAPACK defines it. */
int gram_blas_potrf(gram_dtype dtype, gram_uplo uplo, int64_t n, void *a, int64_t lda);
/* The same triangle of the inverse, from the factor of potrf; not 0 where its diagonal has a 0. */
int gram_blas_potri(gram_dtype dtype, gram_uplo uplo, int64_t n, void *a, int64_t lda);
void gram_blas_potrs(gram_dtype dtype, gram_uplo uplo, int64_t n, int64_t rhs, const void *a,
                     int64_t lda, void *b, int64_t ldb);
int gram_blas_getrf(gram_dtype dtype, int64_t n, void *a, int64_t lda, int32_t *pivots);
void gram_blas_getrs(gram_dtype dtype, bool transposed, int64_t n, int64_t rhs, const void *a,
                     int64_t lda, const int32_t *pivots, void *b, int64_t ldb);

/* LAPACK's estimate of the reciprocal condition number from a factor: of potrf, in the 1-norm; of
 * getrf, in the infinity norm of a where asked, else in the 1-norm.  norm is a's; work has 4 n
 * elements, iwork n. */
double gram_blas_pocon(gram_dtype dtype, gram_uplo uplo, int64_t n, const void *a, int64_t lda,
                       double norm, void *work, int32_t *iwork);
double gram_blas_gecon(gram_dtype dtype, bool infinity, int64_t n, const void *a, int64_t lda,
                       double norm, void *work, int32_t *iwork);

/* Symmetric eigenproblem by divide and conquer: eigenvalues ascending to w, eigenvectors over a,
 * one per column.  work and iwork as gram_blas_syevd_sizes says. */
int gram_blas_syevd(gram_dtype dtype, gram_uplo uplo, int64_t n, void *a, int64_t lda, void *w,
                    void *work, int64_t lwork, int32_t *iwork, int64_t liwork);
void gram_blas_syevd_sizes(int64_t n, int64_t *lwork, int64_t *liwork);

/*
 * The parts of which a symmetric eigenproblem is made when not everything is wanted.  work has
 * gram_blas_eigh_work(n) numbers.  a = Q T Q^T, T tridiagonal with diagonal d and e beside
 * it, Q left in a and tau.
 */
int64_t gram_blas_eigh_work(int64_t n);
void gram_blas_sytrd(gram_dtype dtype, gram_uplo uplo, int64_t n, void *a, int64_t lda, void *d,
                     void *e, void *tau, void *work);
/* c = Q c, c is n by m. */
void gram_blas_ormtr(gram_dtype dtype, gram_uplo uplo, int64_t n, int64_t m, const void *a,
                     int64_t lda, const void *tau, void *c, int64_t ldc, void *work);

/* All eigenvalues of T, ascending, over d; e is destroyed. */
int gram_blas_sterf(gram_dtype dtype, int64_t n, void *d, void *e);

/* A tridiagonal matrix, a range of its pairs (numbers first to last, from 1, or values in
 * (lower, upper]), and what LAPACK's bisection finds: m values w, block by block. */
struct gram_blas_tridiagonal {
    gram_dtype dtype;
    int64_t n;
    const void *d, *e;
    bool by_value;
    double lower, upper;
    int64_t first, last;
    int64_t m;
    void *w;                /* n */
    int32_t *block, *split; /* n each */
    void *work;             /* gram_blas_eigh_work(n) */
    int32_t *iwork;         /* 3 n */
};
int gram_blas_stebz(struct gram_blas_tridiagonal *t);
/* The vectors of w[0 .. m) to z, n by m, by inverse iteration; fail: m. */
int gram_blas_stein(const struct gram_blas_tridiagonal *t, void *z, int64_t ldz, int32_t *fail);

/* The n by n matrix a becomes the orthogonal factor of a = Q R, its columns in the order
 * of a's; by reflections, so that Q is orthogonal whatever the rank.  tau has n numbers, work
 * gram_blas_qr_work(n). */
int64_t gram_blas_qr_work(int64_t n);
void gram_blas_qr(gram_dtype dtype, int64_t n, void *a, void *tau, void *work);

/* How a strided matrix goes to BLAS: as it lies, or else packed by rows. */

/* True if rows lie one after the other without gaps between columns. */
static inline bool gram_blas_by_rows(const struct gram_view *v)
{
    return (v->cols == 1 || v->col_stride == 1) && (v->rows == 1 || v->row_stride >= v->cols);
}

/* True if BLAS takes v as it lies. */
static inline bool gram_blas_direct(const struct gram_view *v)
{
    bool by_cols =
        (v->rows == 1 || v->row_stride == 1) && (v->cols == 1 || v->col_stride >= v->rows);

    return (gram_blas_by_rows(v) || by_cols) && v->row_stride <= INT32_MAX &&
           v->col_stride <= INT32_MAX;
}

/* So many bytes behind data; NULL where data is NULL, as of a matrix that has no elements. */
static inline void *gram_blas_behind(const void *data, int64_t bytes)
{
    return data ? (char *)data + bytes : NULL;
}

/* The transpose of v as BLAS sees it, of a v that gram_blas_direct says true of; data is the
 * item's.
 */
static inline struct gram_blas_matrix gram_blas_transpose_of(const struct gram_view *v,
                                                             const void *data)
{
    if (gram_blas_by_rows(v))
        return (struct gram_blas_matrix){data, v->rows == 1 ? v->cols : v->row_stride, false};
    return (struct gram_blas_matrix){data, v->cols == 1 ? v->rows : v->col_stride, true};
}
#endif

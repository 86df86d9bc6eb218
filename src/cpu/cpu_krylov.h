/*
 * cpu_krylov.h - a few pairs at one end of a symmetric matrix that is known by its products
 *
 * Block Lanczos with full orthogonalisation and thick restarts.  The basis V (n by most) has
 * orthonormal columns; T = V^T A V is computed whole, column by column of the products, so
 * Rayleigh-Ritz on it is exact whatever the basis holds.  Each step multiplies A by the newest
 * block Q, and what is left of A Q outside of V is the next Q (directions that vanish are replaced
 * by random ones: an invariant subspace is no end).  A full basis is cut down to its best `keep`
 * Ritz vectors and Q.  Pairs are given only when their residual has been computed from a product of
 * its own.
 *
 * Multiple eigenvalues: a random block of b columns finds b copies.  If b values or more above the
 * last wanted one coincide to within the tolerance, more copies may be missing; the run then goes
 * on with a fresh random block, long enough for a copy to grow from its random share to 1 (a bound
 * by Chebyshev polynomials), and ends when nothing new came up.
 *
 * After K. Wu and H. Simon, Thick-restart Lanczos method for large symmetric eigenvalue problems,
 * SIAM J. Matrix Anal. Appl. 22 (2000); A. Stathopoulos and K. Wu, A block orthogonalization
 * procedure with constant synchronization requirements, SIAM J. Sci. Comput. 23 (2002).
 *
 * V, Q and W are stored by rows: the elements of one row lie together.  Sums over n have a fixed
 * number of parts, so results do not depend on the number of threads.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_KRYLOV_H
#define GRAM_CPU_KRYLOV_H
#include "../blas.h"
#include "../threads.h"

enum {
    KRYLOV_PARTS = 6, /* of sums over n */
    KRYLOV_ROWS = 512 /* of V that are turned at a time */
};

/* out = A in, both n by columns, by rows without gaps. */
typedef gram_status krylov_multiply(void *user, int64_t columns, const void *in, void *out);

struct krylov {
    gram_context *g;
    gram_dtype dtype;
    int64_t n, k; /* 0 < k <= n */
    bool smallest;
    double tolerance;      /* of residuals, relative to the norm */
    int64_t most_products; /* of blocks */
    uint64_t seed;
    krylov_multiply *multiply;
    void *user;

    /* Results.  The vectors are the first k columns of V, the best pair first. */
    double norm;       /* the largest |Ritz value| seen: a lower bound of the matrix's 2-norm */
    double residual;   /* the largest of a wanted pair, absolute */
    int64_t converged; /* wanted pairs whose residual is small enough */
    int64_t products;
    bool complete; /* all wanted pairs converged, no copies are missing */
    bool not_finite;
    double *wanted; /* k values, the best first */

    int64_t block; /* columns of Q, no more than n */
    /* Chosen by gram_krylov_plan. */
    int64_t keep, most;
    size_t element, bytes;

    /* Scratch: V, Q, W; small matrices of the dtype, one a part; by columns, in doubles: T and its
     * eigenvectors with leading dimension most, the Gram matrix of W, the Ritz values (the best
     * first), their residuals, the values of an earlier round, V^T W, what makes W orthonormal. */
    char *v, *q, *w, *small;
    double *t, *s, *gram, *values, *residuals, *before, *column, *mix, *work;
    int32_t *iwork;

    int64_t dim;   /* columns of V with a product; Q comes next */
    int64_t width; /* columns of Q */
    double far;    /* the Ritz value at the other end */
    int64_t last;  /* columns of the block that was multiplied last */
    uint64_t random;
    double flops; /* since the last Rayleigh-Ritz */
};

/* Chooses the sizes for n, k, block and dtype, which are set, and the bytes of scratch. */
void gram_krylov_plan(struct krylov *z);
/* Runs in scratch of z->bytes, aligned to 64.  GRAM_OK: the results say what was found.
 * GRAM_CANCELLED, or what multiply returned. */
gram_status gram_krylov_run(struct krylov *z, void *scratch);

/* ---- cpu_krylov_basis.c ---------------------------------------------------------------------- */

/* h (dim by cols, by columns) = V^T W for the first dim columns of V, in doubles. */
void gram_krylov_project(const struct krylov *z, int64_t dim, int64_t cols, double *h);
/* W -= V h */
void gram_krylov_subtract(const struct krylov *z, int64_t dim, int64_t cols, const double *h);
/* gram = W^T W */
void gram_krylov_gram(const struct krylov *z, int64_t cols, double *gram);
/* Q (width columns) = an orthonormal basis of W's, outside of V's first dim columns; random where
 * W has less.  False: not a number came up. */
bool gram_krylov_orthonormalise(struct krylov *z, int64_t dim);
/* Fills W with random normal numbers. */
void gram_krylov_random(struct krylov *z, int64_t cols);
/* Columns [at, at + width) of V = Q, and Q = cols columns of V from at on. */
void gram_krylov_append(struct krylov *z, int64_t at);
void gram_krylov_extract(struct krylov *z, int64_t at, int64_t cols);
/* values[c] = v . (A v) and residuals[c] = |A v - v values[c]| for columns v of V from at on, of
 * which W has the products. */
void gram_krylov_residuals(const struct krylov *z, int64_t at, int64_t cols, double *values,
                           double *residuals);
/* The first cols columns of V become V s; s is dim by cols by columns with leading dimension most.
 */
void gram_krylov_turn(struct krylov *z, int64_t dim, int64_t cols, const double *s);
/* Eigenvalues (ascending) and eigenvectors (over a) of a small matrix of doubles. */
bool gram_krylov_small_eigh(const struct krylov *z, int64_t n, double *a, int64_t ld, double *w);
#endif

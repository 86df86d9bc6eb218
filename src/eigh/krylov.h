/*
 * krylov.h - a few pairs at one end of a symmetric matrix that is known by its products
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
 * Where the first full basis does not have the pairs, products of A give way to products of p(A), a
 * Chebyshev polynomial of degree 3 (krylov.c): steps count for three, orthogonalisation and
 * small eigenproblems for one.
 *
 * After K. Wu and H. Simon, Thick-restart Lanczos method for large symmetric eigenvalue problems,
 * SIAM J. Matrix Anal. Appl. 22 (2000); A. Stathopoulos and K. Wu, A block orthogonalization
 * procedure with constant synchronization requirements, SIAM J. Sci. Comput. 23 (2002); M. Embree,
 * J. Loe and R. Morgan, Polynomial preconditioned Arnoldi with stability control, SIAM J. Sci.
 * Comput. 43 (2021).
 *
 * The iteration (krylov.c) is the same for every device, and has its small matrices on the host, in
 * doubles; what touches V, Q and W is the device's (krylov_ops).
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRYLOV_H
#define GRAM_KRYLOV_H
#include "core/backend.h"
#include "core/scratch.h"

/* out = A in, both n by columns, as the device stores Q. */
typedef gram_status krylov_multiply(void *user, int64_t columns, const void *in, void *out);

struct krylov;

/* The arithmetic on tall matrices.  On a device calls may only queue; those that give numbers to
 * the host wait. */
struct krylov_ops {
    /* Takes the device's scratch: V, Q, W and what else the ops want. */
    void (*take)(struct krylov *z, struct gram_layout *l);
    /* Columns [at, at + width) of V = Q, and Q = cols columns of V from at on. */
    gram_status (*append)(struct krylov *z, int64_t at);
    gram_status (*extract)(struct krylov *z, int64_t at, int64_t cols);
    /* Fills W with random normal numbers. */
    gram_status (*random)(struct krylov *z, int64_t cols);
    /* column (dim by cols, by columns) = V^T W for the first dim columns of V; W -= V column;
     * gram = W^T W.  Both are there after fetch. */
    gram_status (*project)(struct krylov *z, int64_t dim, int64_t cols);
    /* Q (width columns) = an orthonormal basis of W's, outside of V's first dim columns; random
     * where W has less.  Sets not_finite if that came up. */
    gram_status (*orthonormalise)(struct krylov *z, int64_t dim);
    gram_status (*fetch)(struct krylov *z);
    /* values[c] = v . (A v) and residuals[c] = |A v - v values[c]| for columns v of V from at on,
     * of which W has the products. */
    gram_status (*residuals)(struct krylov *z, int64_t at, int64_t cols, double *values,
                             double *residuals);
    /* The first cols columns of V become V s; s is dim by cols by columns with leading dimension
     * most. */
    gram_status (*turn)(struct krylov *z, int64_t dim, int64_t cols, const double *s);
    /* out = by[0] in[0] + by[1] in[1] + by[2] in[2] of cols columns as Q is stored, where by is not
     * 0; out may be one of them.  Where z->filters. */
    gram_status (*blend)(struct krylov *z, int64_t cols, void *out, char *const in[3],
                         const double by[3]);
};

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
    const struct krylov_ops *ops;
    const struct gram_small_eigh *small_eigh;
    bool filters;       /* products of p(A) are worth it: ops has blend, and x is there */
    int64_t more;       /* vectors of a basis beyond the wanted ones and as many again */
    int64_t few;        /* where it filters: the same, until that is decided and with p(A) */
    double small_flops; /* of a small eigenproblem over n^3, times how much slower they are */
    double step_flops;  /* that a step takes the time of, whatever n */
    void *device;       /* for the ops; or NULL */

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
    size_t element;

    /* The device's scratch: V, Q, W, which has room for two blocks where z->filters: x is the
     * second; the CPU's small matrices. */
    char *v, *q, *w, *x, *small;
    /* The host's, by columns: T and its eigenvectors with leading dimension most, the Gram matrix
     * of W, the Ritz values (the best first), their residuals, the values of an earlier round,
     * V^T W, the same while W is made orthonormal, and what does that. */
    double *t, *s, *gram, *values, *residuals, *before, *column, *other, *mix, *work;
    int32_t *iwork;

    int64_t dim;   /* columns of V with a product; Q comes next */
    int64_t width; /* columns of Q */
    double far;    /* the Ritz value at the other end */
    /* p(A) = T_3((A - centre) / radius) is what is multiplied by, if radius is not 0: the wanted
     * values become those above 1, the others are between -1 and 1, or below. */
    double centre, radius;
    bool decided;   /* whether to */
    int64_t steps;  /* that the basis grew by */
    int64_t look;   /* steps before which the pairs cannot be there */
    int64_t looked; /* steps at the last look; then worst: the logarithm of the largest residual of
                       a wanted pair over the norm */
    double worst;
    int64_t last; /* columns of the block that was multiplied last */
    uint64_t random;
    double flops; /* since the last Rayleigh-Ritz */
};

/* Chooses the sizes for n, k, block and dtype, which are set with the ops. */
void gram_krylov_plan(struct krylov *z);
/* Takes the host's scratch of a run; z->ops->take has the device's. */
void gram_krylov_take(struct krylov *z, struct gram_layout *l);
/* Runs where both have their memory.  GRAM_OK: the results say what was found.  GRAM_CANCELLED, or
 * what multiply or the device returned. */
gram_status gram_krylov_run(struct krylov *z);
/* Eigenvalues (ascending) and eigenvectors (over a) of a small matrix of doubles. */
bool gram_krylov_small_eigh(const struct krylov *z, int64_t n, double *a, int64_t ld, double *w);
/* What an eigenproblem asks for: everything but ops, block, multiply and user. */
struct krylov gram_krylov_problem(gram_context *g, const struct gram_eigh_op *op, bool falls_back);
/* Whether the pairs that are asked for are at one end. */
bool gram_krylov_takes(const struct gram_eigh_op *op);
/* Whether they are few enough, and the matrix large enough, for products to be the quickest. */
bool gram_krylov_pays(const struct gram_eigh_op *op);
/* The wanted pairs in ascending order: order has k numbers. */
void gram_krylov_order(const struct krylov *z, int32_t *order);
/* Adds to the report, if one is wanted. */
void gram_krylov_report(const struct krylov *z, gram_eigh_report *to);
#endif

/*
 * operator.h - matrices that are known by their products: linear systems and log-determinants
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PUBLIC_OPERATOR_H
#define GRAM_PUBLIC_OPERATOR_H
#include "pairwise.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A symmetric matrix that is defined by its products.  apply computes out = A in.  Both are n by b
 * with b at most 8, row-major, of this dtype (f32 or f64), and lie in memory of the context's
 * device that is valid during the call.  On CUDA, apply queues its work on the context's stream, or
 * waits until its work is done.  apply must not use the context of the call that it serves.  A
 * status other than GRAM_OK ends that call, which returns the same status.
 */
typedef struct gram_operator {
    int64_t n;
    gram_dtype dtype;
    gram_status (*apply)(void *user, const gram_tensor *in, gram_tensor *out);
    void *user;
} gram_operator;

/* ---- Linear systems ------------------------------------------------------------------------ */

typedef struct gram_solve_operator_options {
    size_t size;
    double tolerance;   /* of |b - A x| / |b| of each column; 0: 1e-5 in f32, 1e-10 in f64 */
    int64_t iterations; /* at most; 0: 1000 */
    double time_limit;  /* seconds; 0: none.  It is looked at between iterations */
    int warm_start;     /* 1: x holds a first guess; 0: the first guess is 0 */
} gram_solve_operator_options;

/* clang-format off */
#define GRAM_SOLVE_OPERATOR_OPTIONS_INIT GRAM_SIZED_(gram_solve_operator_options)
/* clang-format on */

/* What a solve has reached. */
typedef struct gram_solve_operator_report {
    size_t size;        /* set by the caller to sizeof(gram_solve_operator_report) */
    int reached;        /* 1: the tolerance, in every column */
    int64_t iterations; /* of the column that took most */
    int64_t products;   /* columns by which A was multiplied, in all */
    double residual;    /* the largest |b - A x| / |b| of the x that was written */
    int64_t column;     /* the one that has it, or the one of which an error speaks */
} gram_solve_operator_report;

/*
 * Solves A X = B for a symmetric positive definite A by preconditioned conjugate gradients.  b and
 * x are n by k, or vectors of n elements, of the operator's dtype and with any strides; they must
 * not overlap.  The columns share the products with A, eight at a time, and nothing else: each
 * converges as if it were alone, and then leaves.  A column of zeros gives zeros.
 *
 * preconditioner (NULL: none) has the same n and dtype, and its apply computes out = P^-1 in, where
 * P is symmetric, positive definite and close to A.
 *
 * The residual by which a column is judged is computed afresh from b - A x, at the end and once in
 * 50 iterations; where it has drifted from that of the recursion, the iteration begins again from
 * there.  options.tolerance lies between 0 and 1.
 *
 * report (NULL: not wanted) is written whenever the status is GRAM_OK or GRAM_NUMERICAL.  The
 * latter says that the tolerance was not reached; the message gives the reason and the residual:
 *   - a limit of the options, or rounding, which allows no smaller residual;
 *   - a is not positive definite: some p had p^T A p <= 0;
 *   - the preconditioner is not positive definite: some r had r^T P^-1 r <= 0;
 *   - NaN or infinity occurred in a product.
 * x then holds the last iterate.  NaN or infinity in b (or in the first guess) is also
 * GRAM_NUMERICAL, and leaves x as it was, as every other error does.  Symmetry is not checked.
 *
 * The call can be cancelled.  The result does not depend on the number of threads if that of apply
 * does not.  Memory, allocated by the call: six arrays of n by k, of which one is f64 on CUDA, and
 * 16 n numbers.  CUDA: the call waits for the result, and gives GRAM_UNSUPPORTED during a capture.
 *
 * Method: M. Hestenes and E. Stiefel, Methods of conjugate gradients for solving linear systems, J.
 * Res. Nat. Bur. Standards 49 (1952).
 */
GRAM_API gram_status gram_solve_operator(gram_context *g, const gram_operator *a,
                                         const gram_operator *preconditioner, const gram_tensor *b,
                                         const gram_solve_operator_options *options, gram_tensor *x,
                                         gram_solve_operator_report *report);

/* ---- Log-determinants ---------------------------------------------------------------------- */

typedef struct gram_logdet_options {
    size_t size;
    int64_t probes; /* random vectors; 0: 32 */
    int64_t steps;  /* of the Lanczos process of each, at most; 0: 100 */
    uint64_t seed;
    double tolerance;   /* a probe ends where its residual is below this of it; 0: 1e-6 */
    int64_t rank;       /* of the preconditioner of gram_kernel_logdet; 0: by n; < 0: none */
    gram_tensor *left;  /* n by probes, of the dtype of the products; NULL: not wanted */
    gram_tensor *right; /* the same: see below */
} gram_logdet_options;

/* clang-format off */
#define GRAM_LOGDET_OPTIONS_INIT GRAM_SIZED_(gram_logdet_options)
/* clang-format on */

typedef struct gram_logdet_report {
    size_t size;              /* set by the caller to sizeof(gram_logdet_report) */
    double value;             /* the estimate of log det A */
    double standard_error;    /* over the probes; INFINITY for a single one */
    int64_t steps;            /* the most that a probe took */
    int64_t products;         /* columns by which A was multiplied, in all */
    double residual;          /* the largest that a probe was left with, relative to the probe */
    int64_t rank;             /* of the preconditioner; 0: there was none */
    double of_preconditioner; /* its log-determinant, the part of value that is not estimated */
} gram_logdet_report;

/*
 * Estimates log det A = trace(log A) of a symmetric positive definite A by stochastic Lanczos
 * quadrature: the mean over probes z, whose elements are -1 or 1 at random, of z^T log(A) z.  Each
 * of these is a Gauss quadrature, whose nodes and weights come from the steps of a Lanczos process
 * with z; it is carried out as a solve of A x = z by conjugate gradients, whose coefficients are
 * those of the process.  A probe ends before options.steps where its residual is below
 * options.tolerance of it.
 *
 * report.standard_error is the standard deviation over the probes, divided by the root of their
 * number, and for few probes more, as Student's distribution is wider than the normal one (32: by 4
 * %): the truth lies within twice this in some 95 % of cases.  It says nothing of what too few
 * steps leave out, which makes the estimate too large: a report.residual of more than about 0.01
 * asks for more steps.  Four times as many probes halve the standard error.
 *
 * Gradients: options.right receives A^-1 z for every probe z, one per column, to
 * options.tolerance, and options.left z itself (gram_kernel_logdet: P^-1 z).  For every symmetric
 * dA, with p probes,
 *   d log det A = trace(A^-1 dA) = E (1 / p) sum_j left_j^T dA right_j,
 * of which the sum for the derivatives of a kernel is one call of gram_kernel_matmul_vjp.  They
 * overlap neither one another nor anything else, and have any strides.
 *
 * The estimate depends on seed, but (if that of apply does not) on the number of threads not at
 * all, or, with a preconditioner, by rounding alone.  n = 0 gives 0.  options.rank is not used.
 * report, left and right are written if the status is GRAM_OK.  GRAM_NUMERICAL: a is not positive
 * definite (some p had p^T A p <= 0), or NaN or infinity occurred in a product.  The call can be
 * cancelled.
 * Memory, allocated by the call: for eight probes at a time, six columns of n elements each; left
 * and right once more.  CUDA: the call waits for the result, and gives GRAM_UNSUPPORTED during a
 * capture.
 *
 * Method: S. Ubaru, J. Chen and Y. Saad, Fast estimation of tr(f(A)) via stochastic Lanczos
 * quadrature, SIAM J. Matrix Anal. Appl. 38 (2017).
 */
GRAM_API gram_status gram_logdet_operator(gram_context *g, const gram_operator *a,
                                          const gram_logdet_options *options,
                                          gram_logdet_report *report);

/*
 * The same for the kernel matrix K(x, x) + r I of points, which is never stored.
 * gram_kernel_matmul computes the products, and r is kernel.regularization.  x is n by d, with any
 * strides, without a batch.  kernel.row_offset and kernel.column_offset must be equal, and
 * GRAM_DISTANCE_KULLBACK_LEIBLER, which is another number the other way round, is refused.
 *
 * A preconditioner P makes it quicker and the estimate better.  P = F F^T + lambda I comes from a
 * randomly pivoted Cholesky factorisation K ~ F F^T of rank options.rank, as in gram_krr_solve (0:
 * about 8 sqrt(n), from 200 to 1000, and on CUDA 2 sqrt(n), but at most n / 2); lambda is r, or
 * more where much of K is left.  Then
 *   log det(K + r I) = log det P + trace(log(P^-1/2 (K + r I) P^-1/2)),
 * whose first term is exact, and of whose second one, which is small where P is close to K + r I,
 * the estimate is made, with probes z of the covariance P.  The same holds of it as above, with
 * fewer steps and a smaller standard error, to which 2^-22 n (f64: 2^-51 n) is added in squares for
 * rounding.  Halves, and outputs other than GRAM_VALUE, have no
 * preconditioner, nor has a matrix where rounding makes it indefinite (report.rank is 0 then).
 * Memory for it: n (rank + d) numbers of the dtype and 5 rank^2 of f64; on CUDA while it is made 8
 * rank^2 and n rank of f64.
 *
 * Method: J. Wenger, G. Pleiss, P. Hennig, J. Cunningham and J. Gardner, Preconditioning for
 * scalable Gaussian process hyperparameter optimization, ICML 2022.
 */
GRAM_API gram_status gram_kernel_logdet(gram_context *g, const gram_tensor *x,
                                        const gram_kernel_options *kernel,
                                        const gram_logdet_options *options,
                                        gram_logdet_report *report);

#ifdef __cplusplus
}
#endif
#endif

/*
 * operator.h - matrices that are known by their products: linear systems
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

#ifdef __cplusplus
}
#endif
#endif

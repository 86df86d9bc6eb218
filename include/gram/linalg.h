/*
 * linalg.h - solves, products and powers of matrices
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PUBLIC_LINALG_H
#define GRAM_PUBLIC_LINALG_H
#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Solves ------------------------------------------------------------------------------- */

typedef struct gram_solve_options {
    size_t size;
    gram_uplo uplo;      /* Cholesky: the triangle that is read, and that receives the factor */
    int factored;        /* a (and pivots) hold the factor of an earlier call */
    gram_tensor *factor; /* receives the factor: n by n, the dtype of a, a unit stride in one of its
                            last two dimensions; a itself: in place, without a copy; NULL: none */
    gram_tensor *pivots; /* LU: int32, n per item; required with factor and with factored */
    /* The following are not allowed with factored. */
    gram_tensor *rcond;    /* receives reciprocal condition numbers, one per item of a, its dtype */
    const double *jitter;  /* Cholesky: values s >= 0, ascending, that are tried: a + s I */
    int jitters;           /* the number of these values; 0: a itself */
    gram_tensor *jittered; /* receives the s that was used, one per item of a, its dtype */
    int refine;            /* f64: factor in f32 and refine to the accuracy of f64; no factor */
    gram_tensor *backward; /* refine: receives backward errors, f64, one per item of the batch */
    gram_tensor
        *refinings; /* refine: receives numbers of steps, int32, one per item of the batch */
} gram_solve_options;

/* clang-format off */
#define GRAM_SOLVE_OPTIONS_INIT GRAM_SIZED_(gram_solve_options)
/* clang-format on */

/*
 * Solves A x = b for a symmetric positive definite A by the Cholesky factorisation (LAPACK potrf
 * and potrs):
 *   x[..., :, j] = A[...]^-1 b[..., :, j].
 *
 * a is n by n, and only its triangle uplo is read; rows and columns are those of the shape,
 * whatever the strides.  b and x are n by r, with right-hand sides in columns and any strides.  x
 * may be b itself (the same data, shape and strides), which is then solved in place.  Batches of a
 * and b broadcast.  All tensors are f32, or all are f64.
 *
 * info is NULL, or int32 with the shape of the batch.  Its value for an item is 0, or i > 0 if the
 * leading minor of order i is not positive definite (NaN counts as such).  The x of such an item,
 * but not its in-place factor, is filled with NaN, and the other items are unaffected.  The status
 * is GRAM_OK if info was given, and GRAM_NUMERICAL otherwise.
 *
 * factor holds L (or U) in its triangle.  The other triangle of the factor is undefined; in place,
 * it is left unchanged.  A scratch copy of one matrix is needed if no factor is requested, or if an
 * in-place factor has no unit stride; see gram_solve_cholesky_workspace.
 *
 * The following are computed on request, and need scratch for a second copy:
 * - rcond: LAPACK's estimate of 1 / (|A|_1 |A^-1|_1) from the factor (pocon, gecon; with refine of
 *   the f32 factor), 0 where the factorisation broke down.
 * - jitter: A + s I is tried for each s of the list.  jittered receives the first s for which it is
 *   positive definite, or NaN if there is none (info is then as described above).  All other
 *   results are those of A + s I.
 * - refine: A is factored in f32, which takes half of the time of f64, and x is refined with
 *   residuals in f64.  Plain refinement steps are applied to all right-hand sides together while
 *   they reduce the backward error at least fourfold (as in LAPACK dsposv).  Columns that need more
 *   continue with flexible GMRES (Saad 1993), preconditioned by the f32 factor (Carson and Higham
 *   2017).  The backward error of an item is the largest of its columns, in infinity norms:
 *     |b - A x| / (|A| |x| + |b|).
 *   It is infinite if b is not finite.  At most sqrt(n) 2^-53 is accepted; if that is not reached,
 *   A is factored in f64 after all, and refinings is -1.  Otherwise refinings is the number of
 *   times that a residual was computed for some column.
 *
 * CUDA: matrices of order 64 or less are solved in one launch.  Larger ones are solved side by
 * side, from copies of up to 1 GiB in scratch.  cuSOLVER solves them one after the other if the
 * factor overwrites a or is given, if there are fewer than 8 matrices for LU, and if there are at
 * most four matrices of an order above 512.  It is loaded when it is first needed (GRAM_UNSUPPORTED
 * if that fails), and needs scratch of its own.  The call does not wait, so without info a failure
 * shows only in x, and the status is GRAM_OK.  Right-hand sides that are not columns with unit
 * stride pass through scratch.
 *
 * With rcond, jitter or refine, decisions are made on the device.  cuSOLVER computes only the first
 * factorisation of at most four matrices of an order above 512; kernels compute further
 * factorisations, and end at once for items that do not need them.  Refinement is then limited to
 * 10 plain steps and 3 cycles of GMRES with 20 vectors for each column, and refinings is the
 * largest number of steps of a column.
 */
GRAM_API gram_status gram_solve_cholesky(gram_context *g, const gram_tensor *a,
                                         const gram_tensor *b, const gram_solve_options *options,
                                         gram_tensor *x, gram_tensor *info);

GRAM_API gram_status gram_solve_cholesky_workspace(gram_context *g, const gram_tensor *a,
                                                   const gram_tensor *b,
                                                   const gram_solve_options *options,
                                                   const gram_tensor *x, gram_workspace *need);

/*
 * Solves A x = b for any square A by LU factorisation with partial pivoting (LAPACK getrf and
 * getrs).  The call works like gram_solve_cholesky, except that the whole of a is read, and that
 * info = i > 0 means that U[i, i] is exactly zero or NaN.  factor holds L (with a unit diagonal)
 * and U, and pivots holds the row exchanges of the stored factor as LAPACK defines them (counted
 * from 1).  Pass both back unchanged with factored.  On CUDA an invalid pivot i cannot be refused
 * at the call: info is then -i, and x is NaN.
 */
GRAM_API gram_status gram_solve_lu(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                   const gram_solve_options *options, gram_tensor *x,
                                   gram_tensor *info);

GRAM_API gram_status gram_solve_lu_workspace(gram_context *g, const gram_tensor *a,
                                             const gram_tensor *b,
                                             const gram_solve_options *options,
                                             const gram_tensor *x, gram_workspace *need);

/* ---- Matrix products ------------------------------------------------------------------------ */

typedef struct gram_matmul_options {
    size_t size;
    int transpose_a, transpose_b; /* the matrix is used transposed */
    gram_scalar alpha, beta;      /* finite; one number, or one per item */
    const gram_tensor *c;         /* may be out itself; NULL if beta is the number 0 */
} gram_matmul_options;

/* clang-format off */
#define GRAM_MATMUL_OPTIONS_INIT                                                                   \
    {sizeof(gram_matmul_options), 0, 0, {1, NULL}, {0, NULL}, NULL}
/* clang-format on */

/*
 * Products of batches of matrices:
 *   out[..., i, j] = alpha sum_l op(a)[..., i, l] op(b)[..., l, j] + beta c[..., i, j].
 *
 * op(a) is m by k, op(b) is k by n, and c and out are m by n.  All are f32 or all are f64, with any
 * strides (including zero and negative ones).  Batches of a, b, c, alpha and beta broadcast, and
 * out has the joint batch.  c is not read where beta is 0, and a and b may be left unread where
 * alpha is 0.  out may be c itself (the same data, shape and strides), and must overlap nothing
 * else.  k = 0 gives beta c.  A NaN in a row of op(a) affects only that row of out.  options NULL:
 * nothing is transposed, alpha is 1 and beta is 0.
 *
 * Error: at most (k + 3) eps times the same formula of absolute values, where nothing overflows.
 *
 * BLAS computes the products: many items in parallel with one thread each, and few or large items
 * one after the other with all threads.  A batch of a that is multiplied by a single b, and whose
 * rows are evenly spaced, is computed as one product.  Scratch holds copies of matrices without a
 * unit stride, one item for each thread.  CUDA: cuBLAS computes as many items in one call as are
 * evenly spaced in memory, and multiplies f32 in f32; alpha and beta may be tensors on the device,
 * and the call can be captured in a graph.  GRAM_UNSUPPORTED: m, n or k above 2^31 - 1.
 */
GRAM_API gram_status gram_matmul_batched(gram_context *g, const gram_tensor *a,
                                         const gram_tensor *b, const gram_matmul_options *options,
                                         gram_tensor *out);

GRAM_API gram_status gram_matmul_batched_workspace(gram_context *g, const gram_tensor *a,
                                                   const gram_tensor *b,
                                                   const gram_matmul_options *options,
                                                   const gram_tensor *out, gram_workspace *need);

/*
 * The same product for operands that may be larger than memory, such as mapped files.  It is
 * computed in pieces, and at most memory bytes of a, b, c, out and scratch are in use at a time (0:
 * half of memory_available of gram_info, or of device_memory_available on a GPU).  A product that
 * fits is one piece.  Otherwise each item of the batch is split along m and n, such that as little
 * as possible is read twice, and along k, whose pieces are summed in out.  Up to rounding, the
 * result is that of gram_matmul_batched, and it has the same bound.  The call can be cancelled
 * between pieces; out then holds some of them.  GRAM_INVALID_ARGUMENT: memory is too small for one
 * element of each operand.
 *
 * CUDA: a, b, c and out may each be on the device or on the CPU; alpha and beta are on the device.
 * Operands on the CPU are copied to the device in pieces: while one product is computed, the pieces
 * of the next are copied to the device, and those of the previous one are copied back.  This needs
 * two copies of each piece, which memory includes.  k is split only if 256 rows and columns with
 * all of k do not fit; otherwise each element is one sum, as in the whole product (bit for bit, if
 * cuBLAS chooses the same kernel for both).  If all operands are on the device, the call is queued,
 * and can be captured in a graph.  If not, the call returns when out is complete, gives
 * GRAM_UNSUPPORTED while the stream is being captured, and keeps no scratch.  It then uses up to 64
 * MiB of pinned CPU memory while it runs, but none for operands that have a unit stride and are
 * pinned themselves (cuMemHostAlloc, cudaHostRegister, pin_memory of PyTorch).  memory does not
 * include the scratch of a product: 4 MiB for cuBLAS, and copies of operands on the device that
 * have no unit stride.
 */
GRAM_API gram_status gram_matmul_chunked(gram_context *g, const gram_tensor *a,
                                         const gram_tensor *b, const gram_matmul_options *options,
                                         size_t memory, gram_tensor *out);

GRAM_API gram_status gram_matmul_chunked_workspace(gram_context *g, const gram_tensor *a,
                                                   const gram_tensor *b,
                                                   const gram_matmul_options *options,
                                                   size_t memory, const gram_tensor *out,
                                                   gram_workspace *need);

/* The number of elements in the upper triangle of a symmetric matrix.  They are packed row by row:
 * the element i, j of the matrix, with i <= j < n, has the index
 *   i (2 n - i - 1) / 2 + j. */
static inline int64_t gram_packed_size(int64_t n)
{
    return n % 2 == 0 ? n / 2 * (n + 1) : (n + 1) / 2 * n;
}

typedef struct gram_syrk_ema_options {
    size_t size;
    int transpose;     /* G^T G instead of G G^T */
    int packed;        /* l holds only the upper triangle, see gram_packed_size */
    gram_scalar beta;  /* from 0 to 1, one number, or one per item */
    gram_scalar alpha; /* finite, one number, or one per item */
    int sum;           /* alpha without the factor 1 - beta */
    int keep;          /* l is left unchanged for an item whose G is not finite */
} gram_syrk_ema_options;

/* clang-format off */
#define GRAM_SYRK_EMA_OPTIONS_INIT                                                                 \
    {sizeof(gram_syrk_ema_options), 0, 0, {0, NULL}, {1, NULL}, 0, 0}
/* clang-format on */

/*
 * The running average of a Gram matrix, in place:
 *   l <- beta l + (1 - beta) alpha G G^T,
 *   l <- beta l + alpha G G^T               (sum),
 * with G^T G instead of G G^T where transpose is set.
 *
 * x (the matrix G) is m by k, with any strides.  l is n by n, where n is m, or k with transpose;
 * with packed it is a vector of gram_packed_size(n) numbers, with any strides.  Only the upper
 * triangle of l is read, and nothing of it where beta is 0.  Both triangles are written, and are
 * exactly symmetric.  All tensors are f32, or all are f64.  The batch of the call is that of l: x,
 * beta and alpha broadcast over it.  l must not overlap x.
 *
 * info is NULL, or int32 with one value per item: 1 if x has a NaN or an infinity, or if the sum of
 * the squares of its elements overflows; otherwise 0.  With keep, the l of such an item is left
 * unchanged, so that a bad gradient does not spoil the average.  The status is GRAM_OK in any case.
 *
 * Error: at most (k + 4) eps times the same formula of absolute values, where nothing overflows.
 * BLAS does the work (syrk and gemm on 256 rows at a time), which is half of that of a product.
 * Scratch holds 256 rows of l, and a copy of an x without a unit stride, for each thread that works
 * on items.  CUDA: cuBLAS computes the whole product in scratch, and then one kernel adds it; info
 * is on the device, and the call does not wait.  GRAM_UNSUPPORTED: m or k above 2^31 - 1.
 */
GRAM_API gram_status gram_syrk_ema(gram_context *g, const gram_tensor *x,
                                   const gram_syrk_ema_options *options, gram_tensor *l,
                                   gram_tensor *info);

GRAM_API gram_status gram_syrk_ema_workspace(gram_context *g, const gram_tensor *x,
                                             const gram_syrk_ema_options *options,
                                             const gram_tensor *l, gram_workspace *need);

/* ---- Powers of symmetric matrices ---------------------------------------------------------- */

typedef enum gram_power_method {
    GRAM_POWER_AUTO = 0, /* GRAM_POWER_EIGH; CUDA: see gram_matrix_power */
    GRAM_POWER_EIGH = 1,
    GRAM_POWER_COUPLED_NEWTON = 2,
    GRAM_POWER_NEWTON_SCHULZ = 3,
    GRAM_POWER_MINIMAX = 4,
} gram_power_method;

/* The arithmetic of the matrix products of an iteration.  f64 matrices allow AUTO and F64. */
typedef enum gram_power_precision {
    GRAM_POWER_PRECISION_AUTO = 0, /* CPU: the dtype of a.  CUDA: F64 where it is as fast as f32
              (sm_80, sm_90 and sm_100 have tensor cores for f64), else F32 */
    GRAM_POWER_PRECISION_F64 = 1,
    GRAM_POWER_PRECISION_F32 = 2,
    GRAM_POWER_PRECISION_TF32X3 = 3, /* three products of TF32: about 21 bits.  CPU: F32 */
    GRAM_POWER_PRECISION_TF32 = 4,   /* 11 bits in the last steps, whose errors grow at most
                                        20-fold; F32 in the others.  CPU: F32 */
} gram_power_precision;

/* The value of info for an item. */
typedef enum gram_power_outcome {
    GRAM_POWER_DONE = 0,
    GRAM_POWER_NOT_FINITE = 1,    /* the triangle that is read has a NaN or an infinity */
    GRAM_POWER_NOT_DEFINITE = 2,  /* the power does not exist; see gram_matrix_power */
    GRAM_POWER_NOT_CONVERGED = 3, /* an iteration diverged, or reached its last step */
    GRAM_POWER_INEXACT = 4,       /* the error estimate is above options.tolerance */
} gram_power_outcome;

typedef struct gram_matrix_power_options {
    size_t size;
    int numerator, denominator; /* the power; denominator 1 to 64; both 0: -1/4 */
    gram_power_method method;
    gram_uplo uplo;     /* the triangle of a that is read */
    gram_scalar ridge;  /* r: added to the diagonal, at least 0, one number, or one per item */
    int ridge_relative; /* r is a multiple of the largest eigenvalue of a */
    double condition;   /* minimax: a bound for the condition of A + r I; 0: from the ridge */
    int iterations;     /* the most steps of an iteration that has no fixed number; 0: 100 */
    gram_tensor *error; /* receives error estimates, one per item, the dtype of a; NULL: none */
    double tolerance;   /* the largest error estimate that is accepted; 0: any */
    int keep;           /* an item that is not DONE keeps the previous contents of out */
    gram_power_precision precision;
    double power; /* a number instead of numerator / denominator, which must be 0 then; 0: unused */
    double
        floor; /* eigenvalues of A + r I below floor times the largest are raised to it; 0: off */
} gram_matrix_power_options;

/* clang-format off */
#define GRAM_MATRIX_POWER_OPTIONS_INIT GRAM_SIZED_(gram_matrix_power_options)
/* clang-format on */

/*
 * Powers of symmetric positive semidefinite matrices, the inverse fourth root unless options say
 * otherwise:
 *   out = (A + r I)^(numerator / denominator).
 *
 * a is n by n, and only its triangle uplo is read.  out is n by n, and receives both triangles,
 * exactly symmetric.  out may be a itself (the same data, shape and strides), which is then
 * computed in place.  Both have any strides, and both are f32 or both are f64.  The batch of a and
 * a tensor of ridges broadcast; out, info and options.error have the joint batch.
 *
 * Methods, with B = A + r I and its condition kappa = largest / smallest eigenvalue:
 * - EIGH, any power, with the eigendecomposition B = V diag(l) V^T:
 *     B^p = V diag(l^p) V^T.
 *   It is always computed in double, since the smallest eigenvalues decide an inverse root, and in
 *   f32 they are noise if kappa is above 1e5.  Negative eigenvalues of A count as 0.  The relative
 *   error in the Frobenius norm is at most eps + 8 n 2^-52 kappa, where eps is that of the dtype of
 *   a.  With floor > 0, an eigenvalue l of A counts as
 *     max(max(l, 0) + r, floor (max(l_max, 0) + r)),
 *   so that matrices of any rank and sign have any power (except negative powers of a matrix whose
 *   eigenvalues are all 0 or below).  The error is relative to the matrix with these eigenvalues.
 * - COUPLED_NEWTON, any power, with q = denominator, m the largest eigenvalue of B and
 *   z = (q + 1) / (2 m) (Iannazzo 2006; Guo and Higham 2006):
 *     M = z B,  X = z^(1/q) I,  then until M is I
 *     W = (1 + 1/q) I - M / q,  X <- X W,  M <- W^q M.
 *   X converges to B^(-1/q); other powers are products of X and B.
 * - NEWTON_SCHULZ, for denominators 2, 4, 8, 16, 32 and 64, with m as above (Higham 2008, 6.35):
 *     Y = B / m,  Z = I,  then until Z Y is I
 *     E = (3 I - Z Y) / 2,  Y <- Y E,  Z <- E Z.
 *   sqrt(m) Y converges to B^(1/2), and Z / sqrt(m) to B^(-1/2).  Denominators from 4 on are
 *   computed as the square root of the square root, and so on.
 * - MINIMAX: coupled like COUPLED_NEWTON, with
 *     W = a I + b M,  max |1 - y^(1/q) (a + b y)| the least
 *   over the interval that contains the eigenvalues y of M at this step.  On CUDA, if f32 matrices
 *   are computed in f64 and the condition is known in advance, it is W = a I + b M + c M^2, which
 *   takes half as many steps.  The number of steps depends only on options.condition; there is no
 *   test of convergence.  If options.condition is 0, the condition follows from the ridge: it is 1
 *   + 1 / ridge if the ridge is relative.  This method is least accurate for the largest
 *   eigenvalues.
 * The iterations compute in options.precision.  They take the largest eigenvalue from 32 Lanczos
 * steps, which never overestimate it.  If kappa eps < 1/100, their relative error in the Frobenius
 * norm is at most (2 kappa + 16 n) eps, or (4 kappa + 16 n) eps with MINIMAX, where eps is that of
 * the dtype of a.  TF32X3 and TF32 have no such bound: request the error estimate.
 *
 * If options.power is a fraction that numerator / denominator can express, such as -0.25, it is
 * treated as one.  Other powers, and a floor, are available only with EIGH, and have no error
 * estimate.
 *
 * The error estimate for a power -k/q is the largest magnitude in P - I, where P is a product of q
 * matrices X and k matrices B, in an order that keeps intermediate results small.  It starts with
 * B. After that, an X follows if the powers of B so far add up to more than 0, and a B otherwise;
 * the X are multiplied from the left and from the right in turn, and so are the B.  For -1/4 the
 * product is X X B X X.  For a power k/q, the estimate is the largest magnitude in X^q - B^k,
 * divided by that in B^k.  It takes q + k products in the precision of the method, whose rounding
 * adds about kappa eps.  It is computed if options.error or options.tolerance requests it.
 *
 * info is NULL, or int32 with one gram_power_outcome per item.  NOT_DEFINITE means that an
 * eigenvalue of A is below -max(4 n eps times the largest magnitude, ridge); or that the power is
 * negative, and the smallest eigenvalue of B is at most n 2^-52 times the largest (EIGH); or that B
 * is zero and the power is negative.  An iteration does not converge for such a matrix.  Items that
 * are not DONE are filled with NaN, except that INEXACT ones hold the result that was found.  With
 * options.keep, all of these keep their previous contents.  Their error estimate is NaN if there is
 * none.  Other items are unaffected.  Without info, the status is GRAM_NUMERICAL if any item is not
 * DONE.
 *
 * CPU: several items of order 1024 or less are computed in parallel with one thread each, and
 * larger ones one after the other with all threads.  EIGH allows n up to 32,000.
 *
 * CUDA: the whole batch advances step by step, in chunks of about one GiB of scratch.  cuBLAS
 * computes the products, and EIGH uses XsyevBatched of cuSOLVER (12.6.2 or newer).  AUTO means
 * COUPLED_NEWTON in f64 where that is as accurate and faster: for f32 matrices of order 256 or more
 * and a negative power, with precision AUTO or F64 on sm_80, sm_90 or sm_100, and with a bound for
 * kappa of at most 2^24, from options.condition or from a relative ridge of at least 8 n 2^-23.  (2
 * kappa + 16 n) 2^-52 is then below the eps of f32.  On CPUs it would be slower than EIGH.  The
 * call does not wait, and iterations take a fixed number of steps: as many as are needed for the
 * condition options.condition, or else that of a relative ridge that is a number, or else 1 / eps;
 * and at most options.iterations.  An item that converges earlier keeps its result, and one that
 * would need more steps is NOT_CONVERGED.  A ridge in a tensor that is negative or not finite makes
 * its item NOT_FINITE.  The call can be captured in a graph after a first call.
 */
GRAM_API gram_status gram_matrix_power(gram_context *g, const gram_tensor *a,
                                       const gram_matrix_power_options *options, gram_tensor *out,
                                       gram_tensor *info);

GRAM_API gram_status gram_matrix_power_workspace(gram_context *g, const gram_tensor *a,
                                                 const gram_matrix_power_options *options,
                                                 const gram_tensor *out, gram_workspace *need);

#ifdef __cplusplus
}
#endif
#endif

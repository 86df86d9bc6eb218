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
    gram_uplo uplo;      /* Cholesky: the triangle that is read, and where the factor goes */
    int factored;        /* a (and pivots) hold the factor that an earlier call left */
    gram_tensor *factor; /* gets the factor: n by n, a's dtype, unit stride in one of its last two
                            dimensions; a itself: in place, no copy is made; NULL: not wanted */
    gram_tensor *pivots; /* LU: int32, n an item; needed with factor and with factored */
    /* Not with factored: */
    gram_tensor *rcond;     /* gets reciprocal condition numbers, one an item of a, a's dtype */
    const double *jitter;   /* Cholesky: s >= 0, ascending: the first for which a + s I factors */
    int jitters;            /* how many there are; 0: a itself */
    gram_tensor *jittered;  /* gets the s that was taken, one an item of a, a's dtype */
    int refine;             /* f64: factor in f32, refine to the accuracy of f64; no factor */
    gram_tensor *backward;  /* refine: gets the backward errors, f64, one an item of the batch */
    gram_tensor *refinings; /* refine: gets the number of steps, int32, one an item of the batch */
} gram_solve_options;

/* clang-format off */
#define GRAM_SOLVE_OPTIONS_INIT GRAM_SIZED_(gram_solve_options)
/* clang-format on */

/*
 * Solves A x = b for symmetric positive definite A by Cholesky's factorisation (LAPACK potrf and
 * potrs):
 *   x[..., :, j] = A[...]^-1 b[..., :, j].
 *
 * a is n by n: only the triangle uplo is read; rows and columns mean what they say, whatever the
 * strides.  b and x are n by r, right-hand sides in columns, any strides; x may be b itself (same
 * data, shape and strides): in place.  Batches of a and b broadcast.  f32 or f64, one dtype.
 *
 * info: int32, one an item of the batch (its shape), or NULL: 0, or i > 0 if the leading minor of
 * order i is not positive definite (NaN counts as such).  Such an item's x (not its in-place
 * factor) is filled with NaN, the other items are unharmed, and the status is GRAM_OK if info was
 * given, else GRAM_NUMERICAL.
 *
 * factor holds L (or U) in its triangle; the other triangle of the factor is undefined unless it
 * is in place, where it is left as it was.  A scratch copy of one matrix is needed when no factor
 * is asked for or the in-place one has no unit stride; see gram_solve_cholesky_workspace.
 *
 * On request, with scratch for a second copy:
 * - rcond: LAPACK's estimate of 1 / (|A|_1 |A^-1|_1) from the factor (pocon, gecon; with refine of
 *   the f32 factor), 0 where the factorisation broke down.
 * - jitter: A + s I is tried for each s of the list; jittered gets the first that is positive
 *   definite, NaN (and info as ever) where none is.  Everything else is then about A + s I.
 * - refine: A is factored in f32, half of the time of f64, and x is refined with residuals in f64:
 *   steps of all right-hand sides together while the backward error still falls fourfold (as LAPACK
 *   dsposv), then, for the columns that need it, GMRES preconditioned by the f32 factor (Carson and
 *   Higham 2017), flexible (Saad 1993).  The backward error of an item is the largest of its
 *   columns', in infinity norms:
 *     |b - A x| / (|A| |x| + |b|),
 *   infinite where b is not finite; at most sqrt(n) 2^-53 is accepted.  Where that is not reached A
 *   is factored in f64 after all; refinings is then -1, else the number of times that a residual
 *   was computed for some column.
 *
 * CUDA: matrices of order 64 or less in one launch; larger ones side by side, from copies of up to
 * 1 GiB in scratch.  But where the factor goes over a or is given, and for less than 8 matrices for
 * LU, cuSOLVER takes one after the other.  It is opened when the first of these comes, or at most
 * four matrices beyond order 512 (GRAM_UNSUPPORTED where it cannot be), and has scratch of its own.
 * Nothing waits, so without info a failure shows in x alone and the status is GRAM_OK.
 * Right-hand sides that are not columns with unit stride pass through scratch.
 *
 * With rcond, jitter or refine the device decides: the first factorisation of at most four matrices
 * beyond order 512 is cuSOLVER's, those that only some items turn out to need are kernels that end
 * at once for the others.  Refinement then takes at most 10 plain steps and 3 cycles of GMRES of 20
 * vectors, every column by itself; refinings is the largest number of steps of a column.
 */
GRAM_API gram_status gram_solve_cholesky(gram_context *g, const gram_tensor *a,
                                         const gram_tensor *b, const gram_solve_options *options,
                                         gram_tensor *x, gram_tensor *info);

GRAM_API gram_status gram_solve_cholesky_workspace(gram_context *g, const gram_tensor *a,
                                                   const gram_tensor *b,
                                                   const gram_solve_options *options,
                                                   const gram_tensor *x, gram_workspace *need);

/*
 * Solves A x = b for any square A by LU with partial pivoting (LAPACK getrf and getrs).  As
 * gram_solve_cholesky, but the whole of a is read, and info = i > 0 says that U[i, i] is exactly
 * zero or NaN.  factor holds L (unit diagonal) and U; pivots the row exchanges, as LAPACK (1-based)
 * of the factor as it is stored: give both back unchanged with factored.  On CUDA a pivot i that
 * is none cannot be refused at the call: info is then -i and x is NaN.
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
    gram_scalar alpha, beta;      /* finite; one number or one an item */
    const gram_tensor *c;         /* may be out itself; NULL where beta is the number 0 */
} gram_matmul_options;

/* clang-format off */
#define GRAM_MATMUL_OPTIONS_INIT                                                                   \
    {sizeof(gram_matmul_options), 0, 0, {1, NULL}, {0, NULL}, NULL}
/* clang-format on */

/*
 * Products of batches of matrices:
 *   out[..., i, j] = alpha sum_l op(a)[..., i, l] op(b)[..., l, j] + beta c[..., i, j].
 *
 * op(a) is m by k, op(b) k by n, c and out m by n; all f32 or all f64; any strides (also zero and
 * negative ones).  Batches of a, b, c, alpha and beta broadcast, out has the joined one.  Where
 * beta is 0 c is not read, where alpha is 0 a and b need not be.  out may be c itself (the same
 * data, shape and strides) and must overlap nothing else.  k = 0 gives beta c.  A NaN in a row of
 * op(a) stays in that row of out.  options NULL: nothing transposed, alpha 1, beta 0.
 *
 * Error: at most (k + 3) eps times the same formula of absolute values, where nothing overflows.
 *
 * BLAS does the products: many items in parallel with a thread each, few or large ones one after
 * the other with all threads.  A batch of a that meets one b and whose rows lie evenly is one
 * product.  Scratch: copies of matrices without a unit stride, one item for each thread.
 * CUDA: cuBLAS, one call for as many items as lie evenly in memory, f32 in f32; alpha and beta may
 * be tensors of the device, and the call can be captured in a graph.
 * GRAM_UNSUPPORTED: m, n or k above 2^31 - 1.
 */
GRAM_API gram_status gram_matmul_batched(gram_context *g, const gram_tensor *a,
                                         const gram_tensor *b, const gram_matmul_options *options,
                                         gram_tensor *out);

GRAM_API gram_status gram_matmul_batched_workspace(gram_context *g, const gram_tensor *a,
                                                   const gram_tensor *b,
                                                   const gram_matmul_options *options,
                                                   const gram_tensor *out, gram_workspace *need);

/*
 * The same product of operands that may be larger than memory, as files that are mapped into it
 * are: in pieces, no more than memory bytes of a, b, c, out and scratch being worked on at a time
 * (0: half of gram_info's memory_available, on a GPU of its device_memory_available).  A product
 * that fits is one piece, else each item of the batch is split along m and n, so that least is
 * read twice, and along k, whose pieces are summed in out.  The result is that of
 * gram_matmul_batched to rounding, and within its bound.
 * Can be cancelled between pieces (out then holds some of them).  GRAM_INVALID_ARGUMENT: memory for
 * less than one element of each.
 *
 * CUDA: a, b, c and out may each be on the device or the CPU (alpha and beta: on the device).
 * Pieces of the CPU's pass through the device: those of the next product are copied there while one
 * is computed, and the one before is copied back; memory bounds the two copies that this takes of
 * each.  k is split only where 256 rows and columns with all of k do not fit: an element is else
 * one sum, as in the whole product (bit for bit, where cuBLAS takes the same kernel for both).
 * All on the device: the call is queued, and can be captured in a graph.  Else it returns when out
 * is complete, GRAM_UNSUPPORTED while the stream is captured, keeps no scratch, and takes up to 64
 * MiB of pinned memory of the CPU for as long as it runs, none for operands that are pinned
 * themselves (cuMemHostAlloc, cudaHostRegister, torch's pin_memory) and have a unit stride.
 * memory does not count the scratch of a piece's product: 4 MiB of cuBLAS, copies of what the
 * device has without a unit stride.
 */
GRAM_API gram_status gram_matmul_chunked(gram_context *g, const gram_tensor *a,
                                         const gram_tensor *b, const gram_matmul_options *options,
                                         size_t memory, gram_tensor *out);

GRAM_API gram_status gram_matmul_chunked_workspace(gram_context *g, const gram_tensor *a,
                                                   const gram_tensor *b,
                                                   const gram_matmul_options *options,
                                                   size_t memory, const gram_tensor *out,
                                                   gram_workspace *need);

/* How many numbers the upper triangle of a symmetric matrix has.  They are packed row by row: the
 * element i, j of the matrix, with i <= j < n, is number
 *   i (2 n - i - 1) / 2 + j. */
static inline int64_t gram_packed_size(int64_t n)
{
    return n % 2 == 0 ? n / 2 * (n + 1) : (n + 1) / 2 * n;
}

typedef struct gram_syrk_ema_options {
    size_t size;
    int transpose;     /* G^T G instead of G G^T */
    int packed;        /* l holds the upper triangle alone, see gram_packed_size */
    gram_scalar beta;  /* from 0 to 1, one number or one an item */
    gram_scalar alpha; /* finite, one number or one an item */
    int sum;           /* alpha without the factor 1 - beta */
    int keep;          /* an item whose G is not finite leaves l as it is */
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
 * x (the matrix G) is m by k, any strides; l is n by n, where n is m, with transpose k; or with
 * packed a vector of gram_packed_size(n) numbers, any strides.  Of l the upper triangle is read
 * (where beta is 0 nothing is) and both are written, exactly symmetric.  f32 or f64, one dtype.
 * The batch of l is the call's: x, beta and alpha broadcast over it.  l must not overlap x.
 *
 * info: int32, one an item, or NULL: 1 where x has a NaN or an infinity, or where the sum of the
 * squares of its elements overflows, else 0.  With keep such an item's l is left as it is: a bad
 * gradient does not poison the average.  The status is GRAM_OK all the same.
 *
 * Error: at most (k + 4) eps times the same formula of absolute values, where nothing overflows.
 * Half the work of a product, by BLAS (syrk and gemm on 256 rows at a time).  Scratch: 256 rows of
 * l, and a copy of an x without a unit stride, for each thread that takes items.  CUDA: the whole
 * product by cuBLAS to scratch, then one kernel adds it; info is the device's, nothing waits.
 * GRAM_UNSUPPORTED: m or k above 2^31 - 1.
 */
GRAM_API gram_status gram_syrk_ema(gram_context *g, const gram_tensor *x,
                                   const gram_syrk_ema_options *options, gram_tensor *l,
                                   gram_tensor *info);

GRAM_API gram_status gram_syrk_ema_workspace(gram_context *g, const gram_tensor *x,
                                             const gram_syrk_ema_options *options,
                                             const gram_tensor *l, gram_workspace *need);

/* ---- Powers of symmetric matrices ---------------------------------------------------------- */

typedef enum gram_power_method {
    GRAM_POWER_AUTO = 0, /* GRAM_POWER_EIGH; CUDA: see there */
    GRAM_POWER_EIGH = 1,
    GRAM_POWER_COUPLED_NEWTON = 2,
    GRAM_POWER_NEWTON_SCHULZ = 3,
    GRAM_POWER_MINIMAX = 4,
} gram_power_method;

/* What the products of matrices of an iteration are computed in; f64 matrices know AUTO and F64. */
typedef enum gram_power_precision {
    GRAM_POWER_PRECISION_AUTO =
        0, /* CPU: a's dtype.  CUDA: F64 where that is as fast as f32 (sm_80,
              sm_90, sm_100: they have tensor cores for f64), else F32 */
    GRAM_POWER_PRECISION_F64 = 1,
    GRAM_POWER_PRECISION_F32 = 2,
    GRAM_POWER_PRECISION_TF32X3 = 3, /* three products of TF32: about 21 bits.  CPU: as F32 */
    GRAM_POWER_PRECISION_TF32 = 4,   /* 11 bits, in the steps whose errors grow by at most 20, the
                                        last ones; F32 in the others.  CPU: as F32 */
} gram_power_precision;

/* What info says of an item. */
typedef enum gram_power_outcome {
    GRAM_POWER_DONE = 0,
    GRAM_POWER_NOT_FINITE = 1,    /* the triangle that is read has a NaN or an infinity */
    GRAM_POWER_NOT_DEFINITE = 2,  /* the power does not exist, see gram_matrix_power */
    GRAM_POWER_NOT_CONVERGED = 3, /* an iteration diverged or came to its end */
    GRAM_POWER_INEXACT = 4,       /* the error estimate is above options.tolerance */
} gram_power_outcome;

typedef struct gram_matrix_power_options {
    size_t size;
    int numerator, denominator; /* the power; denominator 1 to 64; both 0: -1/4 */
    gram_power_method method;
    gram_uplo uplo;     /* the triangle of a that is read */
    gram_scalar ridge;  /* r: added to the diagonal, at least 0, one number or one an item */
    int ridge_relative; /* r is times the largest eigenvalue of a */
    double condition;   /* minimax: a bound of the condition of A + r I; 0: from the ridge */
    int iterations;     /* most steps of an iteration without a fixed number; 0: 100 */
    gram_tensor *error; /* gets the error estimates, one an item, a's dtype; NULL: not wanted */
    double tolerance;   /* the largest error estimate that is accepted; 0: any */
    int keep;           /* an item that is not DONE keeps what out held before */
    gram_power_precision precision;
    double power; /* any number instead of numerator / denominator, which are 0 then; 0: these */
    double floor; /* eigenvalues of A + r I below floor times the largest are raised to it; 0: no */
} gram_matrix_power_options;

/* clang-format off */
#define GRAM_MATRIX_POWER_OPTIONS_INIT GRAM_SIZED_(gram_matrix_power_options)
/* clang-format on */

/*
 * Powers of symmetric positive semidefinite matrices, the inverse fourth root unless options say
 * otherwise:
 *   out = (A + r I)^(numerator / denominator).
 *
 * a is n by n, only its triangle uplo is read; out is n by n and gets both triangles, exactly
 * symmetric; out may be a itself (same data, shape and strides): in place.  Any strides, f32 or
 * f64, one dtype.  a and a tensor of ridges broadcast; out, info and options.error have the joined
 * batch.
 *
 * Methods, with B = A + r I and its condition kappa = largest / smallest eigenvalue:
 * - EIGH, any power, with the eigendecomposition B = V diag(l) V^T:
 *     B^p = V diag(l^p) V^T.
 *   It is always in double (the smallest eigenvalues decide an inverse root, and in f32 they are
 *   noise from kappa 1e5 on).  Negative eigenvalues of A count as 0.  The relative error in the
 *   Frobenius norm is at most eps + 8 n 2^-52 kappa, eps being a's dtype's.  With floor > 0 an
 *   eigenvalue l of A counts as
 *     max(max(l, 0) + r, floor (max(l_max, 0) + r)),
 *   so that matrices of any rank and sign have any power (but for the inverse of a matrix whose
 *   eigenvalues are all 0 or below).  The error is relative to the matrix of these eigenvalues.
 * - COUPLED_NEWTON, any power, with q = denominator, m the largest eigenvalue of B and
 *   z = (q + 1) / (2 m) (Iannazzo 2006; Guo and Higham 2006):
 *     M = z B,  X = z^(1/q) I,  then until M is I
 *     W = (1 + 1/q) I - M / q,  X <- X W,  M <- W^q M.
 *   X tends to B^(-1/q); other powers are products with X and B.
 * - NEWTON_SCHULZ, for denominators 2, 4, 8, 16, 32 and 64, with m as above (Higham 2008, 6.35):
 *     Y = B / m,  Z = I,  then until Z Y is I
 *     E = (3 I - Z Y) / 2,  Y <- Y E,  Z <- E Z.
 *   sqrt(m) Y tends to B^(1/2) and Z / sqrt(m) to B^(-1/2).  Denominators from 4 on take the square
 *   root of the square root, and so on.
 * - MINIMAX: coupled like Newton, with
 *     W = a I + b M,  max |1 - y^(1/q) (a + b y)| the least
 *   over the interval that still holds the eigenvalues y of M; on CUDA in f64 for f32, where the
 *   condition is known beforehand, W = a I + b M + c M^2 in half as many steps.  The number of
 *   steps depends on options.condition alone; there is no test of convergence.  The condition comes
 *   from the ridge where it is 0: 1 + 1 / ridge if that is relative.  Least accurate on the largest
 *   eigenvalues.
 * The iterations work in options.precision and take the largest eigenvalue from 32 Lanczos steps,
 * which never overstate it.  Where kappa eps < 1/100 their relative error in the Frobenius norm is
 * at most (2 kappa + 16 n) eps, with MINIMAX (4 kappa + 16 n) eps, eps being a's dtype's; TF32X3
 * and TF32 promise nothing: ask for the error estimate.
 *
 * options.power is taken as numerator / denominator where it is such a fraction, as -0.25 is; other
 * powers, and a floor, are EIGH's alone, and have no error estimate.
 *
 * The error estimate for a power -k/q is the largest magnitude in P - I, P being the product of q
 * matrices X and k matrices B in an order that keeps it small: B first, then X where the powers of
 * B so far add up to more than 0, else B; the X from the left and from the right in turn, so the B.
 * For -1/4 that is X X B X X.  For a power k/q it is the largest magnitude in X^q - B^k over that
 * in B^k.  It takes q + k products in the precision of the method, whose rounding adds about kappa
 * eps.  It is computed where options.error or options.tolerance asks for it.
 *
 * info: int32, one an item, or NULL: an enum gram_power_outcome.  NOT_DEFINITE: an eigenvalue of A
 * is below -max(4 n eps times the largest magnitude, ridge), or the power is negative and the
 * smallest eigenvalue of B is at most n 2^-52 times the largest (EIGH); or B is zero and the power
 * negative.  Where an iteration meets such a matrix it does not converge.  Items that are not DONE
 * are filled with NaN, INEXACT ones hold what was found, with options.keep both keep what they had;
 * their error estimate is NaN where there is none.  Other items are unharmed.  Without info the
 * status is GRAM_NUMERICAL if any item is not DONE.
 *
 * CPU: several items of order 1024 or less are done in parallel, one thread each, larger ones one
 * after the other with all threads.  EIGH takes n up to 32,000.
 *
 * CUDA: the whole batch step by step, in chunks of about a GiB of scratch; products are cuBLAS's,
 * EIGH is cuSOLVER's XsyevBatched (12.6.2 or newer).  AUTO is COUPLED_NEWTON in f64 where that is
 * as exact and faster: f32 matrices of order 256 and more, a negative power, precision AUTO or F64
 * on sm_80, sm_90 or sm_100, and a bound of kappa of at most 2^24, from options.condition or from a
 * relative ridge of at least 8 n 2^-23; (2 kappa + 16 n) 2^-52 is below f32's eps then.  (CPUs take
 * longer for it than for EIGH.)  Nothing waits, and iterations take a fixed number of steps: those
 * that the condition options.condition needs, else that of a relative ridge given as a number, else
 * 1 / eps; at most options.iterations.  An item that is done before keeps what it has, one that
 * would need more is NOT_CONVERGED.  A ridge in a tensor that is negative or not finite makes its
 * item NOT_FINITE.  Can be captured in a graph after a first call.
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

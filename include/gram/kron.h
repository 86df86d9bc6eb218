/*
 * kron.h - Kronecker products: multiplied, differentiated, solved and summed up, never formed
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PUBLIC_KRON_H
#define GRAM_PUBLIC_KRON_H
#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Kronecker products ------------------------------------------------------------------- */

/* The most factors that a product may have. */
#define GRAM_MAX_FACTORS 16

/*
 * The Kronecker product of count matrices, written out:
 *   out[..., (i_1, ..., i_N), (j_1, ..., j_N)] = f_1[..., i_1, j_1] * ... * f_N[..., i_N, j_N].
 * The last index of a bracket runs fastest.
 *
 * factors points to 1 to GRAM_MAX_FACTORS matrices with any sizes (a size of 0 gives an empty
 * result) and any strides.  f_n is P_n by Q_n, and out is (P_1 ... P_N) by (Q_1 ... Q_N).  Batches
 * broadcast.  All tensors have the same dtype: f32, f64, i32 or i64 (which wrap around), f16 or
 * bf16 (multiplied in f32 and rounded once).  out must not overlap a factor or itself.
 *
 * Error: N - 1 roundings, in an order that depends on the sizes.  An intermediate product may
 * overflow even if the final one does not.
 */
GRAM_API gram_status gram_kron(gram_context *g, const gram_tensor *const *factors, int64_t count,
                               gram_tensor *out);

GRAM_API gram_status gram_kron_workspace(gram_context *g, const gram_tensor *const *factors,
                                         int64_t count, const gram_tensor *out,
                                         gram_workspace *need);

typedef enum gram_side {
    GRAM_RIGHT = 0,
    GRAM_LEFT = 1,
} gram_side;

/* The distribution of x and y over the ranks of a communicator; see gram_kron_matmul_multi. */
typedef enum gram_kron_split {
    GRAM_KRON_SPLIT_ROWS = 0,
    GRAM_KRON_SPLIT_COLUMNS = 1,
    GRAM_KRON_SPLIT_AUTO = 2, /* only for gram_kron_matmul_part, which returns its choice */
} gram_kron_split;

typedef struct gram_kron_options {
    size_t size;
    gram_side side;             /* of the factors */
    int transpose_x;            /* x is used transposed */
    uint32_t transpose_factors; /* bit i: factors[i] is used transposed; UINT32_MAX: all are */
    gram_scalar alpha, beta;    /* finite; for i32 and i64 whole, at most 2^53 in magnitude */
    const gram_tensor *z;       /* may be y itself; NULL if beta is the number 0 */
    /* For gram_kron_matmul_multi and gram_kron_matmul_part; other calls refuse a communicator. */
    gram_communicator *communicator;
    gram_kron_split split;
} gram_kron_options;

/* clang-format off */
#define GRAM_KRON_OPTIONS_INIT                                                                     \
    {sizeof(gram_kron_options), GRAM_RIGHT, 0, 0, {1, NULL}, {0, NULL}, NULL, NULL, GRAM_KRON_SPLIT_ROWS}
/* clang-format on */

/*
 * Multiplies by a Kronecker product without forming it.  Let K = op(f_1) (x) ... (x) op(f_N), as
 * gram_kron writes it out, where op(f_n) is P_n by Q_n, P = P_1 ... P_N and Q = Q_1 ... Q_N.  Then
 *   GRAM_RIGHT: y[..., m, :] = alpha op(x)[..., m, :] K + beta z[..., m, :],
 *               op(x) is M by P, y and z are M by Q;
 *   GRAM_LEFT:  y[..., :, m] = alpha K op(x)[..., :, m] + beta z[..., :, m],
 *               op(x) is Q by M, y and z are P by M.
 *
 * factors points to 1 to GRAM_MAX_FACTORS matrices of any sizes, which need not be square.  All
 * tensors have any strides.  Batches of x, the factors, z, alpha and beta broadcast, and y has the
 * joint batch.  All tensors have the same dtype: f32, f64, i32 or i64 (exact, modulo 2^32 or 2^64),
 * f16 or bf16 (computed in f32 and rounded once).  z is not read where beta is 0.  y may be z
 * itself (the same data, shape and strides), or x itself if it is not transposed, and must overlap
 * nothing else.  An empty sum is 0.  options NULL: factors on the right, nothing transposed, alpha
 * 1 and beta 0.
 *
 * A row (GRAM_LEFT: a column) of y depends only on the same row of x.  A NaN affects only its row,
 * and with the same instruction set the result has the same bits for every M, batch, layout and
 * number of threads.  Error: at most (P_1 + ... + P_N + 2) eps times the same formula of absolute
 * values (GRAM_LEFT: Q_n instead of P_n), if no intermediate result leaves the normal range.
 *
 * Indices are contracted one factor after the other, beginning with those that shrink x, after
 * Fernandes, Plateau and Stewart, Efficient descriptor-vector multiplications in stochastic
 * automata networks, J. ACM 45 (1998).  Several factors are applied while a part of x is in the
 * cache, after Jangda and Yadav, Fast Kronecker matrix-matrix multiplication on GPUs, PPoPP 2024.
 * Scratch holds a few rows of x or y for each thread, and copies of the factors.
 */
GRAM_API gram_status gram_kron_matmul(gram_context *g, const gram_tensor *x,
                                      const gram_tensor *const *factors, int64_t count,
                                      const gram_kron_options *options, gram_tensor *y);

GRAM_API gram_status gram_kron_matmul_workspace(gram_context *g, const gram_tensor *x,
                                                const gram_tensor *const *factors, int64_t count,
                                                const gram_kron_options *options,
                                                const gram_tensor *y, gram_workspace *need);

/*
 * Plans gram_kron_matmul(g, x, factors, count, options, y), for products of the same sizes that are
 * computed often.  The arguments are checked here, and not again by gram_plan_execute, which
 * computes y from the current contents of x, the factors, z, alpha and beta.  The plan keeps copies
 * of the structs, but not of the memory to which they point.  Errors are those of gram_kron_matmul,
 * and GRAM_OUT_OF_MEMORY; *plan is then NULL.  gram_plan_describe, gram_plan_execute and
 * gram_plan_destroy take the plan, as they do that of gram_eigh_plan; driver and seconds of the
 * description are unused (0 and NaN).
 *
 * gram_kron_matmul_replace gives a plan other memory: x, count factors, and y, with the planned
 * dtype, device, shapes and strides.  An argument that is NULL, or an element of factors that is
 * NULL, keeps the planned tensor.  If z was y, it remains the same as y.  On an error
 * (GRAM_INVALID_ARGUMENT: another layout, y overlaps an input, or a plan of another call) the plan
 * is unchanged.
 */
GRAM_API gram_status gram_kron_matmul_plan(gram_context *g, const gram_tensor *x,
                                           const gram_tensor *const *factors, int64_t count,
                                           const gram_kron_options *options, gram_tensor *y,
                                           gram_plan **plan);
GRAM_API gram_status gram_kron_matmul_replace(gram_plan *plan, const gram_tensor *x,
                                              const gram_tensor *const *factors, gram_tensor *y);

/*
 * gram_kron_matmul, computed by the ranks of options.communicator.  Each rank calls it with its
 * part of x, y and z, and with all factors.  Up to rounding, the product is that of one process.
 *
 * GRAM_KRON_SPLIT_ROWS: each rank has any number of rows of op(x), y and z (GRAM_LEFT: columns), or
 * none.  No data are exchanged.  Any device and any dtype of gram_kron_matmul will do.
 *
 * GRAM_KRON_SPLIT_COLUMNS: each rank has all rows, and the block of their columns that
 * gram_kron_matmul_part returns (GRAM_LEFT: all columns, and a block of their rows).  The factors
 * are divided into two groups, the first k and the others.  A block of columns holds whole indices
 * of the second group, which each rank applies to its block.  An all-to-all exchange then gives
 * each rank whole indices of the first group, for a part of the rows or of the remaining indices.
 * The rank applies the first group, and a second exchange brings y to its ranks.  There are two
 * exchanges for any number of factors, after Jangda and Yadav, Fast Kronecker matrix-matrix
 * multiplication on GPUs, PPoPP 2024.  With one factor the second group is empty, and with one row
 * and one factor one rank does the work.  The dtypes are f32, f64, i32 and i64; data are exchanged
 * over MPI on the CPU, and over NCCL on GPUs.  The error is that of gram_kron_matmul.
 *
 * The factors, alpha, the split, the batch and, for a split by columns, the number of rows must be
 * the same on all ranks; the number alpha and all sizes are compared.  Before each exchange, and
 * before y is written, the ranks agree that none of them has failed.  A bad argument or a failure
 * on one rank ends the call on all of them: the other ranks return the same status, with a message
 * that names the rank, and no y has been written (with a split by rows, some may have been written
 * if the failure is neither in an argument nor in scratch).  If a process dies, mpirun ends the
 * others.  Every rank must make the call, with a valid context and communicator.  Over NCCL, all of
 * this refers to queueing the work, not to its completion.
 *
 * Scratch, for a split by columns: twice the rank's part of x, of y or of the result between the
 * groups, whichever is the largest, plus the scratch of gram_kron_matmul.
 */
GRAM_API gram_status gram_kron_matmul_multi(gram_context *g, const gram_tensor *x,
                                            const gram_tensor *const *factors, int64_t count,
                                            const gram_kron_options *options, gram_tensor *y);

/* The scratch of this rank.  The query does not communicate with the others. */
GRAM_API gram_status gram_kron_matmul_multi_workspace(gram_context *g, const gram_tensor *x,
                                                      const gram_tensor *const *factors,
                                                      int64_t count,
                                                      const gram_kron_options *options,
                                                      const gram_tensor *y, gram_workspace *need);

/* A rank's part of a product: of op(x) for GRAM_RIGHT, and of its transpose for GRAM_LEFT. */
typedef struct gram_kron_part {
    gram_kron_split split;
    int64_t first_row, rows;       /* of x and y */
    int64_t first_column, columns; /* of x */
    int64_t first_out, outs;       /* columns of y */
} gram_kron_part;

/*
 * The part of x and y, which have `rows` rows in total, for this rank of options.communicator, with
 * options.split.  GRAM_KRON_SPLIT_AUTO splits by rows, unless the largest share of a rank is more
 * than 1.25 times the average, as with fewer rows than ranks.  Rows are spread evenly, but
 * gram_kron_matmul_multi accepts any other distribution of them.  The blocks of columns depend on
 * the sizes of the factors and on the number of ranks, and are the same if all factors are
 * transposed and x and y change places.
 */
GRAM_API gram_status gram_kron_matmul_part(gram_context *g, int64_t rows,
                                           const gram_tensor *const *factors, int64_t count,
                                           const gram_kron_options *options, gram_kron_part *part);

/* The result of gram_tune_kron. */
typedef struct gram_kron_tuning {
    size_t size;        /* set by the caller to sizeof(gram_kron_tuning) */
    int candidates;     /* the number of candidates that were measured */
    int launches;       /* of the fastest: the number of groups of factors */
    int table_launches; /* the same of the library's own choice */
    int kept;           /* 1: in the cache, for other processes too; 0: only in this process */
    double ms;          /* of a call with the fastest */
    double table_ms;    /* of a call with the library's own choice */
} gram_kron_tuning;

/*
 * Measures groups of factors and sizes of tiles on the context's device for gram_kron_matmul(g, x,
 * factors, count, options, y).  All later calls use the fastest of them for similar problems: those
 * with the same compute capability (on the CPU, the same instruction set and number of threads),
 * dtype, sizes of factors, and direction of x and y in memory, and with numbers of rows and of
 * items that are the same when they are rounded up to a power of two.  The amount of scratch may
 * change.  On a GPU, results may differ by rounding.  On the CPU they keep their bits, since only
 * the size of tiles is chosen, which seldom gains more than 5 percent.  The result is kept as that
 * of gram_tune.  The call waits for the device.  It overwrites y many times, and y must not be x.
 * GRAM_INVALID_ARGUMENT: x or y has no elements.
 */
GRAM_API gram_status gram_tune_kron(gram_context *g, const gram_tensor *x,
                                    const gram_tensor *const *factors, int64_t count,
                                    const gram_kron_options *options, gram_tensor *y,
                                    gram_kron_tuning *result);

/* The gradients of gram_kron_matmul.  Each of them has the shape of its input. */
typedef struct gram_kron_grads {
    gram_tensor *x;              /* NULL: not wanted */
    gram_tensor *const *factors; /* one per factor, or NULL; NULL: none is wanted */
} gram_kron_grads;

/*
 * The gradients of a number L that depends on y = gram_kron_matmul(x, factors, count, options),
 * given grad = dL/dy.  For y = alpha X (F_1 (x) ... (x) F_N) they are
 *   dL/dX         = alpha grad (F_1 (x) ... (x) F_N)^T,
 *   dL/dF_k[p, q] = alpha sum grad[m, (j_1, ..., j_N)] X[m, (i_1, ..., i_N)]
 *                             prod over n != k of F_n[i_n, j_n],
 *                   the sum being over m and over all i_n and j_n with i_k = p and j_k = q.
 * The gradient of a transposed input is transposed.  For GRAM_LEFT the formulas are the same with
 * rows and columns exchanged.  The gradient of an input that is broadcast over the batch is summed
 * over the batch.  grad has the shape of y, and its batch broadcasts.  beta and z of the options do
 * not affect these gradients (dL/dz is beta grad).
 *
 * All tensors are f32, or all are f64, with any strides; integers have no gradients.  No gradient
 * may overlap another tensor.  Sizes of 0 give zeros.
 *
 * Two chains of products with one factor each, one that starts from x and one that starts from
 * grad, meet at every factor.  They take N - 1 products for x, N for grad (the last of which is
 * dL/dX), and one for the gradient of each factor: 3 N - 1 in total, where gram_kron_matmul takes
 * N.  Each of them is a matrix product.  A second derivative uses gram_kron_matmul and this call
 * again.  On CUDA the call does not wait.
 *
 * Error: that of these matrix products in the dtype, with as many terms as they sum.  Results do
 * not depend on the number of threads, unless the sums of BLAS do (if both sizes of a factor are 64
 * or more, or if there are few rows).
 */
GRAM_API gram_status gram_kron_matmul_vjp(gram_context *g, const gram_tensor *x,
                                          const gram_tensor *const *factors, int64_t count,
                                          const gram_kron_options *options, const gram_tensor *grad,
                                          const gram_kron_grads *grads);

GRAM_API gram_status gram_kron_matmul_vjp_workspace(gram_context *g, const gram_tensor *x,
                                                    const gram_tensor *const *factors,
                                                    int64_t count, const gram_kron_options *options,
                                                    const gram_tensor *grad,
                                                    const gram_kron_grads *grads,
                                                    gram_workspace *need);

/*
 * The diagonal of the Kronecker product of square matrices, as gram_kron would write it.  The shape
 * of out is the batch, followed by the product of the orders.  dtypes, strides and errors are those
 * of gram_kron.
 */
GRAM_API gram_status gram_kron_diagonal(gram_context *g, const gram_tensor *const *factors,
                                        int64_t count, gram_tensor *out);

GRAM_API gram_status gram_kron_diagonal_workspace(gram_context *g,
                                                  const gram_tensor *const *factors, int64_t count,
                                                  const gram_tensor *out, gram_workspace *need);

/*
 * The trace of the Kronecker product of square matrices, which is the product of their traces.  out
 * has the shape of the batch, with one number per item.  All tensors have the same dtype: f32 or
 * f64 (summed in f64 and rounded once), i32 or i64 (which wrap around).  The trace of an empty
 * product is 0.  The call needs no scratch.
 */
GRAM_API gram_status gram_kron_trace(gram_context *g, const gram_tensor *const *factors,
                                     int64_t count, gram_tensor *out);

/*
 * The logarithm of |det K| for the Kronecker product K of square matrices, and the sign of det K.
 * With n_i the order of F_i, and n that of K,
 *   out = sum_i (n / n_i) log |det F_i|.
 * Each factor takes an LU factorisation in f64.  The values of sign are 1, -1, or 0 where K is
 * singular (out is then -infinity); sign may be NULL.  Both have the shape of the batch.  NaN in a
 * factor gives NaN.  All tensors are f32, or all are f64.  The determinant of an empty product is
 * 1.  On CUDA the call does not wait.
 */
GRAM_API gram_status gram_kron_logdet(gram_context *g, const gram_tensor *const *factors,
                                      int64_t count, gram_tensor *sign, gram_tensor *out);

GRAM_API gram_status gram_kron_logdet_workspace(gram_context *g, const gram_tensor *const *factors,
                                                int64_t count, const gram_tensor *sign,
                                                const gram_tensor *out, gram_workspace *need);

/* The factorisation that gram_kron_solve uses. */
typedef enum gram_kron_method {
    GRAM_KRON_LU = 0,       /* any factors */
    GRAM_KRON_CHOLESKY = 1, /* all factors are symmetric positive definite */
    GRAM_KRON_EIGEN = 2,    /* all factors are symmetric; needed for a shift */
} gram_kron_method;

typedef struct gram_kron_solve_options {
    size_t size;
    gram_side side; /* of the factors */
    gram_kron_method method;
    gram_uplo uplo;    /* the triangle of symmetric factors that is read */
    gram_scalar shift; /* finite; 0 unless the method is GRAM_KRON_EIGEN */
} gram_kron_solve_options;

/* clang-format off */
#define GRAM_KRON_SOLVE_OPTIONS_INIT GRAM_SIZED_(gram_kron_solve_options)
/* clang-format on */

/*
 * Solves systems with a Kronecker product K = F_1 (x) ... (x) F_N of square matrices, which is
 * never formed.  With n the product of the orders n_i:
 *   GRAM_RIGHT: x (K + shift I) = b, b and x are m by n;
 *   GRAM_LEFT:  (K + shift I) x = b, b and x are n by m.
 * Each factor is factorised once, in O(n_i^3), and is then applied to every right-hand side, in O(n
 * (n_1 + ... + n_N)) each.  With eigenvectors, F_i = V_i diag(w_i) V_i^T,
 *   K + shift I = V (diag(w_1 (x) ... (x) w_N) + shift I) V^T,  V = V_1 (x) ... (x) V_N,
 * as in Gaussian processes on grids (Saatci, Scalable inference for structured Gaussian process
 * models, 2011).
 *
 * All tensors are f32, or all are f64, with any strides.  Batches of the factors, b and shift
 * broadcast.  x may be b itself (the same data, shape and strides), and must overlap nothing else.
 *
 * info is NULL, or int32 with the shape of the batch.  Its value for an item is 0; i > 0 if factor
 * i, counted from 1, is singular, not positive definite or, with eigenvectors, not finite; or N + 1
 * if an eigenvalue of K + shift I is exactly 0.  The x of an item that failed is filled with NaN,
 * and the others are unaffected.  The status is GRAM_OK if info was given, and GRAM_NUMERICAL
 * otherwise.  On CUDA the call does not wait: only info tells whether an item failed, and the
 * status is GRAM_OK.
 *
 * Error: each of the N steps has the residual of its factorisation, so the relative error of x is
 * of the order of eps (n_1 + ... + n_N) times the product of the conditions of the factors.
 */
GRAM_API gram_status gram_kron_solve(gram_context *g, const gram_tensor *const *factors,
                                     int64_t count, const gram_tensor *b,
                                     const gram_kron_solve_options *options, gram_tensor *x,
                                     gram_tensor *info);

GRAM_API gram_status gram_kron_solve_workspace(gram_context *g, const gram_tensor *const *factors,
                                               int64_t count, const gram_tensor *b,
                                               const gram_kron_solve_options *options,
                                               const gram_tensor *x, gram_workspace *need);

#ifdef __cplusplus
}
#endif
#endif

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

/* Most factors of one product. */
#define GRAM_MAX_FACTORS 16

/*
 * The Kronecker product of count matrices, written out:
 *   out[..., (i_1, ..., i_N), (j_1, ..., j_N)] = f_1[..., i_1, j_1] * ... * f_N[..., i_N, j_N].
 * The last index of a bracket runs fastest.
 *
 * factors points to 1 to GRAM_MAX_FACTORS matrices of any sizes (0 gives an empty result) and
 * strides, f_n being P_n by Q_n; out is (P_1 ... P_N) by (Q_1 ... Q_N).  Batches broadcast.  All
 * have one dtype: f32, f64, i32 or i64 (which wrap around), f16 or bf16 (multiplied in f32, rounded
 * once).  out must not overlap a factor or itself.
 *
 * Error: N - 1 roundings, in an order that the sizes decide; a product on the way may overflow
 * where the whole one does not.
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

/* How x and y lie on the ranks of a communicator: see gram_kron_matmul_multi. */
typedef enum gram_kron_split {
    GRAM_KRON_SPLIT_ROWS = 0,
    GRAM_KRON_SPLIT_COLUMNS = 1,
    GRAM_KRON_SPLIT_AUTO = 2, /* for gram_kron_matmul_part, which then says which of them to take */
} gram_kron_split;

typedef struct gram_kron_options {
    size_t size;
    gram_side side;             /* where the factors stand */
    int transpose_x;            /* x is used transposed */
    uint32_t transpose_factors; /* bit i: factors[i] is used transposed; UINT32_MAX: all are */
    gram_scalar alpha, beta;    /* finite; of i32 and i64 whole, at most 2^53 in magnitude */
    const gram_tensor *z;       /* may be y itself; NULL where beta is the number 0 */
    /* Of gram_kron_matmul_multi and gram_kron_matmul_part; other calls refuse a communicator. */
    gram_communicator *communicator;
    gram_kron_split split;
} gram_kron_options;

/* clang-format off */
#define GRAM_KRON_OPTIONS_INIT                                                                     \
    {sizeof(gram_kron_options), GRAM_RIGHT, 0, 0, {1, NULL}, {0, NULL}, NULL, NULL, GRAM_KRON_SPLIT_ROWS}
/* clang-format on */

/*
 * Multiplies by a Kronecker product without forming it.  With K = op(f_1) (x) ... (x) op(f_N) as
 * gram_kron writes it out, op(f_n) being P_n by Q_n, P = P_1 ... P_N and Q = Q_1 ... Q_N:
 *   GRAM_RIGHT: y[..., m, :] = alpha op(x)[..., m, :] K + beta z[..., m, :],
 *               op(x) is M by P, y and z are M by Q;
 *   GRAM_LEFT:  y[..., :, m] = alpha K op(x)[..., :, m] + beta z[..., :, m],
 *               op(x) is Q by M, y and z are P by M.
 *
 * factors points to 1 to GRAM_MAX_FACTORS matrices of any sizes; no matrix has to be square.  Any
 * strides; batches of x, the factors, z, alpha and beta broadcast, y has the joined one.  One
 * dtype: f32, f64, i32 or i64 (which wrap around, exactly), f16 or bf16 (computed in f32, rounded
 * once).  Where beta is 0 z is not read; y may be z itself (the same data, shape and strides), or x
 * itself where it is not transposed; it must overlap nothing else.  An empty sum is 0.  options
 * NULL: factors on the right, nothing transposed, alpha 1, beta 0.
 *
 * A row (GRAM_LEFT: a column) of y depends on that of x alone: a NaN stays in its row, and the
 * result is the same, bit by bit, whatever M, the batch, the layouts and the number of threads, on
 * one instruction set.  Error: (P_1 + ... + P_N + 2) eps times the same formula of absolute values,
 * at most, where no number on the way leaves the normal range (GRAM_LEFT: Q_n instead of P_n).
 *
 * Indices are contracted one factor after the other, those that shrink x first: after Fernandes,
 * Plateau and Stewart, Efficient descriptor-vector multiplications in stochastic automata networks,
 * J. ACM 45 (1998).  Several are applied while a part of x is in the cache, as Jangda and Yadav,
 * Fast Kronecker matrix-matrix multiplication on GPUs, PPoPP 2024, do.  Scratch: a few rows of x or
 * y for each thread, and copies of the factors.
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
 * computed often: the arguments are checked here and no more by gram_plan_execute, which computes y
 * from what x, the factors, z, alpha and beta hold then.  The plan keeps copies of the structs, not
 * of the memory they point to.  Errors are those of gram_kron_matmul, and GRAM_OUT_OF_MEMORY; *plan
 * is NULL then.  gram_plan_describe, gram_plan_execute and gram_plan_destroy are those of
 * gram_eigh_plan; of the description driver and seconds tell nothing (0 and NaN).
 *
 * gram_kron_matmul_replace gives a plan other memory: x, factors (count of them) and y of the
 * planned dtype, device, shapes and strides; NULL, of factors or of one of them too, leaves what
 * was planned.  z that was y follows it.  On an error (GRAM_INVALID_ARGUMENT: another layout, y
 * overlaps an input, a plan of another call) the plan is as it was.
 */
GRAM_API gram_status gram_kron_matmul_plan(gram_context *g, const gram_tensor *x,
                                           const gram_tensor *const *factors, int64_t count,
                                           const gram_kron_options *options, gram_tensor *y,
                                           gram_plan **plan);
GRAM_API gram_status gram_kron_matmul_replace(gram_plan *plan, const gram_tensor *x,
                                              const gram_tensor *const *factors, gram_tensor *y);

/*
 * gram_kron_matmul by the ranks of options.communicator: each calls it with its part of x, y and z,
 * and with the whole factors.  The same product as that of one process, to rounding.
 *
 * GRAM_KRON_SPLIT_ROWS: a rank has any number of rows of op(x), y and z (GRAM_LEFT: columns), none
 * included.  No data are exchanged.  Any device, and any dtype of gram_kron_matmul.
 *
 * GRAM_KRON_SPLIT_COLUMNS: a rank has all rows, and of their columns (GRAM_LEFT: of the columns,
 * the rows) the block that gram_kron_matmul_part names.  The factors are cut into two groups, the
 * first k and the rest.  A block of columns holds whole indices of the second group, which is
 * applied where x lies; one exchange, all to all, then gives each rank whole indices of the first
 * group, for a part of the rows or of what is left; that is applied, and a second exchange puts y
 * where it belongs: two exchanges whatever the number of factors, after Jangda and Yadav, Fast
 * Kronecker matrix-matrix multiplication on GPUs, PPoPP 2024.  With one factor the second group is
 * empty, and with one row and one factor one rank does the work.  f32, f64, i32 and i64; on the
 * CPU over MPI, on GPUs over NCCL; error: as gram_kron_matmul.
 *
 * Factors, alpha, the split, the batch and, by columns, the number of rows must be the same on all
 * ranks; alpha's number and all sizes are compared.  Before each exchange, and before y is written,
 * the ranks agree that none has failed: a bad argument or a failure on one rank ends the call on
 * all of them, on the others with the same status and a message that names the rank; then no y was
 * written (by rows, where it is not an argument or scratch that fails, some may be).  A process
 * that dies is MPI's to deal with: mpirun ends the others.  Every rank must call, with a context
 * and a communicator that are valid.  Over NCCL all of this is about queueing the work, not
 * about its end.
 *
 * Scratch by columns: twice the rank's part of x, of y or of what is between the groups, whichever
 * is the largest, and what gram_kron_matmul needs.
 */
GRAM_API gram_status gram_kron_matmul_multi(gram_context *g, const gram_tensor *x,
                                            const gram_tensor *const *factors, int64_t count,
                                            const gram_kron_options *options, gram_tensor *y);

/* Of this rank; the others are not asked. */
GRAM_API gram_status gram_kron_matmul_multi_workspace(gram_context *g, const gram_tensor *x,
                                                      const gram_tensor *const *factors,
                                                      int64_t count,
                                                      const gram_kron_options *options,
                                                      const gram_tensor *y, gram_workspace *need);

/* A rank's part of a product: of op(x) as GRAM_RIGHT sees it, for GRAM_LEFT of its transpose. */
typedef struct gram_kron_part {
    gram_kron_split split;
    int64_t first_row, rows;       /* of x and y */
    int64_t first_column, columns; /* of x */
    int64_t first_out, outs;       /* columns of y */
} gram_kron_part;

/*
 * Which part of x and y, which have `rows` rows in all, this rank of options.communicator is to
 * have, with options.split.  GRAM_KRON_SPLIT_AUTO takes rows unless the most that a rank gets is
 * over 1.25 times the average, as with fewer rows than ranks.  Rows are spread evenly; any other
 * spread of them is as good to gram_kron_matmul_multi.  Columns depend on the sizes of the factors
 * and on the number of ranks, and are the same if all factors are transposed and x and y change
 * places.
 */
GRAM_API gram_status gram_kron_matmul_part(gram_context *g, int64_t rows,
                                           const gram_tensor *const *factors, int64_t count,
                                           const gram_kron_options *options, gram_kron_part *part);

/* What gram_tune_kron found. */
typedef struct gram_kron_tuning {
    size_t size;        /* set by the caller to sizeof(gram_kron_tuning) */
    int candidates;     /* that were measured */
    int launches;       /* of the fastest: groups of factors */
    int table_launches; /* of the library's own choice */
    int kept;           /* 1: in the cache, for other processes too; 0: for this process */
    double ms;          /* a call */
    double table_ms;    /* a call */
} gram_kron_tuning;

/*
 * Measures groups of factors and tiles on the context's device for gram_kron_matmul(g, x, factors,
 * count, options, y), and has all later calls take the fastest for such problems: the same compute
 * capability (on the CPU the same instruction set and number of threads), dtype, sizes of factors
 * and direction of x and y in memory, and numbers of rows and of items that are the same to the
 * next power of two.  Scratch may then be another.  On a GPU results differ by rounding; on the CPU
 * they keep their bits: the choice is the size of tiles, which seldom gains more than 5 percent.
 * Kept as gram_tune does.  Waits for the device; y is overwritten many times and may not be x.
 * GRAM_INVALID_ARGUMENT: x or y has no elements.
 */
GRAM_API gram_status gram_tune_kron(gram_context *g, const gram_tensor *x,
                                    const gram_tensor *const *factors, int64_t count,
                                    const gram_kron_options *options, gram_tensor *y,
                                    gram_kron_tuning *result);

/* Where the gradients of gram_kron_matmul go: each has the shape of its input. */
typedef struct gram_kron_grads {
    gram_tensor *x;              /* NULL: not wanted */
    gram_tensor *const *factors; /* one a factor, NULL where it is not wanted; NULL: none is */
} gram_kron_grads;

/*
 * The gradients of a number L that depends on y = gram_kron_matmul(x, factors, count, options),
 * given grad = dL/dy.  For y = alpha X (F_1 (x) ... (x) F_N) they are
 *   dL/dX         = alpha grad (F_1 (x) ... (x) F_N)^T,
 *   dL/dF_k[p, q] = alpha sum grad[m, (j_1, ..., j_N)] X[m, (i_1, ..., i_N)]
 *                             prod over n != k of F_n[i_n, j_n],
 *                   the sum being over m and over all i_n and j_n with i_k = p and j_k = q.
 * The gradient of a transposed input is transposed; from the left it is the same.  An input that is
 * broadcast over the batch has its gradient summed over it.  grad has the shape of y; its batch
 * broadcasts.  beta and z of the options have no part in these gradients (dL/dz is beta grad).
 *
 * All tensors are f32, or all f64; integers have no gradients.  Any strides.  No gradient may
 * overlap another tensor.  Sizes of 0 give zeros.
 *
 * Two chains of products with one factor each, from x and from grad, meet at every factor: N - 1
 * products for x, N for grad, of which the last is dL/dX, and one for the gradient of each factor,
 * 3 N - 1 where the call itself takes N.  Each of them is a matrix product, and so is what a
 * second derivative needs: gram_kron_matmul and this call again.  On CUDA nothing waits.
 *
 * Error: that of the sums of these products in the dtype, of as many terms as the matrix products
 * have.  Results do not depend on the number of threads but where BLAS's own sums do (both sizes of
 * a factor 64 or more, or few rows).
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
 * The diagonal of the Kronecker product of square matrices, as gram_kron would write it: out has
 * the batch and the product of the orders as its shape.  dtypes, strides and errors as gram_kron.
 */
GRAM_API gram_status gram_kron_diagonal(gram_context *g, const gram_tensor *const *factors,
                                        int64_t count, gram_tensor *out);

GRAM_API gram_status gram_kron_diagonal_workspace(gram_context *g,
                                                  const gram_tensor *const *factors, int64_t count,
                                                  const gram_tensor *out, gram_workspace *need);

/*
 * The trace of the Kronecker product of square matrices, the product of their traces: one number an
 * item, out has the shape of the batch.  One dtype: f32 or f64 (summed in f64, rounded once), i32
 * or i64 (which wrap around).  The trace of an empty product is 0.  Takes no scratch.
 */
GRAM_API gram_status gram_kron_trace(gram_context *g, const gram_tensor *const *factors,
                                     int64_t count, gram_tensor *out);

/*
 * The logarithm of |det K| of the Kronecker product K of square matrices, and the sign of det K,
 * n_i being the order of F_i and n that of K:
 *   out = sum_i (n / n_i) log |det F_i|.
 * Each factor takes an LU factorisation in f64.  sign is 1, -1, or 0 where K is singular (out is
 * then -infinity), or NULL; both have the shape of the batch.  NaN in a factor gives NaN.  f32 or
 * f64, one dtype.  The determinant of an empty product is 1.  On CUDA nothing waits.
 */
GRAM_API gram_status gram_kron_logdet(gram_context *g, const gram_tensor *const *factors,
                                      int64_t count, gram_tensor *sign, gram_tensor *out);

GRAM_API gram_status gram_kron_logdet_workspace(gram_context *g, const gram_tensor *const *factors,
                                                int64_t count, const gram_tensor *sign,
                                                const gram_tensor *out, gram_workspace *need);

/* How gram_kron_solve divides by the factors. */
typedef enum gram_kron_method {
    GRAM_KRON_LU = 0,       /* any factors */
    GRAM_KRON_CHOLESKY = 1, /* all symmetric positive definite */
    GRAM_KRON_EIGEN = 2,    /* all symmetric; the one that takes a shift */
} gram_kron_method;

typedef struct gram_kron_solve_options {
    size_t size;
    gram_side side; /* where the factors stand */
    gram_kron_method method;
    gram_uplo uplo;    /* of symmetric factors: the triangle that is read */
    gram_scalar shift; /* finite; 0 unless the method is GRAM_KRON_EIGEN */
} gram_kron_solve_options;

/* clang-format off */
#define GRAM_KRON_SOLVE_OPTIONS_INIT GRAM_SIZED_(gram_kron_solve_options)
/* clang-format on */

/*
 * Solves systems with a Kronecker product K = F_1 (x) ... (x) F_N of square matrices, which is
 * never formed, n being the product of the orders n_i:
 *   GRAM_RIGHT: x (K + shift I) = b, b and x are m by n;
 *   GRAM_LEFT:  (K + shift I) x = b, b and x are n by m.
 * Each factor is factorised once, in O(n_i^3), and then applied to every right-hand side, which
 * takes O(n (n_1 + ... + n_N)) each.  With eigenvectors, F_i = V_i diag(w_i) V_i^T,
 *   K + shift I = V (diag(w_1 (x) ... (x) w_N) + shift I) V^T,  V = V_1 (x) ... (x) V_N,
 * as Gaussian processes on grids have it (Saatci, Scalable inference for structured Gaussian
 * process models, 2011).
 *
 * f32 or f64, one dtype; any strides; batches of the factors, b and shift broadcast.  x may be b
 * itself (same data, shape and strides), and must overlap nothing else.
 *
 * info: int32, one an item of the batch (its shape), or NULL: 0; i > 0 if factor i, counted from 1,
 * is singular, not positive definite or, with eigenvectors, not finite; N + 1 if an eigenvalue of
 * K + shift I is exactly 0.  Such an item's x is filled with NaN, the others are unharmed, and the
 * status is GRAM_OK if info was given, else GRAM_NUMERICAL.  On CUDA nothing waits: what became of
 * an item is in info alone, and the status is GRAM_OK.
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

/*
 * krr.h - kernel ridge regression: leave-one-out errors, certified solves, variances, samples
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PUBLIC_KRR_H
#define GRAM_PUBLIC_KRR_H
#include "arrow.h"
#include "core.h"
#include "pairwise.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Kernel ridge regression: leave-one-out errors ----------------------------------------- */

/* The constant b of the predictor f(z) = b + sum_i alpha_i k(x_i, z). */
typedef enum gram_krr_intercept {
    GRAM_KRR_INTERCEPT_NONE = 0,   /* b = 0 */
    GRAM_KRR_INTERCEPT_MEAN = 1,   /* the mean of the column of y, in which weights do not count */
    GRAM_KRR_INTERCEPT_FITTED = 2, /* the b that minimises the objective */
} gram_krr_intercept;

typedef enum gram_krr_path_method {
    GRAM_KRR_PATH_AUTO = 0,     /* CHOLESKY for up to 6 ridges, or more than 32,000 rows */
    GRAM_KRR_PATH_EIGH = 1,     /* one eigendecomposition for all ridges; n <= 32,000 */
    GRAM_KRR_PATH_CHOLESKY = 2, /* one factorisation per ridge, 2 n^3 / 3 flops */
} gram_krr_path_method;

typedef struct gram_krr_path_options {
    size_t size;
    gram_uplo uplo; /* the triangle of k that is read */
    gram_krr_path_method method;
    gram_krr_intercept intercept;
    const gram_tensor *weights; /* n per item, > 0, of the dtype of k; NULL: all 1 */
    /* Further outputs, of the dtype of k, with a leading dimension of one entry per ridge; NULL:
     * not wanted. */
    gram_tensor *error;  /* ridges by c: the mean squared leave-one-out error */
    gram_tensor *spread; /* ridges by c: the standard error of that mean */
    gram_tensor *alpha;  /* ridges by n by c: the coefficients of the fit to all rows */
    gram_tensor *offset; /* ridges by c: the intercept b of the fit to all rows */
} gram_krr_path_options;

/* clang-format off */
#define GRAM_KRR_PATH_OPTIONS_INIT GRAM_SIZED_(gram_krr_path_options)
/* clang-format on */

/*
 * Exact leave-one-out residuals of kernel ridge regression, for a whole path of ridges and every
 * column of y:
 *   loo[t, i, j] = y[i, j] - f(x_i),
 * where f is the fit with ridge r = ridges[t] to column j of all rows except row i.  A fit
 * minimises
 *   sum_i w_i (y_i - f(x_i))^2 + r alpha^T K alpha,   f(x_i) = b + sum_j K[i, j] alpha_j,
 * so that, with A = K + r diag(1 / w),
 *   A alpha = y - b 1.
 * No fit is repeated.  With A^-1 from S = W^(1/2) K W^(1/2) = V diag(l) V^T, W = diag(w),
 *   A^-1 = W^(1/2) V diag(1 / (l + r)) V^T W^(1/2),
 * u = A^-1 1 and c = A^-1 y, the residuals are
 *   c_i / (A^-1)_ii                                          (INTERCEPT_NONE),
 *   (c_i - m_i u_i) / (A^-1)_ii                              (INTERCEPT_MEAN),
 *   (c_i - b u_i) / ((A^-1)_ii - u_i^2 / 1^T u),  b = 1^T c / 1^T u    (INTERCEPT_FITTED),
 * where m_i is the mean of y without row i: an intercept is learned again without row i, too.
 * With CHOLESKY, the same formulas take A^-1 from the factor of S + r I.
 *
 * options.error is the weighted mean of the squared residuals, and options.spread its standard
 * error, as if the residuals e_i were independent:
 *   error = sum_i w_i e_i^2 / sum_i w_i,
 *   spread = sqrt(n / (n - 1) sum_i w_i^2 (e_i^2 - error)^2) / sum_i w_i.
 * If there are no rows, error is NaN; with fewer than two, spread is.  With one row and an
 * intercept, no row is left to learn from, and the residual is NaN.
 *
 * k is the kernel matrix, n by n, symmetric, of which one triangle is read; y is n by c; loo is
 * ridges by n by c.  All tensors are f32, or all are f64, with any strides; the computation is in
 * f64.  Batches of k, y and weights broadcast; the outputs and info have the joint batch.  ridges
 * are `count` numbers on the CPU, finite and at least 0, in any order.  Numbers in the triangle of
 * k, in y or in weights that are not finite (or not positive, in weights) are refused with
 * GRAM_INVALID_ARGUMENT, and the message names the first.
 *
 * info is NULL, or int32 with one value per item: the number of ridges for which K + r W^-1 is not
 * positive definite in f64 (EIGH: min l + r <= n 2^-52 max |l|; CHOLESKY: the factorisation of
 * S + r I breaks down, or has a pivot of at most n 2^-52 times the largest diagonal element).
 * Their outputs are NaN, and the others are right.  The status is GRAM_OK if info was given, and
 * GRAM_NUMERICAL otherwise.
 *
 * Error: with kappa = (max l + r) / (min l + r), and P_ii the denominator in the formula above, a
 * residual e_i without an intercept is wrong by at most
 *   32 n 2^-52 kappa (|W^(-1/2) alpha|_2 w_i^(1/2) / P_ii + |e_i|) + eps |e_i|,
 * where eps is that of the dtype.  With an intercept, kappa is multiplied by
 *   (1 + |W^(1/2) 1| |W^(-1/2) u| / 1^T u) (A^-1)_ii / P_ii.
 *
 * Scratch: 3 n^2 numbers of f64 (EIGH), or n^2 + 256 n (CHOLESKY), and some 2 n (c + ridges).  Up
 * to 2048 rows, the ridges of CHOLESKY run side by side, each with scratch of its own and one
 * thread. The items of a batch follow each other, each with all threads.  The call can be cancelled
 * (gram_context_cancel) between factorisations. CUDA: GRAM_UNSUPPORTED.
 *
 * After Allen, Technometrics 16 (1974), and Cawley and Talbot, Neural Networks 17 (2004), who have
 * the intercept.
 */
GRAM_API gram_status gram_krr_path(gram_context *g, const gram_tensor *k, const gram_tensor *y,
                                   const double *ridges, int64_t count,
                                   const gram_krr_path_options *options, gram_tensor *loo,
                                   gram_tensor *info);

GRAM_API gram_status gram_krr_path_workspace(gram_context *g, const gram_tensor *k,
                                             const gram_tensor *y, const double *ridges,
                                             int64_t count, const gram_krr_path_options *options,
                                             const gram_tensor *loo, gram_workspace *need);

/* ---- Kernel ridge regression: certified solves --------------------------------------------- */

typedef enum gram_krr_method {
    GRAM_KRR_AUTO = 0,     /* CHOLESKY for few rows (6,000 on the CPU, 16,000 on a GPU), else CG;
                              CENTRES if there are centres */
    GRAM_KRR_CHOLESKY = 1, /* the kernel matrix is stored and factorised in f64 */
    GRAM_KRR_CG = 2,       /* conjugate gradients by products with a matrix that is never stored */
    GRAM_KRR_CENTRES = 3,  /* fewer unknowns than rows: one per centre */
    GRAM_KRR_BLOCKS = 4,   /* rows in blocks, one after the other, while there is time */
} gram_krr_method;

/* Why a solve ended. */
typedef enum gram_krr_end {
    GRAM_KRR_REACHED = 0,    /* every column has the tolerance */
    GRAM_KRR_ROUNDING = 1,   /* rounding allows no smaller residual */
    GRAM_KRR_PRODUCTS = 2,   /* options.products were used up */
    GRAM_KRR_TIME = 3,       /* options.time_limit was */
    GRAM_KRR_INDEFINITE = 4, /* K + diag(ridge / weight) is not positive definite */
} gram_krr_end;

/* What a solve has reached.  All numbers are those of the alpha that was written. */
typedef struct gram_krr_report {
    size_t size;            /* set by the caller to sizeof(gram_krr_report) */
    gram_krr_method method; /* CHOLESKY, CG, CENTRES or BLOCKS */
    int reached;            /* 1: the tolerance, in every column */
    gram_krr_end end;
    int64_t rank;          /* of the preconditioner; 0: there was none */
    int64_t products;      /* times that K was multiplied by a block of columns */
    double residual;       /* the largest |r|_2 / |y|_2 of a column */
    double residual_rms;   /* the largest |r|_2 / sqrt(n) */
    double prediction_rms; /* bounds of the change of predictions: see gram_krr_solve */
    double prediction_sup;
    double seconds;
    double floor; /* CENTRES: what was added to the diagonal of their kernel matrix */
} gram_krr_report;

#define GRAM_ROWS_MESSAGE 256

/* Points that are read in blocks, from a file or a stream that may be larger than the memory. */
typedef struct gram_rows {
    size_t size;
    int64_t rows, columns;
    gram_dtype dtype; /* GRAM_F32 or GRAM_F64 */
    /* Writes `count` rows from the row `first` on to out, on the host, row after row without gaps,
     * and returns 0; or writes why it cannot to message, and returns another number.  It is called
     * in the thread of the call, and more than once for a row, which must be the same each time. */
    int (*read)(void *user, int64_t first, int64_t count, void *out,
                char message[GRAM_ROWS_MESSAGE]);
    void *user;
} gram_rows;

/* clang-format off */
#define GRAM_ROWS_INIT GRAM_SIZED_(gram_rows)
/* clang-format on */

/*
 * Rows from an Arrow C stream, whose columns become the coordinates of points:
 *   out->rows rows of out->columns numbers of dtype, which is GRAM_F32 or GRAM_F64.
 *
 * The stream gives batches of any sizes, with any offsets, of columns of integers of 8 to 64 bits,
 * float32 and float64, without nulls.  float32 takes integers of up to 16 bits and float32;
 * float64 takes all, and rounds integers above 2^53.  All batches are taken at once and kept where
 * the producer has them, since rows are read more than once: nothing is copied, and those of a file
 * that is mapped are read from the disk.  A block of rows is converted when it is read.
 *
 * stream is released, once, whatever the status is, and so is its schema; each batch is released
 * once, by gram_rows_close or where the call fails.  Give out as GRAM_ROWS_INIT; on an error it is
 * unchanged.  out->read is called in any thread, but by one at a time.
 *
 * GRAM_IO: the producer has failed; the message has its words.  GRAM_INVALID_ARGUMENT: a column of
 * another type, or too wide for dtype; a null, with its row and column, which count from 0.
 * GRAM_BAD_DATA: a batch that does not fit its schema.
 *
 * The interface: https://arrow.apache.org/docs/format/CStreamInterface.html.
 */
GRAM_API gram_status gram_rows_from_arrow(gram_context *g, struct ArrowArrayStream *stream,
                                          gram_dtype dtype, gram_rows *out);

/* Releases what rows of gram_rows_from_arrow hold.  Other rows, and NULL, are left as they are. */
GRAM_PUBLIC void gram_rows_close(gram_rows *rows);

typedef struct gram_krr_options {
    size_t size;
    gram_krr_method method;
    double ridge;               /* >= 0, on the diagonal; it is not multiplied by n */
    const gram_tensor *weights; /* n numbers > 0 of the dtype of x: row i has ridge / weights[i] */
    double tolerance;           /* 0: 0.01, or 0.03 with held_out_rmse */
    double held_out_rmse;       /* > 0: the tolerance is that of prediction_rms / held_out_rmse;
                                   0: it is that of |r|_2 / |y|_2 of every column */
    int64_t rank; /* of the preconditioner of CG; 0: about 8 sqrt(n), at most 1000, and more where
                     that is counted to pay: see below; -1: none */
    int64_t products;  /* at most so many products with K; 0: 1000 */
    double time_limit; /* seconds, looked at between iterations; 0: none */
    int refine;        /* 1: CG in f32 is repeated for residuals in f64, whose sum is kept in f64 */
    int warm_start;    /* 1: alpha holds a first guess (CG); 0: the first guess is 0 */
    uint64_t seed;     /* of the preconditioner */
    gram_krr_report *report; /* NULL: not wanted */
    /* CENTRES: one of the first two. */
    const gram_tensor *centres; /* m by d points of the dtype of x */
    int64_t centre_count;       /* m rows of x, which are drawn, all alike */
    gram_tensor *chosen;        /* receives their numbers: i64, m, without gaps; NULL: not wanted */
    /* CG, CENTRES and BLOCKS: a file from which another call can go on; NULL: none.  See below. */
    const char *checkpoint;
    int resume;                    /* 1: go on from the file, if it is there; 0: begin anew */
    double checkpoint_seconds;     /* between two writes */
    int64_t checkpoint_iterations; /* the same in iterations, or blocks; both 0: 60 seconds */
    const gram_rows *rows; /* CENTRES, CG: the points, in the place of x, which is NULL then */
    int64_t memory; /* bytes that a preconditioner whose rank is 0 may grow to, and, with rows,
                       that eight blocks of CG take; 0: a quarter of the memory that is available
                       where the context computes, and 64 MiB a block */
    gram_communicator *communicator; /* the ranks that share the solve; NULL: none */
} gram_krr_options;

/* clang-format off */
#define GRAM_KRR_OPTIONS_INIT GRAM_SIZED_(gram_krr_options)
/* clang-format on */

/*
 * Solves the system of kernel ridge regression, and says how wrong the answer is:
 *   (K + diag(ridge / weight)) alpha = y,   K[i, j] = k(x_i, x_j),   K = gram_kernel(x, x, kernel).
 *
 * x is n by d, y is n by c or a vector of n elements, and alpha has the shape of y.  All are f32,
 * or all are f64; alpha may also be f64 where x is f32.  They have any strides and no batch, and
 * alpha overlaps none of the others.  kernel is any positive definite kernel of gram_kernel with
 * output = GRAM_VALUE and without a regularization: options.ridge takes its place.
 *
 * The certificate: r = y - (K + diag(ridge / weight)) alpha of the alpha that was written is
 * computed afresh, by a product in f64 of points in f64.  With the exact solution's predictor f,
 * and the predictor g(z) = sum_i alpha_i k(x_i, z) of the alpha that was written,
 *   prediction_rms:  sqrt(sum_i (f(x_i) - g(x_i))^2 / n) <= |r|_2 / sqrt(n)
 *                                                           sqrt(max weight / min weight),
 *   prediction_sup:  |f(z) - g(z)| <= sqrt(k(z, z)) |r|_2 / (2 sqrt(ridge / max weight))
 * for every z, where the report has the largest k(x_i, x_i) for k(z, z).  |r|_2 is that of the
 * largest column, and includes 16 2^-52 sqrt(n) max k(x_i, x_i) |alpha|_2 for the rounding of that
 * product.  Both hold for a positive definite kernel; the first is usually close to what happens on
 * new points, and the second is pessimistic, and infinite for a ridge of 0.  A sensible tolerance
 * is a small part of the error that predictions have anyway: with the root mean squared error of
 * rows that were held out in options.held_out_rmse, the call ends at prediction_rms <= tolerance
 * held_out_rmse.
 *
 * CG: block conjugate gradients.  The columns share the products with K (gram_kernel_matmul), and
 * each leaves when it has converged.  The preconditioner is a randomly pivoted Cholesky
 * factorisation of K of rank options.rank.  Without one it begins with about 8 sqrt(n) columns, and
 * after 4, 6, 9 and so on iterations the eigenvalues of their Lanczos process say how many are to
 * come at least: where a count of operations finds that they cost more than further columns and the
 * iterations with these, columns are appended, up to 20,000 in options.memory, and the method
 * begins again from where it is.  Nothing of that depends on a clock.  report->rank is the last
 * one.  Where the true residual in f64 is above the tolerance though the iteration believed that it
 * is reached, it begins again from there, up to 3 times, or up to 30 times with options.refine,
 * while a repetition at least halves the residual.
 *
 * A small ridge in f32 asks for options.refine with an alpha of f64.  The iteration's residuals are
 * then renewed by products in f64, where one has fallen to a quarter and after 50 iterations, and
 * go on in the same directions (reliable updates: Sleijpen and van der Vorst, Computing 56 (1996)).
 * Where the rounding of products in f32 keeps the residuals from falling, since the matrix has
 * eigenvalues that are smaller than it, the iteration goes on in f64, with the preconditioner of
 * f32: a product in f64 takes two to four times as long.
 *
 * CENTRES: alpha is m by c, for m points C, and predicts g(z) = sum_j alpha_j k(c_j, z).  It
 * minimizes
 *   sum_i weight_i (g(x_i) - y_i)^2 + ridge alpha^T S alpha,   S = kernel(C, C) + floor I,
 * where the floor is m eps max k(x_i, x_i), and up to 10^4 times as much where S is not positive
 * definite with less.  eps is 2^-23 for points in f32, and 2^-40 for f64 or with options.refine.
 * The normal equations (K_mn W K_nm + ridge S) alpha = K_mn W y are solved by conjugate gradients
 * with a preconditioner that has (n / m) mean(W) S^2 in the place of the first term; K_nm is not
 * stored.  Their residual q is computed in f64.  In the norm of the preconditioner, that of q over
 * that of K_mn W y is report->residual, about the relative change of predictions; the tolerance is
 * of it unless options.held_out_rmse is given.  In the norm of S^-1, |q|_S bounds what the exact
 * minimizer would change,
 *   prediction_rms = |q|_S / (2 sqrt(ridge n min weight)),
 *   prediction_sup = sqrt(max k(x_i, x_i)) |q|_S / ridge,
 * and includes an allowance for rounding.  Small ridges make both pessimistic.  report->rank is m,
 * products counts those with K_nm and with K_mn, and options.rank is not used.
 *
 * BLOCKS: block coordinate descent.  A block of n / 32 rows, 256 at least and 4,000 at most, is
 * drawn without replacement, and its part of alpha becomes the best one beside the others, by a
 * Cholesky factorisation in f64; the point from which it does so has momentum after Nesterov, as
 * much as the residuals of the passes so far allow.  A pass over all blocks takes the time of two
 * products of CG, for nothing of the size of n but vectors; an answer is there from the first block
 * on, where a preconditioner of CG is still being made.  It ends at options.time_limit, which
 * leaves time for the certificate, after as many passes as options.products says, or where the
 * residuals of a pass may be small enough and the true one is.  CG is quicker to a small residual.
 * After Tu et al., arXiv:1602.05310, and Rathore et al., arXiv:2407.10070.
 *
 * Rows from a disk: with options.rows, x is NULL, and CENTRES reads the points in blocks of some
 * megabytes, once for each two products and once before the first, so that nothing of n by d is in
 * memory.  CG, which AUTO means where there are no centres, takes the pairs of b blocks: a product
 * reads the rows about b / 2 times, each 100 columns of the preconditioner once; beside four blocks
 * it has n numbers for each column of the preconditioner, which is more than the points unless d is
 * more than the rank.  y, weights, centres and alpha have the dtype of the rows.  The answer is
 * that of the same points in x, but for rounding, and a checkpoint of one serves the other.
 * GRAM_IO: rows could not be read; the message has the words of options.rows->read.
 *
 * Checkpoints: options.checkpoint is a file with the state of the iteration, which is written every
 * so many seconds or iterations (BLOCKS: blocks of rows), when the call is cancelled or ends by
 * options.time_limit or options.products, and at the end, when it holds the answer.  It is written
 * aside, flushed and renamed, so that a process may end at any moment, and the former file stays
 * until the next one is whole.  With options.resume a call goes on from it by the same steps as one
 * that was never interrupted, but for rounding; without the file it begins anew.  Tolerances,
 * limits, devices and numbers of threads may be others; options.warm_start, rank and seed are not
 * read, and with less memory a rank may stay lower.  A file of other x, y, ridge, weights, kernel,
 * centres, method or options.refine, and one that is damaged, is refused with GRAM_BAD_DATA, and
 * the message says what differs.  report->products counts those of all calls, and so does
 * options.products.  A file that cannot be written when the call begins is refused with GRAM_IO.
 * One that cannot be written later, as on a full disk, ends nothing: the former file stays, further
 * writes are tried, and if the last one failed the status is GRAM_IO, or GRAM_NUMERICAL or
 * GRAM_CANCELLED with both messages; alpha and the report are written as for GRAM_OK.  The size is
 * about 24 bytes for each element of alpha, and 3 numbers of the dtype (CG), or 32 bytes (BLOCKS).
 * CHOLESKY, also where AUTO takes it, keeps none.  The format is in src/krr/krr_checkpoint.c.
 *
 * Ranks: with options.communicator every rank calls with its rows of x, y, weights and alpha, any
 * number of them, or none, and the problem has the rows of all, rank by rank.  Each rank then holds
 * all rows, and takes the same steps; the products with K are shared as in
 * gram_kernel_matmul_multi.  Of the preconditioner, n by rank numbers, a rank has the rows that are
 * its own: pivots are drawn by all of them, and the sums over the rows are exchanged.  The numbers
 * that decide are those of the first rank, and every rank gets the same report.  The same number of
 * ranks with the same rows gives the same bits on the same processors.  Everything but the points,
 * numbers and tensors of GPUs is compared.  Data are exchanged over MPI on the CPU, and over NCCL
 * on GPUs.  An error on one rank, also GRAM_CANCELLED, is one on all of them.  The first rank
 * writes options.checkpoint, but not where a rank is cancelled.  With options.resume all ranks read
 * the file, which any number of ranks or one process may have written.  CENTRES and options.rows:
 * GRAM_UNSUPPORTED.
 *
 * GRAM_NUMERICAL: the tolerance was not reached.  report->end and the message say why, alpha holds
 * the best iterate, and the report is of it.  A kernel matrix that is not positive definite is
 * found by a direction p with p^T A p <= 0.  Where CHOLESKY was asked for and breaks down, alpha is
 * NaN; with AUTO, conjugate gradients follow.  A ridge of 0 is allowed; where K is singular to
 * working precision, as with equal rows, the residual says how far y was reached.  The report is
 * written if the status is GRAM_OK or GRAM_NUMERICAL.  Numbers in x, y or alpha (as a first guess)
 * that are not finite, weights that are not positive and finite, a kernel with k(x_i, x_i) < 0, and
 * one whose matrix is not symmetric (the Kullback-Leibler divergence, offsets that differ, an
 * expression that differs both ways for some rows of x) are refused with GRAM_INVALID_ARGUMENT, and
 * alpha is unchanged, as it is if the call is cancelled (gram_context_cancel).
 *
 * Memory, allocated by the call: in f64 x, 7 n numbers per column on the CPU, and 6 of the dtype
 * where the context computes; n (rank + d) numbers of the dtype and 8 rank^2 of f64 (CG; while the
 * preconditioner is made on a GPU also 2^15 rank of f64); n^2 of f64 (CHOLESKY); 5 m^2 of f64, and
 * 3 m^2 while it iterates (CENTRES); with options.rows, 32 MB or 512 rows in the place of x.  CUDA:
 * the call waits for the result, and gives GRAM_UNSUPPORTED during a capture.
 *
 * After Diaz, Epperly, Frangella, Tropp and Webber, Robust, randomized preconditioning for kernel
 * ridge regression, arXiv:2304.12465; CENTRES after Rudi, Carratino and Rosasco, FALKON: an optimal
 * large scale kernel method, arXiv:1705.10958.  The bounds follow from f(x) - g(x) = K (K + D)^-1 r
 * and, for CENTRES, as src/krr/krr_centres.c has it.
 */
GRAM_API gram_status gram_krr_solve(gram_context *g, const gram_tensor *x,
                                    const gram_kernel_options *kernel, const gram_tensor *y,
                                    const gram_krr_options *options, gram_tensor *alpha);

/* ---- Predictive variances of Gaussian processes -------------------------------------------- */

/* What a call has reached. */
typedef struct gram_krr_variance_report {
    size_t size;            /* set by the caller to sizeof(gram_krr_variance_report) */
    gram_krr_method method; /* CHOLESKY or CG */
    int reached;            /* 1: the tolerance, at every point */
    gram_krr_end end;
    int64_t rank;     /* of the preconditioner; 0: there was none */
    int64_t products; /* times that K was multiplied by a block of columns */
    double bound;     /* the largest bound / k(z, z) of a point */
    double seconds;
} gram_krr_variance_report;

typedef struct gram_krr_variance_options {
    size_t size;
    gram_krr_method method;     /* AUTO, CHOLESKY or CG */
    double ridge;               /* > 0, on the diagonal: the variance of the noise */
    const gram_tensor *weights; /* n numbers > 0 of the dtype of x: row i has ridge / weights[i] */
    double tolerance;           /* of bound / k(z, z); 0: 1e-4 */
    int64_t rank;               /* of the preconditioner of CG, as in gram_krr_options */
    int64_t products;           /* at most so many products with K for a block of points; 0: 1000 */
    double time_limit;          /* seconds, looked at between iterations; 0: none */
    uint64_t seed;              /* of the preconditioner */
    gram_tensor *bound;         /* m numbers of the dtype of variance; NULL: not wanted */
    gram_krr_variance_report *report; /* NULL: not wanted */
} gram_krr_variance_options;

/* clang-format off */
#define GRAM_KRR_VARIANCE_OPTIONS_INIT GRAM_SIZED_(gram_krr_variance_options)
/* clang-format on */

/*
 * The variances of a Gaussian process at new points, given noisy values at the rows of x, and how
 * wrong they are at most:
 *   variance[j] = k(z_j, z_j) - k_j^T (K + D)^-1 k_j,
 *   K[i, l] = k(x_i, x_l),   k_j[i] = k(x_i, z_j),   D = diag(ridge / weight).
 * They are of the function itself: add the variance of the noise for that of a new observation.
 *
 * x is n by d, z is m by d, and variance has m elements; options.bound too.  x, z and the weights
 * are f32, or all are f64; variance is of their dtype or f64.  All have any strides and no batch,
 * and the outputs overlap nothing else.  kernel is as in gram_krr_solve, whose points x,
 * options.ridge and options.weights these are.
 *
 * Test points are taken in blocks, of 8 to 256, whose columns k_j share a solve: by one
 * factorisation in f64 for all blocks (CHOLESKY), or by the iteration of gram_krr_solve with its
 * refinement (CG), whose preconditioner serves all blocks.  Let a be the solution that came out for
 * k_j, and r = k_j - (K + D) a its residual, computed afresh in f64.  Then
 *   k(z, z) - k_j^T a - a^T r = variance[j] + r^T (K + D)^-1 r,
 * so that the number on the left is never too small, and its error is of second order:
 *   0 <= r^T (K + D)^-1 r = min_f sum_i (r_i - f(x_i))^2 / D_i + |f|^2 <= e,
 * over the functions f of the kernel's space.  e is what f = 0 or the best f = sum_s v_s k(., x_s)
 * gives, with the pivots s of the preconditioner, at most 1000 of them, by products in f64; both
 * are upper bounds however f was found.  variance receives this number, or 0 if it is negative, and
 *   bound = min(e, variance) + an allowance for rounding,
 * where u = 2^-52, M = max k(x_i, x_i), s = 16 u sqrt(n) M |a|_2 is that of r, and
 * s |a|_2 + 16 u (sqrt(n M k(z, z)) |a|_2 + k(z, z)) that of the sum, and for an f32 variance its
 * own; e has that of its own sums.  |variance - truth| <= bound holds for every positive definite
 * kernel.  On random problems the bound is some 2 times the error (median), with a preconditioner
 * that is close to K + D less; without one (options.rank < 0) e takes the ridge for the least
 * eigenvalue of K + D, and is pessimistic.
 *
 * GRAM_NUMERICAL: bound <= options.tolerance k(z, z) was not reached at some point, for the reason
 * in report->end and the message; the outputs hold the best that there is, and the report is of it.
 * Where K + D is not positive definite the outputs are NaN, for the points of that block, or, if
 * CHOLESKY was asked for, for all.  Numbers in x or z that are not finite, and all else that
 * gram_krr_solve refuses, are GRAM_INVALID_ARGUMENT, and leave the outputs unchanged, as a
 * cancelled call does.
 *
 * Memory, allocated by the call: that of gram_krr_solve for as many columns as a block has, which
 * is 2^23 / n within its limits, and one column and 2 rank more for each; rank^2 of f64 for e; for
 * CHOLESKY n^2 of f64.  The time is that of as many solves as
 * there are blocks.  CUDA: the call waits for the result, and gives GRAM_UNSUPPORTED during a
 * capture.
 *
 * Method: C. Rasmussen and C. Williams, Gaussian processes for machine learning, equation (2.26);
 * the form of second order is that of every conjugate gradient estimate of a quadratic form, as G.
 * Golub and G. Meurant, Matrices, moments and quadrature II, BIT 37 (1997).
 */
GRAM_API gram_status gram_krr_variance(gram_context *g, const gram_tensor *x,
                                       const gram_kernel_options *kernel, const gram_tensor *z,
                                       const gram_krr_variance_options *options,
                                       gram_tensor *variance);

/* ---- Samples of Gaussian processes --------------------------------------------------------- */

/* How draws are made of a process that has seen nothing. */
typedef enum gram_krr_prior {
    GRAM_KRR_PRIOR_AUTO = 0,     /* JOINT for few points, as AUTO of gram_krr_method; FEATURES */
    GRAM_KRR_PRIOR_JOINT = 1,    /* a Cholesky factor of the kernel matrix of all points */
    GRAM_KRR_PRIOR_FEATURES = 2, /* random Fourier features: for stationary kernels */
} gram_krr_prior;

/* What a call has reached. */
typedef struct gram_krr_samples_report {
    size_t size;            /* set by the caller to sizeof(gram_krr_samples_report) */
    gram_krr_method method; /* CHOLESKY or CG */
    gram_krr_prior prior;   /* JOINT or FEATURES */
    int reached;            /* 1: the tolerance, in every draw */
    gram_krr_end end;
    int64_t rank;     /* of the preconditioner; 0: there was none */
    int64_t products; /* times that K was multiplied by a block of columns */
    double residual;  /* the largest |r|_2 / |b|_2 of a draw */
    double floor;     /* JOINT: what was added to the diagonal of the matrix of all points */
    double seconds;
} gram_krr_samples_report;

typedef struct gram_krr_samples_options {
    size_t size;
    gram_krr_method method;     /* AUTO, CHOLESKY or CG */
    double ridge;               /* > 0, on the diagonal: the variance of the noise */
    const gram_tensor *weights; /* n numbers > 0 of the dtype of x: row i has ridge / weights[i] */
    double tolerance;           /* of |r|_2 / |b|_2 of each draw; 0: 1e-3 */
    int64_t rank;               /* of the preconditioner of CG, as in gram_krr_options */
    int64_t products;           /* at most so many products with K for a block of draws; 0: 1000 */
    double time_limit;          /* seconds, looked at between iterations; 0: none */
    uint64_t seed;              /* of the draws, and of the preconditioner */
    gram_krr_prior prior;
    int64_t features;                /* of each draw; 0: 2048 */
    gram_krr_samples_report *report; /* NULL: not wanted */
} gram_krr_samples_options;

/* clang-format off */
#define GRAM_KRR_SAMPLES_OPTIONS_INIT GRAM_SIZED_(gram_krr_samples_options)
/* clang-format on */

/*
 * Draws of a Gaussian process at new points, given noisy values y at the rows of x, by Matheron's
 * rule:
 *   samples[j, s] = f_s(z_j) + k_j^T (K + D)^-1 b_s,   b_s = y - f_s(x) - e_s,
 *   K[i, l] = k(x_i, x_l),   k_j[i] = k(x_i, z_j),   D = diag(ridge / weight),
 * where f_s is a draw of the process before it has seen anything, at x and z together, and e_s is
 * normal with the covariance D.  The draws have the mean and the covariances that the process has
 * given y,
 *   k_j^T (K + D)^-1 y   and   k(z_j, z_l) - k_j^T (K + D)^-1 k_l,
 * and are of the function itself: add noise for draws of new observations.  With no rows in x they
 * are those of the process that has seen nothing.
 *
 * x is n by d, y has n elements, z is m by d, and samples is m by S: so many draws are made.  x, y,
 * z and the weights are f32, or all are f64; samples are of their dtype or f64.  All have any
 * strides and no batch, and samples overlap nothing else.  kernel is as in gram_krr_solve, whose
 * points x, options.ridge and options.weights these are.  All is computed in f64, but CG, which has
 * its residuals in f64.
 *
 * JOINT draws f as L u, with the Cholesky factor of the kernel matrix of all n + m points in f64
 * plus a floor on its diagonal, (n + m) 2^-52 max k(x_i, x_i), or up to 10^5 times as much where it
 * is not positive definite with less; report->floor is what it was.  Any kernel will do.
 *
 * FEATURES draws f as a sum of F = options.features waves, for kernels whose spectra are known:
 *   f(x) = F^-1/2 sum_i rho_i cos(w_i^T x + phi_i),
 * with frequencies w from the kernel's spectrum, and rho and phi such that f(x) is normal with
 * variance 1 at every point.  They are Laplace, Gaussian, exponential power and rational quadratic
 * kernels of s = (sum_k |x_k - y_k|^p)^c with p <= 2 and, c times the exponent being the power of
 * the sum, at most the first one; and Matern kernels of p = 2.  Each draw has waves of its own, so
 * that means and covariances over draws are exact, as above.  What is not exact is one draw: given
 * its frequencies it is a process with the kernel sum_i cos(w_i^T (x - y)) / F, which differs from
 * k(x, y) with a standard error of at most 0.75 / sqrt(F), so that several points together are
 * normal only as F grows.  Errors of a draw by this are those of the process before it saw y: they
 * are largest far from x.  With the same seed, x, y and kernel, a draw by FEATURES is the same
 * function at other z, or with other S, up to rounding and the tolerance; one by JOINT is another.
 *
 * (K + D)^-1 b is that of gram_krr_solve: by a factorisation in f64 (CHOLESKY), or by its iteration
 * with refinement (CG), for blocks of 8 to 256 draws, which share one factor or preconditioner.
 * Where the residual r of a draw is not 0, the draw is wrong at x by at most |r|_2 / sqrt(n) (root
 * mean square; times sqrt(max weight / min weight)), as in gram_krr_solve.
 *
 * GRAM_NUMERICAL: |r|_2 <= options.tolerance |b|_2 was not reached in some draw, for the reason in
 * report->end and the message; samples hold the best that there is, and the report is of it.  They
 * are NaN where the matrix of JOINT, or with CHOLESKY K + D, is not positive definite.
 * GRAM_UNSUPPORTED: the kernel has no features, and either these were asked for or there are more
 * points than AUTO takes for JOINT.  All else that gram_krr_solve refuses is GRAM_INVALID_ARGUMENT,
 * and leaves samples unchanged, as a cancelled call does.
 *
 * Memory, allocated by the call: that of gram_krr_solve for as many columns as a block has, which
 * is 2^23 / n within its limits; m S of f64; for JOINT (n + m)^2 of f64, and for FEATURES (n + m)
 * (d + 1) and F (d + 2); for CHOLESKY n^2.  The time of FEATURES is that of F (n + m) cosines for
 * each draw.  CUDA: the call waits for the result, and gives GRAM_UNSUPPORTED during a capture.
 *
 * After J. Wilson, V. Borovitskiy, A. Terenin, P. Mostowsky and M. Deisenroth, Efficiently sampling
 * functions from Gaussian process posteriors, arXiv:2002.09309; features after Rahimi and Recht,
 * Random features for large-scale kernel machines, NIPS 2007.
 */
GRAM_API gram_status gram_krr_samples(gram_context *g, const gram_tensor *x,
                                      const gram_kernel_options *kernel, const gram_tensor *y,
                                      const gram_tensor *z, const gram_krr_samples_options *options,
                                      gram_tensor *samples);

#ifdef __cplusplus
}
#endif
#endif

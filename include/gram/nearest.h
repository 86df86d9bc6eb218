/*
 * nearest.h - nearest rows, and reductions of the rows of kernel matrices that are never stored
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PUBLIC_NEAREST_H
#define GRAM_PUBLIC_NEAREST_H
#include "pairwise.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Nearest neighbours ------------------------------------------------------------------- */

/* The most neighbours per row that one call can store. */
#define GRAM_MAX_NEIGHBOURS 1024

typedef struct gram_nearest_options {
    size_t size;
    int exclude_self;    /* only where y is x: row i is no neighbour of itself */
    int within;          /* only rows at a distance of at most radius are neighbours */
    double radius;       /* at least 0; INFINITY is allowed */
    gram_tensor *counts; /* i64, of m elements; or NULL */
    /* CPU: called now and then by the calling thread, with the share of the work that is done;
     * NULL: nothing is called. */
    void (*progress)(void *progress_user, double fraction);
    void *progress_user;
    const gram_distance *metric;     /* NULL: the p-norm, with the p of the call */
    gram_communicator *communicator; /* for gram_nearest_multi; other calls refuse it */
} gram_nearest_options;

/* clang-format off */
#define GRAM_NEAREST_OPTIONS_INIT GRAM_SIZED_(gram_nearest_options)
/* clang-format on */

/*
 * Nearest neighbours: for every row i of x the rows j of y at the smallest distances
 *   d[i, j] = gram_cdist(x, y, p)[i, j],
 * or those of gram_cdist with options.metric, in ascending order.  Of rows at the same distance,
 * the one with the lower index comes first, so that the result is the beginning of a stable sort of
 * row i of d.  The search is exact: it compares all pairs, and stores no matrix.
 *
 * x is m by k and y is n by k, in f32, f64, f16 or bf16 (both the same), with any strides.  y may
 * be NULL for x itself; then options.exclude_self leaves out the pairs i = j, but not other rows
 * that have the same coordinates.  p is 0, positive or INFINITY, as in gram_cdist.  options.metric
 * is any gram_distance, weights included; p of the call is then not read.  indices and
 * distances are m by count; their number of columns is the number of neighbours that are wanted, at
 * most GRAM_MAX_NEIGHBOURS.  indices is i64, and distances has the dtype of gram_cdist's out.
 * Either may be NULL.  Batches of x, y, p and the metric's tensors broadcast.
 *
 * options.within keeps only neighbours with d[i, j] <= options.radius.  options.counts receives how
 * many neighbours each row has, whether or not they all found a place in indices.  Where counts is
 * given, indices and distances may both be NULL.
 *
 * A pair whose distance is NaN or infinite is no neighbour.  A row that holds a NaN has none,
 * except by the metrics that read a NaN as a value (GRAM_DISTANCE_HAMMING, GRAM_DISTANCE_JACCARD)
 * or as a missing one (GRAM_DISTANCE_NAN_EUCLIDEAN).  Places for which there is no neighbour
 * receive the index -1 and the distance INFINITY.
 *
 * Distances have the error of gram_cdist.  A neighbour can therefore be wrong only where distances
 * are equal within that error.  Equal rows have the distance 0 exactly where gram_cdist says so.
 * The result does not depend on the number of threads.
 *
 * Memory: scratch holds a block of distances and the neighbours found so far of the rows at work.
 * It does not grow with m n.  On CUDA, a metric with weights, or one that takes other numbers than
 * the coordinates (the seuclidean, cosine, correlation, Jaccard, Jensen-Shannon, Hellinger and
 * haversine ones), also has a copy of x and y there.  Of many points with
 * p = 2 in f32, f16 or bf16 it holds instead up to 256 MiB: candidates of 16384 rows, and parts of
 * x and y as pairs of halves.  Rows with thousands of neighbours at the same distance then take
 * longer.  On the CPU, the call can be cancelled (gram_context_cancel), which leaves a part of the
 * outputs written.  On CUDA, the call only enqueues work, and sizes are at most 2^31 - 1.
 */
GRAM_API gram_status gram_nearest(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                  gram_scalar p, const gram_nearest_options *options,
                                  gram_tensor *indices, gram_tensor *distances);

GRAM_API gram_status gram_nearest_workspace(gram_context *g, const gram_tensor *x,
                                            const gram_tensor *y, gram_scalar p,
                                            const gram_nearest_options *options,
                                            const gram_tensor *indices,
                                            const gram_tensor *distances, gram_workspace *need);

/*
 * gram_nearest by the ranks of options.communicator.  Each rank calls it with its rows of x, y,
 * indices, distances and counts, any number of them, or none.  The rows of y are those of all
 * ranks, rank by rank, and indices count them so; y NULL means x, and options.exclude_self leaves
 * out each row itself.  The results are those of one process.  There are no batches, and the dtype
 * is f32 or f64.  Data are exchanged over MPI on the CPU, and over NCCL on GPUs: the rows of y come
 * to all ranks, each of which holds them in scratch, n k numbers.
 *
 * The number of columns, the dtype, p, the metric and the options that choose neighbours must be
 * the same on all ranks, and are compared, apart from what lies in tensors.  An error on one rank
 * is one on all of them, with a message that names the rank and its reason; nothing is written then
 * unless the search had begun.
 */
GRAM_API gram_status gram_nearest_multi(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                        gram_scalar p, const gram_nearest_options *options,
                                        gram_tensor *indices, gram_tensor *distances);

/* Every rank makes this call, too. */
GRAM_API gram_status gram_nearest_multi_workspace(gram_context *g, const gram_tensor *x,
                                                  const gram_tensor *y, gram_scalar p,
                                                  const gram_nearest_options *options,
                                                  const gram_tensor *indices,
                                                  const gram_tensor *distances,
                                                  gram_workspace *need);

/* ---- Reductions of kernel matrices -------------------------------------------------------- */

typedef enum gram_reduction {
    GRAM_REDUCE_MIN = 1,       /* the smallest value of each row, and where it is */
    GRAM_REDUCE_MAX = 2,       /* the largest */
    GRAM_REDUCE_LOGSUMEXP = 3, /* log sum_j exp(scale K[i, j] + l[j]) */
    GRAM_REDUCE_SOFTMAX = 4, /* sum_j w[i, j] v[j, c], w[i, :] = softmax_j(scale K[i, j] + l[j]) */
} gram_reduction;

typedef struct gram_kernel_reduce_options {
    size_t size;
    double scale; /* of GRAM_REDUCE_LOGSUMEXP and _SOFTMAX; negative: a soft minimum */
    /* Of the same: the logarithms l of n weights, [batch..., n], in the dtype of out; or NULL. */
    const gram_tensor *log_weights;
} gram_kernel_reduce_options;

/* clang-format off */
#define GRAM_KERNEL_REDUCE_OPTIONS_INIT {sizeof(gram_kernel_reduce_options), 1, NULL}
/* clang-format on */

/*
 * Reductions of the rows of a kernel matrix that is never stored,
 *   K = gram_kernel(x, y, kernel),
 * where x is m by k and y is n by k (NULL: x itself).  With GRAM_IDENTITY, K is a matrix of
 * distances.
 *
 * GRAM_REDUCE_MIN and _MAX: out[..., i] is the extreme value of row i, and indices[..., i] is the
 * first column that has it; either may be NULL.  As in NumPy, a row that holds a NaN has the result
 * NaN and the index of its first NaN.  n = 0 gives INFINITY for the minimum, -INFINITY for the
 * maximum, and the index -1.
 *
 * GRAM_REDUCE_LOGSUMEXP: out[..., i] is the logarithm, computed without overflow.  n = 0 gives
 * -INFINITY.  GRAM_REDUCE_SOFTMAX: v is n by r, and out[..., i, c] is an average of column c of v
 * with the weights of row i, which are positive and add up to 1.  n = 0 gives NaN.  In both, a row
 * that holds a NaN, or a value scale K of +INFINITY, gives NaN.  options.log_weights is added to
 * the exponents of every row: l[j] is the logarithm of a weight of row j of y, and -INFINITY one of
 * 0.  A row whose exponents are all -INFINITY has the logarithm -INFINITY and the average NaN.
 *
 * out and v have the dtype of gram_kernel's out, and indices is i64.  Any strides are allowed.
 * Batches of x, y, v, the log-weights and the hyperparameters broadcast.  out and indices must not
 * overlap the inputs or each other.  v must be NULL except with GRAM_REDUCE_SOFTMAX, and
 * options.log_weights except with GRAM_REDUCE_LOGSUMEXP and GRAM_REDUCE_SOFTMAX.
 *
 * Error: an extreme value has that of gram_kernel, and an index can be wrong only where values are
 * equal within it.  With e the largest error of scale K in row i, to which log-weights add 2 eps
 * (|scale K| + |l|), the logarithm has an error of at most e + (n + 16) eps, and a weighted sum one
 * of at most 2 (e + (n + 16) eps) sum_j w[i, j] |v[j, c]|.  The result does not depend on the
 * number of threads.
 *
 * Memory: scratch holds a block of K and the sums of the rows at work.  The call can be cancelled;
 * on the CPU, a part of the outputs is then written.  On CUDA, the call only enqueues work, and
 * sizes are at most 2^31 - 1.
 */
GRAM_API gram_status gram_kernel_reduce(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                        const gram_kernel_options *kernel, gram_reduction what,
                                        const gram_tensor *v,
                                        const gram_kernel_reduce_options *options, gram_tensor *out,
                                        gram_tensor *indices);

GRAM_API gram_status gram_kernel_reduce_workspace(
    gram_context *g, const gram_tensor *x, const gram_tensor *y, const gram_kernel_options *kernel,
    gram_reduction what, const gram_tensor *v, const gram_kernel_reduce_options *options,
    const gram_tensor *out, const gram_tensor *indices, gram_workspace *need);

/* The outputs of gram_kernel_reduce_vjp.  A gradient whose pointer is NULL is not computed. */
typedef struct gram_kernel_reduce_grads {
    size_t size;
    gram_tensor *x;              /* m by k */
    gram_tensor *y;              /* n by k; NULL if y is */
    gram_tensor *v;              /* n by r; NULL without GRAM_REDUCE_SOFTMAX */
    gram_tensor *log_weights;    /* [batch..., n] */
    gram_tensor *bandwidth;      /* has the shape of the batch */
    gram_tensor *regularization; /* has the shape of the batch */
    gram_tensor *lengths;        /* [batch..., k]; read only where kernel.lengths is given */
} gram_kernel_reduce_grads;

/* clang-format off */
#define GRAM_KERNEL_REDUCE_GRADS_INIT GRAM_SIZED_(gram_kernel_reduce_grads)
/* clang-format on */

/*
 * Vector-Jacobian products of gram_kernel_reduce with GRAM_REDUCE_LOGSUMEXP, where grad is a vector
 * of m numbers, and with GRAM_REDUCE_SOFTMAX, where it is m by r; out is the result.  With the
 * weights w[i, :] = softmax_j(scale K[i, j] + l[j]) let
 *   D[i, j] = w[i, j] grad[i],                                        of the logarithm,
 *   D[i, j] = w[i, j] sum_c grad[i, c] (v[j, c] - out[i, c]),         of the average,
 *   grads.v[j, c] = sum_i w[i, j] grad[i, c],
 *   grads.log_weights[j] = sum_i D[i, j],
 * and the others are the gradients of gram_kernel_vjp with the cotangent scale D, which is not
 * stored, nor is K.  If y is NULL, grads.x is the whole gradient of x, the sum of both arguments.
 * grads.log_weights needs no options.log_weights, whose numbers are 0 then.  kernel.output must be
 * GRAM_VALUE, and kernels of a metric have no gradients.
 *
 * x, y, v, the log-weights and grad are f32, or all are f64, with any strides; or x and y are f16
 * or bf16, and the others and the gradients f32, for which scratch holds x and y in f32.  Batches
 * of these and of the hyperparameters broadcast, and the gradients have the shape of the batch.
 * Outputs must not overlap inputs or each other.  Ties, points that coincide, p = INFINITY and
 * refusals are as for gram_kernel_vjp.  A row whose result is NaN gives NaN to all that it depends
 * on, and a logarithm of -INFINITY gives 0.
 *
 * Error: with e and n from gram_kernel_reduce, a weight w has a relative error of 2 (e + (n + 16)
 * eps), and so has each term of the sums over i or j, of size w (|grad| (|v| + |out|)) times the
 * derivative of K; the sums add (m + n + k + r + 300) eps of the sum of these sizes.  The result
 * does not depend on the number of threads, and every run gives the same bits.
 *
 * Memory: scratch never grows with m n.  It holds blocks of K and of D, of at most 1024 by 1024 on
 * the CPU and 4096 by 4096 on CUDA, 16 bytes for each row, for GRAM_REDUCE_SOFTMAX also the average
 * of each row, and 8 bytes for each number of grads.log_weights.  The rows are reduced once more.
 * The call can be cancelled, as gram_kernel_reduce; on CUDA it only enqueues work, and sizes are at
 * most 2^31 - 1.
 */
GRAM_API gram_status gram_kernel_reduce_vjp(gram_context *g, const gram_tensor *x,
                                            const gram_tensor *y, const gram_kernel_options *kernel,
                                            gram_reduction what, const gram_tensor *v,
                                            const gram_kernel_reduce_options *options,
                                            const gram_tensor *grad,
                                            const gram_kernel_reduce_grads *grads);

GRAM_API gram_status gram_kernel_reduce_vjp_workspace(
    gram_context *g, const gram_tensor *x, const gram_tensor *y, const gram_kernel_options *kernel,
    gram_reduction what, const gram_tensor *v, const gram_kernel_reduce_options *options,
    const gram_tensor *grad, const gram_kernel_reduce_grads *grads, gram_workspace *need);

#ifdef __cplusplus
}
#endif
#endif

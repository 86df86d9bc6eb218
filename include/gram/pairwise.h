/*
 * pairwise.h - pairwise distances, kernels, products with them, and their gradients
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PUBLIC_PAIRWISE_H
#define GRAM_PUBLIC_PAIRWISE_H
#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Pairwise distances ------------------------------------------------------------------- */

typedef struct gram_cdist_options {
    size_t size;
    int no_root; /* leave the sum as it is: no power 1/p at the end */
} gram_cdist_options;

/* clang-format off */
#define GRAM_CDIST_OPTIONS_INIT GRAM_SIZED_(gram_cdist_options)
/* clang-format on */

/*
 * Pairwise distances:
 *   out[..., i, j] = (sum_k |x[..., i, k] - y[..., j, k]|^p)^(1/p).
 *
 * p > 0; p = 0 counts the coordinates that differ; p = INFINITY is the largest difference.  With
 * no_root the sum itself is returned (p = 0 and INFINITY have no root).  x is m by k, y is n by k,
 * out is m by n; any strides; batches broadcast, p too.  k = 0 gives zero distances; m = 0 or
 * n = 0 an empty result.
 *
 * dtypes: x, y and out all f32 or all f64; or x and y both f16 or both bf16 and out f32.
 * y NULL, or the same data, shape and strides as x: half the work, exactly symmetric, exactly zero
 * diagonal (NaN where the row holds NaN or infinity).  A NaN in a row gives NaN for all distances
 * of that row and for no others.  out must not overlap x, y or itself.
 *
 * Error: every term |d|^p has a relative error of at most 8 eps for 1e-6 <= |d| <= 1e6 and 16 eps
 * over the whole exponent range, denormals included; p = 1, 2, 3, 4, 1/2, 3/2 and INFINITY use no
 * logarithm.  The sum of k terms adds at most k eps, relative; the root divides the sum's error
 * by p and adds 4 eps, in f64 |ln(out)| / 2 eps more unless 1 / p is a binary fraction.  For p = 2
 * the expansion |x|^2 + |y|^2 - 2 x.y is used only where it is faster, on columns shifted by their
 * mean, and entries that it would spoil are recomputed from differences: the relative error of the
 * distance stays below (k + 8) eps + 1e-6 (f32) or + 1e-14 (f64), near and duplicated points
 * included.  eps is 2^-23 (f32), 2^-52 (f64).
 *
 * Range: all of this holds where the terms |d|^p and their sum are normal numbers of out's dtype.
 * For p = 2 that is |d| from 1.1e-19 to 1.8e19 / sqrt(k) in f32, from 1.5e-154 to 1.3e154 / sqrt(k)
 * in f64; for other p from FLT_MIN^(1/p) to (FLT_MAX / k)^(1/p), or DBL_MIN and DBL_MAX; for
 * p = INFINITY everywhere.  A sum beyond the largest number gives infinity; a term below the least
 * counts with what is left of it, or as 0.  Data outside of the range can be multiplied by a power
 * of two before the call, and the distances divided by it.
 */
GRAM_API gram_status gram_cdist(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                gram_scalar p, const gram_cdist_options *options, gram_tensor *out);

GRAM_API gram_status gram_cdist_workspace(gram_context *g, const gram_tensor *x,
                                          const gram_tensor *y, gram_scalar p,
                                          const gram_cdist_options *options, const gram_tensor *out,
                                          gram_workspace *need);

typedef struct gram_median_options {
    size_t size;
    int64_t rows;  /* the most rows that are drawn, without repetition; 0 means 2000 */
    uint64_t seed; /* of the drawing */
    int no_root;
} gram_median_options;

/* clang-format off */
#define GRAM_MEDIAN_OPTIONS_INIT GRAM_SIZED_(gram_median_options)
/* clang-format on */

/*
 * The median distance between the rows of x, the usual first guess of a bandwidth:
 *   out[...] = median over i < j of gram_cdist(x, x, p)[..., i, j],
 * over all rows or over a seeded sample of them.  An even number of distances gives the mean of the
 * middle two; fewer than two rows give NaN; NaN distances are left out.  Scratch holds all
 * distances between the rows that are drawn.  x is m by k; out has the shape of the batch and x's
 * dtype (f32 for f16 and bf16).
 */
GRAM_API gram_status gram_median_distance(gram_context *g, const gram_tensor *x, gram_scalar p,
                                          const gram_median_options *options, gram_tensor *out);

GRAM_API gram_status gram_median_distance_workspace(gram_context *g, const gram_tensor *x,
                                                    gram_scalar p,
                                                    const gram_median_options *options,
                                                    const gram_tensor *out, gram_workspace *need);

/* ---- Kernels ------------------------------------------------------------------------------ */

typedef enum gram_inner {
    GRAM_DIFFERENCE = 1, /* a sum of |x_k - y_k|^p */
    GRAM_DOT = 2,        /* a sum of x_k y_k; p and the outer power are not used */
} gram_inner;

typedef enum gram_function {
    GRAM_IDENTITY = 0,           /* s */
    GRAM_LAPLACE = 1,            /* exp(-s / L) */
    GRAM_GAUSSIAN = 2,           /* exp(-s / (2 L^2)), s the squared distance */
    GRAM_EXPONENTIAL_POWER = 3,  /* exp(-s^q / L^q) */
    GRAM_MATERN32 = 4,           /* (1 + t) exp(-t), t = sqrt(3) s / L */
    GRAM_MATERN52 = 5,           /* (1 + t + t^2 / 3) exp(-t), t = sqrt(5) s / L */
    GRAM_RATIONAL_QUADRATIC = 6, /* (1 + s / (2 alpha L^2))^-alpha, s the squared distance */
    GRAM_POLYNOMIAL = 7,         /* (gamma s + coef0)^degree */
    GRAM_SIGMOID = 8,            /* tanh(gamma s + coef0) */
    GRAM_COSINE = 9,             /* s / (|x| |y|) with GRAM_DOT; 0 where a norm is 0 */
    GRAM_EXPRESSION = 10,        /* options.expression, of s and of options.parameters */
} gram_function;

typedef enum gram_kernel_output {
    GRAM_VALUE = 0,
    /* d k / d x_k = weight * sgn(x_k - y_k) |x_k - y_k|^(p-1) with GRAM_DIFFERENCE, weight * y_k
     * with GRAM_DOT (not for GRAM_COSINE): what gram_cdist_grad takes as a.  0 where s = 0, the
     * convention for the kernels that have no derivative there. */
    GRAM_WEIGHT = 1,
    GRAM_BANDWIDTH_DERIVATIVE = 2, /* d k / d L; not for GRAM_EXPRESSION */
    /* d f / d parameters[derivative].value, of GRAM_EXPRESSION alone */
    GRAM_PARAMETER_DERIVATIVE = 3,
} gram_kernel_output;

/* What an expression can refer to.  name: at most 31 letters, digits and _, no digit first; NULL
 * is "p0" for the first parameter, "p1" for the second, and so on. */
typedef struct gram_parameter {
    const char *name;
    gram_scalar value;
} gram_parameter;

/* Of an expression. */
#define GRAM_MAX_PARAMETERS 8

typedef struct gram_kernel_options {
    size_t size;
    gram_inner inner;
    gram_scalar p;           /* of the inner term: > 0 */
    gram_scalar outer_power; /* s = (inner sum)^outer_power: 1 none, 0.5 a square root */
    gram_function function;
    gram_scalar bandwidth; /* L > 0 */
    gram_scalar exponent;  /* q > 0 */
    gram_scalar alpha;     /* > 0 */
    gram_scalar gamma, coef0, degree;
    gram_scalar regularization; /* r, added where row_offset + i == column_offset + j */
    int64_t row_offset, column_offset;
    gram_kernel_output output; /* regularization is added to GRAM_VALUE only */
    const char *expression;    /* of GRAM_EXPRESSION: see gram_kernel */
    const gram_parameter *parameters;
    int64_t parameter_count; /* at most GRAM_MAX_PARAMETERS */
    int64_t derivative;      /* of GRAM_PARAMETER_DERIVATIVE: which parameter, from 0 */
    /* The outer power is 1 / p of each item (for p = INFINITY none), and outer_power is not used:
     * for p that is a tensor. */
    int root;
} gram_kernel_options;

/* clang-format off */
#define GRAM_KERNEL_OPTIONS_INIT                                                                  \
    {sizeof(gram_kernel_options), GRAM_DIFFERENCE, {2, NULL}, {1, NULL}, GRAM_IDENTITY, {1, NULL}, \
     {1, NULL}, {1, NULL}, {1, NULL}, {0, NULL}, {3, NULL}, {0, NULL}, 0, 0, GRAM_VALUE, NULL,     \
     NULL, 0, 0, 0}
/* clang-format on */

/* The L_pq Laplace kernel exp(-||x - y||_p^q / L^q); q = p is the product Laplace kernel
 * exp(-sum_k |x_k - y_k|^q / L^q).  Positive definite for 0 < q <= p <= 2. */
static inline gram_kernel_options gram_lpq_laplace(double p, double q, double bandwidth)
{
    gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;
    o.p = gram_number(p);
    o.outer_power = gram_number(1 / p);
    o.function = GRAM_EXPONENTIAL_POWER;
    o.exponent = gram_number(q);
    o.bandwidth = gram_number(bandwidth);
    return o;
}

/* The Gaussian kernel exp(-|x - y|^2 / (2 L^2)). */
static inline gram_kernel_options gram_gaussian(double bandwidth)
{
    gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;
    o.function = GRAM_GAUSSIAN;
    o.bandwidth = gram_number(bandwidth);
    return o;
}

/*
 * A kernel matrix in one pass:
 *   out[..., i, j] = f(s) + r [row_offset + i == column_offset + j],
 *   s = (sum_k |x[..., i, k] - y[..., j, k]|^p)^outer_power     (GRAM_DIFFERENCE)
 *   s = sum_k x[..., i, k] y[..., j, k]                         (GRAM_DOT).
 *
 * f, its parameters and r are in options (required: not NULL).  Offsets place a tile of a larger
 * matrix: its part of the diagonal is found whatever the layout of out.  Shapes, dtypes, batches,
 * NaN, the symmetric case and the error of the sum are those of gram_cdist; r is added after f,
 * exactly once, on f(0) computed as f of an exact zero.
 *
 * Error of f, given the sum: with t the argument of f, a multiple of a power of the sum (s / L,
 * s / (2 L^2), (s / L)^q, ..., or gamma s + coef0), at most 8 eps (|f| + |t f'(t)|), where
 * |gamma s| + |coef0| stands for |t| in polynomial and sigmoid; and at most 8 eps for the functions
 * of a distance whose largest value is 1, GRAM_LAPLACE to GRAM_RATIONAL_QUADRATIC.  So e^-t has a
 * relative error of 8 (1 + t) eps.  Exponents are rounded to f64, which adds |log sum| 2^-52 times
 * the exponent.  The other outputs have the same bound with themselves for f; below the normal
 * range of the dtype (also where a factor of a weight or derivative is) only the order of magnitude
 * is right, or the result is 0.  The test of these bounds is tests/pairwise/test_covariance.c.
 *
 * GRAM_EXPRESSION: f is options.expression, written as in C, as "exp(-s / a) * (1 + b * s)" or
 * "s < 1 ? pow(1 - s, 4) * (4 * s + 1) : 0", with
 *   s, the names of options.parameters, numbers (1, .5, 2e-3)
 *   + - * / < <= > >= == != && || ! ?: and brackets, with C's precedence
 *   exp exp2 expm1 log log2 log1p sqrt pow sin cos sinh cosh tanh fabs fmin fmax
 * All arithmetic is that of out's dtype: 1 / 2 is 0.5.  What depends on parameters alone is
 * computed once an item, in double.  Every operation is wrong by 4 eps at most, pow by 8.  A NaN of
 * s gives NaN, whatever the expression.  An expression has at most 4096 bytes, less than 64
 * brackets in each other, 256 different operations, and needs at most 32 intermediate values at
 * once.  GRAM_WEIGHT and gram_kernel_vjp take the derivative by s, in which fabs has 0 at 0 and a
 * condition the derivative of the branch that it takes.  GRAM_PARAMETER_DERIVATIVE is that by a
 * parameter, where pow(a, b) has 0 by its exponent at a = 0.
 * GRAM_INVALID_ARGUMENT: the expression cannot be read; the message says where.
 */
GRAM_API gram_status gram_kernel(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                 const gram_kernel_options *options, gram_tensor *out);

GRAM_API gram_status gram_kernel_workspace(gram_context *g, const gram_tensor *x,
                                           const gram_tensor *y, const gram_kernel_options *options,
                                           const gram_tensor *out, gram_workspace *need);

typedef struct gram_kernel_matmul_options {
    size_t size;
    int accumulate; /* add to what out holds: a sum of kernels, or of parts of y */
} gram_kernel_matmul_options;

/* clang-format off */
#define GRAM_KERNEL_MATMUL_OPTIONS_INIT GRAM_SIZED_(gram_kernel_matmul_options)
/* clang-format on */

/*
 * Products with a kernel matrix that is never stored:
 *   out[..., i, c] = sum_j K[..., i, j] v[..., j, c],
 *   K = gram_kernel(x, y, kernel).
 * K may be any output of gram_kernel, the weight and the bandwidth derivative too.
 *
 * x is m by k, y is n by k (NULL: x itself), v is n by r, out is m by r; v and out have the dtype
 * that gram_kernel's out would have; any strides; batches of x, y, v and the hyperparameters
 * broadcast (the columns of one v share the work on K, the items of a batch do not).  n = 0 gives
 * zeros.  out must not overlap x, y, v or itself.  Scratch is a block of K, and the same number of
 * rows of v and out.
 *
 * y NULL, or the same data, shape and strides as x: each element of K is computed once for itself
 * and its mirror image, half the work.  The result does not depend on the number of threads.
 * Error: that of gram_kernel's elements, and (n + 8) eps sum_j |K[i, j] v[j, c]|.  A NaN in row i
 * of x gives NaN in row i of out; a NaN in y or v reaches all rows, as in any product.
 *
 * Can be cancelled (gram_context_cancel) while it works, or queues: out then holds a part of the
 * sums, on CUDA what it held before.  CUDA: only enqueues; products are cuBLAS's; the scratch also
 * holds v and out by columns; sizes up to 2^31 - 1.
 */
GRAM_API gram_status gram_kernel_matmul(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                        const gram_kernel_options *kernel, const gram_tensor *v,
                                        const gram_kernel_matmul_options *options,
                                        gram_tensor *out);

GRAM_API gram_status gram_kernel_matmul_workspace(gram_context *g, const gram_tensor *x,
                                                  const gram_tensor *y,
                                                  const gram_kernel_options *kernel,
                                                  const gram_tensor *v,
                                                  const gram_kernel_matmul_options *options,
                                                  const gram_tensor *out, gram_workspace *need);

/* Where the gradients of gram_kernel_vjp go; a NULL one is not computed. */
typedef struct gram_kernel_grads {
    gram_tensor *x;              /* m by k */
    gram_tensor *y;              /* n by k */
    gram_tensor *bandwidth;      /* shape of the batch */
    gram_tensor *regularization; /* shape of the batch */
} gram_kernel_grads;

/*
 * Vector-Jacobian products of gram_kernel (output GRAM_VALUE): with the cotangent grad, m by n,
 *   grads.x[i, k] = sum_j grad[i, j] dK[i, j] / dx[i, k], y alike,
 *   grads.bandwidth = sum_ij grad[i, j] dK[i, j] / dL,
 *   grads.regularization = sum_ij grad[i, j] [row_offset + i == column_offset + j].
 * If x and y are one array its gradient is grads.x + grads.y.  Coordinates that tie, and points
 * that coincide under a kernel without a derivative there, contribute 0.  No m by n matrix is
 * stored.  f32 or f64, one dtype throughout; the gradients' batch shape is that of the call.
 * With p = INFINITY every coordinate whose difference is the largest takes the whole derivative, as
 * in PyTorch, others none (points that coincide: none).  p = 0 has no gradient and is refused, as
 * grads.bandwidth with GRAM_EXPRESSION.
 */
GRAM_API gram_status gram_kernel_vjp(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                     const gram_kernel_options *options, const gram_tensor *grad,
                                     const gram_kernel_grads *grads);

GRAM_API gram_status gram_kernel_vjp_workspace(
    gram_context *g, const gram_tensor *x, const gram_tensor *y, const gram_kernel_options *options,
    const gram_tensor *grad, const gram_kernel_grads *grads, gram_workspace *need);

/* ---- Gradients of kernel machines --------------------------------------------------------- */

/*
 * Gradients of kernel expansions:
 *   out[..., o, n, m] = sum_k c[..., o, k] a[..., k, m] sgn(e) |e|^(p - 1),
 *   e                 = d[..., n, m] - b[..., n, k].
 *
 * a [K, M] kernel weights (gram_kernel with GRAM_WEIGHT), b [N, K] features of the centres,
 * c [O, K] coefficients, d [N, M] features of the points, out [O, N, M]; f32 or f64, one dtype;
 * any strides (so X itself, transposed by its strides, serves as b); batches and p broadcast.
 * p > 0.  A tie d = b contributes 0 for every p.  p = INFINITY: the power is 1 where |d - b|, as a
 * number of the dtype, is the largest of all features of d[:, m] and b[:, k], and 0 elsewhere; a
 * NaN among them gives NaN for all (a tensor p on a device holds finite numbers).
 *
 * With s[n] the mean of b[n, :], p = 2 is computed by matrix products:
 *   out = (d - s) (c a) - (c (b - s)) a.
 * The absolute error is at most
 *   p = 2:   (K + 8) eps sum_k |c a| (|d - s| + |b - s|);
 *            on CUDA in f32, where tensor cores multiply, K 2^-37 max |a[:, m]| max |c[o, :]|
 *            max |b[n, :] - s| more;
 *   other p: (K / 128 + 160) eps sum_k |c a| |d - b|^(p - 1).
 *
 * After Radhakrishnan et al., Mechanism for feature learning in neural networks and
 * backpropagation-free machine learning models, Science 383 (2024).
 */
GRAM_API gram_status gram_cdist_grad(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                     const gram_tensor *c, const gram_tensor *d, gram_scalar p,
                                     gram_tensor *out);

GRAM_API gram_status gram_cdist_grad_workspace(gram_context *g, const gram_tensor *a,
                                               const gram_tensor *b, const gram_tensor *c,
                                               const gram_tensor *d, gram_scalar p,
                                               const gram_tensor *out, gram_workspace *need);

typedef struct gram_agop_options {
    size_t size;
    int diagonal;   /* out is the vector of the N diagonal entries */
    int accumulate; /* add to what out holds: an average over points that come in parts */
    int64_t points; /* divide by this instead of M; 0: M */
} gram_agop_options;

/* clang-format off */
#define GRAM_AGOP_OPTIONS_INIT GRAM_SIZED_(gram_agop_options)
/* clang-format on */

/*
 * The average gradient outer product:
 *   out[..., n, l] = (1 / M) sum_{o, m} g[..., o, n, m] g[..., o, l, m],
 *   g = gram_cdist_grad(a, b, c, d, p), which is never stored whole.
 * out is N by N (both triangles, exactly symmetric), or N with options.diagonal.  Otherwise as
 * gram_cdist_grad; M = 0 gives zeros.
 */
GRAM_API gram_status gram_agop(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                               const gram_tensor *c, const gram_tensor *d, gram_scalar p,
                               const gram_agop_options *options, gram_tensor *out);

GRAM_API gram_status gram_agop_workspace(gram_context *g, const gram_tensor *a,
                                         const gram_tensor *b, const gram_tensor *c,
                                         const gram_tensor *d, gram_scalar p,
                                         const gram_agop_options *options, const gram_tensor *out,
                                         gram_workspace *need);

#ifdef __cplusplus
}
#endif
#endif

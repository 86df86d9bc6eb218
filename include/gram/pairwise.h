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

/* How far two rows are from each other.  In the formulas x and y are rows, sums and means go over
 * their coordinates k, and w_k is weights[k], or 1 without weights. */
typedef enum gram_distance_kind {
    /* (sum w |x - y|^p)^(1/p); p = INFINITY: the largest |x - y| among w > 0 */
    GRAM_DISTANCE_MINKOWSKI = 0,
    GRAM_DISTANCE_SEUCLIDEAN = 1, /* sqrt(sum (x - y)^2 / w), with variances > 0 as weights */
    /* 1 - sum w x y / sqrt(sum w x^2 sum w y^2); NaN for a row of zeros */
    GRAM_DISTANCE_COSINE = 2,
    GRAM_DISTANCE_CORRELATION = 3, /* the same of x - sum w x / sum w and y - sum w y / sum w */
    GRAM_DISTANCE_CANBERRA = 4,    /* sum w |x - y| / (|x| + |y|), where 0 / 0 counts 0 */
    GRAM_DISTANCE_BRAYCURTIS = 5,  /* sum w |x - y| / sum w |x + y|; NaN where both sums are 0 */
    GRAM_DISTANCE_HAMMING = 6,     /* sum w [x != y] / sum w; NaN differs from everything */
    /* sum w [(x != 0) != (y != 0)] / sum w [x != 0 or y != 0]; 0 where both sums are 0 */
    GRAM_DISTANCE_JACCARD = 7,
    /* sqrt((sum w p log(p / m) + sum w q log(q / m)) / 2), p = x / sum x, q = y / sum y,
     * m = (p + q) / 2; infinite for a row with a negative number or with the sum 0 */
    GRAM_DISTANCE_JENSENSHANNON = 8,
    /* sum w x log(x / y), 0 where x = 0; infinite where x > 0 = y, or a number is negative, and NaN
     * where the weight of such a column is 0 */
    GRAM_DISTANCE_KULLBACK_LEIBLER = 9,
    GRAM_DISTANCE_HELLINGER =
        10,                  /* sqrt(sum w (sqrt x - sqrt y)^2 / 2); NaN for negative numbers */
    GRAM_DISTANCE_CHI2 = 11, /* sum w (x - y)^2 / (x + y), 0 where x + y = 0 */
    /* 2 asin(sqrt(sin^2((x_0 - y_0) / 2) + cos x_0 cos y_0 sin^2((x_1 - y_1) / 2))): the angle
     * between points of given latitude and longitude in radians; two columns, without weights */
    GRAM_DISTANCE_HAVERSINE = 12,
    /* sqrt(sum w / sum' w sum' w (x - y)^2), where sum' leaves out coordinates with a NaN in x or
     * y; NaN where it leaves out all */
    GRAM_DISTANCE_NAN_EUCLIDEAN = 13,
} gram_distance_kind;

typedef struct gram_distance {
    size_t size;
    gram_distance_kind kind;
    gram_scalar p;              /* of GRAM_DISTANCE_MINKOWSKI: positive, or INFINITY */
    const gram_tensor *weights; /* k numbers >= 0 in f32 or f64, which broadcast over the batch;
                                   NULL: all are 1 */
    /* Of GRAM_DISTANCE_HAMMING and _JACCARD in gram_cdist and gram_nearest: rows of x and y are so
     * many bits, packed into bytes; 0: they are numbers.  See gram_cdist. */
    int64_t bits;
} gram_distance;

/* clang-format off */
#define GRAM_DISTANCE_INIT {sizeof(gram_distance), GRAM_DISTANCE_MINKOWSKI, {2, NULL}, NULL, 0}
/* clang-format on */

typedef struct gram_cdist_options {
    size_t size;
    int no_root;                 /* return the sum, without the power 1/p */
    const gram_distance *metric; /* NULL: the p-norm, with the p of the call */
    int condensed;               /* out is the vector of the distances with i < j */
} gram_cdist_options;

/* clang-format off */
#define GRAM_CDIST_OPTIONS_INIT GRAM_SIZED_(gram_cdist_options)
/* clang-format on */

/*
 * Pairwise distances:
 *   out[..., i, j] = (sum_k |x[..., i, k] - y[..., j, k]|^p)^(1/p).
 *
 * p is 0, positive or INFINITY.  p = 0 counts the coordinates that differ, and p = INFINITY gives
 * the largest difference.  With no_root, the sum itself is returned (p = 0 and INFINITY have no
 * root).  x is m by k, y is n by k, and out is m by n, with any strides.  Batches of x, y and p
 * broadcast.  k = 0 gives distances of zero, and m = 0 or n = 0 an empty result.
 *
 * dtypes: x, y and out are all f32 or all f64; or x and y are both f16 or both bf16, and out is
 * f32.  If y is NULL, or has the data, shape and strides of x, the call does half of the work, and
 * the result is exactly symmetric, with a diagonal that is exactly zero (NaN if the row holds NaN
 * or infinity).  A NaN in a row makes all distances of that row NaN, and no others.  out must not
 * overlap x, y or itself.
 *
 * Error: eps is 2^-23 in f32 and 2^-52 in f64.  Every term |d|^p has a relative error of at most 8
 * eps for 1e-6 <= |d| <= 1e6, and of at most 16 eps over the whole range of exponents, including
 * denormal numbers; p = 1, 2, 3, 4, 1/2, 3/2 and INFINITY use no logarithm.  The sum of k terms
 * adds a relative error of at most k eps.  The root divides the error of the sum by p and adds 4
 * eps; in f64 it adds |ln(out)| / 2 eps more, unless 1 / p is a binary fraction.  For p = 2 the
 * expansion |x|^2 + |y|^2 - 2 x.y is used only where it is faster, on columns from which their mean
 * has been subtracted, and entries that it would spoil are computed again from differences.  The
 * relative error of the distance therefore stays below (k + 8) eps + 1e-6 (f32) or (k + 8) eps +
 * 1e-14 (f64), also for points that are close to each other or equal.
 *
 * Range: these bounds hold if the terms |d|^p and their sum are normal numbers of the dtype of out.
 * For p = 2 this means |d| from 1.1e-19 to 1.8e19 / sqrt(k) in f32, and from 1.5e-154 to 1.3e154 /
 * sqrt(k) in f64.  For other p it means |d| from FLT_MIN^(1/p) to (FLT_MAX / k)^(1/p), or the same
 * with DBL_MIN and DBL_MAX; for p = INFINITY there is no restriction.  A sum beyond the largest
 * number gives infinity.  A term below the smallest normal number loses digits, or counts as 0.
 * Data outside of the range can be multiplied by a power of two before the call, and the distances
 * divided by it.
 *
 * options.condensed: y must be NULL, and out is a vector of m (m - 1) / 2 distances,
 *   out[..., i (2 m - i - 1) / 2 + j - i - 1] = distance(x[..., i, :], x[..., j, :]), i < j,
 * which is the order of scipy.spatial.distance.pdist.
 *
 * options.metric: another distance than the p-norm, and p is not read.  The formulas are those of
 * gram_distance_kind.  no_root leaves the root out that a formula begins with.  The distances are
 * those of SciPy and scikit-learn where these have them, with NaN as there, but for p = INFINITY
 * and for rows of NaN alone in GRAM_DISTANCE_JENSENSHANNON, which give NaN.  The diagonal of the
 * symmetric case is exactly zero where the distance of a row to itself is a number that is not
 * infinite (up to the rounding of the sum for GRAM_DISTANCE_CORRELATION, whose rows are centred in
 * f64).  GRAM_DISTANCE_KULLBACK_LEIBLER is not symmetric in x and y, and computes all elements.
 * Weights that are NaN or negative give undefined distances.  The library holds whole rows of x
 * and y at a time, so that scratch grows with k.  out must not overlap the weights.
 *
 * options.metric->bits: rows of x and y are so many bits, at most 2^31 - 1, for
 * GRAM_DISTANCE_HAMMING and GRAM_DISTANCE_JACCARD without weights.  x and y have the dtype GRAM_U8
 * and ceil(bits / 8) columns.  Bit k of a row is bit 7 - k mod 8 of byte k / 8, as numpy.packbits
 * packs it (each other order of the bits gives the same distances, if it fills the bytes before the
 * last one); what the last byte has behind the bits does not count.  out is f32.  The counts are
 * exact; for fewer than 2^23 bits, so are their f32 numbers, and the quotient has an error of at
 * most 4 eps.
 *
 * Error with a metric, where a term is what the sum of the formula adds, and E = (k + 16) eps:
 *   Canberra, chi2                                     E times the result
 *   Bray-Curtis, Hamming, Jaccard                      2 E times the result
 *   seuclidean, weighted Minkowski    E times the result and 4 eps (sum w (|x| + |y|)^p)^(1/p),
 *                                     for 1 <= p < INFINITY; for any p, w^(1/p) |x| must be
 *                                     normal numbers of the dtype
 *   cosine, correlation               E d + 8 eps sqrt(d) + 8 eps^2, where d is the result; in f64
 *                                     for the correlation also 2 k eps max |x| / |x - mean x|;
 *                                     NaN if the sum of squares of a row is no normal f64 number
 *   Hellinger, Jensen-Shannon         E times the result and 4 eps sqrt(sum w (x + y)), where the
 *                                     rows of the latter have the sum 1
 *   Kullback-Leibler                  E sum w x (|log(x / y)| + 1), if each x / y is a normal
 *                                     number of the dtype
 *   haversine                         32 eps times the result, 2 eps |x_1 - y_1|, and sqrt(eps)
 *                                     near the antipode
 *   NaN-aware Euclidean               E times the result.
 *
 * Sources: scipy.spatial.distance, sklearn.metrics.pairwise; Lance and Williams, Computer programs
 * for hierarchical polythetic classification, Computer Journal 9 (1966); Bray and Curtis, An
 * ordination of the upland forest communities of southern Wisconsin, Ecological Monographs 27
 * (1957); Endres and Schindelin, A new metric for probability distributions, IEEE Trans. Inf.
 * Theory 49 (2003); Sinnott, Virtues of the haversine, Sky and Telescope 68 (1984).
 *
 * CUDA: metrics other than Canberra, Bray-Curtis, Hamming, Kullback-Leibler, chi2 and the NaN-aware
 * one, and all with weights, first write x and y into scratch as the sums need them, once per call.
 */
GRAM_API gram_status gram_cdist(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                gram_scalar p, const gram_cdist_options *options, gram_tensor *out);

GRAM_API gram_status gram_cdist_workspace(gram_context *g, const gram_tensor *x,
                                          const gram_tensor *y, gram_scalar p,
                                          const gram_cdist_options *options, const gram_tensor *out,
                                          gram_workspace *need);

typedef struct gram_median_options {
    size_t size;
    int64_t rows;  /* the most rows in the sample, drawn without repetition; 0: 2000 */
    uint64_t seed; /* of the sample */
    int no_root;
} gram_median_options;

/* clang-format off */
#define GRAM_MEDIAN_OPTIONS_INIT GRAM_SIZED_(gram_median_options)
/* clang-format on */

/*
 * The median distance between the rows of x, which is the usual first guess for a bandwidth:
 *   out[...] = median over i < j of gram_cdist(x, x, p)[..., i, j],
 * over all rows, or over a seeded sample of them.  An even number of distances gives the mean of
 * the middle two.  Fewer than two rows give NaN, and distances that are NaN are left out.  Scratch
 * holds all distances between the rows of the sample.  x is m by k.  out has the shape of the batch
 * and the dtype of x (f32 for f16 and bf16).
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
    GRAM_DOT = 2,        /* a sum of x_k y_k, without p and the outer power */
} gram_inner;

typedef enum gram_function {
    GRAM_IDENTITY = 0,           /* s */
    GRAM_LAPLACE = 1,            /* exp(-s / L) */
    GRAM_GAUSSIAN = 2,           /* exp(-s / (2 L^2)), where s is the squared distance */
    GRAM_EXPONENTIAL_POWER = 3,  /* exp(-s^q / L^q) */
    GRAM_MATERN32 = 4,           /* (1 + t) exp(-t), t = sqrt(3) s / L */
    GRAM_MATERN52 = 5,           /* (1 + t + t^2 / 3) exp(-t), t = sqrt(5) s / L */
    GRAM_RATIONAL_QUADRATIC = 6, /* (1 + s / (2 alpha L^2))^-alpha, s the squared distance */
    GRAM_POLYNOMIAL = 7,         /* (gamma s + coef0)^degree */
    GRAM_SIGMOID = 8,            /* tanh(gamma s + coef0) */
    GRAM_COSINE = 9,             /* s / (|x| |y|) with GRAM_DOT; 0 if a norm is 0 */
    GRAM_EXPRESSION = 10,        /* options.expression of s and of options.parameters */
} gram_function;

typedef enum gram_kernel_output {
    GRAM_VALUE = 0,
    /* d k / d x_k = weight * sgn(x_k - y_k) |x_k - y_k|^(p-1) with GRAM_DIFFERENCE, weight * y_k
     * with GRAM_DOT (not for GRAM_COSINE).  gram_cdist_grad takes it as a.  It is 0 where s = 0, by
     * convention for kernels that have no derivative there. */
    GRAM_WEIGHT = 1,
    GRAM_BANDWIDTH_DERIVATIVE = 2, /* d k / d L; not for GRAM_EXPRESSION */
    /* d f / d parameters[derivative].value; only for GRAM_EXPRESSION */
    GRAM_PARAMETER_DERIVATIVE = 3,
    /* (d f / d |x|) / |x| and (d f / d |y|) / |y|, only for GRAM_EXPRESSION: what multiplies x_k in
     * d k / d x_k, beside what GRAM_WEIGHT says, and y_k in d k / d y_k.  0 where the norm is. */
    GRAM_NORM_X_WEIGHT = 4,
    GRAM_NORM_Y_WEIGHT = 5,
    /* d f / d d1, and (d f / d d2) / d2, only for GRAM_EXPRESSION: what multiplies sgn(x_k - y_k),
     * and x_k - y_k, in d k / d x_k beside what GRAM_WEIGHT says.  0 where the distance is. */
    GRAM_D1_WEIGHT = 6,
    GRAM_D2_WEIGHT = 7,
} gram_kernel_output;

/* A named number in an expression.  name has at most 31 letters, digits and underscores, and
 * does not begin with a digit.  If it is NULL, the first parameter is called "p0", the second
 * "p1", and so on. */
typedef struct gram_parameter {
    const char *name;
    gram_scalar value;
} gram_parameter;

/* The most parameters that an expression may have. */
#define GRAM_MAX_PARAMETERS 8

typedef struct gram_kernel_options {
    size_t size;
    gram_inner inner;
    gram_scalar p;           /* of the inner term: > 0 */
    gram_scalar outer_power; /* s = (inner sum)^outer_power; 0.5: a square root */
    gram_function function;
    gram_scalar bandwidth; /* L > 0; one number per coordinate: see lengths */
    gram_scalar exponent;  /* q > 0 */
    gram_scalar alpha;     /* > 0 */
    gram_scalar gamma, coef0, degree;
    gram_scalar regularization; /* r, added where row_offset + i == column_offset + j */
    int64_t row_offset, column_offset;
    gram_kernel_output output; /* regularization is added only to GRAM_VALUE */
    const char *expression;    /* of GRAM_EXPRESSION: see gram_kernel */
    const gram_parameter *parameters;
    int64_t parameter_count; /* at most GRAM_MAX_PARAMETERS */
    int64_t derivative;      /* of GRAM_PARAMETER_DERIVATIVE: the parameter's index, from 0 */
    /* 1: the outer power is 1 / p, for each item (none for p = INFINITY), instead of outer_power.
     * This is meant for a p that is a tensor. */
    int root;
    /* One positive number per coordinate, by which x and y are divided before anything else: [k] or
     * [batch..., k], in the dtype of x, or f32 for halves.  NULL: none.  See gram_kernel. */
    const gram_tensor *lengths;
    /* s = d^outer_power, where d is the distance of a metric, instead of a sum of powers.  p and
     * root are not read, inner must be GRAM_DIFFERENCE, lengths must be NULL, and GRAM_WEIGHT and
     * gradients do not exist. */
    const gram_distance *metric;
} gram_kernel_options;

/* clang-format off */
#define GRAM_KERNEL_OPTIONS_INIT                                                                  \
    {sizeof(gram_kernel_options), GRAM_DIFFERENCE, {2, NULL}, {1, NULL}, GRAM_IDENTITY, {1, NULL}, \
     {1, NULL}, {1, NULL}, {1, NULL}, {0, NULL}, {3, NULL}, {0, NULL}, 0, 0, GRAM_VALUE, NULL,     \
     NULL, 0, 0, 0, NULL, NULL}
/* clang-format on */

/* The L_pq Laplace kernel exp(-||x - y||_p^q / L^q).  With q = p it is the product Laplace
 * kernel exp(-sum_k |x_k - y_k|^q / L^q).  It is positive definite for 0 < q <= p <= 2. */
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
 * options holds f, its parameters and r, and must not be NULL.  The offsets describe a tile of a
 * larger matrix: r is added to those elements of the tile that lie on the diagonal of the larger
 * matrix.  Shapes, dtypes, batches, NaN, the symmetric case and the error of the sum are those of
 * gram_cdist.  r is added once, after f; on the diagonal of the symmetric case, f is computed for a
 * sum that is exactly zero.
 *
 * options.lengths divides coordinate k of x and of y by its k-th number l_k before anything else:
 *   s = (sum_k |(x[..., i, k] - y[..., j, k]) / l_k|^p)^outer_power, or sum_k x y / l_k^2.
 * These are the lengthscales of "automatic relevance determination" (ARD).  The quotients are
 * stored in scratch, m k and n k numbers for each item of the batch, in the dtype of out.  With
 * GRAM_DIFFERENCE they are (x - c) / l and (y - c) / l, where c is the first row of y of the item
 * (an element of it that is not finite, or is beyond 1e30, counts as 0), so that points far from
 * the origin keep their digits.  Each quotient is wrong by at most eps |x - c| / l, and what this
 * reference says of points holds for the quotients: points that are equal stay equal, and x = y
 * stays symmetric.  GRAM_WEIGHT is that of the quotients: d k / d x_k is weight / l_k * sgn(u - v)
 * |u - v|^(p-1) with the quotients u and v, or weight / l_k * v.  GRAM_COSINE takes the norms of
 * the quotients.  A length that is not positive and finite is refused; on a CUDA device, where it
 * cannot be read, it gives NaN.
 *
 * Error of f, given the sum: let t be the argument of f, which is a multiple of a power of the sum
 * (s / L, s / (2 L^2), (s / L)^q, ..., or gamma s + coef0).  The error is at most 8 eps (|f| + |t
 * f'(t)|), where |gamma s| + |coef0| stands for |t| in polynomial and sigmoid.  For functions of a
 * distance whose largest value is 1 (GRAM_LAPLACE to GRAM_RATIONAL_QUADRATIC) it is also at most 8
 * eps.  Thus e^-t has a relative error of at most 8 (1 + t) eps.  Exponents are rounded to f64,
 * which adds |log sum| 2^-52 times the exponent.  The other outputs have the same bound, with the
 * output in the place of f.  Where a result, or a factor of a weight or derivative, is below the
 * normal range of the dtype, only the order of magnitude is right, or the result is 0.
 * tests/pairwise/test_covariance.c tests these bounds.
 *
 * GRAM_EXPRESSION: f is options.expression, which is written as in C, for example "exp(-s / a) * (1
 * + b * s)" or "s < 1 ? pow(1 - s, 4) * (4 * s + 1) : 0".  It may use
 *   s, the names of options.parameters, numbers (1, .5, 2e-3)
 *   norm_x, norm_y, dot: |x| and |y|, the Euclidean norms of the two points, and x.y
 *   d1, d2: the distances of p = 1 and p = 2, sum_k |x_k - y_k| and sqrt(sum_k (x_k - y_k)^2),
 *   whatever s is: "exp(-d1 / a) * exp(-d2 * d2 / b)"
 *   + - * / < <= > >= == != && || ! ?: and brackets, with C's precedence
 *   exp exp2 expm1 log log2 log1p sqrt pow sin cos sinh cosh tanh asin acos atan erf
 *   fabs fmin fmax
 * In front of the formula, up to 128 names may be given a value, each of which ends with a
 * semicolon: "u = s / L; v = exp(-u); v * (1 + u)".  They are computed once.
 * All arithmetic is done in the dtype of out: 1 / 2 is 0.5.  Subexpressions that depend only on
 * parameters are computed once per item, in double.  Every operation has an error of at most 4 eps,
 * and pow of at most 8 eps.  If s is NaN the result is NaN, whatever the expression.  An expression
 * has at most 16384 bytes, fewer than 64 nested brackets and 512 different operations, its
 * derivative at most 2048, and both need at most 64 intermediate values at a time.  GRAM_WEIGHT and
 * gram_kernel_vjp use the derivative with respect to s, in which fabs has the derivative 0 at 0,
 * and a condition that of the branch that it takes.  GRAM_PARAMETER_DERIVATIVE is the derivative
 * with respect to a parameter, in which the derivative of pow(a, b) with respect to b is 0 at a =
 * 0. By a it is 0 where b is 0, whatever a is; other derivatives that are infinite, such as that of
 * sqrt and log at 0, are infinity.  GRAM_INVALID_ARGUMENT: the expression cannot be parsed; the
 * message says where.
 *
 * Norms are summed in double and rounded once, from the quotients where options.lengths is given;
 * the quotients are then counted from the origin, as with GRAM_DOT.  With GRAM_DOT, dot is s.  With
 * GRAM_DIFFERENCE, it is (norm_x^2 + norm_y^2 - |x - y|^2) / 2, with an error of 2 (k + 8) eps
 * (|x|^2 + |y|^2), and needs the number 2 as p and an outer power of 1 or 1/2.  A parameter, or a
 * name that the text gives, may be called like one of the five, and then takes its place.  The
 * derivative by a norm is 0 where the norm is.  GRAM_WEIGHT is then the part of the derivative that
 * goes through s, that of dot included; GRAM_NORM_X_WEIGHT and GRAM_NORM_Y_WEIGHT are the rest, and
 * gram_kernel_vjp gives the whole.  An expression that can be seen to stay the same where norm_x
 * and norm_y are exchanged, as one of norm_x * norm_y, has its symmetric case computed once for
 * both halves; another one is computed for both.  Where such matrices are used as symmetric ones
 * (gram_eigh_kernel, gram_krr_solve), the caller sees to it that they are.  GRAM_UNSUPPORTED: a
 * norm or dot with options.metric.
 *
 * Where s is the distance d1 or d2 (or the square of d2), they are s and cost nothing.  Otherwise
 * each row of x meets each row of y twice or three times, with sums that have the error of
 * gram_cdist; the library then holds whole rows at a time, so that scratch grows with k.
 * options.lengths counts for them too.  The derivative by a distance is 0 where it is 0, as with s.
 * GRAM_WEIGHT is the part that goes through s; GRAM_D1_WEIGHT and GRAM_D2_WEIGHT are the rest, and
 * gram_kernel_vjp gives the whole.  Products go by blocks of K through memory, as with norms.
 * There are no distances of other p than these beside s.  GRAM_UNSUPPORTED: d1 or d2 with
 * options.metric.
 */
GRAM_API gram_status gram_kernel(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                 const gram_kernel_options *options, gram_tensor *out);

GRAM_API gram_status gram_kernel_workspace(gram_context *g, const gram_tensor *x,
                                           const gram_tensor *y, const gram_kernel_options *options,
                                           const gram_tensor *out, gram_workspace *need);

typedef struct gram_kernel_matmul_options {
    size_t size;
    int accumulate; /* add to out, for a sum of kernels or of parts of y */
    /* For gram_kernel_matmul_multi; other calls refuse them. */
    gram_communicator *communicator;
    int all_points; /* x and y are those of all ranks, on every rank */
} gram_kernel_matmul_options;

/* clang-format off */
#define GRAM_KERNEL_MATMUL_OPTIONS_INIT GRAM_SIZED_(gram_kernel_matmul_options)
/* clang-format on */

/*
 * Products with a kernel matrix that is never stored as a whole:
 *   out[..., i, c] = sum_j K[..., i, j] v[..., j, c],
 *   K = gram_kernel(x, y, kernel).
 * K may be any output of gram_kernel, including the weight and the bandwidth derivative.
 *
 * x is m by k, y is n by k (NULL: x itself), v is n by r, and out is m by r, with any strides.  v
 * and out have the dtype that the out of gram_kernel would have.  Batches of x, y, v and the
 * hyperparameters broadcast.  The columns of one v share the work on K; the items of a batch do
 * not.  n = 0 gives zeros.  out must not overlap x, y, v, the weights of kernel.metric or itself.
 * Scratch never grows with m n.  On the CPU it holds sums of the size of out in double, and for
 * each thread at most 1536 points of x and of y, their rows of v and out, and a piece of K.
 *
 * If y is NULL, or has the data, shape and strides of x, each element of K is computed once for
 * itself and its mirror image, which halves the work.  The result does not depend on the number of
 * threads.  Error: that of the elements of gram_kernel, plus (n + 8) eps sum_j |K[i, j] v[j, c]|.
 * On the CPU 1536 + n / 384 takes the place of n in this term where it is less.  A NaN in row i of
 * x gives NaN in row i of out.  A NaN in y or v reaches all rows, as in any product, and an
 * infinite number in v may give NaN.
 *
 * The call can be cancelled (gram_context_cancel) while it computes or, on CUDA, while it queues
 * its work.  Elements of out then hold what they held before, a part of the sums, or the result.
 *
 * CUDA: the call only enqueues work, and gives the same bits in every run.  Elements of K stay in
 * registers and are multiplied there, if that costs less, in two cases: x and y have at most 43
 * columns (in f64 25 with a p that is not whole) and p is a number; or out is f32, p is the number
 * 2, and x and y have 20 columns or more.  The second case takes inner products from tensor cores,
 * and sums the differences of points that are near each other.  Where y is x, an element serves its
 * mirror image too, unless v has so many columns that the sums for it would cost more than the
 * element.  Scratch holds sums over parts of x and y: at most 256 MiB, or the two times n r numbers
 * that 512 rows of x need if that is more.  Where mirror images are summed in several rounds, it
 * also holds 8 bytes per element of out.  With tensor cores it holds x and y too, with 4 bytes for
 * each number of rows that are filled up to a multiple of 16, and 8 bytes for each row: of all
 * items of a batch that fit 256 MiB, or of one.
 * Other problems go by panels of K, which cuBLAS multiplies.  Scratch holds a panel, and v and out
 * by columns; sizes are at most 2^31 - 1.
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

/*
 * gram_kernel_matmul, computed by the ranks of options.communicator.  Each rank calls it with its
 * rows of x, y, v and out, any number of them, or none: the points are those of all ranks, rank by
 * rank.  Up to rounding, the product is that of one process.  y NULL means x.  row_offset and
 * column_offset of the kernel are those of the whole matrix.  There are no batches, and the dtype
 * of x is f32 or f64.  Data are exchanged over MPI on the CPU, and over NCCL on GPUs.
 *
 * x and y are brought to all ranks once a call, and v too.  With options.all_points they are there
 * already: every rank gives all rows of x and y, but its own rows of v and out.  If y is NULL and
 * K mirrors itself, the pairs of points are cut into as many parts as there are ranks, by a rule of
 * the sizes alone, so that each pair is computed once; every rank sums its pairs for all rows, and
 * the sums go to the ranks of these rows, which add them in the order of the ranks.  Else a rank
 * computes its rows of K.  The same number of ranks with the same rows gives the same bits.
 *
 * Error: that of gram_kernel_matmul, plus as many eps as there are ranks of the sums of the ranks.
 * Scratch of a rank: the rows of all ranks of x and y (unless options.all_points) and of v; where
 * pairs are computed once, as many rows of out, and its own rows of out once for each rank; and the
 * scratch of gram_kernel_matmul.  A rank sends its rows of x, y and v to every other rank, and
 * there gets and sends a row of out for each row.
 *
 * The kernel, its numbers, the numbers of columns and the dtype must be the same on all ranks, and
 * are compared, apart from what lies in tensors on a GPU.  Before each exchange and before out is
 * written, the ranks agree that none of them has failed.  A bad argument or a failure on one rank
 * ends the call on all of them: the others return the same status, with a message that names the
 * rank and its reason.  out is then unchanged, unless rows of K were being computed.  If a process
 * dies, mpirun ends the others; over NCCL they fail after the timeout of the communicator.  Every
 * rank must make the call, with a valid context and communicator.  On CUDA the call queues its
 * work; a call waits for the other ranks to make it, not for their devices.
 */
GRAM_API gram_status gram_kernel_matmul_multi(
    gram_context *g, const gram_tensor *x, const gram_tensor *y, const gram_kernel_options *kernel,
    const gram_tensor *v, const gram_kernel_matmul_options *options, gram_tensor *out);

/* The scratch of this rank.  Every rank makes this call, as the sizes of the others matter. */
GRAM_API gram_status gram_kernel_matmul_multi_workspace(
    gram_context *g, const gram_tensor *x, const gram_tensor *y, const gram_kernel_options *kernel,
    const gram_tensor *v, const gram_kernel_matmul_options *options, const gram_tensor *out,
    gram_workspace *need);

/* The outputs of gram_kernel_vjp.  A gradient whose pointer is NULL is not computed. */
typedef struct gram_kernel_grads {
    gram_tensor *x;              /* m by k */
    gram_tensor *y;              /* n by k */
    gram_tensor *bandwidth;      /* has the shape of the batch */
    gram_tensor *regularization; /* has the shape of the batch */
    gram_tensor *lengths;        /* [batch..., k]; read only where options.lengths is given */
} gram_kernel_grads;

/*
 * Vector-Jacobian products of gram_kernel (with the output GRAM_VALUE).  With the cotangent grad,
 * which is m by n,
 *   grads.x[i, k] = sum_j grad[i, j] dK[i, j] / dx[i, k], likewise for y,
 *   grads.bandwidth = sum_ij grad[i, j] dK[i, j] / dL,
 *   grads.regularization = sum_ij grad[i, j] [row_offset + i == column_offset + j],
 *   grads.lengths[k] = sum_ij grad[i, j] dK[i, j] / dl[k].
 * If x and y are one array, its gradient is grads.x + grads.y.  Coordinates that are equal
 * contribute 0, and so do points that coincide if the kernel has no derivative there.  No m by n
 * matrix is stored.  All tensors are f32, or all are f64; or x and y are f16 or bf16 and the
 * others f32, and scratch holds x and y in f32.  The gradients have the batch shape of the call.
 * With p = INFINITY, every coordinate whose difference is the largest receives the whole
 * derivative, as in PyTorch, and the others receive none (none at all for points that coincide).  p
 * = 0 has no gradient and is refused, and so is grads.bandwidth with GRAM_EXPRESSION.
 *
 * grads.lengths is computed from the gradients to the quotients u and v of gram_kernel:
 *   -(sum_i u[i, k] dK / du[i, k] + sum_j v[j, k] dK / dv[j, k]) / l[k],
 * summed in double.  Its error is that of these gradients times |u| and |v|, summed and divided by
 * l.  Scratch holds the gradients of the two if grads.x and grads.y are not wanted.
 */
GRAM_API gram_status gram_kernel_vjp(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                     const gram_kernel_options *options, const gram_tensor *grad,
                                     const gram_kernel_grads *grads);

GRAM_API gram_status gram_kernel_vjp_workspace(
    gram_context *g, const gram_tensor *x, const gram_tensor *y, const gram_kernel_options *options,
    const gram_tensor *grad, const gram_kernel_grads *grads, gram_workspace *need);

/* The outputs of gram_kernel_matmul_vjp.  A gradient whose pointer is NULL is not computed. */
typedef struct gram_kernel_matmul_grads {
    size_t size;
    gram_tensor *x;              /* m by k */
    gram_tensor *y;              /* n by k; NULL if y is */
    gram_tensor *v;              /* n by r */
    gram_tensor *bandwidth;      /* has the shape of the batch */
    gram_tensor *regularization; /* has the shape of the batch */
    gram_tensor *lengths;        /* [batch..., k]; read only where kernel.lengths is given */
} gram_kernel_matmul_grads;

/* clang-format off */
#define GRAM_KERNEL_MATMUL_GRADS_INIT GRAM_SIZED_(gram_kernel_matmul_grads)
/* clang-format on */

/*
 * Vector-Jacobian products of gram_kernel_matmul, out = K v.  With the cotangent grad, which is m
 * by r as out is, and G = grad v^T,
 *   grads.x[i, k] = sum_j G[i, j] dK[i, j] / dx[i, k], likewise for y,
 *   grads.v[j, c] = sum_i K[i, j] grad[i, c],
 *   grads.bandwidth = sum_ij G[i, j] dK[i, j] / dL,
 *   grads.regularization = sum_ij G[i, j] [row_offset + i == column_offset + j],
 *   grads.lengths[k] = sum_ij G[i, j] dK[i, j] / dl[k].
 * These are the gradients of gram_kernel_vjp with the cotangent G, which is not stored, nor is K.
 * If y is NULL, grads.x is the whole gradient of x, the sum of both arguments, and grads.y must be
 * NULL.  kernel.output must be GRAM_VALUE.  Any other derivative of K that gram_kernel offers gives
 * a gradient by a product: with D = dK / dt it is the sum of grad times gram_kernel_matmul's D v.
 *
 * x is m by k, y is n by k, v is n by r, all of one dtype, f32 or f64, with any strides; or x and
 * y are f16 or bf16, and v, grad and the gradients f32, for which scratch holds x and y in f32.
 * Batches of x, y, v, grad and the hyperparameters broadcast, and the gradients have the shape of
 * the batch.  Outputs must not overlap inputs or each other.  Ties, points that coincide, p =
 * INFINITY and refusals are as for gram_kernel_vjp: nothing is NaN there.  The result does not
 * depend on the number of threads, and every run gives the same bits.  Like gram_kernel_matmul the
 * call can be cancelled on the CPU.
 *
 * Scratch never grows with m n.  On the CPU, for 0 < p < INFINITY as a number and for inner
 * products, tiles of weights stay in the first-level cache; each thread holds blocks of points of x
 * and of y and their rows of v and grad, and there are sums of the size of the largest of grads.x
 * and grads.y in double, eight times where that has few rows.  grads.bandwidth needs a product of
 * the size of grad.  On CUDA, weights of up to 43 coordinates (27 in f64 where p is not whole) stay
 * in registers, if p is a number and the kernel has no |x|; scratch is then sums of slices of the
 * centres, 256 MiB or those of one block of points, and grads.bandwidth needs a product too.  What
 * is left goes by blocks of G and of the weights: on the CPU the cosine, p = INFINITY and p as a
 * tensor, 1024 by 1024; on CUDA at most 4096 by 4096.
 *
 * Error, with the weights w of gram_kernel and tiles in the cache or in registers:
 *   (r + 300) eps sum_j |w[i, j]| sum_c |grad[i, c] v[j, c]| |x[i, k] - y[j, k]|^(p - 1),
 * or with |y[j, k]| in the place of the power for inner products, plus what the error of w adds.
 * Differences are taken as such, so points far from the origin keep their digits.  The weights of
 * GRAM_LAPLACE with p = 2 grow without bound as points approach each other, and their errors with
 * them; the products w (x - y) stay bounded.
 */
GRAM_API gram_status gram_kernel_matmul_vjp(gram_context *g, const gram_tensor *x,
                                            const gram_tensor *y, const gram_kernel_options *kernel,
                                            const gram_tensor *v, const gram_tensor *grad,
                                            const gram_kernel_matmul_grads *grads);

GRAM_API gram_status gram_kernel_matmul_vjp_workspace(gram_context *g, const gram_tensor *x,
                                                      const gram_tensor *y,
                                                      const gram_kernel_options *kernel,
                                                      const gram_tensor *v, const gram_tensor *grad,
                                                      const gram_kernel_matmul_grads *grads,
                                                      gram_workspace *need);

/* ---- Gradients of kernel machines --------------------------------------------------------- */

/*
 * Gradients of kernel expansions:
 *   out[..., o, n, m] = sum_k c[..., o, k] a[..., k, m] sgn(e) |e|^(p - 1),
 *   e                 = d[..., n, m] - b[..., n, k].
 *
 * a [K, M] holds kernel weights (gram_kernel with GRAM_WEIGHT), b [N, K] the features of the
 * centres, c [O, K] the coefficients, d [N, M] the features of the points, and out is [O, N, M].
 * All are f32 or all are f64, with any strides; a row-major matrix of points can serve as b with
 * its strides exchanged.  Batches and p broadcast.  p > 0.  A feature with d = b contributes 0 for
 * every p.  For p = INFINITY, the power is 1 for the features whose |d - b|, as a number of the
 * dtype, is the largest between d[:, m] and b[:, k], and 0 for the others; a NaN among them gives
 * NaN for all.  If p is a tensor on a CUDA device, its values must be finite.
 *
 * For p = 2 the gradients are computed by matrix products, with s[n] the mean of b[n, :]:
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
    int diagonal;   /* out is the vector of the N diagonal elements */
    int accumulate; /* add to out, for an average over points that come in parts */
    int64_t points; /* divide by this instead of M; 0: M */
} gram_agop_options;

/* clang-format off */
#define GRAM_AGOP_OPTIONS_INIT GRAM_SIZED_(gram_agop_options)
/* clang-format on */

/*
 * The average gradient outer product:
 *   out[..., n, l] = (1 / M) sum_{o, m} g[..., o, n, m] g[..., o, l, m],
 *   g = gram_cdist_grad(a, b, c, d, p), which is never stored whole.
 * out is N by N (both triangles, exactly symmetric), or a vector of N with options.diagonal.  M = 0
 * gives zeros.  Everything else is as for gram_cdist_grad.
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

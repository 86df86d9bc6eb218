/*
 * pairwise_bound.c - what an element of gram_cdist or gram_kernel should be, and how far off it may
 * be
 *
 * The bounds are those of gram.h.  For a kernel: the function at sums that are off by the bound of
 * the sum, plus the function's own error.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/reference/reference.h"
#include "pairwise_problem.h"
#include <float.h>
#include <math.h>

double pair_want(const struct pair_question *q, const struct reference_batch *batch,
                 const int64_t item_ij[3])
{
    if (q->kernel)
        return reference_kernel(q->x, q->y, q->kernel, batch, item_ij);
    return reference_cdist(q->x, q->y, q->p, q->no_root, batch, item_ij);
}

static bool is_double(const struct pair_question *q)
{
    return q->x->dtype == GRAM_F64;
}

static double eps_of(const struct pair_question *q)
{
    return is_double(q) ? DBL_EPSILON : (double)FLT_EPSILON;
}

/* The smallest numbers of the dtype: results below the normal range keep fewer digits. */
static double smallest(const struct pair_question *q)
{
    return is_double(q) ? 0x1p-1074 : 0x1p-149;
}

/* Relative error of a sum of k powers; the reference in double is allowed as much in f64. */
static double sum_error(const struct pair_question *q, double p)
{
    double k = (double)q->x->shape[q->x->ndim - 1], eps = eps_of(q);

    if (is_double(q))
        k *= 2;
    if (p == 2)
        return 2 * ((k + 8) * eps + (is_double(q) ? 1e-14 : 1e-6));
    return (k + 16) * eps;
}

static double cdist_bound(const struct pair_question *q, const struct reference_batch *batch,
                          const int64_t item_ij[3], double want)
{
    double p = reference_scalar(q->p, batch, item_ij[0]);
    double relative = sum_error(q, p);

    if (p == 0)
        return 0;
    if (isinf(p))
        return eps_of(q) * want;
    if (!q->no_root)
        relative = relative / p + 8 * eps_of(q);
    return relative * want + (double)q->x->shape[q->x->ndim - 1] * smallest(q);
}

static double farther(double a, double b)
{
    return a > b || isnan(a) ? a : b;
}

/* |t f'(t)| at a sum, as gram.h has it: what one relative change of the argument makes. */
static double argument_change(const gram_kernel_options *o, const struct reference_batch *batch,
                              int64_t item, double sum)
{
    const double step = 1e-6;
    double e = o->inner == GRAM_DOT ? 1 : reference_scalar(o->outer_power, batch, item);
    double at = reference_covariance(o, batch, item, sum, 0), move = sum * step / e;

    if (o->function == GRAM_EXPONENTIAL_POWER)
        move /= reference_scalar(o->exponent, batch, item);
    if (o->function == GRAM_POLYNOMIAL || o->function == GRAM_SIGMOID)
        move = step * (fabs(sum) + fabs(reference_scalar(o->coef0, batch, item) /
                                        reference_scalar(o->gamma, batch, item)));
    return farther(fabs(reference_covariance(o, batch, item, sum + move, 0) - at),
                   fabs(reference_covariance(o, batch, item, sum - move, 0) - at)) /
           step;
}

/* The function at sums that are off by the bound of the sum, and its own error; the reference in
 * double is allowed as much in f64. */
static double kernel_bound(const struct pair_question *q, const struct reference_batch *batch,
                           const int64_t item_ij[3], double want)
{
    const gram_kernel_options *o = q->kernel;
    double eps = eps_of(q), p = reference_scalar(o->p, batch, item_ij[0]), magnitude;
    double sum = reference_kernel_sum(q->x, q->y, o, batch, item_ij, &magnitude);
    double off = magnitude * sum_error(q, o->inner == GRAM_DOT ? 1 : p);
    double least = sum - off, most = sum + off, at, spread, own;

    if (isinf(sum))
        return 0; /* the function's limit */
    if (o->function == GRAM_COSINE)
        return sum_error(q, 1);
    if (o->inner == GRAM_DIFFERENCE && least < 0)
        least = 0;
    at = reference_covariance(o, batch, item_ij[0], sum, 0);
    spread = farther(fabs(reference_covariance(o, batch, item_ij[0], least, 0) - at),
                     fabs(reference_covariance(o, batch, item_ij[0], most, 0) - at));
    own = 8 * eps * (fabs(at) + argument_change(o, batch, item_ij[0], sum));
    return spread + (is_double(q) ? 2 : 1) * own + (is_double(q) ? DBL_MIN : (double)FLT_MIN) +
           eps * fabs(want);
}

double pair_bound(const struct pair_question *q, const struct reference_batch *batch,
                  const int64_t item_ij[3], double want)
{
    return q->kernel ? kernel_bound(q, batch, item_ij, want) : cdist_bound(q, batch, item_ij, want);
}

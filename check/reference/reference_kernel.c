/*
 * reference_kernel.c - kernels, their weights and bandwidth derivatives as the formulas say
 *
 * SPDX-License-Identifier: MIT
 */
#include "reference.h"
#include <math.h>

/* The numbers of one item. */
struct parameters {
    double p, outer, l, q, alpha, gamma, coef0, degree;
};

static struct parameters parameters_of(const gram_kernel_options *o,
                                       const struct reference_batch *batch, int64_t item)
{
    struct parameters at = {
        .p = reference_scalar(o->p, batch, item),
        .outer = reference_scalar(o->outer_power, batch, item),
        .l = reference_scalar(o->bandwidth, batch, item),
        .q = reference_scalar(o->exponent, batch, item),
        .alpha = reference_scalar(o->alpha, batch, item),
        .gamma = reference_scalar(o->gamma, batch, item),
        .coef0 = reference_scalar(o->coef0, batch, item),
        .degree = reference_scalar(o->degree, batch, item),
    };

    if (o->root)
        at.outer = at.p > 0 && at.p < INFINITY ? 1 / at.p : 1;
    if (o->inner == GRAM_DOT)
        at.p = at.outer = 1;
    return at;
}

static double value(gram_function f, const struct parameters *at, double s)
{
    double l = at->l, t;

    switch (f) {
    case GRAM_IDENTITY:
    case GRAM_COSINE:
        return s;
    case GRAM_LAPLACE:
        return exp(-s / l);
    case GRAM_GAUSSIAN:
        return exp(-s / (2 * l * l));
    case GRAM_EXPONENTIAL_POWER:
        return exp(-pow(s / l, at->q));
    case GRAM_MATERN32:
        t = sqrt(3) * s / l;
        return (1 + t) * exp(-t);
    case GRAM_MATERN52:
        t = sqrt(5) * s / l;
        return (1 + t + t * t / 3) * exp(-t);
    case GRAM_RATIONAL_QUADRATIC:
        return pow(1 + s / (2 * at->alpha * l * l), -at->alpha);
    case GRAM_POLYNOMIAL:
        return pow(at->gamma * s + at->coef0, at->degree);
    case GRAM_SIGMOID:
        return tanh(at->gamma * s + at->coef0);
    case GRAM_EXPRESSION:
        break; /* a test knows a built-in function that it should be */
    }
    return NAN;
}

/* df / ds */
static double slope(gram_function f, const struct parameters *at, double s)
{
    double l = at->l, t;

    switch (f) {
    case GRAM_IDENTITY:
        return 1;
    case GRAM_LAPLACE:
        return -exp(-s / l) / l;
    case GRAM_GAUSSIAN:
        return -exp(-s / (2 * l * l)) / (2 * l * l);
    case GRAM_EXPONENTIAL_POWER:
        return -exp(-pow(s / l, at->q)) * at->q * pow(s, at->q - 1) * pow(l, -at->q);
    case GRAM_MATERN32:
        t = sqrt(3) * s / l;
        return -t * exp(-t) * sqrt(3) / l;
    case GRAM_MATERN52:
        t = sqrt(5) * s / l;
        return -t * (1 + t) / 3 * exp(-t) * sqrt(5) / l;
    case GRAM_RATIONAL_QUADRATIC:
        return -pow(1 + s / (2 * at->alpha * l * l), -at->alpha - 1) / (2 * l * l);
    case GRAM_POLYNOMIAL:
        return at->degree * at->gamma * pow(at->gamma * s + at->coef0, at->degree - 1);
    case GRAM_SIGMOID:
        return at->gamma / pow(cosh(at->gamma * s + at->coef0), 2);
    case GRAM_COSINE:
    case GRAM_EXPRESSION:
        break;
    }
    return NAN;
}

/* df / dL */
static double bandwidth_derivative(gram_function f, const struct parameters *at, double s)
{
    double l = at->l, t;

    switch (f) {
    case GRAM_LAPLACE:
        return exp(-s / l) * s / (l * l);
    case GRAM_GAUSSIAN:
        return exp(-s / (2 * l * l)) * s / (l * l * l);
    case GRAM_EXPONENTIAL_POWER:
        return exp(-pow(s / l, at->q)) * at->q * pow(s / l, at->q) / l;
    case GRAM_MATERN32:
        t = sqrt(3) * s / l;
        return t * t * exp(-t) / l;
    case GRAM_MATERN52:
        t = sqrt(5) * s / l;
        return t * t * (1 + t) / 3 * exp(-t) / l;
    case GRAM_RATIONAL_QUADRATIC:
        t = s / (2 * at->alpha * l * l);
        return 2 * at->alpha * t * pow(1 + t, -at->alpha - 1) / l;
    case GRAM_IDENTITY:
    case GRAM_POLYNOMIAL:
    case GRAM_SIGMOID:
    case GRAM_COSINE:
    case GRAM_EXPRESSION:
        break;
    }
    return 0;
}

double reference_coordinate(const gram_tensor *t, const gram_kernel_options *options,
                            const struct reference_batch *batch, const int64_t item_row_k[3])
{
    double e = reference_element(t, batch, item_row_k[0], 2, item_row_k + 1);

    if (options->lengths)
        e /= reference_element(options->lengths, batch, item_row_k[0], 1, item_row_k + 2);
    return e;
}

double reference_kernel_sum(const gram_tensor *x, const gram_tensor *y,
                            const gram_kernel_options *options, const struct reference_batch *batch,
                            const int64_t item_ij[3], double *magnitude)
{
    const gram_tensor *z = y ? y : x;
    double p = reference_scalar(options->p, batch, item_ij[0]), sum = 0;

    *magnitude = 0;
    for (int64_t k = 0; k < x->shape[x->ndim - 1]; k++) {
        double a = reference_coordinate(x, options, batch, (int64_t[]){item_ij[0], item_ij[1], k});
        double b = reference_coordinate(z, options, batch, (int64_t[]){item_ij[0], item_ij[2], k});
        double term = options->inner == GRAM_DOT ? a * b
                      : isinf(p)                 ? fabs(a - b)
                                                 : pow(fabs(a - b), p);
        *magnitude += fabs(term);
        if (options->inner == GRAM_DIFFERENCE && isinf(p))
            sum = term > sum || isnan(term) ? term : sum;
        else
            sum += term;
    }
    return sum;
}

double reference_covariance(const gram_kernel_options *options, const struct reference_batch *batch,
                            int64_t item, double sum, double norms)
{
    struct parameters at = parameters_of(options, batch, item);
    double s = at.outer == 1 ? sum : pow(sum, at.outer);

    if (options->function == GRAM_COSINE)
        s = norms == 0 ? 0 : s / norms;
    if (options->output == GRAM_BANDWIDTH_DERIVATIVE)
        return bandwidth_derivative(options->function, &at, s);
    if (options->output == GRAM_VALUE)
        return value(options->function, &at, s);
    if (options->inner == GRAM_DOT)
        return slope(options->function, &at, s);
    if (sum == 0)
        return 0;
    return slope(options->function, &at, s) * at.outer * pow(sum, at.outer - 1) *
           (isinf(at.p) ? 1 : at.p);
}

static double norm(const gram_tensor *t, const gram_kernel_options *options,
                   const struct reference_batch *batch, int64_t item, int64_t row)
{
    double sum = 0;

    for (int64_t k = 0; k < t->shape[t->ndim - 1]; k++) {
        double e = reference_coordinate(t, options, batch, (int64_t[]){item, row, k});
        sum += e * e;
    }
    return sqrt(sum);
}

double reference_kernel(const gram_tensor *x, const gram_tensor *y,
                        const gram_kernel_options *options, const struct reference_batch *batch,
                        const int64_t item_ij[3])
{
    double magnitude, norms = 0,
                      sum = reference_kernel_sum(x, y, options, batch, item_ij, &magnitude), result;

    if (options->function == GRAM_COSINE)
        norms = norm(x, options, batch, item_ij[0], item_ij[1]) *
                norm(y ? y : x, options, batch, item_ij[0], item_ij[2]);
    result = reference_covariance(options, batch, item_ij[0], sum, norms);
    if (options->output == GRAM_VALUE &&
        options->row_offset + item_ij[1] == options->column_offset + item_ij[2])
        result += reference_scalar(options->regularization, batch, item_ij[0]);
    return result;
}

/* ---- Products with kernel matrices, as their sum says ---------------------------------------- */

double reference_kernel_matmul(const gram_tensor *x, const gram_tensor *y,
                               const gram_kernel_options *kernel, const gram_tensor *v,
                               const struct reference_batch *batch, const int64_t item_ic[3],
                               double magnitude[2])
{
    const gram_tensor *other = y ? y : x;
    int64_t item = item_ic[0], n = other->shape[other->ndim - 2];
    double sum = 0;

    magnitude[0] = magnitude[1] = 0;
    for (int64_t j = 0; j < n; j++) {
        double k = reference_kernel(x, other, kernel, batch, (int64_t[]){item, item_ic[1], j});
        double w = reference_element(v, batch, item, 2, (int64_t[]){j, item_ic[2]});
        sum += k * w;
        magnitude[0] += fabs(w);
        magnitude[1] += fabs(k * w);
    }
    return sum;
}

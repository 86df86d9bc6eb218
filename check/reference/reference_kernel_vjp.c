/*
 * reference_kernel_vjp.c - vector-Jacobian products of kernels as their sums say
 *
 * d k / d x = weight sgn(x - y) |x - y|^(p - 1), or weight y, with the weight of reference_kernel;
 * the cosine x . y / (|x| |y|) has d k / d x = (y - x (x . y) / |x|^2) / (|x| |y|).
 *
 * SPDX-License-Identifier: MIT
 */
#include "reference.h"
#include <math.h>

/* The kernel, its weight or its bandwidth derivative without regularization at [item][i][j]. */
static double part(const struct reference_vjp *in, const struct reference_batch *batch,
                   const int64_t at[3], gram_kernel_output output)
{
    gram_kernel_options options = *in->options;

    options.output = output;
    options.regularization = gram_number(0);
    return reference_kernel(in->x, in->y, &options, batch, at);
}

static double dot(const gram_tensor *x, const gram_tensor *y, const gram_kernel_options *options,
                  const struct reference_batch *batch, const int64_t at[3])
{
    double sum = 0;

    for (int64_t k = 0; k < x->shape[x->ndim - 1]; k++)
        sum += reference_coordinate(x, options, batch, (int64_t[]){at[0], at[1], k}) *
               reference_coordinate(y, options, batch, (int64_t[]){at[0], at[2], k});
    return sum;
}

/* The largest difference of two rows. */
static double largest(const gram_tensor *x, const gram_tensor *y,
                      const gram_kernel_options *options, const struct reference_batch *batch,
                      const int64_t at[3])
{
    double most = 0;

    for (int64_t k = 0; k < x->shape[x->ndim - 1]; k++)
        most =
            fmax(most, fabs(reference_coordinate(x, options, batch, (int64_t[]){at[0], at[1], k}) -
                            reference_coordinate(y, options, batch, (int64_t[]){at[0], at[2], k})));
    return most;
}

/* d k / d own, the coordinate k of row i of x (or row j of y, with own and other exchanged), or of
 * the quotient that it becomes by its length. */
static double slope(const struct reference_vjp *in, const struct reference_batch *batch,
                    const int64_t at[3], bool of_y, int64_t k)
{
    const gram_tensor *own = of_y ? in->y : in->x, *other = of_y ? in->x : in->y;
    int64_t row = at[of_y ? 2 : 1], other_row = at[of_y ? 1 : 2];
    const gram_kernel_options *o = in->options;
    double u = reference_coordinate(own, o, batch, (int64_t[]){at[0], row, k});
    double v = reference_coordinate(other, o, batch, (int64_t[]){at[0], other_row, k});

    if (in->options->function == GRAM_COSINE) {
        double uu = dot(own, own, o, batch, (int64_t[]){at[0], row, row});
        double vv = dot(other, other, o, batch, (int64_t[]){at[0], other_row, other_row});
        double uv = dot(own, other, o, batch, (int64_t[]){at[0], row, other_row});
        return uu * vv == 0 ? 0 : (v - u * uv / uu) / sqrt(uu * vv);
    }
    if (in->options->inner == GRAM_DOT)
        return part(in, batch, at, GRAM_WEIGHT) * v;
    if (isinf(reference_scalar(in->options->p, batch, at[0])))
        return part(in, batch, at, GRAM_WEIGHT) *
               (fabs(u - v) == largest(own, other, o, batch, (int64_t[]){at[0], row, other_row})
                    ? (u > v) - (u < v)
                    : 0);
    return part(in, batch, at, GRAM_WEIGHT) *
           reference_signed_power(u - v, reference_scalar(in->options->p, batch, at[0]) - 1);
}

static double length(const struct reference_vjp *in, const struct reference_batch *batch,
                     int64_t item, int64_t k)
{
    const gram_tensor *lengths = in->options->lengths;

    return lengths ? reference_element(lengths, batch, item, 1, &k) : 1;
}

double reference_vjp_points(const struct reference_vjp *in, const struct reference_batch *batch,
                            const int64_t item_row_k[3], bool of_y, double *magnitude)
{
    const gram_tensor *other = of_y ? in->x : in->y;
    int64_t item = item_row_k[0], row = item_row_k[1];
    double sum = 0;

    *magnitude = 0;
    for (int64_t l = 0; l < other->shape[other->ndim - 2]; l++) {
        const int64_t at[3] = {item, of_y ? l : row, of_y ? row : l};
        double term = reference_element(in->grad, batch, item, 2, at + 1) *
                      slope(in, batch, at, of_y, item_row_k[2]) /
                      length(in, batch, item, item_row_k[2]);
        sum += term;
        *magnitude += fabs(term);
    }
    return sum;
}

double reference_vjp_length(const struct reference_vjp *in, const struct reference_batch *batch,
                            const int64_t item_k[2], double *magnitude)
{
    const gram_kernel_options *o = in->options;
    int64_t item = item_k[0], k = item_k[1];
    double sum = 0, first = 0;

    *magnitude = 0;
    if (o->inner == GRAM_DIFFERENCE && in->y->shape[in->y->ndim - 2] > 0)
        first = reference_coordinate(in->y, o, batch, (int64_t[]){item, 0, k});
    for (int64_t i = 0; i < in->x->shape[in->x->ndim - 2]; i++)
        for (int64_t j = 0; j < in->y->shape[in->y->ndim - 2]; j++) {
            const int64_t at[3] = {item, i, j};
            double u = reference_coordinate(in->x, o, batch, (int64_t[]){item, i, k}) - first;
            double v = reference_coordinate(in->y, o, batch, (int64_t[]){item, j, k}) - first;
            double by =
                -reference_element(in->grad, batch, item, 2, at + 1) / length(in, batch, item, k);
            double of_x = by * u * slope(in, batch, at, false, k);
            double of_y = by * v * slope(in, batch, at, true, k);
            sum += of_x + of_y;
            *magnitude += fabs(of_x) + fabs(of_y);
        }
    return sum;
}

double reference_vjp_scalar(const struct reference_vjp *in, const struct reference_batch *batch,
                            int64_t item, bool regularization, double *magnitude)
{
    const gram_kernel_options *o = in->options;
    double sum = 0;

    *magnitude = 0;
    for (int64_t i = 0; i < in->x->shape[in->x->ndim - 2]; i++)
        for (int64_t j = 0; j < in->y->shape[in->y->ndim - 2]; j++) {
            const int64_t at[3] = {item, i, j};
            double slope_of = o->row_offset + i == o->column_offset + j ? 1 : 0, term;
            if (!regularization)
                slope_of = part(in, batch, at, GRAM_BANDWIDTH_DERIVATIVE);
            term = reference_element(in->grad, batch, item, 2, at + 1) * slope_of;
            sum += term;
            *magnitude += fabs(term);
        }
    return sum;
}

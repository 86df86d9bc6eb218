/*
 * reference_matmul_batched.c - an element of a matrix product, and of a running average of Gram
 * matrices: sums over one index
 *
 * SPDX-License-Identifier: MIT
 */
#include "reference.h"
#include <math.h>

static double element_of(const gram_tensor *t, const struct reference_batch *batch, int64_t item,
                         bool transposed, int64_t i, int64_t j)
{
    return reference_element(t, batch, item, 2, transposed ? (int64_t[]){j, i} : (int64_t[]){i, j});
}

double reference_matmul_batched(const gram_tensor *a, const gram_tensor *b,
                                const gram_matmul_options *o, const struct reference_batch *batch,
                                const int64_t item_ij[3], double *magnitude)
{
    int64_t item = item_ij[0], depth = a->shape[a->ndim - (o->transpose_a ? 2 : 1)];
    double alpha = reference_scalar(o->alpha, batch, item), sum = 0, size = 0, c = 0;
    double beta = reference_scalar(o->beta, batch, item);

    for (int64_t l = 0; l < depth; l++) {
        double term = element_of(a, batch, item, o->transpose_a, item_ij[1], l) *
                      element_of(b, batch, item, o->transpose_b, l, item_ij[2]);
        sum += term;
        size += fabs(term);
    }
    if (beta != 0)
        c = beta * reference_element(o->c, batch, item, 2, item_ij + 1);
    *magnitude = fabs(alpha) * size + fabs(c);
    return alpha * sum + c;
}

double reference_syrk_ema(const gram_tensor *x, const gram_syrk_ema_options *o, double before,
                          const struct reference_batch *batch, const int64_t item_ij[3],
                          double *magnitude)
{
    int64_t item = item_ij[0], depth = x->shape[x->ndim - (o->transpose ? 2 : 1)];
    double beta = reference_scalar(o->beta, batch, item), sum = 0, size = 0;
    double weight = reference_scalar(o->alpha, batch, item) * (o->sum ? 1 : 1 - beta);

    for (int64_t l = 0; l < depth; l++) {
        double term = element_of(x, batch, item, o->transpose, item_ij[1], l) *
                      element_of(x, batch, item, o->transpose, item_ij[2], l);
        sum += term;
        size += fabs(term);
    }
    if (beta == 0)
        before = 0;
    *magnitude = fabs(beta * before) + fabs(weight) * size;
    return beta * before + weight * sum;
}

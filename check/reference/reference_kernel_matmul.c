/*
 * reference_kernel_matmul.c - products with kernel matrices as their sum says
 *
 * SPDX-License-Identifier: MIT
 */
#include "reference.h"
#include <math.h>

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

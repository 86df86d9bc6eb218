/*
 * reference_kron.c - an element of a Kronecker product: one element of every factor
 *
 * SPDX-License-Identifier: MIT
 */
#include "reference.h"

double reference_kron(const gram_tensor *const *factors, int count,
                      const struct reference_batch *batch, const int64_t item_ij[3])
{
    int64_t i = item_ij[1], j = item_ij[2];
    double value = 1;

    for (int f = count - 1; f >= 0; f--) {
        const gram_tensor *t = factors[f];
        int64_t rows = t->shape[t->ndim - 2], cols = t->shape[t->ndim - 1];
        value *= reference_element(t, batch, item_ij[0], 2, (int64_t[]){i % rows, j % cols});
        i /= rows;
        j /= cols;
    }
    return value;
}

/*
 * reference_agop.c - the average gradient outer product as the formula says
 *
 * SPDX-License-Identifier: MIT
 */
#include "reference.h"

double reference_agop(const struct reference_grad *in, int64_t points,
                      const struct reference_batch *batch, const int64_t item_nl[3])
{
    int64_t outputs = in->c->shape[in->c->ndim - 2], count = in->a->shape[in->a->ndim - 1];
    int64_t item = item_nl[0], n = item_nl[1], l = item_nl[2];
    double sum = 0;

    for (int64_t o = 0; o < outputs; o++)
        for (int64_t m = 0; m < count; m++)
            sum += reference_cdist_grad(in, batch, (int64_t[]){item, o, n, m}) *
                   reference_cdist_grad(in, batch, (int64_t[]){item, o, l, m});
    return count ? sum / (double)(points ? points : count) : 0;
}

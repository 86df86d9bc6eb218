/*
 * reference_cdist.c - pairwise distances as the formula says
 *
 * SPDX-License-Identifier: MIT
 */
#include "reference.h"
#include <math.h>

double reference_cdist(const gram_tensor *x, const gram_tensor *y, gram_scalar p, int no_root,
                       const struct reference_batch *batch, const int64_t item_ij[3])
{
    const gram_tensor *z = y ? y : x;
    double power = reference_scalar(p, batch, item_ij[0]), sum = 0;

    for (int64_t k = 0; k < x->shape[x->ndim - 1]; k++) {
        double a = reference_element(x, batch, item_ij[0], 2, (int64_t[]){item_ij[1], k});
        double b = reference_element(z, batch, item_ij[0], 2, (int64_t[]){item_ij[2], k});
        double d = fabs(a - b);
        if (power == 0)
            sum += isnan(a) || isnan(b) ? NAN : a != b;
        else if (isinf(power))
            sum = d > sum || isnan(d) ? d : sum;
        else
            sum += pow(d, power);
    }
    return no_root || power == 0 || isinf(power) ? sum : pow(sum, 1 / power);
}

/*
 * reference_reduce.c - reductions of one row of values
 *
 * SPDX-License-Identifier: MIT
 */
#include "reference.h"
#include <math.h>

double reference_extreme(int64_t n, const double *values, int least, int64_t *index)
{
    double best = least ? INFINITY : -INFINITY;

    *index = -1;
    for (int64_t j = 0; j < n; j++) {
        if (isnan(values[j])) {
            *index = j;
            return NAN;
        }
        if (*index < 0 || (least ? values[j] < best : values[j] > best))
            best = values[j], *index = j;
    }
    return best;
}

double reference_logsumexp(int64_t n, const double *values, double scale)
{
    double largest = -INFINITY, sum = 0;

    for (int64_t j = 0; j < n; j++) {
        if (isnan(values[j]) || scale * values[j] == INFINITY)
            return NAN;
        largest = fmax(largest, scale * values[j]);
    }
    if (largest == -INFINITY)
        return -INFINITY;
    for (int64_t j = 0; j < n; j++)
        sum += exp(scale * values[j] - largest);
    return largest + log(sum);
}

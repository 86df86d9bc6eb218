/*
 * reference_median.c - the median of some numbers, by sorting
 *
 * SPDX-License-Identifier: MIT
 */
#include "reference.h"
#include <math.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double reference_median(int64_t n, double *values)
{
    int64_t count = 0;

    for (int64_t i = 0; i < n; i++)
        if (!isnan(values[i]))
            values[count++] = values[i];
    if (count == 0)
        return NAN;
    qsort(values, (size_t)count, sizeof *values, ascending);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

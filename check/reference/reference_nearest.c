/*
 * reference_nearest.c - the nearest rows, by a stable sort of one row of distances
 *
 * SPDX-License-Identifier: MIT
 */
#include "reference.h"
#include <math.h>

int64_t reference_nearest(int64_t n, const double *distances, int64_t self, double radius,
                          int64_t count, int64_t *indices)
{
    int64_t within = 0, stored = 0;

    for (int64_t j = 0; j < n; j++) {
        int64_t at;
        if (j == self || !(distances[j] <= radius) || !(distances[j] < INFINITY))
            continue;
        within++;
        for (at = stored; at > 0 && distances[j] < distances[indices[at - 1]]; at--)
            if (at < count)
                indices[at] = indices[at - 1];
        if (at < count)
            indices[at] = j;
        stored = stored < count ? stored + 1 : count;
    }
    for (int64_t c = stored; c < count; c++)
        indices[c] = -1;
    return within;
}

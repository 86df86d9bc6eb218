/*
 * cuda_cdist_power.c - the numbers with which pair_power.cuh raises to a power that is not whole
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda/cuda_ops.h"
#include <math.h>

static const long double middle = PAIR_POWER_MIDDLE, radius = 0.375L; /* of the range of P */

/* The polynomial of powers of P - center through P^g at the zeros of a Chebyshev polynomial, which
 * comes within 3 times the best one's error: Newton's divided differences, multiplied out. */
static void interpolate(double g, long double center, int terms, long double *c)
{
    long double at[PAIR_POWER_TERMS], difference[PAIR_POWER_TERMS];

    for (int i = 0; i < terms; i++) {
        at[i] = middle + radius * cosl(acosl(-1) * (2 * i + 1) / (2 * terms));
        difference[i] = powl(at[i], g);
        c[i] = 0;
    }
    for (int order = 1; order < terms; order++)
        for (int i = terms - 1; i >= order; i--)
            difference[i] = (difference[i] - difference[i - 1]) / (at[i] - at[i - order]);
    for (int i = terms - 1; i >= 0; i--) {
        for (int k = terms - 1; k > 0; k--)
            c[k] = c[k - 1] - (at[i] - center) * c[k];
        c[0] = difference[i] - (at[i] - center) * c[0];
    }
}

void cuda_cdist_power(double g, struct pair_power *power)
{
    const double most = pow(4.5, g) * (1 + 0x1p-20); /* P^g / most stays under 1 */
    long double c[PAIR_POWER_TERMS];

    interpolate(g, 0, 4, c);
    for (int k = 0; k < 4; k++)
        power->f32[k] = (float)(c[k] / most);
    interpolate(g, middle, PAIR_POWER_TERMS, c);
    for (int k = 0; k < PAIR_POWER_TERMS; k++)
        power->f64[k] = (double)c[k];
    /* inv^-g for inv = 2^(e - bias) (1 + m / 8) */
    for (int m = 0; m < 8; m++)
        power->mantissa[m] = pow(1 + m / 8.0, -g);
    for (int bit = 0; bit < 10; bit++) {
        power->shrink[bit] = exp2(-g * (1 << bit));
        power->grow[bit] = exp2(g * (1 << bit));
    }
    power->f32_most = most;
}

/*
 * power.c - prepares an exponent: tables and coefficients, described in power.h
 *
 * SPDX-License-Identifier: MIT
 */
#include "power.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
    MOST = 8,       /* degree of the longest polynomial */
    SURPLUS = 2,    /* terms of the binomial series that are folded into those before them */
    MOST_TRIES = 64 /* each makes 1^q exact with a chance of 3/4 or better */
};

/* Subtracts the multiple of the Chebyshev polynomial of degree n, on [-most, most], that cancels
 * c[n]: the series loses its last term at the least cost. */
static void economise(double *c, int n, double most)
{
    double before[MOST + SURPLUS + 1] = {1}, now[MOST + SURPLUS + 1] = {0, 1};
    double factor = c[n] * pow(most, n) * exp2(1 - n);

    for (int degree = 1; degree < n; degree++)
        for (int k = n; k >= 0; k--) {
            double next = (k ? 2 * now[k - 1] : 0) - before[k];

            before[k] = now[k];
            now[k] = next;
        }
    for (int k = 0; k <= n; k++)
        c[k] -= factor * now[k] / pow(most, k);
}

/* (1 + f)^q = c[0] + c[1] f + ... for |f| <= most. */
static void binomial(double q, int degree, double most, double *c)
{
    double series[MOST + SURPLUS + 1] = {1};

    for (int k = 1; k <= degree + SURPLUS; k++)
        series[k] = series[k - 1] * (q - k + 1) / k;
    for (int k = degree + SURPLUS; k > degree; k--)
        economise(series, k, most);
    memcpy(c, series, sizeof *c * (size_t)(degree + 1));
}

/* 2^(q k), as exact as pow: q k is a sum of two doubles only. */
static double power_of_two(double q, int k)
{
    return pow(ldexp(1, k), q);
}

/*
 * Chooses centre[0] so that the steps give 1 for |d| = 1, where the powers of two are 1:
 * y centre[0] rounds to 1 for three of four y, so inverse[0] moves a little until it does.
 */
static void make_one_exact_f32(float *inverse, float *centre, int degree, const float *c)
{
    for (int tries = 0; tries < MOST_TRIES; tries++) {
        float f = inverse[0] - 1, y = c[degree];

        for (int k = degree - 1; k >= 0; k--)
            y = fmaf(y, f, c[k]);
        centre[0] = 1 / y;
        if (y * centre[0] == 1)
            return;
        inverse[0] += 0x1p-18f;
    }
}

static void make_one_exact_f64(double *inverse, double *centre, int degree, const double *c)
{
    for (int tries = 0; tries < MOST_TRIES; tries++) {
        double f = inverse[0] - 1, y = c[degree];

        for (int k = degree - 1; k >= 0; k--)
            y = fma(y, f, c[k]);
        centre[0] = 1 / y;
        if (y * centre[0] == 1)
            return;
        inverse[0] += 0x1p-18;
    }
}

/* The tables of the mantissa, with `entries` intervals, and the polynomial within each. */
static void prepare_mantissa_f32(double q, int entries, int degree, float *inverse, float *centre,
                                 float *c)
{
    double series[MOST + 1];

    binomial(q, degree, 1 / (2 * entries + 0.99), series);
    for (int i = 0; i < entries; i++) {
        inverse[i] = (float)(1 / (1 + (i + 0.5) / entries));
        centre[i] = (float)(pow((double)inverse[i], -q) * series[0]);
    }
    for (int k = 0; k <= degree; k++)
        c[k] = (float)(series[k] / series[0]);
    make_one_exact_f32(inverse, centre, degree, c);
}

static void prepare_f32(struct gram_power *w, double q)
{
    prepare_mantissa_f32(q, 16, 3, w->f32.inverse, w->f32.centre, w->f32.c);
    for (int i = 0; i < 16; i++)
        w->f32.high[i] = (float)power_of_two(q, 16 * (i < 8 ? i : i - 16));
    for (int i = 0; i < 32; i++)
        w->f32.low[i] = (float)power_of_two(q, i - 16);
    prepare_mantissa_f32(q, 8, 4, w->f32.eight.inverse, w->f32.eight.centre, w->f32.eight.c);
    for (int i = 0; i < 8; i++) {
        w->f32.eight.low[i] = (float)power_of_two(q, i - 7);
        w->f32.eight.middle[i] = (float)power_of_two(q, 4 * (i - 7));
        w->f32.eight.high[i] = (float)power_of_two(q, 32 * (i % 4 - 1));
    }
}

static void prepare_f64(struct gram_power *w, double q)
{
    double c[MOST + 1];

    binomial(q, MOST, 1 / 32.99, c);
    for (int i = 0; i < 16; i++) {
        w->f64.inverse[i] = 1 / (1 + (i + 0.5) / 16);
        w->f64.centre[i] = pow(w->f64.inverse[i], -q) * c[0];
        w->f64.low[i] = power_of_two(q, i - 8);
        w->f64.middle[i] = power_of_two(q, 16 * (i - 8));
        w->f64.high[i] = power_of_two(q, 128 * (i < 8 ? i : i - 16));
    }
    for (int k = 0; k <= MOST; k++)
        w->f64.c[k] = c[k] / c[0];
    make_one_exact_f64(w->f64.inverse, w->f64.centre, MOST, w->f64.c);
}

/* The answers of VFIXUPIMM, four bits a class of operands: quiet NaN first, then signalling NaN,
 * zero, one, -infinity, infinity, negative, positive. */
static int32_t special(double at_zero, double at_infinity)
{
    enum {
        RESULT = 0,
        NAN_OF_OPERAND = 2,
        PLUS_INFINITY = 5,
        PLUS_ZERO = 8,
        PLUS_ONE = 10,
    };
    int32_t zero = at_zero == 0 ? PLUS_ZERO : at_zero == 1 ? PLUS_ONE : PLUS_INFINITY;
    int32_t infinity = at_infinity == 0 ? PLUS_ZERO : at_infinity == 1 ? PLUS_ONE : PLUS_INFINITY;

    return NAN_OF_OPERAND | NAN_OF_OPERAND << 4 | zero << 8 | RESULT << 12 | infinity << 16 |
           infinity << 20;
}

void gram_power_prepare(struct gram_power *w, gram_dtype dtype, double q, double at_zero)
{
    double at_infinity = q > 0 ? (double)INFINITY : q == 0 ? 1 : 0;
    /* Above 2^70 even the neighbours of 1 over- and underflow. */
    double most = fmin(fmax(q, -0x1p70), 0x1p70);
    int exponent;

    memset(w, 0, sizeof *w);
    if (!gram_power_is_wide(q)) {
        if (dtype == GRAM_F64)
            prepare_f64(w, q);
        else
            prepare_f32(w, q);
    }
    w->f64.q = most;
    frexp(most, &exponent);
    w->f64.q_head = ldexp(trunc(ldexp(most, 42 - exponent)), exponent - 42);
    w->f64.q_tail = most - w->f64.q_head;
    w->f64.at_zero = at_zero;
    w->f64.at_infinity = at_infinity;
    w->f32.q = (float)most;
    w->f32.q_head = (float)ldexp(trunc(ldexp(most, 16 - exponent)), exponent - 16);
    w->f32.q_tail = (float)(most - (double)w->f32.q_head);
    w->f32.at_zero = (float)at_zero;
    w->f32.at_infinity = (float)at_infinity;
    w->special = special(at_zero, at_infinity);
}

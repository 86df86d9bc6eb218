/*
 * test_covariance.c - values, weights and bandwidth derivatives of every kernel function, against
 * their formulas in long double
 *
 * The bound is what gram.h promises of f: 8 eps of the result, and of its argument t, which is a
 * multiple of a power of the sum S.  Sums are of the usual size, of all sizes, and where e^-t is
 * about to underflow.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "cpu/cpu_kernels.h"
#include <float.h>
#include <math.h>

enum {
    COUNT = 601 /* sums: several passes and a rest, for every vector length */
};

static double eps_of(gram_dtype dtype)
{
    return dtype == GRAM_F32 ? (double)FLT_EPSILON : DBL_EPSILON;
}

/* f(s) as gram.h has it. */
static long double value(const struct gram_map *m, long double s)
{
    long double l = m->bandwidth, t;

    switch (m->function) {
    case GRAM_LAPLACE:
        return expl(-s / l);
    case GRAM_GAUSSIAN:
        return expl(-s / (2 * l * l));
    case GRAM_EXPONENTIAL_POWER:
        return expl(-powl(s, m->exponent) / powl(l, m->exponent));
    case GRAM_MATERN32:
        t = sqrtl(3) * s / l;
        return (1 + t) * expl(-t);
    case GRAM_MATERN52:
        t = sqrtl(5) * s / l;
        return (1 + t + t * t / 3) * expl(-t);
    case GRAM_RATIONAL_QUADRATIC:
        return expl(-m->alpha * log1pl(s / (2 * (long double)m->alpha * l * l)));
    case GRAM_POLYNOMIAL:
        return powl(m->gamma * s + m->coef0, m->degree);
    case GRAM_SIGMOID:
        return tanhl(m->gamma * s + m->coef0);
    default:
        return s;
    }
}

/* f'(s) */
static long double derivative(const struct gram_map *m, long double s)
{
    long double l = m->bandwidth, q = m->exponent, a = m->alpha, t;

    switch (m->function) {
    case GRAM_LAPLACE:
        return -value(m, s) / l;
    case GRAM_GAUSSIAN:
        return -value(m, s) / (2 * l * l);
    case GRAM_EXPONENTIAL_POWER:
        return -q * powl(s, q - 1) / powl(l, q) * value(m, s);
    case GRAM_MATERN32:
        t = sqrtl(3) * s / l;
        return -t * expl(-t) * sqrtl(3) / l;
    case GRAM_MATERN52:
        t = sqrtl(5) * s / l;
        return -t * (1 + t) / 3 * expl(-t) * sqrtl(5) / l;
    case GRAM_RATIONAL_QUADRATIC:
        return -expl((-a - 1) * log1pl(s / (2 * a * l * l))) / (2 * l * l);
    case GRAM_POLYNOMIAL:
        t = m->gamma * s + m->coef0;
        return m->degree == 0 ? 0 : m->degree * m->gamma * powl(t, m->degree - 1);
    case GRAM_SIGMOID:
        return m->gamma / powl(coshl(m->gamma * s + m->coef0), 2);
    default:
        return 1;
    }
}

/* df / dL: every function with a bandwidth is one of s / L or of s / L^2. */
static long double by_bandwidth(const struct gram_map *m, long double s)
{
    switch (m->function) {
    case GRAM_LAPLACE:
    case GRAM_EXPONENTIAL_POWER:
    case GRAM_MATERN32:
    case GRAM_MATERN52:
        return -derivative(m, s) * s / m->bandwidth;
    case GRAM_GAUSSIAN:
    case GRAM_RATIONAL_QUADRATIC:
        return -2 * derivative(m, s) * s / m->bandwidth;
    default:
        return 0;
    }
}

static long double expected(const struct gram_map *m, long double sum)
{
    long double s = m->outer == 1 ? sum : powl(sum, m->outer), slope = 1;

    if (m->output == GRAM_VALUE)
        return value(m, s);
    if (m->output == GRAM_BANDWIDTH_DERIVATIVE)
        return sum == 0 ? 0 : by_bandwidth(m, s);
    if (m->inner == GRAM_DIFFERENCE) {
        if (sum == 0)
            return 0;
        slope = m->outer * m->p * powl(sum, m->outer - 1);
    }
    return isinf(derivative(m, s)) ? 0 : derivative(m, s) * slope;
}

/* The power of S that t is. */
static double power_of_sum(const struct gram_map *m)
{
    return m->function == GRAM_EXPONENTIAL_POWER ? m->outer * m->exponent : m->outer;
}

static double sum_at(struct harness *h, const struct gram_map *m, gram_dtype dtype, int i)
{
    bool narrow = dtype == GRAM_F32, shifted = m->function >= GRAM_POLYNOMIAL;
    double e = test_uniform(h), sum;

    if (i < 3)
        return 0;
    if (i % 4 == 1 && !shifted) /* every exponent, t between 1e-30 and 1e30 or so */
        sum = exp2((narrow ? 200 : 1800) * (e - 0.5) / fmax(1, power_of_sum(m)));
    else if (i % 4 == 2 && !shifted) /* e^-t from 1 down to where nothing is left */
        sum = pow(m->bandwidth * e * (narrow ? 110 : 760), 1 / power_of_sum(m));
    else
        sum = exp2((shifted ? 46 : 60) * e - 40);
    if (m->inner == GRAM_DOT && i % 2)
        sum = -fmin(sum, 0x1p20);
    return narrow ? (double)(float)sum : sum;
}

static void run(struct harness *h, gram_dtype dtype, struct gram_map *map, int n, double *values)
{
    _Alignas(64) double buffer[COUNT + 1];
    float *floats = (float *)buffer;

    gram_map_prepare(map, dtype);
    for (int i = 0; i < n; i++)
        if (dtype == GRAM_F32)
            floats[i] = (float)values[i];
        else
            buffer[i] = values[i];
    if (dtype == GRAM_F32)
        floats[n] = 7;
    else
        buffer[n] = 7;
    gram_cpu_kernels_of(h->g)->map[dtype](n, buffer, map, NULL);
    for (int i = 0; i < n; i++)
        values[i] = dtype == GRAM_F32 ? (double)floats[i] : buffer[i];
    CHECK(h, (dtype == GRAM_F32 ? (double)floats[n] : buffer[n]) == 7, "wrote past the end");
}

/* Whether a factor of a weight or derivative is below the normal range, though their product with
 * a power of S may be above. */
static bool has_small_factor(const struct gram_map *m, long double sum, long double least)
{
    long double s = m->outer == 1 ? sum : powl(sum, m->outer), l = m->bandwidth;

    if (m->function == GRAM_RATIONAL_QUADRATIC)
        return expl((-m->alpha - 1) * log1pl(s / (2 * (long double)m->alpha * l * l))) < least;
    return fabsl(value(m, s)) < least || fabsl(derivative(m, s)) < least;
}

/* |t f'(t)|: what one relative change of t makes of the result; |gamma s| + |coef0| for |t|. */
static long double argument_change(const struct gram_map *m, long double sum, long double want)
{
    const long double step = 1e-7L, e = power_of_sum(m);

    if (m->function == GRAM_POLYNOMIAL || m->function == GRAM_SIGMOID) {
        struct gram_map up = *m, down = *m;
        long double s = m->outer == 1 ? sum : powl(sum, m->outer);
        long double size = fabsl(m->gamma * s) + fabsl(m->coef0);
        up.coef0 += (double)(step * size), down.coef0 -= (double)(step * size);
        if (up.coef0 == down.coef0)
            return 0;
        return fabsl(expected(&up, sum) - expected(&down, sum)) * size /
               ((long double)up.coef0 - down.coef0);
    }
    return fabsl(expected(m, sum * expl(step / e)) - want) / step;
}

/* The promise of gram.h. */
static long double allowed(const struct gram_map *m, gram_dtype dtype, long double sum,
                           long double want)
{
    long double eps = eps_of(dtype), least = dtype == GRAM_F32 ? FLT_MIN : DBL_MIN;
    long double size = fabsl(want) + argument_change(m, sum, want), bound = 8 * eps * size;

    if (sum != 0) /* exponents are rounded to f64 */
        bound += DBL_EPSILON * fmaxl(1, power_of_sum(m)) * fabsl(logl(fabsl(sum))) * size;
    if (m->output == GRAM_VALUE && m->inner == GRAM_DIFFERENCE && m->function >= GRAM_LAPLACE &&
        m->function <= GRAM_RATIONAL_QUADRATIC)
        bound = fminl(bound, 8 * eps); /* whose largest value is 1 */
    if (m->output != GRAM_VALUE && has_small_factor(m, sum, least))
        return 4 * (fabsl(want) + least) + bound; /* no more than its order of magnitude, or 0 */
    return bound + 4 * least;
}

static void check_map(struct harness *h, gram_dtype dtype, struct gram_map *map)
{
    double values[COUNT], sums[COUNT];

    for (int i = 0; i < COUNT; i++)
        sums[i] = values[i] = sum_at(h, map, dtype, i);
    run(h, dtype, map, COUNT, values);
    for (int i = 0; i < COUNT; i++) {
        long double want = expected(map, sums[i]), most = dtype == GRAM_F32 ? FLT_MAX : DBL_MAX;
        long double error = fabsl(values[i] - want), bound = allowed(map, dtype, sums[i], want);
        bool right = error <= bound || (isnan(want) && isnan(values[i])) ||
                     (fabsl(want) > most * 1e-5L && fabs(values[i]) > (double)most * 0.999);
        CHECK(h, right,
              "f%d function %d output %d inner %d outer %g p %g L %g q %g alpha %g gamma %g coef0 "
              "%g degree %g: S = %a gives %.17g, not %.17Lg: error %.2Lg of what is allowed",
              dtype == GRAM_F32 ? 32 : 64, map->function, map->output, map->inner, map->outer,
              map->p, map->bandwidth, map->exponent, map->alpha, map->gamma, map->coef0,
              map->degree, sums[i], values[i], want, error / bound);
    }
}

static const struct gram_map defaults = {.inner = GRAM_DIFFERENCE,
                                         .p = 2,
                                         .outer = 1,
                                         .bandwidth = 1,
                                         .exponent = 1,
                                         .alpha = 1,
                                         .gamma = 1,
                                         .degree = 3};

/* Both dtypes, all outputs, several powers p and outer powers, with what is set in given. */
static void check_all(struct harness *h, const struct gram_map *given)
{
    static const struct {
        double p, outer;
    } norms[] = {
        {  2,       1},
        {  1,       1},
        {  2,     0.5},
        {1.3, 1 / 1.3},
        {0.4,     2.5},
        {  3, 1.0 / 3},
        {  2,       2},
        {0.2,     5.1},
        {2.5,    0.71},
    };

    for (int i = 0; i < LENGTH(norms); i++)
        for (int output = GRAM_VALUE; output <= GRAM_BANDWIDTH_DERIVATIVE; output++)
            for (int dtype = GRAM_F32; dtype <= GRAM_F64; dtype++) {
                struct gram_map map = *given;
                map.p = norms[i].p, map.outer = norms[i].outer;
                map.output = (gram_kernel_output)output;
                check_map(h, (gram_dtype)dtype, &map);
            }
}

static void stationary_kernels(struct harness *h)
{
    static const double bandwidths[] = {1, 0.3, 17};
    static const gram_function functions[] = {
        GRAM_IDENTITY, GRAM_LAPLACE, GRAM_GAUSSIAN, GRAM_MATERN32, GRAM_MATERN52,
    };

    for (int f = 0; f < LENGTH(functions); f++)
        for (int b = 0; b < LENGTH(bandwidths); b++) {
            struct gram_map map = defaults;
            map.function = functions[f], map.bandwidth = bandwidths[b];
            check_all(h, &map);
        }
}

static void exponential_powers(struct harness *h)
{
    static const double exponents[] = {1, 2, 0.5, 0.7, 1.4, 1.3, 3.7, 6.2};

    for (int q = 0; q < LENGTH(exponents); q++) {
        struct gram_map map = defaults;
        map.function = GRAM_EXPONENTIAL_POWER, map.exponent = exponents[q], map.bandwidth = 2.5;
        check_all(h, &map);
    }
}

/* Integers, halves, small and large: a large alpha makes 1 + t lose what matters. */
static void rational_quadratics(struct harness *h)
{
    static const double alphas[] = {1, 0.5, 2, 1.5, 7, 0.37, 2.6, 5.3, 40.1, 1e3, 1e5 + 0.3};

    for (int a = 0; a < LENGTH(alphas); a++) {
        struct gram_map map = defaults;
        map.function = GRAM_RATIONAL_QUADRATIC, map.alpha = alphas[a], map.bandwidth = 1.7;
        check_all(h, &map);
    }
}

static void polynomials_and_sigmoids(struct harness *h)
{
    static const double degrees[] = {3, 0, 1, 2, 4, 7, 16, 23, 24, 0.5, 1.5, 2.3, -1, -2.5, 6.7};
    static const double shifts[] = {0, 1, -0.75};

    for (int c = 0; c < LENGTH(shifts); c++) {
        for (int d = 0; d < LENGTH(degrees); d++)
            for (int output = GRAM_VALUE; output <= GRAM_WEIGHT; output++)
                for (int dtype = GRAM_F32; dtype <= GRAM_F64; dtype++) {
                    struct gram_map map = defaults;
                    map.function = GRAM_POLYNOMIAL, map.inner = GRAM_DOT;
                    map.output = (gram_kernel_output)output;
                    map.degree = degrees[d], map.coef0 = shifts[c], map.gamma = 0.6;
                    check_map(h, (gram_dtype)dtype, &map);
                }
        for (int output = GRAM_VALUE; output <= GRAM_BANDWIDTH_DERIVATIVE; output++)
            for (int dtype = GRAM_F32; dtype <= GRAM_F64; dtype++) {
                struct gram_map map = defaults;
                map.function = GRAM_SIGMOID, map.inner = GRAM_DOT;
                map.output = (gram_kernel_output)output;
                map.coef0 = shifts[c], map.gamma = 0.6;
                check_map(h, (gram_dtype)dtype, &map);
                map.inner = GRAM_DIFFERENCE, map.outer = 0.5;
                check_map(h, (gram_dtype)dtype, &map);
            }
    }
}

/* Kernels of the dot product take negative arguments. */
static void kernels_of_products(struct harness *h)
{
    static const gram_function functions[] = {GRAM_IDENTITY, GRAM_LAPLACE, GRAM_GAUSSIAN,
                                              GRAM_EXPONENTIAL_POWER};

    for (int f = 0; f < LENGTH(functions); f++)
        for (int q = 1; q <= 4; q++)
            for (int output = GRAM_VALUE; output <= GRAM_BANDWIDTH_DERIVATIVE; output++)
                for (int dtype = GRAM_F32; dtype <= GRAM_F64; dtype++) {
                    struct gram_map map = defaults;
                    map.function = functions[f], map.inner = GRAM_DOT, map.exponent = q / 2.0;
                    map.output = (gram_kernel_output)output, map.bandwidth = 300;
                    check_map(h, (gram_dtype)dtype, &map);
                }
}

/* An infinite sum is far away; NaN stays; the weight of a point at no distance is 0. */
static void limits(struct harness *h)
{
    for (int f = GRAM_IDENTITY; f <= GRAM_SIGMOID; f++)
        for (int output = GRAM_VALUE; output <= GRAM_BANDWIDTH_DERIVATIVE; output++)
            for (int dtype = GRAM_F32; dtype <= GRAM_F64; dtype++)
                for (int q = 1; q <= 3; q++) {
                    double s[3] = {0, (double)INFINITY, (double)NAN};
                    struct gram_map map = defaults;
                    map.function = (gram_function)f, map.output = (gram_kernel_output)output;
                    map.outer = q / 2.0, map.alpha = 0.8 * q, map.exponent = 0.7 * q;
                    run(h, (gram_dtype)dtype, &map, 3, s);
                    CHECK(h, s[0] == (output == GRAM_VALUE ? (double)value(&map, 0) : 0),
                          "function %d, output %d: %g at 0", f, output, s[0]);
                    CHECK(h, !isnan(s[1]) || f == GRAM_POLYNOMIAL,
                          "function %d, output %d: NaN at infinity", f, output);
                    if (f >= GRAM_LAPLACE && f <= GRAM_RATIONAL_QUADRATIC)
                        CHECK(h, fabs(s[1]) < 1e-20, "function %d, output %d: %g at infinity", f,
                              output, s[1]);
                    CHECK(h, isnan(s[2]), "function %d, output %d: %g for NaN", f, output, s[2]);
                }
}

static const struct test_function tests[] = {
    {      "stationary_kernels",       stationary_kernels},
    {      "exponential_powers",       exponential_powers},
    {     "rational_quadratics",      rational_quadratics},
    {"polynomials_and_sigmoids", polynomials_and_sigmoids},
    {     "kernels_of_products",      kernels_of_products},
    {                  "limits",                   limits},
};

int main(void)
{
    return harness_run_tests_each_isa(tests, LENGTH(tests));
}

/*
 * test_expression.c - expressions of gram_kernel against the same formulas in C
 *
 * s is the product of a number with 1, so it is known exactly.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
    COUNT = 700 /* values of s: several passes and a rest, for every vector length */
};

typedef long double formula(long double s);

/* The expression at values of s (f32 if they are, else f64), in place. */
static gram_status evaluate(struct harness *h, const gram_kernel_options *options, gram_dtype dtype,
                            int n, double *values)
{
    double x[COUNT], out[COUNT], one = 1;
    float x_f32[COUNT], out_f32[COUNT], one_f32 = 1;
    bool single = dtype == GRAM_F32;
    gram_tensor tx = gram_matrix(single ? (void *)x_f32 : x, n, 1, dtype),
                ty = gram_matrix(single ? (void *)&one_f32 : &one, 1, 1, dtype),
                to = gram_matrix(single ? (void *)out_f32 : out, n, 1, dtype);
    gram_status status;

    for (int i = 0; i < n; i++)
        x[i] = values[i], x_f32[i] = (float)values[i];
    status = gram_kernel(h->g, &tx, &ty, options, &to);
    for (int i = 0; i < n && status == GRAM_OK; i++)
        values[i] = single ? (double)out_f32[i] : out[i];
    return status;
}

static gram_kernel_options expression_of(const char *text)
{
    gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;

    o.inner = GRAM_DOT;
    o.function = GRAM_EXPRESSION;
    o.expression = text;
    return o;
}

/* ---- Values and derivatives ---------------------------------------------------------------- */

/* clang-format off */
static long double wendland(long double s) { return s < 1 ? powl(1 - s, 4) * (4 * s + 1) : 0; }
static long double wendland_slope(long double s) { return s < 1 ? -20 * s * powl(1 - s, 3) : 0; }
static long double step(long double s) { return (s > 1 && s <= 2) || !(s >= -1); }
static long double zero(long double s) { return 0 * s; }
static long double one(long double s) { return 1 + 0 * s; }
static long double clipped(long double s) { return fminl(fmaxl(s, -1), 2); }
static long double clipped_slope(long double s) { return s > -1 && s < 2; }
static long double folded(long double s) { return fabsl(s - 0.5L); }
static long double folded_slope(long double s) { return s > 0.5L ? 1 : s < 0.5L ? -1 : 0; }
static long double own_power(long double s) { return powl(s, s); }
static long double own_power_slope(long double s) { return powl(s, s) * (logl(s) + 1); }
static long double base_two(long double s) { return powl(2, s); }
static long double base_two_slope(long double s) { return powl(2, s) * logl(2); }
static long double cube(long double s) { return s * s * s; }
static long double cube_slope(long double s) { return 3 * s * s; }
static long double root_of(long double s) { return powl(s, -0.3L); }
static long double root_slope(long double s) { return -0.3L * powl(s, -1.3L); }
static long double precedence(long double s) { return 1 - s - 2 * s / 4 + -s * 3; }
static long double precedence_slope(long double s) { return -4.5L + 0 * s; }
static long double reciprocal(long double s) { return 1 / s; }
static long double reciprocal_slope(long double s) { return -1 / (s * s); }
static long double half_root(long double s) { return 0.5L / sqrtl(s); }
static long double minus_sin(long double s) { return -sinl(s); }
static long double sech2(long double s) { return 1 / (coshl(s) * coshl(s)); }
static long double exp2_slope(long double s) { return exp2l(s) * logl(2); }
static long double log2_slope(long double s) { return 1 / (s * logl(2)); }
static long double log1p_slope(long double s) { return 1 / (1 + s); }
static long double asin_slope(long double s) { return 1 / sqrtl((1 - s) * (1 + s)); }
static long double acos_slope(long double s) { return -asin_slope(s); }
static long double atan_slope(long double s) { return 1 / (1 + s * s); }
static long double erf_slope(long double s) { return expl(-s * s) / sqrtl(atanl(1)); }
static long double itself(long double s) { return s; }
/* clang-format on */

/* least < most: s between them, even; least > 0: in even steps of its logarithm. */
static const struct {
    const char *text;
    formula *value, *slope;
    double least, most;
    /* Relative errors that are allowed of value and slope, in eps; the size of terms that cancel in
     * the slope. */
    double eps[3];
} rows[] = {
    {                                 "exp(s)",       expl,             expl,  -110,   95,      {4, 4}},
    {                                 "exp(s)",       expl,             expl, -1e-3, 1e-3,      {4, 4}},
    {                                "exp2(s)",      exp2l,       exp2_slope,  -130,  120,      {4, 5}},
    {                               "expm1(s)",     expm1l,             expl,   -60,   88,      {4, 4}},
    {                               "expm1(s)",     expm1l,             expl, 1e-30,    1,      {4, 4}},
    {                                 "log(s)",       logl,       reciprocal, 1e-37, 1e37,      {4, 4}},
    {                                 "log(s)",       logl,       reciprocal,   0.9,  1.1,      {4, 4}},
    {                                "log2(s)",      log2l,       log2_slope, 1e-37, 1e37,      {4, 5}},
    {                               "log1p(s)",     log1pl,      log1p_slope,  -0.9,    3,      {4, 5}},
    {                               "log1p(s)",     log1pl,      log1p_slope, 1e-30, 1e30,      {4, 5}},
    {                                "sqrt(s)",      sqrtl,        half_root, 1e-37, 1e37,      {1, 3}},
    {                                 "sin(s)",       sinl,             cosl, -1000, 1000,      {4, 4}},
    {                                 "sin(s)",       sinl,             cosl, 1e-30, 1e30,      {4, 4}},
    {                                 "cos(s)",       cosl,        minus_sin, -1000, 1000,      {4, 4}},
    {                                 "cos(s)",       cosl,        minus_sin, 1e-30, 1e30,      {4, 4}},
    {                                "sinh(s)",      sinhl,            coshl,   -85,   85,      {4, 4}},
    {                                "sinh(s)",      sinhl,            coshl, 1e-30,    1,      {4, 4}},
    {                                "cosh(s)",      coshl,            sinhl,   -85,   85,      {4, 4}},
    {                                "tanh(s)",      tanhl,            sech2,   -30,   30,     {4, 12}},
    {                                "tanh(s)",      tanhl,            sech2, 1e-30,    1,     {4, 12}},
    {                                "asin(s)",      asinl,       asin_slope,    -1,    1,      {4, 6}},
    {                                "asin(s)",      asinl,       asin_slope, 1e-30,    1,      {4, 6}},
    {                                "acos(s)",      acosl,       acos_slope,    -1,    1,      {4, 6}},
    {                                "acos(s)",      acosl,       acos_slope,  0.99,    1,      {4, 6}},
    {                                "atan(s)",      atanl,       atan_slope,    -9,    9,      {4, 6}},
    {                                "atan(s)",      atanl,       atan_slope, 1e-30, 1e18,      {4, 6}},
    {                                 "erf(s)",       erfl,        erf_slope,    -3,    3,     {4, 14}},
    {                                 "erf(s)",       erfl,        erf_slope, 1e-30,    2,     {4, 14}},
    {                          "fabs(s - 0.5)",     folded,     folded_slope,    -4,    4,      {1, 0}},
    {                   "fmin(fmax(s, -1), 2)",    clipped,    clipped_slope,    -4,    4,      {0, 0}},
    {"s < 1 ? pow(1 - s, 4) * (4 * s + 1) : 0",   wendland,   wendland_slope,     0,    2, {12, 12, 4}},
    {        "(s > 1 && s <= 2) || !(s >= -1)",       step,             zero,    -3,    3,      {0, 0}},
    {                                 "1 == 1",        one,             zero,    -3,    3,      {0, 0}},
    {                                 "s != s",       zero,             zero,    -3,    3,      {0, 0}},
    {                              "s * s * s",       cube,       cube_slope,    -9,    9,      {2, 3}},
    {   " t = s * s ; cubed= t*s;\n cubed + 0",       cube,       cube_slope,    -9,    9,      {2, 3}},
    {                              "pow(s, 3)",       cube,       cube_slope,    -9,    9,      {4, 5}},
    {                          "pow(s, -.3e0)",    root_of,       root_slope, 1e-20, 1e20,     {8, 10}},
    {                              "pow(s, s)",  own_power,  own_power_slope,  0.01,   20,  {8, 16, 1}},
    {                              "pow(2, s)",   base_two,   base_two_slope,  -100,  100,     {8, 10}},
    {              "1 - s - 2 * s / 4 + - s*3", precedence, precedence_slope,     1,  100,      {6, 2}},
    {                                   "1/ s", reciprocal, reciprocal_slope, 1e-15, 1e15,      {1, 2}},
    {                                " (\ts) ",     itself,              one,    -3,    3,      {0, 0}},
};

static double s_at(int row, gram_dtype dtype, int i)
{
    double least = rows[row].least, most = rows[row].most, part = (double)i / (COUNT - 1);
    double s = least > 0 ? least * pow(most / least, part) : least + (most - least) * part;

    return dtype == GRAM_F32 ? (double)(float)s : s;
}

/* Numbers such as -.3e0 are rounded to the dtype: what that changes is allowed. */
static void check_row(struct harness *h, int row, gram_dtype dtype, bool slope)
{
    gram_kernel_options o = expression_of(rows[row].text);
    double values[COUNT], eps = dtype == GRAM_F32 ? (double)FLT_EPSILON : DBL_EPSILON;
    double least = dtype == GRAM_F32 ? (double)FLT_MIN : DBL_MIN;
    formula *f = slope ? rows[row].slope : rows[row].value;

    o.output = slope ? GRAM_WEIGHT : GRAM_VALUE;
    for (int i = 0; i < COUNT; i++)
        values[i] = s_at(row, dtype, i);
    CHECK(h, evaluate(h, &o, dtype, COUNT, values) == GRAM_OK, "%s", gram_message(h->g));
    for (int i = 0; i < COUNT; i++) {
        double s = s_at(row, dtype, i), want = (double)f(s), got = values[i];
        double error = fabs(got - want), bound = least;
        bound += rows[row].eps[slope] * eps * (fabs(want) + (slope ? rows[row].eps[2] : 0));
        bool overflow = dtype == GRAM_F32 && fabs(want) > (double)FLT_MAX && isinf(got);

        overflow |= isinf(want) && got == want;
        CHECK(h, error <= bound || overflow, "%s%s, f%d, s = %.17g: %.17g, not %.17g: %.2g eps",
              slope ? "derivative of " : "", rows[row].text, dtype == GRAM_F32 ? 32 : 64, s, got,
              want, error / fabs(want) / eps);
    }
}

static void formulas(struct harness *h)
{
    for (int row = 0; row < LENGTH(rows); row++)
        for (int slope = 0; slope < 2; slope++) {
            check_row(h, row, GRAM_F32, slope);
            check_row(h, row, GRAM_F64, slope);
        }
}

static bool alike(double a, double b)
{
    return isnan(a) ? isnan(b) : fabs(a - b) <= 1e-6 * fabs(b) || a == b;
}

/* Zeros, infinities and what lies outside of a domain, as C has it; NaN is NaN everywhere. */
static void special_values(struct harness *h)
{
    static const double s[] = {0, -0.0, INFINITY, -INFINITY, -1, -2.5, -8, 1e30, -1e30, NAN};
    static const struct {
        const char *text;
        formula *f;
    } functions[] = {
        {      "exp(s)",      expl},
        {     "exp2(s)",     exp2l},
        {    "expm1(s)",    expm1l},
        {      "log(s)",      logl},
        {     "log2(s)",     log2l},
        {    "log1p(s)",    log1pl},
        {     "sqrt(s)",     sqrtl},
        {      "sin(s)",      sinl},
        {      "cos(s)",      cosl},
        {     "sinh(s)",     sinhl},
        {     "cosh(s)",     coshl},
        {     "tanh(s)",     tanhl},
        {     "asin(s)",     asinl},
        {     "acos(s)",     acosl},
        {     "atan(s)",     atanl},
        {      "erf(s)",      erfl},
        {   "pow(s, s)", own_power},
        {   "pow(s, 3)",      cube},
        {"pow(s, -0.3)",   root_of},
    };
    const char *const nan_too[] = {"1", "s < 1", "fmin(s, 1)", "pow(s, 0)", "s == s ? 2 : 3"};

    for (int dtype = GRAM_F32; dtype <= GRAM_F64; dtype++) {
        for (int f = 0; f < LENGTH(functions); f++) {
            gram_kernel_options o = expression_of(functions[f].text);
            double values[LENGTH(s)];
            memcpy(values, s, sizeof s);
            CHECK(h, evaluate(h, &o, (gram_dtype)dtype, LENGTH(s), values) == GRAM_OK, "%s",
                  gram_message(h->g));
            for (int i = 0; i < LENGTH(s); i++) {
                double in = dtype == GRAM_F32 ? (double)(float)s[i] : s[i];
                double want = (double)functions[f].f(in);
                want = dtype == GRAM_F32 ? (double)(float)want : want;
                CHECK(h, alike(values[i], want), "%s, s = %g: %g, not %g", functions[f].text, s[i],
                      values[i], want);
            }
        }
        for (int i = 0; i < LENGTH(nan_too); i++) {
            gram_kernel_options o = expression_of(nan_too[i]);
            double value = NAN;
            CHECK(h, evaluate(h, &o, (gram_dtype)dtype, 1, &value) == GRAM_OK && isnan(value),
                  "%s: %g for NaN", nan_too[i], value);
        }
    }
}

/* pow with an exponent in every lane: all signs of both, whole and not. */
static void powers(struct harness *h)
{
    static const double bases[] = {0, 0.3, 1, 2, 7.5, 1e30, INFINITY, -0.3, -1, -2, -1e30};
    static const double exponents[] = {0,   1,    2,   3,   -1,   -2,       -3,
                                       0.5, -0.5, 2.5, 1e6, 1e30, INFINITY, -INFINITY};

    for (int dtype = GRAM_F32; dtype <= GRAM_F64; dtype++)
        for (int b = 0; b < LENGTH(bases); b++) {
            gram_kernel_options o = expression_of("pow(x, s)");
            gram_parameter x = {"x", gram_number(isinf(bases[b]) ? 1e308 : bases[b])};
            double values[LENGTH(exponents)];
            o.parameters = &x, o.parameter_count = 1;
            if (isinf(bases[b]))
                o.expression = "pow(x * 10, s)";
            memcpy(values, exponents, sizeof values);
            CHECK(h, evaluate(h, &o, (gram_dtype)dtype, LENGTH(exponents), values) == GRAM_OK, "%s",
                  gram_message(h->g));
            for (int i = 0; i < LENGTH(exponents); i++) {
                bool single = dtype == GRAM_F32;
                double base = single ? (double)(float)bases[b] : bases[b];
                double want = pow(base, single ? (double)(float)exponents[i] : exponents[i]);
                want = single ? (double)(float)want : want;
                CHECK(h, alike(values[i], want), "pow(%g, %g) is %g, not %g", bases[b],
                      exponents[i], values[i], want);
            }
        }
}

/* ---- Parameters ---------------------------------------------------------------------------- */

/* Numbers and tensors, names and p0 to p7, in an expression that is not symmetric in them. */
static void parameters(struct harness *h)
{
    gram_kernel_options o = expression_of("p0 + 2 * _b2 + 3 * p2 + s * p7 - exp(p3)");
    gram_parameter p[8] = {
        {    NULL,   gram_number(1)},
        {   "_b2",  gram_number(10)},
        {    NULL, gram_number(100)},
        {    NULL,   gram_number(0)},
        {"unused",   gram_number(5)}
    };
    double weight[2] = {1000, -1000}, x[2] = {4, 4}, y[2] = {1, 1}, out[2];
    gram_tensor tensor = gram_vector(weight, 2, GRAM_F64);
    gram_tensor tx = gram_matrices(x, 2, 1, 1, GRAM_F64), ty = gram_matrices(y, 2, 1, 1, GRAM_F64);
    gram_tensor to = gram_matrices(out, 2, 1, 1, GRAM_F64);

    p[7].value = gram_values(&tensor);
    o.parameters = p, o.parameter_count = 8;
    CHECK(h, gram_kernel(h->g, &tx, &ty, &o, &to) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, out[0] == 4320 && out[1] == -3680, "%g and %g", out[0], out[1]);
}

/* ---- Gradients ----------------------------------------------------------------------------- */

/* The vector-Jacobian product of a Gaussian that is written out is that of the Gaussian. */
static void gradients(struct harness *h)
{
    enum {
        M = 9,
        N = 7,
        K = 3
    };
    gram_kernel_options built_in = gram_gaussian(1.4), written = GRAM_KERNEL_OPTIONS_INIT;
    const gram_parameter l = {"L", gram_number(1.4)};
    double x[M * K], y[N * K], grad[M * N], to_x[2][M * K], to_y[2][N * K], bandwidth;
    gram_tensor tx = gram_matrix(x, M, K, GRAM_F64), ty = gram_matrix(y, N, K, GRAM_F64),
                tg = gram_matrix(grad, M, N, GRAM_F64),
                tl = {&bandwidth, GRAM_F64, {0}, 0, {0}, {0}};
    gram_kernel_grads grads = {.x = NULL};

    written.function = GRAM_EXPRESSION;
    written.expression = "exp(-s / (2 * L * L))";
    written.parameters = &l, written.parameter_count = 1;
    for (int i = 0; i < M * K; i++)
        x[i] = test_uniform(h);
    for (int i = 0; i < N * K; i++)
        y[i] = test_uniform(h);
    for (int i = 0; i < M * N; i++)
        grad[i] = test_uniform(h) - 0.5;
    for (int i = 0; i < 2; i++) {
        gram_tensor gx = gram_matrix(to_x[i], M, K, GRAM_F64),
                    gy = gram_matrix(to_y[i], N, K, GRAM_F64);
        grads.x = &gx, grads.y = &gy;
        CHECK(h, gram_kernel_vjp(h->g, &tx, &ty, i ? &written : &built_in, &tg, &grads) == GRAM_OK,
              "%s", gram_message(h->g));
    }
    for (int i = 0; i < M * K; i++)
        CHECK(h, fabs(to_x[0][i] - to_x[1][i]) < 1e-14, "%g, not %g", to_x[1][i], to_x[0][i]);
    for (int i = 0; i < N * K; i++)
        CHECK(h, fabs(to_y[0][i] - to_y[1][i]) < 1e-14, "%g, not %g", to_y[1][i], to_y[0][i]);
    grads = (gram_kernel_grads){.bandwidth = &tl};
    CHECK(h,
          gram_kernel_vjp(h->g, &tx, &ty, &written, &tg, &grads) == GRAM_INVALID_ARGUMENT &&
              strstr(gram_message(h->g), "GRAM_EXPRESSION has no bandwidth"),
          "%s", gram_message(h->g));
}

/* By a: pow(0, a) has 0, a number without a has 0, and a choice takes the branch that it takes. */
static void parameter_derivatives(struct harness *h)
{
    static const struct {
        const char *text;
        double s, want;
    } by_a[] = {
        {          "exp(-a * s)",    2,                       -2 * 0x1.78b56362cef38p-2},
        {            "pow(s, a)",    0,                                               0},
        {            "pow(s, a)", -0.0,                                               0},
        {        "pow(2, a) * b",    1, 3 * 0x1.62e42fefa39efp-1 * 0x1.6a09e667f3bcdp+0},
        {            "s * s + b",    3,                                               0},
        {"a < s ? a * a : 7 * a",    1,                                               1},
        {           "fmin(a, s)", 0.25,                                               0},
        {       "fmax(a, s) / a",    4,                                             -16},
        {                    "b",    1,                                               0},
        { "fmax(a, sqrt(1 - s))",    4,                                               1},
        { "fmin(sqrt(1 - s), a)",    4,                                               1},
        { "fmin(a, sqrt(1 - s))",    4,                                               1},
    };
    const gram_parameter parameters[] = {
        {"b",   gram_number(3)},
        {"a", gram_number(0.5)}
    };

    for (int i = 0; i < LENGTH(by_a); i++)
        for (int dtype = GRAM_F32; dtype <= GRAM_F64; dtype++) {
            gram_kernel_options o = expression_of(by_a[i].text);
            double got = by_a[i].s;

            o.parameters = parameters, o.parameter_count = 2;
            o.output = GRAM_PARAMETER_DERIVATIVE, o.derivative = 1;
            o.regularization = gram_number(100);
            CHECK(h, evaluate(h, &o, (gram_dtype)dtype, 1, &got) == GRAM_OK, "%s",
                  gram_message(h->g));
            CHECK(h, alike(got, by_a[i].want), "%s by a at %g: %.17g, not %.17g", by_a[i].text,
                  by_a[i].s, got, by_a[i].want);
        }
}

/* By the product s: 0 times the infinite derivative of a base or of a logarithm would be NaN. */
static void derivatives_of_powers_at_0_are_numbers(struct harness *h)
{
    static const struct {
        const char *text;
        double a, want;
    } by_s[] = {
        {            "pow(s, 0)", 0, 0},
        {            "pow(s, 1)", 0, 1},
        {            "pow(s, 2)", 0, 0},
        {            "pow(s, a)", 0, 0},
        {            "pow(s, a)", 1, 1},
        {            "pow(s, a)", 2, 0},
        {    "pow(s, 0) + 3 * s", 0, 3},
        {        "pow(s, s + 1)", 0, 1},
        {        "pow(s, s + 2)", 0, 0},
        {        "pow(a, 0) * s", 0, 1},
        {"pow(s, a < 1 ? 0 : 2)", 0, 0},
    };

    for (int i = 0; i < LENGTH(by_s); i++)
        for (int dtype = GRAM_F32; dtype <= GRAM_F64; dtype++) {
            const gram_parameter a = {"a", gram_number(by_s[i].a)};
            gram_kernel_options o = expression_of(by_s[i].text);
            double got = 0;
            o.parameters = &a, o.parameter_count = 1;
            o.output = GRAM_WEIGHT;
            CHECK(h, evaluate(h, &o, (gram_dtype)dtype, 1, &got) == GRAM_OK, "%s",
                  gram_message(h->g));
            CHECK(h, got == by_s[i].want, "%s with a = %g: %.17g, not %.17g", by_s[i].text,
                  by_s[i].a, got, by_s[i].want);
        }
}

static const struct test_function tests[] = {
    {                              "formulas",                               formulas},
    {                        "special_values",                         special_values},
    {                                "powers",                                 powers},
    {                            "parameters",                             parameters},
    {                             "gradients",                              gradients},
    {                 "parameter_derivatives",                  parameter_derivatives},
    {"derivatives_of_powers_at_0_are_numbers", derivatives_of_powers_at_0_are_numbers},
};

int main(void)
{
    return harness_run_tests_each_isa(tests, LENGTH(tests));
}

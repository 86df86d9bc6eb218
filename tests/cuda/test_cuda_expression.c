/*
 * test_cuda_expression.c - expressions become device code that compiles, without a device
 *
 * What the code computes is compared by case_expression_cuda and case_expression_emulated.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "pairwise/cuda_cdist.h"
#include <stdlib.h>
#include <string.h>

static const char *const expressions[] = {
    "s",
    "2",
    "a",
    "exp(-s / a) * (1 + b * s)",
    "s < b ? pow(1 - s / b, 4) * (4 * s / b + 1) : 0",
    "pow(s, a) + pow(a, s) + pow(s, s) + pow(s, -2.5) + pow(s, 0.5) + pow(s, 15)",
    "exp2(s) + expm1(s) + log(s) + log2(s) + log1p(s) + sqrt(s)",
    "asin(s) + acos(s) + atan(s) + erf(s / a)",
    "sin(s) + cos(s) + sinh(s) + cosh(s) + tanh(s) + fabs(s) + fmin(s, a) + fmax(a, s)",
    "s <= a && s >= b || !(s == a) && s != b || s > 1",
    "exp(-d1 / a) * exp(-d2 * d2 / b) + norm_x * norm_y",
    "pow(a, b) * exp(sin(a)) - fmin(a, b) / log(-2 - 3) + s * (a < b ? a : -b)",
};

static bool compile_expression(struct harness *h, const char *text, bool derivative,
                               struct gram_expression **e)
{
    const gram_parameter parameters[] = {
        {"a", gram_number(1)},
        {"b", gram_number(2)}
    };
    gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;

    o.expression = text;
    o.parameters = parameters, o.parameter_count = 2;
    h->g->call = "expression";
    return CHECK(h,
                 gram_expression_compile(h->g, &o,
                                         derivative ? GRAM_EXPRESSION_BY_S : GRAM_EXPRESSION_ITSELF,
                                         e) == GRAM_OK,
                 "%s", gram_message(h->g));
}

/* A Gaussian's problem with another function. */
static struct gram_cdist_op problem(const struct gram_expression *e, gram_dtype dtype,
                                    gram_kernel_output output, bool tensor)
{
    static _Alignas(16) char memory[16]; /* never read: only its address counts */
    const struct gram_view rows = {.data = memory,
                                   .dtype = dtype,
                                   .planes = 1,
                                   .rows = 9999,
                                   .cols = 64,
                                   .row_stride = 64,
                                   .col_stride = 1};
    struct gram_cdist_op op = {.batch.count = 1,
                               .x = rows,
                               .y = rows,
                               .out = rows,
                               .inner = GRAM_DIFFERENCE,
                               .function = GRAM_EXPRESSION,
                               .output = output,
                               .p.value = 2,
                               .outer_power.value = 0.5,
                               .bandwidth.value = 1,
                               .exponent.value = 1,
                               .alpha.value = 1,
                               .expression = e,
                               .parameters = 2};

    op.out.cols = op.out.row_stride = 9999;
    if (tensor)
        op.parameter[0].tensor = (struct gram_view){.data = memory, .dtype = GRAM_F32};
    return op;
}

static void compile(struct harness *h, const struct cuda_compiler *compiler, const char *text,
                    int which)
{
    const char *const chip = which & 8 ? "sm_80" : "sm_90";
    struct gram_expression *e;
    struct gram_cdist_op op;
    struct cuda_cdist_plan plan = {0};
    char defines[CUDA_TEXT_BYTES], *code_text;
    struct jit_request request;
    struct cuda_variant v;
    struct jit_code code;

    if (!compile_expression(h, text, which & 1, &e))
        return;
    op = problem(e, which & 2 ? GRAM_F64 : GRAM_F32, which & 1 ? GRAM_WEIGHT : GRAM_VALUE,
                 which & 4);
    cuda_cdist_plan(&op, 132, &plan);
    cuda_cdist_variant(&plan, &v);
    request = cuda_variant_request(&v, defines);
    code_text = gram_cuda_expression_text(e);
    if (!CHECK(h, code_text != NULL, "no memory"))
        return;
    request.own = (struct cuda_source){.name = "pair_expression.cuh", .text = code_text};
    CHECK(h, gram_jit_compile(h->g, compiler, &request, chip, &code) == GRAM_OK, "%s, %s:\n%s\n%s",
          text, chip, code_text, gram_message(h->g));
    free(code.bytes);
    free(code_text);
}

static void every_expression_compiles(struct harness *h)
{
    static const int whiches[] = {0, 3, 4, 7, 9, 10}; /* derivative, f64, tensor, chip */
    const char *why;
    const struct cuda_compiler *compiler = gram_cuda_compiler(h->g, &why);

    if (!compiler) {
        printf("skipped: %s\n", why);
        exit(77);
    }
    for (int i = 0; i < LENGTH(expressions); i++)
        compile(h, compiler, expressions[i], whiches[i % LENGTH(whiches)]);
}

/* The code is written anew: no name of the caller's is in it. */
static void text_is_written_anew(struct harness *h)
{
    const char *const want =
        "static __device__ void expression_constants(const double *p, double "
        "*c)\n{\n"
        "const double u2 = p[0];\n"
        "c[0] = u2;\n"
        "const double u6 = p[1];\n"
        "c[1] = u6;\n"
        "}\n"
        "static __device__ REAL expression_of(const double *c, REAL s)\n{\n"
        "const REAL v1 = -s;\n"
        "const REAL v3 = v1 / (REAL)c[0];\n"
        "const REAL v4 = exp(v3);\n"
        "const REAL v7 = (REAL)c[1] * s;\n"
        "const REAL v8 = (REAL)0x10000000000000p-52 + v7;\n"
        "const REAL v9 = v4 * v8;\n"
        "return s != s ? s : v9;\n}\n";
    struct gram_expression *e;
    char *text;

    if (!compile_expression(h, "exp(-s / a) * (1 + b * s)", false, &e))
        return;
    text = gram_cuda_expression_text(e);
    CHECK(h, text && strcmp(text, want) == 0, "%s", text);
    free(text);
}

static void numbers_differ(struct harness *h)
{
    static const char *const alike[] = {"s",      "2",       "3",     "a",     "b",
                                        "s * a",  "s * b",   "s + a", "s - a", "a - s",
                                        "exp(s)", "exp2(s)", "s * 2", "s * 3"};
    uint64_t number[LENGTH(alike)];

    for (int i = 0; i < LENGTH(alike); i++) {
        struct gram_expression *e;
        if (!compile_expression(h, alike[i], false, &e))
            return;
        number[i] = gram_cuda_expression_number(e);
        for (int j = 0; j < i; j++)
            CHECK(h, number[i] != number[j], "%s and %s", alike[i], alike[j]);
    }
}

/* Up to the limit of what parameters alone decide, and one beyond. */
static void constants(struct harness *h)
{
    const double parameters[] = {3, 4};
    char text[400] = "s";
    double value[PAIR_CONSTANTS + 1];
    struct gram_expression *e;
    size_t used = 1;

    for (int i = 1; i <= PAIR_CONSTANTS + 1; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "+s*(a+%d)", i);
        value[PAIR_CONSTANTS] = 7;
        if (!compile_expression(h, text, false, &e))
            return;
        CHECK(h, gram_cuda_expression_constants(e, parameters, value) == i, "%d", i);
        CHECK(h, value[PAIR_CONSTANTS] == 7, "wrote past the end");
        for (int k = 0; k < i && i <= PAIR_CONSTANTS; k++)
            CHECK(h, value[k] == 4 + k, "constant %d is %g", k, value[k]);
    }
}

static const struct test_function tests[] = {
    {     "text_is_written_anew",      text_is_written_anew},
    {           "numbers_differ",            numbers_differ},
    {                "constants",                 constants},
    {"every_expression_compiles", every_expression_compiles},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}

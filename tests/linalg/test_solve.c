/*
 * test_solve.c - what gram_solve_cholesky and gram_solve_lu refuse, and what they say
 *
 * Every refusal must name the argument and leave x as it was.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/core/refusal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A 3 by 3 system and everything that a row of the table may spoil. */
struct call {
    double matrix[9], right[6], solution[6], kept[9];
    int32_t exchanges[3], outcome[2];
    gram_tensor a, b, x, factor, pivots, info;
    gram_tensor *with_info;
    gram_solve_options options;
    bool lu;
};

#include "tests/core/refusal_spoil.h"

static void open_call(struct call *c)
{
    static const double matrix[9] = {4, 1, 0, 1, 3, 1, 0, 1, 2}, right[6] = {1, 2, 3, 4, 5, 6};

    *c = (struct call){.options = GRAM_SOLVE_OPTIONS_INIT};
    memcpy(c->matrix, matrix, sizeof matrix);
    memcpy(c->right, right, sizeof right);
    c->a = gram_matrix(c->matrix, 3, 3, GRAM_F64);
    c->b = gram_matrix(c->right, 3, 2, GRAM_F64);
    c->x = gram_matrix(c->solution, 3, 2, GRAM_F64);
    c->factor = gram_matrix(c->kept, 3, 3, GRAM_F64);
    c->pivots = gram_vector(c->exchanges, 3, GRAM_I32);
    c->info = gram_vector(c->outcome, 1, GRAM_I32);
    c->info.ndim = 0;
}

static gram_status run(struct harness *h, struct call *c)
{
    return c->lu ? gram_solve_lu(h->g, &c->a, &c->b, &c->options, &c->x, c->with_info)
                 : gram_solve_cholesky(h->g, &c->a, &c->b, &c->options, &c->x, c->with_info);
}

static void mixed_dtypes(struct call *c)
{
    c->b.dtype = GRAM_F32;
}

static void short_b(struct call *c)
{
    c->b.shape[0] = 2;
}

static void narrow_x(struct call *c)
{
    c->x.shape[1] = 1;
}

static void x_in_a(struct call *c)
{
    c->x.data = c->matrix;
}

static void x_across_b(struct call *c)
{
    c->x.data = c->right + 1;
}

static void x_in_one_place(struct call *c)
{
    c->x.stride[0] = 0;
}

static void factor_without_unit_stride(struct call *c)
{
    c->factor.stride[0] = c->factor.stride[1] = 2;
    c->factor.stride[1] = 7;
    c->options.factor = &c->factor;
}

static void factor_across_a(struct call *c)
{
    c->factor.data = c->matrix + 1;
    c->options.factor = &c->factor;
}

static void factored_and_factor(struct call *c)
{
    c->options.factor = &c->factor;
    c->options.factored = 1;
}

static void pivots_for_cholesky(struct call *c)
{
    c->options.pivots = &c->pivots;
}

static void factor_without_pivots(struct call *c)
{
    c->lu = true;
    c->options.factor = &c->factor;
}

static void factored_without_pivots(struct call *c)
{
    c->lu = true;
    c->options.factored = 1;
}

static void pivots_of_floats(struct call *c)
{
    c->lu = true;
    c->pivots.dtype = GRAM_F32;
    c->options.pivots = &c->pivots;
}

static void few_pivots(struct call *c)
{
    c->lu = true;
    c->pivots.shape[0] = 2;
    c->options.pivots = &c->pivots;
}

static void wild_pivots(struct call *c)
{
    c->lu = true;
    c->exchanges[0] = 1, c->exchanges[1] = 4, c->exchanges[2] = 3;
    c->options.factored = 1;
    c->options.pivots = &c->pivots;
}

/* A batch of pivots for one matrix, which a solve with a factor only reads. */
static void many_pivots(struct call *c)
{
    c->lu = true;
    c->pivots.ndim = 2;
    c->pivots.shape[0] = 2, c->pivots.stride[0] = 0;
    c->pivots.shape[1] = 3, c->pivots.stride[1] = 1;
    c->options.factored = 1;
    c->options.pivots = &c->pivots;
}

static void batches_that_differ(struct call *c)
{
    c->a.ndim = 3, c->a.shape[2] = 3, c->a.stride[2] = 1;
    c->a.shape[0] = 2, c->a.stride[0] = 0;
    c->a.shape[1] = 3, c->a.stride[1] = 3;
}

static void too_large_for_blas(struct call *c)
{
    c->a = gram_matrix(c->matrix, (int64_t)1 << 31, (int64_t)1 << 31, GRAM_F64);
    c->a.stride[0] = c->a.stride[1] = 0;
    c->b = c->x = gram_matrix(NULL, (int64_t)1 << 31, 0, GRAM_F64);
}

static void not_definite(struct call *c)
{
    c->matrix[4] = -3;
}

static void singular(struct call *c)
{
    c->lu = true;
    memset(c->matrix + 3, 0, 3 * sizeof *c->matrix);
    c->matrix[1] = c->matrix[7] = 0;
}

static const struct refusal refusals[] = {
    {                not_square, GRAM_INVALID_ARGUMENT,                        "a is 2 by 3"},
    {               wrong_dtype, GRAM_INVALID_ARGUMENT,                    "a has dtype f16"},
    {              mixed_dtypes, GRAM_INVALID_ARGUMENT,      "b has dtype f32, expected f64"},
    {                   short_b, GRAM_INVALID_ARGUMENT,                       "b has 2 rows"},
    {                  narrow_x, GRAM_INVALID_ARGUMENT,       "x is 3 by 1, expected 3 by 2"},
    {                    x_in_a, GRAM_INVALID_ARGUMENT,                       "x overlaps a"},
    {                x_across_b, GRAM_INVALID_ARGUMENT,                       "x overlaps b"},
    {            x_in_one_place, GRAM_INVALID_ARGUMENT,                      "x has strides"},
    {                  bad_uplo, GRAM_INVALID_ARGUMENT,                  "options.uplo is 7"},
    {                  bad_size, GRAM_INVALID_ARGUMENT,                  "options.size is 4"},
    {factor_without_unit_stride, GRAM_INVALID_ARGUMENT, "options.factor has strides 2 and 7"},
    {           factor_across_a, GRAM_INVALID_ARGUMENT,          "options.factor overlaps a"},
    {       factored_and_factor, GRAM_INVALID_ARGUMENT,   "options.factor is another tensor"},
    {       pivots_for_cholesky, GRAM_INVALID_ARGUMENT,            "options.pivots is given"},
    {     factor_without_pivots, GRAM_INVALID_ARGUMENT,             "options.pivots is NULL"},
    {   factored_without_pivots, GRAM_INVALID_ARGUMENT,             "options.pivots is NULL"},
    {          pivots_of_floats, GRAM_INVALID_ARGUMENT,       "options.pivots has dtype f32"},
    {                few_pivots, GRAM_INVALID_ARGUMENT,      "options.pivots has 2 elements"},
    {               many_pivots, GRAM_INVALID_ARGUMENT, "options.pivots has batch shape (2)"},
    {               wild_pivots, GRAM_INVALID_ARGUMENT,  "options.pivots holds 4 at index 1"},
    {               info_of_two, GRAM_INVALID_ARGUMENT,           "info has batch shape (2)"},
    {            info_of_floats, GRAM_INVALID_ARGUMENT,                 "info has dtype f32"},
    {       batches_that_differ, GRAM_INVALID_ARGUMENT, "x has batch shape (), expected (2)"},
    {        too_large_for_blas,      GRAM_UNSUPPORTED,              "a has 2147483648 rows"},
};

static void check_refusals(struct harness *h)
{
    struct call c;

    for (int i = 0; i < LENGTH(refusals); i++) {
        open_call(&c);
        refusals[i].spoil(&c);
        refusal_check(h, &refusals[i], run(h, &c));
        for (int k = 0; k < 6; k++)
            CHECK(h, c.solution[k] == 0, "x[%d] was set to %g", k, c.solution[k]);
    }
}

/* Without an info tensor a breakdown is a status; x is NaN all the same. */
static void check_breakdowns(struct harness *h)
{
    static const struct refusal breakdowns[] = {
        {not_definite, GRAM_NUMERICAL, "leading minor of order 2 of item 0"},
        {    singular, GRAM_NUMERICAL,   "U[2, 2] of item 0 is zero or NaN"},
    };
    struct call c;

    for (int i = 0; i < LENGTH(breakdowns); i++) {
        open_call(&c);
        breakdowns[i].spoil(&c);
        refusal_check(h, &breakdowns[i], run(h, &c));
        for (int k = 0; k < 6; k++)
            CHECK(h, isnan(c.solution[k]), "x[%d] is %g", k, c.solution[k]);
    }
}

/* A factor that broke down is told again when it is used. */
static void check_broken_factor(struct harness *h)
{
    struct call c;

    for (int lu = 0; lu < 2; lu++) {
        open_call(&c);
        (lu ? singular : not_definite)(&c);
        c.options.factor = &c.a;
        c.options.pivots = lu ? &c.pivots : NULL;
        c.with_info = &c.info;
        CHECK(h, run(h, &c) == GRAM_OK && c.outcome[0] == 2, "info %d", (int)c.outcome[0]);
        c.options.factor = NULL;
        c.options.factored = 1;
        c.outcome[0] = 0;
        CHECK(h, run(h, &c) == GRAM_OK && c.outcome[0] == 2, "info %d", (int)c.outcome[0]);
        CHECK(h, isnan(c.solution[0]), "x is %g", c.solution[0]);
    }
}

int main(void)
{
    struct harness_options options = {.threads = 2};
    struct harness h;

    if (!harness_open(&h, &options, NULL))
        return EXIT_FAILURE;
    check_refusals(&h);
    check_breakdowns(&h);
    check_broken_factor(&h);
    printf("solve: %d checks, %d failed\n", h.checks, h.failures);
    harness_close(&h);
    return h.failures || !h.checks ? EXIT_FAILURE : EXIT_SUCCESS;
}

/*
 * test_eigh.c - what gram_eigh refuses and says, and that results do not depend on the company
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/eigh_zoo.h"
#include "tests/core/refusal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A 3 by 3 matrix and everything that a row of the table may spoil. */
struct call {
    double matrix[9], w[3], v[9];
    int64_t counts[2];
    int32_t outcome[2];
    gram_tensor a, values, vectors, info, found;
    gram_tensor *with_info;
    gram_eigh_options options;
};

#include "tests/core/refusal_spoil.h"

static void open_call(struct call *c)
{
    static const double matrix[9] = {4, 1, 0, 1, 3, 1, 0, 1, 2};

    *c = (struct call){.options = GRAM_EIGH_OPTIONS_INIT};
    memcpy(c->matrix, matrix, sizeof matrix);
    c->a = gram_matrix(c->matrix, 3, 3, GRAM_F64);
    c->values = gram_vector(c->w, 3, GRAM_F64);
    c->vectors = gram_matrix(c->v, 3, 3, GRAM_F64);
    c->info = gram_vector(c->outcome, 1, GRAM_I32);
    c->found = gram_vector(c->counts, 1, GRAM_I64);
    c->info.ndim = c->found.ndim = 0;
}

static gram_status run(struct harness *h, struct call *c)
{
    return gram_eigh(h->g, &c->a, &c->options, &c->values, &c->vectors, c->with_info);
}

static void mixed_dtypes(struct call *c)
{
    c->values.dtype = GRAM_F32;
}

static void vectors_of_floats(struct call *c)
{
    c->vectors.dtype = GRAM_F32;
}

static void few_values(struct call *c)
{
    c->values.shape[0] = 2;
}

static void few_vectors(struct call *c)
{
    c->vectors.shape[1] = 2;
}

static void vectors_across_a(struct call *c)
{
    c->vectors.data = c->matrix + 1;
}

static void values_in_a(struct call *c)
{
    c->values.data = c->matrix;
}

static void values_in_vectors(struct call *c)
{
    c->values.data = c->v + 6;
}

static void vectors_in_one_place(struct call *c)
{
    c->vectors.stride[0] = 0;
}

static void bad_select(struct call *c)
{
    c->options.select = (gram_eigh_select)9;
}

static void bad_driver(struct call *c)
{
    c->options.driver = (gram_eigh_driver)99;
}

static void count_beyond_n(struct call *c)
{
    c->options.select = GRAM_EIGH_LARGEST;
    c->options.count = 4;
}

static void negative_first(struct call *c)
{
    c->options.select = GRAM_EIGH_INDEX;
    c->options.first = -1, c->options.count = 3;
}

static void range_beyond_n(struct call *c)
{
    c->options.select = GRAM_EIGH_INDEX;
    c->options.first = INT64_MAX, c->options.count = 3;
}

static void found_missing(struct call *c)
{
    c->options.select = GRAM_EIGH_VALUE;
    c->options.upper = 1;
}

static void found_unasked(struct call *c)
{
    c->options.found = &c->found;
}

static void found_of_ints(struct call *c)
{
    c->options.select = GRAM_EIGH_VALUE;
    c->options.upper = 1;
    c->found.dtype = GRAM_I32;
    c->options.found = &c->found;
}

static void empty_range(struct call *c)
{
    c->options.select = GRAM_EIGH_VALUE;
    c->options.lower = 1, c->options.upper = 1;
    c->options.found = &c->found;
}

static void limit_is_nan(struct call *c)
{
    empty_range(c);
    c->options.upper = NAN;
}

static void info_in_values(struct call *c)
{
    c->info.data = c->w;
    c->with_info = &c->info;
}

static const struct refusal refusals[] = {
    {          not_square, GRAM_INVALID_ARGUMENT,                                "a is 2 by 3"},
    {         wrong_dtype, GRAM_INVALID_ARGUMENT,                            "a has dtype f16"},
    {        mixed_dtypes, GRAM_INVALID_ARGUMENT,         "values has dtype f32, expected f64"},
    {   vectors_of_floats, GRAM_INVALID_ARGUMENT,        "vectors has dtype f32, expected f64"},
    {          few_values, GRAM_INVALID_ARGUMENT, "values has 2 elements per item, expected 3"},
    {         few_vectors, GRAM_INVALID_ARGUMENT,         "vectors is 3 by 2, expected 3 by 3"},
    {    vectors_across_a, GRAM_INVALID_ARGUMENT,                         "vectors overlaps a"},
    {         values_in_a, GRAM_INVALID_ARGUMENT,                          "values overlaps a"},
    {   values_in_vectors, GRAM_INVALID_ARGUMENT,                    "vectors overlaps values"},
    {vectors_in_one_place, GRAM_INVALID_ARGUMENT,                        "vectors has strides"},
    {            bad_uplo, GRAM_INVALID_ARGUMENT,                          "options.uplo is 7"},
    {          bad_select, GRAM_INVALID_ARGUMENT,                        "options.select is 9"},
    {          bad_driver, GRAM_INVALID_ARGUMENT,                       "options.driver is 99"},
    {            bad_size, GRAM_INVALID_ARGUMENT,                          "options.size is 4"},
    {      count_beyond_n, GRAM_INVALID_ARGUMENT,        "options.count is 4, expected 0 to 3"},
    {      negative_first, GRAM_INVALID_ARGUMENT,                        "options.first is -1"},
    {      range_beyond_n, GRAM_INVALID_ARGUMENT,       "options.first is 9223372036854775807"},
    {       found_missing, GRAM_INVALID_ARGUMENT,                      "options.found is NULL"},
    {       found_unasked, GRAM_INVALID_ARGUMENT,                     "options.found is given"},
    {       found_of_ints, GRAM_INVALID_ARGUMENT,                "options.found has dtype i32"},
    {         empty_range, GRAM_INVALID_ARGUMENT,  "options.lower is 1 and options.upper is 1"},
    {        limit_is_nan, GRAM_INVALID_ARGUMENT,                     "expected lower < upper"},
    {         info_of_two, GRAM_INVALID_ARGUMENT,                   "info has batch shape (2)"},
    {      info_of_floats, GRAM_INVALID_ARGUMENT,                         "info has dtype f32"},
    {      info_in_values, GRAM_INVALID_ARGUMENT,                       "info overlaps values"},
};

static void refuses_and_says_why(struct harness *h)
{
    struct call c;

    for (int i = 0; i < LENGTH(refusals); i++) {
        open_call(&c);
        refusals[i].spoil(&c);
        refusal_check(h, &refusals[i], run(h, &c));
        for (int k = 0; k < 9; k++)
            CHECK(h, c.w[k % 3] == 0 && c.v[k] == 0, "something was written");
    }
}

/* A driver that cannot do it says so, in the query too. */
static void a_driver_that_cannot(struct harness *h)
{
    gram_eigh_options options = GRAM_EIGH_OPTIONS_INIT;
    gram_workspace need = {0};
    double matrix[16] = {0}, w[4] = {0};
    gram_tensor a = gram_matrix(matrix, 4, 4, GRAM_F64), values = gram_vector(w, 4, GRAM_F64);
    gram_status status;

    options.driver = GRAM_EIGH_DRIVER_CLOSED_FORM;
    status = gram_eigh(h->g, &a, &options, &values, NULL, NULL);
    CHECK(h, status == GRAM_UNSUPPORTED, "status %s", gram_status_name(status));
    CHECK(h, strstr(gram_message(h->g), "cannot be used for a matrix of order 4") != NULL,
          "it says \"%s\"", gram_message(h->g));
    status = gram_eigh_workspace(h->g, &a, &options, &values, NULL, &need);
    CHECK(h, status == GRAM_UNSUPPORTED, "status %s", gram_status_name(status));
}

/* Without an info tensor a failure is a status. */
static void failure_without_info(struct harness *h)
{
    struct call c;
    gram_status status;

    open_call(&c);
    c.matrix[3] = NAN;
    status = run(h, &c);
    CHECK(h, status == GRAM_NUMERICAL, "status %s", gram_status_name(status));
    CHECK(h, strstr(gram_message(h->g), "item 0 of a holds NaN") != NULL, "it says \"%s\"",
          gram_message(h->g));
    for (int k = 0; k < 9; k++)
        CHECK(h, isnan(c.w[k % 3]) && isnan(c.v[k]), "value %g, vector %g", c.w[k % 3], c.v[k]);
}

static void more_memory_than_there_is(struct harness *h)
{
    int64_t n = 2000000000;
    double number = 0;
    gram_tensor a = gram_matrix(&number, n, n, GRAM_F64),
                values = gram_vector(&number, 0, GRAM_F64);
    gram_eigh_options options = GRAM_EIGH_OPTIONS_INIT;
    gram_status status;

    a.stride[0] = a.stride[1] = 0;
    options.select = GRAM_EIGH_LARGEST;
    status = gram_eigh(h->g, &a, &options, &values, NULL, NULL);
    CHECK(h, status == GRAM_OUT_OF_MEMORY, "status %s", gram_status_name(status));
}

enum {
    ORDER = 9,
    ITEMS = 21,
};

/* Each item alone gives the bits that it gives among others, with any number of threads. */
static void same_bits_in_any_company(struct harness *h)
{
    double a[ITEMS * ORDER * ORDER], w[ITEMS * ORDER], v[ITEMS * ORDER * ORDER];
    double w1[ORDER], v1[ORDER * ORDER];
    gram_tensor many = gram_matrix(a, ITEMS, ORDER * ORDER, GRAM_F64), values, vectors;
    gram_tensor one_w = gram_vector(w1, ORDER, GRAM_F64);
    gram_tensor one_v = gram_matrix(v1, ORDER, ORDER, GRAM_F64);

    for (int i = 0; i < ITEMS; i++)
        zoo_fill(h, i % 2 ? ZOO_RANDOM : ZOO_GRAM, ORDER, test_eps(GRAM_F64),
                 a + i * ORDER * ORDER);
    many.ndim = 3;
    many.shape[1] = many.shape[2] = many.stride[1] = ORDER;
    many.stride[2] = 1;
    values = gram_matrix(w, ITEMS, ORDER, GRAM_F64);
    vectors = many;
    vectors.data = v;
    CHECK(h, gram_eigh(h->g, &many, NULL, &values, &vectors, NULL) == GRAM_OK, "%s",
          gram_message(h->g));
    for (int i = 0; i < ITEMS; i++) {
        gram_tensor one = gram_matrix(a + i * ORDER * ORDER, ORDER, ORDER, GRAM_F64);
        CHECK(h, gram_eigh(h->g, &one, NULL, &one_w, &one_v, NULL) == GRAM_OK, "%s",
              gram_message(h->g));
        CHECK(h, memcmp(w1, w + i * ORDER, sizeof w1) == 0, "values of item %d", i);
        CHECK(h, memcmp(v1, v + i * ORDER * ORDER, sizeof v1) == 0, "vectors of item %d", i);
    }
}

static const struct test_function tests[] = {
    {     "refuses_and_says_why",      refuses_and_says_why},
    {     "a_driver_that_cannot",      a_driver_that_cannot},
    {     "failure_without_info",      failure_without_info},
    {"more_memory_than_there_is", more_memory_than_there_is},
    { "same_bits_in_any_company",  same_bits_in_any_company},
};

int main(void)
{
    return harness_run_tests_each_isa(tests, LENGTH(tests));
}

/*
 * test_scalars.c - a hyperparameter as a tensor: each item gets its own value
 *
 * A batched call must give, bit for bit, what a call of each item alone with a number gives.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include <string.h>

enum {
    B = 3, /* items */
    M = 21,
    N = 18,
    K = 11,
    O = 2
};

static double powers[B] = {1, 1.3, 2};
static float values[B] = {0.7f, 1, 2.5f};

static gram_tensor of_powers(void)
{
    return gram_vector(powers, B, GRAM_F64);
}

static gram_tensor of_values(void)
{
    return gram_vector(values, B, GRAM_F32);
}

/* Item i of a tensor whose first dimension is the batch. */
static gram_tensor item(const gram_tensor *t, int64_t i)
{
    gram_tensor one = *t;

    one.data = (char *)t->data + i * t->stride[0] * (int64_t)gram_dtype_size(t->dtype);
    one.ndim--;
    memmove(one.shape, t->shape + 1, sizeof *one.shape * (GRAM_MAX_DIMS - 1));
    memmove(one.stride, t->stride + 1, sizeof *one.stride * (GRAM_MAX_DIMS - 1));
    return one;
}

static void make(struct harness *h, struct test_tensor *t, int ndim, const int64_t *shape)
{
    test_tensor_create(h, t, GRAM_F32, ROW_MAJOR, ndim, shape);
    test_fill_uniform(h, t, 0, 1);
}

static void check_same(struct harness *h, const gram_tensor *got, const gram_tensor *want,
                       const char *what)
{
    for (int64_t e = 0; e < test_count(want); e++)
        CHECK(h, test_at(got, e) == test_at(want, e), "%s: element %d is %.9g, alone %.9g", what,
              (int)e, test_at(got, e), test_at(want, e));
}

static void powers_of_distances(struct harness *h)
{
    gram_tensor p = of_powers();
    struct test_tensor x, y, out, alone;

    make(h, &x, 3, (int64_t[]){B, M, K});
    make(h, &y, 2, (int64_t[]){N, K}); /* broadcast */
    make(h, &out, 3, (int64_t[]){B, M, N});
    make(h, &alone, 2, (int64_t[]){M, N});
    CHECK(h, gram_cdist(h->g, &x.t, &y.t, gram_values(&p), NULL, &out.t) == GRAM_OK, "%s",
          gram_message(h->g));
    for (int64_t i = 0; i < B; i++) {
        gram_tensor xi = item(&x.t, i), oi = item(&out.t, i);
        CHECK(h, gram_cdist(h->g, &xi, &y.t, gram_number(powers[i]), NULL, &alone.t) == GRAM_OK,
              "%s", gram_message(h->g));
        check_same(h, &oi, &alone.t, "cdist");
    }
    test_tensor_destroy(h, &x, "x"), test_tensor_destroy(h, &y, "y");
    test_tensor_destroy(h, &out, "out"), test_tensor_destroy(h, &alone, "alone");
}

/* The tensor alone makes the batch: one x and y, three powers. */
static void a_batch_of_hyperparameters_alone(struct harness *h)
{
    gram_tensor p = of_powers(), same = of_powers();
    struct test_tensor x, y, out;

    make(h, &x, 2, (int64_t[]){M, K});
    make(h, &y, 2, (int64_t[]){N, K});
    make(h, &out, 3, (int64_t[]){B, M, N});
    CHECK(h, gram_cdist(h->g, &x.t, &y.t, gram_values(&p), NULL, &out.t) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h, test_at(&out.t, 0) > test_at(&out.t, M * N), "p = 1 and 1.3 give the same");
    same.stride[0] = 0; /* one value, three times */
    CHECK(h, gram_cdist(h->g, &x.t, &y.t, gram_values(&same), NULL, &out.t) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h, test_at(&out.t, 0) == test_at(&out.t, 2 * M * N), "stride 0 gives other values");
    p.shape[0] = 2;
    CHECK(h, gram_cdist(h->g, &x.t, &y.t, gram_values(&p), NULL, &out.t) == GRAM_INVALID_ARGUMENT,
          "two powers for three items");
    test_tensor_destroy(h, &x, "x"), test_tensor_destroy(h, &y, "y");
    test_tensor_destroy(h, &out, "out");
}

static void parameters_of_kernels(struct harness *h)
{
    static const struct {
        const char *name;
        size_t offset;
        gram_function function;
        gram_inner inner;
    } rows[] = {
        {             "p", offsetof(gram_kernel_options,              p),            GRAM_LAPLACE,GRAM_DIFFERENCE                                                                                                  },
        {   "outer_power", offsetof(gram_kernel_options,    outer_power),            GRAM_LAPLACE, GRAM_DIFFERENCE},
        {     "bandwidth", offsetof(gram_kernel_options,      bandwidth),           GRAM_MATERN52, GRAM_DIFFERENCE},
        {      "exponent", offsetof(gram_kernel_options,       exponent),  GRAM_EXPONENTIAL_POWER,
         GRAM_DIFFERENCE                                                                                          },
        {         "alpha", offsetof(gram_kernel_options,          alpha), GRAM_RATIONAL_QUADRATIC, GRAM_DIFFERENCE},
        {         "gamma", offsetof(gram_kernel_options,          gamma),            GRAM_SIGMOID,        GRAM_DOT},
        {         "coef0", offsetof(gram_kernel_options,          coef0),         GRAM_POLYNOMIAL,        GRAM_DOT},
        {        "degree", offsetof(gram_kernel_options,         degree),         GRAM_POLYNOMIAL,        GRAM_DOT},
        {"regularization", offsetof(gram_kernel_options, regularization),           GRAM_GAUSSIAN,
         GRAM_DIFFERENCE                                                                                          },
    };
    gram_tensor t = of_values();
    struct test_tensor x, out, alone;

    make(h, &x, 3, (int64_t[]){B, M, K});
    make(h, &out, 3, (int64_t[]){B, M, M});
    make(h, &alone, 2, (int64_t[]){M, M});
    for (int r = 0; r < LENGTH(rows); r++) {
        gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;
        gram_scalar *s = (gram_scalar *)((char *)&o + rows[r].offset);
        o.function = rows[r].function, o.inner = rows[r].inner;
        *s = gram_values(&t);
        CHECK(h, gram_kernel(h->g, &x.t, NULL, &o, &out.t) == GRAM_OK, "%s: %s", rows[r].name,
              gram_message(h->g));
        for (int64_t i = 0; i < B; i++) {
            gram_tensor xi = item(&x.t, i), oi = item(&out.t, i);
            *s = gram_number((double)values[i]);
            CHECK(h, gram_kernel(h->g, &xi, NULL, &o, &alone.t) == GRAM_OK, "%s: %s", rows[r].name,
                  gram_message(h->g));
            check_same(h, &oi, &alone.t, rows[r].name);
        }
    }
    test_tensor_destroy(h, &x, "x"), test_tensor_destroy(h, &out, "out");
    test_tensor_destroy(h, &alone, "alone");
}

static void powers_of_medians(struct harness *h)
{
    gram_tensor p = of_powers();
    struct test_tensor x, out, alone;

    make(h, &x, 3, (int64_t[]){B, M, K});
    make(h, &out, 1, (int64_t[]){B});
    make(h, &alone, 0, NULL);
    CHECK(h, gram_median_distance(h->g, &x.t, gram_values(&p), NULL, &out.t) == GRAM_OK, "%s",
          gram_message(h->g));
    for (int64_t i = 0; i < B; i++) {
        gram_tensor xi = item(&x.t, i), oi = item(&out.t, i);
        CHECK(h, gram_median_distance(h->g, &xi, gram_number(powers[i]), NULL, &alone.t) == GRAM_OK,
              "%s", gram_message(h->g));
        check_same(h, &oi, &alone.t, "median");
    }
    test_tensor_destroy(h, &x, "x"), test_tensor_destroy(h, &out, "out");
    test_tensor_destroy(h, &alone, "alone");
}

static void powers_of_gradients(struct harness *h)
{
    gram_tensor p = of_powers();
    struct test_tensor a, b, c, d, out, agop, alone, alone_agop;

    make(h, &a, 3, (int64_t[]){B, K, M}), make(h, &b, 2, (int64_t[]){N, K});
    make(h, &c, 2, (int64_t[]){O, K}), make(h, &d, 3, (int64_t[]){B, N, M});
    make(h, &out, 4, (int64_t[]){B, O, N, M}), make(h, &alone, 3, (int64_t[]){O, N, M});
    make(h, &agop, 3, (int64_t[]){B, N, N}), make(h, &alone_agop, 2, (int64_t[]){N, N});
    CHECK(h, gram_cdist_grad(h->g, &a.t, &b.t, &c.t, &d.t, gram_values(&p), &out.t) == GRAM_OK,
          "%s", gram_message(h->g));
    CHECK(h, gram_agop(h->g, &a.t, &b.t, &c.t, &d.t, gram_values(&p), NULL, &agop.t) == GRAM_OK,
          "%s", gram_message(h->g));
    for (int64_t i = 0; i < B; i++) {
        gram_tensor ai = item(&a.t, i), di = item(&d.t, i), oi = item(&out.t, i),
                    gi = item(&agop.t, i);
        gram_scalar pi = gram_number(powers[i]);
        CHECK(h, gram_cdist_grad(h->g, &ai, &b.t, &c.t, &di, pi, &alone.t) == GRAM_OK, "%s",
              gram_message(h->g));
        check_same(h, &oi, &alone.t, "cdist_grad");
        CHECK(h, gram_agop(h->g, &ai, &b.t, &c.t, &di, pi, NULL, &alone_agop.t) == GRAM_OK, "%s",
              gram_message(h->g));
        check_same(h, &gi, &alone_agop.t, "agop");
    }
    test_tensor_destroy(h, &a, "a"), test_tensor_destroy(h, &b, "b");
    test_tensor_destroy(h, &c, "c"), test_tensor_destroy(h, &d, "d");
    test_tensor_destroy(h, &out, "out"), test_tensor_destroy(h, &alone, "alone");
    test_tensor_destroy(h, &agop, "agop"), test_tensor_destroy(h, &alone_agop, "alone_agop");
}

/* A value that is out of range in a tensor is refused like a number, and found in any item. */
static void values_out_of_range(struct harness *h)
{
    double wrong[B] = {1, 2, -1};
    gram_tensor t = gram_vector(wrong, B, GRAM_F64);
    gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;
    struct test_tensor x, out;

    make(h, &x, 3, (int64_t[]){B, M, K});
    make(h, &out, 3, (int64_t[]){B, M, M});
    test_tensor_freeze(&out);
    CHECK(h, gram_cdist(h->g, &x.t, NULL, gram_values(&t), NULL, &out.t) == GRAM_INVALID_ARGUMENT,
          "p = -1");
    CHECK(h, strstr(gram_message(h->g), "p is -1"), "%s", gram_message(h->g));
    o.function = GRAM_LAPLACE;
    o.bandwidth = gram_values(&t);
    CHECK(h, gram_kernel(h->g, &x.t, NULL, &o, &out.t) == GRAM_INVALID_ARGUMENT, "L = -1");
    CHECK(h, strstr(gram_message(h->g), "bandwidth is -1"), "%s", gram_message(h->g));
    test_tensor_destroy(h, &x, "x"), test_tensor_destroy(h, &out, "out");
}

static const struct test_function tests[] = {
    {             "powers_of_distances",              powers_of_distances},
    {"a_batch_of_hyperparameters_alone", a_batch_of_hyperparameters_alone},
    {           "parameters_of_kernels",            parameters_of_kernels},
    {               "powers_of_medians",                powers_of_medians},
    {             "powers_of_gradients",              powers_of_gradients},
    {             "values_out_of_range",              values_out_of_range},
};

int main(void)
{
    return harness_run_tests_each_isa(tests, LENGTH(tests));
}

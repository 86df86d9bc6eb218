/*
 * test_kron_matmul.c - products with Kronecker factors: the same bits however they are asked for,
 * and what is refused
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include <math.h>
#include <string.h>

enum {
    M = 41, /* more than a vector of lanes, and ragged */
    FACTORS = 4,
};

static const int64_t in[FACTORS] = {9, 16, 7, 12}, out[FACTORS] = {9, 11, 20, 12};

struct product {
    struct test_tensor x, factor[FACTORS], whole; /* y, all of it */
    const gram_tensor *factors[FACTORS];
    int64_t rows, cols; /* products of in and of out */
};

static void setup(struct harness *h, struct product *p, gram_dtype dtype)
{
    p->rows = p->cols = 1;
    for (int f = 0; f < FACTORS; f++) {
        test_tensor_create(h, &p->factor[f], dtype, ROW_MAJOR, 2, (int64_t[]){in[f], out[f]});
        test_fill_uniform(h, &p->factor[f], -1, 1);
        p->factors[f] = &p->factor[f].t;
        p->rows *= in[f], p->cols *= out[f];
    }
    test_tensor_create(h, &p->x, dtype, ROW_MAJOR, 2, (int64_t[]){M, p->rows});
    test_fill_uniform(h, &p->x, -1, 1);
}

static void drop(struct harness *h, struct product *p)
{
    for (int f = 0; f < FACTORS; f++)
        test_tensor_destroy(h, &p->factor[f], "a factor");
    test_tensor_destroy(h, &p->x, "x");
}

static gram_tensor transposed(const gram_tensor *t)
{
    gram_tensor r = *t;

    for (int i = 0; i < 2; i++)
        r.shape[i] = t->shape[1 - i], r.stride[i] = t->stride[1 - i];
    return r;
}

/* y of rows [first, first + count) in a layout, compared bit by bit with p's. */
static void compare(struct harness *h, gram_context *g, const struct product *p,
                    const int64_t first_count[2], enum layout layout, bool left)
{
    int64_t first = first_count[0], count = first_count[1];
    gram_kron_options o = GRAM_KRON_OPTIONS_INIT;
    struct test_tensor y;
    gram_tensor x = p->x.t, x_turned, y_turned;
    size_t size = gram_dtype_size(x.dtype);
    int64_t different = 0;

    x.data = test_address(&p->x.t, first * p->rows);
    x.shape[0] = count;
    test_tensor_create(h, &y, x.dtype, layout, 2, (int64_t[]){count, p->cols});
    x_turned = transposed(&x), y_turned = transposed(&y.t);
    if (left)
        o.side = GRAM_LEFT, o.transpose_factors = UINT32_MAX;
    CHECK(h,
          gram_kron_matmul(g, left ? &x_turned : &x, p->factors, FACTORS, &o,
                           left ? &y_turned : &y.t) == GRAM_OK,
          "%s", gram_message(g));
    for (int64_t i = 0; i < count * p->cols; i++)
        different += memcmp(test_address(&y.t, i), test_address(&p->whole.t, first * p->cols + i),
                            size) != 0;
    CHECK(h, different == 0, "rows %lld to %lld, layout %d, left %d: other bits", (long long)first,
          (long long)(first + count), (int)layout, left);
    test_tensor_destroy(h, &y, "y");
}

/* Rows alone, in parts, in other layouts, from the left and on other numbers of threads. */
static void results_are_the_same_bits(struct harness *h)
{
    static const gram_dtype dtypes[] = {GRAM_F32, GRAM_F64};

    for (int d = 0; d < LENGTH(dtypes); d++) {
        struct product p;
        setup(h, &p, dtypes[d]);
        test_tensor_create(h, &p.whole, dtypes[d], ROW_MAJOR, 2, (int64_t[]){M, p.cols});
        CHECK(h, gram_kron_matmul(h->g, &p.x.t, p.factors, FACTORS, NULL, &p.whole.t) == GRAM_OK,
              "%s", gram_message(h->g));
        for (int threads = 1; threads <= 3; threads++) {
            struct harness_options options = {.threads = threads};
            struct harness other;
            if (!CHECK(h, harness_open(&other, &options, h->isa), "no context"))
                continue;
            compare(h, other.g, &p, (int64_t[]){0, M}, ROW_MAJOR, false);
            compare(h, other.g, &p, (int64_t[]){0, M}, COLUMN_MAJOR, false);
            compare(h, other.g, &p, (int64_t[]){5, 1}, ROW_MAJOR, false);
            compare(h, other.g, &p, (int64_t[]){7, 3}, EVERY_SECOND, false);
            compare(h, other.g, &p, (int64_t[]){0, M}, COLUMN_MAJOR, true);
            compare(h, other.g, &p, (int64_t[]){M - 1, 1}, ROW_MAJOR, true);
            harness_close(&other);
        }
        test_tensor_destroy(h, &p.whole, "y");
        drop(h, &p);
    }
}

/* ---- What is refused ------------------------------------------------------------------------ */

static void refused(struct harness *h, gram_status status, const char *expected)
{
    CHECK(h, status == GRAM_INVALID_ARGUMENT, "%s", gram_status_name(status));
    CHECK(h, strstr(gram_message(h->g), expected) != NULL, "\"%s\", expected \"%s\"",
          gram_message(h->g), expected);
}

static void bad_input_is_named(struct harness *h)
{
    static float memory[64];
    gram_tensor x = gram_matrix(memory, 2, 6, GRAM_F32),
                y = gram_matrix(memory + 16, 2, 6, GRAM_F32);
    gram_tensor a = gram_matrix(memory + 32, 2, 2, GRAM_F32),
                b = gram_matrix(memory + 40, 3, 3, GRAM_F32);
    gram_tensor wide = gram_matrix(memory, INT64_C(1) << 32, INT64_C(1) << 32, GRAM_F32), other = b;
    const gram_tensor *factors[17] = {&a, &b};
    gram_kron_options o = GRAM_KRON_OPTIONS_INIT;

    for (int i = 2; i < 17; i++)
        factors[i] = &a;
    refused(h, gram_kron_matmul(h->g, &x, factors, 0, NULL, &y), "count is 0, expected 1 to 16");
    refused(h, gram_kron_matmul(h->g, &x, factors, 17, NULL, &y), "count is 17, expected 1 to 16");
    refused(h, gram_kron_matmul(h->g, &x, NULL, 2, NULL, &y), "factors is NULL");
    refused(h, gram_kron_matmul(h->g, &x, factors, 3, NULL, &y), "x has 6 columns, expected 12");
    other.dtype = GRAM_F64, factors[1] = &other;
    refused(h, gram_kron_matmul(h->g, &x, factors, 2, NULL, &y), "factors[1] has dtype f64");
    wide.stride[0] = wide.stride[1] = 0;
    factors[0] = factors[1] = &wide;
    refused(h, gram_kron_matmul(h->g, &x, factors, 2, NULL, &y), "overflows");
    factors[0] = &a, factors[1] = &b;
    o.beta = gram_number(2);
    refused(h, gram_kron_matmul(h->g, &x, factors, 2, &o, &y), "options.z is NULL");
    o.beta = gram_number(0), o.alpha = gram_number(NAN);
    refused(h, gram_kron_matmul(h->g, &x, factors, 2, &o, &y), "options.alpha is nan");
    o.alpha = gram_number(0.5);
    x.dtype = y.dtype = a.dtype = b.dtype = GRAM_I32;
    refused(h, gram_kron_matmul(h->g, &x, factors, 2, &o, &y),
            "options.alpha is 0.5, expected a whole");
    o.alpha = gram_number(1), o.side = (gram_side)7;
    refused(h, gram_kron_matmul(h->g, &x, factors, 2, &o, &y), "options.side is 7");
    o.side = GRAM_LEFT;
    refused(h, gram_kron_matmul(h->g, &x, factors, 2, &o, &y), "x has 2 rows, expected 6");
}

/* A row of 2^58 elements that repeat one: bytes of scratch for them cannot be counted. */
static void rows_too_long_for_scratch(struct harness *h)
{
    static float one[1], result[1];
    int64_t n = INT64_C(1) << 58;
    gram_tensor x = gram_matrix(one, 1, n, GRAM_F32), f = gram_matrix(one, n, 1, GRAM_F32);
    gram_tensor y = gram_matrix(result, 1, 1, GRAM_F32);
    const gram_tensor *factors[1] = {&f};
    gram_workspace need;

    x.stride[0] = x.stride[1] = f.stride[0] = f.stride[1] = 0;
    CHECK(h,
          gram_kron_matmul_workspace(h->g, &x, factors, 1, NULL, &y, &need) == GRAM_OUT_OF_MEMORY,
          "%s", gram_message(h->g));
    CHECK(h, gram_kron_matmul(h->g, &x, factors, 1, NULL, &y) == GRAM_OUT_OF_MEMORY, "%s",
          gram_message(h->g));
}

static const struct test_function tests[] = {
    {"results_are_the_same_bits", results_are_the_same_bits},
    {       "bad_input_is_named",        bad_input_is_named},
    {"rows_too_long_for_scratch", rows_too_long_for_scratch},
};

int main(void)
{
    return harness_run_tests_each_isa(tests, LENGTH(tests));
}

/*
 * krr_numbers.h - what the tests of gram_krr_solve have in common: numbers of either dtype in one
 * array, copies on the device, and kernels
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_TEST_KRR_NUMBERS_H
#define GRAM_TEST_KRR_NUMBERS_H
#include "check/harness/harness.h"
#include "tests/core/failing_alloc.h"
#include <math.h>
#include <stdlib.h>

enum {
    KERNELS = 8
};

static inline double get_number(gram_dtype dtype, const double *data, int64_t at)
{
    return dtype == GRAM_F32 ? (double)((const float *)(const void *)data)[at] : data[at];
}

static inline void set_number(gram_dtype dtype, double *data, int64_t at, double value)
{
    if (dtype == GRAM_F32)
        ((float *)(void *)data)[at] = (float)value;
    else
        data[at] = value;
}

/* Points between -2 and 2 of a generator's state, targets that swing, and weights from 1 to 4, of n
 * rows. */
static inline void fill_numbers(gram_dtype dtype, uint64_t state, int64_t n,
                                const int64_t width_columns[2], double *x, double *y,
                                double *weights)
{
    for (int64_t i = 0; i < n * width_columns[0]; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
        set_number(dtype, x, i, 4 * (double)(state >> 40) * 0x1p-24 - 2);
    }
    for (int64_t i = 0; i < n * width_columns[1]; i++)
        set_number(dtype, y, i, sin(0.3 * (double)i));
    for (int64_t i = 0; i < n; i++)
        set_number(dtype, weights, i, 1 + (double)(i % 4));
}

/* A copy of the tensor's memory on the harness's device. */
static inline void upload(struct harness *h, gram_tensor *t, size_t bytes)
{
    const void *data = t->data;

    t->device = h->device;
    if (gram_memory_allocate(h->g, bytes, &t->data) != GRAM_OK ||
        gram_memory_copy(h->g, t->data, data, bytes) != GRAM_OK)
        abort();
}

/* A test's call in a context whose fail_at'th allocation fails, counted from the call on; *failed:
 * there was one.  Nothing stays allocated. */
struct call;
static inline gram_status run_failing(struct harness *h, int64_t fail_at,
                                      gram_status (*run)(struct harness *h, struct call *c),
                                      struct call *c, bool *failed)
{
    struct failing_alloc alloc = FAILING_ALLOC_INIT;
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
    struct harness other = *h;
    gram_status status;

    failing_alloc_use(&alloc, &options);
    options.threads = 1;
    if (gram_context_create(&options, &other.g) != GRAM_OK)
        abort();
    failing_alloc_reset(&alloc, fail_at);
    status = run(&other, c);
    *failed = alloc.failed;
    failing_alloc_reset(&alloc, 0);
    gram_context_destroy(other.g);
    CHECK(h, alloc.live == 0 && alloc.wrong_releases == 0, "%lld blocks live",
          (long long)alloc.live);
    return status;
}

static inline gram_kernel_options kernel_of(int which)
{
    gram_kernel_options k = GRAM_KERNEL_OPTIONS_INIT;

    switch (which) {
    case 0:
        return gram_gaussian(1.5);
    case 1:
        return gram_lpq_laplace(2, 1, 2);
    case 2:
        return gram_lpq_laplace(1, 1, 2);
    case 3:
    case 4:
        k.function = which == 3 ? GRAM_MATERN32 : GRAM_MATERN52;
        k.outer_power = gram_number(0.5);
        k.bandwidth = gram_number(2);
        return k;
    case 5:
        k.function = GRAM_RATIONAL_QUADRATIC;
        return k;
    case 6: /* of rank 10: a ridge, or a floor, is what makes it definite */
        k.inner = GRAM_DOT;
        k.function = GRAM_POLYNOMIAL;
        k.gamma = gram_number(0.3), k.coef0 = gram_number(1), k.degree = gram_number(2);
        return k;
    default:
        k.function = GRAM_EXPRESSION;
        k.expression = "exp(-s) + 0.5 * exp(-0.1 * s)";
        return k;
    }
}
#endif

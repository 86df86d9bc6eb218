/*
 * test_cuda_root.c - inverse roots of matrices so large that half of a symmetric product is
 * multiplied
 *
 * Without a device and outside of the emulation: skipped.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/device_memory.h"
#include "check/harness/harness.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = 530 /* columns of four widths, the last one less than the others; tiles that are cut */
};

struct root {
    float a[N * N], x[N * N], y[N * N];
};

/* I and a little of everything: a condition of at most 3. */
static void fill(struct harness *h, float *a)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j <= i; j++)
            a[i * N + j] = a[j * N + i] =
                (float)((i == j ? 2 : 0) + (test_uniform(h) - 0.5) / sqrt((double)N));
}

/* The device's inverse root of power 1/4; condition 0: unknown. */
static bool take_root(struct harness *h, struct root *r, gram_power_method method, double condition,
                      gram_power_precision precision)
{
    gram_context *g = test_cuda_context(h, NULL);
    gram_matrix_power_options options = GRAM_MATRIX_POWER_OPTIONS_INIT;
    gram_tensor a = gram_matrix(device_allocate(sizeof r->a), N, N, GRAM_F32);
    gram_tensor x = gram_matrix(device_allocate(sizeof r->x), N, N, GRAM_F32);
    bool good = false;

    options.numerator = -1, options.denominator = 4;
    options.method = method;
    options.condition = condition;
    options.precision = precision;
    a.device = x.device = (gram_device){GRAM_CUDA, 0};
    if (CHECK(h, g && a.data && x.data && device_upload(a.data, r->a, sizeof r->a), "no device"))
        good = CHECK(h,
                     gram_matrix_power(g, &a, &options, &x, NULL) == GRAM_OK &&
                         gram_context_synchronize(g) == GRAM_OK,
                     "%s", gram_message(g)) &&
               CHECK(h, device_download(r->x, x.data, sizeof r->x), "no copy");
    gram_context_destroy(g);
    device_release(a.data);
    device_release(x.data);
    return good;
}

static void square(struct harness *h, const float *from, float *to)
{
    gram_tensor x = gram_matrix((void *)(uintptr_t)from, N, N, GRAM_F32);
    gram_tensor y = gram_matrix(to, N, N, GRAM_F32);

    CHECK(h, gram_matmul_batched(h->g, &x, &x, NULL, &y) == GRAM_OK, "%s", gram_message(h->g));
}

static void roots_are_symmetric_and_right(struct harness *h)
{
    static const gram_power_precision precisions[] = {GRAM_POWER_PRECISION_F64,
                                                      GRAM_POWER_PRECISION_F32};
    static struct root r;

    for (int i = 0; i < LENGTH(precisions); i++) {
        gram_tensor a = gram_matrix(r.a, N, N, GRAM_F32), y = gram_matrix(r.y, N, N, GRAM_F32);
        gram_tensor x = gram_matrix(r.x, N, N, GRAM_F32);
        double most = 0, skew = 0;
        fill(h, r.a);
        if (!take_root(h, &r, GRAM_POWER_MINIMAX, 4, precisions[i]))
            return;
        for (int j = 0; j < N * N; j++)
            skew = fmax(skew, fabs((double)r.x[j] - (double)r.x[j % N * N + j / N]));
        square(h, r.x, r.y);
        square(h, r.y, r.x);
        CHECK(h, gram_matmul_batched(h->g, &x, &a, NULL, &y) == GRAM_OK, "%s", gram_message(h->g));
        for (int j = 0; j < N * N; j++)
            most = fmax(most, fabs((double)r.y[j] - (j % N == j / N)));
        /* three products of rows of sum about 1, in f32 */
        CHECK(h, skew == 0 && most < 3 * (N + 3) * test_eps(GRAM_F32),
              "x^4 a differs from I by %g, x from x^T by %g", most, skew);
    }
}

/* AUTO once took eigenvectors where Newton is as exact and faster: where the condition is known.
 * The fake device is one that is as fast in f64 as in f32. */
static void auto_is_newton_where_the_condition_is_known(struct harness *h)
{
    static const struct {
        gram_power_method method;
        double condition;
    } same[][2] = {
        {{GRAM_POWER_AUTO, 4}, {GRAM_POWER_COUPLED_NEWTON, 4}},
        {{GRAM_POWER_AUTO, 0},           {GRAM_POWER_EIGH, 0}},
    };
    static struct root r;
    static float kept[2][N * N];
    double most = 0;

    fill(h, r.a);
    for (int i = 0; i < LENGTH(same); i++) {
        for (int j = 0; j < 2; j++) {
            if (!take_root(h, &r, same[i][j].method, same[i][j].condition,
                           GRAM_POWER_PRECISION_AUTO))
                return;
            if (j == 1)
                CHECK(h, memcmp(kept[i], r.x, sizeof r.x) == 0, "AUTO is not method %d",
                      (int)same[i][1].method);
            memcpy(kept[i], r.x, sizeof r.x);
        }
    }
    for (int j = 0; j < N * N; j++)
        most = fmax(most, fabs((double)kept[0][j] - (double)kept[1][j]));
    CHECK(h, most <= test_eps(GRAM_F32), "the methods differ by %g", most);
}

static const struct test_function tests[] = {
    {              "roots_are_symmetric_and_right",               roots_are_symmetric_and_right},
    {"auto_is_newton_where_the_condition_is_known", auto_is_newton_where_the_condition_is_known},
};

int main(void)
{
    if (gram_best_device().type != GRAM_CUDA || !device_open(0)) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    return harness_run_tests(tests, LENGTH(tests));
}

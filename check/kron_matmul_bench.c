/*
 * kron_matmul_bench.c - one product with N equal factors, for gram check, bench and profile
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/reference/reference.h"
#include "kron_matmul_problem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct bench {
    gram_tensor x, y, factor;
    const gram_tensor *factors[GRAM_MAX_FACTORS];
    int count;
    gram_kron_options options;
};

static gram_status bench_run(gram_context *g, void *state)
{
    struct bench *s = state;

    return gram_kron_matmul(g, &s->x, s->factors, s->count, &s->options, &s->y);
}

static void bench_destroy(void *state)
{
    struct bench *s = state;

    free(s->x.data);
    free(s->y.data);
    free(s->factor.data);
    free(s);
}

static double bench_error(struct harness *h, void *state)
{
    const struct reference_batch batch = {.count = 1};
    const struct bench *s = state;
    const struct reference_kron_matmul in = {s->x.data ? &s->x : NULL, s->factors, s->count,
                                             &s->options};
    int64_t count = test_count(&s->y), n = s->y.shape[1];
    double worst = 0,
           terms = (double)(s->options.side == GRAM_LEFT ? s->x.shape[0] : s->x.shape[1]);
    int samples = (int)fmin(200, 1 + 2e6 / terms);

    for (int i = 0; count > 0 && i < samples; i++) {
        int64_t e = (int64_t)(test_uniform(h) * (double)count);
        const int64_t at[3] = {0, e / n, e % n};
        double magnitude, want = reference_kron_matmul(&in, &batch, at, &magnitude), error;
        double depth = (double)s->factor.shape[s->options.side == GRAM_LEFT ? 1 : 0];
        bool half = s->y.dtype == GRAM_F16 || s->y.dtype == GRAM_BF16;
        double bound = (depth * s->count + 2) * test_eps(half ? GRAM_F32 : s->y.dtype) * magnitude +
                       (half ? test_eps(s->y.dtype) * fabs(want) : 0);
        error = fabs(test_at(&s->y, e) - want) / fmax(bound, 1e-300);
        worst = error > worst || isnan(error) ? error : worst;
    }
    return worst;
}

static bool allocate(struct harness *h, gram_tensor *t, int64_t m, int64_t n, gram_dtype dtype)
{
    int64_t size = (int64_t)gram_dtype_size(dtype), bytes;

    if (__builtin_mul_overflow(m, n, &bytes) || __builtin_mul_overflow(bytes, size, &bytes))
        return false;
    *t = gram_matrix(malloc(bytes ? (size_t)bytes : 1), m, n, dtype);
    for (int64_t i = 0; t->data && i < m * n; i++)
        test_put(t, i, dtype >= GRAM_I32 ? floor(5 * test_uniform(h)) : test_uniform(h) - 0.5);
    return t->data != NULL;
}

/* n to the power count, or false. */
static bool power(int64_t n, int64_t count, int64_t *out)
{
    *out = 1;
    for (int64_t i = 0; i < count; i++)
        if (__builtin_mul_overflow(*out, n, out))
            return false;
    return true;
}

bool kron_matmul_prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    int64_t m = args->sizes[0], p = args->sizes[1], q = args->sizes[2], n = args->sizes[3], in, to;
    bool left = strcmp(case_param(args, "side", "right"), "left") == 0;
    struct bench *s = calloc(1, sizeof *s);
    double flop = 0, elements;

    if (!s)
        return harness_no_memory(h, "the problem");
    if (n < 1 || n > GRAM_MAX_FACTORS) {
        fprintf(stderr, "N: expected 1 to %d\n", GRAM_MAX_FACTORS);
        free(s);
        return false;
    }
    if (!power(p, n, &in) || !power(q, n, &to) ||
        !allocate(h, &s->factor, left ? q : p, left ? p : q, args->dtype) ||
        !allocate(h, &s->x, left ? in : m, left ? m : in, args->dtype) ||
        !allocate(h, &s->y, left ? to : m, left ? m : to, args->dtype)) {
        (void)harness_no_memory(h, "the problem");
        bench_destroy(s);
        return false;
    }
    s->options = (gram_kron_options)GRAM_KRON_OPTIONS_INIT;
    s->options.side = left ? GRAM_LEFT : GRAM_RIGHT;
    s->count = (int)n;
    elements = (double)m * (double)in;
    for (int i = 0; i < s->count; i++) {
        s->factors[i] = &s->factor;
        flop += 2 * elements * (double)q;
        elements = elements / (double)p * (double)q;
    }
    *out = (struct case_problem){
        .state = s,
        .run = bench_run,
        .error = bench_error,
        .destroy = bench_destroy,
        .work = flop,
        .unit = "flop",
        .tensors = {&s->x, &s->factor, &s->y},
        .bytes = (double)m * (double)(in + to) * (double)gram_dtype_size(args->dtype),
    };
    return true;
}

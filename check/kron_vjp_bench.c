/*
 * kron_vjp_bench.c - one problem of any size for `gram check|bench|profile kron_matmul_vjp`
 *
 * All numbers are positive, so that nothing cancels.  The sum of grad y is linear in x and in each
 * factor: the sum of x times its gradient, and that of every factor times its own, must all be this
 * one number.  Elements of the gradient of x are compared with the reference on a sample.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/reference/reference.h"
#include "kron_vjp_problem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    X = GRAM_MAX_FACTORS,
    GRAD,
    MATRICES,
    SAMPLE = 20,
    BLOCKED = 1000, /* roundings of a long sum, which is one of sums of some hundred terms */
};

struct bench {
    int count;
    gram_side side;
    gram_tensor in[MATRICES], out[MATRICES];
};

static gram_status bench_run(gram_context *g, void *state)
{
    struct bench *s = state;
    const gram_tensor *factors[GRAM_MAX_FACTORS];
    gram_tensor *to[GRAM_MAX_FACTORS];
    gram_kron_options options = GRAM_KRON_OPTIONS_INIT;
    gram_kron_grads grads = {.x = &s->out[X], .factors = to};

    for (int i = 0; i < s->count; i++)
        factors[i] = &s->in[i], to[i] = &s->out[i];
    options.side = s->side;
    return gram_kron_matmul_vjp(g, &s->in[X], factors, s->count, &options, &s->in[GRAD], &grads);
}

static void bench_destroy(void *state)
{
    struct bench *s = state;

    for (int i = 0; i < MATRICES; i++) {
        free(s->in[i].data);
        free(s->out[i].data);
    }
    free(s);
}

static double inner_product(const struct bench *s, int i)
{
    double sum = 0;

    for (int64_t e = 0; e < test_count(&s->in[i]); e++)
        sum += test_at(&s->in[i], e) * test_at(&s->out[i], e);
    return sum;
}

/* An element of the gradient of x: row m and column k of a product from the right. */
static double want_x(const struct bench *s, int64_t m, int64_t k)
{
    const struct reference_batch batch = {.count = 1};
    const gram_tensor *factors[GRAM_MAX_FACTORS];
    bool left = s->side == GRAM_LEFT;
    double sum = 0;

    for (int i = 0; i < s->count; i++)
        factors[i] = &s->in[i];
    for (int64_t j = 0; j < s->in[GRAD].shape[!left]; j++)
        sum += test_get(&s->in[GRAD], left ? (int64_t[]){j, m} : (int64_t[]){m, j}) *
               reference_kron(factors, s->count, &batch,
                              left ? (int64_t[]){0, j, k} : (int64_t[]){0, k, j});
    return sum;
}

static double bench_error(struct harness *h, void *state)
{
    const struct bench *s = state;
    double worst = 0, roundings = BLOCKED, sum = inner_product(s, X);
    bool left = s->side == GRAM_LEFT;

    for (int i = 0; i < s->count; i++)
        roundings += (double)(s->in[i].shape[0] + s->in[i].shape[1]);
    roundings *= test_eps(s->in[X].dtype);
    for (int i = 0; i < s->count; i++) {
        double error = fabs(inner_product(s, i) - sum) / (roundings * sum);
        worst = error > worst || isnan(error) ? error : worst;
    }
    for (int i = 0; i < SAMPLE && test_count(&s->in[X]) > 0; i++) {
        int64_t m = (int64_t)(test_uniform(h) * (double)s->in[X].shape[left]);
        int64_t k = (int64_t)(test_uniform(h) * (double)s->in[X].shape[!left]);
        double want = want_x(s, m, k);
        double got = test_get(&s->out[X], left ? (int64_t[]){k, m} : (int64_t[]){m, k});
        double error = fabs(got - want) / (roundings * want);
        worst = error > worst || isnan(error) ? error : worst;
    }
    return worst;
}

static bool allocate(struct harness *h, struct bench *s, int i, const int64_t size[2],
                     gram_dtype dtype, double scale)
{
    size_t bytes = (size_t)(size[0] * size[1]) * gram_dtype_size(dtype);

    s->in[i] = gram_matrix(malloc(bytes ? bytes : 1), size[0], size[1], dtype);
    s->out[i] = gram_matrix(malloc(bytes ? bytes : 1), size[0], size[1], dtype);
    for (int64_t e = 0; s->in[i].data && e < test_count(&s->in[i]); e++)
        test_put(&s->in[i], e, scale * (0.5 + test_uniform(h)));
    return s->in[i].data && s->out[i].data;
}

/* p^n, or -1 where there is no memory for so much. */
static int64_t power(int64_t p, int64_t n)
{
    int64_t all = 1;

    while (n-- > 0)
        if (__builtin_mul_overflow(all, p, &all) || all > (int64_t)1 << 40)
            return -1;
    return all;
}

static bool fill(struct harness *h, const struct case_args *args, struct bench *s)
{
    int64_t m = args->sizes[0], p = args->sizes[2], q = args->sizes[3];
    bool left = s->side == GRAM_LEFT, right;
    int64_t k = power(left ? q : p, s->count), j = power(left ? p : q, s->count);

    if (k < 0 || j < 0)
        return false;
    right = allocate(h, s, X, left ? (int64_t[]){k, m} : (int64_t[]){m, k}, args->dtype, 1) &&
            allocate(h, s, GRAD, left ? (int64_t[]){j, m} : (int64_t[]){m, j}, args->dtype, 1);
    for (int i = 0; right && i < s->count; i++)
        right = allocate(h, s, i, (int64_t[]){p, q}, args->dtype, 1 / (double)(p > 0 ? p : 1));
    return right;
}

bool kron_vjp_prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    const int64_t *n = args->sizes;
    struct bench *s = calloc(1, sizeof *s);
    double flop = 0, p = (double)n[2], q = (double)n[3];

    if (!s)
        return harness_no_memory(h, "the problem");
    if (n[1] < 1 || n[1] > GRAM_MAX_FACTORS ||
        (args->dtype != GRAM_F32 && args->dtype != GRAM_F64)) {
        fprintf(stderr, "expected 1 to %d factors of f32 or f64\n", GRAM_MAX_FACTORS);
        free(s);
        return false;
    }
    s->count = (int)n[1];
    s->side = strcmp(case_param(args, "side", "right"), "left") == 0 ? GRAM_LEFT : GRAM_RIGHT;
    if (!fill(h, args, s)) {
        (void)harness_no_memory(h, "the problem");
        bench_destroy(s);
        return false;
    }
    for (int i = 0; i < s->count; i++) /* 3 N - 1 products */
        flop += (i ? 6 : 4) * (double)n[0] * pow(p, i + 1) * pow(q, s->count - i);
    *out = (struct case_problem){
        .state = s,
        .run = bench_run,
        .error = bench_error,
        .destroy = bench_destroy,
        .work = flop,
        .unit = "flop",
        .bytes = (double)gram_dtype_size(args->dtype) *
                 (double)(2 * test_count(&s->in[X]) + test_count(&s->in[GRAD])),
        .tensors = {&s->in[X], &s->in[GRAD], &s->out[X]},
    };
    for (int i = 0; i < s->count; i++)
        out->tensors[3 + 2 * i] = &s->in[i], out->tensors[4 + 2 * i] = &s->out[i];
    return true;
}

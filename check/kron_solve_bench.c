/*
 * kron_solve_bench.c - one system of any size for `gram check|bench|profile kron_solve`
 *
 * M rows, N factors of order P, symmetric with a heavy diagonal, so that the same product is as
 * good for every method.  Elements of x K - b are looked at on a sample.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/reference/reference.h"
#include "solve_problem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLE = 20
};

struct bench {
    int count;
    gram_tensor factor[GRAM_MAX_FACTORS], b, x;
    gram_kron_solve_options options;
};

static gram_status bench_run(gram_context *g, void *state)
{
    struct bench *s = state;
    const gram_tensor *factors[GRAM_MAX_FACTORS];

    for (int i = 0; i < s->count; i++)
        factors[i] = &s->factor[i];
    return gram_kron_solve(g, factors, s->count, &s->b, &s->options, &s->x, NULL);
}

static void bench_destroy(void *state)
{
    struct bench *s = state;

    for (int i = 0; i < s->count; i++)
        free(s->factor[i].data);
    free(s->b.data);
    free(s->x.data);
    free(s);
}

/* |x K - b| over |x| |K|, in steps of eps times the sum of the orders. */
static double bench_error(struct harness *h, void *state)
{
    const struct reference_batch batch = {.count = 1};
    const struct bench *s = state;
    const gram_tensor *factors[GRAM_MAX_FACTORS];
    int64_t order = s->b.shape[1];
    double worst = 0, bound = 0;

    for (int i = 0; i < s->count; i++) {
        factors[i] = &s->factor[i];
        bound += 16 * (double)s->factor[i].shape[0] * test_eps(s->b.dtype);
    }
    for (int i = 0; i < SAMPLE && test_count(&s->b) > 0; i++) {
        int64_t m = (int64_t)(test_uniform(h) * (double)s->b.shape[0]);
        int64_t j = (int64_t)(test_uniform(h) * (double)order);
        double sum = -test_get(&s->b, (int64_t[]){m, j}), size = fabs(sum), error;
        for (int64_t k = 0; k < order; k++) {
            double term = test_get(&s->x, (int64_t[]){m, k}) *
                          reference_kron(factors, s->count, &batch, (int64_t[]){0, k, j});
            sum += term, size += fabs(term);
        }
        error = fabs(sum) / (bound * size);
        worst = error > worst || isnan(error) ? error : worst;
    }
    return worst;
}

static bool allocate(gram_tensor *t, int64_t m, int64_t n, gram_dtype dtype)
{
    size_t bytes = (size_t)(m * n) * gram_dtype_size(dtype);

    *t = gram_matrix(malloc(bytes ? bytes : 1), m, n, dtype);
    return t->data != NULL;
}

static bool fill(struct harness *h, const struct case_args *args, struct bench *s)
{
    int64_t p = args->sizes[2], order = 1;

    for (int f = 0; f < s->count; f++) {
        if (__builtin_mul_overflow(order, p, &order) || order > (int64_t)1 << 32 ||
            !allocate(&s->factor[f], p, p, args->dtype))
            return false;
        for (int64_t i = 0; i < p * p; i++)
            test_set(&s->factor[f], (int64_t[]){i / p, i % p},
                     (i / p == i % p) + 1 / (double)(p + llabs(i / p - i % p)) / 4);
    }
    if (!allocate(&s->b, args->sizes[0], order, args->dtype) ||
        !allocate(&s->x, args->sizes[0], order, args->dtype))
        return false;
    for (int64_t i = 0; i < test_count(&s->b); i++)
        test_put(&s->b, i, test_uniform(h) - 0.5);
    return true;
}

bool kron_solve_prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    const char *method = case_param(args, "method", "lu");
    struct bench *s = calloc(1, sizeof *s);

    if (!s)
        return harness_no_memory(h, "the problem");
    if (args->sizes[1] < 1 || args->sizes[1] > GRAM_MAX_FACTORS ||
        (args->dtype != GRAM_F32 && args->dtype != GRAM_F64)) {
        fprintf(stderr, "expected 1 to %d factors of f32 or f64\n", GRAM_MAX_FACTORS);
        free(s);
        return false;
    }
    s->count = (int)args->sizes[1];
    s->options = (gram_kron_solve_options)GRAM_KRON_SOLVE_OPTIONS_INIT;
    s->options.method = strcmp(method, "cholesky") == 0 ? GRAM_KRON_CHOLESKY
                        : strcmp(method, "eigen") == 0  ? GRAM_KRON_EIGEN
                                                        : GRAM_KRON_LU;
    if (!fill(h, args, s)) {
        (void)harness_no_memory(h, "the problem");
        bench_destroy(s);
        return false;
    }
    *out = (struct case_problem){
        .state = s,
        .run = bench_run,
        .error = bench_error,
        .destroy = bench_destroy,
        .work = 2 * (double)test_count(&s->b) * (double)(args->sizes[1] * args->sizes[2]) *
                (s->options.method == GRAM_KRON_EIGEN ? 2 : 1),
        .unit = "flop",
        .bytes = 2 * (double)gram_dtype_size(args->dtype) * (double)test_count(&s->b),
        .tensors = {&s->b, &s->x},
    };
    for (int f = 0; f < s->count; f++)
        out->tensors[2 + f] = &s->factor[f];
    return true;
}

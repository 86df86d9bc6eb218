/*
 * vjp_bench.c - a problem of any size for gradients of products and reductions of kernels
 *
 * SPDX-License-Identifier: MIT
 */
#include "vjp_bench.h"
#include "check/harness/dense_data.h"
#include "check/reference/reference.h"
#include <math.h>
#include <stdlib.h>

static void destroy(void *state)
{
    struct vjp_bench *s = state;

    free(s->x.data);
    free(s->y.data);
    free(s->v.data);
    free(s->grad.data);
    free(s->to_x.data);
    free(s);
}

double vjp_bench_error(struct harness *h, const struct vjp_bench *s, int elements, int64_t terms,
                       vjp_bench_cotangent *cotangent)
{
    const struct reference_batch batch = {.count = 1};
    const int64_t m = s->x.shape[0], n = s->v.shape[0], k = s->x.shape[1];
    double worst = 0, *row = dense_doubles(n);

    for (int t = 0; t < elements && m > 0 && n > 0 && k > 0; t++) {
        const int64_t i = (int64_t)(test_uniform(h) * (double)m);
        const int64_t at[2] = {i, (int64_t)(test_uniform(h) * (double)k)};
        gram_tensor one = s->x, grad = gram_matrix(row, 1, n, GRAM_F64);
        const struct reference_vjp in = {&one, s->same ? &s->x : &s->y, &grad, &s->kernel};
        const double size = cotangent(s, i, row);
        double magnitude, want, bound, error;

        one.shape[0] = 1;
        one.data = (char *)s->x.data + (size_t)(i * k) * gram_dtype_size(s->x.dtype);
        want = reference_vjp_points(&in, &batch, (int64_t[]){0, 0, at[1]}, false, &magnitude);
        bound = (double)(terms + 300) * test_eps(s->x.dtype) * (magnitude + (double)n * size);
        error = fabs(test_get(&s->to_x, at) - want) / bound;
        worst = error > worst || isnan(error) ? error : worst;
    }
    free(row);
    return isnan(worst) ? INFINITY : worst;
}

bool vjp_bench_prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    int64_t m = args->sizes[0], n = args->sizes[1], k = args->sizes[2], r = args->sizes[3];
    double p = case_number(args, "p", 1), size = (double)gram_dtype_size(args->dtype);
    struct vjp_bench *s = calloc(1, sizeof *s);

    if (!s)
        return harness_no_memory(h, "the problem");
    s->same = case_number(args, "symmetric", 0) != 0;
    s->scale = case_number(args, "scale", 1);
    s->kernel = gram_lpq_laplace(p, case_number(args, "q", p), case_number(args, "bandwidth", 1));
    s->x = dense_random(h, m, k, args->dtype);
    s->y = dense_random(h, n, k, args->dtype);
    s->v = dense_random(h, s->same ? m : n, r, args->dtype);
    s->grad = dense_random(h, m, r, args->dtype);
    s->to_x = dense_random(h, m, k, args->dtype);
    if (!s->x.data || !s->y.data || !s->v.data || !s->grad.data || !s->to_x.data) {
        (void)harness_no_memory(h, "the problem");
        destroy(s);
        return false;
    }
    *out = (struct case_problem){
        .state = s,
        .tensors = {&s->x, &s->y, &s->v, &s->grad, &s->to_x},
        .destroy = destroy,
        .work = (double)m * (double)n,
        .unit = "m n pairs",
        .bytes = size * ((double)(m + n) * (double)(k + r) + (double)m * (double)k),
    };
    return true;
}

/*
 * grad_bench.c - one problem of any size for `gram check|bench|profile cdist_grad|agop`
 *
 * b and d are transposed by their strides, as they are for rows of features.  Elements are checked
 * on a sample, against the reference.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/dense_data.h"
#include "grad_problem.h"
#include <math.h>
#include <stdlib.h>

struct bench {
    gram_tensor a, b, c, d, out;
    gram_scalar p;
    bool agop;
    gram_agop_options options;
};

static gram_status bench_run(gram_context *g, void *state)
{
    struct bench *s = state;

    return s->agop ? gram_agop(g, &s->a, &s->b, &s->c, &s->d, s->p, &s->options, &s->out)
                   : gram_cdist_grad(g, &s->a, &s->b, &s->c, &s->d, s->p, &s->out);
}

static void bench_destroy(void *state)
{
    struct bench *s = state;

    free(s->a.data);
    free(s->b.data);
    free(s->c.data);
    free(s->d.data);
    free(s->out.data);
    free(s);
}

static int64_t any(struct harness *h, int64_t size)
{
    return (int64_t)(test_uniform(h) * (double)size);
}

static double bench_error(struct harness *h, void *state)
{
    struct bench *s = state;
    const struct reference_grad in = {&s->a, &s->b, &s->c, &s->d, s->p};
    const struct reference_batch batch = {.count = 1};
    const int64_t *shape = s->out.shape, all = s->a.shape[0] * s->a.shape[1] * s->c.shape[0];
    int64_t terms = s->agop ? 4 * all : s->a.shape[0];
    int64_t sample = terms > 0 ? 100000000 / terms : 1; /* a few seconds of the reference */
    double worst = 0;

    sample = sample < 1 ? 1 : sample > 300 ? 300 : sample;
    for (int64_t i = 0; i < sample && test_count(&s->out) > 0; i++) {
        const int64_t at[4] = {0, any(h, shape[0]), any(h, shape[s->options.diagonal ? 0 : 1]),
                               s->agop ? 0 : any(h, shape[2])};
        const int64_t nl[3] = {0, at[1], s->options.diagonal ? at[1] : at[2]};
        struct grad_answer a =
            s->agop ? agop_answer(&in, &batch, 0, nl) : grad_answer(&in, &batch, at);
        double error = fabs(test_get(&s->out, at + 1) - a.want) / a.bound;
        worst = error > worst || isnan(error) ? error : worst;
    }
    return isnan(worst) ? INFINITY : worst;
}

static gram_tensor transposed(gram_tensor t)
{
    int64_t rows = t.shape[0], step = t.stride[0];

    t.shape[0] = t.shape[1], t.stride[0] = t.stride[1];
    t.shape[1] = rows, t.stride[1] = step;
    return t;
}

/* The output: outputs by features by points, or features by features, or features. */
static gram_tensor allocate_out(struct harness *h, const struct bench *s, const int64_t *sizes)
{
    int64_t m = sizes[1], n = sizes[2], o = sizes[3];
    gram_tensor t;

    if (!s->agop) {
        t = dense_random(h, o * n, m, s->a.dtype);
        t = gram_matrices(t.data, o, n, m, s->a.dtype);
    } else if (s->options.diagonal) {
        t = dense_random(h, 1, n, s->a.dtype);
        t = gram_vector(t.data, n, s->a.dtype);
    } else
        t = dense_random(h, n, n, s->a.dtype);
    return t;
}

bool grad_prepare(struct harness *h, const struct case_args *args, bool agop,
                  struct case_problem *out)
{
    int64_t k = args->sizes[0], m = args->sizes[1], n = args->sizes[2], o = args->sizes[3];
    double size = (double)gram_dtype_size(args->dtype), steps = (double)k * (double)m * (double)n;
    struct bench *s = calloc(1, sizeof *s);

    if (!s)
        return harness_no_memory(h, "the problem");
    s->agop = agop;
    s->options = (gram_agop_options)GRAM_AGOP_OPTIONS_INIT;
    s->options.diagonal = case_number(args, "diagonal", 0) != 0;
    s->p = gram_number(case_number(args, "p", 1));
    s->a = dense_random(h, k, m, args->dtype);
    s->b = transposed(dense_random(h, k, n, args->dtype));
    s->c = dense_random(h, o, k, args->dtype);
    s->d = transposed(dense_random(h, m, n, args->dtype));
    s->out = allocate_out(h, s, args->sizes);
    if (!s->a.data || !s->b.data || !s->c.data || !s->d.data || !s->out.data) {
        (void)harness_no_memory(h, "the problem");
        bench_destroy(s);
        return false;
    }
    *out = (struct case_problem){
        .state = s,
        .tensors = {&s->a, &s->b, &s->c, &s->d, &s->out},
        .run = bench_run,
        .error = bench_error,
        .destroy = bench_destroy,
        .work = steps,
        .unit = "k m n steps",
        .bytes = size * ((double)k * (double)m + ((double)k + (double)m) * (double)n +
                         (double)test_count(&s->out)),
    };
    return true;
}

/*
 * pairwise_bench.c - one problem of any size for `gram check|bench|profile cdist|kernel`
 *
 * Elements are checked on a sample.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/reference/reference.h"
#include "pairwise_problem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLE = 2000
};

struct bench {
    gram_tensor x, y, out;
    bool symmetric;
    double p;
    gram_cdist_options options;
    bool is_kernel;
    gram_kernel_options kernel;
    const char *expression; /* the kernel, written out; or NULL */
};

static gram_status bench_run(gram_context *g, void *state)
{
    struct bench *s = state;
    const gram_tensor *y = s->symmetric ? NULL : &s->y;
    gram_kernel_options kernel = s->kernel;
    gram_parameter parameters[PAIR_PARAMETERS];

    if (s->expression)
        pair_write_out(s->expression, parameters, &kernel);
    return s->is_kernel ? gram_kernel(g, &s->x, y, &kernel, &s->out)
                        : gram_cdist(g, &s->x, y, gram_number(s->p), &s->options, &s->out);
}

static void bench_destroy(void *state)
{
    struct bench *s = state;

    free(s->x.data);
    free(s->y.data);
    free(s->out.data);
    free(s);
}

static double bench_error(struct harness *h, void *state)
{
    struct bench *s = state;
    const struct reference_batch batch = {.count = 1};
    const struct pair_question q = {.x = &s->x,
                                    .y = s->symmetric ? NULL : &s->y,
                                    .p = gram_number(s->p),
                                    .no_root = s->options.no_root,
                                    .kernel = s->is_kernel ? &s->kernel : NULL};
    double worst = 0;

    for (int i = 0; i < SAMPLE && test_count(&s->out) > 0; i++) {
        int64_t at[3] = {0, (int64_t)(test_uniform(h) * (double)s->out.shape[0]),
                         (int64_t)(test_uniform(h) * (double)s->out.shape[1])};
        double want = pair_want(&q, &batch, at), off = fabs(test_get(&s->out, at + 1) - want);
        double error = off == 0 ? 0 : off / pair_bound(&q, &batch, at, want);
        worst = error > worst || isnan(error) ? error : worst;
    }
    return isnan(worst) ? INFINITY : worst;
}

/* Memory aligned to 64 bytes, as most callers have it; data NULL if there is none. */
static gram_tensor allocate(int64_t rows, int64_t cols, gram_dtype dtype, bool by_columns)
{
    size_t bytes = (size_t)(rows * cols) * gram_dtype_size(dtype);
    gram_tensor t = gram_matrix(aligned_alloc(64, bytes / 64 * 64 + 64), rows, cols, dtype);

    if (by_columns)
        t.stride[0] = 1, t.stride[1] = rows;
    return t;
}

static void fill(struct harness *h, gram_tensor *t)
{
    for (int64_t i = 0; i < test_count(t); i++)
        test_put(t, i, test_uniform(h));
}

bool pair_prepare(struct harness *h, const struct case_args *args,
                  const gram_kernel_options *kernel, const char *expression,
                  struct case_problem *out)
{
    int64_t m = args->sizes[0], n = args->sizes[1], k = args->sizes[2];
    bool by_columns = strcmp(case_param(args, "layout", "row"), "column") == 0;
    gram_dtype dtype = args->dtype, result = dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    struct bench *s = calloc(1, sizeof *s);
    double rows = (double)m, cols = (double)n, depth = (double)k;

    if (!s)
        return harness_no_memory(h, "the problem");
    s->symmetric = case_number(args, "symmetric", 0) != 0;
    s->p = case_number(args, "p", 2);
    s->options = (gram_cdist_options)GRAM_CDIST_OPTIONS_INIT;
    s->options.no_root = case_number(args, "no_root", 0) != 0;
    s->is_kernel = kernel != NULL;
    s->expression = expression;
    if (kernel)
        s->kernel = *kernel;
    if (s->symmetric)
        n = m, cols = rows;
    s->x = allocate(m, k, dtype, false);
    s->y = allocate(n, k, dtype, false);
    s->out = allocate(m, n, result, by_columns);
    if (!s->x.data || !s->y.data || !s->out.data) {
        (void)harness_no_memory(h, "the problem");
        bench_destroy(s);
        return false;
    }
    fill(h, &s->x);
    fill(h, &s->y);
    memset(s->out.data, 0, (size_t)(m * n) * gram_dtype_size(result));
    *out = (struct case_problem){
        .state = s,
        .tensors = {&s->x, &s->y, &s->out},
        .run = bench_run,
        .error = bench_error,
        .destroy = bench_destroy,
        .work = rows * cols * depth,
        .unit = "m n k steps",
        .bytes = (rows + cols) * depth * (double)gram_dtype_size(dtype) +
                 rows * cols * (double)gram_dtype_size(result),
    };
    return true;
}

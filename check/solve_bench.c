/*
 * solve_bench.c - one system of any size for `gram check|bench|profile solve_cholesky|solve_lu`
 *
 * The residual is taken over at most 64 rows of a: all of them would take longer than the solve.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/reference/reference.h"
#include "solve_problem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLED_ROWS = 64
};

struct bench {
    int64_t n, r;
    bool lu;
    gram_tensor a, b, x, rcond; /* rcond without data: not asked for */
    gram_solve_options options;
};

static const double jitter[] = {0, 1e-3, 1}; /* the first one does */

static gram_status bench_run(gram_context *g, void *state)
{
    struct bench *s = state;

    return s->lu ? gram_solve_lu(g, &s->a, &s->b, &s->options, &s->x, NULL)
                 : gram_solve_cholesky(g, &s->a, &s->b, &s->options, &s->x, NULL);
}

static void bench_destroy(void *state)
{
    struct bench *s = state;

    free(s->a.data);
    free(s->b.data);
    free(s->x.data);
    free(s->rcond.data);
    free(s);
}

static double bench_error(struct harness *h, void *state)
{
    struct bench *s = state;
    int64_t n = s->n, r = s->r, rows = n < SAMPLED_ROWS ? n : SAMPLED_ROWS;
    double *a = malloc((size_t)(rows * n + rows * r + n * r + 1) * sizeof *a);
    double *b = a + rows * n, *x = b + rows * r, error;

    if (!a) {
        (void)harness_no_memory(h, "a reference");
        return INFINITY;
    }
    for (int64_t i = 0; i < rows; i++) {
        int64_t row = (int64_t)(test_uniform(h) * (double)n);
        for (int64_t j = 0; j < n; j++)
            a[i * n + j] = test_get(&s->a, (int64_t[]){row, j});
        for (int64_t j = 0; j < r; j++)
            b[i * r + j] = test_get(&s->b, (int64_t[]){row, j});
    }
    for (int64_t i = 0; i < n * r; i++)
        x[i] = test_get(&s->x, (int64_t[]){i / r, i % r});
    error = reference_solve_residual(rows, n, r, a, x, b);
    free(a);
    return n ? error / (4 * (double)n * test_eps(s->a.dtype)) : 0;
}

/* rows by cols elements in the layout of a parameter; data NULL: no memory. */
static gram_tensor allocate(int64_t rows, int64_t cols, gram_dtype dtype, bool by_columns)
{
    size_t bytes = (size_t)(rows * cols) * gram_dtype_size(dtype);
    gram_tensor t = gram_matrix(malloc(bytes ? bytes : 1), rows, cols, dtype);

    if (by_columns)
        t.stride[0] = 1, t.stride[1] = rows;
    return t;
}

/* Symmetric with a heavy diagonal (definite, like a regularised kernel matrix); any matrix for
 * lu. */
static void fill(struct harness *h, struct bench *s)
{
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t j = 0; j <= i; j++) {
            double v = test_uniform(h) - 0.5 + (i == j ? (double)s->n : 0);
            test_set(&s->a, (int64_t[]){i, j}, s->lu && i == j ? v - (double)s->n : v);
            test_set(&s->a, (int64_t[]){j, i}, s->lu ? test_uniform(h) - 0.5 : v);
        }
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t j = 0; j < s->r; j++)
            test_set(&s->b, (int64_t[]){i, j}, test_uniform(h) - 0.5);
}

/* What the parameters ask for beside the solution. */
static bool take_extras(const struct case_args *args, struct bench *s)
{
    s->options.refine = strcmp(case_param(args, "refine", "0"), "0") != 0;
    if (!s->lu && strcmp(case_param(args, "jitter", "0"), "0") != 0) {
        s->options.jitter = jitter;
        s->options.jitters = LENGTH(jitter);
    }
    if (strcmp(case_param(args, "rcond", "0"), "0") == 0)
        return true;
    s->rcond = gram_vector(calloc(1, sizeof(double)), 1, args->dtype);
    s->rcond.ndim = 0;
    s->options.rcond = &s->rcond;
    return s->rcond.data != NULL;
}

bool solve_prepare(struct harness *h, const struct case_args *args, struct case_problem *out,
                   bool lu)
{
    int64_t n = args->sizes[0], r = args->sizes[1];
    bool a_columns = strcmp(case_param(args, "layout", "row"), "column") == 0;
    bool b_columns = strcmp(case_param(args, "rhs", "row"), "column") == 0;
    struct bench *s = calloc(1, sizeof *s);
    double order = (double)n, size = (double)gram_dtype_size(args->dtype);

    if (args->dtype != GRAM_F32 && args->dtype != GRAM_F64) {
        fprintf(stderr, "dtype: expected f32 or f64\n");
        free(s);
        return false;
    }
    if (!s)
        return harness_no_memory(h, "the problem");
    *s = (struct bench){.n = n, .r = r, .lu = lu, .options = GRAM_SOLVE_OPTIONS_INIT};
    if (strcmp(case_param(args, "uplo", "lower"), "upper") == 0)
        s->options.uplo = GRAM_UPPER;
    s->a = allocate(n, n, args->dtype, a_columns);
    s->b = allocate(n, r, args->dtype, b_columns);
    s->x = allocate(n, r, args->dtype, b_columns);
    if (!take_extras(args, s) || !s->a.data || !s->b.data || !s->x.data) {
        (void)harness_no_memory(h, "the problem");
        bench_destroy(s);
        return false;
    }
    fill(h, s);
    *out = (struct case_problem){
        .state = s,
        .tensors = {&s->a, &s->b, &s->x, s->rcond.data ? &s->rcond : NULL},
        .run = bench_run,
        .error = bench_error,
        .destroy = bench_destroy,
        .work = order * order * (order * (lu ? 2 : 1) / 3 + 2 * (double)r),
        .unit = "flop",
        .bytes = size * (order * order + 2 * order * (double)r),
    };
    return true;
}

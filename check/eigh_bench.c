/*
 * eigh_bench.c - a batch of eigenproblems of any size for `gram check|bench|profile eigh`
 *
 * The error is that of LAPACK's two ratios over 30, on the first item and on at most 16 of its
 * pairs: all of them would take longer than the work itself.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/reference/reference.h"
#include "eigh_problem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLED_PAIRS = 16
};

struct bench {
    int64_t n, k;
    bool with_vectors;
    gram_tensor a, values, vectors;
    gram_eigh_options options;
};

static gram_status bench_run(gram_context *g, void *state)
{
    struct bench *s = state;

    return gram_eigh(g, &s->a, &s->options, &s->values, s->with_vectors ? &s->vectors : NULL, NULL);
}

static void bench_destroy(void *state)
{
    struct bench *s = state;

    free(s->a.data);
    free(s->values.data);
    free(s->vectors.data);
    free(s);
}

static double bench_error(struct harness *h, void *state)
{
    struct bench *s = state;
    int64_t n = s->n, k = s->k < SAMPLED_PAIRS ? s->k : SAMPLED_PAIRS;
    double *a = malloc((size_t)(n * n + n * k + k + 1) * sizeof *a), *v = a + n * n, *w = v + n * k;
    double residual, orthogonality;

    (void)h;
    if (!a) {
        (void)harness_no_memory(h, "a reference");
        return INFINITY;
    }
    for (int64_t i = 0; i < n * n; i++)
        a[i] = test_at(&s->a, i);
    for (int64_t j = 0; j < k; j++) {
        int64_t from = j * s->k / k;
        w[j] = test_at(&s->values, from);
        for (int64_t i = 0; s->with_vectors && i < n; i++)
            v[i * k + j] = test_at(&s->vectors, i * s->k + from);
    }
    residual = s->with_vectors ? reference_eigh_residual(n, k, a, w, v) : 0;
    orthogonality = s->with_vectors ? reference_orthogonality(n, k, v) : 0;
    for (int64_t j = 0; j < k; j++)
        residual = isnan(w[j]) ? INFINITY : residual;
    free(a);
    return n ? fmax(residual, orthogonality) / (30 * (double)n * test_eps(s->a.dtype)) : 0;
}

static bool choose_driver(const struct case_args *args, gram_eigh_driver *driver)
{
    static const char *const names[] = {"auto",      "closed", "jacobi", "divide",
                                        "bisection", "krylov", "batched"};

    for (int i = 0; i < LENGTH(names); i++)
        if (strcmp(case_param(args, "driver", "auto"), names[i]) == 0) {
            *driver = (gram_eigh_driver)i;
            return true;
        }
    fprintf(stderr,
            "driver: expected auto, closed, jacobi, divide, bisection, krylov or batched\n");
    return false;
}

static bool allocate(gram_tensor *t, int64_t batch, int64_t rows, int64_t cols, gram_dtype dtype)
{
    int64_t count = batch * rows * cols;
    void *data = malloc((size_t)(count > 0 ? count : 1) * gram_dtype_size(dtype));

    *t = gram_matrix(data, batch, rows * cols, dtype);
    t->ndim = 3;
    t->shape[1] = rows, t->shape[2] = cols;
    t->stride[1] = cols, t->stride[2] = 1;
    return data != NULL;
}

static bool fill(struct harness *h, struct bench *s, const char *kind)
{
    int64_t n = s->n;
    double *a = malloc((size_t)(n * n + 1) * sizeof *a);
    enum zoo_kind which = ZOO_RANDOM;

    if (!a)
        return false;
    if (strcmp(kind, "rbf") == 0)
        which = ZOO_RBF;
    for (int64_t item = 0; item < s->a.shape[0]; item++) {
        zoo_fill(h, which, n, test_eps(s->a.dtype), a);
        for (int64_t i = 0; i < n * n; i++)
            test_put(&s->a, item * n * n + i, a[i]);
    }
    free(a);
    return true;
}

bool eigh_prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    int64_t items = args->sizes[0], n = args->sizes[1];
    int64_t k = (int64_t)case_number(args, "k", (double)n);
    struct bench *s = calloc(1, sizeof *s);
    double order = (double)n, count = (double)items, size = (double)gram_dtype_size(args->dtype);
    bool ready;

    if (!s)
        return harness_no_memory(h, "the problem");
    *s = (struct bench){.n = n, .k = k, .options = GRAM_EIGH_OPTIONS_INIT};
    s->with_vectors = case_number(args, "vectors", 1) != 0;
    s->options.select = k == n ? GRAM_EIGH_ALL : GRAM_EIGH_LARGEST;
    s->options.count = k;
    ready = choose_driver(args, &s->options.driver);
    if (ready && ((args->dtype != GRAM_F32 && args->dtype != GRAM_F64) || k > n)) {
        fprintf(stderr, "expected dtype f32 or f64, and k at most N\n");
        ready = false;
    } else if (ready && (!allocate(&s->a, items, n, n, args->dtype) ||
                         !allocate(&s->values, items, 1, k, args->dtype) ||
                         !allocate(&s->vectors, items, n, k, args->dtype) ||
                         !fill(h, s, case_param(args, "kind", "random")))) {
        (void)harness_no_memory(h, "the problem");
        ready = false;
    }
    s->values.ndim = 2, s->values.shape[1] = k, s->values.stride[1] = 1;
    if (!ready) {
        bench_destroy(s);
        return false;
    }
    *out = (struct case_problem){
        .state = s,
        .tensors = {&s->a, &s->values, &s->vectors},
        .run = bench_run,
        .error = bench_error,
        .destroy = bench_destroy,
        .work = count * order * order * order * 4 / 3 + 2 * count * order * order * (double)k,
        .unit = "flop",
        .bytes = size * count * order * (order + (double)k),
    };
    return true;
}

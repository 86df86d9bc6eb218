/*
 * matrix_power_bench.c - equal matrices of any order for `gram check|bench|profile matrix_power`
 *
 * The error is that of the identity which defines the power, on four random vectors: for a whole
 * matrix it would take longer than the power.
 *
 * SPDX-License-Identifier: MIT
 */
#include "matrix_power_problem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    VECTORS = 4
};

struct bench {
    int64_t n, batch;
    double condition, ridge;
    gram_tensor a, out;
    gram_matrix_power_options options;
};

static gram_status bench_run(gram_context *g, void *state)
{
    struct bench *s = state;

    return gram_matrix_power(g, &s->a, &s->options, &s->out, NULL);
}

static void bench_destroy(void *state)
{
    struct bench *s = state;

    free(s->a.data);
    free(s->out.data);
    free(s);
}

/* v <- m v + ridge v, m the last matrix of t; kept is scratch. */
static void apply(const gram_tensor *t, double ridge, int64_t n, double *v, double *kept)
{
    int64_t item = test_count(t) - n * n;

    memcpy(kept, v, (size_t)n * sizeof *v);
    for (int64_t i = 0; i < n; i++) {
        v[i] = ridge * kept[i];
        for (int64_t j = 0; j < n; j++)
            v[i] += test_at(t, item + (i >= j ? i * n + j : j * n + i)) * kept[j];
    }
}

static double distance(int64_t n, const double *v, const double *w)
{
    double sum = 0, scale = 0;

    for (int64_t i = 0; i < n; i++) {
        sum += (v[i] - w[i]) * (v[i] - w[i]);
        scale += w[i] * w[i];
    }
    return sqrt(sum / scale);
}

static double bench_error(struct harness *h, void *state)
{
    struct bench *s = state;
    const gram_matrix_power_options *o = &s->options;
    int64_t n = s->n;
    int q = o->denominator, k = abs(o->numerator), left = o->numerator < 0 ? q - q / 2 : q;
    double *v = malloc((size_t)(3 * n + 1) * sizeof *v), *w = v + n, *kept = w + n, worst = 0;
    bool eigh = o->method <= GRAM_POWER_EIGH;
    double eps = test_eps(s->a.dtype), bound = q * eps * s->condition;

    if (!v) {
        (void)harness_no_memory(h, "a reference");
        return INFINITY;
    }
    if (eigh) /* what rounding the result leaves */
        bound = q * (eps * sqrt(s->condition) + 0x1p-52 * s->condition);
    for (int trial = 0; n > 0 && trial < VECTORS; trial++) {
        for (int64_t i = 0; i < n; i++)
            v[i] = w[i] = test_uniform(h) - 0.5;
        for (int i = 0; o->numerator < 0 && i < q - left; i++)
            apply(&s->out, 0, n, v, kept);
        for (int i = 0; i < k; i++)
            apply(&s->a, s->ridge, n, o->numerator < 0 ? v : w, kept);
        for (int i = 0; i < left; i++)
            apply(&s->out, 0, n, v, kept);
        worst = fmax(worst, distance(n, v, w) / bound);
        if (isnan(v[0]))
            worst = INFINITY;
    }
    free(v);
    return worst;
}

static bool take_options(const struct case_args *args, struct bench *s)
{
    static const char *const methods[] = {"auto", "eigh", "coupled_newton", "newton_schulz",
                                          "minimax"};
    const char *power = case_param(args, "power", "-1/4");
    const char *method = case_param(args, "method", "auto");
    int m = 0;
    char *end;

    s->condition = case_number(args, "condition", 1e6);
    s->ridge = case_number(args, "ridge", 0);
    s->options = (gram_matrix_power_options)GRAM_MATRIX_POWER_OPTIONS_INIT;
    s->options.ridge = gram_number(s->ridge);
    s->options.condition = s->condition * 1.001;
    s->options.numerator = (int)strtol(power, &end, 10);
    s->options.denominator = *end == '/' ? (int)strtol(end + 1, NULL, 10) : 1;
    while (m < LENGTH(methods) && strcmp(methods[m], method) != 0)
        m++;
    s->options.method = (gram_power_method)m;
    if (m < LENGTH(methods) && s->condition >= 1 && s->ridge >= 0)
        return true;
    fprintf(stderr,
            "method: expected auto, eigh, coupled_newton, newton_schulz or minimax; "
            "condition at least 1, ridge at least 0\n");
    return false;
}

static bool fill(struct harness *h, struct bench *s)
{
    int64_t n = s->n;
    double *a = malloc((size_t)(n * n + 1) * sizeof *a);

    if (!a)
        return false;
    power_fill(h, n, GEOMETRIC, s->condition, a);
    for (int64_t i = 0; i < s->batch * n * n; i++)
        test_put(&s->a, i, a[i % (n * n)]);
    free(a);
    return true;
}

bool power_prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    struct bench *s = calloc(1, sizeof *s);
    int64_t n = args->sizes[0], batch = args->sizes[1];
    size_t size = gram_dtype_size(args->dtype), bytes = (size_t)(batch * n * n) * size;
    double order = (double)n;

    if (!s)
        return harness_no_memory(h, "the problem");
    if ((args->dtype != GRAM_F32 && args->dtype != GRAM_F64) || !take_options(args, s)) {
        free(s);
        return false;
    }
    s->n = n;
    s->batch = batch;
    s->a = gram_matrix(malloc(bytes + 1), n, n, args->dtype);
    s->a.ndim = 3;
    s->a.shape[0] = batch, s->a.shape[1] = s->a.shape[2] = n;
    s->a.stride[0] = n * n, s->a.stride[1] = n, s->a.stride[2] = 1;
    s->out = s->a;
    s->out.data = malloc(bytes + 1);
    if (!s->a.data || !s->out.data || !fill(h, s)) {
        (void)harness_no_memory(h, "the problem");
        bench_destroy(s);
        return false;
    }
    *out = (struct case_problem){
        .state = s,
        .tensors = {&s->a, &s->out},
        .run = bench_run,
        .error = bench_error,
        .destroy = bench_destroy,
        .work = (double)batch * order * order * order,
        .unit = "n^3",
        .bytes = 2 * (double)bytes,
    };
    return true;
}

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

enum { /* of the reference: a second or two in all */
    MOST_SAMPLE = 300,
    TERMS = 20000000,       /* of gradients */
    AGOP_STEPS = 300000000, /* of outer products: multiply-adds */
    POWER_STEPS = 30        /* what a power costs */
};

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

/* ---- The check of gradients ------------------------------------------------------------------ */

static double grad_error(struct harness *h, const struct bench *s)
{
    const struct reference_grad in = {&s->a, &s->b, &s->c, &s->d, s->p};
    const struct reference_batch batch = {.count = 1};
    const int64_t *shape = s->out.shape, terms = s->a.shape[0];
    int64_t sample = terms > 0 ? TERMS / terms : 1;
    double worst = 0;

    sample = sample < 1 ? 1 : sample > MOST_SAMPLE ? MOST_SAMPLE : sample;
    for (int64_t i = 0; i < sample; i++) {
        const int64_t at[4] = {0, any(h, shape[0]), any(h, shape[1]), any(h, shape[2])};
        struct grad_answer a = grad_answer(&in, &batch, at);
        double error = fabs(test_get(&s->out, at + 1) - a.want) / a.bound;
        worst = error > worst || isnan(error) ? error : worst;
    }
    return worst;
}

/* ---- The check of outer products ------------------------------------------------------------- */

/*
 * The gradients of all outputs and points to one feature, with their bounds as in grad_bound.c.  A
 * power is taken once for all outputs: element by element through the reference, one element of an
 * outer product of 4000 centres and points and 10 outputs takes half a minute.
 */
struct feature {
    double *want, *bound; /* [output][point] */
    double *power, *size; /* of a centre: [point] */
};

/* What a centre gives to the gradients; its mean over the centres is `mean`. */
static void find_powers(const struct bench *s, int64_t n, int64_t k, double mean,
                        const struct feature *f)
{
    const double p = s->p.value, b = test_get(&s->b, (int64_t[]){n, k});

    for (int64_t m = 0; m < s->a.shape[1]; m++) {
        const double d = test_get(&s->d, (int64_t[]){n, m});
        const double a = test_get(&s->a, (int64_t[]){k, m});
        const double power = p == 1   ? (double)((d > b) - (d < b))
                             : p == 2 ? d - b
                                      : reference_signed_power(d - b, p - 1);
        f->power[m] = a * power;
        f->size[m] = fabs(a) * (p == 2 ? fabs(d - mean) + fabs(b - mean) : fabs(power));
    }
}

/* The largest absolute value. */
static double largest(const gram_tensor *t)
{
    double most = 0;

    for (int64_t i = 0; i < test_count(t); i++)
        most = fmax(most, fabs(test_at(t, i)));
    return most;
}

/* From the sums of absolute values to bounds; `spread` is the largest |b - mean|. */
static void finish_bounds(const struct bench *s, double spread, const struct feature *f)
{
    const double count = (double)s->a.shape[0], eps = test_eps(s->a.dtype);
    const bool square = s->p.value == 2;
    const double terms = square ? count + 8 : count / 128 + 160;
    const double rest = square && s->a.dtype == GRAM_F32
                            ? count * 0x1p-37 * largest(&s->a) * largest(&s->c) * spread
                            : 0;

    for (int64_t i = 0; i < s->c.shape[0] * s->a.shape[1]; i++)
        f->bound[i] = terms * eps * f->bound[i] + rest + 1e-300;
}

static void find_feature(const struct bench *s, int64_t n, const struct feature *f)
{
    const int64_t centres = s->a.shape[0], points = s->a.shape[1], outputs = s->c.shape[0];
    double mean = 0, spread = 0;

    for (int64_t i = 0; i < outputs * points; i++)
        f->want[i] = f->bound[i] = 0;
    for (int64_t k = 0; k < centres; k++)
        mean += test_get(&s->b, (int64_t[]){n, k}) / (double)centres;
    for (int64_t k = 0; k < centres; k++) {
        spread = fmax(spread, fabs(test_get(&s->b, (int64_t[]){n, k}) - mean));
        find_powers(s, n, k, mean, f);
        for (int64_t o = 0; o < outputs; o++) {
            const double c = test_get(&s->c, (int64_t[]){o, k});
            for (int64_t m = 0; m < points; m++) {
                f->want[o * points + m] += c * f->power[m];
                f->bound[o * points + m] += fabs(c) * f->size[m];
            }
        }
    }
    finish_bounds(s, spread, f);
}

/* The error of element [n][l] over its bound. */
static double element_error(const struct bench *s, double out, const struct feature *n,
                            const struct feature *l)
{
    const int64_t points = s->a.shape[1], terms = s->c.shape[0] * points;
    const double divisor = points > 0 ? (double)points : 1;
    double sum = 0, size = 0, spread = 0;

    for (int64_t i = 0; i < terms; i++) {
        sum += n->want[i] * l->want[i];
        size += fabs(n->want[i] * l->want[i]);
        spread += n->bound[i] * fabs(l->want[i]) + l->bound[i] * fabs(n->want[i]) +
                  n->bound[i] * l->bound[i];
    }
    spread += (double)(terms + 8) * test_eps(s->a.dtype) * size;
    return fabs(out - sum / divisor) / (spread / divisor + 1e-300);
}

/* One element, by the reference: with p = infinity a power depends on all features. */
static double agop_error_of_largest(struct harness *h, const struct bench *s)
{
    const struct reference_grad in = {&s->a, &s->b, &s->c, &s->d, s->p};
    const struct reference_batch batch = {.count = 1};
    const int64_t n = any(h, s->out.shape[0]);
    const int64_t at[3] = {0, n, s->options.diagonal ? n : any(h, s->out.shape[1])};
    const struct grad_answer a = agop_answer(&in, &batch, 0, at);

    return fabs(test_get(&s->out, at + 1) - a.want) / a.bound;
}

static double agop_error(struct harness *h, const struct bench *s)
{
    const int64_t points = s->a.shape[1], terms = s->c.shape[0] * points;
    const int64_t steps = s->a.shape[0] * points * (s->c.shape[0] + POWER_STEPS);
    const bool diagonal = s->options.diagonal;
    double *memory = dense_doubles(4 * terms + 2 * points);
    double *rest = memory + 4 * terms, worst = 0;
    struct feature f[2] = {
        {            memory,     memory + terms, rest, rest + points},
        {memory + 2 * terms, memory + 3 * terms, rest, rest + points}
    };
    int64_t sample = steps > 0 ? AGOP_STEPS / steps : 1;

    sample = sample < 1 ? 1 : sample > MOST_SAMPLE ? MOST_SAMPLE : sample;
    for (int64_t i = 0; i < sample; i++) {
        const int64_t n = any(h, s->out.shape[0]);
        const int64_t at[2] = {n, diagonal ? n : any(h, s->out.shape[1])};
        find_feature(s, at[0], &f[0]);
        if (at[1] != at[0])
            find_feature(s, at[1], &f[1]);
        double error = element_error(s, test_get(&s->out, at), &f[0], &f[at[1] != at[0]]);
        worst = error > worst || isnan(error) ? error : worst;
    }
    free(memory);
    return worst;
}

static double bench_error(struct harness *h, void *state)
{
    const struct bench *s = state;
    const bool none = test_count(&s->out) == 0;
    const double worst = none                           ? 0
                         : s->agop && isinf(s->p.value) ? agop_error_of_largest(h, s)
                         : s->agop                      ? agop_error(h, s)
                                                        : grad_error(h, s);

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

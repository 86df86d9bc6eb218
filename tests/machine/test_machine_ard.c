/*
 * test_machine_ard.c - a weight per feature by marginal likelihood
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine/machine.h"
#include "machine_sample.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = 120,
    WIDTH = 4, /* features, of which two count */
    OUTPUTS = 2
};

/* ---- The likelihood, as the formula has it --------------------------------------------------- */

/* Solves A x = b of n rows by a Cholesky factorisation in place; half of log det A, or NaN. */
static double solve(int64_t n, double *a, double *b)
{
    double half = 0;

    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = j; i < n; i++)
            for (int64_t k = 0; k < j; k++)
                a[i * n + j] -= a[i * n + k] * a[j * n + k];
        for (int64_t i = n - 1; i >= j; i--)
            a[i * n + j] /= sqrt(a[j * n + j]);
        half += log(a[j * n + j]);
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < i; k++)
            b[i] -= a[i * n + k] * b[k];
        b[i] /= a[i * n + i];
    }
    for (int64_t i = n - 1; i >= 0; i--) {
        for (int64_t k = i + 1; k < n; k++)
            b[i] -= a[k * n + i] * b[k];
        b[i] /= a[i * n + i];
    }
    return half;
}

struct problem {
    double p, q, bandwidth;
    int64_t outputs;
    const double *weights;
    double x[N * WIDTH], y[OUTPUTS * N];
};

/* F at the metric w and the ridge r. */
static double likelihood_of(const struct problem *s, const double *w, double r)
{
    double *k = must_allocate(N * N * sizeof *k), sum = 0;

    for (int64_t c = 0; c < s->outputs; c++) {
        const double *y = s->y + c * N;
        double a[N], mean = 0, all = 0, amplitude = 0, half;

        for (int64_t i = 0; i < N; i++)
            for (int64_t j = 0; j < N; j++) {
                double d = 0;

                for (int f = 0; f < WIDTH; f++)
                    d += pow(fabs(w[f] * (s->x[i * WIDTH + f] - s->x[j * WIDTH + f])), s->p);
                k[i * N + j] = exp(-pow(pow(d, 1 / s->p) / s->bandwidth, s->q));
            }
        for (int64_t i = 0; i < N; i++) {
            const double weight = s->weights ? s->weights[i] : 1;

            k[i * (N + 1)] += r / weight;
            mean += weight * y[i];
            all += weight;
        }
        for (int64_t i = 0; i < N; i++)
            a[i] = y[i] - mean / all;
        half = solve(N, k, a);
        for (int64_t i = 0; i < N; i++)
            amplitude += (y[i] - mean / all) * a[i] / N;
        sum += 0.5 * log(amplitude) + half / N;
    }
    free(k);
    return sum / (double)s->outputs;
}

static struct problem problem_make(struct harness *h, double p, double q, int64_t outputs,
                                   const double *weights)
{
    struct problem s = {p, q, 2, outputs, weights, {0}, {0}};

    for (int i = 0; i < N * WIDTH; i++)
        s.x[i] = 4 * test_uniform(h) - 2;
    for (int i = 0; i < N; i++) {
        const double *x = s.x + i * WIDTH;

        s.y[i] = 5 + sin(2 * x[0]) * x[2] + 0.2 * (test_uniform(h) - 0.5);
        s.y[N + i] = (double)(x[0] > 0);
    }
    return s;
}

/* ---- Against it ------------------------------------------------------------------------------ */

/* Rounds of steps; params->ridge and the metric become what they end at. */
static void descend(struct harness *h, const struct problem *s, int rounds,
                    struct machine_params *params, struct machine_metric *metric)
{
    for (int round = 0; round < rounds; round++) {
        double z[N * WIDTH];
        struct machine_data data = {
            N, WIDTH, s->outputs, GRAM_F64, (const char *)z, (const char *)s->y, s->weights};
        const struct machine_gradients e = {params, s->bandwidth, &data, &data, NULL};
        struct machine_learned learned = {0};

        for (int i = 0; i < N * WIDTH; i++)
            z[i] = s->x[i] * metric->w[i % WIDTH];
        CHECK(h, gram_machine_metric_ard(h->g, &e, metric, &learned) == GRAM_OK, "%s",
              gram_message(h->g));
        params->ridge = learned.ridge;
    }
}

/* Where the steps end, F has no slope, by differences of the formula; and it is less than where
 * they began. */
static void expect_flat(struct harness *h, const struct problem *s)
{
    static const double one[WIDTH] = {1, 1, 1, 1};
    struct machine_params params = {.p = s->p, .q = s->q, .bandwidth = s->bandwidth, .ridge = 0.1};
    struct machine_metric metric = {0};
    const double before = likelihood_of(s, one, 0.1), shift = 1e-4;
    double after;

    CHECK(h, gram_machine_metric_create(h->g, WIDTH, false, &metric) == GRAM_OK, "no metric");
    descend(h, s, 6, &params, &metric);
    after = likelihood_of(s, metric.w, params.ridge);
    CHECK(h, after < before - 0.1, "p = %g: F went from %g to %g", s->p, before, after);
    for (int j = 0; j <= WIDTH; j++) {
        double up[WIDTH], down[WIDTH], slope;

        memcpy(up, metric.w, sizeof up);
        memcpy(down, metric.w, sizeof down);
        if (j < WIDTH) {
            up[j] *= exp(shift);
            down[j] *= exp(-shift);
        }
        slope = likelihood_of(s, up, params.ridge * (j < WIDTH ? 1 : exp(shift))) -
                likelihood_of(s, down, params.ridge * (j < WIDTH ? 1 : exp(-shift)));
        CHECK(h, fabs(slope / (2 * shift)) < 2e-3,
              "p = %g, %lld outputs: dF is %g by the logarithm of number %d (%g)", s->p,
              (long long)s->outputs, slope / (2 * shift), j,
              j < WIDTH ? metric.w[j] : params.ridge);
    }
    for (int j = 1; j < WIDTH; j += 2)
        CHECK(h, metric.w[j] < 0.2 * metric.w[0], "p = %g: the weights are %g of 0, %g of %d", s->p,
              metric.w[0], metric.w[j], j);
    gram_machine_metric_destroy(&metric);
}

static void steps_end_where_it_is_flat(struct harness *h)
{
    double weights[N];

    for (int i = 0; i < N; i++)
        weights[i] = 0.5 + i % 3;
    for (int k = 0; k < 4; k++) {
        static const double p[] = {2, 2, 1, 1.5}, q[] = {2, 1, 1, 1.4};
        const struct problem s =
            problem_make(h, p[k], q[k], k == 2 ? OUTPUTS : 1, k % 2 ? weights : NULL);

        expect_flat(h, &s);
    }
}

/* In medians: the largest weight is 1, and bandwidth times the median is the L that was found. */
static void bandwidths_come_in_medians(struct harness *h)
{
    const struct problem s = problem_make(h, 2, 2, 1, NULL);
    double z[N * WIDTH], median = 0;
    struct machine_params params = {
        .p = 2, .q = 2, .bandwidth = 1, .relative_bandwidth = true, .ridge = 0.1};
    struct machine_data data = {N, WIDTH, 1, GRAM_F64, (const char *)s.x, (const char *)s.y, NULL};
    const struct machine_gradients e = {&params, s.bandwidth, &data, &data, NULL};
    struct machine_params given = {.p = 2, .q = 2, .bandwidth = s.bandwidth, .ridge = 0.1};
    const struct machine_gradients same = {&given, s.bandwidth, &data, &data, NULL};
    struct machine_metric metric = {0}, scaled = {0};
    struct machine_learned learned, of_given;

    CHECK(h,
          gram_machine_metric_create(h->g, WIDTH, false, &metric) == GRAM_OK &&
              gram_machine_metric_create(h->g, WIDTH, false, &scaled) == GRAM_OK &&
              gram_machine_metric_ard(h->g, &e, &metric, &learned) == GRAM_OK &&
              gram_machine_metric_ard(h->g, &same, &scaled, &of_given) == GRAM_OK,
          "%s", gram_message(h->g));
    for (int i = 0; i < N * WIDTH; i++)
        z[i] = s.x[i] * metric.w[i % WIDTH];
    data.x = (const char *)z;
    params.bandwidth = learned.bandwidth;
    CHECK(h, gram_machine_bandwidth(h->g, &params, &data, &median) == GRAM_OK, "no median");
    CHECK(h, fmax(metric.w[0], metric.w[2]) == 1, "the largest weight is %g",
          fmax(metric.w[0], metric.w[2]));
    CHECK(h, learned.ridge == of_given.ridge, "ridges %g and %g", learned.ridge, of_given.ridge);
    for (int j = 0; j < WIDTH; j++) /* the same kernel: W / L */
        CHECK(h, fabs(metric.w[j] / median / (scaled.w[j] / s.bandwidth) - 1) < 1e-9,
              "feature %d: W / L is %g and %g", j, metric.w[j] / median, scaled.w[j] / s.bandwidth);
    gram_machine_metric_destroy(&metric);
    gram_machine_metric_destroy(&scaled);
}

/* Outputs that are constant say nothing: alone they leave the metric as it is. */
static void constant_outputs_say_nothing(struct harness *h)
{
    struct problem s = problem_make(h, 2, 1, 1, NULL), both;
    struct machine_params params = {.p = 2, .q = 1, .bandwidth = 2, .ridge = 0.1}, again = params;
    struct machine_metric metric = {0}, with = {0};

    CHECK(h,
          gram_machine_metric_create(h->g, WIDTH, false, &metric) == GRAM_OK &&
              gram_machine_metric_create(h->g, WIDTH, false, &with) == GRAM_OK,
          "no metric");
    for (int i = 0; i < N; i++)
        s.y[N + i] = 3;
    both = s;
    both.outputs = 2;
    descend(h, &s, 1, &params, &metric);
    descend(h, &both, 1, &again, &with);
    for (int j = 0; j < WIDTH; j++)
        CHECK(h, fabs(metric.w[j] - with.w[j]) < 1e-9 * metric.w[j], "weights %g and %g of %d",
              metric.w[j], with.w[j], j);
    memcpy(s.y, s.y + N, sizeof s.y / 2);
    descend(h, &s, 1, &params, &metric);
    for (int j = 0; j < WIDTH; j++)
        CHECK(h, fabs(metric.w[j] - with.w[j]) < 1e-9 * metric.w[j],
              "constant targets: weights %g and %g of %d", metric.w[j], with.w[j], j);
    gram_machine_metric_destroy(&metric);
    gram_machine_metric_destroy(&with);
}

/* ---- The whole fit --------------------------------------------------------------------------- */

static void noise_does_not_count(struct harness *h)
{
    struct sample s = sample_make(h, ROWS);
    const gram_column *targets[] = {&s.number, &s.label};
    gram_machine_options o = SAMPLE_OPTIONS;
    gram_machine *m;

    o.metric = GRAM_METRIC_ARD;
    o.iterations = 2;
    for (int t = 0; t < 2; t++) {
        m = sample_fit(h, &s, targets[t], &o);
        CHECK(h, m->leaf[0].metric.w[1] < 0.1 * m->leaf[0].metric.w[0], "the weights are %g and %g",
              m->leaf[0].metric.w[0], m->leaf[0].metric.w[1]);
        CHECK(h, strstr(gram_machine_describe(m), "\"metric\": \"ard\"") != NULL, "%s",
              gram_machine_describe(m));
        gram_machine_destroy(m);
    }
    sample_destroy(&s);
}

/* Rounds of learning do not change by rounding what the caller gave. */
static void what_is_given_stays(struct harness *h)
{
    static const char *const names[] = {"\"bandwidth\": ", "\"regularization\": "};
    struct sample s = sample_make(h, 200);
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    gram_machine *m;

    o.bandwidth = 2; /* whose root is rounded up */
    o.regularization = 0.07;
    m = sample_fit(h, &s, &s.number, &o);
    for (int i = 0; i < 2; i++) {
        const double given = i ? o.regularization : o.bandwidth;
        int count = 0;

        for (const char *t = gram_machine_describe(m); (t = strstr(t, names[i])); t++, count++)
            CHECK(h, strtod(strchr(t, ':') + 1, NULL) == given, "%s%.17g, given was %g", names[i],
                  strtod(strchr(t, ':') + 1, NULL), given);
        CHECK(h, count > 10, "%s is told %d times", names[i], count);
    }
    gram_machine_destroy(m);
    sample_destroy(&s);
}

static const struct test_function tests[] = {
    {  "steps_end_where_it_is_flat",   steps_end_where_it_is_flat},
    {  "bandwidths_come_in_medians",   bandwidths_come_in_medians},
    {"constant_outputs_say_nothing", constant_outputs_say_nothing},
    {        "noise_does_not_count",         noise_does_not_count},
    {         "what_is_given_stays",          what_is_given_stays},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}

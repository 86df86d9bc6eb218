/*
 * test_machine_logistic.c - kernel logistic regression: its minimum, its leave-one-out, whole fits
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/random.h"
#include "machine/machine_logistic.h"
#include "machine_sample.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    POINTS = 60,
    WIDTH = 2
};

static const double ridge = 0.05, bandwidth = 1.5;

struct points {
    double x[POINTS * WIDTH], y[POINTS], weights[POINTS];
    struct machine_data data;
};

/* Two classes that overlap. */
static void make(struct points *p, bool weighted)
{
    uint64_t seed = 5;

    for (int i = 0; i < POINTS; i++) {
        const double a = p->x[i * WIDTH] = 4 * gram_random_unit(&seed) - 2;
        const double b = p->x[i * WIDTH + 1] = 4 * gram_random_unit(&seed) - 2;

        p->y[i] = gram_random_unit(&seed) < 1 / (1 + exp(-2 * (a + b * b - 1)));
        p->weights[i] = 0.2 + 3 * gram_random_unit(&seed);
    }
    p->data = (struct machine_data){.rows = POINTS,
                                    .width = WIDTH,
                                    .outputs = 1,
                                    .dtype = GRAM_F64,
                                    .x = (const char *)p->x,
                                    .y = (const char *)p->y,
                                    .weights = weighted ? p->weights : NULL};
}

static const struct machine_params usual = {.p = 2,
                                            .q = 1,
                                            .ridge = 0.05,
                                            .loss = GRAM_LOSS_LOGISTIC,
                                            .solver = GRAM_SOLVER_CHOLESKY,
                                            .tolerance = 1e-8};

/* f = K a by plain loops, at points of x. */
static double value_at(const struct points *p, const double *a, const double *z, int64_t rows)
{
    double sum = 0;

    for (int64_t j = 0; j < rows; j++)
        sum += a[j] * exp(-hypot(p->x[j * WIDTH] - z[0], p->x[j * WIDTH + 1] - z[1]) / bandwidth);
    return sum;
}

static void solve(struct harness *h, const struct machine_data *data, double *a,
                  struct machine_logistic *system)
{
    struct machine_report report = {0};

    CHECK(h, gram_machine_logistic_open(h->g, data->rows, system) == GRAM_OK, "open");
    CHECK(h,
          gram_machine_logistic_fit(h->g, &usual, bandwidth, data, a, system, &report) == GRAM_OK,
          "%s", gram_message(h->g));
    CHECK(h, report.ridge == ridge, "a ridge of %g", report.ridge);
}

/* J is convex, and where its gradient K (r a - s (t - p)) is 0 it is least. */
static void expect_minimum(struct harness *h, bool weighted)
{
    struct machine_logistic system = {0};
    struct points p;
    double a[POINTS];

    make(&p, weighted);
    h->g->call = "test";
    solve(h, &p.data, a, &system);
    gram_machine_logistic_close(h->g, &system);
    for (int i = 0; i < POINTS; i++) {
        const double f = value_at(&p, a, p.x + (size_t)i * WIDTH, POINTS);
        const double rest = (weighted ? p.weights[i] : 1) * (p.y[i] - 1 / (1 + exp(2 - 4 * f)));

        CHECK(h, fabs(ridge * a[i] - rest) < 1e-3, "row %d: %g and %g", i, ridge * a[i], rest);
    }
}

static void the_minimum_is_found(struct harness *h)
{
    expect_minimum(h, false);
    expect_minimum(h, true);
}

/* The leave-one-out outputs of the last system against fits of all rows but the last one, which is
 * a different one each time. */
static void leaving_out_is_near_the_truth(struct harness *h)
{
    const gram_kernel_options kernel = gram_machine_kernel(2, 1, bandwidth);
    struct machine_logistic system = {0};
    struct machine_data z;
    struct points p;
    double a[POINTS], out[POINTS], wrong = 0, moved = 0;

    make(&p, false);
    h->g->call = "test";
    solve(h, &p.data, a, &system);
    z = p.data;
    z.y = system.target;
    z.weights = system.weight;
    CHECK(h,
          gram_machine_loo(h->g, &(struct machine_loo){.kernel = &kernel,
                                                       .z = &z,
                                                       .ridge = &ridge,
                                                       .count = 1,
                                                       .out = out,
                                                       .alpha = a}) == GRAM_OK,
          "%s", gram_message(h->g));
    gram_machine_logistic_close(h->g, &system);
    solve(h, &p.data, a, &system);
    gram_machine_logistic_close(h->g, &system);
    for (int i = 0; i < 20; i++) {
        struct points q = p;
        struct machine_data rest = p.data;
        double b[POINTS], f = value_at(&p, a, p.x + (size_t)i * WIDTH, POINTS), exact;

        memcpy(q.x + (size_t)i * WIDTH, p.x + (size_t)(POINTS - 1) * WIDTH, WIDTH * sizeof *q.x);
        q.y[i] = p.y[POINTS - 1];
        rest.x = (const char *)q.x;
        rest.y = (const char *)q.y;
        rest.rows = POINTS - 1;
        solve(h, &rest, b, &system);
        gram_machine_logistic_close(h->g, &system);
        exact = value_at(&q, b, p.x + (size_t)i * WIDTH, POINTS - 1);
        wrong += fabs(out[i] - exact);
        moved += fabs(f - exact);
    }
    CHECK(h, wrong < 0.2 * moved, "%g of %g", wrong, moved);
}

/* Whether the number of the sample is above about its median. */
static gram_column two_classes(const struct sample *s)
{
    double *above = must_allocate((size_t)s->rows * sizeof *above);

    for (int64_t i = 0; i < s->rows; i++)
        above[i] = s->y[i] > 10.3;
    return (gram_column){.name = "above", .numbers = above};
}

/* What the machine itself was learned by: trials that a description lists may have another loss. */
static bool learned_by_logistic_loss(const gram_machine *m)
{
    const char *chosen = strstr(gram_machine_describe(m), "\"hyperparameters\"");
    const char *loss = chosen ? strstr(chosen, "\"loss\": \"logistic\"") : NULL;

    return loss && loss < strchr(chosen, '}');
}

static void a_machine_is_logistic(struct harness *h)
{
    struct sample s = sample_make(h, 300);
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    const gram_column above = two_classes(&s);

    o.task = GRAM_CLASSIFICATION;
    for (int way = 0; way < 3; way++) {
        gram_machine *m;
        double score;

        o.loss = way == 1 ? GRAM_LOSS_SQUARED : GRAM_LOSS_LOGISTIC;
        o.search = way == 2 ? -1 : 0;
        m = sample_fit(h, &s, &above, &o);
        score = sample_score(h, m, &s, &above);
        CHECK(h, score > 0.9, "an accuracy of %g", score);
        CHECK(h, learned_by_logistic_loss(m) == (way != 1), "%.400s", gram_machine_describe(m));
        gram_machine_destroy(m);
    }
    free((void *)above.numbers);
    sample_destroy(&s);
}

static void what_has_no_two_classes_is_refused(struct harness *h)
{
    struct sample s = sample_make(h, 300);
    const gram_column above = two_classes(&s);
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    gram_machine *m = NULL;

    o.loss = GRAM_LOSS_LOGISTIC;
    for (int way = 0; way < 3; way++) {
        const gram_column *target = way == 0 ? &s.number : way == 1 ? &s.label : &above;

        o.task = way > 1 ? GRAM_CLASSIFICATION : GRAM_TASK_AUTO;
        o.leaf_rows = way > 1 ? 100 : 0;
        CHECK(h,
              gram_machine_fit(h->g, table_of(&s), target, &o, &m) == GRAM_INVALID_ARGUMENT &&
                  strstr(gram_message(h->g), way > 1 ? "one leaf" : "two classes"),
              "%d: %s", way, gram_message(h->g));
    }
    o = (gram_machine_options)GRAM_MACHINE_OPTIONS_INIT;
    o.loss = (gram_loss)3;
    CHECK(h, gram_machine_fit(h->g, table_of(&s), &s.label, &o, &m) == GRAM_INVALID_ARGUMENT, "%s",
          gram_message(h->g));
    free((void *)above.numbers);
    sample_destroy(&s);
}

static const struct test_function tests[] = {
    {              "the_minimum_is_found",               the_minimum_is_found},
    {     "leaving_out_is_near_the_truth",      leaving_out_is_near_the_truth},
    {             "a_machine_is_logistic",              a_machine_is_logistic},
    {"what_has_no_two_classes_is_refused", what_has_no_two_classes_is_refused},
};

int main(void)
{
    return harness_run_tests(tests, (int)(sizeof tests / sizeof *tests));
}

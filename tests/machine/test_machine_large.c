/*
 * test_machine_large.c - machines of few centres, and leaves that correct them
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine/machine_centres.h"
#include "machine_sample.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- The normal equations -------------------------------------------------------------------- */

enum {
    POINTS = 1500, /* more than one block of rows */
    CENTRES = 20,
    WIDTH = 3,
    OUTPUTS = 2
};

static double kernel_of(const double *x, const double *z, double p, double q, double bandwidth)
{
    double sum = 0;

    for (int j = 0; j < WIDTH; j++)
        sum += pow(fabs(x[j] - z[j]), p);
    return exp(-pow(pow(sum, 1 / p) / bandwidth, q));
}

/* a = k^-1 a by elimination without pivots: k is positive definite. */
static void eliminate(double k[CENTRES][CENTRES], double a[CENTRES][OUTPUTS])
{
    for (int c = 0; c < CENTRES; c++)
        for (int i = 0; i < CENTRES; i++) {
            double f = i == c ? 0 : k[i][c] / k[c][c];

            for (int j = 0; j < CENTRES; j++)
                k[i][j] -= f * k[c][j];
            for (int j = 0; j < OUTPUTS; j++)
                a[i][j] -= f * a[c][j];
        }
    for (int i = 0; i < CENTRES; i++)
        for (int j = 0; j < OUTPUTS; j++)
            a[i][j] /= k[i][i];
}

/* What the coefficients of the first CENTRES points as centres have to be, with the weights of the
 * rows if they have any. */
static void solve_plainly(const struct machine_params *params, const struct machine_data *data,
                          double ridge, double a[CENTRES][OUTPUTS])
{
    const double *x = (const double *)(const void *)data->x;
    const double *y = (const double *)(const void *)data->y;
    static double k[CENTRES][CENTRES];

    memset(a, 0, sizeof(double[CENTRES][OUTPUTS]));
    for (int i = 0; i < CENTRES; i++)
        for (int j = 0; j < CENTRES; j++)
            k[i][j] = ridge * kernel_of(x + i * WIDTH, x + j * WIDTH, params->p, params->q,
                                        params->bandwidth);
    for (int64_t n = 0; n < data->rows; n++) {
        const double w = data->weights ? data->weights[n] : 1;
        double row[CENTRES];

        for (int i = 0; i < CENTRES; i++)
            row[i] =
                kernel_of(x + n * WIDTH, x + i * WIDTH, params->p, params->q, params->bandwidth);
        for (int i = 0; i < CENTRES; i++) {
            for (int j = 0; j < CENTRES; j++)
                k[i][j] += w * row[i] * row[j];
            for (int j = 0; j < OUTPUTS; j++)
                a[i][j] += w * row[i] * y[j * data->rows + n];
        }
    }
    eliminate(k, a);
}

/* The values at the points are those of plain loops in double. */
static void expect_plain_values(struct harness *h, bool weighted)
{
    static double x[POINTS * WIDTH], y[OUTPUTS * POINTS], f[OUTPUTS * POINTS], w[POINTS],
        a[CENTRES][OUTPUTS];
    const struct machine_params params = {.p = 1.5, .q = 1.2, .bandwidth = 0.7};
    const struct machine_data data = {.rows = POINTS,
                                      .width = WIDTH,
                                      .outputs = OUTPUTS,
                                      .dtype = GRAM_F64,
                                      .x = (char *)x,
                                      .y = (char *)y,
                                      .weights = weighted ? w : NULL};
    struct machine_metric metric = {0};
    struct machine_centres centres = {0};
    struct machine_leaf leaf = {0};
    double worst = 0;

    for (int i = 0; i < POINTS * WIDTH; i++)
        x[i] = test_uniform(h);
    for (int i = 0; i < POINTS * OUTPUTS; i++)
        y[i] = sin(3 * x[i % POINTS * WIDTH]) + test_uniform(h);
    for (int i = 0; i < POINTS; i++)
        w[i] = exp(4 * test_uniform(h));
    CHECK(h,
          gram_machine_metric_create(h->g, WIDTH, false, &metric) == GRAM_OK &&
              gram_machine_centres_open(h->g, &params, &metric, &data, CENTRES, &centres) ==
                  GRAM_OK &&
              gram_machine_centres_add(h->g, &centres, &data, POINTS) == GRAM_OK &&
              gram_machine_centres_leaf(h->g, &centres, 0.1, &leaf) == GRAM_OK &&
              gram_machine_leaf_predict(h->g, &leaf, POINTS, x, f) == GRAM_OK,
          "%s", gram_message(h->g));
    solve_plainly(&params, &data, 0.1, a);
    for (int i = 0; i < POINTS; i++)
        for (int j = 0; j < OUTPUTS; j++) {
            double expected = 0;

            for (int c = 0; c < CENTRES; c++)
                expected += a[c][j] * kernel_of(x + i * WIDTH, x + c * WIDTH, params.p, params.q,
                                                params.bandwidth);
            worst = fmax(worst, fabs(f[j * POINTS + i] - expected));
        }
    CHECK(h, worst < 1e-6, "values differ by %g", worst);
    gram_machine_leaf_destroy(h->g, &leaf);
    gram_machine_centres_close(h->g, &centres);
    gram_machine_metric_destroy(&metric);
}

static void check_normal_equations(struct harness *h)
{
    expect_plain_values(h, false);
}

static void check_weighted_equations(struct harness *h)
{
    expect_plain_values(h, true);
}

/* ---- Whole fits ------------------------------------------------------------------------------ */

static double number_of(const gram_machine *m, const char *name)
{
    const char *at = strstr(gram_machine_describe(m), name);

    return at ? strtod(strchr(at, ':') + 1, NULL) : NAN;
}

static void check_saved(struct harness *h, const gram_machine *m, struct sample *s)
{
    char path[] = "/tmp/gram-large-XXXXXX";
    int file = mkstemp(path);
    gram_machine *back = NULL;

    if (file < 0)
        exit(EXIT_FAILURE);
    close(file);
    CHECK(h,
          gram_machine_save(h->g, m, path) == GRAM_OK &&
              gram_machine_load(h->g, path, &back) == GRAM_OK,
          "%s", gram_message(h->g));
    if (back) {
        expect_alike(h, m, back, s, 0);
        CHECK(h, back->base.rows == m->base.rows, "%lld centres came back",
              (long long)back->base.rows);
    }
    gram_machine_destroy(back);
    unlink(path);
}

/* Few centres are a poor machine, which leaves correct. */
static void check_corrections(struct harness *h)
{
    struct sample s = sample_make(h, ROWS), fresh = sample_make(h, NEW_ROWS);
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    gram_machine *m;
    double error;

    o.centres = 12;
    o.leaf_rows = 200;
    m = sample_fit(h, &s, &s.number, &o);
    CHECK(h, m->base.rows == 12 && m->leaves > 2, "%lld centres, %lld leaves",
          (long long)m->base.rows, (long long)m->leaves);
    CHECK(h, number_of(m, "\"centres\"") == 12 && strstr(gram_machine_describe(m), "held_out"),
          "%.300s", gram_machine_describe(m));
    error = sample_score(h, m, &fresh, &fresh.number);
    CHECK(h, error < 0.1, "an error of %g", error);
    error /= number_of(m, "\"score\"");
    CHECK(h, error > 0.5 && error < 2, "%g times the error of the rows held out", error);
    check_saved(h, m, &fresh);
    gram_machine_destroy(m);
    sample_destroy(&s);
    sample_destroy(&fresh);
}

/* What is given is not varied, and no centres are none. */
static void check_given(struct harness *h)
{
    struct sample s = sample_make(h, ROWS);
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    gram_machine *m;

    o.centres = 100;
    o.p = 1.7;
    o.q = 1.1;
    o.bandwidth = 3;
    o.regularization = 0.05;
    o.iterations = -1;
    m = sample_fit(h, &s, &s.number, &o);
    CHECK(h,
          m->leaf->p == 1.7 && m->leaf->q == 1.1 && m->leaf->bandwidth == 3 &&
              number_of(m, "\"regularization\"") == 0.05,
          "%s", gram_machine_describe(m));
    gram_machine_destroy(m);
    o.centres = -1;
    m = sample_fit(h, &s, &s.number, &o);
    CHECK(h, m->base.rows == 0 && isnan(number_of(m, "\"centres\"")), "%s",
          gram_machine_describe(m));
    gram_machine_destroy(m);
    sample_destroy(&s);
}

static void check_classes(struct harness *h)
{
    struct sample s = sample_make(h, ROWS);
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    gram_machine *m;
    double score;

    o.centres = 40;
    m = sample_fit(h, &s, &s.label, &o);
    score = sample_score(h, m, &s, &s.label);
    CHECK(h, score > 0.95, "an accuracy of %g", score);
    gram_machine_destroy(m);
    sample_destroy(&s);
}

/* A round that begins where another one has does not train its centres again: trials of a level
 * have scores of their own. */
static void check_once(struct harness *h)
{
    struct sample s = sample_make(h, ROWS);
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    double level[200], found[200];
    int count = 0;
    gram_machine *m;

    o.centres = 40;
    m = sample_fit(h, &s, &s.number, &o);
    for (const char *t = gram_machine_describe(m); (t = strstr(t, "\"level\": ")) && count < 200;
         t++) {
        const char *centres = strstr(t, "\"centres\"");

        if (!centres || centres > strchr(t, '}'))
            continue;
        level[count] = strtod(strchr(t, ':') + 1, NULL);
        found[count++] = strtod(strstr(t, "\"score\": ") + 9, NULL);
    }
    CHECK(h, count > 10, "%d trials by centres", count);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            CHECK(h, level[i] != level[j] || found[i] != found[j], "a score of %g twice", found[i]);
    gram_machine_destroy(m);
    sample_destroy(&s);
}

static void check_refused(struct harness *h)
{
    struct sample s = sample_make(h, ROWS);
    gram_machine *m = NULL;

    for (int way = 0; way < 4; way++) {
        gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;

        o.centres = way == 0 ? 9 : way == 1 ? -2 : 50;
        o.search = way == 2 ? -1 : 0;
        o.ensemble = way == 3 ? 2 : 0;
        CHECK(h,
              gram_machine_fit(h->g, table_of(&s), &s.number, &o, &m) == GRAM_INVALID_ARGUMENT &&
                  strstr(gram_message(h->g), "centres"),
              "%d: %s", way, gram_message(h->g));
    }
    sample_destroy(&s);
}

/* Rows of next to no weight have wrong targets: neither the base, nor the leaves, nor the choices
 * by the rows held out may learn from them. */
static void check_weights(struct harness *h)
{
    struct sample s = sample_make(h, ROWS), fresh = sample_make(h, NEW_ROWS);
    double *weights = must_allocate(ROWS * sizeof *weights);
    double *wrong = must_allocate(ROWS * sizeof *wrong);
    const gram_column spoiled = {s.number.name, wrong, NULL};
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    gram_machine *m;
    double error[2];

    for (int i = 0; i < ROWS; i++) {
        weights[i] = i % 3 ? 1 + i % 2 : 1e-6;
        wrong[i] = i % 3 ? s.number.numbers[i] : -s.number.numbers[i];
    }
    o.centres = 60;
    o.leaf_rows = 300;
    for (int way = 0; way < 2; way++) {
        o.weights = way ? weights : NULL;
        m = sample_fit(h, &s, &spoiled, &o);
        CHECK(h, strstr(gram_machine_describe(m), "held_out") != NULL, "%.300s",
              gram_machine_describe(m));
        error[way] = sample_score(h, m, &fresh, &fresh.number);
        gram_machine_destroy(m);
    }
    CHECK(h, error[1] < 0.15 && error[0] > 2 * error[1],
          "an error of %g with weights, of %g without", error[1], error[0]);
    free(weights);
    free(wrong);
    sample_destroy(&s);
    sample_destroy(&fresh);
}

static void check_class_weights(struct harness *h)
{
    struct sample s = sample_make(h, ROWS);
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    gram_machine *m;
    double score;

    o.centres = 40;
    o.class_weights = -1; /* balanced */
    m = sample_fit(h, &s, &s.label, &o);
    score = sample_score(h, m, &s, &s.label);
    CHECK(h, score > 0.9 && strstr(gram_machine_describe(m), "held_out"), "an accuracy of %g",
          score);
    gram_machine_destroy(m);
    sample_destroy(&s);
}

static const struct test_function tests[] = {
    {"normal_equations_are_those_of_plain_loops",   check_normal_equations},
    {             "weights_are_in_the_equations", check_weighted_equations},
    {     "leaves_correct_what_few_centres_miss",        check_corrections},
    {              "what_is_given_is_not_varied",              check_given},
    {                      "classes_are_learned",            check_classes},
    {           "weights_of_rows_are_learned_by",            check_weights},
    {        "weights_of_classes_are_learned_by",      check_class_weights},
    {            "what_is_impossible_is_refused",            check_refused},
    {                 "nothing_is_trained_twice",               check_once},
};

int main(void)
{
    return harness_run_tests(tests, (int)(sizeof tests / sizeof *tests));
}

/*
 * test_large_machine.c - what a fit does where rows are more than the search looks at
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "core/random.h"
#include "machine/machine.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 500,
    WIDTH = 3,
    OUTPUTS = 2,
    MANY_ROWS = 8200, /* beyond the least rows of machine_wide.c */
    NEW_ROWS = 4000
};

/* Rows, targets and weights: sums of sines with noise. */
struct made {
    gram_dtype dtype;
    char *x, *y;
    double weights[ROWS];
    struct machine_data data;
};

static double signal(const double *x, int64_t output)
{
    return sin(3 * x[0] + (double)output) * x[1] + 0.5 * x[2];
}

static double noise(uint64_t *state)
{
    double sum = 0;

    for (int i = 0; i < 12; i++)
        sum += gram_random_unit(state) - 0.5;
    return sum;
}

static void make(struct made *m, gram_dtype dtype, bool weighted, double level)
{
    uint64_t state = 5;

    m->dtype = dtype;
    m->x = malloc((size_t)(ROWS * WIDTH) * 8);
    m->y = malloc((size_t)(ROWS * OUTPUTS) * 8);
    if (!m->x || !m->y)
        exit(EXIT_FAILURE);
    for (int64_t i = 0; i < ROWS; i++) {
        double row[WIDTH];

        for (int64_t j = 0; j < WIDTH; j++) {
            row[j] = 2 * gram_random_unit(&state) - 1;
            krr_set_element(dtype, m->x, i * WIDTH + j, row[j]);
        }
        for (int64_t j = 0; j < OUTPUTS; j++)
            krr_set_element(dtype, m->y, j * ROWS + i, signal(row, j) + level * noise(&state));
        m->weights[i] = 0.5 + 2 * gram_random_unit(&state);
    }
    m->data = (struct machine_data){.rows = ROWS,
                                    .width = WIDTH,
                                    .outputs = OUTPUTS,
                                    .dtype = dtype,
                                    .x = m->x,
                                    .y = m->y,
                                    .weights = weighted ? m->weights : NULL};
}

static void made_free(struct made *m)
{
    free(m->x);
    free(m->y);
}

static const struct machine_params usual = {.p = 2,
                                            .q = 1.4,
                                            .bandwidth = 1,
                                            .ridge = 0.1,
                                            .tolerance = 1e-3,
                                            .solver = GRAM_SOLVER_CHOLESKY};

/* The mean over outputs of the weighted mean squared exact leave-one-out residual. */
static double error_at(struct harness *h, const struct made *m, double ridge)
{
    static double f[ROWS * OUTPUTS];
    const gram_kernel_options kernel = gram_machine_kernel(usual.p, usual.q, usual.bandwidth);
    char *alpha = malloc((size_t)(ROWS * OUTPUTS) * 8);
    const struct machine_loo loo = {
        .kernel = &kernel, .z = &m->data, .ridge = &ridge, .count = 1, .out = f, .alpha = alpha};
    double sum = 0, weights = 0;

    CHECK(h, alpha && gram_machine_loo(h->g, &loo) == GRAM_OK, "%s", gram_message(h->g));
    free(alpha);
    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t j = 0; j < OUTPUTS; j++) {
            double w = m->data.weights ? m->weights[i] : 1;
            double d = f[j * ROWS + i] - krr_element(m->dtype, m->y, j * ROWS + i);

            sum += w * d * d;
            weights += w;
        }
    return sum / weights;
}

/* The outputs are those of a leaf of the other rows at the ridge that was chosen. */
static void check_outputs(struct harness *h, const struct made *m,
                          const struct machine_params *params, const struct machine_held_out *held)
{
    const size_t size = gram_dtype_size(m->dtype);
    const struct machine_data none = {0};
    struct machine_data rest = m->data;
    struct machine_report report = {0};
    struct machine_leaf leaf = {0};
    char *y = malloc((size_t)(ROWS * OUTPUTS) * size);
    double *f = calloc((size_t)(held->count * OUTPUTS), sizeof *f), apart = 0;

    if (!y || !f)
        exit(EXIT_FAILURE);
    rest.rows = held->first;
    for (int64_t j = 0; j < OUTPUTS; j++)
        memcpy(y + (size_t)(j * rest.rows) * size, m->y + (size_t)(j * ROWS) * size,
               (size_t)rest.rows * size);
    rest.y = y;
    CHECK(h,
          gram_machine_leaf_fit(h->g, params, &rest, &none, &leaf, &report) == GRAM_OK &&
              gram_machine_leaf_predict(h->g, &leaf, held->count,
                                        m->x + (size_t)(held->first * WIDTH) * size, f) == GRAM_OK,
          "%s", gram_message(h->g));
    for (int64_t i = 0; i < held->count * OUTPUTS; i++)
        apart = fmax(apart, fabs(f[i] - held->f[i]));
    CHECK(h, apart < 1e-5, "outputs are %g apart", apart);
    gram_machine_leaf_destroy(h->g, &leaf);
    free(y);
    free(f);
}

/* A ridge that was chosen from few rows, far off on either side, comes back to where the exact
 * leave-one-out error is about least. */
static void one_refit(struct harness *h, gram_dtype dtype, bool weighted)
{
    double least = INFINITY;
    struct made m;

    make(&m, dtype, weighted, 0.5);
    for (int i = -10; i < 7; i++)
        least = fmin(least, error_at(h, &m, ldexp(1, i)));
    for (int side = 0; side < 2; side++) {
        struct machine_params params = usual;
        struct machine_report report = {0};
        struct machine_held_out held = {0};
        struct machine_leaf leaf;
        double found;

        params.ridge = side ? 20 : 0.02;
        params.ridge_chosen = true;
        CHECK(h, gram_machine_refit(h->g, &params, &m.data, 0, &report, &held, &leaf) == GRAM_OK,
              "%s", gram_message(h->g));
        CHECK(h, held.first == ROWS - ROWS / 10 && held.count == ROWS / 10, "rows %lld and %lld",
              (long long)held.first, (long long)held.count);
        found = error_at(h, &m, params.ridge);
        CHECK(h, found < 1.1 * least, "ridge %g: %g, at best %g", params.ridge, found, least);
        check_outputs(h, &m, &params, &held);
        CHECK(h, leaf.rows == ROWS - ROWS / 10, "a leaf of %lld rows", (long long)leaf.rows);
        gram_machine_leaf_destroy(h->g, &leaf);
        free(held.f);
    }
    made_free(&m);
}

static void the_ridge_is_that_of_all_rows(struct harness *h)
{
    one_refit(h, GRAM_F64, false);
    one_refit(h, GRAM_F32, false);
    one_refit(h, GRAM_F32, true);
}

/* A ridge that was given stays. */
static void a_given_ridge_is_not_varied(struct harness *h)
{
    struct machine_params params = usual;
    struct machine_report report = {0};
    struct machine_held_out held = {0};
    struct machine_leaf leaf;
    struct made m;

    make(&m, GRAM_F64, false, 0.5);
    params.ridge = 20;
    CHECK(h, gram_machine_refit(h->g, &params, &m.data, 0, &report, &held, &leaf) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h, params.ridge == 20, "ridge %g", params.ridge);
    check_outputs(h, &m, &params, &held);
    gram_machine_leaf_destroy(h->g, &leaf);
    free(held.f);
    made_free(&m);
}

/* ---- A whole fit ----------------------------------------------------------------------------- */

struct table {
    double x[WIDTH][MANY_ROWS], y[MANY_ROWS];
    gram_column column[WIDTH], target;
    gram_table table;
};

static void fill(struct table *t, int64_t rows, uint64_t seed)
{
    static const char *const names[WIDTH] = {"a", "b", "c"};

    for (int64_t i = 0; i < rows; i++) {
        double row[WIDTH];

        for (int j = 0; j < WIDTH; j++)
            row[j] = t->x[j][i] = 2 * gram_random_unit(&seed) - 1;
        t->y[i] = signal(row, 0) + 0.3 * noise(&seed);
    }
    for (int j = 0; j < WIDTH; j++)
        t->column[j] = (gram_column){.name = names[j], .numbers = t->x[j]};
    t->target = (gram_column){.name = "y", .numbers = t->y};
    t->table = (gram_table){rows, WIDTH, t->column};
}

/* A number of the member "held_out" of a description, by its name; NaN: it is not there. */
static double held_out(const gram_machine *machine, const char *name)
{
    const char *at = strstr(gram_machine_describe(machine), "\"held_out\": {");

    at = at ? strstr(at, name) : NULL;
    return at ? strtod(at + strlen(name), NULL) : NAN;
}

/* The score is that of a machine with nine tenths of its rows, not of one with the 3,000 rows of
 * the search's last level. */
static void the_score_is_that_of_all_rows(struct harness *h)
{
    static struct table train, fresh;
    gram_machine_options options = GRAM_MACHINE_OPTIONS_INIT;
    gram_machine_score found = {.size = sizeof found};
    gram_machine *machine = NULL;
    double rows, score;

    fill(&train, MANY_ROWS, 1);
    fill(&fresh, NEW_ROWS, 2);
    options.p = options.q = 2;
    options.bandwidth = 1.5;
    options.iterations = -1;
    CHECK(h,
          gram_machine_fit(h->g, &train.table, &train.target, &options, &machine) == GRAM_OK &&
              gram_machine_evaluate(h->g, machine, &fresh.table, &fresh.target, &found) == GRAM_OK,
          "%s", gram_message(h->g));
    if (!machine)
        return;
    rows = held_out(machine, "\"rows\": ");
    score = held_out(machine, "\"score\": ");
    CHECK(h, (int64_t)rows == MANY_ROWS / 10, "%g rows are scored", rows);
    CHECK(h, fabs(score - found.score) < 0.08 * found.score, "held out %g, new rows %g", score,
          found.score);
    gram_machine_destroy(machine);
}

static const struct test_function tests[] = {
    {"the_ridge_is_that_of_all_rows", the_ridge_is_that_of_all_rows},
    {  "a_given_ridge_is_not_varied",   a_given_ridge_is_not_varied},
    {"the_score_is_that_of_all_rows", the_score_is_that_of_all_rows},
};

int main(void)
{
    return harness_run_tests(tests, (int)(sizeof tests / sizeof *tests));
}

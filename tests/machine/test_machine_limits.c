/*
 * test_machine_limits.c - how many rows a leaf has, and a leaf whose kernel matrix is not stored
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
    MANY = 40000, /* rows of a job */
    FEW = 2000,   /* whose solves take a small part of the time that there is on any machine */
    WIDTH = 3,
    OUTPUTS = 2,
    ROWS = 700, /* of a leaf */
    NEW_ROWS = 50
};

/* What the matrix of MANY rows takes in f32, half of it. */
static const double matrix = 2.0 * MANY * MANY;

/* ---- Rows ------------------------------------------------------------------------------------ */

static struct machine_job job_of(const gram_table *table, int64_t rows, double memory)
{
    struct machine_job job = {.table = table, .rows = rows, .o = GRAM_MACHINE_OPTIONS_INIT};

    job.o.memory_limit = (int64_t)memory;
    job.o.dtype = GRAM_F32;
    return job;
}

static void rows_follow_from_memory(struct harness *h)
{
    const gram_table table = {MANY, WIDTH, NULL};
    const struct {
        int64_t rows;
        double memory;
        gram_solver solver;
        int64_t asked, expected; /* leaf_rows; 0: what is stored */
    } cases[] = {
        {    MANY,  2 * matrix,     GRAM_SOLVER_AUTO,   0, MANY},
        {    MANY,  matrix / 2,     GRAM_SOLVER_AUTO,   0, MANY}, /* by products */
        {    MANY,  matrix / 2,       GRAM_SOLVER_CG,   0, MANY},
        {    MANY,  matrix / 2, GRAM_SOLVER_CHOLESKY,   0,    0},
        {    MANY,  matrix / 2,     GRAM_SOLVER_AUTO, 900,  900},
        {    MANY, matrix / 40,     GRAM_SOLVER_AUTO,   0,    0}, /* not even products */
        {MANY / 2, matrix / 10,     GRAM_SOLVER_AUTO,   0,    0}, /* too few rows */
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct machine_job job = job_of(&table, cases[i].rows, cases[i].memory);

        job.o.solver = cases[i].solver;
        job.o.leaf_rows = cases[i].asked;
        gram_machine_limits(h->g, &job);
        CHECK(h, job.memory == cases[i].memory, "case %zu: %g bytes", i, job.memory);
        CHECK(h,
              job.leaf_rows == (cases[i].expected ? cases[i].expected : job.stored_rows) &&
                  (job.stored_rows == MANY) == (i == 0) && job.stored_rows > 2000,
              "case %zu: %lld rows, %lld are stored", i, (long long)job.leaf_rows,
              (long long)job.stored_rows);
    }
}

/* Points and targets of so many rows, from malloc. */
static struct machine_data data_of(int64_t rows, uint64_t seed)
{
    float *x = malloc((size_t)(rows * WIDTH) * sizeof *x);
    float *y = malloc((size_t)(rows * OUTPUTS) * sizeof *y);

    if (!x || !y)
        exit(EXIT_FAILURE);
    for (int64_t i = 0; i < rows * WIDTH; i++)
        x[i] = (float)(2 * gram_random_unit(&seed) - 1);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < OUTPUTS; j++)
            y[j * rows + i] = sinf(3 * x[i * WIDTH] + (float)j) + x[i * WIDTH + 1];
    return (struct machine_data){.rows = rows,
                                 .width = WIDTH,
                                 .outputs = OUTPUTS,
                                 .dtype = GRAM_F32,
                                 .x = (char *)x,
                                 .y = (char *)y};
}

static void data_free(struct machine_data *data)
{
    free((void *)data->x);
    free((void *)data->y);
}

/* Products that are quick leave all rows in one leaf, and the stage says so; those of many more
 * rows do not. */
static void time_is_a_limit_too(struct harness *h)
{
    const gram_table table = {MANY, WIDTH, NULL};
    struct machine_job job = job_of(&table, MANY, matrix / 2);
    struct machine_recipe recipe = {.members = 1};
    struct machine_data data = data_of(MANY, 1);
    const int64_t rows = data.rows;

    recipe.member[0].params = (struct machine_params){.p = 2, .q = 2};
    gram_machine_limits(h->g, &job);
    data.rows = FEW;
    CHECK(h, gram_machine_look_at_time(h->g, &job, &recipe, &data) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h,
          job.leaf_rows == MANY &&
              strstr(job.about, "training on all 2000 rows at once, about ") == job.about &&
              strstr(job.about, " GiB"),
          "%lld rows: %s", (long long)job.leaf_rows, job.about);
    data.rows = 1000 * rows; /* of which the first are looked at */
    job.about[0] = '\0';
    CHECK(h,
          gram_machine_look_at_time(h->g, &job, &recipe, &data) == GRAM_OK && !*job.about &&
              job.leaf_rows == job.stored_rows,
          "%lld rows: %s", (long long)job.leaf_rows, job.about);
    data.rows = rows;
    data_free(&data);
}

/* ---- A leaf ---------------------------------------------------------------------------------- */

static void train(struct harness *h, const struct machine_params *params,
                  const struct machine_data *data, struct machine_report *report, double *f)
{
    const struct machine_data none = {0};
    struct machine_leaf leaf = {0};

    CHECK(h,
          gram_machine_leaf_fit(h->g, params, data, &none, &leaf, report) == GRAM_OK &&
              gram_machine_leaf_predict(h->g, &leaf, NEW_ROWS, data->x, f) == GRAM_OK,
          "%s", gram_message(h->g));
    gram_machine_leaf_destroy(h->g, &leaf);
}

/* The same leaf as with a factorisation, within what the report says; weights count in that. */
static void what_is_not_stored_is_the_same(struct harness *h)
{
    static double exact[NEW_ROWS * OUTPUTS], found[NEW_ROWS * OUTPUTS];
    struct machine_params params = {.p = 2,
                                    .q = 1.4,
                                    .bandwidth = 1,
                                    .ridge = 0.05,
                                    .tolerance = 1e-4,
                                    .solver = GRAM_SOLVER_CHOLESKY};
    double weights[ROWS], apart = 0;
    struct machine_report report = {0};
    struct machine_data data = data_of(ROWS, 2);

    for (int64_t i = 0; i < ROWS; i++)
        weights[i] = i % 2 ? 1 : 4;
    data.weights = weights;
    train(h, &params, &data, &report, exact);
    CHECK(h, report.iterations == 0 && report.change == 0, "%d iterations", report.iterations);
    params.solver = GRAM_SOLVER_CG;
    params.memory = 1;
    train(h, &params, &data, &report, found);
    for (int i = 0; i < NEW_ROWS * OUTPUTS; i++)
        apart = fmax(apart, fabs(found[i] - exact[i]));
    CHECK(h, report.iterations > 0 && report.residual <= 1e-4, "residual %g", report.residual);
    CHECK(h, report.change > report.residual && report.change < 4 * report.residual && apart < 1e-3,
          "a change of %g for a residual of %g; outputs are %g apart", report.change,
          report.residual, apart);
    data_free(&data);
}

static const struct test_function tests[] = {
    {       "rows_follow_from_memory",        rows_follow_from_memory},
    {           "time_is_a_limit_too",            time_is_a_limit_too},
    {"what_is_not_stored_is_the_same", what_is_not_stored_is_the_same},
};

int main(void)
{
    return harness_run_tests(tests, (int)(sizeof tests / sizeof *tests));
}

/*
 * test_machine.c - what kernel machines learn: targets, solvers, weights, leaves, the search
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_sample.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check_regression(struct harness *h)
{
    struct sample train = sample_make(h, ROWS), fresh = sample_make(h, NEW_ROWS);
    gram_machine_options o = SAMPLE_OPTIONS;

    for (int iterations = 0; iterations <= 2; iterations += 2)
        for (int dtype = GRAM_F32; dtype <= GRAM_F64; dtype++) {
            o.iterations = iterations;
            o.dtype = (gram_dtype)dtype;
            o.regularization = 1e-3;
            gram_machine *m = sample_fit(h, &train, &train.number, &o);
            gram_machine_feature a = {.size = sizeof a}, noise = {.size = sizeof noise};
            double rmse = sample_score(h, m, &fresh, &fresh.number);

            /* y has a deviation of about 0.85; noise alone 0.006 */
            CHECK(h, rmse < (iterations ? 0.05 : 0.12), "rmse %g after %d iterations", rmse,
                  iterations);
            CHECK(h, gram_machine_feature_count(m) == 3, "features");
            CHECK(h,
                  gram_machine_feature_at(h->g, m, 0, &a) == GRAM_OK &&
                      gram_machine_feature_at(h->g, m, 1, &noise) == GRAM_OK,
                  "%s", gram_message(h->g));
            CHECK(h, strcmp(a.name, "a") == 0 && a.categories == 0, "feature 0 is %s", a.name);
            CHECK(h, a.importance > 10 * noise.importance, "importance %g, of noise %g",
                  a.importance, noise.importance);
            CHECK(h, gram_machine_task(m) == GRAM_REGRESSION, "task");
            gram_machine_destroy(m);
        }
    sample_destroy(&train);
    sample_destroy(&fresh);
}

static void check_probabilities(struct harness *h, const gram_machine *m, struct sample *s)
{
    int64_t classes = gram_machine_class_count(m), n = s->rows;
    double *p = must_allocate((size_t)(n * classes) * sizeof *p);
    double *best = must_allocate((size_t)n * sizeof *best);
    gram_tensor proba = gram_matrix(p, n, classes, GRAM_F64),
                index = gram_vector(best, n, GRAM_F64);

    CHECK(h,
          gram_machine_predict_proba(h->g, m, table_of(s), &proba) == GRAM_OK &&
              gram_machine_predict(h->g, m, table_of(s), &index) == GRAM_OK,
          "%s", gram_message(h->g));
    for (int64_t i = 0; i < n; i++) {
        double sum = 0, most = 0;

        for (int64_t j = 0; j < classes; j++) {
            CHECK(h, p[i * classes + j] > 0 && p[i * classes + j] < 1, "probability %g",
                  p[i * classes + j]);
            sum += p[i * classes + j];
            most = fmax(most, p[i * classes + j]);
        }
        CHECK(h, fabs(sum - 1) < 1e-12, "probabilities sum to %.17g", sum);
        CHECK(h, p[i * classes + (int64_t)best[i]] == most, "class %g is not the most probable",
              best[i]);
    }
    free(p);
    free(best);
}

static void check_classification(struct harness *h)
{
    struct sample train = sample_make(h, ROWS), fresh = sample_make(h, NEW_ROWS);
    double *binary = must_allocate(ROWS * sizeof *binary);
    gram_machine_options o = SAMPLE_OPTIONS;
    gram_machine *m = sample_fit(h, &train, &train.label, NULL);

    CHECK(h, gram_machine_class_count(m) == 3, "classes");
    CHECK(h,
          strcmp(gram_machine_class_name(m, 1), "bee") == 0 &&
              gram_machine_class_name(m, 3) == NULL && !gram_machine_classes_are_numbers(m),
          "names of classes");
    CHECK(h, sample_score(h, m, &fresh, &fresh.label) > 0.93, "accuracy %g",
          sample_score(h, m, &fresh, &fresh.label));
    check_probabilities(h, m, &fresh);
    gram_machine_destroy(m);

    for (int i = 0; i < ROWS; i++) /* two values: classes without being told */
        binary[i] = train.a[i] > 0 ? 2.5 : -20;
    gram_column two = {"two", binary, NULL};
    m = sample_fit(h, &train, &two, NULL);
    CHECK(h,
          gram_machine_task(m) == GRAM_CLASSIFICATION && gram_machine_classes_are_numbers(m) &&
              strcmp(gram_machine_class_name(m, 1), "2.5") == 0 &&
              strcmp(gram_machine_class_name(m, 0), "-20") == 0,
          "two numbers as classes");
    CHECK(h, sample_score(h, m, &train, &two) > 0.97, "accuracy %g",
          sample_score(h, m, &train, &two));
    check_probabilities(h, m, &train);
    gram_machine_destroy(m);
    o.task = GRAM_REGRESSION;
    m = sample_fit(h, &train, &two, &o);
    CHECK(h, gram_machine_task(m) == GRAM_REGRESSION, "a task that is given is kept");
    gram_machine_destroy(m);
    free(binary);
    sample_destroy(&train);
    sample_destroy(&fresh);
}

/* Conjugate gradients down to a small residual give what Cholesky gives. */
static void check_solvers(struct harness *h)
{
    struct sample train = sample_make(h, 2500), fresh = sample_make(h, NEW_ROWS);
    gram_machine_options o = SAMPLE_OPTIONS;
    gram_machine *exact, *iterated;

    o.dtype = GRAM_F64;
    o.solver = GRAM_SOLVER_CHOLESKY;
    exact = sample_fit(h, &train, &train.number, &o);
    o.solver = GRAM_SOLVER_CG;
    o.tolerance = 1e-10;
    iterated = sample_fit(h, &train, &train.number, &o);
    CHECK(h, strstr(gram_machine_describe(iterated), "conjugate gradients") != NULL, "%s",
          gram_machine_describe(iterated));
    expect_alike(h, exact, iterated, &fresh, 1e-6);
    gram_machine_destroy(exact);
    gram_machine_destroy(iterated);
    sample_destroy(&train);
    sample_destroy(&fresh);
}

/* A row's prediction does not depend on which rows are predicted with it, beyond f64 rounding. */
static void check_batches(struct harness *h)
{
    struct sample train = sample_make(h, 1000), fresh = sample_make(h, 300);
    double together[300], alone;
    gram_tensor all = gram_vector(together, 300, GRAM_F64), one = gram_vector(&alone, 1, GRAM_F64);
    gram_machine_options o = SAMPLE_OPTIONS;
    gram_machine *m;

    o.regularization = 1e-6; /* large coefficients of both signs */
    m = sample_fit(h, &train, &train.number, &o);
    CHECK(h, gram_machine_predict(h->g, m, table_of(&fresh), &all) == GRAM_OK, "%s",
          gram_message(h->g));
    for (int i = 0; i < 300; i += 13) {
        const gram_column column[3] = {
            {    "a",     fresh.a + i,            NULL},
            {"noise", fresh.noise + i,            NULL},
            {"color",            NULL, fresh.color + i}
        };
        const gram_table row = {1, 3, column};

        CHECK(h, gram_machine_predict(h->g, m, &row, &one) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, fabs(alone - together[i]) <= 1e-9, "row %d: %.17g alone, %.17g with others", i,
              alone, together[i]);
    }
    gram_machine_destroy(m);
    sample_destroy(&train);
    sample_destroy(&fresh);
}

/* A weight of w counts as w equal rows: (K + r / w) on one row or r on w copies of it. */
static void check_weights(struct harness *h)
{
    struct sample one = sample_make(h, 80), two = sample_make(h, 160);
    double *weights = must_allocate(80 * sizeof *weights);
    gram_machine_options o = SAMPLE_OPTIONS;
    gram_machine *weighted, *copied;

    for (int i = 0; i < 160; i++) {
        two.a[i] = one.a[i % 80];
        two.noise[i] = one.noise[i % 80];
        two.color[i] = one.color[i % 80];
        two.y[i] = one.y[i % 80];
    }
    for (int i = 0; i < 80; i++)
        weights[i] = 2;
    o.dtype = GRAM_F64;
    o.bandwidth = 2;
    o.regularization = 0.1;
    copied = sample_fit(h, &two, &two.number, &o);
    o.weights = weights;
    weighted = sample_fit(h, &one, &one.number, &o);
    expect_alike(h, weighted, copied, &one, 1e-9);
    gram_machine_destroy(weighted);
    gram_machine_destroy(copied);
    free(weights);
    sample_destroy(&one);
    sample_destroy(&two);
}

/* Rows that hardly count do not decide which round of feature learning is the best, or how good it
 * is. */
static void check_validation_weights(struct harness *h)
{
    static const char name[] = "\"validation_mse\": ";
    struct sample s = sample_make(h, 200);
    double *weights = must_allocate(200 * sizeof *weights), error = INFINITY;
    gram_machine_options o = SAMPLE_OPTIONS;
    gram_machine *m;
    const char *at;

    for (int i = 0; i < 200; i++) {
        weights[i] = i % 4 ? 1 : 1e-9;
        s.y[i] += i % 4 ? 0 : 100;
    }
    o.iterations = 1;
    o.weights = weights;
    m = sample_fit(h, &s, &s.number, &o);
    at = strstr(gram_machine_describe(m), name);
    error = at ? strtod(at + strlen(name), NULL) : INFINITY;
    CHECK(h, error < 1e-2, "%g, in units of the variance", error);
    gram_machine_destroy(m);
    free(weights);
    sample_destroy(&s);
}

/* Leaves split the rows and still predict well, also where a leaf begins. */
static void check_tree(struct harness *h)
{
    struct sample train = sample_make(h, 3000), fresh = sample_make(h, NEW_ROWS);
    gram_machine_options o = SAMPLE_OPTIONS;
    gram_machine *m;

    o.leaf_rows = 500;
    o.regularization = 1e-3;
    m = sample_fit(h, &train, &train.number, &o);
    CHECK(h,
          strstr(gram_machine_describe(m), "\"rows\": 3000,") != NULL &&
              strstr(gram_machine_describe(m), "\"leaves\": 1,") == NULL,
          "%s", gram_machine_describe(m));
    CHECK(h, sample_score(h, m, &fresh, &fresh.number) < 0.12, "rmse %g",
          sample_score(h, m, &fresh, &fresh.number));
    gram_machine_destroy(m);
    /* Rows that no direction tells apart are shared out all the same. */
    memset(train.a, 0, (size_t)train.rows * sizeof *train.a);
    memset(train.noise, 0, (size_t)train.rows * sizeof *train.noise);
    for (int64_t i = 0; i < train.rows; i++)
        train.color[i] = "red";
    m = sample_fit(h, &train, &train.number, &o);
    gram_machine_destroy(m);
    sample_destroy(&train);
    sample_destroy(&fresh);
}

static void check_search(struct harness *h)
{
    struct sample train = sample_make(h, ROWS), fresh = sample_make(h, NEW_ROWS);
    gram_machine_options o = SAMPLE_OPTIONS;
    gram_machine *plain = sample_fit(h, &train, &train.number, NULL), *searched;
    double before = sample_score(h, plain, &fresh, &fresh.number), after;

    o.search = 1;
    o.time_limit = 3;
    searched = sample_fit(h, &train, &train.number, &o);
    after = sample_score(h, searched, &fresh, &fresh.number);
    CHECK(h, after < before, "rmse %g with a search, %g without", after, before);
    CHECK(h, strstr(gram_machine_describe(searched), "\"search\": [{") != NULL, "no history");
    gram_machine_destroy(searched);
    o.p = 2; /* what is given is not varied */
    o.q = 1;
    o.regularization = 0.5;
    searched = sample_fit(h, &train, &train.label, &o);
    CHECK(h,
          strstr(gram_machine_describe(searched), "\"hyperparameters\": {\"p\": 2, \"q\": 1, ") !=
                  NULL &&
              strstr(gram_machine_describe(searched), "\"regularization\": 0.5,") != NULL,
          "%s", gram_machine_describe(searched));
    gram_machine_destroy(plain);
    gram_machine_destroy(searched);
    sample_destroy(&train);
    sample_destroy(&fresh);
}

int main(void)
{
    struct harness h = {.where = "machine", .random = 1};

    if (gram_context_create(NULL, &h.g) != GRAM_OK)
        return EXIT_FAILURE;
    check_regression(&h);
    check_classification(&h);
    check_solvers(&h);
    check_batches(&h);
    check_weights(&h);
    check_validation_weights(&h);
    check_tree(&h);
    check_search(&h);
    gram_context_destroy(h.g);
    printf("test_machine: %d checks, %d failures\n", h.checks, h.failures);
    return h.failures != 0;
}

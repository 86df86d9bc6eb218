/*
 * test_machine.c - kernel machines: what they learn, keep, refuse and give back
 *
 * The data are made here: y = sin(2 a) + [color is red] + noise, with a column of noise that does
 * not matter; and three classes around three centres.
 *
 * SPDX-License-Identifier: MIT
 */
#include "failing_alloc.h"
#include "harness.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ROWS = 600,
    NEW_ROWS = 200
};

/* A table of three columns, with a target of numbers and one of labels. */
struct sample {
    int64_t rows;
    double *a, *noise, *y;
    const char **color, **kind;
    gram_column column[3];
    gram_table table;
    gram_column number, label;
};

static void *must_allocate(size_t bytes)
{
    void *memory = calloc(1, bytes + 1);

    if (!memory)
        exit(EXIT_FAILURE);
    return memory;
}

static struct sample make(struct harness *h, int64_t rows)
{
    static const char *const colors[] = {"red", "green", "blue"};
    static const char *const kinds[] = {"ant", "bee", "cat"};
    struct sample s = {.rows = rows};

    s.a = must_allocate((size_t)rows * sizeof *s.a);
    s.noise = must_allocate((size_t)rows * sizeof *s.noise);
    s.y = must_allocate((size_t)rows * sizeof *s.y);
    s.color = must_allocate((size_t)rows * sizeof *s.color);
    s.kind = must_allocate((size_t)rows * sizeof *s.kind);
    for (int64_t i = 0; i < rows; i++) {
        int color = (int)(3 * test_uniform(h));
        s.a[i] = 4 * test_uniform(h) - 2;
        s.noise[i] = test_uniform(h);
        s.color[i] = colors[color];
        s.y[i] = 10 + sin(2 * s.a[i]) + (color == 0) + 0.02 * (test_uniform(h) - 0.5);
        s.kind[i] = kinds[s.a[i] < -0.6 ? 0 : s.a[i] < 0.6 ? 1 : 2];
    }
    s.column[0] = (gram_column){"a", s.a, NULL};
    s.column[1] = (gram_column){"noise", s.noise, NULL};
    s.column[2] = (gram_column){"color", NULL, s.color};
    s.number = (gram_column){"y", s.y, NULL};
    s.label = (gram_column){"kind", NULL, s.kind};
    return s;
}

/* The table points into the sample itself, which therefore must have come to rest. */
static const gram_table *table_of(struct sample *s)
{
    s->table = (gram_table){s->rows, 3, s->column};
    return &s->table;
}

static void destroy(struct sample *s)
{
    free(s->a);
    free(s->noise);
    free(s->y);
    free((void *)s->color);
    free((void *)s->kind);
}

static gram_machine *fit(struct harness *h, struct sample *s, const gram_column *target,
                         const gram_machine_options *options)
{
    gram_machine *m = NULL;

    CHECK(h, gram_machine_fit(h->g, table_of(s), target, options, &m) == GRAM_OK, "%s",
          gram_message(h->g));
    if (!m)
        exit(EXIT_FAILURE);
    return m;
}

static double score(struct harness *h, const gram_machine *m, struct sample *s,
                    const gram_column *target)
{
    gram_machine_score result = {.size = sizeof result};

    CHECK(h, gram_machine_evaluate(h->g, m, table_of(s), target, &result) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h, result.rows == s->rows, "%lld rows", (long long)result.rows);
    return result.score;
}

/* ---- What it learns ----------------------------------------------------------------------- */

static void check_regression(struct harness *h)
{
    struct sample train = make(h, ROWS), fresh = make(h, NEW_ROWS);
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;

    for (int iterations = 0; iterations <= 2; iterations += 2)
        for (int dtype = GRAM_F32; dtype <= GRAM_F64; dtype++) {
            o.iterations = iterations;
            o.dtype = (gram_dtype)dtype;
            o.regularization = 1e-3;
            gram_machine *m = fit(h, &train, &train.number, &o);
            gram_machine_feature a = {.size = sizeof a}, noise = {.size = sizeof noise};
            double rmse = score(h, m, &fresh, &fresh.number);

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
    destroy(&train);
    destroy(&fresh);
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
    struct sample train = make(h, ROWS), fresh = make(h, NEW_ROWS);
    double *binary = must_allocate(ROWS * sizeof *binary);
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    gram_machine *m = fit(h, &train, &train.label, NULL);

    CHECK(h, gram_machine_class_count(m) == 3, "classes");
    CHECK(h,
          strcmp(gram_machine_class_name(m, 1), "bee") == 0 &&
              gram_machine_class_name(m, 3) == NULL && !gram_machine_classes_are_numbers(m),
          "names of classes");
    CHECK(h, score(h, m, &fresh, &fresh.label) > 0.93, "accuracy %g",
          score(h, m, &fresh, &fresh.label));
    check_probabilities(h, m, &fresh);
    gram_machine_destroy(m);

    for (int i = 0; i < ROWS; i++) /* two values: classes without being told */
        binary[i] = train.a[i] > 0 ? 2.5 : -20;
    gram_column two = {"two", binary, NULL};
    m = fit(h, &train, &two, NULL);
    CHECK(h,
          gram_machine_task(m) == GRAM_CLASSIFICATION && gram_machine_classes_are_numbers(m) &&
              strcmp(gram_machine_class_name(m, 1), "2.5") == 0 &&
              strcmp(gram_machine_class_name(m, 0), "-20") == 0,
          "two numbers as classes");
    CHECK(h, score(h, m, &train, &two) > 0.97, "accuracy %g", score(h, m, &train, &two));
    check_probabilities(h, m, &train);
    gram_machine_destroy(m);
    o.task = GRAM_REGRESSION;
    m = fit(h, &train, &two, &o);
    CHECK(h, gram_machine_task(m) == GRAM_REGRESSION, "a task that is given is kept");
    gram_machine_destroy(m);
    free(binary);
    destroy(&train);
    destroy(&fresh);
}

/* Predictions of two machines on the same table, at most bound apart. */
static void expect_alike(struct harness *h, const gram_machine *m1, const gram_machine *m2,
                         struct sample *s, double bound)
{
    double *f1 = must_allocate((size_t)s->rows * sizeof *f1), worst = 0;
    double *f2 = must_allocate((size_t)s->rows * sizeof *f2);
    gram_tensor t1 = gram_vector(f1, s->rows, GRAM_F64), t2 = gram_vector(f2, s->rows, GRAM_F64);

    CHECK(h,
          gram_machine_predict(h->g, m1, table_of(s), &t1) == GRAM_OK &&
              gram_machine_predict(h->g, m2, table_of(s), &t2) == GRAM_OK,
          "%s", gram_message(h->g));
    for (int64_t i = 0; i < s->rows; i++)
        worst = fmax(worst, fabs(f1[i] - f2[i]));
    CHECK(h, worst <= bound, "predictions differ by %g, bound %g", worst, bound);
    free(f1);
    free(f2);
}

/* Conjugate gradients down to a small residual give what Cholesky gives. */
static void check_solvers(struct harness *h)
{
    struct sample train = make(h, 2500), fresh = make(h, NEW_ROWS);
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    gram_machine *exact, *iterated;

    o.dtype = GRAM_F64;
    o.solver = GRAM_SOLVER_CHOLESKY;
    exact = fit(h, &train, &train.number, &o);
    o.solver = GRAM_SOLVER_CG;
    o.tolerance = 1e-10;
    iterated = fit(h, &train, &train.number, &o);
    CHECK(h, strstr(gram_machine_describe(iterated), "conjugate gradients") != NULL, "%s",
          gram_machine_describe(iterated));
    expect_alike(h, exact, iterated, &fresh, 1e-6);
    gram_machine_destroy(exact);
    gram_machine_destroy(iterated);
    destroy(&train);
    destroy(&fresh);
}

/* A row's prediction does not depend on which rows are predicted with it, beyond f64 rounding. */
static void check_batches(struct harness *h)
{
    struct sample train = make(h, 1000), fresh = make(h, 300);
    double together[300], alone;
    gram_tensor all = gram_vector(together, 300, GRAM_F64), one = gram_vector(&alone, 1, GRAM_F64);
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    gram_machine *m;

    o.regularization = 1e-6; /* large coefficients of both signs */
    m = fit(h, &train, &train.number, &o);
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
    destroy(&train);
    destroy(&fresh);
}

/* A weight of w counts as w equal rows: (K + r / w) on one row or r on w copies of it. */
static void check_weights(struct harness *h)
{
    struct sample one = make(h, 80), two = make(h, 160);
    double *weights = must_allocate(80 * sizeof *weights);
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
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
    copied = fit(h, &two, &two.number, &o);
    o.weights = weights;
    weighted = fit(h, &one, &one.number, &o);
    expect_alike(h, weighted, copied, &one, 1e-9);
    gram_machine_destroy(weighted);
    gram_machine_destroy(copied);
    free(weights);
    destroy(&one);
    destroy(&two);
}

/* Leaves split the rows and still predict well, also where a leaf begins. */
static void check_tree(struct harness *h)
{
    struct sample train = make(h, 3000), fresh = make(h, NEW_ROWS);
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    gram_machine *m;

    o.leaf_rows = 500;
    o.regularization = 1e-3;
    m = fit(h, &train, &train.number, &o);
    CHECK(h,
          strstr(gram_machine_describe(m), "\"rows\": 3000,") != NULL &&
              strstr(gram_machine_describe(m), "\"leaves\": 1,") == NULL,
          "%s", gram_machine_describe(m));
    CHECK(h, score(h, m, &fresh, &fresh.number) < 0.12, "rmse %g",
          score(h, m, &fresh, &fresh.number));
    gram_machine_destroy(m);
    /* Rows that no direction tells apart are shared out all the same. */
    memset(train.a, 0, (size_t)train.rows * sizeof *train.a);
    memset(train.noise, 0, (size_t)train.rows * sizeof *train.noise);
    for (int64_t i = 0; i < train.rows; i++)
        train.color[i] = "red";
    m = fit(h, &train, &train.number, &o);
    gram_machine_destroy(m);
    destroy(&train);
    destroy(&fresh);
}

static void check_search(struct harness *h)
{
    struct sample train = make(h, ROWS), fresh = make(h, NEW_ROWS);
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    gram_machine *plain = fit(h, &train, &train.number, NULL), *searched;
    double before = score(h, plain, &fresh, &fresh.number), after;

    o.search = 1;
    o.time_limit = 30;
    searched = fit(h, &train, &train.number, &o);
    after = score(h, searched, &fresh, &fresh.number);
    CHECK(h, after < before, "rmse %g with a search, %g without", after, before);
    CHECK(h, strstr(gram_machine_describe(searched), "\"search\": [{") != NULL, "no history");
    gram_machine_destroy(searched);
    o.p = 2; /* what is given is not varied */
    o.q = 1;
    o.regularization = 0.5;
    searched = fit(h, &train, &train.label, &o);
    CHECK(h,
          strstr(gram_machine_describe(searched), "\"hyperparameters\": {\"p\": 2, \"q\": 1, ") !=
                  NULL &&
              strstr(gram_machine_describe(searched), "\"regularization\": 0.5,") != NULL,
          "%s", gram_machine_describe(searched));
    gram_machine_destroy(plain);
    gram_machine_destroy(searched);
    destroy(&train);
    destroy(&fresh);
}

/* ---- What it keeps ------------------------------------------------------------------------ */

static char *read_all(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    char *bytes = must_allocate(1 << 24);

    *size = file ? fread(bytes, 1, 1 << 24, file) : 0;
    if (file)
        (void)fclose(file);
    return bytes;
}

/* Saved and loaded it predicts the same; fitted again it saves the same bytes. */
static void check_file(struct harness *h, int64_t leaf_rows, bool labels)
{
    struct sample train = make(h, ROWS), fresh = make(h, NEW_ROWS);
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    const gram_column *target = labels ? &train.label : &train.number;
    char first[] = "/tmp/gram-test-XXXXXX", second[] = "/tmp/gram-test-XXXXXX";
    char *bytes[2];
    size_t size[2];
    gram_machine *m, *again, *loaded = NULL;

    close(mkstemp(first));
    close(mkstemp(second));
    o.leaf_rows = leaf_rows;
    o.iterations = 1;
    o.seed = 7;
    m = fit(h, &train, target, &o);
    again = fit(h, &train, target, &o);
    CHECK(h, gram_machine_save(h->g, m, first) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, gram_machine_save(h->g, again, second) == GRAM_OK, "%s", gram_message(h->g));
    bytes[0] = read_all(first, &size[0]);
    bytes[1] = read_all(second, &size[1]);
    CHECK(h, size[0] > 0 && size[0] == size[1] && memcmp(bytes[0], bytes[1], size[0]) == 0,
          "two fits with one seed saved %zu and %zu different bytes", size[0], size[1]);
    CHECK(h, gram_machine_load(h->g, first, &loaded) == GRAM_OK, "%s", gram_message(h->g));
    if (loaded) {
        expect_alike(h, m, loaded, &fresh, 0);
        CHECK(h, strcmp(gram_machine_target(m), gram_machine_target(loaded)) == 0, "target %s",
              gram_machine_target(loaded));
        CHECK(h, gram_machine_class_count(m) == gram_machine_class_count(loaded), "classes");
    }
    gram_machine_destroy(m);
    gram_machine_destroy(again);
    gram_machine_destroy(loaded);
    free(bytes[0]);
    free(bytes[1]);
    unlink(first);
    unlink(second);
    destroy(&train);
    destroy(&fresh);
}

/* ---- What it refuses ---------------------------------------------------------------------- */

static void expect_refusal(struct harness *h, const gram_table *table, const gram_column *target,
                           const gram_machine_options *o, const char *message)
{
    gram_machine *m = NULL;
    gram_status status = gram_machine_fit(h->g, table, target, o, &m);

    CHECK(h, status != GRAM_OK && m == NULL, "accepted, expected: %s", message);
    CHECK(h, strstr(gram_message(h->g), message) != NULL, "\"%s\", expected: %s",
          gram_message(h->g), message);
    gram_machine_destroy(m);
}

static void check_refusals(struct harness *h)
{
    struct sample s = make(h, 50);
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    double same[50] = {0}, missing[50];
    gram_column constant = {"y", same, NULL}, none = {"y", missing, NULL};

    for (int i = 0; i < 50; i++)
        missing[i] = NAN;
    o.q = 1.5, o.p = 1;
    expect_refusal(h, table_of(&s), &s.number, &o, "options.q is 1.5, expected at most p = 1");
    o.q = 0, o.p = 3;
    expect_refusal(h, table_of(&s), &s.number, &o, "options.p is 3");
    o.p = 0, o.regularization = -1;
    expect_refusal(h, table_of(&s), &s.number, &o, "options.regularization is -1");
    o.regularization = 0, o.target_transform = GRAM_TRANSFORM_LOG;
    s.y[3] = -1;
    expect_refusal(h, table_of(&s), &s.number, &o, "target \"y\" is -1 in row 3");
    o.target_transform = GRAM_TRANSFORM_AUTO, o.task = GRAM_CLASSIFICATION;
    expect_refusal(h, table_of(&s), &constant, &o, "target \"y\" is \"0\" in every row");
    o.task = GRAM_REGRESSION;
    expect_refusal(h, table_of(&s), &s.label, &o, "holds labels");
    expect_refusal(h, table_of(&s), &none, NULL, "0 rows have a target");
    o.task = GRAM_TASK_AUTO, o.size = 1 << 20;
    expect_refusal(h, table_of(&s), &s.number, &o, "options.size is 1048576");
    destroy(&s);
}

static void check_wrong_tables(struct harness *h)
{
    struct sample s = make(h, 100);
    double out[100];
    gram_tensor vector = gram_vector(out, 100, GRAM_F64), narrow = gram_vector(out, 99, GRAM_F64);
    gram_machine *m = fit(h, &s, &s.number, NULL), *none;
    gram_column swapped[3] = {s.column[2], s.column[1], s.column[0]}; /* any order will do */
    gram_table t = {100, 3, swapped};

    CHECK(h, gram_machine_predict(h->g, m, &t, &vector) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, gram_machine_predict(h->g, m, &t, &narrow) == GRAM_INVALID_ARGUMENT, "99 of 100 rows");
    t.columns = 2;
    CHECK(h, gram_machine_predict(h->g, m, &t, &vector) != GRAM_OK, "a column is missing");
    CHECK(h, strstr(gram_message(h->g), "\"a\"") != NULL, "%s", gram_message(h->g));
    swapped[2] = (gram_column){"a", NULL, s.color};
    t.columns = 3;
    CHECK(h, gram_machine_predict(h->g, m, &t, &vector) != GRAM_OK, "labels for numbers");
    CHECK(h, gram_machine_predict_proba(h->g, m, &t, &vector) == GRAM_INVALID_ARGUMENT,
          "probabilities of a regression");
    s.column[0].numbers = s.a;
    s.color[0] = "never seen";
    s.color[1] = NULL;
    s.a[2] = NAN;
    CHECK(h, gram_machine_predict(h->g, m, table_of(&s), &vector) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h, isfinite(out[0]) && isfinite(out[1]) && isfinite(out[2]), "%g %g %g", out[0], out[1],
          out[2]);
    CHECK(h, gram_machine_load(h->g, "/nonexistent/model", &none) == GRAM_IO && !none, "%s",
          gram_message(h->g));
    CHECK(h, gram_machine_save(h->g, m, "/nonexistent/model") == GRAM_IO, "%s", gram_message(h->g));
    gram_machine_destroy(m);
    destroy(&s);
}

/* Every allocation from the context may fail: an error, no machine, no leak. */
static void check_allocations(struct harness *h)
{
    struct sample s = make(h, 60);
    struct failing_alloc alloc = FAILING_ALLOC_INIT;
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    gram_context *g;
    bool failed = true;

    options.threads = 1;
    o.iterations = 1;
    o.solver = GRAM_SOLVER_CG;
    failing_alloc_use(&alloc, &options);
    for (int64_t at = 1; failed; at++) {
        gram_machine *m = NULL;
        gram_status status;
        int64_t live;

        failing_alloc_reset(&alloc, 0);
        CHECK(h, gram_context_create(&options, &g) == GRAM_OK, "%s", gram_message(NULL));
        live = alloc.live;
        failing_alloc_reset(&alloc, at);
        status = gram_machine_fit(g, table_of(&s), &s.number, &o, &m);
        failed = alloc.failed;
        CHECK(h, status == (failed ? GRAM_OUT_OF_MEMORY : GRAM_OK) && (m != NULL) == !failed,
              "allocation %lld: %s %s", (long long)at, gram_status_name(status), gram_message(g));
        gram_machine_destroy(m);
        gram_context_destroy(g);
        CHECK(h, alloc.live == 0 && alloc.wrong_releases == 0 && live > 0,
              "allocation %lld: %lld blocks left, %lld wrong releases", (long long)at,
              (long long)alloc.live, (long long)alloc.wrong_releases);
    }
    destroy(&s);
}

static void cancel_at_once(void *user, double fraction, const char *stage)
{
    (void)fraction, (void)stage;
    gram_context_cancel(user);
}

static void check_cancel(struct harness *h)
{
    struct sample s = make(h, 300);
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    gram_machine *m;

    o.progress = cancel_at_once;
    o.progress_user = h->g;
    o.solver = GRAM_SOLVER_CG;
    CHECK(h, gram_machine_fit(h->g, table_of(&s), &s.number, &o, &m) == GRAM_CANCELLED && !m, "%s",
          gram_message(h->g));
    m = fit(h, &s, &s.number, NULL); /* the request is spent */
    gram_machine_destroy(m);
    destroy(&s);
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
    check_tree(&h);
    check_search(&h);
    check_file(&h, 0, true);
    check_file(&h, 200, false);
    check_refusals(&h);
    check_wrong_tables(&h);
    check_allocations(&h);
    check_cancel(&h);
    gram_context_destroy(h.g);
    printf("test_machine: %d checks, %d failures\n", h.checks, h.failures);
    return h.failures != 0;
}

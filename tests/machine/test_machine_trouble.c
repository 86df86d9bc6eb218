/*
 * test_machine_trouble.c - what kernel machines keep, refuse and give back
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_sample.h"
#include "tests/core/failing_alloc.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    struct sample train = sample_make(h, ROWS), fresh = sample_make(h, NEW_ROWS);
    gram_machine_options o = SAMPLE_OPTIONS;
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
    m = sample_fit(h, &train, target, &o);
    again = sample_fit(h, &train, target, &o);
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
    sample_destroy(&train);
    sample_destroy(&fresh);
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

static void check_class_weights(struct harness *h)
{
    struct sample s = sample_make(h, 50);
    gram_machine_options o = SAMPLE_OPTIONS;
    const char *labels[2] = {"none", NULL};
    double weights[2] = {1, INFINITY};

    o.class_weights = -2;
    expect_refusal(h, table_of(&s), &s.label, &o, "options.class_weights is -2");
    o.class_weights = 1;
    expect_refusal(h, table_of(&s), &s.label, &o, "options.class_label or class_weight is NULL");
    o.class_label = labels, o.class_weight = weights;
    expect_refusal(h, table_of(&s), &s.label, &o, "options.class_label[0] is \"none\", which is");
    expect_refusal(h, table_of(&s), &s.number, &o, "options.class_weights is 1 for a regression");
    o.class_weights = 2;
    expect_refusal(h, table_of(&s), &s.label, &o, "options.class_label[1] is NULL");
    labels[1] = labels[0];
    expect_refusal(h, table_of(&s), &s.label, &o, "options.class_weight[1] is inf");
    sample_destroy(&s);
}

static void check_refusals(struct harness *h)
{
    struct sample s = sample_make(h, 50);
    gram_machine_options o = SAMPLE_OPTIONS;
    double same[50] = {0}, missing[50];
    gram_column constant = {"y", same, NULL}, none = {"y", missing, NULL};

    for (int i = 0; i < 50; i++)
        missing[i] = NAN;
    o.q = 1.5, o.p = 1;
    expect_refusal(h, table_of(&s), &s.number, &o,
                   "options.q is 1.5, expected at most p, which is 1");
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
    o.task = GRAM_TASK_AUTO, o.ensemble = 2;
    expect_refusal(h, table_of(&s), &s.number, &o, "options.ensemble is 2, expected 1 to 1");
    o.search = 0, o.ensemble = 9;
    expect_refusal(h, table_of(&s), &s.number, &o, "options.ensemble is 9, expected 1 to 8");
    o.search = -1, o.ensemble = 0, o.size = 1 << 20;
    expect_refusal(h, table_of(&s), &s.number, &o, "options.size is 1048576");
    sample_destroy(&s);
}

/* What a table has that training rows had not: each count once, and what is refused. */
static void check_unseen(struct harness *h)
{
    struct sample s = sample_make(h, 100);
    gram_machine *m = sample_fit(h, &s, &s.number, NULL);
    const double far[3] = {1e6, 0, NAN};
    const char *const new_ones[3] = {"no such colour", NULL, s.color[0]};
    gram_column column[3] = {s.column[0], s.column[1], s.column[2]};
    const gram_table t = {3, 3, column}, fewer = {3, 2, column};
    gram_machine_unseen u = {.size = sizeof u}, small = {.size = 3};

    for (int c = 0; c < 3; c++)
        if (column[c].numbers)
            column[c].numbers = far;
        else
            column[c].labels = new_ones;
    for (int c = 0; c < 3; c++) {
        CHECK(h, gram_machine_unseen_at(h->g, m, &t, c, &u) == GRAM_OK, "%s", gram_message(h->g));
        if (column[c].numbers)
            CHECK(h,
                  u.far == 1 && u.first_far == 0 && u.missing == 1 && u.first_missing == 2 &&
                      u.unknown == 0 && u.least < u.most,
                  "numbers: %lld far, %lld missing", (long long)u.far, (long long)u.missing);
        else
            CHECK(h, u.unknown == 1 && u.first_unknown == 0 && u.far == 0 && isnan(u.least),
                  "labels: %lld unknown", (long long)u.unknown);
    }
    CHECK(h, gram_machine_unseen_at(h->g, m, &fewer, 2, &u) == GRAM_INVALID_ARGUMENT, "no column");
    CHECK(h, gram_machine_unseen_at(h->g, m, &t, 3, &u) == GRAM_INVALID_ARGUMENT, "index 3");
    CHECK(h, gram_machine_unseen_at(h->g, m, &t, 0, &small) == GRAM_INVALID_ARGUMENT, "size 3");
    CHECK(h, gram_machine_unseen_at(h->g, m, &t, 0, NULL) == GRAM_INVALID_ARGUMENT, "NULL");
    CHECK(h, gram_machine_unseen_at(h->g, NULL, &t, 0, &u) == GRAM_INVALID_ARGUMENT, "no machine");
    gram_machine_destroy(m);
    sample_destroy(&s);
}

static void check_permutation(struct harness *h)
{
    struct sample s = sample_make(h, 100);
    gram_machine *m = sample_fit(h, &s, &s.number, NULL);
    gram_permutation_options o = GRAM_PERMUTATION_OPTIONS_INIT;
    gram_column none = s.number;
    double missing[100], out[3 * 2], again[3 * 2];
    gram_tensor t = gram_matrix(out, 3, 2, GRAM_F64);

    for (int i = 0; i < 100; i++)
        missing[i] = NAN;
    none.numbers = missing;
    o.repeats = 2;
    CHECK(h,
          gram_machine_permutation_importance(h->g, m, table_of(&s), &s.number, &o, &t) == GRAM_OK,
          "%s", gram_message(h->g));
    memcpy(again, out, sizeof out);
    CHECK(h, out[0] > 0, "shuffling what the target is made of costs %g", out[0]);
    CHECK(h,
          gram_machine_permutation_importance(h->g, m, table_of(&s), &s.number, &o, &t) == GRAM_OK,
          "%s", gram_message(h->g));
    CHECK(h, memcmp(again, out, sizeof out) == 0, "the same seed gave other numbers");
    CHECK(h,
          gram_machine_permutation_importance(h->g, m, table_of(&s), &none, &o, &t) ==
              GRAM_INVALID_ARGUMENT,
          "no target");
    CHECK(h,
          gram_machine_permutation_importance(h->g, m, table_of(&s), &s.label, &o, &t) ==
              GRAM_INVALID_ARGUMENT,
          "labels");
    o.repeats = 3;
    CHECK(h,
          gram_machine_permutation_importance(h->g, m, table_of(&s), &s.number, &o, &t) ==
              GRAM_INVALID_ARGUMENT,
          "out has two columns");
    o.repeats = -1;
    CHECK(h,
          gram_machine_permutation_importance(h->g, m, table_of(&s), &s.number, &o, &t) ==
              GRAM_INVALID_ARGUMENT,
          "repeats -1");
    CHECK(h,
          gram_machine_permutation_importance(h->g, NULL, table_of(&s), &s.number, NULL, &t) ==
              GRAM_INVALID_ARGUMENT,
          "no machine");
    gram_machine_destroy(m);
    sample_destroy(&s);
}

static void check_wrong_tables(struct harness *h)
{
    struct sample s = sample_make(h, 100);
    double out[100];
    gram_tensor vector = gram_vector(out, 100, GRAM_F64), narrow = gram_vector(out, 99, GRAM_F64);
    gram_machine *m = sample_fit(h, &s, &s.number, NULL), *none;
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
    sample_destroy(&s);
}

/* Every allocation from the context may fail: an error, no machine, no leak. */
static void expect_allocations_may_fail(struct harness *h, struct sample *s,
                                        const gram_machine_options *o)
{
    struct failing_alloc alloc = FAILING_ALLOC_INIT;
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
    gram_context *g;
    bool failed = true;

    options.threads = 1;
    failing_alloc_use(&alloc, &options);
    for (int64_t at = 1; failed; at++) {
        gram_machine *m = NULL;
        gram_status status;
        int64_t live;

        failing_alloc_reset(&alloc, 0);
        CHECK(h, gram_context_create(&options, &g) == GRAM_OK, "%s", gram_message(NULL));
        live = alloc.live;
        failing_alloc_reset(&alloc, at);
        status = gram_machine_fit(g, table_of(s), &s->number, o, &m);
        failed = alloc.failed;
        CHECK(h, status == (failed ? GRAM_OUT_OF_MEMORY : GRAM_OK) && (m != NULL) == !failed,
              "allocation %lld: %s %s", (long long)at, gram_status_name(status), gram_message(g));
        gram_machine_destroy(m);
        gram_context_destroy(g);
        CHECK(h, alloc.live == 0 && alloc.wrong_releases == 0 && live > 0,
              "allocation %lld: %lld blocks left, %lld wrong releases", (long long)at,
              (long long)alloc.live, (long long)alloc.wrong_releases);
    }
}

static void check_allocations(struct harness *h)
{
    struct sample s = sample_make(h, 60);
    gram_machine_options o = SAMPLE_OPTIONS;

    o.search = 0; /* what is chosen allocates, too */
    o.ensemble = 3;
    o.iterations = 1;
    o.solver = GRAM_SOLVER_CG;
    expect_allocations_may_fail(h, &s, &o);
    sample_destroy(&s);
}

/* The kernel and the metric are given, so that there are few choices. */
static void check_allocations_of_centres(struct harness *h)
{
    struct sample s = sample_make(h, 900);
    double *weights = must_allocate(900 * sizeof *weights);
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;

    for (int i = 0; i < 900; i++)
        weights[i] = 1 + i % 2;
    o.centres = 10;
    o.leaf_rows = 500; /* two leaves, the first with enough rows that are held out */
    o.p = 2;
    o.q = 1;
    o.bandwidth = 2;
    o.regularization = 0.01;
    o.iterations = 1;
    o.metric = GRAM_METRIC_FULL;
    o.metric_power = 0.5;
    o.weights = weights;
    expect_allocations_may_fail(h, &s, &o);
    free(weights);
    sample_destroy(&s);
}

static void cancel_at_once(void *user, double fraction, const char *stage)
{
    (void)fraction, (void)stage;
    gram_context_cancel(user);
}

static void check_cancel(struct harness *h)
{
    struct sample s = sample_make(h, 300);
    gram_machine_options o = SAMPLE_OPTIONS;
    gram_machine *m;

    o.search = 0;
    o.progress = cancel_at_once;
    o.progress_user = h->g;
    o.solver = GRAM_SOLVER_CG;
    CHECK(h, gram_machine_fit(h->g, table_of(&s), &s.number, &o, &m) == GRAM_CANCELLED && !m, "%s",
          gram_message(h->g));
    m = sample_fit(h, &s, &s.number, NULL); /* the request is spent */
    gram_machine_destroy(m);
    sample_destroy(&s);
}

int main(void)
{
    struct harness h = {.where = "machine", .random = 1};

    if (gram_context_create(NULL, &h.g) != GRAM_OK)
        return EXIT_FAILURE;
    check_file(&h, 0, true);
    check_file(&h, 200, false);
    check_refusals(&h);
    check_class_weights(&h);
    check_unseen(&h);
    check_permutation(&h);
    check_wrong_tables(&h);
    check_allocations(&h);
    check_allocations_of_centres(&h);
    check_cancel(&h);
    gram_context_destroy(h.g);
    printf("test_machine_trouble: %d checks, %d failures\n", h.checks, h.failures);
    return h.failures != 0;
}

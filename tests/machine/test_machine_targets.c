/*
 * test_machine_targets.c - machines of several targets
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine/machine.h"
#include "machine_sample.h"
#include "tests/core/failing_alloc.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TARGETS = 3
};

/* Targets of a sample: its own, one of another scale, and one that is noise. */
struct several {
    struct sample s;
    double *value[TARGETS];
    gram_column column[TARGETS];
};

static struct several several_make(struct harness *h, int64_t rows)
{
    struct several m = {.s = sample_make(h, rows)};
    static const char *const names[TARGETS] = {"first", "\"second\"", "third"};

    for (int t = 0; t < TARGETS; t++) {
        m.value[t] = must_allocate((size_t)rows * sizeof **m.value);
        m.column[t] = (gram_column){names[t], m.value[t], NULL};
    }
    for (int64_t i = 0; i < rows; i++) {
        m.value[0][i] = m.s.y[i];
        m.value[1][i] = 1e5 * cos(m.s.a[i]) - 3e6;
        m.value[2][i] = test_uniform(h);
    }
    return m;
}

static void several_destroy(struct several *m)
{
    for (int t = 0; t < TARGETS; t++)
        free(m->value[t]);
    sample_destroy(&m->s);
}

static gram_machine *several_fit(struct harness *h, struct several *m,
                                 const gram_machine_options *o)
{
    gram_machine *out = NULL;

    if (gram_machine_fit_targets(h->g, table_of(&m->s), m->column, TARGETS, o, &out) != GRAM_OK) {
        printf("%s\n", gram_message(h->g));
        exit(EXIT_FAILURE);
    }
    return out;
}

/* Rows by targets, or by twice as many. */
static double *predicted(struct harness *h, const gram_machine *machine, struct sample *s,
                         double level)
{
    const int64_t columns = level > 0 ? 2 * TARGETS : TARGETS;
    double *out = must_allocate((size_t)(s->rows * columns) * sizeof *out);
    gram_tensor t = gram_matrix(out, s->rows, columns, GRAM_F64);

    CHECK(h,
          (level > 0 ? gram_machine_predict_interval(h->g, machine, table_of(s), level, NULL, &t)
                     : gram_machine_predict(h->g, machine, table_of(s), &t)) == GRAM_OK,
          "%s", gram_message(h->g));
    return out;
}

/* ---- What they are ------------------------------------------------------------------------ */

/* With all settings given, every target is predicted as by a machine of its own. */
static void check_alone(struct harness *h)
{
    struct several m = several_make(h, 200);
    gram_machine_options o = SAMPLE_OPTIONS;
    gram_machine *all, *alone;
    double *f, *one = must_allocate(200 * sizeof *one), worst = 0;
    gram_tensor t = gram_vector(one, 200, GRAM_F64);

    o.dtype = GRAM_F64;
    o.iterations = -1;
    all = several_fit(h, &m, &o);
    f = predicted(h, all, &m.s, 0);
    CHECK(h,
          gram_machine_target_count(all) == TARGETS && gram_machine_class_count(all) == 0 &&
              gram_machine_task(all) == GRAM_REGRESSION,
          "%lld targets", (long long)gram_machine_target_count(all));
    for (int k = 0; k < TARGETS; k++) {
        alone = sample_fit(h, &m.s, &m.column[k], &o);
        CHECK(h, gram_machine_predict(h->g, alone, table_of(&m.s), &t) == GRAM_OK, "%s",
              gram_message(h->g));
        for (int i = 0; i < 200; i++)
            worst = fmax(worst, fabs(f[i * TARGETS + k] - one[i]) / (k == 1 ? 1e5 : 1));
        CHECK(h, strcmp(gram_machine_target_name(all, k), m.column[k].name) == 0, "target %d", k);
        gram_machine_destroy(alone);
    }
    CHECK(h, worst < 1e-9, "predictions differ by %g", worst);
    CHECK(h,
          !gram_machine_target_name(all, TARGETS) && !gram_machine_target_name(all, -1) &&
              gram_machine_target_count(NULL) == 0,
          "names of no target");
    gram_machine_destroy(all);
    several_destroy(&m);
    free(f);
    free(one);
}

/* Saved and loaded it predicts the same bytes. */
static void expect_file(struct harness *h, const gram_machine *machine, struct several *fresh)
{
    char path[] = "/tmp/gram-targets-XXXXXX";
    gram_machine *back = NULL;
    double *f[2], *ends[2];

    close(mkstemp(path));
    CHECK(h,
          gram_machine_save(h->g, machine, path) == GRAM_OK &&
              gram_machine_load(h->g, path, &back) == GRAM_OK,
          "%s", gram_message(h->g));
    (void)unlink(path);
    if (!back)
        return;
    for (int way = 0; way < 2; way++) {
        f[way] = predicted(h, way ? back : machine, &fresh->s, 0);
        ends[way] = predicted(h, way ? back : machine, &fresh->s, 0.8);
    }
    CHECK(h,
          memcmp(f[0], f[1], (size_t)(fresh->s.rows * TARGETS) * sizeof **f) == 0 &&
              memcmp(ends[0], ends[1], (size_t)(fresh->s.rows * TARGETS * 2) * sizeof **f) == 0,
          "other predictions");
    for (int k = 0; k < TARGETS; k++)
        CHECK(h, strcmp(gram_machine_target_name(back, k), fresh->column[k].name) == 0,
              "target %d is %s", k, gram_machine_target_name(back, k));
    gram_machine_destroy(back);
    for (int way = 0; way < 2; way++) {
        free(f[way]);
        free(ends[way]);
    }
}

/* Every target is learned, its intervals cover, and the error that is told is about right. */
static void expect_learned(struct harness *h, const gram_machine_options *o, const char *holds)
{
    struct several m = several_make(h, ROWS), fresh = several_make(h, NEW_ROWS);
    gram_machine *machine = several_fit(h, &m, o);
    double *ends = predicted(h, machine, &fresh.s, 0.9);
    const char *told = strstr(gram_machine_describe(machine), "\"targets\": [{");

    CHECK(h, strstr(gram_machine_describe(machine), holds) != NULL, "no %s in %.400s", holds,
          gram_machine_describe(machine));
    CHECK(h, gram_machine_highest_level(machine) > 0.95, "a level of %g",
          gram_machine_highest_level(machine));
    for (int k = 0; k < TARGETS; k++) {
        gram_machine_score score = {.size = sizeof score};
        int inside = 0;

        CHECK(h,
              gram_machine_evaluate(h->g, machine, table_of(&fresh.s), &fresh.column[k], &score) ==
                  GRAM_OK,
              "%s", gram_message(h->g));
        if (k < 2)
            CHECK(h, score.r2 > 0.95, "r2 of target %d is %g", k, score.r2);
        else
            CHECK(h, score.r2 > -0.2 && score.r2 < 0.2, "r2 of noise is %g", score.r2);
        for (int i = 0; i < NEW_ROWS; i++)
            inside += ends[i * 2 * TARGETS + 2 * k] <= fresh.value[k][i] &&
                      fresh.value[k][i] <= ends[i * 2 * TARGETS + 2 * k + 1];
        CHECK(h, inside > 0.8 * NEW_ROWS, "%d of %d rows of target %d are covered", inside,
              NEW_ROWS, k);
        told = told ? strstr(told, "\"score\": ") : NULL;
        CHECK(h, told != NULL, "no score of target %d", k);
        if (told) {
            double ratio = strtod(told + 9, NULL) / score.score;
            CHECK(h, ratio > 0.5 && ratio < 2, "target %d: %g times the error", k, ratio);
            told++;
        }
    }
    expect_file(h, machine, &fresh);
    gram_machine_destroy(machine);
    several_destroy(&m);
    several_destroy(&fresh);
    free(ends);
}

static void check_search(struct harness *h)
{
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;

    o.ensemble = 1;
    expect_learned(h, &o, "leave_one_out");
}

static void check_ensemble(struct harness *h)
{
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;

    o.ensemble = 4;
    expect_learned(h, &o, "leave_one_out");
}

static void check_centres(struct harness *h)
{
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;

    o.centres = 40;
    o.leaf_rows = 300;
    expect_learned(h, &o, "held_out");
}

/* A row in which one target is missing teaches nothing, also of the others; a feature with the name
 * of a target is none; a column alone is told how much it matters for one target. */
static void check_rows_and_columns(struct harness *h)
{
    struct several m = several_make(h, 200), fresh = several_make(h, 50);
    gram_machine_options o = SAMPLE_OPTIONS;
    gram_column columns[4];
    gram_table table = {200, 4, columns};
    gram_machine *less, *all, *with;
    double *f[2], *increase = must_allocate(9 * sizeof *increase), squares = 0;
    gram_tensor out = gram_matrix(increase, 3, 3, GRAM_F64);
    gram_permutation_options p = GRAM_PERMUTATION_OPTIONS_INIT;

    memcpy(columns, table_of(&m.s)->column, 3 * sizeof *columns);
    columns[3] = m.column[1];
    all = several_fit(h, &m, &o);
    CHECK(h,
          gram_machine_fit_targets(h->g, &table, m.column, TARGETS, &o, &with) == GRAM_OK &&
              gram_machine_feature_count(with) == 3,
          "%s", gram_message(h->g));
    p.repeats = 3;
    CHECK(h,
          gram_machine_permutation_importance(h->g, all, table_of(&m.s), &m.column[1], &p, &out) ==
              GRAM_OK,
          "%s", gram_message(h->g));
    CHECK(h, increase[0] > 1e4 && increase[0] > 5 * fabs(increase[8]), "%g and %g", increase[0],
          increase[8]);
    for (int i = 0; i < 200; i += 2)
        m.value[i % 4 ? 0 : 2][i] = NAN;
    less = several_fit(h, &m, &o);
    f[0] = predicted(h, all, &fresh.s, 0);
    f[1] = predicted(h, less, &fresh.s, 0);
    for (int i = 0; i < 50 * TARGETS; i++)
        squares += i % TARGETS == 1 ? pow(f[0][i] - f[1][i], 2) : 0;
    CHECK(h, squares > 0 && strstr(gram_machine_describe(less), "\"rows\": 100,"), "%.200s",
          gram_machine_describe(less));
    gram_machine_destroy(less);
    gram_machine_destroy(all);
    gram_machine_destroy(with);
    several_destroy(&m);
    several_destroy(&fresh);
    free(f[0]);
    free(f[1]);
    free(increase);
}

/* ---- What they refuse --------------------------------------------------------------------- */

static void expect_refusal(struct harness *h, gram_status status, const char *message)
{
    CHECK(h, status == GRAM_INVALID_ARGUMENT && strstr(gram_message(h->g), message),
          "\"%s\", expected: %s", gram_message(h->g), message);
}

static void check_refusals(struct harness *h)
{
    struct several m = several_make(h, 60);
    gram_machine_options o = SAMPLE_OPTIONS;
    gram_machine *machine = several_fit(h, &m, &o), *none = NULL;
    double out[60 * TARGETS];
    gram_tensor vector = gram_vector(out, 60, GRAM_F64);
    const gram_table *table = table_of(&m.s);
    gram_column wrong[TARGETS], other = m.column[0];
    gram_machine_score score = {.size = sizeof score};

    expect_refusal(h, gram_machine_predict(h->g, machine, table, &vector), "out has 1 dimensions");
    other.name = "another";
    expect_refusal(h, gram_machine_evaluate(h->g, machine, table, &other, &score),
                   "target \"another\" is none of the 3 targets");
    expect_refusal(h, gram_machine_evaluate(h->g, machine, table, &m.s.label, &score), "labels");
    expect_refusal(h, gram_machine_fit_targets(h->g, table, m.column, 0, &o, &none),
                   "targets is 0, expected at least 1");
    expect_refusal(h, gram_machine_fit_targets(h->g, table, NULL, 2, &o, &none), "target is NULL");
    memcpy(wrong, m.column, sizeof wrong);
    wrong[2].name = "first";
    expect_refusal(h, gram_machine_fit_targets(h->g, table, wrong, TARGETS, &o, &none),
                   "two targets have the name \"first\"");
    wrong[2] = m.s.label;
    expect_refusal(h, gram_machine_fit_targets(h->g, table, wrong, TARGETS, &o, &none),
                   "holds labels, expected numbers: several targets are regressions");
    o.task = GRAM_CLASSIFICATION;
    expect_refusal(h, gram_machine_fit_targets(h->g, table, m.column, TARGETS, &o, &none),
                   "is a classification, expected numbers");
    o.task = GRAM_TASK_AUTO;
    for (int i = 0; i < 60; i++)
        m.value[2][i] = i % 2;
    expect_refusal(h, gram_machine_fit_targets(h->g, table, m.column, TARGETS, &o, &none),
                   "options.task = GRAM_REGRESSION takes them as numbers");
    o.task = GRAM_REGRESSION;
    CHECK(h, gram_machine_fit_targets(h->g, table, m.column, TARGETS, &o, &none) == GRAM_OK, "%s",
          gram_message(h->g));
    gram_machine_destroy(none);
    none = NULL;
    o.target_transform = GRAM_TRANSFORM_LOG;
    expect_refusal(h, gram_machine_fit_targets(h->g, table, m.column, TARGETS, &o, &none),
                   "target \"\"second\"\" is ");
    o.target_transform = GRAM_TRANSFORM_AUTO;
    o.class_weights = -1;
    expect_refusal(h, gram_machine_fit_targets(h->g, table, m.column, TARGETS, &o, &none),
                   "options.class_weights");
    CHECK(h, !none, "a machine");
    gram_machine_destroy(machine);
    several_destroy(&m);
}

static void check_allocations(struct harness *h)
{
    struct several m = several_make(h, 60);
    struct failing_alloc alloc = FAILING_ALLOC_INIT;
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    bool failed = true;

    options.threads = 1;
    o.ensemble = 2;
    o.iterations = 1;
    o.p = 2;
    o.q = 1;
    failing_alloc_use(&alloc, &options);
    for (int64_t at = 1; failed; at++) {
        gram_machine *machine = NULL;
        gram_context *g;
        gram_status status;

        failing_alloc_reset(&alloc, 0);
        CHECK(h, gram_context_create(&options, &g) == GRAM_OK, "%s", gram_message(NULL));
        failing_alloc_reset(&alloc, at);
        status = gram_machine_fit_targets(g, table_of(&m.s), m.column, TARGETS, &o, &machine);
        failed = alloc.failed;
        CHECK(h, status == (failed ? GRAM_OUT_OF_MEMORY : GRAM_OK) && (machine != NULL) == !failed,
              "allocation %lld: %s %s", (long long)at, gram_status_name(status), gram_message(g));
        gram_machine_destroy(machine);
        gram_context_destroy(g);
        CHECK(h, alloc.live == 0 && alloc.wrong_releases == 0, "allocation %lld: %lld blocks left",
              (long long)at, (long long)alloc.live);
    }
    several_destroy(&m);
}

static const struct test_function tests[] = {
    {   "each_is_predicted_as_alone",            check_alone},
    {"leave_one_out_chooses_for_all",           check_search},
    {          "an_ensemble_has_all",         check_ensemble},
    {        "large_tables_have_all",          check_centres},
    {             "rows_and_columns", check_rows_and_columns},
    {"what_is_impossible_is_refused",         check_refusals},
    {    "every_allocation_may_fail",      check_allocations},
};

int main(void)
{
    return harness_run_tests(tests, (int)(sizeof tests / sizeof *tests));
}

/*
 * test_machine_round.c - load(save(machine)) after fits of hard tables
 *
 * Numbers at both ends of the range, columns and targets of one value, as many categories as rows:
 * whatever is fitted is saved, loaded, and predicts the same; what could not be loaded is not
 * saved.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine.h"
#include "machine_sample.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HARD_ROWS = 150
};

enum kind {
    NUMBERS,
    LOGARITHM, /* of the target */
    ROOT,
    BOTH_SIGNS, /* the target is sin(2 a) */
    CATEGORIES, /* every row has one of its own */
    CLASSES,    /* the same, and the target is a label */
};

/* The sample's target becomes factor y + shift, its column a the same of its own numbers. */
static const struct hard {
    const char *what;
    double factor, shift, a_factor, a_shift;
    int64_t leaf_rows;
    enum kind kind;
} hard[] = {
    {               "a target of 1e200",   1e200,     0,      1, 0,  0,    NUMBERS},
    {       "a target of 1e200, leaves",   1e200,     0,      1, 0, 50,    NUMBERS},
    {"a target at the end of the range", 1.6e307,     0,      1, 0,  0,    NUMBERS},
    {           "a target at both ends", 1.5e308,     0,      1, 0,  0, BOTH_SIGNS},
    {              "a target of 1e-200",  1e-200,     0,      1, 0,  0,    NUMBERS},
    {               "a denormal target",  1e-315,     0,      1, 0,  0,    NUMBERS},
    {         "the logarithm of 1e-170",  1e-170,     0,      1, 0,  0,  LOGARITHM},
    {               "the root of 1e300",   1e300,     0,      1, 0,  0,       ROOT},
    {               "a constant target",       0,   0.1,      1, 0,  0,    NUMBERS},
    {      "a constant target of 1e300",       0, 1e300,      1, 0,  0,    NUMBERS},
    {               "a target of zeros",       0,     0,      1, 0,  0,    NUMBERS},
    {               "a column of 1e300",       1,     0,  1e300, 0,  0,    NUMBERS},
    {       "a column of 1e300, leaves",       1,     0,  1e300, 0, 50,    NUMBERS},
    {     "a column of the whole range",       1,     0,  8e307, 0,  0,    NUMBERS},
    {               "a denormal column",       1,     0, 1e-318, 0,  0,    NUMBERS},
    {      "a column of infinite scale",       1,     0, 1e-309, 0,  0,    NUMBERS},
    {               "a constant column",       1,     0,      0, 3,  0,    NUMBERS},
    {       "a constant column, leaves",       1,     0,      0, 3, 50,    NUMBERS},
    {                 "many categories",       1,     0,      1, 0,  0, CATEGORIES},
    {        "many categories, classes",       1,     0,      1, 0, 50,    CLASSES},
};

static char names[HARD_ROWS][16];

static void make_hard(struct sample *s, const struct hard *k)
{
    for (int64_t i = 0; i < s->rows; i++) {
        double y = k->kind == BOTH_SIGNS ? sin(2 * s->a[i]) : s->y[i];
        s->y[i] = k->factor * y + k->shift;
        s->a[i] = k->a_factor * s->a[i] + k->a_shift;
        if (k->kind < CATEGORIES)
            continue;
        snprintf(names[i], sizeof names[i], "c%d", (int)i);
        s->color[i] = names[i];
    }
}

static void check_score(struct harness *h, const gram_machine *m, struct sample *s,
                        const struct hard *k)
{
    gram_machine_score score = {.size = sizeof score};

    CHECK(h,
          gram_machine_evaluate(h->g, m, table_of(s), k->kind == CLASSES ? &s->label : &s->number,
                                &score) == GRAM_OK,
          "%s: %s", k->what, gram_message(h->g));
    CHECK(h, isfinite(score.score), "%s: a score of %g", k->what, score.score);
    if (k->factor != 0 && k->kind != CLASSES)
        CHECK(h, score.r2 <= 1 && score.r2 > -1, "%s: r2 is %g", k->what, score.r2);
}

static void round_trip(struct harness *h, const struct hard *k, const char *path)
{
    struct sample s = sample_make(h, HARD_ROWS);
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    gram_machine *m, *loaded = NULL;

    make_hard(&s, k);
    o.leaf_rows = k->leaf_rows;
    o.iterations = 1;
    o.target_transform = k->kind == LOGARITHM ? GRAM_TRANSFORM_LOG
                         : k->kind == ROOT    ? GRAM_TRANSFORM_SQRT
                                              : GRAM_TRANSFORM_NONE;
    h->where = k->what;
    m = sample_fit(h, &s, k->kind == CLASSES ? &s.label : &s.number, &o);
    CHECK(h, gram_machine_save(h->g, m, path) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, gram_machine_load(h->g, path, &loaded) == GRAM_OK, "%s", gram_message(h->g));
    if (loaded) {
        expect_alike(h, m, loaded, &s, 0);
        check_score(h, loaded, &s, k);
    }
    gram_machine_destroy(m);
    gram_machine_destroy(loaded);
    sample_destroy(&s);
}

static void what_is_fitted_can_be_loaded(struct harness *h)
{
    char path[] = "/tmp/gram-test-XXXXXX";

    close(mkstemp(path));
    for (int i = 0; i < LENGTH(hard); i++)
        round_trip(h, &hard[i], path);
    unlink(path);
}

static void what_cannot_be_loaded_is_not_saved(struct harness *h)
{
    struct sample s = sample_make(h, HARD_ROWS);
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    char path[] = "/tmp/gram-test-XXXXXX";
    gram_machine *m, *loaded = NULL;
    double *spoilt[6], before;

    close(mkstemp(path));
    o.iterations = 1;
    o.leaf_rows = 50;
    m = sample_fit(h, &s, &s.number, &o);
    CHECK(h, m->tree.count > 0, "no tree");
    CHECK(h, gram_machine_save(h->g, m, path) == GRAM_OK, "%s", gram_message(h->g));
    spoilt[0] = &m->target.scale, spoilt[1] = &m->target.shift, spoilt[2] = &m->leaf[0].bandwidth;
    spoilt[3] = &m->tree.node[0].direction[1], spoilt[4] = &m->tree.node[0].high;
    spoilt[5] = &m->encoder->column[0].scale;
    for (int i = 0; i < LENGTH(spoilt); i++) {
        before = *spoilt[i];
        *spoilt[i] = i % 2 ? NAN : INFINITY;
        CHECK(h, gram_machine_save(h->g, m, path) == GRAM_BAD_DATA, "number %d is saved", i);
        CHECK(h, *gram_message(h->g), "no message");
        *spoilt[i] = before;
    }
    CHECK(h, gram_machine_load(h->g, path, &loaded) == GRAM_OK, "the file before: %s",
          gram_message(h->g));
    gram_machine_destroy(loaded);
    gram_machine_destroy(m);
    sample_destroy(&s);
    unlink(path);
}

static const struct test_function tests[] = {
    {      "what_is_fitted_can_be_loaded",       what_is_fitted_can_be_loaded},
    {"what_cannot_be_loaded_is_not_saved", what_cannot_be_loaded_is_not_saved},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}

/*
 * test_machine_round.c - load(save(machine)) after fits of hard tables
 *
 * Numbers at both ends of the range, columns and targets of one value, as many categories as rows:
 * whatever is fitted is saved, loaded, and predicts the same; what could not be loaded is not
 * saved.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine/machine.h"
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
    {"a target at the end of the range", 1.4e307,     0,      1, 0,  0,    NUMBERS},
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
    gram_machine_options o = SAMPLE_OPTIONS;
    gram_machine *m, *loaded = NULL;

    make_hard(&s, k);
    o.leaf_rows = k->leaf_rows;
    o.iterations = 1;
    o.task = k->kind == CLASSES ? GRAM_CLASSIFICATION : GRAM_REGRESSION;
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
    gram_machine_options o = SAMPLE_OPTIONS;
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

/* Replaces the first copy of a number in a file by another; false if it is not there. */
static bool spoil(const char *path, double number, double other)
{
    enum {
        MOST = 1 << 20
    };
    char *bytes = must_allocate(MOST);
    FILE *file = fopen(path, "r+b");
    size_t size = file ? fread(bytes, 1, MOST, file) : 0, at = 0;
    bool found = false;

    for (; !found && at + sizeof number <= size; at += !found)
        found = memcmp(bytes + at, &number, sizeof number) == 0;
    found =
        found && fseek(file, (long)at, SEEK_SET) == 0 && fwrite(&other, sizeof other, 1, file) == 1;
    if (file)
        (void)fclose(file);
    free(bytes);
    return found;
}

static void a_tree_of_nan_is_refused(struct harness *h)
{
    struct sample s = sample_make(h, HARD_ROWS);
    gram_machine_options o = SAMPLE_OPTIONS;
    char path[] = "/tmp/gram-test-XXXXXX";
    gram_machine *m, *loaded = NULL;

    close(mkstemp(path));
    o.iterations = 1;
    o.leaf_rows = 50;
    m = sample_fit(h, &s, &s.number, &o);
    for (int i = 0; i < 2; i++) {
        const struct machine_node *node = &m->tree.node[0];
        CHECK(h, gram_machine_save(h->g, m, path) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, spoil(path, i ? node->high : node->direction[0], NAN),
              "the number is not in the file");
        CHECK(h, gram_machine_load(h->g, path, &loaded) == GRAM_BAD_DATA && !loaded,
              "it is loaded");
        CHECK(h, strstr(gram_message(h->g), "node 0 of the tree is not valid"), "%s",
              gram_message(h->g));
    }
    gram_machine_destroy(m);
    sample_destroy(&s);
    unlink(path);
}

/* Numbers that no gram_transform has: to make one of them first is undefined. */
static void a_transform_that_is_none_is_refused(struct harness *h)
{
    static const double none[] = {-1, 0.5, 1e300, -1e300, NAN, INFINITY};
    struct sample s = sample_make(h, HARD_ROWS);
    gram_machine_options o = SAMPLE_OPTIONS;
    char path[] = "/tmp/gram-test-XXXXXX";
    gram_machine *m, *loaded = NULL;

    close(mkstemp(path));
    o.iterations = 1;
    o.target_transform = GRAM_TRANSFORM_SQRT;
    m = sample_fit(h, &s, &s.number, &o);
    for (int i = 0; i < LENGTH(none); i++) {
        CHECK(h, gram_machine_save(h->g, m, path) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, spoil(path, GRAM_TRANSFORM_SQRT, none[i]), "the number is not in the file");
        CHECK(h, gram_machine_load(h->g, path, &loaded) == GRAM_BAD_DATA && !loaded,
              "transform %g is loaded", none[i]);
        CHECK(h, strstr(gram_message(h->g), "target.scale is not valid"), "%s", gram_message(h->g));
    }
    gram_machine_destroy(m);
    sample_destroy(&s);
    unlink(path);
}

/* Every node sends a part of the row to a leaf and the rest on: each is looked at once, which with
 * so many would not end if a row looked at all nodes for every leaf. */
static void a_tree_that_is_a_chain(struct harness *h)
{
    enum {
        NODES = 100000
    };
    const double x[2] = {0.5, NAN};
    double direction = 1, sum = 0;
    struct machine_tree tree = {.count = NODES, .width = 1, .trees = 1};
    struct machine_places places;
    int64_t nans = 0;

    tree.node = must_allocate(NODES * sizeof *tree.node);
    for (int64_t i = 0; i < NODES; i++)
        tree.node[i] = (struct machine_node){
            .direction = &direction,
            .high = 1e4,
            .child = {i + 1 < NODES ? i + 1 : ~(int64_t)NODES, ~i},
            .parent = i - 1,
        };
    CHECK(h, gram_machine_tree_places(h->g, &tree, GRAM_F64, x, 2, &places) == GRAM_OK, "%s",
          gram_message(h->g));
    CHECK(h, places.count == 2 * (NODES + 1), "%lld places", (long long)places.count);
    for (int64_t i = 0; i < places.count; i++) {
        CHECK(h, i == 0 || places.at[i - 1].leaf <= places.at[i].leaf, "leaves are not in order");
        sum += places.at[i].row == 0 ? places.at[i].weight : 0;
        nans += places.at[i].row == 1 && isnan(places.at[i].weight);
    }
    CHECK(h, fabs(sum - 1) < 1e-9, "the weights of a row add up to %.17g", sum);
    CHECK(h, nans == NODES + 1, "%lld leaves know that the row has no place", (long long)nans);
    free(places.at);
    free(tree.node);
}

static const struct test_function tests[] = {
    {       "what_is_fitted_can_be_loaded",        what_is_fitted_can_be_loaded},
    { "what_cannot_be_loaded_is_not_saved",  what_cannot_be_loaded_is_not_saved},
    {           "a_tree_of_nan_is_refused",            a_tree_of_nan_is_refused},
    {"a_transform_that_is_none_is_refused", a_transform_that_is_none_is_refused},
    {             "a_tree_that_is_a_chain",              a_tree_that_is_a_chain},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}

/*
 * test_machine_routing.c - several trees, soft routing, and rows that are left out of leaves
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/random.h"
#include "machine/machine.h"
#include "machine_sample.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Weights --------------------------------------------------------------------------------- */

enum {
    NODES = 7, /* two trees of two levels, of which the second has a leaf less */
    PLACES = 61
};

/* The share of the right side at a node, as the header has it. */
static double share_of(const struct machine_node *node, double temperature, double t)
{
    if (temperature > 0 && node->scale > 0)
        return 1 / (1 + exp(-(t - 0.5 * (node->low + node->high)) / (temperature * node->scale)));
    return fmin(1, fmax(0, (t - node->low) / (node->high - node->low)));
}

/* The weight of a leaf in its tree, from the leaf up to the root; along: every side on the way had
 * half or more. */
static double weight_of(const struct machine_tree *tree, int64_t leaf, double t, bool *along)
{
    double weight = 1;

    *along = true;
    for (int64_t i = 0; i < tree->count; i++)
        for (int s = 0; s < 2; s++)
            for (int64_t node = i, side = s; tree->node[i].child[s] == ~leaf && node >= 0;
                 side = tree->node[node].side, node = tree->node[node].parent) {
                const double right = share_of(&tree->node[node], tree->temperature, t);

                weight *= side ? right : 1 - right;
                *along &= side ? right > 0.5 : right <= 0.5;
            }
    return weight;
}

static const double ones[1] = {1};

/* Middles at -1, 0 and 1 of the first tree, at 0.5 and -2 of the second. */
static const struct machine_node nodes[NODES] = {
    {.direction = (double *)ones,
     .low = -0.2,
     .high = 0.2,
     .scale = 1,
     .child = {1, 2},
     .parent = -1     },
    {.direction = (double *)ones,
     .low = -1.1,
     .high = -0.9,
     .scale = 0.5,
     .child = {~0, ~1},
     .parent = 0      },
    {.direction = (double *)ones,
     .low = 0.8,
     .high = 1.2,
     .scale = 2,
     .child = {~2, ~3},
     .parent = 0,      .side = 1},
    {.direction = (double *)ones,
     .low = 0.4,
     .high = 0.6,
     .scale = 1,
     .child = {4, ~6},
     .parent = -1 },
    {.direction = (double *)ones,
     .low = -2.1,
     .high = -1.9,
     .scale = 0,
     .child = {~4, ~5},
     .parent = 3},
};

static void weights_are_those_of_the_formula(struct harness *h)
{
    static const double temperatures[] = {0, 0.03, 0.2, 1, 100};
    struct machine_tree tree = {
        .count = 5, .width = 1, .node = (struct machine_node *)nodes, .trees = 2, .root = {0, 3}
    };
    double x[PLACES];

    for (int i = 0; i < PLACES; i++)
        x[i] = -3 + 0.1 * i + 0.01;
    for (int k = 0; k < LENGTH(temperatures); k++) {
        struct machine_places places;
        double sum[PLACES][2] = {{0}}, got[PLACES][NODES] = {{0}};

        tree.temperature = temperatures[k];
        CHECK(h, gram_machine_tree_places(h->g, &tree, GRAM_F64, x, PLACES, &places) == GRAM_OK,
              "%s", gram_message(h->g));
        for (int64_t i = 0; i < places.count; i++)
            got[places.at[i].row][places.at[i].leaf] = places.at[i].weight;
        free(places.at);
        for (int i = 0; i < PLACES; i++) {
            double want[NODES];

            for (int leaf = 0; leaf < NODES; leaf++) {
                bool along;

                want[leaf] = weight_of(&tree, leaf, x[i], &along);
                if (tree.temperature > 0 && want[leaf] < 1e-3 && !along)
                    want[leaf] = 0;
                sum[i][leaf > 3] += want[leaf];
            }
            for (int leaf = 0; leaf < NODES; leaf++)
                CHECK(h, fabs(got[i][leaf] - want[leaf] / sum[i][leaf > 3] / 2) < 1e-12,
                      "temperature %g: row %d has the weight %.17g in leaf %d, expected %.17g",
                      tree.temperature, i, got[i][leaf], leaf, want[leaf] / sum[i][leaf > 3] / 2);
        }
    }
}

/* ---- Trees ----------------------------------------------------------------------------------- */

static double *outputs_of(struct harness *h, const gram_machine *m, struct sample *s)
{
    double *f = NULL;

    CHECK(h, gram_machine_table_outputs(h->g, m, table_of(s), &f) == GRAM_OK, "%s",
          gram_message(h->g));
    return f;
}

static void trees_differ_and_their_mean_predicts(struct harness *h)
{
    struct sample s = sample_make(h, ROWS);
    gram_machine_options o = SAMPLE_OPTIONS;
    double *mean, *one[3], apart = 0;
    gram_machine *m;

    o.trees = 3;
    o.leaf_rows = 150;
    o.temperature = 0.1;
    o.iterations = 1;
    m = sample_fit(h, &s, &s.number, &o);
    CHECK(h, m->tree.trees == 3 && m->leaves == m->tree.count + 3, "%d trees, %lld leaves",
          m->tree.trees, (long long)m->leaves);
    mean = outputs_of(h, m, &s);
    for (int t = 0; t < 3; t++) {
        const struct machine_tree all = m->tree;

        m->tree.trees = 1;
        m->tree.root[0] = all.root[t];
        one[t] = outputs_of(h, m, &s);
        m->tree = all;
    }
    for (int64_t i = 0; i < s.rows; i++) {
        CHECK(h, fabs(mean[i] - (one[0][i] + one[1][i] + one[2][i]) / 3) < 1e-9,
              "row %lld: %.17g is not the mean", (long long)i, mean[i]);
        apart = fmax(apart, fabs(one[0][i] - one[1][i]));
    }
    CHECK(h, apart > 1e-3, "the trees are the same");
    CHECK(h, strstr(gram_machine_describe(m), "\"trees\": 3, \"temperature\": 0.1, ") != NULL, "%s",
          gram_machine_describe(m));
    for (int t = 0; t < 3; t++)
        free(one[t]);
    free(mean);
    gram_machine_destroy(m);
    sample_destroy(&s);
}

/* Replaces one text of a file by another of the same length; false if it is not there. */
static bool replace(const char *path, const void *from, const void *to, size_t length)
{
    enum {
        MOST = 1 << 20
    };
    char *bytes = must_allocate(MOST);
    FILE *file = fopen(path, "r+b");
    size_t size = file ? fread(bytes, 1, MOST, file) : 0, at = 0;

    while (at + length <= size && memcmp(bytes + at, from, length) != 0)
        at++;
    const bool found = at + length <= size && fseek(file, (long)at, SEEK_SET) == 0 &&
                       fwrite(to, length, 1, file) == 1;
    if (file)
        (void)fclose(file);
    free(bytes);
    return found;
}

static void expect_refused(struct harness *h, const char *path, const char *why)
{
    gram_machine *loaded = NULL;

    CHECK(h, gram_machine_load(h->g, path, &loaded) == GRAM_BAD_DATA && !loaded, "it is loaded");
    CHECK(h, strstr(gram_message(h->g), why) != NULL, "%s, expected %s", gram_message(h->g), why);
    gram_machine_destroy(loaded);
}

static void a_file_keeps_trees_and_temperature(struct harness *h)
{
    static const double temperature = 0.3125, wrong[] = {-1, NAN, INFINITY};
    struct sample s = sample_make(h, 200);
    gram_machine_options o = SAMPLE_OPTIONS;
    char path[] = "/tmp/gram-test-XXXXXX";
    gram_machine *m, *loaded = NULL;
    int64_t links[4], none[4];

    close(mkstemp(path));
    o.leaf_rows = 60;
    o.trees = 2;
    o.temperature = temperature;
    m = sample_fit(h, &s, &s.number, &o);
    CHECK(h, gram_machine_save(h->g, m, path) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, gram_machine_load(h->g, path, &loaded) == GRAM_OK, "%s", gram_message(h->g));
    if (loaded) {
        expect_alike(h, m, loaded, &s, 0);
        CHECK(h, loaded->tree.temperature == temperature && loaded->tree.trees == 2, "%g, %d trees",
              loaded->tree.temperature, loaded->tree.trees);
    }
    gram_machine_destroy(loaded);
    for (int i = 0; i < LENGTH(wrong); i++) {
        CHECK(h, gram_machine_save(h->g, m, path) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, replace(path, &temperature, &wrong[i], sizeof temperature), "no temperature");
        expect_refused(h, path, "the temperature");
        m->tree.temperature = wrong[i];
        CHECK(h, gram_machine_save(h->g, m, path) == GRAM_BAD_DATA, "%g is saved", wrong[i]);
        m->tree.temperature = temperature;
    }
    for (int i = 0; i < 4; i++)
        links[i] = none[i] = i < 2 ? m->tree.node[1].child[i] : i == 2 ? 0 : m->tree.node[1].side;
    none[2] = -1; /* a root more */
    CHECK(h, gram_machine_save(h->g, m, path) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, replace(path, links, none, sizeof links), "no links");
    expect_refused(h, path, "the trees have");
    CHECK(h, gram_machine_save(h->g, m, path) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, replace(path, "gram.machine.7", "gram.machine.6", 14), "no format");
    expect_refused(h, path, "tree.");
    gram_machine_destroy(m);
    sample_destroy(&s);
    unlink(path);
}

/* ---- Rows that are left out ------------------------------------------------------------------ */

enum {
    TRAINED = 1250,
    HELD = TRAINED / 25
};

/* A number of the member "held_out" of a description, by its name; NaN: it is not there. */
static double held_out(const gram_machine *machine, const char *name)
{
    const char *at = strstr(gram_machine_describe(machine), "\"held_out\": {");

    at = at ? strstr(at, name) : NULL;
    return at ? strtod(at + strlen(name), NULL) : NAN;
}

/* Solves k a = a by Cholesky, k n by n in place. */
static void solve(double *k, double *a, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = j; i < n; i++) {
            double sum = k[i * n + j];

            for (int64_t c = 0; c < j; c++)
                sum -= k[i * n + c] * k[j * n + c];
            k[i * n + j] = i == j ? sqrt(sum) : sum / k[j * n + j];
        }
        for (int64_t c = 0; c < j; c++)
            a[j] -= k[j * n + c] * a[c];
        a[j] /= k[j * n + j];
    }
    for (int64_t j = n - 1; j >= 0; j--) {
        for (int64_t i = j + 1; i < n; i++)
            a[j] -= k[i * n + j] * a[i];
        a[j] /= k[j * n + j];
    }
}

static double kernel_of(const struct machine_leaf *leaf, const double *x, const double *z)
{
    double sum = 0;

    for (int64_t j = 0; j < leaf->width; j++)
        sum += pow(fabs(x[j] - z[j]), leaf->p);
    return exp(-pow(pow(sum, 1 / leaf->p) / leaf->bandwidth, leaf->q));
}

/* A leaf that is solved again without the last rows, and its outputs there, added with their
 * weights to f. */
static void solve_again(const gram_machine *m, const struct machine_place *place, int64_t count,
                        const double *x, const double *y, double ridge, double *f)
{
    const struct machine_leaf *leaf = &m->leaf[place->leaf];
    const int64_t width = leaf->width;
    double *k = must_allocate((size_t)(count * count) * sizeof *k);
    double *a = must_allocate((size_t)count * sizeof *a);
    int64_t *row = must_allocate((size_t)count * sizeof *row), n = 0;

    for (int64_t i = 0; i < count; i++)
        if (place[i].row < TRAINED - HELD)
            row[n++] = place[i].row;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++)
            k[i * n + j] = kernel_of(leaf, x + row[i] * width, x + row[j] * width);
        k[i * n + i] += ridge;
        a[i] = y[row[i]];
    }
    solve(k, a, n);
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; place[i].row >= TRAINED - HELD && j < n; j++)
            f[place[i].row - TRAINED + HELD] +=
                place[i].weight * a[j] *
                kernel_of(leaf, x + place[i].row * width, x + row[j] * width);
    free(row);
    free(a);
    free(k);
}

/* The root mean squared error of the last rows, in units of the target, when leaves do without
 * them; x are the rows in the order of the fit. */
static double error_without(struct harness *h, const gram_machine *m, struct sample *s,
                            const int64_t *row, double ridge)
{
    const int64_t width = m->encoder->width;
    double *x = must_allocate((size_t)(TRAINED * width) * sizeof *x);
    double y[TRAINED], f[HELD] = {0}, sum = 0;
    struct machine_places places;

    CHECK(h,
          gram_encoder_apply(h->g, m->encoder, table_of(s), row, TRAINED, GRAM_F64, (char *)x) ==
              GRAM_OK,
          "%s", gram_message(h->g));
    for (int64_t i = 0; i < TRAINED; i++)
        y[i] = (s->y[row[i]] - m->target.shift) / m->target.scale;
    CHECK(h, gram_machine_tree_places(h->g, &m->tree, GRAM_F64, x, TRAINED, &places) == GRAM_OK,
          "%s", gram_message(h->g));
    for (int64_t i = 0, end; i < places.count; i = end) {
        for (end = i + 1; end < places.count && places.at[end].leaf == places.at[i].leaf; end++)
            continue;
        solve_again(m, &places.at[i], end - i, x, y, ridge, f);
    }
    for (int64_t i = 0; i < HELD; i++)
        sum += pow((f[i] - y[TRAINED - HELD + i]) * m->target.scale, 2);
    free(places.at);
    free(x);
    return sqrt(sum / HELD);
}

/* What the factorisations say of rows that are left out is what solves without them say. */
static void what_is_left_out_was_not_learned(struct harness *h)
{
    const double ridge = 0.05;
    struct sample s = sample_make(h, TRAINED);
    gram_machine_options o = {.size = sizeof o,
                              .p = 2,
                              .q = 1,
                              .bandwidth = 3,
                              .regularization = ridge,
                              .iterations = -1,
                              .target_transform = GRAM_TRANSFORM_NONE,
                              .ensemble = 1,
                              .leaf_rows = 400,
                              .temperature = -1,
                              .seed = 7,
                              .dtype = GRAM_F64};
    uint64_t state = o.seed;
    int64_t row[TRAINED];
    double want;
    gram_machine *m;

    for (int64_t i = 0; i < TRAINED; i++)
        row[i] = i;
    gram_random_choose(&state, row, TRAINED, TRAINED);
    m = sample_fit(h, &s, &s.number, &o);
    want = error_without(h, m, &s, row, ridge);
    CHECK(h, m->leaves > 2 && held_out(m, "\"rows\": ") == HELD, "%s", gram_machine_describe(m));
    CHECK(h, fabs(held_out(m, "\"score\": ") - want) < 1e-9 * want, "%.17g, expected %.17g",
          held_out(m, "\"score\": "), want);
    gram_machine_destroy(m);
    o.temperature = 0; /* is chosen, and no worse than hard by these rows */
    m = sample_fit(h, &s, &s.number, &o);
    CHECK(h, held_out(m, "\"score\": ") <= want * (1 + 1e-9), "temperature %g: %.17g, %.17g",
          m->tree.temperature, held_out(m, "\"score\": "), want);
    gram_machine_destroy(m);
    o.temperature = -1;
    o.solver = GRAM_SOLVER_CG; /* the leaves do without: a fiftieth would be too few */
    m = sample_fit(h, &s, &s.number, &o);
    CHECK(h, isnan(held_out(m, "\"score\": ")), "%s", gram_machine_describe(m));
    gram_machine_destroy(m);
    sample_destroy(&s);
}

static void what_makes_no_sense_is_refused(struct harness *h)
{
    static const struct {
        int trees;
        double temperature;
        const char *name;
    } wrong[] = {
        {-1,   0,       "options.trees"},
        {17,   0,       "options.trees"},
        { 0,  -2, "options.temperature"},
        { 0, NAN, "options.temperature"},
        { 0, 2e3, "options.temperature"},
    };
    struct sample s = sample_make(h, 20);

    for (int i = 0; i < LENGTH(wrong); i++) {
        gram_machine_options o = SAMPLE_OPTIONS;
        gram_machine *m = NULL;

        o.trees = wrong[i].trees;
        o.temperature = wrong[i].temperature;
        CHECK(h,
              gram_machine_fit(h->g, table_of(&s), &s.number, &o, &m) == GRAM_INVALID_ARGUMENT &&
                  strstr(gram_message(h->g), wrong[i].name),
              "%d: %s", i, gram_message(h->g));
    }
    sample_destroy(&s);
}

static const struct test_function tests[] = {
    {    "weights_are_those_of_the_formula",     weights_are_those_of_the_formula},
    {"trees_differ_and_their_mean_predicts", trees_differ_and_their_mean_predicts},
    {  "a_file_keeps_trees_and_temperature",   a_file_keeps_trees_and_temperature},
    {    "what_is_left_out_was_not_learned",     what_is_left_out_was_not_learned},
    {      "what_makes_no_sense_is_refused",       what_makes_no_sense_is_refused},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}

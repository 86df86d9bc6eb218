/*
 * test_machine_choice.c - what a fit chooses by leave-one-out, its score, and calibration
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/random.h"
#include "machine/machine.h"
#include "machine_sample.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 10
};

/* A table of uniform numbers, and two targets. */
struct made {
    int64_t rows;
    double *x; /* WIDTH columns */
    double *number;
    const char **label;
    gram_column column[WIDTH];
    gram_table table;
};

static const char *const names[WIDTH] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};

/* A normal number, by Box and Muller. */
static double normal(uint64_t *state)
{
    double u = gram_random_unit(state), v = gram_random_unit(state);

    return sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
}

static void made_free(struct made *m)
{
    free(m->x);
    free(m->number);
    free((void *)m->label);
}

/* number = signal a b + noise; label says whether a + b plus noise is above 0, and is "yes" rarely.
 */
static struct made make(int64_t rows, double signal, double noise, uint64_t seed)
{
    struct made m = {.rows = rows,
                     .x = malloc((size_t)(rows * WIDTH) * sizeof *m.x),
                     .number = malloc((size_t)rows * sizeof *m.number),
                     .label = malloc((size_t)rows * sizeof *m.label)};

    if (!m.x || !m.number || !m.label)
        exit(EXIT_FAILURE);
    for (int64_t i = 0; i < rows * WIDTH; i++)
        m.x[i] = 2 * gram_random_unit(&seed) - 1;
    for (int64_t i = 0; i < rows; i++) {
        m.number[i] = signal * m.x[i] * m.x[rows + i] + noise * normal(&seed);
        m.label[i] = m.x[i] + m.x[rows + i] + 0.5 * normal(&seed) > 0.8 ? "yes" : "no";
    }
    for (int j = 0; j < WIDTH; j++)
        m.column[j] = (gram_column){.name = names[j], .numbers = m.x + j * rows};
    m.table = (gram_table){rows, WIDTH, NULL};
    return m;
}

static gram_machine *fit(struct harness *h, struct made *m, bool classes,
                         const gram_machine_options *options)
{
    gram_column target = {
        .name = "y", .numbers = classes ? NULL : m->number, .labels = classes ? m->label : NULL};
    gram_machine *machine = NULL;

    m->table.column = m->column;
    CHECK(h, gram_machine_fit(h->g, &m->table, &target, options, &machine) == GRAM_OK, "%s",
          gram_message(h->g));
    if (!machine)
        exit(EXIT_FAILURE);
    return machine;
}

static gram_machine_score score(struct harness *h, const gram_machine *machine, struct made *m,
                                bool classes)
{
    gram_column target = {
        .name = "y", .numbers = classes ? NULL : m->number, .labels = classes ? m->label : NULL};
    gram_machine_score found = {.size = sizeof found};

    m->table.column = m->column;
    CHECK(h, gram_machine_evaluate(h->g, machine, &m->table, &target, &found) == GRAM_OK, "%s",
          gram_message(h->g));
    return found;
}

/* A number of the member "leave_one_out" of a description. */
static double left_out(const gram_machine *machine, const char *name)
{
    const char *at = strstr(gram_machine_describe(machine), "\"leave_one_out\": {");

    at = at ? strstr(at, name) : NULL;
    return at ? strtod(at + strlen(name) + 3, NULL) : NAN;
}

/* Fixed defaults have an r2 of about -0.1 here. */
static void noise_is_not_learned(struct harness *h)
{
    struct made train = make(600, 0, 1, 1), fresh = make(1000, 0, 1, 2);
    gram_machine *machine = fit(h, &train, false, NULL);
    gram_machine_score found = score(h, machine, &fresh, false);

    CHECK(h, found.r2 > -0.02, "r2 %g of noise", found.r2);
    gram_machine_destroy(machine);
    made_free(&train);
    made_free(&fresh);
}

static void features_are_learned_where_it_helps(struct harness *h)
{
    gram_machine_options fixed = GRAM_MACHINE_OPTIONS_INIT;
    struct made train = make(600, 3, 0.1, 3), fresh = make(1000, 3, 0.1, 4);
    gram_machine *chosen = fit(h, &train, false, NULL), *plain;
    double rmse = score(h, chosen, &fresh, false).score, estimate = left_out(chosen, "score");
    double spread = left_out(chosen, "spread"), before;

    fixed.search = -1;
    plain = fit(h, &train, false, &fixed);
    before = score(h, plain, &fresh, false).score;
    CHECK(h, rmse < 0.6 * before, "rmse %g, and %g by fixed defaults", rmse, before);
    CHECK(h, strstr(gram_machine_describe(chosen), "\"iterations\": 0, \"scaling\"") == NULL, "%s",
          gram_machine_describe(chosen));
    /* The estimate has metrics from half of the rows, and is rather too large. */
    CHECK(h, estimate > 0.8 * rmse - 4 * spread && estimate < 2.5 * rmse + 4 * spread,
          "leave-one-out says %g +- %g, fresh rows %g", estimate, spread, rmse);
    gram_machine_destroy(chosen);
    gram_machine_destroy(plain);
    made_free(&train);
    made_free(&fresh);
}

/* What is given stays as it is. */
static void what_is_given_is_not_varied(struct harness *h)
{
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    struct made train = make(200, 3, 0.1, 5);
    gram_machine *machine;

    o.p = 2;
    o.q = 1;
    o.bandwidth = 3;
    o.regularization = 0.125;
    o.iterations = -1;
    machine = fit(h, &train, false, &o);
    CHECK(h,
          strstr(gram_machine_describe(machine),
                 "\"hyperparameters\": {\"p\": 2, \"q\": 1, \"bandwidth\": 3, \"regularization\": "
                 "0.125, \"iterations\": 0,") != NULL,
          "%s", gram_machine_describe(machine));
    gram_machine_destroy(machine);
    made_free(&train);
}

/* Without feature learning, the score is that of refits without one row. */
static void the_score_is_that_of_refits(struct harness *h)
{
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    struct made train = make(60, 3, 0.3, 6);
    const int64_t rows = train.rows;
    double squares = 0, estimate;
    gram_machine *machine;

    o.search = -1;
    o.iterations = -1;
    o.bandwidth = 3;
    o.dtype = GRAM_F64;
    machine = fit(h, &train, false, &o);
    estimate = left_out(machine, "score");
    gram_machine_destroy(machine);
    for (int64_t i = 0; i < rows; i++) {
        double weights[60], value = 0;
        gram_tensor out = gram_vector(&value, 1, GRAM_F64);
        gram_table one = {1, WIDTH, NULL};
        gram_column column[WIDTH];

        for (int64_t j = 0; j < rows; j++)
            weights[j] = j == i ? 1e-9 : 1; /* as good as left out; the encoder stays the same */
        o.weights = weights;
        machine = fit(h, &train, false, &o);
        for (int j = 0; j < WIDTH; j++)
            column[j] = (gram_column){.name = names[j], .numbers = train.x + j * rows + i};
        one.column = column;
        CHECK(h, gram_machine_predict(h->g, machine, &one, &out) == GRAM_OK, "%s",
              gram_message(h->g));
        squares += (value - train.number[i]) * (value - train.number[i]);
        gram_machine_destroy(machine);
    }
    CHECK(h, fabs(sqrt(squares / (double)rows) - estimate) < 1e-5 * estimate, "%g, refits %g",
          estimate, sqrt(squares / (double)rows));
    made_free(&train);
}

/* Probabilities: below the loss of the shares of the classes, about as large as what comes true,
 * the same after a file, and of the class that is predicted. */
static void probabilities_are_calibrated(struct harness *h)
{
    struct made train = make(600, 3, 0.1, 7), fresh = make(2000, 3, 0.1, 8);
    gram_machine *machine = fit(h, &train, true, NULL), *loaded = NULL;
    gram_machine_score found = score(h, machine, &fresh, true);
    double *p = malloc((size_t)fresh.rows * 2 * sizeof *p), sum = 0, yes = 0, entropy;
    gram_tensor out = gram_matrix(p, fresh.rows, 2, GRAM_F64);

    CHECK(h, gram_machine_predict_proba(h->g, machine, &fresh.table, &out) == GRAM_OK, "%s",
          gram_message(h->g));
    for (int64_t i = 0; i < fresh.rows; i++) {
        sum += p[2 * i + 1];
        yes += strcmp(fresh.label[i], "yes") == 0;
    }
    yes /= (double)fresh.rows;
    sum /= (double)fresh.rows;
    entropy = -yes * log(yes) - (1 - yes) * log(1 - yes);
    CHECK(h, fabs(sum - yes) < 0.04, "mean probability %g, share %g", sum, yes);
    CHECK(h, found.log_loss < 0.75 * entropy, "log loss %g, of the shares %g", found.log_loss,
          entropy);
    CHECK(h, fabs(left_out(machine, "log_loss") - found.log_loss) < 0.1 * entropy,
          "leave-one-out says %g, fresh rows %g", left_out(machine, "log_loss"), found.log_loss);
    CHECK(h, gram_machine_save(h->g, machine, "choice.gram") == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, gram_machine_load(h->g, "choice.gram", &loaded) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, score(h, loaded, &fresh, true).log_loss == found.log_loss, "another loss from a file");
    (void)remove("choice.gram");
    free(p);
    gram_machine_destroy(machine);
    gram_machine_destroy(loaded);
    made_free(&train);
    made_free(&fresh);
}

/* The outputs tell two of three classes apart by their difference m, up to labels of which one in
 * ten is drawn: the probability rises steeply in m and ends at 0.93.  A slope alone is either too
 * small near m = 0 or too large for the labels that are wrong; its loss is 0.05 above the least. */
static void wrong_labels_do_not_make_probabilities_timid(struct harness *h)
{
    enum {
        COUNT = 4000,
        CLASSES = 3
    };
    static double f[CLASSES * COUNT], class[COUNT];
    static int64_t rows[COUNT];
    const gram_column column = {.name = "y", .numbers = class};
    struct machine_target target = {0};
    double ideal = 0, loss = 0, p[CLASSES];
    uint64_t state = 23;

    for (int64_t i = 0; i < COUNT; i++) {
        double m = 2 * gram_random_unit(&state) - 1, first = 1 / (1 + exp(-20 * m));
        bool drawn = gram_random_unit(&state) < 0.1;

        rows[i] = i;
        f[i] = (1 + m) / 2;
        f[COUNT + i] = (1 - m) / 2;
        class[i] = drawn                              ? (double)gram_random_below(&state, CLASSES)
                   : gram_random_unit(&state) < first ? 0
                                                      : 1;
        ideal -= log(0.1 / CLASSES + 0.9 * (class[i] > 1 ? 0 : class[i] > 0 ? 1 - first : first));
    }
    CHECK(h,
          gram_machine_target_fit(h->g, &column, GRAM_CLASSIFICATION, rows, COUNT, &target) ==
                  GRAM_OK &&
              gram_machine_target_calibrate(h->g, &column, rows, NULL, COUNT, f, &target) ==
                  GRAM_OK,
          "%s", gram_message(h->g));
    for (int64_t i = 0; i < COUNT; i++) {
        gram_machine_target_probabilities(&target, f + i, COUNT, p, 1);
        loss -= log(p[(int)class[i]]);
    }
    CHECK(h, loss < ideal + 0.005 * COUNT, "log loss %g, of the truth %g", loss / COUNT,
          ideal / COUNT);
    gram_machine_target_destroy(&target);
}

static void the_same_seed_chooses_the_same(struct harness *h)
{
    struct made train = make(150, 3, 0.1, 9);
    gram_machine *first = fit(h, &train, false, NULL), *second = fit(h, &train, false, NULL);

    CHECK(h, score(h, first, &train, false).score == score(h, second, &train, false).score,
          "two fits differ");
    gram_machine_destroy(first);
    gram_machine_destroy(second);
    made_free(&train);
}

/* Predictions of the rows of a table; free() when done. */
static double *predictions(struct harness *h, const gram_machine *machine, struct made *m)
{
    double *out = malloc((size_t)m->rows * sizeof *out);
    gram_tensor vector = gram_vector(out, m->rows, GRAM_F64);

    m->table.column = m->column;
    CHECK(h, gram_machine_predict(h->g, machine, &m->table, &vector) == GRAM_OK, "%s",
          gram_message(h->g));
    return out;
}

/* An ensemble is as good as one machine or better, where it is chosen and where it is not, has
 * importances that sum to 1, and comes back from its file. */
static void several_machines_are_no_worse_than_one(struct harness *h)
{
    gram_machine_options one = GRAM_MACHINE_OPTIONS_INIT, many = GRAM_MACHINE_OPTIONS_INIT;
    int chosen = 0;

    one.ensemble = 1;
    many.ensemble = 5;
    for (uint64_t seed = 11; seed < 14; seed++) {
        struct made train = make(400, 3, 0.05, seed), fresh = make(1000, 3, 0.05, seed + 100);
        gram_machine *alone = fit(h, &train, false, &one), *loaded = NULL;
        gram_machine *several = fit(h, &train, false, &many);
        bool ensemble = strstr(gram_machine_describe(several), "\"ensemble\": [") != NULL;
        double before = score(h, alone, &fresh, false).score, sum = 0;
        double after = score(h, several, &fresh, false).score;
        double *p = predictions(h, several, &fresh), *q;

        chosen += ensemble;
        CHECK(h, strstr(gram_machine_describe(alone), "\"ensemble\"") == NULL, "%s",
              gram_machine_describe(alone));
        CHECK(h, after < 1.05 * before, "rmse %g of several, %g of one", after, before);
        CHECK(h, left_out(several, "score") <= left_out(alone, "score"),
              "leave-one-out says %g of several, %g of one", left_out(several, "score"),
              left_out(alone, "score"));
        for (int j = 0; j < WIDTH; j++) {
            gram_machine_feature feature = {.size = sizeof feature};

            CHECK(h, gram_machine_feature_at(h->g, several, j, &feature) == GRAM_OK, "%s",
                  gram_message(h->g));
            sum += feature.importance;
        }
        CHECK(h, fabs(sum - 1) < 1e-12, "importances sum to %g", sum);
        CHECK(h, gram_machine_save(h->g, several, "several.gram") == GRAM_OK, "%s",
              gram_message(h->g));
        CHECK(h, gram_machine_load(h->g, "several.gram", &loaded) == GRAM_OK, "%s",
              gram_message(h->g));
        q = predictions(h, loaded, &fresh);
        CHECK(h, memcmp(p, q, (size_t)fresh.rows * sizeof *p) == 0, "a file changes predictions");
        (void)remove("several.gram");
        free(p);
        free(q);
        gram_machine_destroy(alone);
        gram_machine_destroy(several);
        gram_machine_destroy(loaded);
        made_free(&train);
        made_free(&fresh);
    }
    CHECK(h, chosen > 0, "no ensemble was chosen");
}

/* Several leaves with several machines each: the tree is the same, and so are rows in any order. */
static void members_share_a_tree(struct harness *h)
{
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    struct made train = make(500, 3, 0.3, 15), fresh = make(300, 3, 0.3, 16);
    gram_machine *machine, *loaded = NULL;
    double *p, *q;

    o.ensemble = 3;
    o.leaf_rows = 200;
    machine = fit(h, &train, false, &o);
    CHECK(h, strstr(gram_machine_describe(machine), "\"leaves\": 1,") == NULL, "one leaf");
    CHECK(h, score(h, machine, &fresh, false).r2 > 0.3, "r2 %g",
          score(h, machine, &fresh, false).r2);
    CHECK(h, gram_machine_save(h->g, machine, "leaves.gram") == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, gram_machine_load(h->g, "leaves.gram", &loaded) == GRAM_OK, "%s", gram_message(h->g));
    p = predictions(h, machine, &fresh);
    q = predictions(h, loaded, &fresh);
    CHECK(h, memcmp(p, q, (size_t)fresh.rows * sizeof *p) == 0, "a file changes predictions");
    (void)remove("leaves.gram");
    free(p);
    free(q);
    gram_machine_destroy(machine);
    gram_machine_destroy(loaded);
    made_free(&train);
    made_free(&fresh);
}

/* From two rows on, and of columns that say nothing. */
static void few_rows_are_fitted(struct harness *h)
{
    for (int64_t rows = 2; rows < 50; rows += 7) {
        struct made train = make(rows, 3, 0.1, 10);

        for (int64_t i = 0; i < rows; i++)
            train.label[i] = i % 2 ? "yes" : "no";
        gram_machine_destroy(fit(h, &train, false, NULL));
        gram_machine_destroy(fit(h, &train, true, NULL));
        for (int64_t i = 0; i < rows * WIDTH; i++)
            train.x[i] = 1;
        gram_machine_destroy(fit(h, &train, false, NULL));
        made_free(&train);
    }
}

static const struct test_function tests[] = {
    {                        "noise_is_not_learned",                         noise_is_not_learned},
    {         "features_are_learned_where_it_helps",          features_are_learned_where_it_helps},
    {                 "what_is_given_is_not_varied",                  what_is_given_is_not_varied},
    {                 "the_score_is_that_of_refits",                  the_score_is_that_of_refits},
    {                "probabilities_are_calibrated",                 probabilities_are_calibrated},
    {"wrong_labels_do_not_make_probabilities_timid", wrong_labels_do_not_make_probabilities_timid},
    {              "the_same_seed_chooses_the_same",               the_same_seed_chooses_the_same},
    {      "several_machines_are_no_worse_than_one",       several_machines_are_no_worse_than_one},
    {                        "members_share_a_tree",                         members_share_a_tree},
    {                         "few_rows_are_fitted",                          few_rows_are_fitted},
};

int main(void)
{
    return harness_run_tests(tests, (int)(sizeof tests / sizeof *tests));
}

/*
 * test_table_levels.c - target statistics of the levels of a category, and their model files
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "machine/table.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LEVELS = 12,
    EACH = 4,
    MANY = LEVELS * EACH
};

/* Levels a to l, four rows each, whose targets differ by level and less within. */
struct levels {
    char name[LEVELS][2];
    const char *label[MANY + 2];
    double y[2 * MANY], weight[MANY];
    int64_t row[MANY];
    gram_column column;
    gram_table table;
};

static void make(struct levels *l)
{
    for (int i = 0; i < MANY; i++) {
        const int level = i % LEVELS;

        l->name[level][0] = (char)('a' + level);
        l->name[level][1] = '\0';
        l->label[i] = l->name[level];
        l->y[i] = level * level + ((i / LEVELS) % 2 ? 12 : -12) + 0.1 * (i % 7);
        l->y[MANY + i] = (i / LEVELS) % 2; /* the same in every level */
        l->weight[i] = 1 + i % 3;
        l->row[i] = MANY - 1 - i;
    }
    l->label[MANY] = "new";
    l->label[MANY + 1] = NULL;
    l->column = (gram_column){"c", NULL, l->label};
    l->table = (gram_table){MANY + 2, 1, &l->column};
}

static struct gram_encoder *fit(struct harness *h, const struct levels *l, int64_t statistics,
                                bool weights)
{
    double y[2 * MANY], w[MANY];
    struct gram_encoding how = {.max_categories = 3,
                                .statistics = statistics,
                                .statistic = y,
                                .weight = weights ? w : NULL,
                                .seed = 3};
    struct gram_encoder *e = NULL;

    for (int i = 0; i < MANY; i++) {
        y[i] = l->y[l->row[i]];
        y[MANY + i] = l->y[MANY + l->row[i]];
        w[i] = l->weight[l->row[i]];
    }
    CHECK(h, gram_encoder_fit(h->g, &l->table, l->row, MANY, &how, &e) == GRAM_OK, "%s",
          gram_message(h->g));
    if (!e)
        exit(EXIT_FAILURE);
    return e;
}

/* The prior and the statistics of new rows, by the formulas of table_levels.c. */
static void reference(const struct levels *l, bool weights, double *out)
{
    double total = 0, m = 0, sum[LEVELS] = {0}, w[LEVELS] = {0}, within = 0, between = 0, n2 = 0;
    double a, mean = 0, squares = 0;

    for (int i = 0; i < MANY; i++)
        total += weights ? l->weight[i] : 1;
    for (int i = 0; i < MANY; i++) {
        const double v = weights ? l->weight[i] * MANY / total : 1;

        m += v * l->y[i] / MANY;
        sum[i % LEVELS] += v * l->y[i];
        w[i % LEVELS] += v;
    }
    for (int i = 0; i < MANY; i++) {
        const double d = l->y[i] - sum[i % LEVELS] / w[i % LEVELS];
        within += (weights ? l->weight[i] * MANY / total : 1) * d * d / (MANY - LEVELS);
    }
    for (int k = 0; k < LEVELS; k++) {
        between += w[k] * pow(sum[k] / w[k] - m, 2);
        n2 += w[k] * w[k] / MANY;
    }
    a = within / ((between - (LEVELS - 1) * within) / (MANY - n2));
    for (int k = 0; k < LEVELS; k++)
        out[k] = (sum[k] + a * m) / (w[k] + a);
    for (int k = 0; k < LEVELS; k++)
        mean += w[k] * out[k] / MANY;
    for (int k = 0; k < LEVELS; k++)
        squares += w[k] * pow(out[k] - mean, 2) / MANY;
    out[LEVELS] = m;
    for (int k = 0; k <= LEVELS; k++)
        out[k] = (out[k] - mean) / sqrt(squares);
}

/* New rows get the whole mean of their level, drawn towards that of all; unknown and missing labels
 * get that of all. */
static void check_new_rows(struct harness *h)
{
    struct levels l;
    double x[(MANY + 2) * 4], expected[LEVELS + 1];

    make(&l);
    for (int weights = 0; weights < 2; weights++) {
        struct gram_encoder *e = fit(h, &l, 1, weights);

        h->where = weights ? "new rows, weights" : "new rows";
        reference(&l, weights, expected);
        CHECK(h, e->width == 4 && e->column[0].levels == LEVELS, "%lld features, %lld levels",
              (long long)e->width, (long long)e->column[0].levels);
        CHECK(h, gram_encoder_apply(h->g, e, &l.table, NULL, MANY + 2, GRAM_F64, x) == GRAM_OK,
              "%s", gram_message(h->g));
        for (int i = 0; i < MANY + 2; i++) {
            const double right = expected[i < MANY ? i % LEVELS : LEVELS];
            CHECK(h, fabs(x[4 * i + 3] - right) < 1e-13, "row %d: %.17g, expected %.17g", i,
                  x[4 * i + 3], right);
        }
        gram_encoder_destroy(e);
    }
}

/* One row of each level comes before all others of it and knows the prior alone.  No row's
 * statistic moves with its own target, but for what that changes of the mean of all rows and of the
 * scale; those of later rows of its level do. */
static void check_training_rows_do_not_see_their_target(struct harness *h)
{
    struct levels l;
    double first[MANY * 4], second[MANY * 4], new[4 * (MANY + 2)];
    int priors = 0, moved = 0;

    h->where = "training rows";
    make(&l);
    for (int changed = 0; changed < MANY; changed++) {
        struct gram_encoder *e = fit(h, &l, 1, false), *again;
        const double step = 1e-3;
        double f, own, others = 0;

        CHECK(h,
              gram_encoder_apply_training(h->g, e, &l.table, l.row, (int64_t[2]){0, MANY}, GRAM_F64,
                                          first) == GRAM_OK,
              "%s", gram_message(h->g));
        CHECK(h, gram_encoder_apply(h->g, e, &l.table, NULL, MANY + 2, GRAM_F64, new) == GRAM_OK,
              "%s", gram_message(h->g));
        priors += fabs(first[4 * changed + 3] - new[4 * MANY + 3]) < 1e-15;
        l.y[l.row[changed]] += step;
        again = fit(h, &l, 1, false);
        l.y[l.row[changed]] -= step;
        CHECK(h,
              gram_encoder_apply_training(h->g, again, &l.table, l.row, (int64_t[2]){0, MANY},
                                          GRAM_F64, second) == GRAM_OK,
              "%s", gram_message(h->g));
        f = first[4 * changed + 3];
        own = fabs(second[4 * changed + 3] - first[4 * changed + 3]) / step;
        for (int i = 0; i < MANY; i++)
            if (i != changed && l.label[l.row[i]] == l.label[l.row[changed]])
                others = fmax(others, fabs(second[4 * i + 3] - first[4 * i + 3]) / step);
        /* The mean of all rows moves by 1 / 48 of it, and the deviation, above 30, by f / 48. */
        CHECK(h, own < (1 + f * f) / (MANY * 15.0),
              "the statistic of row %d moves by %g of its target", changed, own);
        moved += others > 5e-3;
        gram_encoder_destroy(e);
        gram_encoder_destroy(again);
    }
    CHECK(h, priors == LEVELS, "%d rows have the prior, expected one of each level", priors);
    CHECK(h, moved == MANY - LEVELS, "%d rows are seen by later ones, expected all but the last",
          moved);
}

/* A part of the rows of training is what it is among all of them. */
static void check_parts(struct harness *h)
{
    struct levels l;
    double all[MANY * 4], part[MANY * 4];
    struct gram_encoder *e;

    h->where = "parts";
    make(&l);
    e = fit(h, &l, 1, true);
    CHECK(h,
          gram_encoder_apply_training(h->g, e, &l.table, l.row, (int64_t[2]){0, MANY}, GRAM_F64,
                                      all) == GRAM_OK,
          "%s", gram_message(h->g));
    CHECK(h,
          gram_encoder_apply_training(h->g, e, &l.table, l.row + 10, (int64_t[2]){10, 20}, GRAM_F64,
                                      part) == GRAM_OK,
          "%s", gram_message(h->g));
    CHECK(h, memcmp(all + 40, part, 80 * sizeof *part) == 0, "a part differs");
    gram_encoder_destroy(e);
}

/* Levels that do not differ have no statistics, and nor has what a statistic cannot tell apart. */
static void check_levels_that_say_nothing(struct harness *h)
{
    struct levels l;
    double x[MANY * 5];
    struct gram_encoder *e;

    h->where = "levels that say nothing";
    make(&l);
    e = fit(h, &l, 2, false);
    CHECK(h, e->width == 5, "%lld features", (long long)e->width);
    CHECK(h, gram_encoder_apply(h->g, e, &l.table, NULL, MANY, GRAM_F64, x) == GRAM_OK, "%s",
          gram_message(h->g));
    for (int i = 0; i < MANY; i++)
        CHECK(h, x[5 * i + 4] == 0, "row %d: %g, expected 0", i, x[5 * i + 4]);
    gram_encoder_destroy(e);
    memcpy(l.y, l.y + MANY, MANY * sizeof *l.y);
    e = fit(h, &l, 1, false);
    CHECK(h, e->width == 3 && e->column[0].levels == 0, "%lld features", (long long)e->width);
    gram_encoder_destroy(e);
    make(&l);
    for (int i = 0; i < MANY; i++)
        l.label[i] = l.name[i % 9];
    e = fit(h, &l, 1, false);
    CHECK(h, e->width == 3, "nine levels: %lld features", (long long)e->width);
    gram_encoder_destroy(e);
}

/* ---- Files ----------------------------------------------------------------------------------- */

enum damage {
    NOTHING,
    NOT_FINITE,
    OUT_OF_ORDER,
    TOO_MANY,
    DAMAGES
};

/* Writes an encoder, and reads it back; NULL if it is refused. */
static struct gram_encoder *write_and_read(struct harness *h, const struct gram_encoder *e)
{
    char path[] = "/tmp/gram-test-XXXXXX";
    struct gram_model_writer *w = gram_model_writer_create();
    struct gram_model_file *file = NULL;
    struct gram_encoder *out = NULL;

    close(mkstemp(path));
    gram_model_put_encoder(w, e);
    CHECK(h, gram_model_commit(h->g, w, path) == GRAM_OK, "%s", gram_message(h->g));
    gram_model_writer_destroy(w);
    CHECK(h, gram_model_read(h->g, path, &file) == GRAM_OK, "%s", gram_message(h->g));
    if (file && gram_model_need_encoder(h->g, file, &out) != GRAM_OK)
        CHECK(h, out == NULL, "an encoder beside an error");
    gram_model_file_destroy(file);
    (void)unlink(path);
    return out;
}

static void check_files(struct harness *h)
{
    static const char *const says[DAMAGES] = {"", "statistics of levels that are not finite",
                                              "are not in order", "has 17 statistics, expected 1"};
    struct levels l;
    double before[(MANY + 2) * 4], after[(MANY + 2) * 4];

    make(&l);
    for (int damage = 0; damage < DAMAGES; damage++) {
        struct gram_encoder *e = fit(h, &l, 1, false), *again;
        struct gram_encoded_column *c = e->column;
        double *wide = calloc((LEVELS + 1) * 17, sizeof *wide);

        h->where = damage ? says[damage] : "a sound file";
        CHECK(h, gram_encoder_apply(h->g, e, &l.table, NULL, MANY + 2, GRAM_F64, before) == GRAM_OK,
              "%s", gram_message(h->g));
        if (damage == NOT_FINITE)
            c->statistic[3] = NAN;
        if (damage == OUT_OF_ORDER)
            c->level[0][0] = 'z';
        if (damage == TOO_MANY) {
            free(c->statistic);
            c->statistic = wide;
            c->statistics = 17;
            wide = NULL;
        }
        again = write_and_read(h, e);
        CHECK(h, !again == (damage != NOTHING), "read: %d", again != NULL);
        CHECK(h, damage == NOTHING || strstr(gram_message(h->g), says[damage]) != NULL, "%s",
              gram_message(h->g));
        if (again) {
            CHECK(h,
                  gram_encoder_apply(h->g, again, &l.table, NULL, MANY + 2, GRAM_F64, after) ==
                      GRAM_OK,
                  "%s", gram_message(h->g));
            CHECK(h, memcmp(before, after, sizeof before) == 0, "the features differ");
        }
        gram_encoder_destroy(e);
        gram_encoder_destroy(again);
        free(wide);
    }
}

int main(void)
{
    struct harness_options options = {.threads = 2};
    struct harness h;

    if (!harness_open(&h, &options, NULL))
        return EXIT_FAILURE;
    h.g->call = "gram_machine_fit"; /* whose messages these are */
    check_new_rows(&h);
    check_training_rows_do_not_see_their_target(&h);
    check_parts(&h);
    check_levels_that_say_nothing(&h);
    check_files(&h);
    printf("table levels: %d checks, %d failed\n", h.checks, h.failures);
    harness_close(&h);
    return h.failures || !h.checks ? EXIT_FAILURE : EXIT_SUCCESS;
}

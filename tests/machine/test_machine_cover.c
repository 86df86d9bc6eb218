/*
 * test_machine_cover.c - intervals and sets: quantiles of errors, coverage, files, refusals
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "core/random.h"
#include "machine/machine.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    WIDTH = 3,
    CLASSES = 3,
    FRESH = 2000
};

enum noise {
    NORMAL,
    GROWING, /* its deviation depends on a column */
    HEAVY,   /* of Student's t with 3 degrees of freedom */
    FACTOR,  /* the exponential of a normal target */
    NOISES
};

static const char *const noise_names[NOISES] = {"normal", "growing", "heavy", "factor"};
static const char *const kinds[CLASSES] = {"ant", "bee", "cat"};

/* A table of uniform numbers, a target of numbers and one of labels. */
struct made {
    int64_t rows;
    double *x, *number;
    const char **label;
    gram_column column[WIDTH], numbers, labels;
    gram_table table;
};

static double normal(uint64_t *state)
{
    double u = gram_random_unit(state), v = gram_random_unit(state);

    return sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
}

static double draw(enum noise noise, double x, uint64_t *state)
{
    double z = normal(state), sum = 0;

    if (noise == GROWING)
        return 0.3 * exp(x) * z;
    for (int i = 0; noise == HEAVY && i < 3; i++) {
        double w = normal(state);
        sum += w * w / 3;
    }
    return noise == HEAVY ? 0.2 * z / sqrt(sum) : 0.3 * z;
}

static void make(struct made *m, int64_t rows, enum noise noise, uint64_t seed)
{
    static const char *const names[WIDTH] = {"a", "b", "c"};

    *m = (struct made){.rows = rows,
                       .x = malloc((size_t)(rows * WIDTH) * sizeof *m->x),
                       .number = malloc((size_t)rows * sizeof *m->number),
                       .label = malloc((size_t)rows * sizeof *m->label)};
    if (!m->x || !m->number || !m->label)
        exit(EXIT_FAILURE);
    for (int64_t i = 0; i < rows * WIDTH; i++)
        m->x[i] = 2 * gram_random_unit(&seed) - 1;
    for (int64_t i = 0; i < rows; i++) {
        double a = m->x[i], b = m->x[rows + i], z = a + 0.8 * normal(&seed);

        m->number[i] = sin(3 * a) + b + draw(noise, m->x[2 * rows + i], &seed);
        if (noise == FACTOR)
            m->number[i] = exp(m->number[i]);
        m->label[i] = kinds[z < -0.4 ? 0 : z < 0.4 ? 1 : 2];
    }
    for (int j = 0; j < WIDTH; j++)
        m->column[j] = (gram_column){.name = names[j], .numbers = m->x + j * rows};
    m->table = (gram_table){rows, WIDTH, m->column};
    m->numbers = (gram_column){.name = "y", .numbers = m->number};
    m->labels = (gram_column){.name = "y", .labels = m->label};
}

static void made_free(struct made *m)
{
    free(m->x);
    free(m->number);
    free((void *)m->label);
}

static gram_machine *fit(struct harness *h, const struct made *m, const gram_column *target,
                         const gram_machine_options *options)
{
    gram_machine *machine = NULL;

    CHECK(h, gram_machine_fit(h->g, &m->table, target, options, &machine) == GRAM_OK, "%s",
          gram_message(h->g));
    if (!machine)
        exit(EXIT_FAILURE);
    return machine;
}

static void *room(int64_t bytes)
{
    void *p = calloc((size_t)bytes, 1);

    if (!p)
        exit(EXIT_FAILURE);
    return p;
}

/* ---- Quantiles ---------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Errors of refits without one row, sorted. */
static void refit_errors(struct harness *h, const struct made *m, gram_machine_options *o,
                         double *errors)
{
    for (int64_t i = 0; i < m->rows; i++) {
        double *weights = room(m->rows * (int64_t)sizeof *weights), value = 0;
        gram_tensor out = gram_vector(&value, 1, GRAM_F64);
        gram_column column[WIDTH];
        gram_table one = {1, WIDTH, column};
        gram_machine *machine;

        for (int64_t j = 0; j < m->rows; j++)
            weights[j] = j == i ? 1e-9 : 1; /* as good as left out; the encoder stays the same */
        o->weights = weights;
        machine = fit(h, m, &m->numbers, o);
        for (int j = 0; j < WIDTH; j++)
            column[j] =
                (gram_column){.name = m->column[j].name, .numbers = m->column[j].numbers + i};
        CHECK(h, gram_machine_predict(h->g, machine, &one, &out) == GRAM_OK, "%s",
              gram_message(h->g));
        errors[i] = fabs(value - m->number[i]);
        gram_machine_destroy(machine);
        free(weights);
    }
    o->weights = NULL;
    qsort(errors, (size_t)m->rows, sizeof *errors, by_size);
}

/* Where nothing was chosen, half the width is the error of a refit without one row. */
static void widths_are_errors_of_refits(struct harness *h)
{
    gram_machine_options o = GRAM_MACHINE_OPTIONS_INIT;
    const double levels[] = {0.5, 0.8, 0.9, 0.97};
    double errors[39], ends[2 * 39];
    gram_tensor out = gram_matrix(ends, 39, 2, GRAM_F64);
    gram_machine *machine;
    struct made m;

    make(&m, 39, NORMAL, 1);
    o.search = -1;
    o.iterations = -1;
    o.bandwidth = 3;
    o.dtype = GRAM_F64;
    refit_errors(h, &m, &o, errors);
    machine = fit(h, &m, &m.numbers, &o);
    CHECK(h, gram_machine_highest_level(machine) == 39.0 / 40, "highest level %g",
          gram_machine_highest_level(machine));
    for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) {
        double expected = errors[(int)ceil(40 * levels[l] - 1e-9) - 1];

        CHECK(h,
              gram_machine_predict_interval(h->g, machine, &m.table, levels[l], NULL, &out) ==
                  GRAM_OK,
              "%s", gram_message(h->g));
        for (int i = 0; i < 39; i++)
            CHECK(h, fabs((ends[2 * i + 1] - ends[2 * i]) / 2 - expected) < 1e-5 * expected,
                  "level %g: half width %g, refits %g", levels[l],
                  (ends[2 * i + 1] - ends[2 * i]) / 2, expected);
    }
    gram_machine_destroy(machine);
    made_free(&m);
}

/* The j-th kept score, from the definition: the least one up to which rows have its mass. */
static double naive_score(const double *score, const double *weight, int64_t n, int64_t m,
                          int64_t j)
{
    double sum = 0, squares = 0, best = INFINITY;

    for (int64_t i = 0; i < n; i++)
        sum += weight[i], squares += weight[i] * weight[i];
    for (int64_t i = 0; i < n; i++) {
        double below = 0, whole = sum + squares / sum; /* the new row weighs sum / n_e */

        for (int64_t k = 0; k < n; k++)
            below += score[k] <= score[i] ? weight[k] : 0;
        if (below >= (double)j / (double)(m + 1) * whole * (1 - 1e-9))
            best = fmin(best, score[i]);
    }
    return best;
}

/* Sizes below and above what is kept, with equal, whole and very unequal weights. */
static void weighted_quantiles(struct harness *h)
{
    static const int64_t sizes[] = {1, 2, 10, 999, 1000, 1500};
    uint64_t state = 5;

    for (size_t c = 0; c < 3 * sizeof sizes / sizeof *sizes; c++) {
        int64_t n = sizes[c / 3], bytes = n * (int64_t)sizeof(double);
        double *y = room(bytes), *w = room(bytes), *f = room(bytes), *score = room(bytes);
        int64_t *row = room(bytes), kept;
        struct machine_held_out held = {.count = n, .scale = {.scale = 4}, .f = f};
        struct machine_target target = {.scale = 2, .transform = GRAM_TRANSFORM_NONE};
        gram_column column = {.name = "y", .numbers = y};
        double sum = 0, squares = 0;

        held.scale.transform = GRAM_TRANSFORM_NONE;
        for (int64_t i = 0; i < n; i++) {
            row[i] = n - 1 - i;
            f[i] = normal(&state);
        }
        for (int64_t i = 0; i < n; i++) {
            y[row[i]] = 4 * normal(&state);
            w[row[i]] = c % 3 == 0 ? 0.3 : c % 3 == 1 ? 1 + (double)(i % 3) : exp(normal(&state));
            score[row[i]] = fabs(y[row[i]] / 4 - f[i]) * 2; /* in units of the target's scale */
            sum += w[row[i]], squares += w[row[i]] * w[row[i]];
        }
        CHECK(h,
              gram_machine_target_conform(h->g, &column, row, w, &held, 0, &target) == GRAM_OK &&
                  gram_machine_target_scores_hold(&target),
              "%s", gram_message(h->g));
        kept = (int64_t)fmin(floor(sum * sum / squares + 1e-9), 999);
        CHECK(h, target.scores == kept, "%lld rows: %lld scores, expected %lld", (long long)n,
              (long long)target.scores, (long long)kept);
        for (int64_t j = 0; j < target.scores; j += 1 + target.scores / 40) {
            double expected = naive_score(score, w, n, kept, j + 1);

            CHECK(h, fabs(target.score[j] - expected) < 1e-12, "%lld rows, score %lld: %g, not %g",
                  (long long)n, (long long)j, target.score[j], expected);
        }
        free(target.score);
        free(y), free(w), free(f), free(score), free(row);
    }
}

/* Rows without a finite output, or of no class, have no score; none at all: no intervals. */
static void rows_without_scores(struct harness *h)
{
    double y[3] = {1, 2, 3}, f[3] = {NAN, 2.5, INFINITY};
    int64_t row[3] = {0, 1, 2};
    struct machine_held_out held = {.count = 3, .scale = {.scale = 1}, .f = f};
    struct machine_target target = {.scale = 1, .transform = GRAM_TRANSFORM_NONE};
    gram_column column = {.name = "y", .numbers = y};

    held.scale.transform = GRAM_TRANSFORM_NONE;
    CHECK(h, gram_machine_target_conform(h->g, &column, row, NULL, &held, 0, &target) == GRAM_OK,
          "%s", gram_message(h->g));
    CHECK(h, target.scores == 1 && target.score[0] == 0.5, "%lld scores", (long long)target.scores);
    f[1] = NAN;
    CHECK(h, gram_machine_target_conform(h->g, &column, row, NULL, &held, 0, &target) == GRAM_OK,
          "%s", gram_message(h->g));
    CHECK(h, target.scores == 0 && !target.score, "%lld scores", (long long)target.scores);
}

/* ---- Coverage ----------------------------------------------------------------------------- */

/* The share of fresh rows inside of their intervals; also that predictions are. */
static double interval_share(struct harness *h, const gram_machine *machine,
                             const struct made *fresh)
{
    int64_t n = fresh->rows, inside = 0;
    double *ends = room(2 * n * (int64_t)sizeof *ends), *value = room(n * (int64_t)sizeof *value);
    double *plain = room(n * (int64_t)sizeof *plain);
    gram_tensor out = gram_matrix(ends, n, 2, GRAM_F64), center = gram_vector(value, n, GRAM_F64);
    gram_tensor alone = gram_vector(plain, n, GRAM_F64);

    CHECK(h,
          gram_machine_predict_interval(h->g, machine, &fresh->table, 0.9, &center, &out) ==
                  GRAM_OK &&
              gram_machine_predict(h->g, machine, &fresh->table, &alone) == GRAM_OK,
          "%s", gram_message(h->g));
    for (int64_t i = 0; i < n; i++) {
        inside += ends[2 * i] <= fresh->number[i] && fresh->number[i] <= ends[2 * i + 1];
        CHECK(h, value[i] == plain[i] && ends[2 * i] <= value[i] && value[i] <= ends[2 * i + 1],
              "%g is not in [%g, %g], or not %g", value[i], ends[2 * i], ends[2 * i + 1], plain[i]);
    }
    free(ends), free(value), free(plain);
    return (double)inside / (double)n;
}

/* The mean share over tables is that of the level, within two hundredths. */
static void expect_intervals(struct harness *h, enum noise noise, int64_t rows, int seeds,
                             const gram_machine_options *o)
{
    double sum = 0;

    for (int s = 0; s < seeds; s++) {
        struct made train, fresh;
        gram_machine *machine;

        make(&train, rows, noise, 100 * (uint64_t)s + 1);
        make(&fresh, FRESH, noise, 100 * (uint64_t)s + 2);
        machine = fit(h, &train, &train.numbers, o);
        sum += interval_share(h, machine, &fresh);
        gram_machine_destroy(machine);
        made_free(&train);
        made_free(&fresh);
    }
    sum /= seeds;
    CHECK(h, sum > 0.88 && sum < 0.92, "%s noise, %lld rows: %g of the rows are covered",
          noise_names[noise], (long long)rows, sum);
}

static void intervals_cover(struct harness *h)
{
    gram_machine_options fixed = GRAM_MACHINE_OPTIONS_INIT;

    fixed.search = -1;
    for (int noise = 0; noise < NOISES; noise++) {
        expect_intervals(h, (enum noise)noise, 60, 40, NULL);
        expect_intervals(h, (enum noise)noise, 60, 100, &fixed);
        expect_intervals(h, (enum noise)noise, 1000, 4, &fixed);
    }
    expect_intervals(h, GROWING, 1000, 2, NULL);
}

/* The share of fresh rows whose class is in their set; also what every set has. */
static double set_share(struct harness *h, const gram_machine *machine, const struct made *fresh,
                        double level)
{
    int64_t n = fresh->rows, inside = 0;
    double *p = room(n * CLASSES * (int64_t)sizeof *p), *best = room(n * (int64_t)sizeof *best);
    int32_t *place = room(n * CLASSES * (int64_t)sizeof *place);
    gram_tensor out = gram_matrix(place, n, CLASSES, GRAM_I32);
    gram_tensor proba = gram_matrix(p, n, CLASSES, GRAM_F64), of = gram_vector(best, n, GRAM_F64);

    CHECK(h,
          gram_machine_predict_set(h->g, machine, &fresh->table, level, &proba, &out) == GRAM_OK &&
              gram_machine_predict(h->g, machine, &fresh->table, &of) == GRAM_OK,
          "%s", gram_message(h->g));
    for (int64_t i = 0; i < n; i++) {
        const int32_t *at = place + i * CLASSES;
        const double *q = p + i * CLASSES;
        int32_t size = 0, seen = 0;

        for (int k = 0; k < CLASSES; k++) {
            size += at[k] > 0;
            seen |= 1 << at[k];
            inside += at[k] > 0 && strcmp(kinds[k], fresh->label[i]) == 0;
            for (int j = 0; j < CLASSES; j++)
                CHECK(h, !(q[k] > q[j] && at[j] > 0) || (at[k] > 0 && at[k] < at[j]),
                      "the more probable class has place %d, the other %d", at[k], at[j]);
        }
        CHECK(h, at[(int)best[i]] == 1, "the predicted class has place %d", at[(int)best[i]]);
        CHECK(h, (seen | 1) == (2 << size) - 1, "%d places are %x", size, (unsigned)seen);
    }
    free(p), free(best), free(place);
    return (double)inside / (double)n;
}

static void sets_cover(struct harness *h)
{
    static const double levels[] = {0.8, 0.9};
    double sum[2][2] = {{0}};
    const int seeds[2] = {24, 4};

    for (int size = 0; size < 2; size++)
        for (int s = 0; s < seeds[size]; s++) {
            gram_machine_options fixed = GRAM_MACHINE_OPTIONS_INIT;
            struct made train, fresh;
            gram_machine *machine;

            fixed.search = -1;
            make(&train, size ? 1000 : 60, NORMAL, 100 * (uint64_t)s + 3);
            make(&fresh, FRESH, NORMAL, 100 * (uint64_t)s + 4);
            machine = fit(h, &train, &train.labels, size ? &fixed : NULL);
            for (int l = 0; l < 2; l++)
                sum[size][l] += set_share(h, machine, &fresh, levels[l]) / seeds[size];
            gram_machine_destroy(machine);
            made_free(&train);
            made_free(&fresh);
        }
    for (int size = 0; size < 2; size++)
        for (int l = 0; l < 2; l++)
            CHECK(h, fabs(sum[size][l] - levels[l]) < 0.02, "%s tables: sets of %g cover %g",
                  size ? "large" : "small", levels[l], sum[size][l]);
}

/* ---- Files and refusals ------------------------------------------------------------------- */

/* The bytes of a model file, and where its scores begin; the file has `count` of them. */
struct bytes {
    char *data;
    int64_t size;
    char *name;     /* of the array, in the header */
    double *scores; /* may be misaligned: memcpy */
};

static struct bytes read_bytes(const char *path, int64_t count)
{
    struct bytes b = {0};
    FILE *file = fopen(path, "rb");
    uint64_t header;
    long long begin, end;
    char *at;

    if (!file)
        exit(EXIT_FAILURE);
    b.data = room(1 << 20);
    b.size = (int64_t)fread(b.data, 1, 1 << 20, file);
    (void)fclose(file);
    memcpy(&header, b.data, sizeof header);
    b.name = strstr(b.data + 8, "target.scores");
    at = b.name ? strstr(b.name, "data_offsets") : NULL;
    at = at ? strchr(at, '[') : NULL;
    if (!at)
        exit(EXIT_FAILURE);
    begin = strtoll(at + 1, &at, 10);
    end = strtoll(at + 1, NULL, 10); /* behind the comma */
    if (end - begin != count * 8)
        exit(EXIT_FAILURE);
    b.scores = (double *)(void *)(b.data + 8 + header + begin);
    return b;
}

static void write_bytes(const char *path, const struct bytes *b)
{
    FILE *file = fopen(path, "wb");

    if (!file || fwrite(b->data, 1, (size_t)b->size, file) != (size_t)b->size || fclose(file))
        exit(EXIT_FAILURE);
}

/* Loads a file in which the scores from `at` on are other numbers. */
static void expect_bad(struct harness *h, const char *path, const struct bytes *b, int64_t at,
                       double value)
{
    double before;
    gram_machine *machine = NULL;

    memcpy(&before, b->scores + at, sizeof before);
    memcpy(b->scores + at, &value, sizeof value);
    write_bytes(path, b);
    CHECK(h, gram_machine_load(h->g, path, &machine) == GRAM_BAD_DATA && !machine,
          "score %lld is %g: loaded", (long long)at, value);
    CHECK(h, strstr(gram_message(h->g), "target.scores is not sorted, or out of range"), "%s",
          gram_message(h->g));
    memcpy(b->scores + at, &before, sizeof before);
}

static void files_are_checked(struct harness *h)
{
    const char *path = "cover.gram";
    double ends[2 * 60], again[2 * 60];
    gram_tensor out = gram_matrix(ends, 60, 2, GRAM_F64),
                other = gram_matrix(again, 60, 2, GRAM_F64);

    for (int classes = 0; classes < 2; classes++) {
        gram_machine *machine, *loaded = NULL;
        struct bytes b;
        struct made m;

        make(&m, 60, NORMAL, 9);
        machine = fit(h, &m, classes ? &m.labels : &m.numbers, NULL);
        CHECK(h, gram_machine_save(h->g, machine, path) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, gram_machine_load(h->g, path, &loaded) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, gram_machine_highest_level(loaded) == 60.0 / 61, "%g",
              gram_machine_highest_level(loaded));
        if (!classes)
            CHECK(h,
                  gram_machine_predict_interval(h->g, machine, &m.table, 0.7, NULL, &out) ==
                          GRAM_OK &&
                      gram_machine_predict_interval(h->g, loaded, &m.table, 0.7, NULL, &other) ==
                          GRAM_OK &&
                      memcmp(ends, again, sizeof ends) == 0,
                  "other intervals from a file: %s", gram_message(h->g));
        gram_machine_destroy(loaded);
        b = read_bytes(path, 60);
        expect_bad(h, path, &b, 0, NAN);
        expect_bad(h, path, &b, 0, -1);
        expect_bad(h, path, &b, 59, INFINITY);
        expect_bad(h, path, &b, 59, 0);
        expect_bad(h, path, &b, 30, 1e9); /* not sorted, and no 1 - p */
        if (classes)
            expect_bad(h, path, &b, 59, 1.5);
        b.name[0] = 'T'; /* as in a file of before: there is no such array */
        write_bytes(path, &b);
        CHECK(h, gram_machine_load(h->g, path, &loaded) == GRAM_OK, "%s", gram_message(h->g));
        CHECK(h, gram_machine_highest_level(loaded) == 0, "level");
        if (!classes)
            CHECK(h,
                  gram_machine_predict_interval(h->g, loaded, &m.table, 0.7, NULL, &out) ==
                          GRAM_UNSUPPORTED &&
                      strstr(gram_message(h->g), "no leave-one-out errors, from which intervals"),
                  "%s", gram_message(h->g));
        free(b.data);
        gram_machine_destroy(loaded);
        gram_machine_destroy(machine);
        made_free(&m);
    }
    (void)unlink(path);
}

static void expect_refusal(struct harness *h, gram_status status, const char *message)
{
    CHECK(h, status == GRAM_INVALID_ARGUMENT && strstr(gram_message(h->g), message),
          "\"%s\", expected: %s", gram_message(h->g), message);
}

/* What is wanted together is what each function gives. */
static void all_at_once(struct harness *h)
{
    enum {
        N = 30
    };
    double value[2][N], ends[2][2 * N], p[2][N * CLASSES];
    int32_t place[2][N * CLASSES];
    gram_tensor values[2], intervals[2], probas[2], sets[2];
    gram_machine_wanted wanted = GRAM_MACHINE_WANTED_INIT;
    gram_machine *number, *label;
    struct made m;

    for (int way = 0; way < 2; way++) {
        values[way] = gram_vector(value[way], N, GRAM_F64);
        intervals[way] = gram_matrix(ends[way], N, 2, GRAM_F64);
        probas[way] = gram_matrix(p[way], N, CLASSES, GRAM_F64);
        sets[way] = gram_matrix(place[way], N, CLASSES, GRAM_I32);
    }
    make(&m, N, NORMAL, 12);
    number = fit(h, &m, &m.numbers, NULL);
    label = fit(h, &m, &m.labels, NULL);
    wanted.level = 0.8;
    wanted.prediction = &values[0];
    wanted.interval = &intervals[0];
    CHECK(h,
          gram_machine_predict_all(h->g, number, &m.table, &wanted) == GRAM_OK &&
              gram_machine_predict_interval(h->g, number, &m.table, 0.8, &values[1],
                                            &intervals[1]) == GRAM_OK &&
              memcmp(value[0], value[1], sizeof *value) == 0 &&
              memcmp(ends[0], ends[1], sizeof *ends) == 0,
          "of numbers: %s", gram_message(h->g));
    expect_refusal(h, gram_machine_predict_all(h->g, label, &m.table, &wanted),
                   "expected a regression");
    wanted.interval = NULL;
    wanted.proba = &probas[0];
    wanted.set = &sets[0];
    CHECK(h,
          gram_machine_predict_all(h->g, label, &m.table, &wanted) == GRAM_OK &&
              gram_machine_predict_set(h->g, label, &m.table, 0.8, &probas[1], &sets[1]) ==
                  GRAM_OK &&
              gram_machine_predict(h->g, label, &m.table, &values[1]) == GRAM_OK &&
              memcmp(value[0], value[1], sizeof *value) == 0 &&
              memcmp(p[0], p[1], sizeof *p) == 0 && memcmp(place[0], place[1], sizeof *place) == 0,
          "of classes: %s", gram_message(h->g));
    expect_refusal(h, gram_machine_predict_all(h->g, number, &m.table, &wanted),
                   "expected a classification");
    wanted.set = &probas[0];
    expect_refusal(h, gram_machine_predict_all(h->g, label, &m.table, &wanted),
                   "wanted.set has dtype f64");
    expect_refusal(h, gram_machine_predict_all(h->g, label, &m.table, NULL), "wanted is NULL");
    expect_refusal(h, gram_machine_predict_all(h->g, NULL, &m.table, &wanted), "machine is NULL");
    gram_machine_destroy(number);
    gram_machine_destroy(label);
    made_free(&m);
}

static void refusals(struct harness *h)
{
    double ends[2 * 20];
    int32_t place[20 * CLASSES];
    gram_tensor out = gram_matrix(ends, 20, 2, GRAM_F64), narrow = gram_vector(ends, 19, GRAM_F64);
    gram_tensor set = gram_matrix(place, 20, CLASSES, GRAM_I32);
    gram_tensor wide = gram_matrix(ends, 20, 2, GRAM_F64);
    gram_machine *number, *label;
    struct made m;

    make(&m, 20, NORMAL, 11);
    m.label[0] = kinds[0], m.label[1] = kinds[1], m.label[2] = kinds[2];
    number = fit(h, &m, &m.numbers, NULL);
    label = fit(h, &m, &m.labels, NULL);
    expect_refusal(h, gram_machine_predict_interval(h->g, NULL, &m.table, 0.9, NULL, &out),
                   "machine is NULL");
    expect_refusal(h, gram_machine_predict_set(h->g, NULL, &m.table, 0.9, NULL, &set),
                   "machine is NULL");
    expect_refusal(h, gram_machine_predict_interval(h->g, label, &m.table, 0.9, NULL, &out),
                   "expected a regression");
    expect_refusal(h, gram_machine_predict_set(h->g, number, &m.table, 0.9, NULL, &set),
                   "expected a classification");
    expect_refusal(h, gram_machine_predict_interval(h->g, number, &m.table, NAN, NULL, &out),
                   "level is nan, expected a number between 0 and 1");
    expect_refusal(h, gram_machine_predict_interval(h->g, number, &m.table, 1, NULL, &out),
                   "level is 1, expected a number between 0 and 1");
    expect_refusal(h, gram_machine_predict_set(h->g, label, &m.table, 0.96, NULL, &set),
                   "level is 0.96, expected at most 0.952381, because sets come from the "
                   "leave-one-out errors of 20 rows");
    expect_refusal(h, gram_machine_predict_interval(h->g, number, &m.table, 0.9, &narrow, &out),
                   "prediction has 19 rows");
    expect_refusal(h, gram_machine_predict_set(h->g, label, &m.table, 0.9, NULL, &wide),
                   "out has dtype f64, expected i32");
    expect_refusal(h, gram_machine_predict_interval(h->g, number, &m.table, 0.9, NULL, NULL),
                   "out");
    CHECK(h, gram_machine_predict_set(h->g, label, &m.table, 20.0 / 21, NULL, &set) == GRAM_OK,
          "%s", gram_message(h->g));
    m.table.rows = 0;
    out.shape[0] = 0;
    CHECK(h, gram_machine_predict_interval(h->g, number, &m.table, 1e-9, NULL, &out) == GRAM_OK,
          "%s", gram_message(h->g));
    CHECK(h, gram_machine_highest_level(NULL) == 0, "of nothing");
    gram_machine_destroy(number);
    gram_machine_destroy(label);
    made_free(&m);
}

static const struct test_function tests[] = {
    {"widths_are_errors_of_refits", widths_are_errors_of_refits},
    {         "weighted_quantiles",          weighted_quantiles},
    {        "rows_without_scores",         rows_without_scores},
    {            "intervals_cover",             intervals_cover},
    {                 "sets_cover",                  sets_cover},
    {          "files_are_checked",           files_are_checked},
    {                "all_at_once",                 all_at_once},
    {                   "refusals",                    refusals},
};

int main(void)
{
    return harness_run_tests(tests, (int)(sizeof tests / sizeof *tests));
}

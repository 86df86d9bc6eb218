/*
 * table_levels.c - target statistics of the levels of a category
 *
 * A level's statistic is its mean of a target, drawn towards the mean m of all rows,
 *   (S + a m) / (W + a),   S = sum of w y, W = sum of w over the rows of the level,
 * where a = (variance within levels) / (variance between them), from the analysis of variance of an
 * unbalanced one-way layout (Micci-Barreca, SIGKDD Explorations 3, 2001; Searle, Casella and
 * McCulloch, Variance Components, 1992).
 *
 * A training row must not see its own target, nor may the rows of its level tell it.  Without the
 * row itself, or its fold, a statistic falls where the target rises; a machine that also has the
 * level as a category adds the two up, and its leave-one-out errors are far too small.  So sums
 * of a training row go over the rows before it in a random order (ordered target statistics:
 * Prokhorenkova et al., CatBoost, NeurIPS 2018).  The prior makes few rows and many comparable.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/random.h"
#include "table.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST_LEVELS =
        10 /* that occur more than once; with fewer, categories of their own say it all */
};

/* A level's prior counts for so many rows, at least and at most. */
static const double least_prior = 1e-2, most_prior = 1e6;

/* ---- Levels and their sums ------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The place of a label among sorted levels; that of the prior, behind them, for any other. */
static int64_t level_of(const struct gram_encoded_column *c, const char *label)
{
    char **found = NULL;

    if (label)
        found = bsearch(&label, c->level, (size_t)c->levels, sizeof *c->level, by_name);
    return found ? found - c->level : c->levels;
}

/* Copies the labels, sorted; none if too few of them occur more than once. */
static bool copy_levels(const struct gram_seen *seen, int64_t distinct,
                        struct gram_encoded_column *c)
{
    int64_t repeated = 0, kept;

    for (int64_t i = 0; i < distinct; i++)
        repeated += seen[i].times > 1;
    kept = repeated < LEAST_LEVELS ? 0 : distinct;
    c->level = calloc((size_t)kept + 1, sizeof *c->level);
    for (; c->level && c->levels < kept; c->levels++)
        if (!(c->level[c->levels] = strdup(seen[c->levels].label)))
            break;
    return c->level && c->levels == kept;
}

/* Sums over the rows of each level, and what follows from them of each statistic. */
struct sums {
    int64_t levels, statistics, count;
    int64_t *at;               /* the level of each row */
    int64_t *order;            /* of the rows, at random */
    double *row_weight;        /* of each row; their mean is 1 */
    double *weight, *sum;      /* levels; levels by statistics */
    double *mean;              /* of all rows */
    double *prior;             /* a; INFINITY: levels say nothing */
    double *shift, *scale;     /* feature = (statistic - shift) * scale */
    const double *const value; /* rows by statistics, column-major */
};

static bool allocate(struct sums *s)
{
    const size_t rows = (size_t)s->count, levels = (size_t)s->levels;
    const size_t statistics = (size_t)s->statistics;

    s->at = malloc(rows * sizeof *s->at + 1);
    s->order = malloc(rows * sizeof *s->order + 1);
    s->row_weight = malloc(rows * sizeof *s->row_weight + 1);
    s->weight = calloc(levels + 1, sizeof *s->weight);
    s->sum = calloc(levels * statistics + 1, sizeof *s->sum);
    s->mean = calloc(4 * statistics + 1, sizeof *s->mean);
    if (!s->at || !s->order || !s->row_weight || !s->weight || !s->sum || !s->mean)
        return false;
    s->prior = s->mean + statistics;
    s->shift = s->prior + statistics;
    s->scale = s->shift + statistics;
    return true;
}

static void release(struct sums *s)
{
    free(s->at);
    free(s->order);
    free(s->row_weight);
    free(s->weight);
    free(s->sum);
    free(s->mean);
}

static void add_row(struct sums *s, int64_t i)
{
    const int64_t at = s->at[i];

    if (at == s->levels)
        return;
    s->weight[at] += s->row_weight[i];
    for (int64_t j = 0; j < s->statistics; j++)
        s->sum[at * s->statistics + j] += s->row_weight[i] * s->value[j * s->count + i];
}

static void add_rows(struct sums *s, const gram_column *from, const int64_t *rows,
                     const struct gram_encoding *how, const struct gram_encoded_column *c)
{
    const double count = (double)s->count;
    double total = 0;

    for (int64_t i = 0; i < s->count; i++)
        total += how->weight ? how->weight[i] : 1;
    for (int64_t i = 0; i < s->count; i++) {
        s->at[i] = level_of(c, from->labels[rows[i]]);
        s->row_weight[i] = how->weight ? how->weight[i] * (count / total) : 1;
        for (int64_t j = 0; j < s->statistics; j++)
            s->mean[j] += s->row_weight[i] * s->value[j * s->count + i] / count;
        add_row(s, i);
    }
}

/* (S + a m) / (W + a) of what a level has; of what is no level, m. */
static double shrunk(const struct sums *s, int64_t level, int64_t j)
{
    if (level == s->levels || isinf(s->prior[j]))
        return s->mean[j];
    return (s->sum[level * s->statistics + j] + s->prior[j] * s->mean[j]) /
           (s->weight[level] + s->prior[j]);
}

/* ---- Priors ---------------------------------------------------------------------------------- */

/*
 * With N rows in k levels, the mean squares within and between levels are
 *   v = within / (N - k),   b = between / (k - 1),
 * and t = (between - (k - 1) v) / (N - sum of W^2 / N) estimates the variance between levels.
 * Where there is none, b / v is 1 with a standard error of about sqrt(2 / (k - 1) + 2 / (N - k));
 * what is within twice that is taken for chance.
 */
static double prior_of(const struct sums *s, int64_t j)
{
    double rows = 0, squares = 0, between = 0, within = 0, chance;
    const double levels = (double)s->levels;

    for (int64_t l = 0; l < s->levels; l++) {
        const double d = s->sum[l * s->statistics + j] / s->weight[l] - s->mean[j];

        rows += s->weight[l];
        squares += s->weight[l] * s->weight[l];
        between += s->weight[l] * d * d;
    }
    for (int64_t i = 0; i < s->count; i++)
        if (s->at[i] < s->levels) {
            const double mean = s->sum[s->at[i] * s->statistics + j] / s->weight[s->at[i]];
            const double d = s->value[j * s->count + i] - mean;
            within += s->row_weight[i] * d * d;
        }
    if (!(rows > levels + 1))
        return INFINITY;
    within /= rows - levels;
    chance = within * (1 + 2 * sqrt(2 / (levels - 1) + 2 / (rows - levels)));
    if (!(between > (levels - 1) * chance))
        return INFINITY;
    between = (between - (levels - 1) * within) / (rows - squares / rows);
    return fmin(fmax(within / between, least_prior), most_prior);
}

/* Shift and scale, by the statistics of new rows at the rows of training. */
static void find_scale(const struct sums *s, int64_t j)
{
    double rows = 0, sum = 0, squares = 0;

    s->shift[j] = s->mean[j];
    s->scale[j] = 0;
    for (int64_t l = 0; l < s->levels; l++)
        rows += s->weight[l];
    for (int64_t l = 0; l < s->levels; l++)
        sum += s->weight[l] * shrunk(s, l, j) / rows;
    for (int64_t l = 0; l < s->levels; l++) {
        const double d = shrunk(s, l, j) - sum;
        squares += s->weight[l] * d * d / rows;
    }
    if (isinf(s->prior[j]) || !(squares > 0) || !isfinite(1 / sqrt(squares)))
        return;
    s->shift[j] = sum;
    s->scale[j] = 1 / sqrt(squares);
}

/* ---- Features -------------------------------------------------------------------------------- */

static void features(const struct sums *s, int64_t level, double *out)
{
    for (int64_t j = 0; j < s->statistics; j++)
        out[j] = (shrunk(s, level, j) - s->shift[j]) * s->scale[j];
}

/* Of new rows by level, and then of the rows of training, whose sums begin once more. */
static bool find_features(struct sums *s, uint64_t seed, struct gram_encoded_column *c)
{
    const size_t each = (size_t)s->statistics * sizeof *c->statistic;

    c->statistic = malloc(((size_t)s->levels + 1) * each);
    c->trained = malloc((size_t)s->count * each + 1);
    if (!c->statistic || !c->trained)
        return false;
    c->statistics = s->statistics;
    for (int64_t l = 0; l <= s->levels; l++)
        features(s, l, c->statistic + l * s->statistics);
    memset(s->weight, 0, (size_t)s->levels * sizeof *s->weight);
    memset(s->sum, 0, (size_t)(s->levels * s->statistics) * sizeof *s->sum);
    for (int64_t i = 0; i < s->count; i++)
        s->order[i] = i;
    gram_random_choose(&seed, s->order, s->count, s->count);
    for (int64_t i = 0; i < s->count; i++) {
        features(s, s->at[s->order[i]], c->trained + s->order[i] * s->statistics);
        add_row(s, s->order[i]);
    }
    return true;
}

void gram_encoded_forget_levels(struct gram_encoded_column *c)
{
    for (int64_t l = 0; l < c->levels; l++)
        free(c->level[l]);
    free(c->level);
    free(c->statistic);
    free(c->trained);
    c->level = NULL;
    c->statistic = c->trained = NULL;
    c->levels = c->statistics = 0;
}

bool gram_encoded_fit_levels(const struct gram_level_rows *of, const struct gram_encoding *how,
                             struct gram_encoded_column *c)
{
    bool enough = copy_levels(of->seen, of->distinct, c), any = false;
    struct sums s = {.levels = c->levels,
                     .statistics = how->statistics,
                     .count = of->count,
                     .value = how->statistic};

    if (enough && c->levels > 0) {
        enough = allocate(&s);
        if (enough)
            add_rows(&s, of->from, of->rows, how, c);
        for (int64_t j = 0; enough && j < s.statistics; j++) {
            s.prior[j] = prior_of(&s, j);
            any |= isfinite(s.prior[j]) != 0;
        }
        for (int64_t j = 0; enough && j < s.statistics; j++)
            find_scale(&s, j);
        enough = enough && (!any || find_features(&s, how->seed, c));
        release(&s);
    }
    if (!enough || !any)
        gram_encoded_forget_levels(c);
    return enough;
}

const double *gram_encoded_level(const struct gram_encoded_column *c, const char *label)
{
    return c->statistic + level_of(c, label) * c->statistics;
}

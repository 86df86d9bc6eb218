/*
 * machine_ensemble.c - machines whose weighted mean is better than the best of them
 *
 * Greedy selection with replacement (Caruana, Niculescu-Mizil, Crew and Ksikes, ICML 2004): the
 * trial that makes the mean of the outputs of those chosen so far best is added, over and over, and
 * the best of the means on the way is taken.  Outputs are those by leave-one-out, before
 * calibration: all trials fit the same targets by least squares, so that their outputs have one
 * scale, and one calibration of the mean serves all.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_trial.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEPS = 12,          /* of the selection; weights are multiples of a twelfth at the finest */
    MOST_CANDIDATES = 64 /* trials of a level whose outputs are kept */
};

#define MOST_BYTES 0x1p27 /* of these outputs */

/* Whether a trial is of the level that is open, and its outputs are known. */
static bool known(const struct search *s, const struct machine_tried *t)
{
    return t->outputs && t->level == s->levels;
}

gram_status gram_machine_outputs_keep(gram_context *g, const struct search *s,
                                      struct machine_tried *one)
{
    const struct machine_trials *all = &s->job->trials;
    const struct level *level = &s->level;
    int64_t each = gram_machine_target_outputs(&s->job->kind), held = 0;
    size_t bytes = (size_t)(level->rows * each) * sizeof(double);
    struct machine_tried *worst = NULL;

    if (!isfinite(one->score))
        return GRAM_OK;
    for (int64_t i = 0; i < all->count; i++)
        if (known(s, &all->at[i])) {
            held++;
            worst = worst && worst->score >= all->at[i].score ? worst : &all->at[i];
        }
    if (held >= gram_most(1, gram_least(MOST_CANDIDATES, (int64_t)(MOST_BYTES / (double)bytes)))) {
        if (worst->score <= one->score)
            return GRAM_OK;
        one->outputs = worst->outputs;
        worst->outputs = NULL;
    } else {
        one->outputs = malloc(bytes + 1);
    }
    if (!one->outputs)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the outputs of %lld rows",
                         (long long)level->rows);
    memcpy(one->outputs, level->out, bytes);
    return GRAM_OK;
}

void gram_machine_outputs_forget(struct machine_trials *all)
{
    for (int64_t i = 0; i < all->count; i++) {
        free(all->at[i].outputs);
        all->at[i].outputs = NULL;
    }
}

/* ---- The selection --------------------------------------------------------------------------- */

/* What a selection works with; arrays of the level's rows, or of rows by outputs. */
struct selection {
    const struct search *s;
    int transform; /* index */
    int64_t rows, entries;
    double *sum, *mean;          /* outputs: of those chosen, and of a candidate */
    double *loss, *single;       /* of rows: of a candidate, and of the best trial alone */
    int times[MOST_MEMBERS];     /* of the members */
    int64_t trial[MOST_MEMBERS]; /* their indices */
    int members, chosen;
};

static double mean_loss(const struct selection *c)
{
    double sum = 0;

    for (int64_t i = 0; i < c->rows; i++)
        sum += c->loss[i];
    return isfinite(sum) ? sum / (double)c->rows : INFINITY;
}

/* The loss of the mean with one more trial's outputs (NULL: as it is). */
static double with(struct selection *c, const double *more)
{
    double count = c->chosen + (more != NULL);

    for (int64_t i = 0; i < c->entries; i++)
        c->mean[i] = (c->sum[i] + (more ? more[i] : 0)) / count;
    gram_machine_trial_losses(c->s, c->transform, c->mean, c->loss);
    return mean_loss(c);
}

static int member_of(const struct selection *c, int64_t trial)
{
    int m = 0;

    while (m < c->members && c->trial[m] != trial)
        m++;
    return m;
}

static void add(struct selection *c, int64_t trial)
{
    const double *f = c->s->job->trials.at[trial].outputs;
    int m = member_of(c, trial);

    if (m == c->members) {
        c->trial[c->members++] = trial;
        c->times[m] = 0;
    }
    c->times[m]++;
    c->chosen++;
    for (int64_t i = 0; i < c->entries; i++)
        c->sum[i] += f[i];
}

/* Whether a trial may be added to `most` members. */
static bool may_add(const struct selection *c, int64_t trial, int most)
{
    const struct machine_tried *t = &c->s->job->trials.at[trial];

    return known(c->s, t) &&
           gram_machine_level_transform(&c->s->level, t->transform) == c->transform &&
           (c->members < most || member_of(c, trial) < c->members);
}

/* The trial that is best beside those chosen, or -1. */
static int64_t best_beside(struct selection *c, int most, double *loss)
{
    int64_t best = -1;

    *loss = INFINITY;
    for (int64_t i = 0; i < c->s->job->trials.count; i++) {
        double found = may_add(c, i, most) ? with(c, c->s->job->trials.at[i].outputs) : INFINITY;

        if (found < *loss) {
            *loss = found;
            best = i;
        }
    }
    return best;
}

static void restart(struct selection *c)
{
    memset(c->sum, 0, (size_t)c->entries * sizeof *c->sum);
    c->members = c->chosen = 0;
}

/* How much less the loss of the mean is than that of the best trial alone, in standard errors of
 * the difference, row by row. */
static double difference(const struct selection *c)
{
    double error, mean = gram_machine_mean(c->rows, c->single, c->loss, &error);

    return error > 0 ? mean / error : 0;
}

/* Adds the first `steps` of the trials in order; the outputs of their mean and its losses are
 * known then. */
static void take(struct selection *c, const int64_t *order, int steps)
{
    restart(c);
    for (int step = 0; step < steps; step++)
        add(c, order[step]);
    (void)with(c, NULL);
}

/* sure: a mean that is not better by more than a standard error of the difference is not taken. */
static void choose(struct selection *c, int most, bool sure, struct machine_ensemble *out)
{
    int64_t order[STEPS];
    double least = INFINITY, loss;
    int best = 0;

    *out = (struct machine_ensemble){0};
    restart(c);
    for (int step = 0; step < STEPS; step++) {
        order[step] = best_beside(c, most, &loss);
        if (order[step] < 0)
            break;
        add(c, order[step]);
        if (loss < least) {
            least = loss;
            best = step + 1;
        }
    }
    if (best == 0)
        return;
    take(c, order, 1);
    memcpy(c->single, c->loss, (size_t)c->rows * sizeof *c->single);
    take(c, order, best);
    out->errors = difference(c);
    if (sure && c->members > 1 && !(out->errors > 1))
        take(c, order, 1);
    out->members = c->members;
    for (int m = 0; m < c->members; m++) {
        out->trial[m] = c->trial[m];
        out->weight[m] = (double)c->times[m] / (double)c->chosen;
    }
}

gram_status gram_machine_ensemble_select(gram_context *g, struct search *s,
                                         gram_transform transform, int most, bool sure,
                                         struct machine_ensemble *out)
{
    struct selection c = {.s = s,
                          .transform = gram_machine_level_transform(&s->level, transform),
                          .rows = s->level.rows,
                          .entries = s->level.rows * gram_machine_target_outputs(&s->job->kind)};
    size_t bytes = (size_t)(2 * (c.entries + c.rows)) * sizeof(double);

    c.sum = gram_alloc(g, bytes);
    if (!c.sum)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the outputs of %lld rows",
                         (long long)c.rows);
    c.mean = c.sum + c.entries;
    c.loss = c.mean + c.entries;
    c.single = c.loss + c.rows;
    choose(&c, most, sure, out);
    if (out->members > 0)
        memcpy(s->level.out, c.mean, (size_t)c.entries * sizeof *c.mean);
    gram_free(g, c.sum, bytes);
    return GRAM_OK;
}

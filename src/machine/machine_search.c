/*
 * machine_search.c - hyperparameters by validation, within a time limit
 *
 * Three levels, each with more rows and fewer candidates.  First every family (p, q) at a coarse
 * bandwidth and ridge on a few thousand rows, with five folds where there are few; the best are
 * refined and try a step of feature learning.  Then the best two again on more rows.  What the
 * caller gave is never varied.  When the time is up, the best so far is taken.  A level's scores
 * are compared with each other only.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_trial.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    FIRST_ROWS =
        6000, /* of the first level, training and validation: 0.3 s a candidate on 2 cores */
    SECOND_ROWS = 20000,
    FAMILIES = 7,
    KEPT = 3 /* families that are refined */
};

static const struct {
    double p, q;
} families[FAMILIES] = {
    {1.5, 1.4},
    {  1,   1},
    {1.3, 1.3},
    {1.7, 1.6},
    {  2,   1},
    {  2, 1.4},
    {  2,   2}
};

/* A list of candidates, best first. */
struct ranking {
    int count;
    struct machine_candidate best[KEPT];
};

struct search {
    struct machine_job *job;
    struct machine_level level;
    double opened, deadline; /* of the level, in gram_machine_seconds() */
    int tried;
};

static bool time_is_up(const struct search *s)
{
    return gram_machine_seconds() > s->deadline;
}

/* Puts a candidate into its place of the ranking; one of the same family only replaces it. */
static void rank(struct ranking *ranking, const struct machine_candidate *c, bool families_differ)
{
    int at = 0, last;

    for (int i = 0; families_differ && i < ranking->count; i++)
        if (ranking->best[i].params.p == c->params.p && ranking->best[i].params.q == c->params.q) {
            if (!(c->score < ranking->best[i].score))
                return;
            for (int j = i; j + 1 < ranking->count; j++)
                ranking->best[j] = ranking->best[j + 1];
            ranking->count--;
        }
    while (at < ranking->count && ranking->best[at].score <= c->score)
        at++;
    if (at == KEPT)
        return;
    last = ranking->count < KEPT ? ranking->count++ : KEPT - 1;
    for (int j = last; j > at; j--)
        ranking->best[j] = ranking->best[j - 1];
    ranking->best[at] = *c;
}

/* Tries a candidate if there is time; its score stays infinite otherwise. */
static gram_status try_it(gram_context *g, struct search *s, struct machine_candidate *c)
{
    char stage[48];
    double now;

    c->score = INFINITY;
    if (time_is_up(s))
        return GRAM_OK;
    now = gram_machine_seconds();
    (void)snprintf(stage, sizeof stage, "searching, %d tried", s->tried++);
    gram_machine_progress(s->job, fmin(1, (now - s->opened) / (s->deadline - s->opened)), stage);
    return gram_machine_try(g, s->job, &s->level, c);
}

/* Every family that the options allow, at two bandwidths and two ridges. */
static gram_status try_families(gram_context *g, struct search *s,
                                const struct machine_candidate *start, struct ranking *out)
{
    static const double bandwidths[] = {1, 4}, ridges[] = {1e-2, 1e-3};
    const gram_machine_options *o = &s->job->o;

    for (int f = 0; f < FAMILIES; f++)
        for (int b = 0; b < (o->bandwidth > 0 ? 1 : 2); b++)
            for (int r = 0; r < (o->regularization > 0 ? 1 : 2); r++) {
                struct machine_candidate c = *start;

                c.params.p = o->p > 0 ? o->p : families[f].p;
                c.params.q = o->q > 0 ? o->q : fmin(families[f].q, c.params.p);
                if (o->bandwidth == 0)
                    c.params.bandwidth = bandwidths[b];
                if (o->regularization == 0)
                    c.params.ridge = ridges[r];
                if (c.params.q > c.params.p || (f > 0 && o->p > 0 && o->q > 0))
                    continue;
                TRY(try_it(g, s, &c));
                rank(out, &c, true);
            }
    return GRAM_OK;
}

/* Multiplies the bandwidth or the ridge by factors as long as one of them is better. */
static gram_status refine(gram_context *g, struct search *s, bool bandwidth,
                          struct machine_candidate *best)
{
    static const double factors[] = {2, 0.5, 3, 1 / 3.0};
    const double *factor = factors + (bandwidth ? 0 : 2);

    if (bandwidth ? s->job->o.bandwidth > 0 : s->job->o.regularization > 0)
        return GRAM_OK;
    for (int direction = 0; direction < 2; direction++) {
        bool better = true;

        for (int steps = 0; better && steps < 4; steps++) {
            struct machine_candidate c = *best;

            c.params.bandwidth *= bandwidth ? factor[direction] : 1;
            c.params.ridge *= bandwidth ? 1 : factor[direction];
            TRY(try_it(g, s, &c));
            better = c.score < best->score;
            if (better)
                *best = c;
        }
    }
    return GRAM_OK;
}

/* One step of feature learning with every allowed metric and power. */
static gram_status try_learning(gram_context *g, struct search *s, struct machine_candidate *best)
{
    static const double powers[] = {0.25, 0.5};
    const gram_machine_options *o = &s->job->o;
    struct machine_candidate plain = *best;
    bool wide = !best->params.full; /* the default is the diagonal: too many features for more */

    if (o->iterations < 0)
        return GRAM_OK;
    for (int full = 1; full >= 0; full--)
        for (int p = 0; p < (o->metric_power > 0 ? 1 : 2); p++) {
            struct machine_candidate c = plain;

            if (full ? wide || o->metric == GRAM_METRIC_DIAGONAL : o->metric == GRAM_METRIC_FULL)
                continue;
            c.params.full = full;
            c.params.power = o->metric_power > 0 ? o->metric_power : powers[p];
            c.params.iterations = 1;
            TRY(try_it(g, s, &c));
            if (c.score < best->score)
                *best = c;
        }
    if (best->params.iterations > 0)
        TRY(refine(g, s, true, best));
    return GRAM_OK;
}

static gram_status first_level(gram_context *g, struct search *s,
                               const struct machine_candidate *start, struct ranking *out)
{
    struct machine_candidate first = *start;
    struct ranking coarse = {0};

    first.params.full = gram_machine_full_metric(s->job, s->level.fold[0].train.data.width);
    TRY(try_families(g, s, &first, &coarse));
    for (int i = 0; i < coarse.count; i++) {
        struct machine_candidate c = coarse.best[i];

        if (!isfinite(c.score))
            continue;
        TRY(refine(g, s, true, &c));
        TRY(refine(g, s, false, &c));
        rank(out, &c, false);
    }
    for (int i = 0; i < out->count; i++)
        TRY(try_learning(g, s, &out->best[i]));
    coarse = *out;
    out->count = 0;
    for (int i = 0; i < coarse.count; i++)
        rank(out, &coarse.best[i], false);
    return GRAM_OK;
}

/* The best two again, on more rows, with the ridge adapted to them. */
static gram_status second_level(gram_context *g, struct search *s, struct ranking *ranking)
{
    struct ranking out = {0};

    for (int i = 0; i < ranking->count && i < 2; i++) {
        struct machine_candidate c = ranking->best[i];

        TRY(try_it(g, s, &c));
        if (isfinite(c.score))
            TRY(refine(g, s, false, &c));
        if (isfinite(c.score))
            rank(&out, &c, false);
    }
    if (out.count > 0)
        *ranking = out;
    return GRAM_OK;
}

/* Each level has as much of the progress as it may take of the time. */
static gram_status open_level(gram_context *g, struct search *s, int64_t rows, double deadline)
{
    s->job->from = s->job->to;
    s->job->to += 1 / 3.0;
    s->opened = gram_machine_seconds();
    s->deadline = deadline;
    return gram_machine_level_open(g, s->job, rows, &s->level);
}

static gram_status levels(gram_context *g, struct search *s, const struct machine_candidate *start,
                          struct ranking *ranking)
{
    double limit = s->job->o.time_limit > 0 ? s->job->o.time_limit : 300;
    int64_t second = s->job->rows < SECOND_ROWS ? s->job->rows : SECOND_ROWS;
    gram_status status;

    /* A third of the time each: the last third is for the fit that follows the search. */
    TRY(open_level(g, s, FIRST_ROWS, s->job->started + limit / 3));
    status = first_level(g, s, start, ranking);
    gram_machine_level_close(g, &s->level);
    TRY(status);
    if (second <= FIRST_ROWS || ranking->count == 0)
        return GRAM_OK;
    TRY(open_level(g, s, second, s->job->started + 2 * limit / 3));
    status = second_level(g, s, ranking);
    gram_machine_level_close(g, &s->level);
    return status;
}

gram_status gram_machine_search(gram_context *g, struct machine_job *job,
                                struct machine_recipe *recipe)
{
    struct search s = {.job = job};
    struct machine_candidate start = {.params = recipe->params, .transform = recipe->transform};
    struct ranking ranking = {0};

    start.params.iterations = 0;
    TRY(levels(g, &s, &start, &ranking));
    if (ranking.count == 0 || !isfinite(ranking.best[0].score))
        return GRAM_OK; /* no time for a single candidate: the defaults stand */
    recipe->params = ranking.best[0].params;
    recipe->transform = ranking.best[0].transform;
    if (recipe->params.iterations > 0) /* the last fit keeps the best of two rounds */
        recipe->params.iterations = job->o.iterations > 0 ? job->o.iterations : 2;
    return GRAM_OK;
}

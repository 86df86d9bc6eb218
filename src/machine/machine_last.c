/*
 * machine_last.c - the last level of a search: the winner and its rivals on more rows
 *
 * Each half is scored in the metric of the other one, but among all rows.  Where a time limit
 * leaves room, the best trials of other kernels and forms of the metric are scored there too, if
 * they were about as good as the winner before: so few standard errors decide nothing.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/context.h"
#include "machine_large.h"
#include "machine_trial.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    FEW_LAST_ROWS = 1500, /* where the ridge is chosen again and other rows give the score */
    LOGISTIC_TRIAL = 3,   /* what a trial by the logistic loss takes, by least squares 1 */
    MOST_RIVALS = 4
};

/* Standard errors of a score that say nothing yet. */
static const double as_good = 2;

/* A trial once more among the rows of the last level; its score is INFINITY if it cannot be
 * trained. */
static gram_status last_trial(gram_context *g, struct search *s, int ridges, struct trial *t)
{
    struct machine_metric metric[PARTS] = {{0}, {0}};
    const int rounds = s->level.parts == PARTS ? t->params.iterations : 0;
    const bool logistic = t->params.loss == GRAM_LOSS_LOGISTIC;
    double near[MOST_RIDGES];
    int count;
    gram_status status = GRAM_OK;

    gram_machine_show(s);
    t->score = INFINITY;
    for (int round = 0; status == GRAM_OK && round < rounds; round++)
        status = gram_machine_trial_learn(g, s, t, metric);
    if (status == GRAM_OK && s->wide && !s->given_ridge && !logistic) /* a ridge of few centres */
        status = gram_machine_score_path(g, s, metric, t);
    count = gram_machine_ridges_near(s, t->params.ridge, near);
    if (logistic && count > 2) { /* weights of at most 1 make the ridges larger */
        near[1] = near[2];
        count = 2;
    }
    if (status == GRAM_OK)
        status = gram_machine_trial_score(g, s, metric, near, count < ridges ? count : ridges, t);
    for (int p = 0; p < PARTS; p++)
        gram_machine_metric_destroy(&metric[p]);
    return status == GRAM_NUMERICAL ? GRAM_OK : status;
}

static bool same(const struct machine_params *a, const struct machine_params *b)
{
    return a->p == b->p && a->q == b->q && a->bandwidth == b->bandwidth &&
           a->iterations == b->iterations &&
           (a->iterations == 0 ||
            (a->full == b->full && a->ard == b->ard && (a->ard || a->power == b->power)));
}

/* The rows of the last level.  Without a limit of the time they are few for one winner alone whose
 * leaf of all rows is going to have its ridge and its score from rows that are held out. */
static int64_t last_rows(const gram_context *g, const struct search *s, const struct trial *best)
{
    const struct machine_job *job = s->job;
    struct machine_params known = best->params;
    const int64_t width = s->level.parts > 0 ? s->level.part[0].data.width : job->table->columns;
    int64_t seen = 0;
    bool again;

    known.rounds_known = true;
    if (known.iterations > 0)
        seen = gram_machine_metric_rows(job, &known, job->rows, width);
    again = job->o.search == 0 && s->members == 1 && job->leaf_rows >= job->rows &&
            !gram_machine_is_large(g, job, job->rows) &&
            gram_machine_refit_pays(job, job->rows, seen);
    return gram_least(again ? FEW_LAST_ROWS : LAST_ROWS, gram_machine_rows_that_fit(g, s));
}

/* ---- Rivals ---------------------------------------------------------------------------------- */

/* Trials of the last level, and the seconds that one of them takes. */
struct scored {
    struct trial trial[2 + MOST_RIVALS];
    int count;
    double seconds;
};

static bool is_as_good(const struct trial *t, const struct trial *best)
{
    return t->score - best->score <= as_good * t->spread;
}

/* Whether two machines have the same kernel and the same form of the metric. */
static bool alike(const struct machine_params *a, const struct machine_params *b)
{
    const bool learned = a->iterations > 0;

    return a->p == b->p && a->q == b->q && learned == (b->iterations > 0) &&
           (!learned || (a->full == b->full && a->ard == b->ard));
}

/* Where the leaderboard has a trial of the other levels; NULL: nowhere. */
static const struct machine_tried *tried(const struct machine_trials *all, const struct trial *t)
{
    const struct machine_tried *found = NULL;

    for (int64_t i = 0; i < all->count; i++)
        if (all->at[i].score == t->score && same(&all->at[i].params, &t->params))
            found = &all->at[i];
    return found;
}

/* Whether a trial of this level, and then the fit of all rows, would end in time, as far as what it
 * took among fewer rows says: rounds grow with about the power 1.5 of the rows. */
static bool fits(const struct search *s, const struct machine_tried *t)
{
    const double rows = (double)s->level.rows / (double)t->rows;
    const double seconds = t->seconds * fmax(1, t->params.iterations) * pow(rows, 1.5);

    return gram_seconds() + 3 * seconds <= s->job->ends;
}

/* Adds one of count rivals in the place of a worse one that is like it, or of the worst if there
 * are many.  Returns how many there are. */
static int add_rival(struct trial *rival, int count, const struct trial *t)
{
    int at = 0;

    while (at < count && !alike(&rival[at].params, &t->params))
        at++;
    if (at == MOST_RIVALS)
        at--; /* they are sorted */
    if (at == count || t->score < rival[at].score)
        rival[at] = *t;
    count += at == count;
    gram_machine_sort_trials(rival, count);
    return count;
}

/* What is to be scored: the choice that would be made without a time limit, where there is one, the
 * winner, and its best rivals of other kernels and forms. */
static void find_rivals(const struct search *s, const struct trial *best, struct scored *out)
{
    const struct machine_trials *all = &s->job->trials;
    const struct machine_tried *usual = tried(all, &s->usual), *winner = tried(all, best);
    int rivals = 0;

    out->count = 0;
    if (usual && !same(&s->usual.params, &best->params) && fits(s, usual))
        out->trial[out->count++] = s->usual;
    out->trial[out->count++] = *best;
    for (int64_t i = 0; s->job->o.search > 0 && !s->wide && winner && i < all->count; i++) {
        const struct machine_tried *one = &all->at[i];
        struct trial t = {one->params, one->transform, 0, one->score, one->spread};

        if (one->level == winner->level && !alike(&t.params, &best->params) &&
            is_as_good(&t, best) && fits(s, one))
            rivals = add_rival(out->trial + out->count, rivals, &t);
    }
    out->count += rivals;
}

/* Whether another trial of this level would end in time if it took so long. */
static bool has_time(struct search *s, double seconds)
{
    return !gram_machine_time_is_up(s) &&
           (s->deadline == 0 || gram_seconds() + seconds <= s->deadline);
}

static bool may_be_logistic(const gram_context *g, const struct search *s)
{
    const gram_machine_options *o = &s->job->o;

    return o->loss != GRAM_LOSS_SQUARED && (o->search >= 0 || o->loss == GRAM_LOSS_LOGISTIC) &&
           gram_machine_may_be_logistic(g, s->job);
}

/* Whether the last trial is better than one with these losses of the level's rows by more than a
 * standard error of the difference. */
static bool is_surely_better(const struct level *level, const double *loss)
{
    double error, mean = gram_machine_mean(level->rows, loss, level->loss, &error);

    return mean > error;
}

/* The last trial is not to be chosen. */
static void forget_last(struct search *s)
{
    struct machine_tried *last = &s->job->trials.at[s->job->trials.count - 1];

    free(last->outputs);
    last->outputs = NULL;
}

/* Scores them while there is time; best becomes the best of them.  usual: room for the losses of
 * the first, which gives way to none that is not surely better; or NULL. */
static gram_status score_while_there_is_time(gram_context *g, struct search *s, struct trial *best,
                                             double *usual, struct scored *scored)
{
    /* The logistic loss comes after it. */
    const double after = may_be_logistic(g, s) ? 1 + LOGISTIC_TRIAL : 1;
    const double start = gram_seconds();
    int done = 0;

    while (done < scored->count &&
           (!isfinite(best->score) || has_time(s, after * scored->seconds))) {
        struct trial *t = &scored->trial[done++];

        TRY(last_trial(g, s, MOST_RIDGES, t));
        scored->seconds = (gram_seconds() - start) / done;
        if (!isfinite(t->score))
            continue;
        if (usual && isfinite(best->score) && !is_surely_better(&s->level, usual)) {
            forget_last(s);
            continue;
        }
        if (usual && !isfinite(best->score))
            memcpy(usual, s->level.loss, (size_t)s->level.rows * sizeof *usual);
        gram_machine_take(t, best);
    }
    scored->count = done;
    return GRAM_OK;
}

/* The winner and its rivals.  Where one machine is chosen, that is the one that would be without a
 * time limit unless another one is surely better: a search among many is better by chance. */
static gram_status score_all(gram_context *g, struct search *s, struct trial *best,
                             struct scored *scored)
{
    const size_t bytes = (size_t)s->level.rows * sizeof(double);
    double *usual = NULL;
    gram_status status;

    find_rivals(s, best, scored);
    if (s->members == 1 && scored->count > 1 && isfinite(s->usual.score) &&
        same(&scored->trial[0].params, &s->usual.params)) {
        usual = gram_alloc(g, bytes);
        if (!usual)
            return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    }
    best->score = INFINITY;
    status = score_while_there_is_time(g, s, best, usual, scored);
    gram_free(g, usual, bytes);
    TRY(status);
    s->given_transform = s->job->kind.classes == 0;
    s->transform = gram_machine_level_transform(&s->level, best->transform);
    gram_machine_sort_trials(scored->trial, scored->count);
    return GRAM_OK;
}

/* ---- The logistic loss ----------------------------------------------------------------------- */

/* A trial by the logistic loss: it becomes all that was chosen if it is better, or if this was
 * asked for.  The level's outputs are those of what was chosen. */
static gram_status try_logistic(gram_context *g, struct search *s, const struct trial *from,
                                bool always, struct trial *best, struct machine_ensemble *e)
{
    const size_t bytes = (size_t)s->level.rows * sizeof(double);
    struct machine_trials *trials = &s->job->trials;
    struct trial t = *from;
    bool better = false;
    double *former = gram_alloc(g, bytes);
    gram_status status;

    if (!former)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    memcpy(former, s->level.out, bytes);
    t.params.loss = GRAM_LOSS_LOGISTIC;
    status = last_trial(g, s, MOST_RIDGES, &t);
    if (status == GRAM_OK && isfinite(t.score))
        status = gram_machine_loss_is_better(g, s, former, s->level.out, &better);
    if (status == GRAM_OK && (better || always)) {
        *e = (struct machine_ensemble){.members = 1, .trial = {trials->count - 1}, .weight = {1}};
        *best = t;
    } else {
        memcpy(s->level.out, former, bytes);
    }
    gram_free(g, former, bytes);
    return status;
}

/* What was chosen by the logistic loss and, while there is time, what is about as good. */
static gram_status try_losses(gram_context *g, struct search *s, struct scored *scored,
                              struct trial *best, struct machine_ensemble *e)
{
    const bool asked = s->job->o.loss == GRAM_LOSS_LOGISTIC;
    const double start = gram_seconds();

    s->deadline = 0.3 * s->job->until + 0.7 * s->job->ends; /* nothing else comes after it */
    if (!may_be_logistic(g, s) || (!asked && !has_time(s, LOGISTIC_TRIAL * scored->seconds)))
        return GRAM_OK;
    for (int i = 0; i < scored->count; i++) {
        const struct trial *t = &scored->trial[i];

        if (i > 0 && (!is_as_good(t, &scored->trial[0]) || !has_time(s, scored->seconds)))
            break;
        TRY(try_logistic(g, s, t, asked && i == 0, best, e));
        scored->seconds = (gram_seconds() - start) / (i + 1);
    }
    return GRAM_OK;
}

/* ---- All of it ------------------------------------------------------------------------------- */

gram_status gram_machine_try_last(gram_context *g, struct search *s, struct trial *best,
                                  struct machine_ensemble *e, struct machine_held_out *out)
{
    struct scored scored;

    TRY(gram_machine_level_open(g, s, last_rows(g, s, best), true));
    s->keeps = true;
    s->deadline = 0.5 * (s->job->until + s->job->ends);
    TRY(score_all(g, s, best, &scored));
    if (!isfinite(best->score))
        return GRAM_OK;
    for (int m = 0; m < s->picks && !gram_machine_time_is_up(s); m++)
        if (!same(&s->picked[m].params, &best->params))
            TRY(last_trial(g, s, 1, &s->picked[m]));
    TRY(gram_machine_ensemble_select(g, s, best->transform, s->members, true, e));
    TRY(try_losses(g, s, &scored, best, e));
    for (int m = 0; m < e->members; m++)
        s->job->trials.at[e->trial[m]].weight = e->weight[m];
    return gram_machine_trial_keep(g, s, best, out);
}

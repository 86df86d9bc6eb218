/*
 * machine_rounds.c - trials of a kernel at every ridge, and in one metric after the other
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_large.h"
#include "machine_trial.h"
#include <math.h>
#include <stdio.h>

enum {
    PLANNED = 60, /* about the trials of a search without a time limit */
    RIDGES = 5,
    FAR_RIDGES = 2 /* tried where the largest one was the best */
};
static const double path_ridges[] = {1e-4, 1e-3, 1e-2, 1e-1, 1}, far_ridges[] = {10, 100};

/* Takes a trial if it is better. */
void gram_machine_take(const struct trial *t, struct trial *best)
{
    if (t->score < best->score)
        *best = *t;
}

/* Whether a trial is to be left out. */
bool gram_machine_time_is_up(struct search *s)
{
    bool up = s->deadline > 0 && gram_seconds() > s->deadline;

    s->cut = s->cut || up;
    return up;
}

void gram_machine_show(struct search *s)
{
    double done = (double)s->tried / PLANNED;
    char stage[48];

    s->work += gram_machine_work(0.5 * (double)s->level.rows);
    if (s->deadline > 0)
        done = (gram_seconds() - s->opened) / (s->ends - s->opened);
    s->shown = fmax(s->shown, fmin(1, done)); /* plans of when it ends change */
    (void)snprintf(stage, sizeof stage, "searching, %d tried", s->tried++);
    gram_machine_progress(s->job, s->shown, stage);
}

gram_status gram_machine_score_path(gram_context *g, struct search *s,
                                    struct machine_metric *metric, struct trial *t)
{
    return gram_machine_trial_score(g, s, metric, path_ridges, RIDGES, t);
}

/* A trial without a metric, at every ridge; best becomes it if it is better. */
gram_status gram_machine_try_plain(gram_context *g, struct search *s, const struct trial *from,
                                   struct trial *best)
{
    struct machine_metric none[PARTS] = {{0}, {0}};
    struct trial t = *from;

    t.params.iterations = 0;
    if (gram_machine_time_is_up(s))
        return GRAM_OK;
    gram_machine_show(s);
    if (s->given_ridge)
        TRY(gram_machine_trial_score(g, s, none, &t.params.ridge, 1, &t));
    else
        TRY(gram_machine_score_path(g, s, none, &t));
    gram_machine_take(&t, best);
    if (s->given_ridge || t.params.ridge < 1)
        return GRAM_OK;
    TRY(gram_machine_trial_score(g, s, none, far_ridges, FAR_RIDGES, &t));
    gram_machine_take(&t, best);
    return GRAM_OK;
}

/* Ridges around one, or the one that was given. */
int gram_machine_ridges_near(const struct search *s, double ridge, double *out)
{
    out[0] = ridge;
    if (s->given_ridge)
        return 1;
    out[1] = ridge * 4;
    out[2] = ridge / 4; /* not below what single precision resolves */
    return out[2] < LEAST_RIDGE ? 2 : 3;
}

/* The same with one metric for each part, at ridges around its own. */
static gram_status try_metric(gram_context *g, struct search *s, struct machine_metric *metric,
                              struct trial *t)
{
    double ridges[MOST_RIDGES];
    int count = gram_machine_ridges_near(s, t->params.ridge, ridges);

    gram_machine_show(s);
    return gram_machine_trial_score(g, s, metric, ridges, count, t);
}

/* Rounds of feature learning from a trial's form and power; best becomes the best of them if it is
 * better.  Two rounds that are no better end them. */
gram_status gram_machine_try_rounds(gram_context *g, struct search *s, const struct trial *from,
                                    int most, struct trial *best)
{
    struct machine_metric metric[PARTS] = {{0}, {0}};
    struct trial t = *from;
    gram_status status = GRAM_OK;
    double least = INFINITY;

    for (int round = 1, worse = 0; status == GRAM_OK && round <= most && worse < 2; round++) {
        if (gram_machine_time_is_up(s))
            break;
        status = gram_machine_trial_learn(g, s, &t, metric);
        t.params.iterations = round;
        if (status == GRAM_OK)
            status = try_metric(g, s, metric, &t);
        if (t.params.ard) /* one descent, which is near its end */
            worse = t.score < 0.99 * least ? 0 : 2;
        else
            worse = t.score < least ? 0 : worse + 1;
        least = fmin(least, t.score);
        if (status == GRAM_OK)
            gram_machine_take(&t, best);
    }
    for (int p = 0; p < PARTS; p++)
        gram_machine_metric_destroy(&metric[p]);
    return status == GRAM_NUMERICAL ? GRAM_OK : status; /* a trial that cannot be trained */
}

/* Sorts trials by their scores. */
void gram_machine_sort_trials(struct trial *t, int count)
{
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0 && t[j].score < t[j - 1].score; j--) {
            struct trial swap = t[j];
            t[j] = t[j - 1];
            t[j - 1] = swap;
        }
}

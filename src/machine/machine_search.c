/*
 * machine_search.c - hyperparameters by leave-one-out
 *
 * A level is a sample of the rows in two halves.  A trial is a kernel, a bandwidth and a metric; of
 * it every ridge and every transform of the target are scored at once, by the outputs of each half
 * at its own rows without the row itself (machine_loo.c).  A metric is learned from targets, so
 * that leave-one-out in the half that it came from would flatter it: each half is scored in the
 * metric of the other one.
 *
 * The first level is small.  It tries every family of kernels without a metric, and then rounds of
 * feature learning with every form and power of the metric for the best families.  The second one
 * decides among the best trial without a metric and the best of each form, on more rows.  The last
 * one has the winner alone: each half is scored in the metric of the other one, but among all rows.
 * Where there are many more rows, machines of centres may change the choice before
 * (machine_wide.c), and the leaf of all rows has its ridge chosen again (machine_refit.c).
 * What the caller gave is never varied.  The numbers of rows depend on the sizes alone, so
 * that a fit is repeatable.
 *
 * With options.search the first level is larger.  The same trials come first, then the other
 * families, powers and more rounds, and then trials at random until the time is up.  What the
 * trials took says how much of the time limit the rest of the fit needs.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/random.h"
#include "machine_large.h"
#include "machine_trial.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FAMILIES = 7,
    FULL = 0, /* forms of a metric: */
    DIAGONAL,
    ARD, /* a diagonal one by a likelihood */
    FORMS,
    LAST_ROWS = 3000,     /* most rows of the last level */
    FEW_LAST_ROWS = 1500, /* where the ridge is chosen again and other rows give the score */
    DEFAULT_ROUNDS = 5,
    MOST_ROUNDS = 10,
    LOGISTIC_TRIALS = 15, /* solves that a logistic loss takes on the last level, */
    LOGISTIC_STEPS = 6,   /* and of all rows */
    PLANNED = 60,         /* about the trials of a search without a time limit */
    MOST_IDLE = 60        /* trials in a row that have found nothing better */
};

/* ---- Trials ---------------------------------------------------------------------------------- */

enum {
    RIDGES = 5,
    FAR_RIDGES = 2 /* tried where the largest one was the best */
};
static const double path_ridges[] = {1e-4, 1e-3, 1e-2, 1e-1, 1}, far_ridges[] = {10, 100};

/* Takes a trial if it is better. */
static void take(const struct trial *t, struct trial *best)
{
    if (t->score < best->score)
        *best = *t;
}

/* Whether a trial is to be left out. */
static bool time_is_up(struct search *s)
{
    bool up = s->deadline > 0 && gram_seconds() > s->deadline;

    s->cut = s->cut || up;
    return up;
}

/* The work of a trial on halves of so many rows, in one unit for all levels. */
static double work_of(double half)
{
    return 2 * pow(half, 2.5);
}

static void show(struct search *s)
{
    double done = (double)s->tried / PLANNED;
    char stage[48];

    s->work += work_of(0.5 * (double)s->level.rows);
    if (s->deadline > 0)
        done = (gram_seconds() - s->opened) / (s->last - s->opened);
    (void)snprintf(stage, sizeof stage, "searching, %d tried", s->tried++);
    gram_machine_progress(s->job, fmin(1, done), stage);
}

/* A trial without a metric, at every ridge; best becomes it if it is better. */
static gram_status try_plain(gram_context *g, struct search *s, const struct trial *from,
                             struct trial *best)
{
    const struct machine_metric none[PARTS] = {{0}, {0}};
    struct trial t = *from;

    t.params.iterations = 0;
    if (time_is_up(s))
        return GRAM_OK;
    show(s);
    if (s->given_ridge)
        TRY(gram_machine_trial_score(g, s, none, &t.params.ridge, 1, &t));
    else
        TRY(gram_machine_trial_score(g, s, none, path_ridges, RIDGES, &t));
    take(&t, best);
    if (s->given_ridge || t.params.ridge < 1)
        return GRAM_OK;
    TRY(gram_machine_trial_score(g, s, none, far_ridges, FAR_RIDGES, &t));
    take(&t, best);
    return GRAM_OK;
}

#define LEAST_RIDGE 1e-5

/* Ridges around one, or the one that was given. */
static int ridges_near(const struct search *s, double ridge, double *out)
{
    out[0] = ridge;
    if (s->given_ridge)
        return 1;
    out[1] = ridge * 4;
    out[2] = ridge / 4; /* not below what single precision resolves */
    return out[2] < LEAST_RIDGE ? 2 : 3;
}

/* The same with one metric for each part, at ridges around its own. */
static gram_status try_metric(gram_context *g, struct search *s,
                              const struct machine_metric *metric, struct trial *t)
{
    double ridges[MOST_RIDGES];
    int count = ridges_near(s, t->params.ridge, ridges);

    show(s);
    return gram_machine_trial_score(g, s, metric, ridges, count, t);
}

/* The next metric of each part; a likelihood finds the bandwidth and the ridge that suit it too. */
static gram_status learn(gram_context *g, const struct search *s, struct trial *t,
                         struct machine_metric *metric)
{
    const struct machine_data none = {0};
    double bandwidth = 1, ridge = 1;
    int64_t each = gram_machine_target_outputs(&s->job->kind);
    int at = gram_machine_level_transform(&s->level, t->transform);

    for (int p = 0; p < s->level.parts; p++) {
        const struct part *part = &s->level.part[p];
        struct machine_params params = t->params;
        struct machine_data data = part->memory.data, z;
        struct machine_report report = {0};
        struct machine_learned learned = {params.bandwidth, params.ridge};
        struct machine_leaf leaf = {0};
        gram_status status;

        data.outputs = each;
        data.y += (size_t)(at * each * data.rows) * gram_dtype_size(data.dtype);
        params.start = metric[p].w ? &metric[p] : NULL;
        params.iterations = 0;
        params.loss = GRAM_LOSS_SQUARED;
        params.solver = GRAM_SOLVER_CHOLESKY;
        status = gram_machine_leaf_fit(g, &params, &data, &none, &leaf, &report);
        z = data;
        z.x = leaf.x;
        if (status == GRAM_OK && !metric[p].w)
            status = gram_machine_metric_create(g, data.width, params.full, &metric[p]);
        if (status == GRAM_OK)
            status = gram_machine_metric_learn(
                g, &(struct machine_gradients){&params, leaf.bandwidth, &z, &z, leaf.alpha},
                &metric[p], &learned);
        gram_machine_leaf_destroy(g, &leaf);
        TRY(status);
        bandwidth *= pow(learned.bandwidth, 1.0 / s->level.parts);
        ridge *= pow(learned.ridge, 1.0 / s->level.parts);
    }
    if (t->params.ard && t->params.relative_bandwidth)
        t->params.bandwidth = bandwidth;
    if (t->params.ard && !s->given_ridge)
        t->params.ridge = fmax(ridge, LEAST_RIDGE);
    return GRAM_OK;
}

/* Rounds of feature learning from a trial's form and power; best becomes the best of them if it is
 * better.  Two rounds that are no better end them. */
static gram_status try_rounds(gram_context *g, struct search *s, const struct trial *from, int most,
                              struct trial *best)
{
    struct machine_metric metric[PARTS] = {{0}, {0}};
    struct trial t = *from;
    gram_status status = GRAM_OK;
    double least = INFINITY;

    for (int round = 1, worse = 0; status == GRAM_OK && round <= most && worse < 2; round++) {
        if (time_is_up(s))
            break;
        status = learn(g, s, &t, metric);
        t.params.iterations = round;
        if (status == GRAM_OK)
            status = try_metric(g, s, metric, &t);
        if (t.params.ard) /* one descent, which is near its end */
            worse = t.score < 0.99 * least ? 0 : 2;
        else
            worse = t.score < least ? 0 : worse + 1;
        least = fmin(least, t.score);
        if (status == GRAM_OK)
            take(&t, best);
    }
    for (int p = 0; p < PARTS; p++)
        gram_machine_metric_destroy(&metric[p]);
    return status == GRAM_NUMERICAL ? GRAM_OK : status; /* a trial that cannot be trained */
}

/* ---- The search ------------------------------------------------------------------------------ */

static const struct {
    double p, q;
} families[FAMILIES] = {
    {1.5, 1.4},
    {  1,   1},
    {  2,   1},
    {  2,   2},
    {1.3, 1.3},
    {1.7, 1.6},
    {  2, 1.4},
};

/* How much a search tries. */
struct effort {
    int families, learners, powers, rounds; /* learners: families that learn a metric */
    int64_t rows[2];                        /* of the halves of a level */
};

static const struct effort usual =
                               {
                                   4, 2, 2, DEFAULT_ROUNDS, {600, 1200}
},
                           thorough = {FAMILIES, 3, 3, MOST_ROUNDS, {1000, 2500}};

/* What a level has tried: families by their scores, and how many of the list they are. */
struct found {
    struct trial family[FAMILIES];
    int count, families;
};

/* Sorts trials by their scores. */
static void sort(struct trial *t, int count)
{
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0 && t[j].score < t[j - 1].score; j--) {
            struct trial swap = t[j];
            t[j] = t[j - 1];
            t[j - 1] = swap;
        }
}

/* Doubles or halves the bandwidth as long as that is better. */
static gram_status try_bandwidths(gram_context *g, struct search *s, struct trial *best)
{
    static const double factors[] = {2, 0.5};

    if (s->job->o.bandwidth > 0)
        return GRAM_OK;
    for (int direction = 0; direction < 2; direction++) {
        bool better = true;

        for (int steps = 0; better && steps < 3; steps++) {
            struct trial t = *best;

            t.params.bandwidth *= factors[direction];
            TRY(try_plain(g, s, &t, best));
            better = best->params.bandwidth == t.params.bandwidth;
        }
    }
    return GRAM_OK;
}

/* Every family that the options allow and that was not tried yet, without a metric and at two
 * bandwidths; best first. */
static gram_status try_families(gram_context *g, struct search *s, const struct effort *effort,
                                const struct trial *start, struct found *found)
{
    const gram_machine_options *o = &s->job->o;
    const double before = found->count > 0 ? found->family[0].score : INFINITY;

    for (int f = found->families; f < effort->families; f++) {
        struct trial best = *start;

        best.score = INFINITY;
        for (int b = 0; b < (o->bandwidth > 0 ? 1 : 2); b++) {
            struct trial t = *start;

            t.params.p = o->p > 0 ? o->p : families[f].p;
            t.params.q = o->q > 0 ? o->q : fmin(families[f].q, t.params.p);
            t.params.bandwidth *= b ? 4 : 1;
            if (t.params.q > t.params.p || (f > 0 && o->p > 0 && o->q > 0))
                continue;
            TRY(try_plain(g, s, &t, &best));
        }
        if (isfinite(best.score))
            found->family[found->count++] = best;
    }
    found->families = effort->families;
    sort(found->family, found->count);
    if (found->count > 0 && found->family[0].score < before)
        TRY(try_bandwidths(g, s, &found->family[0]));
    return GRAM_OK;
}

static bool may_learn(const struct search *s, int form)
{
    const struct machine_job *job = s->job;

    if (job->o.iterations < 0 || s->level.parts == 1 || s->level.part[0].data.width < 2)
        return false;
    if (form == FULL)
        return gram_machine_full_metric(job, s->level.part[0].data.width);
    if (form == DIAGONAL)
        return job->o.metric == GRAM_METRIC_AUTO || job->o.metric == GRAM_METRIC_DIAGONAL;
    return gram_machine_may_be_ard(job, s->level.part[0].data.width);
}

static void set_form(struct machine_params *params, int form)
{
    params->full = form == FULL;
    params->ard = form == ARD;
}

/* For the best families and the Gaussian, which may suit what is left of many features. */
static gram_status try_ard(gram_context *g, struct search *s, const struct effort *effort, int most,
                           const struct found *found, struct trial *best)
{
    for (int i = 0; i < found->count; i++) {
        const struct trial *family = &found->family[i];
        struct trial t = *family;

        if (family->powers > 0 || !may_learn(s, ARD) ||
            (i >= effort->learners && family->params.q < 2))
            continue;
        set_form(&t.params, ARD);
        TRY(try_rounds(g, s, &t, most, best));
    }
    return GRAM_OK;
}

/* The best of every form of a metric.  Powers that a family has had already are left out. */
static gram_status try_learning(gram_context *g, struct search *s, const struct effort *effort,
                                struct found *found, struct trial *learned)
{
    static const double powers[] = {0.5, 0.25, 1};
    const gram_machine_options *o = &s->job->o;
    const int most = o->iterations > 0 ? o->iterations : effort->rounds;
    const int learners = (int)gram_least(found->count, effort->learners);

    TRY(try_ard(g, s, effort, most, found, &learned[ARD]));
    for (int form = 0; form < ARD; form++)
        for (int i = 0; i < learners; i++)
            for (int p = found->family[i].powers; p < (o->metric_power > 0 ? 1 : effort->powers);
                 p++) {
                struct trial t = found->family[i];

                if (!may_learn(s, form))
                    continue;
                set_form(&t.params, form);
                t.params.power = o->metric_power > 0 ? o->metric_power : powers[p];
                TRY(try_rounds(g, s, &t, most, &learned[form]));
            }
    for (int i = 0; i < learners; i++)
        found->family[i].powers = effort->powers;
    for (int form = 0; form < ARD && o->bandwidth == 0; form++) /* which learns its own */
        for (int b = 0; b < 2 && isfinite(learned[form].score); b++) {
            struct trial t = learned[form];

            t.params.bandwidth *= b ? 0.5 : 2;
            TRY(try_rounds(g, s, &t, t.params.iterations, &learned[form]));
        }
    return GRAM_OK;
}

/* More rounds for metrics that were still better in the last one that they had. */
static gram_status try_more_rounds(gram_context *g, struct search *s, struct trial *learned)
{
    for (int form = 0; form < FORMS && s->job->o.iterations == 0; form++) {
        struct trial t = learned[form];

        if (isfinite(t.score) && t.params.iterations == usual.rounds)
            TRY(try_rounds(g, s, &t, thorough.rounds, &learned[form]));
    }
    return GRAM_OK;
}

/* The best trial with a metric, or the one without if it is better. */
static struct trial *best_of(struct trial *plain, struct trial *learned)
{
    struct trial *best = plain;

    for (int form = FORMS - 1; form >= 0; form--)
        if (learned[form].score <= best->score)
            best = &learned[form];
    return best;
}

/* Trials near the best ones, drawn at random until the time is up or nothing better is found. */
static gram_status try_more(gram_context *g, struct search *s, struct trial *plain,
                            struct trial *learned)
{
    const gram_machine_options *o = &s->job->o;

    double best = best_of(plain, learned)->score;

    for (int idle = 0; s->deadline > 0 && !time_is_up(s) && idle < MOST_IDLE; idle++) {
        double now;
        int form = (int)(gram_random_unit(&s->random) * FORMS);
        int f = (int)(gram_random_unit(&s->random) * FAMILIES);
        struct trial t = isfinite(learned[form].score) ? learned[form] : *plain;
        bool learns = may_learn(s, form) && gram_random_unit(&s->random) < 0.8;

        if (o->p == 0 && o->q == 0 && gram_random_unit(&s->random) < 0.5) {
            t.params.p = families[f].p;
            t.params.q = families[f].q;
        }
        if (o->bandwidth == 0)
            t.params.bandwidth *= exp2(3 * gram_random_unit(&s->random) - 1.5);
        if (o->metric_power == 0)
            t.params.power = 0.2 + 0.8 * gram_random_unit(&s->random);
        set_form(&t.params, form);
        if (learns) {
            TRY(try_rounds(g, s, &t, o->iterations > 0 ? o->iterations : MOST_ROUNDS,
                           &learned[form]));
        } else {
            TRY(try_plain(g, s, &t, plain));
        }
        now = best_of(plain, learned)->score;
        idle = now < best ? 0 : idle;
        best = fmin(best, now);
    }
    return GRAM_OK;
}

/* What came first once more, on the rows of the second level.  Where the time does not suffice for
 * all of it, the first level decides. */
static gram_status try_again(gram_context *g, struct search *s, struct trial *plain,
                             struct trial *learned)
{
    const gram_machine_options *o = &s->job->o;
    const struct trial first[] = {*plain, learned[FULL], learned[DIAGONAL], learned[ARD]};

    s->cut = false;
    plain->score = INFINITY;
    TRY(try_plain(g, s, &first[0], plain));
    for (int form = 0; form < FORMS; form++) {
        struct trial t = learned[form];

        if (!isfinite(t.score))
            continue;
        learned[form].score = INFINITY;
        TRY(try_rounds(g, s, &t, o->iterations > 0 ? o->iterations : t.params.iterations + 1,
                       &learned[form]));
    }
    if (s->cut) {
        *plain = first[0];
        memcpy(learned, first + 1, FORMS * sizeof *learned);
    }
    return GRAM_OK;
}

/* The most rows that are left out at a time, for half of the memory. */
static int64_t rows_that_fit(const gram_context *g, const struct search *s)
{
    return gram_most(gram_machine_loo_rows(g, 0.5 * s->job->memory), LEAST_ROWS / 2);
}

/* The rows of a half: those of the effort, fewer where there are many features or little memory. */
static int64_t half_rows(const gram_context *g, const struct search *s, int64_t most, double work)
{
    int64_t rows = (int64_t)sqrt(work / (double)(s->job->table->columns + 1));

    rows = gram_most(gram_least(rows, most), LEAST_ROWS / 2);
    return gram_least(rows, rows_that_fit(g, s));
}

/* The trials of the first level that are best together. */
static gram_status pick(gram_context *g, struct search *s, gram_transform transform)
{
    struct machine_trials *all = &s->job->trials;
    struct machine_ensemble e;

    s->keeps = false;
    if (s->members < 2)
        return GRAM_OK;
    TRY(gram_machine_ensemble_select(g, s, transform, s->members, false, &e));
    for (int m = 0; m < e.members; m++)
        s->picked[m] = (struct trial){.params = all->at[e.trial[m]].params};
    s->picks = e.members;
    gram_machine_outputs_forget(all);
    return GRAM_OK;
}

/* ---- Time ------------------------------------------------------------------------------------ */

/* Seconds that a unit of work has taken until now. */
static double each(const struct search *s)
{
    return (gram_seconds() - s->opened) / s->work;
}

/* Seconds that the rest of a fit is going to take after the trials of two levels: the last level,
 * rounds of feature learning, and the solves of all rows.  Single precision and one ridge take a
 * tenth of a trial. */
static double rest(const gram_context *g, const struct search *s, const struct trial *best)
{
    const double n = (double)s->job->rows;
    const double last = fmin(LAST_ROWS, n), learns = fmin(n, fmax(6000, fmin(n / 2, 12000)));
    const double rounds = best->params.iterations;
    double work = work_of(last) * (rounds > 0 ? 2 : 1) + rounds * 0.3 * work_of(last / 2);

    work += s->members * 0.1 * (rounds * work_of(learns) / 2 + work_of(n));
    if (s->job->o.loss == GRAM_LOSS_AUTO && gram_machine_may_be_logistic(g, s->job))
        work += 0.1 * (LOGISTIC_TRIALS * work_of(last) + LOGISTIC_STEPS * work_of(n));
    return each(s) * work;
}

static double time_limit(const struct search *s)
{
    return s->job->o.time_limit > 0 ? s->job->o.time_limit : 300;
}

/* When choices are to end, as far as the first trials tell. */
static void plan(const gram_context *g, struct search *s, const struct trial *best)
{
    const double limit = time_limit(s);

    if (s->job->o.search <= 0)
        return;
    s->job->ends = s->job->started + limit;
    s->job->until = s->job->ends - fmin(fmax(rest(g, s, best), 0.1 * limit), 0.6 * limit);
    s->last = s->job->until - (s->wide ? 0.3 : s->members > 1 ? 0.1 : 0) * limit;
    s->last = fmax(s->last, s->job->started + 0.2 * limit);
    s->deadline = s->job->started + 0.75 * (s->last - s->job->started);
}

/* Whether there is time for the trials of the second level. */
static bool has_time(const struct search *s, const struct trial *learned, double half)
{
    double trials = 1;

    for (int form = 0; form < FORMS; form++)
        trials += isfinite(learned[form].score) ? learned[form].params.iterations + 1 : 0;
    return s->last == 0 || gram_seconds() + each(s) * trials * work_of(half) < s->last;
}

/* ---- Both levels ----------------------------------------------------------------------------- */

/* The first level: what is best without a metric, and with each form of one. */
static gram_status first_level(gram_context *g, struct search *s, const struct trial *start,
                               struct trial *plain, struct trial *learned)
{
    struct found found = {.count = 0};

    TRY(try_families(g, s, &usual, start, &found));
    if (found.count == 0)
        return GRAM_OK;
    *plain = found.family[0];
    TRY(try_learning(g, s, &usual, &found, learned));
    if (s->job->o.search <= 0)
        return GRAM_OK;
    plan(g, s, best_of(plain, learned));
    TRY(try_families(g, s, &thorough, start, &found));
    *plain = found.family[0];
    TRY(try_more_rounds(g, s, learned));
    TRY(try_learning(g, s, &thorough, &found, learned));
    TRY(try_more(g, s, plain, learned));
    plan(g, s, best_of(plain, learned));
    return GRAM_OK;
}

/* What is best without a metric, and with each form of one, on both levels. */
static gram_status levels(gram_context *g, struct search *s, const struct trial *start,
                          struct trial *plain, struct trial *learned)
{
    const bool more = s->job->o.search > 0;
    const struct effort *effort = more ? &thorough : &usual;
    int64_t first = half_rows(g, s, effort->rows[0], 1.5e8),
            second = half_rows(g, s, effort->rows[1], 1.5e9);

    s->last = more ? s->job->started + 0.8 * time_limit(s) : 0;
    s->deadline = more ? s->job->started + 0.6 * time_limit(s) : 0;
    s->keeps = s->members > 1;
    TRY(gram_machine_level_open(g, s, PARTS * first, false));
    TRY(first_level(g, s, start, plain, learned));
    if (!isfinite(plain->score))
        return GRAM_OK;
    TRY(pick(g, s, best_of(plain, learned)->transform));
    if (s->level.rows == s->job->rows || second <= first || !has_time(s, learned, (double)second))
        return GRAM_OK;
    s->deadline = s->last;
    TRY(gram_machine_level_open(g, s, PARTS * second, false));
    return try_again(g, s, plain, learned);
}

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

    show(s);
    t->score = INFINITY;
    for (int round = 0; status == GRAM_OK && round < rounds; round++)
        status = learn(g, s, t, metric);
    if (status == GRAM_OK && s->wide && !s->given_ridge && !logistic) /* a ridge of few centres */
        status = gram_machine_trial_score(g, s, metric, path_ridges, RIDGES, t);
    count = ridges_near(s, t->params.ridge, near);
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
    return gram_least(again ? FEW_LAST_ROWS : LAST_ROWS, rows_that_fit(g, s));
}

/* The winner by the logistic loss: it becomes all that was chosen if it is better, or if it was
 * asked for.  The level's outputs are those of what was chosen. */
static gram_status try_logistic(gram_context *g, struct search *s, struct trial *best,
                                struct machine_ensemble *e)
{
    const gram_machine_options *o = &s->job->o;
    const size_t bytes = (size_t)s->level.rows * sizeof(double);
    struct machine_trials *trials = &s->job->trials;
    struct trial t = *best;
    bool better = false;
    double *former;
    gram_status status;

    if (o->loss == GRAM_LOSS_SQUARED || !gram_machine_may_be_logistic(g, s->job) ||
        (o->loss == GRAM_LOSS_AUTO && (o->search < 0 || time_is_up(s))))
        return GRAM_OK;
    former = gram_alloc(g, bytes);
    if (!former)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    memcpy(former, s->level.out, bytes);
    t.params.loss = GRAM_LOSS_LOGISTIC;
    status = last_trial(g, s, MOST_RIDGES, &t);
    if (status == GRAM_OK && isfinite(t.score))
        status = gram_machine_loss_is_better(g, s, former, s->level.out, &better);
    if (status == GRAM_OK && (better || o->loss == GRAM_LOSS_LOGISTIC)) {
        for (int m = 0; m < e->members; m++)
            trials->at[e->trial[m]].weight = 0;
        *e = (struct machine_ensemble){.members = 1, .trial = {trials->count - 1}, .weight = {1}};
        *best = t;
    } else {
        memcpy(s->level.out, former, bytes);
    }
    gram_free(g, former, bytes);
    return status;
}

/* The winner on the rows of the last level: its ridge, and the outputs that say how good it is and
 * calibrate probabilities.  With an ensemble, those that were picked too, and the best of all of
 * them together. */
static gram_status try_last(gram_context *g, struct search *s, struct trial *best,
                            struct machine_ensemble *e, struct machine_held_out *out)
{
    TRY(gram_machine_level_open(g, s, last_rows(g, s, best), true));
    s->keeps = true;
    s->deadline = 0.5 * (s->job->until + s->job->ends);
    TRY(last_trial(g, s, MOST_RIDGES, best));
    if (!isfinite(best->score))
        return GRAM_OK;
    s->given_transform = s->job->kind.classes == 0;
    s->transform = gram_machine_level_transform(&s->level, best->transform);
    for (int m = 0; m < s->picks && !time_is_up(s); m++)
        if (!same(&s->picked[m].params, &best->params))
            TRY(last_trial(g, s, 1, &s->picked[m]));
    TRY(gram_machine_ensemble_select(g, s, best->transform, s->members, true, e));
    TRY(try_logistic(g, s, best, e));
    for (int m = 0; m < e->members; m++)
        s->job->trials.at[e->trial[m]].weight = e->weight[m];
    return gram_machine_trial_keep(g, s, best, out);
}

/* Puts what was chosen on the last level into the recipe. */
static void settle(const struct search *s, const struct machine_ensemble *e,
                   struct machine_recipe *recipe)
{
    for (int m = 0; m < e->members; m++) {
        struct machine_params *params = &recipe->member[m].params;

        *params = s->job->trials.at[e->trial[m]].params;
        params->rounds_known = true;
        params->ridge_chosen = !s->given_ridge;
        recipe->member[m].weight = e->weight[m];
    }
    recipe->members = e->members > 0 ? e->members : 1;
}

static gram_status run(gram_context *g, struct search *s, struct machine_recipe *recipe,
                       struct machine_held_out *out)
{
    const gram_machine_options *o = &s->job->o;
    struct trial start = {.params = recipe->member[0].params, .transform = recipe->transform};
    struct trial plain, learned[FORMS], *best;
    struct machine_ensemble ensemble = {0};

    start.score = INFINITY;
    if (o->search < 0) { /* the documented defaults: only their outputs are found */
        s->given_ridge = true;
        return try_last(g, s, &start, &ensemble, out);
    }
    if (o->bandwidth == 0)
        start.params.bandwidth = 1;
    plain = start;
    for (int form = 0; form < FORMS; form++)
        learned[form] = start;
    TRY(levels(g, s, &start, &plain, learned));
    if (!isfinite(plain.score)) /* no time for a single trial: the defaults stand */
        return GRAM_OK;
    best = best_of(&start, learned);
    s->job->without = plain.score;
    s->job->with = best->score;
    if (!(best->score < 0.995 * plain.score)) /* less is not worth a metric */
        best = &plain;
    if (s->wide)
        TRY(gram_machine_wide_choose(g, s->job, best->transform, &best->params));
    s->levels = gram_machine_trials_level(&s->job->trials);
    TRY(try_last(g, s, best, &ensemble, out));
    recipe->member[0].params = best->params; /* if nothing could be scored again */
    recipe->member[0].params.rounds_known = true;
    recipe->member[0].params.ridge_chosen = !s->given_ridge;
    settle(s, &ensemble, recipe);
    recipe->transform = best->transform;
    return GRAM_OK;
}

/* How many machines may be chosen together: where nothing is said, several if a solve with all rows
 * takes a fraction of a second.  On few rows a choice among so many means flatters their errors,
 * and intervals that come from these would be too narrow. */
static int members_of(const struct machine_job *job)
{
    double n = (double)job->rows, work = n * n * (n / 3 + 10 * (double)job->table->columns);

    if (job->o.search < 0 || job->o.ensemble > 0)
        return job->o.search < 0 ? 1 : job->o.ensemble;
    if (job->rows < 200)
        return 1;
    return work < 2e10 ? 6 : 1;
}

gram_status gram_machine_search(gram_context *g, struct machine_job *job,
                                struct machine_recipe *recipe, struct machine_held_out *out)
{
    struct search s = {.job = job,
                       .random = job->o.seed,
                       .given_ridge = job->o.regularization > 0,
                       .members = members_of(job),
                       .wide = gram_machine_is_wide(g, job),
                       .opened = gram_seconds()};
    gram_status status;

    job->to = 0.5;
    status = run(g, &s, recipe, out);
    gram_machine_level_close(g, &s.level);
    gram_scratch_release(g);
    gram_machine_give_back();
    return status;
}

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
 * one (machine_last.c) has the winner alone or, with a time limit, its rivals too: each half is
 * scored in the metric of the other one, but among all rows.
 * Two ranks share the halves (machine_halves.c).
 * Where there are many more rows, machines of centres may change the choice before
 * (machine_wide.c), and the leaf of all rows has its ridge chosen again (machine_refit.c).
 * What the caller gave is never varied.  The numbers of rows depend on the sizes alone, so
 * that a fit is repeatable.
 *
 * With options.search all of this comes first, so that its winner meets those of the search on the
 * last level.  Then a larger first level has the same trials, the other families, powers and more
 * rounds, and trials at random until the time is up.  What the trials took says how much of the
 * time limit the rest of the fit needs.
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
    RIVALS = 3, /* about the trials of the last level of a search with a time limit */
    FAMILIES = 7,
    FULL = 0, /* forms of a metric: */
    DIAGONAL,
    ARD, /* a diagonal one by a likelihood */
    FORMS,
    DEFAULT_ROUNDS = 5,
    MOST_ROUNDS = 10,
    LOGISTIC_TRIALS = 15, /* solves that a logistic loss takes on the last level, */
    LOGISTIC_STEPS = 12,  /* and of all rows */
    MOST_IDLE = 60        /* trials in a row that have found nothing better */
};

/* Standard errors of a score that another form or more rows do not make good. */
static const double hopeless = 4;

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

/* The best trial without a metric, and with each form of one; a score is INFINITY where there is
 * none. */
struct chosen {
    struct trial plain, learned[FORMS];
};

/* Where a level begins: start has no score. */
static struct chosen nothing(const struct trial *start)
{
    struct chosen c = {.plain = *start};

    for (int form = 0; form < FORMS; form++)
        c.learned[form] = *start;
    return c;
}

/* The best trial with a metric. */
static struct trial *best_learned(struct trial *learned)
{
    struct trial *best = &learned[FORMS - 1];

    for (int form = FORMS - 2; form >= 0; form--)
        if (learned[form].score <= best->score)
            best = &learned[form];
    return best;
}

/* The same, or the trial without a metric if that is better. */
static struct trial *best_of(struct trial *plain, struct trial *learned)
{
    struct trial *best = best_learned(learned);

    return best->score <= plain->score ? best : plain;
}

/* Whether a trial is so much worse than the best one that more rows, or another bandwidth, are not
 * going to make it the best. */
static bool is_hopeless(const struct trial *t, const struct trial *best)
{
    return t->score - best->score > hopeless * t->spread;
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
            TRY(gram_machine_try_plain(g, s, &t, best));
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
            TRY(gram_machine_try_plain(g, s, &t, &best));
        }
        if (isfinite(best.score))
            found->family[found->count++] = best;
    }
    found->families = effort->families;
    gram_machine_sort_trials(found->family, found->count);
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
        TRY(gram_machine_try_rounds(g, s, &t, most, best));
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
                TRY(gram_machine_try_rounds(g, s, &t, most, &learned[form]));
            }
    for (int i = 0; i < learners; i++)
        found->family[i].powers = effort->powers;
    for (int form = 0; form < ARD && o->bandwidth == 0; form++) /* which learns its own */
        for (int b = 0; b < 2; b++) {
            struct trial t = learned[form];

            if (is_hopeless(&t, best_of(&found->family[0], learned)))
                break;
            t.params.bandwidth *= b ? 0.5 : 2;
            TRY(gram_machine_try_rounds(g, s, &t, t.params.iterations, &learned[form]));
        }
    return GRAM_OK;
}

/* More rounds for metrics that were still better in the last one that they had. */
static gram_status try_more_rounds(gram_context *g, struct search *s, struct trial *learned)
{
    for (int form = 0; form < FORMS && s->job->o.iterations == 0; form++) {
        struct trial t = learned[form];

        if (isfinite(t.score) && t.params.iterations == usual.rounds)
            TRY(gram_machine_try_rounds(g, s, &t, thorough.rounds, &learned[form]));
    }
    return GRAM_OK;
}

/* Trials near the best ones, drawn at random until the time is up or nothing better is found. */
static gram_status try_more(gram_context *g, struct search *s, struct trial *plain,
                            struct trial *learned)
{
    const gram_machine_options *o = &s->job->o;

    double best = best_of(plain, learned)->score;

    for (int idle = 0; s->deadline > 0 && !gram_machine_time_is_up(s) && idle < MOST_IDLE; idle++) {
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
            TRY(gram_machine_try_rounds(g, s, &t, o->iterations > 0 ? o->iterations : MOST_ROUNDS,
                                        &learned[form]));
        } else {
            TRY(gram_machine_try_plain(g, s, &t, plain));
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
    TRY(gram_machine_try_plain(g, s, &first[0], plain));
    for (int form = 0; form < FORMS; form++) {
        struct trial t = learned[form];

        if (!isfinite(t.score))
            continue;
        learned[form].score = INFINITY;
        TRY(gram_machine_try_rounds(
            g, s, &t, o->iterations > 0 ? o->iterations : t.params.iterations + 1, &learned[form]));
    }
    if (s->cut) {
        *plain = first[0];
        memcpy(learned, first + 1, FORMS * sizeof *learned);
    }
    return GRAM_OK;
}

/* The most rows that are left out at a time, for half of the memory. */
int64_t gram_machine_rows_that_fit(const gram_context *g, const struct search *s)
{
    return gram_most(gram_machine_loo_rows(g, 0.5 * s->job->memory), LEAST_ROWS / 2);
}

/* The rows of a half: those of the effort, fewer where there are many features or little memory. */
static int64_t half_rows(const gram_context *g, const struct search *s, int64_t most, double work)
{
    int64_t rows = (int64_t)sqrt(work / (double)(s->job->table->columns + 1));

    rows = gram_most(gram_least(rows, most), LEAST_ROWS / 2);
    return gram_least(rows, gram_machine_rows_that_fit(g, s));
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

static bool may_be_logistic(const gram_context *g, const struct search *s)
{
    return s->job->o.loss == GRAM_LOSS_AUTO && gram_machine_may_be_logistic(g, s->job);
}

/* Seconds that the rest of a fit is going to take after the trials of two levels: the last level,
 * rounds of feature learning, and the solves of all rows.  Single precision and one ridge take a
 * tenth of a trial. */
static double rest(const gram_context *g, const struct search *s, const struct trial *best)
{
    const double n = (double)s->job->rows;
    const double last = fmin(LAST_ROWS, n), learns = fmin(n, fmax(6000, fmin(n / 2, 12000)));
    const double rounds = best->params.iterations;
    double work =
        gram_machine_work(last) * (rounds > 0 ? 2 : 1) + rounds * 0.3 * gram_machine_work(last / 2);

    work += s->members * 0.1 * (rounds * gram_machine_work(learns) / 2 + gram_machine_work(n));
    if (may_be_logistic(g, s))
        work += 0.1 *
                (LOGISTIC_TRIALS * gram_machine_work(last) + LOGISTIC_STEPS * gram_machine_work(n));
    return each(s) * work;
}

static double time_limit(const struct search *s)
{
    return s->job->o.time_limit > 0 ? s->job->o.time_limit : 300;
}

/* When choices are to end, as far as the first trials tell. */
static void plan(const gram_context *g, struct search *s, const struct trial *best)
{
    const double limit = time_limit(s), most = may_be_logistic(g, s) ? 0.7 : 0.6;

    if (s->job->o.search <= 0)
        return;
    s->job->ends = s->job->started + limit;
    s->job->until = s->job->ends - fmin(fmax(rest(g, s, best), 0.1 * limit), most * limit);
    s->last = s->job->until - (s->wide ? 0.3 : s->members > 1 ? 0.1 : 0) * limit;
    s->last = fmax(s->last, s->job->started + 0.2 * limit);
    s->ends = s->last;
    s->deadline = s->job->started + 0.75 * (s->last - s->job->started);
}

/* Whether there is time for the trials of the second level. */
static bool has_time(const struct search *s, const struct trial *learned, double half)
{
    double trials = 1;

    for (int form = 0; form < FORMS; form++)
        trials += isfinite(learned[form].score) ? learned[form].params.iterations + 1 : 0;
    return s->last == 0 || gram_seconds() + each(s) * trials * gram_machine_work(half) < s->last;
}

/* ---- Both levels ----------------------------------------------------------------------------- */

/* The first level: what is best without a metric, and with each form of one. */
static gram_status first_level(gram_context *g, struct search *s, const struct effort *effort,
                               const struct trial *start, struct chosen *c)
{
    struct found found = {.count = 0};

    TRY(try_families(g, s, &usual, start, &found));
    if (found.count == 0)
        return GRAM_OK;
    c->plain = found.family[0];
    TRY(try_learning(g, s, &usual, &found, c->learned));
    if (effort == &usual)
        return GRAM_OK;
    plan(g, s, best_of(&c->plain, c->learned));
    TRY(try_families(g, s, &thorough, start, &found));
    c->plain = found.family[0];
    TRY(try_more_rounds(g, s, c->learned));
    TRY(try_learning(g, s, &thorough, &found, c->learned));
    TRY(try_more(g, s, &c->plain, c->learned));
    plan(g, s, best_of(&c->plain, c->learned));
    return GRAM_OK;
}

/* What is best without a metric, and with each form of one, on both levels. */
static gram_status levels(gram_context *g, struct search *s, const struct effort *effort,
                          const struct trial *start, struct chosen *c)
{
    int64_t first = half_rows(g, s, effort->rows[0], 1.5e8),
            second = half_rows(g, s, effort->rows[1], 1.5e9);

    *c = nothing(start);
    TRY(gram_machine_level_open(g, s, PARTS * first, false));
    TRY(first_level(g, s, effort, start, c));
    if (!isfinite(c->plain.score))
        return GRAM_OK;
    TRY(pick(g, s, best_of(&c->plain, c->learned)->transform));
    for (int form = 0; form < FORMS; form++)
        if (is_hopeless(&c->learned[form], best_of(&c->plain, c->learned)))
            c->learned[form].score = INFINITY;
    if (s->level.rows == s->job->rows || second <= first ||
        !has_time(s, c->learned, (double)second))
        return GRAM_OK;
    s->deadline = s->last;
    TRY(gram_machine_level_open(g, s, PARTS * second, false));
    return try_again(g, s, &c->plain, c->learned);
}

/* The winner: a metric has to be worth it. */
static struct trial *winner_of(struct chosen *c)
{
    struct trial *best = best_learned(c->learned);

    return best->score < 0.995 * c->plain.score ? best : &c->plain;
}

/* Both levels.  A search begins with the choice that would be made without one, and goes on with
 * more families, powers, rounds and rows. */
static gram_status all_levels(gram_context *g, struct search *s, const struct trial *start,
                              struct chosen *c)
{
    const double started = s->job->started, limit = time_limit(s);
    const bool searches = s->job->o.search > 0;
    struct chosen more;

    if (searches) {
        s->last = s->deadline = started + 0.4 * limit;
        s->ends = started + 0.8 * limit;
    }
    s->keeps = s->members > 1 && !searches;
    *c = nothing(start);
    if (!searches || !s->wide) /* the choice among many rows is made once */
        TRY(levels(g, s, &usual, start, c));
    if (!searches)
        return GRAM_OK;
    if (isfinite(c->plain.score))
        s->usual = *winner_of(c);
    s->cut = false;
    s->last = started + 0.8 * limit;
    s->deadline = started + 0.6 * limit;
    s->keeps = s->members > 1;
    TRY(levels(g, s, &thorough, start, &more));
    if (!isfinite(more.plain.score))
        return GRAM_OK;
    /* Where there was no time for metrics, those of fewer rows may still be better. */
    if (isfinite(best_learned(more.learned)->score) || winner_of(c)->score >= more.plain.score)
        *c = more;
    return GRAM_OK;
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
    struct trial *best;
    struct chosen c;
    struct machine_ensemble ensemble = {0};

    start.score = INFINITY;
    if (o->search < 0) { /* the documented defaults: only their outputs are found */
        s->given_ridge = true;
        TRY(gram_machine_try_last(g, s, &start, &ensemble, out));
        recipe->member[0].params.loss = start.params.loss; /* those outputs are by this loss */
        return GRAM_OK;
    }
    if (o->bandwidth == 0)
        start.params.bandwidth = 1;
    TRY(all_levels(g, s, &start, &c));
    if (!isfinite(c.plain.score)) /* no time for a single trial: the defaults stand */
        return GRAM_OK;
    s->job->without = c.plain.score;
    s->job->with = best_learned(c.learned)->score;
    best = winner_of(&c);
    if (s->wide)
        TRY(gram_machine_wide_choose(g, s->job, best->transform, &best->params));
    s->levels = gram_machine_trials_level(&s->job->trials);
    TRY(gram_machine_try_last(g, s, best, &ensemble, out));
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
                       .usual = {.score = INFINITY},
                       .opened = gram_seconds()};
    gram_status status;

    job->to = 0.5;
    status = gram_machine_sides_open(g, &s);
    if (status == GRAM_OK)
        status = run(g, &s, recipe, out);
    gram_machine_level_close(g, &s.level);
    gram_machine_sides_close(&s);
    gram_scratch_release(g);
    gram_machine_give_back();
    return status;
}

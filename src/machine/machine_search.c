/*
 * machine_search.c - hyperparameters by validation, within a time limit
 *
 * Three levels, each with more rows and fewer candidates.  First every family (p, q) at a coarse
 * bandwidth and ridge on a few thousand rows, with five folds where there are few; the best are
 * refined and try a step of feature learning.  Then the best two again on more rows.  What the
 * caller gave is never varied.  When the time is up, the best so far is taken.  A level's scores
 * are compared with each other only.
 *
 * A candidate is trained on each fold and scored on the rest.  A regression's target transforms are
 * tried together: each is one more right-hand side of the same system, decoded and scored in the
 * target's own units.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MACHINE_FOLDS = 5,     /* where there are few rows */
    MACHINE_TRANSFORMS = 3 /* none, sqrt, log */
};

struct machine_candidate {
    struct machine_params params;
    gram_transform transform; /* AUTO: the best of the level's is filled in by try_on_folds */
    double score;             /* lower is better: rmse, or error rate + mean squared error */
};

/* A training and a validation part; the targets under every transform are outputs side by side. */
struct machine_fold {
    struct machine_encoded train, valid;
    int transforms; /* targets side by side */
    int64_t count;  /* rows of valid */
    int64_t *row;   /* its rows, borrowed from rows of the level */
    struct machine_target target[MACHINE_TRANSFORMS]; /* scales of this fold; names borrowed */
};

struct machine_level {
    int folds, transforms;
    int64_t *rows;    /* of all folds, from the context's allocator */
    size_t row_bytes; /* of rows */
    struct machine_fold fold[MACHINE_FOLDS];
};

/* ---- Trials ---------------------------------------------------------------------------------- */

enum {
    FOLD_ROWS = 3000,      /* with fewer, one held-out part would decide by chance */
    MOST_VALIDATION = 8000 /* more do not decide better */
};

/* Which transforms a target without a given one is tried under: a positive one that leans to small
 * values also by its root and its logarithm. */
static int transforms_of(const struct machine_job *job, gram_transform *out)
{
    double n = (double)job->rows, mean = 0, m2 = 0, m3 = 0, least = INFINITY;

    out[0] = job->o.target_transform;
    if (job->kind.classes > 0)
        out[0] = GRAM_TRANSFORM_NONE;
    if (out[0] != GRAM_TRANSFORM_AUTO)
        return 1;
    for (int64_t i = 0; i < job->rows; i++)
        mean += job->target->numbers[job->row[i]] / n;
    for (int64_t i = 0; i < job->rows; i++) {
        double v = job->target->numbers[job->row[i]], d = v - mean;
        m2 += d * d / n;
        m3 += d * d * d / n;
        least = fmin(least, v);
    }
    out[0] = GRAM_TRANSFORM_NONE;
    out[1] = GRAM_TRANSFORM_SQRT;
    out[2] = GRAM_TRANSFORM_LOG;
    return least > 0 && m3 > pow(m2, 1.5) ? MACHINE_TRANSFORMS : 1;
}

/* Features and all targets of some rows. */
static gram_status encode(gram_context *g, const struct machine_job *job,
                          const struct gram_encoder *encoder, const struct machine_fold *fold,
                          const int64_t *rows, int64_t count, struct machine_encoded *out)
{
    int64_t each = gram_machine_target_outputs(&job->kind);
    size_t column = (size_t)count * gram_dtype_size(job->o.dtype);

    TRY(gram_machine_encoded_create(g, job, (int64_t[2]){count, encoder->width},
                                    each * fold->transforms, out));
    for (int t = 0; t < fold->transforms; t++)
        gram_machine_target_encode(&fold->target[t], job->target, rows, count, job->o.dtype,
                                   (char *)out->data.y + (size_t)(t * each) * column);
    for (int64_t i = 0; out->data.weights && i < count; i++)
        ((double *)out->data.weights)[i] = job->o.weights[rows[i]];
    return gram_encoder_apply(g, encoder, job->table, rows, count, job->o.dtype,
                              (char *)out->data.x);
}

static gram_status fold_open(gram_context *g, struct machine_job *job, const int64_t *train,
                             int64_t count, const gram_transform *transform,
                             struct machine_fold *fold)
{
    struct gram_encoder *encoder = NULL;
    const struct gram_encoding how = {GRAM_STANDARDISE, job->o.max_categories};
    gram_status status =
        gram_encoder_fit(g, job->table, job->target->name, train, count, &how, &encoder);

    for (int t = 0; status == GRAM_OK && t < fold->transforms; t++) {
        fold->target[t] = job->kind;
        if (job->kind.classes == 0)
            status = gram_machine_target_scale(g, job->target, transform[t], train, count,
                                               &fold->target[t]);
    }
    if (status == GRAM_OK)
        status = encode(g, job, encoder, fold, train, count, &fold->train);
    if (status == GRAM_OK)
        status = encode(g, job, encoder, fold, fold->row, fold->count, &fold->valid);
    gram_encoder_destroy(encoder);
    return status;
}

static void level_close(gram_context *g, struct machine_level *level)
{
    for (int f = 0; f < level->folds; f++) {
        gram_machine_encoded_destroy(g, &level->fold[f].train);
        gram_machine_encoded_destroy(g, &level->fold[f].valid);
    }
    gram_free(g, level->rows, level->row_bytes);
    *level = (struct machine_level){0};
}

/* Fold f of `folds`: its validation rows go to the front of room, the others behind them. */
static void arrange(const struct machine_job *job, int64_t n, int64_t held, int f, int folds,
                    int64_t *room)
{
    int64_t first = folds > 1 ? n * f / folds : n - held;
    int64_t last = folds > 1 ? n * (f + 1) / folds : n;

    memcpy(room, job->row + first, (size_t)(last - first) * sizeof *room);
    memcpy(room + (last - first), job->row, (size_t)first * sizeof *room);
    memcpy(room + last, job->row + last, (size_t)(n - last) * sizeof *room);
}

/* Draws at most `rows` rows of the job, in folds if there are few. */
static gram_status level_open(gram_context *g, struct machine_job *job, int64_t rows,
                              struct machine_level *out)
{
    int64_t n = job->rows < rows ? job->rows : rows;
    double fraction = job->o.validation > 0 ? job->o.validation : n < 10000 ? 0.3 : 0.2;
    int64_t held = (int64_t)(fraction * (double)n);
    struct machine_level level = {.folds = n < FOLD_ROWS ? MACHINE_FOLDS : 1};
    gram_transform transform[MACHINE_TRANSFORMS] = {0};
    gram_status status = GRAM_OK;

    held = held < 1 ? 1 : held < MOST_VALIDATION ? held : MOST_VALIDATION;
    if (n < 2 * MACHINE_FOLDS)
        level.folds = 1;
    level.transforms = transforms_of(job, transform);
    level.row_bytes = (size_t)(n * level.folds) * sizeof *level.rows;
    level.rows = gram_alloc(g, level.row_bytes);
    if (!level.rows)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld rows", (long long)n);
    for (int f = 0; status == GRAM_OK && f < level.folds; f++) {
        struct machine_fold *fold = &level.fold[f];

        fold->row = level.rows + f * n;
        fold->count = level.folds > 1 ? n * (f + 1) / level.folds - n * f / level.folds : held;
        arrange(job, n, held, f, level.folds, fold->row);
        fold->transforms = level.transforms;
        status = fold_open(g, job, fold->row + fold->count, n - fold->count, transform, fold);
    }
    if (status != GRAM_OK)
        level_close(g, &level);
    *out = level;
    return status;
}

/* Adds a fold's losses: of each transform the squared error of all rows, or of the classification
 * its error rate and mean squared error, weighted by rows. */
static gram_status try_fold(gram_context *g, const struct machine_job *job,
                            const struct machine_level *level, const struct machine_fold *fold,
                            const struct machine_candidate *c, double *loss)
{
    int64_t outputs = fold->valid.data.outputs, each = outputs / level->transforms;
    size_t bytes = (size_t)(fold->count * outputs) * sizeof(double);
    double *f = gram_alloc(g, bytes), rows = (double)fold->count;
    struct machine_report report = {0};
    struct machine_leaf leaf = {0};
    gram_status status;

    if (!f)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    status =
        gram_machine_leaf_fit(g, &c->params, &fold->train.data, &fold->valid.data, &leaf, &report);
    if (status == GRAM_OK)
        status = gram_machine_leaf_predict(g, &leaf, fold->count, fold->valid.data.x, f);
    for (int t = 0; status == GRAM_OK && t < level->transforms; t++) {
        gram_machine_score score;

        status = gram_machine_score_outputs(g, &fold->target[t], job->target, fold->row,
                                            fold->count, f + t * each * fold->count, &score);
        loss[t] += job->kind.classes ? rows * (1 - score.score + report.score * (double)outputs)
                                     : rows * score.score * score.score;
    }
    gram_machine_leaf_destroy(g, &leaf);
    gram_free(g, f, bytes);
    return status;
}

static void remember(struct machine_job *job, const struct machine_level *level,
                     const struct machine_candidate *c)
{
    struct gram_json_text *t = &job->history;
    const struct {
        const char *name;
        double value;
    } entries[] = {
        {                                                             "rows", (double)(level->fold[0].train.data.rows + level->fold[0].count)},
        {                                                                "p",                                                     c->params.p},
        {                                                                "q",                                                     c->params.q},
        {c->params.relative_bandwidth ? "bandwidth_in_medians" : "bandwidth",                                             c->params.bandwidth},
        {                                                   "regularization",                                                 c->params.ridge},
        {                                                       "iterations",                                            c->params.iterations},
        {                                                      "full_metric",                                                  c->params.full},
        {                                                     "metric_power",                                                 c->params.power},
        {                                                        "transform",                                                    c->transform},
        {                                                            "score",                                                        c->score},
    };

    gram_json_add(t, t->length > 0 ? ", {" : "{");
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        gram_json_add_name(t, entries[i].name);
        gram_json_add_number(t, entries[i].value);
    }
    gram_json_add(t, "}");
}

/* Trains and scores a candidate on every fold: fills in its score (infinite if it cannot be
 * trained) and transform. */
static gram_status try_on_folds(gram_context *g, struct machine_job *job,
                                const struct machine_level *level, struct machine_candidate *c)
{
    double loss[MACHINE_TRANSFORMS] = {0}, rows = 0;
    gram_status status = GRAM_OK;
    int best = 0;

    for (int f = 0; status == GRAM_OK && f < level->folds; f++) {
        status = try_fold(g, job, level, &level->fold[f], c, loss);
        rows += (double)level->fold[f].count;
    }
    for (int t = 1; t < level->transforms; t++)
        if (loss[t] < loss[best])
            best = t;
    c->score = status == GRAM_OK ? loss[best] / rows : INFINITY;
    if (status == GRAM_OK && !isfinite(c->score))
        c->score = INFINITY;
    if (job->kind.classes == 0) {
        c->score = sqrt(c->score);
        c->transform = level->fold[0].target[best].transform;
    }
    if (status == GRAM_OK)
        remember(job, level, c);
    return status == GRAM_NUMERICAL ? GRAM_OK : status; /* a candidate that cannot be trained */
}

/* ---- The search ------------------------------------------------------------------------------ */

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
    return try_on_folds(g, s->job, &s->level, c);
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
    return level_open(g, s->job, rows, &s->level);
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
    level_close(g, &s->level);
    TRY(status);
    if (second <= FIRST_ROWS || ranking->count == 0)
        return GRAM_OK;
    TRY(open_level(g, s, second, s->job->started + 2 * limit / 3));
    status = second_level(g, s, ranking);
    level_close(g, &s->level);
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

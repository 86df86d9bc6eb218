/*
 * machine_trial.c - train a candidate on each fold, score it on the rest
 *
 * A regression's target transforms are tried together: each is one more right-hand side of the same
 * system, decoded and scored in the target's own units.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_trial.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

void gram_machine_level_close(gram_context *g, struct machine_level *level)
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

gram_status gram_machine_level_open(gram_context *g, struct machine_job *job, int64_t rows,
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
        gram_machine_level_close(g, &level);
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

gram_status gram_machine_try(gram_context *g, struct machine_job *job,
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

/*
 * machine_wide.c - what leave-one-out has chosen, compared on more rows
 *
 * A metric that is learned from 1,200 rows is so blurred that kernels and powers which suit a sharp
 * one lose in it.  Machines of few centres (machine_choice.c) learn one from 12,000 rows in the
 * time that the search takes for some trials.  What they choose, by rows that are held out, is
 * taken if it is better than the choice of the search among them.  With a time limit they end when
 * the rest of the fit needs what is left.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/view.h"
#include "machine_large.h"
#include <math.h>

enum {
    WIDE_ROWS = 8000, /* from here on */
    TRAIN_ROWS = 9000,
    HELD_ROWS = 3000 /* at most, and at most a quarter */
};

static const double better = 0.99; /* the share of the error that is left */

bool gram_machine_is_wide(const gram_context *g, const struct machine_job *job)
{
    return job->o.search >= 0 && job->rows >= WIDE_ROWS &&
           !gram_machine_is_large(g, job, job->rows);
}

/* The rows of the job from first on. */
static gram_status encode(gram_context *g, struct machine_job *job,
                          const struct gram_encoder *encoder, int64_t first, int64_t count,
                          const struct machine_target *target, struct machine_encoded *out)
{
    return gram_machine_encode(g, job, encoder, job->row + first, count,
                               (struct machine_scales){1, target}, out);
}

/* More rounds of a choice that has had `had`, unless these have ended before. */
static gram_status go_on(gram_context *g, struct large *l, int had, int rounds, struct choice *c)
{
    if (rounds <= had || c->params.iterations < had || !isfinite(c->error))
        return GRAM_OK;
    return gram_machine_choice_go_on(g, l, c, l->train.rows, rounds - had, c);
}

/* The search's choice with its own rounds, and, begun, with those by which others are compared. */
static gram_status begin(gram_context *g, struct large *l, const struct machine_params *params,
                         int few, struct choice *begun, struct choice *own)
{
    const int both = (int)gram_least(few, params->iterations);

    TRY(gram_machine_choice_try(g, l, params, l->train.rows, both, begun));
    TRY(gram_machine_choice_copy(g, begun, own));
    TRY(go_on(g, l, both, params->iterations, own));
    return go_on(g, l, both, few, begun);
}

static gram_status choose(gram_context *g, struct large *l, struct machine_params *params)
{
    const int few = gram_machine_choice_rounds(l);
    struct choice own = {.error = INFINITY}, begun = {.error = INFINITY}, best = {0};
    gram_status status = begin(g, l, params, few, &begun, &own);

    if (status == GRAM_OK)
        status = gram_machine_choose(g, l, params, &begun, &best);
    if (status == GRAM_OK && best.error < better * own.error) {
        *params = best.params;
        params->start = NULL;
    }
    gram_machine_metric_destroy(&own.metric);
    gram_machine_metric_destroy(&begun.metric);
    gram_machine_metric_destroy(&best.metric);
    return status == GRAM_NUMERICAL ? GRAM_OK : status; /* the choice of the search stands */
}

gram_status gram_machine_wide_choose(gram_context *g, struct machine_job *job,
                                     gram_transform transform, struct machine_params *params)
{
    const int64_t held = gram_least(HELD_ROWS, job->rows / 4);
    const int64_t rows = gram_least(TRAIN_ROWS, job->rows - held);
    const struct gram_encoding how = gram_machine_encoding(job, GRAM_STANDARDISE);
    struct large l = {
        .job = job, .centres = rows, .level = gram_machine_trials_level(&job->trials) + 1};
    struct machine_encoded train = {0}, valid = {0};
    struct machine_target target = {0};
    struct gram_encoder *encoder = NULL;
    gram_status status;

    if (gram_machine_late(job))
        return GRAM_OK;
    status = gram_encoder_fit(g, job->table, job->row, held + rows, &how, &encoder);

    if (status == GRAM_OK)
        status = gram_machine_target_borrow(g, &job->kind, &target);
    if (status == GRAM_OK && job->kind.classes == 0)
        status =
            gram_machine_target_scale(g, job->target, transform, job->row, held + rows, &target);
    if (status == GRAM_OK)
        status = encode(g, job, encoder, 0, held, &target, &valid);
    if (status == GRAM_OK)
        status = encode(g, job, encoder, held, rows, &target, &train);
    if (status == GRAM_OK)
        l.told = gram_machine_told(job->kind.classes > 0 ? &job->kind : &target);
    l.train = train.data;
    l.valid = valid.data;
    if (status == GRAM_OK)
        status = choose(g, &l, params);
    gram_machine_kept_close(g, &l.kept);
    gram_machine_encoded_destroy(g, &train);
    gram_machine_encoded_destroy(g, &valid);
    gram_machine_target_return(&target);
    gram_encoder_destroy(encoder);
    return status;
}

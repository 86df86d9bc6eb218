/*
 * machine_halves.c - the halves of a level of a search, each by a rank of its own
 *
 * The first rank searches, and decides whatever depends on scores or on time.  Nearly all of a
 * search is work on the two halves of its levels, alike for both: the first rank does one of them,
 * the second rank the other one, each with all of its threads, and what was found comes to the
 * first.  It sends what is to be done in orders, which the others follow until they are dismissed.
 * An order has everything but the level, so that no rank remembers trials: the metric that it needs
 * comes behind it.
 *
 * A half that cannot be worked on, as one whose matrix is singular, is for the first rank to deal
 * with.  Its status is a part of the answer.  Other ranks than these two only hear the orders.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_deal.h"
#include "machine_trial.h"
#include "multi/communicator.h"
#include <stdlib.h>
#include <string.h>

enum {
    HELPER = 1 /* the rank of the second half, whose number is the same */
};

enum halves_work {
    HALVES_END,
    HALVES_OPEN,
    HALVES_SCORE,
    HALVES_LEARN
};

/* What the first rank sends. */
struct order {
    enum halves_work work;
    int64_t rows; /* of the level to open */
    bool joint;
    struct trial t;                 /* its pointers are NULL */
    struct losses losses;           /* with the ridges to score at */
    struct machine_learned learned; /* from before */
    int64_t width;                  /* of the metric that follows; 0: none does */
    bool full;
};

/* What the second rank sends before its numbers: outputs of its part, or its metric. */
struct answer {
    gram_status status;
    char message[sizeof((gram_context *)0)->message];
    struct machine_learned learned;
};

static size_t metric_bytes(const struct machine_metric *metric)
{
    return (size_t)gram_machine_metric_entries(metric->width, metric->full) * sizeof *metric->w;
}

/* The outputs of a part at all ridges of an order. */
static size_t path_bytes(const struct part *part, int ridges)
{
    return (size_t)(ridges * part->data.outputs * part->count) * sizeof *part->path;
}

/* ---- The first rank -------------------------------------------------------------------------- */

/* An order without a gap whose bytes are undefined. */
static struct order *clear(struct order *o, enum halves_work work)
{
    memset(o, 0, sizeof *o);
    o->work = work;
    return o;
}

gram_status gram_machine_halves_open(gram_context *g, const struct search *s, int64_t rows,
                                     bool joint)
{
    struct order o;

    clear(&o, HALVES_OPEN)->rows = rows;
    o.joint = joint;
    return gram_machine_ranks_spread(g, s->job, GRAM_OK, &o, sizeof o);
}

gram_status gram_machine_halves_dismiss(gram_context *g, struct machine_job *job,
                                        gram_status status)
{
    struct order o;

    if (job->ended)
        return status;
    return gram_machine_ranks_spread(g, job, status, clear(&o, HALVES_END), sizeof o);
}

/* What the second rank needs, and the metric from which it goes on. */
static gram_status send_order(gram_context *g, const struct sides *sides)
{
    struct machine_job *job = sides->s->job;
    const bool learns = sides->learned != NULL;
    const struct machine_metric *metric = &sides->metric[learns ? HELPER : 0];
    struct order o;

    clear(&o, learns ? HALVES_LEARN : HALVES_SCORE)->t = *sides->t;
    o.t.params.start = NULL;
    o.t.params.shared = NULL;
    o.t.params.guess = NULL;
    if (learns)
        o.learned = sides->learned[HELPER];
    else
        o.losses = sides->losses[HELPER];
    o.width = metric->w ? metric->width : 0;
    o.full = metric->full;
    TRY(gram_machine_ranks_spread(g, job, GRAM_OK, &o, sizeof o));
    return o.width > 0 ? gram_machine_ranks_spread(g, job, GRAM_OK, metric->w, metric_bytes(metric))
                       : GRAM_OK;
}

static gram_status take_answer(gram_context *g, const struct sides *sides, const char *data,
                               size_t bytes)
{
    const struct part *part = &sides->s->level.part[HELPER];
    struct machine_metric *metric = &sides->metric[HELPER];
    const char *numbers = data + sizeof(struct answer);
    struct answer a = {.status = GRAM_OK};
    size_t expected;

    if (bytes >= sizeof a)
        memcpy(&a, data, sizeof a);
    if (a.status != GRAM_OK)
        return gram_fail(g, a.status, "rank %d failed with %s: %s", HELPER,
                         gram_status_name(a.status), a.message);
    if (sides->learned && !metric->w)
        TRY(gram_machine_metric_create(g, part->data.width, sides->t->params.full, metric));
    expected = sides->learned ? metric_bytes(metric) : path_bytes(part, sides->losses[0].count);
    if (bytes != sizeof a + expected)
        return gram_fail(g, GRAM_DEVICE_FAILED, "rank %d sent %zu bytes, expected %zu", HELPER,
                         bytes, sizeof a + expected);
    memcpy(sides->learned ? metric->w : part->path, numbers, expected);
    if (sides->learned)
        sides->learned[HELPER] = a.learned;
    return GRAM_OK;
}

gram_status gram_machine_halves_work(gram_context *g, struct sides *sides)
{
    const struct search *s = sides->s;
    gram_status own, status;
    size_t bytes;
    char *data;

    if (!sides->learned && s->level.joint && !sides->metric[0].w) /* outputs of all rows at once */
        return gram_machine_side_work(sides, g, 0, true);
    TRY(send_order(g, sides));
    own = gram_machine_side_work(sides, g, 0, true);
    status = gram_machine_ranks_gather(g, s->job, GRAM_OK, NULL, 0, &data, &bytes);
    if (status == GRAM_OK && own == GRAM_OK)
        status = take_answer(g, sides, data, bytes);
    free(data);
    return own != GRAM_OK ? own : status;
}

/* ---- The others ------------------------------------------------------------------------------ */

/* Sends what the second rank has found, or why it has not; the others of these ranks send nothing.
 */
static gram_status give_answer(gram_context *g, const struct sides *sides, gram_status own)
{
    struct machine_job *job = sides->s->job;
    const struct part *part = &sides->s->level.part[HELPER];
    const struct machine_metric *metric = &sides->metric[HELPER];
    const void *numbers = sides->learned ? (const void *)metric->w : part->path;
    struct answer a;
    gram_status status = GRAM_OK;
    size_t bytes = 0;
    char *data = NULL, *nothing;

    if (gram_machine_rank(job) == HELPER) {
        if (own == GRAM_OK && numbers)
            bytes = sides->learned ? metric_bytes(metric) : path_bytes(part, sides->losses->count);
        memset(&a, 0, sizeof a);
        a.status = own;
        memcpy(a.message, gram_bare_message(g), strlen(gram_bare_message(g)));
        if (sides->learned)
            a.learned = sides->learned[HELPER];
        data = malloc(sizeof a + bytes);
        if (!data)
            status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
        else
            memcpy(data, &a, sizeof a);
        if (data && bytes > 0)
            memcpy(data + sizeof a, numbers, bytes);
        bytes += sizeof a;
    }
    status = gram_machine_ranks_gather(g, job, status, data, bytes, &nothing, &bytes);
    free(nothing);
    free(data);
    return status;
}

static gram_status follow_work(gram_context *g, struct search *s, const struct order *o)
{
    struct machine_metric metric[PARTS] = {{0}, {0}};
    struct machine_metric *received = &metric[o->work == HALVES_LEARN ? HELPER : 0];
    struct losses losses[PARTS] = {o->losses, o->losses};
    struct machine_learned learned[PARTS] = {o->learned, o->learned};
    struct sides sides = {.s = s, .t = &o->t, .metric = metric};
    gram_status status = GRAM_OK, own = GRAM_OK;

    if (o->work == HALVES_LEARN)
        sides.learned = learned;
    else
        sides.losses = losses;
    if (o->width > 0) {
        status = gram_machine_metric_create(g, o->width, o->full, received);
        status = gram_machine_ranks_spread(g, s->job, status, received->w,
                                           received->w ? metric_bytes(received) : 0);
    }
    if (status == GRAM_OK && gram_machine_rank(s->job) == HELPER)
        own = gram_machine_side_work(&sides, g, HELPER, false);
    if (status == GRAM_OK)
        status = give_answer(g, &sides, own);
    for (int p = 0; p < PARTS; p++)
        gram_machine_metric_destroy(&metric[p]);
    return status;
}

static gram_status follow(gram_context *g, struct search *s, const struct order *o)
{
    gram_status status = GRAM_OK;

    if (o->work != HALVES_OPEN)
        return follow_work(g, s, o);
    if (gram_machine_rank(s->job) == HELPER)
        status = gram_machine_level_open(g, s, o->rows, o->joint);
    return gram_machine_ranks_end(g, s->job, status);
}

gram_status gram_machine_halves_serve(gram_context *g, struct machine_job *job)
{
    struct search s = {
        .job = job, .side = {g, g}
    };
    gram_status status = GRAM_OK;

    while (status == GRAM_OK) {
        struct order o;

        status = gram_machine_ranks_spread(g, job, GRAM_OK, clear(&o, HALVES_END), sizeof o);
        if (status != GRAM_OK || o.work == HALVES_END)
            break;
        status = follow(g, &s, &o);
    }
    gram_machine_level_close(g, &s.level);
    gram_scratch_release(g);
    gram_machine_give_back();
    return status;
}

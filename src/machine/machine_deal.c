/*
 * machine_deal.c - the leaves of one machine, shared by ranks and by the contexts of a group
 *
 * A leaf is trained by one context.  The contexts of this process take the next leaf of a list when
 * they are done with one; ranks have lists that no other rank has.  What a leaf leaves behind, its
 * share, is kept apart until all are there.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_deal.h"
#include "core/blas.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What one leaf adds to the machine. */
struct share {
    struct machine_report report;
    double *importance; /* one per column */
};

struct hands;

/* A context, and the thread in which it trains. */
struct hand {
    struct hands *all;
    gram_context *g;
    pthread_t thread;
    bool started;
};

/* The work of this process: leaves first, first + step, ... */
struct hands {
    const struct machine_deal *d;
    struct share *shares; /* one per leaf */
    double *numbers;      /* of their importances */
    struct hand *hand;
    int64_t hands, next, first, step;
    int64_t working; /* threads beside the caller's that have not ended */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    /* The failure of the first leaf that failed; failed: its number, or INT64_MAX. */
    int64_t failed;
    gram_status status;
    const gram_context *from;
    char message[sizeof((gram_context *)0)->message];
};

/* ---- Sums ------------------------------------------------------------------------------------ */

static void add_report(struct machine_report *sum, const struct machine_report *one)
{
    gram_machine_report_add(sum, one);
    sum->rounds = one->rounds > sum->rounds ? one->rounds : sum->rounds;
    sum->score += one->score;
}

static void add_shares(const struct hands *h)
{
    const struct machine_deal *d = h->d;

    for (int64_t leaf = 0; leaf < d->leaves; leaf++) {
        const double *own = h->shares[leaf].importance;

        add_report(&d->job->report, &h->shares[leaf].report);
        for (int64_t c = 0; own && c < d->columns; c++)
            d->machine->importance[c] += own[c];
    }
}

/* ---- Contexts -------------------------------------------------------------------------------- */

static gram_status train_leaf(struct hands *h, gram_context *g, int64_t leaf, bool tells)
{
    const struct machine_deal *d = h->d;
    struct machine_job job = *d->job;
    gram_machine machine = *d->machine;
    const double part = (d->to - d->from) / (double)d->leaves;
    gram_status status;

    job.report = (struct machine_report){0};
    job.o.group = NULL; /* its contexts are at work */
    job.from = d->from + part * (double)leaf;
    job.to = job.from + part;
    if (!tells)
        job.o.progress = NULL;
    machine.importance = h->shares[leaf].importance;
    status = d->train(g, d, &job, leaf, &machine);
    h->shares[leaf].report = job.report;
    return status;
}

/* The next leaf; -1: none, or there is a failure. */
static int64_t next_leaf(struct hands *h)
{
    int64_t leaf = -1;

    pthread_mutex_lock(&h->lock);
    if (h->failed == INT64_MAX && h->next < h->d->leaves) {
        leaf = h->next;
        h->next += h->step;
    }
    pthread_mutex_unlock(&h->lock);
    return leaf;
}

static void note_failure(struct hands *h, const gram_context *g, int64_t leaf, gram_status status)
{
    pthread_mutex_lock(&h->lock);
    if (leaf < h->failed) {
        h->failed = leaf;
        h->status = status;
        h->from = g;
        memcpy(h->message, g->message, sizeof h->message);
    }
    pthread_mutex_unlock(&h->lock);
}

static void train_leaves(struct hand *hand, bool tells)
{
    struct hands *h = hand->all;
    int64_t leaf;

    while ((leaf = next_leaf(h)) >= 0) {
        const gram_status status = train_leaf(h, hand->g, leaf, tells);

        if (status != GRAM_OK)
            note_failure(h, hand->g, leaf, status);
    }
}

static void *run_hand(void *arg)
{
    struct hand *hand = arg;
    struct hands *h = hand->all;

    train_leaves(hand, false);
    pthread_mutex_lock(&h->lock);
    h->working--;
    pthread_cond_signal(&h->ended);
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

/* A call of the caller's context is cancelled, which the others have to hear of. */
static void cancel_others(struct hands *h)
{
    for (int64_t i = 1; i < h->hands; i++)
        gram_context_cancel(h->hand[i].g);
}

/* Waits for the other threads, and looks for a cancellation meanwhile. */
static void wait_for_others(struct hands *h)
{
    bool told = false;

    pthread_mutex_lock(&h->lock);
    while (h->working > 0) {
        struct timespec until;

        if (!told && (gram_cancelled(h->hand[0].g) || h->failed < INT64_MAX)) {
            if (h->failed == INT64_MAX) {
                h->failed = h->d->leaves; /* so that nobody begins another leaf */
                h->status = GRAM_CANCELLED;
                h->from = h->hand[0].g;
                snprintf(h->message, sizeof h->message, "%s: cancelled", h->hand[0].g->call);
            }
            cancel_others(h);
            told = true;
        }
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 20 * 1000 * 1000;
        if (until.tv_nsec >= 1000 * 1000 * 1000) {
            until.tv_nsec -= 1000 * 1000 * 1000;
            until.tv_sec++;
        }
        pthread_cond_timedwait(&h->ended, &h->lock, &until);
    }
    pthread_mutex_unlock(&h->lock);
    for (int64_t i = 1; i < h->hands; i++) {
        if (h->hand[i].started)
            pthread_join(h->hand[i].thread, NULL);
        (void)gram_call_ended(h->hand[i].g, GRAM_CANCELLED); /* the request was this call's */
    }
}

/* The leaves of this process, by all of its contexts. */
static gram_status train_own(gram_context *g, struct hands *h)
{
    for (int64_t i = 1; i < h->hands; i++) {
        struct hand *hand = &h->hand[i];

        hand->g->call = g->call;
        pthread_mutex_lock(&h->lock);
        h->working++;
        pthread_mutex_unlock(&h->lock);
        hand->started = pthread_create(&hand->thread, NULL, run_hand, hand) == 0;
        if (!hand->started) { /* the caller does its share */
            pthread_mutex_lock(&h->lock);
            h->working--;
            pthread_mutex_unlock(&h->lock);
        }
    }
    train_leaves(&h->hand[0], true);
    wait_for_others(h);
    if (h->failed == INT64_MAX)
        return GRAM_OK;
    if (h->from != g)
        memcpy(g->message, h->message, sizeof g->message);
    return h->status;
}

/* ---- Ranks ----------------------------------------------------------------------------------- */

/* What a rank sends of one leaf, before its bytes: those of all members, and its other numbers. */
struct letter {
    int64_t leaf;
    struct machine_report report;
};

/* What comes before the bytes of one member's leaf. */
struct letter_leaf {
    int64_t rows, width, outputs, dtype, full;
    double p, q, bandwidth;
};

/* Bytes that are written one after the other, or, at NULL, counted; or that are read. */
struct letter_box {
    char *at;
    size_t used, room;
};

static void put(struct letter_box *b, const void *data, size_t bytes)
{
    if (b->at && bytes > 0)
        memcpy(b->at + b->used, data, bytes);
    b->used += bytes;
}

static bool get(struct letter_box *b, void *data, size_t bytes)
{
    if (bytes > b->room - b->used)
        return false;
    if (bytes > 0)
        memcpy(data, b->at + b->used, bytes);
    b->used += bytes;
    return true;
}

static size_t metric_numbers(int64_t width, bool full)
{
    return (size_t)(full ? width * width : width);
}

static void put_leaf(struct letter_box *b, const struct machine_leaf *leaf)
{
    const size_t size = gram_dtype_size(leaf->dtype);
    const struct letter_leaf about = {.rows = leaf->rows,
                                      .width = leaf->width,
                                      .outputs = leaf->outputs,
                                      .dtype = leaf->dtype,
                                      .full = leaf->metric.full,
                                      .p = leaf->p,
                                      .q = leaf->q,
                                      .bandwidth = leaf->bandwidth};

    put(b, &about, sizeof about);
    put(b, leaf->metric.w,
        metric_numbers(leaf->metric.width, leaf->metric.full) * sizeof *leaf->metric.w);
    put(b, leaf->x, (size_t)(leaf->rows * leaf->width) * size);
    put(b, leaf->alpha, (size_t)(leaf->rows * leaf->outputs) * size);
}

/* The numbers of a leaf that lie elsewhere. */
static double *others_of(const struct machine_deal *d, int64_t leaf, size_t *bytes)
{
    *bytes = d->at ? (size_t)((d->first[leaf + 1] - d->first[leaf]) * d->each) * sizeof *d->at : 0;
    return d->at ? d->at + d->first[leaf] * d->each : NULL;
}

static void put_all(const struct hands *h, struct letter_box *b)
{
    const struct machine_deal *d = h->d;

    for (int64_t i = h->first; i < d->leaves; i += h->step) {
        const struct letter letter = {.leaf = i, .report = h->shares[i].report};
        size_t bytes;
        const double *others = others_of(d, i, &bytes);

        put(b, &letter, sizeof letter);
        put(b, h->shares[i].importance, (size_t)d->columns * sizeof(double));
        put(b, others, bytes);
        for (int m = 0; m < d->machine->members; m++)
            put_leaf(b, &d->machine->leaf[m * d->machine->leaves + i]);
    }
}

static bool get_leaf(struct letter_box *b, struct machine_leaf *leaf)
{
    struct letter_leaf about;
    size_t size, numbers;

    if (!get(b, &about, sizeof about))
        return false;
    size = gram_dtype_size((gram_dtype)about.dtype);
    numbers = metric_numbers(about.width, about.full != 0);
    *leaf = (struct machine_leaf){
        .rows = about.rows,
        .width = about.width,
        .outputs = about.outputs,
        .dtype = (gram_dtype)about.dtype,
        .p = about.p,
        .q = about.q,
        .bandwidth = about.bandwidth,
        .device = {            GRAM_CPU,                       0},
        .metric = {.width = about.width, .full = about.full != 0}
    };
    leaf->metric.w = malloc(numbers * sizeof *leaf->metric.w + 1);
    leaf->x = malloc((size_t)(about.rows * about.width) * size + 1);
    leaf->alpha = malloc((size_t)(about.rows * about.outputs) * size + 1);
    return leaf->metric.w && leaf->x && leaf->alpha &&
           get(b, leaf->metric.w, numbers * sizeof *leaf->metric.w) &&
           get(b, leaf->x, (size_t)(about.rows * about.width) * size) &&
           get(b, leaf->alpha, (size_t)(about.rows * about.outputs) * size);
}

/* Everything that has come, but what is this rank's own. */
static gram_status take_all(gram_context *g, const struct hands *h, struct letter_box *b)
{
    const struct machine_deal *d = h->d;
    struct letter letter;
    size_t bytes;

    while (b->used < b->room) {
        if (!get(b, &letter, sizeof letter))
            return gram_fail(g, GRAM_DEVICE_FAILED, "the leaves of another rank are cut off");
        const bool own = letter.leaf % h->step == h->first;
        double *others = others_of(d, letter.leaf, &bytes);

        h->shares[letter.leaf].report = letter.report;
        if (!get(b, h->shares[letter.leaf].importance, (size_t)d->columns * sizeof(double)) ||
            !get(b, others, bytes))
            return gram_fail(g, GRAM_DEVICE_FAILED, "the leaves of another rank are cut off");
        for (int m = 0; m < d->machine->members; m++) {
            struct machine_leaf leaf = {0};
            const bool whole = get_leaf(b, &leaf);

            if (own || !whole)
                gram_machine_leaf_destroy(NULL, &leaf);
            else
                d->machine->leaf[m * d->machine->leaves + letter.leaf] = leaf;
            if (!whole)
                return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the leaves of others");
        }
    }
    return GRAM_OK;
}

/* The leaves of all ranks come to the first. */
static gram_status gather(gram_context *g, const struct hands *h, gram_status status)
{
    struct machine_job *job = h->d->job;
    struct letter_box own = {0}, all = {0};

    if (status == GRAM_OK && !gram_machine_first(job)) { /* the first has its own */
        put_all(h, &own);
        own.at = malloc(own.used + 1);
        if (!own.at)
            status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", own.used);
        own.room = own.used;
        own.used = 0;
        if (own.at)
            put_all(h, &own);
    }
    status = gram_machine_ranks_gather(g, job, status, own.at, own.room, &all.at, &all.room);
    free(own.at);
    if (status == GRAM_OK)
        status = take_all(g, h, &all);
    free(all.at);
    return status;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static gram_status open_hands(gram_context *g, const struct machine_deal *d, struct hands *h)
{
    const gram_group *group = d->job->o.group;
    const int64_t own = (d->leaves - h->first + h->step - 1) / h->step;

    h->hands = group ? gram_most(1, gram_least(group->count, own)) : 1;
    h->shares = calloc((size_t)d->leaves + 1, sizeof *h->shares);
    h->numbers = calloc((size_t)(d->leaves * d->columns) + 1, sizeof *h->numbers);
    h->hand = calloc((size_t)h->hands, sizeof *h->hand);
    if (!h->shares || !h->numbers || !h->hand)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the shares of %lld leaves",
                         (long long)d->leaves);
    for (int64_t i = 0; i < d->leaves; i++)
        h->shares[i].importance = h->numbers + i * d->columns;
    for (int64_t i = 0; i < h->hands; i++)
        h->hand[i] = (struct hand){.all = h, .g = i == 0 ? g : group->contexts[i]};
    return GRAM_OK;
}

/* A leaf that is the whole machine tells the job more than its share.  The first rank trains it,
 * and the others share its solves. */
static gram_status train_only(gram_context *g, const struct machine_deal *d)
{
    d->job->shares = gram_machine_ranks(d->job) > 1;
    if (!gram_machine_first(d->job))
        return gram_machine_shared_serve(g, d->job);
    d->job->from = d->from;
    d->job->to = d->to;
    return gram_machine_shared_dismiss(g, d->job, d->train(g, d, d->job, 0, d->machine));
}

gram_status gram_machine_deal(gram_context *g, const struct machine_deal *d)
{
    struct hands h = {.d = d,
                      .first = gram_machine_rank(d->job),
                      .step = gram_machine_ranks(d->job),
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .ended = PTHREAD_COND_INITIALIZER,
                      .failed = INT64_MAX};
    gram_status status;

    if (d->leaves == 1)
        return train_only(g, d);
    h.next = h.first;
    status = open_hands(g, d, &h);
    if (status == GRAM_OK) {
        gram_blas_take_turns(true); /* the bits of a leaf do not depend on the leaves beside it */
        status = train_own(g, &h);
        gram_blas_take_turns(false);
    }
    if (d->job->o.communicator)
        status = gather(g, &h, status);
    if (status == GRAM_OK)
        add_shares(&h);
    free(h.hand);
    free(h.numbers);
    free(h.shares);
    return status;
}

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
#include "machine_hands.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What one leaf adds to the machine. */
struct share {
    struct machine_report report;
    double *importance; /* one per column */
};

/* The work of this process: leaves first, first + step, ... */
struct hands {
    const struct machine_deal *d;
    struct share *shares; /* one per leaf */
    double *numbers;      /* of their importances */
    int64_t first, step;
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

static gram_status train_leaf(void *arg, gram_context *g, int64_t leaf, bool tells)
{
    const struct hands *h = arg;
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

/* The leaves of this process, by all of its contexts. */
static gram_status train_own(gram_context *g, struct hands *h)
{
    const gram_group *group = h->d->job->o.group;
    const int64_t own = (h->d->leaves - h->first + h->step - 1) / h->step;
    const struct machine_hands hands = {.contexts = group ? group->contexts : &g,
                                        .count =
                                            group ? gram_most(1, gram_least(group->count, own)) : 1,
                                        .first = h->first,
                                        .end = h->d->leaves,
                                        .step = h->step,
                                        .work = train_leaf,
                                        .arg = h};

    return gram_machine_hands_run(g, &hands);
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
        (size_t)gram_machine_metric_entries(leaf->metric.width, leaf->metric.full) *
            sizeof *leaf->metric.w);
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
    numbers = (size_t)gram_machine_metric_entries(about.width, about.full != 0);
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

static gram_status open_shares(gram_context *g, const struct machine_deal *d, struct hands *h)
{
    h->shares = calloc((size_t)d->leaves + 1, sizeof *h->shares);
    h->numbers = calloc((size_t)(d->leaves * d->columns) + 1, sizeof *h->numbers);
    if (!h->shares || !h->numbers)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the shares of %lld leaves",
                         (long long)d->leaves);
    for (int64_t i = 0; i < d->leaves; i++)
        h->shares[i].importance = h->numbers + i * d->columns;
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
    struct hands h = {
        .d = d, .first = gram_machine_rank(d->job), .step = gram_machine_ranks(d->job)};
    gram_status status;

    if (d->leaves == 1)
        return train_only(g, d);
    status = open_shares(g, d, &h);
    if (status == GRAM_OK)
        status = train_own(g, &h);
    if (d->job->o.communicator)
        status = gather(g, &h, status);
    if (status == GRAM_OK)
        add_shares(&h);
    free(h.numbers);
    free(h.shares);
    return status;
}

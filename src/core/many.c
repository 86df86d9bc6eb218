/*
 * many.c - a list of matrices that the contexts of a group share: who takes which, threads
 *
 * Which context takes a matrix is decided before anything is done, from the sizes alone, so that a
 * call always gives the same results, but for the order of sums in a BLAS that has one number of
 * threads for all contexts (blas_threads.c).  Each context has a thread, which does its matrices
 * one after the other; nobody takes another's.
 *
 * SPDX-License-Identifier: MIT
 */
#include "many.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A matrix of the list. */
struct item {
    double cost; /* n^3 times the items of its batch */
    int64_t index, context;
    gram_status status;
    bool on_device; /* one of its tensors is */
    char message[sizeof((gram_many_item *)0)->message];
};

/* The range of memory of a tensor. */
struct span {
    intptr_t low, high;
    int64_t index;
    int role;
    const gram_tensor *t;
};

struct lane {
    struct work *work;
    int64_t context;
    pthread_t thread;
    bool started;
};

struct work {
    const struct gram_many_call *call;
    gram_context *first;
    struct item *items; /* in the order in which they are given away */
    struct span *spans;
    struct lane *lanes;
    double *loads; /* what each context has to do */
    size_t bytes;
};

/* ---- Checks --------------------------------------------------------------------------------- */

static const gram_tensor *tensor_of(const struct gram_many_call *call, int role, int64_t index)
{
    return call->list[role] ? call->list[role][index] : NULL;
}

/* Operations on one matrix of each item grow like this. */
static double cost_of(const gram_tensor *a)
{
    double n = a->ndim > 0 ? (double)a->shape[a->ndim - 1] : 1, cost = n * n * n;

    for (int d = 0; d < a->ndim - 2; d++)
        cost *= (double)a->shape[d];
    return cost;
}

/* A matrix's tensors: that they can be copied; the rest is for the operation to say. */
static gram_status check_item(struct work *w, int64_t index)
{
    const struct gram_many_call *call = w->call;
    struct item *item = &w->items[index];
    char name[64];

    *item = (struct item){.index = index};
    for (int role = 0; role < call->roles; role++) {
        const gram_tensor *t = tensor_of(call, role, index);
        if (!t && call->optional[role])
            continue;
        snprintf(name, sizeof name, "%s[%lld]", call->role[role], (long long)index);
        if (!t)
            return gram_fail(w->first, GRAM_INVALID_ARGUMENT, "%s is NULL", name);
        TRY(gram_group_check(w->first, name, t));
        item->on_device |= t->device.type != GRAM_CPU;
        if (role == 0)
            item->cost = cost_of(t);
    }
    return GRAM_OK;
}

static int by_address(const void *one, const void *other)
{
    const struct span *a = one, *b = other;

    return (a->low > b->low) - (a->low < b->low);
}

/* vectors[i] is a[i]: in place. */
static bool is_in_place(const struct span *a, const struct span *b)
{
    return a->index == b->index && (a->role == 0 || b->role == 0) && gram_tensors_same(a->t, b->t);
}

/* No output shares an element with anything else. */
static gram_status check_apart(struct work *w)
{
    const struct gram_many_call *call = w->call;
    int64_t count = 0;

    for (int64_t i = 0; i < call->many.count; i++)
        for (int role = 0; role < call->roles; role++) {
            const gram_tensor *t = tensor_of(call, role, i);
            struct span *s = &w->spans[count];
            if (!t)
                continue;
            *s = (struct span){.index = i, .role = role, .t = t};
            gram_tensor_range(t, &s->low, &s->high);
            count += s->high > s->low;
        }
    qsort(w->spans, (size_t)count, sizeof *w->spans, by_address);
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = i + 1; j < count && w->spans[j].low < w->spans[i].high; j++) {
            const struct span *a = &w->spans[i], *b = &w->spans[j];
            if ((a->role == 0 && b->role == 0) || is_in_place(a, b) ||
                !gram_tensors_overlap(a->t, b->t))
                continue;
            return gram_fail(w->first, GRAM_INVALID_ARGUMENT, "%s[%lld] overlaps %s[%lld]",
                             call->role[a->role], (long long)a->index, call->role[b->role],
                             (long long)b->index);
        }
    return GRAM_OK;
}

/* ---- Who takes which ------------------------------------------------------------------------ */

static int longest_first(const void *one, const void *other)
{
    const struct item *a = one, *b = other;

    if (a->cost != b->cost)
        return a->cost < b->cost ? 1 : -1;
    return (a->index > b->index) - (a->index < b->index);
}

static gram_status give_away(struct work *w)
{
    const gram_group *group = &w->call->group;

    qsort(w->items, (size_t)w->call->many.count, sizeof *w->items, longest_first);
    for (int64_t i = 0; i < w->call->many.count; i++) {
        struct item *item = &w->items[i];
        double soonest = 0;
        item->context = -1;
        for (int64_t c = 0; c < group->count; c++) {
            double end = (w->loads[c] + item->cost) / (group->speeds ? group->speeds[c] : 1);
            if (item->on_device && group->contexts[c]->options.device.type == GRAM_CPU)
                continue;
            if (item->context < 0 || end < soonest)
                item->context = c, soonest = end;
        }
        if (item->context < 0)
            return gram_fail(w->first, GRAM_INVALID_ARGUMENT,
                             "matrix %lld of the list is on a CUDA device, expected a context on "
                             "one in group.contexts",
                             (long long)item->index);
        w->loads[item->context] += item->cost;
    }
    return GRAM_OK;
}

/* ---- The work ------------------------------------------------------------------------------- */

static gram_status bring(gram_context *g, const struct gram_many_call *call, int64_t index,
                         struct gram_moved *moved)
{
    for (int role = 0; role < call->roles; role++) {
        const gram_tensor *t = tensor_of(call, role, index);
        bool filled = role == 0 || call->keeps[role];
        if (t)
            TRY(filled ? gram_move_in(g, t, &moved[role]) : gram_move_room(g, t, &moved[role]));
    }
    return GRAM_OK;
}

static gram_status do_item(gram_context *g, const struct gram_many_call *call, int64_t index)
{
    struct gram_moved moved[GRAM_MANY_ROLES] = {{.memory = NULL}};
    gram_tensor *t[GRAM_MANY_ROLES] = {NULL};
    gram_status status;

    g->call = call->name;
    status = bring(g, call, index, moved);
    for (int role = 0; role < call->roles; role++)
        t[role] = moved[role].home ? &moved[role].t : NULL;
    if (status == GRAM_OK)
        status = call->run(g, call, t);
    for (int role = 1; role < call->roles && status == GRAM_OK; role++)
        if (t[role])
            status = gram_move_out(g, &moved[role]);
    for (int role = 0; role < call->roles; role++)
        gram_moved_free(g, &moved[role]);
    return status;
}

static void fail_item(struct item *item, const gram_context *g, gram_status status)
{
    item->status = status;
    snprintf(item->message, sizeof item->message, "%.*s", (int)sizeof item->message - 1,
             g->message);
}

static void *run_lane(void *argument)
{
    const struct lane *lane = argument;
    struct work *w = lane->work;
    gram_context *g = w->call->group.contexts[lane->context];
    int64_t mine = 0;
    gram_status status;

    for (int64_t i = 0; i < w->call->many.count; i++) {
        struct item *item = &w->items[i];
        if (item->context != lane->context)
            continue;
        mine++;
        status = do_item(g, w->call, item->index);
        if (status != GRAM_OK)
            fail_item(item, g, status);
    }
    status = mine ? gram_context_synchronize(g) : GRAM_OK;
    for (int64_t i = 0; status != GRAM_OK && i < w->call->many.count; i++)
        if (w->items[i].context == lane->context && w->items[i].status == GRAM_OK)
            fail_item(&w->items[i], g, status); /* of which of them nobody knows */
    return NULL;
}

static void run_lanes(struct work *w)
{
    int64_t count = w->call->group.count;

    for (int64_t c = 0; c < count; c++) {
        struct lane *lane = &w->lanes[c];
        *lane = (struct lane){.work = w, .context = c};
        if (c > 0 && w->loads[c] > 0)
            lane->started = pthread_create(&lane->thread, NULL, run_lane, lane) == 0;
    }
    for (int64_t c = 0; c < count; c++)
        if (!w->lanes[c].started)
            run_lane(&w->lanes[c]);
    for (int64_t c = 0; c < count; c++)
        if (w->lanes[c].started)
            (void)pthread_join(w->lanes[c].thread, NULL);
}

/* The status of the first in the list that failed; what became of each to the caller. */
static gram_status report(const struct work *w)
{
    const gram_many *many = &w->call->many;
    const struct item *worst = NULL;

    for (int64_t i = 0; i < many->count; i++) {
        const struct item *item = &w->items[i];
        if (item->status != GRAM_OK && (!worst || item->index < worst->index))
            worst = item;
        if (!many->items)
            continue;
        many->items[item->index].status = item->status;
        many->items[item->index].context = (int32_t)item->context;
        memcpy(many->items[item->index].message, item->message, sizeof item->message);
    }
    w->first->call = w->call->name;
    if (!worst)
        return GRAM_OK;
    return gram_fail(w->first, worst->status, "matrix %lld of the list: %s",
                     (long long)worst->index, worst->message);
}

/* ---- A call --------------------------------------------------------------------------------- */

gram_status gram_many_open(const gram_group *group, const gram_many *many, const char *name,
                           struct gram_many_call *call)
{
    gram_context *first;

    *call = (struct gram_many_call){.name = name};
    TRY(gram_group_open(group, name, &call->group));
    first = call->group.contexts[0];
    if (!many)
        return gram_fail(first, GRAM_INVALID_ARGUMENT, "many is NULL");
    TRY(gram_options_copy(first, &call->many, sizeof call->many, many));
    if (call->many.count < 0)
        return gram_fail(first, GRAM_INVALID_ARGUMENT, "many.count is %lld, expected at least 0",
                         (long long)call->many.count);
    return GRAM_OK;
}

static gram_status check_lists(const struct gram_many_call *call)
{
    for (int role = 0; role < call->roles; role++)
        if (!call->list[role] && !call->optional[role])
            return gram_fail(call->group.contexts[0], GRAM_INVALID_ARGUMENT, "%s is NULL",
                             call->role[role]);
    return GRAM_OK;
}

/* One piece of memory for all tables. */
static gram_status allocate(struct work *w)
{
    size_t count = (size_t)w->call->many.count, contexts = (size_t)w->call->group.count;
    size_t each = sizeof *w->items + GRAM_MANY_ROLES * sizeof *w->spans;
    size_t rest = contexts * (sizeof *w->lanes + sizeof *w->loads) + 4 * 64;
    char *memory;

    if (count > (SIZE_MAX - rest) / each)
        return gram_fail(w->first, GRAM_OUT_OF_MEMORY, "many.count is %zu: too many", count);
    w->bytes = count * each + rest;
    memory = gram_alloc(w->first, w->bytes);
    if (!memory)
        return gram_fail(w->first, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", w->bytes);
    memset(memory, 0, w->bytes);
    w->items = (struct item *)(void *)memory;
    w->spans = (struct span *)(void *)(memory + gram_round64(count * sizeof *w->items));
    w->lanes = (struct lane *)(void *)((char *)w->spans +
                                       gram_round64(count * GRAM_MANY_ROLES * sizeof *w->spans));
    w->loads = (double *)(void *)((char *)w->lanes + gram_round64(contexts * sizeof *w->lanes));
    return GRAM_OK;
}

gram_status gram_many_run(struct gram_many_call *call)
{
    struct work w = {.call = call, .first = call->group.contexts[0]};
    gram_status status;

    if (call->many.count == 0)
        return GRAM_OK;
    TRY(check_lists(call));
    TRY(allocate(&w));
    status = GRAM_OK;
    for (int64_t i = 0; i < call->many.count && status == GRAM_OK; i++)
        status = check_item(&w, i);
    if (status == GRAM_OK)
        status = check_apart(&w);
    if (status == GRAM_OK)
        status = give_away(&w);
    if (status == GRAM_OK) {
        run_lanes(&w);
        status = report(&w);
    }
    gram_free(w.first, w.items, w.bytes);
    return status;
}

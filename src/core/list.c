/*
 * list.c - a list of matrices that the contexts of a group share: who takes which, threads, moves
 *
 * Which context takes a matrix is decided before anything is done, from the sizes alone, so that a
 * call always gives the same results, but for the order of sums in a BLAS that has one number of
 * threads for all contexts (blas_process.c).  Each context has a thread, which does its matrices
 * one after the other; nobody takes another's.
 *
 * A tensor that is on another device than the context that works on it is moved there.  Inputs, and
 * outputs whose contents count, keep their strides: the bytes between their first and last element
 * are copied.  Other outputs get room without gaps, whose dimensions lie in the order of the
 * caller's, so that a tensor without gaps goes home as one copy; else it goes in runs along its
 * closest dimension, to the CPU through memory of the CPU.
 *
 * SPDX-License-Identifier: MIT
 */
#include "list.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Groups ---------------------------------------------------------------------------------- */

static gram_status check_distinct(gram_context *first, const gram_group *group)
{
    for (int64_t i = 0; i < group->count; i++) {
        if (!group->contexts[i])
            return gram_fail(first, GRAM_INVALID_ARGUMENT, "group.contexts[%lld] is NULL",
                             (long long)i);
        for (int64_t j = 0; j < i; j++)
            if (group->contexts[i] == group->contexts[j])
                return gram_fail(first, GRAM_INVALID_ARGUMENT,
                                 "group.contexts[%lld] is the same as group.contexts[%lld], "
                                 "expected distinct contexts",
                                 (long long)i, (long long)j);
        if (group->speeds && !(group->speeds[i] > 0 && group->speeds[i] < INFINITY))
            return gram_fail(first, GRAM_INVALID_ARGUMENT,
                             "group.speeds[%lld] is %g, expected more than 0, and finite",
                             (long long)i, group->speeds[i]);
    }
    return GRAM_OK;
}

gram_status gram_group_failed(const gram_group *group, const gram_context *g, gram_status status)
{
    gram_context *first = group->contexts[0];

    if (g != first)
        memcpy(first->message, g->message, sizeof first->message);
    return status;
}

gram_status gram_group_open(const gram_group *given, const char *call, gram_group *group)
{
    gram_context *first;

    *group = (gram_group){.size = sizeof *group};
    if (!given || given->size < offsetof(gram_group, speeds) || !given->contexts ||
        given->count < 1)
        return gram_begin_as(NULL, call, given ? "group.contexts" : "group");
    first = given->contexts[0];
    TRY(gram_begin_as(first, call, "group.contexts[0]"));
    TRY(gram_options_copy(first, group, sizeof *group, given));
    TRY(check_distinct(first, group));
    for (int64_t i = 0; i < group->count; i++) {
        gram_context *g = group->contexts[i];
        gram_status status = gram_context_synchronize(g);
        first->call = call;
        if (status != GRAM_OK)
            return gram_group_failed(group, g, status);
        g->call = call;
    }
    return GRAM_OK;
}

/* Checks a tensor by itself: its dtype, its shape, that sizes do not overflow, wherever it is. */
static gram_status check_tensor(gram_context *g, const char *name, const gram_tensor *t)
{
    struct gram_batch batch = {.count = 1};
    gram_tensor here;

    if (t->device.type != GRAM_CPU && t->device.type != GRAM_CUDA)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is on device %d:%d, expected a gram_device",
                         name, (int)t->device.type, (int)t->device.index);
    here = *t;
    here.device = g->options.device;
    return gram_batch_join(g, &batch, name, &here, 0);
}

/* ---- Tensors of other devices ---------------------------------------------------------------- */

/* A tensor where a context computes. */
struct moved {
    gram_tensor t;           /* there */
    const gram_tensor *home; /* the caller's */
    void *memory;            /* NULL: t is home itself */
    size_t bytes;
};

static bool is_here(const gram_context *g, const gram_tensor *t)
{
    return t->device.type == g->options.device.type && t->device.index == g->options.device.index;
}

/* Of a checked tensor. */
static int64_t element_count(const gram_tensor *t)
{
    int64_t count = 1;

    for (int d = 0; d < t->ndim; d++)
        count *= t->shape[d];
    return count;
}

/* Brings there what the caller's holds; after a failure too: free_moved. */
static gram_status move_in(gram_context *g, const gram_tensor *home, struct moved *m)
{
    intptr_t low, high;

    *m = (struct moved){.t = *home, .home = home};
    if (is_here(g, home))
        return GRAM_OK;
    m->t.device = g->options.device;
    gram_tensor_range(home, &low, &high);
    TRY(gram_memory_allocate(g, (size_t)(high - low), &m->memory));
    m->bytes = (size_t)(high - low);
    m->t.data = m->memory ? (char *)m->memory + ((intptr_t)home->data - low) : NULL;
    return gram_memory_copy(g, m->memory, (const char *)home->data + (low - (intptr_t)home->data),
                            m->bytes);
}

/* Strides without gaps, the dimensions in the order of those of t. */
static void close_up(const gram_tensor *t, int64_t *stride)
{
    int order[GRAM_MAX_DIMS] = {0};
    int64_t reach = 1;

    for (int d = 0; d < t->ndim; d++) {
        int at = d;
        for (; at > 0 && llabs(t->stride[order[at - 1]]) < llabs(t->stride[d]); at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    for (int i = t->ndim - 1; i >= 0; i--) {
        stride[order[i]] = reach;
        reach *= t->shape[order[i]] > 1 ? t->shape[order[i]] : 1;
    }
}

/* Makes room for an output; after a failure too: free_moved. */
static gram_status move_room(gram_context *g, const gram_tensor *home, struct moved *m)
{
    *m = (struct moved){.t = *home, .home = home};
    if (is_here(g, home))
        return GRAM_OK;
    m->t.device = g->options.device;
    m->t.data = NULL;
    close_up(home, m->t.stride);
    m->bytes = (size_t)element_count(home) * gram_dtype_size(home->dtype);
    TRY(gram_memory_allocate(g, m->bytes, &m->memory));
    m->t.data = m->memory;
    return GRAM_OK;
}

/* Whether what is there goes home as one copy: no gaps, and the same strides but for those of
 * dimensions of one element. */
static bool is_one_piece(const struct moved *m)
{
    for (int d = 0; d < m->t.ndim; d++)
        if (m->t.shape[d] > 1 && m->home->stride[d] != m->t.stride[d])
            return false;
    return m->bytes == (size_t)element_count(&m->t) * gram_dtype_size(m->t.dtype);
}

static gram_status copy_piece(gram_context *g, const struct moved *m)
{
    intptr_t low, high;

    gram_tensor_range(m->home, &low, &high);
    return gram_memory_copy(g, (char *)m->home->data + (low - (intptr_t)m->home->data), m->memory,
                            m->bytes);
}

/* Copies, to home, elements of from, whose strides are t's; on the CPU where g is NULL. */
static gram_status copy_runs(gram_context *g, const gram_tensor *home, const gram_tensor *t,
                             const char *from)
{
    const size_t size = gram_dtype_size(t->dtype);
    int64_t index[GRAM_MAX_DIMS] = {0}, count = element_count(t), run = 1;
    int inner = -1; /* the dimension along which both lie side by side */

    for (int d = 0; d < t->ndim; d++)
        if (t->shape[d] > 1 && t->stride[d] == 1 && home->stride[d] == 1)
            inner = d, run = t->shape[d];
    for (int64_t done = 0; done < count; done += run) {
        int64_t source = 0, target = 0;
        for (int d = 0; d < t->ndim; d++)
            source += index[d] * t->stride[d], target += index[d] * home->stride[d];
        char *to = (char *)home->data + target * (int64_t)size;
        if (g)
            TRY(gram_memory_copy(g, to, from + (size_t)source * size, (size_t)run * size));
        else
            memcpy(to, from + (size_t)source * size, (size_t)run * size);
        for (int d = t->ndim - 1; d >= 0; d--) {
            if (d == inner)
                continue;
            if (++index[d] < t->shape[d])
                break;
            index[d] = 0;
        }
    }
    return GRAM_OK;
}

static gram_status to_cpu(gram_context *g, const struct moved *m)
{
    gram_status status;
    char *here;

    if (is_one_piece(m)) {
        TRY(copy_piece(g, m));
        return gram_context_synchronize(g);
    }
    here = gram_alloc(g, m->bytes);
    if (!here)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", m->bytes);
    status = gram_memory_copy(g, here, m->memory, m->bytes);
    if (status == GRAM_OK)
        status = gram_context_synchronize(g);
    if (status == GRAM_OK)
        status = copy_runs(NULL, m->home, &m->t,
                           here + ((const char *)m->t.data - (const char *)m->memory));
    gram_free(g, here, m->bytes);
    return status;
}

/* Brings an output home, waiting where the CPU is. */
static gram_status move_out(gram_context *g, const struct moved *m)
{
    if (!m->memory)
        return GRAM_OK;
    if (m->home->device.type == GRAM_CPU)
        return to_cpu(g, m);
    if (is_one_piece(m))
        return copy_piece(g, m);
    return copy_runs(g, m->home, &m->t, m->t.data);
}

static void free_moved(gram_context *g, struct moved *m)
{
    gram_memory_free(g, m->memory, m->bytes);
    m->memory = NULL;
}

/* ---- A list of matrices ---------------------------------------------------------------------- */

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
    const struct gram_list_call *call;
    gram_context *first;
    struct item *items; /* in the order in which they are given away */
    struct span *spans;
    struct lane *lanes;
    double *loads; /* what each context has to do */
    size_t bytes;
};

/* ---- Checks ---------------------------------------------------------------------------------- */

static const gram_tensor *tensor_of(const struct gram_list_call *call, int role, int64_t index)
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
    const struct gram_list_call *call = w->call;
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
        TRY(check_tensor(w->first, name, t));
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
    const struct gram_list_call *call = w->call;
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

/* ---- Who takes which ------------------------------------------------------------------------- */

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

/* ---- The work -------------------------------------------------------------------------------- */

static gram_status bring(gram_context *g, const struct gram_list_call *call, int64_t index,
                         struct moved *moved)
{
    for (int role = 0; role < call->roles; role++) {
        const gram_tensor *t = tensor_of(call, role, index);
        bool filled = role == 0 || call->keeps[role];
        if (t)
            TRY(filled ? move_in(g, t, &moved[role]) : move_room(g, t, &moved[role]));
    }
    return GRAM_OK;
}

static gram_status do_item(gram_context *g, const struct gram_list_call *call, int64_t index)
{
    struct moved moved[GRAM_LIST_ROLES] = {{.memory = NULL}};
    gram_tensor *t[GRAM_LIST_ROLES] = {NULL};
    gram_status status;

    g->call = call->name;
    status = bring(g, call, index, moved);
    for (int role = 0; role < call->roles; role++)
        t[role] = moved[role].home ? &moved[role].t : NULL;
    if (status == GRAM_OK)
        status = call->run(g, call, t);
    for (int role = 1; role < call->roles && status == GRAM_OK; role++)
        if (t[role])
            status = move_out(g, &moved[role]);
    for (int role = 0; role < call->roles; role++)
        free_moved(g, &moved[role]);
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

/* ---- A call ---------------------------------------------------------------------------------- */

gram_status gram_list_open(const gram_group *group, const gram_many *many, const char *name,
                           struct gram_list_call *call)
{
    gram_context *first;

    *call = (struct gram_list_call){.name = name};
    TRY(gram_group_open(group, name, &call->group));
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): gram_group_open refuses a group of none
    first = call->group.contexts[0];
    if (!many)
        return gram_fail(first, GRAM_INVALID_ARGUMENT, "many is NULL");
    TRY(gram_options_copy(first, &call->many, sizeof call->many, many));
    if (call->many.count < 0)
        return gram_fail(first, GRAM_INVALID_ARGUMENT, "many.count is %lld, expected at least 0",
                         (long long)call->many.count);
    return GRAM_OK;
}

static gram_status check_lists(const struct gram_list_call *call)
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
    size_t each = sizeof *w->items + GRAM_LIST_ROLES * sizeof *w->spans;
    size_t rest = contexts * (sizeof *w->lanes + sizeof *w->loads) + 4 * 64;
    char *memory;

    if (count > (SIZE_MAX - rest) / each)
        return gram_fail(w->first, GRAM_OUT_OF_MEMORY,
                         "many.count is %zu, which is too large for this machine", count);
    w->bytes = count * each + rest;
    memory = gram_alloc(w->first, w->bytes);
    if (!memory)
        return gram_fail(w->first, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", w->bytes);
    memset(memory, 0, w->bytes);
    w->items = (struct item *)(void *)memory;
    w->spans = (struct span *)(void *)(memory + gram_round64(count * sizeof *w->items));
    w->lanes = (struct lane *)(void *)((char *)w->spans +
                                       gram_round64(count * GRAM_LIST_ROLES * sizeof *w->spans));
    w->loads = (double *)(void *)((char *)w->lanes + gram_round64(contexts * sizeof *w->lanes));
    return GRAM_OK;
}

gram_status gram_list_run(struct gram_list_call *call)
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

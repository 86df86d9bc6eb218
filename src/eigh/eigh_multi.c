/*
 * eigh_multi.c - gram_eigh_multi: one eigenproblem on several devices; its plan
 *
 * Arguments are checked as gram_eigh's, as if all were on the first device; the backend splits one
 * matrix after the other, and this file chooses the pairs and brings the small results home.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "core/list.h"
#include "core/scratch.h"
#include "core/threads.h"
#include "eigh.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    ROWS = 64 /* of a matrix on the CPU that a thread takes at a time */
};

/* A call, and what it needs. */
struct work {
    gram_group group;
    gram_context *g; /* the first */
    struct gram_eigh_op op;
    struct gram_eigh_multi m;
    gram_context *values_on, *info_on, *found_on; /* NULL: the CPU */
    size_t device_bytes[GRAM_MULTI_DEVICES];
    void *values_copy;
    size_t panel_bytes, host_bytes; /* of the CPU: values, a copy of them, a panel */
};

/* ---- Blocks of columns on the CPU ------------------------------------------------------------ */

/* The threads share rows, a few at a time, so that what is read and what is written both stay in
 * the cache. */

/* A block of columns, from row first on (first 0: all rows). */
struct block {
    const struct gram_eigh_multi *m;
    char *tensor; /* the item's first element */
    void *panel;
    int64_t first, cols;
    double *largest; /* one per thread's piece; NULL: elements move */
};

static double element(const struct block *b, const struct gram_view *v, int64_t i, int64_t j)
{
    int64_t at = i * v->row_stride + j * v->col_stride;

    return v->dtype == GRAM_F64 ? ((const double *)(const void *)b->tensor)[at]
                                : (double)((const float *)(const void *)b->tensor)[at];
}

static void largest_of_rows(void *arg, int64_t index, int thread)
{
    const struct block *b = arg;
    int64_t end = gram_least((index + 1) * ROWS, b->m->n);
    double largest = b->largest[thread];

    for (int64_t i = index * ROWS; i < end && !isnan(largest); i++)
        for (int64_t j = 0; j <= i; j++) {
            double x = fabs(element(b, &b->m->a, i, j));
            if (!(x <= largest))
                largest = x;
            if (isnan(x))
                break;
        }
    b->largest[thread] = largest;
}

static double largest(const struct gram_eigh_multi *m, int64_t item)
{
    double of_thread[GRAM_MAX_THREADS] = {0}, all = 0;
    struct block b = {.m = m, .tensor = gram_view_item(&m->a, &m->batch, item)};

    b.largest = of_thread;
    gram_parallel_for(m->contexts[0], gram_ceil_div(m->n, ROWS), largest_of_rows, &b);
    for (int i = 0; i < GRAM_MAX_THREADS; i++)
        if (isnan(of_thread[i]) || of_thread[i] > all)
            all = of_thread[i];
        else if (isnan(all))
            break;
    return all;
}

static void gather_rows(void *arg, int64_t index, int thread)
{
    const struct block *b = arg;
    const struct gram_view *a = &b->m->a;
    int64_t n = b->m->n, begin = b->first + index * ROWS, end = gram_least(begin + ROWS, n);

    (void)thread;
    for (int64_t j = 0; j < b->cols; j++)
        for (int64_t i = gram_most(begin, b->first + j); i < end; i++) {
            int64_t from = i * a->row_stride + (b->first + j) * a->col_stride;
            if (b->m->dtype == GRAM_F64)
                ((double *)b->panel)[i + j * n] =
                    ldexp(((const double *)(const void *)b->tensor)[from], -b->m->exponent);
            else
                ((float *)b->panel)[i + j * n] =
                    ldexpf(((const float *)(const void *)b->tensor)[from], -b->m->exponent);
        }
}

static void gather(const struct gram_eigh_multi *m, int64_t item, int64_t first, int64_t cols,
                   void *panel)
{
    struct block b = {m, gram_view_item(&m->a, &m->batch, item), panel, first, cols, NULL};

    gram_parallel_for(m->contexts[0], gram_ceil_div(m->n - first, ROWS), gather_rows, &b);
}

static void scatter_rows(void *arg, int64_t index, int thread)
{
    const struct block *b = arg;
    const struct gram_view *v = &b->m->vectors;
    int64_t n = b->m->n, end = gram_least((index + 1) * ROWS, n);

    (void)thread;
    for (int64_t j = 0; j < b->cols; j++)
        for (int64_t i = index * ROWS; i < end; i++) {
            int64_t to = i * v->row_stride + (b->first + j) * v->col_stride;
            if (b->m->dtype == GRAM_F64)
                ((double *)(void *)b->tensor)[to] = ((const double *)b->panel)[i + j * n];
            else
                ((float *)(void *)b->tensor)[to] = ((const float *)b->panel)[i + j * n];
        }
}

static void scatter(const struct gram_eigh_multi *m, int64_t item, int64_t first, int64_t cols,
                    const void *panel)
{
    struct block b = {m,   gram_view_item(&m->vectors, &m->batch, item), (void *)panel, first, cols,
                      NULL};

    gram_parallel_for(m->contexts[0], gram_ceil_div(m->n, ROWS), scatter_rows, &b);
}

static const struct gram_eigh_multi_host on_cpu = {
    .largest = largest,
    .gather = gather,
    .scatter = scatter,
};

/* ---- Checks ---------------------------------------------------------------------------------- */

static gram_status check_group(struct work *w)
{
    const gram_group *group = &w->group;

    if (group->count > GRAM_MULTI_DEVICES)
        return gram_fail(w->g, GRAM_INVALID_ARGUMENT, "group.count is %lld, expected at most %d",
                         (long long)group->count, GRAM_MULTI_DEVICES);
    for (int64_t i = 0; i < group->count; i++) {
        gram_device device = group->contexts[i]->options.device;
        if (!group->contexts[i]->backend->eigh_multi_solve)
            return gram_fail(w->g, GRAM_UNSUPPORTED,
                             "%s cannot share a matrix with other devices, expected contexts on "
                             "GPUs; gram_eigh on the CPU uses all threads",
                             group->contexts[i]->backend->name);
        for (int64_t j = 0; j < i; j++)
            if (group->contexts[j]->options.device.index == device.index)
                return gram_fail(w->g, GRAM_INVALID_ARGUMENT,
                                 "group.contexts[%lld] and group.contexts[%lld] are both on CUDA "
                                 "device %d, expected distinct devices",
                                 (long long)j, (long long)i, (int)device.index);
    }
    return GRAM_OK;
}

/* The context on whose device a tensor is, -1 for the CPU. */
static gram_status place(const struct work *w, const char *name, const gram_tensor *t, int *out)
{
    *out = -1;
    if (!t || t->device.type == GRAM_CPU)
        return GRAM_OK;
    for (int i = 0; i < (int)w->group.count; i++)
        if (t->device.index == w->group.contexts[i]->options.device.index &&
            t->device.type == GRAM_CUDA)
            *out = i;
    if (*out >= 0)
        return GRAM_OK;
    return gram_fail(w->g, GRAM_INVALID_ARGUMENT,
                     "%s is on device %d:%d, expected the CPU or a device of the group", name,
                     (int)t->device.type, (int)t->device.index);
}

static gram_status place_small(const struct work *w, const char *name, const gram_tensor *t,
                               gram_context **out)
{
    int on;

    TRY(place(w, name, t, &on));
    *out = on < 0 ? NULL : w->group.contexts[on];
    return GRAM_OK;
}

/* A copy of a tensor that claims to be on the first device; NULL stays. */
static const gram_tensor *claim(const struct work *w, const gram_tensor *t, gram_tensor *copy)
{
    if (!t)
        return NULL;
    *copy = *t;
    copy->device = w->g->options.device;
    return copy;
}

static gram_status describe(struct work *w, const struct gram_eigh_call *call)
{
    gram_eigh_options o = GRAM_EIGH_OPTIONS_INIT;
    gram_tensor a, values, vectors, info, found;
    struct gram_eigh_call there = {.options = &o};

    TRY(gram_options_copy(w->g, &o, sizeof o, call->options));
    if (o.driver != GRAM_EIGH_DRIVER_AUTO && o.driver != GRAM_EIGH_DRIVER_DIVIDE)
        return gram_fail(w->g, GRAM_UNSUPPORTED,
                         "options.driver is %d, expected GRAM_EIGH_DRIVER_AUTO or "
                         "GRAM_EIGH_DRIVER_DIVIDE",
                         (int)o.driver);
    TRY(place(w, "a", call->a, &w->m.a_on));
    TRY(place(w, "vectors", call->vectors, &w->m.vectors_on));
    TRY(place_small(w, "values", call->values, &w->values_on));
    TRY(place_small(w, "info", call->info, &w->info_on));
    TRY(place_small(w, "options.found", o.found, &w->found_on));
    there.a = claim(w, call->a, &a);
    there.values = claim(w, call->values, &values);
    there.vectors = claim(w, call->vectors, &vectors);
    there.info = claim(w, call->info, &info);
    o.found = (gram_tensor *)claim(w, o.found, &found);
    return gram_eigh_describe(w->g, &there, &w->op);
}

static void hand_over(struct work *w)
{
    struct gram_eigh_multi *m = &w->m;

    m->contexts = w->group.contexts;
    m->count = (int)w->group.count;
    m->dtype = w->op.a.dtype;
    m->n = w->op.a.rows;
    m->batch = w->op.batch;
    m->a = w->op.a;
    if (w->op.uplo == GRAM_UPPER) {
        m->a.row_stride = w->op.a.col_stride;
        m->a.col_stride = w->op.a.row_stride;
    }
    m->vectors = w->op.vectors;
    m->has_vectors = w->op.has_vectors && w->op.values.cols > 0;
    m->host = &on_cpu;
}

/* The memory of the CPU, from the first context, whose device's scratch is cusolverMg's. */
static void take_host(struct work *w, struct gram_layout *l)
{
    const size_t n = (size_t)w->m.n, size = gram_dtype_size(w->m.dtype);

    gram_take_many(l, &w->m.w, n, size);
    gram_take_many(l, &w->values_copy, n, size);
    gram_take(l, &w->m.panel, w->panel_bytes);
}

/* Checks everything and asks for the scratch. */
static gram_status open_call(const gram_group *group, const char *name,
                             const struct gram_eigh_call *call, struct work *w)
{
    struct gram_layout layout = {0};

    *w = (struct work){.g = NULL};
    TRY(gram_group_open(group, name, &w->group));
    w->g = w->group.contexts[0];
    TRY(check_group(w));
    TRY(describe(w, call));
    hand_over(w);
    if (w->m.n == 0 || w->op.batch.count == 0)
        return GRAM_OK;
    TRY(w->g->backend->eigh_multi_workspace(&w->m, w->device_bytes, &w->panel_bytes));
    take_host(w, &layout);
    w->host_bytes = gram_layout_bytes(&layout);
    return GRAM_OK;
}

/* ---- Whether one device alone is faster ------------------------------------------------------ */

/* cusolverMg gains size, not time: it was slower than one device at every order that fits on one
 * (bench/results/2026-11-22-h200x2-eigh.md). */

/* Seconds of all pairs with vectors, both measured in one run: two H200 through cusolverMg, one by
 * Xsyevd. */
struct point {
    gram_dtype dtype;
    double n, together, alone;
};

static const struct point points[] = {
    {GRAM_F32, 10000, 2.22, 0.711},
    {GRAM_F32, 20000, 7.50,  3.60},
};

static const double usable = 0.95; /* of a device's memory, beside what its driver takes */

/* The last point that is no larger, else the first; NULL: nothing was measured. */
static const struct point *point_of(const struct gram_eigh_op *op)
{
    const struct point *found = NULL;

    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        if (points[i].dtype == op->a.dtype && (!found || points[i].n <= (double)op->a.rows))
            found = &points[i];
    return found;
}

/* Bytes of a tensor that is not on the device. */
static double bytes_there(const gram_tensor *t, gram_device device)
{
    double bytes = (double)gram_dtype_size(t->dtype);

    for (int d = 0; d < t->ndim; d++)
        bytes *= (double)t->shape[d];
    return t->device.type == device.type && t->device.index == device.index ? 0 : bytes;
}

/* What gram_eigh would take of one device: its scratch, and tensors that are not there yet. */
static gram_status alone_bytes(gram_context *g, const struct gram_eigh_call *call, double *bytes)
{
    gram_plan_description d = {.size = sizeof d};
    const gram_device device = g->options.device;
    gram_tensor a = *call->a, values = *call->values, vectors, found;
    gram_eigh_options o = GRAM_EIGH_OPTIONS_INIT;
    struct gram_eigh_call there = {&a, &o, &values, NULL, NULL};

    TRY(gram_options_copy(g, &o, sizeof o, call->options));
    o.driver = GRAM_EIGH_DRIVER_DIVIDE;
    a.device = values.device = device;
    *bytes = bytes_there(call->a, device) + bytes_there(call->values, device);
    if (call->vectors) {
        vectors = *call->vectors;
        vectors.device = device;
        there.vectors = &vectors;
        *bytes += bytes_there(call->vectors, device);
    }
    if (o.found) {
        found = *o.found;
        found.device = device;
        o.found = &found;
    }
    TRY(gram_eigh_query(g, &there, &d));
    *bytes += (double)d.need.device_bytes;
    return GRAM_OK;
}

/* Whether one device of a group can hold the problem and is known to be faster, with what says so
 * in reason.  In d the seconds and the time_source of the group are set. */
static gram_status ask_one_device(const gram_group *group, const struct gram_eigh_call *call,
                                  const struct gram_eigh_op *op, gram_plan_description *d)
{
    const struct point *p = point_of(op);
    double n = (double)op->a.rows, bytes;

    d->refused = 0;
    d->reason[0] = '\0';
    d->seconds = NAN;
    d->time_source = GRAM_TIME_UNKNOWN;
    if (!p || op->a.rows == 0 || op->batch.count == 0)
        return GRAM_OK;
    d->time_source = GRAM_TIME_ESTIMATED;
    d->seconds = (double)op->batch.count * p->together * pow(n / p->n, 3);
    for (int64_t i = 0; i < group->count && !d->refused; i++) {
        gram_context *g = group->contexts[i];
        gram_info info = {.size = sizeof info};
        const char *name = g->call;
        gram_status status = gram_context_info(g, &info);
        g->call = name;
        if (status == GRAM_OK)
            status = alone_bytes(g, call, &bytes);
        if (status == GRAM_UNSUPPORTED || status == GRAM_OUT_OF_MEMORY)
            continue; /* it cannot */
        if (status != GRAM_OK)
            return status;
        d->refused = bytes <= usable * (double)info.device_memory_total && p->alone < p->together;
        if (d->refused)
            snprintf(d->reason, sizeof d->reason,
                     "one device can hold the matrix (%.3g GB of %.3g) and is faster: for n = "
                     "%.0f in %s, one H200 took %.3g s, and two with cusolverMg took %.3g s",
                     bytes * 1e-9, (double)info.device_memory_total * 1e-9, p->n,
                     gram_dtype_name(p->dtype), p->alone, p->together);
    }
    return GRAM_OK;
}

/* ---- Small results --------------------------------------------------------------------------- */

/* count numbers of an item to a caller's vector, which is on g's device, or on the CPU. */
static gram_status put(const struct work *w, gram_context *g, const struct gram_view *v,
                       int64_t item, const void *from, int64_t count)
{
    const size_t size = gram_dtype_size(v->dtype);
    char *to = gram_view_item(v, &w->op.batch, item);
    const char *name = w->g->call;
    int64_t run = v->col_stride == 1 ? count : 1;
    gram_status status = GRAM_OK;

    for (int64_t j = 0; j < count && status == GRAM_OK; j += run) {
        char *at = to + j * v->col_stride * (int64_t)size;
        const char *one = (const char *)from + (size_t)j * size;
        if (g)
            status = gram_memory_copy(g, at, one, (size_t)run * size);
        else
            memcpy(at, one, (size_t)run * size);
    }
    if (g && status == GRAM_OK)
        status = gram_context_synchronize(g);
    if (g)
        g->call = name;
    return status == GRAM_OK ? status : gram_group_failed(&w->group, g, status);
}

/* The j'th value of the matrix itself. */
static double value_of(const struct gram_eigh_multi *m, int64_t j)
{
    return m->dtype == GRAM_F64 ? ldexp(((const double *)m->w)[j], m->exponent)
                                : (double)ldexpf(((const float *)m->w)[j], m->exponent);
}

static int64_t at_most(const struct gram_eigh_multi *m, double limit)
{
    int64_t low = 0, high = m->n;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (value_of(m, middle) <= limit)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Which pairs are stored, the first of them; found: how many there are. */
static int64_t choose(const struct work *w, int outcome, int64_t *first, int64_t *found)
{
    *first = w->op.first;
    *found = 0;
    if (outcome != 0)
        return 0;
    if (!w->op.by_value)
        return w->op.values.cols;
    *first = at_most(&w->m, w->op.lower);
    *found = at_most(&w->m, w->op.upper) - *first;
    return gram_least(*found, w->op.values.cols);
}

static gram_status put_values(const struct work *w, int64_t item, int64_t first, int64_t stored)
{
    char *copy = w->values_copy;

    for (int64_t j = 0; j < w->op.values.cols; j++) {
        double value = j < stored ? value_of(&w->m, first + j) : NAN;
        if (w->m.dtype == GRAM_F64)
            ((double *)(void *)copy)[j] = value;
        else
            ((float *)(void *)copy)[j] = (float)value;
    }
    return put(w, w->values_on, &w->op.values, item, copy, w->op.values.cols);
}

static gram_status do_item(struct work *w, int64_t item, bool *failed)
{
    int64_t first, stored, found;
    int32_t info;
    int outcome = 0;

    if (w->m.n > 0)
        TRY(w->g->backend->eigh_multi_solve(&w->m, item, &outcome));
    info = outcome;
    *failed |= outcome != 0;
    stored = choose(w, outcome, &first, &found);
    if (w->m.has_vectors)
        TRY(w->g->backend->eigh_multi_store(&w->m, item, first, stored));
    TRY(put_values(w, item, first, stored));
    if (w->op.has_found)
        TRY(put(w, w->found_on, &w->op.found, item, &found, 1));
    return w->op.has_info ? put(w, w->info_on, &w->op.info, item, &info, 1) : GRAM_OK;
}

/* ---- The call and its plan ------------------------------------------------------------------- */

gram_status gram_eigh_multi(const gram_group *group, const gram_tensor *a,
                            const gram_eigh_options *options, gram_tensor *values,
                            gram_tensor *vectors, gram_tensor *info)
{
    const struct gram_eigh_call call = {a, options, values, vectors, info};
    const gram_eigh_report report = {.driver = GRAM_EIGH_DRIVER_DIVIDE};
    gram_plan_description d = {.size = sizeof d};
    struct gram_layout layout = {0};
    bool failed = false;
    struct work w;

    TRY(open_call(group, __func__, &call, &w));
    if (!w.group.force) {
        TRY(ask_one_device(&w.group, &call, &w.op, &d));
        if (d.refused)
            return gram_fail(w.g, GRAM_UNSUPPORTED, "%s; use gram_eigh, or set group.force to 1",
                             d.reason);
    }
    take_host(&w, &layout);
    TRY(gram_layout_open_host(w.g, &layout));
    for (int64_t item = 0; item < w.op.batch.count; item++)
        TRY(do_item(&w, item, &failed));
    TRY(gram_eigh_ended(w.g, GRAM_OK, options, &report));
    if (failed && !w.op.has_info)
        return gram_fail(w.g, GRAM_NUMERICAL,
                         "a matrix holds NaN or infinity, or did not converge");
    return GRAM_OK;
}

static void put_in_words(const struct work *w, gram_plan_description *d)
{
    snprintf(d->text, sizeof d->text,
             "divide and conquer of %lld x %lld x %lld %s on %d devices, %lld %s per item; "
             "scratch: %zu bytes of each device, %zu of the host; keeps the calling thread; time: "
             "%.3g ms, %s%s",
             (long long)w->op.batch.count, (long long)w->m.n, (long long)w->m.n,
             gram_dtype_name(w->op.a.dtype), d->devices, (long long)w->op.values.cols,
             w->op.has_vectors ? "pairs" : "values", d->need.device_bytes, d->need.host_bytes,
             d->seconds * 1e3, d->time_source == GRAM_TIME_ESTIMATED ? "estimated" : "unknown",
             d->refused ? "; one device would be faster" : "");
}

gram_status gram_eigh_multi_plan(const gram_group *group, const gram_tensor *a,
                                 const gram_eigh_options *options, gram_tensor *values,
                                 gram_tensor *vectors, gram_tensor *info, gram_plan **plan)
{
    const struct gram_eigh_call call = {a, options, values, vectors, info};
    gram_plan_description d = {.size = sizeof d, .driver = GRAM_EIGH_DRIVER_DIVIDE};
    struct gram_eigh_planned *made;
    struct work w;

    if (plan)
        *plan = NULL;
    TRY(open_call(group, __func__, &call, &w));
    if (!plan)
        return gram_fail(w.g, GRAM_INVALID_ARGUMENT, "plan is NULL");
    TRY(ask_one_device(&w.group, &call, &w.op, &d));
    d.devices = (int)w.group.count;
    d.need.host_bytes = w.host_bytes;
    for (int i = 0; i < d.devices; i++) {
        d.device_bytes[i] = w.device_bytes[i];
        d.need.device_bytes = gram_most_bytes(d.need.device_bytes, w.device_bytes[i]);
    }
    put_in_words(&w, &d);
    TRY(gram_eigh_keep(w.g, &call, &made));
    made->plan.description = d;
    made->group = w.group;
    memcpy(made->contexts, w.group.contexts, (size_t)w.group.count * sizeof *made->contexts);
    made->group.contexts = made->contexts;
    made->group.speeds = NULL;
    *plan = &made->plan;
    return GRAM_OK;
}

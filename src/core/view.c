/*
 * view.c - public tensors in, checked views out
 *
 * SPDX-License-Identifier: MIT
 */
#include "view.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *gram_dtype_name(gram_dtype dtype)
{
    static const char *const names[] = {"no dtype", "f32", "f64", "f16",
                                        "bf16",     "i32", "i64", "u8"};

    return dtype >= GRAM_F32 && dtype <= GRAM_U8 ? names[dtype] : names[0];
}

static bool is_empty(const gram_tensor *t)
{
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] == 0)
            return true;
    return false;
}

/* Offsets of the first byte and one past the last; false if they overflow. */
static bool byte_range(const gram_tensor *t, int64_t *low, int64_t *high)
{
    int64_t size = (int64_t)gram_dtype_size(t->dtype), span;

    *low = 0, *high = size;
    if (is_empty(t)) {
        *high = 0;
        return true;
    }
    for (int i = 0; i < t->ndim; i++) {
        if (__builtin_mul_overflow(t->shape[i] - 1, t->stride[i], &span) ||
            __builtin_mul_overflow(span, size, &span))
            return false;
        if (span < 0 ? __builtin_add_overflow(*low, span, low)
                     : __builtin_add_overflow(*high, span, high))
            return false;
    }
    return true;
}

static gram_status check_tensor(gram_context *g, const char *name, const gram_tensor *t, int core)
{
    int64_t count = 1, low, high;

    if (g->fault[0])
        return gram_fail(g, GRAM_DEVICE_FAILED, "%s", g->fault);
    if (!t)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is NULL", name);
    if (gram_dtype_size(t->dtype) == 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s has dtype %d, expected a gram_dtype", name,
                         (int)t->dtype);
    if (t->dtype == GRAM_U8 && !g->takes_bytes)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "%s has dtype u8, which only x and y of gram_cdist and gram_nearest have, "
                         "with bits that are packed (gram_distance.bits)",
                         name);
    if (t->device.type != g->options.device.type || t->device.index != g->options.device.index)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "%s is on device %d:%d, expected the context's device %d:%d", name,
                         (int)t->device.type, (int)t->device.index, (int)g->options.device.type,
                         (int)g->options.device.index);
    if (t->ndim < core || t->ndim > GRAM_MAX_DIMS)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s has %d dimensions, expected %d to %d", name,
                         (int)t->ndim, core, GRAM_MAX_DIMS);
    for (int i = 0; i < t->ndim; i++) {
        if (t->shape[i] < 0)
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "%s has size %lld in dimension %d, expected at least 0", name,
                             (long long)t->shape[i], i);
        if (t->shape[i] && __builtin_mul_overflow(count, t->shape[i], &count))
            return gram_fail(g, GRAM_INVALID_ARGUMENT, "the size of %s overflows", name);
    }
    if (!byte_range(t, &low, &high))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "the size of %s in bytes overflows", name);
    if (!t->data && !is_empty(t))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s has no data (its pointer is NULL)", name);
    return GRAM_OK;
}

static void print_shape(char *text, size_t size, const int64_t *shape, int ndim)
{
    size_t used = (size_t)snprintf(text, size, "(");

    for (int i = 0; i < ndim && used < size; i++)
        used +=
            (size_t)snprintf(text + used, size - used, i ? ", %lld" : "%lld", (long long)shape[i]);
    if (used < size)
        snprintf(text + used, size - used, ")");
}

gram_status gram_batch_join(gram_context *g, struct gram_batch *batch, const char *name,
                            const gram_tensor *t, int core)
{
    struct gram_batch joined = {.count = 1};
    int own;

    TRY(check_tensor(g, name, t, core));
    own = t->ndim - core;
    joined.ndim = own > batch->ndim ? own : batch->ndim;
    for (int i = 0; i < joined.ndim; i++) {
        int in_t = i - (joined.ndim - own), in_batch = i - (joined.ndim - batch->ndim);
        int64_t a = in_t < 0 ? 1 : t->shape[in_t], b = in_batch < 0 ? 1 : batch->shape[in_batch];
        char mine[128], others[128];

        if (a != b && a != 1 && b != 1) {
            print_shape(mine, sizeof mine, t->shape, own);
            print_shape(others, sizeof others, batch->shape, batch->ndim);
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "%s has batch shape %s, which does not broadcast with %s", name, mine,
                             others);
        }
        joined.shape[i] = a == 1 ? b : a;
        if (__builtin_mul_overflow(joined.count, joined.shape[i], &joined.count))
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "the number of items in the batch overflows with %s", name);
    }
    *batch = joined;
    return GRAM_OK;
}

/* True if two different indices may give one element.  Sorted by stride, each must step over
 * everything that the smaller ones reach: sufficient for every layout without interleaving. */
static bool overlaps_itself(const gram_tensor *t)
{
    int order[GRAM_MAX_DIMS], n = 0;
    int64_t reach = 0;

    if (is_empty(t))
        return false;
    for (int i = 0; i < t->ndim; i++) {
        int at = n;
        if (t->shape[i] == 1)
            continue;
        for (; at > 0 && llabs(t->stride[order[at - 1]]) > llabs(t->stride[i]); at--)
            order[at] = order[at - 1];
        order[at] = i;
        n++;
    }
    for (int i = 0; i < n; i++) {
        int64_t step = llabs(t->stride[order[i]]);
        if (step <= reach)
            return true;
        reach += step * (t->shape[order[i]] - 1);
    }
    return false;
}

static gram_status check_output(gram_context *g, const struct gram_batch *batch, const char *name,
                                const gram_tensor *t, int core)
{
    bool same = t->ndim - core == batch->ndim;
    char got[128], expected[128];

    for (int i = 0; same && i < batch->ndim; i++)
        same = t->shape[i] == batch->shape[i];
    if (!same) {
        print_shape(got, sizeof got, t->shape, t->ndim - core);
        print_shape(expected, sizeof expected, batch->shape, batch->ndim);
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s has batch shape %s, expected %s", name, got,
                         expected);
    }
    if (overlaps_itself(t))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "%s has strides that put two elements in the same place", name);
    return GRAM_OK;
}

/* An input need not have been joined to the batch: what it has beyond it would be written there. */
static gram_status check_input(gram_context *g, const struct gram_batch *batch, const char *name,
                               const gram_tensor *t, int core)
{
    const int own = t->ndim - core;
    bool fits = own <= batch->ndim;
    char got[128], expected[128];

    for (int i = 0; fits && i < own; i++)
        fits = t->shape[i] == 1 || t->shape[i] == batch->shape[batch->ndim - own + i];
    if (fits)
        return GRAM_OK;
    print_shape(got, sizeof got, t->shape, own);
    print_shape(expected, sizeof expected, batch->shape, batch->ndim);
    return gram_fail(g, GRAM_INVALID_ARGUMENT,
                     "%s has batch shape %s, which does not broadcast to %s", name, got, expected);
}

gram_status gram_view_of(gram_context *g, const struct gram_batch *batch, const char *name,
                         const gram_tensor *t, int core, enum gram_access access,
                         struct gram_view *out)
{
    int own;

    TRY(check_tensor(g, name, t, core));
    own = t->ndim - core;
    TRY(access == GRAM_WRITE ? check_output(g, batch, name, t, core)
                             : check_input(g, batch, name, t, core));
    *out =
        (struct gram_view){.data = t->data, .dtype = t->dtype, .planes = 1, .rows = 1, .cols = 1};
    if (core >= 1)
        out->cols = t->shape[t->ndim - 1], out->col_stride = t->stride[t->ndim - 1];
    if (core >= 2)
        out->rows = t->shape[t->ndim - 2], out->row_stride = t->stride[t->ndim - 2];
    if (core >= 3)
        out->planes = t->shape[t->ndim - 3], out->plane_stride = t->stride[t->ndim - 3];
    for (int i = 0; i < own; i++) {
        int at = batch->ndim - own + i;
        out->batch_stride[at] = t->shape[i] == 1 && batch->shape[at] != 1 ? 0 : t->stride[i];
        if (t->shape[i] == 0) /* nobody walks along it, and 0 would say that there is an item */
            out->batch_stride[at] = 1;
    }
    return GRAM_OK;
}

gram_status gram_view_number(gram_context *g, const struct gram_batch *batch, const char *name,
                             const gram_tensor *t, gram_dtype dtype, struct gram_view *out)
{
    TRY(gram_view_of(g, batch, name, t, 0, GRAM_WRITE, out));
    return gram_check_dtype(g, name, t, dtype);
}

gram_status gram_check_dtype(gram_context *g, const char *name, const gram_tensor *t,
                             gram_dtype expected)
{
    if (t->dtype != expected)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s has dtype %s, expected %s", name,
                         gram_dtype_name(t->dtype), gram_dtype_name(expected));
    return GRAM_OK;
}

gram_status gram_check_real(gram_context *g, const char *name, const gram_tensor *t)
{
    if (t->dtype != GRAM_F32 && t->dtype != GRAM_F64)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s has dtype %s, expected f32 or f64", name,
                         gram_dtype_name(t->dtype));
    return GRAM_OK;
}

gram_status gram_check_square(gram_context *g, const char *name, const gram_tensor *t)
{
    int64_t rows = t->shape[t->ndim - 2], cols = t->shape[t->ndim - 1];

    if (rows != cols)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is %lld by %lld, expected a square matrix",
                         name, (long long)rows, (long long)cols);
    return GRAM_OK;
}

gram_status gram_check_uplo(gram_context *g, gram_uplo uplo)
{
    if (uplo != GRAM_LOWER && uplo != GRAM_UPPER)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.uplo is %d, expected GRAM_LOWER or GRAM_UPPER", (int)uplo);
    return GRAM_OK;
}

gram_status gram_check_need(gram_context *g, const gram_workspace *need)
{
    if (!need)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "need is NULL, expected a place for the sizes");
    return GRAM_OK;
}

gram_status gram_hyper_of(gram_context *g, const struct gram_batch *batch, const char *name,
                          gram_scalar s, struct gram_hyper *out)
{
    *out = (struct gram_hyper){.value = s.value};
    if (!s.tensor)
        return GRAM_OK;
    TRY(gram_view_of(g, batch, name, s.tensor, 0, GRAM_READ, &out->tensor));
    if (!out->tensor.data) /* no item has one: 1, which is in the range of everything */
        out->value = 1;
    return gram_check_real(g, name, s.tensor);
}

/* The items of a batch that have a number of their own: not those it is broadcast to, which may be
 * more than anybody could walk over where they are empty. */
static struct gram_batch items_of(const struct gram_hyper *h, const struct gram_batch *batch)
{
    struct gram_batch own = *batch;

    own.count = 1;
    for (int i = 0; i < batch->ndim; i++) {
        if (h->tensor.batch_stride[i] == 0 && batch->shape[i] > 0)
            own.shape[i] = 1;
        own.count *= own.shape[i];
    }
    return own;
}

gram_status gram_hyper_check(gram_context *g, const struct gram_batch *batch, const char *name,
                             const struct gram_hyper *h, double least, double most, bool open)
{
    struct gram_batch own = {.count = 1};

    if (h->tensor.data && g->options.device.type != GRAM_CPU)
        return GRAM_OK; /* cannot be read here; the backend gives NaN */
    if (h->tensor.data)
        own = items_of(h, batch);
    for (int64_t i = 0; i < own.count; i++) {
        double v = gram_hyper_at(h, &own, i);
        if (!(v >= least && v <= most) || (open && v == least))
            return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is %g, expected %s %g%s", name, v,
                             open ? "more than" : "at least", least,
                             most < INFINITY ? ", and finite" : "");
    }
    return GRAM_OK;
}

double gram_hyper_at(const struct gram_hyper *h, const struct gram_batch *batch, int64_t item)
{
    const char *at;

    if (!h->tensor.data)
        return h->value;
    at = gram_view_item(&h->tensor, batch, item);
    return h->tensor.dtype == GRAM_F32 ? (double)*(const float *)at : *(const double *)at;
}

/* True if a and b are column blocks of rows with one common stride, without a common column. */
static bool separate_columns(const gram_tensor *a, const gram_tensor *b)
{
    int64_t size = (int64_t)gram_dtype_size(a->dtype), step, apart;

    if (a->ndim != 2 || b->ndim != 2 || a->dtype != b->dtype || a->stride[1] != 1 ||
        b->stride[1] != 1 || a->stride[0] != b->stride[0] || a->stride[0] <= 0)
        return false;
    step = a->stride[0] * size;
    apart = (int64_t)((intptr_t)b->data - (intptr_t)a->data) % step;
    apart += apart < 0 ? step : 0;
    return apart >= a->shape[1] * size && apart + b->shape[1] * size <= step;
}

bool gram_tensors_overlap(const gram_tensor *a, const gram_tensor *b)
{
    int64_t a_low, a_high, b_low, b_high;

    if (is_empty(a) || is_empty(b) || !byte_range(a, &a_low, &a_high) ||
        !byte_range(b, &b_low, &b_high))
        return false;
    if ((intptr_t)a->data + a_high <= (intptr_t)b->data + b_low ||
        (intptr_t)b->data + b_high <= (intptr_t)a->data + a_low)
        return false;
    return !separate_columns(a, b);
}

void gram_tensor_range(const gram_tensor *t, intptr_t *low, intptr_t *high)
{
    int64_t first = 0, end = 0;

    (void)byte_range(t, &first, &end);
    *low = (intptr_t)t->data + first;
    *high = (intptr_t)t->data + end;
}

gram_status gram_check_apart(gram_context *g, const char *out_name, const gram_tensor *out,
                             const char *in_name, const gram_tensor *in)
{
    if (gram_tensors_overlap(out, in))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s overlaps %s in memory", out_name, in_name);
    return GRAM_OK;
}

bool gram_tensors_same(const gram_tensor *a, const gram_tensor *b)
{
    if (a->data != b->data || a->dtype != b->dtype || a->ndim != b->ndim)
        return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->shape[i] != b->shape[i] || (a->stride[i] != b->stride[i] && a->shape[i] > 1))
            return false;
    return true;
}

gram_status gram_struct_copy(gram_context *g, const char *name, void *to, size_t size,
                             const void *given)
{
    size_t theirs;

    if (!given)
        return GRAM_OK;
    memcpy(&theirs, given, sizeof theirs);
    if (theirs < sizeof theirs || theirs > size)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "%ssize is %zu, expected at least %zu and at most %zu", name, theirs,
                         sizeof theirs, size);
    memcpy(to, given, theirs);
    return GRAM_OK;
}

gram_status gram_options_copy(gram_context *g, void *options, size_t size, const void *given)
{
    return gram_struct_copy(g, "options.", options, size, given);
}

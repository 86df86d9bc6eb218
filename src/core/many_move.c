/*
 * many_move.c - a tensor that is on another device than the context that works on it
 *
 * Inputs, and outputs whose contents count, keep their strides: the bytes between their first and
 * last element are copied.  Other outputs get room without gaps, whose dimensions lie in the order
 * of the caller's, so that a tensor without gaps goes home as one copy; else it goes in runs along
 * its closest dimension, to the CPU through memory of the CPU.
 *
 * SPDX-License-Identifier: MIT
 */
#include "many.h"
#include <stdlib.h>
#include <string.h>

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

gram_status gram_move_in(gram_context *g, const gram_tensor *home, struct gram_moved *m)
{
    intptr_t low, high;

    *m = (struct gram_moved){.t = *home, .home = home};
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

gram_status gram_move_room(gram_context *g, const gram_tensor *home, struct gram_moved *m)
{
    *m = (struct gram_moved){.t = *home, .home = home};
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
static bool is_one_piece(const struct gram_moved *m)
{
    for (int d = 0; d < m->t.ndim; d++)
        if (m->t.shape[d] > 1 && m->home->stride[d] != m->t.stride[d])
            return false;
    return m->bytes == (size_t)element_count(&m->t) * gram_dtype_size(m->t.dtype);
}

static gram_status copy_piece(gram_context *g, const struct gram_moved *m)
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

static gram_status to_cpu(gram_context *g, const struct gram_moved *m)
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

gram_status gram_move_out(gram_context *g, const struct gram_moved *m)
{
    if (!m->memory)
        return GRAM_OK;
    if (m->home->device.type == GRAM_CPU)
        return to_cpu(g, m);
    if (is_one_piece(m))
        return copy_piece(g, m);
    return copy_runs(g, m->home, &m->t, m->t.data);
}

void gram_moved_free(gram_context *g, struct gram_moved *m)
{
    gram_memory_free(g, m->memory, m->bytes);
    m->memory = NULL;
}

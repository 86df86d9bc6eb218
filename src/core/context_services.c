/*
 * context_services.c - what a backend asks of its context: errors, memory, the log, time, views
 *
 * Without state of its own, so that the library and its plugins have a copy each.
 *
 * SPDX-License-Identifier: MIT
 */
#include "view.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void gram_note(gram_context *g, const char *format, ...)
{
    int used = snprintf(g->message, sizeof g->message, "%s: ", g->call);
    va_list args;

    assert(used > 0 && (size_t)used < sizeof g->message);
    va_start(args, format);
    vsnprintf(g->message + used, sizeof g->message - (size_t)used, format, args);
    va_end(args);
}

void *gram_alloc(gram_context *g, size_t bytes)
{
    size_t rounded = bytes ? gram_round64(bytes) : 64; /* aligned_alloc wants a multiple */

    if (rounded < bytes)
        return NULL;
    if (g->options.allocate)
        return g->options.allocate(g->options.user, rounded);
    return aligned_alloc(64, rounded);
}

void gram_free(gram_context *g, void *memory, size_t bytes)
{
    if (!memory)
        return;
    if (g->options.release)
        g->options.release(g->options.user, memory, bytes ? gram_round64(bytes) : 64);
    else
        free(memory);
}

void gram_log(const gram_context *g, const char *format, ...)
{
    char line[1024];
    va_list args;

    if (!g->log)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    fprintf(stderr, "gram: %s\n", line); /* one call, so that lines of several threads stay whole */
}

int64_t gram_nanoseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

struct gram_rounds gram_rounds_of(const struct gram_batch *batch, int64_t most)
{
    struct gram_rounds r = {batch->ndim, 1, 1, batch->count, batch->count};
    int64_t size;

    if (batch->count <= most)
        return r;
    while (r.inner * batch->shape[r.dim - 1] <= most)
        r.inner *= batch->shape[--r.dim];
    size = batch->shape[--r.dim];
    r.piece = gram_ceil_div(size, gram_ceil_div(size, most / r.inner));
    r.items = r.piece * r.inner;
    r.last_items = (size - (gram_ceil_div(size, r.piece) - 1) * r.piece) * r.inner;
    return r;
}

struct gram_batch gram_round_at(const struct gram_batch *batch, const struct gram_rounds *rounds,
                                int64_t first)
{
    struct gram_batch round = *batch;
    int64_t size;

    if (rounds->dim == batch->ndim)
        return round;
    for (int d = 0; d < rounds->dim; d++)
        round.shape[d] = 1;
    size = batch->shape[rounds->dim];
    round.shape[rounds->dim] = gram_least(rounds->piece, size - first / rounds->inner % size);
    round.count = round.shape[rounds->dim] * rounds->inner;
    return round;
}

char *gram_view_item(const struct gram_view *v, const struct gram_batch *batch, int64_t item)
{
    int64_t offset = 0;

    if (batch->count == 0) /* there is no item; a plan may ask where the first would be */
        return v->data;
    for (int i = batch->ndim - 1; i >= 0; i--) {
        offset += item % batch->shape[i] * v->batch_stride[i];
        item /= batch->shape[i];
    }
    return v->data ? v->data + offset * (int64_t)gram_dtype_size(v->dtype) : NULL;
}

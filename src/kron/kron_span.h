/*
 * kron_span.h - neighbouring factors that are applied together: their order, and what is around
 * them
 *
 * Inline, for both backends.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRON_SPAN_H
#define GRAM_KRON_SPAN_H
#include "core/backend.h"

/* Neighbouring factors that a backend applies to a tile together. */
struct gram_kron_span {
    int first, count;
    int order[GRAM_MAX_FACTORS]; /* of their contractions */
    int64_t in, out;             /* elements of their indices, before and after */
    int64_t before, after;       /* elements of the indices around them, as they are then */
};

/* The contraction that comes first costs least. */
static inline double gram_kron_key(int64_t in, int64_t out)
{
    return 1 / (double)in - 1 / (double)out;
}

/* Orders the contractions of factors first .. first + count - 1, and counts in and out; gives the
 * most elements that their indices have on the way. */
static inline int64_t gram_kron_span_order(const struct gram_kron_matmul_op *op,
                                           struct gram_kron_span *span)
{
    int64_t most, now;

    span->in = span->out = 1;
    for (int i = 0; i < span->count; i++) {
        int factor = span->first + span->count - 1 - i, at = i;
        const struct gram_view *f = &op->factor[factor];
        for (; at > 0; at--) {
            const struct gram_view *other = &op->factor[span->order[at - 1]];
            if (gram_kron_key(other->rows, other->cols) <= gram_kron_key(f->rows, f->cols))
                break;
            span->order[at] = span->order[at - 1];
        }
        span->order[at] = factor;
        span->in *= f->rows;
        span->out *= f->cols;
    }
    most = now = span->in;
    for (int i = 0; i < span->count; i++) {
        const struct gram_view *f = &op->factor[span->order[i]];
        now = now / gram_most(f->rows, 1) * f->cols; /* an empty factor has none */
        most = gram_most(most, now);
    }
    return most;
}

static inline struct gram_kron_span *gram_kron_span_at(void *groups, size_t size, int i)
{
    return (struct gram_kron_span *)(void *)((char *)groups + (size_t)i * size);
}

static inline void gram_kron_exchange(char *a, char *b, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        char byte = a[i];
        a[i] = b[i];
        b[i] = byte;
    }
}

/* Orders count groups of size bytes, each of which begins with a span, and sets before and after,
 * where lanes indices come after all factors; gives the most elements between two groups. */
static inline int64_t gram_kron_spans_arrange(void *groups, size_t size, int count, int64_t lanes)
{
    int64_t most = 0;

    for (int i = 1; i < count; i++)
        for (int at = i; at > 0; at--) {
            struct gram_kron_span *a = gram_kron_span_at(groups, size, at - 1);
            struct gram_kron_span *b = gram_kron_span_at(groups, size, at);
            if (gram_kron_key(a->in, a->out) <= gram_kron_key(b->in, b->out))
                break;
            gram_kron_exchange((char *)a, (char *)b, size);
        }
    for (int i = 0; i < count; i++) {
        struct gram_kron_span *span = gram_kron_span_at(groups, size, i);
        span->before = 1, span->after = lanes;
        for (int j = 0; j < count; j++) {
            const struct gram_kron_span *other = gram_kron_span_at(groups, size, j);
            int64_t elements = j < i ? other->out : other->in;
            if (j != i)
                *(other->first < span->first ? &span->before : &span->after) *= elements;
        }
        if (i + 1 < count)
            most = gram_most(most, span->before * span->out * span->after);
    }
    return most;
}
#endif

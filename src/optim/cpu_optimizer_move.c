/*
 * cpu_optimizer_move.c - blocks of tensors and slots of state, to and from arrays of f32 or f64
 *
 * A block is a set of runs of the parameter's flat indices (optimizer.h); a tensor of any strides
 * is walked in that order, with the dimensions that lie in memory as one joined.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu/move.h"
#include "cpu_optimizer.h"

#define TEMPLATE "optim/cpu_optimizer_move.h"
#define INTEGERS 0
#include "cpu/each_dtype.h"

typedef void read_run(const void *data, int64_t step, int64_t n, void *to);
typedef void write_run(const void *from, int64_t n, void *data, int64_t step);

static read_run *reader(gram_dtype dtype, gram_dtype work)
{
    bool wide = work == GRAM_F64;

    switch (dtype) {
    case GRAM_F64:
        return wide ? read_f64_f64 : read_f32_f64;
    case GRAM_F16:
        return wide ? read_f64_f16 : read_f32_f16;
    case GRAM_BF16:
        return wide ? read_f64_bf16 : read_f32_bf16;
    default:
        return wide ? read_f64_f32 : read_f32_f32;
    }
}

static write_run *writer(gram_dtype dtype, gram_dtype work)
{
    bool wide = work == GRAM_F64;

    switch (dtype) {
    case GRAM_F64:
        return wide ? write_f64_f64 : write_f32_f64;
    case GRAM_F16:
        return wide ? write_f64_f16 : write_f32_f16;
    case GRAM_BF16:
        return wide ? write_f64_bf16 : write_f32_bf16;
    default:
        return wide ? write_f64_f32 : write_f32_f32;
    }
}

/* ---- Tensors ------------------------------------------------------------------------------ */

/* A tensor in few dimensions, and the block's array that it goes to (read) or comes from. */
struct walk {
    int ndim;
    int64_t shape[GRAM_MAX_DIMS], stride[GRAM_MAX_DIMS];
    char *data;
    int64_t size; /* of an element, in bytes */
    read_run *read;
    char *to;
    write_run *write; /* where read is NULL */
    const char *from;
    int64_t array_size; /* of an element of the block's array, in bytes */
};

/* Elements flat .. flat + n of the tensor; to or from is moved on by n elements. */
static void move_run(struct walk *w, int64_t flat, int64_t n)
{
    while (n > 0) {
        int64_t rest = flat, at = 0, piece = gram_least(n, w->shape[0] - flat % w->shape[0]);
        char *data;
        for (int i = 0; i < w->ndim; i++) {
            at += rest % w->shape[i] * w->stride[i];
            rest /= w->shape[i];
        }
        data = w->data + at * w->size;
        if (w->read)
            w->read(data, w->stride[0], piece, w->to);
        else
            w->write(w->from, piece, data, w->stride[0]);
        w->to = w->read ? w->to + piece * w->array_size : NULL;
        w->from = w->read ? NULL : w->from + piece * w->array_size;
        flat += piece;
        n -= piece;
    }
}

/* All runs of the block: dimensions behind the last one that is cut belong to one run. */
static void move_block(const struct gram_optimizer_parameter *p,
                       const struct gram_optimizer_block *b, struct walk *w)
{
    int64_t index[GRAM_MAX_DIMS] = {0}, run = 1, stride = 1, strides[GRAM_MAX_DIMS];
    int outer = b->order;

    for (int i = b->order - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= p->merged[i];
    }
    while (outer > 0 && run == strides[outer - 1])
        run *= b->size[--outer];
    for (int64_t done = 0; done < b->count; done += run) {
        int64_t flat = 0;
        for (int i = 0; i < b->order; i++)
            flat += (b->start[i] + index[i]) * strides[i];
        move_run(w, flat, run);
        for (int i = outer - 1; i >= 0 && ++index[i] == b->size[i]; i--)
            index[i] = 0;
    }
}

void cpu_optimizer_gather(const struct cpu_optimizer_unit *u, const gram_tensor *t, void *to)
{
    struct walk w = {.data = t->data,
                     .size = (int64_t)gram_dtype_size(t->dtype),
                     .read = reader(t->dtype, u->work),
                     .to = to,
                     .array_size = (int64_t)gram_dtype_size(u->work)};

    w.ndim = gram_optimizer_join(t, w.shape, w.stride);
    move_block(u->p, u->b, &w);
}

void cpu_optimizer_scatter(const struct cpu_optimizer_unit *u, const void *from, gram_tensor *t)
{
    struct walk w = {.data = t->data,
                     .size = (int64_t)gram_dtype_size(t->dtype),
                     .write = writer(t->dtype, u->work),
                     .from = from,
                     .array_size = (int64_t)gram_dtype_size(u->work)};

    w.ndim = gram_optimizer_join(t, w.shape, w.stride);
    move_block(u->p, u->b, &w);
}

/* ---- State -------------------------------------------------------------------------------- */

void cpu_optimizer_load(const gram_optimizer *o, const struct gram_optimizer_slot *s,
                        gram_dtype work, bool mirror, void *to)
{
    read_run *read = reader(s->dtype, work);
    const char *from = gram_optimizer_data(o, s);
    size_t size = gram_dtype_size(s->dtype), out = gram_dtype_size(work);

    if (!s->packed) {
        read(from, 1, s->count, to);
        return;
    }
    for (int64_t i = 0, at = 0; i < s->n; at += s->n - i++)
        read(from + (size_t)at * size, 1, s->n - i, (char *)to + (size_t)(i * s->n + i) * out);
    if (mirror)
        cpu_mirror(work, s->n, to);
}

void cpu_optimizer_store(const gram_optimizer *o, const struct gram_optimizer_slot *s,
                         gram_dtype work, const void *from)
{
    write_run *write = writer(s->dtype, work);
    size_t in = gram_dtype_size(work), size = gram_dtype_size(s->dtype);
    char *to = gram_optimizer_data(o, s);

    if (!s->packed) {
        write(from, s->count, to, 1);
        return;
    }
    for (int64_t i = 0; i < s->n; i++, to += (size_t)(s->n - i + 1) * size)
        write((const char *)from + (size_t)(i * s->n + i) * in, s->n - i, to, 1);
}

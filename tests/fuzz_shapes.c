/*
 * fuzz_shapes.c - operations and their queries with tensors of any shape, strides, batch and dtype
 *
 * The input names an operation and changes to the tensors of a call that is right.  Every tensor
 * has exactly the memory that it describes, so that a sanitizer sees one element too many; a call
 * that is refused has changed none of it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "shape_calls.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    MOST_BYTES = 1 << 16, /* of a tensor; what is larger is not tried */
    CHANGE = 4            /* bytes of one: tensor, what, where, value */
};

struct memory {
    unsigned char *bytes, *before;
    size_t size;
};

static void require(int condition)
{
    if (!condition)
        abort();
}

static void add_batch(gram_tensor *t, int64_t size)
{
    if (t->ndim >= GRAM_MAX_DIMS)
        return;
    memmove(t->shape + 1, t->shape, (GRAM_MAX_DIMS - 1) * sizeof *t->shape);
    memmove(t->stride + 1, t->stride, (GRAM_MAX_DIMS - 1) * sizeof *t->stride);
    t->shape[0] = size;
    if (t->ndim == 0 || __builtin_mul_overflow(t->shape[1], t->stride[1], &t->stride[0]))
        t->stride[0] = 1;
    t->ndim++;
}

static void swap(gram_tensor *t, int a, int b)
{
    int64_t shape, stride;

    if (a < 0 || b < 0 || a >= GRAM_MAX_DIMS || b >= GRAM_MAX_DIMS)
        return;
    shape = t->shape[a], stride = t->stride[a];

    t->shape[a] = t->shape[b], t->stride[a] = t->stride[b];
    t->shape[b] = shape, t->stride[b] = stride;
}

/* True if the tensor's data stay NULL. */
static bool change(gram_tensor *t, const uint8_t *how)
{
    static const int64_t strides[] = {0, 1, 2, 3, 7, -1, -4, 64};
    const int at = t->ndim > 0 ? how[2] % t->ndim : 0;

    switch (how[1] % 10) {
    case 0:
    case 1:
        add_batch(t, how[3] % 4);
        break;
    case 2:
        t->shape[at] = how[3] % 9;
        break;
    case 3:
        t->stride[at] = strides[how[3] % 8];
        break;
    case 4:
        t->dtype = (gram_dtype)(how[3] % 8);
        break;
    case 5:
        t->ndim = (int32_t)(how[3] % 12) - 1;
        break;
    case 6:
        return true;
    case 7:
        t->device.index = how[3] % 3;
        break;
    case 8:
        t->shape[at] = how[3] % 2 ? -1 : INT64_MAX / (how[3] + 1);
        break;
    default:
        if (t->ndim > 0)
            swap(t, at, how[3] % t->ndim);
    }
    return false;
}

/* The memory of a tensor, filled with numbers that make matrices definite; false: it would be too
 * much of it.  A tensor that no call can take has a little. */
static bool give_memory(gram_tensor *t, struct memory *m)
{
    size_t element = gram_dtype_size(t->dtype) ? gram_dtype_size(t->dtype) : 1;
    int64_t low = 0, high = 0;
    bool empty = false;

    for (int i = 0; i < t->ndim && i < GRAM_MAX_DIMS; i++) {
        int64_t last = t->shape[i] - 1, step;
        empty |= t->shape[i] <= 0;
        if (last > MOST_BYTES)
            return false;
        step = last > 0 ? last * t->stride[i] : 0;
        *(step < 0 ? &low : &high) += step;
    }
    if (high - low > MOST_BYTES / 8)
        return false;
    m->size = empty ? 0 : (size_t)(high - low + 1) * element;
    m->bytes = malloc(m->size + !m->size);
    m->before = malloc(m->size + !m->size);
    require(m->bytes && m->before);
    memset(m->bytes, 0, m->size + !m->size);
    for (size_t i = 0; (i + 1) * sizeof(double) <= m->size && t->dtype == GRAM_F64; i++) {
        double value = m->size == sizeof value ? 0.5 : i % 5 == 0 ? 9 : 0.25;
        memcpy(m->bytes + i * sizeof value, &value, sizeof value);
    }
    memcpy(m->before, m->bytes, m->size);
    t->data = m->bytes + (size_t)(empty ? 0 : -low) * element;
    return true;
}

static void run(gram_context *g, const struct shape_row *row, struct shape_call *c,
                const struct memory *memory)
{
    gram_status status;

    c->query = true;
    status = row->run(g, c);
    require(status == GRAM_OK || *gram_message(g));
    c->query = false;
    status = row->run(g, c);
    require(status == GRAM_OK || *gram_message(g));
    if (status == GRAM_OK || status == GRAM_NUMERICAL)
        return;
    for (int i = 0; i < SHAPE_TENSORS; i++)
        require(memory[i].size == 0 ||
                memcmp(memory[i].bytes, memory[i].before, memory[i].size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const gram_context_options how = {.size = sizeof how, .threads = 1};
    struct memory memory[SHAPE_TENSORS] = {{0}};
    bool null[SHAPE_TENSORS] = {false}, fits = true;
    struct shape_call c = {.query = false};
    int count = 0, rows = 0, tensors = 0;
    const struct shape_row *row;
    gram_context *g;

    while (shape_rows[rows].name)
        rows++;
    if (size < 1)
        return 0;
    row = &shape_rows[data[0] % rows];
    while (tensors < SHAPE_TENSORS && shape_tensor(row, tensors, -1, &c.t[tensors]))
        tensors++;
    for (size_t at = 1; at + CHANGE <= size && count < 12; at += CHANGE, count++)
        null[data[at] % tensors] |= change(&c.t[data[at] % tensors], data + at);
    for (int i = 0; i < tensors && fits; i++)
        fits = null[i] || give_memory(&c.t[i], &memory[i]);
    if (fits && gram_context_create(&how, &g) == GRAM_OK) {
        run(g, row, &c, memory);
        gram_context_destroy(g);
    }
    for (int i = 0; i < tensors; i++) {
        free(memory[i].bytes);
        free(memory[i].before);
    }
    return 0;
}

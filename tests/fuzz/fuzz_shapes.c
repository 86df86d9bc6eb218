/*
 * fuzz_shapes.c - operations and their queries with tensors of any shape, strides, batch and dtype
 *
 * The input names an operation and changes to the tensors of a call that is right.  So every call
 * is one that gram.h allows, or one that it promises to refuse; how large the tensors may become is
 * bounded, for the time that a call takes.  Every tensor has exactly the memory that it describes,
 * so that a sanitizer sees one element too many, and the scratch is exactly what the query says, or
 * the context's own.  A call changes the elements of its outputs and nothing between them; one that
 * is refused changes nothing.
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
    MOST_BYTES = 1 << 16,   /* of a tensor, from its first to its last */
    MOST_COUNT = 1 << 18,   /* of its elements, which may lie in one place */
    MOST_SCRATCH = 1 << 26, /* bytes; a call that needs more has the arena */
    MOST_CHANGES = 12,      /* of one call */
    CHANGE = 4,             /* bytes of one: tensor, what, where, value */
    ALIGNMENT = 64          /* of scratch */
};

struct memory {
    unsigned char *bytes, *before;
    size_t size, origin; /* in bytes; origin: of the element whose indices are 0 */
};

enum extent {
    NONE,     /* no elements, or no call takes the tensor: nobody may touch its data */
    SOME,     /* memory for all of it */
    TOO_LARGE /* right, but not tried */
};

static void require(int condition)
{
    if (!condition)
        abort();
}

static int dimensions(const gram_tensor *t)
{
    return t->ndim < GRAM_MAX_DIMS ? t->ndim : GRAM_MAX_DIMS;
}

static void add_batch(gram_tensor *t, int64_t size)
{
    if (t->ndim < 0 || t->ndim >= GRAM_MAX_DIMS)
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
    const int64_t shape = t->shape[a], stride = t->stride[a];

    t->shape[a] = t->shape[b], t->stride[a] = t->stride[b];
    t->shape[b] = shape, t->stride[b] = stride;
}

/* True if the tensor's data stay NULL.  What is said of dimensions goes to those that there are:
 * ndim may be more than a tensor can have, or less than none. */
static bool change(gram_tensor *t, const uint8_t *how)
{
    static const int64_t strides[] = {0, 1, 2, 3, 7, -1, -4, 64};
    const int there = dimensions(t), at = there > 0 ? how[2] % there : 0;

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
        if (there > 0)
            swap(t, at, how[3] % there);
    }
    return false;
}

/* How far a tensor reaches below and above its first element, in bytes.  Sizes whose product is no
 * int64_t, and distances in bytes that are none, are refused. */
static enum extent measure(const gram_tensor *t, int64_t *low, int64_t *high)
{
    const int64_t element = (int64_t)gram_dtype_size(t->dtype);
    int64_t count = 1, step;
    bool none = t->ndim < 0 || t->ndim > GRAM_MAX_DIMS || element == 0;

    *low = 0, *high = element;
    for (int i = 0; i < dimensions(t); i++) {
        none |= t->shape[i] <= 0;
        if (t->shape[i] > 0 && __builtin_mul_overflow(count, t->shape[i], &count))
            return NONE;
    }
    for (int i = 0; i < dimensions(t) && !none; i++)
        if (__builtin_mul_overflow(t->shape[i] - 1, t->stride[i], &step) ||
            __builtin_mul_overflow(step, element, &step) ||
            __builtin_add_overflow(*(step < 0 ? low : high), step, step < 0 ? low : high))
            return NONE;
    if (count > MOST_COUNT || (!none && (*high > MOST_BYTES || *low < -MOST_BYTES)))
        return TOO_LARGE;
    return none ? NONE : SOME;
}

/* Numbers that make matrices definite, or, for a hyperparameter, that are in its range. */
static void fill(struct memory *m, gram_dtype dtype, bool hyper)
{
    const size_t element = gram_dtype_size(dtype);

    memset(m->bytes, 0, m->size);
    for (size_t i = 0; i < m->size / element; i++) {
        const double value = hyper ? 0.5 : i % 5 == 0 ? 9 : 0.25;
        const float single = (float)value;
        if (dtype == GRAM_F64)
            memcpy(m->bytes + i * element, &value, element);
        else if (dtype == GRAM_F32)
            memcpy(m->bytes + i * element, &single, element);
    }
    memcpy(m->before, m->bytes, m->size);
}

/* null: the data stay NULL.  False: the tensor is right and too large. */
static bool give_memory(gram_tensor *t, bool null, bool hyper, struct memory *m)
{
    int64_t low, high;
    const enum extent extent = measure(t, &low, &high);

    if (extent == TOO_LARGE || null)
        return extent != TOO_LARGE;
    m->size = extent == SOME ? (size_t)(high - low) : 0;
    m->origin = extent == SOME ? (size_t)-low : 0;
    m->bytes = malloc(m->size + !m->size);
    m->before = malloc(m->size + !m->size);
    require(m->bytes && m->before);
    if (m->size > 0)
        fill(m, t->dtype, hyper);
    t->data = m->bytes + (extent == SOME ? m->origin : 1); /* nothing: behind the last byte */
    return true;
}

/* What is written to the elements of an output may differ from before. */
static void accept(const gram_tensor *t, const struct memory *m)
{
    const size_t element = gram_dtype_size(t->dtype);
    int64_t index[GRAM_MAX_DIMS] = {0};
    int d = 0;

    while (d >= 0 && m->size > 0) {
        int64_t at = (int64_t)m->origin;
        for (int i = 0; i < t->ndim; i++)
            at += index[i] * t->stride[i] * (int64_t)element;
        memcpy(m->before + at, m->bytes + at, element);
        for (d = t->ndim - 1; d >= 0 && ++index[d] == t->shape[d]; d--)
            index[d] = 0;
    }
}

static void check_memory(const struct shape_row *row, const struct shape_call *c,
                         const struct memory *memory, bool written)
{
    char name[SHAPE_NAME];

    for (int i = 0; shape_name(row, i, name); i++) {
        if (written && strpbrk(name, "!=+"))
            accept(&c->t[i], &memory[i]);
        require(memory[i].size == 0 ||
                memcmp(memory[i].bytes, memory[i].before, memory[i].size) == 0);
    }
}

static bool is_expected(gram_context *g, gram_status status)
{
    return status == GRAM_OK ||
           (*gram_message(g) && (status == GRAM_INVALID_ARGUMENT || status == GRAM_UNSUPPORTED ||
                                 status == GRAM_OUT_OF_MEMORY || status == GRAM_NUMERICAL));
}

/* exact: in the scratch that the query says, else in the context's own. */
static void run(gram_context *g, const struct shape_row *row, struct shape_call *c,
                const struct memory *memory, bool exact)
{
    gram_status status, asked;
    void *scratch = NULL;

    c->query = true;
    asked = row->run(g, c);
    require(is_expected(g, asked));
    check_memory(row, c, memory, false);
    if (exact && asked == GRAM_OK && c->need.host_bytes <= MOST_SCRATCH) {
        require(posix_memalign(&scratch, ALIGNMENT, c->need.host_bytes + !c->need.host_bytes) == 0);
        require(gram_context_use_workspace(g, scratch, c->need.host_bytes) == GRAM_OK);
    }
    c->query = false;
    status = row->run(g, c);
    require(is_expected(g, status) && (!scratch || status != GRAM_OUT_OF_MEMORY));
    require(asked == GRAM_OK || status != GRAM_OK);
    check_memory(row, c, memory, status == GRAM_OK || status == GRAM_NUMERICAL);
    require(gram_context_use_workspace(g, NULL, 0) == GRAM_OK);
    free(scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const gram_context_options how = {.size = sizeof how, .threads = 1};
    struct memory memory[SHAPE_TENSORS] = {{0}};
    bool null[SHAPE_TENSORS] = {false}, fits = true;
    struct shape_call c = {.query = false};
    int count = 0, rows = 0, tensors = 0;
    const struct shape_row *row;
    char name[SHAPE_NAME];
    gram_context *g;

    while (shape_rows[rows].name)
        rows++;
    if (size < 1)
        return 0;
    require(rows > 0);
    row = &shape_rows[data[0] % rows];
    while (tensors < SHAPE_TENSORS && shape_tensor(row, tensors, -1, &c.t[tensors]))
        tensors++;
    require(tensors > 0);
    for (size_t at = 1; at + CHANGE <= size && count < MOST_CHANGES; at += CHANGE, count++)
        null[data[at] % tensors] |= change(&c.t[data[at] % tensors], data + at);
    for (int i = 0; i < tensors && fits; i++) {
        const bool hyper = !strpbrk(shape_name(row, i, name), "!=+ ");
        fits = give_memory(&c.t[i], null[i], hyper, &memory[i]);
    }
    if (fits) {
        require(gram_context_create(&how, &g) == GRAM_OK);
        run(g, row, &c, memory, data[0] / rows % 2 == 0);
        gram_context_destroy(g);
    }
    for (int i = 0; i < tensors; i++) {
        free(memory[i].bytes);
        free(memory[i].before);
    }
    return 0;
}

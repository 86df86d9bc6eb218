/*
 * flatbuffer.c - reads flatbuffers, and checks every offset before it is followed
 *
 * Offsets have 32 bits and positions 64, so that their sums do not overflow.  Offsets point
 * forward, but for that from a table to the offsets of its fields, which has a sign.
 *
 * SPDX-License-Identifier: MIT
 */
#include "flatbuffer.h"

/* Whether so many bytes are there; if not, the buffer is broken. */
static bool has(struct flatbuffer *of, uint64_t at, uint64_t bytes)
{
    if (at <= of->size && bytes <= of->size - at)
        return true;
    of->broken = true;
    return false;
}

static uint64_t read_unsigned(struct flatbuffer *of, uint64_t at, int bytes)
{
    uint64_t value = 0;

    if (!has(of, at, (uint64_t)bytes))
        return 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | of->data[at + (uint64_t)i];
    return value;
}

static int64_t read_signed(struct flatbuffer *of, uint64_t at, int bytes)
{
    const uint64_t value = read_unsigned(of, at, bytes);
    const uint64_t sign = (uint64_t)1 << (8 * bytes - 1);

    return (int64_t)((value ^ sign) - sign);
}

/* The table at a position, of which nothing is known yet. */
static struct flat_table table_at(struct flatbuffer *of, uint64_t at)
{
    struct flat_table t = {.of = of};
    const int64_t offsets = (int64_t)at - read_signed(of, at, 4);
    uint64_t size;

    if (of->broken || offsets < 0) {
        of->broken = true;
        return t;
    }
    size = read_unsigned(of, (uint64_t)offsets, 2);
    t.bytes = read_unsigned(of, (uint64_t)offsets + 2, 2);
    if (size < 4 || t.bytes < 4 || !has(of, (uint64_t)offsets, size) || !has(of, at, t.bytes)) {
        of->broken = true;
        return t;
    }
    t.offsets = (uint64_t)offsets + 4;
    t.field_count = (size - 4) / 2;
    t.at = at;
    return t;
}

/* Where a field of so many bytes stands; 0: it is absent. */
static uint64_t field_at(const struct flat_table *t, int field, int bytes)
{
    uint64_t offset;

    if (t->at == 0 || (uint64_t)field >= t->field_count)
        return 0;
    offset = read_unsigned(t->of, t->offsets + 2 * (uint64_t)field, 2);
    if (offset == 0)
        return 0;
    if (offset < 4 || offset + (uint64_t)bytes > t->bytes) {
        t->of->broken = true;
        return 0;
    }
    return t->at + offset;
}

/* Where the offset at a position leads; 0: nowhere, and the buffer is broken. */
static uint64_t follow(struct flatbuffer *of, uint64_t at)
{
    const uint64_t offset = read_unsigned(of, at, 4);

    if (offset == 0)
        of->broken = true;
    return offset ? at + offset : 0;
}

/* The same from a field; 0: it is absent. */
static uint64_t follow_field(const struct flat_table *t, int field)
{
    const uint64_t at = field_at(t, field, 4);

    return at ? follow(t->of, at) : 0;
}

struct flat_table flat_root(struct flatbuffer *of)
{
    const uint64_t at = follow(of, 0);

    return at ? table_at(of, at) : (struct flat_table){.of = of};
}

int64_t flat_number(const struct flat_table *t, int field, int bytes, int64_t other)
{
    const uint64_t at = field_at(t, field, bytes);

    return at ? read_signed(t->of, at, bytes) : other;
}

struct flat_table flat_child(const struct flat_table *t, int field)
{
    const uint64_t at = follow_field(t, field);

    return at ? table_at(t->of, at) : (struct flat_table){.of = t->of};
}

struct flat_vector flat_elements(const struct flat_table *t, int field, int bytes)
{
    const uint64_t at = follow_field(t, field);
    struct flat_vector v = {.of = t->of, .at = at + 4, .step = (uint64_t)bytes};

    if (at)
        v.count = read_unsigned(t->of, at, 4);
    if (v.count > 0 && !has(t->of, v.at, v.count * v.step))
        v.count = 0;
    return v;
}

const char *flat_text(const struct flat_table *t, int field, size_t *size)
{
    const struct flat_vector v = flat_elements(t, field, 1);

    *size = (size_t)v.count;
    return v.at > 4 && !v.of->broken ? (const char *)v.of->data + v.at : NULL;
}

struct flat_table flat_element_table(const struct flat_vector *v, uint64_t index)
{
    const uint64_t at = index < v->count ? follow(v->of, v->at + index * v->step) : 0;

    return at ? table_at(v->of, at) : (struct flat_table){.of = v->of};
}

int64_t flat_element_number(const struct flat_vector *v, uint64_t index, int offset)
{
    return index < v->count ? read_signed(v->of, v->at + index * v->step + (uint64_t)offset, 8) : 0;
}

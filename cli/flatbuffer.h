/*
 * flatbuffer.h - reads flatbuffers, in which Arrow keeps its metadata, and takes nothing on trust
 *
 * A flatbuffer is tables, vectors and texts that name each other by offsets.  A table has numbered
 * fields, of which those with the default value are left out.  What would lie outside of the buffer
 * reads as absent and is remembered in `broken`, so that a reader asks once when it is done.
 * Nothing need be aligned.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_FLATBUFFER_H
#define GRAM_CLI_FLATBUFFER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct flatbuffer {
    const unsigned char *data;
    uint64_t size;
    bool broken;
};

struct flat_table {
    struct flatbuffer *of;
    uint64_t at;          /* 0: there is none, and all of its fields are absent */
    uint64_t offsets;     /* where those of its fields stand */
    uint64_t field_count; /* how many of them */
    uint64_t bytes;
};

struct flat_vector {
    struct flatbuffer *of;
    uint64_t at, count, step; /* the first element, how many, and bytes of each */
};

struct flat_table flat_root(struct flatbuffer *of);

/* A number of 1, 2, 4 or 8 bytes, with its sign; `other` where the field is absent. */
int64_t flat_number(const struct flat_table *t, int field, int bytes, int64_t other);

/* What a field names; at is 0, count is 0, or the text is NULL, where the field is absent. */
struct flat_table flat_child(const struct flat_table *t, int field);
struct flat_vector flat_elements(const struct flat_table *t, int field, int bytes);
const char *flat_text(const struct flat_table *t, int field, size_t *size);

/* An element that is a table, and one number of eight bytes in an element that is a structure. */
struct flat_table flat_element_table(const struct flat_vector *v, uint64_t index);
int64_t flat_element_number(const struct flat_vector *v, uint64_t index, int offset);
#endif

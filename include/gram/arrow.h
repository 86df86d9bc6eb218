/*
 * arrow.h - the part of Apache Arrow's C interfaces that libgram reads, in our own words
 *
 * The layouts of the C data interface and of the C stream interface
 * (arrow.apache.org/docs/format/CDataInterface.html), behind the guards that they are known by, so
 * that this header and others that define them may be included together in any order.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_ARROW_H
#define GRAM_ARROW_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming): the names are Arrow's */
#ifndef ARROW_C_DATA_INTERFACE
#  define ARROW_C_DATA_INTERFACE

#  define ARROW_FLAG_DICTIONARY_ORDERED 1
#  define ARROW_FLAG_NULLABLE           2
#  define ARROW_FLAG_MAP_KEYS_SORTED    4

struct ArrowSchema { /* a type, with a name */
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *schema); /* NULL: it has been released */
    void *private_data;
};

struct ArrowArray { /* values of a type */
    int64_t length;
    int64_t null_count; /* -1: not known */
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *array); /* NULL: it has been released */
    void *private_data;
};

#endif

#ifndef ARROW_C_STREAM_INTERFACE
#  define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream { /* batches of one type; functions return 0 or a number of errno.h */
    int (*get_schema)(struct ArrowArrayStream *stream, struct ArrowSchema *out);
    int (*get_next)(struct ArrowArrayStream *stream,
                    struct ArrowArray *out); /* released: the end */
    const char *(*get_last_error)(struct ArrowArrayStream *stream);
    void (*release)(struct ArrowArrayStream *stream); /* NULL: it has been released */
    void *private_data;
};

#endif
/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif
#endif

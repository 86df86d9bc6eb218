/*
 * arrow_array.h - the array of a column in one batch of an Arrow file
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_ARROW_ARRAY_H
#define GRAM_CLI_ARROW_ARRAY_H
#include "arrow_unpack.h"
#include "arrow_value.h"

struct arrow_array {
    const struct arrow_values *values;
    int64_t length;
    struct arrow_piece valid;   /* a bit for each value; size 0: all are there */
    struct arrow_piece fixed;   /* values of a fixed size, offsets of texts, or views */
    struct arrow_piece text;    /* what offsets are in */
    struct arrow_piece *viewed; /* what views are in */
    int64_t viewed_count;
    uint64_t most_text; /* bytes of all texts that are believed: those of views may overlap */
};

/*
 * Takes the next array of a batch, and checks that its buffers have the bytes that its length
 * needs.  Also after an error it is to be freed.  An array of the type null has no buffers.
 */
enum exit_status arrow_array_take(struct arrow_batch *b, const struct arrow_values *values,
                                  struct arrow_array *out, struct failure *why);
void arrow_array_free(struct arrow_array *a);

/* Unpacks the buffers that are compressed; values can be read after this. */
enum exit_status arrow_array_unpack(struct arrow_unpacker *u, const struct arrow_input *in,
                                    struct arrow_array *a, struct failure *why);

static inline bool arrow_array_is_missing(const struct arrow_array *a, int64_t at)
{
    return a->values->type == ARROW_NULL || (a->valid.size > 0 && !arrow_bit(a->valid.at, at));
}

/* A value of a type of texts, which is no text by itself: bytes without a NUL behind them. */
enum exit_status arrow_array_text(const struct arrow_input *in, const struct arrow_array *a,
                                  int64_t at, const char **text, size_t *size, struct failure *why);
#endif

/*
 * arrow_array.c - the array of a column in one batch of an Arrow file
 *
 * An array is a bitmap of the values that are there (left out where all are), and then values of a
 * fixed size; or offsets (of 32 or 64 bits, one more than there are texts) and the bytes of the
 * texts; or views of 16 bytes: a length, and behind it a text of up to twelve bytes, or its first
 * four, the number of a further buffer, and the place in it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "arrow_array.h"
#include <stdlib.h>

enum {
    VIEW = 16,           /* bytes of a view */
    INLINED = 12,        /* bytes of a text that a view holds itself */
    MOST_FOR_A_BYTE = 64 /* bytes of texts that views may make of a byte of their buffers */
};

/* The bytes that an array needs at `fixed`. */
static uint64_t needed(const struct arrow_values *values, int64_t length)
{
    const uint64_t count = (uint64_t)length;

    switch (values->type) {
    case ARROW_UTF8:
        return count > 0 ? 4 * (count + 1) : 0;
    case ARROW_LARGE_UTF8:
        return count > 0 ? 8 * (count + 1) : 0;
    case ARROW_UTF8_VIEW:
        return VIEW * count;
    case ARROW_BOOL:
        return (count + 7) / 8;
    default:
        return count * (uint64_t)(values->bits / 8);
    }
}

static enum exit_status take_viewed(struct arrow_batch *b, struct arrow_array *a,
                                    struct failure *why)
{
    uint64_t bytes = a->fixed.size;
    int64_t count;

    TRY(arrow_take_view(b, &count, why));
    a->viewed = calloc((size_t)count + 1, sizeof *a->viewed);
    if (!a->viewed)
        return fail_memory(why, "the texts of a column");
    a->viewed_count = count;
    for (int64_t i = 0; i < a->viewed_count; i++) {
        TRY(arrow_take_piece(b, &a->viewed[i], why));
        bytes += a->viewed[i].size;
    }
    a->most_text = MOST_FOR_A_BYTE * bytes;
    return CLI_OK;
}

enum exit_status arrow_array_take(struct arrow_batch *b, const struct arrow_values *values,
                                  struct arrow_array *out, struct failure *why)
{
    int64_t missing;

    *out = (struct arrow_array){.values = values};
    TRY(arrow_take_node(b, &out->length, &missing, why));
    if (values->type == ARROW_NULL)
        return CLI_OK;
    TRY(arrow_take_piece(b, &out->valid, why));
    TRY(arrow_take_piece(b, &out->fixed, why));
    if (values->type == ARROW_UTF8 || values->type == ARROW_LARGE_UTF8)
        TRY(arrow_take_piece(b, &out->text, why));
    out->most_text = out->text.size;
    if (values->type == ARROW_UTF8_VIEW)
        TRY(take_viewed(b, out, why));
    if (missing == 0)
        out->valid = (struct arrow_piece){.size = 0};
    /* A length of more than 2^59 cannot be had, and would overflow. */
    if (out->length > INT64_MAX / VIEW || out->fixed.size < needed(values, out->length) ||
        (missing > 0 && out->valid.size < ((uint64_t)out->length + 7) / 8))
        return arrow_broken(b->input, why, "a buffer is too short for %lld rows",
                            (long long)out->length);
    return CLI_OK;
}

void arrow_array_free(struct arrow_array *a)
{
    free(a->valid.memory);
    free(a->fixed.memory);
    free(a->text.memory);
    for (int64_t i = 0; i < a->viewed_count; i++)
        free(a->viewed[i].memory);
    free(a->viewed);
    *a = (struct arrow_array){.values = NULL};
}

enum exit_status arrow_array_unpack(struct arrow_unpacker *u, const struct arrow_input *in,
                                    struct arrow_array *a, struct failure *why)
{
    TRY(arrow_unpack(u, in, &a->valid, why));
    TRY(arrow_unpack(u, in, &a->fixed, why));
    TRY(arrow_unpack(u, in, &a->text, why));
    for (int64_t i = 0; i < a->viewed_count; i++)
        TRY(arrow_unpack(u, in, &a->viewed[i], why));
    return CLI_OK;
}

static int64_t number_at(const unsigned char *at, int bits, int64_t index)
{
    const struct arrow_values type = {.type = ARROW_INT, .bits = bits, .is_signed = true};

    return arrow_integer(&type, at, index);
}

/* The view `at`. */
static enum exit_status view_text(const struct arrow_input *in, const struct arrow_array *a,
                                  int64_t at, const char **text, size_t *size, struct failure *why)
{
    const unsigned char *view = a->fixed.at + VIEW * at;
    const int64_t length = number_at(view, 32, 0), buffer = number_at(view, 32, 2);
    const int64_t from = number_at(view, 32, 3);
    const struct arrow_piece *p;

    *text = (const char *)view + 4;
    *size = (size_t)length;
    if (length >= 0 && length <= INLINED)
        return CLI_OK;
    if (length < 0 || buffer < 0 || buffer >= a->viewed_count || from < 0)
        return arrow_broken(in, why, "a text lies outside of its buffers");
    p = &a->viewed[buffer];
    if ((uint64_t)from > p->size || (uint64_t)length > p->size - (uint64_t)from)
        return arrow_broken(in, why, "a text lies outside of its buffer");
    *text = (const char *)p->at + from;
    return CLI_OK;
}

enum exit_status arrow_array_text(const struct arrow_input *in, const struct arrow_array *a,
                                  int64_t at, const char **text, size_t *size, struct failure *why)
{
    const int bits = a->values->type == ARROW_UTF8 ? 32 : 64;
    int64_t from, to;

    if (a->values->type == ARROW_UTF8_VIEW)
        return view_text(in, a, at, text, size, why);
    from = number_at(a->fixed.at, bits, at);
    to = number_at(a->fixed.at, bits, at + 1);
    if (from < 0 || to < from || (uint64_t)to > a->text.size)
        return arrow_broken(in, why, "a text lies outside of its buffer");
    *text = to > from ? (const char *)a->text.at + from : "";
    *size = (size_t)(to - from);
    return CLI_OK;
}

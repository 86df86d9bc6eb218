/*
 * krr_arrow.c - rows of gram_krr_solve from the batches of an Arrow C stream (gram_rows)
 *
 * A stream can be read once, and a solve reads its rows many times, in any order.  So all batches
 * are taken at the beginning and kept: they stay where the producer has them, such as in a file
 * that is mapped, and a block of rows is converted when it is asked for.
 *
 * Everything that a batch says of itself is checked when it comes, as far as it can be: pointers
 * and the sizes of buffers are the producer's word.  The memory is malloc's, since rows belong to
 * no context.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "krr_solve.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef double element(const void *data, int64_t at);

struct type {
    char format; /* of Arrow; 0: the end of the table */
    bool narrow; /* f32 holds each of its numbers */
    element *load;
};

struct batch {
    struct ArrowArray array;
    int64_t first; /* row */
};

struct arrow_rows {
    gram_dtype dtype;
    int64_t columns, rows, batches, room;
    const struct type **type; /* of each column */
    struct batch *batch;
};

/* ---- Types ----------------------------------------------------------------------------------- */

/* An element of a buffer, which need not be aligned. */
#define LOADER(name, number)                                                      \
  static double name(const void *data, int64_t at)                                \
  {                                                                               \
    number value;                                                                 \
                                                                                  \
    memcpy(&value, (const char *)data + (size_t)at * sizeof value, sizeof value); \
    return (double)value;                                                         \
  }

LOADER(load_i8, int8_t)
LOADER(load_u8, uint8_t)
LOADER(load_i16, int16_t)
LOADER(load_u16, uint16_t)
LOADER(load_i32, int32_t)
LOADER(load_u32, uint32_t)
LOADER(load_i64, int64_t)
LOADER(load_u64, uint64_t)
LOADER(load_f32, float)
LOADER(load_f64, double)

static const struct type types[] = {
    {'c',  true,  load_i8},
    {'C',  true,  load_u8},
    {'s',  true, load_i16},
    {'S',  true, load_u16},
    {'i', false, load_i32},
    {'I', false, load_u32},
    {'l', false, load_i64},
    {'L', false, load_u64},
    {'f',  true, load_f32},
    {'g', false, load_f64},
    {  0, false,     NULL}
};

static const char *text_or(const char *text, const char *other)
{
    return text ? text : other;
}

/* ---- The schema ------------------------------------------------------------------------------ */

static gram_status check_column(gram_context *g, const struct ArrowSchema *column, int64_t j,
                                gram_dtype dtype, const struct type **out)
{
    const char *format = column ? text_or(column->format, "") : "";
    const char *name = column ? text_or(column->name, "") : "";
    const struct type *t = types;

    while (t->format && (format[0] != t->format || format[1] != '\0'))
        t++;
    if (!t->format || column->dictionary)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "column %" PRId64
                         " (%.40s) of the stream has the Arrow format \"%.20s\"%s, "
                         "expected integers, float32 or float64",
                         j, name, format, column && column->dictionary ? " with a dictionary" : "");
    if (dtype == GRAM_F32 && !t->narrow)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "column %" PRId64
                         " (%.40s) of the stream has the Arrow format \"%.20s\", "
                         "which GRAM_F32 cannot hold: take GRAM_F64",
                         j, name, format);
    *out = t;
    return GRAM_OK;
}

static gram_status check_schema(gram_context *g, const struct ArrowSchema *schema,
                                struct arrow_rows *w)
{
    size_t bytes;

    if (!schema->format || strcmp(schema->format, "+s") != 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "the stream has the Arrow format \"%.20s\", expected \"+s\", columns",
                         text_or(schema->format, ""));
    if (schema->n_children < 0 || (schema->n_children > 0 && !schema->children))
        return gram_fail(g, GRAM_BAD_DATA, "the stream has %" PRId64 " columns, which cannot be",
                         schema->n_children);
    w->columns = schema->n_children;
    bytes = ((size_t)w->columns + 1) * sizeof *w->type;
    w->type = (const struct type **)malloc(bytes);
    if (!w->type)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    for (int64_t j = 0; j < w->columns; j++)
        TRY(check_column(g, schema->children[j], j, w->dtype, &w->type[j]));
    return GRAM_OK;
}

/* ---- A batch --------------------------------------------------------------------------------- */

/* The first of `count` values from `offset` on that is null; -1: none. */
static int64_t find_null(const struct ArrowArray *a, int64_t offset, int64_t count)
{
    const uint8_t *bits = a->n_buffers > 0 && a->buffers ? a->buffers[0] : NULL;

    for (int64_t i = offset; bits && a->null_count != 0 && i < offset + count; i++)
        if (!(bits[i / 8] >> (i % 8) & 1))
            return i - offset;
    return -1;
}

static gram_status bad_batch(gram_context *g, const struct arrow_rows *w, const char *what)
{
    return gram_fail(g, GRAM_BAD_DATA, "batch %" PRId64 " of the stream %s", w->batches, what);
}

/* Column j of a batch, whose values begin at the offsets of both. */
static gram_status check_values(gram_context *g, const struct arrow_rows *w,
                                const struct ArrowArray *a, const struct ArrowSchema *schema,
                                int64_t j)
{
    const struct ArrowArray *c = a->children[j];
    int64_t null;

    if (!c || c->n_buffers != 2 || !c->buffers || c->offset < 0 || c->length < 0 ||
        c->length > INT64_MAX - c->offset)
        return bad_batch(g, w, "has a column whose values cannot be");
    if (c->length - a->offset < a->length)
        return bad_batch(g, w, "has a column with fewer values than the batch has rows");
    if (a->length > 0 && !c->buffers[1])
        return bad_batch(g, w, "has a column without values");
    null = find_null(c, c->offset + a->offset, a->length);
    if (null < 0)
        return GRAM_OK;
    return gram_fail(g, GRAM_INVALID_ARGUMENT,
                     "column %" PRId64 " (%.40s) of the stream is null in row %" PRId64
                     ", expected a number",
                     j, text_or(schema->children[j]->name, ""), w->rows + null);
}

static gram_status check_batch(gram_context *g, const struct arrow_rows *w,
                               const struct ArrowArray *a, const struct ArrowSchema *schema)
{
    int64_t null;

    if (a->length < 0 || a->offset < 0 || a->length > INT64_MAX - w->rows)
        return bad_batch(g, w, "has a length or an offset that cannot be");
    if (a->n_children != w->columns || (w->columns > 0 && !a->children))
        return bad_batch(g, w, "has another number of columns than its schema");
    null = find_null(a, a->offset, a->length);
    if (null >= 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "row %" PRId64 " of the stream is null, expected numbers", w->rows + null);
    for (int64_t j = 0; j < w->columns; j++)
        TRY(check_values(g, w, a, schema, j));
    return GRAM_OK;
}

static gram_status make_room(gram_context *g, struct arrow_rows *w)
{
    const int64_t room = w->room > 0 ? 2 * w->room : 16;
    struct batch *more;

    if (w->batches < w->room)
        return GRAM_OK;
    more = realloc(w->batch, (size_t)room * sizeof *more);
    if (!more)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes",
                         (size_t)room * sizeof *more);
    w->batch = more;
    w->room = room;
    return GRAM_OK;
}

/* ---- The stream ------------------------------------------------------------------------------ */

static gram_status said(gram_context *g, struct ArrowArrayStream *stream, const char *what,
                        int error)
{
    const char *why = stream->get_last_error ? stream->get_last_error(stream) : NULL;

    return gram_fail(g, GRAM_IO, "the stream cannot give %s: %s", what,
                     why && *why ? why : strerror(error));
}

/* All batches; those of no rows are released at once. */
static gram_status take_batches(gram_context *g, struct ArrowArrayStream *stream,
                                const struct ArrowSchema *schema, struct arrow_rows *w)
{
    for (;;) {
        struct ArrowArray array = {0};
        const int error = stream->get_next(stream, &array);
        gram_status status;

        if (error != 0)
            return said(g, stream, "its next batch", error);
        if (!array.release)
            return GRAM_OK;
        status = check_batch(g, w, &array, schema);
        if (status == GRAM_OK)
            status = make_room(g, w);
        if (status == GRAM_OK && gram_cancelled(g))
            status = gram_fail(g, GRAM_CANCELLED, "cancelled");
        if (status != GRAM_OK || array.length == 0) {
            array.release(&array);
            TRY(status);
            continue;
        }
        w->batch[w->batches++] = (struct batch){.array = array, .first = w->rows};
        w->rows += array.length;
    }
}

static gram_status take_stream(gram_context *g, struct ArrowArrayStream *stream,
                               struct arrow_rows *w)
{
    struct ArrowSchema schema = {0};
    const int error = stream->get_schema(stream, &schema);
    gram_status status;

    if (error != 0)
        return said(g, stream, "its schema", error);
    status = check_schema(g, &schema, w);
    if (status == GRAM_OK)
        status = take_batches(g, stream, &schema, w);
    if (schema.release)
        schema.release(&schema);
    return status;
}

static void destroy(struct arrow_rows *w)
{
    for (int64_t i = 0; i < w->batches; i++)
        if (w->batch[i].array.release)
            w->batch[i].array.release(&w->batch[i].array);
    free(w->batch);
    free((void *)w->type);
    free(w);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* The batch of a row. */
static int64_t find_batch(const struct arrow_rows *w, int64_t row)
{
    int64_t low = 0, high = w->batches;

    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;

        if (w->batch[middle].first <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* `count` values from `at` on, to every columns-th element from `to` on. */
static void convert(const struct arrow_rows *w, const struct type *t, const void *data, int64_t at,
                    int64_t count, int64_t to, void *out)
{
    const int64_t step = w->columns;

    if (w->dtype == GRAM_F32)
        for (int64_t i = 0; i < count; i++)
            ((float *)out)[to + i * step] = (float)t->load(data, at + i);
    else
        for (int64_t i = 0; i < count; i++)
            ((double *)out)[to + i * step] = t->load(data, at + i);
}

static int read_rows(void *user, int64_t first, int64_t count, void *out,
                     char message[GRAM_ROWS_MESSAGE])
{
    const struct arrow_rows *w = user;
    int64_t done = 0;

    if (first < 0 || count < 0 || count > w->rows - first) {
        (void)snprintf(message, GRAM_ROWS_MESSAGE, "the stream had %" PRId64 " rows", w->rows);
        return 1;
    }
    for (int64_t b = find_batch(w, first); done < count; b++) {
        const struct ArrowArray *a = &w->batch[b].array;
        const int64_t skipped = first + done - w->batch[b].first;
        const int64_t part = gram_least(count - done, a->length - skipped);

        for (int64_t j = 0; j < w->columns; j++) {
            const struct ArrowArray *c = a->children[j];

            convert(w, w->type[j], c->buffers[1], c->offset + a->offset + skipped, part,
                    done * w->columns + j, out);
        }
        done += part;
    }
    return 0;
}

static gram_status check_arguments(gram_context *g, const struct ArrowArrayStream *stream,
                                   gram_dtype dtype, const gram_rows *out)
{
    if (!stream || !out)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is NULL", stream ? "out" : "stream");
    if (!stream->release)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "the stream has been released before");
    if (!stream->get_schema || !stream->get_next)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "stream->%s is NULL",
                         stream->get_schema ? "get_next" : "get_schema");
    if (dtype != GRAM_F32 && dtype != GRAM_F64)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "dtype is %d, expected GRAM_F32 or GRAM_F64",
                         (int)dtype);
    if (out->size < sizeof *out)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out has size %zu, expected sizeof(gram_rows)",
                         out->size);
    return GRAM_OK;
}

gram_status gram_rows_from_arrow(gram_context *g, struct ArrowArrayStream *stream, gram_dtype dtype,
                                 gram_rows *out)
{
    struct arrow_rows *w = NULL;
    gram_status status = gram_begin_without_blas(g, __func__);

    if (status == GRAM_OK)
        status = check_arguments(g, stream, dtype, out);
    if (status == GRAM_OK && !(w = malloc(sizeof *w)))
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", sizeof *w);
    if (status == GRAM_OK) {
        *w = (struct arrow_rows){.dtype = dtype};
        status = take_stream(g, stream, w);
    }
    if (stream && stream->release) /* after its last message has been read */
        stream->release(stream);
    if (status != GRAM_OK) {
        if (w)
            destroy(w);
        return g ? gram_call_ended(g, status) : status;
    }
    *out = (gram_rows){.size = out->size,
                       .rows = w->rows,
                       .columns = w->columns,
                       .dtype = dtype,
                       .read = read_rows,
                       .user = w};
    return GRAM_OK;
}

void gram_rows_close(gram_rows *rows)
{
    if (!rows || rows->read != read_rows)
        return;
    destroy(rows->user);
    rows->read = NULL;
    rows->user = NULL;
}

/*
 * test_krr_arrow.c - gram_rows_from_arrow with a producer of the C stream interface, good and bad
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/krr/krr_numbers.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COLUMNS = 10, /* one of each format */
    MOST_ROWS = 40,
    MOST_BATCHES = 8,
    SHIFT = 3, /* values in front of those of a column */
    INVALID = GRAM_INVALID_ARGUMENT
};

static const char formats[] = "cCsSiIlLfg";

/* ---- A producer ------------------------------------------------------------------------------ */

/* What goes wrong, at the batch `at`. */
enum trouble {
    NOTHING,
    NO_SCHEMA,  /* an error, without words */
    NO_BATCH,   /* an error, with words */
    NULL_VALUE, /* in column 1, row 2 of the batch */
    NULL_ROW,   /* row 1 of the batch */
    FEW_VALUES, /* in the last column */
    FEW_COLUMNS,
    NEGATIVE,     /* length */
    NO_VALUES,    /* a buffer that is not there */
    MANY_BUFFERS, /* as texts have */
    NOT_COLUMNS,  /* the format of the stream */
    TEXTS,        /* the format of column 2 */
    DICTIONARY    /* in column 2 */
};

struct producer {
    int64_t sizes[MOST_BATCHES]; /* of batches, -1 behind the last */
    const char *format;          /* of the columns */
    bool shifted;                /* arrays with offsets, of both levels */
    enum trouble trouble;
    int at;
    int next;
    int64_t row;
    int streams, schemas, batches, made; /* released; batches that were given */
};

/* Number of a column in a row: small for the narrow ones. */
static double number_of(int64_t row, int64_t column)
{
    return (double)((row * 7 + column * 3) % 100) + (strchr("fg", formats[column]) ? 0.25 : 0);
}

static void store(char format, void *to, int64_t at, double value)
{
    switch (format) {
    case 'c':
        ((int8_t *)to)[at] = (int8_t)value;
        break;
    case 'C':
        ((uint8_t *)to)[at] = (uint8_t)value;
        break;
    case 's':
        ((int16_t *)to)[at] = (int16_t)value;
        break;
    case 'S':
        ((uint16_t *)to)[at] = (uint16_t)value;
        break;
    case 'i':
        ((int32_t *)to)[at] = (int32_t)value;
        break;
    case 'I':
        ((uint32_t *)to)[at] = (uint32_t)value;
        break;
    case 'l':
        ((int64_t *)to)[at] = (int64_t)value;
        break;
    case 'L':
        ((uint64_t *)to)[at] = (uint64_t)value;
        break;
    case 'f':
        ((float *)to)[at] = (float)value;
        break;
    default:
        ((double *)to)[at] = value;
    }
}

/* A batch and its columns in one piece of memory. */
struct made {
    struct producer *of;
    struct ArrowArray column[COLUMNS], *children[COLUMNS];
    const void *buffers[COLUMNS][2], *own[1];
    double values[COLUMNS][MOST_ROWS + 2 * SHIFT];
    uint8_t bits[COLUMNS + 1][(MOST_ROWS + 2 * SHIFT) / 8 + 1];
};

static void release_array(struct ArrowArray *a)
{
    struct made *m = a->private_data;

    m->of->batches++;
    a->release = NULL;
    free(m);
}

static void spoil(const struct producer *p, struct made *m, struct ArrowArray *a)
{
    const int64_t from = p->shifted ? 2 * SHIFT : 0; /* of a column's values */

    switch (p->trouble) {
    case NULL_VALUE:
        m->buffers[1][0] = m->bits[1];
        m->bits[1][(from + 2) / 8] ^= (uint8_t)(1 << (from + 2) % 8);
        m->column[1].null_count = p->shifted ? -1 : 1;
        break;
    case NULL_ROW:
        m->own[0] = m->bits[COLUMNS];
        m->bits[COLUMNS][(a->offset + 1) / 8] ^= (uint8_t)(1 << (a->offset + 1) % 8);
        a->null_count = -1;
        break;
    case FEW_VALUES:
        m->column[a->n_children - 1].length--;
        break;
    case FEW_COLUMNS:
        a->n_children--;
        break;
    case NEGATIVE:
        a->length = -1;
        break;
    case NO_VALUES:
        m->buffers[0][1] = NULL;
        break;
    case MANY_BUFFERS:
        m->column[0].n_buffers = 3;
        break;
    default:
        break;
    }
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    struct producer *p = stream->private_data;
    const int64_t width = (int64_t)strlen(p->format), shift = p->shifted ? SHIFT : 0;
    const int64_t rows = p->sizes[p->next];
    struct made *m;

    *out = (struct ArrowArray){0};
    if (p->trouble == NO_BATCH && p->next == p->at)
        return EIO;
    if (rows < 0)
        return 0;
    m = calloc(1, sizeof *m);
    if (!m)
        abort();
    m->of = p;
    memset(m->bits, 0xff, sizeof m->bits);
    for (int64_t j = 0; j < width; j++) {
        m->buffers[j][1] = m->values[j];
        m->column[j] = (struct ArrowArray){
            .length = rows + shift, .offset = shift, .n_buffers = 2, .buffers = m->buffers[j]};
        m->children[j] = &m->column[j];
        for (int64_t i = 0; i < rows; i++)
            store(p->format[j], m->values[j], i + 2 * shift,
                  number_of(p->row + i, strchr(formats, p->format[j]) - formats));
    }
    *out = (struct ArrowArray){.length = rows,
                               .offset = shift,
                               .n_buffers = 1,
                               .n_children = width,
                               .buffers = m->own,
                               .children = m->children,
                               .release = release_array,
                               .private_data = m};
    if (p->next == p->at)
        spoil(p, m, out);
    p->made++;
    p->next++;
    p->row += rows;
    return 0;
}

struct made_schema {
    struct producer *of;
    struct ArrowSchema column[COLUMNS], *children[COLUMNS], other;
    char format[COLUMNS][2], name[COLUMNS][24];
};

static void release_schema(struct ArrowSchema *s)
{
    struct made_schema *m = s->private_data;

    m->of->schemas++;
    s->release = NULL;
    free(m);
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    struct producer *p = stream->private_data;
    struct made_schema *m;

    if (p->trouble == NO_SCHEMA)
        return ENOMEM;
    m = calloc(1, sizeof *m);
    if (!m)
        abort();
    m->of = p;
    for (size_t j = 0; j < strlen(p->format); j++) {
        m->format[j][0] = p->format[j];
        (void)snprintf(m->name[j], sizeof m->name[j], "col%zu", j);
        m->column[j] = (struct ArrowSchema){.format = m->format[j], .name = m->name[j]};
        m->children[j] = &m->column[j];
    }
    if (p->trouble == TEXTS)
        m->column[2].format = "u";
    if (p->trouble == DICTIONARY)
        m->column[2].dictionary = &m->other;
    *out = (struct ArrowSchema){.format = p->trouble == NOT_COLUMNS ? "g" : "+s",
                                .n_children = (int64_t)strlen(p->format),
                                .children = m->children,
                                .release = release_schema,
                                .private_data = m};
    return 0;
}

static const char *last_error(struct ArrowArrayStream *stream)
{
    return ((struct producer *)stream->private_data)->trouble == NO_BATCH ? "the wire is cut"
                                                                          : NULL;
}

static void release_stream(struct ArrowArrayStream *stream)
{
    ((struct producer *)stream->private_data)->streams++;
    stream->release = NULL;
}

static struct ArrowArrayStream stream_of(struct producer *p)
{
    return (struct ArrowArrayStream){.get_schema = get_schema,
                                     .get_next = get_next,
                                     .get_last_error = last_error,
                                     .release = release_stream,
                                     .private_data = p};
}

static struct producer producer_of(const char *format, bool shifted)
{
    return (struct producer){
        .sizes = {5, 0, 1, 17, 7, -1},
          .format = format, .shifted = shifted, .at = 3
    };
}

enum {
    ROWS = 30 /* of these sizes */
};

/* ---- Tests ----------------------------------------------------------------------------------- */

static void check_rows(struct harness *h, const gram_rows *rows, const char *format,
                       const int64_t part[2])
{
    double out[MOST_ROWS * COLUMNS];
    char message[GRAM_ROWS_MESSAGE] = "";
    const int64_t width = (int64_t)strlen(format);

    memset(out, 0xff, sizeof out);
    CHECK(h, rows->read(rows->user, part[0], part[1], out, message) == 0, "%s", message);
    for (int64_t i = 0; i < part[1]; i++)
        for (int64_t j = 0; j < width; j++) {
            const double expected = number_of(part[0] + i, strchr(formats, format[j]) - formats);

            CHECK(h, get_number(rows->dtype, out, i * width + j) == expected,
                  "row %lld, column %lld: %g, expected %g", (long long)(part[0] + i), (long long)j,
                  get_number(rows->dtype, out, i * width + j), expected);
        }
}

/* All rows, and any of them, in any order. */
static void batches_become_rows(struct harness *h)
{
    static const int64_t parts[][2] = {
        { 0, ROWS},
        { 4,    3},
        {29,    1},
        { 0,    1},
        { 5,    1},
        { 6,   17},
        {22,    2},
        {13,    0}
    };

    for (int i = 0; i < 4; i++) {
        const char *format = i % 2 ? "cCsSf" : formats;
        struct producer p = producer_of(format, i > 1);
        struct ArrowArrayStream stream = stream_of(&p);
        gram_rows rows = GRAM_ROWS_INIT;
        double out[COLUMNS];
        char message[GRAM_ROWS_MESSAGE] = "";

        CHECK(h, gram_rows_from_arrow(h->g, &stream, i % 2 ? GRAM_F32 : GRAM_F64, &rows) == GRAM_OK,
              "%s", gram_message(h->g));
        CHECK(h, rows.rows == ROWS && rows.columns == (int64_t)strlen(format), "%lld by %lld",
              (long long)rows.rows, (long long)rows.columns);
        CHECK(h, p.streams == 1 && p.schemas == 1 && p.batches == 1, "%d, %d, %d", p.streams,
              p.schemas, p.batches);
        for (int k = 0; k < LENGTH(parts); k++)
            check_rows(h, &rows, format, parts[k]);
        CHECK(h, rows.read(rows.user, ROWS, 1, out, message) != 0 && strstr(message, "30 rows"),
              "%s", message);
        gram_rows_close(&rows);
        gram_rows_close(&rows);
        CHECK(h, p.streams == 1 && p.batches == p.made && p.made == 5, "%d of %d", p.batches,
              p.made);
    }
}

/* A solve of them is that of the same points in x. */
static void they_are_points(struct harness *h)
{
    static double x[ROWS * COLUMNS], y[ROWS], alpha[2][ROWS];
    struct producer p = producer_of(formats, true);
    struct ArrowArrayStream stream = stream_of(&p);
    gram_rows rows = GRAM_ROWS_INIT;
    const gram_tensor points = gram_matrix(x, ROWS, COLUMNS, GRAM_F64);
    const gram_tensor targets = gram_vector(y, ROWS, GRAM_F64);
    gram_kernel_options kernel = gram_gaussian(40);
    gram_krr_options options = GRAM_KRR_OPTIONS_INIT;

    for (int64_t i = 0; i < ROWS; i++) {
        y[i] = sin((double)i);
        for (int64_t j = 0; j < COLUMNS; j++)
            x[i * COLUMNS + j] = number_of(i, j);
    }
    options.ridge = 0.1;
    options.tolerance = 1e-9;
    options.method = GRAM_KRR_CG;
    CHECK(h, gram_rows_from_arrow(h->g, &stream, GRAM_F64, &rows) == GRAM_OK, "%s",
          gram_message(h->g));
    for (int i = 0; i < 2; i++) {
        gram_tensor out = gram_vector(alpha[i], ROWS, GRAM_F64);

        options.rows = i ? &rows : NULL;
        CHECK(h,
              gram_krr_solve(h->g, i ? NULL : &points, &kernel, &targets, &options, &out) ==
                  GRAM_OK,
              "%s", gram_message(h->g));
    }
    for (int64_t i = 0; i < ROWS; i++)
        CHECK(h, fabs(alpha[0][i] - alpha[1][i]) <= 1e-6, "alpha[%lld] is %g, expected %g",
              (long long)i, alpha[1][i], alpha[0][i]);
    gram_rows_close(&rows);
    CHECK(h, p.batches == p.made, "%d of %d", p.batches, p.made);
}

static void what_is_empty(struct harness *h)
{
    for (int i = 0; i < 2; i++) {
        struct producer p = producer_of(i ? "" : "gf", false);
        struct ArrowArrayStream stream = stream_of(&p);
        gram_rows rows = GRAM_ROWS_INIT;

        p.sizes[0] = i ? 5 : -1;
        p.sizes[1] = -1;
        CHECK(h, gram_rows_from_arrow(h->g, &stream, GRAM_F64, &rows) == GRAM_OK, "%s",
              gram_message(h->g));
        CHECK(h, rows.rows == (i ? 5 : 0) && rows.columns == (i ? 0 : 2), "%lld by %lld",
              (long long)rows.rows, (long long)rows.columns);
        gram_rows_close(&rows);
        CHECK(h, p.streams == 1 && p.batches == i, "%d, %d", p.streams, p.batches);
    }
}

/* Everything is released once, and out is as it was. */
static void check_refused(struct harness *h, struct producer *p, gram_status expected,
                          const char *words)
{
    struct ArrowArrayStream stream = stream_of(p);
    gram_rows rows = GRAM_ROWS_INIT;
    const gram_status status = gram_rows_from_arrow(h->g, &stream, GRAM_F64, &rows);

    CHECK(h, status == expected && strstr(gram_message(h->g), words), "\"%s\" expected: %s, %s",
          words, gram_status_name(status), gram_message(h->g));
    CHECK(h, !rows.read && rows.rows == 0, "out was written");
    CHECK(h, p->streams == 1 && p->batches == p->made && p->schemas == (p->trouble != NO_SCHEMA),
          "\"%s\": %d streams, %d schemas, %d of %d batches", words, p->streams, p->schemas,
          p->batches, p->made);
}

static void what_a_producer_does_wrong(struct harness *h)
{
    static const struct {
        int trouble, status;
        const char *words;
    } rows[] = {
        {   NO_SCHEMA,       GRAM_IO,                     "cannot give its schema: Cannot"},
        {    NO_BATCH,       GRAM_IO,                    "its next batch: the wire is cut"},
        {  NULL_VALUE,       INVALID,     "column 1 (col1) of the stream is null in row 8"},
        {    NULL_ROW,       INVALID,                        "row 7 of the stream is null"},
        {  FEW_VALUES, GRAM_BAD_DATA,               "fewer values than the batch has rows"},
        { FEW_COLUMNS, GRAM_BAD_DATA,                          "another number of columns"},
        {    NEGATIVE, GRAM_BAD_DATA,               "a length or an offset that cannot be"},
        {   NO_VALUES, GRAM_BAD_DATA,                            "a column without values"},
        {MANY_BUFFERS, GRAM_BAD_DATA,                    "a column whose values cannot be"},
        { NOT_COLUMNS,       INVALID,                      "format \"g\", expected \"+s\""},
        {       TEXTS,       INVALID, "column 2 (col2) of the stream has the Arrow format"},
        {  DICTIONARY,       INVALID,                                  "with a dictionary"},
    };

    for (int i = 0; i < LENGTH(rows); i++)
        for (int shifted = 0; shifted < 2; shifted++) {
            struct producer p = producer_of(formats, shifted);

            p.trouble = (enum trouble)rows[i].trouble;
            check_refused(h, &p, (gram_status)rows[i].status, rows[i].words);
        }
}

static void what_a_caller_does_wrong(struct harness *h)
{
    struct producer p = producer_of("l", false);
    struct ArrowArrayStream stream = stream_of(&p);
    gram_rows rows = GRAM_ROWS_INIT;

    CHECK(h,
          gram_rows_from_arrow(h->g, &stream, GRAM_F32, &rows) == GRAM_INVALID_ARGUMENT &&
              strstr(gram_message(h->g), "\"l\", which GRAM_F32 cannot hold"),
          "%s", gram_message(h->g));
    CHECK(h,
          gram_rows_from_arrow(h->g, &stream, GRAM_F64, &rows) == GRAM_INVALID_ARGUMENT &&
              strstr(gram_message(h->g), "has been released before"),
          "%s", gram_message(h->g));
    stream = stream_of(&p);
    CHECK(h,
          gram_rows_from_arrow(h->g, &stream, GRAM_I64, &rows) == GRAM_INVALID_ARGUMENT &&
              strstr(gram_message(h->g), "dtype is"),
          "%s", gram_message(h->g));
    CHECK(h, !stream.release && p.streams == 2, "%d", p.streams);
    CHECK(h,
          gram_rows_from_arrow(h->g, NULL, GRAM_F64, &rows) == GRAM_INVALID_ARGUMENT &&
              strstr(gram_message(h->g), "stream is NULL"),
          "%s", gram_message(h->g));
    gram_rows_close(NULL);
}

static const struct test_function tests[] = {
    {       "batches_become_rows",        batches_become_rows},
    {           "they_are_points",            they_are_points},
    {             "what_is_empty",              what_is_empty},
    {"what_a_producer_does_wrong", what_a_producer_does_wrong},
    {  "what_a_caller_does_wrong",   what_a_caller_does_wrong},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}

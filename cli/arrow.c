/*
 * arrow.c - the columns of Arrow files and streams as those of a table
 *
 * The messages are read twice.  The first pass counts rows, and checks that every array has the
 * buffers that so many rows need.  The second pass reads the values.  A column gets room for those
 * of a batch when its buffers are unpacked, so that what a compressed buffer states costs nothing
 * beyond that buffer until it has proved to be true.
 *
 * Texts are copied behind one another into one block of memory, which grows; a column has their
 * places in it until the block is complete.  A dictionary has its values in the same form, and the
 * rows that refer to one share its copy.
 *
 * SPDX-License-Identifier: MIT
 */
#include "arrow.h"
#include "arrow_array.h"
#include "arrow_schema.h"
#include "arrow_value.h"
#include "typed.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Values in the form of a table: numbers, or the places of texts in their block. */
struct cells {
    double *numbers;
    size_t *places; /* MISSING: the value is missing */
};

enum {
    EMPTY_CELLS = 1 << 24, /* of columns that need no bytes, whatever the size of the input */
    EMPTY_CELLS_A_BYTE = 64
};

#define MISSING SIZE_MAX

_Static_assert(sizeof(size_t) == sizeof(char *), "a place stands where a text will");

struct dictionary {
    bool is_known; /* a message has brought its values */
    int64_t number, size;
    int64_t column; /* the first one that uses it */
    const struct arrow_values *values;
    enum source_kind kind; /* SOURCE_NUMBER or SOURCE_TEXT */
    struct cells cells;
};

struct source {
    enum source_kind kind;
    int64_t dictionary; /* its index; -1: there is none */
    int64_t room;       /* rows that the column of the table can hold */
};

struct reading {
    struct arrow_input input;
    struct arrow_unpacker unpacker;
    struct arrow_schema schema;
    const struct csv_options *options;
    struct source *sources;
    struct dictionary *dictionaries;
    int64_t dictionary_count;
    struct table *table;
    int64_t row;       /* the first one of the batch that is read */
    size_t used, room; /* of the block of texts, which is table->text */
    struct failure *why;
};

/* ---- The columns ----------------------------------------------------------------------------- */

static enum typed_values values_of(const struct arrow_field *field)
{
    switch (field->values.type) {
    case ARROW_NULL:
        return TYPED_NUMBERS;
    case ARROW_UTF8:
    case ARROW_LARGE_UTF8:
    case ARROW_UTF8_VIEW:
        return field->encoded && field->index.bits == 0 ? TYPED_OTHERS : TYPED_TEXTS;
    default:
        break;
    }
    if (field->values.bits == 0 || (field->encoded && field->index.bits == 0))
        return TYPED_OTHERS;
    return field->values.type == ARROW_BOOL ? TYPED_TRUTH
           : field->values.type == ARROW_DATE || field->values.type == ARROW_TIME ||
                   field->values.type == ARROW_TIMESTAMP
               ? TYPED_TEXTS
               : TYPED_NUMBERS;
}

static bool is_whole(const struct arrow_values *values)
{
    return values->type == ARROW_INT || values->type == ARROW_DURATION;
}

/* The names of the columns; one without a name is called by its place, as in CSV. */
static enum exit_status name_columns(struct reading *r)
{
    const struct arrow_schema *schema = &r->schema;
    struct table *t = r->table;
    size_t bytes = 1;
    char *name;

    for (int64_t c = 0; c < schema->width; c++)
        bytes += schema->fields[c].name_size + 21;
    name = t->names = malloc(bytes);
    t->columns = calloc((size_t)schema->width + 1, sizeof *t->columns);
    r->sources = calloc((size_t)schema->width + 1, sizeof *r->sources);
    r->dictionaries = calloc((size_t)schema->width + 1, sizeof *r->dictionaries);
    if (!name || !t->columns || !r->sources || !r->dictionaries)
        return fail_memory(r->why, "the columns of the table");
    t->width = schema->width;
    for (int64_t c = 0; c < t->width; c++) {
        const struct arrow_field *field = &schema->fields[c];
        t->columns[c].name = name;
        if (field->name_size == 0) {
            name += sprintf(name, "%lld", (long long)c) + 1;
            continue;
        }
        TRY(typed_check_text(r->input.path, field->name, field->name_size, r->why));
        if (text_find_invalid_utf8(field->name, field->name + field->name_size))
            return arrow_broken(&r->input, r->why, "the name of a column is not UTF-8");
        memcpy(name, field->name, field->name_size);
        name += field->name_size;
        *name++ = '\0';
    }
    return table_check_distinct(t, text_name(r->input.path), r->why);
}

/* Whether the columns of two dictionaries share one: the sign of their order. */
static int compare_dictionaries(const void *a, const void *b)
{
    const struct dictionary *x = a, *y = b;
    const int64_t of_x[] = {x->number,           (int64_t)x->kind,         (int64_t)x->values->type,
                            x->values->bits,     (int64_t)x->values->unit, x->values->scale,
                            x->values->is_signed};
    const int64_t of_y[] = {y->number,           (int64_t)y->kind,         (int64_t)y->values->type,
                            y->values->bits,     (int64_t)y->values->unit, y->values->scale,
                            y->values->is_signed};

    for (int i = 0; i < LENGTH(of_x); i++)
        if (of_x[i] != of_y[i])
            return of_x[i] < of_y[i] ? -1 : 1;
    return 0;
}

/* One dictionary for all columns with the same number and form of values, in order of numbers. */
static void share_dictionaries(struct reading *r)
{
    struct dictionary *d = r->dictionaries;
    const int64_t count = r->dictionary_count;

    qsort(d, (size_t)count, sizeof *d, compare_dictionaries);
    r->dictionary_count = 0;
    for (int64_t i = 0; i < count; i++) {
        if (i == 0 || compare_dictionaries(&d[r->dictionary_count - 1], &d[i]) != 0)
            d[r->dictionary_count++] = d[i];
        r->sources[d[i].column].dictionary = r->dictionary_count - 1;
    }
}

static enum exit_status choose_columns(struct reading *r)
{
    for (int64_t c = 0; c < r->table->width; c++) {
        const struct arrow_field *field = &r->schema.fields[c];
        struct source *source = &r->sources[c];
        TRY(typed_choose(&r->table->columns[c],
                         (struct typed_type){values_of(field), arrow_type_name(field->values.type)},
                         r->options, r->input.path, &source->kind, r->why));
        source->dictionary = -1;
        if (field->encoded && source->kind != SOURCE_IGNORED)
            r->dictionaries[r->dictionary_count++] = (struct dictionary){
                .number = field->dictionary,
                .column = c,
                .values = &field->values,
                .kind = source->kind == SOURCE_PARSED ? SOURCE_TEXT : source->kind};
    }
    share_dictionaries(r);
    return CLI_OK;
}

/* ---- The size of the table ------------------------------------------------------------------- */

/* The values that are stored of a column: its own, or indices. */
static const struct arrow_values *stored(const struct arrow_field *field)
{
    return field->encoded ? &field->index : &field->values;
}

/* Checks the arrays of a batch; *empty: of how many columns it has no bytes. */
static enum exit_status check_batch(struct reading *r, struct arrow_batch *b, int64_t *empty)
{
    int64_t read = 0;

    *empty = 0;
    for (int64_t c = 0; c < r->table->width; c++) {
        const struct arrow_field *field = &r->schema.fields[c];
        struct arrow_array array;
        enum exit_status status;
        if (r->sources[c].kind == SOURCE_IGNORED) {
            TRY(arrow_skip(b, field, r->why));
            continue;
        }
        status = arrow_array_take(b, stored(field), &array, r->why);
        arrow_array_free(&array);
        TRY(status);
        *empty += stored(field)->type == ARROW_NULL;
        read++;
    }
    *empty += read == 0;
    return CLI_OK;
}

static enum exit_status count_rows(struct reading *r)
{
    const int64_t most = EMPTY_CELLS + EMPTY_CELLS_A_BYTE * (int64_t)r->input.size;
    int64_t cells = 0, empty, in_batch;
    bool more;

    TRY(arrow_rewind(&r->input, r->why));
    for (;;) {
        struct arrow_message message;
        struct arrow_batch b;
        TRY(arrow_next(&r->input, &message, &more, r->why));
        if (!more)
            return CLI_OK;
        if (message.kind != ARROW_BATCH)
            continue;
        TRY(arrow_open_batch(&r->input, &message, &b, r->why));
        TRY(check_batch(r, &b, &empty));
        if (__builtin_mul_overflow(b.rows, empty, &in_batch) ||
            __builtin_add_overflow(cells, in_batch, &cells) || cells > most)
            return arrow_broken(&r->input, r->why,
                                "a batch states %lld rows of columns without data",
                                (long long)b.rows);
        if (__builtin_add_overflow(r->table->rows, b.rows, &r->table->rows))
            return arrow_broken(&r->input, r->why, "it states too many rows");
    }
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Copies a text to the end of the block. */
static enum exit_status keep(struct reading *r, const char *text, size_t size, size_t *place)
{
    struct table *t = r->table;

    if (size >= r->room - r->used) {
        size_t room = r->room < 4096 ? 4096 : r->room * 2;
        char *larger;
        if (room - r->used <= size)
            room = r->used + size + 1;
        larger = room < r->used ? NULL : realloc(t->text, room);
        if (!larger)
            return fail_memory(r->why, "the text of the table");
        t->text = larger;
        r->room = room;
    }
    *place = r->used;
    memcpy(t->text + r->used, text, size);
    t->text[r->used + size] = '\0';
    r->used += size + 1;
    return CLI_OK;
}

/* The text of a value that is there.  It stands in the array or in `buffer`. */
static enum exit_status text_of(struct reading *r, const struct arrow_array *a, int64_t at,
                                char buffer[ARROW_TEXT], struct typed_text *out)
{
    if (a->values->bits == 0) {
        const char *bad;
        TRY(arrow_array_text(&r->input, a, at, &out->at, &out->size, r->why));
        bad = text_find_invalid_utf8(out->at, out->at + out->size);
        if (bad)
            return arrow_broken(&r->input, r->why, "a text has the byte 0x%02x, which is not UTF-8",
                                *(const unsigned char *)bad);
        return typed_check_text(r->input.path, out->at, out->size, r->why);
    }
    out->size = (size_t)arrow_text(a->values, a->fixed.at, at, buffer);
    out->at = buffer;
    return out->size > 0 ? CLI_OK
                         : arrow_broken(&r->input, r->why, "a %s is out of its range",
                                        arrow_type_name(a->values->type));
}

/* Takes the values of an array as numbers or texts. */
static enum exit_status take_cells(struct reading *r, const struct arrow_array *a,
                                   enum source_kind kind, struct cells to)
{
    uint64_t bytes = 0;

    for (int64_t i = 0; i < a->length; i++) {
        char buffer[ARROW_TEXT];
        struct typed_text text;
        if (kind == SOURCE_NUMBER) {
            to.numbers[i] =
                arrow_array_is_missing(a, i) ? NAN : arrow_number(a->values, a->fixed.at, i);
            continue;
        }
        to.places[i] = MISSING;
        if (arrow_array_is_missing(a, i))
            continue;
        TRY(text_of(r, a, i, buffer, &text));
        bytes += text.size;
        if (a->values->bits == 0 && bytes > a->most_text)
            return arrow_broken(&r->input, r->why, "the texts of a column overlap");
        if (!typed_is_missing(text.at, text.size))
            TRY(keep(r, text.at, text.size, &to.places[i]));
    }
    return CLI_OK;
}

/* Texts that are wanted as numbers. */
static enum exit_status take_parsed(struct reading *r, const struct arrow_array *a, int64_t column)
{
    for (int64_t i = 0; i < a->length; i++) {
        char buffer[ARROW_TEXT];
        struct typed_text text;
        r->table->columns[column].numbers[r->row + i] = NAN;
        if (arrow_array_is_missing(a, i))
            continue;
        TRY(text_of(r, a, i, buffer, &text));
        if (!typed_is_missing(text.at, text.size))
            TRY(typed_parse(r->table, r->input.path, r->row + i, column, r->options, text, r->why));
    }
    return CLI_OK;
}

/* ---- Dictionaries ---------------------------------------------------------------------------- */

/* Room for more values behind those that there are. */
static enum exit_status grow(struct reading *r, struct dictionary *d, int64_t more,
                             struct cells *end)
{
    const size_t count = (size_t)(d->size + more) + 1;
    void *larger = d->kind == SOURCE_NUMBER
                       ? realloc(d->cells.numbers, count * sizeof *d->cells.numbers)
                       : realloc(d->cells.places, count * sizeof *d->cells.places);

    if (!larger)
        return fail_memory(r->why, "the categories of the table");
    if (d->kind == SOURCE_NUMBER)
        *end = (struct cells){.numbers = (d->cells.numbers = larger) + d->size};
    else
        *end = (struct cells){.places = (d->cells.places = larger) + d->size};
    return CLI_OK;
}

static enum exit_status take_values(struct reading *r, struct arrow_batch b, struct dictionary *d)
{
    struct arrow_array array;
    struct cells end;
    enum exit_status status = arrow_array_take(&b, d->values, &array, r->why);

    if (!b.is_delta)
        d->size = 0;
    if (status == CLI_OK && d->values->type == ARROW_NULL && array.length > EMPTY_CELLS - d->size)
        status = arrow_broken(&r->input, r->why, "a dictionary has too many values");
    if (status == CLI_OK)
        status = arrow_array_unpack(&r->unpacker, &r->input, &array, r->why);
    if (status == CLI_OK)
        status = grow(r, d, array.length, &end);
    if (status == CLI_OK)
        status = take_cells(r, &array, d->kind, end);
    if (status == CLI_OK)
        d->size += array.length;
    d->is_known = true;
    arrow_array_free(&array);
    return status;
}

/* The first dictionary with this number, or one behind it. */
static int64_t find_dictionary(const struct reading *r, int64_t number)
{
    int64_t low = 0, high = r->dictionary_count;

    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (r->dictionaries[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static enum exit_status take_dictionary(struct reading *r, struct arrow_message *message)
{
    struct arrow_batch b;

    TRY(arrow_open_batch(&r->input, message, &b, r->why));
    for (int64_t i = find_dictionary(r, b.dictionary);
         i < r->dictionary_count && r->dictionaries[i].number == b.dictionary; i++) {
        struct dictionary *d = &r->dictionaries[i];
        if (b.is_delta && !d->is_known)
            return arrow_broken(&r->input, r->why, "it adds to a dictionary that is not there");
        if (d->is_known && !b.is_delta && r->input.is_file)
            return arrow_broken(&r->input, r->why, "it has a dictionary twice");
        TRY(take_values(r, b, d));
    }
    return CLI_OK;
}

/* The values of a dictionary for the rows of a batch. */
static enum exit_status take_indices(struct reading *r, const struct arrow_array *a,
                                     const struct dictionary *d, int64_t column)
{
    struct column *c = &r->table->columns[column];

    for (int64_t i = 0; i < a->length; i++) {
        const bool missing = arrow_array_is_missing(a, i);
        const int64_t at = missing ? 0 : arrow_integer(a->values, a->fixed.at, i);
        size_t place = MISSING;
        double number = NAN;
        if (!missing && (at < 0 || at >= d->size || !d->is_known))
            return arrow_broken(&r->input, r->why, "column \"%.100s\" has no category %lld",
                                c->name, (long long)at);
        if (!missing && d->kind == SOURCE_NUMBER)
            number = d->cells.numbers[at];
        else if (!missing)
            place = d->cells.places[at];
        if (c->kind == COLUMN_TEXT) {
            memcpy(&c->texts[r->row + i], &place, sizeof place);
            continue;
        }
        c->numbers[r->row + i] = number;
        if (place != MISSING) {
            const char *text = r->table->text + place;
            TRY(typed_parse(r->table, r->input.path, r->row + i, column, r->options,
                            (struct typed_text){text, strlen(text)}, r->why));
        }
    }
    return CLI_OK;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Room for more rows of a column: for twice as many as before, but not for more than there are. */
static enum exit_status make_room(struct reading *r, int64_t column, int64_t more)
{
    struct source *source = &r->sources[column];
    const int64_t wanted = r->row + more, rows = r->table->rows;

    if (wanted <= source->room)
        return CLI_OK;
    source->room = source->room > rows / 2 ? rows : 2 * source->room;
    source->room = source->room > wanted ? source->room : wanted;
    return typed_grow(&r->table->columns[column], source->room, r->why);
}

static enum exit_status take_array(struct reading *r, const struct arrow_array *a, int64_t column)
{
    const struct source *source = &r->sources[column];
    struct column *c = &r->table->columns[column];
    struct cells to = {NULL, NULL};

    if (source->dictionary >= 0)
        return take_indices(r, a, &r->dictionaries[source->dictionary], column);
    if (source->kind == SOURCE_PARSED)
        return take_parsed(r, a, column);
    if (source->kind == SOURCE_NUMBER)
        to.numbers = c->numbers + r->row;
    else
        to.places = (size_t *)(void *)(c->texts + r->row);
    return take_cells(r, a, source->kind, to);
}

static enum exit_status take_column(struct reading *r, struct arrow_batch *b, int64_t column)
{
    const struct arrow_field *field = &r->schema.fields[column];
    struct column *c = &r->table->columns[column];
    struct arrow_array array;
    enum exit_status status = arrow_array_take(b, stored(field), &array, r->why);

    if (status == CLI_OK)
        status = arrow_array_unpack(&r->unpacker, &r->input, &array, r->why);
    if (status == CLI_OK)
        status = make_room(r, column, array.length);
    if (status == CLI_OK)
        status = take_array(r, &array, column);
    if (status == CLI_OK && c->kind == COLUMN_NUMBER && is_whole(&field->values))
        for (int64_t i = 0; i < array.length; i++)
            typed_note_whole(c, r->row + i);
    arrow_array_free(&array);
    return status;
}

static enum exit_status take_rows(struct reading *r, struct arrow_message *message)
{
    struct arrow_batch b;

    TRY(arrow_open_batch(&r->input, message, &b, r->why));
    for (int64_t c = 0; c < r->table->width; c++) {
        if (r->sources[c].kind == SOURCE_IGNORED)
            TRY(arrow_skip(&b, &r->schema.fields[c], r->why));
        else
            TRY(take_column(r, &b, c));
    }
    r->row += b.rows;
    return CLI_OK;
}

/* Texts in the place of their places. */
static void settle_texts(struct reading *r)
{
    struct table *t = r->table;

    for (int64_t c = 0; c < t->width; c++)
        for (int64_t row = 0; t->columns[c].texts && row < t->rows; row++) {
            size_t place;
            memcpy(&place, &t->columns[c].texts[row], sizeof place);
            t->columns[c].texts[row] = place == MISSING ? NULL : t->text + place;
        }
}

static enum exit_status read_all(struct reading *r)
{
    struct arrow_message message;
    bool more = true;

    TRY(arrow_read_schema(&r->input, &r->schema, r->why));
    TRY(name_columns(r));
    TRY(choose_columns(r));
    TRY(count_rows(r));
    for (int64_t c = 0; c < r->table->width; c++)
        TRY(typed_grow(&r->table->columns[c], 0, r->why));
    TRY(arrow_rewind(&r->input, r->why));
    for (;;) {
        TRY(arrow_next(&r->input, &message, &more, r->why));
        if (!more)
            break;
        TRY(message.kind == ARROW_DICTIONARY ? take_dictionary(r, &message)
                                             : take_rows(r, &message));
    }
    settle_texts(r);
    return CLI_OK;
}

int arrow_is(const struct text *text)
{
    return arrow_begins(text->data, text->size);
}

enum exit_status arrow_parse(struct text text, const char *path, const struct csv_options *options,
                             struct table *out, struct failure *why)
{
    struct reading r = {.options = options, .table = out, .why = why};
    enum exit_status status;

    *out = (struct table){0};
    status = arrow_open(&r.input, text, path, why);
    if (status == CLI_OK)
        status = read_all(&r);
    for (int64_t i = 0; i < r.dictionary_count; i++) {
        free(r.dictionaries[i].cells.numbers);
        free(r.dictionaries[i].cells.places);
    }
    arrow_unpacker_close(&r.unpacker);
    free(r.dictionaries);
    free(r.sources);
    free(r.schema.fields);
    free(text.data);
    if (status != CLI_OK)
        table_free(out);
    return status;
}

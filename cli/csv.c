/*
 * csv.c - reads delimited text into columns
 *
 * The text is scanned at most twice.  The first pass counts, checks and reads numbers; a column
 * stops being numeric at its first field that is neither a number nor missing.  The second pass,
 * which is made only if there are text columns, stores pointers to their fields, and ends these
 * with NULs in place.  A text therefore costs one pointer besides its bytes in the file.
 *
 * SPDX-License-Identifier: MIT
 */
#include "csv.h"
#include "csv_scan.h"
#include "foreign.h"
#include "number.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct first_line {
    int64_t fields;
    size_t bytes;    /* that hold the names */
    int all_numbers; /* or missing, and at least one number */
};

int csv_is_number(const char *from, size_t size, int comma, double *value)
{
    char text[64], *mark;

    if (!comma)
        return number_parse(from, value) == from + size;
    if (size >= sizeof text || memchr(from, '.', size))
        return 0;
    memcpy(text, from, size);
    text[size] = '\0';
    mark = strchr(text, ',');
    if (mark)
        *mark = '.';
    return number_parse(text, value) == text + size;
}

static int is_number(const struct csv_scan *s, const struct csv_field *field, double *value)
{
    return csv_is_number(field->begin, (size_t)(field->end - field->begin), s->comma, value);
}

/* Notes a whole number of so many digits that a double need not hold it. */
static void note_digits(struct column *column, int64_t row, const char *begin, const char *end)
{
    if (column->long_row >= 0 || fabs(column->numbers[row]) <= 0x1p53)
        return;
    for (begin += *begin == '-' || *begin == '+'; begin < end; begin++)
        if (*begin < '0' || *begin > '9')
            return;
    column->long_row = row;
}

static enum exit_status measure_first_line(struct csv_scan s, struct first_line *out,
                                           struct failure *why)
{
    struct csv_field field = {.last = 0};
    int64_t numbers = 0, missing = 0;
    double ignored;

    *out = (struct first_line){0};
    while (!field.last) {
        TRY(csv_scan_field(&s, &field, why));
        out->fields++;
        out->bytes += (size_t)(field.end - field.begin) + 1;
        out->bytes += field.begin == field.end ? 20 : 0; /* its place */
        missing += csv_is_missing(&field);
        numbers += is_number(&s, &field, &ignored);
    }
    out->all_numbers = numbers > 0 && numbers + missing == out->fields;
    return CLI_OK;
}

static enum exit_status check_utf8(const struct csv_scan *s, const struct csv_field *f,
                                   struct failure *why)
{
    const char *bad = text_find_invalid_utf8(f->begin, f->end);

    return !bad ? CLI_OK
                : csv_fail(s, why,
                           "byte 0x%02x is not UTF-8; convert the file, for example with "
                           "iconv -f latin1 -t utf-8",
                           *(const unsigned char *)bad);
}

/* Columns called 0, 1, 2, ... */
static void number_columns(struct table *t)
{
    char *name = t->names;

    for (int64_t c = 0; c < t->width; c++) {
        t->columns[c].name = name;
        name += sprintf(name, "%lld", (long long)c) + 1;
    }
}

/* Copies the names of the first line, and steps over it. */
static enum exit_status name_columns(struct csv_scan *s, struct table *t, struct failure *why)
{
    char *name = t->names;

    for (int64_t c = 0; c < t->width; c++) {
        struct csv_field field;
        TRY(csv_scan_field(s, &field, why));
        TRY(check_utf8(s, &field, why));
        t->columns[c].name = name;
        for (const char *from = field.begin; from < field.end; from++) {
            *name++ = *from;
            from += field.doubled && *from == '"';
        }
        if (field.begin == field.end)
            name += sprintf(name, "%lld", (long long)c);
        *name++ = '\0';
    }
    return table_check_distinct(t, s->path, why);
}

static enum exit_status read_header(struct csv_scan *s, const struct csv_options *options,
                                    struct table *t, struct failure *why)
{
    struct first_line first;
    int named;

    if (!csv_scan_record(s))
        return fail(why, CLI_BAD_DATA, "%s: the file is empty", s->path);
    TRY(measure_first_line(*s, &first, why));
    named = options->header == CSV_HEADER_YES ||
            (options->header == CSV_HEADER_AUTO && !first.all_numbers);
    t->width = first.fields;
    t->names_are_values = named && first.all_numbers;
    t->columns = calloc((size_t)t->width, sizeof *t->columns);
    t->names = malloc(named ? first.bytes : (size_t)t->width * 21);
    if (!t->columns || !t->names)
        return fail_memory(why, "the columns of the table");
    if (named)
        TRY(name_columns(s, t, why));
    else
        number_columns(t);
    for (int64_t c = 0; c < t->width; c++) {
        if (options->kind)
            t->columns[c].kind = options->kind(options->user, t->columns[c].name);
        t->columns[c].asked = t->columns[c].kind != COLUMN_ANY;
        t->columns[c].long_row = -1;
    }
    return CLI_OK;
}

/*
 * Makes room for one more row in the numeric columns.  A record has at least one byte per column,
 * so the remaining text limits the number of rows that can follow.
 */
static enum exit_status grow(const struct csv_scan *s, struct table *t, int64_t *capacity,
                             struct failure *why)
{
    int64_t possible = t->rows + (s->end - s->at) / t->width + 1;
    int64_t wanted = t->rows < 128 ? 256 : t->rows * 2;

    *capacity = wanted < possible ? wanted : possible;
    int64_t *lines = realloc(t->lines, (size_t)*capacity * sizeof *lines);
    if (!lines)
        return fail_memory(why, "the table");
    t->lines = lines;
    for (int64_t c = 0; c < t->width; c++) {
        struct column *column = &t->columns[c];
        if (column->kind != COLUMN_NUMBER && column->kind != COLUMN_ANY)
            continue;
        double *larger = realloc(column->numbers, (size_t)*capacity * sizeof *larger);
        if (!larger)
            return fail_memory(why, "the table");
        column->numbers = larger;
    }
    return CLI_OK;
}

/* Reads a field that is not simply a number and its delimiter. */
static enum exit_status read_other(struct csv_scan *s, struct column *column, int64_t row,
                                   int *last, struct failure *why)
{
    struct csv_field field;

    TRY(csv_scan_field(s, &field, why));
    *last = field.last;
    if (column->kind == COLUMN_TEXT || column->kind == COLUMN_IGNORED)
        return CLI_OK;
    if (csv_is_missing(&field)) {
        column->numbers[row] = NAN;
    } else if (!is_number(s, &field, &column->numbers[row])) {
        char quoted[TEXT_QUOTED];
        if (column->kind == COLUMN_NUMBER)
            return csv_fail(s, why, "%s is not a number",
                            text_quote(quoted, field.begin, field.end));
        column->kind = COLUMN_TEXT;
        free(column->numbers);
        column->numbers = NULL;
    } else {
        note_digits(column, row, field.begin, field.end);
    }
    return CLI_OK;
}

static inline enum exit_status read_field(struct csv_scan *s, struct column *column, int64_t row,
                                          int *last, struct failure *why)
{
    if (column->numbers && !s->comma) {
        char *start = s->at;
        const char *end = number_parse(start, &column->numbers[row]);
        s->field_line = s->line;
        if (end) {
            s->at = start + (end - start);
            if (end - start > 15)
                note_digits(column, row, start, end);
            if (csv_scan_end(s, last))
                return CLI_OK;
            s->at = start;
        }
    }
    s->column = column->name;
    return read_other(s, column, row, last, why);
}

/* Refuses a record that begins with `first` and does not have one field per column. */
static enum exit_status ragged(struct csv_scan *s, const struct table *t, char first,
                               int64_t fields, int last, struct failure *why)
{
    struct csv_field field = {.last = last};

    for (s->column = NULL; !field.last; fields++)
        TRY(csv_scan_field(s, &field, why));
    return fail(why, CLI_BAD_DATA, "%s:%lld: %lld field%s, but the first line has %lld%s", s->path,
                (long long)t->lines[t->rows], (long long)fields, fields == 1 ? "" : "s",
                (long long)t->width,
                first == '#' ? "; lines that begin with # are not comments" : "");
}

/* The first pass: checks every record, and fills the numeric columns. */
static enum exit_status read_numbers(struct csv_scan *s, struct table *t, struct failure *why)
{
    int64_t capacity = 0;

    for (t->rows = 0; csv_scan_record(s); t->rows++) {
        const char first = *s->at;
        int64_t c = 0;
        int last = 0;
        if (t->rows == capacity)
            TRY(grow(s, t, &capacity, why));
        t->lines[t->rows] = s->line;
        for (; c < t->width && !last; c++)
            TRY(read_field(s, &t->columns[c], t->rows, &last, why));
        if (c < t->width || !last)
            return ragged(s, t, first, c, last, why);
    }
    return CLI_OK;
}

/* A column whose kind depends on its data is numeric if no field has ruled that out. */
static int64_t settle_kinds(struct table *t)
{
    int64_t text_columns = 0;

    for (int64_t c = 0; c < t->width; c++) {
        if (t->columns[c].kind == COLUMN_ANY)
            t->columns[c].kind = COLUMN_NUMBER;
        text_columns += t->columns[c].kind == COLUMN_TEXT;
    }
    return text_columns;
}

/* The second pass: fills the text columns. */
static enum exit_status read_texts(struct csv_scan *s, struct table *t, struct failure *why)
{
    for (int64_t c = 0; c < t->width; c++) {
        struct column *column = &t->columns[c];
        if (column->kind != COLUMN_TEXT)
            continue;
        column->texts = malloc((size_t)(t->rows + !t->rows) * sizeof *column->texts);
        if (!column->texts)
            return fail_memory(why, "the table");
    }
    for (int64_t row = 0; csv_scan_record(s); row++)
        for (int64_t c = 0; c < t->width; c++) {
            struct column *column = &t->columns[c];
            struct csv_field field;
            s->column = column->name;
            TRY(csv_scan_field(s, &field, why));
            if (column->kind != COLUMN_TEXT)
                continue;
            TRY(check_utf8(s, &field, why));
            column->texts[row] = csv_is_missing(&field) ? NULL : field.begin;
            csv_unquote(&field);
        }
    return CLI_OK;
}

static enum exit_status parse(struct csv_scan *s, const struct csv_options *options,
                              struct table *t, struct failure *why)
{
    struct csv_scan data;

    TRY(read_header(s, options, t, why));
    data = *s;
    TRY(read_numbers(s, t, why));
    return settle_kinds(t) ? read_texts(&data, t, why) : CLI_OK;
}

enum exit_status csv_parse(struct text text, const char *path, const struct csv_options *options,
                           struct table *out, struct failure *why)
{
    struct csv_scan s = {
        .at = text.data,
        .end = text.data + text.size,
        .comma = options->comma,
        .line = 1,
        .path = text_name(path),
    };
    enum exit_status status;

    *out = (struct table){.text = text.data};
    status = foreign_refuse(&text, path, why);
    if (status != CLI_OK) {
        table_free(out);
        return status;
    }
    if (text.size >= 2 && (memcmp(s.at, "\xff\xfe", 2) == 0 || memcmp(s.at, "\xfe\xff", 2) == 0)) {
        table_free(out);
        return fail(why, CLI_BAD_DATA, "%s: the text is UTF-16; save it as UTF-8", s.path);
    }
    if (text.size >= 3 && memcmp(s.at, "\xef\xbb\xbf", 3) == 0)
        s.at += 3;
    s.delimiter = options->delimiter ? options->delimiter : csv_sniff(s.at);
    status = parse(&s, options, out, why);
    if (status != CLI_OK) {
        table_free(out);
        return status;
    }
    for (int64_t c = 0; c < out->width; c++)
        if (out->columns[c].kind == COLUMN_TEXT)
            return CLI_OK;
    free(out->text);
    out->text = NULL;
    return CLI_OK;
}

enum exit_status csv_read(const char *path, const struct csv_options *options, struct table *out,
                          struct failure *why)
{
    struct text text;

    *out = (struct table){0};
    TRY(text_read(path, &text, why));
    return csv_parse(text, path, options, out, why);
}

/*
 * typed.c - what columns of files become whose format has types: Parquet and Arrow
 *
 * SPDX-License-Identifier: MIT
 */
#include "typed.h"
#include "csv_scan.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum source_kind choose(enum typed_values values, enum column_kind wanted)
{
    if (wanted == COLUMN_IGNORED)
        return SOURCE_IGNORED;
    if (values == TYPED_NUMBERS || (values == TYPED_TRUTH && wanted == COLUMN_NUMBER))
        return wanted == COLUMN_TEXT ? SOURCE_TEXT : SOURCE_NUMBER;
    return wanted == COLUMN_NUMBER ? SOURCE_PARSED : SOURCE_TEXT;
}

enum exit_status typed_choose(struct column *column, struct typed_type type,
                              const struct csv_options *options, const char *path,
                              enum source_kind *out, struct failure *why)
{
    static const enum column_kind kinds[] = {[SOURCE_IGNORED] = COLUMN_IGNORED,
                                             [SOURCE_NUMBER] = COLUMN_NUMBER,
                                             [SOURCE_TEXT] = COLUMN_TEXT,
                                             [SOURCE_PARSED] = COLUMN_NUMBER};
    enum column_kind wanted = COLUMN_ANY;

    if (options->kind)
        wanted = options->kind(options->user, column->name);
    if (type.values == TYPED_OTHERS && wanted != COLUMN_IGNORED)
        return fail(why, CLI_BAD_DATA,
                    "%s: column \"%.200s\" is of type %s, expected numbers, text or dates",
                    text_name(path), column->name, type.name);
    *out = choose(type.values, wanted);
    column->asked = wanted != COLUMN_ANY;
    column->long_row = -1;
    column->kind = kinds[*out];
    return CLI_OK;
}

enum exit_status typed_grow(struct column *column, int64_t rows, struct failure *why)
{
    const size_t count = (size_t)rows + 1;
    void *larger;

    if (column->kind == COLUMN_IGNORED)
        return CLI_OK;
    if (count > SIZE_MAX / sizeof(double) - 1)
        return fail_memory(why, "the table");
    larger = column->kind == COLUMN_NUMBER
                 ? realloc(column->numbers, count * sizeof *column->numbers)
                 : realloc((void *)column->texts, count * sizeof *column->texts);
    if (!larger)
        return fail_memory(why, "the table");
    if (column->kind == COLUMN_NUMBER)
        column->numbers = larger;
    else
        column->texts = larger;
    return CLI_OK;
}

enum exit_status typed_allocate(struct table *t, struct failure *why)
{
    for (int64_t c = 0; c < t->width; c++)
        TRY(typed_grow(&t->columns[c], t->rows, why));
    return CLI_OK;
}

bool typed_is_missing(const char *text, size_t size)
{
    /* csv_is_missing only reads what the pointers, which fields that are changed need, point to. */
    const struct csv_field field = {.begin = (char *)text, .end = (char *)text + size};

    return csv_is_missing(&field);
}

void typed_note_whole(struct column *column, int64_t row)
{
    if (column->long_row < 0 && fabs(column->numbers[row]) > 0x1p53)
        column->long_row = row;
}

enum exit_status typed_parse(struct table *t, const char *path, int64_t row, int64_t column,
                             const struct csv_options *options, struct typed_text text,
                             struct failure *why)
{
    double *out = &t->columns[column].numbers[row];
    char quoted[TEXT_QUOTED];
    char copy[64]; /* csv_is_number reads up to a byte that is part of no number */

    if (text.size < sizeof copy) {
        memcpy(copy, text.at, text.size);
        copy[text.size] = '\0';
        if (csv_is_number(copy, text.size, options->comma, out))
            return CLI_OK;
    }
    return table_fail(t, path, row, column, why, "the value is %s, expected a number",
                      text_quote(quoted, text.at, text.at + text.size));
}

enum exit_status typed_check_text(const char *path, const char *text, size_t size,
                                  struct failure *why)
{
    return !memchr(text, '\0', size)
               ? CLI_OK
               : fail(why, CLI_BAD_DATA, "%s: a text has a NUL byte", text_name(path));
}

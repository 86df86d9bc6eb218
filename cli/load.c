/*
 * load.c - reads tables for the machine, from text, .npy, Parquet or Arrow files
 *
 * SPDX-License-Identifier: MIT
 */
#include "load.h"
#include "arrow.h"
#include "npy.h"
#include "parquet.h"
#include <stdlib.h>
#include <string.h>

enum {
    ROWS_AT_A_TIME = 256 /* of a matrix whose rows are taken apart */
};

enum exit_status load_open(const char *path, FILE **file, int *is_npy, struct failure *why)
{
    int first;

    TRY(text_open(path, file, why));
    first = fgetc(*file);
    if (first != EOF)
        ungetc(first, *file);
    *is_npy = first == 0x93;
    return CLI_OK;
}

static enum exit_status name_columns(struct table *t, struct failure *why)
{
    char *name = malloc((size_t)t->width * 21 + 1);

    t->columns = calloc((size_t)t->width + 1, sizeof *t->columns);
    t->names = name;
    if (!t->columns || !name)
        return fail_memory(why, "the columns of the table");
    for (int64_t c = 0; c < t->width; c++) {
        t->columns[c].name = name;
        name += sprintf(name, "%lld", (long long)c) + 1;
    }
    return CLI_OK;
}

/* The columns of the matrix a that are not ignored, as numbers: one piece of rows after the other,
 * which stays in the cache while its columns are taken. */
static enum exit_status take_columns(const struct npy *a, struct table *t, struct failure *why)
{
    const int64_t step = a->fortran || a->ndim == 1 ? 1 : t->width;
    const int64_t apart = a->fortran && a->ndim == 2 ? t->rows : 1;

    for (int64_t c = 0; c < t->width; c++) {
        struct column *column = &t->columns[c];
        if (column->kind == COLUMN_IGNORED)
            continue;
        column->kind = COLUMN_NUMBER;
        column->numbers = malloc((size_t)(t->rows + !t->rows) * sizeof *column->numbers);
        if (!column->numbers)
            return fail_memory(why, "the table");
    }
    for (int64_t first = 0; first < t->rows; first += ROWS_AT_A_TIME) {
        const int64_t end = first + ROWS_AT_A_TIME < t->rows ? first + ROWS_AT_A_TIME : t->rows;
        for (int64_t c = 0; c < t->width; c++) {
            double *numbers = t->columns[c].numbers;
            for (int64_t row = first; numbers && row < end; row++)
                numbers[row] = npy_get(a, c * apart + row * step);
        }
    }
    return CLI_OK;
}

static enum exit_status table_from_npy(const struct npy *a, const char *path,
                                       const struct csv_options *options, struct table *t,
                                       struct failure *why)
{
    if (a->ndim < 1 || a->ndim > 2)
        return fail(why, CLI_BAD_DATA,
                    "%s has %d dimensions, expected a matrix with rows and columns",
                    text_name(path), a->ndim);
    t->rows = a->shape[0];
    t->width = a->ndim == 2 ? a->shape[1] : 1;
    if (t->rows == 0 && t->width > 1 << 20)
        return fail(why, CLI_BAD_DATA, "%s has %lld columns, but no rows", text_name(path),
                    (long long)t->width);
    TRY(name_columns(t, why));
    for (int64_t c = 0; c < t->width; c++) {
        struct column *column = &t->columns[c];
        column->kind = options->kind ? options->kind(options->user, column->name) : COLUMN_ANY;
        column->asked = column->kind != COLUMN_ANY;
        column->long_row = -1;
        if (column->kind == COLUMN_TEXT)
            return fail(why, CLI_BAD_DATA, "%s: column \"%s\" holds numbers, expected text",
                        text_name(path), column->name);
    }
    return take_columns(a, t, why);
}

enum exit_status load_columns(FILE *file, const char *path, const struct csv_options *options,
                              struct table *out, struct failure *why)
{
    struct text text;

    *out = (struct table){0};
    TRY(text_read_stream(file, path, &text, why));
    return arrow_is(&text) ? arrow_parse(text, path, options, out, why)
                           : csv_parse(text, path, options, out, why);
}

enum exit_status load_table(const char *path, const struct csv_options *options, struct table *out,
                            struct failure *why)
{
    FILE *file;
    struct npy array;
    int is_npy;
    enum exit_status status;

    *out = (struct table){0};
    if (parquet_is(path))
        return parquet_read(path, options, out, why);
    TRY(load_open(path, &file, &is_npy, why));
    if (is_npy) {
        status = npy_read_stream(file, text_name(path), &array, why);
        if (status == CLI_OK)
            status = table_from_npy(&array, path, options, out, why);
        free(array.data);
        if (status != CLI_OK)
            table_free(out);
    } else {
        status = load_columns(file, path, options, out, why);
    }
    text_close(file);
    return status;
}

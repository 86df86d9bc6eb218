/*
 * csv_table.c - a table that was read: its columns by name, and messages about its values
 *
 * SPDX-License-Identifier: MIT
 */
#include "csv.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void table_free(struct table *t)
{
    for (int64_t c = 0; t->columns && c < t->width; c++) {
        free(t->columns[c].numbers);
        free(t->columns[c].texts);
    }
    free(t->columns);
    free(t->lines);
    free(t->names);
    free(t->text);
    *t = (struct table){0};
}

int64_t table_find(const struct table *t, const char *name)
{
    for (int64_t c = 0; c < t->width; c++)
        if (strcmp(t->columns[c].name, name) == 0)
            return c;
    return -1;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

enum exit_status table_check_distinct(const struct table *t, const char *path, struct failure *why)
{
    const char **names = malloc(((size_t)t->width + 1) * sizeof *names);
    enum exit_status status = CLI_OK;

    if (!names)
        return fail_memory(why, "the names of the columns");
    for (int64_t c = 0; c < t->width; c++)
        names[c] = t->columns[c].name;
    qsort(names, (size_t)t->width, sizeof *names, compare_names);
    for (int64_t c = 1; c < t->width && status == CLI_OK; c++)
        if (strcmp(names[c - 1], names[c]) == 0)
            status = fail(why, CLI_BAD_DATA, "%s: two columns are called \"%.200s\"%s", path,
                          names[c], table_header_hint(t));
    free(names);
    return status;
}

enum exit_status table_fail(const struct table *t, const char *path, int64_t row, int64_t column,
                            struct failure *why, const char *format, ...)
{
    const char *name = t->columns[column].name;
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (t->lines)
        return fail(why, CLI_BAD_DATA, "%s:%lld: column \"%.200s\": %s", text_name(path),
                    (long long)t->lines[row], name, text);
    return fail(why, CLI_BAD_DATA, "%s: row %lld, counted from 0: column \"%.200s\": %s",
                text_name(path), (long long)(t->first + row * (t->step > 0 ? t->step : 1)), name,
                text);
}

enum exit_status table_check_finite(const struct table *t, const char *path, struct failure *why)
{
    int64_t row = t->rows, column = 0;

    for (int64_t c = 0; c < t->width; c++)
        for (int64_t i = 0; t->columns[c].numbers && i < row; i++)
            if (isinf(t->columns[c].numbers[i]))
                row = i, column = c;
    return row < t->rows ? table_fail(t, path, row, column, why,
                                      "the value is infinity, expected a number or a missing value")
                         : CLI_OK;
}

const char *table_header_hint(const struct table *t)
{
    return t->names_are_values ? "; if the first line is data, use --no-header" : "";
}

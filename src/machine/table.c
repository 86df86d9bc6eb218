/*
 * table.c - is a table what it must be, and where is a column of a name
 *
 * SPDX-License-Identifier: MIT
 */
#include "table.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_column_name(const void *a, const void *b)
{
    const gram_column *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

const gram_column **gram_table_sorted(const gram_table *table)
{
    const gram_column **sorted = malloc(((size_t)table->columns + 1) * sizeof *sorted);

    for (int64_t i = 0; sorted && i < table->columns; i++)
        sorted[i] = &table->column[i];
    if (sorted)
        qsort(sorted, (size_t)table->columns, sizeof *sorted, by_column_name);
    return sorted;
}

const gram_column *gram_table_find(const gram_table *table, const gram_column **sorted,
                                   const char *name)
{
    const gram_column key = {.name = name}, *at = &key;
    const gram_column **found =
        bsearch(&at, sorted, (size_t)table->columns, sizeof *sorted, by_column_name);

    return found ? *found : NULL;
}

static gram_status check_column(gram_context *g, int64_t index, const gram_column *c, int64_t rows)
{
    if (!c->name || !*c->name)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "table.column[%lld] has no name",
                         (long long)index);
    if (!c->numbers == !c->labels && (rows > 0 || c->numbers))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "column \"%s\" has %s, expected numbers or labels", c->name,
                         c->numbers ? "both numbers and labels" : "neither numbers nor labels");
    for (int64_t i = 0; c->numbers && i < rows; i++)
        if (isinf(c->numbers[i]))
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "column \"%s\" holds infinity in row %lld, expected numbers or NaN",
                             c->name, (long long)i);
    return GRAM_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static gram_status check_names(gram_context *g, const gram_table *table)
{
    size_t count = (size_t)table->columns;
    const char **name = malloc((count ? count : 1) * sizeof *name);
    const char *twice = NULL;

    if (!name)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the names of %zu columns", count);
    for (size_t i = 0; i < count; i++)
        name[i] = table->column[i].name;
    qsort(name, count, sizeof *name, by_name);
    for (size_t i = 1; i < count && !twice; i++)
        if (strcmp(name[i - 1], name[i]) == 0)
            twice = name[i];
    free(name);
    if (twice)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "two columns have the name \"%s\"", twice);
    return GRAM_OK;
}

gram_status gram_table_check(gram_context *g, const gram_table *table)
{
    if (!table)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "table is NULL");
    if (table->rows < 0 || table->columns < 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "table has %lld rows and %lld columns, expected at least 0",
                         (long long)table->rows, (long long)table->columns);
    if (table->columns > 0 && !table->column)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "table.column is NULL, expected %lld columns",
                         (long long)table->columns);
    for (int64_t i = 0; i < table->columns; i++)
        TRY(check_column(g, i, &table->column[i], table->rows));
    return check_names(g, table);
}

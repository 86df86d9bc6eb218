/*
 * fuzz_arrow.c - any bytes as an Arrow file or stream: read twice for each way in which columns are
 * wanted, and what was read holds what csv.h promises
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/arrow.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static enum column_kind number(const void *user, const char *name)
{
    (void)user;
    (void)name;
    return COLUMN_NUMBER;
}

/* By the length of the name, so that a file has columns of all kinds. */
static enum column_kind mixed(const void *user, const char *name)
{
    static const enum column_kind kinds[] = {COLUMN_TEXT, COLUMN_IGNORED, COLUMN_ANY};

    (void)user;
    return kinds[strlen(name) % 3];
}

static enum column_kind ignored(const void *user, const char *name)
{
    (void)user;
    (void)name;
    return COLUMN_IGNORED;
}

/* Every cell can be read, and every column has its kind and a name of its own. */
static double walk(const struct table *t)
{
    double sum = (double)t->rows;

    for (int64_t c = 0; c < t->width; c++) {
        const struct column *column = &t->columns[c];
        require(table_find(t, column->name) == c);
        require(column->kind != COLUMN_ANY);
        require((column->kind == COLUMN_NUMBER) == (column->numbers != NULL));
        require((column->kind == COLUMN_TEXT) == (column->texts != NULL));
        require(column->long_row >= -1 && column->long_row < t->rows);
        for (int64_t row = 0; row < t->rows && column->kind != COLUMN_IGNORED; row++) {
            if (column->kind == COLUMN_NUMBER)
                sum += isfinite(column->numbers[row]) ? column->numbers[row] : 1;
            else if (column->texts && column->texts[row])
                sum += (double)strlen(column->texts[row]);
        }
    }
    return sum;
}

static enum exit_status parse(const uint8_t *data, size_t size, const struct csv_options *options,
                              struct table *t, struct failure *why)
{
    struct text text = {malloc(size + 1), size};

    require(text.data != NULL);
    memcpy(text.data, data, size);
    text.data[size] = '\0';
    return arrow_parse(text, "fuzz", options, t, why);
}

static void read_twice(const uint8_t *data, size_t size, const struct csv_options *options)
{
    struct table first, second;
    struct failure why = {""}, again = {""};
    const enum exit_status status = parse(data, size, options, &first, &why);

    require(parse(data, size, options, &second, &again) == status);
    require(strcmp(why.text, again.text) == 0);
    if (status == CLI_OK) {
        const double a = walk(&first), b = walk(&second);
        require(a == b || (isnan(a) && isnan(b)));
    } else {
        require(why.text[0] != '\0' && first.columns == NULL && first.text == NULL);
    }
    table_free(&first);
    table_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum column_kind (*const kinds[])(const void *, const char *) = {NULL, number, mixed, ignored};
    const struct text text = {(char *)(uintptr_t)data, size}; // NOLINT(performance-no-int-to-ptr)

    if (size > 0)
        (void)arrow_is(&text);
    for (int i = 0; i < LENGTH(kinds); i++)
        read_twice(data, size, &(struct csv_options){.kind = kinds[i]});
    return 0;
}

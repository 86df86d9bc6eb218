/*
 * fuzz_csv.c - any bytes as a table: read twice, and what was read holds what csv.h promises; the
 * first look at it finds the same both times
 *
 * The first byte chooses the options; the rest is the file.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/first_look.h"
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

static enum column_kind by_letter(const void *user, const char *name)
{
    (void)user;
    return name[0] == 'n'   ? COLUMN_NUMBER
           : name[0] == 't' ? COLUMN_TEXT
           : name[0] == 'i' ? COLUMN_IGNORED
                            : COLUMN_ANY;
}

static enum exit_status parse(const uint8_t *data, size_t size, int choices, struct table *t,
                              struct failure *why)
{
    static const char delimiters[] = {'\0', ',', '\t', ';', '|', ' '};
    struct csv_options options = {
        .delimiter = delimiters[choices % 6],
        .header = (enum csv_header)(choices / 6 % 3),
        .kind = choices / 18 % 2 ? by_letter : NULL,
        .comma = choices / 36 % 2,
    };
    struct text text = {malloc(size + 1), size};

    require(text.data != NULL);
    memcpy(text.data, data, size);
    text.data[size] = '\0';
    return csv_parse(text, "fuzz", &options, t, why);
}

/* Every cell can be read, every column has its kind, names are distinct. */
static double walk(const struct table *t)
{
    double sum = 0;

    for (int64_t c = 0; c < t->width; c++) {
        const struct column *column = &t->columns[c];
        require(table_find(t, column->name) == c);
        require(column->kind != COLUMN_ANY);
        require((column->kind == COLUMN_NUMBER && t->rows > 0) <= (column->numbers != NULL));
        require((column->kind == COLUMN_TEXT) == (column->texts != NULL));
        for (int64_t row = 0; row < t->rows; row++) {
            if (column->kind == COLUMN_NUMBER)
                sum += isfinite(column->numbers[row]) ? column->numbers[row] : 1;
            else if (column->kind == COLUMN_TEXT && column->texts[row])
                sum += (double)strlen(column->texts[row]);
        }
    }
    return sum;
}

/* The remarks on a table whose target is the first column that was read; they name lines of it. */
static int64_t look(const struct table *t, int choices)
{
    struct first_look at = {.table = t, .weights = -1, .comma = choices / 36 % 2};
    struct remarks remarks = {0};
    struct failure why = {""};
    int64_t count;

    while (at.target < t->width && t->columns[at.target].kind == COLUMN_IGNORED)
        at.target++;
    if (at.target == t->width)
        return 0;
    require(first_look(&at, &remarks, &why) == CLI_OK);
    count = remarks.count;
    for (int64_t i = 0; i < count; i++) {
        require(table_find(t, remarks.at[i].column) >= 0);
        require(remarks.at[i].text[0] != '\0' && remarks.at[i].line >= 0);
    }
    remarks_free(&remarks);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct table first, second;
    struct failure why = {""}, again = {""};
    enum exit_status status;

    if (size == 0)
        return 0;
    status = parse(data + 1, size - 1, data[0], &first, &why);
    require(parse(data + 1, size - 1, data[0], &second, &again) == status);
    require(strcmp(why.text, again.text) == 0);
    if (status == CLI_OK) {
        double a = walk(&first), b = walk(&second);
        require(a == b || (isnan(a) && isnan(b)));
        require(look(&first, data[0]) == look(&second, data[0]));
    } else {
        require(why.text[0] != '\0' && first.columns == NULL && first.text == NULL);
    }
    table_free(&first);
    table_free(&second);
    return 0;
}

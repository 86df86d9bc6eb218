/*
 * fuzz_csv.c - any bytes as a table: read twice, and what was read holds what csv.h promises
 *
 * The first byte chooses the options; the rest is the file.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/csv.h"
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
    } else {
        require(why.text[0] != '\0' && first.columns == NULL && first.text == NULL);
    }
    table_free(&first);
    table_free(&second);
    return 0;
}

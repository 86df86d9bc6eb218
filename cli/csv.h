/*
 * csv.h - tables of delimited text: the format of .csv and .tsv files, and how they are read
 *
 * The format is that of RFC 4180 with the variations that occur in practice.  Fields are separated
 * by a comma, a tab, a semicolon or a bar (the one that is most frequent in the first line, unless
 * the caller names one); lines end in LF, CRLF or CR; blank lines are skipped; a UTF-8 byte order
 * mark is skipped.  A field in double quotes may hold delimiters, line ends and doubled quotes.
 * Blanks around an unquoted field are not part of it.  The first line names the columns; a column
 * without a name is called by its place: 0, 1, 2, ...
 *
 * An empty field, NA, N/A, NaN, null, NULL and ? mean that the value is missing, quoted or not.
 * A column is numeric if every field that is not missing is a number, and text otherwise, unless
 * the caller knows better.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_CSV_H
#define GRAM_CLI_CSV_H
#include "text.h"

enum column_kind {
    COLUMN_ANY, /* depends on the data; a column that was read never has this kind */
    COLUMN_NUMBER,
    COLUMN_TEXT,
    COLUMN_IGNORED, /* not read, but its fields are counted */
};

struct column {
    const char *name;
    enum column_kind kind;
    double *numbers;    /* COLUMN_NUMBER: rows of them, NaN where missing; else NULL */
    const char **texts; /* COLUMN_TEXT: rows of them, NULL where missing; else NULL */
    int asked;          /* the caller chose the kind, not the data */
    int64_t long_row;   /* of the first whole number that a double cannot hold; -1: none */
};

struct table {
    int64_t rows;
    int64_t width; /* number of columns */
    int64_t first,
        step; /* of some rows of a file: row i is first + i * step; step 0: all are here */
    struct column *columns;
    int64_t *lines;       /* of the file, from 1, on which the rows begin; NULL: it has none */
    int names_are_values; /* the first line names the columns, and all of it is numbers */
    char *names;          /* what the columns' names point into */
    char *text;           /* what the columns' texts point into; NULL if there are none */
};

enum csv_header {
    CSV_HEADER_YES,
    CSV_HEADER_NO,   /* the columns are called 0, 1, 2, ... */
    CSV_HEADER_AUTO, /* no header if every field of the first line is a number or missing */
};

struct csv_options {
    char delimiter; /* '\0': found out */
    int comma;      /* numbers have a decimal comma: 1,5 is 3 / 2 */
    enum csv_header header;
    /* Returns the kind of a column with this name; NULL: COLUMN_ANY for all. */
    enum column_kind (*kind)(const void *user, const char *name);
    const void *user;
};

enum {
    CSV_FIELD_LIMIT = 1 << 20 /* bytes; a longer field is a quote that was never closed */
};

/* Reads a file, or standard input for "-".  On an error the table is empty. */
enum exit_status csv_read(const char *path, const struct csv_options *options, struct table *out,
                          struct failure *why);

/* The same from memory, which is taken over (and changed); path is for messages. */
enum exit_status csv_parse(struct text text, const char *path, const struct csv_options *options,
                           struct table *out, struct failure *why);

/* Whether all of a text is a number; with comma, one that has a decimal comma. */
int csv_is_number(const char *from, size_t size, int comma, double *value);

void table_free(struct table *t);

/* Index of the column of that name, -1 if there is none. */
int64_t table_find(const struct table *t, const char *name);

/* Refuses a table in which two columns have the same name. */
enum exit_status table_check_distinct(const struct table *t, const char *path, struct failure *why);

/* A hint to add to a message about the names of columns if these look like data; otherwise "". */
const char *table_header_hint(const struct table *t);

/* Fails with "path:line: column "x": " and the message; where there are no lines, with the row. */
__attribute__((cold, format(printf, 6, 7))) enum exit_status
table_fail(const struct table *t, const char *path, int64_t row, int64_t column,
           struct failure *why, const char *format, ...);

/* Refuses infinity in a column of numbers. */
enum exit_status table_check_finite(const struct table *t, const char *path, struct failure *why);
#endif

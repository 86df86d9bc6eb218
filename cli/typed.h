/*
 * typed.h - what columns of files become whose format has types: Parquet and Arrow
 *
 * A column of numbers is one of numbers, unless the caller wants text; one of texts is text, and is
 * read like that of a CSV file if the caller wants numbers.  Truth values, dates and times are
 * text; truth values are 0 and 1 where the caller wants numbers.  NULL, and a text that means so in
 * a CSV file, is missing.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_TYPED_H
#define GRAM_CLI_TYPED_H
#include "csv.h"
#include <stdbool.h>

/* How a column is read. */
enum source_kind {
    SOURCE_IGNORED,
    SOURCE_NUMBER,
    SOURCE_TEXT,
    SOURCE_PARSED /* texts that are read as numbers */
};

/* What the values of a type are. */
enum typed_values {
    TYPED_NUMBERS,
    TYPED_TRUTH,
    TYPED_TEXTS,
    TYPED_OTHERS /* lists, structures, bytes: no column of a table */
};

struct typed_type {
    enum typed_values values;
    const char *name; /* for messages */
};

/*
 * Chooses how a column is read whose name it has already, and fills in its kind.  Fails where one
 * that is wanted has values of another type.
 */
enum exit_status typed_choose(struct column *column, struct typed_type type,
                              const struct csv_options *options, const char *path,
                              enum source_kind *out, struct failure *why);

/* Room for so many rows of a column, of which those that it has stay; never NULL if it is read. */
enum exit_status typed_grow(struct column *column, int64_t rows, struct failure *why);

/* Room for the rows of all columns that are read. */
enum exit_status typed_allocate(struct table *t, struct failure *why);

/* Whether a text means that a value is missing. */
bool typed_is_missing(const char *text, size_t size);

/* Notes a whole number that a double need not hold. */
void typed_note_whole(struct column *column, int64_t row);

struct typed_text {
    const char *at;
    size_t size;
};

/* Reads a text that is not missing as the number of a row. */
enum exit_status typed_parse(struct table *t, const char *path, int64_t row, int64_t column,
                             const struct csv_options *options, struct typed_text text,
                             struct failure *why);

/* Refuses a text that has a NUL byte, which no table can hold. */
enum exit_status typed_check_text(const char *path, const char *text, size_t size,
                                  struct failure *why);
#endif

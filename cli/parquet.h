/*
 * parquet.h - reads tables of Parquet files with the library of DuckDB
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_PARQUET_H
#define GRAM_CLI_PARQUET_H
#include "csv.h"

/* Whether a path names a regular file that begins like one of this format. */
int parquet_is(const char *path);

/*
 * Reads such a file.  Columns of numbers are numbers; truth values, dates, times and categories are
 * text: true and false, 2026-01-31, 2026-01-31 12:30:00.  A column that the caller wants as text is
 * text, and one of text that the caller wants as numbers is read like that of a CSV file.  NULL,
 * and a text that means so in a CSV file, is missing.  Of the options, kind, user and comma count.
 * Fails: there is no DuckDB; the file is broken; a wanted column holds lists, structures or bytes.
 */
enum exit_status parquet_read(const char *path, const struct csv_options *options,
                              struct table *out, struct failure *why);

/* Rows first, first + step, ... below end. */
struct parquet_rows {
    int64_t first, end, step;
};

/* The same of some rows, in their order, for which no memory is taken but theirs.  No column may be
 * called file_row_number, which is how DuckDB counts them. */
enum exit_status parquet_read_rows(const char *path, const struct csv_options *options,
                                   const struct parquet_rows *rows, struct table *out,
                                   struct failure *why);
/* How many rows there are; takes no time. */
enum exit_status parquet_count(const char *path, int64_t *rows, struct failure *why);
#endif

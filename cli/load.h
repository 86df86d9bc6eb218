/*
 * load.h - reads tables for the machine, from text, .npy, Parquet or Arrow files
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_LOAD_H
#define GRAM_CLI_LOAD_H
#include "csv.h"

/*
 * Opens an input, and recognises its format by the first byte: 0x93 begins every .npy file and no
 * UTF-8 text.  Close it with text_close.
 */
enum exit_status load_open(const char *path, FILE **file, int *is_npy, struct failure *why);

/*
 * Reads the rest of a file that is no .npy file, as text or as one of Arrow, whose first bytes tell
 * the one from the other.
 */
enum exit_status load_columns(FILE *file, const char *path, const struct csv_options *options,
                              struct table *out, struct failure *why);

/*
 * A table for the machine.  A .npy file is a matrix (a vector is one column) whose columns are
 * called 0, 1, 2, ...; kind and user in options are those of csv.h.
 */
enum exit_status load_table(const char *path, const struct csv_options *options, struct table *out,
                            struct failure *why);
#endif

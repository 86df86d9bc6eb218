/*
 * arrow.h - reads tables of Arrow files and streams: Feather of version 2, .arrow, .arrows
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_ARROW_H
#define GRAM_CLI_ARROW_H
#include "csv.h"

/* Whether bytes begin like one of this format. */
int arrow_is(const struct text *text);

/*
 * Reads a table from such bytes, which are freed; path is for messages.  Columns become what those
 * of Parquet files do (typed.h); categories are their values, and a duration is the number of its
 * units.  Of the options, kind, user and comma count.  Fails: the bytes are broken; a wanted column
 * holds lists, structures or bytes.
 */
enum exit_status arrow_parse(struct text text, const char *path, const struct csv_options *options,
                             struct table *out, struct failure *why);
#endif

/*
 * csv_write.h - one field of delimited text, as csv.h reads it back
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_CSV_WRITE_H
#define GRAM_CLI_CSV_WRITE_H
#include "output.h"

/* Quoted if it has to be: a delimiter, a quote, a line end or blanks at its ends. */
void csv_write_field(struct output *out, const char *text, char delimiter);
#endif

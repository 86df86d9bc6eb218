/*
 * csv_scan.h - the fields of delimited text, one after the other
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_CSV_SCAN_H
#define GRAM_CLI_CSV_SCAN_H
#include "text.h"

struct csv_scan {
    char *at, *end; /* *end is NUL */
    char delimiter;
    int comma;          /* the decimal point of numbers is a comma */
    int64_t line;       /* of at, from 1 */
    int64_t field_line; /* where the last field began */
    const char *path;
    const char *column; /* name of the column, for messages; NULL in the header */
};

struct csv_field {
    char *begin, *end; /* without the quotes and the blanks around */
    int doubled;       /* quotes inside are doubled */
    int last;          /* of its record */
};

/* The delimiter that is most frequent in the first line; a comma if there is none. */
char csv_sniff(const char *text);

/* Skips blank lines.  Returns whether another record follows. */
int csv_scan_record(struct csv_scan *s);

/* Fails with "path:line: column "x": " and the message, at the last field. */
__attribute__((cold, format(printf, 3, 4))) enum exit_status
csv_fail(const struct csv_scan *s, struct failure *why, const char *format, ...);

/* Reads the next field of a record and what ends it. */
enum exit_status csv_scan_field(struct csv_scan *s, struct csv_field *out, struct failure *why);

/*
 * Steps over what ends a field: a delimiter or the end of the record.  Returns 0, and stays, if
 * neither stands here; sets *last at the end of the record.
 */
static inline int csv_scan_end(struct csv_scan *s, int *last)
{
    char c = *s->at;

    *last = c != s->delimiter;
    if (c == s->delimiter) {
        s->at++;
        return 1;
    }
    if (c == '\0')
        return s->at == s->end;
    if (c != '\n' && c != '\r')
        return 0;
    s->at += c == '\r' && s->at[1] == '\n' ? 2 : 1;
    s->line++;
    return 1;
}

/* Turns doubled quotes into single ones and ends the field with a NUL, in place. */
void csv_unquote(struct csv_field *f);

/* Whether the field means that the value is missing. */
int csv_is_missing(const struct csv_field *f);
#endif

/*
 * remarks.h - what a command noticed about a table, and says without failing
 *
 * A remark has a code that never changes, for programs; the column and the line of the file that
 * it is about; and a sentence for people.  A command collects its remarks, prints them on standard
 * error, and lists them in its JSON.  With --strict they are an error.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_REMARKS_H
#define GRAM_CLI_REMARKS_H
#include "csv.h"
#include "json.h"

enum {
    REMARK_TEXT = 400,    /* bytes of a remark, NUL included */
    REMARKS_OF_A_CODE = 5 /* so many are printed; the others are counted */
};

struct remark {
    const char *code; /* a constant */
    char *column;     /* owned */
    int64_t line;     /* of the file, from 1; 0: it is about the column */
    char text[REMARK_TEXT];
};

struct remarks {
    struct remark *at;
    int64_t count, room;
};

/* Adds a remark about a column; row is one of the table, -1 for the whole column. */
__attribute__((format(printf, 7, 8))) enum exit_status
remarks_add(struct remarks *r, const struct table *t, int64_t column, int64_t row, const char *code,
            struct failure *why, const char *format, ...);

/*
 * Prints them on standard error, one per line: "gram COMMAND: note: FILE:LINE: column "x": ...".
 * With strict it fails if there are any.
 */
enum exit_status remarks_print(const struct remarks *r, const char *command, const char *path,
                               int strict, struct failure *why);

/* The member "remarks" of an open object: an array with the members code, column, line, text. */
void remarks_json(struct json *j, const struct remarks *r);

void remarks_free(struct remarks *r);
#endif

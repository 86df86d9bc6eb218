/*
 * arrow_schema.h - the columns that an Arrow file says it has
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_ARROW_SCHEMA_H
#define GRAM_CLI_ARROW_SCHEMA_H
#include "arrow_ipc.h"

enum {
    ARROW_MOST_SCALE = 128 /* digits behind the point of a decimal, or zeros before it */
};

/* free(fields) when done, also after an error. */
enum exit_status arrow_read_schema(struct arrow_input *in, struct arrow_schema *out,
                                   struct failure *why);

/* As in messages: "large_utf8". */
const char *arrow_type_name(enum arrow_type type);
#endif

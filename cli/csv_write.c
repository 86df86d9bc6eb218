/*
 * csv_write.c - one field of delimited text, as csv.h reads it back
 *
 * SPDX-License-Identifier: MIT
 */
#include "csv_write.h"
#include <string.h>

static int is_blank(char c)
{
    return c == ' ' || c == '\t';
}

void csv_write_field(struct output *out, const char *text, char delimiter)
{
    const char special[] = {delimiter, '"', '\n', '\r', '\0'};
    size_t size = strlen(text);

    if (!text[strcspn(text, special)] &&
        (size == 0 || (!is_blank(text[0]) && !is_blank(text[size - 1])))) {
        output_write(out, text, size);
        return;
    }
    output_text(out, "\"");
    for (; *text; text++) {
        if (*text == '"')
            output_text(out, "\"");
        output_write(out, text, 1);
    }
    output_text(out, "\"");
}

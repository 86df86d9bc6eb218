/*
 * json_text.c - JSON written into a growing text
 *
 * SPDX-License-Identifier: MIT
 */
#include "json_text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_bytes(struct gram_json_text *t, const char *bytes, size_t count)
{
    if (!t->failed && t->length + count + 1 > t->capacity) {
        size_t capacity = 2 * (t->length + count + 64);
        char *data = realloc(t->data, capacity);

        t->failed = !data;
        t->data = data ? data : t->data;
        t->capacity = data ? capacity : t->capacity;
    }
    if (t->failed)
        return;
    memcpy(t->data + t->length, bytes, count);
    t->length += count;
    t->data[t->length] = 0;
}

void gram_json_add(struct gram_json_text *t, const char *text)
{
    add_bytes(t, text, strlen(text));
}

void gram_json_add_string(struct gram_json_text *t, const char *text)
{
    gram_json_add(t, "\"");
    for (const char *c = text; *c; c++) {
        char escape[8];

        if (*c == '"' || *c == '\\') {
            escape[0] = '\\', escape[1] = *c;
            add_bytes(t, escape, 2);
        } else if ((unsigned char)*c < 0x20) {
            (void)snprintf(escape, sizeof escape, "\\u%04x", (unsigned)(unsigned char)*c);
            gram_json_add(t, escape);
        } else
            add_bytes(t, c, 1);
    }
    gram_json_add(t, "\"");
}

void gram_json_number(char *text, double value)
{
    size_t length = 0;
    int whole = value == floor(value) && fabs(value) < 1e15; /* 60, not 6e+01 */

    /* 17 digits, two signs, a separator and an exponent of 3 always fit. */
    for (int digits = whole ? 15 : 1; digits <= 17; digits++)
        if (snprintf(text, 32, "%.*g", digits, value) < 32 && strtod(text, NULL) == value)
            break;
    /* The locale's decimal separator, whatever its bytes, becomes one point. */
    for (const char *c = text; *c; c++)
        if (strchr("0123456789+-einfa", *c))
            text[length++] = *c;
        else if (length == 0 || text[length - 1] != '.')
            text[length++] = '.';
    text[length] = 0;
}

void gram_json_add_number(struct gram_json_text *t, double value)
{
    char text[32];

    gram_json_number(text, value);
    gram_json_add(t, isfinite(value) ? text : "null");
}

void gram_json_add_name(struct gram_json_text *t, const char *name)
{
    if (t->length > 0 && t->data[t->length - 1] != '{' && t->data[t->length - 1] != '[')
        gram_json_add(t, ", ");
    gram_json_add_string(t, name);
    gram_json_add(t, ": ");
}

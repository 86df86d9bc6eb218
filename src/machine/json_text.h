/*
 * json_text.h - a text that grows, and JSON written into it, whatever the locale
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_JSON_TEXT_H
#define GRAM_JSON_TEXT_H
#include <stdbool.h>
#include <stddef.h>

/* All zero is an empty text.  After an allocation failed, failed is set and nothing more is added;
 * ask it once, at the end. */
struct gram_json_text {
    char *data; /* NUL-terminated once anything was added; from malloc */
    size_t length, capacity;
    bool failed;
};

void gram_json_add(struct gram_json_text *t, const char *text);
/* "text" with quotes and escapes. */
void gram_json_add_string(struct gram_json_text *t, const char *text);
/* The shortest digits that read back as the same double; null for NaN and infinity. */
void gram_json_add_number(struct gram_json_text *t, double value);
/* "name": with a comma before it unless the text ends with an opening bracket. */
void gram_json_add_name(struct gram_json_text *t, const char *name);

/* The shortest digits that read back as value, with a point, into text of at least 32 bytes. */
void gram_json_number(char *text, double value);
#endif

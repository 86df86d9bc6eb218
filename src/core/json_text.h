/*
 * json_text.h - JSON: a strict reader in the text's own memory, and a writer into a growing text
 *
 * The reader goes value by value.  The caller knows what must come: it asks for a mark, a string, a
 * whole number.  Anything else is an error, kept with its position; after one every further read
 * fails, so it is enough to ask at the end of a part.  What is written is the same in every locale.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_JSON_TEXT_H
#define GRAM_JSON_TEXT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Reading --------------------------------------------------------------------------------- */

struct json_reader {
    char *start, *at, *end; /* the text, changed where strings are decoded */
    const char *error;      /* NULL, or what was expected at at */
};

/* True if mark comes next, which is then passed; false and no error if not. */
bool gram_json_accept(struct json_reader *r, char mark);
/* Passes mark, or sets the error. */
bool gram_json_expect(struct json_reader *r, char mark);

/*
 * A string, decoded where it stands to UTF-8 with a NUL at its end: *out lives as long as the text.
 * Refused: control characters, \u0000 (it would end the string), lone surrogates, bytes that are
 * not UTF-8.
 */
bool gram_json_string(struct json_reader *r, char **out);

/* A whole number >= 0 that int64_t holds, without sign, fraction, exponent or leading zero. */
bool gram_json_whole(struct json_reader *r, int64_t *out);

/* True if nothing but white space is left. */
bool gram_json_finish(struct json_reader *r);

/* Bytes of the UTF-8 character at text (at most size), 0 if there is none: no overlong forms, no
 * surrogates, nothing above U+10FFFF. */
size_t gram_json_utf8(const char *text, size_t size);

/* ---- Writing --------------------------------------------------------------------------------- */

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
/* Such a name and its value. */
void gram_json_add_pair(struct gram_json_text *t, const char *name, double value);
void gram_json_add_word(struct gram_json_text *t, const char *name, const char *word);

/* The shortest digits that read back as value, with a point, into text of at least 32 bytes. */
void gram_json_number(char *text, double value);
#endif

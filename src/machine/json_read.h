/*
 * json_read.h - a strict reader of JSON, value by value, in the text's own memory
 *
 * The caller knows what must come: it asks for a mark, a string, a whole number.  Anything else is
 * an error, kept with its position; after one every further read fails, so it is enough to ask at
 * the end of a part.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_JSON_READ_H
#define GRAM_JSON_READ_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
#endif

/*
 * text.h - a whole input in memory, and pieces of it fit for a message
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_TEXT_H
#define GRAM_CLI_TEXT_H
#include "failure.h"
#include <stdio.h>

/* The bytes of an input, followed by one NUL that is not counted.  free(data) when done. */
struct text {
    char *data;
    size_t size;
};

/*
 * Reads a file, or standard input for "-", to its end; gzip is unpacked (gzip.h).  It is read
 * rather than mapped: a mapped file that another process truncates kills the reader.
 */
enum exit_status text_read(const char *path, struct text *out, struct failure *why);
enum exit_status text_read_stream(FILE *file, const char *path, struct text *out,
                                  struct failure *why);

/*
 * Opens a file for reading, or standard input for "-"; close with text_close.  It has no buffer,
 * so that large reads go straight to where the bytes are wanted.
 */
enum exit_status text_open(const char *path, FILE **out, struct failure *why);
void text_close(FILE *file);

/* How messages call a path: "standard input" for "-". */
const char *text_name(const char *path);

enum {
    TEXT_QUOTED = 64 /* bytes that text_quote fills at most */
};

/* Copies the first bytes of a field, quoted, with control characters as '?', for a message. */
const char *text_quote(char out[TEXT_QUOTED], const char *begin, const char *end);

/*
 * Writes ? over every byte that a terminal could take for a command, in place: control characters
 * (below U+0020, and U+007F to U+009F, in which U+009B begins what ESC [ does) and what is not
 * UTF-8, line ends and tabs too.
 */
void text_mask(char *text);

/* Characters, not bytes. */
int text_characters(const char *text);

/* The bytes of the first characters, at most so many. */
size_t text_bytes(const char *text, int characters);

/* Returns the first byte that is not part of valid UTF-8, or NULL if all of it is. */
const char *text_find_invalid_utf8(const char *begin, const char *end);
#endif

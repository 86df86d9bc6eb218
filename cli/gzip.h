/*
 * gzip.h - unpacks gzip files with the zlib of the system
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_GZIP_H
#define GRAM_CLI_GZIP_H
#include "text.h"

/* Whether a file that begins with these bytes is of this format. */
int gzip_begins(const char *bytes, size_t size);

/*
 * Reads a file whose first `size` bytes are in `begin` already, and unpacks it piece by piece: only
 * the text and a few pieces are in memory.  All members of the file (RFC 1952) make one text; zeros
 * behind the last one are padding.  Fails: there is no zlib, or the file is broken or cut.
 */
enum exit_status gzip_read_stream(FILE *file, const char *path, const char *begin, size_t size,
                                  struct text *out, struct failure *why);
#endif

/*
 * output.h - output files that are there whole or not at all
 *
 * An output is written to a temporary file beside its path and renamed when it is complete and on
 * the disk; until then a file that was there before is untouched.  "-" is standard output, and a
 * path that is no regular file (/dev/null, a FIFO) is written directly.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_OUTPUT_H
#define GRAM_CLI_OUTPUT_H
#include "failure.h"
#include <stdio.h>

struct output {
    FILE *stream;
    const char *path; /* as the user gave it */
    char *target;     /* what the temporary file is renamed to: path with its links followed */
    char *temporary;  /* NULL: written directly */
    int slot;         /* of the temporary file in the list that Ctrl-C removes */
    int error;        /* errno of the first write that failed */
};

/* Creates the temporary file; path must outlive the output.  "-" is standard output. */
enum exit_status output_open(struct output *out, const char *path, struct failure *why);

/* Writing remembers the first error and then does nothing: output_close reports it. */
void output_write(struct output *out, const void *data, size_t size);
void output_text(struct output *out, const char *text);
/* A name that came from a file, fit for a terminal (text_mask). */
void output_name(struct output *out, const char *name, size_t size);
__attribute__((format(printf, 2, 3))) void output_format(struct output *out, const char *format,
                                                         ...);

/* Completes the output: flushed, on the disk, renamed.  On an error nothing is left behind. */
enum exit_status output_close(struct output *out, struct failure *why);

/* Drops the output; for the way out after an error.  Does nothing after output_close. */
void output_discard(struct output *out);
#endif

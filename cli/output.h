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
#include <stdbool.h>
#include <stdio.h>

struct output {
    FILE *stream;
    const char *path; /* as the user gave it */
    char *target;     /* what the temporary file is renamed to: path with its links followed */
    char *temporary;  /* NULL: written directly */
    int slot;         /* of the temporary file in the list that Ctrl-C removes */
    int error;        /* errno of the first write that failed */
    int columns;      /* of the terminal that it goes to; 0: it goes to a file or a pipe */
    bool colours;     /* that terminal shows colours, and its user wants them */
};

/* How text looks on a terminal with colours; elsewhere every style is plain. */
enum output_style {
    STYLE_PLAIN,
    STYLE_TITLE, /* a heading */
    STYLE_NAME,  /* a command or an option */
    STYLE_BAR,   /* a bar of a chart, in the colour that charts begin with */
};

/* Creates the temporary file; path must outlive the output.  "-" is standard output. */
enum exit_status output_open(struct output *out, const char *path, struct failure *why);

/* After the first error, writing does nothing; output_close reports the error. */
void output_write(struct output *out, const void *data, size_t size);
void output_text(struct output *out, const char *text);
/* A name that came from a file, fit for a terminal (text_mask). */
void output_name(struct output *out, const char *name, size_t size);
__attribute__((format(printf, 2, 3))) void output_format(struct output *out, const char *format,
                                                         ...);

/* The style of what is written from here on; end it with STYLE_PLAIN. */
void output_style(struct output *out, enum output_style style);

/*
 * Words, from column `at` on; lines end before column `width` and new ones begin at `indent`.
 * 0 for width: one line.
 */
void output_wrapped(struct output *out, const char *text, int at, int indent, int width);

/* Completes the output: flushed, on the disk, renamed.  On an error nothing is left behind. */
enum exit_status output_close(struct output *out, struct failure *why);

/* Discards the output after an error.  Does nothing after output_close. */
void output_discard(struct output *out);
#endif

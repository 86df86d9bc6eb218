/*
 * whole_file.h - an output file that is there whole or not at all
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_WHOLE_FILE_H
#define GRAM_WHOLE_FILE_H
#include "context.h"
#include <sys/types.h>

/* In the making; paths are owned. */
struct gram_whole_file {
    char *path;      /* what is replaced: links are followed */
    char *temporary; /* beside it */
    size_t folder;   /* of both paths: characters, the slash included */
    mode_t mode;     /* of a new file; the system takes away what umask says */
    int descriptor;
    bool named; /* temporary is there; without O_TMPFILE from the beginning, else in the end */
};

/* Opens a file to write to, in f->descriptor, that path will be.  On an error there is nothing to
 * close. */
gram_status gram_whole_file_open(gram_context *g, const char *path, struct gram_whole_file *f);
/* Puts it in the place of path; or removes it, where error is not 0 or becomes it, and says what
 * error it was.  path is then what it was before. */
gram_status gram_whole_file_close(gram_context *g, const char *path, struct gram_whole_file *f,
                                  int error);
#endif

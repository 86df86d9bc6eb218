/*
 * files.h - what a command reads and writes: no file is both, and no two outputs are one file
 *
 * gram.c adds the operands and every option that names a file before a command runs.  A command
 * that has more files, as eigh with --output PREFIX, adds those itself.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_FILES_H
#define GRAM_CLI_FILES_H
#include "failure.h"
#include <sys/types.h>

enum {
    FILES_MOST = 80,
    FILES_NAME = 256 /* bytes of a name in a folder, the NUL included */
};

/* A regular file, or one that will be made. */
struct file_identity {
    dev_t device;
    ino_t inode;           /* of the file; of the folder where there is no such file yet */
    char name[FILES_NAME]; /* in the folder; "" if the file is there */
};

struct files {
    int count;
    struct {
        struct file_identity is;
        const char *option; /* that names an output; NULL: an input */
    } at[FILES_MOST];
};

/*
 * Adds a file that is read, or one that an option names and that is written; "-" is standard input
 * or output.  An output that is there already is refused, by whatever name or link it goes.  What
 * is no regular file, such as a terminal or /dev/null, may be read and written as often as wanted.
 */
void files_read(struct files *files, const char *path);
enum exit_status files_write(struct files *files, const char *option, const char *path,
                             struct failure *why);
#endif

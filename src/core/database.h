/*
 * database.h - the file that keeps compiled kernels, and what was measured to be fastest
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_DATABASE_H
#define GRAM_DATABASE_H
#include "context.h"

/* SQLite's C interface, the part that is used, with the numbers that its documentation gives. */
enum {
    SQLITE_ROW_CODE = 100,
    SQLITE_DONE_CODE = 101
};

struct sqlite {
    int (*open)(const char *path, void **db, int flags, const char *vfs);
    int (*close)(void *db);
    int (*busy_timeout)(void *db, int ms);
    int (*exec)(void *db, const char *sql, void *callback, void *arg, char **error);
    int (*prepare)(void *db, const char *sql, int bytes, void **statement, const char **tail);
    int (*bind_text)(void *statement, int at, const char *text, int bytes, void (*release)(void *));
    int (*bind_blob)(void *statement, int at, const void *blob, int bytes, void (*release)(void *));
    int (*bind_int64)(void *statement, int at, int64_t value);
    int (*step)(void *statement);
    const void *(*column_blob)(void *statement, int at);
    int (*column_bytes)(void *statement, int at);
    int64_t (*column_int64)(void *statement, int at);
    int (*changes)(void *db);
    int (*finalize)(void *statement);
    int (*error)(void *db);
    const char *(*error_text)(void *db);
};

enum {
    STORE_PATH_BYTES = 4096
};

struct gram_database {
    struct sqlite call;
    void *library, *db;
    char path[STORE_PATH_BYTES];
    char why[512]; /* after an open that failed; "" where there is just no file yet */
    struct gram_process *process; /* that counts this one, while it is open */
    bool aside;                   /* the file was corrupt and is now out of the way */
    bool blocked;                 /* SIGXFSZ is, for this thread, and was not before */
};

/* Opens the user's file; create makes it, and the folders above it.  False: there is no database
 * to use, for the reason in s->why, and nothing to close. */
bool gram_database_open(const gram_context *g, bool create, struct gram_database *s);
void gram_database_close(struct gram_database *s);
/* Renames the file if what just failed says that it is corrupt: the next access begins anew. */
void gram_database_set_aside(const gram_context *g, struct gram_database *s);

/* A prepared statement with its first parameter, a text, where given; NULL on a failure. */
void *gram_database_prepare(const struct gram_database *s, const char *sql, const char *text);

/* ---- What was measured to be fastest for a class of problems --------------------------------- */

/* The n with 2^(n-1) < size <= 2^n: sizes of one class. */
static inline int gram_octave(int64_t size)
{
    int n = 0;

    while (n < 63 && ((int64_t)1 << n) < size)
        n++;
    return n;
}

/* Whether anything was tuned; the choice for a class, 0 if none is kept.  The first call of the
 * process reads the file.  The library and the CUDA plugin each have a table of their own. */
bool gram_tuned_any(const gram_context *g);
int64_t gram_tuned_get(const gram_context *g, uint64_t class);
/* For this process at once; false if it cannot be kept for later ones. */
bool gram_tuned_put(const gram_context *g, uint64_t class, int64_t choice);
/* Removes all that is kept, here and in the file, if there is one. */
void gram_tuned_clear(const gram_context *g);
/* The file is another one or was cleared: read it again. */
void gram_tuned_forget(const gram_context *g);
#endif

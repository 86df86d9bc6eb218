/*
 * store.h - the file that keeps compiled kernels and what was tuned: found, checked, opened
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_STORE_H
#define GRAM_STORE_H
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

struct gram_store {
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
bool gram_store_open(const gram_context *g, bool create, struct gram_store *s);
void gram_store_close(struct gram_store *s);
/* Renames the file if what just failed says that it is corrupt: the next access begins anew. */
void gram_store_set_aside(const gram_context *g, struct gram_store *s);

/* A prepared statement with its first parameter, a text, where given; NULL on a failure. */
void *gram_store_prepare(const struct gram_store *s, const char *sql, const char *text);
#endif

/*
 * jit_cache.c - compiled kernels across processes: one SQLite database
 *
 * GRAM_CACHE_DIR, else $XDG_CACHE_HOME/gram, else ~/.cache/gram, holds kernels-1.db: key, code, a
 * checksum, when it was last used.  Who can write it can run code as its reader: a folder or file
 * of another owner, or that others may write, is not used.  SQLite is opened at run time; without
 * it, and on any failure, every look-up is a miss.  Each access opens the database anew, so that
 * nothing is carried across fork().  A file that SQLite finds corrupt is set aside.
 *
 * SPDX-License-Identifier: MIT
 */
#include "jit.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    FOLDER_MODE = 0700,
    FOREIGN = S_IWGRP | S_IWOTH,
    WAIT_MS = 500, /* for another process that writes */
    PATH_BYTES = 4096,
    DAY = 86400
};

static const int64_t most_bytes = (int64_t)256 << 20;

/* SQLite's C interface, the part that is used, with the numbers that its documentation gives. */
enum {
    SQLITE_DONE_CODE = 101,
    SQLITE_ROW_CODE = 100,
    SQLITE_CORRUPT_CODE = 11,
    SQLITE_NOTADB_CODE = 26,
    SQLITE_READWRITE_CREATE = 0x2 | 0x4
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
    int (*finalize)(void *statement);
    int (*error)(void *db);
};

static const struct {
    const char *name;
    size_t at;
} symbols[] = {
    {     "sqlite3_open_v2", offsetof(struct sqlite,         open)},
    {    "sqlite3_close_v2", offsetof(struct sqlite,        close)},
    {"sqlite3_busy_timeout", offsetof(struct sqlite, busy_timeout)},
    {        "sqlite3_exec", offsetof(struct sqlite,         exec)},
    {  "sqlite3_prepare_v2", offsetof(struct sqlite,      prepare)},
    {   "sqlite3_bind_text", offsetof(struct sqlite,    bind_text)},
    {   "sqlite3_bind_blob", offsetof(struct sqlite,    bind_blob)},
    {  "sqlite3_bind_int64", offsetof(struct sqlite,   bind_int64)},
    {        "sqlite3_step", offsetof(struct sqlite,         step)},
    { "sqlite3_column_blob", offsetof(struct sqlite,  column_blob)},
    {"sqlite3_column_bytes", offsetof(struct sqlite, column_bytes)},
    {"sqlite3_column_int64", offsetof(struct sqlite, column_int64)},
    {    "sqlite3_finalize", offsetof(struct sqlite,     finalize)},
    {     "sqlite3_errcode", offsetof(struct sqlite,        error)},
};

struct store {
    struct sqlite call;
    void *library, *db;
    char path[PATH_BYTES];
};

static bool load_sqlite(struct store *s)
{
    s->library = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!s->library)
        return false;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(s->library, symbols[i].name);
        if (!found)
            return false;
        memcpy((char *)&s->call + symbols[i].at, &found, sizeof found);
    }
    return true;
}

static bool is_private(const char *path, bool folder)
{
    struct stat info;

    if (stat(path, &info) != 0)
        return !folder && errno == ENOENT;
    return (folder ? S_ISDIR(info.st_mode) : S_ISREG(info.st_mode)) && info.st_uid == geteuid() &&
           !(info.st_mode & FOREIGN);
}

/* Makes path and the folders above it. */
static void make_folders(char *path)
{
    for (char *slash = path; (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        (void)mkdir(path, FOLDER_MODE);
        *slash = '/';
    }
    (void)mkdir(path, FOLDER_MODE);
}

static bool find_path(const gram_context *g, char path[PATH_BYTES])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int used;

    if (g->cache_folder)
        used = snprintf(path, PATH_BYTES - 32, "%s", g->cache_folder);
    else if (cache && cache[0] == '/')
        used = snprintf(path, PATH_BYTES - 32, "%s/gram", cache);
    else if (home && home[0] == '/')
        used = snprintf(path, PATH_BYTES - 32, "%s/.cache/gram", home);
    else
        return false;
    if (used <= 0 || used >= PATH_BYTES - 32)
        return false;
    make_folders(path);
    if (!is_private(path, true)) {
        gram_log(g, "no cache of kernels: %s is not a folder that its owner alone may write", path);
        return false;
    }
    strcat(path, "/kernels-1.db"); // NOLINT(clang-analyzer-security.insecureAPI.strcpy)
    if (is_private(path, false))
        return true;
    gram_log(g, "no cache of kernels: %s is not a file that its owner alone may write", path);
    return false;
}

static void close_store(struct store *s)
{
    if (s->db)
        (void)s->call.close(s->db);
    if (s->library)
        dlclose(s->library);
    s->db = s->library = NULL;
}

/* Renames a corrupt file, so that the next access begins a new one. */
static void set_aside(const gram_context *g, const struct store *s)
{
    int code = s->db ? s->call.error(s->db) & 0xff : 0;
    char aside[PATH_BYTES + 16];

    if (code != SQLITE_CORRUPT_CODE && code != SQLITE_NOTADB_CODE)
        return;
    snprintf(aside, sizeof aside, "%s.corrupt", s->path);
    gram_log(g, "the cache of kernels is corrupt, it becomes %s", aside);
    (void)rename(s->path, aside);
}

static bool open_store(const gram_context *g, struct store *s)
{
    static const char schema[] =
        "PRAGMA mmap_size=0; CREATE TABLE IF NOT EXISTS kernel(key TEXT PRIMARY KEY, code BLOB NOT "
        "NULL, sum INTEGER NOT NULL, bytes INTEGER NOT NULL, used INTEGER NOT NULL)";

    *s = (struct store){0};
    if (!find_path(g, s->path))
        return false;
    if (!load_sqlite(s)) {
        gram_log(g, "no cache of kernels: libsqlite3.so.0 cannot be opened");
    } else if (s->call.open(s->path, &s->db, SQLITE_READWRITE_CREATE, NULL) == 0) {
        (void)chmod(s->path, S_IRUSR | S_IWUSR);
        (void)s->call.busy_timeout(s->db, WAIT_MS);
        if (s->call.exec(s->db, schema, NULL, NULL, NULL) == 0)
            return true;
        set_aside(g, s);
    }
    close_store(s);
    return false;
}

static int64_t checksum(const char *key, const char *bytes, size_t size)
{
    uint64_t value = 0xCBF29CE484222325u;

    for (; *key; key++)
        value = (value ^ (unsigned char)*key) * 0x100000001B3u;
    for (size_t i = 0; i < size; i++)
        value = (value ^ (unsigned char)bytes[i]) * 0x100000001B3u;
    return (int64_t)value;
}

/* Says that the kernel is in use, at most once a day. */
static void touch(const struct store *s, const char *key)
{
    void *statement = NULL;

    if (s->call.prepare(s->db, "UPDATE kernel SET used=? WHERE key=?", -1, &statement, NULL) == 0 &&
        s->call.bind_int64(statement, 1, (int64_t)time(NULL)) == 0 &&
        s->call.bind_text(statement, 2, key, -1, NULL) == 0)
        (void)s->call.step(statement);
    (void)s->call.finalize(statement);
}

static bool take(const struct store *s, void *row, const char *key, struct jit_code *out)
{
    const void *blob = s->call.column_blob(row, 0);
    int size = s->call.column_bytes(row, 0);

    if (!blob || size <= 0 || checksum(key, blob, (size_t)size) != s->call.column_int64(row, 1))
        return false;
    out->bytes = malloc((size_t)size);
    if (!out->bytes)
        return false;
    memcpy(out->bytes, blob, (size_t)size);
    out->size = (size_t)size;
    return true;
}

bool gram_jit_cache_get(const gram_context *g, const char *key, struct jit_code *out)
{
    void *row = NULL;
    bool hit = false, old = false;
    struct store s;

    *out = (struct jit_code){0};
    if (!open_store(g, &s))
        return false;
    if (s.call.prepare(s.db, "SELECT code, sum, used FROM kernel WHERE key=?", -1, &row, NULL) ==
            0 &&
        s.call.bind_text(row, 1, key, -1, NULL) == 0 && s.call.step(row) == SQLITE_ROW_CODE) {
        hit = take(&s, row, key, out);
        old = s.call.column_int64(row, 2) + DAY < (int64_t)time(NULL);
    }
    (void)s.call.finalize(row);
    if (hit && old)
        touch(&s, key);
    if (!hit)
        set_aside(g, &s);
    close_store(&s);
    return hit;
}

/* Deletes what was not used for longest until the rest fits. */
static void evict(const struct store *s)
{
    char sql[256];

    snprintf(sql, sizeof sql,
             "DELETE FROM kernel WHERE key IN (SELECT key FROM (SELECT key, SUM(bytes) OVER (ORDER "
             "BY used DESC, key) AS total FROM kernel) WHERE total > %lld)",
             (long long)most_bytes);
    (void)s->call.exec(s->db, sql, NULL, NULL, NULL);
}

void gram_jit_cache_put(const gram_context *g, const char *key, const struct jit_code *code)
{
    void *row = NULL;
    struct store s;
    bool kept;

    if (code->size > INT32_MAX || !open_store(g, &s))
        return;
    kept = s.call.prepare(s.db, "INSERT OR REPLACE INTO kernel VALUES(?,?,?,?,?)", -1, &row,
                          NULL) == 0 &&
           s.call.bind_text(row, 1, key, -1, NULL) == 0 &&
           s.call.bind_blob(row, 2, code->bytes, (int)code->size, NULL) == 0 &&
           s.call.bind_int64(row, 3, checksum(key, code->bytes, code->size)) == 0 &&
           s.call.bind_int64(row, 4, (int64_t)code->size) == 0 &&
           s.call.bind_int64(row, 5, (int64_t)time(NULL)) == 0 &&
           s.call.step(row) == SQLITE_DONE_CODE;
    (void)s.call.finalize(row);
    if (kept)
        evict(&s);
    else
        set_aside(g, &s);
    close_store(&s);
}

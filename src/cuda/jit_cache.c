/*
 * jit_cache.c - compiled kernels and tuned tiles across processes: what is asked of the file
 *
 * A kernel has its key, its code, a checksum and when it was last used.  On any failure a look-up
 * is a miss; a file that SQLite finds corrupt is set aside.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/database.h"
#include "jit.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    DAY = 86400,
    TEXT_BYTES = 2048 /* of a key that is listed */
};

/* FNV-1a over the key and the code, so that neither a damaged row nor one under another key is
 * loaded. */
static int64_t checksum(const char *key, const char *bytes, size_t size)
{
    uint64_t value = 0xCBF29CE484222325u;

    for (; *key; key++)
        value = (value ^ (unsigned char)*key) * 0x100000001B3u;
    for (size_t i = 0; i < size; i++)
        value = (value ^ (unsigned char)bytes[i]) * 0x100000001B3u;
    return (int64_t)value;
}

/* ---- Kernels -------------------------------------------------------------------------------- */

/* Says that the kernel is in use, at most once a day. */
static void touch(const struct gram_database *s, const char *key)
{
    void *statement = gram_database_prepare(s, "UPDATE kernel SET used=?2 WHERE key=?1", key);

    if (statement && s->call.bind_int64(statement, 2, (int64_t)time(NULL)) == 0)
        (void)s->call.step(statement);
    (void)s->call.finalize(statement);
}

/* The code of a row, in memory of its own, unless the row is damaged. */
static bool take(const struct gram_database *s, void *row, const char *key, struct jit_code *out)
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

/* A file that gives no kernel may be damaged: then it is set aside, and the kernel is compiled. */
bool gram_jit_cache_get(const gram_context *g, const char *key, struct jit_code *out)
{
    void *row;
    bool hit = false, old = false;
    struct gram_database s;

    *out = (struct jit_code){0};
    if (!gram_database_open(g, false, &s))
        return false;
    row = gram_database_prepare(&s, "SELECT code, sum, used FROM kernel WHERE key=?", key);
    if (row && s.call.step(row) == SQLITE_ROW_CODE) {
        hit = take(&s, row, key, out);
        old = s.call.column_int64(row, 2) + DAY < (int64_t)time(NULL);
    }
    (void)s.call.finalize(row);
    if (hit && old)
        touch(&s, key);
    if (!hit)
        gram_database_set_aside(g, &s);
    gram_database_close(&s);
    return hit;
}

/* Deletes what was not used for longest until the rest fits. */
static void evict(const struct gram_database *s, int64_t most_bytes)
{
    char sql[256];

    snprintf(sql, sizeof sql,
             "DELETE FROM kernel WHERE key IN (SELECT key FROM (SELECT key, SUM(bytes) OVER (ORDER "
             "BY used DESC, key) AS total FROM kernel) WHERE total > %lld)",
             (long long)most_bytes);
    (void)s->call.exec(s->db, sql, NULL, NULL, NULL);
}

/* A kernel that cannot be kept is no failure of the call that compiled it: the reason goes to why
 * and to the log. */
bool gram_jit_cache_put(const gram_context *g, const char *key, const struct jit_code *code,
                        char *why, size_t why_bytes)
{
    void *row;
    struct gram_database s;
    bool kept;

    if (code->size > INT32_MAX || !gram_database_open(g, true, &s)) {
        snprintf(why, why_bytes, "%s", code->size > INT32_MAX ? "its code is too large" : s.why);
        return false;
    }
    row = gram_database_prepare(&s, "INSERT OR REPLACE INTO kernel VALUES(?,?,?,?,?)", key);
    kept = row && s.call.bind_blob(row, 2, code->bytes, (int)code->size, NULL) == 0 &&
           s.call.bind_int64(row, 3, checksum(key, code->bytes, code->size)) == 0 &&
           s.call.bind_int64(row, 4, (int64_t)code->size) == 0 &&
           s.call.bind_int64(row, 5, (int64_t)time(NULL)) == 0 &&
           s.call.step(row) == SQLITE_DONE_CODE;
    (void)s.call.finalize(row);
    if (kept)
        evict(&s, g->cache_bytes);
    else {
        snprintf(why, why_bytes, "%s", s.call.error_text(s.db));
        gram_log(g, "the kernel is not stored in the cache: %s", why);
        gram_database_set_aside(g, &s);
    }
    gram_database_close(&s);
    return kept;
}

/* ---- What the user is told ------------------------------------------------------------------ */

/* The first column of the first row, 0 if there is none. */
static int64_t number_of(const struct gram_database *s, const char *sql)
{
    void *row = gram_database_prepare(s, sql, NULL);
    int64_t value = row && s->call.step(row) == SQLITE_ROW_CODE ? s->call.column_int64(row, 0) : 0;

    (void)s->call.finalize(row);
    return value;
}

/* Whether the file could be made: the nearest folder above it that is there can be written. */
static bool can_begin(const char *file)
{
    char path[STORE_PATH_BYTES];
    char *slash;

    snprintf(path, sizeof path, "%s", file);
    while ((slash = strrchr(path, '/')) && slash != path) {
        *slash = '\0';
        if (access(path, F_OK) == 0)
            break;
    }
    return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0;
}

void gram_jit_cache_info(const gram_context *g, gram_cache *cache)
{
    struct gram_database s;
    struct stat info;
    bool opened = gram_database_open(g, false, &s);

    /* A file that is not there yet is no problem, as long as it could be made. */
    cache->most_bytes = g->cache_bytes;
    snprintf(cache->path, sizeof cache->path, "%s", s.path);
    snprintf(cache->why, sizeof cache->why, "%s", s.why);
    if (!opened) {
        if (!s.why[0] && !can_begin(s.path))
            snprintf(cache->why, sizeof cache->why,
                     "%.380s cannot be created: its folder is not writable", s.path);
        return;
    }
    if (stat(s.path, &info) == 0)
        cache->file_bytes = (int64_t)info.st_size;
    if (faccessat(AT_FDCWD, s.path, W_OK, AT_EACCESS) != 0)
        snprintf(cache->why, sizeof cache->why, "the file is read-only, so nothing is added to it");
    cache->kernels = number_of(&s, "SELECT COUNT(*) FROM kernel");
    cache->bytes = number_of(&s, "SELECT TOTAL(bytes) FROM kernel");
    cache->tuned = number_of(&s, "SELECT COUNT(*) FROM tuned");
    gram_database_close(&s);
}

gram_status gram_jit_cache_list(gram_context *g, gram_cache_visit visit, void *user)
{
    struct gram_database s;
    gram_status status = GRAM_OK;
    void *row;
    int code;

    if (!gram_database_open(g, false, &s))
        return s.why[0] ? gram_fail(g, GRAM_IO, "%s", s.why) : GRAM_OK;
    row = gram_database_prepare(&s, "SELECT key, bytes, used FROM kernel ORDER BY used DESC, key",
                                NULL);
    while ((code = row ? s.call.step(row) : 0) == SQLITE_ROW_CODE) {
        gram_cache_entry entry = {.size = sizeof entry};
        const char *text = s.call.column_blob(row, 0);
        char key[TEXT_BYTES];
        snprintf(key, sizeof key, "%.*s", s.call.column_bytes(row, 0), text ? text : "");
        entry.bytes = s.call.column_int64(row, 1);
        entry.used = s.call.column_int64(row, 2);
        if (gram_jit_entry_of_key(key, &entry))
            visit(user, &entry);
    }
    if (code != SQLITE_DONE_CODE)
        status = gram_fail(g, GRAM_IO, "%.300s: %s", s.path, s.call.error_text(s.db));
    (void)s.call.finalize(row);
    if (status != GRAM_OK)
        gram_database_set_aside(g, &s);
    gram_database_close(&s);
    return status;
}

/* Without a pattern everything goes: kernels, what was tuned, and a damaged file that was set
 * aside. */
gram_status gram_jit_cache_clear(gram_context *g, const char *pattern, int64_t *removed)
{
    struct gram_database s;
    gram_status status = GRAM_OK;
    char aside[STORE_PATH_BYTES + 16];
    void *row;

    *removed = 0;
    if (!pattern)
        gram_tuned_forget(g);
    if (!gram_database_open(g, false, &s) && s.why[0] && (pattern || !s.aside))
        return gram_fail(g, GRAM_IO, "%s", s.why);
    snprintf(aside, sizeof aside, "%s.corrupt", s.path);
    if (!pattern)
        (void)unlink(aside);
    if (!s.db)
        return GRAM_OK;
    row = gram_database_prepare(&s, "DELETE FROM kernel WHERE key GLOB '*' || ? || '*'",
                                pattern ? pattern : "");
    if (row && s.call.step(row) == SQLITE_DONE_CODE)
        *removed = s.call.changes(s.db);
    else
        status = gram_fail(g, GRAM_IO, "%.300s: %s", s.path, s.call.error_text(s.db));
    (void)s.call.finalize(row);
    if (status == GRAM_OK && !pattern)
        (void)s.call.exec(s.db, "DROP TABLE IF EXISTS tuned; VACUUM", NULL, NULL, NULL);
    gram_database_close(&s);
    return status;
}

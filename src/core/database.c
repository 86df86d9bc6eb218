/*
 * database.c - the file that keeps compiled kernels and what was tuned: one SQLite database
 *
 * GRAM_CACHE_DIR, else $XDG_CACHE_HOME/gram, else ~/.cache/gram, holds kernels-1.db.  Who can write
 * it can run code as its reader: a folder or file of another owner, or that others may write, is
 * not used.  SQLite is opened at run time.  Each access opens the database anew, so that nothing is
 * carried across fork(); a child that was forked while a thread was in SQLite does without the
 * file, since that thread's locks inside of SQLite will never be released there.  Where the file
 * system has no locks, as on some network homes, SQLite's unix-dotfile locks with a folder instead;
 * one that a killed process left is removed.
 *
 * A line of what was tuned is a key, "<version of the library> <class of problems>", and the
 * choice.  The process reads its lines once; looking up a class then takes no lock.  The file is
 * read into a list of its own: the lock, for which fork() waits, is held only while that is copied.
 *
 * SPDX-License-Identifier: MIT
 */
#include "database.h"
#include "process.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef O_TMPFILE
/* macOS: a folder cannot be opened to write, so that a named file is made. */
#  define O_TMPFILE 0
#endif

enum {
    FOLDER_MODE = 0700,
    FOREIGN = S_IWGRP | S_IWOTH,
    WAIT_MS = 500,     /* for another process that writes */
    STALE_SECONDS = 30 /* no access takes so long: a lock of this age has no owner */
};

enum {
    SQLITE_CORRUPT_CODE = 11,
    SQLITE_NOTADB_CODE = 26,
    SQLITE_READWRITE = 0x2,
    SQLITE_CREATE = 0x4
};

static const char file_name[] = "/kernels-1.db", lock_ending[] = ".lock";

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
    {     "sqlite3_changes", offsetof(struct sqlite,      changes)},
    {    "sqlite3_finalize", offsetof(struct sqlite,     finalize)},
    {     "sqlite3_errcode", offsetof(struct sqlite,        error)},
    {      "sqlite3_errmsg", offsetof(struct sqlite,   error_text)},
};

static bool load_sqlite(struct gram_database *s)
{
    s->library = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
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

/* ---- The path -------------------------------------------------------------------------------- */

/* What speaks against a folder or file that is there; NULL: nothing. */
static const char *objection(const struct stat *info, bool folder)
{
    if (folder ? !S_ISDIR(info->st_mode) : !S_ISREG(info->st_mode))
        return folder ? "is not a folder" : "is not a regular file";
    if (info->st_uid != geteuid())
        return "belongs to another user";
    return info->st_mode & FOREIGN ? "can be written by other users" : NULL;
}

/* False, with the reason, where path may not be used; one that is not there is a reason only where
 * it should be. */
static bool is_private(struct gram_database *s, bool folder, bool must_be)
{
    const char *wrong;
    struct stat info;

    if (stat(s->path, &info) != 0) {
        if (errno != ENOENT || must_be)
            snprintf(s->why, sizeof s->why, "%.380s: %s", s->path, strerror(errno));
        return errno == ENOENT && !must_be;
    }
    wrong = objection(&info, folder);
    if (wrong)
        snprintf(s->why, sizeof s->why, "%.380s %s", s->path, wrong);
    return !wrong;
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

static bool find_folder(const gram_context *g, struct gram_database *s)
{
    const size_t most = sizeof s->path - sizeof file_name - sizeof lock_ending - 16;
    int used = g->cache_folder ? snprintf(s->path, most, "%s", g->cache_folder) : 0;

    if (used > 0 && (size_t)used < most)
        return true;
    s->path[0] = '\0';
    snprintf(s->why, sizeof s->why,
             used > 0 ? "the path of its folder is too long"
                      : "neither GRAM_CACHE_DIR nor XDG_CACHE_HOME nor HOME is set");
    return false;
}

/* The path of the file, in a folder that only its owner may write. */
static bool find_path(const gram_context *g, bool create, struct gram_database *s)
{
    bool usable;

    if (!find_folder(g, s))
        return false;
    if (create)
        make_folders(s->path);
    usable = is_private(s, true, create);
    strcat(s->path, file_name); // NOLINT(clang-analyzer-security.insecureAPI.strcpy)
    return usable && is_private(s, false, false);
}

/* ---- Locks ----------------------------------------------------------------------------------- */

/* Whether files in the folder of path can be locked, tried on a file that has no name or loses it:
 * closing another descriptor of the database would drop the locks that SQLite holds on it.  Where
 * no file can be made the answer does not matter. */
static bool has_locks(const char *path)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    char name[STORE_PATH_BYTES + 16];
    const char *slash = strrchr(path, '/');
    bool works;
    int file;

    snprintf(name, sizeof name, "%.*s", (int)(slash - path), path);
    file = open(name, O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (file < 0) {
        snprintf(name, sizeof name, "%.*s/.lock-XXXXXX", (int)(slash - path), path);
        file = mkostemp(name, O_CLOEXEC);
        if (file < 0)
            return true;
        (void)unlink(name);
    }
    works = fcntl(file, F_SETLK, &lock) == 0 || errno == EAGAIN || errno == EACCES;
    (void)close(file);
    return works;
}

/* Removes the lock of a process that was killed. */
static void break_stale_lock(const struct gram_database *s)
{
    char lock[STORE_PATH_BYTES + 16];
    struct stat info;

    snprintf(lock, sizeof lock, "%s%s", s->path, lock_ending);
    if (stat(lock, &info) == 0 && time(NULL) - info.st_mtime > STALE_SECONDS)
        (void)rmdir(lock);
}

/* A limit on the size of files (ulimit -f) is an error like a full disk, not the end of the
 * process: the signal is held back while the database is open, and forgotten. */
static void hold_limit_signal(struct gram_database *s)
{
    sigset_t set, before;

    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    s->blocked =
        pthread_sigmask(SIG_BLOCK, &set, &before) == 0 && sigismember(&before, SIGXFSZ) == 0;
}

static void release_limit_signal(struct gram_database *s)
{
    sigset_t set, pending;
    int taken;

    if (!s->blocked)
        return;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    while (sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1 &&
           sigwait(&set, &taken) == 0)
        continue;
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    s->blocked = false;
}

/* ---- Open and close -------------------------------------------------------------------------- */

static void set_aside(const gram_context *g, struct gram_database *s, const char *what)
{
    char aside[STORE_PATH_BYTES + 16];

    snprintf(aside, sizeof aside, "%s.corrupt", s->path);
    gram_log(g, "the cache of kernels %s; it is renamed to %s", what, aside);
    s->aside = rename(s->path, aside) == 0;
}

void gram_database_set_aside(const gram_context *g, struct gram_database *s)
{
    int code = s->db ? s->call.error(s->db) & 0xff : 0;

    if (code == SQLITE_CORRUPT_CODE || code == SQLITE_NOTADB_CODE)
        set_aside(g, s, "is corrupt");
}

/* Whether the tables are those that are made here, and nothing stands between them and what is
 * written; a file that cannot be asked now is believed. */
static bool is_ours(const struct gram_database *s)
{
    static const char question[] =
        "SELECT (SELECT COUNT(*) FROM sqlite_master WHERE type NOT IN ('table', 'index')) = 0 AND "
        "(SELECT GROUP_CONCAT(name || pk) FROM pragma_table_info('kernel')) = "
        "'key1,code0,sum0,bytes0,used0' AND "
        "IFNULL((SELECT GROUP_CONCAT(name || pk) FROM pragma_table_info('tuned')), 'key1,choice0') "
        "= 'key1,choice0'";
    void *row = gram_database_prepare(s, question, NULL);
    bool foreign = row && s->call.step(row) == SQLITE_ROW_CODE && s->call.column_int64(row, 0) == 0;

    (void)s->call.finalize(row);
    return !foreign;
}

static bool open_database(const gram_context *g, bool create, struct gram_database *s)
{
    static const char schema[] =
        "PRAGMA mmap_size=0; CREATE TABLE IF NOT EXISTS kernel(key TEXT PRIMARY KEY, code BLOB NOT "
        "NULL, sum INTEGER NOT NULL, bytes INTEGER NOT NULL, used INTEGER NOT NULL)";
    const bool locks = has_locks(s->path);

    if (!locks)
        break_stale_lock(s);
    if (s->call.open(s->path, &s->db, SQLITE_READWRITE | (create ? SQLITE_CREATE : 0),
                     locks ? NULL : "unix-dotfile") == 0) {
        if (create)
            (void)chmod(s->path, S_IRUSR | S_IWUSR);
        (void)s->call.busy_timeout(s->db, WAIT_MS);
        if (s->call.exec(s->db, schema, NULL, NULL, NULL) == 0) {
            if (is_ours(s))
                return true;
            snprintf(s->why, sizeof s->why, "%.380s holds tables of another program", s->path);
            set_aside(g, s, "holds tables of another program");
            return false;
        }
    }
    snprintf(s->why, sizeof s->why, "%.380s: %s", s->path,
             s->db ? s->call.error_text(s->db) : "out of memory");
    gram_database_set_aside(g, s);
    return false;
}

bool gram_database_open(const gram_context *g, bool create, struct gram_database *s)
{
    bool opened = false;

    *s = (struct gram_database){0};
    if (atomic_load(&g->process->no_store)) {
        snprintf(s->why, sizeof s->why, "the process was forked while a thread used the cache");
        gram_log(g, "kernels are not cached: %s", s->why);
        return false;
    }
    s->process = g->process;
    (void)atomic_fetch_add(&s->process->in_store, 1);
    if (find_path(g, create, s) && (create || access(s->path, F_OK) == 0)) {
        hold_limit_signal(s);
        if (!load_sqlite(s))
            snprintf(s->why, sizeof s->why, "libsqlite3.so.0 cannot be opened");
        else
            opened = open_database(g, create, s);
        if (!opened && create && s->aside) { /* it is out of the way: begin anew */
            (void)s->call.close(s->db);
            s->db = NULL;
            opened = open_database(g, create, s);
        }
    }
    if (!opened && s->why[0])
        gram_log(g, "kernels are not cached: %s", s->why);
    if (!opened)
        gram_database_close(s);
    return opened;
}

void gram_database_close(struct gram_database *s)
{
    if (s->db)
        (void)s->call.close(s->db);
    if (s->library)
        dlclose(s->library);
    s->db = s->library = NULL;
    if (s->process)
        (void)atomic_fetch_sub(&s->process->in_store, 1);
    s->process = NULL;
    release_limit_signal(s);
}

void *gram_database_prepare(const struct gram_database *s, const char *sql, const char *text)
{
    void *statement = NULL;

    if (s->call.prepare(s->db, sql, -1, &statement, NULL) == 0 &&
        (!text || s->call.bind_text(statement, 1, text, -1, NULL) == 0))
        return statement;
    (void)s->call.finalize(statement);
    return NULL;
}

/* ---- What was tuned -------------------------------------------------------------------------- */

enum {
    MOST_TUNED = 512,
    KEY_BYTES = 96
};

static struct { /* written under GRAM_LOCK_TUNED */
    atomic_bool loaded;
    atomic_int forgotten; /* how often */
    atomic_int count;     /* of entries that are complete */
    struct {
        _Atomic uint64_t class;
        _Atomic int64_t choice;
    } at[MOST_TUNED];
} process;

/* Lines of the file. */
struct lines {
    int count;
    struct {
        uint64_t class;
        int64_t choice;
    } at[MOST_TUNED];
};

static int find(uint64_t class)
{
    int count = atomic_load_explicit(&process.count, memory_order_acquire);

    for (int i = 0; i < count; i++)
        if (atomic_load_explicit(&process.at[i].class, memory_order_relaxed) == class)
            return i;
    return -1;
}

/* Under the lock. */
static void set(uint64_t class, int64_t choice)
{
    int at = find(class), count = atomic_load(&process.count);

    if (at < 0 && count == MOST_TUNED)
        return;
    if (at < 0) {
        atomic_store(&process.at[count].class, class);
        atomic_store(&process.at[count].choice, choice);
        atomic_store_explicit(&process.count, count + 1, memory_order_release);
    } else
        atomic_store(&process.at[at].choice, choice);
}

static void read_lines(const gram_context *g, struct lines *lines)
{
    struct gram_database s;
    void *row;

    if (!gram_database_open(g, false, &s))
        return;
    row = gram_database_prepare(&s, "SELECT key, choice FROM tuned WHERE key GLOB ? || ' *'",
                                GRAM_VERSION);
    while (row && lines->count < MOST_TUNED && s.call.step(row) == SQLITE_ROW_CODE) {
        const char *text = s.call.column_blob(row, 0);
        char key[KEY_BYTES];
        unsigned long long class;
        snprintf(key, sizeof key, "%.*s", s.call.column_bytes(row, 0), text ? text : "");
        if (sscanf(key, "%*s %llx", &class) != 1) // NOLINT(cert-err34-c)
            continue;
        lines->at[lines->count].class = class;
        lines->at[lines->count++].choice = s.call.column_int64(row, 1);
    }
    (void)s.call.finalize(row);
    gram_database_close(&s);
}

/* What this process has tuned meanwhile is newer than the file; what it has forgotten meanwhile may
 * still be in the lines, and so they are read again the next time. */
static void load(const gram_context *g)
{
    int forgotten = atomic_load(&process.forgotten);
    struct lines lines = {.count = 0};

    read_lines(g, &lines);
    gram_process_lock(g, GRAM_LOCK_TUNED);
    if (!atomic_load(&process.loaded) && atomic_load(&process.forgotten) == forgotten) {
        for (int i = 0; i < lines.count; i++)
            if (find(lines.at[i].class) < 0)
                set(lines.at[i].class, lines.at[i].choice);
        atomic_store_explicit(&process.loaded, true, memory_order_release);
    }
    gram_process_unlock(g, GRAM_LOCK_TUNED);
}

bool gram_tuned_any(const gram_context *g)
{
    if (!atomic_load_explicit(&process.loaded, memory_order_acquire))
        load(g);
    return atomic_load_explicit(&process.count, memory_order_relaxed) > 0;
}

int64_t gram_tuned_get(const gram_context *g, uint64_t class)
{
    int at = gram_tuned_any(g) ? find(class) : -1;

    return at < 0 ? 0 : atomic_load_explicit(&process.at[at].choice, memory_order_relaxed);
}

bool gram_tuned_put(const gram_context *g, uint64_t class, int64_t choice)
{
    struct gram_database s;
    char key[KEY_BYTES];
    void *row;
    bool kept;

    gram_process_lock(g, GRAM_LOCK_TUNED);
    set(class, choice);
    gram_process_unlock(g, GRAM_LOCK_TUNED);
    if (!gram_database_open(g, true, &s))
        return false;
    snprintf(key, sizeof key, "%s %llx", GRAM_VERSION, (unsigned long long)class);
    (void)s.call.exec(s.db,
                      "CREATE TABLE IF NOT EXISTS tuned(key TEXT PRIMARY KEY, choice INTEGER)",
                      NULL, NULL, NULL);
    row = gram_database_prepare(&s, "INSERT OR REPLACE INTO tuned VALUES(?,?)", key);
    kept = row && s.call.bind_int64(row, 2, choice) == 0 && s.call.step(row) == SQLITE_DONE_CODE;
    (void)s.call.finalize(row);
    gram_database_close(&s);
    return kept;
}

void gram_tuned_forget(const gram_context *g)
{
    gram_process_lock(g, GRAM_LOCK_TUNED);
    atomic_store(&process.count, 0);
    atomic_store(&process.loaded, false);
    (void)atomic_fetch_add(&process.forgotten, 1);
    gram_process_unlock(g, GRAM_LOCK_TUNED);
}

void gram_tuned_clear(const gram_context *g)
{
    struct gram_database s;

    if (gram_database_open(g, false, &s)) {
        (void)s.call.exec(s.db, "DROP TABLE IF EXISTS tuned", NULL, NULL, NULL);
        gram_database_close(&s);
    }
    gram_tuned_forget(g);
}

/*
 * tuned.c - what was measured to be fastest: kept beside the kernels, and by the process
 *
 * A line of the file is a key, "<version of the library> <class of problems>", and the choice.  The
 * process reads its lines once; looking up a class then takes no lock.  The file is read into a
 * list of its own: the lock, for which fork() waits, is held only while that is copied.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tuned.h"
#include "process.h"
#include "store.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

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
    struct gram_store s;
    void *row;

    if (!gram_store_open(g, false, &s))
        return;
    row = gram_store_prepare(&s, "SELECT key, choice FROM tuned WHERE key GLOB ? || ' *'",
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
    gram_store_close(&s);
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
    struct gram_store s;
    char key[KEY_BYTES];
    void *row;
    bool kept;

    gram_process_lock(g, GRAM_LOCK_TUNED);
    set(class, choice);
    gram_process_unlock(g, GRAM_LOCK_TUNED);
    if (!gram_store_open(g, true, &s))
        return false;
    snprintf(key, sizeof key, "%s %llx", GRAM_VERSION, (unsigned long long)class);
    (void)s.call.exec(s.db,
                      "CREATE TABLE IF NOT EXISTS tuned(key TEXT PRIMARY KEY, choice INTEGER)",
                      NULL, NULL, NULL);
    row = gram_store_prepare(&s, "INSERT OR REPLACE INTO tuned VALUES(?,?)", key);
    kept = row && s.call.bind_int64(row, 2, choice) == 0 && s.call.step(row) == SQLITE_DONE_CODE;
    (void)s.call.finalize(row);
    gram_store_close(&s);
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
    struct gram_store s;

    if (gram_store_open(g, false, &s)) {
        (void)s.call.exec(s.db, "DROP TABLE IF EXISTS tuned", NULL, NULL, NULL);
        gram_store_close(&s);
    }
    gram_tuned_forget(g);
}

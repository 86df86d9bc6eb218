/*
 * test_cli_memory.c - reading tables and arrays when any one allocation fails
 *
 * malloc, calloc and realloc are replaced by ones that fail at a given call; each run fails one
 * call later, until nothing fails any more.  Needs glibc's names for the real ones, and no
 * sanitizer, which replaces them itself.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "cli/first_look.h"
#include "cli/holdout.h"
#include "cli/load.h"
#include "cli/matrix.h"
#include "cli/npy.h"
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#  if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#    define SANITIZED
#  endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#  define SANITIZED
#endif

#if defined(__GLIBC__) && !defined(SANITIZED)

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void *memory);

static int64_t until_failure = INT64_MAX; /* allocations that still succeed */
static int64_t outstanding;               /* allocations that were not freed */

static int fails(void)
{
    return until_failure-- <= 0;
}

void *malloc(size_t bytes)
{
    void *memory = fails() ? NULL : __libc_malloc(bytes);

    outstanding += memory != NULL;
    return memory;
}

void *calloc(size_t count, size_t bytes)
{
    void *memory = fails() ? NULL : __libc_calloc(count, bytes);

    outstanding += memory != NULL;
    return memory;
}

void *realloc(void *memory, size_t bytes)
{
    void *larger = fails() ? NULL : __libc_realloc(memory, bytes);

    outstanding += larger != NULL && memory == NULL;
    return larger;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    void *memory = fails() ? NULL : __libc_memalign(alignment, bytes);

    outstanding += memory != NULL;
    return memory;
}

void free(void *memory)
{
    outstanding -= memory != NULL;
    __libc_free(memory);
}

static enum exit_status read_table(const char *path, struct failure *why)
{
    const struct csv_options options = {.delimiter = '\0'};
    struct table t;
    enum exit_status status = load_table(path, &options, &t, why);

    if (status == CLI_OK)
        status = holdout_shuffle(&t, t.rows / 2, 1, why);
    table_free(&t);
    return status;
}

static enum exit_status read_matrix(const char *path, struct failure *why)
{
    const struct input_settings input = {.delimiter = '\0'};
    struct matrix m;
    enum exit_status status = matrix_load(path, &input, DTYPE_F32, &m, why);

    matrix_free(&m);
    return status;
}

/* A table of which there is much to say, and what there is. */
static enum exit_status look_at_table(const char *path, struct failure *why)
{
    const struct csv_options options = {.delimiter = '\0'};
    struct first_look at = {.table = NULL, .weights = -1};
    struct remarks remarks = {0};
    struct table t;
    enum exit_status status = load_table(path, &options, &t, why);

    at.table = &t;
    if (status == CLI_OK)
        status = first_look(&at, &remarks, why);
    if (status == CLI_OK && remarks.count < 9)
        status = fail(why, CLI_FAILURE, "only %lld remarks", (long long)remarks.count);
    remarks_free(&remarks);
    table_free(&t);
    return status;
}

static void write_file(const char *path, const char *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");

    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
        exit(2);
}

static void write_look(const char *path)
{
    FILE *file = fopen(path, "wb");

    if (!file)
        exit(2);
    fputs("y,copy,id,text,c,again,bad,comma,date\n", file);
    for (int i = 0; i < 30; i++)
        fprintf(file, "%d,%d.5,%d,t%d,1,%d.5,%s,\"%d,5\",2024-01-%02d\n", i % 5, i % 5, i, i, i % 5,
                i == 7 ? "x" : "3", i, i + 1);
    if (fclose(file) != 0)
        exit(2);
}

static void try_all(struct harness *h, const char *path,
                    enum exit_status (*read)(const char *, struct failure *))
{
    int64_t failed = 0;
    enum exit_status status;

    h->where = path;
    do {
        struct failure why = {""};
        int64_t before = outstanding;
        until_failure = failed;
        status = read(path, &why);
        until_failure = INT64_MAX;
        CHECK(h, outstanding == before, "%lld allocations leak when number %lld fails",
              (long long)(outstanding - before), (long long)failed);
        CHECK(h, status == CLI_OK || why.text[0] != '\0', "no message when number %lld fails",
              (long long)failed);
        failed++;
    } while (status != CLI_OK && failed < 1000);
    CHECK(h, status == CLI_OK && failed > 3, "status %d after %lld allocations", (int)status,
          (long long)failed);
}

int main(void)
{
    static const char array[] =
        "\x93NUMPY\x01\0\x39\0{'descr': '<f8', 'fortran_order': False, "
        "'shape': (2,1)}\n0123456789abcdef";
    static const char text[] = "a,b\n1,x\n2,y\n3,z\n4,z\n";
    struct harness h = {.isa = "none", .random = 1};
    char folder[] = "/tmp/gram-memory-XXXXXX", path[64];

    if (!mkdtemp(folder))
        return 2;
    snprintf(path, sizeof path, "%s/t.csv", folder);
    write_file(path, text, sizeof text - 1);
    try_all(&h, path, read_table);
    write_look(path);
    try_all(&h, path, look_at_table);
    remove(path);
    snprintf(path, sizeof path, "%s/a.npy", folder);
    write_file(path, array, sizeof array - 1);
    try_all(&h, path, read_table);
    try_all(&h, path, read_matrix);
    remove(path);
    remove(folder);
    printf("test_cli_memory: %d checks, %d failures\n", h.checks, h.failures);
    return h.failures != 0;
}

#else

int main(void)
{
    puts("test_cli_memory: not here: needs glibc and no sanitizer");
    return 0;
}

#endif

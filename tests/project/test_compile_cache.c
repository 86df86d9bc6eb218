/*
 * test_compile_cache.c - compiled code of tests comes back whole, for the same content alone, and
 * from a folder that nobody else can write to
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "tools/cudaemu/compile_cache.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

/* A new empty folder, which the cache is told to use. */
static void fresh(struct harness *h)
{
    snprintf(folder, sizeof folder, "/tmp/gram-compile-cache-XXXXXX");
    CHECK(h, mkdtemp(folder) && setenv("GRAM_TEST_CACHE", folder, 1) == 0, "mkdtemp");
}

/* The path of the cache's one file, or "" where there is not exactly one. */
static void only_file(char path[512])
{
    DIR *entries = opendir(folder);
    int count = 0;

    path[0] = '\0';
    for (struct dirent *e; entries && (e = readdir(entries)) != NULL;)
        if (e->d_name[0] != '.') {
            snprintf(path, 512, "%s/%s", folder, e->d_name);
            count++;
        }
    if (entries)
        (void)closedir(entries);
    if (count != 1)
        path[0] = '\0';
}

static void clean(struct harness *h)
{
    char path[512];

    only_file(path);
    (void)unlink(path);
    CHECK(h, rmdir(folder) == 0, "%s is not empty", folder);
}

static struct compile_key key_of(const char *text)
{
    struct compile_key key = compile_key_begin();

    compile_key_add(&key, text);
    return key;
}

/* True if the bytes under the key are these; NULL: there are none. */
static bool holds(const char *name, const char *expected)
{
    const struct compile_key key = key_of(name);
    size_t size = 0;
    char *bytes = compile_cache_get(&key, &size);
    bool same = !bytes == !expected;

    if (bytes && expected)
        same = size == strlen(expected) && memcmp(bytes, expected, size) == 0;
    free(bytes);
    return same;
}

static void put(const char *name, const char *bytes)
{
    const struct compile_key key = key_of(name);

    compile_cache_put(&key, bytes, strlen(bytes));
}

static void what_is_put_comes_back(struct harness *h)
{
    fresh(h);
    CHECK(h, holds("a", NULL), "an empty cache has code");
    put("a", "machine code");
    CHECK(h, holds("a", "machine code"), "other code");
    CHECK(h, holds("b", NULL), "code of another key");
    clean(h);
}

static void half_a_file_is_a_miss_and_goes(struct harness *h)
{
    char path[512];

    fresh(h);
    put("a", "machine code");
    only_file(path);
    CHECK(h, truncate(path, 20) == 0, "no file");
    CHECK(h, holds("a", NULL), "half of the code");
    only_file(path);
    CHECK(h, path[0] == '\0', "it is still there");
    put("a", "machine code");
    CHECK(h, holds("a", "machine code"), "other code");
    clean(h);
}

static void a_folder_that_others_may_write_to_is_not_used(struct harness *h)
{
    static const mode_t modes[] = {0770, 0707, 0750};

    fresh(h);
    put("a", "machine code");
    for (int i = 0; i < LENGTH(modes); i++) {
        CHECK(h, chmod(folder, modes[i]) == 0, "chmod");
        CHECK(h, holds("a", NULL), "read with mode %o", modes[i]);
        put("b", "more");
    }
    CHECK(h, chmod(folder, 0700) == 0, "chmod");
    CHECK(h, holds("a", "machine code") && holds("b", NULL), "written");
    clean(h);
    CHECK(h, setenv("GRAM_TEST_CACHE", "", 1) == 0, "setenv");
    put("a", "machine code");
    CHECK(h, holds("a", NULL), "a cache without a name");
}

static struct compile_key key_of_source(const char *source, const char *const texts[3])
{
    static const char *const names[] = {"one.cuh", "two.cuh", "three.cuh"};
    struct compile_key key = compile_key_begin();

    compile_key_add_source(&key, source, 3, names, texts);
    return key;
}

static bool same(struct compile_key a, struct compile_key b)
{
    return a.high == b.high && a.low == b.low;
}

/* A header counts if it is included, by a header too; another does not. */
static void keys_hold_what_is_included(struct harness *h)
{
    const char *source = "#include \"one.cuh\"\nint x;\n";
    const char *texts[] = {"#include \"two.cuh\"\n", "int two;\n", "int three;\n"};
    const struct compile_key before = key_of_source(source, texts);
    struct compile_key joined = key_of("ab"), cut = key_of("a");

    compile_key_add(&joined, "c"), compile_key_add(&cut, "bc");
    CHECK(h, !same(joined, cut), "texts run into one another");
    texts[2] = "int four;\n";
    CHECK(h, same(before, key_of_source(source, texts)), "three.cuh is not included");
    texts[1] = "int four;\n";
    CHECK(h, !same(before, key_of_source(source, texts)), "two.cuh is included by one.cuh");
    texts[1] = "int two;\n";
    CHECK(h, !same(before, key_of_source("#include \"one.cuh\"\nint y;\n", texts)), "the source");
}

static const struct test_function tests[] = {
    {                       "what_is_put_comes_back",what_is_put_comes_back                                                     },
    {               "half_a_file_is_a_miss_and_goes", half_a_file_is_a_miss_and_goes},
    {"a_folder_that_others_may_write_to_is_not_used",
     a_folder_that_others_may_write_to_is_not_used                                  },
    {                   "keys_hold_what_is_included",     keys_hold_what_is_included},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}

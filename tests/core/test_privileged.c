/*
 * test_privileged.c - a program with privileges that its caller lacks reads no variable, and what
 * was read is a copy
 *
 * In a set-user-ID program secure_getenv() finds nothing.  Here it is this file's, which finds
 * nothing either: what the library still knows of the environment it has read in another way.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "core/context.h"
#include <stdlib.h>
#include <string.h>

static bool privileged;
static int asked;

char *secure_getenv(const char *name)
{
    asked++;
    return privileged ? NULL : getenv(name); // NOLINT(concurrency-mt-unsafe)
}

static const char *const variables[][2] = {
    {  "GRAM_NUM_THREADS",          "3"},
    {      "GRAM_CPU_ISA",       "base"},
    {          "GRAM_LOG",         "no"},
    {          "GRAM_JIT",         "no"},
    {    "GRAM_JIT_DEBUG",         "no"},
    {    "GRAM_CACHE_MIB",         "no"},
    {   "GRAM_PLUGIN_DIR", "/nowhere/p"},
    { "GRAM_CUDA_LIB_DIR", "/nowhere/c"},
    {    "GRAM_CACHE_DIR", "/nowhere/k"},
    {   "GRAM_CDIST_FORM",         "no"},
    {"GRAM_KERNEL_MATMUL",         "no"},
    {    "XDG_CACHE_HOME", "/nowhere/x"},
    {              "HOME", "/nowhere/h"},
};

static void reads_no_variable(struct harness *h)
{
    const gram_context_options options = {.size = sizeof options, .threads = 2};
    gram_info info = {.size = sizeof info};
    gram_context *g = NULL;

    for (int i = 0; i < LENGTH(variables); i++)
        setenv(variables[i][0], variables[i][1], 1);
    CHECK(h, gram_context_create(&options, &g) == GRAM_INVALID_ARGUMENT,
          "without privileges GRAM_LOG=no is wrong");
    CHECK(h, asked >= LENGTH(variables), "%d of %d variables were asked for in the right way",
          asked, LENGTH(variables));
    privileged = true;
    CHECK(h, gram_context_create(&options, &g) == GRAM_OK, "%s", gram_message(NULL));
    if (!g)
        return;
    CHECK(h, !g->plugin_folder && !g->cuda_folder && !g->cache_folder && !g->log && !g->no_jit,
          "folders %p %p %p, log %d, no_jit %d", (const void *)g->plugin_folder,
          (const void *)g->cuda_folder, (const void *)g->cache_folder, g->log, g->no_jit);
    CHECK(h, gram_context_info(g, &info) == GRAM_OK && info.threads == 2, "%d threads",
          info.threads);
    gram_context_destroy(g);
}

/* POSIX lets a program free the string that it gave to putenv(), once the variable is another. */
static void the_environment_may_go(struct harness *h)
{
    static const char *const texts[] = {"GRAM_CACHE_DIR=/nowhere/a", "GRAM_PLUGIN_DIR=/nowhere/b",
                                        "GRAM_CUDA_LIB_DIR=/nowhere/c", "GRAM_CPU_ISA=base"};
    char *text[LENGTH(texts)], *before[LENGTH(texts)];
    gram_context *g = NULL;

    for (int i = 0; i < LENGTH(texts); i++) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(texts[i], "="), texts[i]);
        before[i] = getenv(name) ? strdup(getenv(name)) : NULL;
        text[i] = strdup(texts[i]);
        CHECK(h, text[i] && putenv(text[i]) == 0, "putenv");
    }
    CHECK(h, gram_context_create(NULL, &g) == GRAM_OK, "%s", gram_message(NULL));
    for (int i = 0; i < LENGTH(texts); i++) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(texts[i], "="), texts[i]);
        if (before[i])
            setenv(name, before[i], 1);
        else
            unsetenv(name);
        memset(text[i], '#', strlen(text[i]));
        free(text[i]);
        free(before[i]);
    }
    if (!g)
        return;
    CHECK(h, strcmp(g->cache_folder, "/nowhere/a") == 0, "%s", g->cache_folder);
    CHECK(h, strcmp(g->plugin_folder, "/nowhere/b") == 0, "%s", g->plugin_folder);
    CHECK(h, strcmp(g->cuda_folder, "/nowhere/c") == 0, "%s", g->cuda_folder);
    CHECK(h, strcmp(g->options.cpu_isa, "base") == 0, "%s", g->options.cpu_isa);
    gram_context_destroy(g);
}

static const struct test_function tests[] = {
    {"the_environment_may_go", the_environment_may_go},
    {     "reads_no_variable",      reads_no_variable},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}

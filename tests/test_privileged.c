/*
 * test_privileged.c - a program with privileges that its caller lacks reads no variable
 *
 * In a set-user-ID program secure_getenv() finds nothing.  Here it is this file's, which finds
 * nothing either: what the library still knows of the environment it has read in another way.
 *
 * SPDX-License-Identifier: MIT
 */
#include "context.h"
#include "harness.h"
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
    { "GRAM_NUM_THREADS",          "3"},
    {     "GRAM_CPU_ISA",       "base"},
    {         "GRAM_LOG",         "no"},
    {         "GRAM_JIT",         "no"},
    {   "GRAM_JIT_DEBUG",         "no"},
    {   "GRAM_CACHE_MIB",         "no"},
    {  "GRAM_PLUGIN_DIR", "/nowhere/p"},
    {"GRAM_CUDA_LIB_DIR", "/nowhere/c"},
    {   "GRAM_CACHE_DIR", "/nowhere/k"},
    {  "GRAM_CDIST_FORM",         "no"},
    {   "XDG_CACHE_HOME", "/nowhere/x"},
    {             "HOME", "/nowhere/h"},
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

static const struct test_function tests[] = {
    {"reads_no_variable", reads_no_variable},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}

/*
 * scratch_folder.h - a folder of a test's own, and small files in it
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_SCRATCH_FOLDER_H
#define GRAM_SCRATCH_FOLDER_H
#include "check/harness/harness.h"

enum {
    SCRATCH_BYTES = 256 /* of a path in the folder, and of a text that is read from a file */
};

/* Runs tests as harness_run_tests does, in a folder that is gone when they end. */
int scratch_run_tests(const struct test_function *tests, int count);
/* The same as harness_run_tests_or_some does. */
int scratch_run_tests_or_some(const struct test_function *tests, int count, int on_gpu);

/* The path of a name in the folder. */
const char *scratch_path(const char *name, char path[SCRATCH_BYTES]);
void scratch_put(struct harness *h, const char *path, const char *text);
/* What stands in a file; "" if it is not there. */
const char *scratch_get(const char *path, char text[SCRATCH_BYTES]);
/* Files of the folder, whatever they are called. */
int scratch_count(void);
#endif

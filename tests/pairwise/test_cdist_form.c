/*
 * test_cdist_form.c - the rows of gram_cdist with either form of p = 2, whichever this processor
 * takes
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include <stdlib.h>

int main(void)
{
    static const char *const forms[] = {"direct", "expansion"};
    const struct harness_options options = {.threads = 2};
    const struct case_op *op = harness_find("cdist");
    struct harness_count count = {0};

    for (int i = 0; op && i < LENGTH(forms); i++)
        if (setenv("GRAM_CDIST_FORM", forms[i], 1) != 0 ||
            !harness_run_table(op, -1, &options, &count))
            return EXIT_FAILURE;
    printf("cdist in both forms: %d runs, %d failed\n", count.passed + count.failed, count.failed);
    return count.failed == 0 && count.passed > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

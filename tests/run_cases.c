/*
 * run_cases.c - the test runner: all rows of the named operations on every instruction set here
 *
 *   run_cases             everything
 *   run_cases OP...       these operations
 *   run_cases OP ROW      one row, as a debugger wants it
 *
 * GRAM_TEST_ISA limits it to one instruction set, GRAM_NUM_THREADS sets the threads (2 by default,
 * so that a machine with many processors does not run small rows on all of them).
 *
 * SPDX-License-Identifier: MIT
 */
#include "harness.h"
#include <stdlib.h>
#include <string.h>

struct selection {
    const struct case_op *op;
    int row; /* -1: all */
    int passed, failed;
};

static void run_op(struct harness *h, void *arg)
{
    struct selection *s = arg;

    for (int row = 0; row < s->op->rows; row++) {
        if (s->row >= 0 && s->row != row)
            continue;
        if (harness_run_row(h, s->op, row))
            s->passed++;
        else
            s->failed++;
    }
}

static int run(const struct case_op *op, int row, int *passed, int *failed)
{
    struct harness_options options = {
        .isa = getenv("GRAM_TEST_ISA"),
        .threads = getenv("GRAM_NUM_THREADS") ? 0 : 2,
    };
    struct selection s = {.op = op, .row = row};

    if (harness_each_isa(&options, run_op, &s) < 0)
        return 1;
    printf("%s: %d rows, %d runs, %d failed\n", op->name, op->rows, s.passed + s.failed, s.failed);
    *passed += s.passed;
    *failed += s.failed;
    return s.passed + s.failed == 0;
}

int main(int argc, char **argv)
{
    int passed = 0, failed = 0, trouble = 0, row = -1;
    char *end;

    if (argc == 3) {
        long value = strtol(argv[2], &end, 10);
        if (end != argv[2] && !*end && value >= 0) {
            row = (int)value;
            argc = 2;
        }
    }
    for (int i = 1; i < argc; i++) {
        const struct case_op *op = harness_find(argv[i]);
        if (!op) {
            fprintf(stderr, "run_cases: no operation is called '%s'\n", argv[i]);
            return 2;
        }
        trouble |= run(op, row, &passed, &failed);
    }
    for (int i = 0; argc == 1 && harness_ops[i]; i++)
        trouble |= run(harness_ops[i], -1, &passed, &failed);
    printf("%d passed, %d failed\n", passed, failed);
    return trouble || failed > 0 || passed == 0;
}

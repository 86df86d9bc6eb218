/*
 * run_cases.c - the test runner: all rows of the named operations on every instruction set here
 *
 *   run_cases             everything
 *   run_cases OP...       these operations
 *   run_cases OP ROW      one row, as a debugger wants it
 *   run_cases OP ROW-LAST some rows, with a line of output after each
 *   run_cases --list      the operations and how many rows each has
 *
 * GRAM_TEST_ISA limits it to one instruction set ("best": the best here), GRAM_NUM_THREADS sets the
 * threads (2 by default, so that a machine with many processors does not run small rows on all of
 * them).
 * GRAM_TEST_DEVICE=cuda takes the best CUDA device instead, and exits with 77 where there is none;
 * with GRAM_TEST_EMULATED it is that of tools/cudaemu, as GRAM_CUDA_LIB_DIR has it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include <stdlib.h>
#include <string.h>

/* NULL: every instruction set. */
static const char *test_isa(void)
{
    const struct harness_options any = {.threads = 1};
    const char *isa = getenv("GRAM_TEST_ISA");
    struct harness h;

    if (!isa || strcmp(isa, "best") != 0 || !harness_open(&h, &any, NULL))
        return isa;
    isa = h.isa; /* a static string */
    harness_close(&h);
    return isa;
}

static bool run(const struct case_op *op, int row, struct harness_count *sum)
{
    struct harness_options options = {
        .isa = test_isa(),
        .threads = getenv("GRAM_NUM_THREADS") ? 0 : 2,
        .device = test_asked_device(),
    };
    struct harness_count count = {0};

    if (!harness_run_table(op, row, &options, &count))
        return false;
    if (row < 0)
        printf("%s: %d rows, %d runs, %d failed\n", op->name, op->rows, count.passed + count.failed,
               count.failed);
    else
        printf("%s %d: %d runs, %d failed\n", op->name, row, count.passed + count.failed,
               count.failed);
    fflush(stdout); /* what is done is known if somebody stops the rest */
    sum->passed += count.passed;
    sum->failed += count.failed;
    return count.passed + count.failed > 0;
}

static bool run_range(const struct case_op *op, const int range[2], struct harness_count *sum)
{
    bool complete = true;

    for (int row = range[0]; row <= range[1]; row++)
        complete &= run(op, row, sum);
    return complete;
}

/* True if text is "3" or "3-7". */
static bool rows_of(const char *text, int range[2])
{
    char *end;
    long first = strtol(text, &end, 10), last = first;

    if (end != text && *end == '-') {
        text = end + 1;
        last = strtol(text, &end, 10);
    }
    if (end == text || *end || first < 0 || last < first || last > 1000000)
        return false;
    range[0] = (int)first;
    range[1] = (int)last;
    return true;
}

static int list(void)
{
    for (int i = 0; harness_ops[i]; i++)
        printf("%s %d\n", harness_ops[i]->name, harness_ops[i]->rows);
    return 0;
}

int main(int argc, char **argv)
{
    struct harness_count sum = {0};
    int range[2] = {-1, -1};
    bool complete = true;

    if (argc == 2 && strcmp(argv[1], "--list") == 0)
        return list();
    if (argc == 3 && rows_of(argv[2], range))
        argc = 2;
    for (int i = 1; i < argc; i++) {
        const struct case_op *op = harness_find(argv[i]);
        if (!op) {
            fprintf(stderr, "run_cases: no operation is called '%s'\n", argv[i]);
            return 2;
        }
        complete &= run_range(op, range, &sum);
    }
    for (int i = 0; argc == 1 && harness_ops[i]; i++)
        complete &= run(harness_ops[i], -1, &sum);
    printf("%d passed, %d failed\n", sum.passed, sum.failed);
    return !complete || sum.failed > 0 || sum.passed == 0;
}

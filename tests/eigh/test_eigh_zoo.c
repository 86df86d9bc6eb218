/*
 * test_eigh_zoo.c - every driver of gram_eigh on every kind of matrix, from underflow to overflow
 *
 * LAPACK's ratios, all pairs against a range of them, values alone against values with vectors:
 * eigh_row_check holds each against the reference with LAPACK's bound.  The drivers that are ours
 * run on every instruction set.  GRAM_TEST_DEVICE is as in run_cases.c.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/eigh_problem.h"
#include <math.h>
#include <stdlib.h>

/* Powers of two that bring norms of about 1 to where squares, or sums, overflow or vanish. */
static int exponent_of(gram_dtype dtype, int turn)
{
    static const int f32[] = {0, 62, -62, 118, -118}, f64[] = {0, 510, -510, 1010, -1010};

    return (dtype == GRAM_F32 ? f32 : f64)[turn % LENGTH(f32)];
}

static void check_row(struct harness *h, const struct eigh_row *row)
{
    static char label[128]; /* of one row at a time */

    snprintf(label, sizeof label, "%s n=%lld %s 2^%d driver %d select %d", zoo_names[row->kind],
             (long long)row->n, row->dtype == GRAM_F32 ? "f32" : "f64", row->exponent,
             (int)row->driver, (int)row->select);
    h->where = label;
    eigh_row_check(h, row);
}

/* Everything that a driver offers; a range is of n / 4 pairs in the midst. */
static void check_driver(struct harness *h, struct eigh_row row, gram_eigh_driver driver)
{
    row.driver = driver;
    check_row(h, &row);
    row.values_only = true;
    check_row(h, &row);
    row.values_only = false;
    row.select = GRAM_EIGH_INDEX;
    row.first = row.n / 3;
    row.count = row.n / 4;
    check_row(h, &row);
    row.select = GRAM_EIGH_VALUE;
    row.lower = -INFINITY, row.upper = INFINITY;
    row.count = row.n;
    check_row(h, &row);
}

static void check_sizes(struct harness *h, const int64_t *sizes, int count, bool large)
{
    for (int i = 0; i < count; i++)
        for (int kind = 0; kind < ZOO_KINDS; kind++)
            for (int dtype = GRAM_F32; dtype <= GRAM_F64; dtype++) {
                struct eigh_row row = {.n = sizes[i], .dtype = (gram_dtype)dtype};
                row.kind = (enum zoo_kind)kind;
                row.exponent = exponent_of(row.dtype, kind + i);
                harness_seed(h, "zoo", i * ZOO_KINDS + kind);
                if (large) {
                    check_driver(h, row, GRAM_EIGH_DRIVER_DIVIDE);
                    check_driver(h, row, GRAM_EIGH_DRIVER_BISECTION);
                    continue;
                }
                row.batch[0] = 5;
                if (row.n <= 3)
                    check_driver(h, row, GRAM_EIGH_DRIVER_CLOSED_FORM);
                check_driver(h, row, GRAM_EIGH_DRIVER_JACOBI);
            }
}

/* An emulated device takes too long for all: the first sizes do. */
static bool is_emulated(void)
{
    return getenv("GRAM_TEST_EMULATED") != NULL;
}

static void small_matrices(struct harness *h, void *arg)
{
    static const int64_t sizes[] = {3, 9, 21, 1, 2, 4, 31, 32};

    (void)arg;
    check_sizes(h, sizes, is_emulated() ? 2 : LENGTH(sizes), false);
}

static void large_matrices(struct harness *h, void *arg)
{
    static const int64_t sizes[] = {3, 33, 1, 2, 21, 31, 32, 63, 64, 65};

    (void)arg;
    check_sizes(h, sizes, is_emulated() ? 2 : LENGTH(sizes), true);
}

int main(void)
{
    struct harness_options options = {.threads = 2, .device = test_asked_device()};
    struct harness h;
    int failed = harness_each_isa(&options, small_matrices, NULL);

    if (failed < 0 || !harness_open(&h, &options, NULL))
        return EXIT_FAILURE;
    large_matrices(&h, NULL);
    printf("eigh_zoo: %d failed on small matrices; large: %d checks, %d failed\n", failed, h.checks,
           h.failures);
    failed += h.failures;
    harness_close(&h);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

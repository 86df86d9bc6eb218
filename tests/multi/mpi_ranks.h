/*
 * mpi_ranks.h - what tests of several processes share: MPI begun and ended around them, and their
 * communicator
 *
 * Included once a program, first.  Without MPI the program is skipped.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MPI_RANKS_H
#define GRAM_MPI_RANKS_H
#include "check/harness/harness.h"
#ifndef GRAM_TEST_MPI

int main(void)
{
    puts("skipped: built without MPI");
    return 77;
}

#else
#  include "tests/core/failing_alloc.h"
#  include <mpi.h>
#  include <string.h>

static gram_communicator *mpi_world;

/* The ranks of MPI_COMM_WORLD. */
static gram_communicator *mpi_ranks(struct harness *h)
{
    CHECK(h, mpi_world, "there is no communicator");
    return mpi_world;
}

static int mpi_rank(void)
{
    return gram_communicator_rank(mpi_world);
}

/* What a call got: every rank status; the first one, in trouble, has own in its message, the others
 * other. */
__attribute__((unused)) static void mpi_expect_refusal(struct harness *h, gram_status got,
                                                       gram_status status, const char *own,
                                                       const char *other)
{
    const char *text = mpi_rank() == 0 ? own : other;

    CHECK(h, got == status, "%s: %s", gram_status_name(got), gram_message(h->g));
    CHECK(h, strstr(gram_message(h->g), text) != NULL, "\"%s\", expected \"%s\"",
          gram_message(h->g), text);
}

/* Runs the tests on every rank; a rank on which one fails makes mpirun fail. */
static int mpi_run_tests(int *argc, char ***argv, const struct test_function *tests, int count)
{
    static struct failing_alloc alloc = FAILING_ALLOC_INIT;
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
    MPI_Comm world = MPI_COMM_WORLD;
    gram_context *g = NULL;
    int failed = 1, ranks = 0, rank = 0;

    if (MPI_Init(argc, argv) != MPI_SUCCESS)
        return 1;
    MPI_Comm_size(world, &ranks);
    MPI_Comm_rank(world, &rank);
    failing_alloc_use(&alloc, &options);
    if (gram_context_create(&options, &g) != GRAM_OK)
        fprintf(stderr, "%s\n", gram_message(NULL));
    else if (gram_communicator_create_mpi(g, &world, sizeof world, &mpi_world) != GRAM_OK)
        fprintf(stderr, "%s\n", gram_message(g));
    else if (gram_communicator_size(mpi_world) != ranks || mpi_rank() != rank)
        fprintf(stderr, "the communicator's rank or size is not MPI's\n");
    else
        failed = harness_run_tests(tests, count);
    gram_communicator_destroy(mpi_world);
    gram_context_destroy(g);
    if (alloc.live != 0 || alloc.wrong_releases != 0)
        failed = fprintf(stderr, "the communicator leaves %lld blocks, %lld released wrongly\n",
                         (long long)alloc.live, (long long)alloc.wrong_releases);
    if (MPI_Finalize() != MPI_SUCCESS || failed != 0)
        failed = 1;
    return failed;
}

#endif
#endif

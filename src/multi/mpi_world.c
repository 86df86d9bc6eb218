/*
 * mpi_world.c - the caller's communicator, or the world: MPI begun and ended for programs that do
 * not know it
 *
 * MPI can be begun once a process, and whoever begins it ends it.  Where that was done here, it is
 * ended when the process exits.  MPI_Finalize waits for all ranks; one that exits because it has
 * failed by itself, while the others wait for it in a call, ends the job instead (MPI_Abort): that
 * is how an exit status other than 0 is taken, while a communicator is still open.
 *
 * SPDX-License-Identifier: MIT
 */
#include "mpi_world.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/*
 * MPI is the process's, and so is this.  It is not one of the locks of process.h, for which fork()
 * waits: MPI_Init_thread takes long, and may itself fork, as Open MPI does for a program without
 * mpirun, which would then wait for its own thread.  A child that finds it held waits for ever; but
 * MPI does not go with fork() (gram.h), so that a child has no call that takes it.
 */
static pthread_mutex_t beginning = PTHREAD_MUTEX_INITIALIZER;
static atomic_int open_count;

void gram_mpi_count(int change)
{
    atomic_fetch_add(&open_count, change);
}

static bool running(void)
{
    int begun = 0, over = 0;

    return MPI_Initialized(&begun) == MPI_SUCCESS && MPI_Finalized(&over) == MPI_SUCCESS && begun &&
           !over;
}

static void end_world(int exit_status, void *unused)
{
    (void)unused;
    if (!running())
        return;
    if (exit_status != 0 && atomic_load(&open_count) > 0)
        (void)MPI_Abort(MPI_COMM_WORLD, exit_status);
    else
        (void)MPI_Finalize();
}

#ifdef __GLIBC__
static int at_exit(void)
{
    return on_exit(end_world, NULL);
}
#else /* no exit status: a rank that fails has to call MPI_Abort itself */
static void end_well(void)
{
    end_world(0, NULL);
}

static int at_exit(void)
{
    return atexit(end_well);
}
#endif

static gram_status begin_world(gram_context *g)
{
    int level, over = 0;

    if (running())
        return GRAM_OK;
    if (MPI_Finalized(&over) != MPI_SUCCESS || over)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "MPI is over, expected a call before "
                         "MPI_Finalize");
    TRY(gram_mpi_check(g, MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level),
                       "MPI_Init_thread"));
    if (at_exit() != 0)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot note that MPI is to be ended");
    return GRAM_OK;
}

gram_status gram_mpi_find(gram_context *g, const struct gram_mpi_ranks *ranks, MPI_Comm *out)
{
    gram_status status;

    if (ranks->kind == GRAM_MPI_WORLD) {
        pthread_mutex_lock(&beginning);
        status = begin_world(g);
        pthread_mutex_unlock(&beginning);
        *out = MPI_COMM_WORLD;
        return status;
    }
    if (ranks->kind == GRAM_MPI_COMM && ranks->bytes != sizeof(MPI_Comm))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "bytes is %zu, expected %zu: the size of an MPI_Comm of the MPI that "
                         "libgram_mpi.so was built with",
                         ranks->bytes, sizeof(MPI_Comm));
    if (!running())
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "MPI is not running, expected a call between MPI_Init and MPI_Finalize, "
                         "of the MPI that libgram_mpi.so was built with");
    *out = ranks->kind == GRAM_MPI_FORTRAN ? MPI_Comm_f2c((MPI_Fint)ranks->fortran)
                                           : *(const MPI_Comm *)ranks->comm;
    if (*out == MPI_COMM_NULL)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "mpi_comm is MPI_COMM_NULL");
    return GRAM_OK;
}

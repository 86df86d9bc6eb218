/*
 * mpi.c - the transport of a communicator over MPI: see communicator.h
 *
 * Works on a copy of the caller's communicator, whose errors come back as statuses.  An exchange is
 * one message from each rank to each, cut where MPI counts with an int: what MPI_Alltoallv does,
 * whose offsets are ints as well.
 *
 * MPI's own waits ask all the time, so that ranks that wait for one that computes alone take a
 * processor each, which that one may lack.  Here everything is begun and asked for: often at first,
 * then between naps.
 *
 * For programs that do not know MPI it is begun and ended here.  MPI can be begun once per process,
 * and whoever begins it ends it.  Where that was done here, it is ended when the process exits.
 * MPI_Finalize waits for all ranks; one that exits because it has failed by itself, while the
 * others wait for it in a call, ends the job instead (MPI_Abort): that is how an exit status other
 * than 0 is taken, while a communicator is still open.
 *
 * SPDX-License-Identifier: MIT
 */
#include "communicator.h"
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- The world, and communicators of the caller ---------------------------------------------- */

/* A failure of MPI as a status; what is the function that gave error. */
static gram_status check(gram_context *g, int error, const char *what)
{
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;

    if (error == MPI_SUCCESS)
        return GRAM_OK;
    if (MPI_Error_string(error, text, &length) != MPI_SUCCESS)
        length = 0;
    return gram_fail(g, GRAM_DEVICE_FAILED, "%s failed: %.*s", what, length, text);
}

/*
 * MPI is the process's, and so is this.  It is not one of the locks of process.h, for which fork()
 * waits: MPI_Init_thread takes long, and may itself fork, as Open MPI does for a program without
 * mpirun, which would then wait for its own thread.  A child that finds it held waits for ever; but
 * MPI does not go with fork() (gram.h), so that a child has no call that takes it.
 */
static pthread_mutex_t beginning = PTHREAD_MUTEX_INITIALIZER;
static atomic_int open_count;

/* One more communicator that is open, or one less. */
static void count_open(int change)
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
                         "MPI has ended, expected a call before MPI_Finalize");
    TRY(check(g, MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread"));
    if (at_exit() != 0)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot register the function that ends MPI");
    return GRAM_OK;
}

/* The communicator of a handle, where MPI runs; for the world MPI is initialised. */
static gram_status find_comm(gram_context *g, const struct gram_mpi_ranks *ranks, MPI_Comm *out)
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
                         "bytes is %zu, expected %zu, the size of an MPI_Comm of the MPI with "
                         "which libgram_mpi.so was built",
                         ranks->bytes, sizeof(MPI_Comm));
    if (!running())
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "MPI is not initialised, expected a call between MPI_Init and "
                         "MPI_Finalize of the MPI with which libgram_mpi.so was built");
    *out = ranks->kind == GRAM_MPI_FORTRAN ? MPI_Comm_f2c((MPI_Fint)ranks->fortran)
                                           : *(const MPI_Comm *)ranks->comm;
    if (*out == MPI_COMM_NULL)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "mpi_comm is MPI_COMM_NULL");
    return GRAM_OK;
}

/* ---- The transport --------------------------------------------------------------------------- */

enum {
    PIECE = 1 << 30, /* most bytes of a message */
    TAG = 1,
    LONG_NAP = 1000000, /* ns, the longest in an agreement, to which ranks come after their work */
    NAP = 50000         /* where data are on their way, which MPI moves only while it is asked */
};

struct mpi_state {
    MPI_Comm comm;
    MPI_Request *requests; /* two per rank */
    size_t bytes;          /* of the requests */
};

/* Waits for what was begun, with naps of at most so many ns. */
static gram_status wait_for(gram_context *g, int count, MPI_Request *requests, int64_t nap)
{
    const int64_t start = gram_nanoseconds();
    int done = 0;

    for (;;) {
        TRY(check(g, MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE), "MPI_Testall"));
        if (done)
            return GRAM_OK;
        gram_wait_a_little(gram_nanoseconds() - start, nap);
    }
}

static gram_status largest(gram_context *g, gram_communicator *c, int64_t *values, int count)
{
    struct mpi_state *state = c->state;
    MPI_Request request;

    /* NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker): wait_for tests it until it is done */
    TRY(check(
        g, MPI_Iallreduce(MPI_IN_PLACE, values, count, MPI_INT64_T, MPI_MAX, state->comm, &request),
        "MPI_Iallreduce"));
    return wait_for(g, 1, &request, LONG_NAP);
    /* NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker) */
}

static void close_mpi(gram_context *g, gram_communicator *c)
{
    struct mpi_state *state = c->state;
    int over = 1;

    if (!state)
        return;
    if (MPI_Finalized(&over) == MPI_SUCCESS && !over)
        (void)MPI_Comm_free(&state->comm);
    count_open(-1);
    gram_free(g, state->requests, state->bytes);
    gram_free(g, state, sizeof *state);
    c->state = NULL;
}

static gram_status allocate(gram_context *g, int ranks, struct mpi_state **out)
{
    struct mpi_state *state = gram_alloc(g, sizeof *state);
    size_t bytes = 2 * (size_t)ranks * sizeof *state->requests;
    MPI_Request *requests = state ? gram_alloc(g, bytes) : NULL;

    *out = NULL;
    if (!requests) {
        gram_free(g, state, sizeof *state);
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    }
    *state = (struct mpi_state){.comm = MPI_COMM_NULL, .requests = requests, .bytes = bytes};
    *out = state;
    return GRAM_OK;
}

/* The ranks that have opened this library: all of them, or nobody goes on. */
static gram_status copy_comm(gram_context *g, MPI_Comm comm, const gram_communicator *c,
                             MPI_Comm *copy)
{
    int count = 0;

    TRY(check(g, MPI_Comm_split(comm, GRAM_MPI_OPENED, c->rank, copy), "MPI_Comm_split"));
    TRY(check(g, MPI_Comm_size(*copy, &count), "MPI_Comm_size"));
    if (count < c->size)
        return gram_fail(g, GRAM_UNSUPPORTED, "%d of %d ranks cannot load libgram_mpi.so",
                         c->size - count, c->size);
    return check(g, MPI_Comm_set_errhandler(*copy, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

/* The ranks tell each other that they have memory. */
static gram_status take_memory(gram_context *g, gram_communicator *c, MPI_Comm copy)
{
    struct mpi_state *state = NULL;
    gram_status status = allocate(g, c->size, &state);
    int failed = status != GRAM_OK;
    int error = MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, copy);

    if (status == GRAM_OK)
        status = check(g, error, "MPI_Allreduce");
    if (status == GRAM_OK && failed)
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "another rank could not allocate its state");
    if (status == GRAM_OK) {
        state->comm = copy;
        c->state = state;
    } else if (state) {
        gram_free(g, state->requests, state->bytes);
        gram_free(g, state, sizeof *state);
    }
    return status;
}

static gram_status open_mpi(gram_context *g, const void *handle, size_t bytes, gram_communicator *c)
{
    MPI_Comm comm = MPI_COMM_NULL, copy = MPI_COMM_NULL;
    gram_status status;

    (void)bytes;
    TRY(find_comm(g, handle, &comm));
    TRY(check(g, MPI_Comm_rank(comm, &c->rank), "MPI_Comm_rank"));
    TRY(check(g, MPI_Comm_size(comm, &c->size), "MPI_Comm_size"));
    status = copy_comm(g, comm, c, &copy);
    if (status == GRAM_OK)
        status = take_memory(g, c, copy);
    if (status != GRAM_OK && copy != MPI_COMM_NULL)
        (void)MPI_Comm_free(&copy);
    if (status == GRAM_OK)
        count_open(1);
    return status;
}

/* ---- The exchange ---------------------------------------------------------------------------- */

static int piece_of(size_t bytes, size_t done)
{
    size_t left = bytes > done ? bytes - done : 0;

    return (int)(left < PIECE ? left : PIECE);
}

/* Starts what is left of every chunk behind its first done bytes; gives the number of requests. */
static gram_status start(gram_context *g, const gram_communicator *c, const struct gram_exchange *e,
                         size_t done, int *requests)
{
    struct mpi_state *state = c->state;
    const char *from = e->send;
    char *to = e->receive;
    int piece;

    *requests = 0;
    for (int rank = 0; rank < c->size; rank++) {
        piece = piece_of(e->receive_bytes[rank], done);
        if (piece > 0 && rank != c->rank)
            TRY(check(g,
                      MPI_Irecv(to + done, piece, MPI_BYTE, rank, TAG, state->comm,
                                &state->requests[(*requests)++]),
                      "MPI_Irecv"));
        to += e->receive_bytes[rank];
    }
    for (int rank = 0; rank < c->size; rank++) {
        piece = piece_of(e->send_bytes[rank], done);
        if (piece > 0 && rank != c->rank)
            TRY(check(g,
                      MPI_Isend(from + done, piece, MPI_BYTE, rank, TAG, state->comm,
                                &state->requests[(*requests)++]),
                      "MPI_Isend"));
        from += e->to_all ? 0 : e->send_bytes[rank];
    }
    return GRAM_OK;
}

static void keep_own(const gram_communicator *c, const struct gram_exchange *e)
{
    const char *from = e->send;
    char *to = e->receive;

    for (int rank = 0; rank < c->rank; rank++)
        from += e->to_all ? 0 : e->send_bytes[rank], to += e->receive_bytes[rank];
    if (e->send_bytes[c->rank] > 0 && from != to)
        memcpy(to, from, e->send_bytes[c->rank]);
}

static gram_status exchange(gram_context *g, gram_communicator *c, const struct gram_exchange *e)
{
    struct mpi_state *state = c->state;
    int requests = 1;

    keep_own(c, e);
    for (size_t done = 0; requests > 0; done += PIECE) {
        TRY(start(g, c, e, done, &requests));
        TRY(wait_for(g, requests, state->requests, NAP));
    }
    return GRAM_OK;
}

GRAM_PUBLIC extern const struct gram_transport gram_mpi_transport;

const struct gram_transport gram_mpi_transport = {
    .version = GRAM_VERSION,
    .name = "MPI",
    .open = open_mpi,
    .close = close_mpi,
    .largest = largest,
    .exchange = exchange,
};

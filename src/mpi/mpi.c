/*
 * mpi.c - the transport of a communicator over MPI: see communicator.h
 *
 * Works on a copy of the caller's communicator, whose errors come back as statuses.  An exchange is
 * one message from each rank to each, cut where MPI counts with an int: what MPI_Alltoallv does,
 * whose offsets are ints as well.
 *
 * SPDX-License-Identifier: MIT
 */
#include "../communicator.h"
#include <mpi.h>
#include <string.h>

enum {
    PIECE = 1 << 30, /* most bytes of a message */
    TAG = 1
};

struct mpi_state {
    MPI_Comm comm;
    MPI_Request *requests; /* two a rank */
    size_t bytes;          /* of the requests */
};

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

static gram_status check_running(gram_context *g, size_t bytes)
{
    int begun = 0, over = 0;

    if (bytes != sizeof(MPI_Comm))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "bytes is %zu, expected %zu: the size of an MPI_Comm of the MPI that "
                         "libgram_mpi.so was built with",
                         bytes, sizeof(MPI_Comm));
    if (MPI_Initialized(&begun) != MPI_SUCCESS || MPI_Finalized(&over) != MPI_SUCCESS || !begun ||
        over)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "MPI is not running, expected a call between MPI_Init and MPI_Finalize");
    return GRAM_OK;
}

static gram_status largest(gram_context *g, gram_communicator *c, int64_t *values, int count)
{
    struct mpi_state *state = c->state;

    return check(g, MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_INT64_T, MPI_MAX, state->comm),
                 "MPI_Allreduce");
}

static void close_mpi(gram_context *g, gram_communicator *c)
{
    struct mpi_state *state = c->state;
    int over = 1;

    if (!state)
        return;
    if (MPI_Finalized(&over) == MPI_SUCCESS && !over)
        (void)MPI_Comm_free(&state->comm);
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

/* The ranks tell each other that they have memory before they make the copy together. */
static gram_status open_mpi(gram_context *g, const void *handle, size_t bytes, gram_communicator *c)
{
    struct mpi_state *state = NULL;
    gram_status status;
    MPI_Comm comm;
    int failed;

    TRY(check_running(g, bytes));
    comm = *(const MPI_Comm *)handle;
    if (comm == MPI_COMM_NULL)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "mpi_comm is MPI_COMM_NULL");
    TRY(check(g, MPI_Comm_rank(comm, &c->rank), "MPI_Comm_rank"));
    TRY(check(g, MPI_Comm_size(comm, &c->size), "MPI_Comm_size"));
    status = allocate(g, c->size, &state);
    failed = status != GRAM_OK;
    if (MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, comm) != MPI_SUCCESS)
        failed = 1;
    if (status == GRAM_OK && failed)
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "another rank cannot allocate its state");
    if (status == GRAM_OK)
        status = check(g, MPI_Comm_dup(comm, &state->comm), "MPI_Comm_dup");
    if (status == GRAM_OK)
        status = check(g, MPI_Comm_set_errhandler(state->comm, MPI_ERRORS_RETURN),
                       "MPI_Comm_set_errhandler");
    c->state = state;
    if (status != GRAM_OK && state && state->comm == MPI_COMM_NULL) {
        gram_free(g, state->requests, state->bytes);
        gram_free(g, state, sizeof *state);
        c->state = NULL;
    }
    return status;
}

/* ---- The exchange -------------------------------------------------------------------------- */

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
        from += e->send_bytes[rank];
    }
    return GRAM_OK;
}

static void keep_own(const gram_communicator *c, const struct gram_exchange *e)
{
    const char *from = e->send;
    char *to = e->receive;

    for (int rank = 0; rank < c->rank; rank++)
        from += e->send_bytes[rank], to += e->receive_bytes[rank];
    if (e->send_bytes[c->rank] > 0)
        memcpy(to, from, e->send_bytes[c->rank]);
}

static gram_status exchange(gram_context *g, gram_communicator *c, const struct gram_exchange *e)
{
    struct mpi_state *state = c->state;
    int requests = 1;

    keep_own(c, e);
    for (size_t done = 0; requests > 0; done += PIECE) {
        TRY(start(g, c, e, done, &requests));
        TRY(check(g, MPI_Waitall(requests, state->requests, MPI_STATUSES_IGNORE), "MPI_Waitall"));
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

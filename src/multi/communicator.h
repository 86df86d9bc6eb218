/*
 * communicator.h - what calls of several processes need of a transport
 *
 * Private: a transport is a part of a plugin that is built from this tree.  There are two
 * collective operations, of which every rank calls the same ones in the same order.  What is
 * exchanged is memory of the transport's device.  On a GPU an exchange is queued on the context's
 * stream, and one to which a rank does not come stays there until all ranks abandon it.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_COMMUNICATOR_H
#define GRAM_COMMUNICATOR_H
#include "core/context.h"
#include <sched.h>
#include <string.h>
#include <time.h>

/* Chunks for every rank, one after the other in its order, this one included; or one chunk that all
 * of them get, with to_all, which may already lie in its place of receive. */
struct gram_exchange {
    const char *send;
    char *receive;
    const size_t *send_bytes, *receive_bytes; /* one per rank */
    bool to_all;
};

struct gram_transport {
    const char *version; /* GRAM_VERSION where it was built; another one is refused */
    const char *name;    /* for messages */
    gram_device_type device;
    /* NULL where the handle of open needs none. */
    gram_status (*make_id)(gram_context *g, void *id);
    /* Sets rank, size and state from the caller's handle; undone by close. */
    gram_status (*open)(gram_context *g, const void *handle, size_t bytes, gram_communicator *c);
    void (*close)(gram_context *g, gram_communicator *c);
    /* A failure that was met in the background; NULL: there is no background. */
    gram_status (*look)(gram_context *g, gram_communicator *c);
    /* Each of count values becomes the largest of all ranks. */
    gram_status (*largest)(gram_context *g, gram_communicator *c, int64_t *values, int count);
    gram_status (*exchange)(gram_context *g, gram_communicator *c, const struct gram_exchange *e);
    /* Ends the exchanges that are queued and the communicator with them; NULL: none are. */
    void (*abandon)(gram_communicator *c);
};

/* The handle of MPI's transport: one of the three ways to name a communicator. */
enum gram_mpi_kind {
    GRAM_MPI_COMM,    /* comm, of bytes */
    GRAM_MPI_FORTRAN, /* by its handle in Fortran */
    GRAM_MPI_WORLD    /* MPI_COMM_WORLD; MPI is initialised where nobody has */
};

struct gram_mpi_ranks {
    enum gram_mpi_kind kind;
    const void *comm;
    size_t bytes;
    int fortran;
};

/* What a rank gives to MPI_Comm_split when a communicator is made: those with the library find each
 * other, and see whether they are all. */
enum {
    GRAM_MPI_OPENED = 0,
    GRAM_MPI_ABSENT = 1
};

/* The handle of NCCL's transport. */
struct gram_nccl_rank {
    const void *id; /* GRAM_NCCL_ID_BYTES */
    int rank, size;
    double timeout; /* seconds; may be infinite */
};

/*
 * Gives the processor away between two looks at whether other ranks have come, `passed` ns after
 * the first look: others of the same host may need it to come.  What is short is not slept through,
 * and a nap of an eighth of the wait, of at most `most` ns, makes no wait much longer.
 */
static inline void gram_wait_a_little(int64_t passed, int64_t most)
{
    const int64_t eighth = passed / 8;
    const struct timespec nap = {.tv_nsec = (long)(eighth < most ? eighth : most)};

    if (passed < 200000)
        (void)sched_yield();
    else
        (void)nanosleep(&nap, NULL);
}

struct gram_communicator {
    gram_context *g; /* whose memory it lives in */
    const struct gram_transport *transport;
    void *plugin; /* its handle */
    void *state;  /* the transport's own */
    int rank, size;
    size_t *send_bytes, *receive_bytes; /* one per rank: for an exchange */
    int64_t *rows[2];                   /* likewise: rows of x and y that each rank has in a call */
};

struct gram_plugin;

/* Opens the transport of a plugin and makes a communicator of it, or none on any rank. */
gram_status gram_communicator_open(gram_context *g, const struct gram_plugin *plugin,
                                   const void *handle, size_t bytes, gram_communicator **out);

/* Something that must be the same on all ranks. */
struct gram_common {
    const char *name; /* for messages, as "the rows of factors[%d]" */
    int index;        /* its %d, or -1 */
    int64_t value;
};

enum {
    GRAM_MAX_COMMON = 64
};

/* The ranks tell each other how they fare and what they have in common.  Gives GRAM_OK on all of
 * them, or on none: status where it is a failure, else that of the rank whose is the worst, or
 * GRAM_INVALID_ARGUMENT where a value is not the same everywhere.  All agreements look the same to
 * the transport, so that a rank in trouble may be at another one than the others. */
gram_status gram_agree(gram_context *g, gram_communicator *c, gram_status status,
                       const struct gram_common *common, int count);

enum {
    GRAM_MAX_SHARED = 2 * GRAM_MAX_COMMON
};

/* An agreement in which the numbers of the first rank, or the largest ones, come to all.  It looks
 * like any other one to the transport. */
gram_status gram_share(gram_context *g, gram_communicator *c, gram_status status, bool largest,
                       int64_t *numbers, int count);

/* The message of a context without the name of the call, which that of another rank has too. */
const char *gram_bare_message(const gram_context *g);

/* A number of every rank, 0 or more: in all, one per rank.  All ranks have just agreed. */
gram_status gram_tell_all(gram_context *g, gram_communicator *c, int64_t number, int64_t *all);

/* How many rows each rank has of a side, to c->rows[side]: *first is how many are of the ranks
 * before this one, and *total how many all have, INT64_MAX where these are more.  All ranks have
 * just agreed. */
gram_status gram_count_rows(gram_context *g, gram_communicator *c, int side, int64_t own,
                            int64_t *first, int64_t *total);

/* A number as what ranks have in common. */
static inline int64_t gram_bits_of(double value)
{
    int64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Rows of all ranks on each of them, rows[i] from rank i, of row_bytes: a rank's own already lie in
 * their place of memory. */
gram_status gram_gather_rows(gram_context *g, gram_communicator *c, const int64_t *rows,
                             size_t row_bytes, void *memory);

/* What each rank has for the rows of all, in `from`, goes to the ranks of these rows: in `to` are
 * those of this rank, as rank 0, 1, .. sent them. */
gram_status gram_scatter_rows(gram_context *g, gram_communicator *c, const int64_t *rows,
                              size_t row_bytes, const void *from, void *to);

/* Ends a call in which exchanges may be queued that wait for a rank that has failed. */
gram_status gram_agree_or_abandon(gram_context *g, gram_communicator *c, gram_status status);

/* Refuses a communicator that cannot exchange memory of this context. */
gram_status gram_check_transport(gram_context *g, const gram_communicator *c);
#endif

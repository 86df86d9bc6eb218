/*
 * multi.h - calls of several devices and several processes: lists of matrices, communicators
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PUBLIC_MULTI_H
#define GRAM_PUBLIC_MULTI_H
#include "core.h"
#include "eigh.h"
#include "linalg.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Many matrices on several devices ------------------------------------------------------- */

/* What became of a matrix of a list. */
typedef struct gram_many_item {
    gram_status status;
    int32_t context;   /* of the group, counted from 0, that it was given to */
    char message[248]; /* why it failed; else "" */
} gram_many_item;

typedef struct gram_many {
    size_t size;
    int64_t count;             /* of matrices: the length of every list */
    gram_many_item *items;     /* gets what became of each; or NULL */
    gram_tensor *const *found; /* gram_eigh_many with GRAM_EIGH_VALUE: options.found of each */
    gram_tensor *const *error; /* gram_matrix_power_many: options.error of each; or NULL */
} gram_many;

/* clang-format off */
#define GRAM_MANY_INIT GRAM_SIZED_(gram_many)
/* clang-format on */

/*
 * gram_eigh of many matrices (or batches) of any orders, shared by the contexts of a group: what
 * the call computes for a[i] is gram_eigh(contexts[c], a[i], options, values[i], vectors[i],
 * info[i]).  vectors and info, or elements of them, may be NULL: not wanted.
 *
 * Which context c takes a matrix depends on the sizes alone: the longest first (n^3 times the
 * items of its batch, the first of equal ones first), each to the context that would be done with
 * it soonest by its speed, the first of equal ones.  Each context has a thread for its share, the
 * first one the caller's; where no thread can be had, the caller's does it afterwards.
 *
 * Tensors lie on the CPU or on any CUDA device, also on different ones, whatever their strides;
 * what is not on the device of the matrix's context is copied there and back, which takes memory
 * for it beside the workspace.  A matrix with a tensor on a CUDA device needs a context on one
 * (GRAM_INVALID_ARGUMENT).  Outputs share memory with nothing else, except that vectors[i] may be
 * a[i].
 *
 * The call waits: first for the streams of all contexts, then for the results.  A matrix that fails
 * leaves the others alone; its outputs are as gram_eigh says.  The status and the message are those
 * of the first in the list that failed.  options: found and report must be NULL, background is
 * ignored.  Without a context see gram_message(NULL).  GRAM_OUT_OF_MEMORY, GRAM_INVALID_ARGUMENT:
 * also before anything is done, items is untouched then.
 */
GRAM_API gram_status gram_eigh_many(const gram_group *group, const gram_many *many,
                                    const gram_tensor *const *a, const gram_eigh_options *options,
                                    gram_tensor *const *values, gram_tensor *const *vectors,
                                    gram_tensor *const *info);

/*
 * The same of gram_matrix_power: out[i] is what gram_matrix_power(contexts[c], a[i], options,
 * out[i], info[i]) gives; info, or elements of it, may be NULL.  The ridge is a number;
 * options.error must be NULL (many.error has a tensor for each).
 */
GRAM_API gram_status gram_matrix_power_many(const gram_group *group, const gram_many *many,
                                            const gram_tensor *const *a,
                                            const gram_matrix_power_options *options,
                                            gram_tensor *const *out, gram_tensor *const *info);

/* ---- Communicators ------------------------------------------------------------------------- */

/*
 * The processes that share the work of a call, made from the caller's MPI communicator: mpi_comm
 * points to an MPI_Comm of bytes = sizeof(MPI_Comm), so that gram.h needs no mpi.h.  MPI must be
 * initialised, and be the one that libgram_mpi.so was built with; that library is opened here, and
 * GRAM_UNSUPPORTED says, on all ranks, that one of them cannot open it.  Every rank of mpi_comm
 * calls this; what it makes has a copy of the communicator, whose messages meet no others.  *out is
 * NULL on an error, which every rank gets if one on which MPI runs fails.
 *
 * g must outlive it.  It serves one call at a time.  Every rank destroys it, before MPI_Finalize;
 * NULL is allowed.
 */
GRAM_API gram_status gram_communicator_create_mpi(gram_context *g, const void *mpi_comm,
                                                  size_t bytes, gram_communicator **out);

/* The same of a communicator's handle in Fortran, an INTEGER: MPI_Comm_c2f(comm), and of mpi4py
 * comm.py2f(). */
GRAM_API gram_status gram_communicator_create_mpi_fortran(gram_context *g, int mpi_comm,
                                                          gram_communicator **out);

/*
 * The same of MPI_COMM_WORLD, for programs that do not call MPI: all processes that mpirun has
 * started, or one without mpirun.  Where MPI has not been initialised it is, in this call
 * (MPI_Init_thread), and ended when the process exits: by MPI_Finalize, which waits for all ranks;
 * with an exit status other than 0 and a communicator that was not destroyed by MPI_Abort, so that
 * no rank waits for one that has failed (glibc's on_exit; elsewhere by MPI_Finalize alone).
 *
 * A rank that cannot load libgram_mpi.so gets GRAM_UNSUPPORTED.  With the two functions above the
 * others get it too.  Here it knows nothing of MPI, and the others wait in MPI_Init until it
 * exits, which mpirun takes as the end of the job.
 */
GRAM_API gram_status gram_communicator_create_mpi_world(gram_context *g, gram_communicator **out);

/* Bytes of an id of NCCL. */
#define GRAM_NCCL_ID_BYTES 128

/*
 * An id for a new communicator over NCCL: GRAM_NCCL_ID_BYTES bytes, made once and brought to all
 * ranks by the caller (a file, a socket, a broadcast).  g is a context of a GPU.  NCCL
 * (libnccl.so.2, 2.14 or newer, as PyTorch's wheels bring it) is opened when it is first needed;
 * GRAM_UNSUPPORTED says that it cannot be.
 */
GRAM_API gram_status gram_nccl_id(gram_context *g, void *id, size_t bytes);

typedef struct gram_nccl_options {
    size_t size;
    double timeout; /* seconds that a rank waits for the others to come; 0: 600; may be infinite */
} gram_nccl_options;

#define GRAM_NCCL_OPTIONS_INIT   \
  {                              \
    sizeof(gram_nccl_options), 0 \
  }

/*
 * Rank `rank` of `size`, whose memory is that of g's GPU: every rank calls this with one id, in
 * processes or in threads of their own, with a GPU each, and waits for the others.  bytes is
 * GRAM_NCCL_ID_BYTES.  options NULL: the defaults.  *out is NULL on an error; a rank that does not
 * come is one for the others when their timeout is over.
 *
 * Calls with such a communicator take the context it was made with, on a thread for each rank.  A
 * call waits until all ranks have come, not for any work of a device: that is queued on the
 * contexts' streams.  A failure that NCCL meets in the background is an error of the next call on
 * all ranks.  After a rank failed behind the first exchange of a call, or a timeout, the
 * communicator is given up (ncclCommAbort): what of it runs on the GPUs ends, and every later call
 * fails.
 */
GRAM_API gram_status gram_communicator_create_nccl(gram_context *g, const void *id, size_t bytes,
                                                   int rank, int size,
                                                   const gram_nccl_options *options,
                                                   gram_communicator **out);

/*
 * The same for all ranks in this process: out[i] is rank i, of contexts[i], each of another GPU.
 * count is 64 at most.  Messages of errors are in contexts[0].
 */
GRAM_API gram_status gram_communicator_create_nccl_all(gram_context *const *contexts, int count,
                                                       const gram_nccl_options *options,
                                                       gram_communicator **out);

/* Every rank destroys its own, before its context and, over MPI, before MPI_Finalize. */
GRAM_PUBLIC void gram_communicator_destroy(gram_communicator *communicator);

/* Of this process, from 0 on, and their number; -1 and 0 of NULL. */
GRAM_PUBLIC int gram_communicator_rank(const gram_communicator *communicator);
GRAM_PUBLIC int gram_communicator_size(const gram_communicator *communicator);

/*
 * The ranks tell each other how they fare, and wait for that: GRAM_OK if status is GRAM_OK on all
 * of them.  A rank whose own is not gets it back, and its context's message stays; the others get
 * that of the rank whose is the worst, in a message that names the rank.
 *
 * For what a caller does by itself on each rank, as reading files.  A rank that cannot even make
 * the arguments of gram_kron_matmul_multi calls this with a failure in its place, which fails on
 * the others then.
 */
GRAM_API gram_status gram_communicator_agree(gram_context *g, gram_communicator *communicator,
                                             gram_status status);

/*
 * Brings bytes of all ranks to rank 0: those of rank 0, then those of rank 1, and so on.  bytes may
 * differ from rank to rank; into has room bytes on rank 0, enough for the sum of all, and is not
 * used on the others.  Memory of the CPU, over MPI.  An error of one rank is one on all of them.
 */
GRAM_API gram_status gram_communicator_gather(gram_context *g, gram_communicator *communicator,
                                              const void *data, size_t bytes, void *into,
                                              size_t room);

#ifdef __cplusplus
}
#endif
#endif

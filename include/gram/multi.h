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

/* The outcome for one matrix of a list. */
typedef struct gram_many_item {
    gram_status status;
    int32_t context;   /* the index in the group of the context that computed it */
    char message[248]; /* the reason why it failed; otherwise "" */
} gram_many_item;

typedef struct gram_many {
    size_t size;
    int64_t count;             /* the number of matrices, which is the length of every list */
    gram_many_item *items;     /* receives the outcome for each; or NULL */
    gram_tensor *const *found; /* gram_eigh_many with GRAM_EIGH_VALUE: options.found for each */
    gram_tensor *const *error; /* gram_matrix_power_many: options.error for each; or NULL */
} gram_many;

/* clang-format off */
#define GRAM_MANY_INIT GRAM_SIZED_(gram_many)
/* clang-format on */

/*
 * gram_eigh for many matrices (or batches) of any orders, which the contexts of a group share.  For
 * a[i] the call computes gram_eigh(contexts[c], a[i], options, values[i], vectors[i], info[i]).
 * vectors and info, and elements of them, may be NULL (not wanted).
 *
 * The assignment of matrices to contexts depends only on the sizes.  Matrices are assigned in the
 * order of their work (n^3 times the items of the batch), the largest first, each to the context
 * that would finish it first according to its speed; of equals, the first in its list is taken.
 * Each context has a thread for its share, and that of the first context is the calling thread.  If
 * a thread cannot be created, the calling thread does its share afterwards.
 *
 * Each tensor lies on the CPU or on any CUDA device, with any strides.  A tensor that is not on the
 * device of its context is copied there and back, which needs memory in addition to the workspace.
 * A matrix with a tensor on a CUDA device needs a context on a CUDA device (GRAM_INVALID_ARGUMENT).
 * Outputs must not share memory with anything else, except that vectors[i] may be a[i].
 *
 * The call waits first for the streams of all contexts, and then for the results.  A matrix that
 * fails does not affect the others, and its outputs are those that gram_eigh describes.  The status
 * and the message are those of the first matrix in the list that failed.  options.found and
 * options.report must be NULL, and options.background is ignored.  If there is no context,
 * gram_message(NULL) has the message.  GRAM_OUT_OF_MEMORY and GRAM_INVALID_ARGUMENT may also be
 * returned before any work is done; items is then unchanged.
 */
GRAM_API gram_status gram_eigh_many(const gram_group *group, const gram_many *many,
                                    const gram_tensor *const *a, const gram_eigh_options *options,
                                    gram_tensor *const *values, gram_tensor *const *vectors,
                                    gram_tensor *const *info);

/*
 * The same for gram_matrix_power: for a[i] the call computes gram_matrix_power(contexts[c], a[i],
 * options, out[i], info[i]).  info, and elements of it, may be NULL.  The ridge is a number, and
 * options.error must be NULL, since many.error has one tensor per matrix.
 */
GRAM_API gram_status gram_matrix_power_many(const gram_group *group, const gram_many *many,
                                            const gram_tensor *const *a,
                                            const gram_matrix_power_options *options,
                                            gram_tensor *const *out, gram_tensor *const *info);

/* ---- Pairs of a kernel matrix by several ranks ---------------------------------------------- */

/*
 * gram_eigh_kernel, computed by the ranks of a communicator (see below).  Each rank calls it with
 * its rows of x and of vectors (or NULL), any number of them, or none: the points are those of all
 * ranks, rank by rank.  All ranks get the same values, options.report and info.  There are no
 * batches, and the dtype is f32 or f64.
 *
 * The products are shared as in gram_kernel_matmul_multi; besides, each rank has the points of all,
 * and does the rest of the method, whose basis it holds.  Each product brings its rows to all.
 * Everything that the ranks give is compared, apart from what lies in tensors.  Ranks need
 * processors of one kind: it is they who find how many products are needed, and all of them get
 * GRAM_NUMERICAL where they come to different numbers.  An error on one rank is one on all of them,
 * with a message that names the rank and its reason.  The call waits for its work.
 */
GRAM_API gram_status gram_eigh_kernel_multi(gram_context *g, gram_communicator *communicator,
                                            const gram_tensor *x, const gram_kernel_options *kernel,
                                            const gram_eigh_options *options, gram_tensor *values,
                                            gram_tensor *vectors, gram_tensor *info);

/* ---- Communicators ------------------------------------------------------------------------- */

/*
 * Creates a communicator, which is the set of processes that share the work of a call, from the
 * caller's MPI communicator.  mpi_comm points to an MPI_Comm, and bytes is sizeof(MPI_Comm); gram.h
 * therefore does not need mpi.h.  MPI must be initialised, and must be the MPI with which
 * libgram_mpi.so was built.  That library is loaded here; if one rank cannot load it, all ranks get
 * GRAM_UNSUPPORTED.  Every rank of mpi_comm must make this call.  The result has a duplicate of the
 * MPI communicator, so that its messages do not mix with others.  On an error *out is NULL, and all
 * ranks on which MPI runs get the error if one of them fails.
 *
 * g must outlive the communicator, which serves one call at a time.  Every rank must destroy it
 * before MPI_Finalize.
 */
GRAM_API gram_status gram_communicator_create_mpi(gram_context *g, const void *mpi_comm,
                                                  size_t bytes, gram_communicator **out);

/* The same for the Fortran handle of an MPI communicator, which is an INTEGER:
 * MPI_Comm_c2f(comm) in C, comm.py2f() in mpi4py. */
GRAM_API gram_status gram_communicator_create_mpi_fortran(gram_context *g, int mpi_comm,
                                                          gram_communicator **out);

/*
 * The same for MPI_COMM_WORLD, for programs that do not call MPI: all processes that mpirun has
 * started, or one process without mpirun.  If MPI is not initialised, this call initialises it
 * (MPI_Init_thread), and it is ended when the process exits.  It is ended by MPI_Finalize, which
 * waits for all ranks; but by MPI_Abort if the exit status is not 0 and a communicator was not
 * destroyed, so that no rank waits for one that has failed (this needs on_exit of glibc; elsewhere
 * it is always MPI_Finalize).
 *
 * A rank that cannot load libgram_mpi.so gets GRAM_UNSUPPORTED.  With the two functions above, the
 * other ranks get it too.  Here that rank cannot use MPI, and the others wait in MPI_Init until it
 * exits, at which mpirun ends the job.
 */
GRAM_API gram_status gram_communicator_create_mpi_world(gram_context *g, gram_communicator **out);

/* The number of bytes in an id of NCCL. */
#define GRAM_NCCL_ID_BYTES 128

/*
 * Creates an id for a new communicator over NCCL, of GRAM_NCCL_ID_BYTES bytes.  One rank creates
 * it, and the caller sends it to all ranks (by a file, a socket or a broadcast).  g is a context of
 * a GPU. NCCL (libnccl.so.2, 2.14 or newer, which PyTorch's wheels contain) is loaded when it is
 * first needed; GRAM_UNSUPPORTED means that it cannot be loaded.
 */
GRAM_API gram_status gram_nccl_id(gram_context *g, void *id, size_t bytes);

typedef struct gram_nccl_options {
    size_t size;
    double timeout; /* seconds that a rank waits for the others; 0: 600; may be infinite */
} gram_nccl_options;

#define GRAM_NCCL_OPTIONS_INIT   \
  {                              \
    sizeof(gram_nccl_options), 0 \
  }

/*
 * Creates rank `rank` of a communicator of `size` ranks over NCCL.  Each rank has its own GPU, that
 * of g, and its own process or thread.  All ranks make this call with the same id, and wait for
 * each other.  bytes is GRAM_NCCL_ID_BYTES.  options NULL means the defaults.  *out is NULL on an
 * error.  If a rank does not make the call, the others get an error after their timeout.
 *
 * Calls with such a communicator take the context with which it was created, on one thread per
 * rank.  A call waits until all ranks have made it, but not for work on a device, which is queued
 * on the streams of the contexts.  A failure that NCCL detects in the background is an error of the
 * next call on all ranks.  After a timeout, or after a rank has failed behind the first exchange of
 * a call, the communicator is aborted (ncclCommAbort): its work on the GPUs ends, and every later
 * call fails.  So it is where a rank dies while its data are awaited: a thread of the communicator
 * sees that the GPU has been in one exchange for longer than the timeout, so that whoever waits for
 * the stream goes on; what was to be received is undefined then, and the next call says why.
 */
GRAM_API gram_status gram_communicator_create_nccl(gram_context *g, const void *id, size_t bytes,
                                                   int rank, int size,
                                                   const gram_nccl_options *options,
                                                   gram_communicator **out);

/*
 * The same for all ranks in this process: out[i] is rank i, with contexts[i], and each context has
 * its own GPU.  count is at most 64.  contexts[0] holds the error messages.
 */
GRAM_API gram_status gram_communicator_create_nccl_all(gram_context *const *contexts, int count,
                                                       const gram_nccl_options *options,
                                                       gram_communicator **out);

/* Every rank destroys its own communicator, before its context and, over MPI, before
 * MPI_Finalize. */
GRAM_PUBLIC void gram_communicator_destroy(gram_communicator *communicator);

/* The rank of this process, counted from 0, and the number of ranks.  They are -1 and 0 for
 * NULL. */
GRAM_PUBLIC int gram_communicator_rank(const gram_communicator *communicator);
GRAM_PUBLIC int gram_communicator_size(const gram_communicator *communicator);

/*
 * The ranks exchange their status, and wait for each other.  The result is GRAM_OK if status is
 * GRAM_OK on all of them.  A rank with another status gets its own status back, and its context
 * keeps its message.  The other ranks get the most severe status, with a message that names its
 * rank.
 *
 * This is meant for work that the caller does on each rank, such as reading files.  A rank that
 * cannot prepare the arguments of gram_kron_matmul_multi calls this function with a failure
 * instead, and gram_kron_matmul_multi then fails on the other ranks.
 */
GRAM_API gram_status gram_communicator_agree(gram_context *g, gram_communicator *communicator,
                                             gram_status status);

/*
 * Gathers bytes of all ranks on rank 0: those of rank 0, then those of rank 1, and so on.  bytes
 * may differ from rank to rank.  On rank 0, into has room bytes, enough for the sum of all; it is
 * not used on the other ranks.  data and into are memory of the CPU, and MPI transfers them.  An
 * error on one rank is an error on all of them.
 */
GRAM_API gram_status gram_communicator_gather(gram_context *g, gram_communicator *communicator,
                                              const void *data, size_t bytes, void *into,
                                              size_t room);

#ifdef __cplusplus
}
#endif
#endif

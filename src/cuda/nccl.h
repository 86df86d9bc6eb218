/*
 * nccl.h - the few functions of NCCL that are used
 *
 * Declared here in our own words, so that no header of NCCL is needed to build: results, types and
 * operations are ints, communicators are pointers.  Opened when the first communicator of the
 * process is made.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_NCCL_H
#define GRAM_NCCL_H
#include "driver.h"

/* ncclResult_t. */
enum {
    NCCL_SUCCESS = 0,
    NCCL_IN_PROGRESS = 7
};

/* ncclDataType_t and ncclRedOp_t. */
enum {
    NCCL_BYTE = 0,
    NCCL_INT64 = 4,
    NCCL_MAX = 2
};

/* ncclUniqueId. */
struct nccl_id {
    char internal[GRAM_NCCL_ID_BYTES];
};

/* ncclConfig_t as it was in NCCL 2.14; later versions take it by its size and version. */
struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking;
};

struct cuda_nccl {
    int (*version)(int *version);
    const char *(*error_string)(int result);
    int (*make_id)(struct nccl_id *id);
    int (*open)(void **comm, int ranks, struct nccl_id id, int rank, struct nccl_config *config);
    int (*finalize)(void *comm);
    int (*destroy)(void *comm);
    int (*abort)(void *comm);
    int (*async_error)(void *comm, int *result);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*send)(const void *from, size_t count, int type, int peer, void *comm, CUstream stream);
    int (*receive)(void *to, size_t count, int type, int peer, void *comm, CUstream stream);
    int (*all_reduce)(const void *from, void *to, size_t count, int type, int operation, void *comm,
                      CUstream stream);
};
#endif

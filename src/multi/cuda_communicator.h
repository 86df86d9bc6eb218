/*
 * cuda_communicator.h - what the files of the transport over NCCL share
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_COMMUNICATOR_H
#define GRAM_CUDA_COMMUNICATOR_H
#include "communicator.h"
#include "cuda/cuda_ops.h"
#include "cuda/nccl.h"

struct nccl_state {
    const struct cuda_nccl *call;
    const struct cuda_device *device;
    void *data, *control; /* NULL once they are given up */
    CUstream stream;      /* of control */
    int64_t *values;      /* pinned memory of the host */
    CUdeviceptr there;    /* the same of the device */
    double timeout;       /* seconds */
};

/* The thread's CUDA while it is in here. */
struct nccl_entered {
    CUstreamCaptureMode mode;
    bool pushed;
};

struct nccl_entered cuda_nccl_enter(const struct cuda_device *device);
void cuda_nccl_leave(const struct cuda_device *device, struct nccl_entered *e);

gram_status cuda_nccl_check(gram_context *g, const struct nccl_state *state, int result,
                            const char *what);
/* Waits until NCCL has done what a function, which gave result, has begun. */
gram_status cuda_nccl_settle(gram_context *g, const struct nccl_state *state, void *comm,
                             int result, const char *what);
/* Waits for the stream of the agreements, where this communicator works. */
gram_status cuda_nccl_wait(gram_context *g, const struct nccl_state *state, void *comm);
/* Each of count values becomes the largest of all ranks. */
gram_status cuda_nccl_largest(gram_context *g, const struct nccl_state *state, void *comm,
                              int64_t *values, int count);
/* What runs on the device for these communicators ends. */
void cuda_nccl_give_up(struct nccl_state *state);
/* Queues an exchange. */
gram_status cuda_nccl_exchange(gram_context *g, const gram_communicator *c,
                               const struct gram_exchange *e, CUstream stream);

/* cuda_communicator_open.c */
gram_status cuda_nccl_open(gram_context *g, const void *handle, size_t bytes, gram_communicator *c);
void cuda_nccl_close(gram_context *g, gram_communicator *c);
#endif

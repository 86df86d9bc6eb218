/*
 * transfer.h - matrices of the host to dense copies on the device and back, beside what it computes
 *
 * Two streams of their own.  Memory that CUDA has pinned is copied from and to where it lies; any
 * other passes through two pinned pieces each way, which the threads of the context fill and
 * empty, so that the host waits for no more than the piece before the last.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_TRANSFER_H
#define GRAM_CUDA_TRANSFER_H
#include "driver.h"

struct cuda_stage {
    void *memory; /* pinned, of the host */
    CUevent done; /* the copy that used it last */
    bool used;
};

struct cuda_transfer {
    gram_context *g;
    gram_loop *parallel;
    CUstream in, out;
    struct cuda_stage stage[2][2]; /* in and out, by turns */
    size_t stage_bytes;
    int turn;
};

/* For matrices of at most `bytes` bytes.  The device's context must be current, here and below.
 * close undoes open, whether that failed or not, and waits for both streams and the context's. */
gram_status gram_cuda_transfer_open(gram_context *g, gram_loop *parallel, size_t bytes,
                                    struct cuda_transfer *t);
gram_status gram_cuda_transfer_close(struct cuda_transfer *t);

/* The dense copy of a matrix of the host at device, by columns where the matrix lies so. */
struct gram_view gram_cuda_transfer_view(const struct gram_view *host, void *device);
/* Queues the copy to the device on t->in; what lies in pageable memory has been read. */
gram_status gram_cuda_transfer_in(struct cuda_transfer *t, const struct gram_view *host,
                                  void *device);
/* Queues the copy from the device on t->out; pageable memory has been written when it returns. */
gram_status gram_cuda_transfer_out(struct cuda_transfer *t, const void *device,
                                   const struct gram_view *host);

/* What is queued on then from now on waits for what is on first. */
gram_status gram_cuda_transfer_order(struct cuda_transfer *t, CUevent event, CUstream first,
                                     CUstream then);
gram_status gram_cuda_transfer_event(gram_context *g, CUevent *event);
#endif

/*
 * cuda_watch.h - looks after exchanges on a stream, for which the host does not wait
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_WATCH_H
#define GRAM_CUDA_WATCH_H
#include "cuda/cuda_ops.h"

struct cuda_watch;

/* What is watched, all called with the watch locked. */
struct cuda_watched {
    bool (*has_failed)(void *user);         /* what the ranks' library has met in the background */
    void (*give_up)(void *user, bool late); /* ends what is on the stream; late: by the timeout */
    void *user;
    double timeout; /* seconds that an exchange may take once the device has come to it */
};

/* A thread that sleeps while nothing is watched.  GRAM_OUT_OF_MEMORY where there is none. */
gram_status gram_cuda_watch_open(gram_context *g, const struct cuda_watched *watched,
                                 struct cuda_watch **out);
/* Ends it; NULL does nothing. */
void gram_cuda_watch_close(gram_context *g, struct cuda_watch *w);

/* Around what the user of the watch shares with it. */
void gram_cuda_watch_lock(struct cuda_watch *w);
void gram_cuda_watch_unlock(struct cuda_watch *w);

/* Around the calls that queue an exchange on a stream, locked.  What is captured is not watched,
 * nor what is queued while many others wait. */
void gram_cuda_watch_begin(struct cuda_watch *w, CUstream stream);
void gram_cuda_watch_end(struct cuda_watch *w, CUstream stream);
#endif

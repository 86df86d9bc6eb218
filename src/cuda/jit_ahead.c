/*
 * jit_ahead.c - the kernels of one call, made side by side when the process first wants them
 *
 * A call of several kernels would else compile one after the other.  Each thread has a context of
 * its own for messages, which nobody reads: what cannot be made here is made again by the call
 * itself when its turn comes, which tells what is wrong.
 *
 * SPDX-License-Identifier: MIT
 */
#include "jit.h"
#include <pthread.h>
#include <string.h>

enum {
    MOST_AHEAD = 8 /* kernels of a call */
};

struct job {
    gram_context g;
    const struct cuda_device *device;
    const struct jit_request *request;
};

static void *make(void *arg)
{
    struct job *job = arg;
    bool entered = gram_cuda_enter(job->device);
    CUfunction function;

    (void)gram_jit_process_kernel(&job->g, job->device, job->request, &function);
    gram_cuda_leave(job->device, entered);
    return NULL;
}

/* True if one of the first count requests compiles the same text: then its code is in the cache. */
static bool is_twin(const struct jit_request *requests, int count)
{
    const struct jit_request *r = &requests[count];

    for (int i = 0; i < count; i++)
        if (strcmp(requests[i].file, r->file) == 0 && strcmp(requests[i].defines, r->defines) == 0)
            return true;
    return false;
}

void gram_jit_ahead(const gram_context *g, const struct cuda_device *device,
                    const struct jit_request *requests, int count)
{
    struct job jobs[MOST_AHEAD];
    pthread_t thread[MOST_AHEAD];
    int wanted = 0, started = 0;

    for (int i = 0; i < count && wanted < MOST_AHEAD; i++) {
        if (gram_jit_recall(device, requests[i].variant) || is_twin(requests, i))
            continue;
        jobs[wanted++] = (struct job){
            .g = {.call = g->call,
                  .options = g->options,
                  .log = g->log,
                  .no_jit = g->no_jit,
                  .debug_jit = g->debug_jit,
                  .process = g->process,
                  .children = g->children,
                  .cache_bytes = g->cache_bytes,
                  .cuda_folder = g->cuda_folder,
                  .cache_folder = g->cache_folder},
            .device = device,
            .request = &requests[i]
        };
    }
    /* The caller makes the first one: it is one of the threads, and the only one if none start. */
    while (started + 1 < wanted &&
           pthread_create(&thread[started], NULL, make, &jobs[started + 1]) == 0)
        started++;
    if (wanted > 1)
        (void)make(&jobs[0]);
    for (int i = 0; i < started; i++)
        (void)pthread_join(thread[i], NULL);
}

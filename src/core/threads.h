/*
 * threads.h - one parallel loop for the whole library
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_THREADS_H
#define GRAM_THREADS_H
#include "context.h"
#include <pthread.h>

enum {
    GRAM_MAX_THREADS = 1024
};

/* Work on item index; thread tells the running thread apart, 0 is the caller.  It is less than
 * g->threads and than the number of items. */
typedef void gram_loop_body(void *arg, int64_t index, int thread);

/*
 * Runs body for every index in [0, count) on the context's threads and waits.  Items are handed
 * out in order, one at a time.  Never nested.  Cannot fail: where threads cannot be had the
 * caller does the work.
 */
typedef void gram_loop(gram_context *g, int64_t count, gram_loop_body *body, void *arg);
void gram_parallel_for(gram_context *g, int64_t count, gram_loop_body *body, void *arg);

/* True if work that takes one thread about `nanoseconds` is worth waking others for: until the
 * first of them works, and its cache has what it reads, the caller has done as much. */
static inline bool gram_worth_waking(double nanoseconds)
{
    return nanoseconds > 50e3;
}

/* The same loop, on the caller alone where all of its items together are not worth more. */
void gram_for(gram_context *g, double nanoseconds, int64_t count, gram_loop_body *body, void *arg);

/* Where threads wait until all of them have been started, or one could not be: of ranks in threads,
 * one that does not come would leave the others to their timeout. */
struct gram_gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool decided, open;
};

/* clang-format off */
#define GRAM_GATE_INIT {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER}
/* clang-format on */

/* Waits for the decision; whether the thread is to go on. */
bool gram_gate_wait(struct gram_gate *gate);
void gram_gate_decide(struct gram_gate *gate, bool open);

/* process.c: processors that this process may use, at least 1: those that it may run on, or what
 * the quota of its cgroup is worth, read once, if that is less. */
int gram_processors(void);

/* That quota, rounded up, by the files below a root ("": the system's); INT_MAX: none. */
int gram_quota_processors(const char *root);

/* Ends the context's threads; they come back at the next parallel loop. */
void gram_pool_destroy(gram_context *g);
#endif

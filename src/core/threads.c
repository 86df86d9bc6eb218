/*
 * threads.c - a pool of waiting threads, made at the first parallel loop of a context
 *
 * The caller works too, so a pool of n threads has n - 1 workers.  A loop is published by raising
 * generation under the mutex; a worker that wakes while it is open joins it, once.  The caller,
 * when no item is left, closes it and waits for those who have joined: not for one that has not
 * been given a processor yet, which on a busy machine takes milliseconds.  After fork() the child
 * has no workers: it sees that the pool is another process's, forgets it and makes its own.
 *
 * Workers inherit a mask with all signals blocked, so handlers run in the host's own threads.
 *
 * SPDX-License-Identifier: MIT
 */
#include "threads.h"
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

struct gram_pool {
    pid_t owner;
    int workers;
    size_t bytes; /* of this allocation */
    pthread_mutex_t mutex;
    pthread_cond_t start, done;
    uint64_t generation; /* of the current loop */
    bool open;           /* it may be joined */
    int joined, running; /* workers that did so, and those still in it */
    bool quit;
    gram_loop_body *body;
    void *arg;
    int64_t count;
    atomic_llong next;
    pthread_t worker[];
};

static void run_items(struct gram_pool *pool, int thread)
{
    int64_t i;

    while ((i = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed)) < pool->count)
        pool->body(pool->arg, i, thread);
}

static void *worker_main(void *arg)
{
    struct gram_pool *pool = arg;
    uint64_t seen = 0;
    int thread;

    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        while (pool->generation == seen && !pool->quit)
            pthread_cond_wait(&pool->start, &pool->mutex);
        if (pool->quit)
            break;
        seen = pool->generation;
        if (!pool->open || pool->joined + 1 >= pool->count) /* scratch is for count threads */
            continue;
        thread = ++pool->joined;
        pool->running++;
        pthread_mutex_unlock(&pool->mutex);
        run_items(pool, thread);
        pthread_mutex_lock(&pool->mutex);
        if (--pool->running == 0)
            pthread_cond_signal(&pool->done);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

static struct gram_pool *pool_create(gram_context *g)
{
    size_t bytes = sizeof(struct gram_pool) + (size_t)g->threads * sizeof(pthread_t);
    struct gram_pool *pool = gram_alloc(g, bytes);
    sigset_t all, before;

    if (!pool)
        return NULL;
    memset(pool, 0, bytes);
    pool->owner = getpid();
    pool->bytes = bytes;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->start, NULL);
    pthread_cond_init(&pool->done, NULL);
    atomic_init(&pool->next, 0);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool->workers < g->threads - 1 &&
           pthread_create(&pool->worker[pool->workers], NULL, worker_main, pool) == 0)
        pool->workers++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pool;
}

void gram_pool_destroy(gram_context *g)
{
    struct gram_pool *pool = g->pool;

    g->pool = NULL;
    if (!pool)
        return;
    if (pool->owner == getpid()) {
        pthread_mutex_lock(&pool->mutex);
        pool->quit = true;
        pthread_cond_broadcast(&pool->start);
        pthread_mutex_unlock(&pool->mutex);
        for (int i = 0; i < pool->workers; i++)
            pthread_join(pool->worker[i], NULL);
        pthread_cond_destroy(&pool->start);
        pthread_cond_destroy(&pool->done);
        pthread_mutex_destroy(&pool->mutex);
    }
    gram_free(g, pool, pool->bytes);
}

/* As many workers as there are items for, the caller taking one. */
static void wake(struct gram_pool *pool)
{
    if (pool->count > pool->workers)
        pthread_cond_broadcast(&pool->start);
    else
        for (int64_t i = 1; i < pool->count; i++)
            pthread_cond_signal(&pool->start);
}

static void run_alone(int64_t count, gram_loop_body *body, void *arg)
{
    for (int64_t i = 0; i < count; i++)
        body(arg, i, 0);
}

void gram_for(gram_context *g, double nanoseconds, int64_t count, gram_loop_body *body, void *arg)
{
    if (gram_worth_waking(nanoseconds))
        gram_parallel_for(g, count, body, arg);
    else
        run_alone(count, body, arg);
}

void gram_parallel_for(gram_context *g, int64_t count, gram_loop_body *body, void *arg)
{
    struct gram_pool *pool;

    assert(!g->measure); /* scratch.h */
    if (g->pool && g->pool->owner != getpid())
        gram_pool_destroy(g);
    if (!g->pool && g->threads > 1 && count > 1)
        g->pool = pool_create(g);
    pool = g->pool;
    if (!pool || pool->workers == 0 || count <= 1) {
        run_alone(count, body, arg);
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    pool->body = body;
    pool->arg = arg;
    pool->count = count;
    pool->open = true;
    pool->joined = 0;
    atomic_store(&pool->next, 0);
    pool->generation++;
    pthread_mutex_unlock(&pool->mutex);
    wake(pool);
    run_items(pool, 0);
    pthread_mutex_lock(&pool->mutex);
    pool->open = false;
    while (pool->running > 0)
        pthread_cond_wait(&pool->done, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
}

bool gram_gate_wait(struct gram_gate *gate)
{
    bool open;

    pthread_mutex_lock(&gate->mutex);
    while (!gate->decided)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    open = gate->open;
    pthread_mutex_unlock(&gate->mutex);
    return open;
}

void gram_gate_decide(struct gram_gate *gate, bool open)
{
    pthread_mutex_lock(&gate->mutex);
    gate->decided = true;
    gate->open = open;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
}

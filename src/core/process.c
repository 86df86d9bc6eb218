/*
 * process.c - the state of the process, and the handlers that fork() calls
 *
 * SPDX-License-Identifier: MIT
 */
#include "process.h"

static struct gram_process process;
static bool ready;

static void before_fork(void)
{
    for (int i = 0; i < GRAM_PROCESS_LOCKS; i++)
        (void)pthread_mutex_lock(&process.lock[i]);
}

static void after_fork(void)
{
    for (int i = GRAM_PROCESS_LOCKS - 1; i >= 0; i--)
        (void)pthread_mutex_unlock(&process.lock[i]);
}

static void in_child(void)
{
    process.children++;
    if (atomic_exchange(&process.in_store, 0) > 0)
        atomic_store(&process.no_store, true);
    after_fork();
}

static void begin(void)
{
    for (int i = 0; i < GRAM_PROCESS_LOCKS; i++)
        (void)pthread_mutex_init(&process.lock[i], NULL);
    ready = pthread_atfork(before_fork, after_fork, in_child) == 0;
}

struct gram_process *gram_process(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, begin);
    return ready ? &process : NULL;
}

/*
 * process.h - what the contexts of a process share: its locks, and what becomes of them at fork()
 *
 * Every lock around something that belongs to the process is one of this table, the plugins' too,
 * which find it through their context.  fork() waits until none is held, so that a child finds all
 * of them free and what they guard whole.  So none is held while a file is read, a library is
 * opened or a kernel is compiled, and none inside another.  Two locks stand elsewhere, and say why:
 * that of MPI's beginning (mpi.c) and that of JAX's contexts (python/core/py_xla_context.c).
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PROCESS_H
#define GRAM_PROCESS_H
#include "context.h"
#include <pthread.h>

enum gram_process_lock {
    GRAM_LOCK_TUNED,     /* database.c */
    GRAM_LOCK_BLAS,      /* blas_process.c: threads and buffers of BLAS */
    GRAM_LOCK_LIBRARIES, /* src/cuda/driver.c, library.c: what was opened */
    GRAM_LOCK_KERNELS,   /* src/cuda/launch.c */
    GRAM_PROCESS_LOCKS
};

struct gram_process {
    pthread_mutex_t lock[GRAM_PROCESS_LOCKS];
    int children;         /* fork()s between the process that loaded the library and this one */
    atomic_int in_store;  /* threads that are in SQLite, which has locks of its own */
    atomic_bool no_store; /* one of them was, when this process was forked: its locks are lost */
};

/* The one of this process; NULL: no memory to be told of a fork(). */
struct gram_process *gram_process(void);

static inline void gram_process_lock(const gram_context *g, enum gram_process_lock which)
{
    (void)pthread_mutex_lock(&g->process->lock[which]);
}

static inline void gram_process_unlock(const gram_context *g, enum gram_process_lock which)
{
    (void)pthread_mutex_unlock(&g->process->lock[which]);
}

/* True in a child of the process that made g: what g has on another device is the parent's. */
static inline bool gram_process_is_child(const gram_context *g)
{
    return g->children != g->process->children;
}
#endif

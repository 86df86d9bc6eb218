/*
 * blas_memory.h - address space for OpenBLAS's buffers, where it may be short
 *
 * OpenBLAS maps a buffer for every thread of its own and for every call under way, and where it
 * cannot have one it tries again for ever (0.3.21) or ends the process (newer ones).  So where the
 * address space is limited the first call of the library that may need BLAS takes what BLAS will
 * need, or fails, and no more calls of BLAS run at a time than there are buffers.  Elsewhere
 * nothing is done.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_BLAS_MEMORY_H
#define GRAM_BLAS_MEMORY_H
#include "context.h"

/* True once address space was seen to be limited; never false again. */
extern atomic_bool gram_blas_memory_limited;
static inline bool gram_blas_memory_is_limited(void)
{
    return atomic_load_explicit(&gram_blas_memory_limited, memory_order_relaxed);
}

/* Looks whether it is, before a context is used. */
void gram_blas_memory_look(void);

/* Before a call that may need BLAS, where memory is limited: has buffers for as many threads of g
 * as leave half of the address space to others, for one at least, or fails. */
gram_status gram_blas_memory_reserve(gram_context *g);

/* Around one call of BLAS, where memory is limited: waits until one of the buffers is free. */
void gram_blas_memory_enter(void);
void gram_blas_memory_leave(void);

/* How many threads BLAS may use. */
int gram_blas_memory_threads(void);
#endif

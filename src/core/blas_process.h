/*
 * blas_process.h - how BLAS is called: its names, its threads, address space for its buffers
 *
 * For blas.c and blas_process.c, and for who begins a call of the library.
 *
 * OpenBLAS maps a buffer for every thread of its own and for every call under way, and where it
 * cannot have one it tries again for ever (0.3.21) or ends the process (newer ones).  So where the
 * address space is limited the first call of the library that may need BLAS takes what BLAS will
 * need, or fails, and no more calls of BLAS run at a time than there are buffers.  Elsewhere
 * nothing is done.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_BLAS_PROCESS_H
#define GRAM_BLAS_PROCESS_H
#include "context.h"
#include <limits.h>

/* How the Fortran names are spelled: GRAM_BLAS_PREFIX is empty for system libraries and scipy_ for
 * PyPI's scipy-openblas32, which renames its symbols. */
#ifndef GRAM_BLAS_PREFIX
#  define GRAM_BLAS_PREFIX
#endif
#define BLAS_PASTE_(a, b) a##b
#define BLAS_PASTE(a, b)  BLAS_PASTE_(a, b)
#define B(name)           BLAS_PASTE(GRAM_BLAS_PREFIX, name)

typedef int32_t bint; /* BLAS's integer: LP64 */

/* LAPACK wants leading dimensions of at least 1. */
static inline bint gram_blas_lead(int64_t ld)
{
    return ld > 0 ? (bint)ld : 1;
}

/* Around one call of BLAS or LAPACK, whose work is the product of its sizes: of a matrix of order n
 * that is factored, n^3.  What begin says, end gets. */
bool gram_blas_begin(double work);
void gram_blas_end(bool lent);

static inline double gram_blas_cube(int64_t m, int64_t n, int64_t k)
{
    return (double)m * (double)n * (double)k;
}

/* True once address space was seen to be limited; never false again. */
extern atomic_bool gram_blas_memory_limited;
static inline bool gram_blas_memory_is_limited(void)
{
    return atomic_load_explicit(&gram_blas_memory_limited, memory_order_relaxed);
}

/* Finds out whether it is, before a context is used. */
void gram_blas_memory_detect(void);

/* Before a call that may need BLAS, where memory is limited: has buffers for as many threads of g
 * as leave half of the address space to others, for one at least, or fails. */
gram_status gram_blas_memory_reserve(gram_context *g);

/* How many threads BLAS may use. */
int gram_blas_memory_threads(void);
#endif

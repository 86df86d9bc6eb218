/*
 * blas_threads.h - how many threads BLAS uses in a call: for blas*.c
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_BLAS_THREADS_H
#define GRAM_BLAS_THREADS_H
#include <stdbool.h>
#include <stdint.h>

/* Around one call of BLAS or LAPACK, whose work is the product of its sizes: of a matrix of order n
 * that is factored, n^3.  What begin says, end gets. */
bool gram_blas_begin(double work);
void gram_blas_end(bool lent);

static inline double gram_blas_cube(int64_t m, int64_t n, int64_t k)
{
    return (double)m * (double)n * (double)k;
}
#endif

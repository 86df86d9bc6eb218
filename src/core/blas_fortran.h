/*
 * blas_fortran.h - how the Fortran names of BLAS and LAPACK are spelled here: for blas*.c only
 *
 * GRAM_BLAS_PREFIX is empty for system libraries and scipy_ for PyPI's scipy-openblas32, which
 * renames its symbols.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_BLAS_FORTRAN_H
#define GRAM_BLAS_FORTRAN_H
#include <limits.h>
#include <stdint.h>

#ifndef GRAM_BLAS_PREFIX
#  define GRAM_BLAS_PREFIX
#endif
#define PASTE_(a, b) a##b
#define PASTE(a, b)  PASTE_(a, b)
#define B(name)      PASTE(GRAM_BLAS_PREFIX, name)

typedef int32_t bint; /* BLAS's integer: LP64 */

/* LAPACK wants leading dimensions of at least 1. */
static inline bint gram_blas_lead(int64_t ld)
{
    return ld > 0 ? (bint)ld : 1;
}
#endif

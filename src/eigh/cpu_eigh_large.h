/*
 * cpu_eigh_large.h - eigenproblems that LAPACK works on: what its two ways share
 *
 * LAPACK destroys the matrix that it is given.  Where all vectors are wanted and their tensor has a
 * unit stride, divide and conquer works there and needs no copy; otherwise the triangle is copied
 * to scratch.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_EIGH_LARGE_H
#define GRAM_CPU_EIGH_LARGE_H
#include "cpu_eigh.h"

/* Where the pieces of an item's scratch begin. */
struct large_layout {
    bool direct; /* LAPACK works in the memory of vectors */
    size_t matrix_at, w_at, d_at, work_at, integers_at, z_at, gram_at, bytes;
    int64_t lwork, liwork;
};

/* An item as LAPACK works on it. */
struct large_item {
    int64_t index, ld;
    void *a;
    gram_uplo uplo;
    bool row_major; /* the vectors that come out are to be transposed */
    int exponent;   /* a was multiplied by 2^-exponent */
    char *s;        /* scratch */
};

/* The item's work once a is loaded; it stores what it found. */
typedef enum eigh_outcome large_solve(const struct eigh_plan *plan, const struct large_layout *at,
                                      const struct large_item *m);

/* cpu_eigh_divide.c, cpu_eigh_bisect.c */
large_solve cpu_eigh_divide_item, cpu_eigh_bisect_item;
#endif

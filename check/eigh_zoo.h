/*
 * eigh_zoo.h - symmetric matrices that eigensolvers have failed on
 *
 * The kinds of LAPACK's own tests (xDRVST, types 1 to 21 without their scaling, which a caller
 * applies), and those that libraries' bug reports are about.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_EIGH_ZOO_H
#define GRAM_EIGH_ZOO_H
#include "check/harness/harness.h"

enum zoo_kind {
    ZOO_ZERO,
    ZOO_IDENTITY,
    /* Diagonal; values 1 to eps with random signs: evenly spaced, geometric, all but one at eps. */
    ZOO_DIAGONAL_EVEN,
    ZOO_DIAGONAL_GEOMETRIC,
    ZOO_DIAGONAL_CLUSTERED,
    /* The same values in a random orthogonal basis. */
    ZOO_EVEN,
    ZOO_GEOMETRIC,
    ZOO_CLUSTERED,
    ZOO_RANDOM,
    ZOO_POSITIVE_EVEN,
    ZOO_POSITIVE_GEOMETRIC,
    ZOO_POSITIVE_CLUSTERED,
    ZOO_DOMINANT,   /* tridiagonal, diagonally dominant, graded */
    ZOO_WILKINSON,  /* pairs of values that agree to many digits */
    ZOO_GLUED,      /* Wilkinson matrices of order 21, joined by 1e-7 .. 1e-14 */
    ZOO_TOEPLITZ,   /* 2 and -1: the discrete Laplacian */
    ZOO_RBF,        /* a Gaussian kernel matrix, whose rank collapses */
    ZOO_GRAM,       /* of rank n / 4 */
    ZOO_ONES,       /* of rank 1 */
    ZOO_DUPLICATES, /* equal blocks, so every value several times */
    ZOO_SPARSE,     /* a diagonal with few numbers that are not zero */
    ZOO_KINDS,
};

extern const char *const zoo_names[ZOO_KINDS];

/* Fills a, n by n, with elements of size about 1 at most. */
void zoo_fill(struct harness *h, enum zoo_kind kind, int64_t n, double eps, double *a);
#endif

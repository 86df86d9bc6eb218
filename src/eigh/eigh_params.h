/*
 * eigh_params.h - what the host tells eigh_small.cu, eigh_jacobi.cu and eigh_large.cu
 *
 * Read by the host's compiler and by NVRTC, which sees no other headers than these: long long
 * stands for int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_EIGH_PARAMS_H
#define GRAM_EIGH_PARAMS_H
#include "solve_params.h"

#define EIGH_THREADS 256 /* of a block of eigh_small.cu and eigh_large.cu */
#define EIGH_LANES   32  /* of eigh_jacobi.cu: a warp, and the largest n */
#define EIGH_SWEEPS  40  /* of Jacobi: 6 to 9 are common */
#define EIGH_TILE    32  /* of a matrix, which eigh_load and eigh_store take whole */
#define EIGH_PARTS   64  /* most blocks of eigh_scan that share a matrix */

/* Kernels of eigh_large.cu (-DKERNEL). */
#define EIGH_SCAN  0
#define EIGH_LOAD  1
#define EIGH_STORE 2
#define EIGH_PANEL 3

/* info */
#define EIGH_INFO_DONE          0
#define EIGH_INFO_NOT_CONVERGED 1
#define EIGH_INFO_NOT_FINITE    2

/* A call.  The lower triangle of a is read: strides are exchanged where the caller's is the upper.
 */
struct eigh_call {
    long long ndim, shape[DEVICE_DIMS], items;
    struct device_view a, values, vectors, info, found;
    long long n, count;  /* columns of values and vectors */
    long long first;     /* of the pairs that are wanted, unless by_value */
    long long by_value;  /* lower < value <= upper */
    double lower, upper; /* of its values */
};

/* Some items on their way through cuSOLVER. */
struct eigh_chunk_params {
    struct eigh_call call;
    long long begin, items; /* of the call's */
    char *matrix;           /* items of n by n, by columns: a scaled, then the vectors */
    const char *w;          /* their values, ascending, n an item */
    const int *code;        /* of cuSOLVER, one per item */
    char *largest;          /* items by parts: what eigh_scan found */
    long long parts;        /* of a matrix */
    long long computed;     /* the first pair that cuSOLVER was asked for */
    long long has_vectors;  /* matrix holds them */
};

/* Some columns of one matrix on their way to or from another device: to = 2^-exponent from, rows by
 * cols, or only where the row is no smaller than the column. */
struct eigh_panel_params {
    char *to;
    const char *from;
    long long to_row, to_col, from_row, from_col; /* strides */
    long long rows, cols;
    long long lower; /* 1: only that triangle */
    long long exponent;
};
#endif

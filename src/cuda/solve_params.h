/*
 * solve_params.h - what the host tells solve_small.cu and solve_large.cu: shapes and strides
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: so it includes only ours,
 * and long long stands for int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_SOLVE_PARAMS_H
#define GRAM_SOLVE_PARAMS_H
#include "device_params.h"

#define SOLVE_THREADS 256 /* of a block of every kernel but solve_small */
#define SOLVE_MOST    64  /* n up to which solve_small takes every system */
#define SOLVE_WIDTH   16  /* right-hand sides that it takes at a time */

/* Of solve_small: threads of a block, few for small n, which then run side by side; elements of
 * size bytes in shared memory, the matrix and right-hand sides, and ints behind them. */
#define SOLVE_MOST_THREADS          512
#define SOLVE_SMALL_THREADS(n)      ((n) <= 16 ? 32 : (n) <= 32 ? 64 : (n) <= 96 ? 256 : 512)
#define SOLVE_SMALL_MATRIX(n, size) ((n) * ((n) | 1) * (size))
#define SOLVE_SMALL_REST(n, size)   (SOLVE_WIDTH * ((n) | 1) * (size) + ((n) + 8) * 4)

/* The kernels; -DKERNEL of solve_large.cu, where the first is not. */
#define SOLVE_SMALL   0
#define SOLVE_COPY    1
#define SOLVE_VERDICT 2
#define SOLVE_SCAN    3

#define SOLVE_SCANS 256 /* most blocks of solve_scan */

#define SOLVE_PART_ALL   0
#define SOLVE_PART_LOWER 1
#define SOLVE_PART_UPPER 2

/* Dimensions along which matrices change, and those where one meets several right-hand sides. */
struct solve_items {
    long long ndim, own, shared; /* counts of items */
    long long own_shape[DEVICE_DIMS], shared_shape[DEVICE_DIMS];
};

struct solve_small_params {
    struct solve_items items;
    struct device_view a, b, x, factor, pivots, info;
    char *scratch; /* NULL: matrices lie in shared memory */
    long long n, columns;
    long long flip; /* the buffer holds the transpose of what the caller's indices mean */
    long long factored;
};

/* to = from, both rows by cols or one triangle of them; NaN everywhere if *verdict is not 0. */
struct solve_copy_params {
    char *to;
    const char *from;
    long long to_stride[2], from_stride[2]; /* of rows, of columns */
    long long rows, cols, part;
    const int *verdict; /* NULL: 0 */
};

/* found[block] = the first column in which the block met NaN, counted from 1; 0: none. */
struct solve_scan_params {
    const char *matrix;
    long long n, ld;
    int *found;
};

/* What became of a factorisation of item own. */
struct solve_verdict_params {
    struct solve_items items;
    struct device_view pivots, info;
    long long own;
    const char *matrix;
    long long n, ld;
    const int *code;  /* of cuSOLVER; NULL: a factor was given */
    const int *found; /* LU: what solve_scan found, in `scans` places */
    long long scans;
    long long *exchanges; /* LU: cuSOLVER's pivots */
    int *verdict;
};
#endif

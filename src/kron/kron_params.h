/*
 * kron_params.h - what the host tells kernels: kron_matmul*.cu; kron_expand.cu and
 * kron_trace.cu; kron_solve*.cu and kron_logdet.cu
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: so it includes none of
 * CUDA's, and long long stands for int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRON_PARAMS_H
#define GRAM_KRON_PARAMS_H
#include "device_params.h"

#define KRON_MOST 16 /* factors */

/*
 * A pass: x is [row, before, group, after], y the same with the group's indices replaced.  The
 * rows of all units lie one after the other: unit = row * before + index before the group.
 */
struct kron_params {
    long long ndim, shape[DEVICE_DIMS]; /* of the batch */
    long long first, items;             /* of them: those of this launch */
    struct device_view x, y, z;
    struct device_view factor[KRON_MOST]; /* of the group; data NULL: the number 1 */
    struct device_number alpha, beta;
    long long rows, before, after;
    long long depth, outs;           /* kron_matmul_one.cu: rows and columns of the factor */
    long long unit_tiles, col_tiles; /* kron_matmul_one.cu: tiles of columns, tiles of outs */
    long long last;                  /* alpha, beta and z count */
};

/* ---- The product and its trace -------------------------------------------------------------- */

#define KRON_EXPAND_THREADS 256 /* of a block: columns of out */
#define KRON_EXPAND_ROWS    8   /* of out, that a block writes */

struct kron_expand_params {
    long long ndim, shape[DEVICE_DIMS], items; /* of the batch */
    struct device_view out, factor[KRON_MOST];
    long long count, rows, cols; /* of factors; of out */
    long long factor_rows[KRON_MOST], factor_cols[KRON_MOST];
};

/* ---- Solves and determinants ---------------------------------------------------------------- */

#define KRON_SOLVE_THREADS 256
#define KRON_SOLVE_ROWS    8    /* that a thread divides by one eigenvalue */
#define KRON_SOLVE_TILE    32   /* rows and columns that a block stores at a time */
#define KRON_SOLVE_PART    4096 /* elements that a block looks at, or fills, at a time */

/* Orders that kron_solve_factor.cu takes; the threads of a block of kron_solve_pass.cu, rows that a
 * thread has at a time; elements from column to column of an LU, a multiple of these; bytes of one
 * in shared memory, with its pivots; rows of a unit there. */
#define KRON_SOLVE_SMALL        64
#define KRON_SOLVE_PASS_THREADS 128
#define KRON_SOLVE_PANEL        16
#define KRON_SOLVE_PADDED(n)    (((n) + 15) / 16 * 16)
#define KRON_SOLVE_STEP(n)      (KRON_SOLVE_PADDED(n) + 4)
#define KRON_SOLVE_FACTOR_BYTES(n, size) \
  ((KRON_SOLVE_PADDED(n) * KRON_SOLVE_STEP(n) * (size) + (n)*4 + 15) / 16 * 16)
#define KRON_SOLVE_ODD(n) ((n) | 1)

/*
 * The factors of a call.  A number of theirs that a factor has only where it changes (codes, found,
 * values, diagonals) has strides of 0 where it does not.
 */
struct kron_solve_params {
    long long ndim, shape[DEVICE_DIMS], items; /* of the batch */
    long long count, order;                    /* of factors; the order of their product */
    struct device_view factor[KRON_MOST];
    long long n[KRON_MOST];
    long long triangle;                 /* that is read: 0 all, 1 the lower one, 2 the upper one */
    struct device_view code[KRON_MOST]; /* ints: what became of the factorisation */
    long long found;                    /* ints from code to whether the factor is not finite */
    struct device_view values[KRON_MOST]; /* kron_solve_divide: eigenvalues */
    struct device_number shift;
    char *rows; /* of all items, without gaps: what is divided, or [group][column][row] */
    long long groups, group_rows, row_count; /* row_count: of an item */
    int *singular;                           /* one per item; NULL: none is */
    struct device_view x, info;              /* data NULL: not given */
};

/* kron_logdet.cu: LU of every factor in double, row by row without gaps; kron_solve_factor.cu: what
 * becomes of every factor. */
struct kron_logdet_params {
    struct kron_solve_params of;
    struct device_view pivots[KRON_MOST]; /* ints */
    struct device_view lu[KRON_MOST];
    struct device_view out, sign; /* data NULL: not wanted */
};

/* kron_solve_pass.cu: [group][unit][.][after], and the LU of a group's factor. */
struct kron_solve_pass_params {
    long long ndim, shape[DEVICE_DIMS]; /* of the groups */
    long long groups, units, after;
    char *from, *to;
    struct device_view lu, row;
};
#endif

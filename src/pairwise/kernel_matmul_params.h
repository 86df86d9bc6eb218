/*
 * kernel_matmul_params.h - what the host tells the kernels of fused products with kernel matrices
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: so it includes only ours,
 * and long long stands for int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KERNEL_MATMUL_PARAMS_H
#define GRAM_KERNEL_MATMUL_PARAMS_H
#include "pair_params.h"

#define MATMUL_THREADS 128 /* of a block of kernel_matmul.cu */
#define MATMUL_POINTS  128 /* of y, which lie in shared memory at a time */

/* A round: some items with all of their rows, or some rows of one item. */
struct matmul_round {
    long long first_item, items, first_row, rows;
};

/* Sums of a slice of the points of y: [item of the round][slice][column of v][row of the round]. */
struct kernel_matmul_params {
    struct matmul_round round;
    struct device_view v;
    char *sums;
    char *mirrors; /* with -DMIRROR=1: [item][block of rows of the round][column of v][row of y] */
    long long columns, groups;      /* of v; passes of COLUMNS of them */
    long long slices, slice_points; /* of y */
    struct pair_params pair;        /* out is not set */
};

/* ---- kernel_matmul_vjp.cu ------------------------------------------------------------------- */

/* Sums of a slice of the centres y and a group of columns, which are those of left[0] and then of
 * left[1], likewise of right: [item of the round][group][slice][coordinate][row of the round]. */
struct kernel_vjp_params {
    struct matmul_round round;
    struct device_view left[2], right[2]; /* rows of the centres, and of the points x */
    char *sums;
    long long columns, factor_columns; /* of all factors, of the first one */
    long long groups;                  /* passes of COLUMNS of them */
    long long slices, slice_points;    /* of y */
    struct pair_params pair;           /* out is not set */
};

/* ---- kernel_matmul_tensor.cu ---------------------------------------------------------------- */

/* Bytes of dynamic shared memory of a block: chunks of x and y; ends of rows of x, and rows of v
 * that are theirs; ends of rows of y and their rows of v, for each stage; sums of rows by four
 * warps; sums of mirror images by two, twice; perhaps a place for 16 elements a thread. */
#define TENSOR_BK              16 /* columns of a chunk */
#define TENSOR_THREADS         256
#define TENSOR_STAGES(columns) ((columns) > 4 ? 2 : 3) /* chunks in shared memory */
#define TENSOR_CHUNK           (2 * 2 * SQUARE_ROWS * TENSOR_BK * 2)
#define TENSOR_SIDE(columns)   (SQUARE_ROWS * (8 + 4 * (columns)))
#define TENSOR_SUMS(columns)   ((4 + 2 * 2) * SQUARE_ROWS * 4 * (columns))
#define TENSOR_SLOTS           (16 * TENSOR_THREADS * 4)
#define TENSOR_SHARED(columns, slots)                                                      \
  (TENSOR_STAGES(columns) * (TENSOR_CHUNK + TENSOR_SIDE(columns)) + TENSOR_SIDE(columns) + \
   TENSOR_SUMS(columns) + ((slots) ? TENSOR_SLOTS : 0))

/* The same with WIDE: panels of v in the place of their rows, and no sums. */
#define WIDE_STAGES         2
#define WIDE_POINTS         256 /* of y at least */
#define WIDE_PANEL(columns) (2 * SQUARE_ROWS * 4 * (columns))
#define WIDE_SHARED(columns) \
  (WIDE_STAGES * (TENSOR_CHUNK + SQUARE_ROWS * 8 + WIDE_PANEL(columns)) + SQUARE_ROWS * 8)

/* A block has strips of SQUARE_ROWS rows of x one after the other. */
struct kernel_tensor_params {
    const char *v_panels; /* with WIDE: of the first item of the round, [item][group] */
    long long v_group_bytes;
    struct square_panels side[2];        /* of x and y, from the first item of the round on */
    long long chunks, strips;            /* chunks: of a row */
    struct kernel_matmul_params product; /* last: see pair_params */
};

/* ---- kernel_matmul_pack.cu ------------------------------------------------------------------ */

struct kernel_pack_params {
    struct device_view v;
    char *panels; /* of the first item, [item][group] */
    long long first_item, items, groups, rows, columns;
    long long batch_ndim, batch_shape[DEVICE_DIMS];
};

/* ---- kernel_matmul_sum.cu ------------------------------------------------------------------- */

/*
 * out = the sum over the slices, + r v on the diagonal, + what out holds.
 *
 * Where the matrix mirrors itself, block b of rows has the slices from its own rows on, and what
 * the blocks before it have computed for their mirror images: rows [0, reach) behind the first one
 * of the round get something.  What those behind the round get waits for theirs in `kept`, which is
 * 0 before the first round of a part that does not begin with row 0.  A last block that is not
 * filled does without mirrors.
 */
struct kernel_sum_params {
    struct matmul_round round;
    struct device_view v, out;
    const void *sums, *mirrors; /* mirrors: NULL for none */
    double *kept;               /* [column of v][row] */
    long long block, slice_points, reach;
    long long columns, slices, points; /* points: rows of v */
    long long accumulate;
    long long spills;                    /* what would wait goes to out: no round follows */
    long long diagonal;                  /* r stands where i - j is this */
    struct device_number regularization; /* r: the number 0 is none */
    long long batch_ndim, batch_shape[DEVICE_DIMS];
};
#endif

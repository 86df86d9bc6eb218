/*
 * kron_params.h - what the host tells kron_matmul*.cu and kron_move.cu
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

#define KRON_MOVE_THREADS 256 /* of a block of kron_move.cu */
#define KRON_MOVE_EACH    4   /* elements a thread */

/* How elements are stored, as -DX_KIND, -DY_KIND, -DF_KIND. */
#define KRON_REAL   0 /* as the arithmetic is */
#define KRON_HALF   1 /* binary16, computed in float */
#define KRON_BFLOAT 2

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
    long long depth, outs;           /* kron_matmul_one.cu: rows and columns of the factor;
                                        kron_move.cu: outs is columns of x and y */
    long long unit_tiles, col_tiles; /* kron_matmul_one.cu: tiles of columns, tiles of outs */
    long long last;                  /* alpha, beta and z count */
};
#endif

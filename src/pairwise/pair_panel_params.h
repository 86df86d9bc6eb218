/*
 * pair_panel_params.h - a panel of a pairwise matrix, for kernels that reduce its rows
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: long long stands for
 * int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PAIR_PANEL_PARAMS_H
#define GRAM_PAIR_PANEL_PARAMS_H

/* Rows [i, i + rows) and columns [j, j + cols) of each item of a round, one item after the
 * other. */
struct pair_panel {
    char *values;
    long long items, first; /* of the round, whose first item is this one of the batch */
    long long i, rows, j, cols;
    long long begin, end;               /* no panel of these rows comes before, or after */
    long long ndim, shape[DEVICE_DIMS]; /* of the whole batch, which the outputs go along */
};
#endif

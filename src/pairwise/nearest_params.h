/*
 * nearest_params.h - what the host tells nearest.cu
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: long long stands for
 * int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_NEAREST_PARAMS_H
#define GRAM_NEAREST_PARAMS_H
#include "pair_panel_params.h"
#include "pair_params.h"

#define NEAREST_THREADS 256

/* What is known of a row between two panels. */
struct nearest_state {
    long long stored, within; /* neighbours that are kept; all that were counted */
};

struct nearest_params {
    struct pair_panel panel; /* of distances */
    /* Of the rows of the round: what is known of each, and the neighbours, `count` for each row. */
    struct nearest_state *state;
    char *values;
    int *places;
    long long count, capacity; /* capacity: of the list of a block, a power of 2 */
    double radius;
    long long exclude_self, self; /* row i of x is row self + i of y */
    long long step;               /* column c of the panels is row c step of y */
    /* The outputs, along the whole batch; data NULL: not given. */
    struct device_view indices, distances, counts;
};

/* nearest_points.cu: rows [i, i + rows) of x, of one item. */
struct nearest_points_params {
    struct nearest_params nearest; /* panel.begin: of nearest_end, there was no first part */
    struct device_view x, y;       /* of the item, all rows */
    long long depth, rows;         /* rows: of y */
    long long first, step;         /* column c of a part is row first + c step of y */
    struct square_filter filter;
    float slack; /* of a bound, a little above 1 */
};
#endif

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

#define NEAREST_THREADS 256

/* What is known of a row between two panels. */
struct nearest_state {
    long long stored, within; /* neighbours that are kept; all that were counted */
};

/* A panel of distances: rows [i, i + rows) and columns [j, j + cols) of each item of a round, one
 * item after the other. */
struct nearest_params {
    const char *panel;
    long long items, first; /* of the round, whose first item is this one of the batch */
    long long i, rows, j, cols;
    long long begin, end; /* no panel of these rows comes before, or after */
    /* Of the rows of the round: what is known of each, and the neighbours, `count` for each row. */
    struct nearest_state *state;
    char *values;
    int *places;
    long long count, capacity; /* capacity: of the list of a block, a power of 2 */
    double radius;
    long long exclude_self;
    /* The outputs, along the whole batch; data NULL: not given. */
    long long ndim, shape[DEVICE_DIMS];
    struct device_view indices, distances, counts;
};
#endif

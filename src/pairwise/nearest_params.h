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
    long long exclude_self;
    /* The outputs, along the whole batch; data NULL: not given. */
    struct device_view indices, distances, counts;
};
#endif

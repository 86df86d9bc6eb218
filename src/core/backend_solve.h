/*
 * backend_solve.h - the part of backend.h that describes solves
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_BACKEND_SOLVE_H
#define GRAM_BACKEND_SOLVE_H
#include "view.h"

struct gram_solve_op {
    struct gram_batch batch;
    struct gram_view a, b, x;
    struct gram_view info, pivots; /* where has_info, has_pivots */
    struct gram_view factor;       /* where has_factor */
    bool has_info, has_pivots, has_factor;
    bool factored;            /* a is the factor */
    bool factor_is_a, x_is_b; /* in place */
    gram_uplo uplo;
    /* rcond, jitter and refine: */
    bool has_rcond, has_jittered, has_backward, has_refinings, refine;
    struct gram_view rcond, jittered, backward, refinings;
    const double *jitter;
    int jitters;
};
#endif

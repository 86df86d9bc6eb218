/*
 * matrix_power_params.h - what the host tells the kernels of gram_matrix_power, and what they keep
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: long long stands for
 * int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MATRIX_POWER_PARAMS_H
#define GRAM_MATRIX_POWER_PARAMS_H
#include "solve_params.h"

#define POWER_THREADS 256 /* of a block of every kernel but matrix_power_bound: a warp */
#define POWER_LANCZOS 32  /* steps */
#define POWER_PARTS   256 /* most blocks of an item in a pass over its matrix */

/* Why an item has no result, as enum gram_power_outcome has it. */
#define POWER_DONE          0
#define POWER_NOT_FINITE    1
#define POWER_NOT_DEFINITE  2
#define POWER_NOT_CONVERGED 3
#define POWER_INEXACT       4

/* And gram_power_method. */
#define POWER_EIGH    1
#define POWER_NEWTON  2
#define POWER_SCHULZ  3
#define POWER_MINIMAX 4

/* matrix_power_combine computes to = shift I + factor from with these two numbers.  POWER_STEP also
 * adds up the squares of from - I.  POWER_FIRST makes I of an item that has failed, and POWER_STEP
 * of one that is done. */
#define POWER_COPY     0 /* 0 and 1 */
#define POWER_IDENTITY 1 /* 1 and 0: from is not read */
#define POWER_RIDGE    2 /* the ridge and 1 */
#define POWER_FIRST    3 /* those that an iteration begins with */
#define POWER_STEP     4 /* those of a step of the iteration */
#define POWER_LAST     5 /* 0 and the factor that the result of the iteration lacks */

/* matrix_power_decide */
#define POWER_AFTER_STEP 0
#define POWER_RESTART    1 /* the next root of Newton-Schulz begins */
#define POWER_END        2

/* What is known of an item: A = 2^exponent A', everything happens to A'. */
struct power_state {
    unsigned long long most;    /* the largest magnitude of A, its bits as a double */
    unsigned long long size[3]; /* those that the estimate compares: |r|, |c - r|, |c| */
    double alpha[POWER_LANCZOS], beta[POWER_LANCZOS];
    double largest, shift; /* eigenvalue of B; ridge of A' */
    double step[2];        /* shift and factor of W */
    double first, last;    /* factors */
    double before;         /* the last error of an iteration; of the polynomials: e */
    double low, high;      /* where eigenvalues of M lie */
    int steps, settled;    /* of Lanczos */
    int exponent, outcome, done, zero;
};

struct power_params {
    struct power_state *state; /* of the first item */
    long long ndim, shape[DEVICE_DIMS];
    long long begin, count; /* items of the batch */
    long long n, ld;        /* of matrices */
    long long parts, width; /* blocks of an item; rows that a block takes at a time: 32 to 256 */
    struct device_view a, out, info, error, ridge;
    long long dtype, ridge_dtype; /* of a, out and error; of ridge */
    long long upper, relative, keep, estimate;
    long long numerator, denominator, method, is_real;
    double power, floor;
    double ridge_value, condition, tolerance;
    double least_ridge;      /* of a factor, times the largest eigenvalue; 0: it is none */
    double nearly;           /* an error after which one more step of an iteration is enough */
    double enough;           /* an e after which no polynomial is needed */
    char *from, *to, *other; /* matrices of the first item; other NULL: none */
    char *vectors;           /* three an item */
    double *sums;            /* POWER_PARTS an item */
    double *values;          /* EIGH: REALs, n an item */
    const int *codes;        /* EIGH: one per item */
    long long turn;          /* of Lanczos */
    long long what;
    double shift;     /* matrix_power_distance: from - shift I - other */
    double factor[3]; /* matrix_power_sum */
};
#endif

/*
 * kron_matmul_problem.h - problems of gram_kron_matmul: rows of the table, and any size
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRON_MATMUL_PROBLEM_H
#define GRAM_KRON_MATMUL_PROBLEM_H
#include "check/harness/harness.h"

enum kron_contents {
    UNIFORM,
    INTEGERS, /* of 31 bits: their sums wrap around */
    NAN_ROW,  /* NaN in the second row of x (column of GRAM_LEFT) */
};

enum kron_destination {
    APART,
    X_ITSELF, /* y is x */
    Z_ITSELF, /* y is z */
};

struct kron_matmul_row {
    int64_t m;
    int count;
    int64_t size[GRAM_MAX_FACTORS][2]; /* of op(f); {n} is n by n, {-1, n} n by 0 */
    gram_dtype dtype;
    gram_side side;
    bool transpose_x;
    uint32_t transpose_factors;
    double alpha, beta; /* alpha 0: 1 */
    bool scalars_per_item;
    int64_t batch[3][2]; /* of x, of factors in turn; 0: no such dimension */
    enum layout x_layout, factor_layout[2], y_layout;
    enum kron_destination destination;
    enum kron_contents contents;
    const char *why;
};

enum {
    KRON_MATMUL_ROWS = 86
};
extern const struct kron_matmul_row kron_matmul_rows[KRON_MATMUL_ROWS];

/* kron_matmul_bench.c: the sizes M P Q N and the parameters dtype= and side=. */
bool kron_matmul_prepare(struct harness *h, const struct case_args *args, struct case_problem *out);
#endif

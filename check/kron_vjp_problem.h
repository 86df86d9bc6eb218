/*
 * kron_vjp_problem.h - rows of gram_kron_matmul_vjp and problems of any size
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRON_VJP_PROBLEM_H
#define GRAM_KRON_VJP_PROBLEM_H
#include "check/harness/harness.h"

enum {
    KRON_VJP_X = 1u << 31 /* of left_out: the gradient of x is not wanted */
};

struct kron_vjp_row {
    int count;
    int64_t m, size[GRAM_MAX_FACTORS][2];                  /* p, q of each factor as it is used */
    int64_t x_batch[2], grad_batch[2], factor_batch[2][2]; /* of the factors in turn; 0: none */
    gram_dtype dtype;
    gram_side side;
    bool transpose_x;
    uint32_t transpose_factors;
    double alpha;        /* 0: 1 */
    bool alpha_per_item; /* alpha, alpha + 1, ... along x's first batch dimension */
    enum layout x_layout, grad_layout, layout[2]; /* of the factors, and gradients, in turn */
    uint32_t left_out; /* bit i: the gradient of factor i is not wanted */
    bool nan;          /* in one row of grad */
    const char *why;
};

void kron_vjp_row_check(struct harness *h, const struct kron_vjp_row *row);

bool kron_vjp_prepare(struct harness *h, const struct case_args *args, struct case_problem *out);
#endif

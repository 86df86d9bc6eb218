/*
 * vjp_bench.h - a problem of any size for gram_kernel_matmul_vjp and gram_kernel_reduce_vjp: the
 * gradient to x of a function of the rows of a kernel
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_VJP_BENCH_H
#define GRAM_VJP_BENCH_H
#include "check/harness/harness.h"

struct vjp_bench {
    gram_tensor x, y, v, grad, to_x;
    gram_kernel_options kernel;
    double scale; /* of a reduction */
    bool same;    /* y is NULL in the call */
};

/* Fills in out but for its run and error: sizes M N K R, params p, q, bandwidth, symmetric and
 * scale. */
bool vjp_bench_prepare(struct harness *h, const struct case_args *args, struct case_problem *out);

/* Row i of the cotangent of the kernel in double; gives a bound of the size of its terms. */
typedef double vjp_bench_cotangent(const struct vjp_bench *s, int64_t i, double *to);

/* The largest error of some elements of to_x, over (terms + 300) eps times the sum of the sizes of
 * what is added up. */
double vjp_bench_error(struct harness *h, const struct vjp_bench *s, int elements, int64_t terms,
                       vjp_bench_cotangent *cotangent);
#endif

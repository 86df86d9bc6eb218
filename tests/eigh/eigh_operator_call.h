/*
 * eigh_operator_call.h - a call of gram_eigh_operator or gram_eigh_kernel, on the harness's device
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_TEST_EIGH_OPERATOR_CALL_H
#define GRAM_TEST_EIGH_OPERATOR_CALL_H
#include "check/harness/harness.h"

enum {
    N = 700,
    K = 6,
    D = 3,
};

/* A diagonal matrix, and what its products are to do. */
struct diagonal {
    int calls, fail_at, cancel_at, nan_at; /* 0: never */
    gram_context *cancelled;
    bool by_rows;              /* all blocks came row-major and not too wide */
    double x[N * 8], y[N * 8]; /* copies of a device's */
};

double operator_entry(int64_t i);

/* A call and all that it is given. */
struct operator_call {
    struct diagonal diagonal;
    gram_operator a;
    double w[K], v[N * K];
    int32_t outcome;
    gram_tensor values, vectors, info, *with_info;
    gram_eigh_options options;
    gram_eigh_report report;
    double x[N * D]; /* of a kernel */
    gram_tensor points;
    gram_kernel_options kernel;
};

/* With everything that is needed; to be freed. */
struct operator_call *operator_call_open(struct harness *h);
gram_status operator_call_run(struct harness *h, struct operator_call *c);
gram_status operator_call_kernel(struct harness *h, struct operator_call *c);
#endif

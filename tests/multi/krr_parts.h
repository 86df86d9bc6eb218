/*
 * krr_parts.h - kernel solves of which every rank has some rows: for the tests over MPI and NCCL
 *
 * Every rank makes the whole from one seed.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_TEST_KRR_PARTS_H
#define GRAM_TEST_KRR_PARTS_H
#include "check/harness/harness.h"

struct krr_parts_row {
    int64_t n, depth, columns;
    gram_dtype dtype;
    gram_krr_method method;
    double ridge, tolerance;
    int64_t rank;
    int first_has_none; /* rank 0 has no rows */
    bool weights, refine, warm;
};

enum {
    KRR_PARTS_ROWS = 9,
    KRR_PARTS_TENSORS = 4
};

struct krr_parts {
    const struct krr_parts_row *row;
    struct test_tensor x, y, weights, alpha, whole;
    gram_kernel_options kernel;
    gram_krr_options options;
    gram_krr_report report, alone; /* alone: of the whole by this process */
    gram_tensor my_x, my_y, my_weights, my_alpha;
    int64_t first, rows;
};

extern const struct krr_parts_row krr_parts_table[KRR_PARTS_ROWS];

void krr_parts_make(struct harness *h, struct krr_parts *p, const struct krr_parts_row *row);
void krr_parts_drop(struct harness *h, struct krr_parts *p);
void krr_parts_take(struct krr_parts *p, gram_communicator *c);
gram_status krr_parts_solve(gram_context *g, struct krr_parts *p);
/* The whole by this process, with p->options, to p->whole. */
gram_status krr_parts_solve_alone(gram_context *g, struct krr_parts *p);
/* alpha is right in this rank's rows, and as it was elsewhere; so is the report. */
void krr_parts_compare(struct harness *h, const struct krr_parts *p);
#endif

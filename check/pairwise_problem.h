/*
 * pairwise_problem.h - what the tables of gram_cdist and gram_kernel have in common
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PAIRWISE_PROBLEM_H
#define GRAM_PAIRWISE_PROBLEM_H
#include "check/harness/harness.h"

enum pair_data {
    DATA_NORMAL,
    DATA_UNIFORM,    /* in [0, 1) */
    DATA_INTEGERS,   /* 0, 1, 2: ties everywhere */
    DATA_CLUSTERED,  /* around few centres, 1e-4 apart */
    DATA_OFFSET,     /* mean 1e4, deviation 1 */
    DATA_DUPLICATED, /* every row of y is one of x */
    DATA_TINY,       /* down to the denormals of f32 */
    DATA_WIDE,       /* magnitudes from 1e-15 to 1e15 */
    DATA_SPECIAL,    /* one row with NaN, one with infinity, one of zeros */
};

struct pair_row {
    int64_t m, n, k;
    int64_t x_batch[2], y_batch[2]; /* leading dimensions; 0: none */
    gram_dtype dtype;               /* of x and y */
    enum layout x_layout, y_layout, out_layout;
    enum pair_data data;
    bool same;     /* y is NULL */
    bool per_item; /* p (of a kernel: the bandwidth, the parameter L of an expression) is a tensor,
                      another value for every item */
    double p;
    bool no_root;
    const gram_kernel_options *kernel; /* NULL: gram_cdist */
    const char *expression; /* the kernel, written out, with its numbers as parameters; or NULL */
    const char *why;
};

void pair_row_label(const struct pair_row *row, char *text, size_t size);
void pair_row_check(struct harness *h, const struct pair_row *row);

/* A problem of any size; kernel NULL: gram_cdist; expression: the kernel, written out, or NULL. */
bool pair_prepare(struct harness *h, const struct case_args *args,
                  const gram_kernel_options *kernel, const char *expression,
                  struct case_problem *out);

/* Makes of a kernel the same one as an expression of its numbers, which become the parameters L, q,
 * alpha, gamma, coef0 and p5 (the degree). */
enum {
    PAIR_PARAMETERS = 6
};
void pair_write_out(const char *expression, gram_parameter *parameters,
                    gram_kernel_options *kernel);

/* The largest error that an element may have, given what it should be; see pairwise_bound.c. */
struct pair_question {
    const gram_tensor *x, *y; /* y may be NULL */
    gram_scalar p;
    int no_root;
    const gram_kernel_options *kernel;
};
struct reference_batch;
double pair_want(const struct pair_question *q, const struct reference_batch *batch,
                 const int64_t item_ij[3]);
double pair_bound(const struct pair_question *q, const struct reference_batch *batch,
                  const int64_t item_ij[3], double want);
#endif

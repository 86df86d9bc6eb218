/*
 * grad_problem.h - what the tables of gram_cdist_grad and gram_agop have in common
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_GRAD_PROBLEM_H
#define GRAM_GRAD_PROBLEM_H
#include "check/harness/harness.h"
#include "check/reference/reference.h"

enum grad_data {
    GRAD_NORMAL,
    GRAD_INTEGERS, /* 0, 1, 2: ties everywhere */
    GRAD_OFFSET,   /* features with mean 1e4, deviation 1 */
    GRAD_TINY,     /* features down to the denormals of f32 */
    GRAD_NAN,      /* NaN in one feature of one centre and in another of one point */
    GRAD_INFINITE, /* the same with infinity */
};

enum {
    A,
    B,
    C,
    D,
    INPUTS
};

struct grad_row {
    int64_t k, m, n, o;
    int64_t batch[INPUTS][2]; /* leading dimensions of each input; 0: none */
    gram_dtype dtype;
    enum layout layout[INPUTS], out_layout;
    enum grad_data data;
    double p;
    bool per_item; /* p is a tensor, p + 1/2 for the second item, ... */
    bool agop, diagonal, accumulate;
    int64_t points;
    const char *why;
};

void grad_row_label(const struct grad_row *row, char *text, size_t size);
void grad_row_check(struct harness *h, const struct grad_row *row);

/* A problem of any size, "K M N O"; agop: gram_agop. */
bool grad_prepare(struct harness *h, const struct case_args *args, bool agop,
                  struct case_problem *out);

/* What an element should be and the largest error that it may have: item, o, n, m of a gradient,
 * or item, n, l of an outer product before accumulation. */
struct grad_answer {
    double want, bound;
};
struct grad_answer grad_answer(const struct reference_grad *in, const struct reference_batch *batch,
                               const int64_t item_onm[4]);
struct grad_answer agop_answer(const struct reference_grad *in, const struct reference_batch *batch,
                               int64_t points, const int64_t item_nl[3]);
#endif

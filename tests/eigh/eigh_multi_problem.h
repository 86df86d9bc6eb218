/*
 * eigh_multi_problem.h - eigenproblems on several devices: made, brought there and back, checked
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_TEST_EIGH_MULTI_PROBLEM_H
#define GRAM_TEST_EIGH_MULTI_PROBLEM_H
#include "check/harness/harness.h"

enum {
    MULTI_MOST = 4,
    MULTI_N = 600,
    MULTI_GAP = 3,
    MULTI_UNTOUCHED = 77
};

struct multi_devices {
    gram_context *g[MULTI_MOST];
    gram_group group;
};

/* One matrix of f32 or f64 and what is wanted of it; copies on the CPU are in f64. */
struct multi_problem {
    int64_t n, first, count;
    gram_dtype dtype;
    gram_eigh_options options;
    bool by_columns, upper, vectors, in_place;
    int a_on, v_on, w_on; /* context; -1: the CPU */
    double scale;
    /* Made by fill: as the caller has them, and on the CPU. */
    gram_tensor a, v, w, info, found;
    char *cpu, *there[3];
    size_t bytes;
    int32_t code;
    int64_t inside;
};

/* CUDA devices that the tests may use. */
int multi_count(struct harness *h);
/* So many devices, the last one first where reversed; false if there are not so many. */
bool multi_open(struct harness *h, struct multi_devices *d, int count, bool reversed);
void multi_close(struct multi_devices *d);
/* Makes what the caller has; false without memory.  multi_drop */
bool multi_fill(struct harness *h, const struct multi_devices *d, struct multi_problem *p);
void multi_drop(const struct multi_devices *d, struct multi_problem *p);
gram_status multi_run(const struct multi_devices *d, struct multi_problem *p);
/* Brings results to the CPU's copies. */
void multi_fetch(struct harness *h, const struct multi_devices *d, struct multi_problem *p);
double multi_vector_at(const struct multi_problem *p, int64_t i, int64_t j);
double multi_value_at(const struct multi_problem *p, int64_t j);
/* LAPACK's ratios of some columns, the order of the values, gaps between columns. */
void multi_check_pairs(struct harness *h, const struct multi_problem *p);
/* All of it. */
void multi_compute(struct harness *h, const struct multi_devices *d, struct multi_problem *p);
#endif

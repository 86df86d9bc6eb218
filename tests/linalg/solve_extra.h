/*
 * solve_extra.h - batches of systems for the tests of rcond, jitter and refine
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_SOLVE_EXTRA_H
#define GRAM_SOLVE_EXTRA_H
#include "check/harness/harness.h"

enum {
    EXTRA_ORDER = 120, /* order */
    EXTRA_COLUMNS = 5,
    EXTRA_ITEMS = 3,
    EXTRA_TENSORS = 10
};

/* A batch of systems and everything that the options can ask for. */
struct extra_problem {
    int64_t n;
    bool lu;
    struct test_tensor a, b, x, rcond, jittered, backward, refinings, info, factor, pivots;
    gram_solve_options options; /* its tensors are those above */
    /* What the call is given where the device has its own memory. */
    struct test_copy copies[EXTRA_TENSORS];
    gram_solve_options there;
};

void extra_create(struct harness *h, struct extra_problem *p, int64_t n, gram_dtype dtype,
                  enum layout layout);
void extra_destroy(struct harness *h, struct extra_problem *p);

/* Item gets a matrix of that condition plus shift I, times scale; not symmetric for lu. */
void extra_fill(struct harness *h, struct extra_problem *p, int64_t item, double condition,
                double shift, double scale);

/* The call on h's device: once, or in exactly the scratch that it asks for. */
gram_status extra_once(struct harness *h, struct extra_problem *p);
bool extra_run(struct harness *h, struct extra_problem *p);

/* The item of a plus s I (from its triangle, where symmetric), b and x as arrays. */
void extra_copy(const struct extra_problem *p, int64_t item, double s, double *a, double *b,
                double *x);

/* (a + s I) x = b by its residual. */
void extra_check(struct harness *h, const struct extra_problem *p, int64_t item, double s,
                 double bound);
#endif

/*
 * kron_there.h - a problem of kron_ways.h and its result in the memory that a context computes in
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRON_THERE_H
#define GRAM_KRON_THERE_H
#include "check/harness/harness_problem.h"
#include "kron_ways.h"

/* A problem and a result where the context computes. */
struct kron_there {
    struct problem p;
    struct kron_problem problem;
    struct kron_result result;
};
/* Afterwards t has both where h's context computes; or what is there came back to r, with what a
 * way keeps between its calls.  A fetch follows where a send has failed. */
/* Every tensor of both, as a problem of the harness lists those that it sends. */
void kron_tensors(struct kron_problem *p, struct kron_result *r,
                  gram_tensor *tensors[CASE_TENSORS]);
gram_status kron_send(struct harness *h, const struct kron_problem *p, const struct kron_result *r,
                      struct kron_there *t);
gram_status kron_fetch(struct harness *h, struct kron_there *t, struct kron_result *r);
#endif

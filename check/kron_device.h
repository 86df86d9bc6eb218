/*
 * kron_device.h - a problem of kron_variants.h and its result where a context computes
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRON_DEVICE_H
#define GRAM_KRON_DEVICE_H
#include "check/harness/harness_problem.h"
#include "kron_variants.h"

/* A problem and a result where the context computes. */
struct kron_device {
    struct problem p;
    struct kron_problem problem;
    struct kron_result result;
};

/* Every tensor of both, as a problem of the harness lists those that it sends. */
void kron_tensors(struct kron_problem *p, struct kron_result *r,
                  gram_tensor *tensors[CASE_TENSORS]);

/* Sends both to where h's context computes; and brings the result back to r, with what a variant
 * keeps between its calls.  A fetch follows where a send has failed. */
gram_status kron_send(struct harness *h, const struct kron_problem *p, const struct kron_result *r,
                      struct kron_device *t);
gram_status kron_fetch(struct harness *h, struct kron_device *t, struct kron_result *r);
#endif

/*
 * kron_device.c - sends a problem of kron_variants.h to a device and fetches its result: see
 * kron_device.h
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_device.h"

void kron_tensors(struct kron_problem *p, struct kron_result *r, gram_tensor *tensors[CASE_TENSORS])
{
    gram_tensor **at = tensors;

    *at++ = &p->x;
    *at++ = &p->grad;
    *at++ = &r->y;
    *at++ = &r->x;
    for (int i = 0; i < p->count; i++)
        *at++ = &p->factor[i], *at++ = &r->factor[i];
}

gram_status kron_send(struct harness *h, const struct kron_problem *p, const struct kron_result *r,
                      struct kron_device *t)
{
    *t = (struct kron_device){.problem = *p, .result = *r};
    kron_tensors(&t->problem, &t->result, t->p.made.tensors);
    return problem_send(h, &t->p);
}

gram_status kron_fetch(struct harness *h, struct kron_device *t, struct kron_result *r)
{
    gram_status status = problem_fetch(h, &t->p);

    *r = t->result;
    return status;
}

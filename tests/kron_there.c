/*
 * kron_there.c - sends a problem of kron_ways.h to a device and fetches its result: see
 * kron_there.h
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_there.h"

gram_status kron_send(struct harness *h, const struct kron_problem *p, const struct kron_result *r,
                      struct kron_there *t)
{
    gram_tensor **at = t->p.made.tensors;

    *t = (struct kron_there){.problem = *p, .result = *r};
    *at++ = &t->problem.x;
    *at++ = &t->problem.grad;
    *at++ = &t->result.y;
    *at++ = &t->result.x;
    for (int i = 0; i < p->count; i++)
        *at++ = &t->problem.factor[i], *at++ = &t->result.factor[i];
    return problem_send(h, &t->p);
}

gram_status kron_fetch(struct harness *h, struct kron_there *t, struct kron_result *r)
{
    gram_status status = problem_fetch(h, &t->p);

    *r = t->result;
    return status;
}

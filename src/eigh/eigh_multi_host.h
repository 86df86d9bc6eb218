/*
 * eigh_multi_host.h - blocks of columns of matrices on the CPU, and whether several devices pay
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_EIGH_MULTI_HOST_H
#define GRAM_EIGH_MULTI_HOST_H
#include "eigh.h"
#include "eigh_multi.h"

extern const struct gram_eigh_multi_host gram_eigh_multi_cpu;

/* eigh_multi_alone.c: whether one device of a group can hold the problem and is known to be faster,
 * with what says so in reason.  d: seconds and time_source of the group are set. */
gram_status gram_eigh_multi_alone(const gram_group *group, const struct gram_eigh_call *call,
                                  const struct gram_eigh_op *op, gram_plan_description *d);
#endif

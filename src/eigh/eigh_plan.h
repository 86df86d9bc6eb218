/*
 * eigh_plan.h - a call of gram_eigh or gram_eigh_multi that has been checked
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_EIGH_PLAN_H
#define GRAM_EIGH_PLAN_H
#include "core/plan.h"
#include "eigh.h"
#include "eigh_multi.h"

struct gram_eigh_planned {
    gram_plan plan;
    gram_group group; /* count 0: the context alone */
    gram_context *contexts[GRAM_MULTI_DEVICES];
    gram_eigh_options options;
    gram_tensor a, values, vectors, info, found;
    bool has_vectors, has_info;
};

/* Makes a plan with copies of the arguments, which have been checked; it executes gram_eigh. */
gram_status gram_eigh_keep(gram_context *g, const struct gram_eigh_call *call,
                           struct gram_eigh_planned **made);
#endif

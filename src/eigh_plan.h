/*
 * eigh_plan.h - a call of gram_eigh or gram_eigh_multi that has been checked
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_EIGH_PLAN_H
#define GRAM_EIGH_PLAN_H
#include "eigh.h"
#include "eigh_multi.h"

struct gram_plan {
    gram_context *g;
    gram_group group; /* count 0: g alone */
    gram_context *contexts[GRAM_MULTI_DEVICES];
    gram_eigh_options options;
    gram_tensor a, values, vectors, info, found;
    bool has_vectors, has_info;
    gram_plan_description description;
};

/* Copies the arguments, which have been checked. */
void gram_plan_keep(gram_plan *plan, const struct gram_eigh_call *call);
#endif

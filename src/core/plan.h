/*
 * plan.h - what every plan begins with: a call that has been checked
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PLAN_H
#define GRAM_PLAN_H
#include "context.h"

struct gram_plan {
    gram_context *g;
    size_t bytes; /* of the whole plan, which begins with this */
    gram_status (*execute)(gram_plan *plan);
    gram_plan_description description;
};

/* Memory for a plan of bytes that begins with a struct gram_plan, zeroed but for g and bytes. */
gram_status gram_plan_allocate(gram_context *g, size_t bytes, gram_plan **plan);
#endif

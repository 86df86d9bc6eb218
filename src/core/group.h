/*
 * group.h - contexts that share the work of one call
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_GROUP_H
#define GRAM_GROUP_H
#include "view.h"

/* Copies a caller's group, whose first context tells what is wrong with it: call is the function's
 * name.  Contexts are there, distinct, and have what their streams hold behind them. */
gram_status gram_group_open(const gram_group *given, const char *call, gram_group *group);

/* Gives the status with which a context of the group failed, its message to the first. */
gram_status gram_group_failed(const gram_group *group, const gram_context *g, gram_status status);

/* Checks a tensor by itself: its dtype, its shape, that sizes do not overflow, wherever it is. */
gram_status gram_group_check(gram_context *g, const char *name, const gram_tensor *t);
#endif

/*
 * list.h - contexts that share the work of one call, and a list of matrices that they share
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_LIST_H
#define GRAM_LIST_H
#include "view.h"

/* Copies a caller's group, whose first context tells what is wrong with it: call is the function's
 * name.  Contexts are there, distinct, and have what their streams hold behind them. */
gram_status gram_group_open(const gram_group *given, const char *call, gram_group *group);

/* Gives the status with which a context of the group failed, its message to the first. */
gram_status gram_group_failed(const gram_group *group, const gram_context *g, gram_status status);

enum {
    GRAM_LIST_ROLES = 5 /* tensors of one matrix at most: the input, outputs */
};

/* A call of an operation for every matrix of a list. */
struct gram_list_call {
    gram_group group;
    gram_many many;
    const char *name; /* of the function */
    int roles;
    const char *role[GRAM_LIST_ROLES]; /* names of lists, for messages; the first is the input */
    gram_tensor *const *list[GRAM_LIST_ROLES]; /* NULL: none of it is wanted */
    bool optional[GRAM_LIST_ROLES];            /* the list, or an element of it, may be NULL */
    bool keeps[GRAM_LIST_ROLES];               /* what an output holds before counts too */
    const void *options;
    /* The operation on tensors that are all on the context's device; NULL where not wanted. */
    gram_status (*run)(gram_context *g, const struct gram_list_call *call,
                       gram_tensor *const t[GRAM_LIST_ROLES]);
};

/* Begins a call: its group and its list; the caller adds the rest. */
gram_status gram_list_open(const gram_group *group, const gram_many *many, const char *name,
                           struct gram_list_call *call);
/* Checks the lists, gives every matrix to a context, and waits for the results. */
gram_status gram_list_run(struct gram_list_call *call);
#endif

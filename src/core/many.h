/*
 * many.h - a list of matrices that the contexts of a group share
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MANY_H
#define GRAM_MANY_H
#include "group.h"

enum {
    GRAM_MANY_ROLES = 5 /* tensors of one matrix at most: the input, outputs */
};

/* A call of an operation for every matrix of a list. */
struct gram_many_call {
    gram_group group;
    gram_many many;
    const char *name; /* of the function */
    int roles;
    const char *role[GRAM_MANY_ROLES]; /* names of lists, for messages; the first is the input */
    gram_tensor *const *list[GRAM_MANY_ROLES]; /* NULL: none of it is wanted */
    bool optional[GRAM_MANY_ROLES];            /* the list, or an element of it, may be NULL */
    bool keeps[GRAM_MANY_ROLES];               /* what an output holds before counts too */
    const void *options;
    /* The operation on tensors that are all on the context's device; NULL where not wanted. */
    gram_status (*run)(gram_context *g, const struct gram_many_call *call,
                       gram_tensor *const t[GRAM_MANY_ROLES]);
};

/* Begins a call: its group and its list; the caller adds the rest. */
gram_status gram_many_open(const gram_group *group, const gram_many *many, const char *name,
                           struct gram_many_call *call);
/* Checks the lists, gives every matrix to a context, and waits for the results. */
gram_status gram_many_run(struct gram_many_call *call);

/* many_move.c: a tensor where a context computes. */
struct gram_moved {
    gram_tensor t;           /* there */
    const gram_tensor *home; /* the caller's */
    void *memory;            /* NULL: t is home itself */
    size_t bytes;
};

/* Brings there what the caller's holds, or makes room for an output; after a failure too:
 * gram_moved_free. */
gram_status gram_move_in(gram_context *g, const gram_tensor *home, struct gram_moved *m);
gram_status gram_move_room(gram_context *g, const gram_tensor *home, struct gram_moved *m);
/* Brings an output home, waiting where the CPU is. */
gram_status gram_move_out(gram_context *g, const struct gram_moved *m);
void gram_moved_free(gram_context *g, struct gram_moved *m);
#endif

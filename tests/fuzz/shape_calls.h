/*
 * shape_calls.h - calls of every operation, with their queries, on tensors of a table
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_SHAPE_CALLS_H
#define GRAM_SHAPE_CALLS_H
#include "gram/gram.h"
#include <stdbool.h>

enum {
    SHAPE_TENSORS = 11,
    SHAPE_NAME = 24
};

/* t: the tensors of the table, in its order. */
struct shape_call {
    gram_tensor t[SHAPE_TENSORS];
    bool query;
    gram_workspace need;
};

/* Tensors as text: name and sizes, all f64 but info and pivots (i32).  '!': it is written, with the
 * batch of the call; '=': it is written, with the batch of the first tensor; '+': of the tensor
 * before it.  '~': it adds no items to the call, and is refused alone. */
struct shape_row {
    const char *name;
    gram_status (*run)(gram_context *g, struct shape_call *c);
    const char *tensors; /* "x 4 3, out! 4 4" */
};

extern const struct shape_row shape_rows[]; /* name NULL at the end */

/* The text of the i'th tensor of a row, NULL if there is none. */
const char *shape_name(const struct shape_row *row, int i, char name[SHAPE_NAME]);
/* The i'th tensor of a row with a batch of so many items in front (-1: without), without data and
 * device; its elements lie one after the other.  False: there is none. */
bool shape_tensor(const struct shape_row *row, int i, int64_t batch, gram_tensor *t);
#endif

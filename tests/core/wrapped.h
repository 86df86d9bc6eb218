/*
 * wrapped.h - calls of operations, caught on their way from a case to the library
 *
 * A program that is linked with -Wl,--wrap=gram_<op> for every operation gets each call as a
 * wrapped_call, which can be run again, in any context.  It defines wrapped_torture.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_WRAPPED_H
#define GRAM_WRAPPED_H
#include "gram/gram.h"
#include <stdbool.h>

enum {
    WRAPPED_OUTPUTS = 17
};

struct wrapped_call {
    const char *name; /* "gram_cdist" */
    gram_status (*run)(gram_context *g, const struct wrapped_call *c);
    gram_status (*workspace)(gram_context *g, const struct wrapped_call *c, gram_workspace *need);
    gram_tensor *out, *info;
    gram_tensor *outputs[WRAPPED_OUTPUTS]; /* all that the call writes */
    int output_count;
    const void *tensors[6]; /* inputs, in the order of the arguments */
    int64_t count;          /* of the factors that tensors[0] is an array of */
    const void *options;
    gram_scalar p;
};

/* t may be NULL: no output. */
static inline void add_output(struct wrapped_call *c, gram_tensor *t)
{
    if (t)
        c->outputs[c->output_count++] = t;
}

/* The workspace query does not see info: one of another shape than the batch's is no output. */
static inline bool is_info(const gram_tensor *info, const gram_tensor *x, int core)
{
    bool same = info->data && info->dtype == GRAM_I32 && info->ndim == x->ndim - core;

    for (int i = 0; same && i < info->ndim; i++)
        same = info->shape[i] == x->shape[i];
    return same;
}

/* Does what it wants with the call and leaves the outputs as one run of it does. */
gram_status wrapped_torture(gram_context *g, const struct wrapped_call *c);
#endif

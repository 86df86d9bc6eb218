/*
 * cdist_grad.h - the arguments that gram_cdist_grad and gram_agop share, checked in one place
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CDIST_GRAD_H
#define GRAM_CDIST_GRAD_H
#include "core/backend.h"

struct gram_grad_inputs {
    const gram_tensor *a, *b, *c, *d;
    gram_scalar p;
};

/* Checks the shapes and dtypes of in, joins their batches and fills all of op but out.  The values
 * of p are not looked at: gram_grad_check_p() does that. */
gram_status gram_grad_describe(gram_context *g, const struct gram_grad_inputs *in,
                               struct gram_cdist_grad_op *op);

/* Refuses p that is not above 0 and finite. */
gram_status gram_grad_check_p(gram_context *g, const struct gram_batch *batch,
                              const struct gram_hyper *p);

/* Refuses an out of another dtype than the inputs, or one that overlaps any of them. */
gram_status gram_grad_check_out(gram_context *g, const struct gram_grad_inputs *in,
                                const gram_tensor *out);
#endif

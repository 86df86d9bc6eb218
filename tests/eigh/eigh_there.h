/*
 * eigh_there.h - gram_eigh and its like on the context's device, of tensors in CPU memory
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_TEST_EIGH_THERE_H
#define GRAM_TEST_EIGH_THERE_H
#include "check/harness/harness.h"

/* Tensors without gaps; info may be NULL.  what: the matrix or the points of call, or NULL. */
struct eigh_there {
    const gram_tensor *what;
    gram_tensor *values, *vectors, *info;
    void *user;
};

/* Calls with copies where g's device is not the CPU, and brings them back, whatever became of it.
 */
typedef gram_status eigh_there_call(gram_context *g, const struct eigh_there *there);
gram_status eigh_there_run(gram_context *g, const struct eigh_there *here, eigh_there_call *call);
/* gram_eigh. */
gram_status eigh_there(gram_context *g, const gram_tensor *a, const gram_eigh_options *options,
                       gram_tensor *values, gram_tensor *vectors, gram_tensor *info);
/* An emulated device takes too long for everything. */
bool eigh_is_emulated(void);
#endif

/*
 * eigh_sample.h - symmetric matrices for measurements of eigenproblems, where the context computes
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CLI_EIGH_SAMPLE_H
#define GRAM_CLI_EIGH_SAMPLE_H
#include "device.h"

/* items matrices of order n: random ones, or those of a Gaussian kernel. */
struct eigh_shape {
    gram_dtype dtype;
    int64_t items, n;
    int kernel;
};

struct eigh_sample {
    struct matrix host;
    struct device_matrix a, values, vectors;
};

/* The names of the drivers on the command line, in the order of their numbers; NULL at the end. */
extern const char *const eigh_driver_names[];

/* The matrices, and room for so many pairs of each, or values alone.  After a failure too:
 * eigh_sample_free. */
enum exit_status eigh_sample_make(gram_context *g, const struct eigh_shape *of, int64_t pairs,
                                  int with_vectors, struct eigh_sample *out, struct failure *why);
void eigh_sample_free(gram_context *g, struct eigh_sample *s);
#endif

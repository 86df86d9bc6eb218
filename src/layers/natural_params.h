/*
 * natural_params.h - what the host tells natural_gradient.cu
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: long long stands for
 * int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_NATURAL_PARAMS_H
#define GRAM_NATURAL_PARAMS_H
#include "kron_params.h"

#define NATURAL_THREADS 256

struct natural_params {
    long long ndim, shape[KRON_DIMS], count; /* of the batch, its items */
    long long blocks;                        /* of an item */
    long long n;                             /* order of a Gram matrix; elements of v */
    char *gram;                              /* dense, an item after the other */
    const char *turned;                      /* J^T s, dense, or NULL: 0 */
    double rows;                             /* of J */
    struct kron_side v, out;                 /* vectors along col_stride */
    struct kron_number info;                 /* data NULL: not to be set to 0 */
    struct kron_number damping;
};
#endif

/*
 * kron_expand_params.h - what the host tells kron_expand.cu and kron_trace.cu
 *
 * Read by the host's compiler and by NVRTC, which sees no other header: so it includes none of
 * CUDA's, and long long stands for int64_t.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KRON_EXPAND_PARAMS_H
#define GRAM_KRON_EXPAND_PARAMS_H
#include "kron_params.h"

#define KRON_EXPAND_THREADS 256 /* of a block: columns of out */
#define KRON_EXPAND_ROWS    8   /* of out, that a block writes */

struct kron_expand_params {
    long long ndim, shape[KRON_DIMS], items; /* of the batch */
    struct kron_side out, factor[KRON_MOST];
    long long count, rows, cols; /* of factors; of out */
    long long factor_rows[KRON_MOST], factor_cols[KRON_MOST];
};
#endif

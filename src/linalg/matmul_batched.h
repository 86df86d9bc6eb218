/*
 * matmul_batched.h - the checks that the calls for matrix products share
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MATMUL_BATCHED_H
#define GRAM_MATMUL_BATCHED_H
#include "core/backend.h"

/* Describes out = alpha op(a) op(b) + beta c; afterwards nothing can be wrong with it. */
gram_status gram_matmul_describe(gram_context *g, const gram_tensor *a, const gram_tensor *b,
                                 const gram_matmul_options *given, const gram_tensor *out,
                                 struct gram_matmul_batched_op *op);
#endif

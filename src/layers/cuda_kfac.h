/*
 * cuda_kfac.h - what the backend has for K-FAC and natural gradients
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_KFAC_H
#define GRAM_CUDA_KFAC_H
#include "cuda/cuda_ops.h"

/* cuda_kfac.c */
gram_status cuda_kfac_pass(gram_context *g, const struct gram_kfac_pass *pass);

/* cuda_kfac_factors.c */
gram_status cuda_kfac_factors(gram_context *g, const struct gram_kfac_factors_op *op);
gram_status cuda_kfac_factors_workspace(gram_context *g, const struct gram_kfac_factors_op *op,
                                        size_t *bytes);

/* cuda_natural_gradient.c */
gram_status cuda_natural_gradient(gram_context *g, const struct gram_natural_gradient_op *op);
gram_status cuda_natural_gradient_workspace(gram_context *g,
                                            const struct gram_natural_gradient_op *op,
                                            size_t *bytes);
#endif

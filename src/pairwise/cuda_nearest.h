/*
 * cuda_nearest.h - the two ways of gram_nearest on the device
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_NEAREST_H
#define GRAM_CUDA_NEAREST_H
#include "cuda_cdist.h"
#include "nearest_params.h"

/* True if tensor cores are to choose candidates; and the work itself. */
bool cuda_nearest_filters(const gram_context *g, const struct gram_nearest_op *op);
gram_status cuda_nearest_points(gram_context *g, const struct gram_nearest_op *op);

/* What the kernels of both ways are told: the outputs and what is wanted of them. */
void cuda_nearest_describe(const struct gram_nearest_op *op, struct nearest_params *p);
/* Queues what is made of a panel (nearest.cu). */
gram_status cuda_nearest_take(gram_context *g, const struct nearest_params *p, gram_dtype dtype);
/* The dynamic shared memory of a block, which holds a list (nearest_list.cuh). */
size_t cuda_nearest_shared(const struct nearest_params *p, gram_dtype dtype);
#endif

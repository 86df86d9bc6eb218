/*
 * cuda_matmul.h - what products of batches and averages of Gram matrices share on the device
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_MATMUL_H
#define GRAM_CUDA_MATMUL_H
#include "cuda/cublas.h"
#include "cuda/cuda_move.h"
#include "cuda/cuda_ops.h"
#include "matmul_params.h"

/* How an operand goes to cuBLAS: as it lies, or packed row by row, an item after the other. */
struct cuda_matmul_side {
    struct gram_view view;
    bool pack;
    size_t item_bytes; /* of a packed item */
    char *packed;
};

struct cuda_matmul_side cuda_matmul_side_of(const struct gram_view *v);
/* The transpose of items first .. as cuBLAS takes it; they lie evenly. */
struct cuda_gemm_side cuda_matmul_operand(const struct cuda_matmul_side *s,
                                          const struct gram_batch *batch, int64_t first);
/* Copies count items from the first on to where it is packed; nothing where it is not. */
gram_status cuda_matmul_pack(gram_context *g, const struct cuda_matmul_side *s,
                             const struct gram_batch *batch, int64_t first, int64_t count);

/* The batch without dimensions of 1, and the views' strides along it. */
void cuda_matmul_squeeze(struct gram_batch *batch, int64_t *const *strides, int count);
/* Whether items along the dimensions of the batch from d on lie evenly. */
bool cuda_matmul_even(const struct gram_batch *batch, const int64_t *stride, int d);
#endif

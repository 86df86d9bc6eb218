/*
 * cuda_matmul_chunked.h - the pieces of a product on the device, and where copies of them lie
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_MATMUL_CHUNKED_H
#define GRAM_CUDA_MATMUL_CHUNKED_H
#include "cuda/cuda_ops.h"

enum cuda_chunk_operand {
    CHUNK_A,
    CHUNK_B,
    CHUNK_C,
    CHUNK_OUT,
    CHUNK_OPERANDS
};

enum {
    CHUNK_SLOTS = 16 /* copies of pieces of an operand, at most */
};

struct cuda_chunks {
    struct gram_matmul_batched_op op; /* turned where b is the one to be read once */
    bool host[CHUNK_OPERANDS];
    bool streamed;   /* any of them */
    bool all;        /* one call, no pieces */
    int64_t m, n, k; /* of a piece */
    int slots[CHUNK_OPERANDS];
    size_t slot_bytes[CHUNK_OPERANDS], slots_at[CHUNK_OPERANDS];
    size_t product_at, product_bytes, bytes; /* scratch: the slots, then that of a piece */
};

gram_status cuda_matmul_chunks(gram_context *g, const struct gram_matmul_chunked_op *op,
                               struct cuda_chunks *c);
#endif

/*
 * cuda_move.c - the move of strided matrices on a device
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_move.h"

enum {
    MOST_BLOCKS = 1 << 20 /* beyond these, blocks loop */
};

static const struct cuda_kernel move_matrices = {"move.cu", "move_matrices"};

gram_status cuda_move(gram_context *g, gram_dtype dtype, const struct gram_batch *batch,
                      struct move_params *params)
{
    const int64_t pieces = gram_ceil_div(params->rows * params->cols, MOVE_THREADS * MOVE_EACH);

    if (pieces == 0 || params->count == 0)
        return GRAM_OK;
    if (batch)
        cuda_set_batch(batch, &params->ndim, params->shape);
    return cuda_launch_plain(g, &move_matrices, dtype,
                             params->count > MOST_BLOCKS / pieces ? MOST_BLOCKS
                                                                  : pieces * params->count,
                             MOVE_THREADS, params);
}

/*
 * cuda_move.h - the move of strided matrices on a device
 *
 *     to = alpha from + beta c
 *
 * for all items of a batch: a copy, a transposition, a change from a batch to a buffer and back, a
 * sum with what is there, f32 to f64.  What only resembles it has kernels of its own: the packing
 * of panels (cdist_pack.cu, cdist_panels.cu, kron_vjp_load), rows that are gathered by an index
 * (krr_rows.cu, median.cu), and triangles and what a failed factorisation leaves out
 * (solve_large.cu, solve_options.cu).
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_MOVE_H
#define GRAM_CUDA_MOVE_H
#include "device_view.h"
#include "launch.h"
#include "move_params.h"

/* Queues a move of matrices of a dtype that is not half; params has everything but the batch, which
 * may be NULL where params has that too.  The device is current. */
gram_status cuda_move(gram_context *g, gram_dtype dtype, const struct gram_batch *batch,
                      struct move_params *params);
#endif

/*
 * cuda_eigh_background.h - eigenproblems that a thread of the context waits for
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_EIGH_BACKGROUND_H
#define GRAM_CUDA_EIGH_BACKGROUND_H
#include "cuda/arena.h"
#include "cuda_eigh_large.h"

/* Starts the thread on one matrix that eigh_load has brought to the scratch; what it finds goes to
 * the caller's tensors when the thread is joined. */
gram_status cuda_eigh_background(gram_context *g, const struct cuda_eigh_large *large,
                                 const struct eigh_chunk_params *params);
#endif

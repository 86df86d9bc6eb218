/*
 * background.h - the thread that a context may have in the background (cuda_eigh_background.c)
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_BACKGROUND_H
#define GRAM_CUDA_BACKGROUND_H
#include "driver.h"

/* Waits for the thread, if one runs, and queues what it left to do: before the scratch or
 * cuSOLVER's handle are used for something else.  A failure is kept for gram_cuda_joined. */
void gram_cuda_join(gram_context *g);
/* The same; gives what failed since it was asked last. */
gram_status gram_cuda_joined(gram_context *g);
void gram_cuda_background_close(gram_context *g, struct cuda_device *device);
#endif

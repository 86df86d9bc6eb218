/*
 * jit_tuned.h - what was measured to be fastest for a class of problems
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_JIT_TUNED_H
#define GRAM_CUDA_JIT_TUNED_H
#include "../context.h"

/* Whether anything was tuned; the choice for a class, 0 if none is kept.  The first call of the
 * process reads the file. */
bool gram_jit_tuned_any(const gram_context *g);
int gram_jit_tuned_get(const gram_context *g, uint64_t class);
/* For this process at once; false if it cannot be kept for later ones. */
bool gram_jit_tuned_put(const gram_context *g, uint64_t class, int choice);
/* The file is another one or was cleared: read it again. */
void gram_jit_tuned_forget(void);
#endif

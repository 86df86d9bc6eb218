/*
 * cpu_blas_for.h - loops over items whose work is BLAS's
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_BLAS_FOR_H
#define GRAM_CPU_BLAS_FOR_H
#include "core/threads.h"
#include <stdbool.h>

/* Runs body, which calls BLAS, for every index in [0, count): side by side, each with one thread of
 * BLAS, or one after the other with all of them. */
void cpu_blas_for(gram_context *g, bool side_by_side, int64_t count, gram_loop_body *body,
                  void *arg);
#endif

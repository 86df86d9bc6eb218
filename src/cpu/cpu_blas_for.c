/*
 * cpu_blas_for.c - loops over items whose work is BLAS's
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_blas_for.h"
#include "core/blas.h"

void cpu_blas_for(gram_context *g, bool side_by_side, int64_t count, gram_loop_body *body,
                  void *arg)
{
    if (side_by_side) {
        gram_blas_for(g, count, body, arg);
        return;
    }
    gram_blas_threads(g);
    for (int64_t i = 0; i < count; i++)
        body(arg, i, 0);
}

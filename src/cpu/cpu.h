/*
 * cpu.h - the drivers behind the CPU's backend table, each explained in its own file, and what
 * several of them do with BLAS beside one call
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_H
#define GRAM_CPU_H
#include "core/backend.h"
#include "core/threads.h"

/* The number that measured times depend on: of the instruction set, and of threads. */
uint64_t cpu_machine(const gram_context *g);

/* The operations of ops.def that the CPU offers. */
#define GRAM_CPU_BOTH(name, op) gram_status cpu_##name(gram_context *g, const struct op *work);
#define GRAM_CPU_CPU(name, op)  gram_status cpu_##name(gram_context *g, const struct op *work);
#define GRAM_CPU_CUDA(name, op)
#define GRAM_OP(name, op, devices) GRAM_CPU_##devices(name, op)
#include "core/ops.def"
#undef GRAM_CPU_BOTH
#undef GRAM_CPU_CPU
#undef GRAM_CPU_CUDA

/* cpu_kernel_matmul as a part of other operations, in a piece of their scratch. */
gram_status cpu_kernel_matmul_in(gram_context *g, const struct gram_kernel_matmul_op *op,
                                 void *memory, size_t bytes);
gram_status cpu_tune_kron(gram_context *g, const struct gram_kron_matmul_op *op,
                          gram_kron_tuning *result);

/* ---- cpu_blas.c: loops over items whose work is BLAS's, products along a dimension ----------- */

/* Tensors and matrices are dense, row-major, of f32 or f64, and not empty; sizes are ones that
 * gram_blas_fits() takes. */

/* Runs body, which calls BLAS, for every index in [0, count): side by side, each with one thread of
 * BLAS, or one after the other with all of them. */
void cpu_blas_for(gram_context *g, bool side_by_side, int64_t count, gram_loop_body *body,
                  void *arg);

/* The dimension of n elements with `before` elements in front of it and `after` behind it. */
struct cpu_mode {
    int64_t before, n, after;
};

/* The mode of dimension `at` of a shape of `order` dimensions. */
struct cpu_mode cpu_mode_of(const int64_t *shape, int order, int at);

/* to[b][j][a] = sum_i q[j][i] from[b][i][a], or of q[i][j] where transposed; q is n by n.  to does
 * not overlap from. */
void cpu_mode_product(gram_dtype dtype, const struct cpu_mode *mode, const void *from,
                      const void *q, bool transposed, void *to);
#endif

/*
 * cpu.h - the drivers behind the CPU's backend table; each is explained in its own file
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_H
#define GRAM_CPU_H
#include "core/backend.h"

/* The number that measured times depend on: of the instruction set, and of threads. */
uint64_t cpu_machine(const gram_context *g);

/* The operations of ops.def that the CPU offers. */
#define GRAM_CPU_BOTH(name, op) gram_status cpu_##name(gram_context *g, const struct op *work);
#define GRAM_CPU_CUDA(name, op)
#define GRAM_OP(name, op, devices) GRAM_CPU_##devices(name, op)
#include "core/ops.def"
#undef GRAM_CPU_BOTH
#undef GRAM_CPU_CUDA

/* cpu_kernel_matmul as a part of other operations, in a piece of their scratch. */
gram_status cpu_kernel_matmul_in(gram_context *g, const struct gram_kernel_matmul_op *op,
                                 void *memory, size_t bytes);
gram_status cpu_tune_kron(gram_context *g, const struct gram_kron_matmul_op *op,
                          gram_kron_tuning *result);
#endif

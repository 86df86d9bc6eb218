/*
 * cpu_strip.c - a block of a matrix times a few vectors, for loops of the caller's
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu/cpu.h"
#include "cpu/cpu_kernels.h"

void cpu_strip_multiply(const gram_context *g, const struct gram_strip_op *op)
{
    gram_cpu_kernels_of(g)->strip[op->dtype](op);
}

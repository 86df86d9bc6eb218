/*
 * cpu_muon_bf16.h - Muon's orthogonalisation by products of bf16, where the processor has them
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_MUON_BF16_H
#define GRAM_CPU_MUON_BF16_H
#include "core/context.h"
#include "cpu_muon.h"

/* Whether the context's instruction set has them: AVX512_BF16. */
bool cpu_muon_bf16_runs(const gram_context *g);

/* Scratch of a matrix of f32, a multiple of 64 bytes. */
size_t cpu_muon_bf16_bytes(const struct muon_matrix *m);

/* x becomes what cpu_muon_orthogonalise makes of it, to 8 bits; threads: in loops of g's threads.
 */
void cpu_muon_bf16(gram_context *g, bool threads, const struct muon_matrix *m, float *x,
                   void *scratch);
#endif

/*
 * cpu_shampoo.h - the parts of Shampoo on the CPU
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_SHAMPOO_H
#define GRAM_CPU_SHAMPOO_H
#include "cpu_optimizer.h"

/* 1 - beta^t where moments are corrected for having begun at 0; else, and for sums, 1. */
double cpu_shampoo_correction(const gram_optimizer *o, double beta, int64_t t);

/* cpu_shampoo_root.c */
gram_status cpu_shampoo_refresh_bytes(gram_context *g, const gram_optimizer *o, size_t *bytes);
void cpu_shampoo_refresh(const struct cpu_optimizer_step *s);
#endif

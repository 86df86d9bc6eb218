/*
 * cpu_shampoo.h - the parts of Shampoo on the CPU
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_SHAMPOO_H
#define GRAM_CPU_SHAMPOO_H
#include "cpu_optimizer.h"

/* Of factors in step t: 1 - beta^n after n gradients where they are corrected for having begun at
 * 0; else, and for sums, 1. */
double cpu_shampoo_correction(const gram_optimizer *o, double beta, int64_t t);

enum {
    CPU_SHAMPOO_FITS = -1 /* an outcome: nothing was done, the root at hand still fits */
};

/* A factor that is due. */
struct cpu_shampoo_item {
    int64_t block, n;
    int k;
    int outcome; /* gram_power_outcome; or CPU_SHAMPOO_FITS */
};

/* Where the parts of a batch lie in the scratch behind the items. */
struct cpu_shampoo_batch {
    int64_t count;
    size_t out, info, power, power_bytes, bytes;
};

/* A run of items of one order and one exponent, and what a thread does with them. */
struct cpu_shampoo_run {
    const struct cpu_optimizer_step *s;
    struct cpu_shampoo_item *items;
    int64_t n;
    gram_dtype work;
    char *memory; /* behind all items */
    size_t matrix;
    const struct cpu_shampoo_batch *batch;
};

/* cpu_shampoo_fit.c: the corrected factor, both triangles; and whether
 * |X^(q/2) B^k X^(q/2) - I|_F <= skip sqrt(n), X being the root at hand for -k / q, in memory of
 * four matrices. */
void cpu_shampoo_load_factor(const struct cpu_shampoo_run *run, const struct cpu_shampoo_item *item,
                             void *to);
bool cpu_shampoo_fits(const struct cpu_shampoo_run *run, const struct cpu_shampoo_item *item,
                      char *memory);

/* cpu_shampoo_root.c */
gram_status cpu_shampoo_refresh_bytes(gram_context *g, const gram_optimizer *o, size_t *bytes);
void cpu_shampoo_refresh(const struct cpu_optimizer_step *s);
#endif

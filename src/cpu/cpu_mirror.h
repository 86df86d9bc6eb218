/*
 * cpu_mirror.h - makes a matrix symmetric
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_MIRROR_H
#define GRAM_CPU_MIRROR_H
#include "gram/gram.h"

/* An n by n matrix of f32 or f64 without gaps: column-major, its lower triangle goes to the upper
 * one; row-major, that is the upper one to the lower. */
void cpu_mirror(gram_dtype dtype, int64_t n, void *matrix);
#endif

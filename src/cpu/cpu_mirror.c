/*
 * cpu_mirror.c - makes a matrix symmetric
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_mirror.h"

enum {
    TILE = 32 /* two of 8-byte elements fill half of a cache of 32 KB */
};

#define SUFFIX f32
#define real   float
#include "mirror_tile.h"

#define SUFFIX f64
#define real   double
#include "mirror_tile.h"

void cpu_mirror(gram_dtype dtype, int64_t n, void *matrix)
{
    if (dtype == GRAM_F32)
        mirror_f32(n, matrix);
    else
        mirror_f64(n, matrix);
}

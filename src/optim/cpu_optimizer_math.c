/*
 * cpu_optimizer_math.c - loops over the numbers of a block
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_optimizer.h"
#include <math.h>

#define SUFFIX f32
#define real   float
#include "optimizer_tile.h"

#define SUFFIX f64
#define real   double
#include "optimizer_tile.h"

const struct cpu_optimizer_math *cpu_optimizer_math(gram_dtype work)
{
    return work == GRAM_F64 ? &math_f64 : &math_f32;
}

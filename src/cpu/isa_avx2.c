/*
 * isa_avx2.c - every CPU kernel, built for avx2
 *
 * SPDX-License-Identifier: MIT
 */
#include <stdint.h>

#include "simd_avx2.h"

#include "kernels.h"

/*
 * isa_avx512.c - every CPU kernel, built for avx512
 *
 * SPDX-License-Identifier: MIT
 */
#include <stdint.h>

#include "simd_avx512.h"

#include "kernels.h"

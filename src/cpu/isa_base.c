/*
 * isa_base.c - every CPU kernel, built for base
 *
 * SPDX-License-Identifier: MIT
 */
#include <stdint.h>

#include "simd_base.h"

#include "kernels.h"

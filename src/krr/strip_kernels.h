/*
 * strip_kernels.h - products of a matrix with a few vectors: what each instruction set provides
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_STRIP_KERNELS_H
#define GRAM_STRIP_KERNELS_H
#include "strip.h"

/* out += a v, or the transpose of a times v, of a gram_strip_op; v and out are apart. */
typedef void gram_strip_kernel(const struct gram_strip_op *op);
#endif

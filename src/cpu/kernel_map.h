/*
 * kernel_map.h - what becomes of a finished sum S: f(S^outer), its weight or bandwidth derivative
 *
 * Every function f is reduced to few forms of t = scale * S^e, so that the kernels have one loop a
 * form; see kernel_map.c.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_KERNEL_MAP_H
#define GRAM_KERNEL_MAP_H
#include "power.h"

/* How a power S^e is computed. */
enum gram_raise {
    GRAM_RAISE_NONE, /* e = 1 */
    GRAM_RAISE_ONE,  /* e = 0 */
    GRAM_RAISE_SQRT,
    GRAM_RAISE_INVERSE_SQRT,
    GRAM_RAISE_SQUARE,
    GRAM_RAISE_INVERSE,
    GRAM_RAISE_INTEGER, /* repeated multiplication */
    GRAM_RAISE_NARROW,  /* vpower.h */
    GRAM_RAISE_WIDE,
};

struct gram_map {
    /* What the caller sets; see gram_kernel_options for the formulas.  Not GRAM_COSINE, whose
     * norms are no function of the sum. */
    gram_inner inner;
    gram_function function;
    gram_kernel_output output;
    double p;     /* of the inner sum */
    double outer; /* s = S^outer; 1: none */
    double bandwidth, exponent, alpha, gamma, coef0, degree;
};

/* Fills the rest of map for arithmetic in dtype (GRAM_F32 or GRAM_F64). */
void gram_map_prepare(struct gram_map *map, gram_dtype dtype);
#endif

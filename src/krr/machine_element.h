/*
 * machine_element.h - one element of an array of f32 or f64, as a double
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MACHINE_ELEMENT_H
#define GRAM_MACHINE_ELEMENT_H
#include "gram/gram.h"

static inline double machine_element(gram_dtype dtype, const void *data, int64_t at)
{
    return dtype == GRAM_F32 ? (double)((const float *)data)[at] : ((const double *)data)[at];
}

static inline void machine_set_element(gram_dtype dtype, void *data, int64_t at, double value)
{
    if (dtype == GRAM_F32)
        ((float *)data)[at] = (float)value;
    else
        ((double *)data)[at] = value;
}
#endif

/*
 * harness_roof.h - what this machine can do at most: fused multiply-adds and copied bytes a second
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_HARNESS_ROOF_H
#define GRAM_HARNESS_ROOF_H
#include "gram/gram.h"

struct roof {
    double fma;  /* a second, on all threads, each lane counted */
    double copy; /* bytes read plus bytes written a second, on all threads */
};

/* Measures for about a tenth of a second; isa is one of gram_info's names, dtype f32 or f64. */
struct roof roof_measure(const char *isa, int threads, gram_dtype dtype);

/* Seconds of CLOCK_MONOTONIC. */
double harness_seconds(void);
#endif

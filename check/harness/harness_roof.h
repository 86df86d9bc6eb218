/*
 * harness_roof.h - what this machine or a GPU can do at most: multiply-adds and bytes a second
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_HARNESS_ROOF_H
#define GRAM_HARNESS_ROOF_H
#include "harness.h"

struct roof {
    double fma;    /* a second, each lane counted; 0: unknown */
    double memory; /* bytes a second, read and written ones counted; 0: unknown */
};

/*
 * Measures for some tenths of a second what the processor, on all threads, or the GPU of h does
 * that computes nothing else: multiply-adds in registers (f64, or f32 for all other dtypes; on a
 * GPU also products of matrices, which have units of their own), and copying or reading so many
 * bytes again and again (0: more than the caches hold), so that what fits a cache has that cache's
 * roof.
 */
struct roof roof_measure(struct harness *h, gram_dtype dtype, double bytes);
struct roof roof_measure_device(struct harness *h, gram_dtype dtype, double bytes);

/* Seconds of CLOCK_MONOTONIC. */
double harness_seconds(void);
#endif

/*
 * cpu_muon.h - Muon's orthogonalisation
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_MUON_H
#define GRAM_CPU_MUON_H
#include "core/sizes.h"
#include "gram/gram.h"

/* A dense row-major matrix, not empty, and how it is treated. */
struct muon_matrix {
    gram_dtype dtype;
    int64_t rows, cols;
    int steps;
    double least; /* the norm that it is divided by is at least this */
};

/* Scratch, a multiple of 64 bytes. */
size_t cpu_muon_bytes(const struct muon_matrix *m);

/*
 * x / |x| goes through the steps
 *   x <- a x + (b y + c y^2) x, y = x x^T,
 * which bring its singular values near 1.  x is destroyed, spare has its size, and the function
 * returns the one of the two that has the result.
 */
void *cpu_muon_orthogonalise(const struct muon_matrix *m, void *x, void *spare, void *scratch);
#endif

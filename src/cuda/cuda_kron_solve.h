/*
 * cuda_kron_solve.h - factorisations of the factors of a Kronecker product on the device
 *
 * Each factor is factorised where it changes along the batch, by the operations of the backend,
 * which take their scratch in a piece of the call's.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_KRON_SOLVE_H
#define GRAM_CUDA_KRON_SOLVE_H
#include "arena.h"
#include "cuda_kron.h"
#include "kernels/kron_solve_params.h"

/* A factor: offsets in scratch of what becomes of it. */
struct cuda_kron_factor {
    const struct gram_view *view;
    struct gram_batch own; /* items that it has */
    size_t matrix_at;      /* its eigenvectors or LU */
    size_t values_at;      /* its eigenvalues or pivots */
    size_t code_at;        /* ints: 0, or what the factorisation says */
};

/* Whatever a call has of its factors, and its scratch. */
struct cuda_kron_factors {
    const struct gram_batch *batch;
    struct cuda_kron_factor factor[GRAM_MAX_FACTORS];
    int count;
    int64_t order;
    size_t codes_at,
        codes_bytes; /* of all codes; behind them, as many, what kron_solve_scan found */
    size_t inner_at, inner_bytes; /* scratch of the operations that are parts */
    size_t bytes;                 /* of all */
    char *memory;                 /* NULL while bytes are counted */
};

/* Fills in what the views say, and makes room for codes. */
void cuda_kron_factors_open(struct cuda_kron_factors *s, const struct gram_batch *batch,
                            const struct gram_view *views, int count, int64_t order);
/* An address in scratch; otherwise while bytes are counted. */
void *cuda_kron_at(const struct cuda_kron_factors *s, size_t at, void *otherwise);
/* One int an item that a factor has, at an offset. */
struct gram_view cuda_kron_code(const struct cuda_kron_factors *s, int i);
/* What kernels are told of all factors. */
void cuda_kron_factors_params(const struct cuda_kron_factors *s, struct kron_solve_params *p);
/* Zeros codes, and finds factors that are not finite in a triangle (as kron_solve_params.h). */
gram_status cuda_kron_scan(gram_context *g, const struct cuda_kron_factors *s, int triangle);
#endif

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
#include "core/scratch.h"
#include "cuda/arena.h"
#include "cuda_kron.h"

/* A factor, with the offsets in scratch of its factorisation. */
struct cuda_kron_factor {
    const struct gram_view *view;
    struct gram_batch distinct; /* the items in which it differs */
    size_t matrix_at;           /* its eigenvectors or LU */
    size_t values_at;           /* its eigenvalues or pivots */
    size_t code_at; /* ints, one for each of distinct: 0, or the info of the factorisation */
};

/* The factors of a call, and its scratch. */
struct cuda_kron_factors {
    const struct gram_batch *batch;
    struct cuda_kron_factor factor[GRAM_MAX_FACTORS];
    int count;
    int64_t order;
    /* Of the codes of all factors; behind them are as many of kron_solve_scan. */
    size_t codes_at, codes_bytes;
    size_t inner_at, inner_bytes; /* scratch of the operations that this one consists of */
    size_t bytes;                 /* of the whole scratch */
    char *memory;                 /* NULL while bytes are counted */
};

/* cuda_kron_solve.c */

/* Fills in the factors from their views, and makes room for their codes. */
void cuda_kron_factors_open(struct cuda_kron_factors *s, const struct gram_batch *batch,
                            const struct gram_view *views, int count, int64_t order);
/* The address of an offset in scratch; `otherwise` while bytes are only counted. */
void *cuda_kron_at(const struct cuda_kron_factors *s, size_t at, void *otherwise);
/* A view of the codes of factor i. */
struct gram_view cuda_kron_code(const struct cuda_kron_factors *s, int i);
/* Fills in the parameters of kernels from all factors. */
void cuda_kron_factors_params(const struct cuda_kron_factors *s, struct kron_solve_params *p);
/* Sets the codes to zero, and marks factors that have a number in `triangle` that is not finite
 * (see kron_params.h). */
gram_status cuda_kron_check_finite(gram_context *g, const struct cuda_kron_factors *s,
                                   int triangle);
#endif

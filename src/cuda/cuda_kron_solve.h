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

struct cuda_kron_solve_job {
    const struct gram_kron_solve_op *op;
    struct cuda_kron_factors f;
    bool eigen, small;
    int64_t groups, group_rows; /* LU and Cholesky: see cuda_kron_matmul_vjp.h */
    size_t rows_at[2];          /* all of b, twice for factors that are not small */
    size_t singular_at;         /* ints, one an item */
};

enum {
    CUDA_KRON_SOLVE_DEFINES = 64
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

/* cuda_kron_solve.c: b to rows_at[0] as [group][column][row], and from p->rows to x. */
gram_status cuda_kron_solve_load(gram_context *g, const struct cuda_kron_solve_job *job,
                                 bool by_columns);
gram_status cuda_kron_solve_store(gram_context *g, const struct cuda_kron_solve_job *job,
                                  struct kron_solve_params *p);

/* cuda_kron_solve_small.c: whether all factors are small enough for its kernels; their scratch;
 * LU or Cholesky of them, and a pass for each; the kernel of a pass. */
bool cuda_kron_solve_is_small(const struct cuda_device *device,
                              const struct gram_kron_solve_op *op);
void cuda_kron_solve_lay_out_small(struct cuda_kron_solve_job *job);
gram_status cuda_kron_solve_small(gram_context *g, const struct cuda_kron_solve_job *job,
                                  struct kron_solve_params *p);
struct jit_request cuda_kron_solve_pass_request(gram_dtype dtype, int n, int64_t after,
                                                char defines[CUDA_KRON_SOLVE_DEFINES]);
#endif

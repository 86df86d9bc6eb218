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
#include "cuda/arena.h"
#include "cuda_kron.h"
#include "kron_algebra_params.h"

/* A factor, with the offsets in scratch of its factorisation. */
struct cuda_kron_factor {
    const struct gram_view *view;
    struct gram_batch own; /* the items in which it differs */
    size_t matrix_at;      /* its eigenvectors or LU */
    size_t values_at;      /* its eigenvalues or pivots */
    size_t code_at;        /* ints, one for each of own: 0, or the info of the factorisation */
};

/* The factors of a call, and its scratch. */
struct cuda_kron_factors {
    const struct gram_batch *batch;
    struct cuda_kron_factor factor[GRAM_MAX_FACTORS];
    int count;
    int64_t order;
    size_t codes_at,
        codes_bytes; /* of the codes of all factors; behind them are as many of kron_solve_scan */
    size_t inner_at, inner_bytes; /* scratch of the operations that this one consists of */
    size_t bytes;                 /* of the whole scratch */
    char *memory;                 /* NULL while bytes are counted */
};

struct cuda_kron_solve_job {
    const struct gram_kron_solve_op *op;
    struct cuda_kron_factors f;
    bool eigen, small;
    int64_t groups, group_rows; /* LU and Cholesky: see cuda_kron_matmul_vjp.h */
    size_t rows_at[2];          /* a copy of b, and a second one for factors that are not small */
    size_t singular_at;         /* ints, one for each item */
};

enum {
    CUDA_KRON_SOLVE_DEFINES = 64
};

/* Fills in the factors from their views, and makes room for their codes. */
void cuda_kron_factors_open(struct cuda_kron_factors *s, const struct gram_batch *batch,
                            const struct gram_view *views, int count, int64_t order);
/* The address of an offset in scratch; `otherwise` while bytes are only counted. */
void *cuda_kron_at(const struct cuda_kron_factors *s, size_t at, void *otherwise);
/* A view of the codes of factor i. */
struct gram_view cuda_kron_code(const struct cuda_kron_factors *s, int i);
/* Fills in the parameters of kernels from all factors. */
void cuda_kron_factors_params(const struct cuda_kron_factors *s, struct kron_solve_params *p);
/* Zeros the codes, and marks factors with a number in `triangle` that is not finite (see
 * kron_algebra_params.h). */
gram_status cuda_kron_scan(gram_context *g, const struct cuda_kron_factors *s, int triangle);

/* cuda_kron_solve.c: _load copies b to rows_at[0], with by_columns as [group][column][row]; _store
 * copies p->rows to x. */
gram_status cuda_kron_solve_load(gram_context *g, const struct cuda_kron_solve_job *job,
                                 bool by_columns);
gram_status cuda_kron_solve_store(gram_context *g, const struct cuda_kron_solve_job *job,
                                  struct kron_solve_params *p);

/* cuda_kron_solve_small.c.  _is_small is true if all factors are small enough for its kernels,
 * _lay_out_small adds their scratch, cuda_kron_solve_small factorises all of them and makes a pass
 * for each, and _pass_request names the kernel of a pass. */
bool cuda_kron_solve_is_small(const struct cuda_device *device,
                              const struct gram_kron_solve_op *op);
void cuda_kron_solve_lay_out_small(struct cuda_kron_solve_job *job);
gram_status cuda_kron_solve_small(gram_context *g, const struct cuda_kron_solve_job *job,
                                  struct kron_solve_params *p);
struct jit_request cuda_kron_solve_pass_request(gram_dtype dtype, int n, int64_t after,
                                                char defines[CUDA_KRON_SOLVE_DEFINES]);
#endif

/*
 * cuda_matrix_power.h - what the methods of gram_matrix_power share on the device
 *
 * A job is a chunk of the batch: every launch and every product is for all of its items.  Matrices
 * in scratch are column-major with leading dimension ld, one item after the other.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_MATRIX_POWER_H
#define GRAM_CUDA_MATRIX_POWER_H
#include "cuda/cublas.h"
#include "cuda/cuda_ops.h"
#include "cuda/cusolver.h"
#include "matrix_power.h"
#include "matrix_power_params.h"

/* How many steps an iteration takes, at most; and how many of them, the first, TF32 would spoil. */
struct power_steps {
    int all, exact;
};

enum {
    POWER_PLANNED = 16
};

/* Steps of MINIMAX that are known beforehand, none: they are not.  What their polynomials multiply
 * I, M and M^2 by (and an e). */
struct power_plan {
    int steps;
    double factor[POWER_PLANNED][4];
};

struct power_job {
    struct gram_power_run run; /* of all items of a chunk; the first member */
    gram_context *g;
    struct gram_matrix_power_op chosen; /* the caller's, its method not AUTO */
    const struct gram_matrix_power_op *op;
    gram_dtype work; /* what is computed in */
    int compute;     /* of cuBLAS */
    bool eigh, split;
    bool rough;    /* TF32 where it does little harm */
    int64_t chunk; /* items at a time */
    struct power_steps steps;
    struct power_plan plan;
    /* Scratch of a chunk: all matrices, the libraries' own; the rest is in params. */
    char *matrices;
    void *blas_memory, *solver_memory;
    size_t matrix_bytes;
    size_t solver_bytes, host_bytes; /* cuSOLVER's */
    struct cuda_blas *blas;
    struct cuda_solver *solver;
    void *host;
    struct power_params params; /* of this chunk */
    char *halves[4];            /* of the factors of a product, where it is split */
};

/* A kernel of items * parts blocks; of a block an item. */
gram_status cuda_power_pass(gram_context *g, struct power_job *job,
                            const struct cuda_kernel *kernel);
gram_status cuda_power_items(gram_context *g, struct power_job *job,
                             const struct cuda_kernel *kernel, unsigned threads);
/* Brings A' to scratch, as matrix_power_load.cu has it. */
gram_status cuda_power_load(gram_context *g, struct power_job *job, char *to);
/* c = a b, or a b^T; c is neither of them. */
gram_status cuda_power_product(gram_context *g, struct power_job *job, const char *a, const char *b,
                               char *c);
/* The same where a and b commute, so that c is symmetric: half of it is multiplied. */
gram_status cuda_power_symmetric(gram_context *g, struct power_job *job, const char *a,
                                 const char *b, char *c);
gram_status cuda_power_square(gram_context *g, struct power_job *job, const char *a, char *c);

/* What gram_power_iterate and gram_power_estimate do on the device. */
extern const struct gram_power_passes cuda_power_passes;

/* The methods: from B to X. */
gram_status cuda_power_iterate(gram_context *g, struct power_job *job);
gram_status cuda_power_eigh(gram_context *g, struct power_job *job);
/* A bound of the condition number, that the caller gave or of a factor; infinite: none. */
double cuda_power_condition(const struct power_job *job);
/* The polynomials of MINIMAX, if they are known beforehand, and the steps that a method takes. */
void cuda_power_plan(const struct power_job *job, struct power_plan *plan);
struct power_steps cuda_power_steps(const struct power_job *job);
/* What cuSOLVER needs for a chunk. */
gram_status cuda_power_eigh_bytes(gram_context *g, struct power_job *job);
#endif

/*
 * cuda_kron_matmul_vjp.h - the plan of the gradients of a product with Kronecker factors
 *
 * The chains of src/cpu/cpu_kron_matmul_vjp.h, whose products cuBLAS computes, or kernels of ours
 * where a factor is small: left[i] is S by P_i, right[i] is Q_i by S, and every step is one product
 * that moves a dimension.  Neighbouring small factors are joined to one, written out, since
 * products with few columns wait for memory.
 *
 * Items of the batch are groups, each with a chain of its own; where no factor changes from item to
 * item the rows of all items make up one group.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_KRON_MATMUL_VJP_H
#define GRAM_CUDA_KRON_MATMUL_VJP_H
#include "cublas.h"
#include "cuda_kron.h"
#include "kernels/kron_vjp_params.h"

/* Neighbouring factors of op as one of p rows and q columns. */
struct cuda_kron_join {
    int first, count; /* of op's factors */
    int64_t p, q;
    bool wanted;
    bool small; /* its steps are those of kron_vjp_step.cuh */
    /* How cuBLAS gets it: as it lies, or row by row in scratch. */
    bool copied;
    size_t at;      /* in the scratch, where it is copied */
    int64_t ld;     /* of the transpose, or of the matrix itself where by_columns */
    int64_t stride; /* from group to group, in elements; 0: one for all */
    bool by_columns;
    int64_t per_row; /* S of one row of x */
    /* Its gradient: pieces of the sums over S, each with a place of its own. */
    int64_t slice, slots; /* S of a piece; places of a group */
    size_t left_at, sums_at;
};

struct cuda_kron_vjp_plan {
    const struct gram_kron_matmul_vjp_op *op;
    int64_t groups, group_rows;
    int64_t rows;           /* of a group that go through the chains together */
    int joins, first, last; /* those whose gradients are wanted lie between them; none: joins, -1 */
    int steps;              /* that grad goes through */
    struct cuda_kron_join join[GRAM_MAX_FACTORS];
    bool x_direct, grad_direct, to_x_direct;
    size_t right_at[2], blas_at;
    double bytes; /* of scratch: more than can be counted is told so */
};

/* Rows of every group on their way. */
struct cuda_kron_chain {
    const struct cuda_kron_vjp_plan *plan;
    const struct cuda_blas *blas;
    char *memory;
    int64_t first, count; /* rows */
    const char *left[GRAM_MAX_FACTORS], *right;
    int64_t left_stride[GRAM_MAX_FACTORS]; /* from group to group */
};

gram_status cuda_kron_vjp_plan(gram_context *g, const struct gram_kron_matmul_vjp_op *op,
                               struct cuda_kron_vjp_plan *plan);

/* Bytes of an element. */
static inline int64_t cuda_kron_vjp_size(const struct cuda_kron_vjp_plan *plan)
{
    return (int64_t)gram_dtype_size(plan->op->x.dtype);
}

/* cuda_kron_matmul_vjp_chain.c: left[i-1] from left[i]; right[i+1] from right[i], which right then
 * is; adds to the sums of the gradient of join i. */
gram_status cuda_kron_vjp_contract(gram_context *g, const struct cuda_kron_chain *c, int i);
gram_status cuda_kron_vjp_take_back(gram_context *g, struct cuda_kron_chain *c, int i);
gram_status cuda_kron_vjp_add_gradient(gram_context *g, const struct cuda_kron_chain *c, int i);
#endif

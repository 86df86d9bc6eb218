/*
 * cuda_kron_matmul_vjp.h - the plan of the gradients of a product with Kronecker factors
 *
 * Two chains of tensors meet at every factor.  The indices of a row are
 *   left[i]:  [P_1 .. P_i,   Q_i+1 .. Q_N],
 *   right[i]: [P_1 .. P_i-1, Q_i   .. Q_N],
 * and the chains are
 *   left[N]  = x,                     left[i-1]  = left[i] times factor i,
 *   right[1] = the gradient of y,     right[i+1] = right[i] times the transpose of factor i.
 * The gradient of factor i is the sum of the products of left[i] and right[i] over all indices but
 * its own, which are in the same places in both: nothing is ever transposed.  Neighbouring small
 * factors are joined, since steps with few columns wait for memory: a step then applies all of
 * them, and their gradients come from that of their product.
 *
 * Items of the batch are groups, each with a chain of its own; where no factor changes from item to
 * item the rows of all items make up one group.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_KRON_MATMUL_VJP_H
#define GRAM_CUDA_KRON_MATMUL_VJP_H
#include "cuda_kron.h"
#include "kron_vjp_params.h"

/* Neighbouring factors of op, seen as one factor of p rows and q columns. */
struct cuda_kron_join {
    int first, count; /* which factors of op these are */
    int64_t p, q;
    bool wanted;
    int64_t before, after; /* how many indices are before and after those of the factors */
    int64_t per_row;       /* their product */
    /* The tiles of the gradient.  It is added up in pieces, each of which has a slot of its own. */
    int mt, nt, wp, wq;
    int64_t slice, slots; /* columns of a piece; slots of a group */
    size_t left_at, sums_at;
    /* group: one launch of kron_vjp_group.cu computes the gradients of these factors directly. */
    bool group;
    int tb, ta, ahead, blocks;
};

struct cuda_kron_vjp_plan {
    const struct gram_kron_matmul_vjp_op *op;
    int64_t groups, group_rows;
    int64_t rows;           /* how many rows of a group go through the chains together */
    int joins, first, last; /* wanted gradients lie from first to last; none: joins and -1 */
    int steps;              /* how many steps grad goes through */
    struct cuda_kron_join join[GRAM_MAX_FACTORS];
    bool x_direct, grad_direct, to_x_direct;
    size_t right_at[2], step_at, step_bytes; /* step: the scratch that a step takes for itself */
    double bytes;                            /* of scratch, as a double: they may exceed 64 bits */
};

/* Some rows of every group on their way through the chains. */
struct cuda_kron_chain {
    const struct cuda_kron_vjp_plan *plan;
    char *memory;
    int64_t first, count; /* rows */
    const char *left[GRAM_MAX_FACTORS], *right, *next;
    /* The distances from group to group in left[i], in right and in next, the result of a step. */
    int64_t left_stride[GRAM_MAX_FACTORS], right_stride, next_stride;
};

/* The bytes of an element. */
static inline int64_t cuda_kron_vjp_size(const struct cuda_kron_vjp_plan *plan)
{
    return (int64_t)gram_dtype_size(plan->op->x.dtype);
}

/* cuda_kron_matmul_vjp.c: sets `next` to where right[i+1] goes. */
void cuda_kron_vjp_aim(struct cuda_kron_chain *c, int i);

/* cuda_kron_matmul_vjp_gradient.c, the gradient of one join by itself: _cut_gradient chooses its
 * pieces, and _add_gradient adds the rows of a chain to their sums.  _choose_tile chooses the tile
 * for p and q, and _gradient_variant names its kernel, which copies `load` elements at once. */
void cuda_kron_vjp_cut_gradient(const struct cuda_device *device,
                                const struct cuda_kron_vjp_plan *plan, struct cuda_kron_join *j);
gram_status cuda_kron_vjp_add_gradient(gram_context *g, const struct cuda_kron_chain *c, int i);
void cuda_kron_vjp_choose_tile(gram_dtype dtype, struct cuda_kron_join *j);
void cuda_kron_vjp_gradient_variant(gram_dtype dtype, const struct cuda_kron_join *j, int load,
                                    struct cuda_variant *v);

/* cuda_kron_matmul_vjp_gradient.c, the gradients of groups: _choose_groups makes all joins groups,
 * or returns false; _cut_group chooses the pieces of one; _sums_at is where the sums of one of its
 * factors are; and _run_group computes its gradients and right[i+1], after which `right` is the new
 * one. */
bool cuda_kron_vjp_choose_groups(const struct cuda_device *device, struct cuda_kron_vjp_plan *plan);
void cuda_kron_vjp_cut_group(const struct cuda_device *device,
                             const struct cuda_kron_vjp_plan *plan, struct cuda_kron_join *j);
size_t cuda_kron_vjp_sums_at(const struct cuda_kron_vjp_plan *plan, const struct cuda_kron_join *j,
                             int factor);
gram_status cuda_kron_vjp_run_group(gram_context *g, struct cuda_kron_chain *c, int i);
#endif

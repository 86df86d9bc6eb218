/*
 * cuda_kron_matmul_vjp.h - the plan of the gradients of a product with Kronecker factors
 *
 * The indices of a row of left[i] are those of x up to factor i, then those of y:
 * [P_1 .. P_i, Q_i+1 .. Q_N]; of right[i] [P_1 .. P_i-1, Q_i .. Q_N].  left[N] is x and left[i-1]
 * the product of left[i] with factor i; right[1] is the gradient of y and right[i+1] the product of
 * right[i] with factor i's transpose.  The gradient of factor i is the sum of their products over
 * all indices but its own, which are in the same places in both: nothing is ever transposed.
 * Neighbouring small factors are joined, since steps with few columns wait for memory: a step then
 * applies all of them, and their gradients come from that of their product.
 *
 * Items of the batch are groups, each with a chain of its own; where no factor changes from item to
 * item the rows of all items make up one group.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_KRON_MATMUL_VJP_H
#define GRAM_CUDA_KRON_MATMUL_VJP_H
#include "cuda_kron.h"
#include "kernels/kron_vjp_params.h"

enum {
    CUDA_KRON_VJP_DEFINES = 160
};

/* Neighbouring factors of op as one of p rows and q columns. */
struct cuda_kron_join {
    int first, count; /* of op's factors */
    int64_t p, q;
    bool wanted;
    int64_t before, after, per_row; /* indices around them; their product */
    /* The tiles of its gradient, which is added up in pieces, each with a place of its own. */
    int mt, nt, wp, wq;
    int64_t slice, slots; /* columns of a piece; places of a group */
    size_t left_at, sums_at;
    /* One launch of kron_vjp_group.cu, whose sums are those of each factor. */
    bool group;
    int tb, ta, ahead, blocks;
};

struct cuda_kron_vjp_plan {
    const struct gram_kron_matmul_vjp_op *op;
    int64_t groups, group_rows;
    int64_t rows;           /* of a group that go through the chains together */
    int joins, first, last; /* those whose gradients are wanted lie between them; none: joins, -1 */
    int steps;              /* that grad goes through */
    struct cuda_kron_join join[GRAM_MAX_FACTORS];
    bool x_direct, grad_direct, to_x_direct;
    size_t right_at[2], step_at, step_bytes; /* of a step's own scratch */
    double bytes;                            /* of scratch: more than can be counted is told so */
};

/* Rows of every group on their way. */
struct cuda_kron_chain {
    const struct cuda_kron_vjp_plan *plan;
    char *memory;
    int64_t first, count; /* rows */
    const char *left[GRAM_MAX_FACTORS], *right, *next;
    /* From group to group: of left[i], of right, and of what comes after that. */
    int64_t left_stride[GRAM_MAX_FACTORS], right_stride, next_stride;
};

gram_status cuda_kron_vjp_plan(gram_context *g, const struct gram_kron_matmul_vjp_op *op,
                               struct cuda_kron_vjp_plan *plan);

/* Bytes of an element. */
static inline int64_t cuda_kron_vjp_size(const struct cuda_kron_vjp_plan *plan)
{
    return (int64_t)gram_dtype_size(plan->op->x.dtype);
}

/* cuda_kron_matmul_vjp_chain.c: where the chains begin; left[i-1] from left[i]; where right[i+1]
 * goes; right[i+1] from right[i], which right then is; the scratch that a step takes. */
void cuda_kron_vjp_begin(struct cuda_kron_chain *c);
gram_status cuda_kron_vjp_contract(gram_context *g, const struct cuda_kron_chain *c, int i);
gram_status cuda_kron_vjp_take_back(gram_context *g, struct cuda_kron_chain *c, int i);
/* Sets next for i. */
void cuda_kron_vjp_aim(struct cuda_kron_chain *c, int i);
gram_status cuda_kron_vjp_step_bytes(gram_context *g, const struct cuda_kron_vjp_plan *plan,
                                     size_t *bytes);

/* cuda_kron_matmul_vjp_gradient.c: the pieces of the gradient of a join; adds to their sums. */
void cuda_kron_vjp_cut_gradient(const struct cuda_device *device,
                                const struct cuda_kron_vjp_plan *plan, struct cuda_kron_join *j);
gram_status cuda_kron_vjp_add_gradient(gram_context *g, const struct cuda_kron_chain *c, int i);
/* Tiles for p and q; the kernel of these, which copies so many elements at once. */
void cuda_kron_vjp_choose_tile(gram_dtype dtype, struct cuda_kron_join *j);
struct jit_request cuda_kron_vjp_gradient_request(gram_dtype dtype, const struct cuda_kron_join *j,
                                                  int load, char defines[CUDA_KRON_VJP_DEFINES]);

/* cuda_kron_matmul_vjp_group.c: makes all joins groups, or gives false; their pieces; the sums of a
 * factor of one; its gradients and right[i+1], which right then is. */
bool cuda_kron_vjp_choose_groups(const struct cuda_device *device, struct cuda_kron_vjp_plan *plan);
void cuda_kron_vjp_cut_group(const struct cuda_device *device,
                             const struct cuda_kron_vjp_plan *plan, struct cuda_kron_join *j);
size_t cuda_kron_vjp_sums_at(const struct cuda_kron_vjp_plan *plan, const struct cuda_kron_join *j,
                             int factor);
gram_status cuda_kron_vjp_run_group(gram_context *g, struct cuda_kron_chain *c, int i);
struct jit_request cuda_kron_vjp_group_request(gram_dtype dtype, const struct gram_view *factor,
                                               const struct cuda_kron_join *j, int load,
                                               char defines[CUDA_KRON_VJP_DEFINES]);
#endif

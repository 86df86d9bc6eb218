/*
 * cuda_kernel_fused.h - products with kernel matrices whose elements stay in registers: what the
 * ways of cuda_kernel_matmul_fused.c and cuda_kernel_matmul_tensor.c share, and the gradients of
 * cuda_kernel_matmul_vjp.c
 *
 * All compute sums over slices of y, and over the mirror images of blocks of rows, which
 * kernel_matmul_sum.cu adds.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_KERNEL_FUSED_H
#define GRAM_CUDA_KERNEL_FUSED_H
#include "cuda/arena.h"
#include "cuda_cdist.h"
#include "kernel_matmul_params.h"
#include "pairwise.h"

/* Issue slots of a function: e^-t of a power of the sum, perhaps times a polynomial, is quick. */
static inline int64_t cuda_fused_function_slots(bool quick)
{
    return quick ? 8 : 50;
}

/* A product, its plan, and what its kernels are told. */
struct fused {
    const struct gram_kernel_matmul_op *op;
    struct cuda_cdist_plan plan; /* of the kernel matrix */
    bool tensor;                 /* kernel_matmul_tensor.cu */
    bool wide;                   /* WIDE */
    int rows, columns;           /* ROWS and COLUMNS; strips of a block with `tensor` */
    bool mirrors;                /* MIRROR */
    int64_t groups, slices, slice_points;
    int64_t round_items, round_rows;
    int64_t first_row, end_row;  /* of the part that is multiplied */
    char *sums, *images;         /* images: the sums of mirror images */
    double *kept;                /* what rows of later rounds have got */
    struct square_params square; /* with `tensor`: panels of the items of a round */
    char *v_panels;              /* with `wide` */
};

/* ---- cuda_kernel_matmul_fused.c -------------------------------------------------------------- */

/* The kernel matrix is never stored: its view has a shape and nothing else. */
void cuda_fused_plan_matrix(const gram_context *g, struct fused *f);
/* True for a function of a few instructions. */
bool cuda_fused_is_quick(const struct gram_cdist_op *op);
/* Instructions of the term of a coordinate; 0: it is not unrolled. */
int64_t cuda_fused_step_slots(const struct cuda_cdist_options *o);
/* True if there is room for points of so many coordinates, with one column at least. */
bool cuda_fused_holds(const struct cuda_cdist_options *o, int64_t depth);
/* COLUMNS for so many columns of v. */
int cuda_fused_columns(const struct cuda_cdist_options *o, int64_t depth, int64_t columns);
/* Cuts y for blocks of so many rows of x; f->groups is set. */
void cuda_fused_cut(struct fused *f, int64_t block);
/* Adds what a round's kernel has left in f->sums and f->images to f->op->out. */
gram_status cuda_fused_sum(gram_context *g, const struct fused *f,
                           const struct matmul_round *round);
/* Issue slots of a pair by panels, of whose elements one takes so many. */
int64_t cuda_fused_panel_slots(const struct fused *f, int64_t element);

/* ---- cuda_kernel_matmul_tensor.c ------------------------------------------------------------- */

/* Fills in all but the rounds; false if tensor cores do not serve the problem. */
bool cuda_tensor_plan(const gram_context *g, const struct gram_kernel_matmul_op *op,
                      struct fused *f);
/* True if that costs less than the other ways. */
bool cuda_tensor_pays(const struct fused *f);
/* Items whose panels a round has room for, at most `items`. */
int64_t cuda_tensor_items(const struct fused *f, int64_t items);
/* Names the pieces of scratch for panels of f->round_items items. */
void cuda_tensor_take(struct fused *f, struct gram_layout *layout);
/* Writes the panels of some items, and multiplies a round of them. */
gram_status cuda_tensor_pack(gram_context *g, struct fused *f, const struct matmul_round *round);
gram_status cuda_tensor_launch(gram_context *g, const struct fused *f,
                               const struct matmul_round *round);
/* The kernel of a plan, but for the code of its expression. */
void cuda_tensor_variant(const struct fused *f, struct cuda_variant *v);
#endif

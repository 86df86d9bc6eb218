/*
 * cpu_kron_matmul_vjp.h - the gradients of a product with Kronecker factors, as a chain of matrix
 * products
 *
 * With factors 1 to N, x is m by (P_1 ... P_N).  Two chains meet at every factor i:
 *   left[i]   x with the factors after i applied:      Q_{i+1} .. Q_N  m  P_1 .. P_i
 *   right[i]  grad with those before i taken back:     Q_i .. Q_N  m  P_1 .. P_{i-1}
 * (dimensions, the last one without gaps).  So left[i] is a matrix S by P_i and right[i] one Q_i
 * by S, with the same S columns or rows, and each step is one product that moves a dimension:
 *   left[i-1]  = F_i^T left[i]^T       (Q_i by S)
 *   gradient   = left[i]^T right[i]^T  (P_i by Q_i)
 *   right[i+1] = right[i]^T F_i^T      (S by P_i); after the last factor it is the gradient to x.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_KRON_MATMUL_VJP_H
#define GRAM_CPU_KRON_MATMUL_VJP_H
#include "cpu/cpu.h"

enum {
    VJP_SLOTS = 64,  /* parts of the work of one round, each with sums of its own */
    VJP_SLICES = 16, /* parts of a step that all threads share */
    VJP_LARGE = 64,  /* rows and columns of factors that BLAS's own threads are good for */
};

/* Where one thread works on some rows: offsets in bytes. */
struct kron_vjp_buffers {
    size_t left[GRAM_MAX_FACTORS], right[2], factor[GRAM_MAX_FACTORS], bytes;
};

struct kron_vjp_plan {
    gram_context *g;
    const struct gram_kron_matmul_vjp_op *op;
    int first, last; /* factors whose gradients are wanted lie between them; none: N, -1 */
    int steps;       /* factors that the chain of grad goes through */
    bool wide;       /* all threads share each step; else each has rows of its own */
    bool x_shared;   /* several items add to one gradient of x */
    int64_t rows;    /* that are worked on at once */
    int64_t unit_rows, units, total; /* a unit: rows of an item that one thread has; all of them */
    int64_t per_row[GRAM_MAX_FACTORS]; /* S of one row */
    struct kron_vjp_buffers at;
    size_t sum_at[GRAM_MAX_FACTORS]; /* of the first slot of sums */
    int64_t slots[GRAM_MAX_FACTORS];
    size_t sums_at, bytes; /* of all scratch */
    char *scratch;
};

/* Some rows of an item on their way through the chains. */
struct kron_vjp_rows {
    const struct kron_vjp_plan *plan;
    char *memory; /* of plan->at */
    int64_t item, row, count;
    int64_t slot; /* of the sums, where the plan is not wide */
    int thread;
    bool accumulate; /* to the sums */
    const char *left[GRAM_MAX_FACTORS], *right;
};

/* GRAM_UNSUPPORTED: a product is larger than BLAS can count. */
gram_status cpu_kron_matmul_vjp_plan(gram_context *g, const struct gram_kron_matmul_vjp_op *op,
                                     struct kron_vjp_plan *plan);

/* Takes rows through the chains: adds to sums, writes or adds to the gradient of x. */
void cpu_kron_matmul_vjp_chain(struct kron_vjp_rows *rows);

/* Bytes of the sums of one slot of factor i. */
size_t cpu_kron_matmul_vjp_sum_bytes(const struct gram_kron_matmul_vjp_op *op, int i);

/* How a factor goes to BLAS: as it lies, or else packed by rows. */
bool cpu_kron_matmul_vjp_packed(const struct gram_view *factor);

/* True if item is the first of those that add to an output. */
static inline bool cpu_kron_matmul_vjp_first(const struct gram_view *v,
                                             const struct gram_batch *batch, int64_t item)
{
    for (int i = batch->ndim - 1; i >= 0; i--) {
        if (v->batch_stride[i] == 0 && item % batch->shape[i] > 0)
            return false;
        item /= batch->shape[i];
    }
    return true;
}

/* A strided matrix moved, or added, to another one; strides in elements, of rows and columns. */
struct kron_vjp_move {
    void *to;
    const void *from;
    int64_t to_stride[2], from_stride[2];
    int64_t rows, cols;
    bool add;
};
void cpu_kron_matmul_vjp_move(gram_dtype dtype, const struct kron_vjp_move *m);
#endif

/*
 * cpu_eigh.h - what the drivers of the symmetric eigenproblem share
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_EIGH_H
#define GRAM_CPU_EIGH_H
#include "core/scratch.h"
#include "cpu/cpu.h"
#include "cpu/cpu_kernels.h"
#include "krylov.h"

/* A call and how it is done. */
struct eigh_plan {
    const struct gram_eigh_op *op;
    const struct gram_eigh_kernels *kernels; /* of the dtype */
    gram_eigh_driver driver;
    gram_eigh_driver fallback; /* for items that driver gives up; AUTO: none */
    bool grows;                /* scratch is the context's, which may take more for fallback */
    atomic_llong failed;       /* item * 4 + info, the smallest; LLONG_MAX: none */
};

/* What became of an item: the values of info. */
enum eigh_outcome {
    EIGH_DONE = 0,
    EIGH_NOT_CONVERGED = 1,
    EIGH_NOT_FINITE = 2,
};

/* A way to do it; cpu_eigh.c lists them all. */
struct eigh_driver {
    const char *name;                           /* in messages */
    bool (*takes)(const struct gram_eigh_op *); /* can it do what is asked? */
    /* Opens its scratch first.  What fails of an item is told by cpu_eigh_fail. */
    gram_status (*run)(gram_context *g, struct eigh_plan *plan);
};

/* The drivers. */
extern const struct eigh_driver cpu_eigh_closed_form, cpu_eigh_jacobi; /* cpu_eigh_small.c */
extern const struct eigh_driver cpu_eigh_divide, cpu_eigh_bisection;   /* cpu_eigh_large.c */
extern const struct eigh_driver cpu_eigh_krylov;                       /* cpu_eigh_krylov.c */

/* cpu_krylov.c: what the Krylov solver does to its tall matrices. */
extern const struct krylov_ops cpu_krylov_ops;

/* Pairs of an item on their way out: stored of them, from number first of w on.  w ascends with
 * unit stride; vector j is column order[j] (NULL: j) of v; v NULL: they are in place. */
struct eigh_pairs {
    const void *w, *v;
    int64_t stride[2]; /* of v, from row to row, column to column */
    const int32_t *order;
    int64_t first, stored, found;
};

/* The pairs that are asked for among n ascending values, which are all of the item's. */
void cpu_eigh_choose(const struct eigh_plan *plan, int64_t n, struct eigh_pairs *pairs);
/* Ends an item: writes values, vectors, found and info. */
void cpu_eigh_store(const struct eigh_plan *plan, int64_t item, const struct eigh_pairs *pairs);
/* Ends an item that failed: NaN, and info. */
void cpu_eigh_fail(struct eigh_plan *plan, int64_t item, enum eigh_outcome outcome);

/* Address of an item of one of the call's tensors. */
static inline char *cpu_eigh_item(const struct eigh_plan *plan, const struct gram_view *v,
                                  int64_t item)
{
    return gram_view_item(v, &plan->op->batch, item);
}
#endif

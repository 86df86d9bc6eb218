/*
 * cpu_kron_matmul.h - the plan of a product with Kronecker factors, and how its data are moved
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_KRON_MATMUL_H
#define GRAM_CPU_KRON_MATMUL_H
#include "core/backend.h"
#include "kron_kernels.h"
#include "kron_span.h"

/* ---- cpu_kron_move.c ---------------------------------------------------------------- */

/* A factor in memory: strides of p and of q. */
struct kron_factor {
    const void *data;
    int64_t depth, outs, step, next;
};

/* Four indices of a tensor, the last one running fastest. */
struct kron_piece {
    void *data;
    int64_t size[4], stride[4];
};

struct kron_moves {
    size_t element; /* bytes of a number of the arithmetic */
    gram_dtype arithmetic;
    void (*pack_columns)(const struct kron_factor *f, const struct gram_kron_kernels *k, void *to);
    void (*pack_slices)(const struct kron_factor *f, const struct gram_kron_kernels *k, void *to);
    void (*load)(const struct kron_piece *piece, void *tile);
    void (*store)(const struct kron_piece *y, const struct kron_piece *z, const double scale[2],
                  const void *tile);
};

/* How tensors of a dtype are moved. */
const struct kron_moves *cpu_kron_moves(gram_dtype dtype);

/* ---- cpu_kron_matmul_plan.c ---------------------------------------------------------------- */

enum {
    CPU_KRON_CHOICES = 5 /* sizes of tiles beside the library's own choice, which is 0 */
};

/* Neighbouring factors that are all applied to a tile while it is in the cache. */
struct kron_group {
    struct gram_kron_span span;
    int64_t blocks, width;        /* of a tile: of before, and of after */
    int64_t row_tiles, col_tiles; /* of a unit */
};

/*
 * x is seen as a tensor [row, k_1, ..., k_N, lane]: its rows are either units of their own (lanes
 * is 1) or, where they are contiguous, the lanes of vectors.  A unit is what one thread takes
 * through all groups: rows one after the other where there is one group, else one row, or lanes.
 */
struct kron_plan {
    const struct gram_kron_matmul_op *op;
    int choice;         /* 0: the library's own */
    int64_t tile_bytes; /* that a buffer of a tile may have */
    const struct gram_kron_kernels *kernels;
    const struct kron_moves *moves;
    int64_t lanes, rows; /* of a unit: one of them is 1 */
    int64_t units;       /* of an item */
    int groups;          /* of factors, in the order of the work */
    struct kron_group group[GRAM_MAX_FACTORS];
    bool slices[GRAM_MAX_FACTORS]; /* the pass of the factor is one of slices */
    bool tiles_apart;              /* few units: their tiles go to different threads */
    int64_t tile, row;             /* elements of a buffer: of a tile, between groups */
    int64_t packed_at[GRAM_MAX_FACTORS + 1], packed_step[GRAM_MAX_FACTORS]; /* elements; per item */
};

/* op has neither an empty y nor an empty x.  Where a choice would have the factors contracted in
 * another order, and so change the bits of y, the plan is that of choice 0. */
void cpu_kron_matmul_plan(const gram_context *g, const struct gram_kron_matmul_op *op, int choice,
                          struct kron_plan *plan);

/* How the rows of x are cut: the first part, of whole vectors of lanes, may leave a rest. */
int64_t cpu_kron_matmul_first_part(const gram_context *g, const struct gram_kron_matmul_op *op);

/* ---- cpu_kron_matmul.c ------------------------------------------------------------------- */

/* cpu_kron_matmul with a choice of the plan's. */
gram_status cpu_kron_matmul_chosen(gram_context *g, const struct gram_kron_matmul_op *op,
                                   int choice);

/* ---- cpu_kron_tune.c --------------------------------------------------------------------- */

/* The choice that was measured to be fastest for such problems, 0 where none was. */
int cpu_kron_tuned(const gram_context *g, const struct gram_kron_matmul_op *op);
#endif

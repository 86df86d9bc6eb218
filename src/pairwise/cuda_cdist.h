/*
 * cuda_cdist.h - distances, kernels and their gradients on the device: plans, and the kernels that
 * serve them
 *
 * A plan holds everything that a problem's launch needs: which kernel, with which options, and what
 * it is told.  The drivers of other operations queue whole problems (cuda_cdist_queue); plans are
 * for cuda_cdist_square.c, cuda_tune.c, and the lists of kernels that are compiled ahead.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_CDIST_H
#define GRAM_CUDA_CDIST_H
#include "core/expression.h"
#include "core/scratch.h"
#include "cuda/cuda_ops.h"
#include "cuda/device_view.h"
#include "grad_params.h"

/* The options (-D) of cdist.cu. */
struct cuda_cdist_options {
    int is_double, stored, tm, step, whole, fraction, mix, x_load, y_load, function, output, base,
        slope, hypers, listed, packed, metric, finish, weighted, condensed, sums;
};

struct cuda_cdist_plan {
    struct cuda_cdist_options options;
    const struct gram_expression *expression; /* or NULL */
    struct pair_params params;
    int64_t tiles; /* of all items together; 0: there is nothing to do */
};

/* ---- cuda_cdist.c ---------------------------------------------------------------------------- */

/* Plans one launch of cdist.cu, with the table's tiles for a device with so many processors. */
void cuda_cdist_plan(const struct gram_cdist_op *op, int processors, struct cuda_cdist_plan *plan);
/* The largest tm that options can have, and a plan with tiles of another tm. */
int cuda_cdist_most_tile(const struct cuda_cdist_options *o);
void cuda_cdist_set_tile(struct cuda_cdist_plan *plan, int tm);
/* Makes the plan one that computes only the tiles of a list, which are those of SQUARE_LEFT_ROWS.
 */
void cuda_cdist_plan_listed(struct cuda_cdist_plan *plan);
/* Makes the plan one that reads panels of cdist_panels.cu, whose addresses the caller fills in.
 * Where panels do not pay the plan stays as it is, and the result is false. */
bool cuda_cdist_plan_packed(struct cuda_cdist_plan *plan);

/* The kernel of a plan, but for the code of its expression. */
void cuda_cdist_variant(const struct cuda_cdist_plan *plan, struct cuda_variant *v);
/* The kernel that writes the panels of a packed plan. */
void cuda_cdist_panels_variant(const struct cuda_cdist_plan *plan, struct cuda_variant *v);
/* The kernels by number, from 0, of a problem whose sums are cut into pieces: those of the whole
 * pieces, of a narrower last one, and of their sum.  False after the last. */
bool cuda_cdist_split_variant(const struct gram_cdist_op *op, const struct cuda_cdist_plan *plan,
                              int processors, int which, struct cuda_variant *v);

/* True if panels pay for the problem of a plan, and if its sums are cut into pieces. */
bool cuda_cdist_packs(const gram_context *g, const struct cuda_device *device,
                      const struct cuda_cdist_plan *plan);
bool cuda_cdist_splits(const struct gram_cdist_op *op, int processors);

/* Queues a plan's launch.  list has the tiles that a listed plan computes, in the memory of the
 * device; else it is NULL. */
gram_status cuda_cdist_launch(gram_context *g, const struct cuda_cdist_plan *plan,
                              const struct square_list *list);

/* cuda_cdist with tiles of tm; 0 takes the tm that was tuned, else that of the table. */
gram_status cuda_cdist_tiled(gram_context *g, const struct gram_cdist_op *op, int tm);

/* In cuda_pair_panels.c: runs a batch in rounds of items, each of which opens a layout of its own
 * and then queues its work, in scratch for the larger of a whole round and the last one.  The
 * device is current. */
typedef gram_status cuda_round(gram_context *g, void *job, const struct gram_batch *round,
                               int64_t first);
gram_status cuda_run_rounds(gram_context *g, const struct gram_batch *batch,
                            const struct gram_rounds *rounds, cuda_round *work, void *job);

/* ---- cuda_expression.c: a caller's expression on the device ---------------------------------- */

/* The text of pair_expression.cuh, for free(); NULL: no memory. */
char *gram_cuda_expression_text(const struct gram_expression *e);
/* cuda_launch of a kernel that includes the code of an expression; e NULL: it includes none. */
gram_status gram_cuda_expression_launch(gram_context *g, const struct gram_expression *e,
                                        struct cuda_variant *v, const struct cuda_grid *grid,
                                        void **params);
/* A number that is likely to be its own: for places in tables, not instead of the words. */
uint64_t gram_cuda_expression_number(const struct gram_expression *e);
/* How many constants its code wants: into out, if it is not NULL and they are at most
 * PAIR_CONSTANTS. */
int gram_cuda_expression_constants(const struct gram_expression *e, const double *parameters,
                                   double *out);

/* ---- cuda_metric.c --------------------------------------------------------------------------- */

/* What a plan says of a metric. */
void cuda_metric_plan(const struct gram_cdist_op *op, struct cuda_cdist_options *o,
                      struct pair_metric *m);
/* cuda_cdist.c: refuses what is not memory of the device. */
gram_status cuda_cdist_check_pointers(gram_context *g, const struct gram_cdist_op *op);

/* ---- cuda_cdist_bits.c ----------------------------------------------------------------------- */

/* Queues the distances of rows of packed bits, while the device is current. */
gram_status cuda_cdist_bits(gram_context *g, const struct gram_cdist_op *op);

/* ---- cuda_cdist_square.c --------------------------------------------------------------------- */

/* True if tensor cores pay for the problem of a plan; and the work itself, which makes the plan a
 * listed one. */
bool cuda_cdist_squares(const gram_context *g, const struct cuda_device *device,
                        const struct cuda_cdist_plan *plan);
gram_status cuda_cdist_square(gram_context *g, struct cuda_cdist_plan *plan);
/* Squared distances of one item in f32 that are listed instead of stored, and the margin for rows
 * of so many coordinates; see struct square_filter.  The plan's out is not read. */
gram_status cuda_cdist_filter(gram_context *g, struct cuda_cdist_plan *plan,
                              const struct square_filter *filter);
float cuda_cdist_filter_margin(int64_t depth);
/* The kernels of this by number, from 0; false after the last. */
bool cuda_cdist_square_variant(const struct cuda_device *device, const struct cuda_cdist_plan *plan,
                               int which, struct cuda_variant *v);

/* ---- cuda_tune.c ----------------------------------------------------------------------------- */

/* The tm that was fastest for problems like op; 0: none was measured. */
int cuda_tuned_tile(const gram_context *g, const struct gram_cdist_op *op,
                    const struct cuda_cdist_options *o);

/* ---- cuda_cdist_grad.c ---------------------------------------------------------------------- */

/* The options (-D) of cdist_grad.cu. */
struct cuda_grad_options {
    int is_double, step, whole, to, tn, tm, a_load, b_load, hypers;
};

struct cuda_grad_plan {
    struct cuda_grad_options options;
    struct grad_params params;
    struct grad_sum_params sum; /* with several splits */
    int64_t tiles;              /* of all items and splits; 0: nothing to do */
    unsigned threads;           /* of a block */
    size_t shared_bytes;        /* of a block, dynamic */
};

/* Plans the launches of a problem for a device with so many processors: which kernel serves it, and
 * what it is told.  add: to what out holds. */
void cuda_cdist_grad_plan(const struct gram_cdist_grad_op *op, bool add, int processors,
                          struct cuda_grad_plan *plan);
/* The kernel of a plan's tiles. */
void cuda_cdist_grad_variant(const struct cuda_grad_plan *plan, struct cuda_variant *v);

/* Refuses what is not memory of the device. */
gram_status cuda_cdist_grad_check(gram_context *g, const struct gram_cdist_grad_op *op);
/* Plans a problem and queues it, in scratch of its own, while the device is current. */
gram_status cuda_cdist_grad_queue(gram_context *g, const struct gram_cdist_grad_op *op, bool add);
/* The same in a piece of the caller's scratch. */
gram_status cuda_cdist_grad_in(gram_context *g, const struct gram_cdist_grad_op *op, bool add,
                               void *memory, size_t bytes);

/* Fills in the numbers with which pair_terms.cuh and grad_terms.cuh make |d|^g, 0 < g < 2. */
void cuda_cdist_power(double g, struct pair_power *power);

/* ---- cuda_kernel_vjp.c ----------------------------------------------------------------------- */

/* Refuses what is not memory of the device. */
gram_status cuda_kernel_vjp_check(gram_context *g, const struct gram_kernel_vjp_op *op);
/* Lanes at least of a row that is summed, and of another one. */
enum {
    CUDA_VJP_SUM_LANES = 32,
    CUDA_VJP_LANES = 8
};
/* Rows of a batch's items, each of so many lanes or more; and a launch of a kernel of them, which
 * queues nothing where there are none. */
struct vjp_rows cuda_vjp_rows(const struct gram_batch *batch, int64_t rows, int64_t cols,
                              int64_t lanes);
gram_status cuda_vjp_launch(gram_context *g, const struct cuda_kernel *kernel, gram_dtype dtype,
                            const struct vjp_rows *of, void *params);
/* to = the sum of all products of elements of a and b; sums: scratch, a number for each row of each
 * item. */
gram_status cuda_vjp_dot(gram_context *g, const struct gram_batch *batch, const struct gram_view *a,
                         const struct gram_view *b, double *sums, const struct gram_view *to);
/* From gradients to x / |x| to those to x, in place; they are 0 where x is. */
gram_status cuda_vjp_project(gram_context *g, const struct gram_batch *batch,
                             const struct gram_view *x, const struct gram_view *to);

/* ---- cuda_kernel_matmul_fused.c -------------------------------------------------------------- */

/* True if the product fits the registers and costs less so than by panels. */
bool cuda_kernel_fused(const gram_context *g, const struct gram_kernel_matmul_op *op);
/* Its scratch, and the work itself. */
size_t cuda_kernel_fused_bytes(const gram_context *g, const struct gram_kernel_matmul_op *op);
gram_status cuda_kernel_fused_in(gram_context *g, const struct gram_kernel_matmul_op *op,
                                 void *memory);

/* ---- cuda_kernel_matmul.c -------------------------------------------------------------------- */

/* out += K v for the items of the kernel's batch, one after the other; columns of both likewise. */
struct cuda_kernel_product {
    struct gram_cdist_op kernel;
    bool mirrors;    /* gram_cdist_mirrors of the call */
    int part, parts; /* as in gram_kernel_matmul_op */
    gram_dtype dtype;
    int64_t columns;
    const void *v;
    void *out;
    char *scratch; /* cuda_kernel_product_bytes */
    const struct cuda_blas *blas;
};
/* Scratch of products of one item with any number of columns up to p->columns. */
size_t cuda_kernel_product_bytes(const gram_context *g, const struct cuda_kernel_product *p);
gram_status cuda_kernel_product(gram_context *g, const struct cuda_kernel_product *p);
#endif

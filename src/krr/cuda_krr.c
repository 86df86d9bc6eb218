/*
 * cuda_krr.c - kernel ridge regression on a GPU: its passes, a launch each
 *
 * The matrix is stored whole, and a product with it is in f64 without the ridge, which cg_step
 * adds.  The preconditioner has the inverse of its inner matrix, since a GPU multiplies by an
 * inverse in a fraction of the time that two triangular solves take.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda/arena.h"
#include "cuda/cuda_move.h"
#include "cuda/cuda_ops.h"
#include "krr_params.h"
#include "krr_passes.h"

static const struct cuda_kernel rows_map = {"krr_rows.cu", "rows_map"};
static const struct cuda_kernel rows_gather = {"krr_rows.cu", "rows_gather"};
static const struct cuda_kernel rows_diagonal = {"krr_rows.cu", "rows_diagonal"};
static const struct cuda_kernel rows_combine = {"krr_combine.cu", "rows_combine"};
static const struct cuda_kernel cg_step = {"krr_cg.cu", "cg_step"};
static const struct cuda_kernel cg_precondition = {"krr_cg.cu", "cg_precondition"};
static const struct cuda_kernel cg_whiten = {"krr_cg.cu", "cg_whiten"};

enum {
    MOST_BLOCKS = 1 << 16, /* beyond these, blocks loop */
    DENSE_ROWS = 16000,    /* an H200 factorises them in 0.06 s */
    BLOCK_ENTRIES = 1 << 26
};

_Static_assert(CG_START == KRR_START && CG_RESIDUAL == KRR_RESIDUAL && CG_RESTART == KRR_RESTART &&
                   CG_DESCEND == KRR_DESCEND && CG_TURN == KRR_TURN,
               "the steps of krr_params.h are those of krr_passes.h");

/* Queues a kernel for `count` items, of which a block takes `each` at a time. */
static gram_status launch(gram_context *g, const struct cuda_kernel *kernel, gram_dtype dtype,
                          int64_t count, int64_t each, unsigned threads, void *params)
{
    int64_t blocks = gram_least(gram_ceil_div(count, each), MOST_BLOCKS);
    bool entered;
    gram_status status;

    if (blocks == 0)
        return GRAM_OK;
    entered = gram_cuda_enter(g->device);
    status = cuda_launch_plain(g, kernel, dtype, blocks, threads, params);
    gram_cuda_leave(g->device, entered);
    return status;
}

static gram_status may_wait(gram_context *g)
{
    bool capturing = false, entered = gram_cuda_enter(g->device);
    gram_status status = gram_cuda_capturing(g, &capturing);

    gram_cuda_leave(g->device, entered);
    TRY(status);
    if (capturing)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "conjugate gradients read their numbers in every step, so they cannot be "
                         "captured in a graph");
    return GRAM_OK;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* z = x W: a thread makes one element, with its sum in double. */
static gram_status map(gram_context *g, const struct krr_map *op)
{
    struct rows_params params = {.rows = op->rows,
                                 .width = op->width,
                                 .x = op->x,
                                 .out = op->z,
                                 .w = op->w,
                                 .full = op->full};

    return launch(g, &rows_map, op->dtype, op->rows * op->width, ROWS_THREADS, ROWS_THREADS,
                  &params);
}

/* Rows in the order of an index, which lies on the device. */
static gram_status gather(gram_context *g, const struct krr_gather *op)
{
    struct rows_params params = {.rows = op->count,
                                 .width = op->width,
                                 .x = op->x,
                                 .out = op->out,
                                 .index = (const long long *)op->index};

    return launch(g, &rows_gather, op->dtype, op->count * op->width, ROWS_THREADS, ROWS_THREADS,
                  &params);
}

/* Products with a few vectors are bound by reading the matrix.  A block reads ROWS_TILE rows once
 * for as many outputs, and sums in f64, which cuBLAS has no product for where the matrix is f32. */
static gram_status combine(gram_context *g, const struct krr_combine *op)
{
    struct rows_params params = {.rows = op->rows,
                                 .width = op->terms,
                                 .x = op->matrix,
                                 .out = op->out,
                                 .alpha = op->alpha,
                                 .outputs = op->outputs,
                                 .ld = op->ld};

    return launch(g, &rows_combine, op->dtype, op->rows, ROWS_TILE, ROWS_THREADS, &params);
}

/* The matrix is square and without gaps: a thread takes an element of its diagonal. */
static gram_status add_diagonal(gram_context *g, const struct krr_diagonal *op)
{
    struct rows_params params = {.rows = op->rows, .out = op->matrix, .w = op->add};

    return launch(g, &rows_diagonal, op->dtype, op->rows, ROWS_THREADS, ROWS_THREADS, &params);
}

static gram_status move(gram_context *g, const struct krr_move *op)
{
    struct move_params params = {
        .count = 1,
        .rows = op->rows,
        .cols = op->columns,
        .to.view = {          .data = op->to,.row_stride = op->to_stride[0],.col_stride = op->to_stride[1]                     },
        .from.view = {.data = (char *)op->from,
                    .row_stride = op->from_stride[0],
                    .col_stride = op->from_stride[1]},
        .alpha.value = 1,
        .widens = op->wide,
    };
    bool entered = gram_cuda_enter(g->device);
    gram_status status = cuda_move(g, op->dtype, NULL, &params);

    gram_cuda_leave(g->device, entered);
    return status;
}

/* Elements become f64 in a matrix of one row; from NULL gives zeros. */
static gram_status widen(gram_context *g, gram_dtype dtype, int64_t count, const void *from,
                         double *out)
{
    return move(g, &(struct krr_move){
                       .dtype = dtype,
                       .rows = 1,
                       .columns = count,
                       .to = out,
                       .from = from,
                       .to_stride = {count, 1},
                       .from_stride = {count, 1},
                       .wide = true
    });
}

/* ---- Conjugate gradients --------------------------------------------------------------------- */

/* The product of the whole stored matrix is a combination of its rows: v are the coefficients, and
 * the result is column-major with n rows. */
static gram_status multiply(gram_context *g, const struct krr_product *op)
{
    const struct krr_combine sums = {.dtype = op->k->dtype,
                                     .rows = op->k->n,
                                     .terms = op->k->n,
                                     .outputs = op->columns,
                                     .ld = op->k->n,
                                     .matrix = op->k->memory.data,
                                     .alpha = op->v,
                                     .out = op->product};

    return combine(g, &sums);
}

/* A block does a step of one column alone: the dot products of a column stay in the block, and no
 * scalar of the iteration ever comes to the host. */
static gram_status step(gram_context *g, const struct krr_cg_step *op)
{
    struct cg_params params = {.step = op->step,
                               .n = op->n,
                               .columns = op->columns,
                               .which = (const long long *)op->which,
                               .b = op->b,
                               .x = op->x,
                               .r = op->r,
                               .z = op->z,
                               .d = op->d,
                               .product = op->product,
                               .ridge = op->ridge,
                               .norm_b = op->norm_b,
                               .norm_r = op->norm_r,
                               .rz = op->rz,
                               .curvature = op->curvature};

    return launch(g, &cg_step, op->dtype, op->columns, 1, CG_STEP_THREADS, &params);
}

/* ---- The preconditioner ---------------------------------------------------------------------- */

/* A thread takes a row of the new columns through the triangular solve: rows are independent. */
static gram_status whiten(gram_context *g, const struct krr_whiten *op)
{
    struct cg_whiten_params params = {.n = op->n,
                                      .count = op->count,
                                      .columns = op->columns,
                                      .lower = op->lower,
                                      .diagonal = op->diagonal};

    return launch(g, &cg_whiten, op->dtype, op->n, CG_THREADS, CG_THREADS, &params);
}

/* Room in f64 for two intermediate results of every column: F^T v, and the inverse of the inner
 * matrix times it. */
static size_t apply_bytes(int64_t n, int64_t rank, int64_t columns, gram_dtype dtype)
{
    (void)n;
    (void)dtype;
    return 2 * (size_t)(rank * columns) * sizeof(double);
}

/*
 * out = (v - keep F G F^T v) / lambda, G the inverse of the inner matrix, by Woodbury's identity in
 * three launches: down to the rank, the small product there, and up again.  A preconditioner
 * without columns only divides by lambda.
 */
static gram_status apply(gram_context *g, const struct krr_preconditioner *p, const void *v,
                         void *out)
{
    double *product = p->scratch.data, *weight = product + p->rank * p->columns;
    const struct krr_combine down = {.dtype = p->dtype,
                                     .rows = p->rank,
                                     .terms = p->n,
                                     .outputs = p->columns,
                                     .ld = p->rank,
                                     .matrix = p->factor.data,
                                     .alpha = v,
                                     .out = product};
    const struct krr_combine inner = {.dtype = GRAM_F64,
                                      .rows = p->rank,
                                      .terms = p->rank,
                                      .outputs = p->columns,
                                      .ld = p->rank,
                                      .matrix = p->inner.data,
                                      .alpha = product,
                                      .out = weight};
    struct cg_precondition_params up = {.n = p->n,
                                        .columns = p->columns,
                                        .rank = p->rank,
                                        .rows = p->factor.data,
                                        .r = v,
                                        .z = out,
                                        .weight = weight,
                                        .keep = KRR_KEEP,
                                        .lambda = p->lambda};

    if (p->rank > 0) {
        TRY(combine(g, &down));
        TRY(krr_add_ranks(g, p, product, p->rank * p->columns));
        TRY(combine(g, &inner));
    }
    return launch(g, &cg_precondition, p->dtype, p->n, CG_THREADS, CG_THREADS, &up);
}

const struct gram_krr_passes cuda_krr_passes = {
    .dense_rows = DENSE_ROWS,
    .block_entries = BLOCK_ENTRIES,
    .wide_product = true,
    .may_wait = may_wait,
    .map = map,
    .gather = gather,
    .combine = combine,
    .add_diagonal = add_diagonal,
    .widen = widen,
    .multiply = multiply,
    .cg_step = step,
    .move = move,
    .whiten = whiten,
    .apply_cost = 120, /* F is read from memory twice, beside some 50 TFLOP/s */
    .apply_bytes = apply_bytes,
    .apply = apply,
};

/*
 * cuda_cdist_split.c - few and long sums: pieces of them made by many blocks, then added up
 *
 * Where a matrix has fewer tiles than the device has processors, the columns of x and y are cut
 * into pieces.  The pieces are a dimension of the batch for cdist.cu, which leaves plain sums in
 * scratch; cdist_reduce.cu adds them and applies the function.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cdist.h"
#include "cuda/arena.h"
#include "cuda/cuda_ops.h"
#include "reduce_params.h"
#include <math.h>

enum {
    LEAST_COLUMNS = 512,  /* of a piece: less is not worth a second launch */
    ALIGNED_COLUMNS = 16, /* so that a piece is loaded as its matrix is */
    TILE = 2,             /* cdist.cu's smallest tm */
    BLOCKS_A_PROCESSOR = 2,
    REDUCE_THREADS = 256
};

/* What cannot be added up afterwards, or needs more than the sum. */
static bool is_whole(const struct gram_cdist_op *op)
{
    bool largest = op->inner == GRAM_DIFFERENCE && isinf(op->p.value);

    return !gram_cdist_of_numbers(op) || largest || op->function == GRAM_COSINE || op->expression ||
           op->batch.ndim == GRAM_MAX_DIMS;
}

/* Columns of a piece; those of x where nothing is cut. */
static int64_t columns_of_piece(const struct gram_cdist_op *op, int processors)
{
    int64_t tiles, pieces;

    if (is_whole(op) || op->x.cols < 2 * LEAST_COLUMNS || op->batch.count >= processors)
        return op->x.cols;
    tiles = gram_ceil_div(op->out.rows, 16L * TILE);
    if (tiles < processors)
        tiles *= gram_ceil_div(op->out.cols, 16L * TILE);
    if (tiles < processors)
        tiles *= op->batch.count;
    if (tiles == 0 || tiles >= processors)
        return op->x.cols;
    pieces = BLOCKS_A_PROCESSOR * (int64_t)processors / tiles;
    if (pieces > op->x.cols / LEAST_COLUMNS)
        pieces = op->x.cols / LEAST_COLUMNS;
    return gram_round_up(gram_ceil_div(op->x.cols, pieces), ALIGNED_COLUMNS);
}

size_t cuda_cdist_split_bytes(const struct gram_cdist_op *op, int processors)
{
    const int64_t columns = columns_of_piece(op, processors);

    if (columns >= op->x.cols)
        return 0;
    return (size_t)(gram_ceil_div(op->x.cols, columns) * op->batch.count * op->out.rows *
                    op->out.cols) *
           gram_dtype_size(op->out.dtype);
}

/* v with the first piece'th columns, and a dimension for the pieces before its batch. */
static struct gram_view cut(const struct gram_view *v, int64_t first, int64_t columns)
{
    struct gram_view piece = *v;

    piece.data += first * v->col_stride * (int64_t)gram_dtype_size(v->dtype);
    for (int d = GRAM_MAX_DIMS - 1; d > 0; d--)
        piece.batch_stride[d] = v->batch_stride[d - 1];
    piece.batch_stride[0] = columns * v->col_stride;
    piece.cols = columns;
    return piece;
}

/* Plain sums of `pieces` pieces, from column `first` on, go to sums, one after the other. */
static void plan_sum(const struct gram_cdist_op *op, int64_t first, int64_t columns, int64_t pieces,
                     void *sums, int processors, struct cuda_cdist_plan *plan)
{
    struct gram_cdist_op part = {.inner = op->inner,
                                 .symmetric = op->symmetric,
                                 .p = op->p,
                                 .outer_power.value = 1,
                                 .output = GRAM_VALUE};
    int64_t stride = op->out.rows * op->out.cols;

    part.x = cut(&op->x, first, columns);
    part.y = cut(&op->y, first, columns);
    part.out = op->out;
    part.out.data = sums;
    part.out.row_stride = op->out.cols;
    part.out.col_stride = 1;
    part.batch.ndim = op->batch.ndim + 1;
    part.batch.count = pieces * op->batch.count;
    part.batch.shape[0] = pieces;
    for (int d = op->batch.ndim; d > 0; d--) {
        part.batch.shape[d] = op->batch.shape[d - 1];
        part.out.batch_stride[d] = stride;
        stride *= part.batch.shape[d];
    }
    part.out.batch_stride[0] = stride;
    *plan = (struct cuda_cdist_plan){.tile = TILE};
    cuda_cdist_plan(&part, processors, plan);
}

static gram_status sum(gram_context *g, const struct gram_cdist_op *op, int64_t first,
                       int64_t columns, int64_t pieces, void *sums)
{
    const struct cuda_device *device = g->device;
    struct cuda_cdist_plan plan;

    plan_sum(op, first, columns, pieces, sums, device->processors, &plan);
    return cuda_cdist_launch(g, &plan, NULL);
}

static struct jit_request reduce_request(const struct cuda_cdist_plan *plan, char *defines)
{
    struct jit_request request = cuda_cdist_request(plan, defines);

    request.file = "cdist_reduce.cu";
    request.kernel = "cdist_reduce";
    request.variant = gram_cuda_variant(CUDA_VARIANT_CDIST_REDUCE, plan->number);
    return request;
}

static gram_status reduce(gram_context *g, const struct gram_cdist_op *op,
                          const struct cuda_cdist_plan *plan, int64_t pieces, const void *sums)
{
    struct reduce_params params = {.sums = sums,
                                   .out = op->out.data,
                                   .pieces = pieces,
                                   .elements = op->batch.count * op->out.rows * op->out.cols,
                                   .rows = op->out.rows,
                                   .cols = op->out.cols,
                                   .row_stride = op->out.row_stride,
                                   .col_stride = op->out.col_stride,
                                   .diagonal = op->column_offset - op->row_offset,
                                   .batch_ndim = op->batch.ndim,
                                   .map = plan->params.map};
    char defines[CUDA_CDIST_DEFINES];
    const struct jit_request request = reduce_request(plan, defines);

    for (int d = 0; d < op->batch.ndim; d++) {
        params.batch_shape[d] = op->batch.shape[d];
        params.batch_stride[d] = op->out.batch_stride[d];
    }
    return gram_cuda_launch(g, &request, gram_ceil_div(params.elements, REDUCE_THREADS),
                            REDUCE_THREADS, &params);
}

gram_status cuda_cdist_split(gram_context *g, const struct gram_cdist_op *op,
                             const struct cuda_cdist_plan *plan)
{
    const struct cuda_device *device = g->device;
    const int64_t columns = columns_of_piece(op, device->processors);
    const int64_t pieces = op->x.cols / columns, left = op->x.cols - pieces * columns;
    const int64_t piece_bytes =
        op->batch.count * op->out.rows * op->out.cols * (int64_t)gram_dtype_size(op->out.dtype);
    void *sums;

    TRY(gram_cuda_scratch(g, cuda_cdist_split_bytes(op, device->processors), &sums));
    TRY(sum(g, op, 0, columns, pieces, sums));
    if (left > 0)
        TRY(sum(g, op, pieces * columns, left, 1, (char *)sums + pieces * piece_bytes));
    return reduce(g, op, plan, pieces + (left > 0), sums);
}

bool cuda_cdist_split_request(const struct gram_cdist_op *op, const struct cuda_cdist_plan *plan,
                              int processors, int which, char *defines, struct jit_request *out)
{
    const int64_t columns = columns_of_piece(op, processors), pieces = op->x.cols / columns;
    const bool last = which > 0;
    struct cuda_cdist_plan part;

    if (which == 2) {
        *out = reduce_request(plan, defines);
        return true;
    }
    if (which > 2)
        return false;
    if (last && op->x.cols == pieces * columns)
        return cuda_cdist_split_request(op, plan, processors, 0, defines, out);
    plan_sum(op, last ? pieces * columns : 0, last ? op->x.cols - pieces * columns : columns,
             last ? 1 : pieces, op->out.data, processors, &part);
    *out = cuda_cdist_request(&part, defines);
    return true;
}

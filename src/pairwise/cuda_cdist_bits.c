/*
 * cuda_cdist_bits.c - distances of rows of packed bits on the device
 *
 * One launch of cdist_bits.cu, without scratch, whatever the strides and the size.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cdist_bits_params.h"
#include "cuda_cdist.h"
#include "pairwise.h"

enum {
    BLOCKS = 32 /* a processor: tiles differ in what there is of them */
};

static const struct cuda_kernel cdist_bits = {"cdist_bits.cu", "cdist_bits"};

/* True if every row begins at a multiple of four bytes, and has its bytes one after the other. */
static bool has_words(const struct gram_view *v, const struct gram_batch *batch)
{
    bool words = (uintptr_t)v->data % 4 == 0 && (v->col_stride == 1 || v->cols == 1) &&
                 (v->row_stride % 4 == 0 || v->rows == 1);

    for (int i = 0; i < batch->ndim; i++)
        words &= v->batch_stride[i] % 4 == 0 || batch->shape[i] == 1;
    return words;
}

/* The bits of a row's last word that count. */
static unsigned long long last_word(int64_t bits)
{
    const int64_t bytes = gram_ceil_div(bits, 8);
    const int before = 8 * (int)((bytes - 1) % 4); /* bits in front of the last byte */

    return ((1ULL << before) - 1) | (unsigned long long)(0xffu << (8 * bytes - bits) & 0xffu)
                                        << before;
}

gram_status cuda_cdist_bits(gram_context *g, const struct gram_cdist_op *op)
{
    const struct cuda_device *device = g->device;
    const int64_t tile_rows = gram_ceil_div(op->out.rows, BITS_TILE);
    struct cdist_bits_params p = {
        .x = cuda_device_view(&op->x),
        .y = cuda_device_view(&op->y),
        .out = cuda_device_view(&op->out),
        .words = {has_words(&op->x, &op->batch), has_words(&op->y, &op->batch)},
        .rows = op->out.rows,
        .cols = op->out.cols,
        .depth = op->x.cols,
        .bits = op->metric.bits,
        .last = last_word(op->metric.bits),
        .symmetric = op->symmetric,
        .condensed = op->condensed,
        .tile_cols = gram_ceil_div(op->out.cols, BITS_TILE),
    };
    struct cuda_grid grid = {.threads = BITS_THREADS};
    struct cuda_variant v;

    p.item_tiles = tile_rows * p.tile_cols;
    p.tiles = p.item_tiles * op->batch.count;
    if (p.tiles == 0)
        return GRAM_OK;
    cuda_set_batch(&op->batch, &p.batch_ndim, p.batch_shape);
    grid.blocks = gram_least(p.tiles, (int64_t)BLOCKS * device->processors);
    cuda_variant(&v, &cdist_bits,
                 CUDA_OPTIONS({"JACCARD", op->metric.kind == GRAM_DISTANCE_JACCARD}));
    return cuda_launch(g, &v, &grid, (void *[]){&p});
}

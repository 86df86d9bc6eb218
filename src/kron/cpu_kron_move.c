/*
 * cpu_kron_move.c - parts of a product with Kronecker factors, gathered and put back
 *
 * A piece is a row of tiles of one plane of one item; pieces are the parallel loop.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/threads.h"
#include "cpu/cpu.h"
#include "cpu_kron_matmul.h"

enum {
    PIECE = 16384 /* elements: some microseconds */
};

struct move_loop {
    gram_context *g;
    const struct gram_kron_move_op *op;
    int64_t rows, pieces; /* of a piece; of one plane of one item */
};

static struct kron_piece piece_of(const struct gram_view *v, char *item, int64_t plane,
                                  const int64_t rows[2])
{
    int64_t offset = plane * v->plane_stride + rows[0] * v->row_stride;

    return (struct kron_piece){
        .data = item + offset * (int64_t)gram_dtype_size(v->dtype),
        .size = {1, 1,       rows[1],       v->cols},
        .stride = {0, 0, v->row_stride, v->col_stride}
    };
}

static void move_piece(void *arg, int64_t index, int thread)
{
    const struct move_loop *loop = arg;
    const struct gram_kron_move_op *op = loop->op;
    const struct gram_view *v = &op->view;
    const struct kron_moves *moves = cpu_kron_moves(v->dtype);
    int64_t first = index % loop->pieces * loop->rows, block = index / loop->pieces;
    int64_t item = block % op->batch.count, plane = block / op->batch.count;
    const int64_t rows[2] = {first, gram_least(loop->rows, v->rows - first)};
    const double scale[2] = {1, gram_hyper_at(&op->beta, &op->batch, item)};
    struct kron_piece piece = piece_of(v, gram_view_item(v, &op->batch, item), plane, rows), z;
    char *dense = (char *)op->dense + (block * v->rows + first) * v->cols * (int64_t)moves->element;
    int64_t start = gram_trace_begin(loop->g);

    if (op->gather) {
        moves->load(&piece, dense);
    } else if (op->z.data && scale[1] != 0) {
        z = piece_of(&op->z, gram_view_item(&op->z, &op->batch, item), plane, rows);
        moves->store(&piece, &z, scale, dense);
    } else {
        moves->store(&piece, NULL, scale, dense);
    }
    gram_trace_end(loop->g, "kron move", thread, start);
}

gram_status cpu_kron_move(gram_context *g, const struct gram_kron_move_op *op)
{
    const struct gram_view *v = &op->view;
    struct move_loop loop = {.g = g, .op = op};

    if (op->batch.count == 0 || v->planes == 0 || v->rows == 0 || v->cols == 0)
        return GRAM_OK;
    loop.rows = gram_most(1, PIECE / v->cols);
    loop.pieces = gram_ceil_div(v->rows, loop.rows);
    gram_parallel_for(g, v->planes * op->batch.count * loop.pieces, move_piece, &loop);
    return GRAM_OK;
}

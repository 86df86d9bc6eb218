/*
 * cpu_kron_move.c - factors, tiles of x and tiles of y of every dtype, in and out; and kron_move of
 * the backend, which gathers parts of a product with Kronecker factors and puts them back
 *
 * A piece of such a part is a row of tiles of one plane of one item; pieces are the parallel loop.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/threads.h"
#include "cpu/cpu.h"
#include "cpu_kron_matmul.h"

#define TEMPLATE "kron/kron_move_loops.h"
#define HALVES   1
#define INTEGERS 1
#include "cpu/each_dtype.h"

/* clang-format off */
static const struct kron_moves moves_of_dtype[] = {
    [GRAM_F32] = {4, GRAM_F32, pack_columns_f32, pack_slices_f32, load_f32, store_f32},
    [GRAM_F64] = {8, GRAM_F64, pack_columns_f64, pack_slices_f64, load_f64, store_f64},
    [GRAM_F16] = {4, GRAM_F32, pack_columns_f16, pack_slices_f16, load_f16, store_f16},
    [GRAM_BF16] = {4, GRAM_F32, pack_columns_bf16, pack_slices_bf16, load_bf16, store_bf16},
    [GRAM_I32] = {4, GRAM_I32, pack_columns_i32, pack_slices_i32, load_i32, store_i32},
    [GRAM_I64] = {8, GRAM_I64, pack_columns_i64, pack_slices_i64, load_i64, store_i64},
};
/* clang-format on */

const struct kron_moves *cpu_kron_moves(gram_dtype dtype)
{
    return &moves_of_dtype[dtype];
}

/* ---- Parts of a product --------------------------------------------------------------------- */

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

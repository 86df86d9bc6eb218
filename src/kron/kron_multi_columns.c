/*
 * kron_multi_columns.c - a product with Kronecker factors by columns: two groups, two exchanges
 *
 * Two buffers take turns.  With one item or many, a chunk is [a or c, item, row, d] of the blocks
 * that its two ranks have: those that arrive in the first exchange are, one after the other, what
 * the first group is applied to, and those that leave in the second one lie ready in its result.
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_multi.h"

/* Scratch behind what this call keeps, for the products inside it. */
static void enter(gram_context *g, char *inner, size_t bytes, struct gram_scratch_before *before)
{
    if (g->backend->scratch_begin) {
        g->backend->scratch_begin(g, inner, bytes, before);
        return;
    }
    *before = (struct gram_scratch_before){g->scratch, g->scratch_bytes, g->scratch_given};
    g->scratch = inner;
    g->scratch_bytes = bytes;
    g->scratch_given = true;
}

static void leave(gram_context *g, const struct gram_scratch_before *before)
{
    if (g->backend->scratch_end) {
        g->backend->scratch_end(g, before);
        return;
    }
    g->scratch = before->memory;
    g->scratch_bytes = before->bytes;
    g->scratch_given = before->given;
}

static gram_status product(gram_context *g, const struct gram_kron_multi *m, char *scratch,
                           const struct gram_kron_matmul_op *op)
{
    struct gram_scratch_before before;
    gram_status status;

    enter(g, scratch + m->buffer[0] + m->buffer[1], m->inner, &before);
    status = g->backend->kron_matmul(g, op);
    leave(g, &before);
    return status;
}

static void move_view(struct gram_view *v, int64_t offset)
{
    if (v->data)
        v->data += offset * (int64_t)gram_dtype_size(v->dtype);
}

/* x as it is, without gaps. */
static gram_status copy_x(gram_context *g, const struct gram_kron_multi *m, void *to)
{
    struct gram_kron_move_op move = {
        .batch = m->op->batch, .view = m->op->x, .dense = to, .gather = true};

    move.view.planes = 1;
    return g->backend->kron_move(g, &move);
}

/* [item, row, a, d] in buffer 0: every rank's rows or d go to its chunk in buffer 1. */
static gram_status apply_second(gram_context *g, const struct gram_kron_multi *m,
                                char *const buffer[2])
{
    struct gram_kron_matmul_op op = gram_kron_multi_second(m, buffer[1], buffer[0]);
    struct gram_kron_move_op move = {.batch = m->op->batch, .gather = true, .dense = buffer[1]};
    int64_t a = gram_range_of(m->cut.in[0], m->c->size, m->c->rank).count;
    struct gram_view all = op.y;

    if (m->cut.first == m->op->count) {
        TRY(copy_x(g, m, buffer[0]));
    } else {
        if (m->copy_x)
            TRY(copy_x(g, m, buffer[1]));
        TRY(product(g, m, buffer[0], &op));
    }
    all.planes = a;
    all.plane_stride = all.cols;
    all.row_stride = a * all.cols;
    for (int rank = 0; rank < m->c->size; rank++) {
        struct gram_range rows = gram_kron_multi_rows(m, rank), d = gram_kron_multi_d(m, rank);
        move.view = all;
        move.view.rows = rows.count, move.view.cols = d.count;
        move_view(&move.view, rows.first * all.row_stride + d.first);
        TRY(g->backend->kron_move(g, &move));
        move.dense = (char *)move.dense + m->c->send_bytes[rank];
    }
    return GRAM_OK;
}

/* Puts what arrived in from where it belongs in y. */
static gram_status fill_y(gram_context *g, const struct gram_kron_multi *m, void *from)
{
    const struct gram_kron_matmul_op *op = m->op;
    struct gram_kron_move_op move = {.batch = op->batch, .dense = from, .beta = op->beta};
    int64_t c = gram_range_of(m->cut.out[0], m->c->size, m->c->rank).count;

    for (int rank = 0; rank < m->c->size; rank++) {
        struct gram_range rows = gram_kron_multi_rows(m, rank), d = gram_kron_multi_d(m, rank);
        struct gram_view *const to[] = {&move.view, &move.z};
        move.view = op->y, move.z = op->z;
        for (int i = 0; i < 2; i++) {
            to[i]->planes = c, to[i]->rows = rows.count, to[i]->cols = d.count;
            to[i]->plane_stride = m->cut.out[1] * to[i]->col_stride;
            move_view(to[i], rows.first * to[i]->row_stride + d.first * to[i]->col_stride);
        }
        TRY(g->backend->kron_move(g, &move));
        move.dense = (char *)move.dense + m->c->receive_bytes[rank];
    }
    return GRAM_OK;
}

/* Bytes that the ranks with these blocks of rows and d, and of a or c, have to give each other. */
static size_t chunk(const struct gram_kron_multi *m, int between, struct gram_range block)
{
    return (size_t)(gram_kron_multi_rows(m, between).count * gram_kron_multi_d(m, between).count *
                    block.count * m->op->batch.count) *
           gram_dtype_size(m->op->y.dtype);
}

/* What goes from a or c (sizes is cut.in or cut.out) to rows or d, and what comes; or backward. */
static void count_chunks(const struct gram_kron_multi *m, const int64_t sizes[2], bool back)
{
    int ranks = m->c->size, self = m->c->rank;
    size_t *to_between = back ? m->c->receive_bytes : m->c->send_bytes;
    size_t *from_between = back ? m->c->send_bytes : m->c->receive_bytes;

    for (int rank = 0; rank < ranks; rank++) {
        to_between[rank] = chunk(m, rank, gram_range_of(sizes[0], ranks, self));
        from_between[rank] = chunk(m, self, gram_range_of(sizes[0], ranks, rank));
    }
}

/* Nothing is sent, or queued, unless all ranks have got so far. */
static gram_status exchange(gram_context *g, const struct gram_kron_multi *m, gram_status status,
                            const char *from, void *to, bool *begun)
{
    const struct gram_exchange e = {.send = from,
                                    .receive = to,
                                    .send_bytes = m->c->send_bytes,
                                    .receive_bytes = m->c->receive_bytes};
    int64_t start;

    TRY(gram_agree(g, m->c, status, NULL, 0));
    *begun = true;
    start = gram_trace_begin(g);
    status = m->c->transport->exchange(g, m->c, &e);
    gram_trace_end(g, "exchange", 0, start);
    return status;
}

gram_status gram_kron_multi_columns(gram_context *g, const struct gram_kron_multi *m, char *scratch)
{
    char *const buffer[] = {scratch, scratch + m->buffer[0]};
    struct gram_kron_matmul_op first = gram_kron_multi_first(m, buffer[0], buffer[1]);
    gram_status status;
    bool begun = false;

    count_chunks(m, m->cut.in, false);
    status = apply_second(g, m, buffer);
    status = exchange(g, m, status, buffer[1], buffer[0], &begun);
    if (status == GRAM_OK)
        status = product(g, m, scratch, &first);
    count_chunks(m, m->cut.out, true);
    /* A rank whose exchange failed tells it here to those whose did not. */
    status = exchange(g, m, status, buffer[1], buffer[0], &begun);
    status = gram_agree(g, m->c, status, NULL, 0);
    if (status != GRAM_OK && begun && m->c->transport->abandon) /* one may wait for this rank */
        m->c->transport->abandon(m->c);
    TRY(status);
    return fill_y(g, m, buffer[0]);
}

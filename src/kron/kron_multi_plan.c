/*
 * kron_multi_plan.c - how a product with Kronecker factors is shared by columns: see kron_multi.h
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_multi.h"

struct gram_range gram_range_of(int64_t count, int ranks, int rank)
{
    int64_t each = count / ranks, more = count % ranks;

    return (struct gram_range){each * rank + gram_least(more, rank), each + (rank < more)};
}

/* ---- The cut ------------------------------------------------------------------------------- */

/* Products that overflow belong to empty tensors: any large number does. */
static int64_t product(const int64_t *sizes, int count)
{
    int64_t all = 1;

    for (int i = 0; i < count; i++)
        if (__builtin_mul_overflow(all, sizes[i], &all))
            all = INT64_MAX;
    return all;
}

/* Multiplications of count factors with one vector, the last factor first. */
static double chain(const int64_t *in, const int64_t *out, int count)
{
    double before = 1, after = 1, work = 0;

    for (int i = 0; i < count; i++)
        before *= (double)in[i];
    for (int i = count - 1; i >= 0; i--) {
        work += before * (double)out[i] * after;
        before /= (double)gram_most(in[i], 1);
        after *= (double)out[i];
    }
    return work;
}

/* Time of the slowest rank for one row, in multiplications; an element costs that of sixteen for
 * each exchange, as memory is read and written some times. */
static double cost(const int64_t *in, const int64_t *out, int count, int first, int ranks)
{
    double a = (double)gram_ceil_div(product(in, first), ranks);
    double c = (double)gram_ceil_div(product(out, first), ranks);
    double d = (double)product(out + first, count - first);
    double d_part = (double)gram_ceil_div(product(out + first, count - first), ranks);

    return a * chain(in + first, out + first, count - first) + d_part * chain(in, out, first) +
           16 * d * (a + c);
}

/* Both directions of the product have one cut, so that the y of one is the x of the other. */
void gram_kron_cut(const struct gram_kron_matmul_op *op, bool turned, int ranks,
                   struct gram_kron_cut *cut)
{
    int64_t in[GRAM_MAX_FACTORS] = {0}, out[GRAM_MAX_FACTORS] = {0};
    double least = 0;

    for (int i = 0; i < op->count; i++) {
        const struct gram_view *f = &op->factor[i];
        in[i] = turned ? f->cols : f->rows;
        out[i] = turned ? f->rows : f->cols;
    }
    cut->ranks = ranks, cut->first = 1;
    for (int first = 1; first <= op->count; first++) {
        double now =
            cost(in, out, op->count, first, ranks) + cost(out, in, op->count, first, ranks);
        if (first > 1 && now >= least)
            continue;
        least = now;
        cut->first = first;
    }
    for (int i = 0; i < 2; i++) {
        int from = i == 0 ? 0 : cut->first, count = i == 0 ? cut->first : op->count - cut->first;
        cut->in[i] = product(in + from, count);
        cut->out[i] = product(out + from, count);
    }
}

int64_t gram_kron_part_count(const int64_t sizes[2], const struct gram_kron_cut *cut, int rank)
{
    return gram_range_of(sizes[0], cut->ranks, rank).count * sizes[1];
}

/* ---- One rank ------------------------------------------------------------------------------ */

struct gram_range gram_kron_multi_rows(const struct gram_kron_multi *m, int rank)
{
    if (m->by_rows)
        return gram_range_of(m->op->x.rows, m->c->size, rank);
    return (struct gram_range){0, m->op->x.rows};
}

struct gram_range gram_kron_multi_d(const struct gram_kron_multi *m, int rank)
{
    if (m->by_rows)
        return (struct gram_range){0, m->cut.out[1]};
    return gram_range_of(m->cut.out[1], m->c->size, rank);
}

/* Sets the strides of a view along the batch: step elements between items that follow one another.
 */
static void step_items(const struct gram_batch *batch, int64_t step, struct gram_view *v)
{
    for (int i = batch->ndim - 1; i >= 0; i--) {
        v->batch_stride[i] = step;
        step *= batch->shape[i];
    }
}

static void dense(const struct gram_kron_matmul_op *op, struct gram_view *v)
{
    v->planes = 1;
    v->row_stride = v->cols;
    v->col_stride = 1;
    step_items(&op->batch, v->rows * v->cols, v);
}

/* [item, row, a, b] to [item, row, a, d]: one row of the product for each row and a. */
struct gram_kron_matmul_op gram_kron_multi_second(const struct gram_kron_multi *m, char *from,
                                                  char *to)
{
    const struct gram_kron_matmul_op *op = m->op;
    int64_t a = gram_range_of(m->cut.in[0], m->c->size, m->c->rank).count;
    struct gram_kron_matmul_op part = {.batch = op->batch, .x = op->x, .alpha.value = 1};

    part.count = op->count - m->cut.first;
    for (int i = 0; i < part.count; i++)
        part.factor[i] = op->factor[m->cut.first + i];
    part.x.rows = part.y.rows = op->x.rows * a;
    part.x.cols = m->cut.in[1];
    if (m->copy_x) {
        part.x.data = from;
        dense(op, &part.x);
    } else {
        part.x.row_stride = a == 1 ? op->x.row_stride : part.x.cols * op->x.col_stride;
    }
    part.y.data = to;
    part.y.dtype = op->y.dtype;
    part.y.cols = m->cut.out[1];
    dense(op, &part.y);
    return part;
}

/* [a, item, row, d] to [c, item, row, d]: rows of the product are rows and d, which are its lanes.
 */
struct gram_kron_matmul_op gram_kron_multi_first(const struct gram_kron_multi *m, char *from,
                                                 char *to)
{
    const struct gram_kron_matmul_op *op = m->op;
    int64_t lanes =
        gram_kron_multi_rows(m, m->c->rank).count * gram_kron_multi_d(m, m->c->rank).count;
    struct gram_kron_matmul_op part = {.batch = op->batch, .alpha = op->alpha};
    struct gram_view view = {.dtype = op->y.dtype, .planes = 1, .rows = lanes, .row_stride = 1};

    part.count = m->cut.first;
    for (int i = 0; i < part.count; i++)
        part.factor[i] = op->factor[i];
    view.col_stride = op->batch.count * lanes;
    step_items(&op->batch, lanes, &view);
    part.x = part.y = view;
    part.x.data = from, part.x.cols = m->cut.in[0];
    part.y.data = to, part.y.cols = m->cut.out[0];
    return part;
}

/* Rows and a of x, seen as one index, are not evenly spaced, or there is nothing to apply. */
static bool wants_copy(const struct gram_kron_multi *m)
{
    const struct gram_view *x = &m->op->x;
    int64_t a = gram_range_of(m->cut.in[0], m->c->size, m->c->rank).count;

    if (m->cut.first == m->op->count)
        return false; /* it goes where the result would */
    return x->rows > 1 && a > 1 && x->row_stride != a * m->cut.in[1] * x->col_stride;
}

bool gram_kron_multi_plan(const struct gram_kron_matmul_op *op, gram_communicator *c,
                          struct gram_kron_multi *m)
{
    double items = (double)op->batch.count, rows = (double)op->x.rows, element, size[2];
    struct gram_range row, d;
    double a, lanes, x, between[2], y;
    int64_t out;

    *m = (struct gram_kron_multi){.op = op, .c = c};
    gram_kron_cut(op, false, c->size, &m->cut);
    out = m->cut.out[1];
    m->by_rows = (double)gram_ceil_div(op->x.rows, c->size) * (double)out <=
                 rows * (double)gram_ceil_div(out, c->size);
    m->copy_x = wants_copy(m);
    row = gram_kron_multi_rows(m, c->rank), d = gram_kron_multi_d(m, c->rank);
    element = items * (double)gram_dtype_size(op->x.dtype);
    a = (double)gram_range_of(m->cut.in[0], c->size, c->rank).count;
    lanes = (double)row.count * (double)d.count;
    x = m->copy_x ? rows * a * (double)m->cut.in[1] : 0;
    between[0] = rows * a * (double)out;
    between[1] = (double)m->cut.in[0] * lanes;
    y = rows * (double)gram_range_of(m->cut.out[0], c->size, c->rank).count * (double)out;
    size[0] = between[0] > between[1] ? between[0] : between[1];
    size[0] = size[0] > y ? size[0] : y;
    size[1] = between[0] > x ? between[0] : x;
    if ((double)m->cut.out[0] * lanes > size[1])
        size[1] = (double)m->cut.out[0] * lanes;
    if ((size[0] + size[1]) * element > 0x1p52) /* beyond which a double is not exact */
        return false;
    for (int i = 0; i < 2; i++)
        m->buffer[i] = gram_round64((size_t)(size[i] * element));
    return true;
}

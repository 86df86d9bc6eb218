/*
 * kron_matmul_multi.c - gram_kron_matmul_multi: a product with Kronecker factors that several
 * processes share
 *
 * A call checks its arguments, agrees on them with the other ranks, and takes scratch.  Split by
 * rows, a rank then multiplies its own as one process does.  Split by columns, the factors are cut
 * into two groups.  With (a, b) the index of a column of x, a of the first group and b of the
 * second, and (c, d) that of a column of y:
 *   [row, a, b]  a rank has part of a: the second group is applied, b becomes d
 *   [row, a, d]  exchange: a rank has all of a, for part of the rows or part of d
 *   [a, row, d]  the first group is applied, a becomes c
 *   [c, row, d]  exchange: a rank has part of c, and y = [row, c, d]
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/scratch.h"
#include "kron.h"
#include "multi/communicator.h"
#include <string.h>

/* The work of one rank. */
struct kron_multi {
    const struct gram_kron_matmul_op *op; /* of the rank's part */
    gram_communicator *c;
    struct gram_kron_cut cut;
    bool by_rows;     /* between the exchanges a rank has part of the rows, else of d */
    bool copy_x;      /* into a form without gaps, before the second group is applied */
    size_t buffer[2]; /* bytes */
    size_t inner;     /* of the products of the groups */
};

/* ---- The cut of the factors ----------------------------------------------------------------- */

/* Block number rank of count indices, spread evenly. */
static struct gram_range range_of(int64_t count, int ranks, int rank)
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
    return range_of(sizes[0], cut->ranks, rank).count * sizes[1];
}

/* ---- One rank ------------------------------------------------------------------------------ */

static struct gram_range rows_between(const struct kron_multi *m, int rank)
{
    if (m->by_rows)
        return range_of(m->op->x.rows, m->c->size, rank);
    return (struct gram_range){0, m->op->x.rows};
}

static struct gram_range d_between(const struct kron_multi *m, int rank)
{
    if (m->by_rows)
        return (struct gram_range){0, m->cut.out[1]};
    return range_of(m->cut.out[1], m->c->size, rank);
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

static void set_dense(const struct gram_kron_matmul_op *op, struct gram_view *v)
{
    v->planes = 1;
    v->row_stride = v->cols;
    v->col_stride = 1;
    step_items(&op->batch, v->rows * v->cols, v);
}

/* [item, row, a, b] to [item, row, a, d]: one row of the product for each row and a. */
static struct gram_kron_matmul_op second_group(const struct kron_multi *m, char *from, char *to)
{
    const struct gram_kron_matmul_op *op = m->op;
    int64_t a = range_of(m->cut.in[0], m->c->size, m->c->rank).count;
    struct gram_kron_matmul_op part = {.batch = op->batch, .x = op->x, .alpha.value = 1};

    part.count = op->count - m->cut.first;
    for (int i = 0; i < part.count; i++)
        part.factor[i] = op->factor[m->cut.first + i];
    part.x.rows = part.y.rows = op->x.rows * a;
    part.x.cols = m->cut.in[1];
    if (m->copy_x) {
        part.x.data = from;
        set_dense(op, &part.x);
    } else {
        part.x.row_stride = a == 1 ? op->x.row_stride : part.x.cols * op->x.col_stride;
    }
    part.y.data = to;
    part.y.dtype = op->y.dtype;
    part.y.cols = m->cut.out[1];
    set_dense(op, &part.y);
    return part;
}

/* [a, item, row, d] to [c, item, row, d]: rows of the product are rows and d, which are its lanes.
 */
static struct gram_kron_matmul_op first_group(const struct kron_multi *m, char *from, char *to)
{
    const struct gram_kron_matmul_op *op = m->op;
    int64_t lanes = rows_between(m, m->c->rank).count * d_between(m, m->c->rank).count;
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
static bool wants_copy(const struct kron_multi *m)
{
    const struct gram_view *x = &m->op->x;
    int64_t a = range_of(m->cut.in[0], m->c->size, m->c->rank).count;

    if (m->cut.first == m->op->count)
        return false; /* it goes where the result would */
    return x->rows > 1 && a > 1 && x->row_stride != a * m->cut.in[1] * x->col_stride;
}

static bool plan_rank(const struct gram_kron_matmul_op *op, gram_communicator *c,
                      struct kron_multi *m)
{
    double items = (double)op->batch.count, rows = (double)op->x.rows, element, size[2];
    struct gram_range row, d;
    double a, lanes, x, between[2], y;
    int64_t out;

    *m = (struct kron_multi){.op = op, .c = c};
    gram_kron_cut(op, false, c->size, &m->cut);
    out = m->cut.out[1];
    m->by_rows = (double)gram_ceil_div(op->x.rows, c->size) * (double)out <=
                 rows * (double)gram_ceil_div(out, c->size);
    m->copy_x = wants_copy(m);
    row = rows_between(m, c->rank), d = d_between(m, c->rank);
    element = items * (double)gram_dtype_size(op->x.dtype);
    a = (double)range_of(m->cut.in[0], c->size, c->rank).count;
    lanes = (double)row.count * (double)d.count;
    x = m->copy_x ? rows * a * (double)m->cut.in[1] : 0;
    between[0] = rows * a * (double)out;
    between[1] = (double)m->cut.in[0] * lanes;
    y = rows * (double)range_of(m->cut.out[0], c->size, c->rank).count * (double)out;
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

/* ---- Two groups, two exchanges -------------------------------------------------------------- */

/* Two buffers take turns.  With one item or many, a chunk is [a or c, item, row, d] of the blocks
 * that its two ranks have: those that arrive in the first exchange are, one after the other, what
 * the first group is applied to, and those that leave in the second one lie ready in its result. */

static gram_status multiply_group(gram_context *g, const struct kron_multi *m, char *scratch,
                                  const struct gram_kron_matmul_op *op)
{
    struct gram_scratch_before before;
    gram_status status;

    gram_scratch_lend(g, scratch + m->buffer[0] + m->buffer[1], m->inner, &before);
    status = g->backend->kron_matmul(g, op);
    gram_scratch_return(g, &before);
    return status;
}

static void move_view(struct gram_view *v, int64_t offset)
{
    if (v->data)
        v->data += offset * (int64_t)gram_dtype_size(v->dtype);
}

/* x as it is, without gaps. */
static gram_status copy_x(gram_context *g, const struct kron_multi *m, void *to)
{
    struct gram_kron_move_op move = {
        .batch = m->op->batch, .view = m->op->x, .dense = to, .gather = true};

    move.view.planes = 1;
    return g->backend->kron_move(g, &move);
}

/* [item, row, a, d] in buffer 0: every rank's rows or d go to its chunk in buffer 1. */
static gram_status apply_second(gram_context *g, const struct kron_multi *m, char *const buffer[2])
{
    struct gram_kron_matmul_op op = second_group(m, buffer[1], buffer[0]);
    struct gram_kron_move_op move = {.batch = m->op->batch, .gather = true, .dense = buffer[1]};
    int64_t a = range_of(m->cut.in[0], m->c->size, m->c->rank).count;
    struct gram_view all = op.y;

    if (m->cut.first == m->op->count) {
        TRY(copy_x(g, m, buffer[0]));
    } else {
        if (m->copy_x)
            TRY(copy_x(g, m, buffer[1]));
        TRY(multiply_group(g, m, buffer[0], &op));
    }
    all.planes = a;
    all.plane_stride = all.cols;
    all.row_stride = a * all.cols;
    for (int rank = 0; rank < m->c->size; rank++) {
        struct gram_range rows = rows_between(m, rank), d = d_between(m, rank);
        move.view = all;
        move.view.rows = rows.count, move.view.cols = d.count;
        move_view(&move.view, rows.first * all.row_stride + d.first);
        TRY(g->backend->kron_move(g, &move));
        move.dense = (char *)move.dense + m->c->send_bytes[rank];
    }
    return GRAM_OK;
}

/* Puts what arrived in from where it belongs in y. */
static gram_status fill_y(gram_context *g, const struct kron_multi *m, void *from)
{
    const struct gram_kron_matmul_op *op = m->op;
    struct gram_kron_move_op move = {.batch = op->batch, .dense = from, .beta = op->beta};
    int64_t c = range_of(m->cut.out[0], m->c->size, m->c->rank).count;

    for (int rank = 0; rank < m->c->size; rank++) {
        struct gram_range rows = rows_between(m, rank), d = d_between(m, rank);
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
static size_t chunk(const struct kron_multi *m, int between, struct gram_range block)
{
    return (size_t)(rows_between(m, between).count * d_between(m, between).count * block.count *
                    m->op->batch.count) *
           gram_dtype_size(m->op->y.dtype);
}

/* What goes from a or c (sizes is cut.in or cut.out) to rows or d, and what comes; or backward. */
static void count_chunks(const struct kron_multi *m, const int64_t sizes[2], bool back)
{
    int ranks = m->c->size, self = m->c->rank;
    size_t *to_between = back ? m->c->receive_bytes : m->c->send_bytes;
    size_t *from_between = back ? m->c->send_bytes : m->c->receive_bytes;

    for (int rank = 0; rank < ranks; rank++) {
        to_between[rank] = chunk(m, rank, range_of(sizes[0], ranks, self));
        from_between[rank] = chunk(m, self, range_of(sizes[0], ranks, rank));
    }
}

/* Nothing is sent, or queued, unless all ranks have got so far. */
static gram_status exchange(gram_context *g, const struct kron_multi *m, gram_status status,
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

static gram_status run_columns(gram_context *g, const struct kron_multi *m, char *scratch)
{
    char *const buffer[] = {scratch, scratch + m->buffer[0]};
    struct gram_kron_matmul_op first = first_group(m, buffer[0], buffer[1]);
    gram_status status;
    bool begun = false;

    count_chunks(m, m->cut.in, false);
    status = apply_second(g, m, buffer);
    status = exchange(g, m, status, buffer[1], buffer[0], &begun);
    if (status == GRAM_OK)
        status = multiply_group(g, m, scratch, &first);
    count_chunks(m, m->cut.out, true);
    /* A rank whose exchange failed tells it here to those whose did not. */
    status = exchange(g, m, status, buffer[1], buffer[0], &begun);
    status = gram_agree(g, m->c, status, NULL, 0);
    if (status != GRAM_OK && begun && m->c->transport->abandon) /* one may wait for this rank */
        m->c->transport->abandon(m->c);
    TRY(status);
    return fill_y(g, m, buffer[0]);
}

/* ---- The call ------------------------------------------------------------------------------- */

/* A call as it is given, and what it comes to. */
struct multi_call {
    struct gram_kron_args args;
    gram_kron_options options;
    struct gram_kron_matmul_op op;
    struct kron_multi plan; /* by columns */
    size_t bytes;           /* of scratch */
};

static gram_status take_options(gram_context *g, const gram_kron_options *given,
                                gram_kron_options *o)
{
    *o = (gram_kron_options)GRAM_KRON_OPTIONS_INIT;
    TRY(gram_options_copy(g, o, sizeof *o, given));
    if (!o->communicator)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.communicator is NULL, expected a communicator");
    return GRAM_OK;
}

/* What a backend checks before its first launch, here before any rank begins. */
static gram_status check_pointers(gram_context *g, const struct gram_kron_matmul_op *op)
{
    gram_status (*check)(gram_context *, const char *, const struct gram_view *) =
        g->backend->check_pointer;

    if (!check || op->batch.count == 0 || op->x.rows == 0)
        return GRAM_OK;
    TRY(check(g, "x", &op->x));
    TRY(check(g, "y", &op->y));
    for (int i = 0; i < op->count; i++)
        TRY(check(g, "factors", &op->factor[i]));
    TRY(check(g, "options.z", &op->z));
    TRY(check(g, "options.alpha", &op->alpha.tensor));
    return check(g, "options.beta", &op->beta.tensor);
}

static gram_status plan_columns(gram_context *g, struct multi_call *call)
{
    struct kron_multi *plan = &call->plan;
    const struct gram_kron_matmul_op *op = &call->op;
    size_t inner[2] = {0, 0};

    if (op->x.dtype == GRAM_F16 || op->x.dtype == GRAM_BF16)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "x has dtype %s, expected f32, f64, i32 or i64 for a split by columns",
                         gram_dtype_name(op->x.dtype));
    TRY(gram_check_transport(g, call->options.communicator));
    TRY(check_pointers(g, op));
    if (!plan_rank(op, call->options.communicator, plan))
        return gram_fail(g, GRAM_OUT_OF_MEMORY,
                         "this rank's part is too large: the size of the scratch memory overflows");
    for (int i = 0; i < 2; i++) {
        const struct gram_kron_matmul_op part =
            i == 0 ? first_group(plan, NULL, NULL) : second_group(plan, NULL, NULL);
        if (part.count > 0)
            TRY(gram_measure(g, &inner[i], g->backend->kron_matmul(g, &part)));
    }
    plan->inner = gram_most_bytes(inner[0], inner[1]);
    call->bytes = plan->buffer[0] + plan->buffer[1] + plan->inner;
    return GRAM_OK;
}

/* The arguments of this rank and the scratch that they need. */
static gram_status describe(gram_context *g, struct multi_call *call)
{
    const gram_kron_options *o = &call->options;

    if (o->split != GRAM_KRON_SPLIT_ROWS && o->split != GRAM_KRON_SPLIT_COLUMNS)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.split is %d, expected GRAM_KRON_SPLIT_ROWS or "
                         "GRAM_KRON_SPLIT_COLUMNS",
                         (int)o->split);
    if (o->split == GRAM_KRON_SPLIT_COLUMNS) {
        call->args.rank = o->communicator->rank;
        call->args.ranks = o->communicator->size;
    }
    TRY(gram_kron_matmul_describe(g, &call->args, o, &call->op));
    if (o->split == GRAM_KRON_SPLIT_COLUMNS)
        return plan_columns(g, call);
    return gram_measure(g, &call->bytes, g->backend->kron_matmul(g, &call->op));
}

/* ---- Agreement ----------------------------------------------------------------------------- */

/* What the ranks compare; as many values whatever the call, as all ranks must send as many. */
static int list_common(const struct multi_call *call, struct gram_common *common)
{
    const struct gram_kron_matmul_op *op = &call->op;
    bool columns = call->options.split == GRAM_KRON_SPLIT_COLUMNS;
    double alpha = op->alpha.tensor.data ? 0 : op->alpha.value;
    int used = 0;
    int64_t bits;

    memcpy(&bits, &alpha, sizeof bits);
    common[used++] = (struct gram_common){"options.split", -1, call->options.split};
    common[used++] = (struct gram_common){"the dtype", -1, op->x.dtype};
    common[used++] = (struct gram_common){"the number of factors", -1, op->count};
    for (int i = 0; i < GRAM_MAX_FACTORS; i++) {
        bool there = i < op->count;
        common[used++] = (struct gram_common){"the rows", i, there ? op->factor[i].rows : 0};
        common[used++] = (struct gram_common){"the columns", i, there ? op->factor[i].cols : 0};
    }
    common[used++] = (struct gram_common){"x's number of rows", -1, columns ? op->x.rows : 0};
    common[used++] = (struct gram_common){"the number of items", -1, columns ? op->batch.count : 0};
    common[used++] = (struct gram_common){"options.alpha, as bits,", -1, bits};
    common[used++] = (struct gram_common){"the cut", -1, call->plan.cut.first};
    return used;
}

static gram_status reserve(gram_context *g, struct multi_call *call, void **scratch)
{
    struct gram_layout l = {0};

    *scratch = NULL;
    TRY(describe(g, call));
    if (call->options.split == GRAM_KRON_SPLIT_ROWS && g->options.device.type != GRAM_CPU)
        return GRAM_OK; /* its product takes its own scratch */
    gram_take(&l, scratch, call->bytes);
    return gram_layout_open(g, &l);
}

gram_status gram_kron_matmul_multi(gram_context *g, const gram_tensor *x,
                                   const gram_tensor *const *factors, int64_t count,
                                   const gram_kron_options *options, gram_tensor *y)
{
    struct multi_call call = {
        .args = {.x = x, .factors = factors, .count = count, .y = y}
    };
    struct gram_common common[GRAM_MAX_COMMON];
    gram_communicator *c;
    gram_status status;
    void *scratch;
    int used;

    TRY(gram_begin(g, __func__));
    TRY(take_options(g, options, &call.options));
    c = call.options.communicator;
    status = reserve(g, &call, &scratch);
    used = list_common(&call, common);
    TRY(gram_agree(g, c, status, common, used));
    if (call.options.split == GRAM_KRON_SPLIT_COLUMNS)
        return run_columns(g, &call.plan, scratch);
    return gram_agree(g, c, g->backend->kron_matmul(g, &call.op), NULL, 0);
}

gram_status gram_kron_matmul_multi_workspace(gram_context *g, const gram_tensor *x,
                                             const gram_tensor *const *factors, int64_t count,
                                             const gram_kron_options *options, const gram_tensor *y,
                                             gram_workspace *need)
{
    struct multi_call call = {
        .args = {.x = x, .factors = factors, .count = count, .y = y}
    };

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(take_options(g, options, &call.options));
    TRY(describe(g, &call));
    *need = gram_workspace_on(g, call.bytes);
    return GRAM_OK;
}

/* ---- Parts --------------------------------------------------------------------------------- */

gram_status gram_kron_matmul_part(gram_context *g, int64_t rows, const gram_tensor *const *factors,
                                  int64_t count, const gram_kron_options *options,
                                  gram_kron_part *part)
{
    struct gram_kron_matmul_op op = {.batch.count = 1, .count = (int)count};
    struct gram_kron_cut cut;
    struct gram_range of_rows, a, c;
    gram_kron_options o;
    int64_t size[2];
    bool left;
    int ranks, rank;

    TRY(gram_begin(g, __func__));
    TRY(take_options(g, options, &o));
    if (!part)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "part is NULL");
    if (rows < 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "rows is %lld, expected 0 or more",
                         (long long)rows);
    if (o.split != GRAM_KRON_SPLIT_ROWS && o.split != GRAM_KRON_SPLIT_COLUMNS &&
        o.split != GRAM_KRON_SPLIT_AUTO)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.split is %d, expected a gram_kron_split", (int)o.split);
    TRY(gram_factors_join(g, &op.batch, factors, count));
    TRY(gram_factors_view(g, &op.batch, factors, count, o.transpose_factors, op.factor, size));
    left = o.side == GRAM_LEFT;
    ranks = o.communicator->size, rank = o.communicator->rank;
    gram_kron_cut(&op, left, ranks, &cut);
    of_rows = range_of(rows, ranks, rank);
    if (o.split == GRAM_KRON_SPLIT_AUTO)
        o.split = (double)gram_ceil_div(rows, ranks) * ranks > 1.25 * (double)rows
                      ? GRAM_KRON_SPLIT_COLUMNS
                      : GRAM_KRON_SPLIT_ROWS;
    *part = (gram_kron_part){.split = o.split, .rows = rows, .columns = size[left]};
    part->outs = size[!left];
    if (o.split == GRAM_KRON_SPLIT_ROWS) {
        part->first_row = of_rows.first, part->rows = of_rows.count;
        return GRAM_OK;
    }
    a = range_of(cut.in[0], ranks, rank), c = range_of(cut.out[0], ranks, rank);
    part->first_column = a.first * cut.in[1], part->columns = a.count * cut.in[1];
    part->first_out = c.first * cut.out[1], part->outs = c.count * cut.out[1];
    return GRAM_OK;
}

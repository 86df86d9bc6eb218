/*
 * cuda_kron_matmul_vjp.c - gram_kron_matmul_vjp on the device: the plan, the chains of products,
 * and what comes before and after them
 *
 * cuda_kron_matmul_vjp.h says what the chains and joins are.  Rows go through the chains in chunks
 * that fit into scratch.  A step is a product with joined factors, by the passes of
 * cuda_kron_matmul.c, in a piece of the call's scratch.  Gradients are added up in pieces
 * (cuda_kron_matmul_vjp_gradient.c); when all rows are through, the sums of the pieces become the
 * gradients of the factors.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kron_matmul_vjp.h"
#include "core/scratch.h"
#include "cuda/arena.h"

static const struct cuda_kernel load = {"kron_vjp.cu", "kron_vjp_load"},
                                add = {"kron_vjp.cu", "kron_vjp_add"},
                                sum = {"kron_vjp.cu", "kron_vjp_sum"},
                                sums = {"kron_vjp.cu", "kron_vjp_sums"},
                                store = {"kron_vjp.cu", "kron_vjp_store"};

enum {
    JOINED = 64,  /* most rows and columns of joined factors: up to here memory is the limit */
    ALIGNED = 16, /* a chunk has a multiple of these rows, so that it is aligned as x is */
    BLOCKS = 4    /* blocks of kron_vjp_sum for each processor */
};

/* ---- Where the chains are ------------------------------------------------------------------- */

/* A view of rows of every group: those of a group lie one behind the other, and groups `step`
 * elements apart. */
static struct gram_view rows_of(const struct cuda_kron_vjp_plan *plan,
                                const struct gram_batch *batch, const char *data, int64_t step,
                                int64_t rows, int64_t cols)
{
    struct gram_view v = gram_view_dense((void *)data, plan->op->x.dtype, rows, cols);

    for (int d = batch->ndim - 1; d >= 0; d--) {
        v.batch_stride[d] = batch->shape[d] > 1 ? step : 0;
        step *= batch->shape[d];
    }
    return v;
}

/* Makes the op of a product with the factors of join i, or with their transposes where `back` is
 * set. */
static struct gram_kron_matmul_op step_of(const struct cuda_kron_chain *c, int i, bool back)
{
    const struct cuda_kron_vjp_plan *plan = c->plan;
    const struct cuda_kron_join *j = &plan->join[i];
    const int64_t rows = c->count * j->before;
    struct gram_kron_matmul_op op = {.count = j->count, .after = j->after, .alpha.value = 1};

    op.batch = plan->groups > 1 ? plan->op->batch : (struct gram_batch){.count = 1};
    for (int f = 0; f < j->count; f++) {
        struct gram_view *to = &op.factor[f];
        *to = plan->op->factor[j->first + f];
        if (back) {
            const struct gram_view from = *to;
            to->rows = from.cols, to->cols = from.rows;
            to->row_stride = from.col_stride, to->col_stride = from.row_stride;
        }
    }
    if (back) {
        op.x = rows_of(plan, &op.batch, c->right, c->right_stride, rows, j->q * j->after);
        op.y = rows_of(plan, &op.batch, c->next, c->next_stride, rows, j->p * j->after);
        if (i + 1 == plan->joins && plan->to_x_direct)
            op.alpha.value = plan->op->alpha.value;
    } else {
        op.x = rows_of(plan, &op.batch, c->left[i], c->left_stride[i], rows, j->p * j->after);
        op.y =
            rows_of(plan, &op.batch, c->left[i - 1], c->left_stride[i - 1], rows, j->q * j->after);
    }
    return op;
}

/* The last step writes the gradient of x in its place where that is dense, which saves a copy of
 * all rows.  The others alternate between two buffers. */
void cuda_kron_vjp_aim(struct cuda_kron_chain *c, int i)
{
    const struct cuda_kron_vjp_plan *plan = c->plan;

    if (i + 1 == plan->joins && plan->to_x_direct) {
        c->next = plan->op->to_x.data + c->first * plan->op->x.cols * cuda_kron_vjp_size(plan);
        c->next_stride = plan->group_rows * plan->op->x.cols;
    } else {
        c->next = c->memory + plan->right_at[(i + 1) % 2];
        c->next_stride = c->count * plan->join[i].per_row * plan->join[i].p;
    }
}

/* Sets the chains to where they begin. */
static void begin(struct cuda_kron_chain *c)
{
    const struct cuda_kron_vjp_plan *plan = c->plan;
    const struct gram_kron_matmul_vjp_op *op = plan->op;
    const int64_t size = cuda_kron_vjp_size(plan);
    const int last = plan->joins - 1;

    for (int i = plan->first; i <= last; i++) {
        c->left[i] = c->memory + plan->join[i].left_at;
        c->left_stride[i] = c->count * plan->join[i].per_row * plan->join[i].p;
    }
    if (plan->first <= last && plan->x_direct) {
        c->left[last] = op->x.data + c->first * op->x.cols * size;
        c->left_stride[last] = plan->group_rows * op->x.cols;
    }
    c->right = plan->grad_direct ? op->grad.data + c->first * op->grad.cols * size
                                 : c->memory + plan->right_at[0];
    c->right_stride = (plan->grad_direct ? plan->group_rows : c->count) * op->grad.cols;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

/* The most scratch that a step takes for this number of rows. */
static gram_status bytes_for(gram_context *g, const struct cuda_kron_vjp_plan *plan, int64_t rows,
                             size_t *bytes)
{
    static _Alignas(64) char scratch[64]; /* it is never read: only its alignment counts */
    struct cuda_kron_chain c = {.plan = plan, .memory = scratch, .count = rows};
    struct gram_kron_matmul_op op;
    size_t step;

    begin(&c);
    for (int i = plan->joins - 1; i > plan->first; i--) {
        op = step_of(&c, i, false);
        TRY(gram_measure(g, &step, cuda_kron_matmul(g, &op)));
        *bytes = step > *bytes ? step : *bytes;
    }
    for (int i = 0; i < plan->steps && !plan->join[i].group; i++) {
        cuda_kron_vjp_aim(&c, i);
        op = step_of(&c, i, true);
        TRY(gram_measure(g, &step, cuda_kron_matmul(g, &op)));
        *bytes = step > *bytes ? step : *bytes;
        c.right = c.next, c.right_stride = c.next_stride;
    }
    return GRAM_OK;
}

/* The scratch that steps take for themselves.  The last chunk may have fewer rows, which may take
 * other passes. */
static gram_status step_bytes(gram_context *g, const struct cuda_kron_vjp_plan *plan, size_t *bytes)
{
    const int64_t rest = plan->group_rows % plan->rows;

    *bytes = 0;
    TRY(bytes_for(g, plan, plan->rows, bytes));
    return rest > 0 ? bytes_for(g, plan, rest, bytes) : GRAM_OK;
}

/* Computes one product of a chain, with its part of the scratch lent to it. */
static gram_status run_step(gram_context *g, const struct cuda_kron_chain *c, int i, bool back)
{
    const struct gram_kron_matmul_op op = step_of(c, i, back);
    struct gram_scratch_before before;
    gram_status status;

    gram_scratch_lend(g, c->memory ? c->memory + c->plan->step_at : NULL, c->plan->step_bytes,
                      &before);
    status = cuda_kron_matmul(g, &op);
    gram_scratch_return(g, &before);
    return status;
}

/* Computes left[i-1] from left[i]. */
static gram_status contract(gram_context *g, const struct cuda_kron_chain *c, int i)
{
    return run_step(g, c, i, false);
}

/* Computes right[i+1] from right[i], after which `right` is the new one. */
static gram_status take_back(gram_context *g, struct cuda_kron_chain *c, int i)
{
    cuda_kron_vjp_aim(c, i);
    TRY(run_step(g, c, i, true));
    c->right = c->next, c->right_stride = c->next_stride;
    return GRAM_OK;
}

/* ---- The plan ------------------------------------------------------------------------------- */

static const double chunk_bytes = 0x1p31; /* of all tensors of the chains; one row may have more */
static const double most_bytes = 0x1p58;

/* True if the rows of all items are one long matrix to the factors. */
static bool is_merged(const struct gram_kron_matmul_vjp_op *op)
{
    bool merged = !op->alpha.tensor.data || cuda_is_shared(&op->batch, &op->alpha.tensor);

    for (int i = 0; i < op->count; i++)
        merged = merged && cuda_is_shared(&op->batch, &op->factor[i]) &&
                 (!op->want_factor[i] || cuda_is_shared(&op->batch, &op->to_factor[i]));
    return merged;
}

/* Joins neighbouring factors whose product has at most JOINED rows and columns, and those whose
 * gradients nobody wants. */
static void join_small(struct cuda_kron_vjp_plan *plan)
{
    const struct gram_kron_matmul_vjp_op *op = plan->op;

    for (int i = 0; i < op->count; i++) {
        const struct gram_view *f = &op->factor[i];
        struct cuda_kron_join *j = &plan->join[plan->joins > 0 ? plan->joins - 1 : 0];
        bool small = f->rows <= JOINED && f->cols <= JOINED && j->p <= JOINED && j->q <= JOINED &&
                     j->p * f->rows <= JOINED && j->q * f->cols <= JOINED;
        if (plan->joins > 0 && (small || !(j->wanted || op->want_factor[i]))) {
            j->p *= f->rows, j->q *= f->cols;
            j->count++;
        } else {
            j = &plan->join[plan->joins++];
            *j = (struct cuda_kron_join){.first = i, .count = 1, .p = f->rows, .q = f->cols};
        }
        j->wanted |= op->want_factor[i];
    }
}

/* Makes the joins: groups where that is possible.  Then finds out which of them have wanted
 * gradients, and how far grad has to go. */
static void join(const struct cuda_device *device, struct cuda_kron_vjp_plan *plan)
{
    if (!cuda_kron_vjp_choose_groups(device, plan)) {
        plan->joins = 0;
        join_small(plan);
    }
    plan->first = plan->joins, plan->last = -1;
    for (int i = plan->joins - 1; i >= 0; i--)
        if (plan->join[i].wanted) {
            plan->first = i;
            plan->last = plan->last < 0 ? i : plan->last;
        }
    plan->steps = plan->op->want_x ? plan->joins : plan->last > 0 ? plan->last : 0;
}

/* The elements of a row of left[i], and of right[i], where i may be joins.  They are counted in
 * double, since they may exceed 64 bits: a plan of such sizes is refused at its end, and not at
 * every step. */
static double left_elements(const struct cuda_kron_vjp_plan *plan, int i)
{
    return (double)plan->join[i].per_row * (double)plan->join[i].p;
}

/* The same for the chain of grad, which ends with rows as long as those of x. */
static double right_elements(const struct cuda_kron_vjp_plan *plan, int i)
{
    return i < plan->joins ? (double)plan->join[i].per_row * (double)plan->join[i].q
                           : (double)plan->op->x.cols;
}

/* True if left[i] needs memory: its gradient or one before it is wanted, and it is not x itself. */
static bool has_left(const struct cuda_kron_vjp_plan *plan, int i)
{
    return i >= plan->first && !(plan->x_direct && i == plan->joins - 1);
}

/* The bytes that the rows in the chains may take: half of the limit of scratch. */
static double room_of(const gram_context *g)
{
    double limit = (double)g->options.scratch_limit / 2;

    return limit > 0 && limit < chunk_bytes ? limit : chunk_bytes;
}

/* Chooses how many rows of a group go through the chains together: as many as fit. */
static void choose_rows(const gram_context *g, struct cuda_kron_vjp_plan *plan)
{
    double elements = 0, size = (double)cuda_kron_vjp_size(plan), most = 0, fit;

    for (int i = 0; i < plan->joins; i++) {
        elements += has_left(plan, i) ? left_elements(plan, i) : 0;
        most = right_elements(plan, i) > most ? right_elements(plan, i) : most;
    }
    most = right_elements(plan, plan->joins) > most ? right_elements(plan, plan->joins) : most;
    fit = room_of(g) / ((elements + 2 * most) * size * (double)plan->groups);
    plan->rows = plan->group_rows;
    if (fit < (double)plan->rows)
        plan->rows = gram_most(1, (int64_t)fit);
    if (plan->rows < plan->group_rows && plan->rows > ALIGNED)
        plan->rows = plan->rows / ALIGNED * ALIGNED;
}

/* Rounds up to 64 bytes.  What is too large to count becomes 0, since the plan is refused then. */
static size_t round_up(double bytes)
{
    return bytes < most_bytes ? gram_round64((size_t)bytes) : 0;
}

/* Lays out the scratch.  It is counted in double, which cannot overflow. */
static void lay_out(struct cuda_kron_vjp_plan *plan)
{
    double size = (double)gram_dtype_size(plan->op->x.dtype), most[2] = {0, 0}, at = 0;
    double rows = (double)plan->rows * (double)plan->groups;

    for (int i = 0; i < plan->joins; i++) {
        struct cuda_kron_join *j = &plan->join[i];
        double matrix = (double)j->p * (double)j->q * size;
        j->left_at = round_up(at);
        if (has_left(plan, i))
            at = (double)j->left_at + left_elements(plan, i) * rows * size;
        j->sums_at = round_up(at);
        if (j->group)
            at = (double)cuda_kron_vjp_sums_at(plan, j, j->count);
        else if (j->wanted)
            at = (double)j->sums_at + matrix * (double)j->slots * (double)plan->groups;
    }
    for (int i = plan->grad_direct; i <= plan->steps; i++) {
        double bytes = right_elements(plan, i) * rows * size;
        if (i < plan->joins || !plan->to_x_direct)
            most[i % 2] = bytes > most[i % 2] ? bytes : most[i % 2];
    }
    for (int i = 0; i < 2; i++) {
        plan->right_at[i] = round_up(at);
        at = (double)plan->right_at[i] + most[i];
    }
    plan->step_at = round_up(at);
    plan->bytes = at;
}

/* Adds the scratch that steps take for themselves. */
static gram_status add_step_bytes(gram_context *g, struct cuda_kron_vjp_plan *plan)
{
    TRY(step_bytes(g, plan, &plan->step_bytes));
    plan->bytes = (double)plan->step_at + (double)plan->step_bytes;
    return GRAM_OK;
}

/* Makes the plan of op, or says why there can be none. */
static gram_status make_plan(gram_context *g, const struct gram_kron_matmul_vjp_op *op,
                             struct cuda_kron_vjp_plan *plan)
{
    bool merged = is_merged(op), fits = true;
    int64_t after = 1, before = 1;

    *plan = (struct cuda_kron_vjp_plan){
        .op = op, .groups = merged ? 1 : op->batch.count, .group_rows = op->x.rows};
    if (merged)
        fits = !__builtin_mul_overflow(op->x.rows, op->batch.count, &plan->group_rows);
    join(g->device, plan);
    for (int i = plan->joins - 1; i >= 0; i--) {
        plan->join[i].after = after;
        after *= plan->join[i].q;
    }
    for (int i = 0; i < plan->joins; i++) {
        struct cuda_kron_join *j = &plan->join[i];
        j->before = before;
        fits = fits && !__builtin_mul_overflow(j->after, before, &j->per_row);
        before *= j->p;
    }
    if (!fits)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "an intermediate row has more elements than 64 bits can count");
    plan->x_direct = cuda_is_dense(&op->batch, &op->x);
    plan->grad_direct = cuda_is_dense(&op->batch, &op->grad);
    plan->to_x_direct =
        op->want_x && !op->alpha.tensor.data && cuda_is_dense(&op->batch, &op->to_x);
    choose_rows(g, plan);
    for (int i = 0; i < plan->joins; i++)
        if (plan->join[i].group)
            cuda_kron_vjp_cut_group(g->device, plan, &plan->join[i]);
        else if (plan->join[i].wanted)
            cuda_kron_vjp_cut_gradient(g->device, plan, &plan->join[i]);
    lay_out(plan);
    if (plan->bytes < most_bytes)
        TRY(add_step_bytes(g, plan));
    if (!(plan->bytes < most_bytes))
        return gram_fail(g, GRAM_OUT_OF_MEMORY,
                         "a row of x or y is too long: the size of the scratch memory overflows");
    return GRAM_OK;
}

/* The blocks of a launch that has a thread for each element. */
static int64_t blocks_for(int64_t elements)
{
    return gram_most(1, gram_ceil_div(elements, KRON_VJP_THREADS));
}

/* ---- Before the chains ---------------------------------------------------------------------- */

/* Copies rows of a matrix for the chains, where they cannot read it in place. */
static gram_status load_matrix(gram_context *g, const struct gram_batch *batch,
                               const struct gram_view *v, struct kron_vjp_move_params *p)
{
    int64_t tiles = gram_ceil_div(p->count, KRON_VJP_TILE) * gram_ceil_div(v->cols, KRON_VJP_TILE);

    cuda_set_batch(batch, &p->ndim, p->shape);
    p->side = cuda_device_view(v);
    p->item_rows = v->rows, p->cols = v->cols;
    return cuda_launch_plain(g, &load, v->dtype, gram_least(tiles, INT32_MAX) * p->groups,
                             KRON_VJP_THREADS, p);
}

/* Sets the chains to where they begin, and copies x and grad where they cannot be read in place. */
static gram_status load_rows(gram_context *g, struct cuda_kron_chain *c)
{
    const struct cuda_kron_vjp_plan *plan = c->plan;
    const struct gram_kron_matmul_vjp_op *op = plan->op;
    const int last = plan->joins - 1;
    struct kron_vjp_move_params p = {.groups = plan->groups,
                                     .row_count = plan->group_rows,
                                     .first = c->first,
                                     .count = c->count};

    begin(c);
    if (plan->first <= last && !plan->x_direct) {
        p.buffer = c->memory + plan->join[last].left_at;
        TRY(load_matrix(g, &op->batch, &op->x, &p));
    }
    if (plan->grad_direct)
        return GRAM_OK;
    p.buffer = c->memory + plan->right_at[0];
    return load_matrix(g, &op->batch, &op->grad, &p);
}

/* ---- The chains ----------------------------------------------------------------------------- */

/* Copies the gradient of x to its place, where the chain could not write it there. */
static gram_status store_x(gram_context *g, const struct cuda_kron_chain *c)
{
    const struct cuda_kron_vjp_plan *plan = c->plan;
    const struct gram_kron_matmul_vjp_op *op = plan->op;
    struct kron_vjp_move_params p = {.side = cuda_device_view(&op->to_x),
                                     .item_rows = op->x.rows,
                                     .cols = op->x.cols,
                                     .groups = plan->groups,
                                     .row_count = plan->group_rows,
                                     .first = c->first,
                                     .count = c->count,
                                     .buffer = (char *)c->right,
                                     .alpha = cuda_device_number(&op->alpha)};

    cuda_set_batch(&op->batch, &p.ndim, p.shape);
    return cuda_launch_plain(g, &add, op->x.dtype,
                             blocks_for(plan->groups * plan->group_rows * op->x.cols),
                             KRON_VJP_THREADS, &p);
}

/* Takes some rows through both chains: first x, as far as the first wanted gradient, then grad. */
static gram_status run_rows(gram_context *g, struct cuda_kron_chain *c)
{
    const struct cuda_kron_vjp_plan *plan = c->plan;

    TRY(load_rows(g, c));
    for (int i = plan->joins - 1; i > plan->first; i--)
        TRY(contract(g, c, i));
    for (int i = 0; i <= plan->last || i < plan->steps; i++) {
        if (plan->join[i].group) {
            TRY(cuda_kron_vjp_run_group(g, c, i));
            continue;
        }
        if (plan->join[i].wanted)
            TRY(cuda_kron_vjp_add_gradient(g, c, i));
        if (i < plan->steps)
            TRY(take_back(g, c, i));
    }
    return plan->op->want_x && !plan->to_x_direct ? store_x(g, c) : GRAM_OK;
}

/* ---- After them ----------------------------------------------------------------------------- */

/* Computes the gradient of one of the joined factors from that of their product. */
static gram_status store_factor(gram_context *g, const struct cuda_kron_chain *c,
                                const struct cuda_kron_join *j, int which)
{
    const struct cuda_kron_vjp_plan *plan = c->plan;
    const struct gram_kron_matmul_vjp_op *op = plan->op;
    const struct gram_view *to = &op->to_factor[j->first + which];
    struct kron_vjp_store_params p = {.out = cuda_device_view(to),
                                      .rows = to->rows,
                                      .cols = to->cols,
                                      .sums = c->memory + j->sums_at,
                                      .group_stride = j->slots * j->p * j->q,
                                      .alpha = cuda_device_number(&op->alpha),
                                      .count = j->count,
                                      .which = which};
    int64_t items = 1, terms = j->p / to->rows * (j->q / to->cols);

    if (plan->groups > 1)
        cuda_set_batch(&op->batch, &p.ndim, p.shape);
    for (int d = 0; d < p.ndim; d++) {
        items *= p.out.batch_stride[d] ? p.shape[d] : 1;
        terms *= p.out.batch_stride[d] ? 1 : p.shape[d];
    }
    for (int i = 0; i < j->count; i++) {
        p.factor[i] = cuda_device_view(&op->factor[j->first + i]);
        p.p[i] = op->factor[j->first + i].rows, p.q[i] = op->factor[j->first + i].cols;
    }
    for (p.lanes = 1; p.lanes < 32 && p.lanes * 2 <= terms;)
        p.lanes *= 2;
    return cuda_launch_plain(g, &store, op->x.dtype,
                             blocks_for(items * to->rows * to->cols * p.lanes), KRON_VJP_THREADS,
                             &p);
}

/* True if the sum of the pieces is the gradient that the caller wants. */
static bool sum_is_all(const struct cuda_kron_chain *c, const struct cuda_kron_join *j)
{
    return j->count == 1 && c->plan->groups == 1;
}

/* Adds up the pieces of the gradient of joined factors.  With direct this is the gradient that the
 * caller wants. */
static gram_status add_up(gram_context *g, const struct cuda_kron_chain *c,
                          const struct cuda_kron_join *j, bool direct)
{
    const struct gram_kron_matmul_vjp_op *op = c->plan->op;
    const int64_t processors = ((const struct cuda_device *)g->device)->processors;
    struct kron_vjp_sum_params p = {.sums = c->memory + j->sums_at,
                                    .groups = c->plan->groups,
                                    .slots = j->slots,
                                    .elements = j->p * j->q,
                                    .lanes = 1,
                                    .direct = direct,
                                    .cols = j->q,
                                    .out = cuda_device_view(&op->to_factor[j->first]),
                                    .alpha = cuda_device_number(&op->alpha)};

    while (p.lanes < KRON_VJP_THREADS && p.lanes * KRON_VJP_AT_ONCE < p.slots &&
           blocks_for(p.groups * p.elements * p.lanes) < BLOCKS * processors)
        p.lanes *= 2;
    return cuda_launch_plain(g, &sum, op->x.dtype, blocks_for(p.groups * p.elements * p.lanes),
                             KRON_VJP_THREADS, &p);
}

/* Adds up the pieces for all factors of groups. */
static gram_status add_up_groups(gram_context *g, const struct cuda_kron_chain *c)
{
    const struct cuda_kron_vjp_plan *plan = c->plan;
    const struct gram_kron_matmul_vjp_op *op = plan->op;
    struct kron_vjp_sums_params p = {.alpha = cuda_device_number(&op->alpha)};
    int64_t elements = 0;

    for (int i = 0; i < plan->joins; i++) {
        const struct cuda_kron_join *j = &plan->join[i];
        for (int f = 0; f < j->count; f++) {
            const struct gram_view *to = &op->to_factor[j->first + f];
            p.sums[p.count] = c->memory + cuda_kron_vjp_sums_at(plan, j, f);
            p.slots[p.count] = j->slots, p.n[p.count] = to->rows;
            p.out[p.count++] = cuda_device_view(to);
            elements += to->rows * to->cols;
        }
    }
    return cuda_launch_plain(g, &sums, op->x.dtype, elements / KRON_VJP_BESIDE, KRON_VJP_THREADS,
                             &p);
}

/* Makes the gradients of the factors from the sums of all rows. */
static gram_status store_factors(gram_context *g, const struct cuda_kron_chain *c)
{
    const struct cuda_kron_vjp_plan *plan = c->plan;

    if (plan->join[0].group)
        return add_up_groups(g, c);
    for (int i = 0; i < plan->joins; i++) {
        const struct cuda_kron_join *j = &plan->join[i];
        if (!j->wanted)
            continue;
        if (sum_is_all(c, j)) {
            TRY(add_up(g, c, j, true));
            continue;
        }
        if (j->slots > 1)
            TRY(add_up(g, c, j, false));
        for (int f = 0; f < j->count; f++)
            if (plan->op->want_factor[j->first + f])
                TRY(store_factor(g, c, j, f));
    }
    return GRAM_OK;
}

/* Takes the scratch, and works on as many rows at a time as it holds. */
static gram_status run(gram_context *g, const struct cuda_kron_vjp_plan *plan)
{
    struct cuda_kron_chain c = {.plan = plan};
    struct gram_layout layout = {0};

    gram_take(&layout, &c.memory, (size_t)plan->bytes);
    TRY(gram_layout_open(g, &layout));
    for (; c.first < plan->group_rows; c.first += c.count) {
        c.count = gram_least(plan->rows, plan->group_rows - c.first);
        TRY(run_rows(g, &c));
    }
    return store_factors(g, &c);
}

/* ---- Entry points --------------------------------------------------------------------------- */

/* Without rows, columns or items gradients are empty sums: zeros. */
static bool is_empty(const struct gram_kron_matmul_vjp_op *op)
{
    return op->batch.count == 0 || op->x.rows == 0 || op->x.cols == 0 || op->grad.cols == 0;
}

/* Sets a gradient to zero: a sum without terms. */
static gram_status fill_zero(gram_context *g, const struct gram_batch *batch,
                             const struct gram_view *v)
{
    struct kron_vjp_store_params p = {
        .out = cuda_device_view(v), .rows = v->rows, .cols = v->cols, .lanes = 1};
    int64_t elements = v->rows * v->cols;

    cuda_set_batch(batch, &p.ndim, p.shape);
    for (int d = 0; d < batch->ndim; d++) {
        p.shape[d] = v->batch_stride[d] == 0 ? 1 : p.shape[d]; /* an empty dimension adds nothing */
        elements *= p.shape[d];
    }
    if (elements == 0)
        return GRAM_OK;
    return cuda_launch_plain(g, &store, v->dtype, blocks_for(elements), KRON_VJP_THREADS, &p);
}

/* All wanted gradients. Kernels write them, because they may have any strides. */
static gram_status fill_zeros(gram_context *g, const struct gram_kron_matmul_vjp_op *op)
{
    for (int i = 0; i < op->count; i++)
        if (op->want_factor[i])
            TRY(fill_zero(g, &op->batch, &op->to_factor[i]));
    return op->want_x ? fill_zero(g, &op->batch, &op->to_x) : GRAM_OK;
}

static gram_status check_pointers(gram_context *g, const struct gram_kron_matmul_vjp_op *op)
{
    TRY(gram_cuda_check_pointer(g, "x", &op->x));
    TRY(gram_cuda_check_pointer(g, "grad", &op->grad));
    TRY(gram_cuda_check_pointer(g, "options.alpha", &op->alpha.tensor));
    if (op->want_x)
        TRY(gram_cuda_check_pointer(g, "grads.x", &op->to_x));
    for (int i = 0; i < op->count; i++) {
        TRY(gram_cuda_check_pointer(g, "factors", &op->factor[i]));
        if (op->want_factor[i])
            TRY(gram_cuda_check_pointer(g, "grads.factors", &op->to_factor[i]));
    }
    return GRAM_OK;
}

gram_status cuda_kron_matmul_vjp(gram_context *g, const struct gram_kron_matmul_vjp_op *op)
{
    struct cuda_kron_vjp_plan plan;
    bool empty = is_empty(op), entered;
    gram_status status;

    TRY(check_pointers(g, op));
    if (!empty)
        TRY(make_plan(g, op, &plan));
    entered = gram_cuda_enter(g->device);
    status = empty ? fill_zeros(g, op) : run(g, &plan);
    gram_cuda_leave(g->device, entered);
    return status;
}

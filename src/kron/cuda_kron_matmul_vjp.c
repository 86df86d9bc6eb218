/*
 * cuda_kron_matmul_vjp.c - gram_kron_matmul_vjp on the device: chains of products
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kron_matmul_vjp.h"
#include "cuda/arena.h"

enum {
    BLOCKS = 4 /* blocks of kron_vjp_sum for each processor */
};

static int64_t blocks_for(int64_t elements)
{
    return gram_most(1, gram_ceil_div(elements, KRON_VJP_THREADS));
}

/* ---- Before the chains ---------------------------------------------------------------------- */

/* Copies rows of a matrix for the chains, where they cannot read it in place. */
static gram_status load(gram_context *g, const struct gram_batch *batch, const struct gram_view *v,
                        struct kron_vjp_move_params *p)
{
    int64_t tiles = gram_ceil_div(p->count, KRON_VJP_TILE) * gram_ceil_div(v->cols, KRON_VJP_TILE);

    cuda_kron_put_batch(batch, &p->ndim, p->shape);
    p->side = cuda_kron_side(v);
    p->item_rows = v->rows, p->cols = v->cols;
    return gram_cuda_launch_plain(g, CUDA_VARIANT_KRON_VJP_LOAD, v->dtype,
                                  gram_least(tiles, INT32_MAX) * p->groups, KRON_VJP_THREADS, p);
}

static gram_status load_rows(gram_context *g, struct cuda_kron_chain *c)
{
    const struct cuda_kron_vjp_plan *plan = c->plan;
    const struct gram_kron_matmul_vjp_op *op = plan->op;
    const int last = plan->joins - 1;
    struct kron_vjp_move_params p = {.groups = plan->groups,
                                     .row_count = plan->group_rows,
                                     .first = c->first,
                                     .count = c->count};

    cuda_kron_vjp_begin(c);
    if (plan->first <= last && !plan->x_direct) {
        p.buffer = c->memory + plan->join[last].left_at;
        TRY(load(g, &op->batch, &op->x, &p));
    }
    if (plan->grad_direct)
        return GRAM_OK;
    p.buffer = c->memory + plan->right_at[0];
    return load(g, &op->batch, &op->grad, &p);
}

/* ---- The chains ----------------------------------------------------------------------------- */

/* Copies the gradient of x to its place, where the chain could not write it there. */
static gram_status store_x(gram_context *g, const struct cuda_kron_chain *c)
{
    const struct cuda_kron_vjp_plan *plan = c->plan;
    const struct gram_kron_matmul_vjp_op *op = plan->op;
    struct kron_vjp_move_params p = {.side = cuda_kron_side(&op->to_x),
                                     .item_rows = op->x.rows,
                                     .cols = op->x.cols,
                                     .groups = plan->groups,
                                     .row_count = plan->group_rows,
                                     .first = c->first,
                                     .count = c->count,
                                     .buffer = (char *)c->right,
                                     .alpha = cuda_kron_number(&op->alpha)};

    cuda_kron_put_batch(&op->batch, &p.ndim, p.shape);
    return gram_cuda_launch_plain(g, CUDA_VARIANT_KRON_VJP_ADD, op->x.dtype,
                                  blocks_for(plan->groups * plan->group_rows * op->x.cols),
                                  KRON_VJP_THREADS, &p);
}

static gram_status run_rows(gram_context *g, struct cuda_kron_chain *c)
{
    const struct cuda_kron_vjp_plan *plan = c->plan;

    TRY(load_rows(g, c));
    for (int i = plan->joins - 1; i > plan->first; i--)
        TRY(cuda_kron_vjp_contract(g, c, i));
    for (int i = 0; i <= plan->last || i < plan->steps; i++) {
        if (plan->join[i].group) {
            TRY(cuda_kron_vjp_run_group(g, c, i));
            continue;
        }
        if (plan->join[i].wanted)
            TRY(cuda_kron_vjp_add_gradient(g, c, i));
        if (i < plan->steps)
            TRY(cuda_kron_vjp_take_back(g, c, i));
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
    struct kron_vjp_store_params p = {.out = cuda_kron_side(to),
                                      .rows = to->rows,
                                      .cols = to->cols,
                                      .sums = c->memory + j->sums_at,
                                      .group_stride = j->slots * j->p * j->q,
                                      .alpha = cuda_kron_number(&op->alpha),
                                      .count = j->count,
                                      .which = which};
    int64_t items = 1, terms = j->p / to->rows * (j->q / to->cols);

    if (plan->groups > 1)
        cuda_kron_put_batch(&op->batch, &p.ndim, p.shape);
    for (int d = 0; d < p.ndim; d++) {
        items *= p.out.batch_stride[d] ? p.shape[d] : 1;
        terms *= p.out.batch_stride[d] ? 1 : p.shape[d];
    }
    for (int i = 0; i < j->count; i++) {
        p.factor[i] = cuda_kron_side(&op->factor[j->first + i]);
        p.p[i] = op->factor[j->first + i].rows, p.q[i] = op->factor[j->first + i].cols;
    }
    for (p.lanes = 1; p.lanes < 32 && p.lanes * 2 <= terms;)
        p.lanes *= 2;
    return gram_cuda_launch_plain(g, CUDA_VARIANT_KRON_VJP_STORE, op->x.dtype,
                                  blocks_for(items * to->rows * to->cols * p.lanes),
                                  KRON_VJP_THREADS, &p);
}

/* Adds up the pieces of the gradient of one factor of a group. */
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
                                    .out = cuda_kron_side(&op->to_factor[j->first]),
                                    .alpha = cuda_kron_number(&op->alpha)};

    while (p.lanes < KRON_VJP_THREADS && p.lanes * KRON_VJP_AT_ONCE < p.slots &&
           blocks_for(p.groups * p.elements * p.lanes) < BLOCKS * processors)
        p.lanes *= 2;
    return gram_cuda_launch_plain(g, CUDA_VARIANT_KRON_VJP_SUM, op->x.dtype,
                                  blocks_for(p.groups * p.elements * p.lanes), KRON_VJP_THREADS,
                                  &p);
}

/* Adds up the pieces for all factors of groups. */
static gram_status add_up_groups(gram_context *g, const struct cuda_kron_chain *c)
{
    const struct cuda_kron_vjp_plan *plan = c->plan;
    const struct gram_kron_matmul_vjp_op *op = plan->op;
    struct kron_vjp_sums_params p = {.alpha = cuda_kron_number(&op->alpha)};
    int64_t elements = 0;

    for (int i = 0; i < plan->joins; i++) {
        const struct cuda_kron_join *j = &plan->join[i];
        for (int f = 0; f < j->count; f++) {
            const struct gram_view *to = &op->to_factor[j->first + f];
            p.sums[p.count] = c->memory + cuda_kron_vjp_sums_at(plan, j, f);
            p.slots[p.count] = j->slots, p.n[p.count] = to->rows;
            p.out[p.count++] = cuda_kron_side(to);
            elements += to->rows * to->cols;
        }
    }
    return gram_cuda_launch_plain(g, CUDA_VARIANT_KRON_VJP_SUMS, op->x.dtype,
                                  elements / KRON_VJP_BESIDE, KRON_VJP_THREADS, &p);
}

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

static gram_status run(gram_context *g, const struct cuda_kron_vjp_plan *plan)
{
    struct cuda_kron_chain c = {.plan = plan};
    void *memory;

    TRY(gram_cuda_scratch(g, (size_t)plan->bytes, &memory));
    c.memory = memory;
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

static gram_status fill_zero(gram_context *g, const struct gram_batch *batch,
                             const struct gram_view *v)
{
    struct kron_vjp_store_params p = {
        .out = cuda_kron_side(v), .rows = v->rows, .cols = v->cols, .lanes = 1};
    int64_t elements = v->rows * v->cols;

    cuda_kron_put_batch(batch, &p.ndim, p.shape);
    for (int d = 0; d < batch->ndim; d++) {
        p.shape[d] = v->batch_stride[d] == 0 ? 1 : p.shape[d]; /* an empty dimension adds nothing */
        elements *= p.shape[d];
    }
    if (elements == 0)
        return GRAM_OK;
    return gram_cuda_launch_plain(g, CUDA_VARIANT_KRON_VJP_STORE, v->dtype, blocks_for(elements),
                                  KRON_VJP_THREADS, &p);
}

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
        TRY(cuda_kron_vjp_plan(g, op, &plan));
    entered = gram_cuda_enter(g->device);
    status = empty ? fill_zeros(g, op) : run(g, &plan);
    gram_cuda_leave(g->device, entered);
    return status;
}

gram_status cuda_kron_matmul_vjp_workspace(gram_context *g,
                                           const struct gram_kron_matmul_vjp_op *op, size_t *bytes)
{
    struct cuda_kron_vjp_plan plan;

    *bytes = 0;
    if (is_empty(op))
        return GRAM_OK;
    TRY(cuda_kron_vjp_plan(g, op, &plan));
    *bytes = (size_t)plan.bytes;
    return GRAM_OK;
}

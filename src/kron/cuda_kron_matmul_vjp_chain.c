/*
 * cuda_kron_matmul_vjp_chain.c - the steps of the chains: products with joined factors
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda/arena.h"
#include "cuda_kron_matmul_vjp.h"

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

void cuda_kron_vjp_begin(struct cuda_kron_chain *c)
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

    cuda_kron_vjp_begin(&c);
    for (int i = plan->joins - 1; i > plan->first; i--) {
        op = step_of(&c, i, false);
        TRY(cuda_kron_matmul_workspace(g, &op, &step));
        *bytes = step > *bytes ? step : *bytes;
    }
    for (int i = 0; i < plan->steps && !plan->join[i].group; i++) {
        cuda_kron_vjp_aim(&c, i);
        op = step_of(&c, i, true);
        TRY(cuda_kron_matmul_workspace(g, &op, &step));
        *bytes = step > *bytes ? step : *bytes;
        c.right = c.next, c.right_stride = c.next_stride;
    }
    return GRAM_OK;
}

/* The last chunk may have fewer rows, which may take other passes. */
gram_status cuda_kron_vjp_step_bytes(gram_context *g, const struct cuda_kron_vjp_plan *plan,
                                     size_t *bytes)
{
    const int64_t rest = plan->group_rows % plan->rows;

    *bytes = 0;
    TRY(bytes_for(g, plan, plan->rows, bytes));
    return rest > 0 ? bytes_for(g, plan, rest, bytes) : GRAM_OK;
}

static gram_status run_step(gram_context *g, const struct cuda_kron_chain *c, int i, bool back)
{
    const struct gram_kron_matmul_op op = step_of(c, i, back);
    struct cuda_borrowed before;
    gram_status status;

    gram_cuda_scratch_begin(g, c->memory + c->plan->step_at, c->plan->step_bytes, &before);
    status = cuda_kron_matmul(g, &op);
    gram_cuda_scratch_end(g, &before);
    return status;
}

gram_status cuda_kron_vjp_contract(gram_context *g, const struct cuda_kron_chain *c, int i)
{
    return run_step(g, c, i, false);
}

gram_status cuda_kron_vjp_take_back(gram_context *g, struct cuda_kron_chain *c, int i)
{
    cuda_kron_vjp_aim(c, i);
    TRY(run_step(g, c, i, true));
    c->right = c->next, c->right_stride = c->next_stride;
    return GRAM_OK;
}

/*
 * cuda_kron_matmul_vjp_plan.c - the joins, chunks of rows and scratch of the gradients: see
 * cuda_kron_matmul_vjp.h
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kron_matmul_vjp.h"

enum {
    JOINED = 64,  /* most rows and columns of joined factors: up to here memory is the limit */
    ALIGNED = 16, /* a chunk has a multiple of these rows, so that it is aligned as x is */
};

static const double chunk_bytes = 0x1p31; /* of all tensors of the chains; one row may have more */
static const double most_bytes = 0x1p58;

/* True if the rows of all items are one long matrix to the factors. */
static bool is_merged(const struct gram_kron_matmul_vjp_op *op)
{
    bool merged = !op->alpha.tensor.data || cuda_kron_is_shared(&op->batch, &op->alpha.tensor);

    for (int i = 0; i < op->count; i++)
        merged = merged && cuda_kron_is_shared(&op->batch, &op->factor[i]) &&
                 (!op->want_factor[i] || cuda_kron_is_shared(&op->batch, &op->to_factor[i]));
    return merged;
}

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

/* The elements of a row of left[i], and of right[i], where i may be joins. */
static double left_elements(const struct cuda_kron_vjp_plan *plan, int i)
{
    return (double)plan->join[i].per_row * (double)plan->join[i].p;
}

static double right_elements(const struct cuda_kron_vjp_plan *plan, int i)
{
    return i < plan->joins ? (double)plan->join[i].per_row * (double)plan->join[i].q
                           : (double)plan->op->x.cols;
}

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
    TRY(cuda_kron_vjp_step_bytes(g, plan, &plan->step_bytes));
    plan->bytes = (double)plan->step_at + (double)plan->step_bytes;
    return GRAM_OK;
}

gram_status cuda_kron_vjp_plan(gram_context *g, const struct gram_kron_matmul_vjp_op *op,
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
                         "a row has more elements on its way than 64 bits can count");
    plan->x_direct = cuda_kron_is_dense(&op->batch, &op->x);
    plan->grad_direct = cuda_kron_is_dense(&op->batch, &op->grad);
    plan->to_x_direct =
        op->want_x && !op->alpha.tensor.data && cuda_kron_is_dense(&op->batch, &op->to_x);
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
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "a row of x or y is too long: scratch overflows");
    return GRAM_OK;
}

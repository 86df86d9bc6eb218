/*
 * cpu_solve.c - Cholesky and LU on the CPU: takes the batch apart and chooses the way
 *
 * cpu_solve_small.c does small items in parallel, cpu_solve_large.c gives large ones to LAPACK.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_solve.h"
#include "core/blas.h"
#include "cpu/cpu_kernels.h"

/* ---- Batches, layouts, outcomes -------------------------------------------------------------- */

char *cpu_solve_item(const struct solve_plan *plan, const struct gram_view *v, int64_t own,
                     int64_t shared)
{
    char *at = gram_view_item(v, &plan->own, own);

    return at ? at + (gram_view_item(v, &plan->shared, shared) - v->data) : NULL;
}

void cpu_solve_report(struct solve_plan *plan, int64_t own, int64_t info)
{
    const struct gram_solve_op *op = plan->op;
    long long code = own * (op->a.rows + 1) + info, seen = atomic_load(&plan->failed);

    for (int64_t j = 0; op->has_info && j < plan->shared.count; j++)
        *(int32_t *)(void *)cpu_solve_item(plan, &op->info, own, j) = (int32_t)info;
    while (info && code < seen && !atomic_compare_exchange_weak(&plan->failed, &seen, code))
        continue;
}

void cpu_solve_pivots_in(const struct solve_plan *plan, int64_t own, int32_t *pivots)
{
    const struct gram_view *v = &plan->op->pivots;
    const int32_t *from = (const int32_t *)(void *)cpu_solve_item(plan, v, own, 0);

    for (int64_t i = 0; i < v->cols; i++)
        pivots[i] = from[i * v->col_stride];
}

void cpu_solve_pivots_out(const struct solve_plan *plan, int64_t own, const int32_t *pivots)
{
    const struct gram_view *v = &plan->op->pivots;
    int32_t *to = (int32_t *)(void *)cpu_solve_item(plan, v, own, 0);

    for (int64_t i = 0; i < v->cols; i++)
        to[i * v->col_stride] = pivots[i];
}

/* ---- Entry points ---------------------------------------------------------------------------- */

static void make_plan(const gram_context *g, const struct gram_solve_op *op, bool lu,
                      struct solve_plan *plan)
{
    *plan = (struct solve_plan){.op = op, .lu = lu};
    plan->of_dtype = gram_cpu_kernels_of(g)->solve;
    plan->kernels = plan->of_dtype[op->a.dtype];
    atomic_init(&plan->failed, LLONG_MAX);
    gram_solve_split(op, &plan->own, &plan->shared);
}

/* One system with many right-hand sides is worth LAPACK's threads at any n. */
static bool is_small(const struct solve_plan *plan)
{
    const struct gram_solve_op *op = plan->op;

    return op->a.rows <= SOLVE_SMALL &&
           (plan->own.count > 1 || op->a.rows == 0 || op->x.cols <= SOLVE_RHS_BLOCK);
}

/* Pivots come from the caller's memory: one out of range would be a wild store. */
static gram_status check_pivots(gram_context *g, const struct solve_plan *plan)
{
    const struct gram_view *v = &plan->op->pivots;

    if (!plan->op->factored || !plan->lu)
        return GRAM_OK;
    for (int64_t i = 0; i < plan->own.count; i++) {
        const int32_t *p = (const int32_t *)(void *)cpu_solve_item(plan, v, i, 0);
        for (int64_t k = 0; k < v->cols; k++)
            if (p[k * v->col_stride] < 1 || p[k * v->col_stride] > v->cols)
                return gram_fail(g, GRAM_INVALID_ARGUMENT,
                                 "options.pivots holds %d at index %lld of item %lld, expected 1 "
                                 "to %lld",
                                 (int)p[k * v->col_stride], (long long)k, (long long)i,
                                 (long long)v->cols);
    }
    return GRAM_OK;
}

gram_status cpu_solve_open(gram_context *g, const struct solve_plan *plan,
                           const struct gram_layout *layout)
{
    TRY(gram_layout_open(g, layout));
    return check_pivots(g, plan);
}

static gram_status run(gram_context *g, struct solve_plan *plan)
{
    const struct gram_solve_op *op = plan->op;
    long long failed, order = op->a.rows + 1;

    if (!gram_blas_fits(op->a.rows, op->x.cols, 0))
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "a has %lld rows and b has %lld columns, but BLAS takes at most %d of "
                         "each",
                         (long long)op->a.rows, (long long)op->x.cols, INT_MAX);
    if (cpu_solve_has_options(op))
        TRY(cpu_solve_options(g, plan));
    else
        TRY(is_small(plan) ? cpu_solve_small(g, plan) : cpu_solve_large(g, plan));
    failed = atomic_load(&plan->failed);
    if (failed == LLONG_MAX || op->has_info)
        return GRAM_OK;
    if (plan->lu)
        return gram_fail(g, GRAM_NUMERICAL,
                         "a is singular: U[%lld, %lld] of item %lld is zero or NaN", failed % order,
                         failed % order, failed / order);
    return gram_fail(g, GRAM_NUMERICAL,
                     "a is not positive definite: the leading minor of order %lld of item %lld is "
                     "not positive",
                     failed % order, failed / order);
}

gram_status cpu_solve_cholesky(gram_context *g, const struct gram_solve_op *op)
{
    struct solve_plan plan;

    make_plan(g, op, false, &plan);
    return run(g, &plan);
}

gram_status cpu_solve_lu(gram_context *g, const struct gram_solve_op *op)
{
    struct solve_plan plan;

    make_plan(g, op, true, &plan);
    return run(g, &plan);
}

/*
 * cpu_eigh.c - symmetric eigenproblems on the CPU: how results are stored, the choice of a driver,
 * and the call
 *
 * A driver is a row of a table: cpu_eigh_small.c takes many small items at once in the lanes of
 * vectors, cpu_eigh_large.c gives others to LAPACK, cpu_eigh_krylov.c finds few pairs of a large
 * matrix.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_eigh.h"
#include "core/blas.h"
#include "cpu/move.h"
#include "krylov.h"
#include <limits.h>

/* ---- Results --------------------------------------------------------------------------------- */

static void write_info(const struct eigh_plan *plan, int64_t item, int32_t info, int64_t found)
{
    const struct gram_eigh_op *op = plan->op;

    if (op->has_info)
        *(int32_t *)(void *)cpu_eigh_item(plan, &op->info, item) = info;
    if (op->has_found)
        *(int64_t *)(void *)cpu_eigh_item(plan, &op->found, item) = found;
}

/* NaN to the columns of an item from column first on. */
static void fill_nan(const struct eigh_plan *plan, const struct gram_view *v, int64_t item,
                     int64_t first)
{
    struct gram_view rest = *v;
    char *to = cpu_eigh_item(plan, v, item);

    rest.cols -= first;
    if (to && rest.cols > 0)
        cpu_fill_nan(&rest, to + first * v->col_stride * (int64_t)gram_dtype_size(v->dtype));
}

void cpu_eigh_fail(struct eigh_plan *plan, int64_t item, enum eigh_outcome outcome)
{
    long long code = item * 4 + outcome, seen = atomic_load(&plan->failed);

    write_info(plan, item, outcome, 0);
    fill_nan(plan, &plan->op->values, item, 0);
    if (plan->op->has_vectors)
        fill_nan(plan, &plan->op->vectors, item, 0);
    while (code < seen && !atomic_compare_exchange_weak(&plan->failed, &seen, code))
        continue;
}

void cpu_eigh_choose(const struct eigh_plan *plan, int64_t n, struct eigh_pairs *pairs)
{
    const struct gram_eigh_op *op = plan->op;

    pairs->first = op->first;
    pairs->stored = op->count;
    if (!op->by_value)
        return;
    pairs->first = plan->kernels->count(n, pairs->w, op->lower);
    pairs->found = plan->kernels->count(n, pairs->w, op->upper) - pairs->first;
    pairs->stored = pairs->found < op->values.cols ? pairs->found : op->values.cols;
}

void cpu_eigh_store(const struct eigh_plan *plan, int64_t item, const struct eigh_pairs *pairs)
{
    const struct gram_eigh_op *op = plan->op;
    int64_t size = (int64_t)gram_dtype_size(op->a.dtype);
    struct cpu_move values = {
        .to = cpu_eigh_item(plan, &op->values, item),
        .from = pairs->stored ? (const char *)pairs->w + pairs->first * size : NULL,
        .to_stride = {op->values.col_stride, 0},
        .from_stride = {                    1, 0},
        .rows = pairs->stored,
        .cols = 1,
    };
    struct cpu_move vectors = {
        .from = pairs->v,
        .to_stride = {op->vectors.row_stride, op->vectors.col_stride},
        .from_stride = {      pairs->stride[0],       pairs->stride[1]},
        .rows = op->a.rows,
        .cols = pairs->stored,
        .order = pairs->order,
    };

    write_info(plan, item, EIGH_DONE, pairs->found);
    cpu_move(op->a.dtype, &values);
    fill_nan(plan, &op->values, item, pairs->stored);
    if (!op->has_vectors || !pairs->v)
        return;
    vectors.to = cpu_eigh_item(plan, &op->vectors, item);
    if (pairs->order)
        vectors.order += pairs->first;
    else
        vectors.from = (const char *)pairs->v + pairs->first * pairs->stride[1] * size;
    cpu_move(op->a.dtype, &vectors);
    fill_nan(plan, &op->vectors, item, pairs->stored);
}

/* ---- The choice of a driver ------------------------------------------------------------------ */

static const struct eigh_driver *const drivers[] = {
    [GRAM_EIGH_DRIVER_CLOSED_FORM] = &cpu_eigh_closed_form,
    [GRAM_EIGH_DRIVER_JACOBI] = &cpu_eigh_jacobi,
    [GRAM_EIGH_DRIVER_DIVIDE] = &cpu_eigh_divide,
    [GRAM_EIGH_DRIVER_BISECTION] = &cpu_eigh_bisection,
    [GRAM_EIGH_DRIVER_KRYLOV] = &cpu_eigh_krylov,
};

static const struct eigh_driver *driver_of(gram_eigh_driver driver)
{
    return drivers[driver];
}

/* A vector takes as long with one lane in use as with all: LAPACK is faster for less than 4 of
 * order 24 or 8 of order 32, never for order 16 (f32 and f64, Zen 4, 2 threads). */
static bool worth_lanes(int64_t n, int64_t items)
{
    return n <= EIGH_SMALL / 2 || (n <= EIGH_SMALL && items >= n / 4);
}

/* Whether what was measured to be fastest does; it is not taken on trust, since a file has it. */
static bool may_be_tuned(const struct gram_eigh_op *op)
{
    return op->tuned > GRAM_EIGH_DRIVER_AUTO &&
           (size_t)op->tuned < sizeof drivers / sizeof *drivers && drivers[op->tuned]->takes(op);
}

static gram_eigh_driver fastest(const struct gram_eigh_op *op)
{
    int64_t n = op->a.rows;

    if (may_be_tuned(op))
        return op->tuned;
    if (n <= 3)
        return GRAM_EIGH_DRIVER_CLOSED_FORM;
    if (worth_lanes(n, op->batch.count))
        return GRAM_EIGH_DRIVER_JACOBI;
    if (gram_krylov_pays(op) && cpu_eigh_krylov.takes(op))
        return GRAM_EIGH_DRIVER_KRYLOV;
    /* Inverse iteration makes the vectors of close values orthogonal one by one. */
    if (op->has_vectors && !op->by_value && op->count <= n / 4)
        return GRAM_EIGH_DRIVER_BISECTION;
    return cpu_eigh_divide.takes(op) ? GRAM_EIGH_DRIVER_DIVIDE : GRAM_EIGH_DRIVER_BISECTION;
}

static gram_status make_plan(gram_context *g, const struct gram_eigh_op *op, struct eigh_plan *plan)
{
    *plan = (struct eigh_plan){.op = op, .driver = op->driver};
    plan->kernels = gram_cpu_kernels_of(g)->eigh[op->a.dtype];
    atomic_init(&plan->failed, LLONG_MAX);
    if (!gram_blas_fits(op->a.rows, 0, 0))
        return gram_fail(g, GRAM_UNSUPPORTED, "a has %lld rows, but LAPACK takes at most %d",
                         (long long)op->a.rows, INT_MAX);
    if (plan->driver == GRAM_EIGH_DRIVER_BATCHED)
        return gram_fail(
            g, GRAM_UNSUPPORTED,
            "options.driver is GRAM_EIGH_DRIVER_BATCHED, which only CUDA devices have");
    if (plan->driver == GRAM_EIGH_DRIVER_AUTO) {
        plan->driver = fastest(op);
        if (plan->driver == GRAM_EIGH_DRIVER_KRYLOV)
            plan->fallback = GRAM_EIGH_DRIVER_BISECTION;
    }
    if (op->report)
        op->report->driver = plan->driver;
    if (!drivers[plan->driver]->takes(op))
        return gram_fail(g, GRAM_UNSUPPORTED, "%s cannot be used for a matrix of order %lld",
                         drivers[plan->driver]->name, (long long)op->a.rows);
    return GRAM_OK;
}

/* ---- Entry points ---------------------------------------------------------------------------- */

/* Matrices of no rows: that they are done is all there is to say. */
static gram_status run_empty(gram_context *g, struct eigh_plan *plan)
{
    const struct gram_layout nothing = {0};

    TRY(gram_layout_open(g, &nothing));
    for (int64_t i = 0; i < plan->op->batch.count; i++)
        write_info(plan, i, EIGH_DONE, 0);
    return GRAM_OK;
}

gram_status cpu_eigh(gram_context *g, const struct gram_eigh_op *op)
{
    struct eigh_plan plan;
    long long failed;

    TRY(make_plan(g, op, &plan));
    plan.grows = plan.fallback != GRAM_EIGH_DRIVER_AUTO && !g->scratch_given && !g->measure;
    TRY(op->a.rows > 0 ? driver_of(plan.driver)->run(g, &plan) : run_empty(g, &plan));
    failed = atomic_load(&plan.failed);
    if (failed == LLONG_MAX || op->has_info)
        return GRAM_OK;
    if (failed % 4 == EIGH_NOT_FINITE)
        return gram_fail(g, GRAM_NUMERICAL, "item %lld of a holds NaN or infinity", failed / 4);
    return gram_fail(g, GRAM_NUMERICAL, "item %lld of a: %s did not converge", failed / 4,
                     driver_of(plan.driver)->name);
}

/*
 * cpu_eigh_plan.c - which driver takes an eigenproblem on the CPU
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "cpu_eigh.h"
#include <limits.h>

enum {
    KRYLOV_LEAST =
        2000,          /* n, and how much larger than k it is, from which on few pairs are worth */
    KRYLOV_SHARE = 200 /* products: bench/results/2026-11-21-eigh-krylov.md */
};

static const struct eigh_driver *const drivers[] = {
    [GRAM_EIGH_DRIVER_CLOSED_FORM] = &cpu_eigh_closed_form,
    [GRAM_EIGH_DRIVER_JACOBI] = &cpu_eigh_jacobi,
    [GRAM_EIGH_DRIVER_DIVIDE] = &cpu_eigh_divide,
    [GRAM_EIGH_DRIVER_BISECTION] = &cpu_eigh_bisection,
    [GRAM_EIGH_DRIVER_KRYLOV] = &cpu_eigh_krylov,
};

const struct eigh_driver *cpu_eigh_driver(gram_eigh_driver driver)
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
    if (n >= KRYLOV_LEAST && op->count > 0 && op->count <= n / KRYLOV_SHARE &&
        cpu_eigh_krylov.takes(op))
        return GRAM_EIGH_DRIVER_KRYLOV;
    /* Inverse iteration makes the vectors of close values orthogonal one by one. */
    if (op->has_vectors && !op->by_value && op->count <= n / 4)
        return GRAM_EIGH_DRIVER_BISECTION;
    return cpu_eigh_divide.takes(op) ? GRAM_EIGH_DRIVER_DIVIDE : GRAM_EIGH_DRIVER_BISECTION;
}

gram_status cpu_eigh_plan(gram_context *g, const struct gram_eigh_op *op, struct eigh_plan *plan)
{
    *plan = (struct eigh_plan){.op = op, .driver = op->driver};
    plan->kernels = gram_cpu_kernels_of(g)->eigh[op->a.dtype];
    atomic_init(&plan->failed, LLONG_MAX);
    if (!gram_blas_fits(op->a.rows, 0, 0))
        return gram_fail(g, GRAM_UNSUPPORTED, "a has %lld rows, LAPACK takes at most %d",
                         (long long)op->a.rows, INT_MAX);
    if (plan->driver == GRAM_EIGH_DRIVER_BATCHED)
        return gram_fail(g, GRAM_UNSUPPORTED, "GRAM_EIGH_DRIVER_BATCHED is one of CUDA devices");
    if (plan->driver == GRAM_EIGH_DRIVER_AUTO) {
        plan->driver = fastest(op);
        if (plan->driver == GRAM_EIGH_DRIVER_KRYLOV)
            plan->fallback = GRAM_EIGH_DRIVER_BISECTION;
    }
    if (op->report)
        op->report->driver = plan->driver;
    if (!drivers[plan->driver]->takes(op))
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not take a matrix of order %lld",
                         drivers[plan->driver]->name, (long long)op->a.rows);
    return GRAM_OK;
}

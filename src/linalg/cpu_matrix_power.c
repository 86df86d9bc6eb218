/*
 * cpu_matrix_power.c - gram_matrix_power on the CPU: items, their methods, and what became of them
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_matrix_power.h"
#include "core/blas.h"
#include "core/threads.h"
#include <limits.h>
#include <math.h>

enum {
    PARALLEL_ORDER = 1024, /* up to here several items are done at a time, one thread each */
    EIGH_ORDER = 32000     /* up to here LAPACK's 32-bit integers count syevd's workspace */
};

static bool by_eigh(const struct gram_matrix_power_op *op)
{
    return op->method == GRAM_POWER_AUTO || op->method == GRAM_POWER_EIGH;
}

gram_dtype cpu_matrix_power_work(const struct gram_matrix_power_op *op)
{
    return by_eigh(op) || op->precision == GRAM_POWER_PRECISION_F64 ? GRAM_F64 : op->a.dtype;
}

static void make_plan(const gram_context *g, const struct gram_matrix_power_op *op,
                      struct power_plan *plan)
{
    int64_t n = op->a.rows, count = op->batch.count;
    bool eigh = by_eigh(op);

    *plan = (struct power_plan){
        .op = op,
        .method = eigh ? GRAM_POWER_EIGH : op->method,
        .work = cpu_matrix_power_work(op),
        .estimate = op->has_error || op->tolerance < INFINITY,
        .workers = 1,
    };
    atomic_init(&plan->failed, LLONG_MAX);
    atomic_init(&plan->next, 0);
    plan->kernels = plan->work == GRAM_F32 ? &cpu_matrix_power_f32 : &cpu_matrix_power_f64;
    if (n <= PARALLEL_ORDER && count > 1 && gram_worth_waking(2 * (double)(n * n * n * count)))
        plan->workers = (int)gram_least(count, g->threads);
    if (n == 0 || count == 0)
        return; /* in 0 bytes */
    plan->bytes = eigh ? cpu_matrix_power_eigh_bytes(n, plan->estimate)
                       : cpu_matrix_power_iterate_bytes(n, plan->work);
}

/* Orders that BLAS cannot count are no matrices: their bytes cannot be counted. */
static gram_status check_order(gram_context *g, const struct power_plan *plan)
{
    int64_t n = plan->op->a.rows;

    if (plan->method == GRAM_POWER_EIGH && n > EIGH_ORDER)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "a has %lld rows, the eigendecomposition takes at most %d: choose another "
                         "options.method",
                         (long long)n, EIGH_ORDER);
    return GRAM_OK;
}

static double element(const struct gram_view *v, const char *data, int64_t at)
{
    return v->dtype == GRAM_F32 ? (double)((const float *)(const void *)data)[at]
                                : ((const double *)(const void *)data)[at];
}

static void put(const struct gram_view *v, char *data, int64_t at, double value)
{
    if (v->dtype == GRAM_F32)
        ((float *)(void *)data)[at] = (float)value;
    else
        ((double *)(void *)data)[at] = value;
}

/* About the exponent of the largest magnitude in the triangle; false if one is not finite. */
static bool measure(const struct gram_matrix_power_op *op, const char *a, int *exponent)
{
    const struct gram_view *v = &op->a;
    double most = 0;
    bool finite = true;

    for (int64_t i = 0; i < v->rows; i++)
        for (int64_t j = 0; j <= i; j++) {
            double value =
                fabs(element(v, a,
                             op->uplo == GRAM_LOWER ? i * v->row_stride + j * v->col_stride
                                                    : j * v->row_stride + i * v->col_stride));
            finite &= isfinite(value) != 0;
            most = value > most ? value : most;
        }
    *exponent = 0;
    if (finite)
        frexp(most, exponent);
    *exponent -= *exponent % op->denominator; /* so that its root is a power of two as well */
    return finite;
}

/* Does one item but for the storing; error is NaN where there is none. */
static gram_power_outcome compute(struct power_work *w, double *error)
{
    const struct power_plan *plan = w->plan;
    gram_power_outcome outcome;

    *error = NAN;
    if (!measure(plan->op, w->a, &w->exponent))
        return GRAM_POWER_NOT_FINITE;
    outcome =
        plan->method == GRAM_POWER_EIGH ? cpu_matrix_power_eigh(w) : cpu_matrix_power_iterate(w);
    if (outcome)
        return outcome;
    if (plan->op->a.dtype == GRAM_F32 && plan->work == GRAM_F64)
        plan->kernels->round_f32(w->n, w->x); /* what is estimated is what is stored */
    if (plan->estimate) {
        *error = cpu_matrix_power_error(w);
        if (!(*error <= plan->op->tolerance))
            return GRAM_POWER_INEXACT;
    }
    return GRAM_POWER_DONE;
}

static void fill_nan(const struct gram_view *v, char *to)
{
    for (int64_t i = 0; i < v->rows; i++)
        for (int64_t j = 0; j < v->cols; j++)
            put(v, to, i * v->row_stride + j * v->col_stride, NAN);
}

static void store(const struct power_work *w, char *to, gram_power_outcome outcome)
{
    const struct gram_matrix_power_op *op = w->plan->op;

    if (outcome && op->keep)
        return;
    if (outcome == GRAM_POWER_DONE || outcome == GRAM_POWER_INEXACT)
        w->plan->kernels->store(&op->out, to,
                                op->is_real
                                    ? exp2(w->exponent * op->power)
                                    : ldexp(1, w->exponent / op->denominator * op->numerator),
                                w->x);
    else
        fill_nan(&op->out, to);
}

static void report(struct power_plan *plan, int64_t item, gram_power_outcome outcome, double error)
{
    const struct gram_matrix_power_op *op = plan->op;
    long long code = item * 8 + (long long)outcome, seen = atomic_load(&plan->failed);

    if (op->has_info)
        *(int32_t *)(void *)gram_view_item(&op->info, &op->batch, item) = (int32_t)outcome;
    if (op->has_error)
        put(&op->error, gram_view_item(&op->error, &op->batch, item), 0, error);
    while (outcome && code < seen && !atomic_compare_exchange_weak(&plan->failed, &seen, code))
        continue;
}

static void one_item(struct power_plan *plan, int64_t item, int64_t worker)
{
    const struct gram_matrix_power_op *op = plan->op;
    struct power_work w = {
        .plan = plan,
        .n = op->a.rows,
        .a = gram_view_item(&op->a, &op->batch, item),
        .ridge = gram_hyper_at(&op->ridge, &op->batch, item),
        .memory = plan->scratch + (size_t)worker * plan->bytes,
    };
    gram_power_outcome outcome = GRAM_POWER_DONE;
    double error = 0;

    if (w.n > 0) {
        outcome = compute(&w, &error);
        store(&w, gram_view_item(&op->out, &op->batch, item), outcome);
    }
    report(plan, item, outcome, error);
}

/* A worker takes items until there are no more; a loop has as many workers as there is scratch. */
static void work(void *arg, int64_t worker, int thread)
{
    struct power_plan *plan = arg;
    long long item;

    (void)thread;
    while ((item = atomic_fetch_add(&plan->next, 1)) < plan->op->batch.count)
        one_item(plan, item, worker);
}

static gram_status tell(gram_context *g, const struct power_plan *plan)
{
    static const char *const what[] = {
        [GRAM_POWER_NOT_FINITE] = "holds a NaN or an infinity",
        [GRAM_POWER_NOT_DEFINITE] = "is not positive definite enough for the power to exist",
        [GRAM_POWER_NOT_CONVERGED] = "did not converge",
        [GRAM_POWER_INEXACT] = "has an error estimate above options.tolerance",
    };
    long long failed = atomic_load(&plan->failed);

    if (failed == LLONG_MAX || plan->op->has_info)
        return GRAM_OK;
    return gram_fail(g, GRAM_NUMERICAL, "item %lld of a %s", failed / 8, what[failed % 8]);
}

gram_status cpu_matrix_power(gram_context *g, const struct gram_matrix_power_op *op)
{
    struct power_plan plan;
    void *scratch;

    make_plan(g, op, &plan);
    TRY(check_order(g, &plan));
    TRY(gram_scratch(g, (size_t)plan.workers * plan.bytes, &scratch));
    plan.scratch = scratch;
    if (plan.workers > 1) {
        gram_blas_for(g, plan.workers, work, &plan);
    } else {
        gram_blas_threads(g);
        work(&plan, 0, 0);
    }
    return tell(g, &plan);
}

gram_status cpu_matrix_power_workspace(gram_context *g, const struct gram_matrix_power_op *op,
                                       size_t *bytes)
{
    struct power_plan plan;

    make_plan(g, op, &plan);
    TRY(check_order(g, &plan));
    *bytes = (size_t)plan.workers * plan.bytes;
    return GRAM_OK;
}

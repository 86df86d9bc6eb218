/*
 * cuda_eigh_plan.c - which driver takes an eigenproblem on the device
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_eigh.h"
#include "krylov.h"
#include "linalg/cuda_solve.h"

enum {
    BATCHED_ALONE = 512, /* n up to which one matrix goes to XsyevBatched, as quick as Xsyevd */
    BATCHED_PAIR = 256,  /* and several always do */
    BATCHED_SHARE = 400, /* n over it, and 4: as many take as long one by one */
    KRYLOV_LEAST =
        2000,          /* n, and how much larger than k it is, from which on few pairs are worth */
    KRYLOV_SHARE = 200 /* products */
};

/* Milliseconds on an H200 (f32; f64 is alike), XsyevBatched against Xsyevd one after the other:
 * 32 of 512 22.6, 148; 4 of 1024 69, 42; 8 of 1024 69, 84; 4 of 2048 224, 98. */
static bool worth_batching(int64_t n, int64_t items)
{
    if (items == 1)
        return n <= BATCHED_ALONE;
    return n <= BATCHED_PAIR || (items >= 4 + n / BATCHED_SHARE && n <= CUDA_EIGH_BATCHED_MOST);
}

static bool takes(const struct gram_eigh_op *op, gram_eigh_driver driver)
{
    int64_t n = op->a.rows;

    switch (driver) {
    case GRAM_EIGH_DRIVER_CLOSED_FORM:
        return n <= 3;
    case GRAM_EIGH_DRIVER_JACOBI:
        return n <= EIGH_LANES;
    case GRAM_EIGH_DRIVER_BATCHED:
        return n <= CUDA_EIGH_BATCHED_MOST;
    case GRAM_EIGH_DRIVER_KRYLOV:
        return gram_krylov_takes(op) && n <= INT32_MAX; /* cuBLAS counts in 32 bits */
    default:
        return driver == GRAM_EIGH_DRIVER_DIVIDE || driver == GRAM_EIGH_DRIVER_BISECTION;
    }
}

static gram_eigh_driver fastest(const struct gram_eigh_op *op)
{
    int64_t n = op->a.rows;

    if (takes(op, op->tuned)) /* measured; a file has it, so that it is not taken on trust */
        return op->tuned;
    if (n > 0 && n <= 3)
        return GRAM_EIGH_DRIVER_CLOSED_FORM;
    if (n <= EIGH_LANES)
        return GRAM_EIGH_DRIVER_JACOBI;
    if (n >= KRYLOV_LEAST && op->count > 0 && op->count <= n / KRYLOV_SHARE && !op->background &&
        takes(op, GRAM_EIGH_DRIVER_KRYLOV))
        return GRAM_EIGH_DRIVER_KRYLOV;
    if (worth_batching(n, op->batch.count))
        return GRAM_EIGH_DRIVER_BATCHED;
    return !op->by_value && op->count <= n / 2 ? GRAM_EIGH_DRIVER_BISECTION
                                               : GRAM_EIGH_DRIVER_DIVIDE;
}

static gram_status check(gram_context *g, const struct gram_eigh_op *op, gram_eigh_driver driver)
{
    static const char *const names[] = {
        [GRAM_EIGH_DRIVER_AUTO] = NULL,
        [GRAM_EIGH_DRIVER_CLOSED_FORM] = "the closed form",
        [GRAM_EIGH_DRIVER_JACOBI] = "Jacobi",
        [GRAM_EIGH_DRIVER_DIVIDE] = "cuSOLVER's Xsyevd",
        [GRAM_EIGH_DRIVER_BISECTION] = "cuSOLVER's Xsyevdx",
        [GRAM_EIGH_DRIVER_KRYLOV] = "block Lanczos",
        [GRAM_EIGH_DRIVER_BATCHED] = "cuSOLVER's XsyevBatched",
    };

    if (!takes(op, driver))
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not take a matrix of order %lld",
                         names[driver], (long long)op->a.rows);
    return GRAM_OK;
}

/* The op for the device: the triangle that is read becomes the lower one. */
static void describe(const struct gram_eigh_op *op, struct eigh_call *c)
{
    *c = (struct eigh_call){
        .ndim = op->batch.ndim,
        .items = op->batch.count,
        .a = cuda_solve_side(&op->a, true),
        .values = cuda_solve_side(&op->values, true),
        .vectors = cuda_solve_side(&op->vectors, op->has_vectors),
        .info = cuda_solve_side(&op->info, op->has_info),
        .found = cuda_solve_side(&op->found, op->has_found),
        .n = op->a.rows,
        .count = op->values.cols,
        .first = op->first,
        .by_value = op->by_value,
        .lower = op->lower,
        .upper = op->upper,
    };
    for (int d = 0; d < op->batch.ndim; d++)
        c->shape[d] = op->batch.shape[d];
    if (op->uplo == GRAM_UPPER) {
        c->a.row_stride = op->a.col_stride;
        c->a.col_stride = op->a.row_stride;
    }
}

gram_status cuda_eigh_plan(gram_context *g, const struct gram_eigh_op *op,
                           struct cuda_eigh_plan *plan)
{
    *plan = (struct cuda_eigh_plan){.op = op, .driver = op->driver};
    if (plan->driver == GRAM_EIGH_DRIVER_AUTO) {
        plan->driver = fastest(op);
        plan->falls_back = plan->driver == GRAM_EIGH_DRIVER_KRYLOV;
    }
    TRY(check(g, op, plan->driver));
    if (op->report)
        op->report->driver = plan->driver;
    if (op->a.rows == 0) /* it does nothing but write info */
        plan->driver = GRAM_EIGH_DRIVER_JACOBI;
    describe(op, &plan->call);
    return GRAM_OK;
}

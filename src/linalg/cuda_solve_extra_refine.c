/*
 * cuda_solve_extra_refine.c - refinement and condition estimates: launches for all that may come
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_solve_extra.h"

/* ---- Condition ------------------------------------------------------------------------------ */

static gram_status estimate(gram_context *g, struct cuda_extra *e, gram_dtype dtype, int what)
{
    e->params.what = what;
    return cuda_extra_blocks(g, e, CUDA_VARIANT_SOLVE_ESTIMATE, dtype, e->params.count);
}

gram_status cuda_extra_estimate(gram_context *g, struct cuda_extra *e, gram_dtype dtype, bool low)
{
    const size_t size = gram_dtype_size(dtype);
    struct cuda_extra_columns c = {
        .dtype = dtype,
        .x = e->memory + e->at.probe,
        .item_bytes = 2 * (size_t)e->params.n * size,
        .columns = 2,
        .transposed = e->params.flip != 0,
    };

    e->params.low = low;
    TRY(cuda_extra_decide(g, e, SOLVE_CHOOSE));
    TRY(estimate(g, e, dtype, SOLVE_ESTIMATE_BEGIN));
    TRY(cuda_extra_apply(g, e, &c));
    TRY(estimate(g, e, dtype, SOLVE_ESTIMATE_FIRST));
    c.columns = 1;
    for (int turn = 0; turn < SOLVE_ESTIMATE_TURNS; turn++) {
        c.transposed = !e->params.flip;
        TRY(cuda_extra_apply(g, e, &c));
        TRY(estimate(g, e, dtype, SOLVE_ESTIMATE_TRANSPOSED));
        c.transposed = e->params.flip != 0;
        TRY(cuda_extra_apply(g, e, &c));
        TRY(estimate(g, e, dtype, SOLVE_ESTIMATE_SOLVED));
    }
    return estimate(g, e, dtype, SOLVE_ESTIMATED);
}

/* ---- Refinement ----------------------------------------------------------------------------- */

static gram_status columns(gram_context *g, struct cuda_extra *e, enum cuda_variant_file kernel,
                           int what)
{
    e->params.what = what;
    return cuda_extra_blocks(g, e, kernel, GRAM_F64, e->params.count * e->params.width);
}

static gram_status count_columns(gram_context *g, struct cuda_extra *e, int mode)
{
    e->params.mode = mode;
    return cuda_extra_decide(g, e, SOLVE_COUNT);
}

static gram_status apply_low(gram_context *g, struct cuda_extra *e)
{
    const struct cuda_extra_columns c = {
        .dtype = GRAM_F32,
        .x = (char *)e->params.correction,
        .item_bytes = (size_t)(e->params.n * e->params.width) * sizeof(float),
        .columns = e->params.width,
    };

    return cuda_extra_apply(g, e, &c);
}

/* vector: -1 for residuals of x, else y = A z of the vector of a GMRES cycle. */
static gram_status multiply(gram_context *g, struct cuda_extra *e, int vector)
{
    const int64_t n = e->params.n;
    struct solve_multiply_params p = {
        .matrix = (const double *)(const void *)e->params.matrix,
        .x = (const double *)(const void *)e->params.solution,
        .b = (const double *)(const void *)e->params.block,
        .y = (double *)(void *)e->params.residual,
        .go = e->params.go,
        .n = n,
        .columns = e->params.width,
        .items = e->params.count,
        .x_apart = n,
        .y_apart = n,
    };

    if (vector >= 0) {
        p.x = e->params.basis + (SOLVE_GMRES + 1 + vector) * n;
        p.b = NULL;
        p.column = e->params.column;
        p.y = e->params.basis + (vector + 1) * n;
        p.x_apart = p.y_apart = (2 * SOLVE_GMRES + 1) * n;
    }
    return gram_cuda_launch_plain(g, CUDA_VARIANT_SOLVE_MULTIPLY, GRAM_F64,
                                  p.items * gram_ceil_div(n, SOLVE_MULTIPLY_ROWS), SOLVE_THREADS,
                                  &p);
}

static gram_status plain_steps(gram_context *g, struct cuda_extra *e)
{
    TRY(columns(g, e, CUDA_VARIANT_SOLVE_REFINE, SOLVE_REFINE_BEGIN));
    TRY(count_columns(g, e, SOLVE_STEPPING));
    for (int step = 0; step < SOLVE_PLAIN; step++) {
        TRY(apply_low(g, e));
        TRY(columns(g, e, CUDA_VARIANT_SOLVE_REFINE, SOLVE_REFINE_UPDATE));
        TRY(multiply(g, e, -1));
        TRY(columns(g, e, CUDA_VARIANT_SOLVE_REFINE, SOLVE_REFINE_JUDGE));
    }
    return GRAM_OK;
}

static gram_status gmres(gram_context *g, struct cuda_extra *e)
{
    for (int cycle = 0; cycle < SOLVE_CYCLES; cycle++) {
        const int most = (int)gram_least(SOLVE_GMRES, e->params.n);
        TRY(count_columns(g, e, SOLVE_KRYLOV));
        TRY(columns(g, e, CUDA_VARIANT_SOLVE_GMRES, SOLVE_GMRES_BEGIN));
        for (int k = 0; k < most; k++) {
            TRY(apply_low(g, e));
            TRY(columns(g, e, CUDA_VARIANT_SOLVE_GMRES, SOLVE_GMRES_SPREAD));
            TRY(multiply(g, e, k));
            TRY(columns(g, e, CUDA_VARIANT_SOLVE_GMRES, SOLVE_GMRES_STEP));
        }
        TRY(count_columns(g, e, SOLVE_KRYLOV));
        TRY(columns(g, e, CUDA_VARIANT_SOLVE_GMRES, SOLVE_GMRES_END));
        TRY(multiply(g, e, -1));
        e->params.last = cycle == SOLVE_CYCLES - 1;
        TRY(columns(g, e, CUDA_VARIANT_SOLVE_REFINE, SOLVE_REFINE_CYCLE));
    }
    return GRAM_OK;
}

/* Columns that f32 does not do for, by a factor in f64 after all. */
static gram_status rescue(gram_context *g, struct cuda_extra *e)
{
    const struct cuda_extra_columns c = {
        .dtype = GRAM_F64,
        .x = e->params.residual,
        .item_bytes = (size_t)(e->params.n * e->params.width) * sizeof(double),
        .columns = e->params.width,
    };

    e->params.low = 0;
    e->params.jitter = 0; /* A has it already */
    TRY(cuda_extra_decide(g, e, SOLVE_RESCUE));
    TRY(cuda_extra_pass(g, e, CUDA_VARIANT_SOLVE_LIFT, GRAM_F64));
    TRY(cuda_extra_factorise(g, e, GRAM_F64, false));
    e->params.mode = SOLVE_WIDE;
    TRY(cuda_extra_decide(g, e, SOLVE_RESCUED));
    TRY(columns(g, e, CUDA_VARIANT_SOLVE_REFINE, SOLVE_REFINE_COPY));
    TRY(cuda_extra_apply(g, e, &c));
    TRY(columns(g, e, CUDA_VARIANT_SOLVE_REFINE, SOLVE_REFINE_TAKE));
    TRY(multiply(g, e, -1));
    return columns(g, e, CUDA_VARIANT_SOLVE_REFINE, SOLVE_REFINE_LAST);
}

gram_status cuda_extra_refine(gram_context *g, struct cuda_extra *e)
{
    if (e->params.n == 0)
        return GRAM_OK;
    TRY(plain_steps(g, e));
    TRY(gmres(g, e));
    TRY(rescue(g, e));
    e->params.what = SOLVE_REFINE_SUM;
    return cuda_extra_blocks(g, e, CUDA_VARIANT_SOLVE_REFINE, GRAM_F64, e->params.count);
}

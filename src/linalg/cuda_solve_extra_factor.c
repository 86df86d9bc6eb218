/*
 * cuda_solve_extra_factor.c - factors where the device wants them, and triangular solves
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_solve_extra.h"

enum {
    BLOCKS_A_PROCESSOR = 2 /* of solve_tiles */
};

static size_t item_bytes(const struct cuda_extra *e)
{
    const size_t n = (size_t)e->params.n;

    return n * n * gram_dtype_size(e->op->a.dtype);
}

static gram_status cholesky(gram_context *g, struct cuda_extra *e, gram_dtype dtype)
{
    const struct cuda_device *device = g->device;
    const int64_t tiles = gram_ceil_div(e->params.n, SOLVE_TILE);
    const int64_t tasks = tiles * (tiles + 1) / 2 * e->params.count;
    struct solve_tiles_params p = {
        .matrix = e->params.lifted,
        .go = e->params.go,
        .state = e->params.state,
        .control = (int *)(void *)(e->memory + e->at.tiles),
        .item_bytes = (long long)item_bytes(e),
        .n = e->params.n,
        .ld = e->params.n,
        .items = e->params.count,
    };
    int64_t blocks = gram_least(tasks, (int64_t)device->processors * BLOCKS_A_PROCESSOR);

    return gram_cuda_launch_plain(g, CUDA_VARIANT_SOLVE_TILES, dtype, blocks, SOLVE_THREADS, &p);
}

/* As many columns of a panel as there is shared memory for. */
static gram_status panel(gram_context *g, gram_dtype dtype, struct solve_lu_params *p)
{
    const int size = (int)gram_dtype_size(dtype), arch = ((struct cuda_device *)g->device)->arch;
    const int64_t most = (int64_t)cuda_solve_most_shared(arch) - SOLVE_PANEL_SHARED(size);
    struct jit_request request = gram_cuda_plain_request(CUDA_VARIANT_SOLVE_LU_PANEL, dtype);

    request.shared_bytes = (size_t)most;
    p->room = most;
    return gram_cuda_launch(g, &request, p->items, SOLVE_PANEL_THREADS, p);
}

static gram_status lu(gram_context *g, struct cuda_extra *e, gram_dtype dtype)
{
    struct solve_lu_params p = {
        .matrix = e->params.lifted,
        .go = e->params.go,
        .state = e->params.state,
        .exchanges = e->params.exchanges,
        .item_bytes = (long long)item_bytes(e),
        .n = e->params.n,
        .ld = e->params.n,
        .items = e->params.count,
    };

    for (p.first = 0; p.first < p.n; p.first += SOLVE_TILE) {
        int64_t all = gram_ceil_div(p.n, SOLVE_TILE);
        int64_t rest = all - p.first / SOLVE_TILE - 1;
        TRY(panel(g, dtype, &p));
        if (all > 1)
            TRY(gram_cuda_launch_plain(g, CUDA_VARIANT_SOLVE_LU_ROWS, dtype, p.items * all,
                                       SOLVE_THREADS, &p));
        if (rest > 0)
            TRY(gram_cuda_launch_plain(g, CUDA_VARIANT_SOLVE_LU_REST, dtype, p.items * rest * rest,
                                       SOLVE_THREADS, &p));
    }
    return GRAM_OK;
}

/* One item after the other by cuSOLVER, whether the device wants it or not. */
static gram_status by_library(gram_context *g, struct cuda_extra *e, gram_dtype dtype)
{
    const struct cuda_solver *s = e->solver;
    const int type = dtype == GRAM_F64 ? CUSOLVER_F64 : CUSOLVER_F32;
    int64_t n = e->params.n, *outside = (int64_t *)(void *)(e->memory + e->at.outside);
    int *codes = (int *)(void *)(e->memory + e->at.codes);
    char *work = e->memory + e->at.work;

    for (int64_t i = 0; i < e->params.count; i++) {
        char *matrix = e->params.lifted + (size_t)i * item_bytes(e);
        int status =
            e->plan->lu
                ? s->call->getrf(s->handle, s->params, n, n, type, matrix, n, outside + i * n, type,
                                 work, e->at.work_bytes, e->host, e->at.host_bytes, codes + i)
                : s->call->potrf(s->handle, s->params, CUSOLVER_LOWER, n, type, matrix, n, type,
                                 work, e->at.work_bytes, e->host, e->at.host_bytes, codes + i);
        TRY(gram_cuda_solver_check(g, status,
                                   e->plan->lu ? "cusolverDnXgetrf" : "cusolverDnXpotrf"));
    }
    e->params.outside = (const long long *)outside;
    e->params.code = codes;
    return cuda_extra_blocks(g, e, CUDA_VARIANT_SOLVE_VERDICT, dtype, e->params.count);
}

gram_status cuda_extra_factorise(gram_context *g, struct cuda_extra *e, gram_dtype dtype,
                                 bool library)
{
    if (e->params.n == 0)
        return GRAM_OK;
    if (library)
        TRY(by_library(g, e, dtype));
    else
        TRY(e->plan->lu ? lu(g, e, dtype) : cholesky(g, e, dtype));
    return e->plan->lu
               ? cuda_extra_blocks(g, e, CUDA_VARIANT_SOLVE_PERMUTATION, dtype, e->params.count)
               : GRAM_OK;
}

/* ---- Triangular solves ---------------------------------------------------------------------- */

static gram_status sweep(gram_context *g, struct cuda_extra *e, const struct cuda_extra_columns *c,
                         bool lower, bool unit)
{
    const int64_t rows = SOLVE_SWEEP_ROWS((int)gram_dtype_size(c->dtype));
    struct solve_sweep_params p = {
        .factor = e->params.lifted,
        .x = c->x,
        .go = e->params.go,
        .control = (int *)(void *)(e->memory + e->at.sweeps),
        .words = (unsigned long long *)(void *)(e->memory + e->at.words),
        .factor_bytes = (long long)item_bytes(e),
        .x_bytes = (long long)c->item_bytes,
        .n = e->params.n,
        .ld = e->params.n,
        .columns = c->columns,
        .ldx = e->params.n,
        .items = e->params.count,
        .forward = lower != c->transposed,
        .transposed = c->transposed,
        .unit = unit,
    };
    int64_t blocks =
        gram_ceil_div(p.n, rows) * gram_ceil_div(c->columns, SOLVE_WIDTH) * e->params.count;

    return gram_cuda_launch_plain(g, CUDA_VARIANT_SOLVE_SWEEP, c->dtype, blocks, SOLVE_THREADS, &p);
}

static gram_status permute(gram_context *g, struct cuda_extra *e,
                           const struct cuda_extra_columns *c)
{
    struct solve_permute_params p = {
        .x = c->x,
        .other = e->memory + e->at.other,
        .permutation = e->params.permutation,
        .go = e->params.go,
        .x_bytes = (long long)c->item_bytes,
        .n = e->params.n,
        .columns = c->columns,
        .ldx = e->params.n,
        .items = e->params.count,
        .back = c->transposed,
    };

    return gram_cuda_launch_plain(g, CUDA_VARIANT_SOLVE_PERMUTE, c->dtype,
                                  e->params.count * c->columns, SOLVE_THREADS, &p);
}

gram_status cuda_extra_apply(gram_context *g, struct cuda_extra *e,
                             const struct cuda_extra_columns *c)
{
    struct cuda_extra_columns turned = *c;

    if (e->params.n == 0 || c->columns == 0)
        return GRAM_OK;
    if (!e->plan->lu) { /* L, then its transpose */
        turned.transposed = false;
        TRY(sweep(g, e, &turned, true, false));
        turned.transposed = true;
        return sweep(g, e, &turned, true, false);
    }
    if (!c->transposed)
        TRY(permute(g, e, c));
    TRY(sweep(g, e, c, !c->transposed, !c->transposed));
    TRY(sweep(g, e, c, c->transposed, c->transposed));
    return c->transposed ? permute(g, e, c) : GRAM_OK;
}

/*
 * cuda_solve_extra.c - gram_solve_* with rcond, jitter or refine on the device: the steps of a call
 *
 * A is kept beside its factor.  The batch goes through in chunks, all items of one side by side.
 * The first factorisation of few large matrices is cuSOLVER's; others, which only some items need,
 * are ours, since their kernels can end at once.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_solve_extra.h"
#include "cuda/arena.h"

enum {
    CHUNK_BYTES = 1 << 30,  /* of scratch: enough to fill any device */
    PARTS_A_PROCESSOR = 16, /* blocks of a pass over all matrices */
    PLAIN_ORDER = 160,      /* beyond which tiles are quicker than solve_small.cu */
    LIBRARY_ORDER = 512,    /* beyond which cuSOLVER is quicker, */
    LIBRARY_ITEMS = 4,      /* for at most these items */
    LU_ITEMS = 8,           /* from which LU is done side by side */
    PLAIN_COLUMNS = 512     /* right-hand sides at a time without refine */
};

static bool is_asked_for(const struct gram_solve_op *op)
{
    return op->has_rcond || op->jitters || op->has_jittered || op->refine;
}

/* More than a few tiles, where nothing is gained by working in place; few LUs are cuSOLVER's. */
bool cuda_solve_is_extra(const struct cuda_solve_plan *plan)
{
    const struct gram_solve_op *op = plan->op;

    if (is_asked_for(op))
        return true;
    return op->a.rows > PLAIN_ORDER && !op->factored && !op->factor_is_a &&
           (!plan->lu || plan->own.count >= LU_ITEMS);
}

/* ---- Scratch -------------------------------------------------------------------------------- */

static size_t take(size_t *bytes, size_t more)
{
    size_t at = *bytes;

    *bytes += gram_round64(more);
    return at;
}

/* The sizes for chunks of `count` items, those of cuSOLVER at the end. */
static void lay_out(const struct cuda_extra *e, int64_t count, struct cuda_extra_scratch *s)
{
    const struct gram_solve_op *op = e->op;
    const size_t n = (size_t)op->a.rows, items = (size_t)count, width = (size_t)e->width;
    const size_t size = gram_dtype_size(op->a.dtype), lu = e->plan->lu ? items : 0;
    const size_t groups = (width + SOLVE_WIDTH - 1) / SOLVE_WIDTH;
    const size_t tiles = (n + SOLVE_TILE - 1) / SOLVE_TILE, refine = op->refine ? items : 0;
    const size_t probes = op->has_rcond ? items : 0;
    size_t *b = &s->bytes;

    s->bytes = 0;
    s->sweeps = take(b, (SOLVE_CONTROL + items * (groups > 0 ? groups : 1)) * sizeof(int));
    s->tiles = take(b, (SOLVE_CONTROL + items * tiles) * sizeof(int));
    s->words = take(b, items * (groups > 0 ? groups : 1) * SOLVE_SWEEP_WORDS * sizeof(long long));
    s->zeros = *b;
    s->state = take(b, items * sizeof(struct solve_state));
    s->go = take(b, items * sizeof(int));
    s->lifted = take(b, items * n * n * size);
    s->matrix = e->plain ? s->lifted : take(b, items * n * n * size);
    s->exchanges = take(b, lu * n * sizeof(int));
    s->permutation = take(b, lu * n * sizeof(int));
    s->block = take(b, items * n * width * size);
    s->other = take(b, lu * n * (width > 2 ? width : 2) * size);
    s->probe = take(b, probes * n * 2 * size);
    s->signs = take(b, probes * n);
    s->column = take(b, refine * width * sizeof(struct solve_column));
    s->solution = take(b, refine * n * width * sizeof(double));
    s->residual = take(b, refine * n * width * sizeof(double));
    s->correction = take(b, refine * n * width * sizeof(float));
    s->basis = take(b, refine * n * width * (2 * SOLVE_GMRES + 1) * sizeof(double));
    s->codes = take(b, e->solver ? items * sizeof(int) : 0);
    s->outside = take(b, e->solver && lu ? items * n * sizeof(int64_t) : 0);
    s->work = take(b, s->work_bytes);
}

static gram_status library_bytes(gram_context *g, struct cuda_extra *e)
{
    const int64_t n = e->op->a.rows;
    const bool wide = e->op->a.dtype == GRAM_F64 && !e->op->refine;
    const int type = wide ? CUSOLVER_F64 : CUSOLVER_F32;
    struct cuda_extra_scratch *s = &e->at;
    int status;

    TRY(gram_cuda_solver(g, &e->solver));
    if (e->plan->lu)
        status =
            e->solver->call->getrf_bytes(e->solver->handle, e->solver->params, n, n, type,
                                         e->op->a.data, n, type, &s->work_bytes, &s->host_bytes);
    else
        status = e->solver->call->potrf_bytes(e->solver->handle, e->solver->params, CUSOLVER_LOWER,
                                              n, type, e->op->a.data, n, type, &s->work_bytes,
                                              &s->host_bytes);
    return gram_cuda_solver_check(
        g, status, e->plan->lu ? "cusolverDnXgetrf_bufferSize" : "cusolverDnXpotrf_bufferSize");
}

/* What the call will need; the device's context is current. */
static gram_status prepare(gram_context *g, const struct cuda_solve_plan *plan,
                           struct cuda_extra *e)
{
    const struct gram_solve_op *op = plan->op;
    const int64_t n = op->a.rows;
    struct cuda_extra_scratch one;

    *e = (struct cuda_extra){.plan = plan, .op = op, .plain = !is_asked_for(op)};
    e->width = gram_least(op->x.cols, op->refine ? SOLVE_WIDTH : PLAIN_COLUMNS);
    if (n > 0 && n > INT64_MAX / 4096 / n)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "a has %lld rows: its copy has too many bytes",
                         (long long)n);
    if (n > LIBRARY_ORDER && plan->own.count <= LIBRARY_ITEMS)
        TRY(library_bytes(g, e));
    one = e->at;
    lay_out(e, 1, &one);
    e->items = gram_least(plan->own.count, gram_most(1, CHUNK_BYTES / (int64_t)one.bytes));
    lay_out(e, e->items, &e->at);
    return GRAM_OK;
}

gram_status cuda_solve_extra_bytes(gram_context *g, const struct cuda_solve_plan *plan,
                                   size_t *bytes)
{
    struct cuda_extra e;

    TRY(prepare(g, plan, &e));
    *bytes = e.at.bytes;
    return GRAM_OK;
}

/* ---- Launches ------------------------------------------------------------------------------- */

gram_status cuda_extra_blocks(gram_context *g, struct cuda_extra *e, enum cuda_variant_file kernel,
                              gram_dtype dtype, int64_t blocks)
{
    return gram_cuda_launch_plain(g, kernel, dtype, blocks, SOLVE_THREADS, &e->params);
}

gram_status cuda_extra_pass(gram_context *g, struct cuda_extra *e, enum cuda_variant_file kernel,
                            gram_dtype dtype)
{
    return cuda_extra_blocks(g, e, kernel, dtype, e->params.count * e->params.parts);
}

gram_status cuda_extra_decide(gram_context *g, struct cuda_extra *e, int what)
{
    e->params.what = what;
    return cuda_extra_blocks(g, e, CUDA_VARIANT_SOLVE_DECIDE, GRAM_F64,
                             gram_ceil_div(e->params.count, SOLVE_THREADS));
}

/* ---- A chunk -------------------------------------------------------------------------------- */

/* Tries the ladder, from its first s on; what cannot be factored in f32 is, in f64. */
static gram_status climb(gram_context *g, struct cuda_extra *e)
{
    const struct gram_solve_op *op = e->op;
    bool first = true;

    for (int i = 0; i == 0 || i < op->jitters; i++)
        for (int low = op->refine; low >= 0; low--) {
            const gram_dtype dtype = low ? GRAM_F32 : op->a.dtype;
            e->params.low = low;
            e->params.jitter = op->jitters ? op->jitter[i] : 0;
            TRY(cuda_extra_decide(g, e, SOLVE_TRY));
            if (!e->plain)
                TRY(cuda_extra_pass(g, e, CUDA_VARIANT_SOLVE_LIFT, dtype));
            TRY(cuda_extra_factorise(g, e, dtype, e->solver && first));
            TRY(cuda_extra_decide(g, e, SOLVE_VERDICTS));
            first = false;
        }
    if (!op->jitters)
        return GRAM_OK;
    TRY(cuda_extra_pass(g, e, CUDA_VARIANT_SOLVE_SHIFT, op->a.dtype));
    TRY(cuda_extra_decide(g, e, SOLVE_SETTLED));
    return cuda_extra_pass(g, e, CUDA_VARIANT_SOLVE_NORM, op->a.dtype);
}

static gram_status report_matrices(gram_context *g, struct cuda_extra *e)
{
    const struct gram_solve_op *op = e->op;

    if (op->has_rcond && e->params.n > 0) {
        TRY(cuda_extra_estimate(g, e, op->a.dtype, false));
        if (op->refine)
            TRY(cuda_extra_estimate(g, e, GRAM_F32, true));
    }
    e->params.shared = 0;
    TRY(cuda_extra_blocks(g, e, CUDA_VARIANT_SOLVE_TELL, op->a.dtype, e->params.count));
    return op->has_factor ? cuda_extra_pass(g, e, CUDA_VARIANT_SOLVE_KEEP, op->a.dtype) : GRAM_OK;
}

static gram_status move(gram_context *g, struct cuda_extra *e, bool out)
{
    e->params.what = out;
    return cuda_extra_pass(g, e, CUDA_VARIANT_SOLVE_MOVE, e->op->a.dtype);
}

static gram_status solve_block(gram_context *g, struct cuda_extra *e)
{
    const gram_dtype dtype = e->op->a.dtype;
    const struct cuda_extra_columns c = {
        .dtype = dtype,
        .x = e->params.block,
        .item_bytes = (size_t)(e->params.n * e->params.width) * gram_dtype_size(dtype),
        .columns = e->params.width,
        .transposed = e->plan->lu && e->params.flip,
    };

    if (e->op->refine)
        return cuda_extra_refine(g, e);
    e->params.low = 0;
    TRY(cuda_extra_decide(g, e, SOLVE_CHOOSE));
    return cuda_extra_apply(g, e, &c);
}

/* The right-hand sides of one item of shared, in all items of the chunk. */
static gram_status solve_columns(gram_context *g, struct cuda_extra *e)
{
    const int64_t cols = e->op->x.cols;

    for (int64_t j = 0; j < cols && e->params.n > 0; j += e->width) {
        e->params.first = j;
        e->params.width = gram_least(e->width, cols - j);
        TRY(move(g, e, false));
        TRY(solve_block(g, e));
        TRY(move(g, e, true));
    }
    e->params.last = 0;
    return e->op->refine ? cuda_extra_pass(g, e, CUDA_VARIANT_SOLVE_RESULT, e->op->a.dtype)
                         : GRAM_OK;
}

static gram_status run_chunk(gram_context *g, struct cuda_extra *e)
{
    const gram_dtype dtype = e->op->a.dtype;
    const int64_t shared = e->plan->shared.count;

    e->params.shared = 0;
    TRY(cuda_extra_decide(g, e, SOLVE_BEGIN));
    TRY(cuda_extra_pass(g, e, CUDA_VARIANT_SOLVE_LOAD, dtype));
    if (!e->plain)
        TRY(cuda_extra_pass(g, e, CUDA_VARIANT_SOLVE_NORM, dtype));
    TRY(climb(g, e));
    TRY(report_matrices(g, e));
    for (e->params.shared = 0; e->params.shared < shared; e->params.shared++)
        TRY(solve_columns(g, e));
    e->params.width = e->op->x.cols;
    e->params.last = 1;
    for (e->params.shared = 0; e->params.shared < shared; e->params.shared++)
        TRY(cuda_extra_pass(g, e, CUDA_VARIANT_SOLVE_RESULT, dtype));
    return GRAM_OK;
}

/* ---- The call ------------------------------------------------------------------------------- */

static void describe(struct cuda_extra *e)
{
    const struct gram_solve_op *op = e->op;
    const bool lu = e->plan->lu;
    char *m = e->memory;

    e->params = (struct solve_extra_params){
        .items = e->plan->items,
        .a = cuda_solve_side(&op->a, true),
        .b = cuda_solve_side(&op->b, true),
        .x = cuda_solve_side(&op->x, true),
        .factor = cuda_solve_side(&op->factor, op->has_factor),
        .pivots = cuda_solve_side(&op->pivots, op->has_pivots),
        .info = cuda_solve_side(&op->info, op->has_info),
        .rcond = cuda_solve_side(&op->rcond, op->has_rcond),
        .jittered = cuda_solve_side(&op->jittered, op->has_jittered),
        .backward = cuda_solve_side(&op->backward, op->has_backward),
        .refinings = cuda_solve_side(&op->refinings, op->has_refinings),
        .state = (struct solve_state *)(void *)(m + e->at.state),
        .column = (struct solve_column *)(void *)(m + e->at.column),
        .n = op->a.rows,
        .lu = lu,
        .flip = lu ? op->has_factor && gram_solve_layout(&op->factor).row_major
                   : op->uplo == GRAM_UPPER,
        .upper = op->uplo == GRAM_UPPER,
        .wide = op->a.dtype == GRAM_F64,
        .refine = op->refine,
        .mirror = !lu && !e->plain,
        .matrix = m + e->at.matrix,
        .lifted = m + e->at.lifted,
        .block = m + e->at.block,
        .solution = m + e->at.solution,
        .residual = m + e->at.residual,
        .correction = (float *)(void *)(m + e->at.correction),
        .basis = (double *)(void *)(m + e->at.basis),
        .probe = m + e->at.probe,
        .signs = m + e->at.signs,
        .go = (int *)(void *)(m + e->at.go),
        .exchanges = (int *)(void *)(m + e->at.exchanges),
        .permutation = (int *)(void *)(m + e->at.permutation),
    };
}

gram_status cuda_solve_extra(gram_context *g, const struct cuda_solve_plan *plan)
{
    const struct cuda_device *device = g->device;
    struct cuda_extra e;
    void *memory;

    TRY(prepare(g, plan, &e));
    if (e.solver)
        TRY(gram_cuda_solver_host(g, e.solver, e.at.host_bytes, &e.host));
    TRY(gram_cuda_scratch(g, e.at.bytes, &memory));
    e.memory = memory;
    describe(&e);
    TRY(gram_cuda_check(
        g, device->driver,
        device->driver->memory_set((CUdeviceptr)(uintptr_t)memory, 0, e.at.zeros, device->stream),
        "cuMemsetD8Async"));
    for (int64_t begin = 0; begin < plan->own.count; begin += e.items) {
        const int64_t count = gram_least(e.items, plan->own.count - begin);
        const int64_t most = (int64_t)device->processors * PARTS_A_PROCESSOR;
        e.params.begin = begin;
        e.params.count = count;
        e.params.parts = gram_most(1, gram_least(gram_ceil_div(e.params.n, 4), most / count));
        TRY(run_chunk(g, &e));
    }
    return GRAM_OK;
}

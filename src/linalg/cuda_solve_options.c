/*
 * cuda_solve_options.c - solves with condition estimates, a ladder of jitters, or refinement
 *
 * Every decision is the device's: launches are queued for all that may come, and end at once for
 * items (params.go) that have no need of them.  A is kept beside its factor.  The batch goes
 * through in chunks, all items of a chunk side by side.
 *
 * The first factorisation of few large matrices is cuSOLVER's; later ones, which only some items
 * need, are ours, since their kernels can end at once.
 *
 * The order of the file is that of the layers: scratch, launches, factors, triangular solves,
 * condition estimates, refinement, the steps of a chunk, and the call.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/scratch.h"
#include "cuda/cusolver.h"
#include "cuda_solve.h"
#include "solve_options_params.h"

static const struct cuda_kernel solve_load = {"solve_options.cu", "solve_load"};
static const struct cuda_kernel solve_norm = {"solve_options.cu", "solve_norm"};
static const struct cuda_kernel solve_add_jitter = {"solve_options.cu", "solve_add_jitter"};
static const struct cuda_kernel solve_add_accepted_jitter = {"solve_options.cu",
                                                             "solve_add_accepted_jitter"};
static const struct cuda_kernel solve_verdict = {"solve_options.cu", "solve_verdict"};
static const struct cuda_kernel solve_decide = {"solve_options.cu", "solve_decide"};
static const struct cuda_kernel solve_store_reports = {"solve_options.cu", "solve_store_reports"};
static const struct cuda_kernel solve_store_factor = {"solve_options.cu", "solve_store_factor"};
static const struct cuda_kernel solve_move = {"solve_options.cu", "solve_move"};
static const struct cuda_kernel solve_result = {"solve_options.cu", "solve_result"};
static const struct cuda_kernel solve_tiles = {"solve_tiles.cu", "solve_tiles"};
static const struct cuda_kernel solve_lu_panel = {"solve_lu_panel.cu", "solve_lu_panel"};
static const struct cuda_kernel solve_lu_rows = {"solve_lu.cu", "solve_lu_rows"};
static const struct cuda_kernel solve_lu_rest = {"solve_lu_rest.cu", "solve_lu_rest"};
static const struct cuda_kernel solve_permutation = {"solve_permute.cu", "solve_permutation"};
static const struct cuda_kernel solve_permute = {"solve_permute.cu", "solve_permute"};
static const struct cuda_kernel solve_sweep = {"solve_sweep.cu", "solve_sweep"};
static const struct cuda_kernel solve_estimate = {"solve_estimate.cu", "solve_estimate"};
static const struct cuda_kernel solve_refine = {"solve_refine.cu", "solve_refine"};
static const struct cuda_kernel solve_multiply = {"solve_refine.cu", "solve_multiply"};
static const struct cuda_kernel solve_gmres = {"solve_refine.cu", "solve_gmres"};

enum {
    CHUNK_BYTES = 1 << 30,  /* of scratch: enough to fill any device */
    PARTS_A_PROCESSOR = 16, /* blocks of a pass over all matrices */
    TILES_A_PROCESSOR = 2,  /* blocks of solve_tiles */
    PLAIN_ORDER = 160,      /* beyond which tiles are quicker than solve_small.cu */
    LIBRARY_ORDER = 512,    /* beyond which cuSOLVER is quicker, */
    LIBRARY_ITEMS = 4,      /* for at most these items */
    LU_ITEMS = 8,           /* from which LU is done side by side */
    PLAIN_COLUMNS = 512     /* right-hand sides at a time without refine */
};

/* A call.  Most pieces of its scratch are in params, where kernels find them. */
struct option_job {
    const struct cuda_solve_plan *plan;
    const struct gram_solve_op *op;
    struct solve_options_params params;
    struct cuda_solver *solver; /* the first factorisation is cuSOLVER's; or NULL */
    int64_t items, width;       /* of a chunk; most columns at a time */
    bool plain;                 /* A is needed no more once it is factored */
    /* Progress of solve_sweep and solve_tiles: zero at first, the first `zeros` bytes of all. */
    int *sweeps, *tiles;
    unsigned long long *words;
    size_t zeros;
    char *other;                   /* of solve_permute */
    int *codes;                    /* cuSOLVER's, one per item */
    int64_t *outside;              /* and its pivots */
    void *work, *host;             /* its workspace on the device and on the host */
    size_t work_bytes, host_bytes; /* of these */
};

/* True if the call wants what a plain solve does not have: an estimate, a ladder, or refinement. */
static bool is_asked_for(const struct gram_solve_op *op)
{
    return op->has_rcond || op->jitters || op->has_jittered || op->refine;
}

/* More than a few tiles, where nothing is gained by working in place; few LUs are cuSOLVER's. */
bool cuda_solve_has_options(const struct cuda_solve_plan *plan)
{
    const struct gram_solve_op *op = plan->op;

    if (is_asked_for(op))
        return true;
    return op->a.rows > PLAIN_ORDER && !op->factored && !op->factor_is_a &&
           (!plan->lu || plan->own.count >= LU_ITEMS);
}

/* ---- The work -------------------------------------------------------------------------------- */

/* What the kernels are told of the call, but for the scratch. */
static void describe(struct option_job *job)
{
    const struct gram_solve_op *op = job->op;
    const bool lu = job->plan->lu;

    job->params = (struct solve_options_params){
        .items = job->plan->items,
        .a = cuda_given_view(&op->a, true),
        .b = cuda_given_view(&op->b, true),
        .x = cuda_given_view(&op->x, true),
        .factor = cuda_given_view(&op->factor, op->has_factor),
        .pivots = cuda_given_view(&op->pivots, op->has_pivots),
        .info = cuda_given_view(&op->info, op->has_info),
        .rcond = cuda_given_view(&op->rcond, op->has_rcond),
        .jittered = cuda_given_view(&op->jittered, op->has_jittered),
        .backward = cuda_given_view(&op->backward, op->has_backward),
        .refinings = cuda_given_view(&op->refinings, op->has_refinings),
        .n = op->a.rows,
        .lu = lu,
        .flip = lu ? op->has_factor && gram_solve_layout(&op->factor).row_major
                   : op->uplo == GRAM_UPPER,
        .upper = op->uplo == GRAM_UPPER,
        .dtype = op->a.dtype,
        .refine = op->refine,
        .mirror = !lu && !job->plain,
    };
}

/* ---- Scratch --------------------------------------------------------------------------------- */

/* The pieces for chunks of `count` items. */
static void lay_out(struct option_job *job, int64_t count, struct gram_layout *l)
{
    const struct gram_solve_op *op = job->op;
    const size_t n = (size_t)op->a.rows, items = (size_t)count, width = (size_t)job->width;
    const size_t size = gram_dtype_size(op->a.dtype), lu = job->plan->lu ? items : 0;
    const size_t groups = (size_t)gram_most(gram_ceil_div(job->width, SOLVE_WIDTH), 1);
    const size_t tiles = (n + SOLVE_TILE - 1) / SOLVE_TILE, refine = op->refine ? items : 0;
    const size_t probes = op->has_rcond ? items : 0, library = job->solver ? items : 0;
    struct solve_options_params *p = &job->params;

    gram_take_many(l, &job->sweeps, SOLVE_CONTROL + items * groups, sizeof(int));
    gram_take_many(l, &job->tiles, SOLVE_CONTROL + items * tiles, sizeof(int));
    gram_take_many(l, &job->words, items * groups * SOLVE_SWEEP_WORDS, sizeof(long long));
    job->zeros = gram_layout_bytes(l);
    gram_take_many(l, &p->state, items, sizeof(struct solve_state));
    gram_take_many(l, &p->go, items, sizeof(int));
    gram_take_many(l, &p->lifted, items * n * n, size);
    gram_take_many(l, &p->matrix, job->plain ? 0 : items * n * n, size);
    gram_take_many(l, &p->exchanges, lu * n, sizeof(int));
    gram_take_many(l, &p->permutation, lu * n, sizeof(int));
    gram_take_many(l, &p->block, items * n * width, size);
    gram_take_many(l, &job->other, lu * n * (width > 2 ? width : 2), size);
    gram_take_many(l, &p->probe, probes * n * 2, size);
    gram_take(l, &p->signs, probes * n);
    gram_take_many(l, &p->column, refine * width, sizeof(struct solve_column));
    gram_take_many(l, &p->solution, refine * n * width, sizeof(double));
    gram_take_many(l, &p->residual, refine * n * width, sizeof(double));
    gram_take_many(l, &p->correction, refine * n * width, sizeof(float));
    gram_take_many(l, &p->basis, refine * n * width * (2 * SOLVE_GMRES + 1), sizeof(double));
    gram_take_many(l, &job->codes, library, sizeof(int));
    gram_take_many(l, &job->outside, job->plan->lu ? library * n : 0, sizeof(int64_t));
    gram_take(l, &job->work, job->work_bytes);
}

/* Asks cuSOLVER for the bytes of its first factorisation, which is in f32 where x is refined. */
static gram_status library_bytes(gram_context *g, struct option_job *job)
{
    const int64_t n = job->op->a.rows;
    const bool wide = job->op->a.dtype == GRAM_F64 && !job->op->refine;
    const int type = wide ? CUSOLVER_F64 : CUSOLVER_F32;
    int status;

    TRY(gram_cuda_solver(g, &job->solver));
    if (job->plan->lu)
        status = job->solver->call->getrf_bytes(job->solver->handle, job->solver->params, n, n,
                                                type, job->op->a.data, n, type, &job->work_bytes,
                                                &job->host_bytes);
    else
        status = job->solver->call->potrf_bytes(job->solver->handle, job->solver->params,
                                                CUSOLVER_LOWER, n, type, job->op->a.data, n, type,
                                                &job->work_bytes, &job->host_bytes);
    return gram_cuda_solver_check(
        g, status, job->plan->lu ? "cusolverDnXgetrf_bufferSize" : "cusolverDnXpotrf_bufferSize");
}

/* What the call will need, and its scratch; the device's context is current. */
static gram_status prepare(gram_context *g, const struct cuda_solve_plan *plan,
                           struct option_job *job)
{
    const struct gram_solve_op *op = plan->op;
    const int64_t n = op->a.rows;
    struct gram_layout one = {0}, layout = {0};

    *job = (struct option_job){.plan = plan, .op = op, .plain = !is_asked_for(op)};
    describe(job);
    job->width = gram_least(op->x.cols, op->refine ? SOLVE_WIDTH : PLAIN_COLUMNS);
    if (n > 0 && n > INT64_MAX / 4096 / n)
        return gram_fail(g, GRAM_OUT_OF_MEMORY,
                         "a has %lld rows, and the size of a copy of it overflows", (long long)n);
    if (n > LIBRARY_ORDER && plan->own.count <= LIBRARY_ITEMS)
        TRY(library_bytes(g, job));
    lay_out(job, 1, &one);
    job->items =
        gram_least(plan->own.count, gram_most(1, CHUNK_BYTES / (int64_t)gram_layout_bytes(&one)));
    lay_out(job, job->items, &layout);
    TRY(gram_layout_open(g, &layout));
    if (job->plain)
        job->params.matrix = job->params.lifted;
    return GRAM_OK;
}

/* ---- Launches -------------------------------------------------------------------------------- */

/* Kernels get a copy of job->params as it is when they are queued, so that the host may change it
 * at once for the next launch. */
static gram_status launch(gram_context *g, struct option_job *job, const struct cuda_kernel *kernel,
                          gram_dtype dtype, int64_t blocks)
{
    return cuda_launch_plain(g, kernel, dtype, blocks, SOLVE_THREADS, &job->params);
}

/* A pass over all matrices of the chunk: each of them has params.parts blocks. */
static gram_status pass(gram_context *g, struct option_job *job, const struct cuda_kernel *kernel,
                        gram_dtype dtype)
{
    return launch(g, job, kernel, dtype, job->params.count * job->params.parts);
}

/* Runs a decision on the device, a thread for each item.  It sets params.go, by which all later
 * launches know the items that still need them, so that the host never has to ask. */
static gram_status decide(gram_context *g, struct option_job *job, int what)
{
    job->params.what = what;
    return launch(g, job, &solve_decide, GRAM_F64, gram_ceil_div(job->params.count, SOLVE_THREADS));
}

/* ---- Factors --------------------------------------------------------------------------------- */

/* Matrices in scratch are of the dtype of a, also while they hold a factor in f32: then a part of
 * their memory is unused. */
static size_t item_bytes(const struct option_job *job)
{
    const size_t n = (size_t)job->params.n;

    return n * n * gram_dtype_size(job->op->a.dtype);
}

/* One launch for all tiles of all items: blocks take the tasks in order, and wait for those that
 * they need by the counters in job->tiles. */
static gram_status factorise_cholesky(gram_context *g, struct option_job *job, gram_dtype dtype)
{
    const struct cuda_device *device = g->device;
    const int64_t tiles = gram_ceil_div(job->params.n, SOLVE_TILE);
    const int64_t tasks = tiles * (tiles + 1) / 2 * job->params.count;
    struct solve_tiles_params p = {
        .matrix = job->params.lifted,
        .go = job->params.go,
        .state = job->params.state,
        .control = job->tiles,
        .item_bytes = (long long)item_bytes(job),
        .n = job->params.n,
        .ld = job->params.n,
        .items = job->params.count,
    };
    int64_t blocks = gram_least(tasks, (int64_t)device->processors * TILES_A_PROCESSOR);

    return cuda_launch_plain(g, &solve_tiles, dtype, blocks, SOLVE_THREADS, &p);
}

/* As many columns of a panel as there is shared memory for. */
static gram_status panel(gram_context *g, gram_dtype dtype, struct solve_lu_params *p)
{
    const int size = (int)gram_dtype_size(dtype), arch = ((struct cuda_device *)g->device)->arch;
    const int64_t most = (int64_t)cuda_solve_most_shared(arch) - SOLVE_PANEL_SHARED(size);
    const struct cuda_grid grid = {
        .blocks = p->items, .threads = SOLVE_PANEL_THREADS, .shared = (size_t)most};
    struct cuda_variant v;

    cuda_variant(&v, &solve_lu_panel, CUDA_OPTIONS({"REAL", cuda_type(dtype)}));
    p->room = most;
    return cuda_launch(g, &v, &grid, (void *[]){p});
}

/* Panel by panel: the stream orders a panel, the rows of U beside it, and what is left. */
static gram_status factorise_lu(gram_context *g, struct option_job *job, gram_dtype dtype)
{
    struct solve_lu_params p = {
        .matrix = job->params.lifted,
        .go = job->params.go,
        .state = job->params.state,
        .exchanges = job->params.exchanges,
        .item_bytes = (long long)item_bytes(job),
        .n = job->params.n,
        .ld = job->params.n,
        .items = job->params.count,
    };

    for (p.first = 0; p.first < p.n; p.first += SOLVE_TILE) {
        int64_t all = gram_ceil_div(p.n, SOLVE_TILE);
        int64_t rest = all - p.first / SOLVE_TILE - 1;
        TRY(panel(g, dtype, &p));
        if (all > 1)
            TRY(cuda_launch_plain(g, &solve_lu_rows, dtype, p.items * all, SOLVE_THREADS, &p));
        if (rest > 0)
            TRY(cuda_launch_plain(g, &solve_lu_rest, dtype, p.items * rest * rest, SOLVE_THREADS,
                                  &p));
    }
    return GRAM_OK;
}

/* One item after the other by cuSOLVER, whether the device wants it or not. */
static gram_status by_library(gram_context *g, struct option_job *job, gram_dtype dtype)
{
    const struct cuda_solver *s = job->solver;
    const int type = dtype == GRAM_F64 ? CUSOLVER_F64 : CUSOLVER_F32;
    int64_t n = job->params.n;

    for (int64_t i = 0; i < job->params.count; i++) {
        char *matrix = job->params.lifted + (size_t)i * item_bytes(job);
        int status = job->plan->lu
                         ? s->call->getrf(s->handle, s->params, n, n, type, matrix, n,
                                          job->outside + i * n, type, job->work, job->work_bytes,
                                          job->host, job->host_bytes, job->codes + i)
                         : s->call->potrf(s->handle, s->params, CUSOLVER_LOWER, n, type, matrix, n,
                                          type, job->work, job->work_bytes, job->host,
                                          job->host_bytes, job->codes + i);
        TRY(gram_cuda_solver_check(g, status,
                                   job->plan->lu ? "cusolverDnXgetrf" : "cusolverDnXpotrf"));
    }
    job->params.outside = (const long long *)job->outside;
    job->params.code = job->codes;
    return launch(g, job, &solve_verdict, dtype, job->params.count);
}

/* The factors of the items in params.go, in place of params.lifted.  LU has the permutation that
 * its exchanges amount to as well, since a solve of many columns applies that at once. */
static gram_status factorise(gram_context *g, struct option_job *job, gram_dtype dtype,
                             bool library)
{
    if (job->params.n == 0)
        return GRAM_OK;
    if (library)
        TRY(by_library(g, job, dtype));
    else
        TRY(job->plan->lu ? factorise_lu(g, job, dtype) : factorise_cholesky(g, job, dtype));
    return job->plan->lu ? launch(g, job, &solve_permutation, dtype, job->params.count) : GRAM_OK;
}

/* ---- Triangular solves ----------------------------------------------------------------------- */

/* Columns that the factor is applied to: x = A^-1 x, or A^-T x. */
struct option_columns {
    gram_dtype dtype; /* and of the factor */
    char *x;
    size_t item_bytes;
    int64_t columns;
    bool transposed;
};

/* A triangular solve of all columns in one launch.  Its counters are zero again when it ends, but
 * for the count of launches, so that the next one on the stream may use them. */
static gram_status sweep(gram_context *g, struct option_job *job, const struct option_columns *c,
                         bool lower, bool unit)
{
    const int64_t rows = SOLVE_SWEEP_ROWS((int)gram_dtype_size(c->dtype));
    struct solve_sweep_params p = {
        .factor = job->params.lifted,
        .x = c->x,
        .go = job->params.go,
        .control = job->sweeps,
        .words = job->words,
        .factor_bytes = (long long)item_bytes(job),
        .x_bytes = (long long)c->item_bytes,
        .n = job->params.n,
        .ld = job->params.n,
        .columns = c->columns,
        .ldx = job->params.n,
        .items = job->params.count,
        .forward = lower != c->transposed,
        .transposed = c->transposed,
        .unit = unit,
    };
    int64_t blocks =
        gram_ceil_div(p.n, rows) * gram_ceil_div(c->columns, SOLVE_WIDTH) * job->params.count;

    return cuda_launch_plain(g, &solve_sweep, c->dtype, blocks, SOLVE_THREADS, &p);
}

/* Brings the rows of the columns into the order of the factor, or back.  It goes through
 * job->other, because a permutation in place would need cycles. */
static gram_status permute(gram_context *g, struct option_job *job, const struct option_columns *c)
{
    struct solve_permute_params p = {
        .x = c->x,
        .other = job->other,
        .permutation = job->params.permutation,
        .go = job->params.go,
        .x_bytes = (long long)c->item_bytes,
        .n = job->params.n,
        .columns = c->columns,
        .ldx = job->params.n,
        .items = job->params.count,
        .back = c->transposed,
    };

    return cuda_launch_plain(g, &solve_permute, c->dtype, job->params.count * c->columns,
                             SOLVE_THREADS, &p);
}

/* Columns times the inverse of A, or of its transpose, by the factor that the items have at
 * present.  For Cholesky the two are the same. */
static gram_status apply_factor(gram_context *g, struct option_job *job,
                                const struct option_columns *c)
{
    struct option_columns turned = *c;

    if (job->params.n == 0 || c->columns == 0)
        return GRAM_OK;
    if (!job->plan->lu) { /* L, then its transpose */
        turned.transposed = false;
        TRY(sweep(g, job, &turned, true, false));
        turned.transposed = true;
        return sweep(g, job, &turned, true, false);
    }
    if (!c->transposed)
        TRY(permute(g, job, c));
    TRY(sweep(g, job, c, !c->transposed, !c->transposed));
    TRY(sweep(g, job, c, c->transposed, c->transposed));
    return c->transposed ? permute(g, job, c) : GRAM_OK;
}

/* ---- Condition ------------------------------------------------------------------------------- */

/* One step of the estimate, between two solves. */
static gram_status estimate(gram_context *g, struct option_job *job, gram_dtype dtype, int what)
{
    job->params.what = what;
    return launch(g, job, &solve_estimate, dtype, job->params.count);
}

/* Hager's and Higham's estimate: solves with A and its transpose in turn.  All turns are queued;
 * items that are done leave their columns as they are. */
static gram_status estimate_condition(gram_context *g, struct option_job *job, gram_dtype dtype,
                                      bool low)
{
    const size_t size = gram_dtype_size(dtype);
    struct option_columns c = {
        .dtype = dtype,
        .x = job->params.probe,
        .item_bytes = 2 * (size_t)job->params.n * size,
        .columns = 2,
        .transposed = job->params.flip != 0,
    };

    job->params.low = low;
    TRY(decide(g, job, SOLVE_CHOOSE));
    TRY(estimate(g, job, dtype, SOLVE_ESTIMATE_BEGIN));
    TRY(apply_factor(g, job, &c));
    TRY(estimate(g, job, dtype, SOLVE_ESTIMATE_FIRST));
    c.columns = 1;
    for (int turn = 0; turn < SOLVE_ESTIMATE_TURNS; turn++) {
        c.transposed = !job->params.flip;
        TRY(apply_factor(g, job, &c));
        TRY(estimate(g, job, dtype, SOLVE_ESTIMATE_TRANSPOSED));
        c.transposed = job->params.flip != 0;
        TRY(apply_factor(g, job, &c));
        TRY(estimate(g, job, dtype, SOLVE_ESTIMATE_SOLVED));
    }
    return estimate(g, job, dtype, SOLVE_ESTIMATED);
}

/* ---- Refinement ------------------------------------------------------------------------------ */

/* A launch with a block for each column that is refined. */
static gram_status columns(gram_context *g, struct option_job *job,
                           const struct cuda_kernel *kernel, int what)
{
    job->params.what = what;
    return launch(g, job, kernel, GRAM_F64, job->params.count * job->params.width);
}

/* Finds out which items still have columns in this mode: all others skip the launches that
 * follow. */
static gram_status count_columns(gram_context *g, struct option_job *job, int mode)
{
    job->params.mode = mode;
    return decide(g, job, SOLVE_COUNT);
}

/* The corrections times the inverse of A, by the factor in f32: what makes refinement cheap. */
static gram_status apply_low(gram_context *g, struct option_job *job)
{
    const struct option_columns c = {
        .dtype = GRAM_F32,
        .x = (char *)job->params.correction,
        .item_bytes = (size_t)(job->params.n * job->params.width) * sizeof(float),
        .columns = job->params.width,
    };

    return apply_factor(g, job, &c);
}

/* vector: -1 for residuals of x, else y = A z of the vector of a GMRES cycle. */
static gram_status multiply(gram_context *g, struct option_job *job, int vector)
{
    const int64_t n = job->params.n;
    struct solve_multiply_params p = {
        .matrix = (const double *)(const void *)job->params.matrix,
        .x = (const double *)(const void *)job->params.solution,
        .b = (const double *)(const void *)job->params.block,
        .y = (double *)(void *)job->params.residual,
        .go = job->params.go,
        .n = n,
        .columns = job->params.width,
        .items = job->params.count,
        .x_apart = n,
        .y_apart = n,
    };

    if (vector >= 0) {
        p.x = job->params.basis + (SOLVE_GMRES + 1 + vector) * n;
        p.b = NULL;
        p.column = job->params.column;
        p.y = job->params.basis + (vector + 1) * n;
        p.x_apart = p.y_apart = (2 * SOLVE_GMRES + 1) * n;
    }
    return cuda_launch_plain(g, &solve_multiply, GRAM_F64,
                             p.items * gram_ceil_div(n, SOLVE_MULTIPLY_ROWS), SOLVE_THREADS, &p);
}

/* Steps as LAPACK's dsposv takes them, for all columns; those that are accepted are left alone. */
static gram_status plain_steps(gram_context *g, struct option_job *job)
{
    TRY(columns(g, job, &solve_refine, SOLVE_REFINE_BEGIN));
    TRY(count_columns(g, job, SOLVE_STEPPING));
    for (int step = 0; step < SOLVE_PLAIN; step++) {
        TRY(apply_low(g, job));
        TRY(columns(g, job, &solve_refine, SOLVE_REFINE_UPDATE));
        TRY(multiply(g, job, -1));
        TRY(columns(g, job, &solve_refine, SOLVE_REFINE_JUDGE));
    }
    return GRAM_OK;
}

/* GMRES on the columns that plain steps have not brought to the accuracy of f64.  The factor in f32
 * is its preconditioner, and a few vectors are enough because the preconditioned matrix is close to
 * the identity. */
static gram_status gmres(gram_context *g, struct option_job *job)
{
    for (int cycle = 0; cycle < SOLVE_CYCLES; cycle++) {
        const int most = (int)gram_least(SOLVE_GMRES, job->params.n);
        TRY(count_columns(g, job, SOLVE_KRYLOV));
        TRY(columns(g, job, &solve_gmres, SOLVE_GMRES_BEGIN));
        for (int k = 0; k < most; k++) {
            TRY(apply_low(g, job));
            TRY(columns(g, job, &solve_gmres, SOLVE_GMRES_SPREAD));
            TRY(multiply(g, job, k));
            TRY(columns(g, job, &solve_gmres, SOLVE_GMRES_STEP));
        }
        TRY(count_columns(g, job, SOLVE_KRYLOV));
        TRY(columns(g, job, &solve_gmres, SOLVE_GMRES_END));
        TRY(multiply(g, job, -1));
        job->params.last = cycle == SOLVE_CYCLES - 1;
        TRY(columns(g, job, &solve_refine, SOLVE_REFINE_CYCLE));
    }
    return GRAM_OK;
}

/* Columns that f32 does not do for, by a factor in f64 after all. */
static gram_status rescue(gram_context *g, struct option_job *job)
{
    const struct option_columns c = {
        .dtype = GRAM_F64,
        .x = job->params.residual,
        .item_bytes = (size_t)(job->params.n * job->params.width) * sizeof(double),
        .columns = job->params.width,
    };

    job->params.low = 0;
    job->params.jitter = 0; /* A has it already */
    TRY(decide(g, job, SOLVE_RESCUE));
    TRY(pass(g, job, &solve_add_jitter, GRAM_F64));
    TRY(factorise(g, job, GRAM_F64, false));
    job->params.mode = SOLVE_WIDE;
    TRY(decide(g, job, SOLVE_RESCUED));
    TRY(columns(g, job, &solve_refine, SOLVE_REFINE_COPY));
    TRY(apply_factor(g, job, &c));
    TRY(columns(g, job, &solve_refine, SOLVE_REFINE_TAKE));
    TRY(multiply(g, job, -1));
    return columns(g, job, &solve_refine, SOLVE_REFINE_LAST);
}

/* Refines one block of columns: first cheap steps, then GMRES, then a factor in f64 for what is
 * left.  All three are queued for every block, because only the device knows which of them a column
 * needs. */
static gram_status refine_block(gram_context *g, struct option_job *job)
{
    if (job->params.n == 0)
        return GRAM_OK;
    TRY(plain_steps(g, job));
    TRY(gmres(g, job));
    TRY(rescue(g, job));
    job->params.what = SOLVE_REFINE_SUM;
    return launch(g, job, &solve_refine, GRAM_F64, job->params.count);
}

/* ---- A chunk --------------------------------------------------------------------------------- */

/* Tries the ladder, from its first s on; what cannot be factored in f32 is, in f64. */
static gram_status climb(gram_context *g, struct option_job *job)
{
    const struct gram_solve_op *op = job->op;
    bool first = true;

    for (int i = 0; i == 0 || i < op->jitters; i++)
        for (int low = op->refine; low >= 0; low--) {
            const gram_dtype dtype = low ? GRAM_F32 : op->a.dtype;
            job->params.low = low;
            job->params.jitter = op->jitters ? op->jitter[i] : 0;
            TRY(decide(g, job, SOLVE_TRY));
            if (!job->plain)
                TRY(pass(g, job, &solve_add_jitter, dtype));
            TRY(factorise(g, job, dtype, job->solver && first));
            TRY(decide(g, job, SOLVE_VERDICTS));
            first = false;
        }
    if (!op->jitters)
        return GRAM_OK;
    TRY(pass(g, job, &solve_add_accepted_jitter, op->a.dtype));
    TRY(decide(g, job, SOLVE_SETTLED));
    return pass(g, job, &solve_norm, op->a.dtype);
}

/* What the caller is told about the matrices of a chunk, and the factor if it is asked for.  An
 * estimate needs the factor, and so comes after the ladder. */
static gram_status report_matrices(gram_context *g, struct option_job *job)
{
    const struct gram_solve_op *op = job->op;

    if (op->has_rcond && job->params.n > 0) {
        TRY(estimate_condition(g, job, op->a.dtype, false));
        if (op->refine)
            TRY(estimate_condition(g, job, GRAM_F32, true));
    }
    job->params.shared = 0;
    TRY(launch(g, job, &solve_store_reports, op->a.dtype, job->params.count));
    return op->has_factor ? pass(g, job, &solve_store_factor, op->a.dtype) : GRAM_OK;
}

/* Brings a block of right-hand sides to scratch, or the solution from there to x. */
static gram_status move(gram_context *g, struct option_job *job, bool out)
{
    job->params.what = out;
    return pass(g, job, &solve_move, job->op->a.dtype);
}

/* Solves for the block of columns in scratch. */
static gram_status solve_block(gram_context *g, struct option_job *job)
{
    const gram_dtype dtype = job->op->a.dtype;
    const struct option_columns c = {
        .dtype = dtype,
        .x = job->params.block,
        .item_bytes = (size_t)(job->params.n * job->params.width) * gram_dtype_size(dtype),
        .columns = job->params.width,
        .transposed = job->plan->lu && job->params.flip,
    };

    if (job->op->refine)
        return refine_block(g, job);
    job->params.low = 0;
    TRY(decide(g, job, SOLVE_CHOOSE));
    return apply_factor(g, job, &c);
}

/* The right-hand sides of one item of shared, in all items of the chunk. */
static gram_status solve_columns(gram_context *g, struct option_job *job)
{
    const int64_t cols = job->op->x.cols;

    for (int64_t j = 0; j < cols && job->params.n > 0; j += job->width) {
        job->params.first = j;
        job->params.width = gram_least(job->width, cols - j);
        TRY(move(g, job, false));
        TRY(solve_block(g, job));
        TRY(move(g, job, true));
    }
    job->params.last = 0;
    return job->op->refine ? pass(g, job, &solve_result, job->op->a.dtype) : GRAM_OK;
}

/* All work of a chunk: its matrices are factored once, and then serve the right-hand sides of every
 * item that shares them.  The results are stored last, when the verdict on each item is final. */
static gram_status run_chunk(gram_context *g, struct option_job *job)
{
    const gram_dtype dtype = job->op->a.dtype;
    const int64_t shared = job->plan->shared.count;

    job->params.shared = 0;
    TRY(decide(g, job, SOLVE_BEGIN));
    TRY(pass(g, job, &solve_load, dtype));
    if (!job->plain)
        TRY(pass(g, job, &solve_norm, dtype));
    TRY(climb(g, job));
    TRY(report_matrices(g, job));
    for (job->params.shared = 0; job->params.shared < shared; job->params.shared++)
        TRY(solve_columns(g, job));
    job->params.width = job->op->x.cols;
    job->params.last = 1;
    for (job->params.shared = 0; job->params.shared < shared; job->params.shared++)
        TRY(pass(g, job, &solve_result, dtype));
    return GRAM_OK;
}

/* ---- The call -------------------------------------------------------------------------------- */

gram_status cuda_solve_options(gram_context *g, const struct cuda_solve_plan *plan)
{
    const struct cuda_device *device = g->device;
    struct option_job job;

    TRY(prepare(g, plan, &job));
    if (job.solver)
        TRY(gram_cuda_solver_host(g, job.solver, job.host_bytes, &job.host));
    TRY(gram_cuda_check(g, device->driver,
                        device->driver->memory_set((CUdeviceptr)(uintptr_t)job.sweeps, 0, job.zeros,
                                                   device->stream),
                        "cuMemsetD8Async"));
    for (int64_t begin = 0; begin < plan->own.count; begin += job.items) {
        const int64_t count = gram_least(job.items, plan->own.count - begin);
        const int64_t most = (int64_t)device->processors * PARTS_A_PROCESSOR;
        job.params.begin = begin;
        job.params.count = count;
        job.params.parts = gram_most(1, gram_least(gram_ceil_div(job.params.n, 4), most / count));
        TRY(run_chunk(g, &job));
    }
    return GRAM_OK;
}

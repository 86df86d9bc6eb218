/*
 * cuda_eigh_large.c - eigenproblems through cuSOLVER, some with a thread that waits for it
 *
 * The triangle is copied, scaled, to a matrix in the scratch, which cuSOLVER overwrites with the
 * vectors; pairs go from there to the caller's tensors.  XsyevBatched takes many matrices, as many
 * as fit below its limit 3 n^2 items < 2^31, and only enqueues.  Xsyevd and Xsyevdx take one, wait
 * for the device inside, and so cannot be captured.
 *
 * With options.background a thread of the context calls these two, and the caller does not wait.
 * The thread works on a stream that begins behind what the context's stream holds at the call.  It
 * touches nothing of the context but cuSOLVER's handle and the scratch: whoever needs one of these,
 * or ends the context, first joins the thread (gram_cuda_join), which queues what is left to do on
 * the context's stream.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda/arena.h"
#include "cuda/cusolver.h"
#include "cuda_eigh.h"
#include <pthread.h>
#include <stdio.h>

enum {
    SCAN_ROWS = 32,           /* of a matrix that a block of eigh_scan takes at least */
    CHUNK_ELEMENTS = 1 << 27, /* of the matrices of a chunk, unless one alone has more */
    TILES_A_BLOCK = 4,
};

/* What a call works with. */
struct large {
    const struct cuda_eigh_plan *plan;
    struct cuda_solver *solver;
    int64_t chunk, parts; /* items at a time; blocks of eigh_scan that share one */
    /* Scratch: the matrices of a chunk and their values, cuSOLVER's codes, what eigh_scan found. */
    char *matrix, *w, *largest;
    int *codes;
    void *work, *host;             /* cuSOLVER's, on the device and on the host */
    size_t work_bytes, host_bytes; /* of these */
};

static int type_of(const struct cuda_eigh_plan *plan)
{
    return plan->op->a.dtype == GRAM_F64 ? CUSOLVER_F64 : CUSOLVER_F32;
}

/* Whether vectors are computed: no pairs need none. */
static int mode_of(const struct cuda_eigh_plan *plan)
{
    return plan->op->has_vectors && plan->op->values.cols > 0 ? CUSOLVER_VECTORS : CUSOLVER_VALUES;
}

/* Whether cuSOLVER is asked for the wanted pairs alone. */
static bool is_range(const struct cuda_eigh_plan *plan)
{
    return plan->driver == GRAM_EIGH_DRIVER_BISECTION && !plan->op->by_value && plan->op->count > 0;
}

static int64_t chunk_of(const struct cuda_eigh_plan *plan)
{
    int64_t n = plan->call.n, items = plan->call.items;

    if (plan->driver != GRAM_EIGH_DRIVER_BATCHED)
        return 1;
    items = gram_least(gram_least(items, CUSOLVER_MOST_ITEMS), INT32_MAX / 3 / (n * n));
    return gram_most(1, gram_least(items, CHUNK_ELEMENTS / (n * n)));
}

/* The scratch that cuSOLVER asks for, for the items of one call. */
static gram_status ask_solver(gram_context *g, struct large *l)
{
    const struct cuda_eigh_plan *plan = l->plan;
    const struct cuda_solver *s = l->solver;
    const struct cuda_cusolver *call = s->call;
    int64_t n = plan->call.n, first = plan->call.first, found;
    int mode = mode_of(plan), type = type_of(plan), status;
    double limit[2] = {0};

    if (plan->driver == GRAM_EIGH_DRIVER_BATCHED && !call->syev_batched)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "cuSOLVER is too old: it does not have cusolverDnXsyevBatched");
    if (!call->syevd || !call->syevdx)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "cuSOLVER is too old: it does not have cusolverDnXsyevdx");
    if (plan->driver == GRAM_EIGH_DRIVER_BATCHED)
        status =
            call->syev_batched_bytes(s->handle, s->params, mode, CUSOLVER_LOWER, n, type, NULL, n,
                                     type, NULL, type, &l->work_bytes, &l->host_bytes, l->chunk);
    else if (is_range(plan))
        status = call->syevdx_bytes(s->handle, s->params, mode, CUSOLVER_RANGE_INDEX,
                                    CUSOLVER_LOWER, n, type, NULL, n, &limit[0], &limit[1],
                                    first + 1, first + plan->call.count, &found, type, NULL, type,
                                    &l->work_bytes, &l->host_bytes);
    else
        status = call->syevd_bytes(s->handle, s->params, mode, CUSOLVER_LOWER, n, type, NULL, n,
                                   type, NULL, type, &l->work_bytes, &l->host_bytes);
    return gram_cuda_solver_check(g, status, "cusolverDnXsyev*_bufferSize");
}

static gram_status open_scratch(gram_context *g, struct large *l)
{
    const struct cuda_eigh_plan *plan = l->plan;
    const size_t n = (size_t)plan->call.n, size = gram_dtype_size(plan->op->a.dtype);
    struct gram_layout layout = {0};
    size_t items;

    if (n > SIZE_MAX / 64 / n)
        return gram_fail(g, GRAM_OUT_OF_MEMORY,
                         "a has %zu rows, and the size of a copy of it overflows", n);
    l->chunk = chunk_of(plan);
    l->parts = gram_least(gram_ceil_div(plan->call.n, SCAN_ROWS), EIGH_PARTS);
    TRY(ask_solver(g, l));
    items = (size_t)l->chunk;
    gram_take_many(&layout, &l->matrix, items * n * n, size);
    gram_take_many(&layout, &l->w, items * n, size);
    gram_take_many(&layout, &l->codes, items, sizeof(int));
    gram_take_many(&layout, &l->largest, items * (size_t)l->parts, size);
    gram_take(&layout, &l->work, l->work_bytes);
    return gram_layout_open(g, &layout);
}

/* The eigenproblems of a chunk that is in the scratch: cuSOLVER's status.  Touches no context. */
static int solve_chunk(const struct large *l, int64_t items)
{
    const struct cuda_eigh_plan *plan = l->plan;
    const struct cuda_solver *s = l->solver;
    const struct cuda_cusolver *call = s->call;
    int64_t n = plan->call.n, first = plan->call.first, found = 0;
    int mode = mode_of(plan), type = type_of(plan);
    double limit[2] = {0};

    if (plan->driver == GRAM_EIGH_DRIVER_BATCHED)
        return call->syev_batched(s->handle, s->params, mode, CUSOLVER_LOWER, n, type, l->matrix, n,
                                  type, l->w, type, l->work, l->work_bytes, l->host, l->host_bytes,
                                  l->codes, items);
    if (is_range(plan))
        return call->syevdx(s->handle, s->params, mode, CUSOLVER_RANGE_INDEX, CUSOLVER_LOWER, n,
                            type, l->matrix, n, &limit[0], &limit[1], first + 1,
                            first + plan->call.count, &found, type, l->w, type, l->work,
                            l->work_bytes, l->host, l->host_bytes, l->codes);
    return call->syevd(s->handle, s->params, mode, CUSOLVER_LOWER, n, type, l->matrix, n, type,
                       l->w, type, l->work, l->work_bytes, l->host, l->host_bytes, l->codes);
}

/* Queues what brings them to the caller's tensors. */
static gram_status store_chunk(gram_context *g, const struct large *l,
                               struct eigh_chunk_params *params)
{
    int64_t side = gram_ceil_div(params->call.n, EIGH_TILE);
    int64_t wide = gram_ceil_div(params->call.count, EIGH_TILE);

    return cuda_eigh_launch(g, EIGH_STORE, l->plan->op->a.dtype,
                            gram_most(1, gram_ceil_div(side * wide, TILES_A_BLOCK)), params->items,
                            params);
}

/* ---- In the background ----------------------------------------------------------------------- */

struct cuda_background {
    const struct cuda_device *device;
    CUstream stream;
    CUevent begin; /* what the context's stream held at the call */
    pthread_t thread;
    bool running;
    gram_status status; /* of the last one, until somebody asks; message: why */
    char message[512];
    /* The work, and what became of it. */
    struct gram_eigh_op op;
    struct cuda_eigh_plan plan;
    struct large large;
    struct eigh_chunk_params params;
    int solved;      /* cuSOLVER's status */
    CUresult waited; /* for the stream */
};

static void *wait_inside(void *argument)
{
    struct cuda_background *b = argument;
    bool entered = gram_cuda_enter(b->device);

    b->solved = solve_chunk(&b->large, 1);
    b->waited = b->device->driver->stream_synchronize(b->stream);
    gram_cuda_leave(b->device, entered);
    return NULL;
}

/* The context's, made at the first call. */
static gram_status open_background(gram_context *g, struct cuda_background **out)
{
    struct cuda_device *device = g->device;
    const struct cuda_driver *driver = device->driver;
    struct cuda_background *b = device->background;

    if (!b) {
        b = gram_alloc(g, sizeof *b);
        if (!b)
            return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", sizeof *b);
        *b = (struct cuda_background){.device = device};
        device->background = b;
    }
    if (!b->stream)
        TRY(gram_cuda_check(g, driver, driver->stream_create(&b->stream, CU_STREAM_NON_BLOCKING),
                            "cuStreamCreate"));
    if (!b->begin)
        TRY(gram_cuda_check(g, driver, driver->event_create(&b->begin, CU_EVENT_DISABLE_TIMING),
                            "cuEventCreate"));
    *out = b;
    return GRAM_OK;
}

/* Starts the thread on one matrix that eigh_load has brought to the scratch; what it finds goes to
 * the caller's tensors when the thread is joined. */
static gram_status begin_in_background(gram_context *g, const struct large *large,
                                       const struct eigh_chunk_params *params)
{
    const struct cuda_device *device = g->device;
    const struct cuda_driver *driver = device->driver;
    const struct cuda_solver *solver = large->solver;
    struct cuda_background *b;

    TRY(open_background(g, &b));
    TRY(gram_cuda_check(g, driver, driver->event_record(b->begin, device->stream),
                        "cuEventRecord"));
    TRY(gram_cuda_check(g, driver, driver->stream_wait(b->stream, b->begin, 0),
                        "cuStreamWaitEvent"));
    b->op = *large->plan->op;
    b->op.report = NULL; /* the caller's */
    b->plan = *large->plan;
    b->plan.op = &b->op;
    b->large = *large;
    b->large.plan = &b->plan;
    b->params = *params;
    TRY(gram_cuda_solver_check(g, solver->call->set_stream(solver->handle, b->stream),
                               "cusolverDnSetStream"));
    b->running = pthread_create(&b->thread, NULL, wait_inside, b) == 0;
    if (b->running)
        return GRAM_OK;
    (void)solver->call->set_stream(solver->handle, device->stream);
    return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot start a thread");
}

/* What the thread met, and the rest of the work. */
static gram_status finish(gram_context *g, struct cuda_background *b)
{
    const struct cuda_device *device = b->device;
    const struct cuda_solver *solver = b->large.solver;

    TRY(gram_cuda_solver_check(g, solver->call->set_stream(solver->handle, device->stream),
                               "cusolverDnSetStream"));
    TRY(gram_cuda_solver_check(g, b->solved, "cusolverDnXsyev*"));
    TRY(gram_cuda_check(g, device->driver, b->waited, "cuStreamSynchronize"));
    return store_chunk(g, &b->large, &b->params);
}

void gram_cuda_join(gram_context *g)
{
    const struct cuda_device *device = g->device;
    struct cuda_background *b = device->background;
    gram_status status;
    bool entered;

    if (!b || !b->running)
        return;
    (void)pthread_join(b->thread, NULL);
    b->running = false;
    entered = gram_cuda_enter(device);
    status = finish(g, b);
    gram_cuda_leave(device, entered);
    if (status == GRAM_OK)
        return;
    b->status = status;
    snprintf(b->message, sizeof b->message, "%s", g->message);
}

gram_status gram_cuda_joined(gram_context *g)
{
    struct cuda_device *device = g->device;
    struct cuda_background *b = device->background;
    gram_status status;

    gram_cuda_join(g);
    if (!b || b->status == GRAM_OK)
        return GRAM_OK;
    status = b->status;
    b->status = GRAM_OK;
    return gram_fail(g, status, "the background work of gram_eigh failed: %s", b->message);
}

void gram_cuda_background_close(gram_context *g, struct cuda_device *device)
{
    struct cuda_background *b = device->background;
    bool entered;

    if (!b)
        return;
    gram_cuda_join(g);
    entered = gram_cuda_enter(device);
    if (b->begin)
        (void)device->driver->event_destroy(b->begin);
    if (b->stream)
        (void)device->driver->stream_destroy(b->stream);
    gram_cuda_leave(device, entered);
    gram_free(g, b, sizeof *b);
    device->background = NULL;
}

/* ---- The call -------------------------------------------------------------------------------- */

/* Whether a thread is to wait for cuSOLVER: where it has one matrix and keeps who calls it. */
static bool in_background(const struct cuda_eigh_plan *plan)
{
    return plan->op->background && plan->driver != GRAM_EIGH_DRIVER_BATCHED &&
           plan->call.items == 1;
}

static gram_status run_chunk(gram_context *g, const struct large *l, int64_t begin, int64_t items)
{
    const struct cuda_eigh_plan *plan = l->plan;
    gram_dtype dtype = plan->op->a.dtype;
    int64_t side = gram_ceil_div(plan->call.n, EIGH_TILE);
    struct eigh_chunk_params p = {
        .call = plan->call,
        .begin = begin,
        .items = items,
        .matrix = l->matrix,
        .w = l->w,
        .code = l->codes,
        .largest = l->largest,
        .parts = l->parts,
        .computed = is_range(plan) ? plan->call.first : 0,
        .has_vectors = mode_of(plan) == CUSOLVER_VECTORS,
    };

    TRY(cuda_eigh_launch(g, EIGH_SCAN, dtype, l->parts, items, &p));
    TRY(cuda_eigh_launch(g, EIGH_LOAD, dtype, gram_ceil_div(side * side, TILES_A_BLOCK), items,
                         &p));
    if (in_background(plan))
        return begin_in_background(g, l, &p);
    TRY(gram_cuda_solver_check(g, solve_chunk(l, items), "cusolverDnXsyev*"));
    return store_chunk(g, l, &p);
}

/* Xsyevd and Xsyevdx wait for the stream, which a capture forbids: said before anything is done. */
static gram_status check_capture(gram_context *g, const struct cuda_eigh_plan *plan)
{
    bool capturing;

    if (plan->driver == GRAM_EIGH_DRIVER_BATCHED)
        return GRAM_OK;
    TRY(gram_cuda_capturing(g, &capturing));
    if (capturing)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "cuSOLVER's Xsyevd and Xsyevdx cannot be captured in a graph; set "
                         "options.driver to GRAM_EIGH_DRIVER_BATCHED");
    return GRAM_OK;
}

static gram_status run(gram_context *g, const struct cuda_eigh_plan *plan)
{
    struct large l = {.plan = plan};

    if (!g->measure)
        TRY(check_capture(g, plan));
    TRY(gram_cuda_solver(g, &l.solver));
    TRY(open_scratch(g, &l));
    TRY(gram_cuda_solver_host(g, l.solver, l.host_bytes, &l.host));
    for (int64_t at = 0; at < plan->call.items; at += l.chunk)
        TRY(run_chunk(g, &l, at, gram_least(l.chunk, plan->call.items - at)));
    return GRAM_OK;
}

static bool takes_any(const struct gram_eigh_op *op)
{
    (void)op;
    return true;
}

static bool takes_batch(const struct gram_eigh_op *op)
{
    return op->a.rows <= CUDA_EIGH_BATCHED_MOST;
}

const struct cuda_eigh_driver cuda_eigh_divide = {"cuSOLVER's Xsyevd", takes_any, run},
                              cuda_eigh_bisection = {"cuSOLVER's Xsyevdx", takes_any, run},
                              cuda_eigh_batched = {"cuSOLVER's XsyevBatched", takes_batch, run};

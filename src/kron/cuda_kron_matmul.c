/*
 * cuda_kron_matmul.c - products with Kronecker factors on the device: a launch for each pass
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda/arena.h"
#include "cuda_kron.h"

_Static_assert(KRON_DIMS == GRAM_MAX_DIMS && KRON_MOST == GRAM_MAX_FACTORS,
               "kron_params.h repeats numbers of gram.h");

struct kron_side cuda_kron_side(const struct gram_view *v)
{
    struct kron_side side = {
        .data = v->data, .row_stride = v->row_stride, .col_stride = v->col_stride};

    for (int d = 0; d < GRAM_MAX_DIMS; d++)
        side.batch_stride[d] = v->batch_stride[d];
    return side;
}

struct kron_number cuda_kron_number(const struct gram_hyper *h)
{
    struct kron_number number = {
        .value = h->value, .data = h->tensor.data, .is_double = h->tensor.dtype == GRAM_F64};

    for (int d = 0; d < GRAM_MAX_DIMS; d++)
        number.batch_stride[d] = h->tensor.batch_stride[d];
    return number;
}

/* A buffer between passes, in which items and rows lie one after the other. */
static struct kron_side between(const struct cuda_kron_plan *plan, void *scratch, size_t at,
                                int64_t columns)
{
    const struct gram_batch *batch = &plan->op->batch;
    struct kron_side side = {.data = (char *)scratch + at, .row_stride = columns, .col_stride = 1};
    int64_t step = plan->rows * columns;

    for (int d = batch->ndim - 1; d >= 0; d--) {
        side.batch_stride[d] = step;
        step *= batch->shape[d];
    }
    return side;
}

void cuda_kron_params(const struct cuda_kron_plan *plan, void *scratch, int number,
                      struct kron_params *params)
{
    const struct gram_kron_matmul_op *op = plan->op;
    const struct cuda_kron_pass *pass = &plan->pass[number];
    size_t half = plan->passes > 2 ? gram_round64((size_t)plan->bytes / 2) : 0;
    int64_t columns = pass->span.before * pass->span.after;

    *params = (struct kron_params){.ndim = op->batch.ndim,
                                   .items = op->batch.count,
                                   .z = cuda_kron_side(&plan->z),
                                   .alpha = cuda_kron_number(&op->alpha),
                                   .beta = cuda_kron_number(&op->beta),
                                   .rows = plan->rows,
                                   .before = pass->span.before,
                                   .after = pass->span.after,
                                   .depth = pass->span.in,
                                   .outs = pass->span.out,
                                   .last = number + 1 == plan->passes};
    for (int d = 0; d < op->batch.ndim; d++)
        params->shape[d] = op->batch.shape[d];
    for (int f = 0; f < pass->span.count; f++)
        params->factor[f] = cuda_kron_side(&op->factor[pass->span.first + f]);
    params->x = number == 0
                    ? cuda_kron_side(&plan->x)
                    : between(plan, scratch, number % 2 ? 0 : half, columns * pass->span.in);
    params->y = params->last
                    ? cuda_kron_side(&plan->y)
                    : between(plan, scratch, number % 2 ? half : 0, columns * pass->span.out);
}

/* Compiles the kernels of all passes side by side, at the first call of a process. */
static void make_ahead(const gram_context *g, const struct cuda_kron_plan *plan, void *scratch)
{
    char defines[GRAM_MAX_FACTORS][CUDA_KRON_DEFINES];
    struct jit_request requests[GRAM_MAX_FACTORS];
    struct kron_params params;

    for (int i = 0; i < plan->passes; i++) {
        cuda_kron_params(plan, scratch, i, &params);
        requests[i] = cuda_kron_request(plan, i, &params, defines[i]);
    }
    gram_jit_ahead(g, g->device, requests, plan->passes);
}

/* Finds the kernel of a pass, and remembers it in the plan. */
static gram_status find_kernel(gram_context *g, struct cuda_kron_plan *plan, void *scratch,
                               int number, const struct kron_params *params, CUfunction *out)
{
    CUfunction *kept = &plan->pass[number].function;
    char defines[CUDA_KRON_DEFINES];
    struct jit_request request;

    *out = *kept;
    if (*out)
        return GRAM_OK;
    request = cuda_kron_request(plan, number, params, defines);
    if (!gram_jit_recall(g->device, request.variant))
        make_ahead(g, plan, scratch);
    TRY(gram_jit_kernel(g, g->device, &request, out));
    *kept = *out;
    return GRAM_OK;
}

static gram_status queue_pass(gram_context *g, struct cuda_kron_plan *plan, void *scratch,
                              int number, struct kron_params *params)
{
    const struct cuda_kron_pass *pass = &plan->pass[number];
    const struct cuda_device *device = g->device;
    CUfunction function;
    const bool early = number > 0 && device->overlaps && pass->kernel == CUDA_KRON_KEPT;
    int64_t units = plan->rows * pass->span.before;
    void *arguments[] = {params};
    double tiles, most = INT32_MAX;

    TRY(find_kernel(g, plan, scratch, number, params, &function));
    if (pass->kernel == CUDA_KRON_TILE)
        most = (double)device->processors * pass->blocks;
    if (pass->kernel == CUDA_KRON_FUSED || pass->kernel == CUDA_KRON_TILE) {
        params->unit_tiles = gram_ceil_div(units, pass->units);
        params->col_tiles = gram_ceil_div(pass->span.after, pass->columns);
    } else {
        units *= pass->paired ? plan->op->factor[pass->span.first].rows : 1;
        params->unit_tiles = gram_ceil_div(units * pass->span.after, pass->columns);
        params->col_tiles = gram_ceil_div(pass->span.out, pass->units);
    }
    tiles = (double)params->unit_tiles * (double)params->col_tiles * (double)params->items;
    if (pass->kernel == CUDA_KRON_KEPT) /* blocks keep their factor and go from tile to tile */
        tiles = tiles < device->processors ? tiles : device->processors;
    return (early ? gram_cuda_queue_early : gram_cuda_queue)(
        g, function, (const unsigned[]){(unsigned)(tiles < most ? tiles : most), 1, 1},
        (const unsigned[]){(unsigned)pass->threads, 1, 1}, pass->shared_bytes, arguments);
}

static gram_status queue(gram_context *g, struct cuda_kron_plan *plan)
{
    struct kron_params params;
    void *scratch;

    TRY(gram_cuda_scratch(g, gram_round64((size_t)plan->bytes), &scratch));
    for (int i = 0; i < plan->passes; i++) {
        cuda_kron_params(plan, scratch, i, &params);
        TRY(queue_pass(g, plan, scratch, i, &params));
    }
    return GRAM_OK;
}

/* ---- Entry points --------------------------------------------------------------------------- */

static bool is_empty(const struct gram_kron_matmul_op *op)
{
    return op->batch.count == 0 || op->y.rows == 0 || op->y.cols == 0;
}

/* op, or a product in its place that the passes can do.  Where x has no columns, the factors become
 * one factor without rows.  In place, the blocks of a single factor would read columns that others
 * write; a second factor, which is the number 1 (its data are NULL), makes a pass that copies x. */
static struct gram_kron_matmul_op filled(const struct gram_kron_matmul_op *op)
{
    struct gram_kron_matmul_op one = *op;

    if (op->x.cols == 0) {
        one.count = 1;
        one.factor[0] = (struct gram_view){
            .dtype = op->x.dtype, .planes = 1, .cols = op->y.cols, .row_stride = op->y.cols};
    } else if (op->in_place && op->count == 1) {
        one.count = 2;
        one.factor[1] = (struct gram_view){
            .dtype = op->x.dtype, .planes = 1, .rows = 1, .cols = 1, .row_stride = 1};
    }
    return one;
}

static gram_status make_plan(gram_context *g, const struct gram_kron_matmul_op *op, int choice,
                             struct cuda_kron_plan **out)
{
    const struct cuda_kron_plan *plan = *out = cuda_kron_remembered(g, op, choice);

    if (!plan)
        return GRAM_OUT_OF_MEMORY;
    if (plan->bytes > 0x1p58)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "a row of x or y is too long: scratch overflows");
    return GRAM_OK;
}

static gram_status check_pointers(gram_context *g, const struct gram_kron_matmul_op *op)
{
    TRY(gram_cuda_check_pointer(g, "x", &op->x));
    TRY(gram_cuda_check_pointer(g, "y", &op->y));
    for (int i = 0; i < op->count; i++)
        TRY(gram_cuda_check_pointer(g, "factors", &op->factor[i]));
    if (op->z.data)
        TRY(gram_cuda_check_pointer(g, "options.z", &op->z));
    if (op->alpha.tensor.data)
        TRY(gram_cuda_check_pointer(g, "options.alpha", &op->alpha.tensor));
    if (op->beta.tensor.data)
        TRY(gram_cuda_check_pointer(g, "options.beta", &op->beta.tensor));
    return GRAM_OK;
}

gram_status cuda_kron_matmul_chosen(gram_context *g, const struct gram_kron_matmul_op *op,
                                    int choice)
{
    const struct gram_kron_matmul_op work = filled(op);
    struct cuda_kron_plan *plan;
    gram_status status;
    bool entered;

    if (is_empty(op))
        return GRAM_OK;
    TRY(make_plan(g, &work, choice, &plan));
    TRY(check_pointers(g, op));
    entered = gram_cuda_enter(g->device);
    status = queue(g, plan);
    gram_cuda_leave(g->device, entered);
    return status;
}

gram_status cuda_kron_matmul(gram_context *g, const struct gram_kron_matmul_op *op)
{
    return cuda_kron_matmul_chosen(g, op, cuda_kron_tuned(g, op));
}

gram_status cuda_kron_matmul_workspace(gram_context *g, const struct gram_kron_matmul_op *op,
                                       size_t *bytes)
{
    const struct gram_kron_matmul_op work = filled(op);
    struct cuda_kron_plan *plan;

    *bytes = 0;
    if (is_empty(op))
        return GRAM_OK;
    TRY(make_plan(g, &work, cuda_kron_tuned(g, op), &plan));
    *bytes = gram_round64((size_t)plan->bytes);
    return GRAM_OK;
}

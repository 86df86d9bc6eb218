/*
 * cuda_eigh.c - symmetric eigenproblems on the device: kernels, the choice of a driver, the call
 *
 * A driver is a row of a table.  Small matrices are done by kernels of ours in one launch
 * (eigh_small.cu, eigh_jacobi.cu), others by cuSOLVER (cuda_eigh_large.c); what became of an item
 * is in info alone, and nothing waits for it.  Few pairs of a large matrix come from
 * cuda_eigh_krylov.c.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_eigh.h"
#include "cuda/arena.h"
#include "krylov.h"
#include "linalg/cuda_solve.h"

enum {
    MOST_BLOCKS = 1 << 20, /* beyond these, blocks loop */
    MOST_BLOCKS_Y = 65535,
    BATCHED_ALONE = 512, /* n up to which one matrix goes to XsyevBatched, as quick as Xsyevd */
    BATCHED_PAIR = 256,  /* and several always do */
    BATCHED_SHARE = 400  /* n over it, and 4: as many take as long one by one */
};

/* ---- Kernels --------------------------------------------------------------------------------- */

bool cuda_eigh_variant(int kernel, gram_dtype dtype, struct cuda_variant *v)
{
    static const struct {
        struct cuda_kernel kernel;
        const char *option;
        int value;
    } kernels[EIGH_KERNELS] = {
        [EIGH_SCAN] = {   {"eigh_large.cu", "eigh_scan"}, "KERNEL",  EIGH_SCAN},
        [EIGH_LOAD] = {   {"eigh_large.cu", "eigh_load"}, "KERNEL",  EIGH_LOAD},
        [EIGH_STORE] = {  {"eigh_large.cu", "eigh_store"}, "KERNEL", EIGH_STORE},
        [EIGH_PANEL] = {  {"eigh_large.cu", "eigh_panel"}, "KERNEL", EIGH_PANEL},
        [EIGH_KERNEL_SMALL + 1] = {  {"eigh_small.cu", "eigh_small"},  "ORDER",          1},
        [EIGH_KERNEL_SMALL + 2] = {  {"eigh_small.cu", "eigh_small"},  "ORDER",          2},
        [EIGH_KERNEL_SMALL + 3] = {  {"eigh_small.cu", "eigh_small"},  "ORDER",          3},
        [EIGH_KERNEL_JACOBI + 3] = {{"eigh_jacobi.cu", "eigh_jacobi"},  "ORDER",          8},
        [EIGH_KERNEL_JACOBI + 4] = {{"eigh_jacobi.cu", "eigh_jacobi"},  "ORDER",         16},
        [EIGH_KERNEL_JACOBI + 5] = {{"eigh_jacobi.cu", "eigh_jacobi"},  "ORDER",         32},
    };

    if (!kernels[kernel].option)
        return false;
    cuda_variant(
        v, &kernels[kernel].kernel,
        CUDA_OPTIONS({"REAL", cuda_type(dtype)}, {kernels[kernel].option, kernels[kernel].value}));
    return true;
}

gram_status cuda_eigh_launch(gram_context *g, int kernel, gram_dtype dtype, int64_t blocks,
                             int64_t items, void *params)
{
    const unsigned threads = kernel >= EIGH_KERNEL_JACOBI ? EIGH_LANES : EIGH_THREADS;
    const struct cuda_grid grid = {.blocks = gram_least(blocks, MOST_BLOCKS),
                                   .blocks_y = gram_least(items, MOST_BLOCKS_Y),
                                   .threads = threads};
    struct cuda_variant v;

    (void)cuda_eigh_variant(kernel, dtype, &v);
    return cuda_launch(g, &v, &grid, (void *[]){params});
}

/* ---- Small matrices -------------------------------------------------------------------------- */

static gram_status run_small(gram_context *g, const struct cuda_eigh_plan *plan)
{
    int64_t n = plan->call.n, each = EIGH_THREADS;
    int kernel = EIGH_KERNEL_SMALL + (int)n;
    struct eigh_call call = plan->call;
    const struct gram_layout nothing = {0};

    TRY(gram_layout_open(g, &nothing));
    if (plan->driver == GRAM_EIGH_DRIVER_JACOBI) {
        int logarithm = n <= 8 ? 3 : n <= 16 ? 4 : 5;
        each = EIGH_LANES >> logarithm;
        kernel = EIGH_KERNEL_JACOBI + logarithm;
    }
    return cuda_eigh_launch(g, kernel, plan->op->a.dtype, gram_ceil_div(plan->call.items, each), 1,
                            &call);
}

static bool takes_three(const struct gram_eigh_op *op)
{
    return op->a.rows <= 3;
}

bool cuda_eigh_is_small(int64_t n)
{
    return n <= EIGH_LANES;
}

static bool takes_small(const struct gram_eigh_op *op)
{
    return cuda_eigh_is_small(op->a.rows);
}

static const struct cuda_eigh_driver closed_form = {"the closed form", takes_three, run_small};
static const struct cuda_eigh_driver jacobi = {"Jacobi", takes_small, run_small};

/* ---- The choice of a driver ------------------------------------------------------------------ */

static const struct cuda_eigh_driver *const drivers[] = {
    [GRAM_EIGH_DRIVER_CLOSED_FORM] = &closed_form,
    [GRAM_EIGH_DRIVER_JACOBI] = &jacobi,
    [GRAM_EIGH_DRIVER_DIVIDE] = &cuda_eigh_divide,
    [GRAM_EIGH_DRIVER_BISECTION] = &cuda_eigh_bisection,
    [GRAM_EIGH_DRIVER_KRYLOV] = &cuda_eigh_krylov,
    [GRAM_EIGH_DRIVER_BATCHED] = &cuda_eigh_batched,
};

/* Milliseconds on an H200 (f32; f64 is alike), XsyevBatched against Xsyevd one after the other:
 * 32 of 512 22.6, 148; 4 of 1024 69, 42; 8 of 1024 69, 84; 4 of 2048 224, 98. */
static bool worth_batching(int64_t n, int64_t items)
{
    if (items == 1)
        return n <= BATCHED_ALONE;
    return n <= BATCHED_PAIR || (items >= 4 + n / BATCHED_SHARE && n <= CUDA_EIGH_BATCHED_MOST);
}

/* Whether a driver does what is asked; it may come from a file, and is not taken on trust. */
static bool takes(const struct gram_eigh_op *op, gram_eigh_driver driver)
{
    return driver > GRAM_EIGH_DRIVER_AUTO && (size_t)driver < sizeof drivers / sizeof *drivers &&
           drivers[driver]->takes(op);
}

static gram_eigh_driver fastest(const struct gram_eigh_op *op)
{
    int64_t n = op->a.rows;

    if (takes(op, op->tuned)) /* it was measured to be the fastest */
        return op->tuned;
    if (n > 0 && n <= 3)
        return GRAM_EIGH_DRIVER_CLOSED_FORM;
    if (cuda_eigh_is_small(n))
        return GRAM_EIGH_DRIVER_JACOBI;
    if (gram_krylov_pays(op) && !op->background && takes(op, GRAM_EIGH_DRIVER_KRYLOV))
        return GRAM_EIGH_DRIVER_KRYLOV;
    if (worth_batching(n, op->batch.count))
        return GRAM_EIGH_DRIVER_BATCHED;
    return !op->by_value && op->count <= n / 2 ? GRAM_EIGH_DRIVER_BISECTION
                                               : GRAM_EIGH_DRIVER_DIVIDE;
}

/* The op for the device: the triangle that is read becomes the lower one. */
static void describe(const struct gram_eigh_op *op, struct eigh_call *c)
{
    *c = (struct eigh_call){
        .ndim = op->batch.ndim,
        .items = op->batch.count,
        .a = cuda_given_view(&op->a, true),
        .values = cuda_given_view(&op->values, true),
        .vectors = cuda_given_view(&op->vectors, op->has_vectors),
        .info = cuda_given_view(&op->info, op->has_info),
        .found = cuda_given_view(&op->found, op->has_found),
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
    // NOLINTBEGIN(clang-analyzer-core.NullDereference): the front checks drivers
    if (!takes(op, plan->driver))
        return gram_fail(g, GRAM_UNSUPPORTED, "%s cannot be used for a matrix of order %lld",
                         drivers[plan->driver]->name, (long long)op->a.rows);
    // NOLINTEND(clang-analyzer-core.NullDereference)
    if (op->report)
        op->report->driver = plan->driver;
    if (op->a.rows == 0) /* it does nothing but write info */
        plan->driver = GRAM_EIGH_DRIVER_JACOBI;
    describe(op, &plan->call);
    return GRAM_OK;
}

/* ---- Entry points ---------------------------------------------------------------------------- */

static gram_status check_pointers(gram_context *g, const struct gram_eigh_op *op)
{
    if (op->product)
        TRY(cuda_cdist_check(g, &op->product->kernel));
    TRY(gram_cuda_check_pointer(g, "a", &op->a));
    TRY(gram_cuda_check_pointer(g, "values", &op->values));
    if (op->has_vectors)
        TRY(gram_cuda_check_pointer(g, "vectors", &op->vectors));
    if (op->has_info)
        TRY(gram_cuda_check_pointer(g, "info", &op->info));
    return op->has_found ? gram_cuda_check_pointer(g, "options.found", &op->found) : GRAM_OK;
}

static gram_status run_call(gram_context *g, const void *work)
{
    const struct gram_eigh_op *op = work;
    struct cuda_eigh_plan plan;
    gram_status status;
    bool entered;

    TRY(cuda_eigh_plan(g, op, &plan));
    TRY(check_pointers(g, op));
    entered = gram_cuda_enter(g->device);
    status = drivers[plan.driver]->run(g, &plan);
    gram_cuda_leave(g->device, entered);
    return status;
}

/* The kernel whose matrix is wanted may have a metric, whose rows are made first. */
gram_status cuda_eigh(gram_context *g, const struct gram_eigh_op *op)
{
    struct cuda_eigh_plan plan;
    struct gram_eigh_op rows = *op;
    struct gram_kernel_matmul_op product;

    if (op->batch.count == 0)
        return cuda_eigh_plan(g, op, &plan); /* the report, and errors */
    if (!op->product)
        return run_call(g, op);
    product = *op->product;
    rows.product = &product;
    return cuda_metric_call(g, &product.kernel, run_call, &rows);
}

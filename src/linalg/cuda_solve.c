/*
 * cuda_solve.c - Cholesky and LU on the device: small matrices in one launch, others by cuSOLVER
 *
 * Nothing waits: what became of an item is in info, and its x is NaN if the factorisation failed.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_solve.h"
#include "core/scratch.h"
#include "cuda/arena.h"

enum {
    FEW = 4,                /* matrices that cuSOLVER takes one after the other where both can */
    MANY = 16,              /* that are quicker side by side though they lie in scratch */
    MOST_IN_SCRATCH = 512,  /* order of these */
    BLOCKS_A_PROCESSOR = 4, /* of solve_small: as many as its shared memory allows */
    MOST_BLOCKS_Y = 65535,
};

size_t cuda_solve_most_shared(int arch)
{
    size_t kib = arch == 80 || arch == 87 ? 163 : arch >= 90 && arch < 120 ? 227 : 99;

    return kib << 10;
}

void cuda_solve_variant(int kernel, bool lu, gram_dtype dtype, struct cuda_variant *v)
{
    static const struct cuda_kernel kernels[] = {
        [SOLVE_SMALL] = {"solve_small.cu",   "solve_small"},
        [SOLVE_COPY] = {"solve_large.cu",    "solve_copy"},
        [SOLVE_VERDICT] = {"solve_large.cu", "solve_verdict"},
        [SOLVE_SCAN] = {"solve_large.cu",    "solve_scan"},
    };

    cuda_variant(v, &kernels[kernel], CUDA_OPTIONS({"REAL", cuda_type(dtype)}, {"LU", lu}));
    if (kernel != SOLVE_SMALL)
        cuda_option(v, "KERNEL", kernel);
}

/* Bytes of a small matrix, and whether it fits a block's shared memory with all else. */
static size_t matrix_bytes(const struct cuda_solve_plan *plan)
{
    const size_t n = (size_t)plan->op->a.rows;

    return SOLVE_SMALL_MATRIX(n, gram_dtype_size(plan->op->a.dtype));
}

static bool fits(const struct cuda_device *device, const struct cuda_solve_plan *plan)
{
    const size_t n = (size_t)plan->op->a.rows, most = cuda_solve_most_shared(device->arch);

    return matrix_bytes(plan) + SOLVE_SMALL_REST(n, gram_dtype_size(plan->op->a.dtype)) <= most;
}

static size_t small_bytes(const struct cuda_device *device, const struct cuda_solve_plan *plan)
{
    const size_t n = (size_t)plan->op->a.rows;

    return SOLVE_SMALL_REST(n, gram_dtype_size(plan->op->a.dtype)) +
           (fits(device, plan) ? matrix_bytes(plan) : 0);
}

gram_status cuda_solve_launch(gram_context *g, const struct cuda_solve_plan *plan, int kernel,
                              void *params, const unsigned blocks[2])
{
    const bool small = kernel == SOLVE_SMALL;
    const struct cuda_grid grid = {
        .blocks = blocks[0],
        .blocks_y = blocks[1],
        .threads = small ? (unsigned)SOLVE_SMALL_THREADS(plan->op->a.rows) : SOLVE_THREADS,
        .shared = small ? small_bytes(g->device, plan) : 0,
    };
    struct cuda_variant v;

    cuda_solve_variant(kernel, plan->lu, plan->op->a.dtype, &v);
    return cuda_launch(g, &v, &grid, (void *[]){params});
}

/* ---- Small matrices -------------------------------------------------------------------------- */

/* What fits a block's shared memory, or many that do not; few are as quick in cuSOLVER. */
static bool is_small(const gram_context *g, const struct cuda_solve_plan *plan)
{
    const struct cuda_device *device = g->device;
    const int64_t n = plan->op->a.rows;

    return n <= SOLVE_MOST || (plan->own.count >= MANY && n <= MOST_IN_SCRATCH) ||
           (plan->own.count >= FEW && n <= MOST_IN_SCRATCH && fits(device, plan));
}

static unsigned at_most(int64_t count, int64_t most)
{
    return (unsigned)(count < 1 ? 1 : count < most ? count : most);
}

/* Blocks whose matrices lie in scratch; 0: in shared memory. */
static int64_t scratch_blocks(const struct cuda_device *device, const struct cuda_solve_plan *plan)
{
    if (fits(device, plan))
        return 0;
    return gram_least(plan->own.count, (int64_t)device->processors * BLOCKS_A_PROCESSOR);
}

/* Groups of right-hand sides of one matrix go to several blocks where matrices alone do not fill
 * the device.  Each of them factorises: not over a matrix that another one still has to read. */
static gram_status solve_small(gram_context *g, const struct cuda_solve_plan *plan)
{
    const struct gram_solve_op *op = plan->op;
    const struct cuda_device *device = g->device;
    int64_t groups = gram_ceil_div(op->x.cols, SOLVE_WIDTH) * plan->shared.count;
    int64_t room = (int64_t)device->processors * BLOCKS_A_PROCESSOR / plan->own.count;
    int64_t outside = scratch_blocks(device, plan);
    unsigned blocks[2] = {at_most(plan->own.count, INT32_MAX), at_most(groups, MOST_BLOCKS_Y)};
    struct solve_small_params params = {
        .items = plan->items,
        .a = cuda_given_view(&op->a, true),
        .b = cuda_given_view(&op->b, true),
        .x = cuda_given_view(&op->x, true),
        .factor = cuda_given_view(&op->factor, op->has_factor),
        .pivots = cuda_given_view(&op->pivots, op->has_pivots),
        .info = cuda_given_view(&op->info, op->has_info),
        .n = op->a.rows,
        .columns = op->x.cols,
        .flip = plan->lu ? gram_solve_layout(op->has_factor ? &op->factor : &op->a).row_major
                         : op->uplo == GRAM_UPPER,
        .factored = op->factored,
    };

    struct gram_layout layout = {0};

    gram_take_many(&layout, &params.scratch, (size_t)outside, matrix_bytes(plan));
    TRY(gram_layout_open(g, &layout));
    if (blocks[1] > room)
        blocks[1] = at_most(room, MOST_BLOCKS_Y);
    if (outside > 0)
        blocks[0] = (unsigned)outside, blocks[1] = 1;
    if (blocks[1] > 1 && op->has_factor && op->factor_is_a) {
        params.columns = 0;
        TRY(cuda_solve_launch(g, plan, SOLVE_SMALL, &params, (unsigned[2]){blocks[0], 1}));
        params.columns = op->x.cols;
        params.factor.data = NULL;
        params.factored = true;
    }
    return cuda_solve_launch(g, plan, SOLVE_SMALL, &params, blocks);
}

/* ---- Entry points ---------------------------------------------------------------------------- */

static void make_plan(const struct gram_solve_op *op, bool lu, struct cuda_solve_plan *plan)
{
    *plan = (struct cuda_solve_plan){.op = op, .lu = lu};
    gram_solve_split(op, &plan->own, &plan->shared);
    plan->items.ndim = op->batch.ndim;
    plan->items.own = plan->own.count;
    plan->items.shared = plan->shared.count;
    for (int d = 0; d < op->batch.ndim; d++) {
        plan->items.own_shape[d] = plan->own.shape[d];
        plan->items.shared_shape[d] = plan->shared.shape[d];
    }
}

static gram_status check_pointers(gram_context *g, const struct gram_solve_op *op)
{
    TRY(gram_cuda_check_pointer(g, "a", &op->a));
    TRY(gram_cuda_check_pointer(g, "b", &op->b));
    TRY(gram_cuda_check_pointer(g, "x", &op->x));
    if (op->has_info)
        TRY(gram_cuda_check_pointer(g, "info", &op->info));
    if (op->has_pivots)
        TRY(gram_cuda_check_pointer(g, "options.pivots", &op->pivots));
    if (op->has_rcond)
        TRY(gram_cuda_check_pointer(g, "options.rcond", &op->rcond));
    if (op->has_jittered)
        TRY(gram_cuda_check_pointer(g, "options.jittered", &op->jittered));
    if (op->has_backward)
        TRY(gram_cuda_check_pointer(g, "options.backward", &op->backward));
    if (op->has_refinings)
        TRY(gram_cuda_check_pointer(g, "options.refinings", &op->refinings));
    return op->has_factor ? gram_cuda_check_pointer(g, "options.factor", &op->factor) : GRAM_OK;
}

static gram_status run(gram_context *g, const struct gram_solve_op *op, bool lu)
{
    struct cuda_solve_plan plan;
    gram_status status;
    bool entered;

    make_plan(op, lu, &plan);
    if (plan.own.count == 0)
        return GRAM_OK;
    TRY(check_pointers(g, op));
    entered = gram_cuda_enter(g->device);
    if (cuda_solve_has_options(&plan))
        status = cuda_solve_options(g, &plan);
    else
        status = is_small(g, &plan) ? solve_small(g, &plan) : cuda_solve_large(g, &plan);
    gram_cuda_leave(g->device, entered);
    return status;
}

gram_status cuda_solve_cholesky(gram_context *g, const struct gram_solve_op *op)
{
    return run(g, op, false);
}

gram_status cuda_solve_lu(gram_context *g, const struct gram_solve_op *op)
{
    return run(g, op, true);
}

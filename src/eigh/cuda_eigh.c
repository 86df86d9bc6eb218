/*
 * cuda_eigh.c - symmetric eigenproblems on the device: the entry, launches of kernels
 *
 * Small matrices are done by kernels of ours in one launch (eigh_small.cu, eigh_jacobi.cu), others
 * by cuSOLVER (cuda_eigh_large.c); what became of an item is in info alone, and nothing waits for
 * it.  Few pairs of a large matrix come from cuda_eigh_krylov.c.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_eigh.h"
#include "cuda/arena.h"
#include <stdio.h>

_Static_assert(SOLVE_DIMS == GRAM_MAX_DIMS, "solve_params.h repeats a number of gram.h");

enum {
    MOST_BLOCKS = 1 << 20, /* beyond these, blocks loop */
    MOST_BLOCKS_Y = 65535,
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

static gram_status run_small(gram_context *g, struct cuda_eigh_plan *plan)
{
    int64_t n = plan->call.n, each = EIGH_THREADS;
    int kernel = EIGH_KERNEL_SMALL + (int)n;

    if (plan->driver == GRAM_EIGH_DRIVER_JACOBI) {
        int logarithm = n <= 8 ? 3 : n <= 16 ? 4 : 5;
        each = EIGH_LANES >> logarithm;
        kernel = EIGH_KERNEL_JACOBI + logarithm;
    }
    return cuda_eigh_launch(g, kernel, plan->op->a.dtype, gram_ceil_div(plan->call.items, each), 1,
                            &plan->call);
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

static bool is_small(const struct cuda_eigh_plan *plan)
{
    return plan->driver == GRAM_EIGH_DRIVER_CLOSED_FORM || plan->driver == GRAM_EIGH_DRIVER_JACOBI;
}

gram_status cuda_eigh(gram_context *g, const struct gram_eigh_op *op)
{
    struct cuda_eigh_plan plan;
    gram_status status;
    bool entered;

    TRY(cuda_eigh_plan(g, op, &plan));
    if (op->batch.count == 0)
        return GRAM_OK;
    TRY(check_pointers(g, op));
    entered = gram_cuda_enter(g->device);
    if (is_small(&plan))
        status = run_small(g, &plan);
    else if (plan.driver == GRAM_EIGH_DRIVER_KRYLOV)
        status = cuda_eigh_krylov(g, &plan);
    else
        status = cuda_eigh_large(g, &plan);
    gram_cuda_leave(g->device, entered);
    return status;
}

gram_status cuda_eigh_workspace(gram_context *g, const struct gram_eigh_op *op, size_t *bytes)
{
    struct cuda_eigh_plan plan;
    gram_status status;
    bool entered;

    *bytes = 0;
    TRY(cuda_eigh_plan(g, op, &plan));
    if (op->batch.count == 0 || is_small(&plan))
        return GRAM_OK;
    entered = gram_cuda_enter(g->device);
    status = plan.driver == GRAM_EIGH_DRIVER_KRYLOV ? cuda_eigh_krylov_bytes(g, &plan, bytes)
                                                    : cuda_eigh_large_bytes(g, &plan, bytes);
    gram_cuda_leave(g->device, entered);
    return status;
}

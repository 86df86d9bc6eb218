/*
 * cuda.c - the CUDA backend's table: what it offers
 *
 * SPDX-License-Identifier: MIT
 */
#include "arena.h"
#include "core/process.h"
#include "core/scratch.h"
#include "core/tuned.h"
#include "cublas.h"
#include "cuda_ops.h"
#include "cusolver.h"
#include "layers/cuda_kfac.h"
#include <string.h>

/* Opening NVRTC and SQLite takes some milliseconds, which the first call need not wait for. */
static gram_status open_libraries(gram_context *g)
{
    const char *why;

    if (!gram_cuda_compiler(g, &why))
        return gram_fail(g, GRAM_UNSUPPORTED, "no CUDA device: %s", why);
    (void)gram_tuned_any(g);
    return GRAM_OK;
}

static gram_status open_device(gram_context *g)
{
    struct cuda_device *device = gram_alloc(g, sizeof *device);

    if (!device)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", sizeof *device);
    memset(device, 0, sizeof *device);
    g->device = device;
    TRY(gram_cuda_device_open(g, device));
    return open_libraries(g);
}

static void close_device(gram_context *g)
{
    struct cuda_device *device = g->device;

    if (!device || gram_process_is_child(g)) /* what is there is the parent's */
        return;
    gram_cuda_background_close(g, device);
    gram_jit_forget(g, device);
    cuda_forget_kernels(g, device);
    cuda_kron_forget(g, device);
    gram_cuda_blas_close(g, device);
    gram_cuda_multi_close(g, device);
    gram_cuda_solver_close(g, device);
    gram_cuda_arena_close(g, device);
    gram_cuda_device_close(device);
    gram_free(g, device, sizeof *device);
    g->device = NULL;
}

static uint64_t machine(const gram_context *g)
{
    const struct cuda_device *device = g->device;

    return (uint64_t)device->arch;
}

static gram_status synchronize(gram_context *g)
{
    const struct cuda_device *device = g->device;
    gram_status joined = gram_cuda_joined(g);
    bool entered = gram_cuda_enter(device);
    CUresult result = device->driver->stream_synchronize(device->stream);

    gram_cuda_leave(device, entered);
    TRY(gram_cuda_check(g, device->driver, result, "cuStreamSynchronize"));
    return joined;
}

static gram_status scratch(gram_context *g, size_t bytes, void **out)
{
    bool entered = gram_cuda_enter(g->device);
    gram_status status = gram_cuda_scratch(g, bytes, out);

    gram_cuda_leave(g->device, entered);
    return status;
}

static void scratch_lend(gram_context *g, void *memory, size_t bytes,
                         struct gram_scratch_before *before)
{
    struct cuda_borrowed outer;

    gram_cuda_scratch_begin(g, memory, bytes, &outer);
    *before = (struct gram_scratch_before){.memory = outer.given, .bytes = outer.bytes};
}

static void scratch_return(gram_context *g, const struct gram_scratch_before *before)
{
    const struct cuda_borrowed outer = {.given = before->memory, .bytes = before->bytes};

    gram_cuda_scratch_end(g, &outer);
}

GRAM_PUBLIC extern const struct gram_backend gram_cuda_backend;

const struct gram_backend gram_cuda_backend = {
    .version = GRAM_VERSION,
    .name = "the CUDA backend",
    .open = open_device,
    .describe = cuda_describe,
    .machine = machine,
    .close = close_device,
    .synchronize = synchronize,
    .use_workspace = gram_cuda_use_workspace,
    .memory_allocate = cuda_memory_allocate,
    .memory_free = cuda_memory_free,
    .memory_zero = cuda_memory_zero,
    .memory_copy = cuda_memory_copy,
    .release_scratch = gram_cuda_scratch_release,
    .scratch = scratch,
    .scratch_lend = scratch_lend,
    .scratch_return = scratch_return,
    .check_pointer = gram_cuda_check_pointer,
    .devices = gram_cuda_count,
    .cache_info = gram_jit_cache_info,
    .cache_list = gram_jit_cache_list,
    .cache_clear = gram_jit_cache_clear,
    .cache_warm = cuda_warm,
    .tune = cuda_tune,
    .tune_kron = cuda_tune_kron,
    .module_compile = cuda_module_compile,
    .module_launch = cuda_module_launch,
    .module_destroy = cuda_module_destroy,
    .cdist_workspace = cuda_cdist_workspace,
    .cdist_grad_workspace = cuda_cdist_grad_workspace,
    .median_workspace = cuda_median_workspace,
    .kernel_matmul_workspace = cuda_kernel_matmul_workspace,
    .kernel_vjp_workspace = cuda_kernel_vjp_workspace,
    .agop_workspace = cuda_agop_workspace,
    .solve_cholesky_workspace = cuda_solve_cholesky_workspace,
    .solve_lu_workspace = cuda_solve_lu_workspace,
    .matmul_batched_workspace = cuda_matmul_batched_workspace,
    .kfac_factors_workspace = cuda_kfac_factors_workspace,
    .natural_gradient_workspace = cuda_natural_gradient_workspace,
    .matmul_chunked_workspace = cuda_matmul_chunked_workspace,
    .sample_grad_workspace = cuda_sample_grad_workspace,
    .eigh_workspace = cuda_eigh_workspace,
    .eigh_wait = gram_cuda_joined,
    .eigh_multi_workspace = cuda_eigh_multi_workspace,
    .eigh_multi_solve = cuda_eigh_multi_solve,
    .eigh_multi_store = cuda_eigh_multi_store,
    .optimizer_workspace = cuda_optimizer_workspace,
    .optimizer_open = cuda_optimizer_open,
    .optimizer_close = cuda_optimizer_close,
    .kron_workspace = cuda_kron_workspace,
    .kron_matmul_vjp_workspace = cuda_kron_matmul_vjp_workspace,
    .kron_logdet_workspace = cuda_kron_logdet_workspace,
    .kron_solve_workspace = cuda_kron_solve_workspace,
    .kron_matmul_workspace = cuda_kron_matmul_workspace,
    .matrix_power_workspace = cuda_matrix_power_workspace,
#define GRAM_OP(name, op, devices) .name = cuda_##name,
#include "core/ops.def"
};

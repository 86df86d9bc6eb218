/*
 * cuda.c - the CUDA backend: the device of a context, its memory, and the table of what it offers
 *
 * SPDX-License-Identifier: MIT
 */
#include "arena.h"
#include "core/database.h"
#include "core/process.h"
#include "core/scratch.h"
#include "cublas.h"
#include "cuda_ops.h"
#include "cusolver.h"
#include "krr/krr_passes.h"
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

/* The device is noted in the context before it is opened, so that close_device frees what a failure
 * leaves. */
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

/* Closes in the order of dependence: what runs in the background first, the driver's context last.
 */
static void close_device(gram_context *g)
{
    struct cuda_device *device = g->device;

    if (!device || gram_process_is_child(g)) /* what is there is the parent's */
        return;
    gram_cuda_background_close(g, device);
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

/* What is tuned holds for all GPUs of a chip. */
static uint64_t machine(const gram_context *g)
{
    const struct cuda_device *device = g->device;

    return (uint64_t)device->arch;
}

/* Waits for the stream even where a call in the background has failed, whose status comes after. */
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

/* ---- Memory of the device -------------------------------------------------------------------- */

/* Memory comes from the device's pool in the order of the stream: no call waits for the device. */
static gram_status memory_allocate(gram_context *g, size_t bytes, void **out)
{
    const struct cuda_device *device = g->device;
    bool entered = gram_cuda_enter(device);
    CUdeviceptr address = 0;
    size_t free_bytes = 0, total = 0;
    CUresult result = device->driver->memory_allocate_async(&address, bytes, device->stream);

    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        (void)device->driver->memory_info(&free_bytes, &total);
    gram_cuda_leave(device, entered);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return gram_fail(g, GRAM_OUT_OF_MEMORY,
                         "cannot allocate %zu bytes on CUDA device %d: %zu of its %zu bytes are "
                         "free",
                         bytes, device->index, free_bytes, total);
    *out = (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr)
    return gram_cuda_check(g, device->driver, result, "cuMemAllocAsync");
}

static void memory_free(gram_context *g, void *memory)
{
    const struct cuda_device *device = g->device;
    bool entered;

    if (gram_process_is_child(g)) /* it is the parent's */
        return;
    entered = gram_cuda_enter(device);
    (void)device->driver->memory_free_async((CUdeviceptr)(uintptr_t)memory, device->stream);
    gram_cuda_leave(device, entered);
}

gram_status cuda_memory_set_bytes(gram_context *g, void *memory, unsigned char byte, size_t bytes)
{
    const struct cuda_device *device = g->device;
    bool entered = gram_cuda_enter(device);
    CUresult result =
        device->driver->memory_set((CUdeviceptr)(uintptr_t)memory, byte, bytes, device->stream);

    gram_cuda_leave(device, entered);
    return gram_cuda_check(g, device->driver, result, "cuMemsetD8Async");
}

gram_status cuda_memory_zero(gram_context *g, void *memory, size_t bytes)
{
    return cuda_memory_set_bytes(g, memory, 0, bytes);
}

/* The device whose memory it is; -1: of the CPU, or unknown. */
static int device_of(const struct cuda_driver *driver, CUdeviceptr memory)
{
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    unsigned type = 0;
    int ordinal = -1;
    void *values[] = {&type, &ordinal};

    return driver->pointer_attributes(2, which, values, memory) == CUDA_SUCCESS &&
                   type == CU_MEMORYTYPE_DEVICE
               ? ordinal
               : -1;
}

/* Memory of another device's pool cannot be copied from here until that pool lets this device in;
 * where devices cannot reach each other, through their contexts. */
static CUresult copy_between(const struct cuda_device *device, CUdeviceptr to, CUdeviceptr from,
                             size_t bytes)
{
    const struct cuda_driver *driver = device->driver;
    const int ends[] = {device_of(driver, to), device_of(driver, from)};
    CUdevice id[2], mine;
    CUcontext context[2];
    CUmemoryPool pool;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    int possible = 0;

    if (ends[0] < 0 || ends[1] < 0 || driver->device_get(&mine, device->index) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < 2; i++) {
        const CUmemAccessDesc access = {
            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->index},
            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        if (driver->device_get(&id[i], ends[i]) != CUDA_SUCCESS)
            return CUDA_ERROR_INVALID_VALUE;
        if (ends[i] != device->index &&
            driver->peer_possible(&possible, mine, id[i]) == CUDA_SUCCESS && possible &&
            driver->device_pool(&pool, id[i]) == CUDA_SUCCESS)
            (void)driver->pool_access(pool, &access, 1);
    }
    if (possible)
        result = driver->memory_copy(to, from, bytes, device->stream);
    if (result == CUDA_SUCCESS || driver->context_retain(&context[0], id[0]) != CUDA_SUCCESS)
        return result;
    if (driver->context_retain(&context[1], id[1]) == CUDA_SUCCESS) {
        result = driver->memory_copy_peer(to, context[0], from, context[1], bytes, device->stream);
        (void)driver->context_release(id[1]);
    }
    (void)driver->context_release(id[0]);
    return result;
}

/* The driver finds out itself whether the ends are on the host or on a device.  Only memory of
 * another device's pool makes it refuse. */
gram_status cuda_memory_copy(gram_context *g, void *to, const void *from, size_t bytes)
{
    const struct cuda_device *device = g->device;
    const CUdeviceptr target = (CUdeviceptr)(uintptr_t)to, source = (CUdeviceptr)(uintptr_t)from;
    bool entered = gram_cuda_enter(device);
    CUresult result = device->driver->memory_copy(target, source, bytes, device->stream);

    if (result == CUDA_ERROR_INVALID_VALUE)
        result = copy_between(device, target, source, bytes);
    gram_cuda_leave(device, entered);
    return gram_cuda_check(g, device->driver, result, "cuMemcpyAsync");
}

static void describe(const gram_context *g, gram_info *info)
{
    const struct cuda_device *device = g->device;
    bool entered = gram_cuda_enter(device);
    size_t free_bytes = 0, total = 0;

    (void)device->driver->memory_info(&free_bytes, &total);
    gram_cuda_leave(device, entered);
    info->device_name = device->name;
    info->device_memory_total = (int64_t)total;
    info->device_memory_available = (int64_t)free_bytes;
}

/* ---- The table ------------------------------------------------------------------------------- */

GRAM_PUBLIC extern const struct gram_backend gram_cuda_backend;

const struct gram_backend gram_cuda_backend = {
    .version = GRAM_VERSION,
    .name = "the CUDA backend",
    .open = open_device,
    .describe = describe,
    .machine = machine,
    .close = close_device,
    .synchronize = synchronize,
    .use_workspace = gram_cuda_use_workspace,
    .memory_allocate = memory_allocate,
    .memory_free = memory_free,
    .memory_zero = cuda_memory_zero,
    .memory_copy = cuda_memory_copy,
    .release_scratch = gram_cuda_scratch_release,
    .scratch = scratch,
    .scratch_lend = scratch_lend,
    .scratch_return = scratch_return,
    .check_pointer = gram_cuda_check_pointer,
    .krr = &cuda_krr_passes,
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
    .eigh_wait = gram_cuda_joined,
    .eigh_multi_workspace = cuda_eigh_multi_workspace,
    .eigh_multi_solve = cuda_eigh_multi_solve,
    .eigh_multi_store = cuda_eigh_multi_store,
    .optimizer_open = cuda_optimizer_open,
    .optimizer_close = cuda_optimizer_close,
#define GRAM_OP(name, op, devices) .name = cuda_##name,
#include "core/ops.def"
};

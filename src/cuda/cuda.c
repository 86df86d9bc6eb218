/*
 * cuda.c - the CUDA backend: the device of a context, its memory, the caller's modules, the table
 *
 * The device itself is not ours: the primary context of the driver is shared with everybody in the
 * process.  So each service makes it current while it calls the driver, and leaves what was current
 * before as it was.  Services queue on the stream of the context; only synchronize waits.
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
#include <stdlib.h>
#include <string.h>

enum {
    KERNELS = 8, /* of a module that are found by their name without the driver */
    SHARED_WITHOUT_ASKING = 48 << 10 /* dynamic shared memory that every kernel may take */
};

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

/* Growing allocates, for which the device has to be current. */
static gram_status scratch(gram_context *g, size_t bytes, void **out)
{
    bool entered = gram_cuda_enter(g->device);
    gram_status status = gram_cuda_scratch(g, bytes, out);

    gram_cuda_leave(g->device, entered);
    return status;
}

/* The arena hands out the lent piece as if the caller had given it. */
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

/* It is freed in the order of the stream, so that what is queued may still use it. */
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

/* Like a copy it is only queued. */
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

/* The free memory is that of the moment, of all processes. */
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

/* ---- The caller's own device code ------------------------------------------------------------ */

/* It is compiled like ours, and its machine code comes through the same cache; its modules are the
 * caller's, and are unloaded. */

struct module_kernel {
    char name[GRAM_KERNEL_NAME_BYTES]; /* "": free */
    CUfunction function;
    size_t shared_bytes; /* that it may take */
};

struct cuda_module {
    struct gram_module base;
    CUmodule module;
    struct module_kernel kernels[KERNELS];
    unsigned next; /* the place that the next new name takes */
};

/* A stream that is being captured forbids what loading does, unless the thread says otherwise. */
static CUresult load_module(const struct cuda_driver *driver, const struct jit_code *code,
                            CUmodule *out)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUresult result;

    (void)driver->capture_mode(&mode);
    result = driver->module_load(out, code->bytes);
    (void)driver->capture_mode(&mode);
    return result;
}

static gram_status compile_module(gram_context *g, const struct gram_module_op *op,
                                  struct cuda_module *to)
{
    const struct cuda_device *device = g->device;
    const struct jit_request request = {
        .file = op->name, .defines = op->options, .own = {.name = op->name, .text = op->source}
    };
    struct jit_code code = {0};
    gram_status status = gram_jit_code(g, device, &request, &code);

    if (status == GRAM_OK)
        status = gram_cuda_check(g, device->driver, load_module(device->driver, &code, &to->module),
                                 "cuModuleLoadData");
    free(code.bytes);
    return status;
}

static gram_status module_compile(gram_context *g, const struct gram_module_op *op,
                                  struct gram_module **out)
{
    struct cuda_module *module = gram_alloc(g, sizeof *module);
    gram_status status;
    bool entered;

    if (!module)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", sizeof *module);
    memset(module, 0, sizeof *module);
    module->base.g = g;
    entered = gram_cuda_enter(g->device);
    status = compile_module(g, op, module);
    gram_cuda_leave(g->device, entered);
    if (status == GRAM_OK)
        *out = &module->base;
    else
        gram_free(g, module, sizeof *module);
    return status;
}

static gram_status find_kernel(struct cuda_module *module, const char *name,
                               struct module_kernel **out)
{
    gram_context *g = module->base.g;
    const struct cuda_driver *driver = ((struct cuda_device *)g->device)->driver;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    struct module_kernel *kernel;
    CUfunction function;
    CUresult result;

    for (int i = 0; i < KERNELS; i++)
        if (strcmp(module->kernels[i].name, name) == 0 && *name) {
            *out = &module->kernels[i];
            return GRAM_OK;
        }
    (void)driver->capture_mode(&mode);
    result = driver->module_function(&function, module->module, name);
    (void)driver->capture_mode(&mode);
    if (result == CUDA_ERROR_NOT_FOUND)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "kernel is \"%.100s\", expected a function of the module that is "
                         "declared extern \"C\" __global__",
                         name);
    TRY(gram_cuda_check(g, driver, result, "cuModuleGetFunction"));
    kernel = &module->kernels[module->next++ % KERNELS];
    strcpy(kernel->name, name); // NOLINT(clang-analyzer-security.insecureAPI.strcpy): checked
    kernel->function = function;
    kernel->shared_bytes = SHARED_WITHOUT_ASKING;
    *out = kernel;
    return GRAM_OK;
}

static gram_status launch_kernel(struct cuda_module *module, const struct gram_launch_op *op)
{
    gram_context *g = module->base.g;
    const struct cuda_device *device = g->device;
    const struct cuda_driver *driver = device->driver;
    const struct cuda_grid grid = {.blocks = op->grid[0],
                                   .blocks_y = op->grid[1],
                                   .blocks_z = op->grid[2],
                                   .threads = op->block[0],
                                   .threads_y = op->block[1],
                                   .threads_z = op->block[2],
                                   .shared = op->shared_bytes};
    struct module_kernel *kernel;

    TRY(find_kernel(module, op->kernel, &kernel));
    if (op->shared_bytes > kernel->shared_bytes) {
        if (op->shared_bytes > INT32_MAX ||
            driver->function_set(kernel->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                 (int)op->shared_bytes) != CUDA_SUCCESS)
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "shared_bytes is %zu, which is more than CUDA device %d has for this "
                             "kernel",
                             op->shared_bytes, device->index);
        kernel->shared_bytes = op->shared_bytes;
    }
    return cuda_launch_function(g, kernel->function, &grid, op->arguments);
}

static gram_status module_launch(struct gram_module *module, const struct gram_launch_op *op)
{
    const struct cuda_device *device = module->g->device;
    bool entered = gram_cuda_enter(device);
    gram_status status = launch_kernel((struct cuda_module *)module, op);

    gram_cuda_leave(device, entered);
    return status;
}

static void module_destroy(struct gram_module *module)
{
    struct cuda_module *it = (struct cuda_module *)module;
    gram_context *g = module->g;
    const struct cuda_device *device = g->device;
    bool entered = gram_cuda_enter(device);

    (void)device->driver->module_unload(it->module);
    gram_cuda_leave(device, entered);
    gram_free(g, it, sizeof *it);
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
    .module_compile = module_compile,
    .module_launch = module_launch,
    .module_destroy = module_destroy,
    .eigh_wait = gram_cuda_joined,
    .eigh_multi_workspace = cuda_eigh_multi_workspace,
    .eigh_multi_solve = cuda_eigh_multi_solve,
    .eigh_multi_store = cuda_eigh_multi_store,
    .optimizer_open = cuda_optimizer_open,
    .optimizer_close = cuda_optimizer_close,
#define GRAM_CUDA_BOTH(name) .name = cuda_##name,
#define GRAM_CUDA_CUDA(name) .name = cuda_##name,
#define GRAM_CUDA_CPU(name)
#define GRAM_OP(name, op, devices) GRAM_CUDA_##devices(name)
#include "core/ops.def"
#undef GRAM_CUDA_BOTH
#undef GRAM_CUDA_CUDA
#undef GRAM_CUDA_CPU
};

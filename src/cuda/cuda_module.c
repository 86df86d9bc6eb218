/*
 * cuda_module.c - the caller's own device code: compiled like ours, loaded, launched
 *
 * Its machine code comes through the same cache; its modules are the caller's, and are unloaded.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_ops.h"
#include <stdlib.h>
#include <string.h>

enum {
    KERNELS = 8, /* of a module that are found by their name without the driver */
    SHARED_WITHOUT_ASKING = 48 << 10 /* dynamic shared memory that every kernel may take */
};

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
static CUresult load(const struct cuda_driver *driver, const struct jit_code *code, CUmodule *out)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUresult result;

    (void)driver->capture_mode(&mode);
    result = driver->module_load(out, code->bytes);
    (void)driver->capture_mode(&mode);
    return result;
}

static gram_status compile(gram_context *g, const struct gram_module_op *op, struct cuda_module *to)
{
    const struct cuda_device *device = g->device;
    const struct jit_request request = {
        .file = op->name, .defines = op->options, .own = {.name = op->name, .text = op->source}
    };
    struct jit_code code = {0};
    gram_status status = gram_jit_code(g, device, &request, &code);

    if (status == GRAM_OK)
        status = gram_cuda_check(g, device->driver, load(device->driver, &code, &to->module),
                                 "cuModuleLoadData");
    free(code.bytes);
    return status;
}

gram_status cuda_module_compile(gram_context *g, const struct gram_module_op *op,
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
    status = compile(g, op, module);
    gram_cuda_leave(g->device, entered);
    if (status == GRAM_OK)
        *out = &module->base;
    else
        gram_free(g, module, sizeof *module);
    return status;
}

static gram_status find(struct cuda_module *module, const char *name, struct module_kernel **out)
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

static gram_status launch(struct cuda_module *module, const struct gram_launch_op *op)
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

    TRY(find(module, op->kernel, &kernel));
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

gram_status cuda_module_launch(struct gram_module *module, const struct gram_launch_op *op)
{
    const struct cuda_device *device = module->g->device;
    bool entered = gram_cuda_enter(device);
    gram_status status = launch((struct cuda_module *)module, op);

    gram_cuda_leave(device, entered);
    return status;
}

void cuda_module_destroy(struct gram_module *module)
{
    struct cuda_module *it = (struct cuda_module *)module;
    gram_context *g = module->g;
    const struct cuda_device *device = g->device;
    bool entered = gram_cuda_enter(device);

    (void)device->driver->module_unload(it->module);
    gram_cuda_leave(device, entered);
    gram_free(g, it, sizeof *it);
}

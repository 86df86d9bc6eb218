/*
 * fake_module.c - modules, functions and launches
 *
 * A module is what fake_nvrtc.c made: a header with sizes, a shared object, and its defines.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/trace.h"
#include "fake_cubin.h"
#include "fake_driver.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct CUfunc_st {
    struct CUfunc_st *next;
    const struct CUmod_st *module;
    const struct fake_kernel *kernel;
    struct fake_device *device;
    int most_dynamic;
    char name[128];
};

struct CUmod_st {
    void *library;
    struct fake_device *device;
    struct CUfunc_st *functions;
    char *defines;
};

static void *open_bytes(const struct fake_cubin *cubin)
{
    int file = memfd_create("fake cubin", MFD_CLOEXEC);
    void *library = NULL;
    char path[64];

    if (file < 0)
        return NULL;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (write(file, cubin + 1, cubin->bytes) == (ssize_t)cubin->bytes)
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fprintf(stderr, "fake CUDA: a module does not load: %s\n", dlerror());
    /* The file stays open: its number is part of the name that dlopen knows the library by. */
    return library;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    const struct fake_cubin *cubin = image;
    struct CUmod_st *m;
    CUresult result;

    fake_lock();
    result = fake_usable();
    if (result == CUDA_SUCCESS)
        result = fake_capture_allows();
    fake_unlock();
    if (result != CUDA_SUCCESS)
        return result;
    if (memcmp(cubin->magic, FAKE_CUBIN_MAGIC, sizeof cubin->magic) != 0)
        return CUDA_ERROR_INVALID_IMAGE;
    m = fake_handle(sizeof *m);
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->library = open_bytes(cubin);
    m->device = m->library ? dlsym(m->library, "fake_device") : NULL;
    m->defines = strdup((const char *)(cubin + 1) + cubin->bytes);
    if (!m->device || !m->defines) {
        free(m->defines);
        free(m);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    *module = m;
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    fake_lock();
    (void)fake_drain_all();
    fake_unlock();
    while (module->functions) {
        struct CUfunc_st *gone = module->functions;
        module->functions = gone->next;
        free(gone);
    }
    (void)dlclose(module->library);
    free(module->defines);
    free(module);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    struct CUfunc_st *f = calloc(1, sizeof *f);
    char symbol[160];

    if (!f)
        return CUDA_ERROR_OUT_OF_MEMORY;
    snprintf(symbol, sizeof symbol, "fake_kernel_%s", name);
    snprintf(f->name, sizeof f->name, "%s", name);
    f->kernel = dlsym(module->library, symbol);
    f->device = module->device;
    f->module = module;
    f->most_dynamic = FAKE_SHARED;
    /* Without extern "C" the kernel has another name. */
    if (!f->kernel || !dlsym(module->library, name)) {
        free(f);
        return CUDA_ERROR_NOT_FOUND;
    }
    f->next = module->functions;
    module->functions = f;
    *function = f;
    return CUDA_SUCCESS;
}

static int static_shared(const struct CUfunc_st *f)
{
    return (int)(f->kernel->shared[0].end - f->kernel->shared[0].begin);
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute which, CUfunction f)
{
    switch ((int)which) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = f->kernel->most_threads ? f->kernel->most_threads : FAKE_MOST_THREADS;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = static_shared(f);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = f->most_dynamic;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
        *value = 0; /* nothing is known */
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = FAKE_ARCH;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute which, int value)
{
    if (which == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
        return CUDA_SUCCESS;
    if (which != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (value < 0 || value + static_shared(f) > FAKE_MOST_SHARED)
        return CUDA_ERROR_INVALID_VALUE;
    f->most_dynamic = value;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f, int threads,
                                                     size_t dynamic)
{
    size_t shared = dynamic + (size_t)static_shared(f) + 1024;

    *blocks = threads > 0 ? 2048 / threads : 0;
    if ((size_t)*blocks * shared > 228 * 1024)
        *blocks = (int)(228 * 1024 / shared);
    return CUDA_SUCCESS;
}

/* ---- Launches -------------------------------------------------------------------------------- */

/* Followed by the bytes of the arguments, each at a multiple of 16. */
struct launch {
    struct fake_work work;
    CUfunction function;
    struct fake_index grid, block;
    unsigned shared;
    bool early;
    _Alignas(16) char bytes[];
};

static size_t argument_bytes(const struct fake_kernel *kernel, int i)
{
    return ((size_t)kernel->bytes[i] + 15) / 16 * 16;
}

static void run(struct fake_work *work)
{
    struct launch *l = (struct launch *)work;
    const struct fake_kernel *kernel = l->function->kernel;
    void *arguments[64] = {0};
    size_t at = 0;

    for (int i = 0; i < kernel->arguments; i++) {
        arguments[i] = l->bytes + at;
        at += argument_bytes(kernel, i);
    }
    fake_run(&(struct fake_launch){.name = l->function->name,
                                   .kernel = kernel,
                                   .device = l->function->device,
                                   .grid = l->grid,
                                   .block = l->block,
                                   .shared = l->shared,
                                   .early = l->early,
                                   .arguments = arguments});
}

static bool is_launchable(const struct CUfunc_st *f, struct fake_index grid,
                          struct fake_index block, unsigned shared)
{
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    int most = f->kernel->most_threads ? f->kernel->most_threads : FAKE_MOST_THREADS;

    return threads > 0 && threads <= (uint64_t)most && block.z <= 64 && grid.x > 0 &&
           grid.x <= INT32_MAX && grid.y > 0 && grid.y <= 65535 && grid.z > 0 && grid.z <= 65535 &&
           shared <= (unsigned)f->most_dynamic && static_shared(f) <= FAKE_SHARED &&
           f->kernel->arguments <= 64;
}

static struct launch *make_launch(CUfunction f, void **arguments)
{
    size_t bytes = sizeof(struct launch), at = 0;
    struct launch *l;

    for (int i = 0; i < f->kernel->arguments; i++)
        bytes += argument_bytes(f->kernel, i);
    l = calloc(1, bytes);
    if (!l)
        return NULL;
    l->work = (struct fake_work){.run = run, .bytes = bytes};
    l->function = f;
    for (int i = 0; i < f->kernel->arguments; i++) {
        memcpy(l->bytes + at, arguments[i], f->kernel->bytes[i]);
        at += argument_bytes(f->kernel, i);
    }
    return l;
}

static void trace_launch(const struct launch *l)
{
    const struct CUfunc_st *f = l->function;
    size_t bytes = 0;

    for (int i = 0; i < f->kernel->arguments; i++)
        bytes += f->kernel->bytes[i];
    trace_line("launch %s grid=%u,%u,%u block=%u,%u,%u shared=%u bytes=%zu early=%d%s", f->name,
               l->grid.x, l->grid.y, l->grid.z, l->block.x, l->block.y, l->block.z, l->shared,
               bytes, l->early, f->module->defines);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **arguments,
                          void **extra)
{
    struct fake_index grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
    struct fake_index block = {config->blockDimX, config->blockDimY, config->blockDimZ};
    bool early = false;
    struct launch *l;
    CUresult result;

    for (unsigned i = 0; i < config->numAttrs; i++) {
        if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            return CUDA_ERROR_INVALID_VALUE;
        early = config->attrs[i].value.programmaticStreamSerializationAllowed;
    }
    if (!f || extra || !is_launchable(f, grid, block, config->sharedMemBytes))
        return CUDA_ERROR_INVALID_VALUE;
    fake_lock();
    result = fake_usable();
    l = result == CUDA_SUCCESS ? make_launch(f, arguments) : NULL;
    if (l) {
        l->grid = grid, l->block = block, l->shared = config->sharedMemBytes, l->early = early;
        trace_launch(l);
        result = fake_queue(config->hStream, &l->work);
    } else if (result == CUDA_SUCCESS) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    fake_unlock();
    return result;
}

// NOLINTNEXTLINE(readability-function-size): the driver's own parameters
CUresult cuLaunchKernel(CUfunction f, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CUstream stream, void **arguments, void **extra)
{
    const CUlaunchConfig config = {.gridDimX = grid_x,
                                   .gridDimY = grid_y,
                                   .gridDimZ = grid_z,
                                   .blockDimX = block_x,
                                   .blockDimY = block_y,
                                   .blockDimZ = block_z,
                                   .sharedMemBytes = shared,
                                   .hStream = stream};

    return cuLaunchKernelEx(&config, f, arguments, extra);
}

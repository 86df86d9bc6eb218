/*
 * driver.c - opens the CUDA driver and NVRTC and lists the devices
 *
 * Libraries are opened once per process; where they are looked for is what the first context's
 * environment says.  Opening one twice at a time gives the same, so no lock is held
 * meanwhile, only where it is noted what was found.
 *
 * Nothing of CUDA is linked: a library that is built with it also runs where there is no GPU, and
 * says then what is missing.
 *
 * SPDX-License-Identifier: MIT
 */
#include "driver.h"
#include "core/process.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* ---- Where libraries are --------------------------------------------------------------------- */

/* Fills in a struct of pointers; false, with the reason in why, if a function is missing. */
static bool find_symbols(void *library, const struct cuda_symbol *symbols, void *into, char *why,
                         size_t why_bytes)
{
    for (; symbols->name; symbols++) {
        const bool optional = symbols->name[0] == '?';
        void *found = dlsym(library, symbols->name + optional);
        if (!found && !optional) {
            snprintf(why, why_bytes, "it does not have %s", symbols->name);
            return false;
        }
        memcpy((char *)into + symbols->at, &found, sizeof found);
    }
    return true;
}

/* Opens folder + below + "/" + name.  A path that does not fit counts as a library that is not
 * there. */
static void *open_in(const char *folder, const char *below, const char *name)
{
    char path[4096];
    int used = snprintf(path, sizeof path, "%s%s/%s", folder, below, name);

    return used > 0 && (size_t)used < sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

/* Where pip puts NVIDIA's packages, from this file's folder (which in a build has them in itself):
 * one folder for all of CUDA 13, one a library before. */
static void *open_wheel(const char *name)
{
    static const char *const below[] = {"/../nvidia/cu13/lib",     "/../nvidia/cuda_nvrtc/lib",
                                        "/../nvidia/cusolver/lib", "/../nvidia/cublas/lib",
                                        "/../nvidia/nccl/lib",     "/nvidia/cu13/lib",
                                        "/nvidia/cuda_nvrtc/lib"};
    static const char anchor = 0;
    char folder[2048];
    void *library = NULL;
    Dl_info self;
    char *slash;

    if (!dladdr(&anchor, &self) || strlen(self.dli_fname) >= sizeof folder)
        return NULL;
    strcpy(folder, self.dli_fname); // NOLINT(clang-analyzer-security.insecureAPI.strcpy)
    slash = strrchr(folder, '/');
    if (!slash)
        return NULL;
    *slash = '\0';
    for (size_t i = 0; !library && i < sizeof below / sizeof *below; i++)
        library = open_in(folder, below[i], name);
    return library;
}

/* Opens the first of names (NULL at the end) that is found: what the process has already loaded,
 * GRAM_CUDA_LIB_DIR, NVIDIA's wheels beside this library, the loader's path, the usual folder of a
 * toolkit.  NULL if there is none.  Libraries are never closed. */
static void *open_library(const gram_context *g, const char *const *names)
{
    void *library = NULL;

    for (int i = 0; !library && names[i]; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
    for (int i = 0; !library && names[i] && g->cuda_folder; i++)
        library = open_in(g->cuda_folder, "", names[i]);
    for (int i = 0; !library && names[i]; i++)
        library = open_wheel(names[i]);
    for (int i = 0; !library && names[i]; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    for (int i = 0; !library && names[i]; i++)
        library = open_in("/usr/local/cuda", "/lib64", names[i]);
    return library;
}

/* What was found, before it is noted: the functions' addresses have no lasting place yet. */
struct found {
    bool has;
    char why[sizeof((struct cuda_opened *)0)->why];
    union {
        void *address[CUDA_MOST_SYMBOLS];
        unsigned char bytes[CUDA_MOST_SYMBOLS * sizeof(void *)];
    } into;
};

/* Opens one library without a lock, and writes down either its functions or why there are none.
 * The text is a part of the message that every later call gives. */
static void open_now(const gram_context *g, const struct cuda_opened *l, struct found *found)
{
    void *library = open_library(g, l->files);
    char missing[128];

    *found = (struct found){.has = false};
    if (!library)
        snprintf(found->why, sizeof found->why,
                 "%s cannot be opened (%s or an older version: install %s, or set "
                 "GRAM_CUDA_LIB_DIR)",
                 l->name, l->files[0], l->package);
    else if (!find_symbols(library, l->symbols, found->into.bytes, missing, sizeof missing))
        snprintf(found->why, sizeof found->why, "%s is too old: %s", l->name, missing);
    else
        found->has = true;
}

/* Opening a library takes long, so no lock is held meanwhile.  What was found is noted once, and a
 * failure as well: a library that is missing will not appear later. */
gram_status gram_cuda_open(gram_context *g, struct cuda_opened *l)
{
    struct found found;
    bool tried;

    gram_process_lock(g, GRAM_LOCK_LIBRARIES);
    tried = l->tried;
    gram_process_unlock(g, GRAM_LOCK_LIBRARIES);
    if (!tried) {
        open_now(g, l, &found);
        gram_process_lock(g, GRAM_LOCK_LIBRARIES);
        /* Another thread may have noted the same meanwhile: then its note stays, since pointers to
         * it may be in use. */
        if (!l->tried) {
            memcpy(l->into, found.into.bytes, l->bytes);
            memcpy(l->why, found.why, sizeof l->why);
            l->has = found.has;
            l->tried = true;
        }
        gram_process_unlock(g, GRAM_LOCK_LIBRARIES);
    }
    return l->has ? GRAM_OK : gram_fail(g, GRAM_UNSUPPORTED, "%s", l->why);
}

/* ---- The driver and the compiler ------------------------------------------------------------- */

/* What the process has opened: written once, under GRAM_LOCK_LIBRARIES. */
struct opened_driver {
    bool tried, has;
    int children; /* of the process that began the driver */
    char why[256];
    struct cuda_driver call;
};
struct opened_compiler {
    bool tried, has;
    char why[256];
    struct cuda_compiler call;
};
static struct {
    struct opened_driver driver;
    struct opened_compiler compiler;
} process;

static const struct cuda_symbol driver_symbols[] = {
    {                           "cuInit", offsetof(struct cuda_driver,                  init)},
    {                   "cuGetErrorName", offsetof(struct cuda_driver,            error_name)},
    {                 "cuGetErrorString", offsetof(struct cuda_driver,          error_string)},
    {                 "cuDeviceGetCount", offsetof(struct cuda_driver,          device_count)},
    {                      "cuDeviceGet", offsetof(struct cuda_driver,            device_get)},
    {             "cuDeviceGetAttribute", offsetof(struct cuda_driver,      device_attribute)},
    {         "cuDevicePrimaryCtxRetain", offsetof(struct cuda_driver,        context_retain)},
    {     "cuDevicePrimaryCtxRelease_v2", offsetof(struct cuda_driver,       context_release)},
    {                  "cuCtxGetCurrent", offsetof(struct cuda_driver,       context_current)},
    {              "cuCtxPushCurrent_v2", offsetof(struct cuda_driver,          context_push)},
    {               "cuCtxPopCurrent_v2", offsetof(struct cuda_driver,           context_pop)},
    {              "cuStreamSynchronize", offsetof(struct cuda_driver,    stream_synchronize)},
    {                    "cuStreamQuery", offsetof(struct cuda_driver,          stream_query)},
    {"cuThreadExchangeStreamCaptureMode", offsetof(struct cuda_driver,          capture_mode)},
    {                 "cuModuleLoadData", offsetof(struct cuda_driver,           module_load)},
    {              "cuModuleGetFunction", offsetof(struct cuda_driver,       module_function)},
    {                   "cuModuleUnload", offsetof(struct cuda_driver,         module_unload)},
    {               "cuFuncGetAttribute", offsetof(struct cuda_driver,    function_attribute)},
    {               "cuFuncSetAttribute", offsetof(struct cuda_driver,          function_set)},
    {           "cuPointerGetAttributes", offsetof(struct cuda_driver,    pointer_attributes)},
    {                    "cuMemAlloc_v2", offsetof(struct cuda_driver,       memory_allocate)},
    {                     "cuMemFree_v2", offsetof(struct cuda_driver,           memory_free)},
    {                   "cuMemHostAlloc", offsetof(struct cuda_driver,  memory_host_allocate)},
    {                    "cuMemFreeHost", offsetof(struct cuda_driver,      memory_host_free)},
    {                  "cuMemAllocAsync", offsetof(struct cuda_driver, memory_allocate_async)},
    {                   "cuMemFreeAsync", offsetof(struct cuda_driver,     memory_free_async)},
    {                  "cuMemGetInfo_v2", offsetof(struct cuda_driver,           memory_info)},
    {              "cuStreamIsCapturing", offsetof(struct cuda_driver,      stream_capturing)},
    {                    "cuMemcpyAsync", offsetof(struct cuda_driver,           memory_copy)},
    {                  "cuMemsetD8Async", offsetof(struct cuda_driver,            memory_set)},
    {                  "cuDeviceGetName", offsetof(struct cuda_driver,           device_name)},
    {                   "cuStreamCreate", offsetof(struct cuda_driver,         stream_create)},
    {               "cuStreamDestroy_v2", offsetof(struct cuda_driver,        stream_destroy)},
    {                "cuStreamWaitEvent", offsetof(struct cuda_driver,           stream_wait)},
    {                    "cuEventCreate", offsetof(struct cuda_driver,          event_create)},
    {                "cuEventDestroy_v2", offsetof(struct cuda_driver,         event_destroy)},
    {                    "cuEventRecord", offsetof(struct cuda_driver,          event_record)},
    {                     "cuEventQuery", offsetof(struct cuda_driver,           event_query)},
    {               "cuEventSynchronize", offsetof(struct cuda_driver,     event_synchronize)},
    {               "cuMemcpy2DAsync_v2", offsetof(struct cuda_driver,      memory_copy_rows)},
    {                   "cuLaunchKernel", offsetof(struct cuda_driver,                launch)},
    {                 "cuLaunchKernelEx", offsetof(struct cuda_driver,           launch_with)},
    {               "cuDriverGetVersion", offsetof(struct cuda_driver,               version)},
    {                 "cuCtxSynchronize", offsetof(struct cuda_driver,   context_synchronize)},
    {            "cuDeviceCanAccessPeer", offsetof(struct cuda_driver,         peer_possible)},
    {            "cuCtxEnablePeerAccess", offsetof(struct cuda_driver,           peer_enable)},
    {               "cuDeviceGetMemPool", offsetof(struct cuda_driver,           device_pool)},
    {                "cuMemcpyPeerAsync", offsetof(struct cuda_driver,      memory_copy_peer)},
    {               "cuMemPoolSetAccess", offsetof(struct cuda_driver,           pool_access)},
    {                               NULL,                           0                       },
};

static const struct cuda_symbol compiler_symbols[] = {
    {             "nvrtcVersion", offsetof(struct cuda_compiler,      version)},
    {      "nvrtcGetErrorString", offsetof(struct cuda_compiler, error_string)},
    {"nvrtcGetNumSupportedArchs", offsetof(struct cuda_compiler,   arch_count)},
    {   "nvrtcGetSupportedArchs", offsetof(struct cuda_compiler,        archs)},
    {       "nvrtcCreateProgram", offsetof(struct cuda_compiler,       create)},
    {      "nvrtcDestroyProgram", offsetof(struct cuda_compiler,      destroy)},
    {      "nvrtcCompileProgram", offsetof(struct cuda_compiler,      compile)},
    {   "nvrtcGetProgramLogSize", offsetof(struct cuda_compiler,     log_size)},
    {       "nvrtcGetProgramLog", offsetof(struct cuda_compiler,          log)},
    {        "nvrtcGetCUBINSize", offsetof(struct cuda_compiler,   cubin_size)},
    {            "nvrtcGetCUBIN", offsetof(struct cuda_compiler,        cubin)},
    {          "nvrtcGetPTXSize", offsetof(struct cuda_compiler,     ptx_size)},
    {              "nvrtcGetPTX", offsetof(struct cuda_compiler,          ptx)},
    {                       NULL,                             0              },
};

/* Begins the driver, which is of use only where it finds a GPU.  A driver without one is reported
 * like one that is missing. */
static bool open_driver(const gram_context *g, struct opened_driver *d)
{
    static const char *const names[] = {"libcuda.so.1", NULL};
    void *library = open_library(g, names);
    int count = 0;
    CUresult result;

    *d = (struct opened_driver){.tried = true, .children = g->process->children};
    if (!library) {
        snprintf(d->why, sizeof d->why,
                 "there is no NVIDIA driver (libcuda.so.1 cannot be opened)");
        return false;
    }
    if (!find_symbols(library, driver_symbols, &d->call, d->why, sizeof d->why))
        return false;
    // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): find_symbols has found all of them
    result = d->call.init(0);
    if (result == CUDA_SUCCESS)
        result = d->call.device_count(&count);
    if (result == CUDA_SUCCESS && count > 0)
        return true;
    snprintf(d->why, sizeof d->why,
             result == CUDA_SUCCESS ? "the NVIDIA driver finds no GPU"
                                    : "the NVIDIA driver cannot be used: cuInit failed with error "
                                      "%d",
             (int)result);
    return false;
}

/* The driver is begun once for the process.  A child after fork() inherits the note but not the
 * driver, and is told so. */
const struct cuda_driver *gram_cuda_driver(const gram_context *g, const char **why)
{
    struct opened_driver *d = &process.driver, found;
    bool tried;

    gram_process_lock(g, GRAM_LOCK_LIBRARIES);
    tried = d->tried;
    gram_process_unlock(g, GRAM_LOCK_LIBRARIES);
    if (!tried) {
        found.has = open_driver(g, &found);
        gram_process_lock(g, GRAM_LOCK_LIBRARIES);
        if (!d->tried)
            *d = found;
        gram_process_unlock(g, GRAM_LOCK_LIBRARIES);
    }
    *why = d->why;
    if (d->has && d->children != g->process->children) {
        *why =
            "the parent process initialised CUDA before fork(), and CUDA cannot be used in a "
            "child of it; start the child with spawn";
        return NULL;
    }
    return d->has ? &d->call : NULL;
}

/* NVRTC of CUDA 13 is preferred: it knows more chips. */
static bool open_compiler(const gram_context *g, struct opened_compiler *c)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", NULL};
    void *library = open_library(g, names);

    *c = (struct opened_compiler){.tried = true};
    if (library)
        return find_symbols(library, compiler_symbols, &c->call, c->why, sizeof c->why);
    snprintf(c->why, sizeof c->why,
             "NVRTC cannot be opened (libnvrtc.so.13 or .12: install nvidia-cuda-nvrtc, or set "
             "GRAM_CUDA_LIB_DIR)");
    return false;
}

const struct cuda_compiler *gram_cuda_compiler(const gram_context *g, const char **why)
{
    struct opened_compiler *c = &process.compiler, found;
    bool tried;

    gram_process_lock(g, GRAM_LOCK_LIBRARIES);
    tried = c->tried;
    gram_process_unlock(g, GRAM_LOCK_LIBRARIES);
    if (!tried) {
        found.has = open_compiler(g, &found);
        gram_process_lock(g, GRAM_LOCK_LIBRARIES);
        if (!c->tried)
            *c = found;
        gram_process_unlock(g, GRAM_LOCK_LIBRARIES);
    }
    *why = c->why;
    return c->has ? &c->call : NULL;
}

/* An attribute of a device, or 0 where the driver does not know it: older drivers lack some. */
static int attribute(const struct cuda_driver *driver, CUdevice device, CUdevice_attribute which)
{
    int value = 0;

    return driver->device_attribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

/* Graphs know of launches that overlap since CUDA 12.3. */
static bool can_overlap(const struct cuda_driver *driver, int arch)
{
    int version = 0;

    return arch >= 90 && driver->version(&version) == CUDA_SUCCESS && version >= 12030;
}

/* The compute capability as one number: 90 for 9.0. */
static int arch_of(const struct cuda_driver *driver, CUdevice device)
{
    return 10 * attribute(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
           attribute(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
}

/* A device that the driver does not know counts as none. */
int gram_cuda_arch(const struct cuda_driver *driver, int index)
{
    CUdevice device;

    return driver->device_get(&device, index) == CUDA_SUCCESS ? arch_of(driver, device) : 0;
}

/* Without a compiler no kernel can be made, so that a GPU alone is not a device of ours. */
int gram_cuda_count(const gram_context *g)
{
    const char *why;
    const struct cuda_driver *driver = gram_cuda_driver(g, &why);
    int all = 0, usable = 0;

    if (!driver || !gram_cuda_compiler(g, &why) || driver->device_count(&all) != CUDA_SUCCESS) {
        gram_log(g, "no CUDA device: %s", why);
        return 0;
    }
    /* Older GPUs lack instructions that kernels use, and are not counted. */
    for (int i = 0; i < all; i++)
        usable += gram_cuda_arch(driver, i) >= OLDEST_ARCH;
    return usable;
}

/* Errors after which nothing on the device can be trusted, nor used by this process again. */
static bool is_fault(CUresult result)
{
    static const CUresult faults[] = {
        CUDA_ERROR_ILLEGAL_ADDRESS,
        CUDA_ERROR_LAUNCH_FAILED,
        CUDA_ERROR_LAUNCH_TIMEOUT,
        CUDA_ERROR_ILLEGAL_INSTRUCTION,
        CUDA_ERROR_MISALIGNED_ADDRESS,
        CUDA_ERROR_INVALID_ADDRESS_SPACE,
        CUDA_ERROR_INVALID_PC,
        CUDA_ERROR_HARDWARE_STACK_ERROR,
        CUDA_ERROR_ASSERT,
        CUDA_ERROR_ECC_UNCORRECTABLE,
        CUDA_ERROR_NVLINK_UNCORRECTABLE,
        CUDA_ERROR_CONTEXT_IS_DESTROYED,
        CUDA_ERROR_MPS_CLIENT_TERMINATED,
        CUDA_ERROR_EXTERNAL_DEVICE,
        CUDA_ERROR_UNKNOWN,
    };

    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (faults[i] == result)
            return true;
    return false;
}

/* After a fault every later call fails too, so what failed is kept in the context beside the
 * message of the call. */
gram_status gram_cuda_check(gram_context *g, const struct cuda_driver *driver, CUresult result,
                            const char *what)
{
    const char *name = NULL, *text = NULL;

    if (result == CUDA_SUCCESS)
        return GRAM_OK;
    (void)driver->error_name(result, &name);
    (void)driver->error_string(result, &text);
    if (is_fault(result))
        snprintf(g->fault, sizeof g->fault,
                 "CUDA device %d failed: %s failed with error %d, %s; what was queued since the "
                 "last gram_context_synchronize is lost, and this process cannot use the device "
                 "again",
                 (int)g->options.device.index, what, (int)result, name ? name : "unknown");
    return gram_fail(
        g, result == CUDA_ERROR_OUT_OF_MEMORY ? GRAM_OUT_OF_MEMORY : GRAM_DEVICE_FAILED,
        "CUDA device %d: %s failed with error %d, %s (%s)", (int)g->options.device.index, what,
        (int)result, name ? name : "unknown", text ? text : "no description");
}

/* What kernels and plans depend on is asked once, here: later calls need no query of the driver. */
gram_status gram_cuda_device_open(gram_context *g, struct cuda_device *device)
{
    int index = g->options.device.index, count = 0;
    const char *why;
    const struct cuda_driver *driver = gram_cuda_driver(g, &why);
    CUdevice id;

    if (!driver)
        return gram_fail(g, GRAM_UNSUPPORTED, "no CUDA device: %s", why);
    TRY(gram_cuda_check(g, driver, driver->device_count(&count), "cuDeviceGetCount"));
    if (index < 0 || index >= count)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.device is CUDA device %d, but the number of CUDA devices is %d",
                         index, count);
    TRY(gram_cuda_check(g, driver, driver->device_get(&id, index), "cuDeviceGet"));
    device->arch = arch_of(driver, id);
    if (driver->device_name(device->name, sizeof device->name, id) != CUDA_SUCCESS)
        device->name[0] = '\0';
    if (device->arch < OLDEST_ARCH)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "CUDA device %d has compute capability %d.%d, expected 8.0 or newer",
                         index, device->arch / 10, device->arch % 10);
    device->processors = attribute(driver, id, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    device->reads_host = attribute(driver, id, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) != 0;
    device->overlaps = can_overlap(driver, device->arch);
    device->index = index;
    device->stream = g->options.stream;
    /* The primary context is the one that PyTorch and CUDA's run-time library use too: memory and
     * streams of theirs can be used here. */
    TRY(gram_cuda_check(g, driver, driver->context_retain(&device->context, id),
                        "cuDevicePrimaryCtxRetain"));
    device->driver = driver; /* only now is there something to release */
    return GRAM_OK;
}

/* The primary context lives on while others use it; releasing only counts it down. */
void gram_cuda_device_close(struct cuda_device *device)
{
    CUdevice id;

    if (device->driver && device->driver->device_get(&id, device->index) == CUDA_SUCCESS)
        (void)device->driver->context_release(id);
    device->driver = NULL;
}

bool gram_cuda_enter(const struct cuda_device *device)
{
    CUcontext current = NULL;

    /* A caller that has made the device current keeps it: pushing would cost a call and a pop. */
    if (device->driver->context_current(&current) == CUDA_SUCCESS && current == device->context)
        return false;
    return device->driver->context_push(device->context) == CUDA_SUCCESS;
}

/* A context that the caller had made current stays so. */
void gram_cuda_leave(const struct cuda_device *device, bool entered)
{
    CUcontext popped;

    if (entered)
        (void)device->driver->context_pop(&popped);
}

/* Where a graph is captured nothing may wait, and scratch must outlive the graph. */
gram_status gram_cuda_capturing(gram_context *g, bool *capturing)
{
    const struct cuda_device *device = g->device;
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;

    TRY(gram_cuda_check(g, device->driver,
                        device->driver->stream_capturing(device->stream, &capture),
                        "cuStreamIsCapturing"));
    *capturing = capture != CU_STREAM_CAPTURE_STATUS_NONE;
    return GRAM_OK;
}

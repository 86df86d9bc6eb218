/*
 * driver.h - the CUDA driver, NVRTC and NVIDIA's other libraries, opened at run time, and devices
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_DRIVER_H
#define GRAM_CUDA_DRIVER_H
#include "core/backend.h"
#include <cuda.h>
#include <nvrtc.h>

/* The functions that are used; the names with a version are those that cuda.h maps to. */
struct cuda_driver {
    __typeof__(&cuInit) init;
    __typeof__(&cuDriverGetVersion) version;
    __typeof__(&cuGetErrorName) error_name;
    __typeof__(&cuGetErrorString) error_string;
    __typeof__(&cuDeviceGetCount) device_count;
    __typeof__(&cuDeviceGet) device_get;
    __typeof__(&cuDeviceGetAttribute) device_attribute;
    __typeof__(&cuDevicePrimaryCtxRetain) context_retain;
    __typeof__(&cuDevicePrimaryCtxRelease) context_release;
    __typeof__(&cuCtxGetCurrent) context_current;
    __typeof__(&cuCtxPushCurrent) context_push;
    __typeof__(&cuCtxPopCurrent) context_pop;
    __typeof__(&cuStreamSynchronize) stream_synchronize;
    __typeof__(&cuStreamQuery) stream_query;
    __typeof__(&cuThreadExchangeStreamCaptureMode) capture_mode;
    __typeof__(&cuModuleLoadData) module_load;
    __typeof__(&cuModuleGetFunction) module_function;
    __typeof__(&cuModuleUnload) module_unload;
    __typeof__(&cuFuncGetAttribute) function_attribute;
    __typeof__(&cuFuncSetAttribute) function_set;
    __typeof__(&cuPointerGetAttributes) pointer_attributes;
    __typeof__(&cuMemAlloc) memory_allocate;
    __typeof__(&cuMemFree) memory_free;
    __typeof__(&cuMemHostAlloc) memory_host_allocate;
    __typeof__(&cuMemFreeHost) memory_host_free;
    __typeof__(&cuMemAllocAsync) memory_allocate_async;
    __typeof__(&cuMemFreeAsync) memory_free_async;
    __typeof__(&cuMemGetInfo) memory_info;
    __typeof__(&cuMemcpyAsync) memory_copy;
    __typeof__(&cuMemsetD8Async) memory_set;
    __typeof__(&cuDeviceGetName) device_name;
    __typeof__(&cuStreamIsCapturing) stream_capturing;
    __typeof__(&cuStreamCreate) stream_create;
    __typeof__(&cuStreamDestroy) stream_destroy;
    __typeof__(&cuStreamWaitEvent) stream_wait;
    __typeof__(&cuEventCreate) event_create;
    __typeof__(&cuEventDestroy) event_destroy;
    __typeof__(&cuEventRecord) event_record;
    __typeof__(&cuEventQuery) event_query;
    __typeof__(&cuEventSynchronize) event_synchronize;
    __typeof__(&cuMemcpy2DAsync) memory_copy_rows;
    __typeof__(&cuLaunchKernel) launch;
    __typeof__(&cuLaunchKernelEx) launch_with;
    __typeof__(&cuCtxSynchronize) context_synchronize;
    __typeof__(&cuDeviceCanAccessPeer) peer_possible;
    __typeof__(&cuCtxEnablePeerAccess) peer_enable;
    __typeof__(&cuDeviceGetMemPool) device_pool;
    __typeof__(&cuMemPoolSetAccess) pool_access;
    __typeof__(&cuMemcpyPeerAsync) memory_copy_peer;
};

struct cuda_compiler {
    __typeof__(&nvrtcVersion) version;
    __typeof__(&nvrtcGetErrorString) error_string;
    __typeof__(&nvrtcGetNumSupportedArchs) arch_count;
    __typeof__(&nvrtcGetSupportedArchs) archs;
    __typeof__(&nvrtcCreateProgram) create;
    __typeof__(&nvrtcDestroyProgram) destroy;
    __typeof__(&nvrtcCompileProgram) compile;
    __typeof__(&nvrtcGetProgramLogSize) log_size;
    __typeof__(&nvrtcGetProgramLog) log;
    __typeof__(&nvrtcGetCUBINSize) cubin_size;
    __typeof__(&nvrtcGetCUBIN) cubin;
    __typeof__(&nvrtcGetPTXSize) ptx_size;
    __typeof__(&nvrtcGetPTX) ptx;
};

struct cuda_block {
    CUdeviceptr address; /* 0: none */
    size_t bytes;
    bool from_pool;   /* given back in the order of the stream */
    bool from_caller; /* of options.allocate_device, which knows of captures itself */
    bool captured;    /* a graph may use it as long as the context lives */
};

/* Scratch memory: see arena.h. */
struct cuda_arena {
    struct cuda_block block; /* in use */
    void *given;             /* by gram_context_use_workspace, used instead; or NULL */
    size_t given_bytes;
    struct cuda_kept_block *kept; /* former ones that graphs may use */
    size_t kept_bytes;
};

/* What a context keeps of its device. */
struct cuda_device {
    const struct cuda_driver *driver;
    char name[96];
    int index, arch; /* arch: 90 for compute capability 9.0 */
    int processors;
    bool reads_host; /* any host memory, without being told */
    bool overlaps;   /* a launch can begin before the one before it has ended */
    CUcontext context;
    CUstream stream;
    struct cuda_kernel_table *kernels; /* launch.c: those that this context has launched; or NULL */
    struct cuda_arena arena;
    struct cuda_background *background; /* cuda_eigh_large.c; or NULL */
    struct cuda_solver *solver;         /* cusolver.c: made at the first solve; or NULL */
    struct cuda_blas *blas;             /* cublas.c: made at the first product; or NULL */
    struct cuda_kron_memo *kron;        /* cuda_kron_memo.c: made at the first product; or NULL */
    struct cuda_multi *multi;           /* cusolver_mg.c: made at the first eigh_multi; or NULL */
};

/* NULL with the reason in why: no driver or no device that can be used.  The first call of the
 * process opens and initialises the driver. */
const struct cuda_driver *gram_cuda_driver(const gram_context *g, const char **why);
/* NULL with the reason in why.  The first call of the process opens it. */
const struct cuda_compiler *gram_cuda_compiler(const gram_context *g, const char **why);

enum {
    OLDEST_ARCH = 80
};

/* The index'th device's compute capability, 90 for 9.0; 0 if there is no such device. */
int gram_cuda_arch(const struct cuda_driver *driver, int index);
/* Devices of compute capability 8.0 or newer. */
int gram_cuda_count(const gram_context *g);
gram_status gram_cuda_device_open(gram_context *g, struct cuda_device *device);
void gram_cuda_device_close(struct cuda_device *device);

/* Records that a driver's function failed; GRAM_OK for CUDA_SUCCESS.  After a fault of the device
 * (an illegal address and its like) every later call of the context fails with it. */
gram_status gram_cuda_check(gram_context *g, const struct cuda_driver *driver, CUresult result,
                            const char *what);

/* Makes the device's context current where it is not; leave undoes it. */
bool gram_cuda_enter(const struct cuda_device *device);
void gram_cuda_leave(const struct cuda_device *device, bool entered);

/* Whether what is queued on g's stream goes into a graph.  The context must be current. */
gram_status gram_cuda_capturing(gram_context *g, bool *capturing);
/* ---- Libraries ------------------------------------------------------------------------------- */

/* A function of a library and where its address goes in a struct of pointers. */
struct cuda_symbol {
    const char *name; /* NULL at the end of a list; "?name": an old library may lack it, its pointer
                         is then NULL */
    size_t at;
};

enum {
    CUDA_MOST_SYMBOLS = 64 /* of a cuda_opened */
};

/* A library that the process opens once, when it is first needed: its functions' addresses go to
 * into, a struct of nothing but these.  What follows package is written under GRAM_LOCK_LIBRARIES.
 */
struct cuda_opened {
    const char *name, *files[4]; /* "cuSOLVER"; NULL at the end */
    const struct cuda_symbol *symbols;
    void *into;
    size_t bytes;        /* of into: at most CUDA_MOST_SYMBOLS pointers */
    const char *package; /* of PyPI, for the message */
    bool tried, has;
    char why[256];
};

/* GRAM_UNSUPPORTED, with the reason, where there is no such library. */
gram_status gram_cuda_open(gram_context *g, struct cuda_opened *library);
#endif

/*
 * fake_context.c - the fake driver's device, contexts and errors
 *
 * There are GRAM_FAKE_CUDA_DEVICES (1) devices, which answer as ones of compute capability 9.0.  Of
 * their multiprocessors there are GRAM_FAKE_CUDA_PROCESSORS (2) each: few, so that small problems
 * are cut as large ones are on a real device.
 *
 * SPDX-License-Identifier: MIT
 */
#include "fake_driver.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef FAKE_SANITIZED
void __lsan_ignore_object(const void *memory);
#endif

enum {
    CONTEXTS = 64, /* that a thread can push */
};

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static bool initialised;
static CUresult fault; /* of a kernel: the process does not get the device back */
static struct {
    int retained;                 /* times that the primary context was */
    bool peer[FAKE_MOST_DEVICES]; /* whose memory it may touch, and that of the pool */
    bool pool[FAKE_MOST_DEVICES];
} primary[FAKE_MOST_DEVICES]; /* their addresses are the contexts */
static __thread CUcontext stack[CONTEXTS];
static __thread int depth;

void fake_lock(void)
{
    (void)pthread_mutex_lock(&lock);
}

void fake_unlock(void)
{
    (void)pthread_mutex_unlock(&lock);
}

long fake_setting(const char *name, long otherwise)
{
    const char *text = getenv(name);
    long value = text ? strtol(text, NULL, 10) : 0;

    return value > 0 ? value : otherwise;
}

void *fake_handle(size_t bytes)
{
    void *handle = calloc(1, bytes);

#ifdef FAKE_SANITIZED
    if (handle)
        __lsan_ignore_object(handle);
#endif
    return handle;
}

CUcontext fake_context(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

static int devices(void)
{
    long count = fake_setting("GRAM_FAKE_CUDA_DEVICES", 1);

    return count < FAKE_MOST_DEVICES ? (int)count : FAKE_MOST_DEVICES;
}

static CUcontext context_of(int device)
{
    return (CUcontext)(void *)&primary[device];
}

int fake_current_device(void)
{
    CUcontext current = fake_context();
    int device = 0;

    while (device + 1 < FAKE_MOST_DEVICES && current != context_of(device))
        device++;
    return device;
}

CUresult fake_usable(void)
{
    if (!initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!fake_context())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (fault)
        return fault;
    return primary[fake_current_device()].retained > 0 ? CUDA_SUCCESS
                                                       : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

void fake_set_fault(CUresult result)
{
    fault = result;
}

/* ---- Errors ---------------------------------------------------------------------------------- */

#define NAMED(result) result, #result
static const struct {
    CUresult result;
    const char *name, *text;
} errors[] = {
    {                          NAMED(CUDA_SUCCESS),                       "no error"},
    {              NAMED(CUDA_ERROR_INVALID_VALUE),               "invalid argument"},
    {              NAMED(CUDA_ERROR_OUT_OF_MEMORY),                  "out of memory"},
    {            NAMED(CUDA_ERROR_NOT_INITIALIZED),           "initialization error"},
    {             NAMED(CUDA_ERROR_INVALID_DEVICE),         "invalid device ordinal"},
    {            NAMED(CUDA_ERROR_INVALID_CONTEXT),         "invalid device context"},
    {              NAMED(CUDA_ERROR_INVALID_IMAGE),          "no image for a device"},
    {                  NAMED(CUDA_ERROR_NOT_FOUND),         "named symbol not found"},
    {             NAMED(CUDA_ERROR_INVALID_HANDLE),        "invalid resource handle"},
    {                  NAMED(CUDA_ERROR_NOT_READY),               "device not ready"},
    {              NAMED(CUDA_ERROR_NOT_SUPPORTED),        "operation not supported"},
    {       NAMED(CUDA_ERROR_CONTEXT_IS_DESTROYED),           "context is destroyed"},
    {NAMED(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED), "peer access is already enabled"},
    {            NAMED(CUDA_ERROR_ILLEGAL_ADDRESS),       "an illegal memory access"},
    { NAMED(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),     "not permitted in a capture"},
    { NAMED(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED),         "the capture had failed"},
};
#undef NAMED

static CUresult describe(CUresult result, const char **out, bool name)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].result == result) {
            *out = name ? errors[i].name : errors[i].text;
            return CUDA_SUCCESS;
        }
    *out = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult result, const char **name)
{
    return describe(result, name, true);
}

CUresult cuGetErrorString(CUresult result, const char **text)
{
    return describe(result, text, false);
}

/* ---- The device ------------------------------------------------------------------------------ */

CUresult cuInit(unsigned flags)
{
    initialised = flags == 0;
    return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDriverGetVersion(int *version)
{
    *version = 13000;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    *count = devices();
    return initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuDeviceGet(CUdevice *device, int index)
{
    *device = index;
    return index >= 0 && index < devices() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    (void)snprintf(name, (size_t)size, "fake CUDA device %d, run by the CPU", device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    (void)device;
    *bytes = (size_t)fake_setting("GRAM_FAKE_CUDA_MEMORY", 1024) << 20;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device)
{
    const int processors = (int)fake_setting("GRAM_FAKE_CUDA_PROCESSORS", 2);
    const int arch = (int)fake_setting("GRAM_FAKE_CUDA_ARCH", FAKE_ARCH);
    const int table[][2] = {
        {            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,         arch / 10},
        {            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,         arch % 10},
        {                           CU_DEVICE_ATTRIBUTE_WARP_SIZE,         FAKE_WARP},
        {               CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, FAKE_MOST_THREADS},
        {      CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,              2048},
        {         CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK,       FAKE_SHARED},
        {   CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,  FAKE_MOST_SHARED},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,        228 * 1024},
        {    CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,             65536},
        {             CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK,             65536},
        {                      CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,        2147483647},
        {                      CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,             65535},
        {                      CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z,             65535},
        {                       CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE,          50 << 20},
        {                  CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH,                 0},
        {                  CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,                 1},
        {              CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,                 0},
        {              CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,                 0},
        {                CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,        processors},
    };

    (void)device;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i][0] == (int)which) {
            *value = table[i][1];
            return CUDA_SUCCESS;
        }
    fprintf(stderr, "fake CUDA: device attribute %d is not in the table of fake_context.c\n",
            (int)which);
    return CUDA_ERROR_INVALID_VALUE;
}

/* ---- Contexts -------------------------------------------------------------------------------- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    if (device < 0 || device >= devices())
        return CUDA_ERROR_INVALID_DEVICE;
    fake_lock();
    primary[device].retained++;
    fake_unlock();
    *context = context_of(device);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    CUresult result = CUDA_SUCCESS;

    if (device < 0 || device >= devices() || primary[device].retained == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    fake_lock();
    if (primary[device].retained == 1)
        result = fake_drain_all();
    primary[device].retained--;
    fake_unlock();
    return result;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = fake_context();
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context)
{
    if (depth == CONTEXTS || !context)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context)
{
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (context)
        *context = stack[depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    if (depth > 0)
        depth--;
    return context ? cuCtxPushCurrent(context) : CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    *device = fake_current_device();
    return fake_usable();
}

CUresult cuCtxSynchronize(void)
{
    CUresult result;

    fake_lock();
    result = fake_usable();
    if (result == CUDA_SUCCESS)
        result = fake_drain_all();
    fake_unlock();
    return result == CUDA_SUCCESS ? fake_usable() : result;
}

/* ---- Peers ----------------------------------------------------------------------------------- */

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    *can = device != peer;
    return device >= 0 && peer >= 0 && device < devices() && peer < devices()
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    CUresult result = fake_usable();
    int mine = fake_current_device(), other = 0;

    while (other < devices() && peer != context_of(other))
        other++;
    if (result != CUDA_SUCCESS)
        return result;
    if (other == devices() || other == mine || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (primary[mine].peer[other])
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    primary[mine].peer[other] = true;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    if (device < 0 || device >= devices())
        return CUDA_ERROR_INVALID_DEVICE;
    *pool = (CUmemoryPool)(void *)&primary[device];
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count)
{
    int owner = 0;

    while (owner < devices() && pool != (CUmemoryPool)(void *)&primary[owner])
        owner++;
    if (owner == devices())
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || access[i].location.id < 0 ||
            access[i].location.id >= devices() ||
            access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return CUDA_ERROR_INVALID_VALUE;
        primary[access[i].location.id].pool[owner] = true;
    }
    return CUDA_SUCCESS;
}

bool fake_pool_lets(int owner, int device)
{
    return owner == device || primary[device].pool[owner];
}

bool fake_can_reach(int device, int peer)
{
    return device == peer || (primary[device].peer[peer] && primary[device].pool[peer]);
}

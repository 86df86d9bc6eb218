/*
 * fake_memory.c - memory of the device: mapped pages between pages that can never be touched
 *
 * Sixteen such pages lie on either side of an allocation, so that an index that is wrong by
 * thousands meets them too.  It ends where they begin but for the alignment of 256 bytes, whose
 * rest is watched by a canary.  Freed addresses are never given again.  GRAM_FAKE_CUDA_MEMORY sets
 * how many MiB there are (1024).
 *
 * SPDX-License-Identifier: MIT
 */
#include "fake_driver.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    ALIGNMENT = 256,
    CANARY = 0xA5
};

enum kind {
    DEVICE,
    POOL,   /* of the device: others reach it where cuMemPoolSetAccess lets them */
    PINNED, /* of the host */
    MANAGED
};

struct allocation {
    struct allocation *next;
    char *data, *mapping;
    size_t bytes, mapping_bytes;
    enum kind kind;
    int device;
    bool freed;
};

static struct {
    struct allocation *first;
    size_t used;
    int opened;
} memory;

static size_t total(void)
{
    return (size_t)fake_setting("GRAM_FAKE_CUDA_MEMORY", 1024) << 20;
}

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Bytes on either side of an allocation. */
static size_t guard_size(void)
{
    return 16 * page_size();
}

/* The allocation whose bytes, or whose guard pages, hold the address. */
static struct allocation *find(uint64_t address, bool guards)
{
    for (struct allocation *a = memory.first; a; a = a->next) {
        uint64_t begin = (uintptr_t)(guards ? a->mapping : a->data);
        if (address >= begin && address < begin + (guards ? a->mapping_bytes : a->bytes) &&
            (guards || !a->freed))
            return a;
    }
    return NULL;
}

static void protect(const struct allocation *a, int access)
{
    size_t guard = guard_size();

    if (mprotect(a->mapping + guard, a->mapping_bytes - 2 * guard, access) != 0) {
        fprintf(stderr, "fake CUDA: mprotect fails\n");
        abort();
    }
}

static void protect_all(int access)
{
    for (struct allocation *a = memory.first; a; a = a->next)
        if (a->kind <= POOL && !a->freed)
            protect(a, access);
}

void fake_memory_open(void)
{
    if (memory.opened++ == 0)
        protect_all(PROT_READ | PROT_WRITE);
}

void fake_memory_close(void)
{
    if (--memory.opened == 0)
        protect_all(PROT_NONE);
}

static CUresult allocate(uint64_t *address, size_t bytes, enum kind kind)
{
    size_t page = page_size(), rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    size_t inner = (rounded + page - 1) / page * page, guard = guard_size();
    struct allocation *a;

    if (bytes == 0 || !address)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > total() || memory.used + bytes > total())
        return CUDA_ERROR_OUT_OF_MEMORY;
    a = calloc(1, sizeof *a);
    if (!a)
        return CUDA_ERROR_OUT_OF_MEMORY;
    a->mapping_bytes = inner + 2 * guard;
    a->mapping =
        mmap(NULL, a->mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (a->mapping == MAP_FAILED) {
        free(a);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    a->data = a->mapping + guard + inner - rounded;
    a->bytes = bytes, a->kind = kind;
    a->device = fake_current_device();
    a->next = memory.first;
    memory.first = a;
    memory.used += bytes;
    protect(a, PROT_READ | PROT_WRITE);
    memset(a->data, 0xFF, bytes);
    memset(a->data + bytes, CANARY, rounded - bytes);
    if (kind <= POOL && !memory.opened)
        protect(a, PROT_NONE);
    *address = (uintptr_t)a->data;
    return CUDA_SUCCESS;
}

/* Ends the process if somebody wrote behind the allocation. */
static void check_canary(const struct allocation *a)
{
    const char *end = a->mapping + a->mapping_bytes - guard_size();

    protect(a, PROT_READ | PROT_WRITE);
    for (const char *at = a->data + a->bytes; at < end; at++)
        if ((unsigned char)*at != CANARY) {
            fprintf(stderr, "fake CUDA: the byte %td behind an allocation of %zu was written\n",
                    at - (a->data + a->bytes), a->bytes);
            abort();
        }
}

static CUresult release(uint64_t address)
{
    struct allocation *a = find(address, false);

    if (address == 0)
        return CUDA_SUCCESS;
    if (!a || (uintptr_t)a->data != address)
        return CUDA_ERROR_INVALID_VALUE;
    check_canary(a);
    /* The pages go back, the addresses do not. */
    if (mmap(a->mapping, a->mapping_bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        return CUDA_ERROR_UNKNOWN;
    a->freed = true;
    memory.used -= a->bytes;
    return CUDA_SUCCESS;
}

bool fake_memory_is_device(uint64_t address)
{
    const struct allocation *a = find(address, false);

    return a && a->kind != PINNED;
}

bool fake_memory_is_pinned(uint64_t address)
{
    const struct allocation *a = find(address, false);

    return a && a->kind == PINNED;
}

bool fake_memory_reached(uint64_t address, int device)
{
    const struct allocation *a = find(address, false);

    return !a || a->kind != POOL || fake_pool_lets(a->device, device);
}

int fake_memory_device(uint64_t address)
{
    const struct allocation *a = find(address, false);

    return a && a->kind != PINNED ? a->device : -1;
}

void fake_memory_explain(const void *address, char *text, size_t size)
{
    const struct allocation *a = find((uintptr_t)address, true);

    if (!a)
        snprintf(text, size, "which is in no allocation of the device (nil: no address at all)");
    else
        snprintf(text, size, "%td bytes from the beginning of %s of %zu bytes",
                 (const char *)address - a->data, a->freed ? "a freed allocation" : "an allocation",
                 a->bytes);
}

/* ---- The driver's functions ------------------------------------------------------------------ */

/* Locks; whether memory may be taken or given back now. */
static CUresult begin(void)
{
    CUresult result;

    fake_lock();
    result = fake_usable();
    return result == CUDA_SUCCESS ? fake_capture_allows() : result;
}

static CUresult take(uint64_t *address, size_t bytes, enum kind kind)
{
    CUresult result = begin();

    if (result == CUDA_SUCCESS)
        result = allocate(address, bytes, kind);
    fake_unlock();
    return result;
}

static CUresult give(uint64_t address)
{
    CUresult result = begin();

    if (result == CUDA_SUCCESS)
        result = fake_drain_all();
    if (result == CUDA_SUCCESS)
        result = release(address);
    fake_unlock();
    return result;
}

/* In the order of the stream: the memory goes back when the stream comes to it. */
struct release_work {
    struct fake_work work;
    uint64_t address;
};

static void run_release(struct fake_work *work)
{
    (void)release(((struct release_work *)work)->address);
}

CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream)
{
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    uint64_t at = 0;
    CUresult result;

    (void)cuStreamIsCapturing(stream, &capture);
    if (capture != CU_STREAM_CAPTURE_STATUS_NONE)
        return CUDA_ERROR_NOT_SUPPORTED; /* nodes of graphs that allocate */
    result = take(&at, bytes, POOL);
    if (result == CUDA_SUCCESS)
        *address = (CUdeviceptr)at;
    return result;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    struct release_work *w = calloc(1, sizeof *w);
    CUresult result;

    if (!w)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *w = (struct release_work){
        {.run = run_release, .bytes = sizeof *w},
        address
    };
    fake_lock();
    result = fake_usable();
    if (result == CUDA_SUCCESS && !fake_memory_is_device(address))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = fake_queue(stream, &w->work);
    else
        free(w);
    fake_unlock();
    return result;
}

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes)
{
    uint64_t at = 0;
    CUresult result = take(&at, bytes, DEVICE);

    if (result == CUDA_SUCCESS)
        *address = (CUdeviceptr)at;
    return result;
}

CUresult cuMemFree(CUdeviceptr address)
{
    return give(address);
}

CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags)
{
    uint64_t at = 0;
    CUresult result = take(&at, bytes, MANAGED);

    (void)flags;
    if (result == CUDA_SUCCESS)
        *address = (CUdeviceptr)at;
    return result;
}

CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned flags)
{
    uint64_t at = 0;
    CUresult result = take(&at, bytes, PINNED);

    (void)flags;
    if (result == CUDA_SUCCESS)
        memcpy(address, &at, sizeof *address);
    return result;
}

CUresult cuMemAllocHost(void **address, size_t bytes)
{
    return cuMemHostAlloc(address, bytes, 0);
}

CUresult cuMemFreeHost(void *address)
{
    return give((uintptr_t)address);
}

CUresult cuMemGetInfo(size_t *free_bytes, size_t *all)
{
    fake_lock();
    *all = total();
    *free_bytes = memory.used < *all ? *all - memory.used : 0;
    fake_unlock();
    return fake_usable();
}

static CUresult attribute(const struct allocation *a, CUpointer_attribute which, void *value,
                          CUdeviceptr address)
{
    unsigned type = !a ? 0 : a->kind == PINNED ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    int ordinal = a ? a->device : -2;
    unsigned managed = a && a->kind == MANAGED;

    switch ((int)which) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        memcpy(value, &type, sizeof type);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        memcpy(value, &ordinal, sizeof ordinal);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        memcpy(value, &managed, sizeof managed);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        memcpy(value, &address, sizeof address);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *which, void **values,
                                CUdeviceptr address)
{
    CUresult result;

    fake_lock();
    result = fake_usable();
    for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = attribute(find(address, false), which[i], values[i], address);
    fake_unlock();
    return result;
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute which, CUdeviceptr address)
{
    CUresult result;

    fake_lock();
    result = fake_usable();
    if (result == CUDA_SUCCESS && !find(address, false))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = attribute(find(address, false), which, value, address);
    fake_unlock();
    return result;
}

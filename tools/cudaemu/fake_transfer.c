/*
 * fake_transfer.c - copies and fills, and functions of the host in a stream
 *
 * Ordinary memory of the host is read when the call is made and written before it returns; memory
 * that the driver gave is read and written when the stream comes to it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/trace.h"
#include "fake_driver.h"
#include <stdlib.h>
#include <string.h>

struct transfer {
    struct fake_work work;
    void *to;
    const void *from; /* NULL: bytes[] */
    size_t size;
    uint32_t pattern; /* of a fill */
    int width;        /* bytes of the pattern, 0: a copy */
    CUhostFn function;
    char bytes[];
};

static void *pointer(CUdeviceptr address)
{
    return (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr)
}

static void run_copy(struct fake_work *work)
{
    struct transfer *t = (struct transfer *)work;

    fake_memory_open();
    memmove(t->to, t->from ? t->from : t->bytes, t->size);
    if (trace_wanted() && !fake_memory_is_device((uintptr_t)t->to))
        trace_line("fetch %zu %016llx", t->size,
                   (unsigned long long)trace_hash(TRACE_HASH, t->to, t->size));
    fake_memory_close();
}

static void run_fill(struct fake_work *work)
{
    struct transfer *t = (struct transfer *)work;

    fake_memory_open();
    for (size_t i = 0; i < t->size; i++)
        memcpy((char *)t->to + i * (size_t)t->width, &t->pattern, (size_t)t->width);
    fake_memory_close();
}

static void run_function(struct fake_work *work)
{
    struct transfer *t = (struct transfer *)work;

    t->function(t->to);
}

static struct transfer *make(size_t extra, void (*run)(struct fake_work *work))
{
    struct transfer *t = calloc(1, sizeof *t + extra);

    if (t)
        t->work = (struct fake_work){.run = run, .bytes = sizeof *t + extra};
    return t;
}

static CUresult copy_async(void *to, const void *from, size_t bytes, CUstream stream)
{
    bool staged =
        !fake_memory_is_device((uintptr_t)from) && !fake_memory_is_pinned((uintptr_t)from);
    struct transfer *t = make(staged ? bytes : 0, run_copy);

    if (!t)
        return CUDA_ERROR_OUT_OF_MEMORY;
    t->to = to, t->from = staged ? NULL : from, t->size = bytes;
    if (staged && bytes)
        memcpy(t->bytes, from, bytes);
    trace_line("copy %s to %s %zu", staged ? "host" : "device",
               fake_memory_is_device((uintptr_t)to) ? "device" : "host", bytes);
    return fake_queue(stream, &t->work);
}

static CUresult copy(void *to, const void *from, size_t bytes, CUstream stream, bool waits)
{
    CUresult result;

    fake_lock();
    result = fake_usable();
    if (result == CUDA_SUCCESS && waits)
        result = fake_capture_allows();
    if (result == CUDA_SUCCESS && !(fake_memory_reached((uintptr_t)to, fake_current_device()) &&
                                    fake_memory_reached((uintptr_t)from, fake_current_device())))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = copy_async(to, from, bytes, stream);
    /* Pageable memory of the host is written before the call returns. */
    if (result == CUDA_SUCCESS &&
        (waits || !(fake_memory_is_device((uintptr_t)to) || fake_memory_is_pinned((uintptr_t)to))))
        result = cuStreamSynchronize(stream);
    fake_unlock();
    return result;
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes)
{
    return fake_memory_is_device(to) ? copy(pointer(to), from, bytes, NULL, true)
                                     : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes)
{
    return fake_memory_is_device(from) ? copy(to, pointer(from), bytes, NULL, true)
                                       : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy(pointer(to), pointer(from), bytes, NULL, true);
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy(pointer(to), pointer(from), bytes, NULL, true);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    return fake_memory_is_device(to) ? copy(pointer(to), from, bytes, stream, false)
                                     : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return fake_memory_is_device(from) ? copy(to, pointer(from), bytes, stream, false)
                                       : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy(pointer(to), pointer(from), bytes, stream, false);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy(pointer(to), pointer(from), bytes, stream, false);
}

/* Row by row. */
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *c, CUstream stream)
{
    const bool to_host = c->dstMemoryType == CU_MEMORYTYPE_HOST;
    const bool from_host = c->srcMemoryType == CU_MEMORYTYPE_HOST;
    char *to = to_host ? c->dstHost : pointer(c->dstDevice);
    const char *from = from_host ? c->srcHost : pointer(c->srcDevice);
    CUresult result = CUDA_SUCCESS;

    if (c->srcXInBytes || c->srcY || c->dstXInBytes || c->dstY || c->srcPitch < c->WidthInBytes ||
        c->dstPitch < c->WidthInBytes || fake_memory_is_device((uintptr_t)to) == to_host ||
        fake_memory_is_device((uintptr_t)from) == from_host)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < c->Height && result == CUDA_SUCCESS; i++)
        result = copy(to + i * c->dstPitch, from + i * c->srcPitch, c->WidthInBytes, stream, false);
    return result;
}

/* Contexts need not let each other in. */
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, size_t bytes, CUstream stream)
{
    CUresult result = to_context && from_context ? fake_usable() : CUDA_ERROR_INVALID_CONTEXT;

    fake_lock();
    if (result == CUDA_SUCCESS)
        result = copy_async(pointer(to), pointer(from), bytes, stream);
    fake_unlock();
    return result;
}

static CUresult fill(CUdeviceptr to, uint32_t pattern, int width, size_t count, CUstream stream)
{
    struct transfer *t;
    CUresult result;

    fake_lock();
    result = fake_usable();
    if (result == CUDA_SUCCESS && (!fake_memory_is_device(to) || to % (unsigned)width))
        result = CUDA_ERROR_INVALID_VALUE;
    t = result == CUDA_SUCCESS ? make(0, run_fill) : NULL;
    if (t) {
        t->to = pointer(to), t->size = count, t->pattern = pattern, t->width = width;
        trace_line("fill %zu of %d bytes with %x", count, width, pattern);
        result = fake_queue(stream, &t->work);
    } else if (result == CUDA_SUCCESS) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    fake_unlock();
    return result;
}

CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count)
{
    return fill(to, value, 1, count, NULL);
}

CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t count)
{
    return fill(to, value, 4, count, NULL);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
    return fill(to, value, 1, count, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream)
{
    return fill(to, value, 4, count, stream);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    struct transfer *t = make(0, run_function);
    CUresult result;

    if (!t)
        return CUDA_ERROR_OUT_OF_MEMORY;
    t->function = function, t->to = data;
    fake_lock();
    result = fake_queue(stream, &t->work);
    fake_unlock();
    return result;
}

/*
 * cuda_memory.c - memory of the device for the caller, copies, and how much there is
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_ops.h"

gram_status cuda_memory_allocate(gram_context *g, size_t bytes, void **out)
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
                         "cannot allocate %zu bytes on CUDA device %d: %zu of its %zu are free",
                         bytes, device->index, free_bytes, total);
    *out = (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr)
    return gram_cuda_check(g, device->driver, result, "cuMemAllocAsync");
}

void cuda_memory_free(gram_context *g, void *memory)
{
    const struct cuda_device *device = g->device;
    bool entered = gram_cuda_enter(device);

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

gram_status cuda_memory_copy(gram_context *g, void *to, const void *from, size_t bytes)
{
    const struct cuda_device *device = g->device;
    bool entered = gram_cuda_enter(device);
    CUresult result = device->driver->memory_copy(
        (CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, bytes, device->stream);

    gram_cuda_leave(device, entered);
    return gram_cuda_check(g, device->driver, result, "cuMemcpyAsync");
}

void cuda_describe(const gram_context *g, gram_info *info)
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

/*
 * cuda_memory.c - memory of the device for the caller, copies, and how much there is
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/process.h"
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

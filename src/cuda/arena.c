/*
 * arena.c - the context's scratch on the device: grows, is capped, outlives the graphs that use it
 *
 * A context has one block, which is as large as the largest call so far.  Calls on a stream run one
 * after the other, so that they can share it.  A graph runs again whenever the caller wants, so a
 * block of ours that one has captured is never freed while the context lives.
 *
 * SPDX-License-Identifier: MIT
 */
#include "arena.h"
#include "core/scratch.h"

enum {
    GRAIN = 1 << 21 /* the pool maps memory in pieces of 2 MiB */
};

/* A block that a captured graph may use: freed with the context. */
struct cuda_kept_block {
    struct cuda_kept_block *next;
    struct cuda_block block;
};

/* Memory goes back the way it came: to the caller, in the order of the stream to the pool, or at
 * once to the driver. */
static void give_back(const gram_context *g, const struct cuda_device *device,
                      const struct cuda_block *block)
{
    if (!block->address)
        return;
    if (block->from_caller)
        g->options.release_device(g->options.device_user,
                                  // NOLINTNEXTLINE(performance-no-int-to-ptr)
                                  (void *)(uintptr_t)block->address, block->bytes, device->stream);
    else if (block->from_pool)
        (void)device->driver->memory_free_async(block->address, device->stream);
    else
        (void)device->driver->memory_free(block->address);
}

/* Puts the block in use aside if a graph may use it, else gives it back. */
static gram_status retire(gram_context *g, struct cuda_device *device)
{
    struct cuda_arena *arena = &device->arena;
    struct cuda_kept_block *kept;

    if (arena->block.captured && !arena->block.from_caller) {
        kept = gram_alloc(g, sizeof *kept);
        if (!kept)
            return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", sizeof *kept);
        *kept = (struct cuda_kept_block){arena->kept, arena->block};
        arena->kept = kept;
        arena->kept_bytes += arena->block.bytes;
    } else
        give_back(g, device, &arena->block);
    arena->block = (struct cuda_block){0};
    return GRAM_OK;
}

/* A stream that is being captured forbids cuMemAlloc, unless the thread says otherwise. */
static CUresult allocate(const gram_context *g, const struct cuda_device *device, size_t bytes,
                         bool capturing, struct cuda_block *out)
{
    const struct cuda_driver *driver = device->driver;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUresult result;

    *out = (struct cuda_block){.bytes = bytes, .from_pool = !capturing};
    if (g->options.allocate_device) {
        out->from_caller = true;
        out->address = (CUdeviceptr)(uintptr_t)g->options.allocate_device(g->options.device_user,
                                                                          bytes, device->stream);
        result = out->address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    } else if (!capturing) {
        result = driver->memory_allocate_async(&out->address, bytes, device->stream);
    } else {
        (void)driver->capture_mode(&mode);
        result = driver->memory_allocate(&out->address, bytes);
        (void)driver->capture_mode(&mode);
    }
    if (result != CUDA_SUCCESS)
        *out = (struct cuda_block){0};
    return result;
}

/* Says how much would fit, in whole pieces of the pool. */
static gram_status fail_memory(gram_context *g, const struct cuda_device *device, size_t bytes)
{
    size_t free_bytes = 0, total = 0;

    (void)device->driver->memory_info(&free_bytes, &total);
    return gram_fail(g, GRAM_OUT_OF_MEMORY,
                     "cannot allocate %zu bytes of scratch memory on CUDA device %d: %zu of its "
                     "%zu bytes are free, so at most about %zu would fit",
                     bytes, device->index, free_bytes, total, free_bytes / GRAIN * GRAIN);
}

/* Exchanges the block for a larger one; what the old one held is lost.  The limit counts the blocks
 * of captured graphs too, since they cannot be freed while a graph may run again. */
static gram_status grow(gram_context *g, struct cuda_device *device, size_t bytes, bool capturing)
{
    struct cuda_arena *arena = &device->arena;
    /* The caller's allocator has sizes of its own. */
    size_t grain = g->options.allocate_device ? 64 : GRAIN;
    size_t rounded = (bytes + grain - 1) / grain * grain, limit = g->options.scratch_limit;
    CUresult result;

    if (rounded < bytes)
        return fail_memory(g, device, bytes);
    TRY(retire(g, device));
    if (limit && (bytes > limit || arena->kept_bytes > limit - bytes))
        return gram_fail(g, GRAM_OUT_OF_MEMORY,
                         "this call needs %zu bytes of scratch memory on CUDA device %d, but "
                         "options.scratch_limit is %zu, of which captured graphs hold %zu",
                         bytes, device->index, limit, arena->kept_bytes);
    if (limit && rounded > limit - arena->kept_bytes)
        rounded = limit - arena->kept_bytes;
    result = allocate(g, device, rounded, capturing, &arena->block);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return fail_memory(g, device, bytes);
    return gram_cuda_check(g, device->driver, result, capturing ? "cuMemAlloc" : "cuMemAllocAsync");
}

/* A workspace query ends the call here.  Otherwise scratch is the memory that the caller or an
 * outer call has given, or the block in use, which grows if it must.  Memory of the caller's
 * allocator is not shared by captured and other calls: PyTorch keeps them in pools of their own. */
gram_status gram_cuda_scratch(gram_context *g, size_t bytes, void **out)
{
    struct cuda_device *device = g->device;
    struct cuda_arena *arena = &device->arena;
    bool capturing;

    *out = NULL;
    if (g->measure) {
        *g->measure = bytes;
        return (gram_status)GRAM_MEASURED;
    }
    if (bytes == 0)
        return GRAM_OK;
    gram_cuda_join(g);
    if (arena->given) {
        if (bytes > arena->given_bytes)
            return gram_fail(g, GRAM_OUT_OF_MEMORY,
                             "the given workspace has %zu bytes, but this call needs %zu",
                             arena->given_bytes, bytes);
        *out = arena->given;
        return GRAM_OK;
    }
    TRY(gram_cuda_capturing(g, &capturing));
    if (bytes > arena->block.bytes ||
        (arena->block.from_caller && arena->block.captured != capturing))
        TRY(grow(g, device, bytes, capturing));
    arena->block.captured |= capturing;
    *out = (void *)(uintptr_t)arena->block.address; // NOLINT(performance-no-int-to-ptr)
    return GRAM_OK;
}

/* An outer call lends its scratch to the calls that it makes, which see it as a given workspace. */
void gram_cuda_scratch_begin(gram_context *g, void *memory, size_t bytes,
                             struct cuda_borrowed *before)
{
    struct cuda_arena *arena = &((struct cuda_device *)g->device)->arena;

    *before = (struct cuda_borrowed){arena->given, arena->given_bytes};
    arena->given = memory;
    arena->given_bytes = bytes;
}

/* Calls nest, so what was given before comes back, which may be nothing. */
void gram_cuda_scratch_end(gram_context *g, const struct cuda_borrowed *before)
{
    struct cuda_arena *arena = &((struct cuda_device *)g->device)->arena;

    arena->given = before->given;
    arena->given_bytes = before->bytes;
}

/* What the context has allocated itself is of no more use once a workspace is given. */
gram_status gram_cuda_use_workspace(gram_context *g, void *memory, size_t bytes)
{
    struct cuda_device *device = g->device;
    const struct gram_view view = {.data = memory};
    bool entered;
    gram_status status;

    TRY(gram_cuda_check_pointer(g, "memory", &view));
    gram_cuda_join(g);
    entered = gram_cuda_enter(device);
    status = retire(g, device);
    gram_cuda_leave(device, entered);
    if (status == GRAM_OK) {
        device->arena.given = memory;
        device->arena.given_bytes = memory ? bytes : 0;
    }
    return status;
}

/* A block that captured graphs use stays; it is freed when the context closes. */
void gram_cuda_scratch_release(gram_context *g)
{
    struct cuda_device *device = g->device;
    bool entered;

    if (!device->arena.block.address ||
        (device->arena.block.captured && !device->arena.block.from_caller))
        return;
    gram_cuda_join(g);
    entered = gram_cuda_enter(device);
    give_back(g, device, &device->arena.block);
    gram_cuda_leave(device, entered);
    device->arena.block = (struct cuda_block){0};
}

/* Blocks that graphs used go too: a graph must not run once its context is closed. */
void gram_cuda_arena_close(gram_context *g, struct cuda_device *device)
{
    struct cuda_arena *arena = &device->arena;
    bool entered;

    if (!arena->block.address && !arena->kept)
        return;
    entered = gram_cuda_enter(device);
    give_back(g, device, &arena->block);
    for (struct cuda_kept_block *kept = arena->kept, *next; kept; kept = next) {
        next = kept->next;
        give_back(g, device, &kept->block);
        gram_free(g, kept, sizeof *kept);
    }
    gram_cuda_leave(device, entered);
    *arena = (struct cuda_arena){0};
}

/* Refuses memory of the CPU, unless this device reads it, and memory of other devices.  Managed
 * memory belongs to all of them. */
gram_status gram_cuda_check_pointer(gram_context *g, const char *name, const struct gram_view *v)
{
    const struct cuda_device *device = g->device;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED};
    unsigned type = 0, managed = 0;
    int ordinal = -1;
    void *values[] = {&type, &ordinal, &managed};
    CUresult result;
    bool entered;

    if (!v->data || g->measure) /* a query describes memory that need not exist */
        return GRAM_OK;
    entered = gram_cuda_enter(device);
    result = device->driver->pointer_attributes(sizeof which / sizeof *which, which, values,
                                                (CUdeviceptr)(uintptr_t)v->data);
    gram_cuda_leave(device, entered);
    TRY(gram_cuda_check(g, device->driver, result, "cuPointerGetAttributes"));
    if (type == 0 && !device->reads_host)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "%s is at %p, which is not memory of CUDA device %d", name,
                         (void *)v->data, device->index);
    if (type == CU_MEMORYTYPE_DEVICE && !managed && ordinal != device->index)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "%s is in the memory of CUDA device %d, expected device %d", name, ordinal,
                         device->index);
    return GRAM_OK;
}

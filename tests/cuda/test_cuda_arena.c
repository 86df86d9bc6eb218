/*
 * test_cuda_arena.c - scratch on a device: when it grows, what graphs keep, what is said of too
 * much
 *
 * The driver is a table of functions, so that one made of malloc stands in for it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "cuda/arena.h"
#include "cuda_stubs.h"
#include <stdlib.h>
#include <string.h>

enum {
    MIB = 1 << 20
};

/* What the driver was asked for. */
static struct {
    size_t room;                             /* that is left on the device */
    int pool_blocks, plain_blocks;           /* held now */
    int allocations;                         /* ever */
    CUstreamCaptureMode mode, mode_of_alloc; /* of the thread; and when cuMemAlloc was called */
    CUstreamCaptureStatus capture;
    int wrong_releases; /* by the caller's allocator, of other sizes than were allocated */
} fake;

static CUresult take(CUdeviceptr *address, size_t bytes, int *count)
{
    void *memory = bytes <= fake.room ? malloc(64 + sizeof bytes) : NULL;

    if (!memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(memory, &bytes, sizeof bytes);
    fake.room -= bytes;
    fake.allocations++;
    ++*count;
    *address = (CUdeviceptr)(uintptr_t)memory;
    return CUDA_SUCCESS;
}

static CUresult put_back(CUdeviceptr address, int *count)
{
    void *memory = (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr)
    size_t bytes;

    memcpy(&bytes, memory, sizeof bytes);
    fake.room += bytes;
    --*count;
    free(memory);
    return CUDA_SUCCESS;
}

static CUresult allocate_async(CUdeviceptr *address, size_t bytes, CUstream stream)
{
    (void)stream;
    return take(address, bytes, &fake.pool_blocks);
}

static CUresult release_async(CUdeviceptr address, CUstream stream)
{
    (void)stream;
    return put_back(address, &fake.pool_blocks);
}

static CUresult allocate(CUdeviceptr *address, size_t bytes)
{
    fake.mode_of_alloc = fake.mode;
    return take(address, bytes, &fake.plain_blocks);
}

static CUresult release(CUdeviceptr address)
{
    return put_back(address, &fake.plain_blocks);
}

static CUresult info(size_t *free_bytes, size_t *total)
{
    *free_bytes = fake.room;
    *total = 1024 * (size_t)MIB;
    return CUDA_SUCCESS;
}

static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *status)
{
    (void)stream;
    *status = fake.capture;
    return CUDA_SUCCESS;
}

static CUresult change_mode(CUstreamCaptureMode *mode)
{
    CUstreamCaptureMode former = fake.mode;

    fake.mode = *mode;
    *mode = former;
    return CUDA_SUCCESS;
}

static const struct cuda_driver driver = {
    .memory_allocate = allocate,
    .memory_free = release,
    .memory_allocate_async = allocate_async,
    .memory_free_async = release_async,
    .memory_info = info,
    .stream_capturing = is_capturing,
    .capture_mode = change_mode,
    .pointer_attributes = stub_pointer_attributes,
    .context_current = stub_context_current,
};

static void start(gram_context *g, struct cuda_device *device, size_t room)
{
    memset(&fake, 0, sizeof fake);
    fake.room = room;
    *device = (struct cuda_device){.driver = &driver};
    *g = (gram_context){.call = "test", .device = device, .process = gram_process()};
}

static void finish(struct harness *h, gram_context *g, struct cuda_device *device)
{
    gram_cuda_arena_close(g, device);
    CHECK(h, fake.pool_blocks == 0 && fake.plain_blocks == 0, "%d and %d blocks are left",
          fake.pool_blocks, fake.plain_blocks);
}

static void nothing_is_allocated_in_the_steady_state(struct harness *h)
{
    struct cuda_device device;
    gram_context g;
    void *first, *again, *larger;

    start(&g, &device, 100 * (size_t)MIB);
    CHECK(h, gram_cuda_scratch(&g, 0, &first) == GRAM_OK && !first && fake.allocations == 0,
          "0 bytes allocated");
    CHECK(h, gram_cuda_scratch(&g, 1000, &first) == GRAM_OK && first, "%s", g.message);
    for (int i = 0; i < 10; i++)
        CHECK(h, gram_cuda_scratch(&g, (size_t)(i * 100), &again) == GRAM_OK, "%s", g.message);
    CHECK(h, again == first && fake.allocations == 1, "%d allocations", fake.allocations);
    CHECK(h, gram_cuda_scratch(&g, 60 * (size_t)MIB, &larger) == GRAM_OK, "%s", g.message);
    CHECK(h, fake.allocations == 2 && fake.pool_blocks == 1, "the former block was kept");
    CHECK(h, fake.plain_blocks == 0, "cuMemAlloc outside of a capture");
    finish(h, &g, &device);
}

static void a_graph_keeps_its_block(struct harness *h)
{
    struct cuda_device device;
    gram_context g;
    void *used, *larger, *last;

    start(&g, &device, 100 * (size_t)MIB);
    CHECK(h, gram_cuda_scratch(&g, 1000, &used) == GRAM_OK, "%s", g.message);
    fake.capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    CHECK(h, gram_cuda_scratch(&g, 500, &last) == GRAM_OK && last == used, "%s", g.message);
    CHECK(h, gram_cuda_scratch(&g, 4 * (size_t)MIB, &larger) == GRAM_OK, "%s", g.message);
    CHECK(h, fake.pool_blocks == 1 && fake.plain_blocks == 1, "%d and %d blocks", fake.pool_blocks,
          fake.plain_blocks);
    CHECK(h, fake.mode_of_alloc == CU_STREAM_CAPTURE_MODE_RELAXED, "a mode that forbids it");
    CHECK(h, fake.mode == CU_STREAM_CAPTURE_MODE_GLOBAL, "the thread's mode is not as it was");
    fake.capture = CU_STREAM_CAPTURE_STATUS_NONE;
    CHECK(h, gram_cuda_scratch(&g, 20 * (size_t)MIB, &last) == GRAM_OK, "%s", g.message);
    CHECK(h, fake.pool_blocks == 2 && fake.plain_blocks == 1,
          "a block of a graph was given back: %d and %d are left", fake.pool_blocks,
          fake.plain_blocks);
    finish(h, &g, &device);
}

static void too_much(struct harness *h)
{
    struct cuda_device device;
    gram_context g;
    void *memory;

    start(&g, &device, 50 * (size_t)MIB);
    CHECK(h, gram_cuda_scratch(&g, 60 * (size_t)MIB, &memory) == GRAM_OUT_OF_MEMORY, "accepted");
    CHECK(h,
          strstr(g.message, "62914560 bytes") && strstr(g.message, "52428800 of its 1073741824") &&
              strstr(g.message, "at most about 52428800"),
          "%s", g.message);
    CHECK(h, gram_cuda_scratch(&g, SIZE_MAX - 5, &memory) == GRAM_OUT_OF_MEMORY, "accepted");
    CHECK(h, gram_cuda_scratch(&g, 50 * (size_t)MIB, &memory) == GRAM_OK, "%s", g.message);
    finish(h, &g, &device);
}

static void a_limit(struct harness *h)
{
    struct cuda_device device;
    gram_context g;
    void *memory;

    start(&g, &device, 100 * (size_t)MIB);
    g.options.scratch_limit = 3 * (size_t)MIB + 100;
    CHECK(h, gram_cuda_scratch(&g, g.options.scratch_limit, &memory) == GRAM_OK, "%s", g.message);
    CHECK(h, fake.room == 100 * (size_t)MIB - g.options.scratch_limit, "more than the limit");
    CHECK(h, gram_cuda_scratch(&g, g.options.scratch_limit + 1, &memory) == GRAM_OUT_OF_MEMORY,
          "above the limit");
    CHECK(h, strstr(g.message, "options.scratch_limit is 3145828"), "%s", g.message);
    fake.capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    CHECK(h, gram_cuda_scratch(&g, 2 * (size_t)MIB, &memory) == GRAM_OK, "%s", g.message);
    CHECK(h, gram_cuda_scratch(&g, 3 * (size_t)MIB, &memory) == GRAM_OUT_OF_MEMORY,
          "beside a graph's block");
    finish(h, &g, &device);
}

static void given_memory(struct harness *h)
{
    _Alignas(64) char mine[256];
    struct cuda_device device;
    gram_context g;
    void *memory;

    start(&g, &device, 100 * (size_t)MIB);
    CHECK(h, gram_cuda_scratch(&g, 1000, &memory) == GRAM_OK, "%s", g.message);
    CHECK(h, gram_cuda_use_workspace(&g, mine, sizeof mine) == GRAM_OK, "%s", g.message);
    CHECK(h, fake.pool_blocks == 0, "the arena's own block is still there");
    CHECK(h, gram_cuda_scratch(&g, sizeof mine, &memory) == GRAM_OK && memory == mine, "%s",
          g.message);
    CHECK(h, gram_cuda_scratch(&g, sizeof mine + 1, &memory) == GRAM_OUT_OF_MEMORY, "accepted");
    CHECK(h, strstr(g.message, "the given workspace has 256 bytes, but this call needs 257"), "%s",
          g.message);
    CHECK(h, gram_cuda_use_workspace(&g, NULL, 0) == GRAM_OK, "%s", g.message);
    CHECK(h, gram_cuda_scratch(&g, 10, &memory) == GRAM_OK && memory != mine, "%s", g.message);
    finish(h, &g, &device);
}

static void *caller_allocates(void *user, size_t bytes, void *stream)
{
    CUdeviceptr address = 0;
    int *blocks = user;

    (void)stream;
    return take(&address, bytes, blocks) == CUDA_SUCCESS
               ? (void *)(uintptr_t)address // NOLINT(performance-no-int-to-ptr)
               : NULL;
}

static void caller_releases(void *user, void *memory, size_t bytes, void *stream)
{
    size_t before = fake.room;

    (void)stream;
    put_back((CUdeviceptr)(uintptr_t)memory, user);
    fake.wrong_releases += fake.room != before + bytes;
}

static void memory_of_the_callers_allocator(struct harness *h)
{
    struct cuda_device device;
    gram_context g;
    void *memory, *captured;
    int blocks = 0;

    start(&g, &device, 10 * (size_t)MIB);
    g.options.allocate_device = caller_allocates;
    g.options.release_device = caller_releases;
    g.options.device_user = &blocks;
    CHECK(h, gram_cuda_scratch(&g, 1000, &memory) == GRAM_OK && blocks == 1, "%s", g.message);
    CHECK(h, fake.room == 10 * (size_t)MIB - 1024, "%zu bytes are left", fake.room);
    CHECK(h, gram_cuda_scratch(&g, 500, &captured) == GRAM_OK && captured == memory, "%s",
          g.message);
    fake.capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    CHECK(h, gram_cuda_scratch(&g, 500, &captured) == GRAM_OK && fake.allocations == 2,
          "a graph has memory that was allocated outside of its capture");
    CHECK(h, blocks == 1, "%d blocks", blocks);
    fake.capture = CU_STREAM_CAPTURE_STATUS_NONE;
    CHECK(h, gram_cuda_scratch(&g, 500, &memory) == GRAM_OK && fake.allocations == 3,
          "memory of a graph is used outside of it");
    CHECK(h, gram_cuda_scratch(&g, 11 * (size_t)MIB, &memory) == GRAM_OUT_OF_MEMORY, "accepted");
    CHECK(h, blocks == 0 && gram_cuda_scratch(&g, 64, &memory) == GRAM_OK && blocks == 1,
          "%d blocks", blocks);
    CHECK(h, gram_cuda_use_workspace(&g, NULL, 0) == GRAM_OK && blocks == 0, "%d blocks", blocks);
    CHECK(h, gram_cuda_scratch(&g, 64, &memory) == GRAM_OK && blocks == 1, "%s", g.message);
    gram_cuda_scratch_release(&g);
    CHECK(h, blocks == 0 && fake.wrong_releases == 0, "%d blocks, %d of other sizes", blocks,
          fake.wrong_releases);
    finish(h, &g, &device);
}

static const struct test_function tests[] = {
    {"nothing_is_allocated_in_the_steady_state", nothing_is_allocated_in_the_steady_state},
    {                 "a_graph_keeps_its_block",                  a_graph_keeps_its_block},
    {                                "too_much",                                 too_much},
    {                                 "a_limit",                                  a_limit},
    {                            "given_memory",                             given_memory},
    {         "memory_of_the_callers_allocator",          memory_of_the_callers_allocator},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}

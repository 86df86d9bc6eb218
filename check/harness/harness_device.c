/*
 * harness_device.c - test tensors and scratch in the memory that a context computes in
 *
 * All bytes between a tensor's guard pages travel, both ways: the canaries too, and an address
 * keeps its place in a page.
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_memory.h"
#include "harness_args.h"
#include "trace.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

gram_context *test_cuda_context(struct harness *h, void *stream)
{
    gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
    gram_context *g = NULL;

    o.device.type = GRAM_CUDA;
    o.stream = stream;
    CHECK(h, gram_context_create(&o, &g) == GRAM_OK, "%s", gram_message(NULL));
    return g;
}

gram_device test_asked_device(void)
{
    const char *name = getenv("GRAM_TEST_DEVICE");
    gram_device best;

    if (!name || !*name)
        return (gram_device){GRAM_CPU, 0};
    if (strcmp(name, "cuda") != 0) {
        fprintf(stderr, "GRAM_TEST_DEVICE is \"%s\", expected cuda\n", name);
        exit(2);
    }
    best = gram_best_device();
    if (best.type != GRAM_CUDA) {
        printf("skipped: no CUDA device\n");
        exit(77);
    }
    if (getenv("GRAM_TEST_EMULATED"))
        printf("on the emulation of a CUDA device (tools/cudaemu)\n");
    return best;
}

static char *first_byte(const struct test_tensor *t)
{
    return (char *)t->mapping + sysconf(_SC_PAGESIZE);
}

static size_t byte_count(const struct test_tensor *t)
{
    return t->mapping_bytes - 2 * (size_t)sysconf(_SC_PAGESIZE);
}

bool test_send(struct harness *h, const struct test_tensor *from, struct test_copy *to)
{
    *to = (struct test_copy){.t = from->t};
    if (h->device.type == GRAM_CPU)
        return true;
    to->t.device = h->device;
    if (!CHECK(h, device_open(h->device.index), "no CUDA device %d", (int)h->device.index))
        return false;
    to->memory = device_allocate(byte_count(from));
    to->t.data = (char *)to->memory + ((char *)from->t.data - first_byte(from));
    return CHECK(h, to->memory && device_upload(to->memory, first_byte(from), byte_count(from)),
                 "%zu bytes do not go to the device", byte_count(from));
}

bool test_fetch(struct harness *h, struct test_tensor *to, struct test_copy *from)
{
    bool back = true;

    if (h->device.type == GRAM_CPU)
        return true;
    if (from->memory) {
        back = CHECK(h, device_download(first_byte(to), from->memory, byte_count(to)),
                     "%zu bytes do not come back from the device", byte_count(to));
        device_release(from->memory);
    }
    from->memory = NULL;
    return back;
}

static void *scratch_allocate(const struct harness *h, size_t bytes)
{
    void *memory = NULL;

    if (h->device.type != GRAM_CPU)
        return device_open(h->device.index) ? device_allocate(bytes) : NULL;
    return posix_memalign(&memory, 64, bytes) == 0 ? memory : NULL;
}

static void scratch_release(const struct harness *h, void *memory)
{
    if (h->device.type == GRAM_CPU)
        free(memory);
    else if (memory)
        device_release(memory);
}

static gram_status call_in(struct harness *h, test_call *call, void *problem, void *memory,
                           size_t bytes)
{
    gram_status status = gram_context_use_workspace(h->g, memory, bytes);

    CHECK(h, status == GRAM_OK, "%s", gram_message(h->g));
    return status == GRAM_OK ? call(h, problem, NULL) : status;
}

bool test_in_exact_scratch(struct harness *h, test_call *call, void *problem)
{
    gram_workspace need = {0};
    gram_status status;
    size_t bytes;
    void *memory;

    status = call(h, problem, &need);
    if (status == GRAM_OUT_OF_MEMORY) { /* not even for BLAS: says nothing of the operation */
        fprintf(stderr, "%s\n", gram_message(h->g));
        exit(HARNESS_NO_MEMORY);
    }
    if (!CHECK(h, status == GRAM_OK, "%s", gram_message(h->g)))
        return false;
    trace_line("scratch host=%zu device=%zu", need.host_bytes, need.device_bytes);
    bytes = h->device.type == GRAM_CPU ? need.host_bytes : need.device_bytes;
    memory = scratch_allocate(h, bytes + 64);
    if (!CHECK(h, memory, "no memory for %zu bytes of scratch", bytes))
        return false;
    if (bytes > 0) {
        status = call_in(h, call, problem, memory, bytes - 1);
        CHECK(h, status == GRAM_OUT_OF_MEMORY, "%zu bytes are more than it needs: %s", bytes,
              gram_status_name(status));
    }
    status = call_in(h, call, problem, memory, bytes);
    CHECK(h, status == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, gram_context_synchronize(h->g) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, gram_context_use_workspace(h->g, NULL, 0) == GRAM_OK, "%s", gram_message(h->g));
    scratch_release(h, memory);
    return status == GRAM_OK;
}

bool test_call_there(struct harness *h, const struct test_pair *pairs, int count, test_call *call,
                     void *problem)
{
    bool ran = true;

    for (int i = 0; i < count; i++)
        ran = (!pairs[i].own || test_send(h, pairs[i].own, pairs[i].there)) && ran;
    ran = ran && test_in_exact_scratch(h, call, problem);
    for (int i = 0; i < count; i++)
        ran = (!pairs[i].own || test_fetch(h, pairs[i].own, pairs[i].there)) && ran;
    return ran;
}

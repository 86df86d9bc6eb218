/*
 * harness_device.c - test tensors in the memory of a CUDA device
 *
 * All bytes between a tensor's guard pages travel, both ways: the canaries too, and an address
 * keeps its place in a page.
 *
 * SPDX-License-Identifier: MIT
 */
#include "device_memory.h"
#include "harness.h"
#include <string.h>
#include <unistd.h>

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

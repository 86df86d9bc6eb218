/*
 * fake_cubin.h - what stands before the bytes of a shared object that is called a cubin
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FAKE_CUBIN_H
#define FAKE_CUBIN_H
#include <stdint.h>

#define FAKE_CUBIN_MAGIC "fakecubi"

struct fake_cubin {
    char magic[8];
    uint64_t bytes; /* behind this struct */
};
#endif

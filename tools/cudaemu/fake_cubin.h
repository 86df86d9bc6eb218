/*
 * fake_cubin.h - what stands around the bytes of a shared object that is called a cubin
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FAKE_CUBIN_H
#define FAKE_CUBIN_H
#include <stdint.h>

#define FAKE_CUBIN_MAGIC "fakecubi"

struct fake_cubin {
    char magic[8];
    uint64_t bytes;         /* behind this struct */
    uint64_t defines_bytes; /* behind those: the -D options that made it, with a NUL */
};
#endif

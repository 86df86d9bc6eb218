/*
 * fake_nvrtc_key.h - what the code that fake_nvrtc.c makes depends on beside its sources
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FAKE_NVRTC_KEY_H
#define FAKE_NVRTC_KEY_H
#include "compile_cache.h"

/* A file of a folder, which the caller frees; NULL: it cannot be read. */
char *fake_read_file(const char *folder, const char *name, size_t *size);

/* Of the emulation's texts. */
unsigned fake_emulation_hash(void);
/* A key that holds those texts, the compiler with its version, and its flags. */
struct compile_key fake_key_begin(void);
#endif

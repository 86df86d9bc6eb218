/*
 * fake_nvrtc_key.c - the emulation's texts and the compiler as a key
 *
 * The compiler is asked for its version once per process: an update must not leave old code in use.
 *
 * SPDX-License-Identifier: MIT
 */
#include "fake_nvrtc_key.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const names[] = {
    "device_prelude.h", "device_math.h", "device_intrinsics.h", "ptx_emulated.h",
    "fake_device.h",    "fake_nvrtc.c",  "fake_rewrite.c",      "ptx_wgmma_emulated.h",
};

static struct compile_key key;

char *fake_read_file(const char *folder, const char *name, size_t *size)
{
    char path[512], *text = NULL;
    FILE *file;
    long bytes;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "rb");
    if (!file)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && (bytes = ftell(file)) >= 0 &&
        fseek(file, 0, SEEK_SET) == 0 && (text = calloc(1, (size_t)bytes + 1)) != NULL)
        *size = fread(text, 1, (size_t)bytes, file);
    (void)fclose(file);
    return text;
}

static void add_version(void)
{
    char line[256];
    FILE *compiler = popen(FAKE_CUDA_CXX " --version", "re");

    if (!compiler)
        return;
    while (fgets(line, sizeof line, compiler))
        compile_key_add(&key, line);
    (void)pclose(compiler);
}

static void make_key(void)
{
    key = compile_key_begin();
    compile_key_add(&key, FAKE_CUDA_CXX " " FAKE_CUDA_FLAGS);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t size = 0;
        char *text = fake_read_file(FAKE_CUDA_FOLDER, names[i], &size);
        compile_key_add(&key, text ? text : "");
        free(text);
    }
    add_version();
}

struct compile_key fake_key_begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, make_key);
    return key;
}

unsigned fake_emulation_hash(void)
{
    return (unsigned)fake_key_begin().low;
}

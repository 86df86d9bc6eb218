/*
 * cuda_kernel_file.h - kernels of a test's own .cu file, compiled and launched
 *
 * The file lies in tests/ and may include ptx.cuh.  Whoever includes this links the CUDA backend's
 * objects.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_TEST_CUDA_KERNEL_FILE_H
#define GRAM_TEST_CUDA_KERNEL_FILE_H
#include "check/harness/device_memory.h"
#include "check/harness/harness.h"
#include "cuda/jit.h"
#include <stdlib.h>
#include <string.h>

struct kernel_file {
    const struct cuda_driver *driver;
    CUmodule module;
};

static char *text_of(const char *name)
{
    const char *folder = getenv("GRAM_SOURCE_DIR");
    char path[1024], *text = NULL;
    FILE *file;
    long size = 0;

    snprintf(path, sizeof path, "%s/tests/cuda/%s", folder ? folder : ".", name);
    file = fopen(path, "rb");
    if (!file)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0 &&
        fseek(file, 0, SEEK_SET) == 0 && (text = calloc(1, (size_t)size + 1)) != NULL &&
        fread(text, 1, (size_t)size, file) != (size_t)size)
        text[0] = '\0';
    (void)fclose(file);
    return text;
}

static bool compile_file(struct harness *h, const struct cuda_compiler *compiler, const char *name,
                         struct jit_code *code)
{
    char *text = text_of(name), arch[64], log[4096] = "";
    const struct cuda_source *ptx = gram_cuda_sources;
    const char *options[] = {arch, "--std=c++17"};
    nvrtcProgram program = NULL;
    size_t size = 0;
    bool done;

    while (ptx->name && strcmp(ptx->name, "ptx.cuh") != 0)
        ptx++;
    gram_jit_chip(compiler, 90, log, sizeof log);
    snprintf(arch, sizeof arch, "--gpu-architecture=%s", log);
    done = text && compiler->create(&program, text, name, 1, &ptx->text, &ptx->name) == 0 &&
           compiler->compile(program, 2, options) == NVRTC_SUCCESS &&
           compiler->cubin_size(program, &code->size) == NVRTC_SUCCESS;
    if (!done && program && compiler->log_size(program, &size) == NVRTC_SUCCESS &&
        size < sizeof log)
        (void)compiler->log(program, log);
    code->bytes = done ? calloc(1, code->size) : NULL;
    done = code->bytes && compiler->cubin(program, code->bytes) == NVRTC_SUCCESS;
    CHECK(h, done, "%s does not compile: %s", name, log);
    if (program)
        (void)compiler->destroy(&program);
    free(text);
    return done;
}

/* The device, which must be of compute capability 9.0, gets the file's kernels. */
static bool kernel_file_open(struct harness *h, const char *name, struct kernel_file *f)
{
    struct jit_code code = {0};
    const char *why = "";
    const struct cuda_compiler *compiler = gram_cuda_compiler(h->g, &why);
    bool done;

    *f = (struct kernel_file){.driver = gram_cuda_driver(h->g, &why)};
    if (!f->driver || !compiler || !device_open(0))
        return CHECK(h, false, "no device: %s", why);
    done = compile_file(h, compiler, name, &code) &&
           CHECK(h, f->driver->module_load(&f->module, code.bytes) == CUDA_SUCCESS, "not loaded");
    free(code.bytes);
    return done;
}

/* Starts blocks of so many threads; arguments: pointers to them. */
static CUresult kernel_start(const struct kernel_file *f, const char *name, unsigned blocks,
                             unsigned threads, unsigned shared, void **arguments)
{
    CUfunction function;
    CUresult result = f->driver->module_function(&function, f->module, name);

    if (result != CUDA_SUCCESS)
        return result;
    return f->driver->launch(function, blocks, 1, 1, threads, 1, 1, shared, NULL, arguments, NULL);
}
#endif

/*
 * cuda_kept_compiler.h - NVRTC that compiles nothing twice, for a test that looks at machine code
 *
 * Functions in the place of NVRTC's look into the cache of compile_cache.h first.  What was made
 * for a chip stands there under everything that it depends on: the text and name of the file, of
 * what that includes, the options, and NVRTC itself.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_TEST_CUDA_KEPT_COMPILER_H
#define GRAM_TEST_CUDA_KEPT_COMPILER_H
#include "cuda/driver.h"
#include "tools/cudaemu/compile_cache.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct cuda_compiler *real_compiler;
static char identity[256]; /* of the library that compiles */

/* What a handle points to. */
struct kept_program {
    nvrtcProgram real;
    struct compile_key key;
    char *code; /* NULL: not from the cache */
    size_t size;
};

static struct kept_program *program_of(nvrtcProgram handle)
{
    return (struct kept_program *)handle;
}

static nvrtcResult kept_create(nvrtcProgram *handle, const char *source, const char *name,
                               int count, const char *const *texts, const char *const *names)
{
    struct kept_program *p = calloc(1, sizeof *p);
    nvrtcResult result;

    if (!p)
        return NVRTC_ERROR_OUT_OF_MEMORY;
    result = real_compiler->create(&p->real, source, name, count, texts, names);
    if (result != NVRTC_SUCCESS) {
        free(p);
        return result;
    }
    p->key = compile_key_begin();
    compile_key_add(&p->key, identity);
    compile_key_add(&p->key, name);
    compile_key_add_source(&p->key, source, count, names, texts);
    *handle = (nvrtcProgram)p;
    return NVRTC_SUCCESS;
}

static nvrtcResult kept_destroy(nvrtcProgram *handle)
{
    struct kept_program *p = program_of(*handle);
    nvrtcResult result = real_compiler->destroy(&p->real);

    free(p->code);
    free(p);
    *handle = NULL;
    return result;
}

/* What was compiled is kept; PTX is not. */
static void keep_code(const struct kept_program *p)
{
    size_t size = 0;
    char *code = NULL;

    if (real_compiler->cubin_size(p->real, &size) == NVRTC_SUCCESS && size > 0)
        code = malloc(size);
    if (code && real_compiler->cubin(p->real, code) == NVRTC_SUCCESS)
        compile_cache_put(&p->key, code, size);
    free(code);
}

static nvrtcResult kept_compile(nvrtcProgram handle, int count, const char *const *options)
{
    struct kept_program *p = program_of(handle);
    nvrtcResult result;

    for (int i = 0; i < count; i++)
        compile_key_add(&p->key, options[i]);
    p->code = compile_cache_get(&p->key, &p->size);
    if (p->code)
        return NVRTC_SUCCESS;
    result = real_compiler->compile(p->real, count, options);
    if (result == NVRTC_SUCCESS)
        keep_code(p);
    return result;
}

static nvrtcResult kept_log_size(nvrtcProgram handle, size_t *size)
{
    return real_compiler->log_size(program_of(handle)->real, size);
}

static nvrtcResult kept_log_text(nvrtcProgram handle, char *log)
{
    return real_compiler->log(program_of(handle)->real, log);
}

static nvrtcResult kept_cubin_size(nvrtcProgram handle, size_t *size)
{
    const struct kept_program *p = program_of(handle);

    if (!p->code)
        return real_compiler->cubin_size(p->real, size);
    *size = p->size;
    return NVRTC_SUCCESS;
}

static nvrtcResult kept_cubin(nvrtcProgram handle, char *code)
{
    const struct kept_program *p = program_of(handle);

    if (!p->code)
        return real_compiler->cubin(p->real, code);
    memcpy(code, p->code, p->size);
    return NVRTC_SUCCESS;
}

static nvrtcResult kept_ptx_size(nvrtcProgram handle, size_t *size)
{
    return real_compiler->ptx_size(program_of(handle)->real, size);
}

static nvrtcResult kept_ptx(nvrtcProgram handle, char *text)
{
    return real_compiler->ptx(program_of(handle)->real, text);
}

/* Its version, and the file: patches have the same version. */
static void identify(void)
{
    int major = 0, minor = 0;
    struct stat s = {0};
    Dl_info info;
    void *function;

    (void)real_compiler->version(&major, &minor);
    memcpy(&function, &real_compiler->compile, sizeof function);
    if (dladdr(function, &info) != 0 && info.dli_fname)
        (void)stat(info.dli_fname, &s);
    snprintf(identity, sizeof identity, "nvrtc%d.%d %lld bytes of %lld", major, minor,
             (long long)s.st_size, (long long)s.st_mtime);
}

/* The same as compiler, which stays in use; one for a process. */
static const struct cuda_compiler *kept_compiler(const struct cuda_compiler *compiler)
{
    static struct cuda_compiler kept;

    real_compiler = compiler;
    identify();
    kept = *compiler;
    kept.create = kept_create, kept.destroy = kept_destroy, kept.compile = kept_compile;
    kept.log_size = kept_log_size, kept.log = kept_log_text;
    kept.cubin_size = kept_cubin_size, kept.cubin = kept_cubin;
    kept.ptx_size = kept_ptx_size, kept.ptx = kept_ptx;
    return &kept;
}
#endif

/*
 * jit.c - from a variant to a loaded kernel: memo, process, cache, compiler
 *
 * The process has one table of kernels, since a module lives in a device's primary context, which
 * all contexts of gram share.  A thread that wants a kernel which another one is compiling waits
 * for it; different kernels are compiled side by side.  Nothing is ever unloaded.
 *
 * SPDX-License-Identifier: MIT
 */
#include "jit.h"
#include "core/process.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MEMO = 64 /* kernels that a context finds without a lock; a power of two */
};

struct cuda_kernel_memo {
    struct {
        uint64_t variant;
        CUfunction function; /* NULL: free */
        void *identity;      /* owned; NULL: the number says all */
        size_t identity_bytes;
    } at[MEMO];
};

struct entry {
    struct entry *next;
    int device;
    bool ready, debug;
    CUfunction function;
    uint64_t variant;
    char name[]; /* file, defines and own text */
};

/* Under GRAM_LOCK_KERNELS.  A child after fork() has no device, and so never looks in here. */
static struct {
    pthread_cond_t changed;
    struct entry *first;
} process = {.changed = PTHREAD_COND_INITIALIZER};

static const char *own_text(const struct jit_request *request)
{
    return request->own.name ? request->own.text : "";
}

/* True if name is "file defines own". */
static bool is_named(const char *name, const struct jit_request *request)
{
    const char *const parts[] = {request->file, request->defines, own_text(request)};

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t length = strlen(parts[i]);
        if (strncmp(name, parts[i], length) != 0 || name[length] != (i < 2 ? ' ' : '\0'))
            return false;
        name += length + 1;
    }
    return true;
}

static struct entry *find(int device, bool debug, const struct jit_request *request)
{
    for (struct entry *e = process.first; e; e = e->next)
        if (e->device == device && e->debug == debug && e->variant == request->variant &&
            is_named(e->name, request))
            return e;
    return NULL;
}

static struct entry *add(int device, bool debug, const struct jit_request *request)
{
    size_t bytes = strlen(request->file) + strlen(request->defines) + strlen(own_text(request)) + 3;
    struct entry *e = calloc(1, sizeof *e + bytes);

    if (!e)
        return NULL;
    e->device = device;
    e->debug = debug;
    e->variant = request->variant;
    snprintf(e->name, bytes, "%s %s %s", request->file, request->defines, own_text(request));
    e->next = process.first;
    process.first = e;
    return e;
}

static void drop(struct entry *gone)
{
    struct entry **at = &process.first;

    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
    free(gone);
}

gram_status gram_jit_code(gram_context *g, const struct cuda_device *device,
                          const struct jit_request *request, struct jit_code *code)
{
    const char *why;
    const struct cuda_compiler *compiler = gram_cuda_compiler(g, &why);
    char arch[32], chip[33], key[JIT_KEY_BYTES], not_kept[256];
    const int64_t start = gram_nanoseconds();

    if (!compiler)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s", why);
    gram_jit_chip(compiler, device->arch, arch, sizeof arch);
    gram_jit_chip_for(request, arch, chip, sizeof chip);
    gram_jit_key(g, compiler, request, chip, key);
    if (gram_jit_cache_get(g, key, code)) {
        gram_log(g, "kernel from the cache, %.1f ms: %s", gram_milliseconds_since(start), key);
        return GRAM_OK;
    }
    if (g->no_jit)
        return gram_fail(g, GRAM_UNSUPPORTED, "GRAM_JIT is off and the cache has no kernel %s",
                         key);
    TRY(gram_jit_compile(g, compiler, request, chip, code));
    gram_log(g, "kernel compiled, %.1f ms: %s", gram_milliseconds_since(start), key);
    (void)gram_jit_cache_put(g, key, code, not_kept, sizeof not_kept);
    return GRAM_OK;
}

static int attribute(const struct cuda_device *device, CUfunction function,
                     CUfunction_attribute which)
{
    int value = 0;

    (void)device->driver->function_attribute(&value, which, function);
    return value;
}

/* A stream that is being captured forbids what loading does, unless the thread says otherwise. */
static gram_status load(gram_context *g, const struct cuda_device *device,
                        const struct jit_request *request, const struct jit_code *code,
                        CUfunction *function)
{
    const struct cuda_driver *driver = device->driver;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    const int64_t start = gram_nanoseconds();
    CUmodule module;
    CUresult result;

    (void)driver->capture_mode(&mode);
    result = driver->module_load(&module, code->bytes);
    if (result == CUDA_SUCCESS)
        result = driver->module_function(function, module, request->kernel);
    if (result == CUDA_SUCCESS && request->shared_bytes)
        result = driver->function_set(*function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                      (int)request->shared_bytes);
    (void)driver->capture_mode(&mode);
    TRY(gram_cuda_check(g, driver, result, "cuModuleLoadData"));
    gram_log(g, "kernel loaded, %.1f ms: %d registers, %d bytes of shared and %d of local memory",
             gram_milliseconds_since(start),
             attribute(device, *function, CU_FUNC_ATTRIBUTE_NUM_REGS),
             attribute(device, *function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
             attribute(device, *function, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
    return GRAM_OK;
}

static gram_status make(gram_context *g, const struct cuda_device *device,
                        const struct jit_request *request, CUfunction *function)
{
    struct jit_code code = {0};
    gram_status status = gram_jit_code(g, device, request, &code);

    if (status == GRAM_OK)
        status = load(g, device, request, &code, function);
    free(code.bytes);
    return status;
}

/* A device and what it is: an emulated one can become another. */
static int chip_of(const struct cuda_device *device)
{
    return device->index * 1024 + device->arch;
}

/* The process's kernel; made by this thread if no other one has or is about to. */
gram_status gram_jit_process_kernel(gram_context *g, const struct cuda_device *device,
                                    const struct jit_request *request, CUfunction *out)
{
    gram_status status = GRAM_OK;
    struct entry *e;

    gram_process_lock(g, GRAM_LOCK_KERNELS);
    while ((e = find(chip_of(device), g->debug_jit, request)) && !e->ready)
        pthread_cond_wait(&process.changed, &g->process->lock[GRAM_LOCK_KERNELS]);
    if (!e) {
        e = add(chip_of(device), g->debug_jit, request);
        if (!e) {
            gram_process_unlock(g, GRAM_LOCK_KERNELS);
            return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the entry of a kernel");
        }
        gram_process_unlock(g, GRAM_LOCK_KERNELS);
        status = make(g, device, request, &e->function);
        gram_process_lock(g, GRAM_LOCK_KERNELS);
        e->ready = status == GRAM_OK;
        *out = e->function;
        if (!e->ready)
            drop(e);
        pthread_cond_broadcast(&process.changed);
    } else
        *out = e->function;
    gram_process_unlock(g, GRAM_LOCK_KERNELS);
    return status;
}

static unsigned slot_of(uint64_t variant)
{
    return (unsigned)(variant * 0x9E3779B97F4A7C15u >> 32) % MEMO;
}

/* A caller who chooses the text of an expression can choose its number as well: two texts of one
 * number must not be one kernel. */
CUfunction gram_jit_recall_own(const struct cuda_device *device, uint64_t variant,
                               const void *identity, size_t bytes)
{
    const unsigned slot = slot_of(variant);
    const struct cuda_kernel_memo *memo = device->memo;

    if (!memo || memo->at[slot].variant != variant || memo->at[slot].identity_bytes != bytes ||
        (bytes > 0 && memcmp(memo->at[slot].identity, identity, bytes) != 0))
        return NULL;
    return memo->at[slot].function;
}

CUfunction gram_jit_recall(const struct cuda_device *device, uint64_t variant)
{
    return gram_jit_recall_own(device, variant, NULL, 0);
}

/* What cannot be remembered for want of memory is found again in the process. */
static void remember(gram_context *g, struct cuda_kernel_memo *memo,
                     const struct jit_request *request, CUfunction function)
{
    const unsigned slot = slot_of(request->variant);
    void *identity = NULL;

    if (request->identity_bytes > 0) {
        identity = gram_alloc(g, request->identity_bytes);
        if (!identity)
            return;
        memcpy(identity, request->identity, request->identity_bytes);
    }
    gram_free(g, memo->at[slot].identity, memo->at[slot].identity_bytes);
    memo->at[slot].identity = identity;
    memo->at[slot].identity_bytes = request->identity_bytes;
    memo->at[slot].variant = request->variant;
    memo->at[slot].function = function;
}

gram_status gram_jit_kernel(gram_context *g, struct cuda_device *device,
                            const struct jit_request *request, CUfunction *out)
{
    if (!device->memo) {
        device->memo = gram_alloc(g, sizeof *device->memo);
        if (!device->memo)
            return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes",
                             sizeof *device->memo);
        memset(device->memo, 0, sizeof *device->memo);
    }
    TRY(gram_jit_process_kernel(g, device, request, out));
    remember(g, device->memo, request, *out);
    return GRAM_OK;
}

void gram_jit_forget(gram_context *g, struct cuda_device *device)
{
    for (int i = 0; device->memo && i < MEMO; i++)
        gram_free(g, device->memo->at[i].identity, device->memo->at[i].identity_bytes);
    gram_free(g, device->memo, sizeof *device->memo);
    device->memo = NULL;
}

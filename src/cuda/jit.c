/*
 * jit.c - from a request to code: the cache, else the compiler
 *
 * SPDX-License-Identifier: MIT
 */
#include "jit.h"
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

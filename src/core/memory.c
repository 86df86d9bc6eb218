/*
 * memory.c - memory that a context computes in, and copies to and from it
 *
 * SPDX-License-Identifier: MIT
 */
#include "backend.h"
#include <string.h>

static gram_status allocate(gram_context *g, size_t bytes, void **out)
{
    if (!out)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "out is NULL, expected where to put the memory");
    *out = NULL;
    if (bytes == 0)
        return GRAM_OK;
    if (g->backend->memory_allocate)
        return g->backend->memory_allocate(g, bytes, out);
    *out = gram_alloc(g, bytes);
    return *out ? GRAM_OK : gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
}

gram_status gram_memory_allocate(gram_context *g, size_t bytes, void **out)
{
    TRY(gram_begin_without_blas(g, __func__));
    return allocate(g, bytes, out);
}

gram_status gram_memory_allocate_zeros(gram_context *g, size_t bytes, void **out)
{
    gram_status status;

    TRY(gram_begin_without_blas(g, __func__));
    TRY(allocate(g, bytes, out));
    if (bytes == 0)
        return GRAM_OK;
    if (!g->backend->memory_zero) {
        memset(*out, 0, bytes);
        return GRAM_OK;
    }
    status = g->backend->memory_zero(g, *out, bytes);
    if (status != GRAM_OK) {
        g->backend->memory_free(g, *out);
        *out = NULL;
    }
    return status;
}

void gram_memory_free(gram_context *g, void *memory, size_t bytes)
{
    if (!g || !memory)
        return;
    if (g->backend->memory_free)
        g->backend->memory_free(g, memory);
    else
        gram_free(g, memory, bytes);
}

gram_status gram_memory_copy(gram_context *g, void *to, const void *from, size_t bytes)
{
    TRY(gram_begin_beside(g, __func__, "g"));
    if (bytes == 0)
        return GRAM_OK;
    if (!to || !from)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is NULL, expected memory of %zu bytes",
                         to ? "from" : "to", bytes);
    if (g->backend->memory_copy)
        return g->backend->memory_copy(g, to, from, bytes);
    memmove(to, from, bytes);
    return GRAM_OK;
}

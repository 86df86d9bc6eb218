/*
 * machine_place.c - arrays of a machine where its context computes
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_place.h"
#include <string.h>

gram_status gram_machine_room(gram_context *g, size_t bytes, struct machine_array *out)
{
    *out = (struct machine_array){.bytes = bytes ? bytes : 1, .own = true};
    if (!gram_machine_on_host(g))
        return g->backend->memory_allocate(g, out->bytes, &out->data);
    out->data = gram_alloc(g, out->bytes);
    return out->data ? GRAM_OK
                     : gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", out->bytes);
}

void gram_machine_array_free(gram_context *g, struct machine_array *a)
{
    if (a->own && a->data && gram_machine_on_host(g))
        gram_free(g, a->data, a->bytes);
    else if (a->own && a->data)
        g->backend->memory_free(g, a->data);
    *a = (struct machine_array){0};
}

/* Waits, so that the host's memory may change or end afterwards. */
gram_status gram_machine_put(gram_context *g, void *to, const void *host, size_t bytes)
{
    if (gram_machine_on_host(g)) {
        memcpy(to, host, bytes);
        return GRAM_OK;
    }
    if (bytes > 0)
        TRY(g->backend->memory_copy(g, to, host, bytes));
    return g->backend->synchronize(g);
}

gram_status gram_machine_send(gram_context *g, const void *host, size_t bytes,
                              struct machine_array *out)
{
    gram_status status;

    if (gram_machine_on_host(g)) {
        *out = (struct machine_array){.data = (void *)host, .bytes = bytes};
        return GRAM_OK;
    }
    TRY(gram_machine_room(g, bytes, out));
    status = gram_machine_put(g, out->data, host, bytes);
    if (status != GRAM_OK)
        gram_machine_array_free(g, out);
    return status;
}

gram_status gram_machine_fetch(gram_context *g, void *host, const void *from, size_t bytes)
{
    if (gram_machine_on_host(g)) {
        if (host != from)
            memcpy(host, from, bytes);
        return GRAM_OK;
    }
    if (bytes > 0)
        TRY(g->backend->memory_copy(g, host, from, bytes));
    return g->backend->synchronize(g);
}

gram_tensor gram_machine_matrix(const gram_context *g, const void *data, int64_t rows, int64_t cols,
                                gram_dtype dtype)
{
    gram_tensor t = gram_matrix((void *)data, rows, cols, dtype);

    t.device = g->options.device;
    return t;
}

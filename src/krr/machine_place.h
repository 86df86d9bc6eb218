/*
 * machine_place.h - arrays of a machine where its context computes
 *
 * On the CPU an array of the host serves as it is; a GPU gets a copy.  Tables, the small matrices
 * of a metric and everything that is decided stay on the host.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MACHINE_PLACE_H
#define GRAM_MACHINE_PLACE_H
#include "core/backend.h"

struct machine_array {
    void *data;
    size_t bytes;
    bool own; /* to be freed */
};

static inline bool gram_machine_on_host(const gram_context *g)
{
    return g->options.device.type == GRAM_CPU;
}

/* Memory with undefined contents. */
gram_status gram_machine_room(gram_context *g, size_t bytes, struct machine_array *out);
/* An array of the host: itself, or a copy that is there when this returns. */
gram_status gram_machine_send(gram_context *g, const void *host, size_t bytes,
                              struct machine_array *out);
/* Waits, and copies to the host; from may be there already. */
gram_status gram_machine_fetch(gram_context *g, void *host, const void *from, size_t bytes);
/* Copies from the host; the copy is there when this returns. */
gram_status gram_machine_put(gram_context *g, void *to, const void *host, size_t bytes);
void gram_machine_array_free(gram_context *g, struct machine_array *a);

/* A row-major matrix of the context's device. */
gram_tensor gram_machine_matrix(const gram_context *g, const void *data, int64_t rows, int64_t cols,
                                gram_dtype dtype);
#endif

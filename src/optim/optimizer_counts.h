/*
 * optimizer_counts.h - the counts of an optimizer whose state is on a GPU, read by the host
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_OPTIMIZER_COUNTS_H
#define GRAM_OPTIMIZER_COUNTS_H
#include "core/backend.h"
#include "optimizer.h"

/* What the device has made of them; waits for it. */
static inline gram_status gram_optimizer_read_counts(gram_context *g, const gram_optimizer *o)
{
    if (!o->owner)
        return GRAM_OK;
    TRY(g->backend->memory_copy(g, o->counts, o->state, o->counts_bytes));
    return g->backend->synchronize(g);
}
#endif

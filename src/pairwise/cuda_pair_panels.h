/*
 * cuda_pair_panels.h - a pairwise matrix on the device, panel by panel, for operations that reduce
 * its rows
 *
 * A panel is written as gram_kernel does it, and the operation's kernel reads it while most of it
 * is in the second-level cache.  Items go together, in rounds of as many as scratch has room for.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_PAIR_PANELS_H
#define GRAM_CUDA_PAIR_PANELS_H
#include "cuda/arena.h"
#include "cuda_cdist.h"
#include "pair_panel_params.h"

struct cuda_panels {
    const struct gram_cdist_op *op; /* the values; its out is not set */
    /* The operation: takes its scratch for so many rows of all items of a round, of which each
     * needs row_bytes, and queues what it makes of a panel. */
    void (*take)(void *of, struct gram_layout *layout, size_t rows);
    gram_status (*queue)(gram_context *g, void *of);
    void *of;
    size_t row_bytes;
    struct pair_panel *panel; /* among the parameters of the operation's kernel */
    /* Chosen by cuda_panels_plan. */
    gram_dtype dtype;   /* of the values */
    int64_t rows, cols; /* of a panel */
};

/* Chooses the panels and describes the batch; the members above it are filled in. */
void cuda_panels_plan(struct cuda_panels *panels);

/* Refuses sizes that the kernels do not count, and points that are not on the device; out: what has
 * the place of the matrix, whose data may be NULL. */
gram_status cuda_panels_check(gram_context *g, const struct gram_cdist_op *op,
                              const struct gram_view *out);

/* Queues all panels. */
gram_status cuda_panels_run(gram_context *g, struct cuda_panels *panels);
#endif

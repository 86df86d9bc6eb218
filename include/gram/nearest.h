/*
 * nearest.h - the nearest rows of a set, and those within a radius, exact and without the matrix
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_PUBLIC_NEAREST_H
#define GRAM_PUBLIC_NEAREST_H
#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Nearest neighbours ------------------------------------------------------------------- */

/* The most neighbours per row that one call can store. */
#define GRAM_MAX_NEIGHBOURS 1024

typedef struct gram_nearest_options {
    size_t size;
    int exclude_self;    /* only where y is x: row i is no neighbour of itself */
    int within;          /* only rows at a distance of at most radius are neighbours */
    double radius;       /* at least 0; INFINITY is allowed */
    gram_tensor *counts; /* i64, of m elements; or NULL */
    /* CPU: called now and then by the calling thread, with the share of the work that is done;
     * NULL: nothing is called. */
    void (*progress)(void *progress_user, double fraction);
    void *progress_user;
} gram_nearest_options;

/* clang-format off */
#define GRAM_NEAREST_OPTIONS_INIT GRAM_SIZED_(gram_nearest_options)
/* clang-format on */

/*
 * Nearest neighbours: for every row i of x the rows j of y at the smallest distances
 *   d[i, j] = gram_cdist(x, y, p)[i, j],
 * in ascending order.  Of rows at the same distance, the one with the lower index comes first, so
 * that the result is the beginning of a stable sort of row i of d.  The search is exact: it
 * compares all pairs, and stores no matrix.
 *
 * x is m by k and y is n by k, in f32, f64, f16 or bf16 (both the same), with any strides.  y may
 * be NULL for x itself; then options.exclude_self leaves out the pairs i = j, but not other rows
 * that have the same coordinates.  p is 0, positive or INFINITY, as in gram_cdist.  indices and
 * distances are m by count; their number of columns is the number of neighbours that are wanted, at
 * most GRAM_MAX_NEIGHBOURS.  indices is i64, and distances has the dtype of gram_cdist's out.
 * Either may be NULL.  Batches of x, y and p broadcast.
 *
 * options.within keeps only neighbours with d[i, j] <= options.radius.  options.counts receives how
 * many neighbours each row has, whether or not they all found a place in indices.  Where counts is
 * given, indices and distances may both be NULL.
 *
 * A pair whose distance is NaN or infinite is no neighbour; a row that holds a NaN has none.
 * Places for which there is no neighbour receive the index -1 and the distance INFINITY.
 *
 * Distances have the error of gram_cdist.  A neighbour can therefore be wrong only where distances
 * are equal within that error.  Equal rows have the distance 0 exactly.  The result does not depend
 * on the number of threads.
 *
 * Memory: scratch holds a block of distances and the neighbours found so far of the rows at work.
 * It does not grow with m n.  On the CPU, the call can be cancelled (gram_context_cancel), which
 * leaves a part of the outputs written.  On CUDA, the call only enqueues work, and sizes are at
 * most 2^31 - 1.
 */
GRAM_API gram_status gram_nearest(gram_context *g, const gram_tensor *x, const gram_tensor *y,
                                  gram_scalar p, const gram_nearest_options *options,
                                  gram_tensor *indices, gram_tensor *distances);

GRAM_API gram_status gram_nearest_workspace(gram_context *g, const gram_tensor *x,
                                            const gram_tensor *y, gram_scalar p,
                                            const gram_nearest_options *options,
                                            const gram_tensor *indices,
                                            const gram_tensor *distances, gram_workspace *need);

#ifdef __cplusplus
}
#endif
#endif

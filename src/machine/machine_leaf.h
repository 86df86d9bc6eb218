/*
 * machine_leaf.h - the arrays of a leaf: on the CPU from malloc, on a GPU while a fit goes on
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MACHINE_LEAF_H
#define GRAM_MACHINE_LEAF_H
#include "krr/machine_place.h"
#include "machine.h"

static inline size_t gram_machine_x_bytes(const struct machine_leaf *leaf)
{
    return (size_t)(leaf->rows * leaf->width) * gram_dtype_size(leaf->dtype);
}

static inline size_t gram_machine_alpha_bytes(const struct machine_leaf *leaf)
{
    return (size_t)(leaf->rows * leaf->outputs) * gram_dtype_size(leaf->dtype);
}

/* Room for x and alpha where the context computes; from malloc on the CPU, since there they outlive
 * the context. */
gram_status gram_machine_leaf_allocate(gram_context *g, struct machine_leaf *leaf);
void gram_machine_leaf_free(gram_context *g, struct machine_leaf *leaf);
#endif

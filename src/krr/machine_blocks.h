/*
 * machine_blocks.h - a symmetric kernel matrix kept as square blocks of its lower triangle
 *
 * Half the memory of the full matrix.  Block (i, j), j <= i, is row-major with leading dimension
 * size; ragged blocks at the end keep that leading dimension.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MACHINE_BLOCKS_H
#define GRAM_MACHINE_BLOCKS_H
#include "core/context.h"

struct machine_blocks {
    int64_t n, size, count; /* rows, rows of a block, blocks along an edge */
    int64_t ld;             /* of a block, in elements */
    gram_dtype dtype;
    char *data;
    char *strips, *product; /* room for a product, behind the blocks */
    size_t bytes;           /* of all */
};

size_t gram_machine_blocks_bytes(int64_t n, gram_dtype dtype);

/* Fills the blocks with the kernel of the rows of x (n by d, row-major, dtype). */
gram_status gram_machine_blocks_create(gram_context *g, const gram_tensor *x,
                                       const gram_kernel_options *kernel,
                                       struct machine_blocks *out);
void gram_machine_blocks_destroy(gram_context *g, struct machine_blocks *k);

/* out = (K + diag(ridge)) v; v and out are n by columns, column-major without gaps. */
void gram_machine_blocks_multiply(gram_context *g, const struct machine_blocks *k,
                                  const double *ridge, int64_t columns, const void *v, void *out);
#endif

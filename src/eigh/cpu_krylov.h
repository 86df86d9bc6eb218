/*
 * cpu_krylov.h - the Krylov solver on the CPU: its tall matrices, and products of a stored matrix
 *
 * V, Q and W are stored by rows: the elements of one row lie together.  Sums over n have a fixed
 * number of parts, so results do not depend on the number of threads.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CPU_KRYLOV_H
#define GRAM_CPU_KRYLOV_H
#include "core/scratch.h"
#include "core/view.h"
#include "cpu/cpu_kernels.h"
#include "krylov.h"

extern const struct krylov_ops cpu_krylov_ops;

/* ---- Products of a stored matrix ------------------------------------------------------------- */

/* A stored symmetric matrix, of which one triangle is read. */
struct gram_symmetric {
    gram_context *g;
    struct gram_view view; /* of one matrix */
    gram_uplo uplo;
    /* Scratch: the vectors in rows of 64 bytes; of each part a sum like them, a copy of a block,
     * and the product of its transpose. */
    char *x, *sums, *blocks, *others;
    /* Set by gram_symmetric_prepare. */
    gram_symmetric_kernel *kernel;
    double scale; /* a power of 2: products are those of scale^2 A, out of danger */
};

/* The most columns of a product, 64 bytes. */
int64_t gram_symmetric_columns(gram_dtype dtype);
/* Takes the scratch of products, for the shape and the dtype of the view. */
void gram_symmetric_take(struct gram_symmetric *a, struct gram_layout *l);
/* Chooses the scale and the order of rows and columns.  False: the triangle holds NaN or
 * infinity. */
bool gram_symmetric_prepare(struct gram_symmetric *a);
/* A krylov_multiply; user is a struct gram_symmetric. */
gram_status gram_symmetric_multiply(void *user, int64_t columns, const void *in, void *out);
#endif

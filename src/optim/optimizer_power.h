/*
 * optimizer_power.h - the roots of Shampoo's factors as an operation of any device
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_OPTIMIZER_POWER_H
#define GRAM_OPTIMIZER_POWER_H
#include "core/backend.h"
#include "optimizer.h"
#include <math.h>

/* Of count factors of order n of blocks like b, one after the other; places are still to be filled
 * in. */
static inline struct gram_matrix_power_op gram_optimizer_power(const gram_optimizer *o,
                                                               const struct gram_optimizer_block *b,
                                                               int64_t n, gram_dtype work,
                                                               int64_t count)
{
    struct gram_matrix_power_op op = {
        .batch = {                  .ndim = 1, .shape = {count}, .count = count},
        .a = gram_view_dense(NULL, work, n, n),
        .out = gram_view_dense(NULL, work, n, n),
        .info = gram_view_dense(NULL, GRAM_I32, 1, 1),
        .has_info = true,
        .numerator = -b->numerator,
        .denominator = b->denominator,
        .method = o->options.root,
        .precision = work == GRAM_F32 ? o->options.root_precision : GRAM_POWER_PRECISION_AUTO,
        .uplo = GRAM_UPPER,
        .ridge = {.value = o->options.epsilon                 },
        .ridge_relative = o->options.epsilon_relative != 0,
        .factor = true,
        .tolerance = INFINITY,
        .iterations = 100,
    };

    op.a.batch_stride[0] = op.out.batch_stride[0] = n * n;
    op.info.batch_stride[0] = 1;
    return op;
}

/* What a root that fits adds to the eigenvalues of a factor, the largest of which is most: as
 * gram.h has r, but for negative eigenvalues; least is that of the device's roots. */
static inline double gram_optimizer_ridge(const gram_optimizer_options *o, double least,
                                          double most)
{
    double ridge = fmax(o->epsilon_relative ? o->epsilon * most : o->epsilon, least * most);

    return ridge > 0 ? ridge : 1;
}
#endif

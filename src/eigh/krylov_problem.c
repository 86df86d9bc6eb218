/*
 * krylov_problem.c - eigenproblems as the Krylov solver takes them, and what it tells of them
 *
 * SPDX-License-Identifier: MIT
 */
#include "krylov.h"
#include <float.h>
#include <math.h>

enum {
    PRODUCTS = 1000, /* of blocks, where nothing else would do */
    LEAST_PRODUCTS = 60,
    PRODUCT_SHARE = 16 /* n over it: products of blocks of 8 that take a quarter of the dense
                          driver's time (Zen 4, n = 4000) */
};

struct krylov gram_krylov_problem(gram_context *g, const struct gram_eigh_op *op, bool falls_back)
{
    double eps = op->a.dtype == GRAM_F32 ? FLT_EPSILON : DBL_EPSILON;
    struct krylov z = {
        .g = g,
        .dtype = op->a.dtype,
        .n = op->a.rows,
        .k = op->count,
        .smallest = op->first == 0,
        .tolerance = op->tolerance > 0 ? op->tolerance : fmin(10 * (double)op->a.rows * eps, 1e-5),
        .most_products = op->products > 0 ? op->products : PRODUCTS,
        .seed = op->seed,
        .small_eigh = op->small_eigh,
    };

    if (falls_back && op->products == 0)
        z.most_products = gram_most(LEAST_PRODUCTS, op->a.rows / PRODUCT_SHARE);
    return z;
}

bool gram_krylov_takes(const struct gram_eigh_op *op)
{
    enum {
        MOST_PAIRS = 1 << 15 /* products of sizes stay far from overflow */
    };

    return op->count <= MOST_PAIRS && !op->by_value &&
           (op->first == 0 || op->first + op->count == op->a.rows);
}

void gram_krylov_order(const struct krylov *z, int32_t *order)
{
    for (int64_t i = 0; i < z->k; i++) { /* one by one to their place: they are nearly in order */
        int64_t at = i;
        for (; at > 0 && z->wanted[order[at - 1]] > z->wanted[i]; at--)
            order[at] = order[at - 1];
        order[at] = (int32_t)i;
    }
}

void gram_krylov_report(const struct krylov *z, gram_eigh_report *to)
{
    double residual = z->norm > 0 ? z->residual / z->norm : 0;

    if (!to)
        return;
    to->products += z->products;
    if (z->complete && z->converged == z->k)
        to->residual = fmax(to->residual, residual);
}

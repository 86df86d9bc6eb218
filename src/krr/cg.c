/*
 * cg.c - block conjugate gradients: one product with K serves all columns
 *
 * Each column has its own step lengths, so each converges as if it were alone (Hestenes and
 * Stiefel, 1952; Saad, Iterative methods for sparse linear systems, section 9.2).  The residual
 * that the recursion carries drifts from the true one by rounding, so rounds of iterations end with
 * the true residual, and the next round starts from it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "krr_passes.h"
#include <math.h>

enum {
    MOST_ITERATIONS = 300, /* in all rounds */
    MOST_ROUNDS = 4
};

struct cg {
    const struct krr_iteration *it;
    struct krr_cg_step vectors; /* all but its step */
    void *product;
    double *norms; /* norm_b and norm_r on the host */
};

static size_t vector_bytes(int64_t n, int64_t columns, gram_dtype dtype)
{
    return gram_round64((size_t)(n * columns) * gram_dtype_size(dtype));
}

static size_t product_bytes(const gram_context *g, int64_t n, int64_t columns, gram_dtype dtype)
{
    return vector_bytes(n, columns, g->backend->krr->wide_product ? GRAM_F64 : dtype);
}

size_t gram_krr_iterate_bytes(const gram_context *g, int64_t n, int64_t columns, gram_dtype dtype)
{
    return 3 * vector_bytes(n, columns, dtype) + product_bytes(g, n, columns, dtype) +
           3 * (size_t)columns * sizeof(double);
}

static gram_status step(gram_context *g, const struct cg *c, enum krr_step kind)
{
    struct krr_cg_step op = c->vectors;

    op.step = kind;
    return g->backend->krr->cg_step(g, &op);
}

static gram_status multiply(gram_context *g, const struct cg *c, const void *v)
{
    const struct krr_product op = {.k = c->it->k,
                                   .ridge = c->it->ridge,
                                   .columns = c->it->columns,
                                   .v = v,
                                   .product = c->product};

    return g->backend->krr->multiply(g, &op);
}

/* The largest |r| / |b|; waits for a GPU. */
static gram_status largest_residual(gram_context *g, const struct cg *c, double *out)
{
    int64_t columns = c->it->columns;
    double largest = 0;

    TRY(gram_krr_fetch(g, c->norms, c->vectors.norm_b, 2 * (size_t)columns * sizeof(double)));
    for (int64_t j = 0; j < columns; j++)
        if (c->norms[j] > 0)
            largest = fmax(largest, c->norms[columns + j] / c->norms[j]);
    *out = largest;
    return GRAM_OK;
}

/* Iterates from the true residual in r until the carried one is below tolerance. */
static gram_status one_round(gram_context *g, const struct cg *c, double tolerance, int *iterations)
{
    double carried;

    TRY(step(g, c, KRR_RESTART));
    TRY(largest_residual(g, c, &carried));
    while (*iterations < MOST_ITERATIONS && carried > tolerance) {
        TRY(g->backend->krr->apply(g, c->it->p, c->vectors.r, c->vectors.z));
        TRY(step(g, c, KRR_TURN));
        TRY(multiply(g, c, c->vectors.d));
        TRY(step(g, c, KRR_DESCEND));
        TRY(largest_residual(g, c, &carried));
        ++*iterations;
        if (gram_cancelled(g))
            return gram_fail(g, GRAM_CANCELLED, "cancelled");
    }
    return GRAM_OK;
}

static gram_status iterate(gram_context *g, const struct cg *c, struct krr_report *report)
{
    double before = INFINITY, tolerance = c->it->tolerance;

    TRY(step(g, c, KRR_START));
    for (int round = 0; round < MOST_ROUNDS; round++) {
        if (round > 0) {
            TRY(multiply(g, c, c->vectors.x));
            TRY(step(g, c, KRR_RESIDUAL));
        }
        TRY(largest_residual(g, c, &report->residual));
        if (report->residual <= tolerance || report->iterations >= MOST_ITERATIONS ||
            report->residual > 0.5 * before) /* rounding allows no more */
            break;
        before = report->residual;
        TRY(one_round(g, c, 0.7 * tolerance, &report->iterations));
    }
    return GRAM_OK;
}

gram_status gram_krr_iterate(gram_context *g, const struct krr_iteration *it,
                             struct krr_report *report)
{
    int64_t n = it->k->n, columns = it->columns;
    gram_dtype dtype = it->k->dtype;
    size_t part = vector_bytes(n, columns, dtype), norms = 2 * (size_t)columns * sizeof(double);
    struct cg c = {.it = it};
    struct krr_array memory;
    char *at;
    gram_status status;

    TRY(gram_krr_allocate(g, gram_krr_iterate_bytes(g, n, columns, dtype), &memory));
    at = memory.data;
    c.product = at + 3 * part;
    c.vectors = (struct krr_cg_step){.dtype = dtype,
                                     .n = n,
                                     .columns = columns,
                                     .b = it->b,
                                     .x = it->x,
                                     .r = at,
                                     .z = at + part,
                                     .d = at + 2 * part,
                                     .product = c.product,
                                     .ridge = it->ridge};
    c.vectors.norm_b = (double *)(void *)(at + 3 * part + product_bytes(g, n, columns, dtype));
    c.vectors.norm_r = c.vectors.norm_b + columns;
    c.vectors.rz = c.vectors.norm_r + columns;
    c.norms = gram_alloc(g, norms);
    if (c.norms)
        status = iterate(g, &c, report);
    else
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", norms);
    gram_free(g, c.norms, norms);
    gram_krr_free(g, &memory);
    return status;
}

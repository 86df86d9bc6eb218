/*
 * cpu_eigh_krylov.c - few pairs of a large matrix by cpu_krylov.c: stored, a kernel, or products
 *
 * SPDX-License-Identifier: MIT
 */
#include "../cdist.h"
#include "cpu_eigh.h"
#include "cpu_krylov_symmetric.h"
#include <float.h>
#include <math.h>

enum {
    BLOCK = 8,       /* columns of products that are not stored */
    PRODUCTS = 1000, /* of blocks, where nothing else would do */
    LEAST_PRODUCTS = 60,
    PRODUCT_SHARE = 16 /* n over it: products of blocks of 8 that take a quarter of the dense
                          driver's time (Zen 4, n = 4000) */
};

/* What an item's products need. */
struct source {
    gram_context *g;
    const struct gram_eigh_op *op;
    struct gram_symmetric stored;
    struct gram_kernel_matmul_op product; /* of the item */
    char *scratch;
};

static struct krylov problem(gram_context *g, const struct eigh_plan *plan)
{
    const struct gram_eigh_op *op = plan->op;
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
        .block = gram_least(op->apply || op->product ? BLOCK : gram_symmetric_columns(op->a.dtype),
                            op->a.rows),
    };

    if (plan->fallback != GRAM_EIGH_DRIVER_AUTO && op->products == 0)
        z.most_products = gram_most(LEAST_PRODUCTS, op->a.rows / PRODUCT_SHARE);
    gram_krylov_plan(&z);
    return z;
}

/* ---- Products -------------------------------------------------------------------------------- */

static gram_status multiply_operator(void *user, int64_t columns, const void *in, void *out)
{
    const struct source *from = user;
    const gram_operator *a = from->op->apply;
    const gram_tensor x = gram_matrix((void *)in, a->n, columns, a->dtype);
    gram_tensor y = gram_matrix(out, a->n, columns, a->dtype);
    gram_status status = a->apply(a->user, &x, &y);

    if (status != GRAM_OK)
        return gram_fail(from->g, status, "a.apply returned %s", gram_status_name(status));
    return GRAM_OK;
}

static void view_product(struct source *from, int64_t columns, const void *in, void *out)
{
    const struct gram_view *a = &from->op->a;

    from->product.v = gram_view_dense((void *)in, a->dtype, a->rows, columns);
    from->product.out = gram_view_dense(out, a->dtype, a->rows, columns);
}

static gram_status multiply_kernel(void *user, int64_t columns, const void *in, void *out)
{
    struct source *from = user;

    view_product(from, columns, in, out);
    return cpu_kernel_matmul_in(from->g, &from->product, from->scratch);
}

static size_t product_bytes(const gram_context *g, const struct gram_eigh_op *op, int64_t columns)
{
    struct source from = {.op = op};

    if (op->apply)
        return 0;
    if (!op->product)
        return gram_symmetric_bytes(op->a.dtype, op->a.rows);
    from.product.kernel = gram_cdist_alone(&op->product->kernel, 0);
    view_product(&from, columns, NULL, NULL);
    return cpu_kernel_matmul_workspace(g, &from.product);
}

/* Brings the item to where z multiplies by it.  False: it holds NaN or infinity. */
static bool open_source(struct source *from, const struct eigh_plan *plan, int64_t item,
                        struct krylov *z)
{
    const struct gram_eigh_op *op = plan->op;

    z->user = from;
    from->stored.scale = 1;
    if (op->apply) {
        z->multiply = multiply_operator;
    } else if (op->product) {
        z->multiply = multiply_kernel;
        from->product.kernel = gram_cdist_alone(&op->product->kernel, item);
    } else {
        z->multiply = gram_symmetric_multiply;
        z->user = &from->stored;
        from->stored = (struct gram_symmetric){.g = from->g,
                                               .view = gram_view_alone(&op->a, &op->batch, item),
                                               .uplo = op->uplo,
                                               .scratch = from->scratch};
        return gram_symmetric_prepare(&from->stored);
    }
    return true;
}

/* ---- Results --------------------------------------------------------------------------------- */

/* Scratch behind that of z: ascending values, and their columns of V. */
static size_t results_bytes(const struct krylov *z)
{
    return gram_round64((size_t)z->k * z->element) + gram_round64((size_t)z->k * sizeof(int32_t));
}

static void store(const struct eigh_plan *plan, int64_t item, const struct krylov *z, double scale,
                  char *scratch)
{
    int32_t *order = (int32_t *)(void *)(scratch + gram_round64((size_t)z->k * z->element));
    struct eigh_pairs pairs = {
        .w = scratch,
        .v = z->v,
        .stride = {z->most, 1},
        .order = order,
        .stored = z->k,
    };

    for (int64_t i = 0; i < z->k; i++) { /* one by one to their place: they are nearly in order */
        int64_t at = i;
        for (; at > 0 && z->wanted[order[at - 1]] > z->wanted[i]; at--)
            order[at] = order[at - 1];
        order[at] = (int32_t)i;
    }
    for (int64_t i = 0; i < z->k; i++) {
        double value = z->wanted[order[i]] / scale / scale;
        if (z->dtype == GRAM_F32)
            ((float *)(void *)scratch)[i] = (float)value;
        else
            ((double *)(void *)scratch)[i] = value;
    }
    cpu_eigh_store(plan, item, &pairs);
}

static void report(const struct eigh_plan *plan, const struct krylov *z)
{
    gram_eigh_report *to = plan->op->report;
    double residual = z->norm > 0 ? z->residual / z->norm : 0;

    if (!to)
        return;
    to->products += z->products;
    if (z->complete && z->converged == z->k)
        to->residual = fmax(to->residual, residual);
}

/* ---- Items ----------------------------------------------------------------------------------- */

/* The item by the plan's second driver, in *scratch or, where the context's may grow, in more. */
static void fall_back(gram_context *g, struct eigh_plan *plan, int64_t item, void **scratch)
{
    const struct gram_eigh_op *op = plan->op;
    struct gram_eigh_op one = *op;
    gram_eigh_report *to = op->report;
    size_t bytes;

    one.batch = (struct gram_batch){.count = 1};
    one.a = gram_view_alone(&op->a, &op->batch, item);
    one.values = gram_view_alone(&op->values, &op->batch, item);
    one.vectors = gram_view_alone(&op->vectors, &op->batch, item);
    one.info = gram_view_alone(&op->info, &op->batch, item);
    one.driver = plan->fallback;
    one.report = NULL;
    plan->ended = cpu_eigh_workspace(g, &one, &bytes);
    if (plan->ended == GRAM_OK && plan->grows)
        plan->ended = gram_scratch(g, bytes, scratch);
    if (plan->ended == GRAM_OK)
        plan->ended = cpu_eigh_in(g, &one, *scratch);
    if (to)
        to->dense++;
}

static void run_item(gram_context *g, struct eigh_plan *plan, int64_t item, void **scratch)
{
    struct krylov z = problem(g, plan);
    struct source from = {.g = g, .op = plan->op};
    char *results = (char *)*scratch + z.bytes;

    from.scratch = results + results_bytes(&z);
    if (z.k == 0) {
        cpu_eigh_store(plan, item, &(struct eigh_pairs){0});
        return;
    }
    if (!open_source(&from, plan, item, &z)) {
        cpu_eigh_fail(plan, item, EIGH_NOT_FINITE);
        return;
    }
    plan->ended = gram_krylov_run(&z, *scratch);
    if (plan->ended != GRAM_OK)
        return;
    report(plan, &z);
    if (z.not_finite)
        cpu_eigh_fail(plan, item, EIGH_NOT_FINITE);
    else if (z.complete && z.converged == z.k)
        store(plan, item, &z, from.stored.scale, results);
    else if (plan->fallback != GRAM_EIGH_DRIVER_AUTO)
        fall_back(g, plan, item, scratch);
    else
        cpu_eigh_fail(plan, item, EIGH_NOT_CONVERGED);
}

static void run(gram_context *g, struct eigh_plan *plan, void *scratch)
{
    for (int64_t i = 0; i < plan->op->batch.count && plan->ended == GRAM_OK; i++)
        run_item(g, plan, i, &scratch);
}

static size_t bytes(const gram_context *g, const struct eigh_plan *plan)
{
    struct krylov z = problem((gram_context *)g, plan);

    return z.bytes + results_bytes(&z) + product_bytes(g, plan->op, z.block);
}

static bool takes(const struct gram_eigh_op *op)
{
    enum {
        MOST_PAIRS = 1 << 15 /* products of sizes stay far from overflow */
    };

    return op->count <= MOST_PAIRS && !op->by_value &&
           (op->first == 0 || op->first + op->count == op->a.rows);
}

const struct eigh_driver cpu_eigh_krylov = {"block Lanczos", takes, bytes, run};

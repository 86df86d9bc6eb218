/*
 * cpu_eigh_krylov.c - few pairs of a large matrix by krylov.c: stored, a kernel, or products
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/scratch.h"
#include "cpu_eigh.h"
#include "cpu_krylov.h"
#include "pairwise/pairwise.h"
#include <math.h>

enum {
    BLOCK = 8,       /* columns of products that are not stored */
    MORE = 160,      /* vectors of a basis, as struct krylov counts them */
    SMALL_FLOPS = 72 /* of a small eigenproblem, as struct krylov counts them */
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
    struct krylov z = gram_krylov_problem(g, op, plan->fallback != GRAM_EIGH_DRIVER_AUTO);

    z.ops = &cpu_krylov_ops;
    z.more = MORE;
    z.small_flops = SMALL_FLOPS;
    z.block = gram_least(op->apply || op->product ? BLOCK : gram_symmetric_columns(op->a.dtype),
                         op->a.rows);
    gram_krylov_plan(&z);
    return z;
}

/* Scratch of z itself. */
static size_t own_bytes(const struct krylov *z)
{
    return gram_round64(z->bytes) + z->host_bytes;
}

/* ---- Products -------------------------------------------------------------------------------- */

static gram_status multiply_operator(void *user, int64_t columns, const void *in, void *out)
{
    const struct source *from = user;
    const gram_operator *a = from->op->apply;
    const gram_tensor x = gram_matrix((void *)in, a->n, columns, a->dtype);
    gram_tensor y = gram_matrix(out, a->n, columns, a->dtype);

    return a->apply(a->user, &x, &y);
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
    size_t bytes;

    if (op->apply)
        return 0;
    if (!op->product)
        return gram_symmetric_bytes(op->a.dtype, op->a.rows);
    from.product.kernel = gram_cdist_alone(&op->product->kernel, 0);
    view_product(&from, columns, NULL, NULL);
    (void)gram_measure((gram_context *)g, &bytes,
                       cpu_kernel_matmul((gram_context *)g, &from.product));
    return bytes;
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

    gram_krylov_order(z, order);
    for (int64_t i = 0; i < z->k; i++) {
        double value = z->wanted[order[i]] / scale / scale;
        if (z->dtype == GRAM_F32)
            ((float *)(void *)scratch)[i] = (float)value;
        else
            ((double *)(void *)scratch)[i] = value;
    }
    cpu_eigh_store(plan, item, &pairs);
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
    plan->ended = gram_measure(g, &bytes, cpu_eigh(g, &one));
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
    char *results = (char *)*scratch + own_bytes(&z);

    from.scratch = results + results_bytes(&z);
    if (z.k == 0) {
        cpu_eigh_store(plan, item, &(struct eigh_pairs){0});
        return;
    }
    if (!open_source(&from, plan, item, &z)) {
        cpu_eigh_fail(plan, item, EIGH_NOT_FINITE);
        return;
    }
    plan->ended = gram_krylov_run(&z, (char *)*scratch + gram_round64(z.bytes), *scratch);
    if (plan->ended != GRAM_OK)
        return;
    gram_krylov_report(&z, plan->op->report);
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

    return own_bytes(&z) + results_bytes(&z) + product_bytes(g, plan->op, z.block);
}

const struct eigh_driver cpu_eigh_krylov = {"block Lanczos", gram_krylov_takes, bytes, run};

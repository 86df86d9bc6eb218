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
    char *product_memory;
    size_t product_bytes;
};

/* A call, and its scratch: that of the solver and of products, the values in ascending order, their
 * columns of V.  The driver that does what the solver gives up takes all of it instead. */
struct work {
    struct krylov z;
    struct source from;
    char *values;
    int32_t *order;
    char *memory; /* of all this */
    size_t bytes;
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
    return cpu_kernel_matmul_in(from->g, &from->product, from->product_memory, from->product_bytes);
}

static gram_status take_product(struct source *from, int64_t columns, struct gram_layout *l)
{
    const struct gram_eigh_op *op = from->op;

    if (op->apply)
        return GRAM_OK;
    if (!op->product) {
        from->stored.view = gram_view_alone(&op->a, &op->batch, 0);
        gram_symmetric_take(&from->stored, l);
        return GRAM_OK;
    }
    from->product.kernel = gram_cdist_alone(&op->product->kernel, 0);
    view_product(from, columns, NULL, NULL);
    TRY(gram_measure(from->g, &from->product_bytes, cpu_kernel_matmul(from->g, &from->product)));
    gram_take(l, &from->product_memory, from->product_bytes);
    return GRAM_OK;
}

/* Brings the item to where z multiplies by it.  False: it holds NaN or infinity. */
static bool open_source(struct source *from, int64_t item, struct krylov *z)
{
    const struct gram_eigh_op *op = from->op;

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
        from->stored.g = from->g;
        from->stored.view = gram_view_alone(&op->a, &op->batch, item);
        from->stored.uplo = op->uplo;
        return gram_symmetric_prepare(&from->stored);
    }
    return true;
}

/* ---- Results --------------------------------------------------------------------------------- */

static void store(const struct eigh_plan *plan, int64_t item, const struct work *w)
{
    const struct krylov *z = &w->z;
    const double scale = w->from.stored.scale;
    struct eigh_pairs pairs = {
        .w = w->values,
        .v = z->v,
        .stride = {z->most, 1},
        .order = w->order,
        .stored = z->k,
    };

    gram_krylov_order(z, w->order);
    for (int64_t i = 0; i < z->k; i++) {
        double value = z->wanted[w->order[i]] / scale / scale;
        if (z->dtype == GRAM_F32)
            ((float *)(void *)w->values)[i] = (float)value;
        else
            ((double *)(void *)w->values)[i] = value;
    }
    cpu_eigh_store(plan, item, &pairs);
}

/* ---- Items ----------------------------------------------------------------------------------- */

/* An item by the plan's second driver. */
static struct gram_eigh_op dense_item(const struct eigh_plan *plan, int64_t item)
{
    const struct gram_eigh_op *op = plan->op;
    struct gram_eigh_op one = *op;

    one.batch = (struct gram_batch){.count = 1};
    one.a = gram_view_alone(&op->a, &op->batch, item);
    one.values = gram_view_alone(&op->values, &op->batch, item);
    one.vectors = gram_view_alone(&op->vectors, &op->batch, item);
    one.info = gram_view_alone(&op->info, &op->batch, item);
    one.driver = plan->fallback;
    one.report = NULL;
    return one;
}

/* Where the context's scratch may grow there is no room for the second driver yet. */
static gram_status open_scratch(gram_context *g, const struct eigh_plan *plan, struct work *w)
{
    struct gram_layout layout = {0}, own = {0};
    struct gram_eigh_op one;

    *w = (struct work){
        .z = problem(g, plan), .from = {.g = g, .op = plan->op}
    };
    w->z.ops->take(&w->z, &own);
    gram_krylov_take(&w->z, &own);
    gram_take_many(&own, &w->values, (size_t)w->z.k, w->z.element);
    gram_take_many(&own, &w->order, (size_t)w->z.k, sizeof(int32_t));
    TRY(take_product(&w->from, w->z.block, &own));
    if (plan->fallback != GRAM_EIGH_DRIVER_AUTO && !plan->grows) {
        one = dense_item(plan, 0);
        TRY(gram_measure(g, &w->bytes, cpu_eigh(g, &one)));
    }
    w->bytes = gram_most_bytes(w->bytes, gram_layout_bytes(&own));
    gram_take(&layout, &w->memory, w->bytes);
    TRY(gram_layout_open(g, &layout));
    gram_layout_place(&own, w->memory);
    return GRAM_OK;
}

/* In the scratch of the call, or in that of the context, which may grow, and then move. */
static gram_status fall_back(gram_context *g, struct eigh_plan *plan, int64_t item, struct work *w)
{
    struct gram_eigh_op one = dense_item(plan, item);
    struct gram_scratch_before before;
    gram_status status;

    if (plan->op->report)
        plan->op->report->dense++;
    if (plan->grows) {
        TRY(cpu_eigh(g, &one));
        return open_scratch(g, plan, w);
    }
    gram_scratch_lend(g, w->memory, w->bytes, &before);
    status = cpu_eigh(g, &one);
    gram_scratch_return(g, &before);
    return status;
}

static gram_status run_item(gram_context *g, struct eigh_plan *plan, int64_t item, struct work *w)
{
    struct work now = *w; /* its iteration begins anew */

    if (now.z.k == 0) {
        cpu_eigh_store(plan, item, &(struct eigh_pairs){0});
        return GRAM_OK;
    }
    if (!open_source(&now.from, item, &now.z)) {
        cpu_eigh_fail(plan, item, EIGH_NOT_FINITE);
        return GRAM_OK;
    }
    TRY(gram_krylov_run(&now.z));
    gram_krylov_report(&now.z, plan->op->report);
    if (now.z.not_finite)
        cpu_eigh_fail(plan, item, EIGH_NOT_FINITE);
    else if (now.z.complete && now.z.converged == now.z.k)
        store(plan, item, &now);
    else if (plan->fallback != GRAM_EIGH_DRIVER_AUTO)
        return fall_back(g, plan, item, w);
    else
        cpu_eigh_fail(plan, item, EIGH_NOT_CONVERGED);
    return GRAM_OK;
}

static gram_status run(gram_context *g, struct eigh_plan *plan)
{
    struct work w;

    TRY(open_scratch(g, plan, &w));
    for (int64_t i = 0; i < plan->op->batch.count; i++)
        TRY(run_item(g, plan, i, &w));
    return GRAM_OK;
}

const struct eigh_driver cpu_eigh_krylov = {"block Lanczos", gram_krylov_takes, run};

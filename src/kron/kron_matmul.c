/*
 * kron_matmul.c - gram_kron_matmul: checks the arguments, describes the work, hands it to the
 * device; gram_kron_matmul_plan: a product that is checked once and computed for many data
 *
 * A device sees one form alone: factors on the right, as (F x)^T = x^T F^T turns those on the left,
 * and nothing transposed, as strides say it as well.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/scratch.h"
#include "kron.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

gram_status gram_kron_check_alone(gram_context *g, const gram_kron_options *o)
{
    if (o->communicator)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.communicator is given, expected NULL, because only "
                         "gram_kron_matmul_multi works over several processes");
    return GRAM_OK;
}

static gram_status check_options(gram_context *g, const gram_kron_options *o)
{
    if (o->side != GRAM_RIGHT && o->side != GRAM_LEFT)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.side is %d, expected GRAM_RIGHT or GRAM_LEFT", (int)o->side);
    return GRAM_OK;
}

/* alpha or beta: finite; of integers a whole number that a double holds exactly. */
static gram_status view_scalar(gram_context *g, const struct gram_kron_matmul_op *op,
                               const char *name, gram_scalar s, struct gram_hyper *out)
{
    bool whole = op->x.dtype == GRAM_I32 || op->x.dtype == GRAM_I64;
    double most = whole ? 0x1p53 : DBL_MAX;
    int64_t count = s.tensor ? op->batch.count : 1;

    TRY(gram_hyper_of(g, &op->batch, name, s, out));
    TRY(gram_hyper_check(g, &op->batch, name, out, -most, most, false));
    if (!whole || (s.tensor && g->options.device.type != GRAM_CPU))
        return GRAM_OK;
    for (int64_t i = 0; i < count; i++) {
        double v = gram_hyper_at(out, &op->batch, i);
        if (v != trunc(v))
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "%s is %g, expected a whole number for x of dtype %s", name, v,
                             gram_dtype_name(op->x.dtype));
    }
    return GRAM_OK;
}

static gram_status check_shape(gram_context *g, const char *name, const struct gram_view *v,
                               int64_t rows, int64_t cols, gram_dtype dtype)
{
    if (v->dtype != dtype)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s has dtype %s, expected that of x, %s", name,
                         gram_dtype_name(v->dtype), gram_dtype_name(dtype));
    if (v->rows != rows || v->cols != cols)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is %lld by %lld, expected %lld by %lld",
                         name, (long long)v->rows, (long long)v->cols, (long long)rows,
                         (long long)cols);
    return GRAM_OK;
}

/* Views of everything but y, as they are given, with what is marked as transposed turned. */
static gram_status view_inputs(gram_context *g, const struct gram_kron_args *a,
                               const gram_kron_options *o, int64_t size[2],
                               struct gram_kron_matmul_op *op)
{
    TRY(gram_batch_join(g, &op->batch, "x", a->x, 2));
    TRY(gram_factors_join(g, &op->batch, a->factors, a->count));
    op->count = (int)a->count;
    if (o->z)
        TRY(gram_batch_join(g, &op->batch, "options.z", o->z, 2));
    if (o->alpha.tensor)
        TRY(gram_batch_join(g, &op->batch, "options.alpha", o->alpha.tensor, 0));
    if (o->beta.tensor)
        TRY(gram_batch_join(g, &op->batch, "options.beta", o->beta.tensor, 0));
    TRY(gram_view_of(g, &op->batch, "x", a->x, 2, GRAM_READ, &op->x));
    TRY(gram_factors_view(g, &op->batch, a->factors, a->count, o->transpose_factors, op->factor,
                          size));
    if (op->factor[0].dtype != op->x.dtype)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "factors[0] has dtype %s, expected that of x, %s",
                         gram_dtype_name(op->factor[0].dtype), gram_dtype_name(op->x.dtype));
    if (o->transpose_x)
        gram_view_transpose(&op->x);
    return GRAM_OK;
}

/* Columns of x that are expected, and of y (GRAM_LEFT: rows): of the product of the factors, or the
 * part of one rank of it. */
static void expected_part(const struct gram_kron_args *a, const struct gram_kron_matmul_op *op,
                          bool left, int64_t size[2])
{
    struct gram_kron_cut cut;

    if (a->ranks == 0)
        return;
    gram_kron_cut(op, left, a->ranks, &cut);
    size[left] = gram_kron_part_count(cut.in, &cut, a->rank);
    size[!left] = gram_kron_part_count(cut.out, &cut, a->rank);
}

/* y and z, and that x fits the factors. */
static gram_status view_output(gram_context *g, const struct gram_kron_args *a,
                               const gram_kron_options *o, const int64_t size[2],
                               struct gram_kron_matmul_op *op)
{
    bool left = o->side == GRAM_LEFT;
    int64_t inner = left ? op->x.rows : op->x.cols, expected = left ? size[1] : size[0];
    int64_t rows = left ? size[0] : op->x.rows, cols = left ? op->x.cols : size[1];

    if (inner != expected)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "x has %lld %s%s, expected %lld: %sthe product of the %s of the factors",
                         (long long)inner, left ? "rows" : "columns",
                         o->transpose_x ? " (transposed)" : "", (long long)expected,
                         a->ranks > 0 ? "this rank's part of " : "", left ? "columns" : "rows");
    TRY(gram_view_of(g, &op->batch, "y", a->y, 2, GRAM_WRITE, &op->y));
    TRY(check_shape(g, "y", &op->y, rows, cols, op->x.dtype));
    TRY(view_scalar(g, op, "options.alpha", o->alpha, &op->alpha));
    TRY(view_scalar(g, op, "options.beta", o->beta, &op->beta));
    if (o->z) {
        TRY(gram_view_of(g, &op->batch, "options.z", o->z, 2, GRAM_READ, &op->z));
        TRY(check_shape(g, "options.z", &op->z, rows, cols, op->x.dtype));
    } else if (o->beta.tensor || o->beta.value != 0) {
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.z is NULL, expected a tensor, because options.beta is not 0");
    }
    if (!left)
        return GRAM_OK;
    gram_view_transpose(&op->x);
    gram_view_transpose(&op->y);
    gram_view_transpose(&op->z);
    for (int i = 0; i < op->count; i++)
        gram_view_transpose(&op->factor[i]);
    return GRAM_OK;
}

static gram_status check_apart(gram_context *g, const struct gram_kron_args *a,
                               const gram_kron_options *o, struct gram_kron_matmul_op *op)
{
    const gram_tensor *scalars[] = {o->alpha.tensor, o->beta.tensor};

    op->in_place = !o->transpose_x && gram_tensors_same(a->y, a->x);
    if (!op->in_place)
        TRY(gram_check_apart(g, "y", a->y, "x", a->x));
    TRY(gram_factors_apart(g, "y", a->y, a->factors, a->count));
    if (o->z && !gram_tensors_same(a->y, o->z))
        TRY(gram_check_apart(g, "y", a->y, "options.z", o->z));
    for (int i = 0; i < 2; i++)
        if (scalars[i])
            TRY(gram_check_apart(g, "y", a->y, i == 0 ? "options.alpha" : "options.beta",
                                 scalars[i]));
    return GRAM_OK;
}

gram_status gram_kron_matmul_describe(gram_context *g, const struct gram_kron_args *a,
                                      const gram_kron_options *o, struct gram_kron_matmul_op *op)
{
    int64_t size[2];

    *op = (struct gram_kron_matmul_op){.batch.count = 1};
    TRY(check_options(g, o));
    TRY(view_inputs(g, a, o, size, op));
    expected_part(a, op, o->side == GRAM_LEFT, size);
    TRY(view_output(g, a, o, size, op));
    TRY(check_apart(g, a, o, op));
    if (!g->backend->kron_matmul)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return GRAM_OK;
}

static gram_status describe(gram_context *g, const struct gram_kron_args *a,
                            const gram_kron_options *given, struct gram_kron_matmul_op *op)
{
    gram_kron_options o = GRAM_KRON_OPTIONS_INIT;

    TRY(gram_options_copy(g, &o, sizeof o, given));
    TRY(gram_kron_check_alone(g, &o));
    return gram_kron_matmul_describe(g, a, &o, op);
}

gram_status gram_kron_matmul(gram_context *g, const gram_tensor *x,
                             const gram_tensor *const *factors, int64_t count,
                             const gram_kron_options *options, gram_tensor *y)
{
    const struct gram_kron_args a = {.x = x, .factors = factors, .count = count, .y = y};
    struct gram_kron_matmul_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe(g, &a, options, &op));
    return g->backend->kron_matmul(g, &op);
}

gram_status gram_kron_matmul_workspace(gram_context *g, const gram_tensor *x,
                                       const gram_tensor *const *factors, int64_t count,
                                       const gram_kron_options *options, const gram_tensor *y,
                                       gram_workspace *need)
{
    const struct gram_kron_args a = {.x = x, .factors = factors, .count = count, .y = y};
    struct gram_kron_matmul_op op;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe(g, &a, options, &op));
    TRY(gram_measure(g, &bytes, g->backend->kron_matmul(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}

gram_status gram_tune_kron(gram_context *g, const gram_tensor *x, const gram_tensor *const *factors,
                           int64_t count, const gram_kron_options *options, gram_tensor *y,
                           gram_kron_tuning *result)
{
    const struct gram_kron_args a = {.x = x, .factors = factors, .count = count, .y = y};
    const size_t size = result ? result->size : 0;
    gram_kron_tuning found = {.size = size};
    struct gram_kron_matmul_op op;

    TRY(gram_begin(g, __func__));
    if (size < sizeof size || size > sizeof found)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "result.size is %zu, expected at most %zu", size,
                         sizeof found);
    TRY(describe(g, &a, options, &op));
    if (op.in_place)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "y is x itself, which every measured call would overwrite");
    if (op.batch.count == 0 || op.y.rows == 0 || op.y.cols == 0 || op.x.cols == 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "x or y has no elements: nothing can be measured");
    if (!g->backend->tune_kron)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s has nothing to tune", g->backend->name);
    TRY(g->backend->tune_kron(g, &op, &found));
    memcpy(result, &found, size);
    return GRAM_OK;
}

/* ---- Plans ---------------------------------------------------------------------------------- */

struct planned {
    gram_plan plan;
    gram_kron_options options;
    gram_tensor x, y, z, alpha, beta, factor[GRAM_MAX_FACTORS];
    int64_t count; /* of factors */
    struct gram_kron_matmul_op op;
};

/* Checks the tensors that p keeps and describes the product of them. */
static gram_status describe_planned(struct planned *p)
{
    const gram_tensor *factors[GRAM_MAX_FACTORS];
    const struct gram_kron_args a = {.x = &p->x, .factors = factors, .count = p->count, .y = &p->y};
    gram_kron_options o = p->options;

    for (int64_t i = 0; i < p->count; i++)
        factors[i] = &p->factor[i];
    if (o.z)
        o.z = &p->z;
    if (o.alpha.tensor)
        o.alpha.tensor = &p->alpha;
    if (o.beta.tensor)
        o.beta.tensor = &p->beta;
    return gram_kron_matmul_describe(p->plan.g, &a, &o, &p->op);
}

static gram_status execute(gram_plan *plan)
{
    struct planned *p = (struct planned *)plan;

    plan->g->call = "gram_plan_execute";
    return plan->g->backend->kron_matmul(plan->g, &p->op);
}

static void write_description(struct planned *p)
{
    gram_plan_description *d = &p->plan.description;
    const struct gram_kron_matmul_op *op = &p->op;
    int at =
        snprintf(d->text, sizeof d->text, "%lld x %lld rows of %s times",
                 (long long)op->batch.count, (long long)op->x.rows, gram_dtype_name(op->x.dtype));

    for (int i = 0; i < op->count && at < (int)sizeof d->text; i++)
        at += snprintf(d->text + at, sizeof d->text - (size_t)at, " %lld x %lld",
                       (long long)op->factor[i].rows, (long long)op->factor[i].cols);
    if (at < (int)sizeof d->text)
        snprintf(d->text + at, sizeof d->text - (size_t)at,
                 " on %s; scratch: %zu bytes of the device, %zu of the host",
                 p->plan.g->backend->name, d->need.device_bytes, d->need.host_bytes);
}

/* Copies the arguments, which have been checked. */
static void copy_arguments(struct planned *p, const struct gram_kron_args *a,
                           const gram_kron_options *o)
{
    p->options = *o;
    p->x = *a->x;
    p->y = *a->y;
    p->count = a->count;
    for (int64_t i = 0; i < a->count; i++)
        p->factor[i] = *a->factors[i];
    if (o->z)
        p->z = *o->z;
    if (o->alpha.tensor)
        p->alpha = *o->alpha.tensor;
    if (o->beta.tensor)
        p->beta = *o->beta.tensor;
}

gram_status gram_kron_matmul_plan(gram_context *g, const gram_tensor *x,
                                  const gram_tensor *const *factors, int64_t count,
                                  const gram_kron_options *options, gram_tensor *y,
                                  gram_plan **plan)
{
    const struct gram_kron_args a = {.x = x, .factors = factors, .count = count, .y = y};
    gram_plan_description d = {.size = sizeof d, .seconds = NAN, .devices = 1};
    gram_kron_options o = GRAM_KRON_OPTIONS_INIT;
    struct gram_kron_matmul_op op;
    gram_plan *made;

    TRY(gram_begin(g, __func__));
    if (!plan)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "plan is NULL");
    *plan = NULL;
    TRY(gram_options_copy(g, &o, sizeof o, options));
    TRY(gram_kron_check_alone(g, &o));
    TRY(gram_kron_matmul_describe(g, &a, &o, &op));
    TRY(gram_measure(g, &d.device_bytes[0], g->backend->kron_matmul(g, &op)));
    TRY(gram_plan_allocate(g, sizeof(struct planned), &made));
    made->execute = execute;
    copy_arguments((struct planned *)made, &a, &o);
    ((struct planned *)made)->op = op;
    d.need = gram_workspace_on(g, d.device_bytes[0]);
    d.device_bytes[0] = d.need.device_bytes;
    d.only_enqueues = g->options.device.type != GRAM_CPU;
    made->description = d;
    write_description((struct planned *)made);
    *plan = made;
    return GRAM_OK;
}

/* ---- Other memory -------------------------------------------------------------------------- */

/* Takes the memory of tensor, which has to be laid out as *kept; NULL leaves *kept as it is. */
static gram_status replace(gram_context *g, const char *name, const gram_tensor *tensor,
                           gram_tensor *kept)
{
    gram_tensor other;

    if (!tensor)
        return GRAM_OK;
    other = *tensor;
    other.data = kept->data;
    if (!gram_tensors_same(&other, kept))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "%s differs from the planned one in dtype, device, shape or strides",
                         name);
    kept->data = tensor->data;
    return GRAM_OK;
}

gram_status gram_kron_matmul_replace(gram_plan *plan, const gram_tensor *x,
                                     const gram_tensor *const *factors, gram_tensor *y)
{
    struct planned other;
    char name[GRAM_FACTOR_NAME_BYTES];

    TRY(gram_begin_as(plan ? plan->g : NULL, __func__, "plan"));
    if (plan->execute != execute)
        return gram_fail(
            plan->g, GRAM_INVALID_ARGUMENT,
            "plan was made by another function, expected one of gram_kron_matmul_plan");
    other = *(struct planned *)plan;
    TRY(replace(plan->g, "x", x, &other.x));
    for (int64_t i = 0; factors && i < other.count; i++)
        TRY(replace(plan->g, gram_factor_name(name, (int)i), factors[i], &other.factor[i]));
    TRY(replace(plan->g, "y", y, &other.y));
    if (other.options.z && gram_tensors_same(&other.z, &((struct planned *)plan)->y))
        other.z = other.y; /* y += */
    TRY(describe_planned(&other));
    *(struct planned *)plan = other;
    return GRAM_OK;
}

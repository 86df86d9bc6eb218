/*
 * kron_matmul.c - gram_kron_matmul: checks the arguments, describes the work, hands it to the
 * device
 *
 * A device sees one form alone: factors on the right, as (F x)^T = x^T F^T turns those on the left,
 * and nothing transposed, as strides say it as well.
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron_multi.h"
#include <float.h>
#include <math.h>
#include <string.h>

gram_status gram_kron_check_alone(gram_context *g, const gram_kron_options *o)
{
    if (o->communicator)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.communicator is given, expected NULL: only "
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
            return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is %g, expected a whole number for %s",
                             name, v, gram_dtype_name(op->x.dtype));
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
                         "options.z is NULL, expected a tensor: options.beta is not 0");
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
        return gram_fail(g, GRAM_UNSUPPORTED, "%s has no products with Kronecker factors",
                         g->backend->name);
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
    TRY(g->backend->kron_matmul_workspace(g, &op, &bytes));
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
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "y is x, which every call needs anew");
    if (op.batch.count == 0 || op.y.rows == 0 || op.y.cols == 0 || op.x.cols == 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "x or y has no elements: nothing can be measured");
    if (!g->backend->tune_kron)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s has nothing to tune", g->backend->name);
    TRY(g->backend->tune_kron(g, &op, &found));
    memcpy(result, &found, size);
    return GRAM_OK;
}

/*
 * kron.c - the calls on a list of factors alone: gram_kron, gram_kron_diagonal, gram_kron_trace and
 * gram_kron_logdet; and the checks of such a list, which all calls on Kronecker products share
 *
 * A call checks its arguments, describes the work, and hands it to the device.  A diagonal is a
 * product of rows, so it is computed as the product of matrices of one row.
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron.h"
#include "core/scratch.h"
#include <stdio.h>

/* ---- The factors ---------------------------------------------------------------------------- */

const char *gram_factor_name(char name[GRAM_FACTOR_NAME_BYTES], int index)
{
    snprintf(name, GRAM_FACTOR_NAME_BYTES, "factors[%d]", index);
    return name;
}

gram_status gram_factors_join(gram_context *g, struct gram_batch *batch,
                              const gram_tensor *const *factors, int64_t count)
{
    char name[GRAM_FACTOR_NAME_BYTES];

    if (!factors)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "factors is NULL");
    if (count < 1 || count > GRAM_MAX_FACTORS)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "count is %lld, expected 1 to %d factors",
                         (long long)count, GRAM_MAX_FACTORS);
    for (int i = 0; i < count; i++) {
        TRY(gram_batch_join(g, batch, gram_factor_name(name, i), factors[i], 2));
        if (factors[i]->dtype != factors[0]->dtype)
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "factors[%d] has dtype %s, expected that of factors[0], %s", i,
                             gram_dtype_name(factors[i]->dtype),
                             gram_dtype_name(factors[0]->dtype));
    }
    return GRAM_OK;
}

/* The product of sizes, 0 if one of them is; false if it overflows. */
static bool product(const int64_t *sizes, int64_t count, int64_t *out)
{
    bool fits = true;

    *out = 1;
    for (int i = 0; i < count; i++)
        if (sizes[i] == 0) {
            *out = 0;
            return true;
        }
    for (int i = 0; i < count && fits; i++)
        fits = !__builtin_mul_overflow(*out, sizes[i], out);
    return fits;
}

gram_status gram_factors_view(gram_context *g, const struct gram_batch *batch,
                              const gram_tensor *const *factors, int64_t count, uint32_t transposed,
                              struct gram_view *views, int64_t size[2])
{
    int64_t rows[GRAM_MAX_FACTORS], cols[GRAM_MAX_FACTORS];
    char name[GRAM_FACTOR_NAME_BYTES];

    for (int i = 0; i < count; i++) {
        TRY(gram_view_of(g, batch, gram_factor_name(name, i), factors[i], 2, GRAM_READ, &views[i]));
        if (transposed >> i & 1)
            gram_view_transpose(&views[i]);
        rows[i] = views[i].rows;
        cols[i] = views[i].cols;
    }
    for (int i = 0; i < 2; i++)
        if (!product(i == 0 ? rows : cols, count, &size[i]))
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "the product of the %s of the factors overflows",
                             i == 0 ? "rows" : "columns");
    return GRAM_OK;
}

/* Both, for a call that has no other inputs and takes the factors as they are. */
static gram_status take_factors(gram_context *g, struct gram_batch *batch,
                                const gram_tensor *const *factors, int64_t count,
                                struct gram_view *views, int64_t size[2])
{
    TRY(gram_factors_join(g, batch, factors, count));
    return gram_factors_view(g, batch, factors, count, 0, views, size);
}

gram_status gram_factors_dtype(gram_context *g, const char *name, const struct gram_view *v,
                               gram_dtype dtype)
{
    if (v->dtype != dtype)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "%s has dtype %s, expected that of the factors, %s", name,
                         gram_dtype_name(v->dtype), gram_dtype_name(dtype));
    return GRAM_OK;
}

gram_status gram_factors_square(gram_context *g, const struct gram_view *factors, int count)
{
    for (int i = 0; i < count; i++)
        if (factors[i].rows != factors[i].cols)
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "factors[%d] is %lld by %lld, expected a square matrix", i,
                             (long long)factors[i].rows, (long long)factors[i].cols);
    return GRAM_OK;
}

gram_status gram_factors_apart(gram_context *g, const char *out_name, const gram_tensor *out,
                               const gram_tensor *const *factors, int64_t count)
{
    char name[GRAM_FACTOR_NAME_BYTES];

    for (int i = 0; i < count; i++)
        TRY(gram_check_apart(g, out_name, out, gram_factor_name(name, i), factors[i]));
    return GRAM_OK;
}

/* ---- The product ---------------------------------------------------------------------------- */

static gram_status describe_product(gram_context *g, const gram_tensor *const *factors,
                                    int64_t count, const gram_tensor *out, struct gram_kron_op *op)
{
    int64_t size[2];

    *op = (struct gram_kron_op){.batch.count = 1, .count = (int)count};
    TRY(take_factors(g, &op->batch, factors, count, op->factor, size));
    TRY(gram_view_of(g, &op->batch, "out", out, 2, GRAM_WRITE, &op->out));
    TRY(gram_factors_dtype(g, "out", &op->out, op->factor[0].dtype));
    if (op->out.rows != size[0] || op->out.cols != size[1])
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "out is %lld by %lld, expected %lld by %lld, the products of the rows and "
                         "of the columns of the factors",
                         (long long)op->out.rows, (long long)op->out.cols, (long long)size[0],
                         (long long)size[1]);
    TRY(gram_factors_apart(g, "out", out, factors, count));
    if (!g->backend->kron)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return GRAM_OK;
}

gram_status gram_kron(gram_context *g, const gram_tensor *const *factors, int64_t count,
                      gram_tensor *out)
{
    struct gram_kron_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe_product(g, factors, count, out, &op));
    return g->backend->kron(g, &op);
}

gram_status gram_kron_workspace(gram_context *g, const gram_tensor *const *factors, int64_t count,
                                const gram_tensor *out, gram_workspace *need)
{
    struct gram_kron_op op;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe_product(g, factors, count, out, &op));
    TRY(gram_measure(g, &bytes, g->backend->kron(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}

/* ---- The diagonal --------------------------------------------------------------------------- */

/* A diagonal is a row whose steps go down and to the right at once. */
static void take_diagonal(struct gram_view *v)
{
    v->col_stride += v->row_stride;
    v->rows = 1, v->row_stride = 0;
}

static gram_status describe_diagonal(gram_context *g, const gram_tensor *const *factors,
                                     int64_t count, const gram_tensor *out, struct gram_kron_op *op)
{
    int64_t size[2];

    *op = (struct gram_kron_op){.batch.count = 1, .count = (int)count};
    TRY(take_factors(g, &op->batch, factors, count, op->factor, size));
    TRY(gram_factors_square(g, op->factor, op->count));
    TRY(gram_view_of(g, &op->batch, "out", out, 1, GRAM_WRITE, &op->out));
    TRY(gram_factors_dtype(g, "out", &op->out, op->factor[0].dtype));
    if (op->out.cols != size[0])
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "out has %lld elements, expected %lld, the product of the orders of the "
                         "factors",
                         (long long)op->out.cols, (long long)size[0]);
    TRY(gram_factors_apart(g, "out", out, factors, count));
    for (int i = 0; i < op->count; i++)
        take_diagonal(&op->factor[i]);
    if (!g->backend->kron)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return GRAM_OK;
}

gram_status gram_kron_diagonal(gram_context *g, const gram_tensor *const *factors, int64_t count,
                               gram_tensor *out)
{
    struct gram_kron_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe_diagonal(g, factors, count, out, &op));
    return g->backend->kron(g, &op);
}

gram_status gram_kron_diagonal_workspace(gram_context *g, const gram_tensor *const *factors,
                                         int64_t count, const gram_tensor *out,
                                         gram_workspace *need)
{
    struct gram_kron_op op;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe_diagonal(g, factors, count, out, &op));
    TRY(gram_measure(g, &bytes, g->backend->kron(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}

/* ---- Trace and determinant ------------------------------------------------------------------ */

/* The factors, square, and one number per item for each output that is not NULL. */
static gram_status describe_numbers(gram_context *g, const gram_tensor *const *factors,
                                    int64_t count, const gram_tensor *sign, const gram_tensor *out,
                                    struct gram_kron_number_op *op)
{
    const struct {
        const char *name;
        const gram_tensor *t;
        struct gram_view *view;
    } outputs[] = {
        {"sign", sign, &op->sign},
        { "out",  out,  &op->out},
    };
    int64_t size[2];

    *op = (struct gram_kron_number_op){
        .batch.count = 1, .count = (int)count, .has_sign = sign != NULL};
    TRY(take_factors(g, &op->batch, factors, count, op->factor, size));
    TRY(gram_factors_square(g, op->factor, op->count));
    op->order = size[0];
    for (int i = sign ? 0 : 1; i < 2; i++) {
        TRY(gram_view_of(g, &op->batch, outputs[i].name, outputs[i].t, 0, GRAM_WRITE,
                         outputs[i].view));
        TRY(gram_factors_dtype(g, outputs[i].name, outputs[i].view, op->factor[0].dtype));
        TRY(gram_factors_apart(g, outputs[i].name, outputs[i].t, factors, count));
    }
    return sign ? gram_check_apart(g, "sign", sign, "out", out) : GRAM_OK;
}

static gram_status describe_trace(gram_context *g, const gram_tensor *const *factors, int64_t count,
                                  const gram_tensor *out, struct gram_kron_number_op *op)
{
    TRY(describe_numbers(g, factors, count, NULL, out, op));
    if (op->out.dtype == GRAM_F16 || op->out.dtype == GRAM_BF16)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "factors[0] has dtype %s, expected f32, f64, i32 or i64",
                         gram_dtype_name(op->out.dtype));
    if (!g->backend->kron_trace)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return GRAM_OK;
}

gram_status gram_kron_trace(gram_context *g, const gram_tensor *const *factors, int64_t count,
                            gram_tensor *out)
{
    struct gram_kron_number_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe_trace(g, factors, count, out, &op));
    return g->backend->kron_trace(g, &op);
}

static gram_status describe_logdet(gram_context *g, const gram_tensor *const *factors,
                                   int64_t count, const gram_tensor *sign, const gram_tensor *out,
                                   struct gram_kron_number_op *op)
{
    TRY(describe_numbers(g, factors, count, sign, out, op));
    if (op->out.dtype != GRAM_F32 && op->out.dtype != GRAM_F64)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "factors[0] has dtype %s, expected f32 or f64",
                         gram_dtype_name(op->out.dtype));
    if (!g->backend->kron_logdet)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return GRAM_OK;
}

gram_status gram_kron_logdet(gram_context *g, const gram_tensor *const *factors, int64_t count,
                             gram_tensor *sign, gram_tensor *out)
{
    struct gram_kron_number_op op;

    TRY(gram_begin(g, __func__));
    TRY(describe_logdet(g, factors, count, sign, out, &op));
    return g->backend->kron_logdet(g, &op);
}

gram_status gram_kron_logdet_workspace(gram_context *g, const gram_tensor *const *factors,
                                       int64_t count, const gram_tensor *sign,
                                       const gram_tensor *out, gram_workspace *need)
{
    struct gram_kron_number_op op;
    size_t bytes;

    TRY(gram_begin(g, __func__));
    TRY(gram_check_need(g, need));
    TRY(describe_logdet(g, factors, count, sign, out, &op));
    TRY(gram_measure(g, &bytes, g->backend->kron_logdet(g, &op)));
    *need = gram_workspace_on(g, bytes);
    return GRAM_OK;
}

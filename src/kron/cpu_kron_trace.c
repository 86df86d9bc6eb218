/*
 * cpu_kron_trace.c - the trace and the determinant of a Kronecker product, factor by factor
 *
 *   trace = product of the traces
 *   det   = product of det(F_i)^(n / n_i), n the order of the product, n_i that of F_i
 * Sums and factorisations are in f64 (integers: modulo 2^64), whatever the dtype.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "cpu/cpu.h"
#include <math.h>

static double value_at(const struct gram_view *v, const char *item, int64_t i, int64_t j)
{
    int64_t at = i * v->row_stride + j * v->col_stride;

    return v->dtype == GRAM_F32 ? (double)((const float *)(const void *)item)[at]
                                : ((const double *)(const void *)item)[at];
}

static void put_number(const struct gram_view *v, const struct gram_batch *batch, int64_t item,
                       double value)
{
    void *to = gram_view_item(v, batch, item);

    if (v->dtype == GRAM_F32)
        *(float *)to = (float)value;
    else
        *(double *)to = value;
}

/* ---- Trace --------------------------------------------------------------------------------- */

static double trace_of(const struct gram_view *f, const char *item)
{
    double sum = 0;

    for (int64_t i = 0; i < f->rows; i++)
        sum += value_at(f, item, i, i);
    return sum;
}

static uint64_t integer_trace_of(const struct gram_view *f, const char *item)
{
    uint64_t sum = 0;

    for (int64_t i = 0; i < f->rows; i++) {
        int64_t at = i * (f->row_stride + f->col_stride);
        sum += f->dtype == GRAM_I32 ? (uint64_t)((const int32_t *)(const void *)item)[at]
                                    : ((const uint64_t *)(const void *)item)[at];
    }
    return sum;
}

gram_status cpu_kron_trace(gram_context *g, const struct gram_kron_number_op *op)
{
    bool whole = op->out.dtype == GRAM_I32 || op->out.dtype == GRAM_I64;

    (void)g;
    for (int64_t item = 0; item < op->batch.count; item++) {
        double value = 1;
        uint64_t integer = 1;
        for (int i = 0; i < op->count; i++) {
            const struct gram_view *f = &op->factor[i];
            if (whole)
                integer *= integer_trace_of(f, gram_view_item(f, &op->batch, item));
            else
                value *= trace_of(f, gram_view_item(f, &op->batch, item));
        }
        if (op->out.dtype == GRAM_I32)
            *(uint32_t *)(void *)gram_view_item(&op->out, &op->batch, item) = (uint32_t)integer;
        else if (whole)
            *(uint64_t *)(void *)gram_view_item(&op->out, &op->batch, item) = integer;
        else
            put_number(&op->out, &op->batch, item, value);
    }
    return GRAM_OK;
}

/* ---- Determinant --------------------------------------------------------------------------- */

static int64_t largest_order(const struct gram_kron_number_op *op)
{
    int64_t most = 0;

    for (int i = 0; i < op->count; i++)
        most = gram_most(most, op->factor[i].rows);
    return most;
}

/* log |det F| of a factor, by LU in scratch; its sign to *sign. */
static double logdet_of(const struct gram_view *f, const char *item, double *lu, int32_t *pivots,
                        double *sign)
{
    int64_t n = f->rows;
    double sum = 0;

    *sign = 1;
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++)
            lu[j * n + i] = value_at(f, item, i, j);
    gram_blas_getrf(GRAM_F64, n, lu, n, pivots);
    for (int64_t i = 0; i < n; i++) {
        double d = lu[i * (n + 1)];
        if (pivots[i] != i + 1)
            *sign = -*sign;
        *sign *= d > 0 ? 1 : d < 0 ? -1 : d; /* 0 and NaN stay */
        sum += log(fabs(d));
    }
    return sum;
}

/* Whether a factor is there once more or less often matters for the sign alone. */
static void item_logdet(const struct gram_kron_number_op *op, int64_t item, double *scratch)
{
    int64_t most = largest_order(op);
    int32_t *pivots = (int32_t *)(void *)(scratch + most * most);
    double sum = 0, sign = 1, own;

    for (int i = 0; op->order > 0 && i < op->count; i++) {
        const struct gram_view *f = &op->factor[i];
        int64_t times = op->order / f->rows;
        double part = logdet_of(f, gram_view_item(f, &op->batch, item), scratch, pivots, &own);
        sum += (double)times * part;
        sign *= times % 2 == 0 ? own * own : own;
    }
    /* A singular factor makes the product singular; what is NaN stays NaN. */
    put_number(&op->out, &op->batch, item, sign == 0 ? -INFINITY : isnan(sign) ? sign : sum);
    if (op->has_sign)
        put_number(&op->sign, &op->batch, item, sign);
}

gram_status cpu_kron_logdet_workspace(gram_context *g, const struct gram_kron_number_op *op,
                                      size_t *bytes)
{
    int64_t n = largest_order(op);

    if (!gram_blas_fits(n, n, 0) || n > INT32_MAX / 4)
        return gram_fail(g, GRAM_UNSUPPORTED, "a factor has %lld rows, BLAS takes fewer",
                         (long long)n);
    *bytes = op->order > 0 ? (size_t)(n * n) * sizeof(double) + (size_t)n * sizeof(int32_t) : 0;
    return GRAM_OK;
}

gram_status cpu_kron_logdet(gram_context *g, const struct gram_kron_number_op *op)
{
    void *scratch;
    size_t bytes;

    TRY(cpu_kron_logdet_workspace(g, op, &bytes));
    TRY(gram_scratch(g, bytes, &scratch));
    gram_blas_threads(g);
    for (int64_t item = 0; item < op->batch.count; item++)
        item_logdet(op, item, scratch);
    return GRAM_OK;
}

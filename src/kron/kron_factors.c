/*
 * kron_factors.c - checks a list of factors: see kron.h
 *
 * SPDX-License-Identifier: MIT
 */
#include "kron.h"
#include <stdio.h>

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

gram_status gram_factors_take(gram_context *g, struct gram_batch *batch,
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

/*
 * reference.c - elements of broadcast tensors of any dtype, as doubles
 *
 * SPDX-License-Identifier: MIT
 */
#include "reference.h"
#include <math.h>
#include <string.h>

struct reference_batch reference_join(int n, const gram_tensor *const *tensors, const int *core)
{
    struct reference_batch batch = {.count = 1};

    for (int i = 0; i < n; i++) {
        int own = tensors[i] ? tensors[i]->ndim - core[i] : 0;
        while (batch.ndim < own) { /* one more dimension of 1 in front */
            memmove(batch.shape + 1, batch.shape, (size_t)batch.ndim * sizeof *batch.shape);
            batch.shape[0] = 1;
            batch.ndim++;
        }
        for (int d = 0; d < own; d++) {
            int64_t *size = &batch.shape[batch.ndim - own + d];
            *size = *size == 1 ? tensors[i]->shape[d] : *size;
        }
    }
    for (int d = 0; d < batch.ndim; d++)
        batch.count *= batch.shape[d];
    return batch;
}

static double half(uint16_t bits)
{
    int exponent = (bits >> 10) & 31, fraction = bits & 1023;
    double size = exponent == 31  ? (fraction ? NAN : INFINITY)
                  : exponent == 0 ? ldexp(fraction, -24)
                                  : ldexp(1024 + fraction, exponent - 25);

    return bits & 0x8000 ? -size : size;
}

static double bfloat(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;

    memcpy(&value, &wide, sizeof value);
    return (double)value;
}

static double value_at(const gram_tensor *t, int64_t offset)
{
    switch (t->dtype) {
    case GRAM_F32:
        return (double)((const float *)t->data)[offset];
    case GRAM_F64:
        return ((const double *)t->data)[offset];
    case GRAM_F16:
        return half(((const uint16_t *)t->data)[offset]);
    case GRAM_BF16:
        return bfloat(((const uint16_t *)t->data)[offset]);
    case GRAM_I32:
        return ((const int32_t *)t->data)[offset];
    case GRAM_I64:
        return (double)((const int64_t *)t->data)[offset];
    case GRAM_U8:
        return ((const uint8_t *)t->data)[offset];
    }
    return NAN;
}

double reference_element(const gram_tensor *t, const struct reference_batch *batch, int64_t item,
                         int core, const int64_t *index)
{
    int own = t->ndim - core;
    int64_t offset = 0;

    for (int d = batch->ndim - 1; d >= 0; d--) {
        int in_t = d - (batch->ndim - own);
        int64_t at = item % batch->shape[d];
        item /= batch->shape[d];
        if (in_t >= 0 && t->shape[in_t] != 1)
            offset += at * t->stride[in_t];
    }
    for (int d = 0; d < core; d++)
        offset += index[d] * t->stride[own + d];
    return value_at(t, offset);
}

double reference_scalar(gram_scalar s, const struct reference_batch *batch, int64_t item)
{
    return s.tensor ? reference_element(s.tensor, batch, item, 0, NULL) : s.value;
}

/*
 * dlpack.c - gram_tensor_from_dlpack: a DLTensor seen as a gram_tensor
 *
 * SPDX-License-Identifier: MIT
 */
#include "gram/dlpack.h"
#include "context.h"

static const struct {
    uint8_t code, bits;
    gram_dtype dtype;
} dtypes[] = {
    { GRAM_DL_FLOAT, 32,  GRAM_F32},
    { GRAM_DL_FLOAT, 64,  GRAM_F64},
    { GRAM_DL_FLOAT, 16,  GRAM_F16},
    {GRAM_DL_BFLOAT, 16, GRAM_BF16},
    {   GRAM_DL_INT, 32,  GRAM_I32},
    {   GRAM_DL_INT, 64,  GRAM_I64},
};

static const struct {
    int32_t dl;
    gram_device_type type;
} devices[] = {
    {         GRAM_DL_CPU,  GRAM_CPU},
    {   GRAM_DL_CUDA_HOST,  GRAM_CPU},
    {        GRAM_DL_CUDA, GRAM_CUDA},
    {GRAM_DL_CUDA_MANAGED, GRAM_CUDA},
};

static gram_status find_dtype(gram_context *g, const struct gram_dl_tensor *t, gram_dtype *out)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (t->dtype.code == dtypes[i].code && t->dtype.bits == dtypes[i].bits &&
            t->dtype.lanes == 1) {
            *out = dtypes[i].dtype;
            return GRAM_OK;
        }
    return gram_fail(g, GRAM_UNSUPPORTED,
                     "dl_tensor has dtype code %d with %d bits and %d lanes, expected f16, bf16, "
                     "f32, f64, i32 or i64",
                     t->dtype.code, t->dtype.bits, t->dtype.lanes);
}

static gram_status find_device(gram_context *g, const struct gram_dl_tensor *t, gram_device *out)
{
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (t->device.type == devices[i].dl) {
            out->type = devices[i].type;
            out->index = out->type == GRAM_CPU ? 0 : t->device.index;
            return GRAM_OK;
        }
    return gram_fail(g, GRAM_UNSUPPORTED,
                     "dl_tensor is on device type %d, expected the CPU or CUDA",
                     (int)t->device.type);
}

gram_status gram_tensor_from_dlpack(gram_context *g, const void *dl_tensor, gram_tensor *out)
{
    const struct gram_dl_tensor *t = dl_tensor;
    gram_tensor result = {0};
    int64_t row_major = 1;

    TRY(gram_begin_without_blas(g, __func__));
    if (!t)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "dl_tensor is NULL");
    if (t->ndim < 0 || t->ndim > GRAM_MAX_DIMS)
        return gram_fail(g, GRAM_UNSUPPORTED, "dl_tensor has %d dimensions, expected 0 to %d",
                         (int)t->ndim, GRAM_MAX_DIMS);
    TRY(find_dtype(g, t, &result.dtype));
    TRY(find_device(g, t, &result.device));
    result.data = t->data ? (char *)t->data + t->byte_offset : NULL;
    result.ndim = t->ndim;
    for (int i = t->ndim - 1; i >= 0; i--) {
        result.shape[i] = t->shape[i];
        result.stride[i] = t->strides ? t->strides[i] : row_major;
        if (__builtin_mul_overflow(row_major, t->shape[i] > 0 ? t->shape[i] : 1, &row_major))
            return gram_fail(g, GRAM_INVALID_ARGUMENT, "the size of dl_tensor overflows");
    }
    *out = result;
    return GRAM_OK;
}

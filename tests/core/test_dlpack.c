/*
 * test_dlpack.c - gram_tensor_from_dlpack: what is viewed, and what is refused
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "gram/dlpack.h"
#include <string.h>

static float storage[64];

// NOLINTNEXTLINE(readability-non-const-parameter): the struct's members are not const
static struct gram_dl_tensor plain(int64_t *shape, int64_t *strides)
{
    struct gram_dl_tensor t = {
        .data = storage, .ndim = 2, .shape = shape, .strides = strides, .byte_offset = 8};

    t.device.type = GRAM_DL_CPU;
    t.dtype.code = GRAM_DL_FLOAT;
    t.dtype.bits = 32;
    t.dtype.lanes = 1;
    return t;
}

static void strides_and_offsets(struct harness *h)
{
    int64_t shape[] = {3, 5}, strides[] = {-1, 7};
    struct gram_dl_tensor t = plain(shape, NULL);
    gram_tensor out;

    CHECK(h, gram_tensor_from_dlpack(h->g, &t, &out) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, out.data == (char *)storage + 8, "byte_offset is lost");
    CHECK(h, out.dtype == GRAM_F32 && out.ndim == 2 && out.device.type == GRAM_CPU, "description");
    CHECK(h, out.shape[0] == 3 && out.shape[1] == 5, "shape");
    CHECK(h, out.stride[0] == 5 && out.stride[1] == 1, "NULL strides are row-major");
    t = plain(shape, strides);
    CHECK(h, gram_tensor_from_dlpack(h->g, &t, &out) == GRAM_OK, "%s", gram_message(h->g));
    CHECK(h, out.stride[0] == -1 && out.stride[1] == 7, "strides");
    t.ndim = 0;
    CHECK(h, gram_tensor_from_dlpack(h->g, &t, &out) == GRAM_OK && out.ndim == 0, "a number");
    shape[0] = 0;
    t = plain(shape, NULL);
    t.data = NULL;
    CHECK(h, gram_tensor_from_dlpack(h->g, &t, &out) == GRAM_OK && !out.data, "an empty tensor");
}

static void dtypes(struct harness *h)
{
    static const struct {
        uint8_t code, bits;
        uint16_t lanes;
        int dtype; /* 0: refused */
    } rows[] = {
        { GRAM_DL_FLOAT, 16, 1,  GRAM_F16},
        { GRAM_DL_FLOAT, 32, 1,  GRAM_F32},
        { GRAM_DL_FLOAT, 64, 1,  GRAM_F64},
        {GRAM_DL_BFLOAT, 16, 1, GRAM_BF16},
        {   GRAM_DL_INT, 32, 1,  GRAM_I32},
        {   GRAM_DL_INT, 64, 1,  GRAM_I64},
        {   GRAM_DL_INT,  8, 1,         0},
        { GRAM_DL_FLOAT,  8, 1,         0},
        { GRAM_DL_FLOAT, 32, 4,         0}, /* a vector of 4 */
        { GRAM_DL_FLOAT, 32, 0,         0},
        {             5, 64, 1,         0}, /* complex */
        {             1, 32, 1,         0}, /* unsigned */
    };
    int64_t shape[] = {3, 5};

    for (int i = 0; i < LENGTH(rows); i++) {
        struct gram_dl_tensor t = plain(shape, NULL);
        gram_tensor out = {.ndim = 77};
        gram_status status;
        t.dtype.code = rows[i].code, t.dtype.bits = rows[i].bits, t.dtype.lanes = rows[i].lanes;
        status = gram_tensor_from_dlpack(h->g, &t, &out);
        if (rows[i].dtype) {
            CHECK(h, status == GRAM_OK && (int)out.dtype == rows[i].dtype, "row %d: %s", i,
                  gram_message(h->g));
        } else {
            CHECK(h, status == GRAM_UNSUPPORTED, "row %d: %s", i, gram_status_name(status));
            CHECK(h, strstr(gram_message(h->g), "gram_tensor_from_dlpack: ") == gram_message(h->g),
                  "%s", gram_message(h->g));
            CHECK(h, out.ndim == 77, "row %d: the output was written", i);
        }
    }
}

static void devices(struct harness *h)
{
    static const struct {
        int32_t type, index;
        gram_status status;
        gram_device expected;
    } rows[] = {
        {         GRAM_DL_CPU, 0,          GRAM_OK,  {GRAM_CPU, 0}},
        {   GRAM_DL_CUDA_HOST, 3,          GRAM_OK,  {GRAM_CPU, 0}},
        {        GRAM_DL_CUDA, 2,          GRAM_OK, {GRAM_CUDA, 2}},
        {GRAM_DL_CUDA_MANAGED, 1,          GRAM_OK, {GRAM_CUDA, 1}},
        {                   7, 0, GRAM_UNSUPPORTED,  {GRAM_CPU, 0}}, /* Vulkan */
    };
    int64_t shape[] = {3, 5};

    for (int i = 0; i < LENGTH(rows); i++) {
        struct gram_dl_tensor t = plain(shape, NULL);
        gram_tensor out = {0};
        gram_status status;
        t.device.type = rows[i].type, t.device.index = rows[i].index;
        status = gram_tensor_from_dlpack(h->g, &t, &out);
        CHECK(h, status == rows[i].status, "row %d: %s", i, gram_status_name(status));
        CHECK(h,
              status != GRAM_OK || (out.device.type == rows[i].expected.type &&
                                    out.device.index == rows[i].expected.index),
              "row %d: device %d:%d", i, (int)out.device.type, (int)out.device.index);
    }
}

static void nonsense(struct harness *h)
{
    int64_t shape[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, huge[] = {INT64_MAX, 3, 5};
    struct gram_dl_tensor t = plain(shape, NULL);
    gram_tensor out;

    CHECK(h, gram_tensor_from_dlpack(h->g, NULL, &out) == GRAM_INVALID_ARGUMENT, "NULL");
    t.ndim = 9;
    CHECK(h, gram_tensor_from_dlpack(h->g, &t, &out) == GRAM_UNSUPPORTED, "9 dimensions");
    t.ndim = -1;
    CHECK(h, gram_tensor_from_dlpack(h->g, &t, &out) == GRAM_UNSUPPORTED, "-1 dimensions");
    t = plain(huge, NULL);
    t.ndim = 3;
    CHECK(h, gram_tensor_from_dlpack(h->g, &t, &out) == GRAM_INVALID_ARGUMENT, "overflow");
}

static const struct test_function tests[] = {
    {"strides_and_offsets", strides_and_offsets},
    {             "dtypes",              dtypes},
    {            "devices",             devices},
    {           "nonsense",            nonsense},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}

/*
 * dlpack.h - the part of DLPack's binary interface that libgram reads, in our own words
 *
 * Layout-compatible with DLTensor of DLPack 1.x (github.com/dmlc/dlpack).  Include the original
 * instead where you have it; gram_tensor_from_dlpack() takes a void pointer for that reason.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_DLPACK_H
#define GRAM_DLPACK_H
#include <stdint.h>

enum {
    GRAM_DL_CPU = 1,
    GRAM_DL_CUDA = 2,
    GRAM_DL_CUDA_HOST = 3,    /* pinned host memory: used as CPU memory */
    GRAM_DL_CUDA_MANAGED = 13 /* managed memory: used as CUDA memory */
};

enum {
    GRAM_DL_INT = 0,
    GRAM_DL_FLOAT = 2,
    GRAM_DL_BFLOAT = 4
};

struct gram_dl_tensor {
    void *data;
    struct {
        int32_t type, index;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: row-major */
    uint64_t byte_offset;
};
#endif

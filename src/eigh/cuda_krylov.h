/*
 * cuda_krylov.h - the Krylov solver's tall matrices on the device, and products with them
 *
 * V, Q and W are stored by columns.  The device's context is current in every call.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUDA_KRYLOV_H
#define GRAM_CUDA_KRYLOV_H
#include "cuda/cublas.h"
#include "cuda/cuda_ops.h"
#include "krylov.h"
#include "krylov_params.h"

/* struct krylov's device. */
struct cuda_krylov {
    struct cuda_blas *blas;
    char *staging; /* on the host, cuda_krylov_staging bytes */
    bool has_gram; /* the Gram matrix of W is known */
    bool fetched;  /* staging holds what the device last found */
};

extern const struct krylov_ops cuda_krylov_ops;
size_t cuda_krylov_staging(const struct krylov *z);
/* Brings values (of the dtype) and the order of V's columns, k of each on the host, to the device:
 * where they are. */
gram_status cuda_krylov_send(struct krylov *z, const void *values, const int32_t *order,
                             char **values_at, const int **order_at);
gram_status cuda_krylov_copy(gram_context *g, gram_dtype dtype, struct krylov_copy_params *p);

/* Products of one item of a stored matrix. */
struct cuda_symmetric {
    gram_context *g;
    const struct eigh_call *call;
    int64_t item;
    gram_dtype dtype;
    const void *a; /* of the item */
    char *sums;    /* scratch, cuda_symmetric_bytes */
    double scale;  /* a power of 2: products are those of scale^2 A, out of danger */
};
size_t cuda_symmetric_bytes(gram_dtype dtype, int64_t n);
/* Chooses the scale, waiting for the device; *finite: the triangle holds neither NaN nor infinity.
 */
gram_status cuda_symmetric_prepare(struct cuda_symmetric *a, bool *finite);
/* A krylov_multiply; user is a struct cuda_symmetric. */
gram_status cuda_symmetric_multiply(void *user, int64_t columns, const void *in, void *out);
#endif

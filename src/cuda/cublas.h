/*
 * cublas.h - the few functions of cuBLAS that are used
 *
 * Declared here in our own words, so that no header of cuBLAS is needed to build: statuses, types
 * and operations are ints, handles are pointers.  Opened when the first call of the process needs
 * it.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUBLAS_H
#define GRAM_CUBLAS_H
#include "driver.h"

/* cublasComputeType_t. */
enum {
    CUBLAS_COMPUTE_F32 = 68,
    CUBLAS_COMPUTE_F64 = 70,
    CUBLAS_COMPUTE_TF32 = 77,
};

struct cuda_cublas {
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, CUstream stream);
    int (*set_workspace)(void *handle, void *workspace, size_t bytes);
    int (*gemm)(void *handle, int transposed_a, int transposed_b, int m, int n, int k,
                const void *alpha, const void *a, int type_a, int lda, long long stride_a,
                const void *b, int type_b, int ldb, long long stride_b, const void *beta, void *c,
                int type_c, int ldc, long long stride_c, int batch, int compute, int algorithm);
};

/* What a context keeps of it. */
struct cuda_blas {
    const struct cuda_cublas *call;
    void *handle;
};

/* What the host gives cuBLAS of a call's scratch: with it nothing is allocated, and a graph of the
 * call has all that it needs. */
enum {
    CUDA_BLAS_BYTES = 4 << 20
};

/* c[i] = alpha op(a[i]) op(b[i]) + beta c[i] for count column-major matrices, n by n, one after
 * the other with leading dimension ld. */
struct cuda_gemm {
    gram_dtype dtype; /* f32 or f64 */
    int compute;
    int64_t n, ld, count;
    const void *a, *b;
    bool transposed_b;
    void *c;
    double alpha, beta;
};

/* Products of f32 or f64 in the dtype itself. */
static inline int gram_cuda_compute_of(gram_dtype dtype)
{
    return dtype == GRAM_F64 ? CUBLAS_COMPUTE_F64 : CUBLAS_COMPUTE_F32;
}

/* An operand of a product: column-major matrices, from one item to the next stride elements. */
struct cuda_gemm_side {
    const void *data;
    int64_t ld, stride;
    bool transposed;
};

/* c[i] = alpha op(a[i]) op(b[i]) + beta c[i], c[i] being m by n and op(a[i]) m by k. */
struct cuda_gemm_items {
    gram_dtype dtype;  /* of c: f32, f64 or bf16, whose products are summed in f32 */
    gram_dtype inputs; /* of a and b: f16 or bf16, whose products are summed in f32; 0: dtype */
    int compute;
    int64_t m, n, k, count;
    struct cuda_gemm_side a, b;
    void *c;
    int64_t ldc, stride_c;
    double alpha, beta;
};

/* The context's, made at the first call; the device's context must be current.  workspace:
 * CUDA_BLAS_BYTES of device memory for the calls that follow. */
gram_status gram_cuda_blas(gram_context *g, void *workspace, struct cuda_blas **out);
gram_status gram_cuda_gemm(gram_context *g, const struct cuda_blas *blas,
                           const struct cuda_gemm *gemm);
gram_status gram_cuda_gemm_items(gram_context *g, const struct cuda_blas *blas,
                                 const struct cuda_gemm_items *gemm);
void gram_cuda_blas_close(gram_context *g, struct cuda_device *device);
#endif

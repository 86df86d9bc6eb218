/*
 * cuda_krylov_symmetric.c - products of a stored symmetric matrix with a few vectors
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_eigh.h"
#include "cuda_krylov.h"
#include <math.h>

enum {
    BLOCKS = 1600,        /* of krylov_product: twice as many as an H200 has at a time */
    PARTS = 10,           /* most shares of a sum */
    SUM_BLOCKS = 1 << 16, /* beyond these, blocks loop */
};

/* Shares of the columns, from n alone: so that sums do not depend on the device. */
static void shares(int64_t n, int64_t *parts, int64_t *chunk)
{
    int64_t strips = gram_ceil_div(n, KRYLOV_ROWS);
    int64_t most = gram_least(gram_least(gram_ceil_div(BLOCKS, strips), PARTS),
                              gram_ceil_div(n, KRYLOV_DEPTH));

    *chunk = gram_ceil_div(gram_ceil_div(n, most), KRYLOV_DEPTH) * KRYLOV_DEPTH;
    *parts = gram_ceil_div(n, *chunk);
}

size_t cuda_symmetric_bytes(gram_dtype dtype, int64_t n)
{
    int64_t parts, chunk;

    shares(n, &parts, &chunk);
    return (size_t)(parts * n * KRYLOV_COLUMNS) * gram_dtype_size(dtype);
}

gram_status cuda_symmetric_multiply(void *user, int64_t columns, const void *in, void *out)
{
    const struct cuda_symmetric *a = user;
    int64_t parts, chunk, n = a->call->n;
    struct krylov_product_params p = {
        .n = n,
        .columns = columns,
        .a = a->a,
        .row_stride = a->call->a.row_stride,
        .col_stride = a->call->a.col_stride,
        .x = in,
        .y = out,
        .sums = a->sums,
        .scale = a->scale,
    };

    shares(n, &parts, &chunk);
    p.parts = parts;
    p.chunk = chunk;
    TRY(gram_cuda_launch_plain(a->g, CUDA_VARIANT_KRYLOV_PRODUCT, a->dtype,
                               gram_ceil_div(n, KRYLOV_ROWS) * parts, KRYLOV_PRODUCT, &p));
    return gram_cuda_launch_plain(
        a->g, CUDA_VARIANT_KRYLOV_SUM, a->dtype,
        gram_least(gram_ceil_div(n * columns, KRYLOV_THREADS), SUM_BLOCKS), KRYLOV_THREADS, &p);
}

/* The largest magnitude of the triangle; not finite if one is not. */
static gram_status largest_of(const struct cuda_symmetric *a, double *largest)
{
    const struct cuda_device *device = a->g->device;
    const struct cuda_driver *driver = device->driver;
    double found[EIGH_PARTS];
    struct eigh_chunk_params p = {
        .call = *a->call,
        .begin = a->item,
        .items = 1,
        .largest = a->sums,
        .parts = gram_least(a->call->n, EIGH_PARTS),
    };
    size_t bytes = (size_t)p.parts * gram_dtype_size(a->dtype);

    TRY(cuda_eigh_launch(a->g, EIGH_SCAN, a->dtype, p.parts, 1, &p));
    TRY(gram_cuda_check(a->g, driver,
                        driver->memory_copy((CUdeviceptr)(uintptr_t)found,
                                            (CUdeviceptr)(uintptr_t)a->sums, bytes, device->stream),
                        "cuMemcpyAsync"));
    TRY(gram_cuda_check(a->g, driver, driver->stream_synchronize(device->stream),
                        "cuStreamSynchronize"));
    *largest = 0;
    for (int64_t i = 0; i < p.parts; i++) {
        double one =
            a->dtype == GRAM_F32 ? (double)((const float *)(const void *)found)[i] : found[i];
        *largest = isfinite(one) ? fmax(*largest, one) : INFINITY;
        if (!isfinite(one))
            break;
    }
    return GRAM_OK;
}

gram_status cuda_symmetric_prepare(struct cuda_symmetric *a, bool *finite)
{
    int exponent, far = a->dtype == GRAM_F32 ? 40 : 300;
    double largest;

    TRY(largest_of(a, &largest));
    *finite = isfinite(largest) != 0;
    a->scale = 1;
    if (!*finite)
        return GRAM_OK;
    frexp(largest, &exponent);
    if (largest > 0 && (exponent > far || exponent < -far))
        a->scale = ldexp(1, -exponent / 2);
    return GRAM_OK;
}

/*
 * cublas.c - opens cuBLAS, makes a context's handle, multiplies
 *
 * A context has one handle, bound to its stream.  Products are calls of one function, which takes
 * every dtype and batches with strides.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cublas.h"

enum {
    STATUS_ALLOC_FAILED = 3,
    DEFAULT_ALGORITHM = -1,
    MOST_ITEMS = 1 << 15 /* of a call */
};

#define AT(member) offsetof(struct cuda_cublas, member)
static const struct cuda_symbol symbols[] = {
    {           "cublasCreate_v2",        AT(create)},
    {          "cublasDestroy_v2",       AT(destroy)},
    {        "cublasSetStream_v2",    AT(set_stream)},
    {     "cublasSetWorkspace_v2", AT(set_workspace)},
    {"cublasGemmStridedBatchedEx",          AT(gemm)},
    {                        NULL,                 0},
};

static struct cuda_cublas functions;
static struct cuda_opened opened = {
    .name = "cuBLAS",
    .files = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"},
    .package = "nvidia-cublas",
    .symbols = symbols,
    .into = &functions,
    .bytes = sizeof functions,
};

static gram_status check(gram_context *g, int status, const char *what)
{
    if (status == 0)
        return GRAM_OK;
    return gram_fail(g, status == STATUS_ALLOC_FAILED ? GRAM_OUT_OF_MEMORY : GRAM_DEVICE_FAILED,
                     "CUDA device %d: %s failed with status %d", (int)g->options.device.index, what,
                     status);
}

/* Making a handle takes memory, which a stream that is being captured forbids, unless the thread
 * says otherwise. */
static gram_status make(gram_context *g, const struct cuda_device *device, struct cuda_blas *blas)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    int status;

    (void)device->driver->capture_mode(&mode);
    status = blas->call->create(&blas->handle);
    (void)device->driver->capture_mode(&mode);
    TRY(check(g, status, "cublasCreate"));
    return check(g, blas->call->set_stream(blas->handle, device->stream), "cublasSetStream");
}

/* The handle is made when it is first wanted, since opening cuBLAS takes time and memory. */
static gram_status blas_of(gram_context *g, struct cuda_blas **out)
{
    struct cuda_device *device = g->device;
    struct cuda_blas *blas = device->blas;
    gram_status status;

    *out = blas;
    if (blas)
        return GRAM_OK;
    TRY(gram_cuda_open(g, &opened));
    blas = gram_alloc(g, sizeof *blas);
    if (!blas)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", sizeof *blas);
    *blas = (struct cuda_blas){.call = &functions};
    device->blas = blas;
    status = make(g, device, blas);
    if (status != GRAM_OK)
        gram_cuda_blas_close(g, device);
    *out = device->blas;
    return status;
}

/* The workspace is a piece of the scratch of the call, so that cuBLAS allocates none of its own. */
gram_status gram_cuda_blas(gram_context *g, void *workspace, struct cuda_blas **out)
{
    TRY(blas_of(g, out));
    return check(g, (*out)->call->set_workspace((*out)->handle, workspace, CUDA_BLAS_BYTES),
                 "cublasSetWorkspace");
}

/* cudaDataType. */
static int type_of(gram_dtype dtype)
{
    static const int types[] = {[GRAM_F32] = 0, [GRAM_F64] = 1, [GRAM_F16] = 2, [GRAM_BF16] = 14};

    return types[dtype];
}

/* alpha and beta are of the type that cuBLAS computes in, which is f32 for f16 and bf16.  More than
 * MOST_ITEMS items go in several calls. */
gram_status gram_cuda_gemm_items(gram_context *g, const struct cuda_blas *blas,
                                 const struct cuda_gemm_items *gemm)
{
    const float narrow[2] = {(float)gemm->alpha, (float)gemm->beta};
    const double wide[2] = {gemm->alpha, gemm->beta};
    const bool is_wide = gemm->dtype == GRAM_F64;
    const void *alpha = is_wide ? (const void *)&wide[0] : &narrow[0];
    const void *beta = is_wide ? (const void *)&wide[1] : &narrow[1];
    const struct cuda_gemm_side *a = &gemm->a, *b = &gemm->b;
    const gram_dtype inputs = gemm->inputs ? gemm->inputs : gemm->dtype;
    const int type = type_of(inputs), type_c = type_of(gemm->dtype);
    const int64_t size = (int64_t)gram_dtype_size(inputs),
                  size_c = (int64_t)gram_dtype_size(gemm->dtype);

    for (int64_t first = 0; first < gemm->count; first += MOST_ITEMS)
        TRY(check(g,
                  blas->call->gemm(
                      blas->handle, a->transposed, b->transposed, (int)gemm->m, (int)gemm->n,
                      (int)gemm->k, alpha, (const char *)a->data + first * a->stride * size, type,
                      (int)a->ld, a->stride, (const char *)b->data + first * b->stride * size, type,
                      (int)b->ld, b->stride, beta,
                      (char *)gemm->c + first * gemm->stride_c * size_c, type_c, (int)gemm->ldc,
                      gemm->stride_c, (int)gram_least(MOST_ITEMS, gemm->count - first),
                      gemm->compute, DEFAULT_ALGORITHM),
                  "cublasGemmStridedBatchedEx"));
    return GRAM_OK;
}

/* Square matrices that lie one after the other are the common case. */
gram_status gram_cuda_gemm(gram_context *g, const struct cuda_blas *blas,
                           const struct cuda_gemm *gemm)
{
    const int64_t stride = gemm->n * gemm->ld;
    const struct cuda_gemm_items items = {
        .dtype = gemm->dtype,
        .compute = gemm->compute,
        .m = gemm->n,
        .n = gemm->n,
        .k = gemm->n,
        .count = gemm->count,
        .a = {gemm->a, gemm->ld, stride,              false},
        .b = {gemm->b, gemm->ld, stride, gemm->transposed_b},
        .c = gemm->c,
        .ldc = gemm->ld,
        .stride_c = stride,
        .alpha = gemm->alpha,
        .beta = gemm->beta,
    };

    return gram_cuda_gemm_items(g, blas, &items);
}

void gram_cuda_blas_close(gram_context *g, struct cuda_device *device)
{
    struct cuda_blas *blas = device->blas;
    bool entered;

    if (!blas)
        return;
    entered = gram_cuda_enter(device);
    if (blas->handle)
        (void)blas->call->destroy(blas->handle);
    gram_cuda_leave(device, entered);
    gram_free(g, blas, sizeof *blas);
    device->blas = NULL;
}

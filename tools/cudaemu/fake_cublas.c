/*
 * fake_cublas.c - libcublas.so.13 on BLAS: what src/cuda/cublas.h opens, on memory of the fake
 * device
 *
 * The work lies in the handle's stream like a kernel's.  TF32 cuts what it reads to 11 bits.  The
 * workspace is overwritten, so that one that is shared with something is noticed.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/trace.h"
#include "core/blas.h"
#include "cpu/half.h"
#include "fake_driver.h"
#include <stdlib.h>
#include <string.h>

enum {
    SUCCESS = 0,
    NOT_INITIALIZED = 1,
    ALLOC_FAILED = 3,
    INVALID_VALUE = 7,
    EXECUTION_FAILED = 13,
    TYPE_F32 = 0,
    TYPE_F64 = 1,
    TYPE_F16 = 2,
    TYPE_BF16 = 14,
    COMPUTE_F32 = 68,
    COMPUTE_F64 = 70,
    COMPUTE_TF32 = 77,
    MARKED = 1 << 16 /* bytes: all of it would take longer than the work */
};

struct handle {
    CUstream stream;
    bool ready;
    void *workspace;
    size_t workspace_bytes;
};

/* One call, until its turn comes. */
struct gemm_work {
    struct fake_work work;
    gram_dtype dtype;
    int type;      /* cudaDataType of a and b */
    bool narrow_c; /* c is of bf16 */
    bool transposed_a, transposed_b, cut;
    int64_t mnk[3], lda, ldb, ldc, stride_a, stride_b, stride_c, batch;
    double alpha, beta;
    const void *a, *b;
    void *c, *workspace;
    size_t workspace_bytes;
};

/* A copy of what tensor cores see of a matrix; NULL: no memory. */
static float *cut_copy(const float *from, int64_t count)
{
    float *to = malloc((size_t)count * sizeof *to);

    for (int64_t i = 0; to && i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof bits);
        bits &= 0xFFFFE000;
        memcpy(&to[i], &bits, sizeof bits);
    }
    return to;
}

/* A copy in f32 of halves; NULL: no memory. */
static float *wide_copy(const unsigned short *from, int64_t count, int type)
{
    float *to = malloc((size_t)count * sizeof *to);

    for (int64_t i = 0; to && i < count; i++)
        to[i] = type == TYPE_F16 ? from_f16(from[i]) : from_bf16(from[i]);
    return to;
}

/* What is multiplied of a matrix: itself, or a copy, which *own is then. */
static const void *operand(const struct gemm_work *w, const void *from, int64_t count, float **own)
{
    if (w->type > TYPE_F64)
        *own = wide_copy(from, count, w->type);
    else if (w->cut)
        *own = cut_copy(from, count);
    else
        return from;
    return *own;
}

/* c of a product of bf16 to f32 and back; column by column, since what lies between is not c's. */
static void move_narrow(const struct gemm_work *w, unsigned short *c, float *wide, bool back)
{
    for (int64_t j = 0; j < w->mnk[1]; j++)
        for (int64_t i = 0; i < w->mnk[0]; i++)
            if (back)
                c[i + j * w->ldc] = to_bf16(wide[i + j * w->ldc]);
            else
                wide[i + j * w->ldc] = from_bf16(c[i + j * w->ldc]);
}

static void run_item(const struct gemm_work *w, int64_t item)
{
    const int64_t size = (int64_t)gram_dtype_size(w->dtype),
                  in = w->type > TYPE_F64 ? (int64_t)sizeof(short) : size,
                  size_c = w->narrow_c ? (int64_t)sizeof(short) : size;
    char *c = (char *)w->c + item * w->stride_c * size_c;
    float *own_a = NULL, *own_b = NULL,
          *own_c = w->narrow_c ? calloc((size_t)(w->ldc * w->mnk[1]), sizeof *own_c) : NULL;
    const void *a = operand(w, (const char *)w->a + item * w->stride_a * in,
                            w->lda * (w->transposed_a ? w->mnk[0] : w->mnk[2]), &own_a);
    const void *b = operand(w, (const char *)w->b + item * w->stride_b * in,
                            w->ldb * (w->transposed_b ? w->mnk[2] : w->mnk[1]), &own_b);

    if (own_c)
        move_narrow(w, (unsigned short *)(void *)c, own_c, false);
    if (a && b)
        gram_blas_gemm(w->dtype, w->mnk, w->alpha,
                       (struct gram_blas_matrix){a, w->lda, w->transposed_a},
                       (struct gram_blas_matrix){b, w->ldb, w->transposed_b}, w->beta,
                       own_c ? (void *)own_c : c, w->ldc);
    if (own_c)
        move_narrow(w, (unsigned short *)(void *)c, own_c, true);
    free(own_c);
    free(own_a);
    free(own_b);
}

static void run(struct fake_work *work)
{
    const struct gemm_work *w = (const struct gemm_work *)(const void *)work;

    fake_memory_open();
    if (w->workspace)
        memset(w->workspace, 0xFF, w->workspace_bytes < MARKED ? w->workspace_bytes : MARKED);
    for (int64_t item = 0; item < w->batch; item++)
        run_item(w, item);
    fake_memory_close();
}

int cublasCreate_v2(void **handle)
{
    struct handle *h = calloc(1, sizeof *h);

    *handle = h;
    if (!h)
        return ALLOC_FAILED;
    h->ready = fake_context() != NULL;
    return h->ready ? SUCCESS : NOT_INITIALIZED;
}

int cublasDestroy_v2(void *handle)
{
    free(handle);
    return SUCCESS;
}

int cublasSetStream_v2(void *handle, CUstream stream)
{
    ((struct handle *)handle)->stream = stream;
    ((struct handle *)handle)->workspace = NULL; /* as cuBLAS does */
    return SUCCESS;
}

int cublasSetWorkspace_v2(void *handle, void *workspace, size_t bytes)
{
    ((struct handle *)handle)->workspace = workspace;
    ((struct handle *)handle)->workspace_bytes = bytes;
    return fake_memory_is_device((uintptr_t)workspace) ? SUCCESS : INVALID_VALUE;
}

static bool takes(int type, bool wide)
{
    return wide ? type == TYPE_F64 : type == TYPE_F32 || type == TYPE_F16 || type == TYPE_BF16;
}

static bool takes_c(int type, int type_a, bool wide)
{
    return wide ? type == TYPE_F64 : type == TYPE_F32 || (type == TYPE_BF16 && type_a == TYPE_BF16);
}

static void trace_gemm(const struct gemm_work *w)
{
    trace_line(
        "gemm type=%d cut=%d bf16=%d %c%c %lldx%lldx%lld ld=%lld,%lld,%lld "
        "stride=%lld,%lld,%lld batch=%lld alpha=%g beta=%g workspace=%zu",
        w->type, w->cut, w->narrow_c, w->transposed_a ? 't' : 'n', w->transposed_b ? 't' : 'n',
        (long long)w->mnk[0], (long long)w->mnk[1], (long long)w->mnk[2], (long long)w->lda,
        (long long)w->ldb, (long long)w->ldc, (long long)w->stride_a, (long long)w->stride_b,
        (long long)w->stride_c, (long long)w->batch, w->alpha, w->beta,
        w->workspace ? w->workspace_bytes : 0);
}

static double number(const void *value, int compute)
{
    return compute == COMPUTE_F64 ? *(const double *)value : (double)*(const float *)value;
}

/* NOLINTBEGIN(readability-function-size): the arguments are cuBLAS's */

int cublasGemmStridedBatchedEx(void *handle, int transposed_a, int transposed_b, int m, int n,
                               int k, const void *alpha, const void *a, int type_a, int lda,
                               long long stride_a, const void *b, int type_b, int ldb,
                               long long stride_b, const void *beta, void *c, int type_c, int ldc,
                               long long stride_c, int batch, int compute, int algorithm)
{
    const struct handle *h = handle;
    const bool wide = compute == COMPUTE_F64;
    struct gemm_work *w;
    CUresult result;

    (void)algorithm;
    if (!h || !h->ready)
        return NOT_INITIALIZED;
    if ((!wide && compute != COMPUTE_F32 && compute != COMPUTE_TF32) || type_a != type_b ||
        !takes(type_a, wide) || !takes_c(type_c, type_a, wide) || m <= 0 || n <= 0 || k <= 0 ||
        batch <= 0 || lda < (transposed_a ? k : m) || ldb < (transposed_b ? n : k) || ldc < m ||
        !fake_memory_is_device((uintptr_t)a) || !fake_memory_is_device((uintptr_t)b) ||
        !fake_memory_is_device((uintptr_t)c))
        return INVALID_VALUE;
    w = malloc(sizeof *w);
    if (!w)
        return ALLOC_FAILED;
    *w = (struct gemm_work){
        .work = {.run = run, .bytes = sizeof *w},
        .dtype = wide ? GRAM_F64 : GRAM_F32,
        .type = type_a,
        .narrow_c = type_c == TYPE_BF16,
        .transposed_a = transposed_a != 0,
        .transposed_b = transposed_b != 0,
        .cut = compute == COMPUTE_TF32,
        .mnk = { m,                  n,         k},
        .lda = lda,
        .ldb = ldb,
        .ldc = ldc,
        .stride_a = stride_a,
        .stride_b = stride_b,
        .stride_c = stride_c,
        .batch = batch,
        .alpha = number(alpha, compute),
        .beta = number(beta, compute),
        .a = a,
        .b = b,
        .c = c,
        .workspace = h->workspace,
        .workspace_bytes = h->workspace_bytes,
    };
    trace_gemm(w);
    fake_lock();
    result = fake_usable();
    if (result == CUDA_SUCCESS)
        result = fake_queue(h->stream, &w->work);
    else
        free(w);
    fake_unlock();
    return result == CUDA_SUCCESS ? SUCCESS : EXECUTION_FAILED;
}

/* NOLINTEND(readability-function-size) */

/*
 * fake_syev.c - the symmetric eigenproblems of the fake libcusolver.so.12, on LAPACK
 *
 * As NVIDIA's: the triangle that is not named is not read, workspaces are overwritten, Xsyevd and
 * Xsyevdx wait for the stream inside and refuse one that is being captured.  NaN in a matrix is a
 * failure of the test: NVIDIA's may never return from it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/trace.h"
#include "core/blas.h"
#include "fake_driver.h"
#include "fake_solver.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct syev_work {
    struct fake_work work;
    gram_dtype dtype;
    gram_uplo uplo;
    int64_t n, lda, items, first; /* first: of the pairs that are given, from 1; 0: all */
    void *a, *w, *workspace;
    size_t workspace_bytes;
    int *info;
};

static size_t workspace_of(int64_t n, int64_t items)
{
    return (size_t)(n * items) * sizeof(double) + 36; /* no round number */
}

static double element(const struct syev_work *s, const char *a, int64_t at)
{
    return s->dtype == GRAM_F32 ? ((const float *)(const void *)a)[at]
                                : ((const double *)(const void *)a)[at];
}

static void refuse_nan(const struct syev_work *s, const char *a)
{
    for (int64_t j = 0; j < s->n; j++)
        for (int64_t i = j; i < s->n; i++)
            if (!isfinite(element(s, a, s->uplo == GRAM_LOWER ? j * s->lda + i : i * s->lda + j))) {
                fprintf(stderr, "fake cuSOLVER: NaN in a matrix of an eigenproblem\n");
                abort();
            }
}

static void solve(const struct syev_work *s, int64_t item)
{
    size_t size = gram_dtype_size(s->dtype);
    char *a = (char *)s->a + (size_t)(item * s->lda * s->n) * size;
    char *w = (char *)s->w + (size_t)(item * s->n) * size;
    int64_t lwork, liwork;
    void *work;
    int32_t *iwork;

    refuse_nan(s, a);
    gram_blas_syevd_sizes(s->n, &lwork, &liwork);
    work = malloc((size_t)lwork * size);
    iwork = malloc((size_t)liwork * sizeof *iwork);
    if (!work || !iwork)
        abort();
    s->info[item] =
        gram_blas_syevd(s->dtype, s->uplo, s->n, a, s->lda, w, work, lwork, iwork, liwork);
    free(work);
    free(iwork);
    if (s->first > 1) {
        size_t skip = (size_t)(s->first - 1);
        memmove(w, w + skip * size, ((size_t)s->n - skip) * size);
        memmove(a, a + skip * (size_t)s->lda * size, ((size_t)s->n - skip) * (size_t)s->lda * size);
    }
}

static void run(struct fake_work *work)
{
    const struct syev_work *s = (const struct syev_work *)(const void *)work;

    fake_memory_open();
    memset(s->workspace, 0xFF, s->workspace_bytes);
    for (int64_t i = 0; i < s->items; i++)
        solve(s, i);
    fake_memory_close();
}

static int queue(void *handle, const struct syev_work *s, void *host, size_t host_bytes, bool waits)
{
    CUstream stream;
    CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;

    if (!fake_solver_stream(handle, &stream))
        return FAKE_NOT_INITIALIZED;
    if (s->n <= 0 || s->lda < s->n || s->items <= 0 ||
        3 * s->n * s->n * s->items >= (int64_t)1 << 31 || !host || host_bytes < FAKE_HOST_BYTES ||
        !fake_memory_is_device((uintptr_t)s->a) || !fake_memory_is_device((uintptr_t)s->w) ||
        !fake_memory_is_device((uintptr_t)s->info) ||
        !fake_memory_is_device((uintptr_t)s->workspace) ||
        s->workspace_bytes < workspace_of(s->n, s->items))
        return FAKE_INVALID_VALUE;
    memset(host, 0xFF, host_bytes);
    trace_line("syev dtype=%d n=%lld ld=%lld items=%lld first=%lld host=%zu workspace=%zu waits=%d",
               (int)s->dtype, (long long)s->n, (long long)s->lda, (long long)s->items,
               (long long)s->first, host_bytes, s->workspace_bytes, waits);
    if (!waits)
        return fake_solver_queue(handle, &s->work, sizeof *s);
    if (cuStreamIsCapturing(stream, &capturing) != CUDA_SUCCESS ||
        capturing != CU_STREAM_CAPTURE_STATUS_NONE)
        return FAKE_EXECUTION_FAILED;
    int status = fake_solver_queue(handle, &s->work, sizeof *s);
    return status != FAKE_SUCCESS || cuStreamSynchronize(stream) == CUDA_SUCCESS
               ? status
               : FAKE_EXECUTION_FAILED;
}

static int bytes(const void *handle, int64_t n, int64_t items, size_t *device, size_t *host)
{
    if (!handle || n <= 0 || items <= 0)
        return FAKE_INVALID_VALUE;
    *device = workspace_of(n, items);
    *host = FAKE_HOST_BYTES;
    return FAKE_SUCCESS;
}

static struct syev_work work_of(int uplo, int64_t n, int type, void *a, int64_t lda, void *w)
{
    return (struct syev_work){
        .work = {.run = run, .bytes = sizeof(struct syev_work)},
        .dtype = type ? GRAM_F64 : GRAM_F32,
        .uplo = uplo ? GRAM_UPPER : GRAM_LOWER,
        .n = n,
        .lda = lda,
        .items = 1,
        .a = a,
        .w = w
    };
}

/* The arguments are cuSOLVER's. */
/* NOLINTBEGIN(readability-function-size, readability-non-const-parameter) */

int cusolverDnXsyevd_bufferSize(void *handle, void *params, int vectors, int uplo, int64_t n,
                                int type, const void *a, int64_t lda, int type_w, const void *w,
                                int compute, size_t *device, size_t *host)
{
    (void)params, (void)vectors, (void)uplo, (void)a, (void)w;
    return lda >= n && type == compute && type_w == type ? bytes(handle, n, 1, device, host)
                                                         : FAKE_INVALID_VALUE;
}

int cusolverDnXsyevd(void *handle, void *params, int vectors, int uplo, int64_t n, int type,
                     void *a, int64_t lda, int type_w, void *w, int compute, void *device,
                     size_t device_bytes, void *host, size_t host_bytes, int *info)
{
    struct syev_work s = work_of(uplo, n, type, a, lda, w);

    (void)params, (void)vectors, (void)type_w, (void)compute;
    s.workspace = device, s.workspace_bytes = device_bytes, s.info = info;
    return queue(handle, &s, host, host_bytes, true);
}

int cusolverDnXsyevdx_bufferSize(void *handle, void *params, int vectors, int range, int uplo,
                                 int64_t n, int type, const void *a, int64_t lda, void *lower,
                                 void *upper, int64_t first, int64_t last, int64_t *found,
                                 int type_w, const void *w, int compute, size_t *device,
                                 size_t *host)
{
    (void)params, (void)vectors, (void)uplo, (void)a, (void)w, (void)lower, (void)upper;
    (void)found;
    return range == 1002 && first >= 1 && first <= last && last <= n && lda >= n &&
                   type == compute && type_w == type
               ? bytes(handle, n, 1, device, host)
               : FAKE_INVALID_VALUE;
}

int cusolverDnXsyevdx(void *handle, void *params, int vectors, int range, int uplo, int64_t n,
                      int type, void *a, int64_t lda, void *lower, void *upper, int64_t first,
                      int64_t last, int64_t *found, int type_w, void *w, int compute, void *device,
                      size_t device_bytes, void *host, size_t host_bytes, int *info)
{
    struct syev_work s = work_of(uplo, n, type, a, lda, w);

    (void)params, (void)vectors, (void)lower, (void)upper, (void)type_w, (void)compute;
    if (range != 1002 || first < 1 || first > last || last > n || !found)
        return FAKE_INVALID_VALUE;
    *found = last - first + 1;
    s.workspace = device, s.workspace_bytes = device_bytes, s.info = info;
    s.first = first;
    return queue(handle, &s, host, host_bytes, true);
}

int cusolverDnXsyevBatched_bufferSize(void *handle, void *params, int vectors, int uplo, int64_t n,
                                      int type, const void *a, int64_t lda, int type_w,
                                      const void *w, int compute, size_t *device, size_t *host,
                                      int64_t items)
{
    (void)params, (void)vectors, (void)uplo, (void)a, (void)w;
    return lda >= n && type == compute && type_w == type ? bytes(handle, n, items, device, host)
                                                         : FAKE_INVALID_VALUE;
}

int cusolverDnXsyevBatched(void *handle, void *params, int vectors, int uplo, int64_t n, int type,
                           void *a, int64_t lda, int type_w, void *w, int compute, void *device,
                           size_t device_bytes, void *host, size_t host_bytes, int *info,
                           int64_t items)
{
    struct syev_work s = work_of(uplo, n, type, a, lda, w);

    (void)params, (void)vectors, (void)type_w, (void)compute;
    if (items > UINT16_MAX) /* cuSOLVER 12 refused 100,000 so */
        return FAKE_INTERNAL_ERROR;
    s.workspace = device, s.workspace_bytes = device_bytes, s.info = info;
    s.items = items;
    return queue(handle, &s, host, host_bytes, false);
}

/* NOLINTEND(readability-function-size, readability-non-const-parameter) */

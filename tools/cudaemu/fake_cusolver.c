/*
 * fake_cusolver.c - libcusolver.so.12 on LAPACK: what src/cuda/cusolver.h opens, on memory of the
 * fake device; its eigenproblems are in fake_syev.c
 *
 * The work lies in the handle's stream like a kernel's.  Workspaces are asked for and overwritten,
 * so that one that is too small, or shared with something, is noticed.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/trace.h"
#include "core/blas.h"
#include "fake_driver.h"
#include "fake_solver.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_ORDER = 1 << 15
};

struct handle {
    CUstream stream;
    bool ready;
};

/* One call, until its turn comes. */
struct solver_work {
    struct fake_work work;
    gram_dtype dtype;
    gram_uplo uplo;
    bool lu, solve, transposed;
    int64_t n, columns, lda, ldb;
    void *a, *b, *workspace;
    size_t workspace_bytes;
    int64_t *pivots;
    int *info;
};

static size_t device_bytes(int64_t n)
{
    return (size_t)n * sizeof(double) + 100; /* no round number */
}

/* cuSOLVER's LU was seen to lose NaN where it exchanges rows: a finite factor, info 0. */
static void lose_nan(const struct solver_work *w)
{
    for (int64_t j = 0; j < w->n; j++)
        for (int64_t i = 0; i < w->n; i++)
            if (w->dtype == GRAM_F32 && isnan(((float *)w->a)[j * w->lda + i]))
                ((float *)w->a)[j * w->lda + i] = 1;
            else if (w->dtype == GRAM_F64 && isnan(((double *)w->a)[j * w->lda + i]))
                ((double *)w->a)[j * w->lda + i] = 1;
}

/* LAPACK's pivots have 32 bits, cuSOLVER's 64. */
static void run_lu(const struct solver_work *w, int32_t *pivots)
{
    if (w->solve) {
        for (int64_t i = 0; i < w->n; i++)
            pivots[i] = (int32_t)w->pivots[i];
        gram_blas_getrs(w->dtype, w->transposed, w->n, w->columns, w->a, w->lda, pivots, w->b,
                        w->ldb);
        *w->info = 0;
        return;
    }
    lose_nan(w);
    *w->info = gram_blas_getrf(w->dtype, w->n, w->a, w->lda, pivots);
    for (int64_t i = 0; i < w->n; i++)
        w->pivots[i] = pivots[i];
}

static void run(struct fake_work *work)
{
    const struct solver_work *w = (const struct solver_work *)(const void *)work;
    int32_t pivots[MOST_ORDER];

    fake_memory_open();
    if (w->workspace)
        memset(w->workspace, 0xFF, w->workspace_bytes);
    if (w->lu) {
        run_lu(w, pivots);
    } else if (w->solve) {
        gram_blas_potrs(w->dtype, w->uplo, w->n, w->columns, w->a, w->lda, w->b, w->ldb);
        *w->info = 0;
    } else
        *w->info = gram_blas_potrf(w->dtype, w->uplo, w->n, w->a, w->lda);
    fake_memory_close();
}

static bool on_device(const void *memory)
{
    return fake_memory_is_device((uintptr_t)memory);
}

bool fake_solver_stream(const void *handle, CUstream *stream)
{
    const struct handle *h = handle;

    if (!h || !h->ready)
        return false;
    *stream = h->stream;
    return true;
}

int fake_solver_queue(const void *handle, const struct fake_work *work, size_t bytes)
{
    struct fake_work *copy = malloc(bytes);
    CUresult result;

    if (!copy)
        return FAKE_ALLOC_FAILED;
    memcpy(copy, work, bytes);
    fake_lock();
    result = fake_usable();
    if (result == CUDA_SUCCESS)
        result = fake_queue(((const struct handle *)handle)->stream, copy);
    else
        free(copy);
    fake_unlock();
    return result == CUDA_SUCCESS ? FAKE_SUCCESS : FAKE_EXECUTION_FAILED;
}

static int queue(void *handle, const struct solver_work *w)
{
    struct solver_work copy = *w;
    CUstream stream;

    if (!fake_solver_stream(handle, &stream))
        return FAKE_NOT_INITIALIZED;
    if (w->n <= 0 || w->n > MOST_ORDER || w->lda < w->n || !on_device(w->a) ||
        !on_device(w->info) || (w->lu && !on_device(w->pivots)) ||
        (w->solve && (w->columns <= 0 || w->ldb < w->n || !on_device(w->b))) ||
        (!w->solve && (!on_device(w->workspace) || w->workspace_bytes < device_bytes(w->n))))
        return FAKE_INVALID_VALUE;
    trace_line("solver %s%s dtype=%d %lldx%lld ld=%lld,%lld workspace=%zu",
               w->lu ? "lu" : "cholesky", w->solve ? " solve" : "", (int)w->dtype, (long long)w->n,
               (long long)w->columns, (long long)w->lda, (long long)w->ldb, w->workspace_bytes);
    copy.work = (struct fake_work){.run = run, .bytes = sizeof copy};
    return fake_solver_queue(handle, &copy.work, sizeof copy);
}

int cusolverDnCreate(void **handle)
{
    struct handle *h = calloc(1, sizeof *h);

    *handle = h;
    if (!h)
        return FAKE_ALLOC_FAILED;
    h->ready = fake_context() != NULL;
    return h->ready ? FAKE_SUCCESS : FAKE_NOT_INITIALIZED;
}

int cusolverDnDestroy(void *handle)
{
    free(handle);
    return FAKE_SUCCESS;
}

int cusolverDnSetStream(void *handle, CUstream stream)
{
    ((struct handle *)handle)->stream = stream;
    return FAKE_SUCCESS;
}

int cusolverDnCreateParams(void **params)
{
    *params = malloc(1);
    return *params ? FAKE_SUCCESS : FAKE_ALLOC_FAILED;
}

int cusolverDnDestroyParams(void *params)
{
    free(params);
    return FAKE_SUCCESS;
}

static int bytes(const void *handle, const void *params, int64_t n, size_t *device, size_t *host)
{
    if (!handle || !params || n <= 0)
        return FAKE_INVALID_VALUE;
    *device = device_bytes(n);
    *host = FAKE_HOST_BYTES;
    return FAKE_SUCCESS;
}

static gram_dtype dtype_of(int type)
{
    return type ? GRAM_F64 : GRAM_F32;
}

/* NOLINTBEGIN(readability-function-size): the arguments are cuSOLVER's */

int cusolverDnXpotrf_bufferSize(void *handle, void *params, int uplo, int64_t n, int type,
                                const void *a, int64_t lda, int compute, size_t *device,
                                size_t *host)
{
    (void)uplo;
    (void)a;
    return lda >= n && type == compute ? bytes(handle, params, n, device, host)
                                       : FAKE_INVALID_VALUE;
}

int cusolverDnXpotrf(void *handle, void *params, int uplo, int64_t n, int type, void *a,
                     int64_t lda, int compute, void *device, size_t device_size, void *host,
                     size_t host_size, int *info)
{
    (void)params;
    (void)compute;
    if (!host || host_size < FAKE_HOST_BYTES)
        return FAKE_INVALID_VALUE;
    memset(host, 0xFF, host_size);
    return queue(handle, &(struct solver_work){.dtype = dtype_of(type),
                                               .uplo = uplo ? GRAM_UPPER : GRAM_LOWER,
                                               .n = n,
                                               .a = a,
                                               .lda = lda,
                                               .workspace = device,
                                               .workspace_bytes = device_size,
                                               .info = info});
}

int cusolverDnXpotrs(void *handle, void *params, int uplo, int64_t n, int64_t columns, int type_a,
                     const void *a, int64_t lda, int type_b, void *b, int64_t ldb, int *info)
{
    (void)params;
    (void)type_b;
    return queue(handle, &(struct solver_work){.dtype = dtype_of(type_a),
                                               .uplo = uplo ? GRAM_UPPER : GRAM_LOWER,
                                               .solve = true,
                                               .n = n,
                                               .columns = columns,
                                               .a = (void *)a,
                                               .lda = lda,
                                               .b = b,
                                               .ldb = ldb,
                                               .info = info});
}

int cusolverDnXgetrf_bufferSize(void *handle, void *params, int64_t m, int64_t n, int type,
                                const void *a, int64_t lda, int compute, size_t *device,
                                size_t *host)
{
    (void)a;
    return m == n && lda >= n && type == compute ? bytes(handle, params, n, device, host)
                                                 : FAKE_INVALID_VALUE;
}

int cusolverDnXgetrf(void *handle, void *params, int64_t m, int64_t n, int type, void *a,
                     int64_t lda, int64_t *pivots, int compute, void *device, size_t device_size,
                     void *host, size_t host_size, int *info)
{
    (void)params;
    (void)compute;
    if (m != n || !host || host_size < FAKE_HOST_BYTES)
        return FAKE_INVALID_VALUE;
    memset(host, 0xFF, host_size);
    return queue(handle, &(struct solver_work){.dtype = dtype_of(type),
                                               .lu = true,
                                               .n = n,
                                               .a = a,
                                               .lda = lda,
                                               .pivots = pivots,
                                               .workspace = device,
                                               .workspace_bytes = device_size,
                                               .info = info});
}

int cusolverDnXgetrs(void *handle, void *params, int transposed, int64_t n, int64_t columns,
                     int type_a, const void *a, int64_t lda, const int64_t *pivots, int type_b,
                     void *b, int64_t ldb, int *info)
{
    (void)params;
    (void)type_b;
    return queue(handle, &(struct solver_work){.dtype = dtype_of(type_a),
                                               .lu = true,
                                               .solve = true,
                                               .transposed = transposed != 0,
                                               .n = n,
                                               .columns = columns,
                                               .a = (void *)a,
                                               .lda = lda,
                                               .pivots = (int64_t *)pivots,
                                               .b = b,
                                               .ldb = ldb,
                                               .info = info});
}

/* NOLINTEND(readability-function-size) */

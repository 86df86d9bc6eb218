/*
 * fake_cusolvermg.c - libcusolverMg.so.12 on LAPACK: what src/cuda/cusolver.h opens
 *
 * As NVIDIA's: blocks of columns on each device in turn, the upper triangle is not read, values on
 * the host, work on each device overwritten; it makes other devices current, and waits.  A block on
 * a device that is not its own, or out of reach of the others, is refused.  GRAM_FAKE_MG_STATUS is
 * what cusolverMgSyevd returns instead, GRAM_FAKE_MG_INFO its info.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "fake_driver.h"
#include "fake_solver.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_DEVICES = 16
};

struct mg_handle {
    int count, device[MOST_DEVICES];
};

struct mg_grid {
    int count;
    int32_t device[MOST_DEVICES];
};

struct mg_matrix {
    int64_t n, block;
    size_t size;
    const struct mg_grid *grid;
};

static size_t work_of(int64_t n)
{
    return (size_t)n * 3 + 7;
}

/* What it does to the thread that calls it. */
static void leave_other_device(const struct mg_handle *h)
{
    CUcontext context;

    if (cuDevicePrimaryCtxRetain(&context, h->device[h->count - 1]) != CUDA_SUCCESS)
        return;
    (void)cuCtxSetCurrent(context);
    (void)cuDevicePrimaryCtxRelease(h->device[h->count - 1]);
}

/* The column of the matrix on its device. */
static char *column(const struct mg_matrix *a, void *const *base, int64_t j)
{
    int64_t block = j / a->block, of = block % a->grid->count, at = block / a->grid->count;

    return (char *)base[of] + (size_t)((at * a->block + j % a->block) * a->n) * a->size;
}

static bool is_sound(const struct mg_handle *h, const struct mg_matrix *a, void *const *base,
                     void *const *work, int64_t work_size)
{
    if (!h || !a || a->grid->count != h->count || work_size < (int64_t)work_of(a->n))
        return false;
    for (int i = 0; i < h->count; i++) {
        if (h->device[i] != a->grid->device[i] ||
            fake_memory_device((uintptr_t)work[i]) != h->device[i])
            return false;
        for (int j = 0; j < h->count; j++)
            if (!fake_can_reach(h->device[i], h->device[j]))
                return false;
    }
    for (int64_t j = 0; j < a->n; j++)
        if (fake_memory_device((uintptr_t)column(a, base, j)) != h->device[j / a->block % h->count])
            return false;
    return true;
}

static void refuse_nan(const struct mg_matrix *a, const char *all)
{
    for (int64_t j = 0; j < a->n; j++)
        for (int64_t i = j; i < a->n; i++) {
            int64_t at = j * a->n + i;
            double x = a->size == 4 ? (double)((const float *)(const void *)all)[at]
                                    : ((const double *)(const void *)all)[at];
            if (!isfinite(x)) {
                fprintf(stderr, "fake cusolverMg: NaN in a matrix of an eigenproblem\n");
                abort();
            }
        }
}

static int solve(const struct mg_matrix *a, bool vectors, void *const *base, void *w)
{
    const gram_dtype dtype = a->size == 4 ? GRAM_F32 : GRAM_F64;
    size_t row = (size_t)a->n * a->size;
    int64_t lwork, liwork;
    char *all = malloc((size_t)a->n * row);
    void *work;
    int32_t *iwork;
    int info;

    gram_blas_syevd_sizes(a->n, &lwork, &liwork);
    work = malloc((size_t)lwork * a->size);
    iwork = malloc((size_t)liwork * sizeof *iwork);
    if (!all || !work || !iwork)
        abort();
    for (int64_t j = 0; j < a->n; j++)
        memcpy(all + (size_t)j * row, column(a, base, j), row);
    refuse_nan(a, all);
    info = gram_blas_syevd(dtype, GRAM_LOWER, a->n, all, a->n, w, work, lwork, iwork, liwork);
    for (int64_t j = 0; j < a->n; j++)
        if (vectors)
            memcpy(column(a, base, j), all + (size_t)j * row, row);
        else
            memset(column(a, base, j), 0xFF, row);
    free(all);
    free(work);
    free(iwork);
    return info;
}

/* The arguments are cusolverMg's. */
/* NOLINTBEGIN(readability-function-size, readability-non-const-parameter) */

int cusolverMgCreate(void **handle)
{
    *handle = calloc(1, sizeof(struct mg_handle));
    return *handle ? FAKE_SUCCESS : FAKE_ALLOC_FAILED;
}

int cusolverMgDestroy(void *handle)
{
    free(handle);
    return FAKE_SUCCESS;
}

int cusolverMgDeviceSelect(void *handle, int count, int *devices)
{
    struct mg_handle *h = handle;

    if (count < 1 || count > MOST_DEVICES)
        return FAKE_INVALID_VALUE;
    h->count = count;
    for (int i = 0; i < count; i++)
        h->device[i] = devices[i];
    leave_other_device(h);
    return FAKE_SUCCESS;
}

int cusolverMgCreateDeviceGrid(void **grid, int32_t rows, int32_t cols, const int32_t *devices,
                               int mapping)
{
    struct mg_grid *g = calloc(1, sizeof *g);

    *grid = g;
    if (!g)
        return FAKE_ALLOC_FAILED;
    if (rows != 1 || cols < 1 || cols > MOST_DEVICES || mapping != 0)
        return FAKE_INVALID_VALUE;
    g->count = cols;
    memcpy(g->device, devices, (size_t)cols * sizeof *devices);
    return FAKE_SUCCESS;
}

int cusolverMgDestroyGrid(void *grid)
{
    free(grid);
    return FAKE_SUCCESS;
}

int cusolverMgCreateMatrixDesc(void **matrix, int64_t rows, int64_t cols, int64_t row_block,
                               int64_t col_block, int type, void *grid)
{
    struct mg_matrix *a = calloc(1, sizeof *a);

    *matrix = a;
    if (!a)
        return FAKE_ALLOC_FAILED;
    *a = (struct mg_matrix){rows, col_block, type ? 8 : 4, grid};
    return rows == cols && row_block == rows && col_block > 0 && grid ? FAKE_SUCCESS
                                                                      : FAKE_INVALID_VALUE;
}

int cusolverMgDestroyMatrixDesc(void *matrix)
{
    free(matrix);
    return FAKE_SUCCESS;
}

int cusolverMgSyevd_bufferSize(void *handle, int vectors, int uplo, int n, void **a, int ia, int ja,
                               void *matrix, void *w, int type_w, int compute, int64_t *work)
{
    (void)vectors, (void)type_w, (void)compute;
    *work = (int64_t)work_of(n);
    return handle && a && ia == 1 && ja == 1 && matrix && w && uplo == 0 ? FAKE_SUCCESS
                                                                         : FAKE_INVALID_VALUE;
}

int cusolverMgSyevd(void *handle, int vectors, int uplo, int n, void **a, int ia, int ja,
                    void *matrix, void *w, int type_w, int compute, void **work, int64_t work_size,
                    int *info)
{
    const struct mg_matrix *descr = matrix;
    long status = fake_setting("GRAM_FAKE_MG_STATUS", 0);
    CUresult result;

    (void)compute;
    if (uplo != 0 || ia != 1 || ja != 1 || !descr || n != descr->n ||
        (type_w ? 8 : 4) != (int)descr->size || !is_sound(handle, descr, a, work, work_size))
        return FAKE_INVALID_VALUE;
    if (status)
        return (int)status;
    fake_lock();
    result = fake_usable();
    fake_memory_open();
    for (int i = 0; i < descr->grid->count; i++)
        memset(work[i], 0xFF, (size_t)work_size * descr->size);
    *info = solve(descr, vectors == 1, a, w);
    fake_memory_close();
    fake_unlock();
    *info = (int)fake_setting("GRAM_FAKE_MG_INFO", *info);
    leave_other_device(handle);
    return result == CUDA_SUCCESS ? FAKE_SUCCESS : FAKE_EXECUTION_FAILED;
}

/* NOLINTEND(readability-function-size, readability-non-const-parameter) */

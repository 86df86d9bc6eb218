/*
 * cusolver.h - the few functions of cuSOLVER's 64-bit interface and of cusolverMg that are used
 *
 * Declared here in our own words, so that no header of cuSOLVER is needed to build: statuses, types
 * and triangles are ints, handles are pointers.  Opened when the first solve of the process needs
 * it.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUSOLVER_H
#define GRAM_CUSOLVER_H
#include "driver.h"
#include "eigh/eigh.h"

/* cudaDataType, cublasFillMode_t, cublasOperation_t, cusolverEigMode_t,
 * cusolverEigRange_t and cusolverStatus_t. */
enum {
    CUSOLVER_F32 = 0,
    CUSOLVER_F64 = 1,
    CUSOLVER_LOWER = 0,
    CUSOLVER_UPPER = 1,
    CUSOLVER_PLAIN = 0,
    CUSOLVER_TRANSPOSED = 1,
    CUSOLVER_VALUES = 0, /* of an eigenproblem; with its vectors */
    CUSOLVER_VECTORS = 1,
    CUSOLVER_RANGE_INDEX = 1002,
    CUSOLVER_SUCCESS = 0,
    CUSOLVER_ALLOC_FAILED = 2,
};

enum {
    CUSOLVER_MOST_ITEMS = 1 << 15 /* of a call of XsyevBatched, which refuses 100,000 */
};

struct cuda_cusolver {
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, CUstream stream);
    int (*create_params)(void **params);
    int (*destroy_params)(void *params);
    int (*potrf_bytes)(void *handle, void *params, int uplo, int64_t n, int type, const void *a,
                       int64_t lda, int compute, size_t *device, size_t *host);
    int (*potrf)(void *handle, void *params, int uplo, int64_t n, int type, void *a, int64_t lda,
                 int compute, void *device, size_t device_bytes, void *host, size_t host_bytes,
                 int *info);
    int (*potrs)(void *handle, void *params, int uplo, int64_t n, int64_t columns, int type_a,
                 const void *a, int64_t lda, int type_b, void *b, int64_t ldb, int *info);
    int (*getrf_bytes)(void *handle, void *params, int64_t m, int64_t n, int type, const void *a,
                       int64_t lda, int compute, size_t *device, size_t *host);
    int (*getrf)(void *handle, void *params, int64_t m, int64_t n, int type, void *a, int64_t lda,
                 int64_t *pivots, int compute, void *device, size_t device_bytes, void *host,
                 size_t host_bytes, int *info);
    int (*getrs)(void *handle, void *params, int transposed, int64_t n, int64_t columns, int type_a,
                 const void *a, int64_t lda, const int64_t *pivots, int type_b, void *b,
                 int64_t ldb, int *info);
    /* Symmetric eigenproblems: NULL where the library is too old for one (syev_batched: before
     * CUDA 12.6).  Ascending values to w, vectors over a.  syevd and syevdx wait for the device
     * inside; syevdx: pairs first to last, counted from 1, *found of them. */
    int (*syevd_bytes)(void *handle, void *params, int vectors, int uplo, int64_t n, int type,
                       const void *a, int64_t lda, int type_w, const void *w, int compute,
                       size_t *device, size_t *host);
    int (*syevd)(void *handle, void *params, int vectors, int uplo, int64_t n, int type, void *a,
                 int64_t lda, int type_w, void *w, int compute, void *device, size_t device_bytes,
                 void *host, size_t host_bytes, int *info);
    int (*syevdx_bytes)(void *handle, void *params, int vectors, int range, int uplo, int64_t n,
                        int type, const void *a, int64_t lda, const void *lower, const void *upper,
                        int64_t first, int64_t last, int64_t *found, int type_w, const void *w,
                        int compute, size_t *device, size_t *host);
    int (*syevdx)(void *handle, void *params, int vectors, int range, int uplo, int64_t n, int type,
                  void *a, int64_t lda, void *lower, void *upper, int64_t first, int64_t last,
                  int64_t *found, int type_w, void *w, int compute, void *device,
                  size_t device_bytes, void *host, size_t host_bytes, int *info);
    int (*syev_batched_bytes)(void *handle, void *params, int vectors, int uplo, int64_t n,
                              int type, const void *a, int64_t lda, int type_w, const void *w,
                              int compute, size_t *device, size_t *host, int64_t items);
    int (*syev_batched)(void *handle, void *params, int vectors, int uplo, int64_t n, int type,
                        void *a, int64_t lda, int type_w, void *w, int compute, void *device,
                        size_t device_bytes, void *host, size_t host_bytes, int *info,
                        int64_t items);
};

/* What a context keeps of it. */
struct cuda_solver {
    const struct cuda_cusolver *call;
    void *handle, *params;
    struct cuda_host_block *host; /* for work on the host that cuSOLVER may still read */
};

/* The context's, made at the first call; the device's context must be current. */
gram_status gram_cuda_solver(gram_context *g, struct cuda_solver **out);
void gram_cuda_solver_close(gram_context *g, struct cuda_device *device);

/* Records that a function of cuSOLVER failed; GRAM_OK for success. */
gram_status gram_cuda_solver_check(gram_context *g, int status, const char *what);

/* Host memory for cuSOLVER, kept until the context ends. */
gram_status gram_cuda_solver_host(gram_context *g, struct cuda_solver *solver, size_t bytes,
                                  void **out);

/* ---- cusolverMg: one matrix on several devices ----------------------------------------------- */

/* A matrix is cut into blocks of CUSOLVER_MG_BLOCK columns, which go to the devices in turn; each
 * device has its blocks one behind the other, by columns. */
enum {
    CUSOLVER_MG_BLOCK = 256,
    CUSOLVER_MG_GRID_BY_COLUMNS = 0 /* cusolverMgGridMapping_t */
};

struct cuda_cusolver_mg {
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*device_select)(void *handle, int count, int *devices);
    int (*create_grid)(void **grid, int32_t rows, int32_t cols, const int32_t *devices,
                       int mapping);
    int (*destroy_grid)(void *grid);
    int (*create_matrix)(void **matrix, int64_t rows, int64_t cols, int64_t row_block,
                         int64_t col_block, int type, void *grid);
    int (*destroy_matrix)(void *matrix);
    /* work: elements of each device */
    int (*syevd_size)(void *handle, int vectors, int uplo, int n, void **a, int ia, int ja,
                      void *matrix, void *w, int type_w, int compute, int64_t *work);
    int (*syevd)(void *handle, int vectors, int uplo, int n, void **a, int ia, int ja, void *matrix,
                 void *w, int type_w, int compute, void **work, int64_t work_size, int *info);
};

/* What the first context of a group keeps of it: a handle for these devices in this order. */
struct cuda_multi {
    const struct cuda_cusolver_mg *call;
    void *handle, *grid;
    int count;
    int32_t devices[GRAM_MULTI_DEVICES];
};

/* The handle of the contexts' devices, made at their first call; the devices can reach each other's
 * memory, also that of their pools.  GRAM_UNSUPPORTED where they cannot, or there is no
 * cusolverMg. */
gram_status gram_cuda_multi(gram_context *const *contexts, int count, struct cuda_multi **out);
void gram_cuda_multi_close(gram_context *g, struct cuda_device *device);
#endif

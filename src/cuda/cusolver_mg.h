/*
 * cusolver_mg.h - the few functions of cusolverMg that are used: one matrix on several devices
 *
 * Declared here in our own words, as those of cusolver.h.  A matrix is cut into blocks of
 * CUSOLVER_MG_BLOCK columns, which go to the devices in turn; each device has its blocks one behind
 * the other, by columns.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_CUSOLVER_MG_H
#define GRAM_CUSOLVER_MG_H
#include "cusolver.h"
#include "eigh/eigh_multi.h"

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

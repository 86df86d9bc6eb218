/*
 * cuda_eigh_multi.c - one eigenproblem on several devices: blocks of columns out, cusolverMg, back
 *
 * The lower triangle goes, scaled to below 1 by a power of two, in blocks of columns to the devices
 * in turn; cusolverMg overwrites them with the vectors, which go home the same way.  What lies on a
 * device of the group is read and written by a kernel there, beside its panel of one block; what
 * lies on the CPU by the front, through a panel there.  Everything waits.
 *
 * Vectors are computed where values alone are wanted too: cusolverMg takes longer without them
 * (n = 20,000 in f32 on two H200: 11.7 s, with them 7.5).
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda/cusolver.h"
#include "cuda_eigh.h"
#include "linalg/cuda_solve.h"
#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

enum {
    ALIGNMENT = 512, /* of the pieces of the scratch */
    SCAN_ROWS = 32,  /* of a matrix that a block of eigh_scan takes at least */
    TILES_A_BLOCK = 4
};

/* What each device has: blocks of columns, cusolverMg's workspace, a panel, and what eigh_scan
 * found. */
struct sizes {
    int64_t blocks, each; /* in all; on a device at most */
    int64_t parts;        /* of eigh_scan */
    int64_t work;         /* elements that cusolverMg wants */
    size_t block_bytes;
};

struct device_scratch {
    char *blocks, *work, *panel, *largest;
};

/* A call under way. */
struct state {
    const struct gram_eigh_multi *m;
    struct cuda_multi *multi;
    struct sizes size;
    struct device_scratch at[GRAM_MULTI_DEVICES];
};

/* What failed on a context is told by the first. */
static gram_status on(const struct gram_eigh_multi *m, int i, gram_status status)
{
    if (status != GRAM_OK && i > 0)
        memcpy(m->contexts[0]->message, m->contexts[i]->message, sizeof m->contexts[0]->message);
    return status;
}

static size_t size_of(const struct gram_eigh_multi *m)
{
    return gram_dtype_size(m->dtype);
}

static int type_of(const struct gram_eigh_multi *m)
{
    return m->dtype == GRAM_F64 ? CUSOLVER_F64 : CUSOLVER_F32;
}

/* ---- Scratch --------------------------------------------------------------------------------- */

static gram_status make_matrix(const struct gram_eigh_multi *m, const struct cuda_multi *multi,
                               void **matrix)
{
    int status = multi->call->create_matrix(matrix, m->n, m->n, m->n, CUSOLVER_MG_BLOCK, type_of(m),
                                            multi->grid);

    return gram_cuda_solver_check(m->contexts[0], status, "cusolverMgCreateMatrixDesc");
}

/* What cusolverMg wants of each device.  It is asked with no matrix: it reads none. */
static gram_status work_size(const struct gram_eigh_multi *m, const struct cuda_multi *multi,
                             int64_t *work)
{
    const struct cuda_device *device = m->contexts[0]->device;
    void *none[GRAM_MULTI_DEVICES] = {NULL}, *matrix;
    double w = 0;
    int status;

    TRY(gram_cuda_check(m->contexts[0], device->driver,
                        device->driver->context_push(device->context), "cuCtxPushCurrent"));
    status = make_matrix(m, multi, &matrix) == GRAM_OK ? CUSOLVER_SUCCESS : CUSOLVER_ALLOC_FAILED;
    if (status == CUSOLVER_SUCCESS) {
        status = multi->call->syevd_size(multi->handle, CUSOLVER_VECTORS, CUSOLVER_LOWER, (int)m->n,
                                         none, 1, 1, matrix, &w, type_of(m), type_of(m), work);
        (void)multi->call->destroy_matrix(matrix);
    }
    gram_cuda_leave(device, true);
    return gram_cuda_solver_check(m->contexts[0], status, "cusolverMgSyevd_bufferSize");
}

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static gram_status measure(const struct gram_eigh_multi *m, const struct cuda_multi *multi,
                           struct sizes *at)
{
    size_t n = (size_t)m->n;

    *at = (struct sizes){.blocks = gram_ceil_div(m->n, CUSOLVER_MG_BLOCK)};
    if (m->n > INT_MAX || n > SIZE_MAX / 64 / (n + CUSOLVER_MG_BLOCK))
        return gram_fail(m->contexts[0], GRAM_OUT_OF_MEMORY,
                         "a has %zu rows, which is more than cusolverMg can count", n);
    at->each = gram_ceil_div(at->blocks, m->count);
    at->parts = gram_least(gram_ceil_div(m->n, SCAN_ROWS), EIGH_PARTS);
    at->block_bytes = n * CUSOLVER_MG_BLOCK * size_of(m);
    return work_size(m, multi, &at->work);
}

/* The scratch of one device, whose pieces cusolverMg wants aligned to more than 64 bytes. */
static gram_status open_device(const struct gram_eigh_multi *m, const struct sizes *size,
                               gram_context *g, struct device_scratch *at)
{
    struct gram_layout l = {0};

    gram_take(&l, &at->blocks, aligned((size_t)size->each * size->block_bytes));
    gram_take(&l, &at->work, aligned((size_t)size->work * size_of(m)));
    gram_take(&l, &at->panel, aligned(size->block_bytes));
    gram_take(&l, &at->largest, aligned((size_t)size->parts * size_of(m)));
    return gram_layout_open(g, &l);
}

/* Opens the scratch of every context.  It stays in place until the vectors have been stored. */
static gram_status prepare(const struct gram_eigh_multi *m, struct state *s)
{
    *s = (struct state){.m = m};
    TRY(gram_cuda_multi(m->contexts, m->count, &s->multi));
    TRY(measure(m, s->multi, &s->size));
    for (int i = 0; i < m->count; i++)
        TRY(on(m, i, open_device(m, &s->size, m->contexts[i], &s->at[i])));
    return GRAM_OK;
}

gram_status cuda_eigh_multi_workspace(const struct gram_eigh_multi *m, size_t *device_bytes,
                                      size_t *panel_bytes)
{
    struct device_scratch none;
    struct cuda_multi *multi;
    struct sizes size;

    TRY(gram_cuda_multi(m->contexts, m->count, &multi));
    TRY(measure(m, multi, &size));
    for (int i = 0; i < m->count; i++) {
        gram_context *g = m->contexts[i];
        TRY(on(m, i, gram_measure(g, &device_bytes[i], open_device(m, &size, g, &none))));
    }
    *panel_bytes = size.block_bytes;
    return GRAM_OK;
}

/* ---- Pieces of work -------------------------------------------------------------------------- */

static gram_status synchronize(const struct gram_eigh_multi *m, int i)
{
    gram_context *g = m->contexts[i];
    const struct cuda_device *device = g->device;
    bool entered = gram_cuda_enter(device);
    CUresult result = device->driver->stream_synchronize(device->stream);

    gram_cuda_leave(device, entered);
    return on(m, i, gram_cuda_check(g, device->driver, result, "cuStreamSynchronize"));
}

static gram_status copy(const struct gram_eigh_multi *m, int i, void *to, const void *from,
                        size_t bytes)
{
    return on(m, i, cuda_memory_copy(m->contexts[i], to, from, bytes));
}

static gram_status launch(const struct gram_eigh_multi *m, int i, int kernel, int64_t blocks,
                          void *params)
{
    gram_context *g = m->contexts[i];
    bool entered = gram_cuda_enter(g->device);
    gram_status status = cuda_eigh_launch(g, kernel, m->dtype, blocks, 1, params);

    gram_cuda_leave(g->device, entered);
    return on(m, i, status);
}

static gram_status move_panel(const struct gram_eigh_multi *m, int i, struct eigh_panel_params *p)
{
    int64_t tiles = gram_ceil_div(p->rows, EIGH_TILE) * gram_ceil_div(p->cols, EIGH_TILE);

    return launch(m, i, EIGH_PANEL, gram_ceil_div(tiles, TILES_A_BLOCK), p);
}

/* Where a view's matrix of an item begins. */
static char *item_at(const struct gram_eigh_multi *m, const struct gram_view *v, int64_t item)
{
    int64_t offset = 0;

    for (int d = m->batch.ndim - 1; d >= 0; d--) {
        offset += item % m->batch.shape[d] * v->batch_stride[d];
        item /= m->batch.shape[d];
    }
    return v->data + offset * (int64_t)gram_dtype_size(v->dtype);
}

/* The device of a block of columns, and where it is there. */
static int home_of(const struct state *s, int64_t block, char **at)
{
    int d = (int)(block % s->m->count);

    *at = s->at[d].blocks + (size_t)(block / s->m->count) * s->size.block_bytes;
    return d;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* The largest magnitude of an item on a device. */
static gram_status scan(const struct state *s, int64_t item, double *largest)
{
    const struct gram_eigh_multi *m = s->m;
    const int i = m->a_on;
    struct gram_view a = m->a;
    union {
        float f32[EIGH_PARTS];
        double f64[EIGH_PARTS];
    } found;
    struct eigh_chunk_params p = {.items = 1, .largest = s->at[i].largest, .parts = s->size.parts};

    a.data = item_at(m, &m->a, item);
    memset(a.batch_stride, 0, sizeof a.batch_stride);
    p.call = (struct eigh_call){.items = 1, .a = cuda_given_view(&a, true), .n = m->n};
    TRY(launch(m, i, EIGH_SCAN, s->size.parts, &p));
    TRY(copy(m, i, &found, p.largest, (size_t)s->size.parts * size_of(m)));
    TRY(synchronize(m, i));
    *largest = 0;
    for (int64_t k = 0; k < s->size.parts; k++) {
        double part = m->dtype == GRAM_F64 ? found.f64[k] : (double)found.f32[k];
        if (isnan(part) || part > *largest)
            *largest = part;
        if (isnan(part))
            break;
    }
    return GRAM_OK;
}

/* One block of columns to where it belongs. */
static gram_status send(const struct state *s, int64_t item, int64_t block)
{
    const struct gram_eigh_multi *m = s->m;
    int64_t first = block * CUSOLVER_MG_BLOCK, cols = gram_least(CUSOLVER_MG_BLOCK, m->n - first);
    size_t size = size_of(m), bytes = (size_t)(cols * m->n) * size;
    char *to, *panel;
    int d = home_of(s, block, &to), i = m->a_on;

    if (i < 0) {
        m->host->gather(m, item, first, cols, m->panel);
        TRY(copy(m, d, to, m->panel, bytes));
        return synchronize(m, d);
    }
    panel = d == i ? to : s->at[i].panel;
    struct eigh_panel_params p = {
        .to = panel + (size_t)first * size,
        .from =
            item_at(m, &m->a, item) + first * (m->a.row_stride + m->a.col_stride) * (int64_t)size,
        .to_row = 1,
        .to_col = m->n,
        .from_row = m->a.row_stride,
        .from_col = m->a.col_stride,
        .rows = m->n - first,
        .cols = cols,
        .lower = 1,
        .exponent = m->exponent,
    };
    TRY(move_panel(m, i, &p));
    return d == i ? GRAM_OK : copy(m, i, to, panel, bytes);
}

static gram_status wait_for_all(const struct gram_eigh_multi *m)
{
    for (int i = 0; i < m->count; i++) {
        const struct cuda_device *device = m->contexts[i]->device;
        bool entered = gram_cuda_enter(device);
        CUresult result = device->driver->context_synchronize();
        gram_cuda_leave(device, entered);
        TRY(on(m, i, gram_cuda_check(m->contexts[i], device->driver, result, "cuCtxSynchronize")));
    }
    return GRAM_OK;
}

/* cusolverMg works on streams of its own: everything that was queued on any device is done before
 * it begins, and it is done before anybody reads what it left. */
static gram_status decompose(const struct state *s, int *info)
{
    const struct gram_eigh_multi *m = s->m;
    const struct cuda_device *device = m->contexts[0]->device;
    void *a[GRAM_MULTI_DEVICES], *work[GRAM_MULTI_DEVICES], *matrix;
    int status = CUSOLVER_ALLOC_FAILED;

    for (int i = 0; i < m->count; i++) {
        a[i] = s->at[i].blocks;
        work[i] = s->at[i].work;
    }
    TRY(wait_for_all(m));
    TRY(gram_cuda_check(m->contexts[0], device->driver,
                        device->driver->context_push(device->context), "cuCtxPushCurrent"));
    if (make_matrix(m, s->multi, &matrix) == GRAM_OK) {
        status = s->multi->call->syevd(s->multi->handle, CUSOLVER_VECTORS, CUSOLVER_LOWER,
                                       (int)m->n, a, 1, 1, matrix, m->w, type_of(m), type_of(m),
                                       work, s->size.work, info);
        (void)s->multi->call->destroy_matrix(matrix);
    }
    gram_cuda_leave(device, true);
    TRY(gram_cuda_solver_check(m->contexts[0], status, "cusolverMgSyevd"));
    return wait_for_all(m);
}

gram_status cuda_eigh_multi_solve(struct gram_eigh_multi *m, int64_t item, int *outcome)
{
    struct state s;
    double largest;
    int info = 0;

    TRY(prepare(m, &s));
    if (m->a_on < 0)
        largest = m->host->largest(m, item);
    else
        TRY(scan(&s, item, &largest));
    *outcome = EIGH_INFO_NOT_FINITE;
    if (!isfinite(largest))
        return GRAM_OK;
    m->exponent = 0;
    (void)frexp(largest, &m->exponent);
    for (int64_t block = 0; block < s.size.blocks; block++)
        TRY(send(&s, item, block));
    TRY(decompose(&s, &info));
    if (info < 0)
        return gram_fail(m->contexts[0], GRAM_DEVICE_FAILED,
                         "cusolverMgSyevd did not accept its argument %d", -info);
    *outcome = info ? EIGH_INFO_NOT_CONVERGED : EIGH_INFO_DONE;
    return GRAM_OK;
}

/* ---- Vectors --------------------------------------------------------------------------------- */

/* `cols` columns of the caller's vectors from a device, or NaN where `from` is NULL. */
static gram_status store(const struct state *s, int64_t item, int64_t first, int64_t cols, int d,
                         const char *from)
{
    const struct gram_eigh_multi *m = s->m;
    size_t size = size_of(m), bytes = (size_t)(cols * m->n) * size;
    const int i = m->vectors_on;
    char *panel = i < 0 ? m->panel : s->at[i].panel;

    if (i < 0) {
        if (!from)
            memset(panel, 0xFF, bytes);
        else {
            TRY(copy(m, d, panel, from, bytes));
            TRY(synchronize(m, d));
        }
        m->host->scatter(m, item, first, cols, panel);
        return GRAM_OK;
    }
    if (!from)
        TRY(on(m, i, cuda_memory_set_bytes(m->contexts[i], panel, 0xFF, bytes)));
    else if (d != i)
        TRY(copy(m, i, panel, from, bytes));
    struct eigh_panel_params p = {
        .to = item_at(m, &m->vectors, item) + first * m->vectors.col_stride * (int64_t)size,
        .from = from && d == i ? from : panel,
        .to_row = m->vectors.row_stride,
        .to_col = m->vectors.col_stride,
        .from_row = 1,
        .from_col = m->n,
        .rows = m->n,
        .cols = cols,
    };
    return move_panel(m, i, &p);
}

gram_status cuda_eigh_multi_store(const struct gram_eigh_multi *m, int64_t item, int64_t first,
                                  int64_t stored)
{
    struct state s;

    TRY(prepare(m, &s)); /* the same scratch as before */
    for (int64_t done = 0, cols; done < stored; done += cols) {
        int64_t column = first + done, into = column % CUSOLVER_MG_BLOCK;
        char *at;
        int d = home_of(&s, column / CUSOLVER_MG_BLOCK, &at);
        cols = gram_least(CUSOLVER_MG_BLOCK - into, stored - done);
        TRY(store(&s, item, done, cols, d, at + (size_t)(into * m->n) * size_of(m)));
    }
    for (int64_t done = stored, cols; done < m->vectors.cols; done += cols) {
        cols = gram_least(CUSOLVER_MG_BLOCK, m->vectors.cols - done);
        TRY(store(&s, item, done, cols, 0, NULL));
    }
    return m->vectors_on < 0 ? GRAM_OK : synchronize(m, m->vectors_on);
}

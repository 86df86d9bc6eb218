/*
 * cuda_kron_solve.c - gram_kron_solve on the device: operations of the backend, one after the other
 *
 * With eigenvectors, F_i = V_i diag(w_i) V_i^T, there are a product with the V_i, a division, and a
 * product with the V_i^T.  By LU and Cholesky, the dimension of the last factor lies as columns
 * without gaps, so that one solve serves all other indices, and a transposition brings the next
 * dimension to that place; small factors need no transpositions (cuda_kron_solve_small.c).  Where
 * no factor changes from item to item the rows of all items are one matrix.
 *
 * Nothing waits: info alone says which items have failed.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kron_solve.h"
#include "eigh/cuda_eigh.h"
#include "kron_vjp_params.h"

/* ---- The parts ------------------------------------------------------------------------------ */

static struct gram_view vectors_of(const struct cuda_kron_solve_job *job, int i)
{
    const struct cuda_kron_factor *f = &job->f.factor[i];

    return cuda_kron_dense(cuda_kron_at(&job->f, f->matrix_at, f->view->data), job->op->b.dtype,
                           &f->own, f->view->rows, f->view->rows);
}

static struct gram_view values_of(const struct cuda_kron_solve_job *job, int i)
{
    const struct cuda_kron_factor *f = &job->f.factor[i];

    return cuda_kron_dense(cuda_kron_at(&job->f, f->values_at, f->view->data), job->op->b.dtype,
                           &f->own, 1, f->view->rows);
}

/* The eigenproblem of a factor.  Single matrices go to XsyevBatched too, since it does not wait. */
static struct gram_eigh_op eigenproblem(const struct cuda_kron_solve_job *job, int i)
{
    const struct cuda_kron_factor *f = &job->f.factor[i];

    return (struct gram_eigh_op){.batch = f->own,
                                 .a = *f->view,
                                 .values = values_of(job, i),
                                 .vectors = vectors_of(job, i),
                                 .info = cuda_kron_code(&job->f, i),
                                 .has_vectors = true,
                                 .has_info = true,
                                 .uplo = job->op->uplo,
                                 .count = f->view->rows,
                                 .driver = f->view->rows > EIGH_LANES ? GRAM_EIGH_DRIVER_BATCHED
                                                                      : GRAM_EIGH_DRIVER_AUTO};
}

/* The product that turns b into coefficients of the eigenvectors, or with back these into x. */
static struct gram_kron_matmul_op product(const struct cuda_kron_solve_job *job, bool back)
{
    const struct gram_kron_solve_op *op = job->op;
    struct gram_view rows = cuda_kron_dense(cuda_kron_at(&job->f, job->rows_at[0], op->b.data),
                                            op->b.dtype, &op->batch, op->b.rows, op->b.cols);
    struct gram_kron_matmul_op p = {.batch = op->batch,
                                    .x = back ? rows : op->b,
                                    .y = back ? op->x : rows,
                                    .count = op->count,
                                    .alpha.value = 1};

    for (int i = 0; i < op->count; i++) {
        struct gram_view v = vectors_of(job, i);
        if (back) {
            int64_t stride = v.row_stride;
            v.row_stride = v.col_stride, v.col_stride = stride;
        }
        p.factor[i] = v;
    }
    return p;
}

/* The system F^T z = b, whose right-hand sides are columns: one for each index of b but the
 * factor's. */
static struct gram_solve_op system_of(const struct cuda_kron_solve_job *job, int i, size_t at)
{
    const struct gram_kron_solve_op *op = job->op;
    int64_t n = op->factor[i].rows, s = job->group_rows * (job->f.order / n);
    struct gram_batch one = {.count = 1};
    struct gram_solve_op p = {.batch = job->groups > 1 ? op->batch : one,
                              .a = op->factor[i],
                              .info = cuda_kron_code(&job->f, i),
                              .has_info = true,
                              .x_is_b = true,
                              .uplo = op->uplo};

    if (op->method == GRAM_KRON_LU) {
        p.a.row_stride = op->factor[i].col_stride;
        p.a.col_stride = op->factor[i].row_stride;
    }
    p.x = cuda_kron_dense(cuda_kron_at(&job->f, at, op->b.data), op->b.dtype, &p.batch, s, n);
    p.x.rows = n, p.x.cols = s;
    p.x.row_stride = 1, p.x.col_stride = n;
    p.b = p.x;
    return p;
}

static gram_status solve(gram_context *g, const struct cuda_kron_solve_job *job,
                         const struct gram_solve_op *system)
{
    return job->op->method == GRAM_KRON_LU ? cuda_solve_lu(g, system)
                                           : cuda_solve_cholesky(g, system);
}

/* ---- Scratch -------------------------------------------------------------------------------- */

static gram_status inner_bytes(gram_context *g, const struct cuda_kron_solve_job *job, int i,
                               size_t *bytes)
{
    struct gram_eigh_op eigen;
    struct gram_solve_op system;

    if (job->eigen) {
        eigen = eigenproblem(job, i);
        return cuda_eigh_workspace(g, &eigen, bytes);
    }
    system = system_of(job, i, 0);
    return job->op->method == GRAM_KRON_LU ? cuda_solve_lu_workspace(g, &system, bytes)
                                           : cuda_solve_cholesky_workspace(g, &system, bytes);
}

static gram_status lay_out(gram_context *g, struct cuda_kron_solve_job *job)
{
    const struct gram_kron_solve_op *op = job->op;
    size_t size = gram_dtype_size(op->b.dtype), bytes;
    double most = (double)op->b.rows * (double)op->b.cols * (double)op->batch.count * 8;

    for (int i = 0; i < op->count; i++)
        most +=
            (double)op->factor[i].rows * (double)op->factor[i].rows * (double)op->batch.count * 8;
    if (most > 0x1p58)
        return gram_fail(g, GRAM_OUT_OF_MEMORY,
                         "b or the factors are too large: scratch overflows");
    if (job->small) {
        cuda_kron_solve_lay_out_small(job);
        return GRAM_OK;
    }
    for (int i = 0; job->eigen && i < op->count; i++) {
        struct cuda_kron_factor *f = &job->f.factor[i];
        size_t n = (size_t)f->view->rows, own = (size_t)f->own.count;
        f->matrix_at = job->f.bytes;
        f->values_at = f->matrix_at + gram_round64(own * n * n * size);
        job->f.bytes = f->values_at + gram_round64(own * n * size);
    }
    job->singular_at = job->f.bytes;
    if (job->eigen)
        job->f.bytes += gram_round64((size_t)op->batch.count * sizeof(int));
    for (int i = 0; i < (job->eigen ? 1 : 2); i++) {
        job->rows_at[i] = job->f.bytes;
        job->f.bytes += gram_round64((size_t)(op->b.rows * op->b.cols * op->batch.count) * size);
    }
    job->f.inner_at = job->f.bytes;
    for (int i = 0; i < op->count; i++) {
        TRY(inner_bytes(g, job, i, &bytes));
        job->f.inner_bytes = gram_most_bytes(job->f.inner_bytes, bytes);
    }
    for (int back = 0; job->eigen && back < 2; back++) {
        const struct gram_kron_matmul_op p = product(job, back);
        TRY(cuda_kron_matmul_workspace(g, &p, &bytes));
        job->f.inner_bytes = gram_most_bytes(job->f.inner_bytes, bytes);
    }
    job->f.bytes += gram_round64(job->f.inner_bytes);
    return GRAM_OK;
}

static gram_status make_job(gram_context *g, const struct gram_kron_solve_op *op,
                            struct cuda_kron_solve_job *job)
{
    bool shared = true;

    *job = (struct cuda_kron_solve_job){.op = op,
                                        .eigen = op->method == GRAM_KRON_EIGEN,
                                        .small = cuda_kron_solve_is_small(g->device, op)};
    cuda_kron_factors_open(&job->f, &op->batch, op->factor, op->count, op->b.cols);
    for (int i = 0; i < op->count; i++)
        shared = shared && cuda_kron_is_shared(&op->batch, &op->factor[i]);
    job->groups = shared ? 1 : op->batch.count;
    job->group_rows = shared ? op->b.rows * op->batch.count : op->b.rows;
    return lay_out(g, job);
}

/* ---- The work ------------------------------------------------------------------------------- */

static void fill_params(const struct cuda_kron_solve_job *job, struct kron_solve_params *p)
{
    const struct gram_kron_solve_op *op = job->op;

    cuda_kron_factors_params(&job->f, p);
    for (int i = 0; job->eigen && i < op->count; i++) {
        const struct gram_view values = values_of(job, i);
        p->values[i] = cuda_kron_side(&values);
    }
    p->shift = cuda_kron_number(&op->shift);
    p->rows = job->f.memory + job->rows_at[0];
    p->groups = job->groups, p->group_rows = job->group_rows, p->row_count = op->b.rows;
    p->singular = job->eigen ? (int *)(void *)(job->f.memory + job->singular_at) : NULL;
    p->x = cuda_kron_side(&op->x);
    if (op->has_info)
        p->info = cuda_kron_side(&op->info);
}

static gram_status run_eigen(gram_context *g, const struct cuda_kron_solve_job *job,
                             struct kron_solve_params *p)
{
    const struct gram_kron_solve_op *op = job->op;
    const struct cuda_device *device = g->device;
    const struct gram_kron_matmul_op there = product(job, false), back = product(job, true);

    TRY(gram_cuda_check(g, device->driver,
                        device->driver->memory_set((CUdeviceptr)(uintptr_t)p->singular, 0,
                                                   (size_t)op->batch.count * sizeof(int),
                                                   device->stream),
                        "cuMemsetD8Async"));
    for (int i = 0; i < op->count; i++) {
        const struct gram_eigh_op eigen = eigenproblem(job, i);
        TRY(cuda_eigh(g, &eigen));
    }
    TRY(cuda_kron_matmul(g, &there));
    TRY(gram_cuda_launch_plain(g, CUDA_VARIANT_KRON_SOLVE_DIVIDE, op->b.dtype,
                               gram_ceil_div(p->order, KRON_SOLVE_THREADS) *
                                   gram_ceil_div(p->row_count, KRON_SOLVE_ROWS) * p->items,
                               KRON_SOLVE_THREADS, p));
    return cuda_kron_matmul(g, &back);
}

/* Transposes [group][row][column] to [group][column][row]. */
static gram_status transpose(gram_context *g, const struct cuda_kron_solve_job *job, int64_t rows,
                             int64_t cols, const size_t at[2])
{
    struct kron_vjp_move_params p = {
        .ndim = 1,
        .shape = {                  job->groups},
        .side = { .data = job->f.memory + at[0],.row_stride = cols,
                  .col_stride = 1,
                  .batch_stride = {rows * cols}},
        .item_rows = rows,
        .cols = cols,
        .groups = job->groups,
        .row_count = rows,
        .count = rows,
        .by_columns = true,
        .buffer = job->f.memory + at[1],
    };

    return gram_cuda_launch_plain(g, CUDA_VARIANT_KRON_VJP_LOAD, job->op->b.dtype,
                                  gram_ceil_div(rows, KRON_VJP_TILE) *
                                      gram_ceil_div(cols, KRON_VJP_TILE) * job->groups,
                                  KRON_VJP_THREADS, &p);
}

gram_status cuda_kron_solve_load(gram_context *g, const struct cuda_kron_solve_job *job,
                                 bool by_columns)
{
    const struct gram_kron_solve_op *op = job->op;
    struct kron_vjp_move_params in = {.side = cuda_kron_side(&op->b),
                                      .item_rows = op->b.rows,
                                      .cols = op->b.cols,
                                      .groups = job->groups,
                                      .row_count = job->group_rows,
                                      .count = job->group_rows,
                                      .by_columns = by_columns,
                                      .buffer = job->f.memory + job->rows_at[0]};

    cuda_kron_put_batch(&op->batch, &in.ndim, in.shape);
    return gram_cuda_launch_plain(g, CUDA_VARIANT_KRON_VJP_LOAD, op->b.dtype,
                                  gram_ceil_div(in.count, KRON_VJP_TILE) *
                                      gram_ceil_div(in.cols, KRON_VJP_TILE) * in.groups,
                                  KRON_VJP_THREADS, &in);
}

gram_status cuda_kron_solve_store(gram_context *g, const struct cuda_kron_solve_job *job,
                                  struct kron_solve_params *p)
{
    return gram_cuda_launch_plain(g, CUDA_VARIANT_KRON_SOLVE_STORE, job->op->b.dtype,
                                  gram_ceil_div(p->group_rows, KRON_SOLVE_TILE) *
                                      gram_ceil_div(p->order, KRON_SOLVE_TILE) * p->groups,
                                  KRON_SOLVE_THREADS, p);
}

static gram_status run_chain(gram_context *g, const struct cuda_kron_solve_job *job,
                             struct kron_solve_params *p)
{
    size_t at[2] = {job->rows_at[0], job->rows_at[1]};

    TRY(cuda_kron_solve_load(g, job, false));
    for (int i = job->op->count - 1; i >= 0; i--) {
        const struct gram_solve_op system = system_of(job, i, at[0]);
        size_t kept = at[0];
        TRY(solve(g, job, &system));
        TRY(transpose(g, job, system.x.cols, system.x.rows, at));
        at[0] = at[1], at[1] = kept;
    }
    p->rows = job->f.memory + at[0];
    return cuda_kron_solve_store(g, job, p);
}

static gram_status run_parts(gram_context *g, const struct cuda_kron_solve_job *job,
                             struct kron_solve_params *p)
{
    struct cuda_borrowed before;
    gram_status status;

    gram_cuda_scratch_begin(g, job->f.memory + job->f.inner_at, job->f.inner_bytes, &before);
    status = job->eigen ? run_eigen(g, job, p) : run_chain(g, job, p);
    gram_cuda_scratch_end(g, &before);
    return status;
}

static gram_status run(gram_context *g, struct cuda_kron_solve_job *job)
{
    const struct gram_kron_solve_op *op = job->op;
    struct kron_solve_params p;
    void *memory;

    TRY(gram_cuda_scratch(g, job->f.bytes, &memory));
    job->f.memory = memory;
    fill_params(job, &p);
    p.triangle = op->method == GRAM_KRON_LU ? 0 : op->uplo == GRAM_LOWER ? 1 : 2;
    if (job->small) {
        TRY(cuda_kron_solve_small(g, job, &p));
    } else {
        TRY(cuda_kron_scan(g, &job->f, (int)p.triangle));
        TRY(run_parts(g, job, &p));
    }
    return gram_cuda_launch_plain(g, CUDA_VARIANT_KRON_SOLVE_FINISH, op->b.dtype,
                                  gram_ceil_div(p.row_count * p.order, KRON_SOLVE_PART) * p.items,
                                  KRON_SOLVE_THREADS, &p);
}

/* ---- Entry points --------------------------------------------------------------------------- */

static bool is_empty(const struct gram_kron_solve_op *op)
{
    return op->batch.count == 0 || op->b.rows == 0 || op->b.cols == 0;
}

static gram_status check_pointers(gram_context *g, const struct gram_kron_solve_op *op)
{
    for (int i = 0; i < op->count; i++)
        TRY(gram_cuda_check_pointer(g, "factors", &op->factor[i]));
    TRY(gram_cuda_check_pointer(g, "b", &op->b));
    TRY(gram_cuda_check_pointer(g, "x", &op->x));
    TRY(gram_cuda_check_pointer(g, "options.shift", &op->shift.tensor));
    return op->has_info ? gram_cuda_check_pointer(g, "info", &op->info) : GRAM_OK;
}

/* Without unknowns nothing is factorised, and info is 0. */
static gram_status clear_info(gram_context *g, const struct gram_kron_solve_op *op)
{
    struct kron_solve_params p = {.items = op->batch.count, .row_count = 1, .order = 1};

    if (!op->has_info || op->batch.count == 0)
        return GRAM_OK;
    cuda_kron_put_batch(&op->batch, &p.ndim, p.shape);
    p.info = cuda_kron_side(&op->info);
    return gram_cuda_launch_plain(g, CUDA_VARIANT_KRON_SOLVE_FINISH, op->b.dtype, p.items,
                                  KRON_SOLVE_THREADS, &p);
}

gram_status cuda_kron_solve(gram_context *g, const struct gram_kron_solve_op *op)
{
    struct cuda_kron_solve_job job;
    gram_status status;
    bool entered;

    TRY(check_pointers(g, op));
    if (!is_empty(op))
        TRY(make_job(g, op, &job));
    entered = gram_cuda_enter(g->device);
    status = is_empty(op) ? clear_info(g, op) : run(g, &job);
    gram_cuda_leave(g->device, entered);
    return status;
}

gram_status cuda_kron_solve_workspace(gram_context *g, const struct gram_kron_solve_op *op,
                                      size_t *bytes)
{
    struct cuda_kron_solve_job job;

    *bytes = 0;
    if (is_empty(op))
        return GRAM_OK;
    TRY(make_job(g, op, &job));
    *bytes = job.f.bytes;
    return GRAM_OK;
}

/*
 * cuda_kron_solve_small.c - gram_kron_solve by LU and Cholesky of small factors on the device
 *
 * One launch factorises all factors.  Then each factor has one pass over the unknowns where they
 * lie: the first from b to x, the others within x.  Only where the elements of b and x are not side
 * by side, or not in the same order, do they go through scratch, column by column.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_kron_solve.h"
#include <stdio.h>

enum {
    WARP = 32,
    WIDE = 32,   /* in f64 a thread has two right-hand sides up to this order */
    BLOCKS = 16, /* most blocks for a processor: each reads the LU once */
};

/* How the unknowns lie in memory, as [group][unit][.][after] for the last factor. */
struct layout {
    bool direct;          /* b and x are read and written where they are */
    int64_t units, after; /* indices of a group before and after all factors */
};

static int rights_of(gram_dtype dtype, int64_t n)
{
    return dtype == GRAM_F32 || n <= WIDE ? 2 : 1;
}

/* The shared memory of a block.  Units are not cut, so that a block may begin in one more of
 * them. */
static size_t shared_of(gram_dtype dtype, int64_t n, bool staged)
{
    const int64_t size = (int64_t)gram_dtype_size(dtype);
    const int64_t side = (int64_t)KRON_SOLVE_PASS_THREADS * rights_of(dtype, n);

    return (size_t)(KRON_SOLVE_FACTOR_BYTES(n, size) +
                    (staged ? (side + WARP) * KRON_SOLVE_ODD(n) : side * n) * size);
}

bool cuda_kron_solve_is_small(const struct cuda_device *device, const struct gram_kron_solve_op *op)
{
    if (op->method == GRAM_KRON_EIGEN)
        return false;
    for (int i = 0; i < op->count; i++)
        if (op->factor[i].rows > KRON_SOLVE_SMALL ||
            (int64_t)shared_of(op->b.dtype, op->factor[i].rows, true) >
                cuda_kron_shared(device->arch))
            return false;
    return true;
}

static struct gram_view turned(const struct gram_view *v)
{
    struct gram_view t = *v;

    t.rows = v->cols, t.cols = v->rows;
    t.row_stride = v->col_stride, t.col_stride = v->row_stride;
    return t;
}

static struct layout layout_of(const struct cuda_kron_solve_job *job)
{
    const struct gram_kron_solve_op *op = job->op;
    const struct gram_view b = turned(&op->b), x = turned(&op->x);

    if (cuda_kron_is_dense(&op->batch, &op->b) && cuda_kron_is_dense(&op->batch, &op->x))
        return (struct layout){.direct = true, .units = job->group_rows, .after = 1};
    if (cuda_kron_is_dense(&op->batch, &b) && cuda_kron_is_dense(&op->batch, &x))
        return (struct layout){
            .direct = true, .units = job->group_rows / op->b.rows, .after = op->b.rows};
    return (struct layout){.units = 1, .after = job->group_rows};
}

void cuda_kron_solve_lay_out_small(struct cuda_kron_solve_job *job)
{
    const struct gram_kron_solve_op *op = job->op;
    const size_t size = gram_dtype_size(op->b.dtype);

    for (int i = 0; i < op->count; i++) {
        struct cuda_kron_factor *f = &job->f.factor[i];
        const size_t n = (size_t)f->view->rows, own = (size_t)f->own.count;
        f->matrix_at = job->f.bytes;
        f->values_at = f->matrix_at + gram_round64(own * n * KRON_SOLVE_STEP(n) * size);
        job->f.bytes = f->values_at + gram_round64(own * n * sizeof(int));
    }
    job->rows_at[0] = job->f.bytes;
    if (!layout_of(job).direct)
        job->f.bytes += gram_round64((size_t)(op->b.rows * op->b.cols * op->batch.count) * size);
}

/* Where the LU of a factor is, for every item in which it differs; the pivots in the same way. */
static struct kron_side lu_of(const struct cuda_kron_solve_job *job, int i)
{
    const struct cuda_kron_factor *f = &job->f.factor[i];
    const int64_t n = f->view->rows;
    const struct gram_view v = cuda_kron_dense(job->f.memory + f->matrix_at, job->op->b.dtype,
                                               &f->own, n, KRON_SOLVE_STEP(n));

    return cuda_kron_side(&v);
}

static struct kron_side pivots_of(const struct cuda_kron_solve_job *job, int i)
{
    const struct cuda_kron_factor *f = &job->f.factor[i];
    const struct gram_view v =
        cuda_kron_dense(job->f.memory + f->values_at, GRAM_I32, &f->own, 1, f->view->rows);

    return cuda_kron_side(&v);
}

static gram_status factorise(gram_context *g, const struct cuda_kron_solve_job *job,
                             const struct kron_solve_params *p)
{
    struct kron_logdet_params all = {.of = *p};

    for (int i = 0; i < job->op->count; i++)
        all.lu[i] = lu_of(job, i), all.pivots[i] = pivots_of(job, i);
    if (job->groups == 1)
        all.of.items = 1;
    return gram_cuda_launch_plain(g, CUDA_VARIANT_KRON_SOLVE_FACTOR, job->op->b.dtype,
                                  all.of.items * job->op->count, KRON_SOLVE_THREADS, &all);
}

struct jit_request cuda_kron_solve_pass_request(gram_dtype dtype, int n, int64_t after,
                                                char defines[CUDA_KRON_SOLVE_DEFINES])
{
    const bool is_double = dtype == GRAM_F64, staged = after < WARP;
    const int fields[][2] = {
        {is_double, 1},
        {   staged, 1},
        {        n, 8}
    };

    snprintf(defines, CUDA_KRON_SOLVE_DEFINES, "-DREAL=%s -DORDER=%d -DRIGHTS=%d -DSTAGED=%d",
             is_double ? "double" : "float", n, rights_of(dtype, n), staged);
    return (struct jit_request){
        .file = "kron_solve_pass.cu",
        .kernel = "kron_solve_pass",
        .defines = defines,
        .variant = gram_cuda_variant(CUDA_VARIANT_KRON_SOLVE_PASS,
                                     gram_cuda_pack(fields, sizeof fields / sizeof *fields)),
        .shared_bytes = shared_of(dtype, n, staged)};
}

static gram_status pass(gram_context *g, const struct cuda_kron_solve_job *job, int i,
                        const struct kron_solve_pass_params *p)
{
    const gram_dtype dtype = job->op->b.dtype;
    const int64_t n = job->op->factor[i].rows;
    const int64_t side = (int64_t)KRON_SOLVE_PASS_THREADS * rights_of(dtype, n);
    const int64_t tiles = p->after < WARP ? gram_ceil_div(p->units, side / p->after)
                                          : gram_ceil_div(p->units * p->after, side);
    const struct cuda_device *device = g->device;
    char defines[CUDA_KRON_SOLVE_DEFINES];
    const struct jit_request request =
        cuda_kron_solve_pass_request(dtype, (int)n, p->after, defines);
    struct kron_solve_pass_params of = *p;

    of.lu = lu_of(job, i), of.row = pivots_of(job, i);
    if (job->groups > 1)
        cuda_kron_put_batch(&job->op->batch, &of.ndim, of.shape);
    return gram_cuda_launch(g, &request,
                            gram_least(tiles * of.groups, (int64_t)device->processors * BLOCKS),
                            KRON_SOLVE_PASS_THREADS, &of);
}

gram_status cuda_kron_solve_small(gram_context *g, const struct cuda_kron_solve_job *job,
                                  struct kron_solve_params *p)
{
    const struct gram_kron_solve_op *op = job->op;
    const struct layout at = layout_of(job);
    struct kron_solve_pass_params of = {.groups = job->groups, .after = at.after};

    TRY(factorise(g, job, p));
    if (!at.direct)
        TRY(cuda_kron_solve_load(g, job, true));
    of.to = at.direct ? op->x.data : job->f.memory + job->rows_at[0];
    of.from = at.direct ? op->b.data : of.to;
    for (int i = op->count - 1; i >= 0; i--) {
        of.units = at.units * (job->f.order * at.after) / (op->factor[i].rows * of.after);
        TRY(pass(g, job, i, &of));
        of.after *= op->factor[i].rows;
        of.from = of.to;
    }
    return at.direct ? GRAM_OK : cuda_kron_solve_store(g, job, p);
}

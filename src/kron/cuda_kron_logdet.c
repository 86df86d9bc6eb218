/*
 * cuda_kron_logdet.c - gram_kron_logdet on the device: LU of every factor in double
 *
 * A factor is copied to scratch as double and factorised there by the backend's solve, which has no
 * right-hand sides.  One last kernel adds up the logarithms of the diagonals and finds the signs.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda/cuda_move.h"
#include "cuda_kron_solve.h"

static const struct cuda_kernel finish = {"kron_logdet.cu", "kron_logdet_finish"};

/* Its factors are laid out as those of a solve are, so that both share the helpers of
 * cuda_kron_solve.h. */
struct logdet_job {
    const struct gram_kron_number_op *op;
    struct cuda_kron_factors f;
};

/* The LU factorisation of a factor's copy in place, without right-hand sides. */
static struct gram_solve_op system_of(const struct logdet_job *job, int i)
{
    const struct cuda_kron_factor *f = &job->f.factor[i];
    int64_t n = f->view->rows;
    struct gram_solve_op p = {.batch = f->distinct,
                              .info = cuda_kron_code(&job->f, i),
                              .has_info = true,
                              .has_factor = true,
                              .factor_is_a = true,
                              .has_pivots = true,
                              .x_is_b = true};

    p.a = cuda_dense_view(cuda_kron_at(&job->f, f->matrix_at, f->view->data), GRAM_F64,
                          &f->distinct, n, n);
    p.factor = p.a;
    p.pivots = cuda_dense_view(cuda_kron_at(&job->f, f->values_at, f->view->data), GRAM_I32,
                               &f->distinct, 1, n);
    p.x = cuda_dense_view(NULL, GRAM_F64, &f->distinct, n, 0);
    p.x.row_stride = 1, p.x.col_stride = n;
    p.b = p.x;
    return p;
}

/* Lays out the scratch: the codes, a copy of each factor with its pivots, and what the solves
 * take. */
static gram_status make_job(gram_context *g, const struct gram_kron_number_op *op,
                            struct logdet_job *job)
{
    double most = 0;
    size_t bytes;

    *job = (struct logdet_job){.op = op};
    cuda_kron_factors_open(&job->f, &op->batch, op->factor, op->order > 0 ? op->count : 0,
                           op->order);
    for (int i = 0; i < job->f.count; i++) {
        struct cuda_kron_factor *f = &job->f.factor[i];
        size_t n = (size_t)f->view->rows, items = (size_t)f->distinct.count;
        most += (double)n * (double)n * (double)items * 8;
        if (most > 0x1p58)
            return gram_fail(g, GRAM_OUT_OF_MEMORY,
                             "the factors are too large: the size of the scratch memory overflows");
        f->matrix_at = job->f.bytes;
        f->values_at = f->matrix_at + gram_round64(items * n * n * sizeof(double));
        job->f.bytes = f->values_at + gram_round64(items * n * sizeof(int));
    }
    job->f.inner_at = job->f.bytes;
    for (int i = 0; i < job->f.count; i++) {
        const struct gram_solve_op system = system_of(job, i);
        TRY(gram_measure(g, &bytes, cuda_solve_lu(g, &system)));
        job->f.inner_bytes = gram_most_bytes(job->f.inner_bytes, bytes);
    }
    job->f.bytes += gram_round64(job->f.inner_bytes);
    return GRAM_OK;
}

/* Copies factor i to scratch as double, factorises it there, and tells the last kernel where it
 * is. */
static gram_status factorise(gram_context *g, const struct logdet_job *job, int i,
                             struct kron_logdet_params *all)
{
    const struct cuda_kron_factor *f = &job->f.factor[i];
    const struct gram_solve_op system = system_of(job, i);
    struct move_params p = {.count = f->distinct.count,
                            .rows = f->view->rows,
                            .cols = f->view->cols,
                            .to.view = cuda_device_view(&system.a),
                            .from.view = cuda_device_view(f->view),
                            .alpha.value = 1,
                            .widens = true};

    all->lu[i] = cuda_device_view(&system.a);
    all->pivots[i] = cuda_device_view(&system.pivots);
    TRY(cuda_move(g, job->op->out.dtype, &f->distinct, &p));
    return cuda_solve_lu(g, &system);
}

/* Factorises all factors, with the inner scratch lent to the solves. */
static gram_status run_parts(gram_context *g, const struct logdet_job *job,
                             struct kron_logdet_params *p)
{
    struct gram_scratch_before before;
    gram_status status = GRAM_OK;

    gram_scratch_lend(g, job->f.memory + job->f.inner_at, job->f.inner_bytes, &before);
    for (int i = 0; status == GRAM_OK && i < job->f.count; i++)
        status = factorise(g, job, i, p);
    gram_scratch_return(g, &before);
    return status;
}

/* A product without factors is the number 1, which the last kernel writes too. */
static gram_status run(gram_context *g, struct logdet_job *job)
{
    const struct gram_kron_number_op *op = job->op;
    struct kron_logdet_params p = {.out = cuda_device_view(&op->out)};
    struct gram_layout layout = {0};

    if (op->has_sign)
        p.sign = cuda_device_view(&op->sign);
    gram_take(&layout, &job->f.memory, job->f.bytes);
    TRY(gram_layout_open(g, &layout));
    cuda_kron_factors_params(&job->f, &p.of);
    if (job->f.count > 0) {
        TRY(cuda_kron_check_finite(g, &job->f, 0));
        TRY(run_parts(g, job, &p));
    }
    return cuda_launch_plain(g, &finish, op->out.dtype, op->batch.count, KRON_SOLVE_THREADS, &p);
}

gram_status cuda_kron_logdet(gram_context *g, const struct gram_kron_number_op *op)
{
    struct logdet_job job;
    gram_status status;
    bool entered;

    if (op->batch.count == 0)
        return GRAM_OK;
    for (int i = 0; i < op->count; i++)
        if (op->factor[i].rows > 0)
            TRY(gram_cuda_check_pointer(g, "factors", &op->factor[i]));
    TRY(gram_cuda_check_pointer(g, "out", &op->out));
    if (op->has_sign)
        TRY(gram_cuda_check_pointer(g, "sign", &op->sign));
    TRY(make_job(g, op, &job));
    entered = gram_cuda_enter(g->device);
    status = run(g, &job);
    gram_cuda_leave(g->device, entered);
    return status;
}

/*
 * cuda_matrix_power_eigh.c - powers by cuSOLVER's batched eigendecomposition, always in double
 *
 * X = (V f(L)^(1/2)) (V f(L)^(1/2))^T.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_matrix_power.h"

enum {
    VECTORS = 1 /* cusolverEigMode_t */
};

gram_status cuda_power_eigh_bytes(gram_context *g, struct power_job *job)
{
    const struct power_params *p = &job->params;
    const struct cuda_cusolver *call;

    TRY(gram_cuda_solver(g, &job->solver));
    call = job->solver->call;
    if (!call->syev_batched_bytes || !call->syev_batched)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "cuSOLVER has no XsyevBatched (it came with CUDA 12.6.2): choose another "
                         "options.method");
    return gram_cuda_solver_check(
        g,
        call->syev_batched_bytes(job->solver->handle, job->solver->params, VECTORS, CUSOLVER_LOWER,
                                 p->n, CUSOLVER_F64, job->op->a.data, p->ld, CUSOLVER_F64,
                                 job->op->a.data, CUSOLVER_F64, &job->solver_bytes,
                                 &job->host_bytes, job->chunk),
        "cusolverDnXsyevBatched_bufferSize");
}

gram_status cuda_power_eigh(gram_context *g, struct power_job *job)
{
    struct power_params *p = &job->params;
    const struct cuda_solver *s = job->solver;

    TRY(gram_cuda_solver_check(
        g,
        s->call->syev_batched(s->handle, s->params, VECTORS, CUSOLVER_LOWER, p->n, CUSOLVER_F64,
                              job->s.b, p->ld, CUSOLVER_F64, p->values, CUSOLVER_F64,
                              job->scratch + job->solver_at, job->solver_bytes, job->host,
                              job->host_bytes, (int *)p->codes, p->count),
        "cusolverDnXsyevBatched"));
    TRY(cuda_power_items(g, job, CUDA_VARIANT_POWER_VALUES, POWER_THREADS));
    p->to = job->s.b;
    TRY(cuda_power_pass(g, job, CUDA_VARIANT_POWER_COLUMNS));
    return cuda_power_square(g, job, job->s.b, job->s.x);
}

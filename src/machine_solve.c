/*
 * machine_solve.c - the coefficients of one leaf: a factorisation while it is quick, else
 * iterations
 *
 * SPDX-License-Identifier: MIT
 */
#include "blas.h"
#include "machine.h"
#include "machine_cg.h"
#include <math.h>
#include <string.h>
#include <time.h>

enum {
    CHOLESKY_ROWS = 6000 /* up to here n^3 / 3 flops are quicker than the preconditioner's setup */
};

double gram_machine_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

gram_kernel_options gram_machine_kernel(double p, double q, double bandwidth)
{
    return gram_lpq_laplace(p, q, bandwidth);
}

static bool by_cholesky(gram_solver solver, int64_t rows)
{
    return solver == GRAM_SOLVER_CHOLESKY || (solver == GRAM_SOLVER_AUTO && rows <= CHOLESKY_ROWS);
}

size_t gram_machine_solve_bytes(int64_t rows, int64_t outputs, gram_dtype dtype, gram_solver solver)
{
    if (by_cholesky(solver, rows))
        return (size_t)(rows * rows) * gram_dtype_size(dtype);
    return gram_machine_blocks_bytes(rows, dtype) +
           gram_machine_preconditioner_bytes(rows, outputs, dtype) +
           gram_machine_cg_bytes(rows, outputs, dtype);
}

static gram_status solve_dense(gram_context *g, const gram_kernel_options *kernel,
                               const double *ridge, const struct machine_data *z, void *alpha,
                               struct machine_report *report)
{
    size_t bytes = (size_t)(z->rows * z->rows) * gram_dtype_size(z->dtype);
    gram_tensor x = gram_matrix((void *)z->x, z->rows, z->width, z->dtype);
    gram_tensor k = gram_matrix(gram_alloc(g, bytes), z->rows, z->rows, z->dtype);
    gram_tensor a = gram_matrix(alpha, z->rows, z->outputs, z->dtype);
    gram_solve_options options = GRAM_SOLVE_OPTIONS_INIT;
    double start = gram_machine_seconds();
    gram_status status;

    if (!k.data)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes for a kernel matrix",
                         bytes);
    a.stride[0] = 1;
    a.stride[1] = z->rows;
    options.factor = &k;
    memcpy(alpha, z->y, (size_t)(z->rows * z->outputs) * gram_dtype_size(z->dtype));
    status = gram_kernel(g, &x, NULL, kernel, &k);
    for (int64_t i = 0; status == GRAM_OK && i < z->rows; i++)
        if (z->dtype == GRAM_F32)
            ((float *)k.data)[i * (z->rows + 1)] += (float)ridge[i];
        else
            ((double *)k.data)[i * (z->rows + 1)] += ridge[i];
    report->kernel_seconds += gram_machine_seconds() - start;
    start = gram_machine_seconds();
    if (status == GRAM_OK)
        status = gram_solve_cholesky(g, &k, &a, &options, &a, NULL);
    report->solve_seconds += gram_machine_seconds() - start;
    gram_free(g, k.data, bytes);
    return status;
}

static gram_status solve_iterating(gram_context *g, const struct machine_params *params,
                                   const gram_kernel_options *kernel, const double *ridge,
                                   const struct machine_data *z, void *alpha,
                                   struct machine_report *report)
{
    gram_tensor x = gram_matrix((void *)z->x, z->rows, z->width, z->dtype);
    struct machine_preconditioner p = {0};
    struct machine_blocks k = {0};
    struct machine_system system = {.k = &k, .ridge = ridge, .p = &p, .columns = z->outputs};
    struct machine_cg_report cg = {0};
    double start = gram_machine_seconds(), mean = 0;
    gram_status status = gram_machine_blocks_create(g, &x, kernel, &k);

    report->kernel_seconds += gram_machine_seconds() - start;
    start = gram_machine_seconds();
    for (int64_t i = 0; i < z->rows; i++)
        mean += ridge[i] / (double)z->rows;
    if (status == GRAM_OK)
        status =
            gram_machine_preconditioner_create(g, &x, kernel, mean, z->outputs, params->seed, &p);
    memset(alpha, 0, (size_t)(z->rows * z->outputs) * gram_dtype_size(z->dtype));
    if (status == GRAM_OK)
        status = gram_machine_cg(g, &system, params->tolerance, z->y, alpha, &cg);
    report->solve_seconds += gram_machine_seconds() - start;
    report->iterations = cg.iterations > report->iterations ? cg.iterations : report->iterations;
    report->residual = fmax(report->residual, cg.residual);
    gram_machine_preconditioner_destroy(g, &p);
    gram_machine_blocks_destroy(g, &k);
    return status;
}

gram_status gram_machine_solve(gram_context *g, const struct machine_params *params,
                               double bandwidth, const struct machine_data *z, void *alpha,
                               struct machine_report *report)
{
    gram_kernel_options kernel = gram_machine_kernel(params->p, params->q, bandwidth);
    size_t bytes = (size_t)z->rows * sizeof(double);
    double *ridge = gram_alloc(g, bytes);
    gram_status status;

    if (!ridge)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    for (int64_t i = 0; i < z->rows; i++)
        ridge[i] = params->ridge / (z->weights ? z->weights[i] : 1);
    gram_scratch_release(g); /* of the median or of a gradient: the matrix is the peak */
    if (by_cholesky(params->solver, z->rows))
        status = solve_dense(g, &kernel, ridge, z, alpha, report);
    else
        status = solve_iterating(g, params, &kernel, ridge, z, alpha, report);
    gram_free(g, ridge, bytes);
    return status;
}

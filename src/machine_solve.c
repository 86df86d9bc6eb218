/*
 * machine_solve.c - the coefficients of one leaf: a factorisation while it is quick, else
 * iterations
 *
 * SPDX-License-Identifier: MIT
 */
#include "blas.h"
#include "machine.h"
#include "machine_cg.h"
#include "machine_element.h"
#include "machine_place.h"
#include <math.h>
#include <string.h>

enum {
    CHOLESKY_ROWS = 6000 /* up to here n^3 / 3 flops are quicker than the preconditioner's setup */
};

double gram_machine_seconds(void)
{
    return 1e-9 * (double)gram_nanoseconds();
}

gram_kernel_options gram_machine_kernel(double p, double q, double bandwidth)
{
    return gram_lpq_laplace(p, q, bandwidth);
}

/* A GPU factorises 20,000 rows in 0.1 s: it never iterates. */
static bool by_cholesky(const gram_context *g, gram_solver solver, int64_t rows)
{
    return !gram_machine_on_host(g) || solver == GRAM_SOLVER_CHOLESKY ||
           (solver == GRAM_SOLVER_AUTO && rows <= CHOLESKY_ROWS);
}

size_t gram_machine_solve_bytes(gram_context *g, int64_t rows, int64_t outputs, gram_dtype dtype,
                                gram_solver solver)
{
    if (by_cholesky(g, solver, rows))
        return (size_t)(rows * rows) * gram_dtype_size(dtype);
    return gram_machine_blocks_bytes(rows, dtype) +
           gram_machine_preconditioner_bytes(rows, outputs, dtype) +
           gram_machine_cg_bytes(rows, outputs, dtype);
}

static gram_status add_ridge(gram_context *g, const double *ridge, int64_t rows, gram_tensor *k)
{
    struct gram_diagonal_op op = {k->dtype, rows, k->data, NULL};
    struct machine_array there;
    gram_status status;

    if (!g->backend->diagonal_add) {
        for (int64_t i = 0; i < rows; i++)
            machine_set_element(k->dtype, k->data, i * (rows + 1),
                                machine_element(k->dtype, k->data, i * (rows + 1)) + ridge[i]);
        return GRAM_OK;
    }
    TRY(gram_machine_send(g, ridge, (size_t)rows * sizeof *ridge, &there));
    op.add = there.data;
    status = g->backend->diagonal_add(g, &op);
    gram_machine_array_free(g, &there);
    return status;
}

/* k alpha = alpha, k becoming its factor; says at the host what became of it. */
static gram_status factorise(gram_context *g, gram_tensor *k, gram_tensor *alpha)
{
    gram_solve_options options = GRAM_SOLVE_OPTIONS_INIT;
    gram_tensor info = {.dtype = GRAM_I32, .device = k->device};
    struct machine_array there;
    int32_t code = 0;
    gram_status status;

    TRY(gram_machine_room(g, sizeof code, &there));
    info.data = there.data;
    options.factor = k;
    status = gram_solve_cholesky(g, k, alpha, &options, alpha, &info);
    if (status == GRAM_OK)
        status = gram_machine_fetch(g, &code, there.data, sizeof code);
    gram_machine_array_free(g, &there);
    if (status == GRAM_OK && code != 0)
        return gram_fail(g, GRAM_NUMERICAL,
                         "the kernel matrix with its regularization is not positive definite: its "
                         "leading minor of order %d",
                         (int)code);
    return status;
}

static gram_status solve_dense(gram_context *g, const gram_kernel_options *kernel,
                               const double *ridge, const struct machine_data *z, void *alpha,
                               struct machine_report *report)
{
    size_t size = gram_dtype_size(z->dtype);
    gram_tensor x = gram_machine_matrix(g, z->x, z->rows, z->width, z->dtype), k, a;
    double start = gram_machine_seconds();
    struct machine_array matrix;
    gram_status status;

    TRY(gram_machine_room(g, (size_t)(z->rows * z->rows) * size, &matrix));
    k = gram_machine_matrix(g, matrix.data, z->rows, z->rows, z->dtype);
    a = gram_machine_matrix(g, alpha, z->rows, z->outputs, z->dtype);
    a.stride[0] = 1;
    a.stride[1] = z->rows;
    status = gram_machine_put(g, alpha, z->y, (size_t)(z->rows * z->outputs) * size);
    if (status == GRAM_OK)
        status = gram_kernel(g, &x, NULL, kernel, &k);
    if (status == GRAM_OK)
        status = add_ridge(g, ridge, z->rows, &k);
    if (status == GRAM_OK)
        status = gram_context_synchronize(g); /* for the clock */
    report->kernel_seconds += gram_machine_seconds() - start;
    start = gram_machine_seconds();
    if (status == GRAM_OK)
        status = factorise(g, &k, &a);
    report->solve_seconds += gram_machine_seconds() - start;
    gram_machine_array_free(g, &matrix);
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
    if (by_cholesky(g, params->solver, z->rows))
        status = solve_dense(g, &kernel, ridge, z, alpha, report);
    else
        status = solve_iterating(g, params, &kernel, ridge, z, alpha, report);
    gram_free(g, ridge, bytes);
    return status;
}

/*
 * machine_solve.c - the coefficients of one leaf: a factorisation while it is quick, else
 * iterations
 *
 * SPDX-License-Identifier: MIT
 */
#include "krr/machine_cg.h"
#include "krr/machine_element.h"
#include "krr/machine_place.h"
#include "machine.h"
#include <math.h>

enum {
    CHOLESKY_ROWS = 6000, /* up to here n^3 / 3 flops are quicker than the preconditioner's setup */
    DEVICE_CHOLESKY_ROWS = 16000 /* the same on a GPU, which factorises them in 0.06 s */
};

double gram_machine_seconds(void)
{
    return 1e-9 * (double)gram_nanoseconds();
}

gram_kernel_options gram_machine_kernel(double p, double q, double bandwidth)
{
    return gram_lpq_laplace(p, q, bandwidth);
}

static bool by_cholesky(const gram_context *g, gram_solver solver, int64_t rows)
{
    int64_t few = gram_machine_on_host(g) ? CHOLESKY_ROWS : DEVICE_CHOLESKY_ROWS;

    return solver == GRAM_SOLVER_CHOLESKY || (solver == GRAM_SOLVER_AUTO && rows <= few);
}

size_t gram_machine_solve_bytes(gram_context *g, int64_t rows, int64_t outputs, gram_dtype dtype,
                                gram_solver solver)
{
    size_t matrix = (size_t)(rows * rows) * gram_dtype_size(dtype);

    if (by_cholesky(g, solver, rows))
        return matrix;
    if (!gram_machine_on_host(g))
        return matrix + gram_machine_nystrom_bytes(rows, outputs, dtype) +
               gram_machine_cg_bytes(g, rows, outputs, dtype);
    return gram_machine_blocks_bytes(rows, dtype) +
           gram_machine_preconditioner_bytes(rows, outputs, dtype) +
           gram_machine_cg_bytes(g, rows, outputs, dtype);
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

/* What a leaf is solved from, and where the answers go. */
struct leaf_system {
    const struct machine_params *params;
    const struct machine_data *z;
    gram_kernel_options kernel;
    double *ridge; /* on the host, one a row */
    double mean;   /* of ridge */
    void *alpha;
    struct machine_report *report;
};

static gram_tensor points_of(const gram_context *g, const struct leaf_system *s)
{
    return gram_machine_matrix(g, s->z->x, s->z->rows, s->z->width, s->z->dtype);
}

static gram_status solve_dense(gram_context *g, const struct leaf_system *s)
{
    const struct machine_data *z = s->z;
    size_t size = gram_dtype_size(z->dtype);
    gram_tensor x = points_of(g, s), k, a;
    double start = gram_machine_seconds();
    struct machine_array matrix;
    gram_status status;

    TRY(gram_machine_room(g, (size_t)(z->rows * z->rows) * size, &matrix));
    k = gram_machine_matrix(g, matrix.data, z->rows, z->rows, z->dtype);
    a = gram_machine_matrix(g, s->alpha, z->rows, z->outputs, z->dtype);
    a.stride[0] = 1;
    a.stride[1] = z->rows;
    status = gram_machine_put(g, s->alpha, z->y, (size_t)(z->rows * z->outputs) * size);
    if (status == GRAM_OK)
        status = gram_kernel(g, &x, NULL, &s->kernel, &k);
    if (status == GRAM_OK)
        status = add_ridge(g, s->ridge, z->rows, &k);
    if (status == GRAM_OK)
        status = gram_context_synchronize(g); /* for the clock */
    s->report->kernel_seconds += gram_machine_seconds() - start;
    start = gram_machine_seconds();
    if (status == GRAM_OK)
        status = factorise(g, &k, &a);
    s->report->solve_seconds += gram_machine_seconds() - start;
    gram_machine_array_free(g, &matrix);
    return status;
}

/* What conjugate gradients work on, but for K and its preconditioner. */
static struct machine_system system_of(const struct leaf_system *s, const double *ridge)
{
    return (struct machine_system){
        .n = s->z->rows, .columns = s->z->outputs, .dtype = s->z->dtype, .ridge = ridge};
}

static void add_iterations(const struct machine_cg_report *cg, struct machine_report *report)
{
    report->iterations = cg->iterations > report->iterations ? cg->iterations : report->iterations;
    report->residual = fmax(report->residual, cg->residual);
}

/* By iterations on the CPU. */
static gram_status solve_iterating(gram_context *g, const struct leaf_system *s)
{
    gram_tensor x = points_of(g, s);
    struct machine_preconditioner p = {0};
    struct machine_blocks k = {0};
    struct machine_system system = system_of(s, s->ridge);
    struct machine_cg_report cg = {0};
    double start = gram_machine_seconds();
    gram_status status = gram_machine_blocks_create(g, &x, &s->kernel, &k);

    system.k = &k;
    system.p = &p;
    s->report->kernel_seconds += gram_machine_seconds() - start;
    start = gram_machine_seconds();
    if (status == GRAM_OK)
        status = gram_machine_preconditioner_create(g, &x, &s->kernel, s->mean, s->z->outputs,
                                                    s->params->seed, &p);
    if (status == GRAM_OK)
        status = gram_machine_cg(g, &system, s->params->tolerance, s->z->y, s->alpha, &cg);
    s->report->solve_seconds += gram_machine_seconds() - start;
    add_iterations(&cg, s->report);
    gram_machine_preconditioner_destroy(g, &p);
    gram_machine_blocks_destroy(g, &k);
    return status;
}

/* What an iteration on a GPU has there. */
struct there {
    struct machine_stored k;
    struct machine_array matrix, ridge, y;
    struct machine_nystrom p;
};

static gram_status there_create(gram_context *g, const struct leaf_system *s, struct there *t)
{
    const struct machine_data *z = s->z;
    size_t size = gram_dtype_size(z->dtype);

    TRY(gram_machine_room(g, (size_t)(z->rows * z->rows) * size, &t->matrix));
    TRY(gram_machine_send(g, s->ridge, (size_t)z->rows * sizeof *s->ridge, &t->ridge));
    TRY(gram_machine_send(g, z->y, (size_t)(z->rows * z->outputs) * size, &t->y));
    t->k.x = points_of(g, s);
    t->k.matrix = gram_machine_matrix(g, t->matrix.data, z->rows, z->rows, z->dtype);
    t->k.kernel = &s->kernel;
    TRY(gram_kernel(g, &t->k.x, NULL, &s->kernel, &t->k.matrix));
    return gram_context_synchronize(g); /* for the clock */
}

static void there_destroy(gram_context *g, struct there *t)
{
    gram_machine_nystrom_destroy(g, &t->p);
    gram_machine_array_free(g, &t->y);
    gram_machine_array_free(g, &t->ridge);
    gram_machine_array_free(g, &t->matrix);
}

static gram_status iterate_there(gram_context *g, const struct leaf_system *s, struct there *t,
                                 struct machine_cg_report *cg)
{
    struct machine_system system = system_of(s, t->ridge.data);

    system.matrix = t->matrix.data;
    system.nystrom = &t->p;
    TRY(gram_machine_nystrom_create(g, &t->k, s->mean, s->z->outputs, s->params->seed, &t->p));
    return gram_machine_cg(g, &system, s->params->tolerance, t->y.data, s->alpha, cg);
}

/* By iterations on a GPU; *reached says whether the residual is as small as wanted, which only a
 * solver that was not asked for must see to. */
static gram_status solve_there(gram_context *g, const struct leaf_system *s, bool *reached)
{
    struct there t = {0};
    struct machine_cg_report cg = {0};
    double start = gram_machine_seconds();
    gram_status status = there_create(g, s, &t);

    s->report->kernel_seconds += gram_machine_seconds() - start;
    start = gram_machine_seconds();
    if (status == GRAM_OK)
        status = iterate_there(g, s, &t, &cg);
    s->report->solve_seconds += gram_machine_seconds() - start;
    *reached = cg.residual <= s->params->tolerance || s->params->solver == GRAM_SOLVER_CG;
    if (*reached)
        add_iterations(&cg, s->report);
    there_destroy(g, &t);
    return status;
}

gram_status gram_machine_solve(gram_context *g, const struct machine_params *params,
                               double bandwidth, const struct machine_data *z, void *alpha,
                               struct machine_report *report)
{
    struct leaf_system s = {.params = params,
                            .z = z,
                            .kernel = gram_machine_kernel(params->p, params->q, bandwidth),
                            .alpha = alpha,
                            .report = report};
    size_t bytes = (size_t)z->rows * sizeof(double);
    bool dense = by_cholesky(g, params->solver, z->rows), reached = true;
    gram_status status = GRAM_OK;

    s.ridge = gram_alloc(g, bytes);
    if (!s.ridge)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    for (int64_t i = 0; i < z->rows; i++) {
        s.ridge[i] = params->ridge / (z->weights ? z->weights[i] : 1);
        s.mean += s.ridge[i] / (double)z->rows;
    }
    gram_scratch_release(g); /* of the median or of a gradient: the matrix is the peak */
    if (!dense && gram_machine_on_host(g))
        status = solve_iterating(g, &s);
    else if (!dense)
        status = solve_there(g, &s, &reached);
    if (status == GRAM_OK && (dense || !reached))
        status = solve_dense(g, &s);
    gram_free(g, s.ridge, bytes);
    return status;
}

/*
 * machine_leaf.c - one kernel expansion: rounds of solves and feature learning, and its values
 *
 * Each round is a whole leaf of its own; the best on the validation rows is kept.  Its coefficients
 * come from a factorisation while that is quick, else from iterations.  Values are computed a block
 * of points at a time.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/threads.h"
#include "krr/machine_cg.h"
#include "krr/machine_element.h"
#include "krr/machine_place.h"
#include "machine.h"
#include <math.h>
#include <stdlib.h>

/* ---- Memory ---------------------------------------------------------------------------------- */

static size_t bytes_of_x(const struct machine_leaf *leaf)
{
    return (size_t)(leaf->rows * leaf->width) * gram_dtype_size(leaf->dtype);
}

static size_t bytes_of_alpha(const struct machine_leaf *leaf)
{
    return (size_t)(leaf->rows * leaf->outputs) * gram_dtype_size(leaf->dtype);
}

static void leaf_free(gram_context *g, struct machine_leaf *leaf)
{
    if (leaf->device.type != GRAM_CPU) {
        gram_memory_free(g, leaf->x, 0);
        gram_memory_free(g, leaf->alpha, 0);
    } else if (!leaf->borrowed) {
        free(leaf->x);
        free(leaf->alpha);
    }
}

void gram_machine_leaf_destroy(gram_context *g, struct machine_leaf *leaf)
{
    gram_machine_metric_destroy(&leaf->metric);
    leaf_free(g, leaf);
    *leaf = (struct machine_leaf){0};
}

/* Room for x and alpha where the context computes; from malloc on the CPU, since there they outlive
 * the context. */
static gram_status leaf_allocate(gram_context *g, struct machine_leaf *leaf)
{
    leaf->x = leaf->alpha = NULL;
    leaf->device = g->options.device;
    leaf->borrowed = false;
    if (!gram_machine_on_host(g)) {
        TRY(g->backend->memory_allocate(g, bytes_of_x(leaf) + 1, (void **)&leaf->x));
        return g->backend->memory_allocate(g, bytes_of_alpha(leaf) + 1, (void **)&leaf->alpha);
    }
    leaf->x = malloc(bytes_of_x(leaf) + 1);
    leaf->alpha = malloc(bytes_of_alpha(leaf) + 1);
    if (!leaf->x || !leaf->alpha)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate a leaf of %lld rows",
                         (long long)leaf->rows);
    return GRAM_OK;
}

gram_status gram_machine_leaf_settle(gram_context *g, struct machine_leaf *leaf)
{
    struct machine_leaf here = *leaf;
    gram_status status;

    if (leaf->device.type == GRAM_CPU)
        return GRAM_OK;
    here.device = (gram_device){GRAM_CPU, 0};
    here.x = malloc(bytes_of_x(leaf) + 1);
    here.alpha = malloc(bytes_of_alpha(leaf) + 1);
    if (!here.x || !here.alpha)
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate a leaf of %lld rows",
                           (long long)leaf->rows);
    else
        status = gram_machine_fetch(g, here.x, leaf->x, bytes_of_x(leaf));
    if (status == GRAM_OK)
        status = gram_machine_fetch(g, here.alpha, leaf->alpha, bytes_of_alpha(leaf));
    if (status != GRAM_OK) {
        free(here.x);
        free(here.alpha);
        return status;
    }
    leaf_free(g, leaf);
    *leaf = here;
    return GRAM_OK;
}

/* ---- Coefficients ---------------------------------------------------------------------------- */

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

/* Solves (K + diag(ridge / weights)) alpha = y.  z are the features in the metric; z.x and alpha
 * are where the context computes, z.y and z.weights on the host. */
static gram_status solve(gram_context *g, const struct machine_params *params, double bandwidth,
                         const struct machine_data *z, void *alpha, struct machine_report *report)
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

/* ---- Values ---------------------------------------------------------------------------------- */

enum {
    KERNEL_ENTRIES = 1 << 22, /* of the kernel block that a prediction holds: 16 MiB in f32 */
    DEVICE_ENTRIES = 1 << 26, /* the same on a GPU: enough to fill it */
    LEAST_POINTS = 16,        /* that it has at least */
};

/* What a prediction holds: the leaf and the points in the metric where the context computes, their
 * kernel with all centres, and on the CPU the same and the coefficients in f64. */
struct predict_scratch {
    struct machine_leaf leaf;
    int64_t points;
    char *z, *kernel;
    double *wide, *alpha;
    struct machine_array memory, out;
};

/* The leaf where the context computes: a GPU takes a copy of one that is on the CPU. */
static gram_status place_leaf(gram_context *g, const struct machine_leaf *leaf,
                              struct machine_leaf *out)
{
    *out = *leaf;
    out->borrowed = true;
    if (leaf->device.type == g->options.device.type)
        return GRAM_OK;
    TRY(leaf_allocate(g, out));
    TRY(gram_machine_put(g, out->x, leaf->x, bytes_of_x(leaf)));
    return gram_machine_put(g, out->alpha, leaf->alpha, bytes_of_alpha(leaf));
}

static void scratch_destroy(gram_context *g, struct predict_scratch *s)
{
    if (!s->leaf.borrowed)
        leaf_free(g, &s->leaf);
    gram_machine_array_free(g, &s->memory);
    gram_machine_array_free(g, &s->out);
}

static gram_status scratch_create(gram_context *g, const struct machine_leaf *leaf, int64_t rows,
                                  struct predict_scratch *s)
{
    bool here = gram_machine_on_host(g);
    size_t size = gram_dtype_size(leaf->dtype), z, kernel, wide, alpha;
    int64_t points = (here ? KERNEL_ENTRIES : DEVICE_ENTRIES) / (leaf->rows > 0 ? leaf->rows : 1);

    points = points < LEAST_POINTS ? LEAST_POINTS : points;
    s->points = points < rows ? points : rows;
    z = gram_round64((size_t)(s->points * leaf->width) * size);
    kernel = gram_round64((size_t)(s->points * leaf->rows) * size);
    wide = here ? gram_round64((size_t)(s->points * leaf->rows) * sizeof(double)) : 0;
    alpha = here ? gram_round64((size_t)(leaf->rows * leaf->outputs) * sizeof(double)) : 0;
    if (!here)
        TRY(gram_machine_room(g, (size_t)(rows * leaf->outputs) * sizeof(double), &s->out));
    TRY(gram_machine_room(g, z + kernel + wide + alpha, &s->memory));
    s->z = s->memory.data;
    s->kernel = s->z + z;
    s->wide = (double *)(s->kernel + kernel);
    s->alpha = (double *)((char *)s->wide + wide);
    return place_leaf(g, leaf, &s->leaf);
}

struct widen_job {
    gram_dtype dtype;
    int64_t columns;
    const void *from;
    double *to;
};

static void widen_row(void *arg, int64_t row, int thread)
{
    const struct widen_job *job = arg;
    int64_t first = row * job->columns;

    (void)thread;
    for (int64_t i = first; i < first + job->columns; i++)
        job->to[i] = machine_element(job->dtype, job->from, i);
}

/* to = from in f64, rows by columns, by rows. */
static void widen(gram_context *g, const struct widen_job *job, int64_t rows)
{
    struct widen_job copy = *job;

    gram_parallel_for(g, rows, widen_row, &copy);
}

/* out = kernel alpha.  The sum is in f64: coefficients of both signs cancel to a small part of
 * their size, and f32 sums would depend on how many points are predicted at a time. */
static gram_status combine(gram_context *g, const struct predict_scratch *s, int64_t count,
                           double *out, int64_t ld)
{
    const struct machine_leaf *leaf = &s->leaf;
    const struct gram_rows_combine_op op = {.dtype = leaf->dtype,
                                            .rows = count,
                                            .terms = leaf->rows,
                                            .outputs = leaf->outputs,
                                            .ld = ld,
                                            .kernel = s->kernel,
                                            .alpha = leaf->alpha,
                                            .out = out};

    if (g->backend->rows_combine)
        return g->backend->rows_combine(g, &op);
    widen(g, &(struct widen_job){leaf->dtype, leaf->rows, s->kernel, s->wide}, count);
    gram_blas_threads(g);
    gram_blas_gemm(GRAM_F64, (int64_t[3]){count, leaf->outputs, leaf->rows}, 1,
                   (struct gram_blas_matrix){s->wide, leaf->rows, true},
                   (struct gram_blas_matrix){s->alpha, leaf->rows, false}, 0, out, ld);
    return GRAM_OK;
}

/* Values at count points of x, which is where the context computes. */
static gram_status predict_block(gram_context *g, const struct predict_scratch *s, int64_t count,
                                 const void *x, double *out, int64_t ld)
{
    const struct machine_leaf *leaf = &s->leaf;
    gram_tensor points = gram_machine_matrix(g, s->z, count, leaf->width, leaf->dtype);
    gram_tensor centres = gram_machine_matrix(g, leaf->x, leaf->rows, leaf->width, leaf->dtype);
    gram_tensor kernel = gram_machine_matrix(g, s->kernel, count, leaf->rows, leaf->dtype);
    gram_kernel_options options = gram_machine_kernel(leaf->p, leaf->q, leaf->bandwidth);

    TRY(gram_machine_metric_apply(g, &leaf->metric, leaf->dtype, count, x, s->z));
    TRY(gram_kernel(g, &points, &centres, &options, &kernel));
    return combine(g, s, count, out, ld);
}

/* The same for points on the host, which travel a block at a time. */
static gram_status predict_sent(gram_context *g, const struct predict_scratch *s, int64_t count,
                                const void *x, double *out, int64_t ld)
{
    size_t row = (size_t)s->leaf.width * gram_dtype_size(s->leaf.dtype);
    struct machine_array there;
    gram_status status;

    TRY(gram_machine_send(g, x, (size_t)count * row, &there));
    status = predict_block(g, s, count, there.data, out, ld);
    gram_machine_array_free(g, &there);
    return status;
}

typedef gram_status predict_points(gram_context *g, const struct predict_scratch *s, int64_t count,
                                   const void *x, double *out, int64_t ld);

static gram_status predict(gram_context *g, const struct machine_leaf *leaf, int64_t rows,
                           const void *x, double *out, predict_points *block)
{
    size_t row = (size_t)leaf->width * gram_dtype_size(leaf->dtype);
    struct predict_scratch s = {.leaf.borrowed = true, .out.data = out};
    gram_status status = scratch_create(g, leaf, rows, &s);

    if (status == GRAM_OK && gram_machine_on_host(g))
        widen(g, &(struct widen_job){leaf->dtype, leaf->rows, leaf->alpha, s.alpha}, leaf->outputs);
    for (int64_t first = 0; status == GRAM_OK && first < rows; first += s.points) {
        int64_t count = rows - first < s.points ? rows - first : s.points;

        status = block(g, &s, count, (const char *)x + (size_t)first * row,
                       (double *)s.out.data + first, rows);
        if (status == GRAM_OK && gram_cancelled(g))
            status = gram_fail(g, GRAM_CANCELLED, "cancelled");
    }
    if (status == GRAM_OK)
        status =
            gram_machine_fetch(g, out, s.out.data, (size_t)(rows * leaf->outputs) * sizeof(double));
    scratch_destroy(g, &s);
    return status;
}

gram_status gram_machine_leaf_predict(gram_context *g, const struct machine_leaf *leaf,
                                      int64_t rows, const void *x, double *out)
{
    return predict(g, leaf, rows, x, out, predict_sent);
}

/* The same at rows of x that are where the context computes. */
static gram_status predict_placed(gram_context *g, const struct machine_leaf *leaf, int64_t rows,
                                  const void *x, double *out)
{
    return predict(g, leaf, rows, x, out, predict_block);
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

/* The rounds end when the error of one is above this multiple of the best. */
static const double worse = 1.1;

enum {
    MEDIAN_ROWS = 3000 /* of the sample whose median distance is the unit of the bandwidth */
};

static gram_status leaf_create(gram_context *g, const struct machine_params *params,
                               const struct machine_data *data, const struct machine_metric *metric,
                               struct machine_leaf *out)
{
    *out = (struct machine_leaf){
        .rows = data->rows,
        .width = data->width,
        .outputs = data->outputs,
        .dtype = data->dtype,
        .p = params->p,
        .q = params->q,
    };
    TRY(leaf_allocate(g, out));
    return gram_machine_metric_copy(g, metric, &out->metric);
}

/* The median distance of a leaf's rows, to the host. */
static gram_status median_of(gram_context *g, uint64_t seed, const struct machine_leaf *leaf,
                             double *out)
{
    gram_tensor z = gram_machine_matrix(g, leaf->x, leaf->rows, leaf->width, leaf->dtype);
    gram_tensor median = {.dtype = leaf->dtype, .device = z.device};
    gram_median_options options = GRAM_MEDIAN_OPTIONS_INIT;
    struct machine_array there;
    union {
        float narrow;
        double wide;
    } value = {0};
    gram_status status;

    TRY(gram_machine_room(g, sizeof value, &there));
    median.data = there.data;
    options.rows = MEDIAN_ROWS;
    options.seed = seed;
    status = gram_median_distance(g, &z, gram_number(leaf->p), &options, &median);
    if (status == GRAM_OK)
        status = gram_machine_fetch(g, &value, there.data, gram_dtype_size(leaf->dtype));
    *out = leaf->dtype == GRAM_F32 ? (double)value.narrow : value.wide;
    gram_machine_array_free(g, &there);
    return status;
}

/* L of a leaf: given, or a multiple of the median distance in its metric. */
static gram_status set_bandwidth(gram_context *g, const struct machine_params *params,
                                 struct machine_leaf *leaf)
{
    double median = 0;

    leaf->bandwidth = params->bandwidth;
    if (!params->relative_bandwidth)
        return GRAM_OK;
    TRY(median_of(g, params->seed, leaf, &median));
    leaf->bandwidth *= median > 0 ? median : 1; /* all rows alike, or one row: any L will do */
    return GRAM_OK;
}

/* Trains one leaf in a given metric; data->x is where the context computes. */
static gram_status train_once(gram_context *g, const struct machine_params *params,
                              const struct machine_data *data, const struct machine_metric *metric,
                              struct machine_leaf *leaf, struct machine_report *report)
{
    struct machine_data z = *data;

    TRY(leaf_create(g, params, data, metric, leaf));
    TRY(gram_machine_metric_apply(g, metric, data->dtype, data->rows, data->x, leaf->x));
    z.x = leaf->x;
    TRY(set_bandwidth(g, params, leaf));
    return solve(g, params, leaf->bandwidth, &z, leaf->alpha, report);
}

/* Mean squared error of all outputs on rows with known targets; valid->x is where the context
 * computes. */
static gram_status mean_squared_error(gram_context *g, const struct machine_leaf *leaf,
                                      const struct machine_data *valid, double *out)
{
    int64_t count = valid->rows * valid->outputs;
    size_t bytes = (size_t)count * sizeof(double);
    double *values = gram_alloc(g, bytes), sum = 0;
    gram_status status;

    if (!values)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    status = predict_placed(g, leaf, valid->rows, valid->x, values);
    for (int64_t i = 0; status == GRAM_OK && i < count; i++) {
        double y = valid->dtype == GRAM_F32 ? (double)((const float *)valid->y)[i]
                                            : ((const double *)valid->y)[i];
        sum += (values[i] - y) * (values[i] - y);
    }
    *out = sum / (double)count;
    gram_free(g, values, bytes);
    return status;
}

struct rounds {
    const struct machine_params *params;
    struct machine_data train, valid; /* their x is where the context computes */
    struct machine_metric metric;     /* of the round now running */
    struct machine_leaf best;
    double best_score;
    int round, best_round;
    struct machine_report *report;
};

/* A leaf in the metric, its score, whether it is the best, and the next metric if there is one. */
static gram_status one_round(gram_context *g, struct rounds *r, struct machine_leaf *leaf,
                             bool *more)
{
    struct machine_data z = r->train;
    double score = 0;

    TRY(train_once(g, r->params, &r->train, &r->metric, leaf, r->report));
    if (r->valid.rows > 0)
        TRY(mean_squared_error(g, leaf, &r->valid, &score));
    *more = r->round < r->params->iterations && score <= worse * r->best_score;
    if (*more) {
        double start = gram_machine_seconds();

        z.x = leaf->x;
        TRY(gram_machine_metric_learn(g, r->params, leaf->bandwidth, &z, leaf->alpha, &r->metric));
        r->report->feature_seconds += gram_machine_seconds() - start;
    }
    if (score < r->best_score || (r->valid.rows == 0 && score <= r->best_score)) {
        struct machine_leaf former = r->best;
        r->best = *leaf;
        *leaf = former;
        r->best_score = score;
        r->best_round = r->round;
    }
    return GRAM_OK;
}

/* Brings the features of some rows to where the context computes. */
static gram_status send_features(gram_context *g, struct machine_data *data,
                                 struct machine_array *there)
{
    TRY(gram_machine_send(
        g, data->x, (size_t)(data->rows * data->width) * gram_dtype_size(data->dtype), there));
    data->x = there->data;
    return GRAM_OK;
}

gram_status gram_machine_leaf_fit(gram_context *g, const struct machine_params *params,
                                  const struct machine_data *train,
                                  const struct machine_data *valid, struct machine_leaf *out,
                                  struct machine_report *report)
{
    struct rounds r = {.params = params,
                       .train = *train,
                       .valid = *valid,
                       .best_score = INFINITY,
                       .report = report};
    struct machine_array features = {0}, held = {0};
    bool more = true;
    gram_status status = params->start
                             ? gram_machine_metric_copy(g, params->start, &r.metric)
                             : gram_machine_metric_create(g, train->width, params->full, &r.metric);

    if (status == GRAM_OK)
        status = send_features(g, &r.train, &features);
    if (status == GRAM_OK && valid->rows > 0)
        status = send_features(g, &r.valid, &held);
    for (; status == GRAM_OK && more; r.round++) {
        struct machine_leaf leaf = {0};

        status = one_round(g, &r, &leaf, &more);
        gram_machine_leaf_destroy(g, &leaf);
    }
    gram_machine_metric_destroy(&r.metric);
    gram_machine_array_free(g, &features);
    gram_machine_array_free(g, &held);
    if (status == GRAM_OK && r.best.rows == 0)
        status = gram_fail(g, GRAM_NUMERICAL, "the validation error is not a number");
    if (status != GRAM_OK)
        gram_machine_leaf_destroy(g, &r.best);
    report->rounds = r.best_round;
    report->score = r.best_score;
    *out = r.best;
    return status;
}

/*
 * machine_leaf.c - one kernel expansion: rounds of solves and feature learning, and its values
 *
 * Each round is a whole leaf of its own; the best on the validation rows is kept.  Its coefficients
 * come from a factorisation while that is quick, else from iterations.  Values are computed a block
 * of points at a time.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_deal.h"
#include "machine_large.h"
#include "machine_logistic.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Memory ---------------------------------------------------------------------------------- */

static bool on_host(const gram_context *g)
{
    return gram_context_device(g).type == GRAM_CPU;
}

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
    struct krr_array there;

    leaf->x = leaf->alpha = NULL;
    leaf->device = gram_context_device(g);
    leaf->borrowed = false;
    if (!on_host(g)) {
        TRY(gram_krr_allocate(g, bytes_of_x(leaf) + 1, &there));
        leaf->x = there.data;
        TRY(gram_krr_allocate(g, bytes_of_alpha(leaf) + 1, &there));
        leaf->alpha = there.data;
        return GRAM_OK;
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
        status = gram_krr_fetch(g, here.x, leaf->x, bytes_of_x(leaf));
    if (status == GRAM_OK)
        status = gram_krr_fetch(g, here.alpha, leaf->alpha, bytes_of_alpha(leaf));
    if (status != GRAM_OK) {
        free(here.x);
        free(here.alpha);
        return status;
    }
    leaf_free(g, leaf);
    *leaf = here;
    return GRAM_OK;
}

gram_status gram_machine_leaf_place(gram_context *g, const struct machine_leaf *leaf,
                                    struct krr_array *x, struct krr_array *alpha)
{
    const size_t size = gram_dtype_size(leaf->dtype);

    x->data = leaf->x;
    alpha->data = leaf->alpha;
    if (leaf->device.type != GRAM_CPU)
        return GRAM_OK;
    TRY(gram_krr_send(g, leaf->x, (size_t)(leaf->rows * leaf->width) * size, x));
    return gram_krr_send(g, leaf->alpha, (size_t)(leaf->rows * leaf->outputs) * size, alpha);
}

gram_status gram_machine_widen(gram_context *g, gram_dtype dtype, const void *x, int64_t count,
                               struct krr_array *out)
{
    size_t narrow = (size_t)count * gram_dtype_size(dtype), bytes = (size_t)count * sizeof(double);
    double *wide = gram_alloc(g, bytes + narrow);
    char *here = (char *)(wide + count);
    gram_status status;

    if (!wide)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes + narrow);
    status = gram_krr_fetch(g, here, x, narrow);
    for (int64_t i = 0; status == GRAM_OK && i < count; i++)
        wide[i] = krr_element(dtype, here, i);
    if (status == GRAM_OK)
        status = gram_krr_allocate(g, bytes, out);
    if (status == GRAM_OK)
        status = gram_krr_store(g, out->data, wide, bytes);
    gram_free(g, wide, bytes + narrow);
    return status;
}

/* ---- Coefficients ---------------------------------------------------------------------------- */

gram_kernel_options gram_machine_kernel(double p, double q, double bandwidth)
{
    return gram_lpq_laplace(p, q, bandwidth);
}

bool gram_machine_by_cholesky(const gram_context *g, gram_solver solver, int64_t rows)
{
    return solver == GRAM_SOLVER_CHOLESKY ||
           (solver == GRAM_SOLVER_AUTO && rows <= gram_krr_dense_rows(g));
}

size_t gram_machine_solve_bytes(gram_context *g, int64_t rows, int64_t outputs, gram_dtype dtype,
                                gram_solver solver)
{
    size_t matrix = (size_t)(rows * rows) * gram_dtype_size(dtype);

    if (gram_machine_by_cholesky(g, solver, rows))
        return matrix;
    return gram_krr_stored_bytes(g, rows, outputs, dtype);
}

gram_status gram_machine_factorise(gram_context *g, gram_tensor *k, gram_tensor *alpha)
{
    gram_solve_options options = GRAM_SOLVE_OPTIONS_INIT;
    gram_tensor info = {.dtype = GRAM_I32, .device = k->device};
    struct krr_array there;
    int32_t code = 0;
    gram_status status;

    TRY(gram_krr_allocate(g, sizeof code, &there));
    info.data = there.data;
    options.factor = k;
    status = gram_solve_cholesky(g, k, alpha, &options, alpha, &info);
    if (status == GRAM_OK)
        status = gram_krr_fetch(g, &code, there.data, sizeof code);
    gram_krr_free(g, &there);
    if (status == GRAM_OK && code != 0)
        return gram_fail(g, GRAM_NUMERICAL,
                         "the kernel matrix plus its regularization is not positive definite: the "
                         "leading minor of order %d is not positive",
                         (int)code);
    return status;
}

/* What a leaf is solved from, and where the answers go. */
struct leaf_system {
    const struct machine_params *params;
    const struct machine_data *z;
    gram_kernel_options kernel;
    double bandwidth;
    double *ridge; /* on the host, one per row */
    void *alpha;
    struct machine_report *report;
};

static gram_tensor points_of(const gram_context *g, const struct leaf_system *s)
{
    return gram_krr_matrix(g, s->z->x, s->z->rows, s->z->width, s->z->dtype);
}

static gram_status solve_dense(gram_context *g, const struct leaf_system *s)
{
    const struct machine_data *z = s->z;
    size_t size = gram_dtype_size(z->dtype);
    gram_tensor x = points_of(g, s), k, a;
    double start = gram_seconds();
    struct krr_array matrix;
    gram_status status;

    TRY(gram_krr_allocate(g, (size_t)(z->rows * z->rows) * size, &matrix));
    k = gram_krr_matrix(g, matrix.data, z->rows, z->rows, z->dtype);
    a = gram_krr_matrix(g, s->alpha, z->rows, z->outputs, z->dtype);
    a.stride[0] = 1;
    a.stride[1] = z->rows;
    status = gram_krr_store(g, s->alpha, z->y, (size_t)(z->rows * z->outputs) * size);
    if (status == GRAM_OK)
        status = gram_kernel(g, &x, NULL, &s->kernel, &k);
    if (status == GRAM_OK)
        status = gram_krr_add_diagonal(g, &k, s->ridge);
    if (status == GRAM_OK)
        status = gram_context_synchronize(g); /* for the clock */
    s->report->kernel_seconds += gram_seconds() - start;
    start = gram_seconds();
    if (status == GRAM_OK)
        status = gram_machine_factorise(g, &k, &a);
    s->report->solve_seconds += gram_seconds() - start;
    gram_krr_free(g, &matrix);
    return status;
}

/* The factorisation in f64, of points and targets in f32. */
static gram_status solve_wide(gram_context *g, const struct leaf_system *s)
{
    const struct machine_data *z = s->z;
    size_t entries = (size_t)(z->rows * z->outputs);
    struct leaf_system wide = *s;
    struct machine_data data = *z;
    struct krr_array x = {0}, alpha = {0};
    size_t bytes = entries * (sizeof(double) + sizeof(float));
    double *y = gram_alloc(g, bytes);
    float *narrow = (float *)(y + entries);
    gram_status status;

    if (!y)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate the targets of a leaf");
    for (size_t i = 0; i < entries; i++)
        y[i] = krr_element(z->dtype, z->y, (int64_t)i);
    status = gram_machine_widen(g, z->dtype, z->x, z->rows * z->width, &x);
    if (status == GRAM_OK)
        status = gram_krr_allocate(g, entries * sizeof *y, &alpha);
    data.x = x.data;
    data.y = (const char *)y;
    data.dtype = GRAM_F64;
    wide.z = &data;
    wide.alpha = alpha.data;
    if (status == GRAM_OK)
        status = solve_dense(g, &wide);
    if (status == GRAM_OK)
        status = gram_krr_fetch(g, y, alpha.data, entries * sizeof *y);
    for (size_t i = 0; status == GRAM_OK && i < entries; i++)
        narrow[i] = (float)y[i];
    if (status == GRAM_OK)
        status = gram_krr_store(g, s->alpha, narrow, entries * sizeof(float));
    gram_krr_free(g, &x);
    gram_krr_free(g, &alpha);
    gram_free(g, y, bytes);
    return status;
}

/* The largest root mean square of a target. */
static double size_of_targets(const struct machine_data *z)
{
    double most = 0;

    for (int64_t j = 0; j < z->outputs; j++) {
        double sum = 0;

        for (int64_t i = j * z->rows; i < (j + 1) * z->rows; i++)
            sum += pow(krr_element(z->dtype, z->y, i), 2);
        most = sum > most ? sum : most;
    }
    return z->rows > 0 ? sqrt(most / (double)z->rows) : 0;
}

/* sqrt(max ridge / min ridge): see krr_certificate.c. */
static double room_of(const struct leaf_system *s)
{
    double least = INFINITY, most = 0;

    for (int64_t i = 0; i < s->z->rows; i++) {
        least = s->ridge[i] < least ? s->ridge[i] : least;
        most = s->ridge[i] > most ? s->ridge[i] : most;
    }
    return most > 0 ? sqrt(most / least) : 1;
}

/* Puts the coefficients of a leaf of the first rows where the solve begins, and 0 elsewhere. */
static gram_status place_guess(gram_context *g, const struct leaf_system *s)
{
    const struct machine_leaf *guess = s->params->guess;
    const size_t size = gram_dtype_size(s->z->dtype), known = (size_t)guess->rows * size;
    const size_t column = (size_t)s->z->rows * size, bytes = (size_t)s->z->outputs * column;
    char *host = gram_alloc(g, bytes);
    const size_t outputs = (size_t)gram_least(guess->outputs, s->z->outputs);
    gram_status status = GRAM_OK;

    if (!host)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    memset(host, 0, bytes);
    for (size_t j = 0; status == GRAM_OK && j < outputs; j++)
        status = gram_krr_fetch(g, host + j * column, guess->alpha + j * known, known);
    if (status == GRAM_OK)
        status = gram_krr_store(g, s->alpha, host, bytes);
    gram_free(g, host, bytes);
    return status;
}

/* By iterations.  *reached is false if the residual is larger than wanted and a factorisation is to
 * follow: on a GPU, where it takes no more memory than the stored matrix, unless iterations were
 * asked for or there is no memory for one. */
static gram_status solve_iterating(gram_context *g, const struct leaf_system *s, bool *reached,
                                   bool *stored)
{
    const struct krr_system system = {.x = points_of(g, s),
                                      .kernel = &s->kernel,
                                      .ridge = s->ridge,
                                      .b = s->z->y,
                                      .columns = s->z->outputs,
                                      .tolerance = s->params->tolerance,
                                      .warm = s->params->guess != NULL,
                                      .seed = s->params->seed,
                                      .memory = s->params->memory};
    struct krr_report krr;
    gram_status status;

    if (system.warm)
        TRY(place_guess(g, s));
    status = s->params->shared
                 ? gram_machine_shared_solve(g, s->params, s->bandwidth, &system, s->alpha, &krr)
                 : gram_krr_stored_solve(g, &system, s->alpha, &krr);
    s->report->kernel_seconds += krr.kernel_seconds;
    s->report->solve_seconds += krr.solve_seconds;
    *stored = krr.stored;
    *reached = krr.residual <= s->params->tolerance || s->params->solver == GRAM_SOLVER_CG ||
               on_host(g) || !krr.stored;
    if (*reached && krr.iterations >= s->report->iterations) /* 0 would mean a factorisation */
        s->report->iterations = krr.iterations > 0 ? krr.iterations : 1;
    if (*reached && status == GRAM_OK) {
        s->report->residual = fmax(s->report->residual, krr.residual);
        s->report->change =
            fmax(s->report->change, krr.residual * size_of_targets(s->z) * room_of(s));
    }
    return status;
}

enum {
    MORE_RIDGES = 8 /* each four times the one before */
};

static void set_ridge(struct leaf_system *s, double ridge)
{
    for (int64_t i = 0; i < s->z->rows; i++)
        s->ridge[i] = ridge / (s->z->weights ? s->z->weights[i] : 1);
    s->report->ridge = fmax(s->report->ridge, ridge);
}

gram_status gram_machine_leaf_solve(gram_context *g, const struct machine_params *params,
                                    double bandwidth, const struct machine_data *z, void *alpha,
                                    struct machine_report *report)
{
    struct leaf_system s = {.params = params,
                            .z = z,
                            .kernel = gram_machine_kernel(params->p, params->q, bandwidth),
                            .bandwidth = bandwidth,
                            .alpha = alpha,
                            .report = report};
    size_t bytes = (size_t)z->rows * sizeof(double);
    bool dense = gram_machine_by_cholesky(g, params->solver, z->rows), reached = true;
    bool stored = true;
    gram_status status = GRAM_OK;

    s.ridge = gram_alloc(g, bytes);
    if (!s.ridge)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    set_ridge(&s, params->ridge);
    gram_scratch_release(g); /* of the median or of a gradient: the matrix is the peak */
    if (!dense)
        status = solve_iterating(g, &s, &reached, &stored);
    if (status == GRAM_OK && (dense || !reached))
        status = solve_dense(g, &s);
    for (int more = 0; status == GRAM_NUMERICAL && z->dtype == GRAM_F32 && more <= MORE_RIDGES;
         more++) {
        if (!stored && !params->ridge_chosen)
            break;
        set_ridge(&s, ldexp(params->ridge, stored ? 2 * more : 2 * more + 2));
        status = stored ? solve_wide(g, &s) : solve_iterating(g, &s, &reached, &stored);
        if (!params->ridge_chosen)
            break;
    }
    gram_free(g, s.ridge, bytes);
    return status;
}

/* ---- Values ---------------------------------------------------------------------------------- */

enum {
    LEAST_POINTS = 16 /* whose kernel matrix with all centres a prediction holds */
};

/* What a prediction holds: the leaf and the points in the metric where the context computes, and
 * their kernel with all centres. */
struct predict_scratch {
    struct machine_leaf leaf;
    int64_t points;
    char *z, *matrix, *combining; /* matrix: of the kernel of points and centres */
    struct krr_array memory, out;
};

/* The leaf where the context computes: a GPU takes a copy of one that is on the CPU. */
static gram_status place_leaf(gram_context *g, const struct machine_leaf *leaf,
                              struct machine_leaf *out)
{
    *out = *leaf;
    out->borrowed = true;
    if (leaf->device.type == gram_context_device(g).type)
        return GRAM_OK;
    TRY(leaf_allocate(g, out));
    TRY(gram_krr_store(g, out->x, leaf->x, bytes_of_x(leaf)));
    return gram_krr_store(g, out->alpha, leaf->alpha, bytes_of_alpha(leaf));
}

static void scratch_destroy(gram_context *g, struct predict_scratch *s)
{
    if (!s->leaf.borrowed)
        leaf_free(g, &s->leaf);
    gram_krr_free(g, &s->memory);
    gram_krr_free(g, &s->out);
}

static gram_status scratch_create(gram_context *g, const struct machine_leaf *leaf, int64_t rows,
                                  struct predict_scratch *s)
{
    size_t size = gram_dtype_size(leaf->dtype), z, matrix;
    int64_t points = gram_krr_block_entries(g) / (leaf->rows > 0 ? leaf->rows : 1);

    points = points < LEAST_POINTS ? LEAST_POINTS : points;
    s->points = points < rows ? points : rows;
    z = gram_round64((size_t)(s->points * leaf->width) * size);
    matrix = gram_round64((size_t)(s->points * leaf->rows) * size);
    if (!on_host(g))
        TRY(gram_krr_allocate(g, (size_t)(rows * leaf->outputs) * sizeof(double), &s->out));
    TRY(gram_krr_allocate(
        g, z + matrix + gram_krr_combine_bytes(g, s->points, leaf->rows, leaf->outputs),
        &s->memory));
    s->z = s->memory.data;
    s->matrix = s->z + z;
    s->combining = s->matrix + matrix;
    return place_leaf(g, leaf, &s->leaf);
}

/* Values at count points of x, which is where the context computes. */
// NOLINTBEGIN(readability-non-const-parameter): gram_krr_combine writes out
static gram_status predict_block(gram_context *g, const struct predict_scratch *s, int64_t count,
                                 const void *x, double *out, int64_t ld)
// NOLINTEND(readability-non-const-parameter)
{
    const struct machine_leaf *leaf = &s->leaf;
    const struct krr_combine op = {.dtype = leaf->dtype,
                                   .rows = count,
                                   .terms = leaf->rows,
                                   .outputs = leaf->outputs,
                                   .ld = ld,
                                   .matrix = s->matrix,
                                   .alpha = leaf->alpha,
                                   .out = out,
                                   .scratch = s->combining};
    gram_tensor points = gram_krr_matrix(g, s->z, count, leaf->width, leaf->dtype);
    gram_tensor centres = gram_krr_matrix(g, leaf->x, leaf->rows, leaf->width, leaf->dtype);
    gram_tensor kernel = gram_krr_matrix(g, s->matrix, count, leaf->rows, leaf->dtype);
    gram_kernel_options options = gram_machine_kernel(leaf->p, leaf->q, leaf->bandwidth);

    TRY(gram_machine_metric_apply(g, &leaf->metric, leaf->dtype, count, x, s->z));
    TRY(gram_kernel(g, &points, &centres, &options, &kernel));
    return gram_krr_combine(g, &op);
}

/* The same for points on the host, which travel a block at a time. */
static gram_status predict_sent(gram_context *g, const struct predict_scratch *s, int64_t count,
                                const void *x, double *out, int64_t ld)
{
    size_t row = (size_t)s->leaf.width * gram_dtype_size(s->leaf.dtype);
    struct krr_array there;
    gram_status status;

    TRY(gram_krr_send(g, x, (size_t)count * row, &there));
    status = predict_block(g, s, count, there.data, out, ld);
    gram_krr_free(g, &there);
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

    for (int64_t first = 0; status == GRAM_OK && first < rows; first += s.points) {
        int64_t count = rows - first < s.points ? rows - first : s.points;

        status = block(g, &s, count, (const char *)x + (size_t)first * row,
                       (double *)s.out.data + first, rows);
        if (status == GRAM_OK && gram_cancelled(g))
            status = gram_fail(g, GRAM_CANCELLED, "cancelled");
    }
    if (status == GRAM_OK)
        status =
            gram_krr_fetch(g, out, s.out.data, (size_t)(rows * leaf->outputs) * sizeof(double));
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

/* The median distance of rows, to the host. */
static gram_status median_of(gram_context *g, const struct machine_params *params,
                             const struct machine_data *data, double *out)
{
    gram_tensor z = gram_krr_matrix(g, data->x, data->rows, data->width, data->dtype);
    gram_tensor median = {.dtype = data->dtype, .device = z.device};
    gram_median_options options = GRAM_MEDIAN_OPTIONS_INIT;
    struct krr_array there;
    union {
        float narrow;
        double wide;
    } value = {0};
    gram_status status;

    TRY(gram_krr_allocate(g, sizeof value, &there));
    median.data = there.data;
    options.rows = MEDIAN_ROWS;
    options.seed = params->seed;
    status = gram_median_distance(g, &z, gram_number(params->p), &options, &median);
    if (status == GRAM_OK)
        status = gram_krr_fetch(g, &value, there.data, gram_dtype_size(data->dtype));
    *out = data->dtype == GRAM_F32 ? (double)value.narrow : value.wide;
    gram_krr_free(g, &there);
    return status;
}

gram_status gram_machine_bandwidth(gram_context *g, const struct machine_params *params,
                                   const struct machine_data *z, double *out)
{
    double median = 0;

    *out = params->bandwidth;
    if (!params->relative_bandwidth)
        return GRAM_OK;
    TRY(median_of(g, params, z, &median));
    *out *= median > 0 ? median : 1; /* all rows alike, or one row: any L will do */
    return GRAM_OK;
}

/* The coefficients of a leaf whose rows are in its metric. */
static gram_status find_coefficients(gram_context *g, const struct machine_params *params,
                                     const struct machine_data *z, const struct machine_leaf *leaf,
                                     struct machine_report *report)
{
    struct machine_logistic system = {0};
    gram_status status;

    if (params->loss != GRAM_LOSS_LOGISTIC)
        return gram_machine_leaf_solve(g, params, leaf->bandwidth, z, leaf->alpha, report);
    TRY(gram_machine_logistic_open(g, z->rows, &system));
    status = gram_machine_logistic_fit(g, params, leaf->bandwidth, z, leaf->alpha, &system, report);
    gram_machine_logistic_close(g, &system);
    return status;
}

/* The rows of a leaf in a given metric, and their bandwidth; data->x is where the context computes.
 */
static gram_status place_rows(gram_context *g, const struct machine_params *params,
                              const struct machine_data *data, const struct machine_metric *metric,
                              struct machine_leaf *leaf)
{
    struct machine_data z = *data;

    TRY(leaf_create(g, params, data, metric, leaf));
    TRY(gram_machine_metric_apply(g, metric, data->dtype, data->rows, data->x, leaf->x));
    z.x = leaf->x;
    return gram_machine_bandwidth(g, params, &z, &leaf->bandwidth);
}

/* The mean squared error of rows with known targets, in which they count by their weights; valid->x
 * is where the context computes. */
static gram_status mean_squared_error(gram_context *g, const struct machine_leaf *leaf,
                                      const struct machine_data *valid, double *out)
{
    const size_t bytes = (size_t)(valid->rows * valid->outputs) * sizeof(double);
    double *values = gram_alloc(g, bytes);
    gram_status status;

    if (!values)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    status = predict_placed(g, leaf, valid->rows, valid->x, values);
    if (status == GRAM_OK)
        *out = gram_machine_squared_error(valid, values);
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
    /* A likelihood asks for no coefficients, and the last round alone is kept. */
    const bool solves = !r->params->ard || r->valid.rows > 0 || r->round == r->params->iterations;
    struct machine_data z = r->train;
    double score = 0;

    TRY(place_rows(g, r->params, &r->train, &r->metric, leaf));
    z.x = leaf->x;
    if (solves)
        TRY(find_coefficients(g, r->params, &z, leaf, r->report));
    if (r->valid.rows > 0)
        TRY(mean_squared_error(g, leaf, &r->valid, &score));
    *more = r->round < r->params->iterations && score <= worse * r->best_score;
    if (*more) {
        double start = gram_seconds();

        TRY(gram_machine_metric_learn(
            g, &(struct machine_gradients){r->params, leaf->bandwidth, &z, &z, leaf->alpha},
            &r->metric, NULL));
        r->report->feature_seconds += gram_seconds() - start;
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
                                 struct krr_array *there)
{
    TRY(gram_krr_send(g, data->x, (size_t)(data->rows * data->width) * gram_dtype_size(data->dtype),
                      there));
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
    struct krr_array features = {0}, held = {0};
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
    gram_krr_free(g, &features);
    gram_krr_free(g, &held);
    if (status == GRAM_OK && r.best.rows == 0)
        status = gram_fail(g, GRAM_NUMERICAL, "the validation error is not a number");
    if (status != GRAM_OK)
        gram_machine_leaf_destroy(g, &r.best);
    report->rounds = r.best_round;
    report->score = r.best_score;
    *out = r.best;
    return status;
}

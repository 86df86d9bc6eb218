/*
 * machine_centres.c - kernel ridge regression with few centres on many rows
 *
 * The predictor is f(z) = sum_j a_j k(c_j, z), where the c_j are m of the n rows, and a is the
 * minimum of sum_i w_i |Y_i - (K_nm a)_i|^2 + r a^T K_mm a, with the weights w of the rows (subset
 * of regressors, or Nystroem: Williams and Seeger, NIPS 2000; Rudi, Carratino and Rosasco, NIPS
 * 2017):
 *   (K_nm^T W K_nm + r K_mm) a = K_nm^T W Y,   W = diag(w).
 * K_nm is never stored: blocks of rows are added to the normal equations, which takes n m^2
 * multiplications, and every ridge is then one factorisation of order m.  A weighted row is one
 * that was multiplied by the root of its weight.  All of this is in f64, because the squares double
 * the digits that a small ridge needs.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_centres.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROW_BLOCK = 1024, /* rows whose kernel with all centres is held */
    SUM_BLOCK = 64    /* rows of the normal equations that are summed on the host at a time */
};

/* 1 / the condition that is left to the normal equations; the diagonal of K_nm^T W K_nm is at most
 * the sum of the weights. */
static const double jitter = 3e-11;

size_t gram_machine_centres_bytes(int64_t centres)
{
    return 2 * (size_t)centres * (size_t)centres * sizeof(double);
}

void gram_machine_centres_close(gram_context *g, struct machine_centres *c)
{
    gram_krr_free(g, &c->z);
    gram_krr_free(g, &c->normal);
    gram_krr_free(g, &c->right);
    *c = (struct machine_centres){0};
}

/* Rows [first, first + count) of the features in f64, in the metric. */
static gram_status place_rows(gram_context *g, const struct machine_centres *c,
                              const struct machine_data *data, int64_t first, int64_t count,
                              void *out)
{
    size_t entries = (size_t)(count * data->width);
    double *wide = gram_alloc(g, entries * sizeof *wide);
    struct krr_array there = {0};
    gram_status status;

    if (!wide)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld rows", (long long)count);
    for (size_t i = 0; i < entries; i++)
        wide[i] = krr_element(data->dtype, data->x, first * data->width + (int64_t)i);
    status = gram_krr_send(g, wide, entries * sizeof *wide, &there);
    if (status == GRAM_OK)
        status = gram_machine_metric_apply(g, c->metric, GRAM_F64, count, there.data, out);
    if (status == GRAM_OK)
        status = gram_context_synchronize(g); /* there is about to be freed */
    gram_krr_free(g, &there);
    gram_free(g, wide, entries * sizeof *wide);
    return status;
}

gram_status gram_machine_centres_open(gram_context *g, const struct machine_params *params,
                                      const struct machine_metric *metric,
                                      const struct machine_data *data, int64_t count,
                                      struct machine_centres *out)
{
    size_t square = (size_t)(count * count) * sizeof(double);
    size_t right = (size_t)(count * data->outputs) * sizeof(double);
    struct machine_data z = *data;

    *out = (struct machine_centres){.params = params,
                                    .metric = metric,
                                    .count = count,
                                    .width = data->width,
                                    .outputs = data->outputs,
                                    .dtype = data->dtype};
    TRY(gram_krr_allocate(g, (size_t)(count * data->width) * sizeof(double) + 1, &out->z));
    TRY(gram_krr_allocate(g, square, &out->normal));
    TRY(gram_krr_allocate(g, right, &out->right));
    TRY(place_rows(g, out, data, 0, count, out->z.data));
    z.rows = count;
    z.x = out->z.data;
    z.dtype = GRAM_F64;
    return gram_machine_bandwidth(g, params, &z, &out->bandwidth);
}

/* What the addition of rows works with. */
struct block {
    struct krr_array z, kernel, y;
    struct krr_array root; /* of the weights of the rows; data NULL: all are 1 */
    double *targets;       /* on the host, row-major; the roots of the weights follow */
    size_t bytes;
};

static void block_destroy(gram_context *g, struct block *b)
{
    gram_krr_free(g, &b->z);
    gram_krr_free(g, &b->kernel);
    gram_krr_free(g, &b->y);
    gram_krr_free(g, &b->root);
    gram_free(g, b->targets, b->bytes);
}

static gram_status block_create(gram_context *g, const struct machine_centres *c, bool weighted,
                                struct block *b)
{
    const size_t targets = (size_t)(ROW_BLOCK * c->outputs) * sizeof(double);
    const size_t roots = weighted ? ROW_BLOCK * sizeof(double) : 0;

    b->bytes = targets + roots;
    b->targets = gram_alloc(g, b->bytes);
    if (!b->targets)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", b->bytes);
    TRY(gram_krr_allocate(g, (size_t)(ROW_BLOCK * c->width) * sizeof(double) + 1, &b->z));
    TRY(gram_krr_allocate(g, (size_t)(ROW_BLOCK * c->count) * sizeof(double), &b->kernel));
    if (weighted)
        TRY(gram_krr_allocate(g, roots, &b->root));
    return gram_krr_allocate(g, targets, &b->y);
}

/* The targets of a block of rows, and the roots of the weights, by which they are multiplied. */
static gram_status place_targets(gram_context *g, const struct machine_centres *c, struct block *b,
                                 const struct machine_data *data, int64_t first, int64_t count)
{
    double *root = b->targets + ROW_BLOCK * c->outputs;

    for (int64_t i = 0; data->weights && i < count; i++)
        root[i] = sqrt(data->weights[first + i]);
    for (int64_t j = 0; j < c->outputs; j++)
        for (int64_t i = 0; i < count; i++)
            b->targets[i * c->outputs + j] =
                krr_element(data->dtype, data->y, j * data->rows + first + i) *
                (data->weights ? root[i] : 1);
    if (data->weights)
        TRY(gram_krr_store(g, b->root.data, root, (size_t)count * sizeof *root));
    return gram_krr_store(g, b->y.data, b->targets,
                          (size_t)(count * c->outputs) * sizeof *b->targets);
}

/* The kernel of a block of rows with the centres, whose rows are multiplied by the roots of the
 * weights: its transpose then has columns that are, so that a diagonal metric does it. */
static gram_status weigh_kernel(gram_context *g, const struct machine_centres *c,
                                const struct block *b, int64_t count)
{
    const struct krr_map weigh = {.dtype = GRAM_F64,
                                  .rows = c->count,
                                  .width = count,
                                  .w = b->root.data,
                                  .x = b->kernel.data,
                                  .z = b->kernel.data};

    return b->root.data ? gram_krr_map(g, &weigh) : GRAM_OK;
}

/* normal (+)= K^T W K and right (+)= K^T W Y of a block of rows. */
static gram_status add_block(gram_context *g, struct machine_centres *c, struct block *b,
                             const struct machine_data *data, int64_t first, int64_t count)
{
    gram_kernel_options kernel = gram_machine_kernel(c->params->p, c->params->q, c->bandwidth);
    gram_tensor z = gram_krr_matrix(g, b->z.data, count, c->width, GRAM_F64);
    gram_tensor centres = gram_krr_matrix(g, c->z.data, c->count, c->width, GRAM_F64);
    const int across = b->root.data != NULL; /* the kernel is stored as its transpose */
    gram_tensor k = gram_krr_matrix(g, b->kernel.data, across ? c->count : count,
                                    across ? count : c->count, GRAM_F64);
    gram_tensor y = gram_krr_matrix(g, b->y.data, count, c->outputs, GRAM_F64);
    gram_tensor normal = gram_krr_matrix(g, c->normal.data, c->count, c->count, GRAM_F64);
    gram_tensor right = gram_krr_matrix(g, c->right.data, c->count, c->outputs, GRAM_F64);
    gram_syrk_ema_options sum = GRAM_SYRK_EMA_OPTIONS_INIT;
    gram_matmul_options product = GRAM_MATMUL_OPTIONS_INIT;
    const double before = c->rows > 0; /* what is there counts */

    TRY(place_targets(g, c, b, data, first, count));
    TRY(place_rows(g, c, data, first, count, b->z.data));
    TRY(gram_kernel(g, across ? &centres : &z, across ? &z : &centres, &kernel, &k));
    TRY(weigh_kernel(g, c, b, count));
    sum.transpose = !across;
    sum.sum = 1;
    sum.beta = gram_number(before);
    TRY(gram_syrk_ema(g, &k, &sum, &normal, NULL));
    product.transpose_a = !across;
    product.beta = gram_number(before);
    product.c = before > 0 ? &right : NULL;
    TRY(gram_matmul_batched(g, &k, &y, &product, &right));
    c->rows += count;
    for (int64_t i = 0; i < count; i++)
        c->weight += data->weights ? data->weights[first + i] : 1;
    return GRAM_OK;
}

gram_status gram_machine_centres_add(gram_context *g, struct machine_centres *c,
                                     const struct machine_data *data, int64_t rows)
{
    struct block b = {0};
    gram_status status = block_create(g, c, data->weights != NULL, &b);

    for (int64_t first = 0; status == GRAM_OK && first < rows; first += ROW_BLOCK) {
        status = add_block(g, c, &b, data, first, gram_least(ROW_BLOCK, rows - first));
        if (status == GRAM_OK && gram_cancelled(g))
            status = gram_fail(g, GRAM_CANCELLED, "cancelled");
    }
    if (status == GRAM_OK)
        status = gram_context_synchronize(g); /* the block is about to be freed */
    block_destroy(g, &b);
    return status;
}

/* matrix = normal + ridge matrix + jitter, through the host by some rows at a time. */
static gram_status sum_rows(gram_context *g, const struct machine_centres *c, double ridge,
                            char *matrix)
{
    const size_t row = (size_t)c->count * sizeof(double), bytes = 2 * SUM_BLOCK * row;
    double *sum = gram_alloc(g, bytes), *normal;
    gram_status status = GRAM_OK;

    if (!sum)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    normal = sum + SUM_BLOCK * c->count;
    for (int64_t first = 0; status == GRAM_OK && first < c->count; first += SUM_BLOCK) {
        int64_t count = gram_least(SUM_BLOCK, c->count - first);
        size_t at = (size_t)first * row, part = (size_t)count * row;

        status = gram_krr_fetch(g, sum, matrix + at, part);
        if (status == GRAM_OK)
            status = gram_krr_fetch(g, normal, (const char *)c->normal.data + at, part);
        for (int64_t i = 0; status == GRAM_OK && i < count * c->count; i++)
            sum[i] = normal[i] + ridge * sum[i];
        for (int64_t i = 0; status == GRAM_OK && i < count; i++)
            sum[i * c->count + first + i] += jitter * c->weight;
        if (status == GRAM_OK)
            status = gram_krr_store(g, matrix + at, sum, part);
    }
    gram_free(g, sum, bytes);
    return status;
}

/* The coefficients a, count by outputs and row-major, where the context computes. */
static gram_status solve(gram_context *g, const struct machine_centres *c, double ridge, void *a)
{
    gram_kernel_options kernel = gram_machine_kernel(c->params->p, c->params->q, c->bandwidth);
    gram_tensor z = gram_krr_matrix(g, c->z.data, c->count, c->width, GRAM_F64), k;
    gram_tensor alpha = gram_krr_matrix(g, a, c->count, c->outputs, GRAM_F64);
    gram_tensor right = gram_krr_matrix(g, c->right.data, c->count, c->outputs, GRAM_F64);
    gram_matmul_options copy = GRAM_MATMUL_OPTIONS_INIT;
    struct krr_array matrix = {0};
    gram_status status =
        gram_krr_allocate(g, (size_t)(c->count * c->count) * sizeof(double), &matrix);

    k = gram_krr_matrix(g, matrix.data, c->count, c->count, GRAM_F64);
    if (status == GRAM_OK)
        status = gram_kernel(g, &z, NULL, &kernel, &k);
    if (status == GRAM_OK)
        status = sum_rows(g, c, ridge, matrix.data);
    copy.alpha = gram_number(0); /* alpha = right: the operands are not read */
    copy.beta = gram_number(1);
    copy.c = &right;
    if (status == GRAM_OK)
        status = gram_matmul_batched(g, &k, &right, &copy, &alpha);
    if (status == GRAM_OK)
        status = gram_machine_factorise(g, &k, &alpha);
    gram_krr_free(g, &matrix);
    return status;
}

/* A leaf of the centres with coefficients of the host, row-major. */
static gram_status leaf_of(gram_context *g, const struct machine_centres *c, const double *z,
                           const double *a, struct machine_leaf *out)
{
    size_t size = gram_dtype_size(c->dtype);

    *out = (struct machine_leaf){
        .rows = c->count,
        .width = c->width,
        .outputs = c->outputs,
        .dtype = c->dtype,
        .p = c->params->p,
        .q = c->params->q,
        .bandwidth = c->bandwidth,
        .device = {GRAM_CPU, 0}
    };
    out->x = malloc((size_t)(c->count * c->width) * size + 1);
    out->alpha = malloc((size_t)(c->count * c->outputs) * size + 1);
    if (!out->x || !out->alpha)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %lld centres",
                         (long long)c->count);
    for (int64_t i = 0; i < c->count * c->width; i++)
        krr_set_element(c->dtype, out->x, i, z[i]);
    for (int64_t j = 0; j < c->outputs; j++)
        for (int64_t i = 0; i < c->count; i++)
            krr_set_element(c->dtype, out->alpha, j * c->count + i, a[i * c->outputs + j]);
    return gram_machine_metric_copy(g, c->metric, &out->metric);
}

gram_status gram_machine_centres_leaf(gram_context *g, const struct machine_centres *c,
                                      double ridge, struct machine_leaf *out)
{
    size_t points = (size_t)(c->count * c->width) * sizeof(double);
    size_t numbers = (size_t)(c->count * c->outputs) * sizeof(double);
    double *host = gram_alloc(g, points + numbers), *a;
    struct krr_array alpha = {0};
    gram_status status;

    *out = (struct machine_leaf){0};
    if (!host)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", points + numbers);
    a = host + c->count * c->width;
    status = gram_krr_allocate(g, numbers, &alpha);
    if (status == GRAM_OK)
        status = solve(g, c, ridge, alpha.data);
    if (status == GRAM_OK)
        status = gram_krr_fetch(g, a, alpha.data, numbers);
    if (status == GRAM_OK)
        status = gram_krr_fetch(g, host, c->z.data, points);
    if (status == GRAM_OK)
        status = leaf_of(g, c, host, a, out);
    if (status != GRAM_OK)
        gram_machine_leaf_destroy(g, out);
    gram_krr_free(g, &alpha);
    gram_free(g, host, points + numbers);
    return status;
}

gram_status gram_machine_centres_learn(gram_context *g, const struct machine_params *params,
                                       const struct machine_leaf *leaf,
                                       const struct machine_data *points,
                                       struct machine_metric *metric)
{
    size_t at_bytes = (size_t)(points->rows * points->width) * gram_dtype_size(leaf->dtype);
    struct machine_data z = {.rows = leaf->rows,
                             .width = leaf->width,
                             .outputs = leaf->outputs,
                             .dtype = leaf->dtype},
                        at = *points;
    struct krr_array x = {0}, alpha = {0}, there = {0}, placed = {0};
    gram_status status = gram_machine_leaf_place(g, leaf, &x, &alpha);

    if (status == GRAM_OK)
        status = gram_krr_send(g, points->x, at_bytes, &there);
    if (status == GRAM_OK)
        status = gram_krr_allocate(g, at_bytes + 1, &placed);
    if (status == GRAM_OK)
        status = gram_machine_metric_apply(g, &leaf->metric, leaf->dtype, points->rows, there.data,
                                           placed.data);
    z.x = x.data;
    at.x = placed.data;
    if (status == GRAM_OK)
        status = gram_machine_metric_learn(
            g, &(struct machine_gradients){params, leaf->bandwidth, &z, &at, alpha.data}, metric,
            NULL);
    gram_krr_free(g, &x);
    gram_krr_free(g, &alpha);
    gram_krr_free(g, &there);
    gram_krr_free(g, &placed);
    return status;
}

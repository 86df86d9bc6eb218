/*
 * machine_leaf_predict.c - the values of a kernel expansion, a block of points at a time
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/threads.h"
#include "krr/machine_element.h"
#include "machine_leaf.h"

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
    TRY(gram_machine_leaf_allocate(g, out));
    TRY(gram_machine_put(g, out->x, leaf->x, gram_machine_x_bytes(leaf)));
    return gram_machine_put(g, out->alpha, leaf->alpha, gram_machine_alpha_bytes(leaf));
}

static void scratch_destroy(gram_context *g, struct predict_scratch *s)
{
    if (!s->leaf.borrowed)
        gram_machine_leaf_free(g, &s->leaf);
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

gram_status gram_machine_leaf_predict_there(gram_context *g, const struct machine_leaf *leaf,
                                            int64_t rows, const void *x, double *out)
{
    return predict(g, leaf, rows, x, out, predict_block);
}

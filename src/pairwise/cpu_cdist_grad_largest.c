/*
 * cpu_cdist_grad_largest.c - gradients with p = infinity: the largest difference decides
 *
 *   out[o, n, m] = sum_k c[o, k] a[k, m] sgn(t[n]) [|t[n]| = max |t|], t = d[:, m] - b[:, k]
 *
 * A task is a point.  Each of its centres takes two passes over the features: the first finds the
 * largest difference, the second one adds where it is taken, which is mostly once.  The sums are in
 * double, in the order of the centres.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/threads.h"
#include "cpu_cdist_grad.h"
#include <string.h>

/* One item, and where its threads keep their sums. */
struct largest_item {
    struct gram_view a, b, c, d, out;
    bool add;
    char *scratch;
    size_t size; /* of a thread's sums, in bytes */
};

#define real    float
#define LARGEST largest_f32
#include "cpu_cdist_grad_largest.h"
#define real    double
#define LARGEST largest_f64
#include "cpu_cdist_grad_largest.h"

static size_t bytes_of_sums(const struct gram_cdist_grad_op *op)
{
    return gram_round64((size_t)(op->c.rows * op->d.rows) * sizeof(double));
}

size_t cpu_cdist_grad_largest_bytes(const gram_context *g, const struct gram_cdist_grad_op *op)
{
    return bytes_of_sums(op) * (size_t)g->threads;
}

static void store(const struct largest_item *item, int64_t at, double sum)
{
    const struct gram_view *v = &item->out;
    char *to = (char *)v->data + at * (int64_t)gram_dtype_size(v->dtype);

    if (v->dtype == GRAM_F32)
        *(float *)(void *)to = (float)(item->add ? (double)*(float *)(void *)to + sum : sum);
    else
        *(double *)(void *)to = item->add ? *(double *)(void *)to + sum : sum;
}

static void run_point(void *arg, int64_t m, int thread)
{
    const struct largest_item *item = arg;
    const struct gram_view *v = &item->out;
    double *sums = (double *)(void *)(item->scratch + (size_t)thread * item->size);

    memset(sums, 0, item->size);
    if (v->dtype == GRAM_F32)
        largest_f32(item, m, sums);
    else
        largest_f64(item, m, sums);
    for (int64_t o = 0; o < item->c.rows; o++)
        for (int64_t n = 0; n < item->d.rows; n++)
            store(item, o * v->plane_stride + n * v->row_stride + m * v->col_stride,
                  sums[o * item->d.rows + n]);
}

void cpu_cdist_grad_largest(gram_context *g, const struct gram_cdist_grad_op *op, int64_t index,
                            bool add, void *scratch)
{
    struct largest_item item = {
        .a = gram_view_alone(&op->a, &op->batch, index),
        .b = gram_view_alone(&op->b, &op->batch, index),
        .c = gram_view_alone(&op->c, &op->batch, index),
        .d = gram_view_alone(&op->d, &op->batch, index),
        .out = gram_view_alone(&op->out, &op->batch, index),
        .add = add,
        .scratch = scratch,
        .size = bytes_of_sums(op),
    };

    gram_parallel_for(g, op->d.cols, run_point, &item);
}

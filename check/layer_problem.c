/*
 * layer_problem.c - layers for the tables: see layer_problem.h
 *
 * SPDX-License-Identifier: MIT
 */
#include "layer_problem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {"linear", "convolution", "embedding", "layer norm",
                                    "group norm"};

void layer_label(const struct layer_row *row, const char *why, char *text, size_t size)
{
    static const char *const names[] = {"?", "f32", "f64", "f16", "bf16"};

    snprintf(text, size, "%s, %lld samples, %lld to %lld, %s: %s", kinds[row->kind],
             (long long)row->n, (long long)row->in, (long long)row->out, names[row->dtype], why);
}

static int64_t or_one(int64_t value)
{
    return value ? value : 1;
}

static void make_layer(const struct layer_row *row, gram_layer *layer)
{
    *layer = (gram_layer)GRAM_LAYER_INIT;
    layer->kind = row->kind;
    layer->bias = row->bias;
    layer->spatial = row->dims;
    layer->groups = or_one(row->groups);
    layer->rows = row->in;
    layer->padding_row = row->padding_row - 1;
    layer->normalized = row->normalized ? row->normalized : 1;
    layer->epsilon = 1e-3;
    for (int i = 0; i < 3; i++) {
        layer->kernel[i] = or_one(row->kernel[i]);
        layer->stride[i] = or_one(row->stride[i]);
        layer->padding[i] = row->padding[i];
        layer->dilation[i] = or_one(row->dilation[i]);
    }
}

/* Shapes of a and d; the number of positions. */
static int64_t shapes(const struct layer_row *row, const gram_layer *l, int64_t *a, int64_t *d,
                      int ndim[2])
{
    bool front = row->kind == GRAM_LAYER_CONVOLUTION || row->kind == GRAM_LAYER_GROUP_NORM;
    bool wide = row->kind == GRAM_LAYER_NORM && l->normalized == 2;
    int64_t positions = 1;
    int n = 0;

    a[n] = d[n] = row->n, n++;
    if (front)
        a[n] = row->in, d[n] = row->out, n++;
    for (int i = 0; i < row->dims; i++, n++) {
        a[n] = d[n] = row->size[i];
        if (row->kind == GRAM_LAYER_CONVOLUTION)
            d[n] = (a[n] + 2 * l->padding[i] - l->dilation[i] * (l->kernel[i] - 1) - 1) /
                       l->stride[i] +
                   1;
        positions *= d[n];
    }
    ndim[0] = ndim[1] = n;
    if (!front && row->kind != GRAM_LAYER_EMBEDDING)
        a[ndim[0]++] = row->in;
    if (!front)
        d[ndim[1]++] = row->out;
    if (wide)
        a[ndim[0]++] = 2, d[ndim[1]++] = 2;
    return positions;
}

static void put_nan(struct test_tensor *t)
{
    int64_t each = t->t.shape[0] ? test_count(&t->t) / t->t.shape[0] : 0;

    for (int64_t i = 0; i < each; i++)
        test_put(&t->t, each + i, NAN);
}

void layer_create(struct harness *h, const struct layer_row *row, struct layer_problem *p)
{
    int64_t a[GRAM_MAX_DIMS], d[GRAM_MAX_DIMS], positions, groups = or_one(row->groups);
    bool table = row->kind == GRAM_LAYER_EMBEDDING;
    bool affine = row->kind == GRAM_LAYER_NORM || row->kind == GRAM_LAYER_GROUP_NORM;
    int ndim[2];

    *p = (struct layer_problem){.row = row, .dtype = row->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32};
    make_layer(row, &p->layer);
    positions = shapes(row, &p->layer, a, d, ndim);
    test_tensor_create(h, &p->a, table ? row->rows_dtype : row->dtype, row->layout[0], ndim[0], a);
    test_tensor_create(h, &p->d, row->dtype, row->layout[1], ndim[1], d);
    if (table)
        test_fill_integers(h, &p->a, (int)row->in);
    else
        test_fill_normal(h, &p->a, 0.2, 1);
    test_fill_normal(h, &p->d, 0, 1);
    if (row->nan)
        put_nan(&p->d);
    test_tensor_freeze(&p->a);
    test_tensor_freeze(&p->d);
    p->reference = (struct reference_layer){.layer = &p->layer,
                                            .a = &p->a.t,
                                            .d = &p->d.t,
                                            .samples = row->n,
                                            .positions = positions,
                                            .in = row->in / (affine ? 1 : groups),
                                            .out = row->out / (affine ? 1 : groups)};
    if (row->kind == GRAM_LAYER_CONVOLUTION)
        for (int i = 0; i < row->dims; i++)
            p->reference.in *= p->layer.kernel[i];
    if (affine && p->layer.normalized == 2)
        p->reference.in *= 2, p->reference.out *= 2;
}

void layer_destroy(struct harness *h, struct layer_problem *p)
{
    test_tensor_destroy(h, &p->a, "activations");
    test_tensor_destroy(h, &p->d, "gradients");
}

int layer_weight_shape(const struct layer_problem *p, int leading, int64_t *shape)
{
    const struct layer_row *row = p->row;
    int n = leading;

    if (row->kind == GRAM_LAYER_EMBEDDING) {
        shape[n++] = row->in, shape[n++] = row->out;
        return n;
    }
    shape[n++] = row->out;
    if (row->kind == GRAM_LAYER_LINEAR)
        shape[n++] = row->in;
    if (row->kind == GRAM_LAYER_NORM && p->layer.normalized == 2)
        shape[n++] = 2;
    if (row->kind != GRAM_LAYER_CONVOLUTION)
        return n;
    shape[n++] = row->in / p->layer.groups;
    for (int i = 0; i < row->dims; i++)
        shape[n++] = p->layer.kernel[i];
    return n;
}

static bool layer_from_args(const struct case_args *args, struct layer_row *row)
{
    if (args->dtype == GRAM_I32 || args->dtype == GRAM_I64) {
        fprintf(stderr, "dtype is an integer, expected f32, f64, f16 or bf16\n");
        return false;
    }
    *row = (struct layer_row){.kind = GRAM_LAYER_LINEAR,
                              .n = args->sizes[0],
                              .dims = 1,
                              .size = {args->sizes[1]},
                              .in = args->sizes[2],
                              .out = args->sizes[3],
                              .bias = case_number(args, "bias", 1) != 0,
                              .dtype = args->dtype};
    return true;
}

void *layer_bench(struct harness *h, const struct case_args *args, size_t size)
{
    void *zeros = calloc(1, size);

    if (!zeros)
        (void)harness_no_memory(h, "the problem");
    else if (!layer_from_args(args, zeros)) {
        free(zeros);
        return NULL;
    }
    return zeros;
}

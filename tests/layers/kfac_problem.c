/*
 * kfac_problem.c - a layer in gram_kfac with its gradient, its data, and what is right, naively
 *
 * SPDX-License-Identifier: MIT
 */
#include "kfac_problem.h"
#include "check/harness/dense_data.h"
#include "check/reference/reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void kfac_open(struct harness *h, struct kfac_one *o, gram_layer_kind kind, int64_t inputs,
               int64_t outputs, bool bias)
{
    const gram_layer *layers[] = {&o->layer};

    o->layer = (gram_layer)GRAM_LAYER_INIT;
    o->layer.kind = kind, o->layer.bias = bias;
    o->layer.rows = inputs;
    o->inputs = inputs, o->outputs = outputs;
    o->rows = outputs, o->cols = inputs + bias;
    CHECK(h, gram_kfac_create(h->g, layers, &inputs, &outputs, 1, &o->options, &o->kfac) == GRAM_OK,
          "%s", gram_message(h->g));
    for (int i = 0; i < KFAC_MOST; i++) {
        o->weight[i] = test_uniform(h) - 0.5, o->bias[i] = test_uniform(h) - 0.5;
        o->to_weight[i] = o->to_bias[i] = -7;
    }
}

gram_status kfac_direct(struct harness *h, struct kfac_one *o, double rate)
{
    bool embedding = o->layer.kind == GRAM_LAYER_EMBEDDING;
    int64_t r = embedding ? o->inputs : o->outputs, c = embedding ? o->outputs : o->inputs;
    gram_tensor weight = gram_matrix(o->weight, r, c, GRAM_F64);
    gram_tensor bias = gram_vector(o->bias, o->outputs, GRAM_F64);
    gram_tensor to_weight = gram_matrix(o->to_weight, r, c, GRAM_F64);
    gram_tensor to_bias = gram_vector(o->to_bias, o->outputs, GRAM_F64);
    const gram_tensor *from[] = {&weight, &bias};
    gram_tensor *to[] = {&to_weight, &to_bias};

    return gram_kfac_precondition(h->g, o->kfac, rate, from, o->layer.bias ? from + 1 : NULL, to,
                                  o->layer.bias ? to + 1 : NULL);
}

double kfac_number(const struct kfac_one *o, bool direction, int64_t row, int64_t col)
{
    const double *weight = direction ? o->to_weight : o->weight;
    const double *bias = direction ? o->to_bias : o->bias;

    if (o->layer.kind == GRAM_LAYER_EMBEDDING)
        return weight[col * o->rows + row];
    return col == o->inputs ? bias[row] : weight[row * o->inputs + col];
}

void kfac_check(struct harness *h, const struct kfac_one *o, const double *dense, double factor,
                double tolerance)
{
    int64_t count = o->rows * o->cols;
    double *a = dense_doubles(count * count), *v = dense_doubles(count), most = 0;

    memcpy(a, dense, (size_t)(count * count) * sizeof *a);
    for (int64_t i = 0; i < count; i++)
        v[i] = kfac_number(o, false, i / o->cols, i % o->cols);
    reference_solve(count, 1, a, v);
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs(v[i]));
    for (int64_t i = 0; i < count; i++) {
        double got = kfac_number(o, true, i / o->cols, i % o->cols);
        CHECK(h, fabs(got - factor * v[i]) <= tolerance * most, "number %lld is %.12g, not %.12g",
              (long long)i, got, factor * v[i]);
    }
    free(a);
    free(v);
}

void kfac_fill(struct harness *h, struct kfac_data *d, int64_t positions, int64_t inputs,
               int64_t outputs)
{
    *d = (struct kfac_data){
        .samples = KFAC_SAMPLES, .positions = positions, .inputs = inputs, .outputs = outputs};
    for (int64_t r = 0; r < KFAC_SAMPLES * positions; r++) {
        for (int64_t i = 0; i < inputs; i++)
            d->a[r * inputs + i] = test_uniform(h) - 0.3;
        for (int64_t o = 0; o < outputs; o++)
            d->g[r * outputs + o] =
                tanh(3 * d->a[r * inputs + o % inputs]) * (test_uniform(h) + 0.1 * (double)o);
    }
}

static gram_tensor tensor_of(double *data, const struct kfac_data *d, int64_t width)
{
    return gram_matrices(data, d->samples, d->positions, width, GRAM_F64);
}

gram_status kfac_learn(struct harness *h, struct kfac_one *o, struct kfac_data *d)
{
    gram_tensor a = tensor_of(d->a, d, d->inputs), g = tensor_of(d->g, d, d->outputs);

    return gram_kfac_update(h->g, o->kfac, 0, &a, &g);
}

double kfac_sample(const struct kfac_data *d, int64_t n, int64_t row, int64_t col)
{
    double sum = 0;

    for (int64_t s = 0; s < d->positions; s++) {
        int64_t r = n * d->positions + s;
        sum += d->g[r * d->outputs + row] * (col == d->inputs ? 1 : d->a[r * d->inputs + col]);
    }
    return sum;
}

void kfac_fisher(const struct kfac_data *d, bool bias, double shift, double *f)
{
    int64_t cols = d->inputs + bias, count = d->outputs * cols;

    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < count; j++) {
            double sum = 0;
            for (int64_t n = 0; n < d->samples; n++)
                sum +=
                    kfac_sample(d, n, i / cols, i % cols) * kfac_sample(d, n, j / cols, j % cols);
            f[i * count + j] = sum / (double)d->samples + (i == j ? shift : 0);
        }
}

gram_tensor kfac_state(struct harness *h, gram_kfac *kfac, const char *wanted)
{
    gram_tensor view = {0};
    const char *name = "";

    for (int64_t i = 0; gram_kfac_state_at(h->g, kfac, i, &name, &view) == GRAM_OK; i++)
        if (strcmp(name, wanted) == 0)
            return view;
    CHECK(h, false, "there is no %s", wanted);
    return view;
}

/*
 * sample_grad_problem.c - runs gram_sample_grad and compares: see sample_grad_problem.h
 *
 * SPDX-License-Identifier: MIT
 */
#include "sample_grad_problem.h"
#include <math.h>
#include <stdlib.h>

struct problem {
    const struct sample_row *row;
    struct layer_problem p;
    struct test_tensor out[OUTPUTS], coefficients;
    gram_tensor *a, *d, *outs[OUTPUTS], *given;      /* where the context's device is */
    double *weight, *weight_size, *bias, *bias_size; /* N gradients, and of absolute values */
    int64_t weights, biases;                         /* of a sample */
};

static const char *const names[] = {"weight", "bias", "norms", "sum_weight", "sum_bias"};

static bool wants(const struct sample_row *row, int output)
{
    if (row->layer.kind == GRAM_LAYER_EMBEDDING && (output == 1 || output == 4))
        return false; /* no bias */
    return row->wanted == 0 || (row->wanted >> output & 1);
}

static gram_status call(struct harness *h, void *problem, gram_workspace *need)
{
    struct problem *q = problem;
    gram_sample_grad_options o = GRAM_SAMPLE_GRAD_OPTIONS_INIT;
    gram_sample_grads out = {0};
    gram_tensor **const at[] = {&out.weight, &out.bias, &out.norms, &out.sum_weight, &out.sum_bias};

    for (int i = 0; i < OUTPUTS; i++)
        if (wants(q->row, i))
            *at[i] = q->outs[i];
    o.scale = q->row->scale != 0 ? q->row->scale : 1;
    o.clip = q->row->clip;
    o.accumulate = q->row->accumulate;
    o.method = q->row->method;
    if (q->row->coefficients)
        o.coefficients = q->given;
    return need ? gram_sample_grad_workspace(h->g, &q->p.layer, q->a, q->d, &o, &out, need)
                : gram_sample_grad(h->g, &q->p.layer, q->a, q->d, &o, &out);
}

static void create_outputs(struct harness *h, struct problem *q)
{
    const struct layer_row *l = &q->row->layer;
    int64_t shape[GRAM_MAX_DIMS] = {l->n};
    int all = layer_weight_shape(&q->p, 1, shape), biases = l->kind == GRAM_LAYER_NORM ? all : 2;
    const int first[] = {0, 0, 0, 1, 1}, last[] = {all, biases, 1, all, biases};

    for (int i = 0; i < OUTPUTS; i++) {
        test_tensor_create(h, &q->out[i], q->p.dtype, l->out_layout, last[i] - first[i],
                           shape + first[i]);
        if (q->row->accumulate)
            for (int64_t e = 0; e < test_count(&q->out[i].t); e++)
                test_put(&q->out[i].t, e, 0.25 * (double)(e % 5));
    }
    test_tensor_create(h, &q->coefficients, q->p.dtype, l->out_layout, 1, shape);
    for (int64_t n = 0; n < l->n; n++)
        test_put(&q->coefficients.t, n, n == 1 ? 0 : 0.5 + 0.25 * (double)n);
    test_tensor_freeze(&q->coefficients);
    q->weights = q->biases = 1;
    for (int i = 1; i < all; i++)
        q->weights *= shape[i];
    for (int i = 1; i < biases; i++)
        q->biases *= shape[i];
}

/* Every sample's gradient by the reference. */
static bool make_gradients(struct harness *h, struct problem *q)
{
    const struct reference_layer *r = &q->p.reference;
    bool table = q->row->layer.kind == GRAM_LAYER_EMBEDDING;
    int64_t cols = table ? q->row->layer.out : q->biases > 0 ? q->weights / q->biases : 1;
    size_t count = (size_t)(r->samples * q->weights), biases = (size_t)(r->samples * q->biases);
    double scale = q->row->scale != 0 ? q->row->scale : 1;

    q->weight = calloc(count + 1, sizeof *q->weight);
    q->weight_size = calloc(count + 1, sizeof *q->weight_size);
    q->bias = calloc(biases + 1, sizeof *q->bias);
    q->bias_size = calloc(biases + 1, sizeof *q->bias_size);
    if (!CHECK(h, q->weight && q->weight_size && q->bias && q->bias_size, "no memory"))
        return false;
    for (int64_t i = 0; cols > 0 && i < (int64_t)count; i++) {
        int64_t n = i / q->weights, row = i % q->weights / cols, col = i % cols;
        const int64_t at[3] = {n, table ? col : row, table ? row : col};
        q->weight[i] = scale * reference_sample_weight(r, at, &q->weight_size[i]);
        q->weight_size[i] *= fabs(scale);
    }
    for (int64_t i = 0; !table && i < (int64_t)biases; i++) {
        q->bias[i] = scale * reference_sample_bias(r, (int64_t[]){i / q->biases, i % q->biases},
                                                   &q->bias_size[i]);
        q->bias_size[i] *= fabs(scale);
    }
    return true;
}

/* Roundings of a sum: of terms, and of what is computed once. */
static double roundings(const struct problem *q, double terms)
{
    return (terms + 16) * test_eps(q->p.dtype);
}

static void compare(struct harness *h, int output, int64_t at, double got, const double want[2])
{
    if (isnan(want[0]))
        CHECK(h, isnan(got), "element %lld of %s is %g, expected NaN", (long long)at, names[output],
              got);
    else
        CHECK(h, fabs(got - want[0]) <= want[1],
              "element %lld of %s is %.9g, expected %.9g +- %.2g", (long long)at, names[output],
              got, want[0], want[1]);
}

static void check_gradients(struct harness *h, const struct problem *q)
{
    double factor = roundings(q, (double)q->p.reference.positions);

    for (int64_t i = 0; wants(q->row, 0) && i < test_count(&q->out[0].t); i++)
        compare(h, 0, i, test_at(&q->out[0].t, i),
                (double[]){q->weight[i], factor * q->weight_size[i]});
    for (int64_t i = 0; wants(q->row, 1) && i < test_count(&q->out[1].t); i++)
        compare(h, 1, i, test_at(&q->out[1].t, i),
                (double[]){q->bias[i], factor * q->bias_size[i]});
}

/* The square of the norm of a sample, and of its absolute values. */
static void square_of(const struct problem *q, int64_t n, double square[2])
{
    square[0] = square[1] = 0;
    for (int64_t i = n * q->weights; i < (n + 1) * q->weights; i++) {
        square[0] += q->weight[i] * q->weight[i];
        square[1] += q->weight_size[i] * q->weight_size[i];
    }
    for (int64_t i = n * q->biases; q->row->layer.bias && i < (n + 1) * q->biases; i++) {
        square[0] += q->bias[i] * q->bias[i];
        square[1] += q->bias_size[i] * q->bias_size[i];
    }
}

/* Of squares, as a ghost norm has its error there. */
static void check_norms(struct harness *h, const struct problem *q)
{
    const struct reference_layer *r = &q->p.reference;
    double terms = (double)(r->positions + (r->in > r->out ? r->in : r->out));

    for (int64_t n = 0; wants(q->row, 2) && n < r->samples; n++) {
        double square[2], got = test_at(&q->out[2].t, n), before;
        before = q->row->accumulate ? 0.25 * (double)(n % 5) : 0;
        square_of(q, n, square);
        compare(h, 2, n, got * got,
                (double[]){square[0] + before * before,
                           roundings(q, terms) * (square[1] + before * before)});
    }
}

/* What a sample is multiplied by. */
static double coefficient(const struct problem *q, int64_t n)
{
    double square[2], norm;

    if (q->row->coefficients)
        return test_at(&q->coefficients.t, n);
    if (q->row->clip == 0)
        return 1;
    square_of(q, n, square);
    norm = sqrt(square[0]);
    return isfinite(norm) ? fmin(1, q->row->clip / (norm + 1e-6)) : 0;
}

static void check_sum(struct harness *h, const struct problem *q, int output)
{
    const struct reference_layer *r = &q->p.reference;
    bool bias = output == 4;
    const double *value = bias ? q->bias : q->weight;
    const double *size = bias ? q->bias_size : q->weight_size;
    int64_t each = bias ? q->biases : q->weights;
    /* of products, and of the norms that coefficients come from */
    double terms = (double)(r->samples * r->positions + r->positions + r->in + r->out);

    if (!wants(q->row, output))
        return;
    for (int64_t i = 0; i < each; i++) {
        double want = q->row->accumulate ? 0.25 * (double)(i % 5) : 0, bound = want;
        for (int64_t n = 0; n < r->samples; n++) {
            double c = coefficient(q, n);
            if (c == 0)
                continue;
            want += c * value[n * each + i];
            bound += c * size[n * each + i];
        }
        compare(h, output, i, test_at(&q->out[output].t, i),
                (double[]){want, bound * roundings(q, terms)});
    }
}

/* The call where the context's device is, in memory of that device. */
static bool run_there(struct harness *h, struct problem *q)
{
    struct test_tensor *const own[] = {&q->p.a, &q->p.d, &q->coefficients};
    gram_tensor **const at[] = {&q->a, &q->d, &q->given};
    struct test_pair pairs[OUTPUTS + 3];
    struct test_copy there[OUTPUTS + 3];

    for (int i = 0; i < OUTPUTS + 3; i++) {
        pairs[i] = (struct test_pair){i < 3 ? own[i] : &q->out[i - 3], &there[i]};
        *(i < 3 ? at[i] : &q->outs[i - 3]) = &there[i].t;
    }
    return test_call_there(h, pairs, LENGTH(pairs), call, q);
}

void sample_row_check(struct harness *h, const struct sample_row *row)
{
    struct problem q = {.row = row};

    layer_create(h, &q.row->layer, &q.p);
    create_outputs(h, &q);
    if (make_gradients(h, &q) && run_there(h, &q)) {
        check_gradients(h, &q);
        check_norms(h, &q);
        check_sum(h, &q, 3);
        check_sum(h, &q, 4);
    }
    for (int i = 0; i < OUTPUTS; i++)
        test_tensor_destroy(h, &q.out[i], names[i]);
    test_tensor_destroy(h, &q.coefficients, "coefficients");
    free(q.weight), free(q.weight_size), free(q.bias), free(q.bias_size);
    layer_destroy(h, &q.p);
}

/* ---- Norms of a linear layer of any size --------------------------------------------------- */

struct bench {
    struct sample_row row;
    struct problem q;
};

static gram_status run(gram_context *g, void *state)
{
    struct bench *b = state;
    struct harness h = {.g = g};

    return call(&h, &b->q, NULL);
}

/* The norms of a few samples. */
static double worst(struct harness *h, void *state)
{
    struct bench *b = state;
    const struct reference_layer *r = &b->q.p.reference;
    double worst = 0;

    for (int i = 0; i < 2 && r->samples > 0; i++) {
        int64_t n = (int64_t)(test_uniform(h) * (double)r->samples);
        double square = 0, size, got = test_at(&b->q.out[2].t, n);
        for (int64_t o = 0; o < r->out; o++) {
            for (int64_t k = 0; k < r->in; k++) {
                double w = reference_sample_weight(r, (int64_t[]){n, o, k}, &size);
                square += w * w;
            }
            if (b->row.layer.bias) {
                double w = reference_sample_bias(r, (int64_t[]){n, o}, &size);
                square += w * w;
            }
        }
        size = fabs(got * got - square) / (square * roundings(&b->q, (double)(r->in + r->out)));
        worst = fmax(worst, square > 0 ? size : got);
    }
    return worst;
}

static void destroy(void *state)
{
    struct bench *b = state;
    struct harness h = {0};

    test_tensor_destroy(&h, &b->q.out[2], "norms");
    layer_destroy(&h, &b->q.p);
    free(b);
}

bool sample_prepare(struct harness *h, const struct case_args *args, struct case_problem *out)
{
    struct bench *b = layer_bench(h, args, sizeof *b);
    const struct layer_row *l;

    if (!b)
        return false;
    l = &b->row.layer;
    b->row.wanted = NORMS;
    b->q.row = &b->row;
    layer_create(h, l, &b->q.p);
    free(b->q.p.a.frozen); /* who runs the problem may change what goes in */
    b->q.p.a.frozen = NULL;
    test_tensor_create(h, &b->q.out[2], b->q.p.dtype, ROW_MAJOR, 1, &l->n);
    b->q.a = &b->q.p.a.t, b->q.d = &b->q.p.d.t, b->q.outs[2] = &b->q.out[2].t;
    *out = (struct case_problem){
        .state = b,
        .tensors = {b->q.a, b->q.d, b->q.outs[2]},
        .run = run,
        .error = worst,
        .destroy = destroy,
        .work = (double)l->n * (double)l->size[0],
        .unit = "positions"
    };
    out->bytes = out->work * (double)(l->in + l->out) * (double)gram_dtype_size(l->dtype);
    return true;
}

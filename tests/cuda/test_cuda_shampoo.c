/*
 * test_cuda_shampoo.c - Shampoo and Muon on a GPU where products are of f16 and bf16
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/device_memory.h"
#include "check/harness/harness.h"
#include "tests/optim/optimizer_change.h"
#include <math.h>
#include <stdlib.h>

enum {
    STEPS = 2
};

static void *stream;

static const struct shape {
    int ndim;
    int64_t size[3];
    double scale; /* of its gradients */
    gram_graft graft;
    double epsilon;
    bool relative;
} shapes[] = {
    {2,     {96, 96},     1, GRAM_GRAFT_NONE, 1e-6, false}, /* sums rounded towards 0 would fail */
    {2,     {96, 70},     1, GRAM_GRAFT_NONE, 1e-3,  true},
    {2,     {96, 70},     1, GRAM_GRAFT_ADAM, 1e-3,  true},
    {2,    {64, 130}, 1e-18, GRAM_GRAFT_NONE, 1e-3,  true}, /* f16 alone would lose all of it */
    {3, {64, 64, 65},   1e9,  GRAM_GRAFT_SGD, 1e-3,  true},
};

/* A parameter with its gradient and direction, in f64 here and in f32 there. */
struct pair {
    double *w, *g, *p;
    float *narrow, *there; /* value, gradient, direction */
    gram_tensor own[3], other[3];
    int64_t count;
};

static void open_pair(const struct shape *s, struct pair *q)
{
    q->count = 1;
    for (int i = 0; i < s->ndim; i++)
        q->count *= s->size[i];
    q->w = calloc(3 * (size_t)q->count, sizeof *q->w);
    q->narrow = calloc(3 * (size_t)q->count, sizeof *q->narrow);
    q->there = device_allocate(3 * (size_t)q->count * sizeof *q->there);
    if (!q->w || !q->narrow || !q->there)
        exit(2);
    q->g = q->w + q->count;
    q->p = q->g + q->count;
    (void)device_upload(q->there, q->narrow, 3 * (size_t)q->count * sizeof *q->narrow);
    for (int i = 0; i < 3; i++) {
        gram_tensor t = {.ndim = s->ndim};
        for (int d = s->ndim - 1; d >= 0; d--) {
            t.shape[d] = s->size[d];
            t.stride[d] = d == s->ndim - 1 ? 1 : t.stride[d + 1] * t.shape[d + 1];
        }
        q->own[i] = q->other[i] = t;
        q->own[i].dtype = GRAM_F64;
        q->own[i].data = q->w + i * q->count;
        q->other[i].dtype = GRAM_F32;
        q->other[i].data = q->there + i * q->count;
        q->other[i].device = (gram_device){GRAM_CUDA, 0};
    }
}

static void close_pair(struct pair *q)
{
    free(q->w);
    free(q->narrow);
    device_release(q->there);
}

/* New gradients, the same on both sides; rows differ in size. */
static void draw(struct harness *h, const struct shape *s, struct pair *q)
{
    for (int64_t i = 0; i < q->count; i++) {
        double size = s->scale * (1 + (double)(i / 64 % 7));
        q->narrow[q->count + i] = (float)(size * (test_uniform(h) - 0.5));
        q->g[i] = (double)q->narrow[q->count + i];
    }
    (void)device_upload(q->there, q->narrow, 3 * (size_t)q->count * sizeof *q->narrow);
}

/* |there - here| / |here| of the directions. */
static double error_of(struct pair *q)
{
    double sum = 0, all = 0;

    (void)device_download(q->narrow, q->there, 3 * (size_t)q->count * sizeof *q->narrow);
    for (int64_t i = 0; i < q->count; i++) {
        double d = (double)q->narrow[2 * q->count + i] - q->p[i];
        sum += d * d;
        all += q->p[i] * q->p[i];
    }
    return sqrt(sum / all);
}

/* Of STEPS steps of a shape on the device beside the same in f64. */
static double most_error(struct harness *h, gram_context *g, const struct shape *s,
                         gram_optimizer_options o)
{
    struct pair q;
    gram_optimizer *here = NULL, *there = NULL;
    const gram_tensor *w[2], *grad[2];
    gram_tensor *p[2];
    double most = 0, error;

    open_pair(s, &q);
    w[0] = &q.own[0], grad[0] = &q.own[1], p[0] = &q.own[2];
    w[1] = &q.other[0], grad[1] = &q.other[1], p[1] = &q.other[2];
    CHECK(h, gram_optimizer_create(g, &o, &w[1], 1, &there) == GRAM_OK, "%s", gram_message(g));
    o.root = GRAM_POWER_EIGH;
    CHECK(h, gram_optimizer_create(h->g, &o, &w[0], 1, &here) == GRAM_OK, "%s", gram_message(h->g));
    for (int i = 0; i < STEPS; i++) {
        draw(h, s, &q);
        CHECK(h, gram_optimizer_direction(h->g, here, &w[0], &grad[0], &p[0], NULL) == GRAM_OK,
              "%s", gram_message(h->g));
        CHECK(h, gram_optimizer_direction(g, there, &w[1], &grad[1], &p[1], NULL) == GRAM_OK, "%s",
              gram_message(g));
        CHECK(h, gram_context_synchronize(g) == GRAM_OK, "%s", gram_message(g));
        error = error_of(&q);
        most = error <= most ? most : error;
    }
    gram_optimizer_destroy(here);
    gram_optimizer_destroy(there);
    close_pair(&q);
    return most;
}

/* Three products of f16 are as near to f64 as products of f32 are, whatever the gradients' size. */
static void parts_of_f16(struct harness *h)
{
    gram_context *g = test_cuda_context(h, stream);

    for (int i = 0; g && i < LENGTH(shapes); i++) {
        gram_optimizer_options o = optimizer_plain();
        double parts, whole;
        o.epsilon = shapes[i].epsilon;
        o.epsilon_relative = shapes[i].relative;
        o.beta1 = shapes[i].graft ? 0.9 : 0;
        o.beta2 = 0.95;
        o.bias_correction = shapes[i].relative;
        o.merge = 0;
        o.root = GRAM_POWER_MINIMAX;
        o.graft = shapes[i].graft;
        harness_seed(h, "shampoo", i);
        parts = most_error(h, g, &shapes[i], o);
        o.precision = GRAM_POWER_PRECISION_F32;
        harness_seed(h, "shampoo", i); /* the same gradients */
        whole = most_error(h, g, &shapes[i], o);
        CHECK(h, parts <= 2 * whole + 2e-6, "shape %d: %g, in f32 %g", i, parts, whole);
    }
    gram_context_destroy(g);
}

/* |the device's direction - the CPU's in f32| over its length, of a random matrix of f32. */
static double muon_error(struct harness *h, gram_context *g, const int64_t size[2],
                         gram_power_precision precision)
{
    const int64_t count = size[0] * size[1];
    gram_optimizer_options o = {.size = sizeof o};
    float *here = calloc((size_t)(4 * count), sizeof *here), *there;
    double sum = 0, all = 0;
    void *memory = NULL;

    CHECK(h, here && gram_memory_allocate(g, (size_t)count * 3 * sizeof *here, &memory) == GRAM_OK,
          "no memory");
    (void)gram_optimizer_defaults(GRAM_MUON, &o);
    for (int64_t i = 0; i < count; i++)
        here[count + i] = (float)(test_uniform(h) - 0.5);
    CHECK(h, gram_memory_copy(g, memory, here, (size_t)count * 3 * sizeof *here) == GRAM_OK, "%s",
          gram_message(g));
    for (int i = 0; i < 2; i++) { /* values, gradients, directions */
        gram_context *context = i ? g : h->g;
        gram_tensor t[3];
        const gram_tensor *values = &t[0], *gradients = &t[1];
        gram_tensor *directions = &t[2];
        gram_optimizer *optimizer = NULL;
        o.precision = i ? precision : GRAM_POWER_PRECISION_F32;
        for (int j = 0; j < 3; j++) {
            t[j] =
                gram_matrix((float *)(i ? memory : here) + j * count, size[0], size[1], GRAM_F32);
            t[j].device = (gram_device){i ? GRAM_CUDA : GRAM_CPU, 0};
        }
        CHECK(h,
              gram_optimizer_create(context, &o, &values, 1, &optimizer) == GRAM_OK &&
                  gram_optimizer_direction(context, optimizer, &values, &gradients, &directions,
                                           NULL) == GRAM_OK,
              "%s", gram_message(context));
        gram_optimizer_destroy(optimizer);
    }
    there = here + 3 * count;
    CHECK(h,
          gram_memory_copy(g, there, (float *)memory + 2 * count, (size_t)count * sizeof *there) ==
                  GRAM_OK &&
              gram_context_synchronize(g) == GRAM_OK,
          "%s", gram_message(g));
    for (int64_t i = 0; i < count; i++) {
        double d = (double)there[i] - (double)here[2 * count + i];
        sum += d * d;
        all += (double)here[2 * count + i] * (double)here[2 * count + i];
    }
    gram_memory_free(g, memory, (size_t)count * 3 * sizeof *here);
    free(here);
    return sqrt(sum / all);
}

/* Muon once multiplied f32 at the speed of f32; 8 bits are enough, and f32 is there for who asks.
 */
static void muon_in_bf16(struct harness *h)
{
    static const int64_t sizes[][2] = {
        {40, 24},
        {24, 70},
        {33, 33},
        { 1,  9}
    };
    gram_context *g = test_cuda_context(h, NULL);

    for (int i = 0; g && i < LENGTH(sizes); i++) {
        double rough = muon_error(h, g, sizes[i], GRAM_POWER_PRECISION_AUTO);
        double fine = muon_error(h, g, sizes[i], GRAM_POWER_PRECISION_F32);
        CHECK(h, rough > 1e-4 && rough < 0.05, "bf16 differs by %g", rough);
        CHECK(h, fine < 1e-4, "f32 differs by %g", fine);
    }
    gram_context_destroy(g);
}

static const struct test_function tests[] = {
    {"parts_of_f16", parts_of_f16},
    {"muon_in_bf16", muon_in_bf16},
};

int main(void)
{
    stream = device_stream_or_skip();
    return stream ? harness_run_tests(tests, LENGTH(tests)) : 77;
}

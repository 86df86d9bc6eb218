/*
 * test_kfac_graph.c - steps of K-FAC and EKFAC in a CUDA graph: averages, inverses and directions
 * of new numbers at every replay, as calls make them
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/device_memory.h"
#include "check/harness/harness.h"
#include <math.h>
#include <string.h>

enum {
    LAYERS = 3,
    PARTS = 4, /* of a layer: what goes in, gradients of what comes out, of weight and bias */
    SAMPLES = 5,
    MOST = 512, /* numbers of a step */
    STEPS = 3,
    BYTES = MOST * sizeof(double)
};

/* A linear layer of one position, of two, and a convolution. */
static const struct part {
    int ndim;
    int64_t shape[4];
} parts[LAYERS][PARTS] = {
    {      {2, {SAMPLES, 3}},       {2, {SAMPLES, 2}},       {2, {2, 3}}, {1, {2}}},
    {   {3, {SAMPLES, 2, 7}},    {3, {SAMPLES, 2, 4}},       {2, {4, 7}}, {1, {4}}},
    {{4, {SAMPLES, 1, 4, 3}}, {4, {SAMPLES, 2, 3, 2}}, {4, {2, 1, 2, 2}}, {1, {2}}},
};

static const int64_t inputs[LAYERS] = {3, 7, 1}, outputs[LAYERS] = {2, 4, 2};

static const struct row {
    const char *why;
    int corrected;
    gram_kfac_damping damping;
    gram_dtype state;
    double bound;
} rows[] = {
    {              "EKFAC", 1,    GRAM_KFAC_EXACT, GRAM_F64, 1e-11},
    {       "EKFAC in f32", 1,    GRAM_KFAC_EXACT, GRAM_F32,  1e-4},
    {        "by Cholesky", 0, GRAM_KFAC_FACTORED, GRAM_F64, 1e-11},
    {"by Cholesky, in f32", 0, GRAM_KFAC_FACTORED, GRAM_F32,  1e-4},
};

static void *stream;

/* An object with its tensors: numbers of this step, directions, and numbers of the next steps. */
struct there {
    gram_context *g;
    gram_kfac *kfac;
    char *memory;
    gram_tensor t[LAYERS][PARTS], to[LAYERS][2];
    double out[MOST];
};

static gram_tensor place(double **at, const struct part *p)
{
    gram_tensor t = {
        .data = *at, .dtype = GRAM_F64, .device = {GRAM_CUDA, 0},
                .ndim = p->ndim
    };
    int64_t count = 1;

    for (int d = p->ndim - 1; d >= 0; count *= p->shape[d--]) {
        t.shape[d] = p->shape[d];
        t.stride[d] = count;
    }
    *at += count;
    return t;
}

static bool open_there(struct harness *h, struct there *t, gram_context *g, const struct row *row)
{
    gram_layer linear = GRAM_LAYER_INIT, convolution = linear;
    const gram_layer *layers[LAYERS] = {&linear, &linear, &convolution};
    gram_kfac_options options = GRAM_KFAC_OPTIONS_INIT;
    double *at, *to;
    void *memory;

    *t = (struct there){.g = g};
    linear.bias = convolution.bias = 1;
    convolution.kind = GRAM_LAYER_CONVOLUTION;
    convolution.kernel[0] = convolution.kernel[1] = 2;
    options.corrected = row->corrected;
    options.damping = row->damping;
    options.state = row->state;
    if (!CHECK(h, gram_memory_allocate(g, (2 + STEPS) * (size_t)BYTES, &memory) == GRAM_OK, "%s",
               gram_message(g)))
        return false;
    t->memory = memory;
    at = memory, to = at + MOST;
    for (int i = 0; i < LAYERS; i++)
        for (int j = 0; j < PARTS; j++) {
            t->t[i][j] = place(&at, &parts[i][j]);
            if (j >= 2)
                t->to[i][j - 2] = place(&to, &parts[i][j]);
        }
    return CHECK(h, at <= (double *)memory + MOST, "MOST is too small") &&
           CHECK(h,
                 gram_kfac_create(g, layers, inputs, outputs, LAYERS, &options, &t->kfac) ==
                     GRAM_OK,
                 "%s", gram_message(g));
}

static void close_there(struct there *t)
{
    gram_kfac_destroy(t->kfac);
    gram_memory_free(t->g, t->memory, (2 + STEPS) * (size_t)BYTES);
}

/* The numbers of the next step come, those behind it move up; then the step. */
static bool step(void *arg)
{
    struct there *t = arg;
    const gram_tensor *weights[LAYERS], *biases[LAYERS];
    gram_tensor *to_weights[LAYERS], *to_biases[LAYERS];

    if (gram_memory_copy(t->g, t->memory, t->memory + 2 * BYTES, BYTES) != GRAM_OK)
        return false;
    for (int i = 2; i < 1 + STEPS; i++)
        if (gram_memory_copy(t->g, t->memory + i * BYTES, t->memory + (i + 1) * BYTES, BYTES) !=
            GRAM_OK)
            return false;
    for (int i = 0; i < LAYERS; i++) {
        if (gram_kfac_update(t->g, t->kfac, i, &t->t[i][0], &t->t[i][1]) != GRAM_OK)
            return false;
        weights[i] = &t->t[i][2], biases[i] = &t->t[i][3];
        to_weights[i] = &t->to[i][0], to_biases[i] = &t->to[i][1];
    }
    return gram_kfac_refresh(t->g, t->kfac) == GRAM_OK &&
           gram_kfac_update(t->g, t->kfac, 0, &t->t[0][0], &t->t[0][1]) == GRAM_OK &&
           gram_kfac_precondition(t->g, t->kfac, 0.1, weights, biases, to_weights, to_biases) ==
               GRAM_OK;
}

static void send(struct harness *h, struct there *t, const double *numbers)
{
    CHECK(h,
          gram_memory_copy(t->g, t->memory + 2 * BYTES, numbers, STEPS * (size_t)BYTES) ==
                  GRAM_OK &&
              gram_context_synchronize(t->g) == GRAM_OK,
          "%s", gram_message(t->g));
}

static void fetch(struct harness *h, struct there *t)
{
    CHECK(h,
          gram_memory_copy(t->g, t->out, t->memory + BYTES, BYTES) == GRAM_OK &&
              gram_context_synchronize(t->g) == GRAM_OK,
          "%s", gram_message(t->g));
}

static void compare(struct harness *h, const struct there *called, const struct there *replayed,
                    double bound)
{
    double most = 0;
    int64_t count = 0;

    for (int i = 0; i < LAYERS; i++)
        count += test_count(&called->to[i][0]) + outputs[i];
    for (int64_t e = 0; e < count; e++)
        most = fmax(most, fabs(called->out[e]));
    for (int64_t e = 0; e < count; e++)
        CHECK(h, most > 0 && fabs(replayed->out[e] - called->out[e]) <= bound * most,
              "number %d is %.12g, not %.12g", (int)e, replayed->out[e], called->out[e]);
}

static void replay(struct harness *h, gram_context *g, const struct row *row)
{
    static double numbers[STEPS * MOST];
    gram_kfac_info info = {.size = sizeof info};
    struct there called, replayed;

    if (!open_there(h, &called, g, row) || !open_there(h, &replayed, g, row))
        return;
    for (int round = 0; round < 2; round++) { /* a graph is made of what has run once */
        for (int i = 0; i < STEPS * MOST; i++)
            numbers[i] = test_uniform(h) - 0.4;
        send(h, &called, numbers);
        send(h, &replayed, numbers);
        for (int i = 0; i < STEPS; i++)
            CHECK(h, step(&called), "%s", gram_message(g));
        for (int i = 0; round == 0 && i < STEPS; i++)
            CHECK(h, step(&replayed), "%s", gram_message(g));
        if (round == 1)
            CHECK(h, device_replay(stream, STEPS, step, &replayed), "no graph: %s",
                  gram_message(g));
        fetch(h, &called);
        fetch(h, &replayed);
        compare(h, &called, &replayed, row->bound);
    }
    CHECK(h,
          gram_kfac_get(g, replayed.kfac, &info) == GRAM_OK && info.skipped == 0 &&
              info.failed == 0,
          "%d skipped, %d failed", (int)info.skipped, (int)info.failed);
    close_there(&called);
    close_there(&replayed);
}

static void graphs(struct harness *h)
{
    gram_context *g = test_cuda_context(h, stream);

    for (int i = 0; g && i < LENGTH(rows); i++) {
        h->where = rows[i].why;
        replay(h, g, &rows[i]);
    }
    gram_context_destroy(g);
}

static const struct test_function tests[] = {
    {"graphs", graphs},
};

int main(void)
{
    stream = device_stream_or_skip();
    return stream ? harness_run_tests(tests, LENGTH(tests)) : 77;
}

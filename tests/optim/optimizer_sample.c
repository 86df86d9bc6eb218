/*
 * optimizer_sample.c - a small list of parameters with gradients, for the tests of optimizers
 *
 * SPDX-License-Identifier: MIT
 */
#include "optimizer_sample.h"
#include "optimizer_change.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double uniform(struct harness *h)
{
    return 2 * test_uniform(h) - 1;
}

static gram_tensor part(double *from, int i)
{
    switch (i) {
    case 0:
        return gram_matrix(from, 6, 5, GRAM_F64);
    case 1:
        return gram_vector(from + 30, 7, GRAM_F64);
    case 2:
        return (gram_tensor){.data = from + 37, .dtype = GRAM_F64};
    default:
        return gram_matrix(from, 0, 3, GRAM_F64);
    }
}

void sample_open(struct harness *h, struct sample *s)
{
    harness_seed(h, "sample", 0);
    for (int i = 0; i < SAMPLE_NUMBERS; i++)
        s->w[i] = uniform(h);
    for (int i = 0; i < SAMPLE; i++) {
        s->value[i] = part(s->w, i);
        s->grad[i] = part(s->g, i);
        s->dir[i] = part(s->p, i);
        s->values[i] = &s->value[i];
        s->gradients[i] = &s->grad[i];
        s->directions[i] = &s->dir[i];
    }
    sample_next(h, s);
}

void sample_call(struct harness *h, struct call *c)
{
    *c = (struct call){.options = optimizer_plain()};
    sample_open(h, &c->s);
    c->options.block = 4;
    c->options.epsilon = 1e-6;
}

void sample_send(struct harness *h, gram_context *g, const struct sample *s, void *memory)
{
    CHECK(h,
          gram_memory_copy(g, memory, s->w, sizeof s->w) == GRAM_OK &&
              gram_memory_copy(g, (char *)memory + sizeof s->w, s->g, sizeof s->g) == GRAM_OK &&
              gram_context_synchronize(g) == GRAM_OK,
          "%s", gram_message(g));
}

void sample_next(struct harness *h, struct sample *s)
{
    for (int i = 0; i < SAMPLE_NUMBERS; i++)
        s->g[i] = uniform(h);
}

gram_optimizer *sample_optimizer(struct harness *h, struct sample *s,
                                 const gram_optimizer_options *o)
{
    gram_optimizer *optimizer = NULL;
    gram_status status =
        gram_optimizer_create(h->g, o, (const gram_tensor *const *)s->values, SAMPLE, &optimizer);

    CHECK(h, status == GRAM_OK, "%s", gram_message(h->g));
    if (status != GRAM_OK)
        exit(1);
    return optimizer;
}

gram_optimizer_report sample_step(struct harness *h, struct sample *s, gram_optimizer *o)
{
    gram_optimizer_report report = {.size = sizeof report};

    CHECK(h, gram_optimizer_step(h->g, o, s->values, s->gradients, &report) == GRAM_OK, "%s",
          gram_message(h->g));
    return report;
}

void sample_spoil(struct harness *h, gram_context *g, gram_optimizer *o, double number)
{
    gram_optimizer_info info = {.size = sizeof info};

    CHECK(h, gram_optimizer_get(g, o, NULL, &info) == GRAM_OK, "%s", gram_message(g));
    for (int64_t i = 0; i < info.states; i++) {
        const char *name;
        gram_tensor view;
        CHECK(h, gram_optimizer_state_at(g, o, i, &name, &view) == GRAM_OK, "%s", gram_message(g));
        if (strncmp(name, "0.", 2) == 0 && strstr(name, ".factor."))
            CHECK(h,
                  gram_memory_copy(g, view.data, &number, sizeof number) == GRAM_OK &&
                      gram_context_synchronize(g) == GRAM_OK,
                  "%s", gram_message(g));
    }
}

/* ---- Low rank ----------------------------------------------------------------------------- */

enum {
    LOW_ROWS = 16,
    LOW_COLS = 4,
    LOW_VECTOR = 5,
    LOW = LOW_ROWS * LOW_COLS + LOW_VECTOR,
    LOW_STEPS = 16
};

enum low_kind {
    RANK_ONE,
    ZEROS,
    RANDOM,
    LOW_KINDS
};

/* Values, and gradients behind them, here and where the optimizer is. */
struct low {
    gram_context *g;
    gram_dtype dtype;
    double numbers[2 * LOW]; /* of the dtype */
    void *memory;
    gram_tensor value[2], grad[2], *values[2];
    const gram_tensor *gradients[2];
};

static void low_put(struct low *l, int i, double value)
{
    if (l->dtype == GRAM_F32)
        ((float *)(void *)l->numbers)[i] = (float)value;
    else
        l->numbers[i] = value;
}

static double low_get(const struct low *l, int i)
{
    return l->dtype == GRAM_F32 ? (double)((const float *)(const void *)l->numbers)[i]
                                : l->numbers[i];
}

static void low_open(struct harness *h, struct low *l, gram_device device)
{
    int64_t size = (int64_t)gram_dtype_size(l->dtype), at[] = {0, LOW_ROWS * LOW_COLS};

    l->memory = l->numbers;
    if (device.type == GRAM_CUDA)
        CHECK(h, gram_memory_allocate(l->g, sizeof l->numbers, &l->memory) == GRAM_OK, "%s",
              gram_message(l->g));
    for (int i = 0; i < 4; i++) {
        gram_tensor *t = i < 2 ? &l->value[i] : &l->grad[i - 2];
        char *data = (char *)l->memory + (at[i % 2] + (i < 2 ? 0 : LOW)) * size;
        *t = i % 2 ? gram_vector(data, LOW_VECTOR, l->dtype)
                   : gram_matrix(data, LOW_ROWS, LOW_COLS, l->dtype);
        t->device = device;
    }
    for (int i = 0; i < 2; i++) {
        l->values[i] = &l->value[i];
        l->gradients[i] = &l->grad[i];
    }
    for (int i = 0; i < LOW; i++)
        low_put(l, i, 0);
}

static void low_gradients(struct harness *h, struct low *l, enum low_kind kind)
{
    for (int i = 0; i < LOW; i++) {
        const int at_row = i / LOW_COLS, at_column = i % LOW_COLS;
        double row = sin(1 + at_row), column = cos(1 + at_column);
        low_put(l, LOW + i,
                kind == RANK_ONE ? row * column
                : kind == ZEROS  ? 0
                                 : 2 * test_uniform(h) - 1);
    }
}

static void low_move(struct harness *h, struct low *l, void *to, const void *from)
{
    if (l->memory != l->numbers)
        CHECK(h,
              gram_memory_copy(l->g, to, from, sizeof l->numbers) == GRAM_OK &&
                  gram_context_synchronize(l->g) == GRAM_OK,
              "%s", gram_message(l->g));
}

static void low_run(struct harness *h, struct low *l, gram_device device,
                    const gram_optimizer_options *options, enum low_kind kind)
{
    gram_optimizer_report report = {.size = sizeof report};
    gram_optimizer *o = NULL;
    gram_status status;

    low_open(h, l, device);
    status = gram_optimizer_create(l->g, options, (const gram_tensor *const *)l->values, 2, &o);
    CHECK(h, status == GRAM_OK, "%s", gram_message(l->g));
    /* One step on a device: the emulation takes a second for one of iterations. */
    for (int step = 0; step < (device.type == GRAM_CUDA ? 1 : LOW_STEPS) && status == GRAM_OK;
         step++) {
        low_gradients(h, l, kind);
        low_move(h, l, l->memory, l->numbers);
        status = gram_optimizer_step(l->g, o, l->values, l->gradients, &report);
        low_move(h, l, l->numbers, l->memory);
        CHECK(h, status == GRAM_OK && report.failed == 0 && report.skipped == 0,
              "root %d, gradients %d, step %d: %lld roots failed: %s", (int)options->root,
              (int)kind, step, (long long)report.failed, gram_message(l->g));
        for (int i = 0; i < LOW; i++)
            CHECK(h, isfinite(low_get(l, i)), "root %d, gradients %d, step %d: %g",
                  (int)options->root, (int)kind, step, low_get(l, i));
    }
    gram_optimizer_destroy(o);
    if (l->memory != l->numbers)
        gram_memory_free(l->g, l->memory, sizeof l->numbers);
}

void sample_low_rank(struct harness *h, gram_context *g, gram_device device)
{
    for (int root = GRAM_POWER_EIGH; root <= GRAM_POWER_MINIMAX; root++)
        for (int kind = RANK_ONE; kind < (device.type == GRAM_CUDA ? RANDOM : LOW_KINDS); kind++)
            for (int wide = 0; wide < (device.type == GRAM_CUDA ? 1 : 2); wide++) {
                gram_optimizer_options o = GRAM_OPTIMIZER_OPTIONS_INIT;
                struct low l = {.g = g, .dtype = wide ? GRAM_F64 : GRAM_F32};
                o.refresh = 1;
                o.root = (gram_power_method)root;
                o.graft = wide ? GRAM_GRAFT_ADAM : GRAM_GRAFT_NONE;
                o.exponent = root == GRAM_POWER_NEWTON_SCHULZ ? 0.25 : 0;
                o.beta2 = kind == RANDOM ? 0.999 : 1;
                low_run(h, &l, device, &o, (enum low_kind)kind);
            }
}

/* ---- State -------------------------------------------------------------------------------- */

static size_t tensor_bytes(const gram_tensor *t)
{
    return (size_t)test_count(t) * gram_dtype_size(t->dtype);
}

/* Copies all state to, or compares it with, memory; the number of bytes. */
static size_t each_state(struct harness *h, gram_optimizer *o, char *to, const char *with,
                         bool *same)
{
    gram_optimizer_info info = {.size = sizeof info};
    size_t at = 0;

    CHECK(h, gram_optimizer_get(h->g, o, NULL, &info) == GRAM_OK, "%s", gram_message(h->g));
    for (int64_t i = 0; i < info.states; i++) {
        const char *name;
        gram_tensor view;
        size_t bytes;
        CHECK(h, gram_optimizer_state_at(h->g, o, i, &name, &view) == GRAM_OK, "%s",
              gram_message(h->g));
        bytes = tensor_bytes(&view);
        if (to && bytes > 0)
            memcpy(to + at, view.data, bytes);
        if (with && bytes > 0)
            *same = *same && memcmp(with + at, view.data, bytes) == 0;
        at += bytes;
    }
    return at;
}

char *sample_state(struct harness *h, gram_optimizer *o)
{
    char *copy = malloc(each_state(h, o, NULL, NULL, NULL) + 1);

    if (!copy)
        exit(1);
    each_state(h, o, copy, NULL, NULL);
    return copy;
}

bool sample_same_state(struct harness *h, gram_optimizer *o, const char *copy)
{
    bool same = true;

    each_state(h, o, NULL, copy, &same);
    return same;
}

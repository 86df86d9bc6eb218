/*
 * bench_optimizer.c - time of a step of an optimizer on the CPU
 *
 *   bench_optimizer METHOD REFRESH STEPS SHAPE...      soap 10 40 1024x1024 768x3072
 *
 * f32, random gradients, the same every step; prints one line of JSON: the first step, and of the
 * others the median, the least, the largest, the mean and the mean of the processor's time, in
 * milliseconds, and bytes of state.  GRAM_NUM_THREADS sets the threads.
 *
 * SPDX-License-Identifier: MIT
 */
#include "gram/gram.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MOST = 32 /* shapes */
};

struct bench {
    gram_context *g;
    gram_optimizer_options options;
    int count, steps;
    gram_tensor parameter[MOST], gradient[MOST];
    gram_tensor *parameters[MOST];
    const gram_tensor *shapes[MOST], *gradients[MOST];
    double *times;
};

static double milliseconds(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static bool parse_shape(const char *text, gram_tensor *t)
{
    int64_t stride = 1;

    *t = (gram_tensor){.dtype = GRAM_F32};
    while (t->ndim < GRAM_MAX_DIMS) {
        char *end;
        long long size = strtoll(text, &end, 10);
        if (end == text || size < 1)
            return false;
        t->shape[t->ndim++] = size;
        text = end + 1;
        if (*end == '\0')
            break;
        if (*end != 'x')
            return false;
    }
    for (int i = t->ndim - 1; i >= 0; i--) {
        t->stride[i] = stride;
        stride *= t->shape[i];
    }
    return true;
}

/* Numbers of a linear congruential generator (Knuth), in [-0.5, 0.5). */
static bool make_tensor(gram_tensor *t, uint64_t *state)
{
    int64_t count = 1;
    float *data;

    for (int i = 0; i < t->ndim; i++)
        count *= t->shape[i];
    data = malloc((size_t)count * sizeof *data);
    for (int64_t i = 0; data && i < count; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        data[i] = (float)(*state >> 40) * 0x1p-24f - 0.5f;
    }
    t->data = data;
    return data != NULL;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static gram_status run(struct bench *b)
{
    gram_optimizer_info info = {.size = sizeof info};
    gram_optimizer *o;
    gram_status status = gram_optimizer_create(b->g, &b->options, b->shapes, b->count, &o);
    double first = 0, sum = 0, busy = 0;

    for (int i = 0; status == GRAM_OK && i <= b->steps; i++) {
        double start = milliseconds(CLOCK_MONOTONIC);
        status = gram_optimizer_step(b->g, o, b->parameters, b->gradients, NULL);
        *(i == 0 ? &first : &b->times[i - 1]) = milliseconds(CLOCK_MONOTONIC) - start;
        if (i == 0)
            busy = milliseconds(CLOCK_PROCESS_CPUTIME_ID);
    }
    busy = milliseconds(CLOCK_PROCESS_CPUTIME_ID) - busy;
    if (status == GRAM_OK)
        status = gram_optimizer_get(b->g, o, NULL, &info);
    gram_optimizer_destroy(o);
    for (int i = 0; i < b->steps; i++)
        sum += b->times[i];
    qsort(b->times, (size_t)b->steps, sizeof *b->times, by_value);
    if (status == GRAM_OK)
        printf(
            "{\"first\": %.3f, \"median\": %.3f, \"least\": %.3f, \"most\": %.3f, "
            "\"mean\": %.3f, \"cpu\": %.3f, \"bytes\": %lld}\n",
            first, b->times[b->steps / 2], b->times[0], b->times[b->steps - 1], sum / b->steps,
            busy / b->steps, (long long)info.bytes);
    return status;
}

static bool prepare(struct bench *b, int count, char **arguments)
{
    static const char *const methods[] = {"shampoo", "soap", "muon"};
    uint64_t state = 1;
    int method = 0;

    while (method < 3 && strcmp(arguments[1], methods[method]) != 0)
        method++;
    b->options.size = sizeof b->options;
    b->steps = (int)strtol(arguments[3], NULL, 10);
    b->count = count - 4;
    if (!gram_optimizer_defaults((gram_optimizer_method)method, &b->options) || b->steps < 1 ||
        b->count > MOST)
        return false;
    b->options.refresh = strtol(arguments[2], NULL, 10);
    b->times = malloc((size_t)b->steps * sizeof *b->times);
    for (int i = 0; i < b->count; i++) {
        if (!parse_shape(arguments[4 + i], &b->parameter[i]))
            return false;
        b->gradient[i] = b->parameter[i];
        if (!make_tensor(&b->parameter[i], &state) || !make_tensor(&b->gradient[i], &state))
            return false;
        b->parameters[i] = &b->parameter[i];
        b->shapes[i] = &b->parameter[i];
        b->gradients[i] = &b->gradient[i];
    }
    return b->times != NULL;
}

int main(int count, char **arguments)
{
    static struct bench b;
    int failed = 1;

    if (count < 5 || !prepare(&b, count, arguments)) {
        fprintf(stderr, "usage: bench_optimizer METHOD REFRESH STEPS SHAPE...\n");
        return 2;
    }
    if (gram_context_create(NULL, &b.g) == GRAM_OK)
        failed = run(&b) != GRAM_OK;
    if (failed)
        fprintf(stderr, "%s\n", gram_message(b.g));
    for (int i = 0; i < b.count; i++) {
        free(b.parameter[i].data);
        free(b.gradient[i].data);
    }
    free(b.times);
    gram_context_destroy(b.g);
    return failed;
}

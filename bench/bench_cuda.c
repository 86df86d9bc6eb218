/*
 * bench_cuda.c - gram_cdist and gram_kernel on a CUDA device, by the device's clock
 *
 *   bench_cuda [NAME]     prints a JSON line a row: medians of 7 timed calls after a warm one
 *
 * Each row is checked on a sample against the formula in double.  The last rows are the host's time
 * of a warm call, and of a first call.
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/device_memory.h"
#include "gram/gram.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    REPEATS = 7,
    SAMPLE = 300
};

struct work {
    const char *name;
    int64_t m, n, k;
    double p;
    const gram_kernel_options *kernel;
    double target_ms; /* what it should take on an H200 */
    gram_dtype dtype;
    bool symmetric;
};

struct bench {
    const struct work *work;
    gram_context *g;
    gram_tensor x, y, out;
    double *host_x, *host_y;
};

static bool run(void *arg)
{
    struct bench *b = arg;
    const gram_tensor *y = b->work->symmetric ? NULL : &b->y;
    gram_status status = b->work->kernel
                             ? gram_kernel(b->g, &b->x, y, b->work->kernel, &b->out)
                             : gram_cdist(b->g, &b->x, y, gram_number(b->work->p), NULL, &b->out);

    if (status != GRAM_OK)
        fprintf(stderr, "%s\n", gram_message(b->g));
    return status == GRAM_OK;
}

static double milliseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void *host_memory(int64_t count)
{
    void *memory = malloc((size_t)count * sizeof(double));

    if (!memory) {
        fprintf(stderr, "bench_cuda: out of memory\n");
        exit(EXIT_FAILURE);
    }
    return memory;
}

/* Numbers that a float holds exactly. */
static void fill(double *to, int64_t count, uint32_t state)
{
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u; /* Numerical Recipes' generator */
        to[i] = (double)(state >> 8) / 16777216;
    }
}

/* host: NULL, or the elements. */
static gram_tensor matrix(gram_dtype dtype, const double *host, int64_t rows, int64_t cols)
{
    const size_t size = dtype == GRAM_F64 ? sizeof(double) : sizeof(float);
    const size_t bytes = (size_t)(rows * cols) * size;
    gram_tensor t = gram_matrix(device_allocate(bytes), rows, cols, dtype);
    float *narrow = host && dtype == GRAM_F32 ? host_memory(rows * cols) : NULL;

    t.device.type = GRAM_CUDA;
    for (int64_t i = 0; narrow && i < rows * cols; i++)
        narrow[i] = (float)host[i];
    if (!t.data || (host && !device_upload(t.data, narrow ? (const void *)narrow : host, bytes))) {
        fprintf(stderr, "no memory on the device\n");
        exit(EXIT_FAILURE);
    }
    free(narrow);
    return t;
}

static double want(const struct bench *b, int64_t i, int64_t j)
{
    const struct work *w = b->work;
    const gram_kernel_options *o = w->kernel;
    const double *y = w->symmetric ? b->host_x : b->host_y;
    double sum = 0, p = o ? o->p.value : w->p;

    for (int64_t k = 0; k < w->k; k++)
        sum += pow(fabs(b->host_x[i * w->k + k] - y[j * w->k + k]), p);
    if (!o)
        return pow(sum, 1 / p);
    sum = pow(sum, o->outer_power.value);
    if (o->function == GRAM_LAPLACE)
        sum = exp(-sum / o->bandwidth.value);
    else if (o->function == GRAM_GAUSSIAN)
        sum = exp(-sum / (2 * o->bandwidth.value * o->bandwidth.value));
    else
        sum = exp(-pow(sum / o->bandwidth.value, o->exponent.value));
    return sum + (i == j ? o->regularization.value : 0);
}

static bool read_element(const struct bench *b, int64_t at, double *to)
{
    float narrow = 0;

    if (b->work->dtype == GRAM_F64)
        return device_download(to, (double *)b->out.data + at, sizeof *to);
    if (!device_download(&narrow, (float *)b->out.data + at, sizeof narrow))
        return false;
    *to = (double)narrow;
    return true;
}

/* Largest relative error of a sample. */
static double error_of(const struct bench *b)
{
    double worst = 0;

    for (int s = 0; s < SAMPLE; s++) {
        int64_t i = s * 7919 % b->work->m, j = s < 20 ? i : (int64_t)s * 104729 % b->work->n;
        double expected = want(b, i, j), off;
        if (!read_element(b, i * b->work->n + j, &off))
            return INFINITY;
        off = fabs(off - expected);
        off = expected != 0 ? off / expected : off;
        worst = off > worst || isnan(off) ? off : worst;
    }
    return worst;
}

static void measure(gram_context *g, const struct work *w)
{
    struct bench b = {.work = w, .g = g};
    double ms[REPEATS], first;

    b.host_x = host_memory(w->m * w->k);
    b.host_y = host_memory(w->n * w->k);
    fill(b.host_x, w->m * w->k, 1);
    fill(b.host_y, w->n * w->k, 2);
    b.x = matrix(w->dtype, b.host_x, w->m, w->k);
    b.y = matrix(w->dtype, b.host_y, w->n, w->k);
    b.out = matrix(w->dtype, NULL, w->m, w->n);
    first = milliseconds();
    if (!run(&b))
        exit(EXIT_FAILURE);
    first = milliseconds() - first;
    if (gram_context_synchronize(g) != GRAM_OK)
        exit(EXIT_FAILURE);
    for (int i = 0; i < REPEATS; i++)
        ms[i] = device_time(NULL, 1, run, &b);
    qsort(ms, REPEATS, sizeof *ms, by_value);
    printf(
        "{\"name\": \"%s\", \"m\": %lld, \"n\": %lld, \"k\": %lld, \"median_ms\": %.4f, "
        "\"min_ms\": %.4f, \"max_ms\": %.4f, \"target_ms\": %g, \"error\": %.3g, "
        "\"first_call_ms\": %.2f}\n",
        w->name, (long long)w->m, (long long)w->n, (long long)w->k, ms[REPEATS / 2], ms[0],
        ms[REPEATS - 1], w->target_ms, error_of(&b), first);
    fflush(stdout);
    device_release(b.x.data);
    device_release(b.y.data);
    device_release(b.out.data);
    free(b.host_x);
    free(b.host_y);
}

/* Microseconds of the host a warm call, the device far behind or idle. */
static bool measure_launch(gram_context *g)
{
    static const struct work small = {.name = "launch", .m = 64, .n = 64, .k = 16, .p = 2};
    struct bench b = {.work = &small, .g = g};
    double start;

    b.x = matrix(GRAM_F32, NULL, 64, 16), b.y = matrix(GRAM_F32, NULL, 64, 16);
    b.out = matrix(GRAM_F32, NULL, 64, 64);
    for (int i = 0; i < 100; i++)
        if (!run(&b))
            return false;
    if (gram_context_synchronize(g) != GRAM_OK)
        return false;
    start = milliseconds();
    for (int i = 0; i < 500; i++)
        if (!run(&b))
            return false;
    printf("{\"name\": \"launch overhead\", \"host_us\": %.3f, \"target_us\": 5}\n",
           (milliseconds() - start) * 1e3 / 500);
    return gram_context_synchronize(g) == GRAM_OK;
}

int main(int argc, char **argv)
{
    gram_kernel_options laplace = gram_lpq_laplace(2, 1, 3), gaussian = gram_gaussian(3),
                        product = gram_lpq_laplace(1.3, 1.3, 9);
    gaussian.regularization = gram_number(0.5);
    const struct work works[] = {
        {          "p=1 large", 30000, 30000, 1024,   1,      NULL,   60, GRAM_F32, false},
        {          "p=2 large", 30000, 30000, 1024,   2,      NULL,   12, GRAM_F32, false},
        {        "p=1.3 large", 30000, 30000, 1024, 1.3,      NULL,  265, GRAM_F32, false},
        {        "p=1.5 large", 30000, 30000, 1024, 1.5,      NULL,  240, GRAM_F32, false},
        {        "p=1.7 large", 30000, 30000, 1024, 1.7,      NULL,  265, GRAM_F32, false},
        {        "p=0.5 large", 30000, 30000, 1024, 0.5,      NULL,  240, GRAM_F32, false},
        {          "p=3 large", 30000, 30000, 1024,   3,      NULL,   92, GRAM_F32, false},
        {          "p=4 large", 30000, 30000, 1024,   4,      NULL,   92, GRAM_F32, false},
        {      "p=1 symmetric", 30000, 30000, 1024,   1,      NULL, 33.6, GRAM_F32,  true},
        {      "p=2 symmetric", 30000, 30000, 1024,   2,      NULL,  6.7, GRAM_F32,  true},
        {    "p=1.3 symmetric", 30000, 30000, 1024, 1.3,      NULL,  148, GRAM_F32,  true},
        {          "p=1 small", 10000, 10000,  128,   1,      NULL,  0.9, GRAM_F32, false},
        {          "p=2 small", 10000, 10000,  128,   2,      NULL,  0.4, GRAM_F32, false},
        {         "Laplace-L2", 20000, 20000,  256,   2,  &laplace,  2.5, GRAM_F32, false},
        {   "Gaussian + 0.5 I", 20000, 20000,  256,   2, &gaussian,  2.5, GRAM_F32, false},
        {"product Laplace 1.3", 20000, 20000,  256, 1.3,  &product,   31, GRAM_F32, false},
        {            "p=1 f64", 16384, 16384,  512,   1,      NULL, 18.3, GRAM_F64, false},
        {            "p=2 f64", 16384, 16384,  512,   2,      NULL, 18.3, GRAM_F64, false},
        {          "p=1.3 f64", 16384, 16384,  512, 1.3,      NULL,    0, GRAM_F64, false},
    };
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
    gram_context *g;
    double start;

    options.device.type = GRAM_CUDA;
    start = milliseconds();
    if (!device_open(0)) {
        fprintf(stderr, "bench_cuda: no CUDA device\n");
        return EXIT_FAILURE;
    }
    if (gram_context_create(&options, &g) != GRAM_OK) {
        fprintf(stderr, "%s\n", gram_message(NULL));
        return EXIT_FAILURE;
    }
    printf("{\"name\": \"context\", \"ms\": %.2f}\n", milliseconds() - start);
    for (size_t i = 0; i < sizeof works / sizeof *works; i++)
        if (argc < 2 || strstr(works[i].name, argv[1]))
            measure(g, &works[i]);
    if (!measure_launch(g))
        return EXIT_FAILURE;
    gram_context_destroy(g);
    return EXIT_SUCCESS;
}

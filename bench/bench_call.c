/*
 * bench_call.c - what a warm call of gram_cdist costs in C, with three arrays that are next to none
 *
 *   bench_call [CALLS]      200000
 *
 * f32, 2 x 2, p = 2, one thread, as `bench/compare.py calls` makes it from Python.  It prints one
 * line of JSON: nanoseconds per call, the best and the median of 9 times CALLS calls.
 *
 * SPDX-License-Identifier: MIT
 */
#include "gram/gram.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    TIMES = 9
};

static double nanoseconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int measure(gram_context *g, long calls, double *ns)
{
    float x[4] = {1, 1, 1, 1}, y[4] = {1, 1, 1, 1}, out[4];
    const gram_tensor a = gram_matrix(x, 2, 2, GRAM_F32), b = gram_matrix(y, 2, 2, GRAM_F32);
    gram_tensor d = gram_matrix(out, 2, 2, GRAM_F32);

    for (int i = 0; i < TIMES; i++) {
        double begin = nanoseconds();

        for (long call = 0; call < calls; call++)
            if (gram_cdist(g, &a, &b, gram_number(2), NULL, &d) != GRAM_OK) {
                fprintf(stderr, "bench_call: %s\n", gram_message(g));
                return 1;
            }
        ns[i] = (nanoseconds() - begin) / (double)calls;
    }
    return 0;
}

int main(int argc, char **argv)
{
    long calls = argc > 1 ? strtol(argv[1], NULL, 10) : 200000;
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
    gram_context *g = NULL;
    double ns[TIMES];
    int failed;

    options.threads = 1;
    if (calls < 1 || gram_context_create(&options, &g) != GRAM_OK) {
        fprintf(stderr, "bench_call: needs a number of calls, 1 or more, and a context\n");
        return 2;
    }
    failed = measure(g, calls, ns);
    gram_context_destroy(g);
    if (failed)
        return 1;
    qsort(ns, TIMES, sizeof *ns, ascending);
    printf("{\"work\": \"gram_cdist 2x2 f32\", \"best_ns\": %.1f, \"median_ns\": %.1f}\n", ns[0],
           ns[TIMES / 2]);
    return 0;
}

/*
 * harness_roof.c - measures the machine's roof on all threads at once
 *
 * SPDX-License-Identifier: MIT
 */
#include "harness_roof.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROOF_TARGET
#define ROOF       roof_base_f32
#define ROOF_BYTES 16
#define ROOF_REAL  float
#include "roof_loop.h"
#define ROOF_TARGET
#define ROOF       roof_base_f64
#define ROOF_BYTES 16
#define ROOF_REAL  double
#include "roof_loop.h"
#ifdef __x86_64__
#  define ROOF_TARGET __attribute__((target("avx2,fma")))
#  define ROOF        roof_avx2_f32
#  define ROOF_BYTES  32
#  define ROOF_REAL   float
#  include "roof_loop.h"
#  define ROOF_TARGET __attribute__((target("avx2,fma")))
#  define ROOF        roof_avx2_f64
#  define ROOF_BYTES  32
#  define ROOF_REAL   double
#  include "roof_loop.h"
#  define ROOF_TARGET __attribute__((target("avx512f,fma")))
#  define ROOF        roof_avx512_f32
#  define ROOF_BYTES  64
#  define ROOF_REAL   float
#  include "roof_loop.h"
#  define ROOF_TARGET __attribute__((target("avx512f,fma")))
#  define ROOF        roof_avx512_f64
#  define ROOF_BYTES  64
#  define ROOF_REAL   double
#  include "roof_loop.h"
#endif

typedef double roof_function(int64_t turns, double *sink);

static const struct {
    const char *isa;
    roof_function *f32, *f64;
} roofs[] = {
#ifdef __x86_64__
    {"avx512", roof_avx512_f32, roof_avx512_f64},
    {  "avx2",   roof_avx2_f32,   roof_avx2_f64},
#endif
    {  "base",   roof_base_f32,   roof_base_f64},
};

static const double measured_seconds = 0.05;
enum {
    COPY_BYTES = 32 << 20, /* beyond the caches that a core has to itself */
    MAX_THREADS = 256,
};

struct part {
    pthread_t handle;
    roof_function *loop; /* NULL: copy */
    double done, seconds, sink;
};

double harness_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void run_copies(struct part *p, double start)
{
    char *from = malloc(COPY_BYTES), *to = malloc(COPY_BYTES);

    if (from && to) {
        memset(from, 1, COPY_BYTES);
        memset(to, 2, COPY_BYTES);
        start = harness_seconds();
        do {
            memcpy(to, from, COPY_BYTES);
            p->sink += to[(size_t)p->done % COPY_BYTES];
            p->done += 2.0 * COPY_BYTES;
        } while (harness_seconds() - start < measured_seconds);
        p->seconds = harness_seconds() - start;
    }
    free(from);
    free(to);
}

static void *run_part(void *arg)
{
    struct part *p = arg;
    double start = harness_seconds();

    if (!p->loop) {
        run_copies(p, start);
        return NULL;
    }
    do
        p->done += p->loop(20000, &p->sink);
    while (harness_seconds() - start < measured_seconds);
    p->seconds = harness_seconds() - start;
    return NULL;
}

static double rate(roof_function *loop, int threads)
{
    static const struct part idle = {.seconds = 1};
    struct part parts[MAX_THREADS];
    double sum = 0;
    int started = 1;

    threads = threads < 1 ? 1 : threads < MAX_THREADS ? threads : MAX_THREADS;
    for (int i = 0; i < threads; i++) {
        parts[i] = idle;
        parts[i].loop = loop;
    }
    while (started < threads &&
           pthread_create(&parts[started].handle, NULL, run_part, &parts[started]) == 0)
        started++;
    run_part(&parts[0]);
    for (int i = 1; i < started; i++)
        pthread_join(parts[i].handle, NULL);
    for (int i = 0; i < started; i++)
        sum += parts[i].done / parts[i].seconds;
    return sum;
}

struct roof roof_measure(const char *isa, int threads, gram_dtype dtype)
{
    struct roof result = {0, 0};

    for (size_t i = 0; i < sizeof roofs / sizeof *roofs; i++)
        if (strcmp(roofs[i].isa, isa) == 0)
            result.fma = rate(dtype == GRAM_F64 ? roofs[i].f64 : roofs[i].f32, threads);
    result.copy = rate(NULL, threads);
    return result;
}

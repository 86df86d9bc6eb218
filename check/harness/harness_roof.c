/*
 * harness_roof.c - measures the roof of the processor on all threads at once
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
#define ROOF_READ  roof_read_base_f32
#define ROOF_BYTES 16
#define ROOF_REAL  float
#include "roof_loop.h"
#define ROOF_TARGET
#define ROOF       roof_base_f64
#define ROOF_READ  roof_read_base_f64
#define ROOF_BYTES 16
#define ROOF_REAL  double
#include "roof_loop.h"
#ifdef __x86_64__
#  define ROOF_TARGET __attribute__((target("avx2,fma")))
#  define ROOF        roof_avx2_f32
#  define ROOF_READ   roof_read_avx2_f32
#  define ROOF_BYTES  32
#  define ROOF_REAL   float
#  include "roof_loop.h"
#  define ROOF_TARGET __attribute__((target("avx2,fma")))
#  define ROOF        roof_avx2_f64
#  define ROOF_READ   roof_read_avx2_f64
#  define ROOF_BYTES  32
#  define ROOF_REAL   double
#  include "roof_loop.h"
#  define ROOF_TARGET __attribute__((target("avx512f,fma")))
#  define ROOF        roof_avx512_f32
#  define ROOF_READ   roof_read_avx512_f32
#  define ROOF_BYTES  64
#  define ROOF_REAL   float
#  include "roof_loop.h"
#  define ROOF_TARGET __attribute__((target("avx512f,fma")))
#  define ROOF        roof_avx512_f64
#  define ROOF_READ   roof_read_avx512_f64
#  define ROOF_BYTES  64
#  define ROOF_REAL   double
#  include "roof_loop.h"
#endif

typedef double roof_function(int64_t turns, double *sink);
typedef double read_function(const void *from, size_t bytes, double *sink);

static const struct {
    const char *isa;
    roof_function *f32, *f64;
    read_function *read_f32, *read_f64;
} roofs[] = {
#ifdef __x86_64__
    {"avx512", roof_avx512_f32, roof_avx512_f64, roof_read_avx512_f32, roof_read_avx512_f64},
    {  "avx2",   roof_avx2_f32,   roof_avx2_f64,   roof_read_avx2_f32,   roof_read_avx2_f64},
#endif
    {  "base",   roof_base_f32,   roof_base_f64,   roof_read_base_f32,   roof_read_base_f64},
};

/* The best of many times, shorter than others get a busy processor for: what it can do is not what
 * it did beside them. */
static const double window_seconds = 0.0005;
enum {
    WINDOWS = 80,
    PIECE_BYTES = 128 << 10, /* that are copied or read in one go */
    LEAST_BYTES = 2048,      /* of a thread: a block of every instruction set, twice */
    MOST_BYTES = 64 << 20,   /* of a thread: beyond the caches that a core has to itself */
    MAX_THREADS = 256,
};

enum work {
    WORK_FMA,
    WORK_COPY,
    WORK_READ
};

struct part {
    pthread_t handle;
    enum work work;
    roof_function *loop;
    read_function *read;
    size_t bytes, at; /* that are read, or read and written; where the next piece is */
    double rate, sink;
};

double harness_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Some of the work; how much it was. */
static double work_once(struct part *p, char *memory)
{
    size_t all = p->work == WORK_COPY ? p->bytes / 2 : p->bytes, at = p->at, piece;

    if (p->work == WORK_FMA)
        return p->loop(20000, &p->sink);
    piece = all - at < PIECE_BYTES ? all - at : PIECE_BYTES;
    p->at = at + piece < all ? at + piece : 0;
    if (p->work == WORK_READ)
        return p->read(memory + at, piece, &p->sink);
    memcpy(memory + at, memory + all + at, piece);
    p->sink += memory[at];
    return 2.0 * (double)piece;
}

static void *run_part(void *arg)
{
    struct part *p = arg;
    char *memory = aligned_alloc(64, p->bytes);

    if (!memory)
        return NULL;
    memset(memory, 0, p->bytes);
    for (int w = 0; w < WINDOWS; w++) {
        double start = harness_seconds(), seconds, done = 0;
        do {
            done += work_once(p, memory);
            seconds = harness_seconds() - start;
        } while (seconds < window_seconds);
        p->rate = done / seconds > p->rate ? done / seconds : p->rate;
    }
    free(memory);
    return NULL;
}

/* On all threads at once, each with what part says. */
static double rate(const struct part *part, int threads)
{
    struct part parts[MAX_THREADS];
    double sum = 0;
    int started = 1;

    for (int i = 0; i < threads; i++)
        parts[i] = *part;
    while (started < threads &&
           pthread_create(&parts[started].handle, NULL, run_part, &parts[started]) == 0)
        started++;
    run_part(&parts[0]);
    for (int i = 1; i < started; i++)
        pthread_join(parts[i].handle, NULL);
    for (int i = 0; i < started; i++)
        sum += parts[i].rate;
    return sum;
}

static struct roof measure_cpu(const struct harness *h, gram_dtype dtype, double bytes)
{
    int threads = h->threads < 1 ? 1 : h->threads < MAX_THREADS ? h->threads : MAX_THREADS;
    double share = bytes > 0 ? bytes / threads : MOST_BYTES;
    struct part part = {.work = WORK_FMA, .bytes = LEAST_BYTES};
    struct roof roof = {0, 0};
    double copied, read;

    for (size_t i = 0; i < sizeof roofs / sizeof *roofs; i++)
        if (strcmp(roofs[i].isa, h->isa) == 0) {
            part.loop = dtype == GRAM_F64 ? roofs[i].f64 : roofs[i].f32;
            part.read = dtype == GRAM_F64 ? roofs[i].read_f64 : roofs[i].read_f32;
        }
    if (!part.loop)
        return roof;
    roof.fma = rate(&part, threads);
    share = share < LEAST_BYTES ? LEAST_BYTES : share > MOST_BYTES ? MOST_BYTES : share;
    part.bytes = (size_t)share / LEAST_BYTES * LEAST_BYTES;
    part.work = WORK_COPY;
    copied = rate(&part, threads);
    part.work = WORK_READ;
    read = rate(&part, threads);
    roof.memory = copied > read ? copied : read;
    return roof;
}

struct roof roof_measure(struct harness *h, gram_dtype dtype, double bytes)
{
    return h->device.type == GRAM_CPU ? measure_cpu(h, dtype, bytes)
                                      : roof_measure_device(h, dtype, bytes);
}

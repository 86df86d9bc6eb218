/*
 * bench_kron_nccl.c - gram_kron_matmul_multi on all GPUs against one of them
 *
 *   bench_kron_nccl M P N [columns|rows] [f32|f64] [REPEATS]
 *
 * N factors P by P.  Every GPU has a thread; a time is that of so many calls in a row, until the
 * slowest GPU is done with them, and that of queueing alone.
 *
 * SPDX-License-Identifier: MIT
 */
#include "gram/gram.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MOST = 16,
    WARM = 3,
    BLOCK = 1 << 22
};

struct problem {
    int64_t m, p;
    int count, repeats;
    gram_kron_split split;
    gram_dtype dtype;
};

/* A GPU and its part. */
struct rank {
    const struct problem *problem;
    gram_context *g;
    gram_communicator *c;
    gram_tensor x, y, f[GRAM_MAX_FACTORS];
    const gram_tensor *factors[GRAM_MAX_FACTORS];
    gram_kron_options options;
    pthread_barrier_t *barrier;
    pthread_t thread;
    double begun, queued, done;
};

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void expect(gram_status status, const gram_context *g)
{
    if (status == GRAM_OK)
        return;
    fprintf(stderr, "%s: %s\n", gram_status_name(status), gram_message(g));
    exit(1);
}

/* A matrix on the GPU, filled with one block of numbers again and again. */
static gram_tensor there(struct rank *r, int64_t rows, int64_t cols)
{
    size_t element = gram_dtype_size(r->problem->dtype), bytes = (size_t)(rows * cols) * element;
    gram_tensor t = gram_matrix(NULL, rows, cols, r->problem->dtype);
    char *host = malloc(BLOCK * element);

    if (!host)
        exit(1);
    for (int64_t i = 0; i < BLOCK; i++) {
        double value = (double)(i * 7919 % 1009) / 1009 - 0.5;
        if (element == 4)
            ((float *)(void *)host)[i] = (float)value;
        else
            ((double *)(void *)host)[i] = value;
    }
    expect(gram_memory_allocate(r->g, bytes ? bytes : 1, &t.data), r->g);
    t.device = gram_context_device(r->g);
    for (size_t at = 0; at < bytes; at += BLOCK * element)
        expect(gram_memory_copy(r->g, (char *)t.data + at, host,
                                bytes - at < BLOCK * element ? bytes - at : BLOCK * element),
               r->g);
    expect(gram_context_synchronize(r->g), r->g);
    free(host);
    return t;
}

static void prepare(struct rank *r, bool alone)
{
    const struct problem *p = r->problem;
    gram_kron_part part = {.rows = p->m};

    r->options = (gram_kron_options)GRAM_KRON_OPTIONS_INIT;
    for (int i = 0; i < p->count; i++) {
        r->f[i] = there(r, p->p, p->p);
        r->factors[i] = &r->f[i];
    }
    part.columns = 1;
    for (int i = 0; i < p->count; i++)
        part.columns *= p->p;
    part.outs = part.columns;
    if (!alone) {
        r->options.communicator = r->c;
        r->options.split = p->split;
        expect(gram_kron_matmul_part(r->g, p->m, r->factors, p->count, &r->options, &part), r->g);
    }
    r->x = there(r, part.rows, part.columns);
    r->y = there(r, part.rows, part.outs);
}

static void release(struct rank *r)
{
    size_t element = gram_dtype_size(r->problem->dtype);
    gram_tensor *const all[] = {&r->x, &r->y};

    for (int i = 0; i < 2; i++)
        gram_memory_free(r->g, all[i]->data,
                         (size_t)(all[i]->shape[0] * all[i]->shape[1]) * element);
    for (int i = 0; i < r->problem->count; i++)
        gram_memory_free(r->g, r->f[i].data, (size_t)(r->problem->p * r->problem->p) * element);
}

static void call(struct rank *r)
{
    if (r->options.communicator)
        expect(
            gram_kron_matmul_multi(r->g, &r->x, r->factors, r->problem->count, &r->options, &r->y),
            r->g);
    else
        expect(gram_kron_matmul(r->g, &r->x, r->factors, r->problem->count, &r->options, &r->y),
               r->g);
}

static void *run(void *argument)
{
    struct rank *r = argument;

    for (int i = 0; i < WARM; i++)
        call(r);
    expect(gram_context_synchronize(r->g), r->g);
    if (r->barrier)
        (void)pthread_barrier_wait(r->barrier);
    r->begun = seconds();
    for (int i = 0; i < r->problem->repeats; i++)
        call(r);
    r->queued = seconds();
    expect(gram_context_synchronize(r->g), r->g);
    r->done = seconds();
    return NULL;
}

static double report(const char *name, const struct problem *p, const struct rank *r, int ranks)
{
    double begun = r[0].begun, done = r[0].done, queued = 0, flop = 2.0 * (double)p->m;

    for (int i = 0; i < ranks; i++) {
        begun = r[i].begun < begun ? r[i].begun : begun;
        done = r[i].done > done ? r[i].done : done;
        queued += (r[i].queued - r[i].begun) / ranks;
    }
    for (int i = 0; i < p->count; i++)
        flop *= (double)p->p;
    flop *= (double)p->p * p->count;
    printf("%s: %.1f us a call, %.0f GFLOP/s; %.1f us to queue it\n", name,
           (done - begun) / p->repeats * 1e6, flop * p->repeats / (done - begun) * 1e-9,
           queued / p->repeats * 1e6);
    return done - begun;
}

int main(int argc, char **argv)
{
    struct problem p = {.repeats = 20, .dtype = GRAM_F32, .split = GRAM_KRON_SPLIT_COLUMNS};
    gram_context *g[MOST];
    gram_communicator *c[MOST];
    struct rank rank[MOST] = {{.g = NULL}};
    gram_info info = {.size = sizeof info};
    pthread_barrier_t barrier;
    double one, all;
    int ranks;

    if (argc < 4)
        return fprintf(stderr, "usage: bench_kron_nccl M P N [columns|rows] [f32|f64] [REPEATS]\n");
    p.m = strtoll(argv[1], NULL, 10), p.p = strtoll(argv[2], NULL, 10);
    p.count = (int)strtol(argv[3], NULL, 10);
    for (int i = 4; i < argc; i++) {
        if (strcmp(argv[i], "rows") == 0)
            p.split = GRAM_KRON_SPLIT_ROWS;
        else if (strcmp(argv[i], "f64") == 0)
            p.dtype = GRAM_F64;
        else if (strtol(argv[i], NULL, 10) > 0)
            p.repeats = (int)strtol(argv[i], NULL, 10);
    }
    expect(gram_context_create(NULL, &g[0]), NULL);
    expect(gram_context_info(g[0], &info), g[0]);
    gram_context_destroy(g[0]);
    ranks = info.cuda_devices < MOST ? info.cuda_devices : MOST;
    for (int i = 0; i < ranks; i++) {
        gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
        o.device = (gram_device){GRAM_CUDA, i};
        expect(gram_context_create(&o, &g[i]), NULL);
    }
    expect(gram_communicator_create_nccl_all(g, ranks, NULL, c), g[0]);
    pthread_barrier_init(&barrier, NULL, (unsigned)ranks);
    printf("M = %lld, %lld^%d, %s, by %s\n", (long long)p.m, (long long)p.p, p.count,
           p.dtype == GRAM_F64 ? "f64" : "f32",
           p.split == GRAM_KRON_SPLIT_ROWS ? "rows" : "columns");
    rank[0] = (struct rank){.problem = &p, .g = g[0]};
    prepare(&rank[0], true);
    run(&rank[0]);
    one = report("  one GPU", &p, rank, 1);
    release(&rank[0]);
    for (int i = 0; i < ranks; i++) {
        rank[i] = (struct rank){.problem = &p, .g = g[i], .c = c[i], .barrier = &barrier};
        prepare(&rank[i], false);
    }
    for (int i = 1; i < ranks; i++)
        if (pthread_create(&rank[i].thread, NULL, run, &rank[i]) != 0)
            return 1;
    run(&rank[0]);
    for (int i = 1; i < ranks; i++)
        pthread_join(rank[i].thread, NULL);
    all = report("  all GPUs", &p, rank, ranks);
    printf("  %d GPUs: %.2f times as fast\n", ranks, one / all);
    for (int i = 0; i < ranks; i++) {
        release(&rank[i]);
        gram_communicator_destroy(c[i]);
        gram_context_destroy(g[i]);
    }
    return 0;
}

/*
 * bench_kernel_multi.c - gram_kernel_matmul_multi and gram_krr_solve on 1, 2, .. all GPUs, a thread
 * each
 *
 *   bench_kernel_multi [N [DEPTH [COLUMNS [REPEATS]]]]     1000000 28 1 3 by default
 *
 * Gaussian, f32, y is x, points uniform in the unit cube, bandwidth 1.  A time is that of so many
 * calls in a row, until the slowest GPU is done.  Prints a line of JSON for each number of GPUs:
 * seconds a product, its speed over that of one GPU alone, and the largest difference from its
 * result, relative to the largest element.  Then the same for a solve, once, of a smooth function
 * with noise, with a ridge of 10^-6 N and a certified residual of 0.01 of y; 0 GPUs stands for one
 * without a communicator.
 *
 * SPDX-License-Identifier: MIT
 */
#include "gram/gram.h"
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    MOST = 16
};

struct problem {
    int64_t n, depth, columns;
    int repeats;
    bool solves;
    float *x, *v, *y;
};

/* A GPU and its rows. */
struct rank {
    const struct problem *problem;
    gram_context *g;
    gram_communicator *c; /* NULL: alone */
    int64_t first, rows;
    gram_tensor x, v, out;
    float *result; /* of all rows */
    pthread_barrier_t *barrier;
    pthread_t thread;
    gram_krr_report report;
    double begun, done;
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

static float *numbers(int64_t count)
{
    float *all = malloc((size_t)(count > 0 ? count : 1) * sizeof *all);
    uint64_t state = UINT64_C(0x9e3779b97f4a7c15);

    if (!all)
        exit(fprintf(stderr, "no memory\n"));
    for (int64_t i = 0; i < count; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407U;
        all[i] = (float)(state >> 40) * 0x1p-24f;
    }
    return all;
}

/* Rows of a matrix on the rank's GPU. */
static gram_tensor there(struct rank *r, const float *all, int64_t cols)
{
    gram_tensor t = gram_matrix(NULL, r->rows, cols, GRAM_F32);
    const size_t bytes = (size_t)(r->rows * cols) * sizeof *all;

    t.device = gram_context_device(r->g);
    expect(gram_memory_allocate(r->g, bytes ? bytes : 1, &t.data), r->g);
    if (all && bytes)
        expect(gram_memory_copy(r->g, t.data, all + r->first * cols, bytes), r->g);
    expect(gram_context_synchronize(r->g), r->g);
    return t;
}

static void multiply(struct rank *r)
{
    gram_kernel_matmul_options o = GRAM_KERNEL_MATMUL_OPTIONS_INIT;
    const gram_kernel_options kernel = gram_gaussian(1);

    o.communicator = r->c;
    expect((r->c ? gram_kernel_matmul_multi : gram_kernel_matmul)(r->g, &r->x, NULL, &kernel, &r->v,
                                                                  &o, &r->out),
           r->g);
}

/* v holds the right sides. */
static void solve(struct rank *r)
{
    gram_krr_options o = GRAM_KRR_OPTIONS_INIT;
    const gram_kernel_options kernel = gram_gaussian(1);

    r->report = (gram_krr_report){.size = sizeof r->report};
    o.method = GRAM_KRR_CG;
    o.ridge = 1e-6 * (double)r->problem->n;
    o.communicator = r->c;
    o.report = &r->report;
    expect(gram_krr_solve(r->g, &r->x, &kernel, &r->v, &o, &r->out), r->g);
}

static void work(struct rank *r)
{
    if (r->problem->solves)
        solve(r);
    else
        multiply(r);
}

static void *run(void *argument)
{
    struct rank *r = argument;
    const int64_t columns = r->problem->columns;

    multiply(r); /* compiles, and takes scratch */
    expect(gram_context_synchronize(r->g), r->g);
    if (r->barrier)
        (void)pthread_barrier_wait(r->barrier);
    r->begun = seconds();
    for (int i = 0; i < r->problem->repeats; i++)
        work(r);
    expect(gram_context_synchronize(r->g), r->g);
    r->done = seconds();
    if (r->rows)
        expect(gram_memory_copy(r->g, r->result + r->first * columns, r->out.data,
                                (size_t)(r->rows * columns) * sizeof *r->result),
               r->g);
    expect(gram_context_synchronize(r->g), r->g);
    return NULL;
}

static void prepare(struct rank *r)
{
    const struct problem *p = r->problem;

    r->x = there(r, p->x, p->depth);
    r->v = there(r, p->solves ? p->y : p->v, p->columns);
    r->out = there(r, NULL, p->columns);
}

static void release(struct rank *r)
{
    gram_tensor *const all[] = {&r->x, &r->v, &r->out};

    for (int i = 0; i < 3; i++) {
        const size_t bytes = (size_t)(all[i]->shape[0] * all[i]->shape[1]) * sizeof(float);
        gram_memory_free(r->g, all[i]->data, bytes ? bytes : 1);
    }
}

static double difference(const struct problem *p, const float *a, const float *b)
{
    double most = 0, size = 0;

    for (int64_t i = 0; i < p->n * p->columns; i++) {
        const double d = fabs((double)a[i] - (double)b[i]);
        most = d > most ? d : most;
        size = fabs((double)b[i]) > size ? fabs((double)b[i]) : size;
    }
    return most / size;
}

/* A call on so many GPUs, in seconds; alone: without a communicator. */
static double measure(const struct problem *p, gram_context **g, int ranks, bool alone,
                      void *result, gram_krr_report *report)
{
    struct rank rank[MOST] = {{.g = NULL}};
    gram_communicator *c[MOST] = {NULL};
    pthread_barrier_t barrier;
    double begun, done;

    if (!alone)
        expect(gram_communicator_create_nccl_all(g, ranks, NULL, c), g[0]);
    pthread_barrier_init(&barrier, NULL, (unsigned)ranks);
    for (int i = 0; i < ranks; i++) {
        rank[i] = (struct rank){
            .problem = p, .g = g[i], .c = c[i], .result = result, .barrier = &barrier};
        rank[i].first = p->n * i / ranks;
        rank[i].rows = p->n * (i + 1) / ranks - rank[i].first;
        prepare(&rank[i]);
    }
    for (int i = 1; i < ranks; i++)
        if (pthread_create(&rank[i].thread, NULL, run, &rank[i]) != 0)
            exit(1);
    run(&rank[0]);
    begun = rank[0].begun, done = rank[0].done;
    for (int i = 0; i < ranks; i++) {
        if (i > 0)
            pthread_join(rank[i].thread, NULL);
        begun = rank[i].begun < begun ? rank[i].begun : begun;
        done = rank[i].done > done ? rank[i].done : done;
    }
    for (int i = 0; i < ranks; i++) {
        release(&rank[i]);
        gram_communicator_destroy(c[i]);
    }
    pthread_barrier_destroy(&barrier);
    *report = rank[0].report;
    return (done - begun) / p->repeats;
}

/* A smooth function of three coordinates, and noise. */
static float *targets(const struct problem *p)
{
    float *y = numbers(p->n * p->columns);

    for (int64_t i = 0; i < p->n; i++) {
        const float *x = p->x + i * p->depth;
        const double f =
            sin(3.0 * (double)x[0]) + (double)x[p->depth / 2] * (double)x[p->depth - 1];
        for (int64_t c = 0; c < p->columns; c++)
            y[i * p->columns + c] = (float)(f - 1 + 0.3 * (double)y[i * p->columns + c]);
    }
    return y;
}

/* All numbers of GPUs, and none for one without a communicator. */
static void compare(const struct problem *p, gram_context **g, int gpus)
{
    float *alone = numbers(p->n * p->columns), *shared = numbers(p->n * p->columns);
    double one = 0;

    for (int ranks = 0; ranks <= gpus; ranks++) {
        gram_krr_report report;
        const double time =
            measure(p, g, ranks > 0 ? ranks : 1, ranks == 0, ranks == 0 ? alone : shared, &report);
        one = ranks == 0 ? time : one;
        printf(
            "{\"what\": \"%s\", \"n\": %lld, \"depth\": %lld, \"columns\": %lld, "
            "\"gpus\": %d, \"seconds\": %.5f, \"times\": %.3f, \"difference\": %.2e",
            p->solves ? "krr_solve" : "kernel_matmul", (long long)p->n, (long long)p->depth,
            (long long)p->columns, ranks, time, one / time,
            ranks == 0 ? 0.0 : difference(p, shared, alone));
        if (p->solves)
            printf(", \"residual\": %.2e, \"rank\": %lld, \"products\": %lld, \"bound\": %.2e",
                   report.residual, (long long)report.rank, (long long)report.products,
                   report.prediction_rms);
        puts("}");
        fflush(stdout);
    }
    free(alone), free(shared);
}

int main(int argc, char **argv)
{
    struct problem p = {.n = 1000000, .depth = 28, .columns = 1, .repeats = 3};
    int64_t *const sizes[] = {&p.n, &p.depth, &p.columns};
    gram_info info = {.size = sizeof info};
    gram_context *g[MOST];
    int gpus;

    for (int i = 0; i < 3 && i + 1 < argc; i++)
        *sizes[i] = strtoll(argv[i + 1], NULL, 10);
    if (argc > 4)
        p.repeats = (int)strtol(argv[4], NULL, 10);
    if (p.n < 1 || p.depth < 1 || p.columns < 1 || p.repeats < 1)
        return fprintf(stderr, "usage: bench_kernel_multi [N [DEPTH [COLUMNS [REPEATS]]]]\n");
    expect(gram_context_create(NULL, &g[0]), NULL);
    expect(gram_context_info(g[0], &info), g[0]);
    gram_context_destroy(g[0]);
    gpus = info.cuda_devices < MOST ? info.cuda_devices : MOST;
    if (gpus == 0)
        return fprintf(stderr, "no CUDA device\n");
    for (int i = 0; i < gpus; i++) {
        gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
        o.device = (gram_device){GRAM_CUDA, i};
        expect(gram_context_create(&o, &g[i]), NULL);
    }
    p.x = numbers(p.n * p.depth), p.v = numbers(p.n * p.columns);
    p.y = targets(&p);
    compare(&p, g, gpus);
    p.solves = true, p.repeats = 1;
    compare(&p, g, gpus);
    for (int i = 0; i < gpus; i++)
        gram_context_destroy(g[i]);
    free(p.x), free(p.v), free(p.y);
    return 0;
}

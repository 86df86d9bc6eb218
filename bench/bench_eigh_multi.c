/*
 * bench_eigh_multi.c - eigenproblems on several GPUs: one matrix on all, many shared by them
 *
 *   bench_eigh_multi one N f32|f64 [ROUNDS]     one GPU by Xsyevd, all of them by cusolverMg
 *   bench_eigh_multi many COUNT LEAST MOST      COUNT matrices of orders LEAST to MOST, f32
 *
 * Random symmetric matrices, all pairs; seconds by the wall clock until the results are there.
 * Prints what the plan says, the times, and the residual |A v - w v| / (|A| n eps) of some pairs.
 *
 * SPDX-License-Identifier: MIT
 */
#include "gram/gram.h"
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MOST_DEVICES = 16,
    MOST_MATRICES = 4096
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(gram_status status, const gram_context *g)
{
    if (status == GRAM_OK)
        return;
    fprintf(stderr, "%s: %s\n", gram_status_name(status), gram_message(g));
    exit(1);
}

/* Element i, j of a random symmetric matrix, between -1 and 1. */
static double element(uint64_t seed, int64_t i, int64_t j)
{
    uint64_t s = (uint64_t)(i < j ? i : j) * 0x9E3779B97F4A7C15u ^ (uint64_t)(i < j ? j : i) ^ seed;

    s = s * 6364136223846793005u + 1442695040888963407u;
    s ^= s >> 29;
    s *= 0xBF58476D1CE4E5B9u;
    return (double)(int64_t)(s ^ s >> 32) / 0x1p63;
}

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes);

    if (memory)
        return memory;
    fprintf(stderr, "no memory\n");
    exit(1);
}

static void fill(void *a, uint64_t seed, int64_t n, gram_dtype dtype)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++)
            if (dtype == GRAM_F64)
                ((double *)a)[i * n + j] = element(seed, i, j);
            else
                ((float *)a)[i * n + j] = (float)element(seed, i, j);
}

static double number(const void *data, gram_dtype dtype, int64_t at)
{
    return dtype == GRAM_F64 ? ((const double *)data)[at] : (double)((const float *)data)[at];
}

/* Of three pairs; vectors are by columns. */
static double residual(uint64_t seed, int64_t n, gram_dtype dtype, const void *w, const void *v)
{
    const double eps = dtype == GRAM_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
    const int64_t columns[] = {0, n / 2, n - 1};
    double sums[3] = {0}, norm = fmax(fabs(number(w, dtype, 0)), fabs(number(w, dtype, n - 1)));

    for (int64_t i = 0; i < n; i++) {
        double row[3];
        for (int k = 0; k < 3; k++)
            row[k] = -number(w, dtype, columns[k]) * number(v, dtype, columns[k] * n + i);
        for (int64_t s = 0; s < n; s++) {
            double x = element(seed, i, s);
            x = dtype == GRAM_F64 ? x : (double)(float)x;
            for (int k = 0; k < 3; k++)
                row[k] += x * number(v, dtype, columns[k] * n + s);
        }
        for (int k = 0; k < 3; k++)
            sums[k] += row[k] * row[k];
    }
    return sqrt(fmax(sums[0], fmax(sums[1], sums[2]))) / (norm * (double)n * eps);
}

static int open_contexts(gram_context **g, gram_group *group)
{
    gram_info info = {.size = sizeof info};
    gram_context *cpu;

    check(gram_context_create(NULL, &cpu), NULL);
    check(gram_context_info(cpu, &info), cpu);
    gram_context_destroy(cpu);
    *group = (gram_group)GRAM_GROUP_INIT;
    for (int i = 0; i < info.cuda_devices && i < MOST_DEVICES; i++) {
        gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
        o.device = (gram_device){GRAM_CUDA, i};
        check(gram_context_create(&o, &g[i]), NULL);
        group->count++;
    }
    group->contexts = g;
    group->force = 1;
    return (int)group->count;
}

/* ---- One matrix ----------------------------------------------------------------------------- */

struct one {
    gram_context *g[MOST_DEVICES];
    gram_group group;
    int64_t n, seed;
    gram_dtype dtype;
    gram_tensor a, v, w; /* on the first device */
    void *host_a, *host_v, *host_w;
    size_t bytes;
};

static gram_tensor there(struct one *p, const void *host, int64_t cols)
{
    gram_tensor t = gram_matrix(NULL, p->n, cols, p->dtype);

    t.device = gram_context_device(p->g[0]);
    check(gram_memory_allocate(p->g[0], (size_t)(p->n * cols) * gram_dtype_size(p->dtype), &t.data),
          p->g[0]);
    if (host)
        check(gram_memory_copy(p->g[0], t.data, host, p->bytes), p->g[0]);
    return t;
}

static void tell(struct one *p, const char *what, double seconds, bool fetch)
{
    if (fetch) {
        check(gram_memory_copy(p->g[0], p->host_v, p->v.data, p->bytes), p->g[0]);
        check(gram_memory_copy(p->g[0], p->host_w, p->w.data,
                               (size_t)p->n * gram_dtype_size(p->dtype)),
              p->g[0]);
        check(gram_context_synchronize(p->g[0]), p->g[0]);
    }
    printf("%s n=%lld %s: %.3f s, residual %.3g\n", what, (long long)p->n,
           p->dtype == GRAM_F64 ? "f64" : "f32", seconds,
           residual((uint64_t)p->seed, p->n, p->dtype, p->host_w, p->host_v));
    (void)fflush(stdout);
}

static void say_plan(struct one *p)
{
    gram_plan_description d = {.size = sizeof d};
    gram_plan *plan;

    check(gram_eigh_multi_plan(&p->group, &p->a, NULL, &p->w, &p->v, NULL, &plan), p->g[0]);
    check(gram_plan_describe(plan, &d), p->g[0]);
    printf("plan: %s; %s\n", d.text, d.reason);
    gram_plan_destroy(plan);
    check(gram_eigh_plan(p->g[0], &p->a, NULL, &p->w, &p->v, NULL, &plan), p->g[0]);
    check(gram_plan_describe(plan, &d), p->g[0]);
    printf("plan of one: %s\n", d.text);
    gram_plan_destroy(plan);
}

static void run_one(struct one *p, int rounds)
{
    gram_tensor a = gram_matrix(p->host_a, p->n, p->n, p->dtype), v = a,
                w = gram_vector(p->host_w, p->n, p->dtype);
    double start;

    say_plan(p);
    for (int k = 0; k < rounds; k++) {
        start = now();
        check(gram_eigh(p->g[0], &p->a, NULL, &p->w, &p->v, NULL), p->g[0]);
        check(gram_context_synchronize(p->g[0]), p->g[0]);
        tell(p, "one GPU", now() - start, true);
    }
    for (int k = 0; k < rounds; k++) {
        start = now();
        check(gram_eigh_multi(&p->group, &p->a, NULL, &p->w, &p->v, NULL), p->g[0]);
        tell(p, "all GPUs", now() - start, true);
    }
    start = now();
    check(gram_eigh_multi(&p->group, &p->a, NULL, &p->w, NULL, NULL), p->g[0]);
    tell(p, "all GPUs, values alone", now() - start, true);
    v.data = p->host_v;
    v.stride[0] = 1, v.stride[1] = p->n;
    start = now();
    check(gram_eigh_multi(&p->group, &a, NULL, &w, &v, NULL), p->g[0]);
    tell(p, "all GPUs, from and to the CPU", now() - start, false);
}

static int one(int64_t n, gram_dtype dtype, int rounds)
{
    struct one p = {.n = n, .dtype = dtype, .seed = 1};

    (void)open_contexts(p.g, &p.group);
    p.bytes = (size_t)(n * n) * gram_dtype_size(dtype);
    p.host_a = allocate(p.bytes);
    p.host_v = allocate(p.bytes);
    p.host_w = allocate((size_t)n * gram_dtype_size(dtype));
    fill(p.host_a, (uint64_t)p.seed, n, dtype);
    p.a = there(&p, p.host_a, n);
    p.v = there(&p, NULL, n);
    p.v.stride[0] = 1, p.v.stride[1] = n;
    p.w = there(&p, NULL, 1);
    p.w.ndim = 1, p.w.shape[0] = n, p.w.stride[0] = 1;
    run_one(&p, rounds);
    for (int64_t i = p.group.count - 1; i > 0; i--)
        gram_context_destroy(p.g[i]);
    gram_memory_free(p.g[0], p.a.data, p.bytes);
    gram_memory_free(p.g[0], p.v.data, p.bytes);
    gram_memory_free(p.g[0], p.w.data, (size_t)n * gram_dtype_size(dtype));
    gram_context_destroy(p.g[0]);
    free(p.host_a);
    free(p.host_v);
    free(p.host_w);
    return 0;
}

/* ---- Many matrices -------------------------------------------------------------------------- */

struct many {
    gram_context *g[MOST_DEVICES];
    gram_group group;
    gram_many list;
    gram_tensor a[MOST_MATRICES], v[MOST_MATRICES], w[MOST_MATRICES];
    const gram_tensor *in[MOST_MATRICES];
    gram_tensor *values[MOST_MATRICES], *vectors[MOST_MATRICES];
    gram_many_item items[MOST_MATRICES];
};

static void share(struct many *m, int64_t contexts, const char *where)
{
    gram_matrix_power_options power = GRAM_MATRIX_POWER_OPTIONS_INIT;
    double best[2] = {INFINITY, INFINITY}, load[MOST_DEVICES] = {0};

    m->group.count = contexts;
    power.ridge = gram_number(1e-3);
    power.ridge_relative = 1;
    for (int round = 0; round < 3; round++) {
        double start = now();
        check(gram_eigh_many(&m->group, &m->list, m->in, NULL, m->values, m->vectors, NULL),
              m->g[0]);
        best[0] = fmin(best[0], now() - start);
        start = now();
        check(gram_matrix_power_many(&m->group, &m->list, m->in, &power, m->vectors, NULL),
              m->g[0]);
        best[1] = fmin(best[1], now() - start);
    }
    for (int64_t i = 0; i < m->list.count; i++)
        load[m->items[i].context] += pow((double)m->a[i].shape[0], 3);
    printf("%lld contexts, matrices on %s: eigh %.3f s, power -1/4 %.3f s; n^3 of each:",
           (long long)contexts, where, best[0], best[1]);
    for (int64_t c = 0; c < contexts; c++)
        printf(" %.4g", load[c]);
    printf("\n");
    (void)fflush(stdout);
}

static int many(int count, int64_t least, int64_t most)
{
    static struct many m;

    if (count < 1 || count > MOST_MATRICES)
        return 2;
    int devices = open_contexts(m.g, &m.group);
    m.list = (gram_many)GRAM_MANY_INIT;
    m.list.count = count;
    m.list.items = m.items;
    for (int k = 0; k < count; k++) {
        int64_t n =
            least + (int64_t)((double)(most - least) * fabs(element(7, (int64_t)k, (int64_t)k)));
        size_t bytes = (size_t)(n * n) * sizeof(float);
        void *a = allocate(bytes);
        fill(a, (uint64_t)k, n, GRAM_F32);
        for (int64_t i = 0; i < n; i++) /* positive definite, for the roots */
            ((float *)a)[i * n + i] = (float)n;
        m.a[k] = gram_matrix(a, n, n, GRAM_F32);
        m.v[k] = gram_matrix(allocate(bytes), n, n, GRAM_F32);
        m.w[k] = gram_vector(allocate((size_t)n * sizeof(float)), n, GRAM_F32);
        m.in[k] = &m.a[k], m.vectors[k] = &m.v[k], m.values[k] = &m.w[k];
    }
    for (int c = 1; c <= devices; c++)
        share(&m, c, "the CPU");
    for (int k = 0; k < count; k++) { /* to the first device */
        gram_tensor *const moved[] = {&m.a[k], &m.v[k], &m.w[k]};
        for (int i = 0; i < 3; i++) {
            size_t bytes = (size_t)(i < 2 ? m.a[k].shape[0] * m.a[k].shape[0] : m.w[k].shape[0]) *
                           sizeof(float);
            void *host = moved[i]->data;
            check(gram_memory_allocate(m.g[0], bytes, &moved[i]->data), m.g[0]);
            check(gram_memory_copy(m.g[0], moved[i]->data, host, bytes), m.g[0]);
            check(gram_context_synchronize(m.g[0]), m.g[0]);
            moved[i]->device = gram_context_device(m.g[0]);
            free(host);
        }
    }
    for (int c = 1; c <= devices; c++)
        share(&m, c, "the first device");
    for (int c = devices - 1; c >= 0; c--)
        gram_context_destroy(m.g[c]);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc >= 4 && strcmp(argv[1], "one") == 0)
        return one(strtoll(argv[2], NULL, 10), strcmp(argv[3], "f64") == 0 ? GRAM_F64 : GRAM_F32,
                   argc > 4 ? (int)strtol(argv[4], NULL, 10) : 2);
    if (argc == 5 && strcmp(argv[1], "many") == 0)
        return many((int)strtol(argv[2], NULL, 10), strtoll(argv[3], NULL, 10),
                    strtoll(argv[4], NULL, 10));
    fprintf(stderr, "bench_eigh_multi one N f32|f64 [ROUNDS] | many COUNT LEAST MOST\n");
    return 2;
}

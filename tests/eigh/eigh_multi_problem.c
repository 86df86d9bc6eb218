/*
 * eigh_multi_problem.c - eigenproblems on several devices: made, brought there and back, checked
 *
 * SPDX-License-Identifier: MIT
 */
#include "eigh_multi_problem.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int multi_count(struct harness *h)
{
    gram_info info = {.size = sizeof info};
    const char *device = getenv("GRAM_TEST_DEVICE");

    CHECK(h, gram_context_info(h->g, &info) == GRAM_OK, "%s", gram_message(h->g));
    if (!device || strcmp(device, "cuda") != 0)
        return 0;
    return info.cuda_devices < MULTI_MOST ? info.cuda_devices : MULTI_MOST;
}

void multi_close(struct multi_devices *d)
{
    for (int i = 0; i < MULTI_MOST; i++)
        gram_context_destroy(d->g[i]);
}

/* So many devices, the last one first where reversed; false if there are not so many. */
bool multi_open(struct harness *h, struct multi_devices *d, int count, bool reversed)
{
    *d = (struct multi_devices){.group = GRAM_GROUP_INIT};
    if (multi_count(h) < count || count == 0)
        return false;
    for (int i = 0; i < count; i++) {
        gram_context_options o = GRAM_CONTEXT_OPTIONS_INIT;
        o.device = (gram_device){GRAM_CUDA, reversed ? count - 1 - i : i};
        if (!CHECK(h, gram_context_create(&o, &d->g[i]) == GRAM_OK, "%s", gram_message(NULL))) {
            multi_close(d);
            return false;
        }
    }
    d->group.contexts = d->g;
    d->group.count = count;
    d->group.force = 1;
    return true;
}

/* ---- Problems ------------------------------------------------------------------------------- */

static double element(const struct multi_problem *p, int64_t i, int64_t j)
{
    return p->scale *
           ((i == j ? cos(0.7 * (double)i) * (double)i : 0) + 1 / (double)(1 + llabs(i - j)));
}

static void set(const gram_tensor *t, char *base, int64_t at, double value)
{
    if (t->dtype == GRAM_F64)
        ((double *)(void *)base)[at] = value;
    else
        ((float *)(void *)base)[at] = (float)value;
}

static double get(const gram_tensor *t, const char *base, int64_t at)
{
    return t->dtype == GRAM_F64 ? ((const double *)(const void *)base)[at]
                                : (double)((const float *)(const void *)base)[at];
}

static gram_tensor matrix(const struct multi_problem *p, int64_t cols)
{
    gram_tensor t = gram_matrix(NULL, p->n, cols, p->dtype);

    t.stride[0] = cols + MULTI_GAP;
    if (p->by_columns)
        t.stride[0] = 1, t.stride[1] = p->n + MULTI_GAP;
    return t;
}

/* Brings a tensor from the CPU to where it is wanted. */
static char *put(struct harness *h, const struct multi_devices *d, int on, gram_tensor *t,
                 char *cpu, size_t bytes)
{
    void *there = NULL;

    t->data = cpu;
    if (on < 0)
        return NULL;
    t->device = gram_context_device(d->g[on]);
    CHECK(h,
          gram_memory_allocate(d->g[on], bytes, &there) == GRAM_OK &&
              gram_memory_copy(d->g[on], there, cpu, bytes) == GRAM_OK &&
              gram_context_synchronize(d->g[on]) == GRAM_OK,
          "%s", gram_message(d->g[on]));
    t->data = there;
    return there;
}

bool multi_fill(struct harness *h, const struct multi_devices *d, struct multi_problem *p)
{
    int64_t n = p->n;

    p->bytes = (size_t)((n + MULTI_GAP) * (n + MULTI_GAP)) * 8;
    p->cpu = calloc(3, p->bytes); /* bytes between are the same in every run */
    if (!CHECK(h, p->cpu, "no memory") || !p->cpu)
        return false;
    p->a = matrix(p, n);
    p->v = p->in_place ? p->a : matrix(p, p->count);
    p->w = gram_vector(NULL, p->count, p->dtype);
    p->w.stride[0] = p->by_columns ? 2 : 1;
    for (int64_t i = 0; i < (n + MULTI_GAP) * (n + MULTI_GAP); i++)
        for (int k = 0; k < 3; k++)
            set(&p->a, p->cpu + (size_t)k * p->bytes, i, MULTI_UNTOUCHED);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            set(&p->a, p->cpu, i * p->a.stride[0] + j * p->a.stride[1],
                (p->upper ? i <= j : i >= j) ? element(p, i, j) : NAN);
    p->there[0] = put(h, d, p->a_on, &p->a, p->cpu, p->bytes);
    if (p->in_place)
        p->v = p->a;
    else
        p->there[1] = put(h, d, p->v_on, &p->v, p->cpu + p->bytes, p->bytes);
    p->there[2] = put(h, d, p->w_on, &p->w, p->cpu + 2 * p->bytes, p->bytes);
    p->info = gram_vector(&p->code, 1, GRAM_I32);
    p->found = gram_vector(&p->inside, 1, GRAM_I64);
    p->info.ndim = p->found.ndim = 0;
    p->code = MULTI_UNTOUCHED;
    p->options = (gram_eigh_options)GRAM_EIGH_OPTIONS_INIT;
    p->options.uplo = p->upper ? GRAM_UPPER : GRAM_LOWER;
    if (p->count < n) {
        p->options.select = GRAM_EIGH_INDEX;
        p->options.first = p->first, p->options.count = p->count;
    }
    return true;
}

void multi_drop(const struct multi_devices *d, struct multi_problem *p)
{
    const int on[] = {p->a_on, p->in_place ? -1 : p->v_on, p->w_on};

    for (int k = 0; k < 3; k++)
        if (on[k] >= 0)
            gram_memory_free(d->g[on[k]], p->there[k], p->bytes);
    free(p->cpu);
}

/* Brings results to the CPU's copies. */
void multi_fetch(struct harness *h, const struct multi_devices *d, struct multi_problem *p)
{
    const int on[] = {p->in_place ? p->a_on : -1, p->in_place ? -1 : p->v_on, p->w_on};

    for (int k = 0; k < 3; k++)
        if (on[k] >= 0)
            CHECK(h,
                  gram_memory_copy(d->g[on[k]], p->cpu + (size_t)k * p->bytes, p->there[k],
                                   p->bytes) == GRAM_OK &&
                      gram_context_synchronize(d->g[on[k]]) == GRAM_OK,
                  "%s", gram_message(d->g[on[k]]));
}

static double epsilon(const struct multi_problem *p)
{
    return p->dtype == GRAM_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
}

double multi_vector_at(const struct multi_problem *p, int64_t i, int64_t j)
{
    return get(&p->v, p->cpu + (p->in_place ? 0 : p->bytes),
               i * p->v.stride[0] + j * p->v.stride[1]);
}

double multi_value_at(const struct multi_problem *p, int64_t j)
{
    return get(&p->w, p->cpu + 2 * p->bytes, j * p->w.stride[0]);
}

/* LAPACK's ratios of some columns, the order of the values, gaps between columns. */
void multi_check_pairs(struct harness *h, const struct multi_problem *p)
{
    double bound = 30 * (double)p->n * epsilon(p), norm = 0, worst = 0, overlap = 0;
    int64_t n = p->n;

    for (int64_t i = 0; i < n; i++)
        norm = fmax(norm, fabs(element(p, i, i)) + p->scale * 2);
    for (int64_t j = 0; j < p->count; j += 1 + p->count / 7) {
        CHECK(h, j == 0 || multi_value_at(p, j - 1) <= multi_value_at(p, j),
              "values are not in order");
        for (int64_t i = 0; p->vectors && i < n; i++) {
            double sum = -multi_value_at(p, j) * multi_vector_at(p, i, j);
            for (int64_t s = 0; s < n; s++)
                sum += element(p, i, s) * multi_vector_at(p, s, j);
            worst = fmax(worst, fabs(sum));
        }
        for (int64_t k = 0; p->vectors && k <= j; k += 1 + j / 3) {
            double dot = k == j ? -1 : 0;
            for (int64_t s = 0; s < n; s++)
                dot += multi_vector_at(p, s, k) * multi_vector_at(p, s, j);
            overlap = fmax(overlap, fabs(dot));
        }
    }
    CHECK(h, worst <= bound * norm && overlap <= bound, "n %lld: residual %g of %g, overlap %g",
          (long long)n, worst, norm, overlap);
    if (p->vectors && p->by_columns && !p->in_place)
        CHECK(h, get(&p->v, p->cpu + p->bytes, n) == MULTI_UNTOUCHED, "a gap was written");
}

gram_status multi_run(const struct multi_devices *d, struct multi_problem *p)
{
    return gram_eigh_multi(&d->group, &p->a, &p->options, &p->w, p->vectors ? &p->v : NULL,
                           &p->info);
}

void multi_compute(struct harness *h, const struct multi_devices *d, struct multi_problem *p)
{
    if (!multi_fill(h, d, p))
        return;
    CHECK(h, multi_run(d, p) == GRAM_OK, "%s", gram_message(d->g[0]));
    CHECK(h, p->code == 0, "info %d", (int)p->code);
    multi_fetch(h, d, p);
    multi_check_pairs(h, p);
    multi_drop(d, p);
}

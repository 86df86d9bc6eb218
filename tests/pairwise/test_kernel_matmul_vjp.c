/*
 * test_kernel_matmul_vjp.c - what no table of cases says of gradients of products with kernel
 * matrices: the header's bound against sums in long double on points far from the origin, in
 * clusters and many times over; the same bits for any number of threads; where NaN goes
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "gram/gram.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    COORDINATES = 3,
    COLUMNS = 2,
    MOST_THREADS = 5
};

/* How points lie. */
enum lie {
    FAR,       /* distances of 1 at an offset */
    CLUSTERS,  /* four heaps of a size of 0.01, each at the offset from the others */
    DUPLICATES /* every fifth point is the same */
};

struct problem {
    int64_t m, n; /* n = 0: y is x */
    gram_dtype dtype;
    double p, outer;
    enum lie lie;
    double offset;
};

struct data {
    gram_tensor x, y, v, grad, to, one;
};

static gram_tensor matrix(int64_t rows, int64_t cols, gram_dtype dtype)
{
    gram_tensor t = {
        .dtype = dtype, .ndim = 2, .shape = {rows, cols},
                .stride = {cols,    1}
    };

    t.data = calloc((size_t)(rows * cols), sizeof(double));
    return t;
}

static void put(const gram_tensor *t, int64_t at, double value)
{
    if (t->dtype == GRAM_F32)
        ((float *)t->data)[at] = (float)value;
    else
        ((double *)t->data)[at] = value;
}

static double get(const gram_tensor *t, int64_t at)
{
    return t->dtype == GRAM_F32 ? (double)((const float *)t->data)[at]
                                : ((const double *)t->data)[at];
}

/* Numbers from 0 to 1 without a pattern. */
static double draw(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return (double)(*seed >> 8) / (1 << 24);
}

static void fill(const gram_tensor *t, uint32_t seed)
{
    for (int64_t i = 0; i < t->shape[0] * t->shape[1]; i++)
        put(t, i, draw(&seed) - 0.4);
}

static void fill_points(const gram_tensor *t, const struct problem *p, uint32_t seed)
{
    for (int64_t i = 0; i < t->shape[0]; i++)
        for (int64_t k = 0; k < COORDINATES; k++) {
            double at = draw(&seed);
            if (p->lie == CLUSTERS)
                at = 0.01 * at + (double)(i % 4) * p->offset;
            else if (p->lie == DUPLICATES && i % 5 == 0)
                at = 0.25 + p->offset;
            else
                at += p->offset;
            put(t, i * COORDINATES + k, at);
        }
}

static gram_kernel_options kernel_of(const struct problem *p)
{
    gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;

    o.function = p->p == 2 && p->outer == 1 ? GRAM_GAUSSIAN : GRAM_LAPLACE;
    o.p = gram_number(p->p), o.outer_power = gram_number(p->outer);
    o.bandwidth = gram_number(0.7);
    return o;
}

static bool create(const struct problem *p, struct data *d)
{
    const int64_t n = p->n ? p->n : p->m;

    *d = (struct data){
        .x = matrix(p->m, COORDINATES, p->dtype),
        .y = matrix(n, COORDINATES, p->dtype),
        .v = matrix(n, COLUMNS, p->dtype),
        .grad = matrix(p->m, COLUMNS, p->dtype),
        .to = matrix(p->m, COORDINATES, p->dtype),
        .one = matrix(p->m, COORDINATES, p->dtype),
    };
    if (!d->x.data || !d->y.data || !d->v.data || !d->grad.data || !d->to.data || !d->one.data)
        return false;
    fill_points(&d->x, p, 1), fill_points(&d->y, p, 2);
    fill(&d->v, 3), fill(&d->grad, 4);
    return true;
}

static void destroy(struct data *d)
{
    free(d->x.data), free(d->y.data), free(d->v.data), free(d->grad.data);
    free(d->to.data), free(d->one.data);
}

static gram_status differentiate(int threads, const struct problem *p, struct data *d,
                                 gram_tensor *to)
{
    gram_context_options options = GRAM_CONTEXT_OPTIONS_INIT;
    gram_kernel_matmul_grads grads = GRAM_KERNEL_MATMUL_GRADS_INIT;
    const gram_kernel_options kernel = kernel_of(p);
    gram_context *g;
    gram_status status;

    options.threads = threads;
    status = gram_context_create(&options, &g);
    if (status)
        return status;
    grads.x = to;
    status =
        gram_kernel_matmul_vjp(g, &d->x, p->n ? &d->y : NULL, &kernel, &d->v, &d->grad, &grads);
    gram_context_destroy(g);
    return status;
}

/* ---- The bound ------------------------------------------------------------------------------ */

/* The cotangent of the element of points i and j, and its magnitude. */
static long double cotangent(const struct problem *p, const struct data *d, int64_t i, int64_t j,
                             long double *magnitude)
{
    long double sum = 0;

    *magnitude = 0;
    for (int64_t c = 0; c < COLUMNS; c++) {
        long double one =
            (long double)get(&d->grad, i * COLUMNS + c) * (long double)get(&d->v, j * COLUMNS + c);
        if (!p->n) {
            long double other = (long double)get(&d->grad, j * COLUMNS + c) *
                                (long double)get(&d->v, i * COLUMNS + c);
            *magnitude += fabsl(other);
            sum += other;
        }
        *magnitude += fabsl(one);
        sum += one;
    }
    return sum;
}

/* The weight of a pair whose inner sum is s, and what its relative error may be in eps. */
static long double weight(const struct problem *p, long double s, double *error)
{
    const long double L = 0.7L, distance = p->outer == 1 ? s : sqrtl(s);
    const long double t = p->p == 2 && p->outer == 1 ? s / (2 * L * L) : distance / L;

    *error = (COORDINATES + 16) * (1 + (double)t);
    if (s == 0)
        return 0;
    if (p->p == 2 && p->outer == 1)
        return -expl(-t) / (L * L);
    return p->outer == 1 ? -expl(-t) / L : -expl(-t) / (L * distance);
}

static bool within(const struct problem *p, const struct data *d, int64_t i, int64_t k)
{
    const gram_tensor *y = p->n ? &d->y : &d->x;
    const double eps = p->dtype == GRAM_F32 ? (double)FLT_EPSILON : DBL_EPSILON;
    const long double got = (long double)get(&d->to, i * COORDINATES + k);
    long double want = 0, bound = 0;

    for (int64_t j = 0; j < y->shape[0]; j++) {
        long double s = 0, difference = 0, magnitude, w, g, factor;
        double error;
        for (int64_t l = 0; l < COORDINATES; l++) {
            long double e = (long double)get(&d->x, i * COORDINATES + l) -
                            (long double)get(y, j * COORDINATES + l);
            s += p->p == 2 ? e * e : fabsl(e);
            difference = l == k ? e : difference;
        }
        w = weight(p, s, &error);
        g = cotangent(p, d, i, j, &magnitude);
        factor = p->p == 2 ? difference : (long double)((difference > 0) - (difference < 0));
        want += w * g * factor;
        bound += (COLUMNS + 300 + (long double)error) * eps * fabsl(w * factor) * magnitude;
    }
    if (fabsl(got - want) <= bound + 1e-30L)
        return true;
    printf("p = %g, lie %d, offset %g: [%lld, %lld] is %.9Lg, expected %.9Lg +- %.2Lg\n", p->p,
           (int)p->lie, p->offset, (long long)i, (long long)k, got, want, bound);
    return false;
}

static void bound(struct harness *h)
{
    static const struct problem kinds[] = {
        {300,  250, GRAM_F32, 2,   1, 0, 0},
        {300,  250, GRAM_F32, 2, 0.5, 0, 0},
        {300,  250, GRAM_F32, 1,   1, 0, 0},
        {300,    0, GRAM_F32, 2,   1, 0, 0},
        {300,    0, GRAM_F32, 2, 0.5, 0, 0},
        {300,    0, GRAM_F64, 1,   1, 0, 0},
        {  4, 9000, GRAM_F32, 2,   1, 0, 0},
    };
    static const double offsets[] = {0, 1e4, 1e6};

    for (int i = 0; i < LENGTH(kinds); i++)
        for (int lie = FAR; lie <= DUPLICATES; lie++)
            for (int o = 0; o < LENGTH(offsets); o++) {
                struct problem p = kinds[i];
                struct data d;
                bool right;
                p.lie = (enum lie)lie, p.offset = offsets[o];
                right = create(&p, &d) && differentiate(2, &p, &d, &d.to) == GRAM_OK;
                for (int64_t e = 0; right && e < p.m * COORDINATES; e++)
                    right = within(&p, &d, e / COORDINATES, e % COORDINATES);
                CHECK(h, right, "p = %g: wrong, or no memory", p.p);
                destroy(&d);
            }
}

/* ---- Bits, and NaN -------------------------------------------------------------------------- */

static void threads(struct harness *h)
{
    static const struct problem problems[] = {
        {1000,    0, GRAM_F32, 2, 1, FAR, 0},
        {  70, 9000, GRAM_F32, 1, 1, FAR, 0},
        { 700,  400, GRAM_F64, 2, 1, FAR, 0},
    };

    for (int i = 0; i < LENGTH(problems); i++) {
        const struct problem *p = &problems[i];
        const size_t bytes = (size_t)(p->m * COORDINATES) * (p->dtype == GRAM_F32 ? 4 : 8);
        struct data d;
        bool same = create(p, &d) && differentiate(1, p, &d, &d.one) == GRAM_OK;
        for (int n = 2; same && n <= MOST_THREADS; n++)
            same = differentiate(n, p, &d, &d.to) == GRAM_OK &&
                   memcmp(d.to.data, d.one.data, bytes) == 0;
        CHECK(h, same, "problem %d: not the same bits", i);
        destroy(&d);
    }
}

/* A NaN in a row of x, and one in a row of grad, reach the gradients of these rows alone. */
static void nan_stays(struct harness *h)
{
    const struct problem p = {100, 90, GRAM_F32, 2, 1, FAR, 0};
    struct data d;
    bool right = create(&p, &d);

    if (right)
        put(&d.x, 7 * COORDINATES + 1, (double)NAN), put(&d.grad, 40 * COLUMNS, (double)NAN);
    right = right && differentiate(2, &p, &d, &d.to) == GRAM_OK;
    for (int64_t e = 0; right && e < p.m * COORDINATES; e++) {
        const int64_t row = e / COORDINATES;
        right = (row == 7 || row == 40) == isnan(get(&d.to, e));
    }
    CHECK(h, right, "NaN is in other rows than 7 and 40");
    destroy(&d);
}

static const struct test_function tests[] = {
    {    "bound",     bound},
    {  "threads",   threads},
    {"nan_stays", nan_stays},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}

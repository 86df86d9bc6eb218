/*
 * cpu_kron_solve_sweeps.c - small factors are divided by in place, many systems at once
 *
 * LAPACK wants the unknowns of a system side by side, one dimension after the other, and takes
 * most of its time for calls; here the other dimensions are lanes (kron_solve_tile.h), and nothing
 * is transposed.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu/cpu_kernels.h"
#include "cpu/cpu_mirror.h"
#include "cpu_kron_solve.h"
#include <math.h>

enum {
    SHARE = 1 << 15 /* numbers that a thread takes at a time */
};

static bool is_small(const struct kron_solve_plan *p, int i)
{
    return p->op->method != GRAM_KRON_EIGEN && p->op->factor[i].rows <= KRON_SOLVE_SMALL;
}

void cpu_kron_sweeps_lay_out(struct kron_solve_plan *p, int i)
{
    int64_t n = p->op->factor[i].rows;

    if (!is_small(p, i))
        return;
    p->reciprocal[i] = p->bytes;
    p->bytes += gram_round64((size_t)n * gram_dtype_size(p->dtype));
    p->from[i] = p->bytes;
    p->bytes += gram_round64((size_t)n * sizeof(int32_t));
}

/* 1 / d; false where that, or d, is not a normal number: dividing by d keeps more of it. */
static bool invert(gram_dtype dtype, const void *diagonal, int64_t at, void *reciprocal, int64_t j)
{
    if (dtype == GRAM_F32) {
        float d = ((const float *)diagonal)[at], r = 1 / d;
        ((float *)reciprocal)[j] = r;
        return isnormal(d) && isnormal(r);
    }
    double d = ((const double *)diagonal)[at], r = 1 / d;
    ((double *)reciprocal)[j] = r;
    return isnormal(d) && isnormal(r);
}

bool cpu_kron_sweeps_prepare(const struct kron_solve_plan *p, int i)
{
    int64_t n = p->op->factor[i].rows;
    char *a = p->scratch + p->factor[i];
    int32_t *from = (int32_t *)(void *)(p->scratch + p->from[i]);
    const int32_t *pivots = (const int32_t *)(const void *)(p->scratch + p->values[i]);

    if (!is_small(p, i))
        return false;
    for (int64_t j = 0; j < n; j++) {
        from[j] = (int32_t)j;
        if (!invert(p->dtype, a, j * (n + 1), p->scratch + p->reciprocal[i], j))
            return false;
    }
    if (p->op->method == GRAM_KRON_CHOLESKY) {
        cpu_mirror(p->dtype, n, a); /* L to the other triangle too */
        return true;
    }
    for (int64_t j = n - 1; j >= 0; j--) { /* P z, as LAPACK's exchanges say */
        int32_t kept = from[j];
        from[j] = from[pivots[j] - 1];
        from[pivots[j] - 1] = kept;
    }
    return true;
}

struct division {
    const struct kron_solve_plan *plan;
    struct gram_kron_sweeps sweeps;
    int64_t right, systems, share;
    void *data;
};

static void divide_share(void *arg, int64_t index, int thread)
{
    const struct division *d = arg;
    int64_t first = index * d->share, last = gram_least(first + d->share, d->systems);

    (void)thread;
    gram_cpu_kernels_of(d->plan->g)
        ->kron_solve[d->plan->dtype](&d->sweeps, d->right, first, last, d->data);
}

void cpu_kron_sweeps_divide(const struct kron_solve_plan *p, int64_t rows, void *data, bool shared)
{
    struct division d = {.plan = p, .right = 1, .data = data};

    for (int i = p->op->count - 1; i >= 0; i--) {
        int64_t n = p->op->factor[i].rows;
        d.sweeps = (struct gram_kron_sweeps){
            .n = n,
            .matrix = p->scratch + p->factor[i],
            .reciprocal = p->scratch + p->reciprocal[i],
            .from = (const int32_t *)(const void *)(p->scratch + p->from[i]),
            .unit = p->op->method == GRAM_KRON_LU,
        };
        d.systems = rows * (p->order / n);
        d.share = shared ? gram_most(1, SHARE / n) : d.systems;
        if (shared)
            gram_parallel_for(p->g, gram_ceil_div(d.systems, d.share), divide_share, &d);
        else
            divide_share(&d, 0, 0);
        d.right *= n;
    }
}

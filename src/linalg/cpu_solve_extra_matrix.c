/*
 * cpu_solve_extra_matrix.c - a matrix brought to scratch, and its norm
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu/cpu_mirror.h"
#include "cpu_solve_extra.h"
#include <math.h>

void cpu_solve_extra_load(const struct extra_work *w)
{
    const struct gram_view *v = &w->plan->op->a;
    struct solve_copy c = {
        .to = w->a,
        .from = cpu_solve_item(w->plan, v, w->own, 0),
        .to_stride = {                                      1,w->n                                                        },
        .from_stride = {w->flip ? v->col_stride : v->row_stride,
                      w->flip ? v->row_stride : v->col_stride},
        .rows = w->n,
        .cols = w->n,
        .part = w->plan->lu ? SOLVE_ALL : SOLVE_LOWER,
    };

    w->plan->kernels->copy(&c, 0, w->n);
    if (!w->plan->lu)
        cpu_mirror(v->dtype, w->n, w->a);
}

static double size_at(const struct extra_work *w, int64_t i, int64_t j)
{
    return fabs(cpu_solve_extra_get(w, w->a, i + j * w->n));
}

/* Column by column, so that memory is read in order. */
static double norm_of_rows(const struct extra_work *w)
{
    double most = 0;

    for (int64_t i = 0; i < w->n; i++)
        cpu_solve_extra_put(w, w->work, i, 0);
    for (int64_t j = 0; j < w->n; j++)
        for (int64_t i = 0; i < w->n; i++)
            cpu_solve_extra_put(w, w->work, i,
                                cpu_solve_extra_get(w, w->work, i) + size_at(w, i, j));
    for (int64_t i = 0; i < w->n; i++) {
        double sum = cpu_solve_extra_get(w, w->work, i);
        if (isnan(sum))
            return INFINITY;
        most = fmax(most, sum);
    }
    return most;
}

static double norm_of_columns(const struct extra_work *w)
{
    double most = 0;

    for (int64_t j = 0; j < w->n; j++) {
        double sum = 0;
        for (int64_t i = 0; i < w->n; i++)
            sum += size_at(w, i, j);
        if (isnan(sum))
            return INFINITY;
        most = fmax(most, sum);
    }
    return most;
}

double cpu_solve_extra_norm(const struct extra_work *w, bool rows)
{
    return rows && w->plan->lu ? norm_of_rows(w) : norm_of_columns(w);
}

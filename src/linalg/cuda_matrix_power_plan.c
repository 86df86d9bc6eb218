/*
 * cuda_matrix_power_plan.c - the polynomials of MINIMAX where the condition is known beforehand
 *
 * Of degree 2, W = a I + b M + c M^2: one product more a step than degree 1 takes, and half as many
 * steps.  The best one leaves y^(1/q) (a + b y + c y^2) nearest to 1 over all eigenvalues y of M;
 * it is found by exchanging points of a grid (Remez; Powell, Approximation theory and methods, 9).
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_matrix_power.h"
#include <math.h>

enum {
    GRID = 400,     /* points, evenly spaced in their logarithms */
    UNKNOWNS = 4,   /* a, b, c, and e, by which y^(1/q) w(y) differs from 1 */
    EXCHANGES = 30, /* 5 to 8 are needed */
    LEAST = 64      /* the order from which on it is worth it */
};

/* The largest e at the end; the largest condition: beyond, degree 1 is better conditioned. */
static const double enough = 4e-6, most_condition = 1e9;

/* x of A x = (1, 1, 1, 1), by elimination; A is overwritten. */
static void solve(double a[UNKNOWNS][UNKNOWNS + 1], double x[UNKNOWNS])
{
    for (int k = 0; k < UNKNOWNS; k++) {
        int best = k;
        for (int i = k + 1; i < UNKNOWNS; i++)
            if (fabs(a[i][k]) > fabs(a[best][k]))
                best = i;
        for (int j = 0; j <= UNKNOWNS; j++) {
            double kept = a[k][j];
            a[k][j] = a[best][j];
            a[best][j] = kept;
        }
        for (int i = k + 1; i < UNKNOWNS; i++) {
            double by = a[i][k] / a[k][k];
            for (int j = k; j <= UNKNOWNS; j++)
                a[i][j] -= by * a[k][j];
        }
    }
    for (int k = UNKNOWNS - 1; k >= 0; k--) {
        x[k] = a[k][UNKNOWNS];
        for (int j = k + 1; j < UNKNOWNS; j++)
            x[k] -= a[k][j] * x[j];
        x[k] /= a[k][k];
    }
}

struct grid {
    double y[GRID], root[GRID], rest[GRID]; /* y^(1/q); y^(1/q) w(y) - 1 */
};

/* The polynomial whose errors at four points are equal but for their signs, which alternate. */
static void level(const struct grid *grid, const int at[UNKNOWNS], double x[UNKNOWNS])
{
    double a[UNKNOWNS][UNKNOWNS + 1];

    for (int i = 0; i < UNKNOWNS; i++) {
        const double y = grid->y[at[i]], r = grid->root[at[i]];
        const double row[] = {r, r * y, r * y * y, i % 2 ? -1 : 1, 1};
        for (int j = 0; j <= UNKNOWNS; j++)
            a[i][j] = row[j];
    }
    solve(a, x);
}

/* The largest error of each run of one sign: the next points.  False: they are the same. */
static bool exchange(const struct grid *grid, int at[UNKNOWNS])
{
    int found = -1, next[UNKNOWNS];
    bool changed = false;

    for (int i = 0; i < GRID; i++) {
        bool starts = i == 0 || (grid->rest[i] > 0) != (grid->rest[i - 1] > 0);
        if (starts && ++found == UNKNOWNS)
            return false; /* rounding */
        if (starts || fabs(grid->rest[i]) > fabs(grid->rest[next[found]]))
            next[found] = i;
    }
    for (int i = 0; found == UNKNOWNS - 1 && i < UNKNOWNS; i++) {
        changed |= at[i] != next[i];
        at[i] = next[i];
    }
    return changed;
}

/* The best polynomial of degree 2 for eigenvalues from low to high; its e. */
static double best(double q, double low, double high, double x[UNKNOWNS])
{
    struct grid grid;
    int at[UNKNOWNS];
    double most;

    for (int i = 0; i < GRID; i++) {
        grid.y[i] = low * pow(high / low, (double)i / (GRID - 1));
        grid.root[i] = pow(grid.y[i], 1 / q);
    }
    for (int i = 0; i < UNKNOWNS; i++)
        at[i] = i * (GRID - 1) / (UNKNOWNS - 1);
    for (int round = 0; round < EXCHANGES; round++) {
        level(&grid, at, x);
        most = 0;
        for (int i = 0; i < GRID; i++) {
            double y = grid.y[i];
            grid.rest[i] = grid.root[i] * (x[0] + y * (x[1] + y * x[2])) - 1;
            most = fmax(most, fabs(grid.rest[i]));
        }
        if (!exchange(&grid, at))
            break;
    }
    return most;
}

/* As matrix_power_minimax.cuh has the best one of degree 1. */
static double best_line(double q, double low, double high, double x[UNKNOWNS])
{
    double p = 1 / q;
    double t = high - low > 1e-9 * high
                   ? (pow(high, p) - pow(low, p)) / (pow(high, 1 + p) - pow(low, 1 + p))
                   : 1 / ((1 + q) * low);
    double peak = 1 / (t * (1 + q));
    double least = pow(low, p) * (1 - t * low), most = pow(peak, p) * (1 - t * peak);

    x[0] = 2 / (least + most);
    x[1] = -x[0] * t;
    x[2] = 0;
    return (most - least) / (most + least);
}

void cuda_power_plan(const struct power_job *job, struct power_plan *plan)
{
    const struct gram_matrix_power_op *op = job->op;
    double condition = cuda_power_condition(job), q = op->denominator, e = 1;
    double low = 1 / (1.05 * condition), high = 1.01; /* as matrix_power_minimax.cuh */

    *plan = (struct power_plan){.steps = 0};
    if (op->method != GRAM_POWER_MINIMAX || op->numerator > 0 || op->a.dtype != GRAM_F32 ||
        job->work != GRAM_F64 || op->a.rows < LEAST || condition > most_condition)
        return;
    while (e > enough && plan->steps < POWER_PLANNED) {
        double *x = plan->factor[plan->steps];
        plan->steps++;
        e = best_line(q, low, high, x);
        if (e > enough)
            e = best(q, low, high, x);
        e = fmax(e, 1e-9);
        low = pow(1 - e, q), high = pow(1 + e, q);
    }
    if (e > enough)
        plan->steps = 0;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

static gram_status sum(gram_context *g, struct power_job *job, const double factor[3], char *other)
{
    for (int i = 0; i < 3; i++)
        job->params.factor[i] = factor[i];
    job->params.from = job->s.m;
    job->params.other = other;
    job->params.to = job->s.w;
    return cuda_power_pass(g, job, CUDA_VARIANT_POWER_SUM);
}

/* w of m, x <- x w, m <- w^q m. */
static gram_status step(gram_context *g, struct power_job *job, int i, bool last)
{
    const double *factor = job->plan.factor[i];
    struct power_matrices *s = &job->s;

    if (factor[2] != 0)
        TRY(cuda_power_symmetric(g, job, s->m, s->m, s->t));
    TRY(sum(g, job, factor, factor[2] != 0 ? s->t : NULL));
    return cuda_power_couple(g, job, i == 0, last);
}

gram_status cuda_power_planned(gram_context *g, struct power_job *job)
{
    TRY(cuda_power_combine(g, job, POWER_FIRST, job->s.b, job->s.m));
    for (int i = 0; i < job->plan.steps; i++)
        TRY(step(g, job, i, i == job->plan.steps - 1));
    return cuda_power_combine(g, job, POWER_LAST, job->s.x, job->s.x);
}

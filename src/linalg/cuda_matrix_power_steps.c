/*
 * cuda_matrix_power_steps.c - what is known of an iteration of gram_matrix_power before it begins
 *
 * gram/linalg.h has the formulas and their sources.  The device waits for no error, so how many
 * steps an iteration takes follows from a bound of the condition: the same iteration on the
 * eigenvalues of both ends.
 *
 * Where the condition is known beforehand, the polynomials of MINIMAX are of degree 2,
 *     W = a I + b M + c M^2:
 * one product more a step than degree 1 takes, and half as many steps.  The best one leaves
 * y^(1/q) (a + b y + c y^2) nearest to 1 over all eigenvalues y of M; it is found by exchanging
 * points of a grid (Remez; Powell, Approximation theory and methods, 9).
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_matrix_power.h"
#include <float.h>
#include <math.h>

enum {
    SPARE_STEPS = 2, /* for an error that is a sum over eigenvalues, and its test after the step */
    GRID = 400,      /* points, evenly spaced in their logarithms */
    UNKNOWNS = 4,    /* a, b, c, and e, by which y^(1/q) w(y) differs from 1 */
    EXCHANGES = 30,  /* 5 to 8 are needed */
    PLANNED_LEAST = 64 /* the order from which on it is worth it */
};

/* The largest e at the end; the largest condition: beyond, degree 1 is better conditioned. */
static const double planned_error = 4e-6, most_planned_condition = 1e9;

/* ---- The number of steps --------------------------------------------------------------------- */

double cuda_power_condition(const struct gram_matrix_power_op *op, gram_dtype work)
{
    const double least = op->factor ? gram_power_least_ridge(op, work) : 0;
    double ridge = op->ridge_relative && !op->ridge.tensor.data ? op->ridge.value : 0;

    if (op->condition > 0)
        return op->condition;
    ridge = fmax(ridge, least);
    if (!(ridge > 0))
        return INFINITY;
    /* As matrix_power.cuh has it of a factor. */
    return (op->factor ? 2 : 1) * (1 + 1 / ridge);
}

/* Rounding errors of M are amplified by what its smallest eigenvalues still have to grow. */
static const double most_growth_of_tf32 = 20;

static void count(struct power_steps *steps, double smallest)
{
    steps->all++;
    steps->exact += smallest * most_growth_of_tf32 < 1;
}

/* Eigenvalues y of M after W^q: with y at most 1 they rise. */
static struct power_steps newton_steps(double q, double condition, double done)
{
    double high = (1 + q) / 2, low = high / condition;
    struct power_steps steps = {SPARE_STEPS, 0};

    while (1 - low > done) {
        count(&steps, low);
        double from_low = low * pow(1 + (1 - low) / q, q);
        double from_high = high * pow(1 + (1 - high) / q, q);
        low = fmin(from_low, from_high);
        high = 1;
    }
    return steps;
}

static struct power_steps schulz_steps(double condition, double done)
{
    struct power_steps steps = {SPARE_STEPS, 0};

    for (double y = 1 / condition; 1 - y > done; y *= (3 - y) * (3 - y) / 4)
        count(&steps, y);
    return steps;
}

/* As matrix_power.cuh has it, where the numbers are explained. */
static struct power_steps minimax_steps(double q, double condition, double done)
{
    double low = 1 / (1.05 * condition), high = 1.01, e = 1, line[2];
    struct power_steps steps = {0, 0};

    while (e > done) {
        count(&steps, low);
        e = gram_power_minimax(q, low, high, line);
        low = pow(1 - e, q), high = pow(1 + e, q);
    }
    return steps;
}

struct power_steps cuda_power_steps(const struct gram_matrix_power_op *op, gram_dtype work)
{
    const double done = op->a.dtype == GRAM_F32 ? 1e-4 : 1e-8;
    const double rounding = op->a.dtype == GRAM_F32 ? (double)FLT_EPSILON : DBL_EPSILON;
    const double known = cuda_power_condition(op, work);
    const double condition = known < INFINITY ? known : 1 / rounding;
    struct power_steps steps;

    if (op->method == GRAM_POWER_MINIMAX)
        return minimax_steps(op->denominator, condition, op->a.dtype == GRAM_F32 ? 1e-7 : 1e-15);
    steps = op->method == GRAM_POWER_COUPLED_NEWTON ? newton_steps(op->denominator, condition, done)
                                                    : schulz_steps(condition, done);
    steps.all = (int)gram_least(steps.all, op->iterations);
    return steps;
}

/* ---- The polynomials of MINIMAX -------------------------------------------------------------- */

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

void cuda_power_polynomials(const struct gram_matrix_power_op *op, gram_dtype work,
                            struct power_plan *plan)
{
    double condition = cuda_power_condition(op, work), q = op->denominator, e = 1;
    double low = 1 / (1.05 * condition), high = 1.01; /* as matrix_power.cuh */

    *plan = (struct power_plan){.steps = 0};
    if (op->method != GRAM_POWER_MINIMAX || op->numerator > 0 || op->a.dtype != GRAM_F32 ||
        work != GRAM_F64 || op->a.rows < PLANNED_LEAST || condition > most_planned_condition)
        return;
    while (e > planned_error && plan->steps < POWER_PLANNED) {
        double *x = plan->factor[plan->steps];
        plan->steps++;
        e = gram_power_minimax(q, low, high, x); /* of degree 1 */
        x[2] = 0;
        if (e > planned_error)
            e = best(q, low, high, x);
        e = fmax(e, 1e-9);
        low = pow(1 - e, q), high = pow(1 + e, q);
    }
    if (e > planned_error)
        plan->steps = 0;
}

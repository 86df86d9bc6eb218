/*
 * cuda_matrix_power_methods.c - powers by iterations of products or by eigenvectors, and the error
 *
 * gram.h has the formulas and their sources.  How many steps an iteration takes is known before it
 * begins, from a bound of the condition: the same iteration on the eigenvalues of both ends.
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
#include <stdlib.h>

static const struct cuda_kernel matrix_power_sum = {"matrix_power_step.cu", "matrix_power_sum"};
static const struct cuda_kernel matrix_power_lanczos_step = {"matrix_power_largest.cu",
                                                             "matrix_power_lanczos_step"};
static const struct cuda_kernel matrix_power_matvec = {"matrix_power_largest.cu",
                                                       "matrix_power_matvec"};
static const struct cuda_kernel matrix_power_bound = {"matrix_power_largest.cu",
                                                      "matrix_power_bound"};
static const struct cuda_kernel matrix_power_values = {"matrix_power_load.cu",
                                                       "matrix_power_values"};
static const struct cuda_kernel matrix_power_columns = {"matrix_power_load.cu",
                                                        "matrix_power_columns"};
static const struct cuda_kernel matrix_power_distance = {"matrix_power_step.cu",
                                                         "matrix_power_distance"};

enum {
    VECTORS = 1,     /* cusolverEigMode_t */
    SPARE_STEPS = 2, /* for an error that is a sum over eigenvalues, and its test after the step */
    GRID = 400,      /* points, evenly spaced in their logarithms */
    UNKNOWNS = 4,    /* a, b, c, and e, by which y^(1/q) w(y) differs from 1 */
    EXCHANGES = 30,  /* 5 to 8 are needed */
    PLANNED_LEAST = 64 /* the order from which on it is worth it */
};

/* The largest e at the end; the largest condition: beyond, degree 1 is better conditioned. */
static const double planned_error = 4e-6, most_planned_condition = 1e9;

/* ---- The number of steps --------------------------------------------------------------------- */

double cuda_power_condition(const struct power_job *job)
{
    const struct gram_matrix_power_op *op = job->op;
    const double least = op->factor ? gram_power_least_ridge(op, job->work) : 0;
    double ridge = op->ridge_relative && !op->ridge.tensor.data ? op->ridge.value : 0;

    if (op->condition > 0)
        return op->condition;
    ridge = fmax(ridge, least);
    if (!(ridge > 0))
        return INFINITY;
    /* As matrix_power_minimax.cuh has it of a factor. */
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

/* As matrix_power_minimax.cuh has it, where the numbers are explained. */
static struct power_steps minimax_steps(double q, double condition, double done)
{
    double low = 1 / (1.05 * condition), high = 1.01, p = 1 / q, e = 1;
    struct power_steps steps = {0, 0};

    while (e > done) {
        double t = high - low > 1e-9 * high
                       ? (pow(high, p) - pow(low, p)) / (pow(high, 1 + p) - pow(low, 1 + p))
                       : 1 / ((1 + q) * low);
        double peak = 1 / (t * (1 + q));
        double least = pow(low, p) * (1 - t * low), most = pow(peak, p) * (1 - t * peak);
        count(&steps, low);
        e = (most - least) / (most + least);
        low = pow(1 - e, q), high = pow(1 + e, q);
    }
    return steps;
}

struct power_steps cuda_power_steps(const struct power_job *job)
{
    const struct gram_matrix_power_op *op = job->op;
    const double done = op->a.dtype == GRAM_F32 ? 1e-4 : 1e-8;
    const double rounding = op->a.dtype == GRAM_F32 ? (double)FLT_EPSILON : DBL_EPSILON;
    const double known = cuda_power_condition(job);
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
        job->work != GRAM_F64 || op->a.rows < PLANNED_LEAST || condition > most_planned_condition)
        return;
    while (e > planned_error && plan->steps < POWER_PLANNED) {
        double *x = plan->factor[plan->steps];
        plan->steps++;
        e = best_line(q, low, high, x);
        if (e > planned_error)
            e = best(q, low, high, x);
        e = fmax(e, 1e-9);
        low = pow(1 - e, q), high = pow(1 + e, q);
    }
    if (e > planned_error)
        plan->steps = 0;
}

/* ---- Iterations ------------------------------------------------------------------------------ */

static void swap(char **a, char **b)
{
    char *kept = *a;

    *a = *b;
    *b = kept;
}

/* to <- a b by way of t; to may be a or b. */
static gram_status multiply(gram_context *g, struct power_job *job, const char *a, const char *b,
                            char **to)
{
    TRY(cuda_power_product(g, job, a, b, job->s.t));
    swap(to, &job->s.t);
    return GRAM_OK;
}

/* The same where a and b commute; rounding errors do not grow from products made symmetric here:
 * b^(-1/4) of condition 1e4 to 1e12 is within 1.2 times the error of whole products. */
static gram_status commute(gram_context *g, struct power_job *job, const char *a, const char *b,
                           char **to)
{
    TRY(cuda_power_symmetric(g, job, a, b, job->s.t));
    swap(to, &job->s.t);
    return GRAM_OK;
}

static gram_status multiply_coupled(gram_context *g, struct power_job *job, bool first, bool last)
{
    struct power_matrices *s = &job->s;

    if (first)
        TRY(cuda_power_combine(g, job, POWER_COPY, s->w, s->x));
    else
        TRY(commute(g, job, s->x, s->w, &s->x));
    for (int q = last ? 0 : job->op->denominator; q > 0; q /= 2) {
        if (q % 2)
            TRY(commute(g, job, s->w, s->m, &s->m));
        if (q > 1)
            TRY(commute(g, job, s->w, s->w, &s->w));
    }
    return GRAM_OK;
}

/* w of m, and what follows from it. */
static gram_status couple(gram_context *g, struct power_job *job, bool first, bool last)
{
    TRY(cuda_power_combine(g, job, POWER_STEP, job->s.m, job->s.w));
    TRY(cuda_power_decide(g, job, POWER_AFTER_STEP));
    return multiply_coupled(g, job, first, last);
}

/* What the products of a step are computed in. */
static void begin_step(struct power_job *job, int step)
{
    if (job->rough)
        job->compute = step < job->steps.exact ? CUBLAS_COMPUTE_F32 : CUBLAS_COMPUTE_TF32;
}

static void end_steps(struct power_job *job)
{
    if (job->rough)
        job->compute = CUBLAS_COMPUTE_F32;
}

/* x becomes b^(-1/q): Newton, or the polynomials. */
static gram_status coupled(gram_context *g, struct power_job *job)
{
    TRY(cuda_power_combine(g, job, POWER_FIRST, job->s.b, job->s.m));
    for (int i = 0; i < job->steps.all; i++) {
        begin_step(job, i);
        TRY(couple(g, job, i == 0, i == job->steps.all - 1));
    }
    end_steps(job);
    TRY(cuda_power_decide(g, job, POWER_END));
    return cuda_power_combine(g, job, POWER_LAST, job->s.x, job->s.x);
}

/* x becomes the square root of x, m its inverse; the largest eigenvalue of x is at most about 1.
 * Whole products: with m x made symmetric rounding errors grow. */
static gram_status newton_schulz(gram_context *g, struct power_job *job)
{
    struct power_matrices *s = &job->s;

    TRY(cuda_power_decide(g, job, POWER_RESTART));
    TRY(cuda_power_combine(g, job, POWER_IDENTITY, s->m, s->m));
    for (int i = 0; i < job->steps.all; i++) {
        begin_step(job, i);
        TRY(multiply(g, job, s->m, s->x, &s->w));
        TRY(cuda_power_combine(g, job, POWER_STEP, s->w, s->w));
        TRY(cuda_power_decide(g, job, POWER_AFTER_STEP));
        TRY(multiply(g, job, s->x, s->w, &s->x));
        TRY(multiply(g, job, s->w, s->m, &s->m));
    }
    end_steps(job);
    return cuda_power_decide(g, job, POWER_END);
}

/* x becomes b^(1/q), or b^(-1/q) if the power is negative. */
static gram_status square_roots(gram_context *g, struct power_job *job)
{
    TRY(cuda_power_combine(g, job, POWER_FIRST, job->s.b, job->s.x));
    for (int q = job->op->denominator; q > 1; q /= 2)
        TRY(newton_schulz(g, job));
    if (job->op->numerator < 0)
        swap(&job->s.x, &job->s.m);
    return cuda_power_combine(g, job, POWER_LAST, job->s.x, job->s.x);
}

static gram_status add_up(gram_context *g, struct power_job *job, const double factor[3],
                          char *other)
{
    for (int i = 0; i < 3; i++)
        job->params.factor[i] = factor[i];
    job->params.from = job->s.m;
    job->params.other = other;
    job->params.to = job->s.w;
    return cuda_power_pass(g, job, &matrix_power_sum);
}

/* w of m, x <- x w, m <- w^q m. */
static gram_status planned_step(gram_context *g, struct power_job *job, int i, bool last)
{
    const double *factor = job->plan.factor[i];
    struct power_matrices *s = &job->s;

    if (factor[2] != 0)
        TRY(cuda_power_symmetric(g, job, s->m, s->m, s->t));
    TRY(add_up(g, job, factor, factor[2] != 0 ? s->t : NULL));
    return multiply_coupled(g, job, i == 0, last);
}

static gram_status planned(gram_context *g, struct power_job *job)
{
    TRY(cuda_power_combine(g, job, POWER_FIRST, job->s.b, job->s.m));
    for (int i = 0; i < job->plan.steps; i++)
        TRY(planned_step(g, job, i, i == job->plan.steps - 1));
    return cuda_power_combine(g, job, POWER_LAST, job->s.x, job->s.x);
}

/* x <- x^k; m is free. */
static gram_status raise_to(gram_context *g, struct power_job *job, int k)
{
    if (k > 1)
        TRY(cuda_power_combine(g, job, POWER_COPY, job->s.x, job->s.m));
    for (int i = 1; i < k; i++)
        TRY(multiply(g, job, job->s.x, job->s.m, &job->s.x));
    return GRAM_OK;
}

/* The power of b from what a method makes: b^(-1/q), or, Newton-Schulz, b^(1/q) where k > 0. */
static gram_status power_of(gram_context *g, struct power_job *job)
{
    const struct gram_matrix_power_op *op = job->op;
    int k = op->numerator, q = op->denominator, whole = k > 0 ? (k + q - 1) / q : 0;
    bool roots = op->method == GRAM_POWER_NEWTON_SCHULZ;

    if (k > 0 && q == 1) { /* a whole power */
        TRY(cuda_power_combine(g, job, POWER_COPY, job->s.b, job->s.x));
        return raise_to(g, job, k);
    }
    if (job->plan.steps > 0)
        TRY(planned(g, job));
    else
        TRY(roots ? square_roots(g, job) : coupled(g, job));
    TRY(raise_to(g, job, k < 0 || roots ? abs(k) : whole * q - k));
    for (int i = 0; i < whole && !roots; i++)
        TRY(multiply(g, job, job->s.x, job->s.b, &job->s.x));
    return GRAM_OK;
}

/* The largest eigenvalue, the ridge, and what follows from both. */
static gram_status bound(gram_context *g, struct power_job *job)
{
    struct power_params *p = &job->params;

    p->from = job->s.b;
    p->turn = 0;
    TRY(cuda_power_items(g, job, &matrix_power_lanczos_step, POWER_THREADS));
    for (int k = 1; k <= POWER_LANCZOS && k <= p->n; k++) {
        TRY(cuda_power_pass(g, job, &matrix_power_matvec));
        p->turn = k;
        TRY(cuda_power_items(g, job, &matrix_power_lanczos_step, POWER_THREADS));
    }
    TRY(cuda_power_items(g, job, &matrix_power_bound, 32));
    return cuda_power_combine(g, job, POWER_RIDGE, job->s.b, job->s.b);
}

gram_status cuda_power_iterate(gram_context *g, struct power_job *job)
{
    TRY(bound(g, job));
    return power_of(g, job);
}

/* ---- By eigenvectors ------------------------------------------------------------------------- */

/* X = (V f(L)^(1/2)) (V f(L)^(1/2))^T, by cuSOLVER's batched decomposition, always in f64. */
gram_status cuda_power_eigh_bytes(gram_context *g, struct power_job *job)
{
    const struct power_params *p = &job->params;
    const struct cuda_cusolver *call;

    TRY(gram_cuda_solver(g, &job->solver));
    call = job->solver->call;
    if (!call->syev_batched_bytes || !call->syev_batched)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "cuSOLVER has no XsyevBatched (it came with CUDA 12.6.2): choose another "
                         "options.method");
    return gram_cuda_solver_check(
        g,
        call->syev_batched_bytes(job->solver->handle, job->solver->params, VECTORS, CUSOLVER_LOWER,
                                 p->n, CUSOLVER_F64, job->op->a.data, p->ld, CUSOLVER_F64,
                                 job->op->a.data, CUSOLVER_F64, &job->solver_bytes,
                                 &job->host_bytes, job->chunk),
        "cusolverDnXsyevBatched_bufferSize");
}

gram_status cuda_power_eigh(gram_context *g, struct power_job *job)
{
    struct power_params *p = &job->params;
    const struct cuda_solver *s = job->solver;

    TRY(gram_cuda_solver_check(
        g,
        s->call->syev_batched(s->handle, s->params, VECTORS, CUSOLVER_LOWER, p->n, CUSOLVER_F64,
                              job->s.b, p->ld, CUSOLVER_F64, p->values, CUSOLVER_F64,
                              job->solver_memory, job->solver_bytes, job->host, job->host_bytes,
                              (int *)p->codes, p->count),
        "cusolverDnXsyevBatched"));
    TRY(cuda_power_items(g, job, &matrix_power_values, POWER_THREADS));
    p->to = job->s.b;
    TRY(cuda_power_pass(g, job, &matrix_power_columns));
    return cuda_power_square(g, job, job->s.b, job->s.x);
}

/* ---- The error estimate ---------------------------------------------------------------------- */

static gram_status distance(gram_context *g, struct power_job *job, char *from, double shift,
                            char *other, int to)
{
    job->params.from = from;
    job->params.shift = shift;
    job->params.other = other;
    job->params.what = to;
    return cuda_power_pass(g, job, &matrix_power_distance);
}

/* x^q against b^k. */
static gram_status error_of_root(gram_context *g, struct power_job *job)
{
    const struct gram_matrix_power_op *op = job->op;
    struct power_matrices *s = &job->s;
    char *c;

    TRY(cuda_power_combine(g, job, POWER_COPY, s->b, s->m));
    for (int i = 1; i < op->numerator; i++)
        TRY(multiply(g, job, s->m, s->b, &s->m));
    TRY(cuda_power_combine(g, job, POWER_COPY, s->x, s->w));
    for (int i = 1; i < op->denominator; i++)
        TRY(multiply(g, job, s->w, s->x, &s->w));
    c = s->w;
    TRY(distance(g, job, s->m, 0, NULL, 0));
    TRY(distance(g, job, c, 0, s->m, 1));
    return distance(g, job, c, 0, NULL, 2);
}

gram_status cuda_power_estimate(gram_context *g, struct power_job *job)
{
    const struct gram_matrix_power_op *op = job->op;
    struct power_matrices *s = &job->s;
    int q = op->denominator, k = -op->numerator, excess = q, x_taken = 0, b_taken = 1;

    TRY(cuda_power_load(g, job, s->b));
    TRY(cuda_power_combine(g, job, POWER_RIDGE, s->b, s->b));
    if (op->numerator > 0)
        return error_of_root(g, job);
    TRY(cuda_power_combine(g, job, POWER_COPY, s->b, s->m));
    while (x_taken < q || b_taken < k) { /* m = b^(excess / q) so far */
        bool by_x = excess > 0;
        char *by = by_x ? s->x : s->b;
        bool left = by_x ? x_taken++ % 2 == 0 : b_taken++ % 2 == 1;
        TRY(multiply(g, job, left ? by : s->m, left ? s->m : by, &s->m));
        excess += by_x ? -k : q;
    }
    return distance(g, job, s->m, 1, NULL, 0);
}

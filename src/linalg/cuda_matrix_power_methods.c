/*
 * cuda_matrix_power_methods.c - the passes of powers by products, and powers by eigenvectors
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

static const struct cuda_kernel matrix_power_combine = {"matrix_power_step.cu",
                                                        "matrix_power_combine"};
static const struct cuda_kernel matrix_power_decide = {"matrix_power_step.cu",
                                                       "matrix_power_decide"};
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

void cuda_power_plan(const struct power_job *job, struct power_plan *plan)
{
    const struct gram_matrix_power_op *op = job->op;
    double condition = cuda_power_condition(job), q = op->denominator, e = 1;
    double low = 1 / (1.05 * condition), high = 1.01; /* as matrix_power.cuh */

    *plan = (struct power_plan){.steps = 0};
    if (op->method != GRAM_POWER_MINIMAX || op->numerator > 0 || op->a.dtype != GRAM_F32 ||
        job->work != GRAM_F64 || op->a.rows < PLANNED_LEAST || condition > most_planned_condition)
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

/* ---- The passes ------------------------------------------------------------------------------ */

static struct power_job *job_of(struct gram_power_run *r)
{
    return (struct power_job *)(void *)r;
}

static gram_status combine(struct gram_power_run *r, enum gram_power_numbers what, const char *from,
                           char *to)
{
    struct power_job *job = job_of(r);

    job->params.what = what;
    job->params.from = (char *)from;
    job->params.to = to;
    return cuda_power_pass(job->g, job, &matrix_power_combine);
}

/* The next number of the state, from what is POWER_AFTER_STEP, ... */
static gram_status decide(struct power_job *job, int what)
{
    job->params.what = what;
    return cuda_power_items(job->g, job, &matrix_power_decide, POWER_THREADS);
}

static gram_status multiply(struct gram_power_run *r, const char *a, const char *b, char *c)
{
    return cuda_power_product(job_of(r)->g, job_of(r), a, b, c);
}

/* Rounding errors do not grow from products made symmetric here: b^(-1/4) of condition 1e4 to 1e12
 * is within 1.2 times the error of whole products. */
static gram_status commute(struct gram_power_run *r, const char *a, const char *b, char *c)
{
    return cuda_power_symmetric(job_of(r)->g, job_of(r), a, b, c);
}

static gram_status restart(struct gram_power_run *r)
{
    return decide(job_of(r), POWER_RESTART);
}

/* What the products of a step are computed in. */
static gram_status begin_step(struct gram_power_run *r, int step)
{
    struct power_job *job = job_of(r);

    if (job->rough)
        job->compute = step < job->steps.exact ? CUBLAS_COMPUTE_F32 : CUBLAS_COMPUTE_TF32;
    return GRAM_OK;
}

/* W = factor[0] I + factor[1] M + factor[2] M^2. */
static gram_status planned_polynomial(struct power_job *job, const double factor[3])
{
    struct gram_power_matrices *s = &job->run.s;
    const bool square = factor[2] != 0;

    if (square)
        TRY(cuda_power_symmetric(job->g, job, s->m, s->m, s->t));
    for (int i = 0; i < 3; i++)
        job->params.factor[i] = factor[i];
    job->params.from = s->m;
    job->params.other = square ? s->t : NULL;
    job->params.to = s->w;
    return cuda_power_pass(job->g, job, &matrix_power_sum);
}

static gram_status polynomial(struct gram_power_run *r, int step, const char *from, bool *last)
{
    struct power_job *job = job_of(r);

    *last = step >= (job->plan.steps > 0 ? job->plan.steps : job->steps.all) - 1;
    if (job->plan.steps > 0)
        return planned_polynomial(job, job->plan.factor[step]);
    TRY(combine(r, GRAM_POWER_STEP, from, r->s.w));
    return decide(job, POWER_AFTER_STEP);
}

static gram_status end(struct gram_power_run *r)
{
    struct power_job *job = job_of(r);

    if (job->rough)
        job->compute = CUBLAS_COMPUTE_F32;
    return job->plan.steps > 0 ? GRAM_OK : decide(job, POWER_END);
}

static gram_status reload(struct gram_power_run *r)
{
    TRY(cuda_power_load(job_of(r)->g, job_of(r), r->s.b));
    return combine(r, GRAM_POWER_RIDGE, r->s.b, r->s.b);
}

static gram_status distance(struct gram_power_run *r, int which, const char *from, double shift,
                            const char *other)
{
    struct power_job *job = job_of(r);

    job->params.from = (char *)from;
    job->params.shift = shift;
    job->params.other = (char *)other;
    job->params.what = which;
    return cuda_power_pass(job->g, job, &matrix_power_distance);
}

const struct gram_power_passes cuda_power_passes = {
    .combine = combine,
    .multiply = multiply,
    .commute = commute,
    .raise = multiply,
    .restart = restart,
    .begin_step = begin_step,
    .polynomial = polynomial,
    .end = end,
    .reload = reload,
    .distance = distance,
};

/* The largest eigenvalue, the ridge, and what follows from both. */
static gram_status bound(gram_context *g, struct power_job *job)
{
    struct power_params *p = &job->params;

    p->from = job->run.s.b;
    p->turn = 0;
    TRY(cuda_power_items(g, job, &matrix_power_lanczos_step, POWER_THREADS));
    for (int k = 1; k <= POWER_LANCZOS && k <= p->n; k++) {
        TRY(cuda_power_pass(g, job, &matrix_power_matvec));
        p->turn = k;
        TRY(cuda_power_items(g, job, &matrix_power_lanczos_step, POWER_THREADS));
    }
    TRY(cuda_power_items(g, job, &matrix_power_bound, 32));
    return combine(&job->run, GRAM_POWER_RIDGE, job->run.s.b, job->run.s.b);
}

gram_status cuda_power_iterate(gram_context *g, struct power_job *job)
{
    TRY(bound(g, job));
    return gram_power_iterate(&job->run);
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
                              job->run.s.b, p->ld, CUSOLVER_F64, p->values, CUSOLVER_F64,
                              job->solver_memory, job->solver_bytes, job->host, job->host_bytes,
                              (int *)p->codes, p->count),
        "cusolverDnXsyevBatched"));
    TRY(cuda_power_items(g, job, &matrix_power_values, POWER_THREADS));
    p->to = job->run.s.b;
    TRY(cuda_power_pass(g, job, &matrix_power_columns));
    return cuda_power_square(g, job, job->run.s.b, job->run.s.x);
}

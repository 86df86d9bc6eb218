/*
 * cpu_matrix_power.c - gram_matrix_power on the CPU
 *
 * Matrices in scratch are n by n, column-major without gaps.  A work is one item on one thread: the
 * caller's matrix is A = 2^exponent A', and everything happens to A'.  The exponent is a multiple
 * of the denominator q, so that the result's factor is a power of two, and the largest magnitude of
 * A' lies in [2^-q, 2^q): nothing overflows that the result does not.
 *
 * By the eigendecomposition, always in double, X = (V f(L)^(1/2)) (V f(L)^(1/2))^T comes from syrk:
 * half of the work of a product, and exactly symmetric.  For f32 this is as fast as LAPACK's f32
 * driver within a factor of two and the only way that is right for condition numbers above 1e5.
 *
 * By iterations of products, in the caller's dtype: gram.h has the formulas and their sources.
 * Iterates of Newton and of the minimax polynomials are polynomials in one symmetric matrix: they
 * commute, so every product is symmetric and only half of it is computed.  Newton-Schulz must not
 * do so: with Z Y made symmetric its rounding errors grow (condition 1e5, f32: diverged), so it
 * takes whole products.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/random.h"
#include "core/scratch.h"
#include "core/threads.h"
#include "cpu/cpu.h"
#include "cpu/move.h"
#include "matrix_power.h"
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PARALLEL_ORDER = 1024, /* up to here several items are done at a time, one thread each */
    PANEL = 256, /* columns of a product of which only the lower triangle is wanted: as fast as the
                    whole width in OpenBLAS's sgemm on a Zen 4 */
    LANCZOS_STEPS = 32,
    TILE = 32,           /* of a transposition: as in move.c */
    EIGH_ORDER = 32000,  /* up to here LAPACK's 32-bit integers count syevd's workspace */
    MOST_ORDER = 1 << 28 /* so that the elements of a matrix can be counted */
};

struct power_plan {
    const struct gram_matrix_power_op *op;
    const struct matrix_power_kernels *kernels; /* of work */
    gram_power_method method;                   /* never AUTO */
    gram_dtype work;                            /* what is computed in */
    bool estimate;                              /* of the error */
    int workers;                                /* items at a time, each with one thread */
    char *scratch;                              /* share_bytes for each worker */
    size_t share_bytes;
    atomic_llong next;   /* item that nobody has taken */
    atomic_llong failed; /* item * 8 + outcome, the smallest; LLONG_MAX: none */
};

struct power_work {
    const struct power_plan *plan;
    int64_t n;
    const char *a; /* the item of the caller's */
    int exponent;
    double ridge; /* the caller's number */
    char *memory; /* the worker's share of the scratch */
    void *x;      /* the result of a method, but for the factor 2^(exponent k / q) */
    double shift; /* the ridge of A', set by a method */
    /* Four matrices that the estimate may use when the method is done. */
    void *spare[4];
};

/* ---- Small loops ----------------------------------------------------------------------------- */

static double element(const struct gram_view *v, const char *data, int64_t at)
{
    return v->dtype == GRAM_F32 ? (double)((const float *)(const void *)data)[at]
                                : ((const double *)(const void *)data)[at];
}

static void put(const struct gram_view *v, char *data, int64_t at, double value)
{
    if (v->dtype == GRAM_F32)
        ((float *)(void *)data)[at] = (float)value;
    else
        ((double *)(void *)data)[at] = value;
}

#define SUFFIX f32
#define real   float
#include "matrix_power_loops.h"

#define SUFFIX f64
#define real   double
#include "matrix_power_loops.h"

/* ---- Products -------------------------------------------------------------------------------- */

static void load(const struct power_work *w, void *to)
{
    const struct gram_matrix_power_op *op = w->plan->op;

    w->plan->kernels->load(&op->a, w->a, op->uplo, w->exponent, to);
    cpu_mirror(w->plan->work, w->n, to);
}

static void multiply(const struct power_work *w, const void *a, const void *b, void *c)
{
    int64_t n = w->n;

    gram_blas_gemm(w->plan->work, (int64_t[]){n, n, n}, 1, (struct gram_blas_matrix){a, n, false},
                   (struct gram_blas_matrix){b, n, false}, 0, c, n);
}

static void multiply_symmetric(const struct power_work *w, const void *a, const void *b, void *c)
{
    gram_dtype work = w->plan->work;
    int64_t n = w->n, size = (int64_t)gram_dtype_size(work);

    if (a == b)
        gram_blas_syrk(work, GRAM_LOWER, n, n, 1, (struct gram_blas_matrix){a, n, false}, 0, c, n);
    else
        for (int64_t j = 0; j < n; j += PANEL) {
            int64_t columns = gram_least(PANEL, n - j);
            gram_blas_gemm(work, (int64_t[]){n - j, columns, n}, 1,
                           (struct gram_blas_matrix){(const char *)a + j * size, n, false},
                           (struct gram_blas_matrix){(const char *)b + j * n * size, n, false}, 0,
                           (char *)c + (j + j * n) * size, n);
        }
    cpu_mirror(work, n, c);
}

/* ---- Eigenvalues at both ends, and the ridge ------------------------------------------------- */

struct power_ends {
    double largest, smallest;
};
/* How many eigenvalues of the tridiagonal matrix with diagonal d and off-diagonal e lie below x:
 * the negative pivots of its elimination (Sturm; Golub and Van Loan, 8.4.1). */
static int below(int count, const double *d, const double *e, double x)
{
    double pivot = 1;
    int negative = 0;

    for (int i = 0; i < count; i++) {
        pivot = d[i] - x - (i > 0 ? e[i - 1] * e[i - 1] / pivot : 0);
        if (pivot == 0)
            pivot = 0x1p-1000;
        negative += pivot < 0;
    }
    return negative;
}

static double largest_of_tridiagonal(int count, const double *d, const double *e)
{
    double low = INFINITY, high = -INFINITY;

    for (int i = 0; i < count; i++) { /* Gershgorin's discs */
        double radius = (i > 0 ? fabs(e[i - 1]) : 0) + (i < count - 1 ? fabs(e[i]) : 0);
        low = fmin(low, d[i] - radius);
        high = fmax(high, d[i] + radius);
    }
    for (int i = 0; i < 60 && low < high; i++) {
        double middle = low + (high - low) / 2;
        if (below(count, d, e, middle) == count)
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* Lanczos without reorthogonalisation (Golub and Van Loan, 10.1): the outermost Ritz values need
 * none.  They never exceed the eigenvalues but by rounding. */
static struct power_ends ends_of(const struct power_work *w, const void *a, void *vectors)
{
    const struct matrix_power_kernels *k = w->plan->kernels;
    int64_t n = w->n, size = (int64_t)gram_dtype_size(w->plan->work);
    char *v = vectors, *u = v + n * size, *next = u + n * size;
    double d[LANCZOS_STEPS] = {0}, e[LANCZOS_STEPS] = {0}, beta = 0;
    struct power_ends ends;
    int steps = 0;

    k->start(n, v);
    k->orthogonalise(n, (double[]){0, 0, 1 / sqrt(k->dot(n, v, v))}, v, v, v);
    while (steps < LANCZOS_STEPS && steps < n) {
        char *kept = u;
        gram_blas_gemm(w->plan->work, (int64_t[]){n, 1, n}, 1,
                       (struct gram_blas_matrix){a, n, false},
                       (struct gram_blas_matrix){v, n, false}, 0, next, n);
        d[steps] = k->dot(n, v, next);
        k->orthogonalise(n, (double[]){d[steps], beta, 1}, v, steps ? u : v, next);
        beta = sqrt(k->dot(n, next, next));
        e[steps++] = beta;
        if (!(beta > 1e-6 * fabs(d[0]))) /* an invariant subspace */
            break;
        k->orthogonalise(n, (double[]){0, 0, 1 / beta}, v, v, next);
        u = v, v = next, next = kept;
    }
    ends.largest = largest_of_tridiagonal(steps, d, e);
    for (int i = 0; i < steps; i++)
        d[i] = -d[i];
    ends.smallest = -largest_of_tridiagonal(steps, d, e);
    return ends;
}

static double ridge_of(const struct power_work *w, double smallest, double largest)
{
    const struct gram_matrix_power_op *op = w->plan->op;
    double ridge = op->ridge_relative ? w->ridge * fmax(largest, 0) : ldexp(w->ridge, -w->exponent);

    if (!op->factor)
        return ridge;
    ridge = fmax(fmax(ridge, gram_power_least_ridge(op, w->plan->work) * largest), -2 * smallest);
    return ridge > 0 ? ridge : 1; /* of a factor that is 0, the root is I */
}

/* ---- By the eigendecomposition --------------------------------------------------------------- */

/* A worker's share of the scratch; the estimate has two matrices more. */
struct eigh_share {
    double *v, *work, *values, *more[2];
    int32_t *iwork;
    int64_t lwork, liwork;
};

static void lay_out_eigh(const struct power_plan *plan, struct gram_layout *l, struct eigh_share *s)
{
    const size_t n = (size_t)plan->op->a.rows, more = plan->estimate ? n * n : 0;

    gram_blas_syevd_sizes(plan->op->a.rows, &s->lwork, &s->liwork);
    gram_take_many(l, &s->v, n * n, sizeof(double));
    gram_take_many(l, &s->work, (size_t)s->lwork, sizeof(double));
    gram_take_many(l, &s->values, n, sizeof(double));
    gram_take_many(l, &s->iwork, (size_t)s->liwork, sizeof(int32_t));
    gram_take_many(l, &s->more[0], more, sizeof(double));
    gram_take_many(l, &s->more[1], more, sizeof(double));
}

/* The ridge of A', and whether the power exists; values are ascending. */
static gram_power_outcome check_values(struct power_work *w, const double *values)
{
    const struct gram_matrix_power_op *op = w->plan->op;
    double least = values[0], most = values[w->n - 1], n = (double)w->n;
    double eps = op->a.dtype == GRAM_F32 ? (double)FLT_EPSILON : DBL_EPSILON;

    w->shift = ridge_of(w, fmax(least, 0), most);
    if (op->factor)
        return GRAM_POWER_DONE;
    if (op->floor > 0 && (op->numerator > 0 || fmax(most, 0) + w->shift > 0))
        return GRAM_POWER_DONE;
    if (least < -fmax(4 * n * eps * fmax(most, -least), w->shift))
        return GRAM_POWER_NOT_DEFINITE;
    if (op->numerator < 0 &&
        fmax(least, 0) + w->shift <= n * DBL_EPSILON * (fmax(most, 0) + w->shift))
        return GRAM_POWER_NOT_DEFINITE;
    return GRAM_POWER_DONE;
}

static gram_power_outcome power_by_eigh(struct power_work *w)
{
    const struct gram_matrix_power_op *op = w->plan->op;
    struct gram_layout layout = {0};
    struct eigh_share s;
    int64_t n = w->n;
    double low; /* the least eigenvalue that counts */
    gram_power_outcome outcome;

    lay_out_eigh(w->plan, &layout, &s);
    gram_layout_place(&layout, w->memory);
    load(w, s.v);
    if (gram_blas_syevd(GRAM_F64, GRAM_LOWER, n, s.v, n, s.values, s.work, s.lwork, s.iwork,
                        s.liwork))
        return GRAM_POWER_NOT_CONVERGED;
    outcome = check_values(w, s.values);
    if (outcome)
        return outcome;
    low = op->floor * (fmax(s.values[n - 1], 0) + w->shift);
    for (int64_t j = 0; j < n; j++) {
        double root =
            sqrt(pow(fmax(fmax(s.values[j], 0) + w->shift, low), gram_power_exponent(op)));
        for (int64_t i = 0; i < n; i++)
            s.v[i + j * n] *= root;
    }
    w->x = s.work;
    multiply_symmetric(w, s.v, s.v, w->x); /* of v and its transpose */
    w->spare[0] = s.v;
    w->spare[1] = s.work + n * n;
    w->spare[2] = s.more[0];
    w->spare[3] = s.more[1];
    return GRAM_POWER_DONE;
}

/* ---- By iterations --------------------------------------------------------------------------- */

/* The square root of eps: an iteration of second order is done one step later. */
static double nearly_done(const struct power_plan *plan)
{
    return plan->work == GRAM_F32 ? 3e-4 : 1e-8;
}

/* A worker's share of the scratch: five matrices that change places, and Lanczos's vectors. */
struct iterates {
    void *b, *x, *m, *w, *t;
    char *vectors;
};

static void lay_out_iterates(const struct power_plan *plan, struct gram_layout *l,
                             struct iterates *s)
{
    const int64_t n = plan->op->a.rows;
    const size_t square = n > MOST_ORDER ? SIZE_MAX : (size_t)(n * n);
    const size_t size = gram_dtype_size(plan->work);
    void **const matrices[] = {&s->b, &s->x, &s->m, &s->w, &s->t};

    for (int i = 0; i < 5; i++)
        gram_take_many(l, matrices[i], square, size);
    gram_take_many(l, &s->vectors, 3 * (size_t)n, size);
}

static void swap(void **a, void **b)
{
    void *kept = *a;

    *a = *b;
    *b = kept;
}

static void set_zero(const struct power_work *w, void *matrix)
{
    memset(matrix, 0, (size_t)(w->n * w->n) * gram_dtype_size(w->plan->work));
}

/* When to stop: an error below the limit, or one that was small and no longer halves (rounding). */
static bool stops(const struct power_plan *plan, double error, double before)
{
    return error <= nearly_done(plan) || (before < 0.1 && error > before / 2);
}

/* x <- x w, m <- w^q m with w = shift I + factor m; x is I at first; not m at last. */
static void couple(const struct power_work *work, struct iterates *s, double shift, double factor,
                   const bool first_last[2])
{
    const struct matrix_power_kernels *kernels = work->plan->kernels;

    kernels->combine(work->n, shift, factor, s->m, s->w);
    if (first_last[0])
        kernels->combine(work->n, 0, 1, s->w, s->t);
    else
        multiply_symmetric(work, s->x, s->w, s->t);
    swap(&s->x, &s->t);
    for (int q = first_last[1] ? 0 : work->plan->op->denominator; q > 0; q /= 2) {
        if (q % 2) {
            multiply_symmetric(work, s->w, s->m, s->t);
            swap(&s->m, &s->t);
        }
        if (q > 1) {
            multiply_symmetric(work, s->w, s->w, s->t);
            swap(&s->w, &s->t);
        }
    }
}

/* x becomes b^(-1/q) where largest is b's largest eigenvalue. */
static gram_power_outcome coupled_newton(const struct power_work *work, struct iterates *s,
                                         double largest)
{
    const struct matrix_power_kernels *kernels = work->plan->kernels;
    double q = work->plan->op->denominator, z = (1 + q) / (2 * largest), error = INFINITY;

    kernels->combine(work->n, 0, z, s->b, s->m);
    for (int i = 0; i < work->plan->op->iterations; i++) {
        double before = error;
        bool last;
        error = kernels->from_identity(work->n, s->m);
        if (!isfinite(error))
            break;
        last = stops(work->plan, error, before);
        couple(work, s, 1 + 1 / q, -1 / q, (bool[]){i == 0, last});
        if (last) {
            kernels->combine(work->n, 0, pow(z, 1 / q), s->x, s->x);
            return GRAM_POWER_DONE;
        }
    }
    return GRAM_POWER_NOT_CONVERGED;
}

/*
 * The best w = a + b y for eigenvalues y in [low, high]: y^(1/q) (a + b y) rises from low to
 * y' = -a / (b (1 + q)) and falls to high, so it leaves 1 least where its values at low and high
 * are 1 - e and that at y' is 1 + e.  Returns e.
 */
static double minimax_step(double q, double low, double high, double *a, double *b)
{
    double p = 1 / q;
    double t = high - low > 1e-9 * high
                   ? (pow(high, p) - pow(low, p)) / (pow(high, 1 + p) - pow(low, 1 + p))
                   : 1 / ((1 + q) * low);
    double least = pow(low, p) * (1 - t * low), peak = 1 / (t * (1 + q));
    double most = pow(peak, p) * (1 - t * peak);

    *a = 2 / (least + most);
    *b = -*a * t;
    return (most - least) / (most + least);
}

/* The Lanczos value may fall short of the largest eigenvalue: there are 5 % and 1 % to spare. */
static gram_power_outcome minimax(const struct power_work *work, struct iterates *s, double largest)
{
    const struct matrix_power_kernels *kernels = work->plan->kernels;
    const struct gram_matrix_power_op *op = work->plan->op;
    double q = op->denominator, scale = 1.05 * largest, high = 1.01, e = 1;
    /* The ridge may be twice what a negative eigenvalue of a factor takes back. */
    double condition =
        (op->factor ? 2 : 1) * (op->condition > 0 ? op->condition : largest / work->shift);
    double low = 1 / (1.05 * condition), done = work->plan->work == GRAM_F32 ? 1e-7 : 1e-15;

    kernels->combine(work->n, 0, 1 / scale, s->b, s->m);
    for (int i = 0; e > done; i++) {
        double a, b;
        e = minimax_step(q, low, high, &a, &b);
        low = pow(1 - e, q), high = pow(1 + e, q);
        couple(work, s, a, b, (bool[]){i == 0, e <= done});
    }
    kernels->combine(work->n, 0, pow(scale, -1 / q), s->x, s->x);
    return GRAM_POWER_DONE;
}

/* x becomes the square root of x, m its inverse; the largest eigenvalue of x is at most about 1. */
static gram_power_outcome newton_schulz(const struct power_work *work, struct iterates *s)
{
    const struct matrix_power_kernels *kernels = work->plan->kernels;
    double error = INFINITY;

    set_zero(work, s->m);
    kernels->combine(work->n, 1, 0, s->m, s->m);
    for (int i = 0; i < work->plan->op->iterations; i++) {
        double before = error;
        multiply(work, s->m, s->x, s->w);
        error = kernels->from_identity(work->n, s->w);
        if (!isfinite(error))
            break;
        kernels->combine(work->n, 1.5, -0.5, s->w, s->w);
        multiply(work, s->x, s->w, s->t);
        swap(&s->x, &s->t);
        multiply(work, s->w, s->m, s->t);
        swap(&s->m, &s->t);
        if (stops(work->plan, error, before))
            return GRAM_POWER_DONE;
    }
    return GRAM_POWER_NOT_CONVERGED;
}

/* x becomes b^(1/q), or b^(-1/q) if the power is negative. */
static gram_power_outcome square_roots(const struct power_work *work, struct iterates *s,
                                       double largest)
{
    const struct matrix_power_kernels *kernels = work->plan->kernels;
    const struct gram_matrix_power_op *op = work->plan->op;
    double power = 1 / (double)op->denominator;

    kernels->combine(work->n, 0, 1 / largest, s->b, s->x);
    for (int q = op->denominator; q > 1; q /= 2) {
        gram_power_outcome outcome = newton_schulz(work, s);
        if (outcome)
            return outcome;
    }
    if (op->numerator < 0)
        swap(&s->x, &s->m);
    kernels->combine(work->n, 0, pow(largest, op->numerator < 0 ? -power : power), s->x, s->x);
    kernels->average(work->n, s->x);
    return GRAM_POWER_DONE;
}

/* x <- x^k; m is free. */
static void raise_to(const struct power_work *work, struct iterates *s, int k)
{
    const struct matrix_power_kernels *kernels = work->plan->kernels;

    if (k > 1)
        kernels->combine(work->n, 0, 1, s->x, s->m);
    for (int i = 1; i < k; i++) {
        multiply_symmetric(work, s->x, s->m, s->t);
        swap(&s->x, &s->t);
    }
}

/* The power of b from what a method makes: b^(-1/q), or, Newton-Schulz, b^(1/q) where k > 0. */
static gram_power_outcome power_of(const struct power_work *work, struct iterates *s,
                                   double largest)
{
    const struct gram_matrix_power_op *op = work->plan->op;
    int k = op->numerator, q = op->denominator, whole = k > 0 ? (k + q - 1) / q : 0;
    bool roots = work->plan->method == GRAM_POWER_NEWTON_SCHULZ;
    gram_power_outcome outcome;

    if (k > 0 && q == 1) { /* a whole power */
        work->plan->kernels->combine(work->n, 0, 1, s->b, s->x);
        raise_to(work, s, k);
        return GRAM_POWER_DONE;
    }
    if (roots)
        outcome = square_roots(work, s, largest);
    else if (work->plan->method == GRAM_POWER_MINIMAX)
        outcome = minimax(work, s, largest);
    else
        outcome = coupled_newton(work, s, largest);
    if (outcome)
        return outcome;
    raise_to(work, s, k < 0 || roots ? abs(k) : whole * q - k);
    for (int i = 0; i < whole && !roots; i++) {
        multiply_symmetric(work, s->x, s->b, s->t);
        swap(&s->x, &s->t);
    }
    return GRAM_POWER_DONE;
}

static gram_power_outcome power_by_products(struct power_work *w)
{
    const struct matrix_power_kernels *kernels = w->plan->kernels;
    const struct gram_matrix_power_op *op = w->plan->op;
    struct gram_layout layout = {0};
    gram_power_outcome outcome;
    struct power_ends ends;
    struct iterates s;
    double largest;

    lay_out_iterates(w->plan, &layout, &s);
    gram_layout_place(&layout, w->memory);
    load(w, s.b);
    ends = ends_of(w, s.b, s.vectors);
    largest = ends.largest;
    w->shift = ridge_of(w, ends.smallest, largest);
    kernels->combine(w->n, w->shift, 1, s.b, s.b);
    largest += w->shift;
    if (!(largest > 0) && op->numerator < 0)
        return GRAM_POWER_NOT_DEFINITE;
    if (!(largest > 0) && op->denominator > 1) { /* zero, or indefinite */
        if (kernels->distance(w->n, s.b, 0, 0, NULL) > 0)
            return GRAM_POWER_NOT_DEFINITE;
        set_zero(w, s.x);
        outcome = GRAM_POWER_DONE;
    } else {
        outcome = power_of(w, &s, largest);
    }
    w->x = s.x;
    w->spare[0] = s.b, w->spare[1] = s.m, w->spare[2] = s.w, w->spare[3] = s.t;
    return outcome;
}

/* ---- The error estimate ---------------------------------------------------------------------- */

/* r <- r b, or b r; t takes its place. */
static void multiply_by(const struct power_work *w, bool from_left, const void *b, void **r,
                        void **t)
{
    void *kept = *r;

    multiply(w, from_left ? b : *r, from_left ? *r : b, *t);
    *r = *t;
    *t = kept;
}

/* x^q against b^k. */
static double error_of_root(const struct power_work *w, const void *b, void *r, void *t)
{
    const struct gram_matrix_power_op *op = w->plan->op;
    const struct matrix_power_kernels *kernels = w->plan->kernels;
    void *c = w->spare[3];
    double scale;

    kernels->combine(w->n, 0, 1, b, r);
    for (int i = 1; i < op->numerator; i++)
        multiply_by(w, false, b, &r, &t);
    kernels->combine(w->n, 0, 1, w->x, c);
    for (int i = 1; i < op->denominator; i++)
        multiply_by(w, false, w->x, &c, &t);
    scale = kernels->distance(w->n, r, 0, 0, NULL);
    return scale > 0 ? kernels->distance(w->n, c, 0, 1, r) / scale
                     : kernels->distance(w->n, c, 0, 0, NULL);
}

static double error_of(const struct power_work *w)
{
    const struct gram_matrix_power_op *op = w->plan->op;
    const struct matrix_power_kernels *kernels = w->plan->kernels;
    int q = op->denominator, k = -op->numerator, excess = q, x_taken = 0, b_taken = 1;
    void *b = w->spare[0], *r = w->spare[1], *t = w->spare[2];

    load(w, b);
    kernels->combine(w->n, w->shift, 1, b, b);
    if (op->numerator > 0)
        return error_of_root(w, b, r, t);
    kernels->combine(w->n, 0, 1, b, r);
    while (x_taken < q || b_taken < k) { /* r = b^(excess / q) so far */
        if (excess > 0) {
            multiply_by(w, x_taken++ % 2 == 0, w->x, &r, &t);
            excess -= k;
        } else {
            multiply_by(w, b_taken++ % 2 == 1, b, &r, &t);
            excess += q;
        }
    }
    return kernels->distance(w->n, r, 1, 0, NULL);
}

/* ---- Items ----------------------------------------------------------------------------------- */

/* About the exponent of the largest magnitude in the triangle; false if one is not finite. */
static bool measure(const struct gram_matrix_power_op *op, const char *a, int *exponent)
{
    const struct gram_view *v = &op->a;
    double most = 0;
    bool finite = true;

    for (int64_t i = 0; i < v->rows; i++)
        for (int64_t j = 0; j <= i; j++) {
            double value =
                fabs(element(v, a,
                             op->uplo == GRAM_LOWER ? i * v->row_stride + j * v->col_stride
                                                    : j * v->row_stride + i * v->col_stride));
            finite &= isfinite(value) != 0;
            most = value > most ? value : most;
        }
    *exponent = 0;
    if (finite)
        frexp(most, exponent);
    *exponent -= *exponent % op->denominator; /* so that its root is a power of two as well */
    return finite;
}

/* Does one item but for the storing; error is NaN where there is none. */
static gram_power_outcome compute(struct power_work *w, double *error)
{
    const struct power_plan *plan = w->plan;
    gram_power_outcome outcome;

    *error = NAN;
    if (!measure(plan->op, w->a, &w->exponent))
        return GRAM_POWER_NOT_FINITE;
    outcome = plan->method == GRAM_POWER_EIGH ? power_by_eigh(w) : power_by_products(w);
    if (outcome)
        return outcome;
    if (plan->op->a.dtype == GRAM_F32 && plan->work == GRAM_F64)
        plan->kernels->round_f32(w->n, w->x); /* what is estimated is what is stored */
    if (plan->estimate) {
        *error = error_of(w);
        if (!(*error <= plan->op->tolerance))
            return GRAM_POWER_INEXACT;
    }
    return GRAM_POWER_DONE;
}

static void store(const struct power_work *w, char *to, gram_power_outcome outcome)
{
    const struct gram_matrix_power_op *op = w->plan->op;

    if (outcome && op->keep)
        return;
    if (outcome == GRAM_POWER_DONE || outcome == GRAM_POWER_INEXACT)
        w->plan->kernels->store(&op->out, to,
                                op->is_real
                                    ? exp2(w->exponent * op->power)
                                    : ldexp(1, w->exponent / op->denominator * op->numerator),
                                w->x);
    else
        cpu_fill_nan(&op->out, to);
}

static void report(struct power_plan *plan, int64_t item, gram_power_outcome outcome, double error)
{
    const struct gram_matrix_power_op *op = plan->op;
    long long code = item * 8 + (long long)outcome, seen = atomic_load(&plan->failed);

    if (op->has_info)
        *(int32_t *)(void *)gram_view_item(&op->info, &op->batch, item) = (int32_t)outcome;
    if (op->has_error)
        put(&op->error, gram_view_item(&op->error, &op->batch, item), 0, error);
    while (outcome && code < seen && !atomic_compare_exchange_weak(&plan->failed, &seen, code))
        continue;
}

static void one_item(struct power_plan *plan, int64_t item, int64_t worker)
{
    const struct gram_matrix_power_op *op = plan->op;
    struct power_work w = {
        .plan = plan,
        .n = op->a.rows,
        .a = gram_view_item(&op->a, &op->batch, item),
        .ridge = gram_hyper_at(&op->ridge, &op->batch, item),
        .memory = plan->scratch + (size_t)worker * plan->share_bytes,
    };
    gram_power_outcome outcome = GRAM_POWER_DONE;
    double error = 0;

    if (w.n > 0) {
        outcome = compute(&w, &error);
        store(&w, gram_view_item(&op->out, &op->batch, item), outcome);
    }
    report(plan, item, outcome, error);
}

/* A worker takes items until there are no more; a loop has as many workers as there is scratch. */
static void work(void *arg, int64_t worker, int thread)
{
    struct power_plan *plan = arg;
    long long item;

    (void)thread;
    while ((item = atomic_fetch_add(&plan->next, 1)) < plan->op->batch.count)
        one_item(plan, item, worker);
}

/* ---- The call -------------------------------------------------------------------------------- */

static void make_plan(const gram_context *g, const struct gram_matrix_power_op *op,
                      struct power_plan *plan)
{
    int64_t n = op->a.rows, count = op->batch.count;
    bool eigh = gram_matrix_power_by_eigh(op);
    struct gram_layout share = {0};
    struct iterates iterates;
    struct eigh_share by_eigh;

    *plan = (struct power_plan){
        .op = op,
        .method = eigh ? GRAM_POWER_EIGH : op->method,
        .work = gram_matrix_power_cpu_dtype(op),
        .estimate = op->has_error || op->tolerance < INFINITY,
        .workers = 1,
    };
    atomic_init(&plan->failed, LLONG_MAX);
    atomic_init(&plan->next, 0);
    plan->kernels = plan->work == GRAM_F32 ? &loops_f32 : &loops_f64;
    if (n <= PARALLEL_ORDER && count > 1 && gram_worth_waking(2 * (double)(n * n * n * count)))
        plan->workers = (int)gram_least(count, g->threads);
    if (n == 0 || count == 0)
        return; /* in 0 bytes */
    if (eigh)
        lay_out_eigh(plan, &share, &by_eigh);
    else
        lay_out_iterates(plan, &share, &iterates);
    plan->share_bytes = gram_layout_bytes(&share);
}

/* Orders that BLAS cannot count are no matrices: their bytes cannot be counted. */
static gram_status check_order(gram_context *g, const struct gram_matrix_power_op *op)
{
    int64_t n = op->a.rows;

    if (gram_matrix_power_by_eigh(op) && n > EIGH_ORDER)
        return gram_fail(g, GRAM_UNSUPPORTED,
                         "a has %lld rows, the eigendecomposition takes at most %d: choose another "
                         "options.method",
                         (long long)n, EIGH_ORDER);
    return GRAM_OK;
}

static gram_status report_failure(gram_context *g, const struct power_plan *plan)
{
    static const char *const what[] = {
        [GRAM_POWER_NOT_FINITE] = "holds a NaN or an infinity",
        [GRAM_POWER_NOT_DEFINITE] = "is not positive definite enough for the power to exist",
        [GRAM_POWER_NOT_CONVERGED] = "did not converge",
        [GRAM_POWER_INEXACT] = "has an error estimate above options.tolerance",
    };
    long long failed = atomic_load(&plan->failed);

    if (failed == LLONG_MAX || plan->op->has_info)
        return GRAM_OK;
    return gram_fail(g, GRAM_NUMERICAL, "item %lld of a %s", failed / 8, what[failed % 8]);
}

gram_status cpu_matrix_power(gram_context *g, const struct gram_matrix_power_op *op)
{
    struct gram_layout layout = {0};
    struct power_plan plan;

    TRY(check_order(g, op));
    make_plan(g, op, &plan);
    gram_take_many(&layout, &plan.scratch, (size_t)plan.workers, plan.share_bytes);
    TRY(gram_layout_open(g, &layout));
    if (plan.workers > 1) {
        gram_blas_for(g, plan.workers, work, &plan);
    } else {
        gram_blas_threads(g);
        work(&plan, 0, 0);
    }
    return report_failure(g, &plan);
}

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
    const struct power_loops *loops; /* of work */
    gram_power_method method;        /* never AUTO */
    gram_dtype work;                 /* what is computed in */
    bool estimate;                   /* of the error */
    int workers;                     /* items at a time, each with one thread */
    char *scratch;                   /* share_bytes for each worker */
    size_t share_bytes;
    atomic_llong next;   /* item that nobody has taken */
    atomic_llong failed; /* item * 8 + outcome, the smallest; LLONG_MAX: none */
};

struct power_work {
    struct gram_power_run run; /* the first member: passes are given its address */
    const struct power_plan *plan;
    int64_t n;
    const char *a; /* the item of the caller's */
    int exponent;
    double ridge; /* the caller's number */
    char *memory; /* the worker's share of the scratch */
    double shift; /* the ridge of A', set by a method */
    /* An iteration: the numbers of its combinations (enum gram_power_numbers), its last error, and
     * for the polynomials of MINIMAX where eigenvalues of M lie. */
    double first, last, step[2];
    double error, low, high;
    double size[3]; /* what the estimate compares */
    gram_power_outcome outcome;
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

/* One table a dtype: loops_f32, loops_f64. */
struct power_loops {
    /* Both triangles from their mean. */
    void (*average)(int64_t n, void *a);
    /* to = shift I + factor from, which may be to. */
    void (*combine)(int64_t n, double shift, double factor, const void *from, void *to);
    /* The largest |a - shift I - factor b|, NaN if there is one; b may be NULL where factor is 0.
     * And the square root of the sum of the squares of a - I. */
    double (*distance)(int64_t n, const void *a, double shift, double factor, const void *b);
    double (*from_identity)(int64_t n, const void *a);
    /* The triangle of an f32 or f64 matrix of the caller's, times 2^-exponent, to the lower one;
     * and a matrix back, times factor. */
    void (*load)(const struct gram_view *v, const char *from, gram_uplo uplo, int exponent,
                 void *to);
    void (*store)(const struct gram_view *v, char *to, double factor, const void *from);
    /* Lanczos' vectors: v is set to numbers that look random; returned is w . v. */
    void (*start)(int64_t n, void *v);
    double (*dot)(int64_t n, const void *v, const void *w);
    /* w = (w - alpha v - beta u) * factor */
    void (*orthogonalise)(int64_t n, const double alpha_beta_factor[3], const void *v,
                          const void *u, void *w);
    void (*round_f32)(int64_t n, void *a); /* every element to f32 and back */
};

#define TEMPLATE "linalg/matrix_power_loops.h"
#define HALVES   0
#define INTEGERS 0
#include "cpu/each_dtype.h"

/* ---- Products -------------------------------------------------------------------------------- */

static void load(const struct power_work *w, void *to)
{
    const struct gram_matrix_power_op *op = w->plan->op;

    w->plan->loops->load(&op->a, w->a, op->uplo, w->exponent, to);
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
    const struct power_loops *loops = w->plan->loops;
    int64_t n = w->n, size = (int64_t)gram_dtype_size(w->plan->work);
    char *v = vectors, *u = v + n * size, *next = u + n * size;
    double d[LANCZOS_STEPS] = {0}, e[LANCZOS_STEPS] = {0}, beta = 0;
    struct power_ends ends;
    int steps = 0;

    loops->start(n, v);
    loops->orthogonalise(n, (double[]){0, 0, 1 / sqrt(loops->dot(n, v, v))}, v, v, v);
    while (steps < LANCZOS_STEPS && steps < n) {
        char *kept = u;
        gram_blas_gemm(w->plan->work, (int64_t[]){n, 1, n}, 1,
                       (struct gram_blas_matrix){a, n, false},
                       (struct gram_blas_matrix){v, n, false}, 0, next, n);
        d[steps] = loops->dot(n, v, next);
        loops->orthogonalise(n, (double[]){d[steps], beta, 1}, v, steps ? u : v, next);
        beta = sqrt(loops->dot(n, next, next));
        e[steps++] = beta;
        if (!(beta > 1e-6 * fabs(d[0]))) /* an invariant subspace */
            break;
        loops->orthogonalise(n, (double[]){0, 0, 1 / beta}, v, v, next);
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
    multiply_symmetric(w, s.v, s.v, s.work); /* of v and its transpose */
    w->run.s = (struct gram_power_matrices){.b = (char *)s.v,
                                            .x = (char *)s.work,
                                            .m = (char *)(s.work + n * n),
                                            .w = (char *)s.more[0],
                                            .t = (char *)s.more[1]};
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
    struct gram_power_matrices s;
    char *vectors;
};

static void lay_out_iterates(const struct power_plan *plan, struct gram_layout *l,
                             struct iterates *i)
{
    const int64_t n = plan->op->a.rows;
    const size_t square = n > MOST_ORDER ? SIZE_MAX : (size_t)(n * n);
    const size_t size = gram_dtype_size(plan->work);

    gram_take_many(l, &i->s.b, square, size);
    gram_take_many(l, &i->s.x, square, size);
    gram_take_many(l, &i->s.m, square, size);
    gram_take_many(l, &i->s.w, square, size);
    gram_take_many(l, &i->s.t, square, size);
    gram_take_many(l, &i->vectors, 3 * (size_t)n, size);
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

/* What the iteration begins with and ends in, where `largest` is B's largest eigenvalue. */
static void begin(struct power_work *w, double largest)
{
    const struct gram_matrix_power_op *op = w->plan->op;
    const double q = op->denominator, power = 1 / q;
    double scale, condition;

    w->error = INFINITY;
    if (op->method == GRAM_POWER_COUPLED_NEWTON) {
        w->first = (1 + q) / (2 * largest);
        w->last = pow(w->first, 1 / q);
    } else if (op->method == GRAM_POWER_NEWTON_SCHULZ) {
        w->first = 1 / largest;
        w->last = pow(largest, op->numerator < 0 ? -power : power);
    } else {
        /* The Lanczos value may fall short of the largest eigenvalue: there are 5 % and 1 % to
         * spare.  The ridge may be twice what a negative eigenvalue of a factor takes back. */
        scale = 1.05 * largest;
        condition = (op->factor ? 2 : 1) * (op->condition > 0 ? op->condition : largest / w->shift);
        w->low = 1 / (1.05 * condition);
        w->high = 1.01;
        w->first = 1 / scale;
        w->last = pow(scale, -1 / q);
    }
}

/* ---- The passes ------------------------------------------------------------------------------ */

static struct power_work *work_of(struct gram_power_run *r)
{
    return (struct power_work *)(void *)r;
}

static gram_status combine(struct gram_power_run *r, enum gram_power_numbers what, const char *from,
                           char *to)
{
    struct power_work *w = work_of(r);
    const struct power_loops *loops = w->plan->loops;
    const double numbers[][2] = {
        [GRAM_POWER_COPY] = {         0,          1},
        [GRAM_POWER_IDENTITY] = {         1,          0},
        [GRAM_POWER_RIDGE] = {  w->shift,          1},
        [GRAM_POWER_FIRST] = {         0,   w->first},
        [GRAM_POWER_STEP] = {w->step[0], w->step[1]},
        [GRAM_POWER_LAST] = {         0,    w->last},
    };

    if (what == GRAM_POWER_IDENTITY)
        set_zero(w, to); /* which is from */
    loops->combine(w->n, numbers[what][0], numbers[what][1], from, to);
    if (what == GRAM_POWER_LAST && r->op->method == GRAM_POWER_NEWTON_SCHULZ)
        loops->average(w->n, to);
    return GRAM_OK;
}

static gram_status whole_product(struct gram_power_run *r, const char *a, const char *b, char *c)
{
    multiply(work_of(r), a, b, c);
    return GRAM_OK;
}

static gram_status symmetric_product(struct gram_power_run *r, const char *a, const char *b,
                                     char *c)
{
    multiply_symmetric(work_of(r), a, b, c);
    return GRAM_OK;
}

static gram_status restart(struct gram_power_run *r)
{
    work_of(r)->error = INFINITY;
    return GRAM_OK;
}

static gram_status begin_step(struct gram_power_run *r, int step)
{
    (void)r, (void)step;
    return GRAM_OK;
}

/* Ends the run of the item. */
static gram_status fail(struct power_work *w, gram_power_outcome outcome)
{
    w->outcome = outcome;
    return GRAM_NUMERICAL;
}

/* The distance of `from` from I says whether this step is the last one; or the polynomials do. */
static gram_status polynomial(struct gram_power_run *r, int step, const char *from, bool *last)
{
    struct power_work *w = work_of(r);
    const double q = r->op->denominator, before = w->error;
    const double done = w->plan->work == GRAM_F32 ? 1e-7 : 1e-15;
    const bool roots = r->op->method == GRAM_POWER_NEWTON_SCHULZ;

    if (r->op->method == GRAM_POWER_MINIMAX) {
        double e = gram_power_minimax(q, w->low, w->high, w->step);
        w->low = pow(1 - e, q), w->high = pow(1 + e, q);
        *last = e <= done;
        return combine(r, GRAM_POWER_STEP, from, r->s.w);
    }
    if (step >= r->op->iterations)
        return fail(w, GRAM_POWER_NOT_CONVERGED);
    w->error = w->plan->loops->from_identity(w->n, from);
    if (!isfinite(w->error))
        return fail(w, GRAM_POWER_NOT_CONVERGED);
    *last = stops(w->plan, w->error, before);
    w->step[0] = roots ? 1.5 : 1 + 1 / q;
    w->step[1] = roots ? -0.5 : -1 / q;
    return combine(r, GRAM_POWER_STEP, from, r->s.w);
}

static gram_status end(struct gram_power_run *r)
{
    (void)r;
    return GRAM_OK;
}

static gram_status reload(struct gram_power_run *r)
{
    load(work_of(r), r->s.b);
    return combine(r, GRAM_POWER_RIDGE, r->s.b, r->s.b);
}

static gram_status distance(struct gram_power_run *r, int which, const char *from, double shift,
                            const char *other)
{
    struct power_work *w = work_of(r);

    w->size[which] = w->plan->loops->distance(w->n, from, shift, other ? 1 : 0, other);
    return GRAM_OK;
}

static const struct gram_power_passes passes = {
    .combine = combine,
    .multiply = whole_product,
    .commute = symmetric_product,
    .raise = symmetric_product,
    .restart = restart,
    .begin_step = begin_step,
    .polynomial = polynomial,
    .end = end,
    .reload = reload,
    .distance = distance,
};

/* ---- By products ----------------------------------------------------------------------------- */

static gram_power_outcome power_by_products(struct power_work *w)
{
    const struct power_loops *loops = w->plan->loops;
    const struct gram_matrix_power_op *op = w->plan->op;
    struct gram_power_matrices *s = &w->run.s;
    struct gram_layout layout = {0};
    struct iterates share;
    struct power_ends ends;
    double largest;

    lay_out_iterates(w->plan, &layout, &share);
    gram_layout_place(&layout, w->memory);
    *s = share.s;
    load(w, s->b);
    ends = ends_of(w, s->b, share.vectors);
    largest = ends.largest;
    w->shift = ridge_of(w, ends.smallest, largest);
    loops->combine(w->n, w->shift, 1, s->b, s->b);
    largest += w->shift;
    if (!(largest > 0) && op->numerator < 0)
        return GRAM_POWER_NOT_DEFINITE;
    if (!(largest > 0) && op->denominator > 1) { /* zero, or indefinite */
        if (loops->distance(w->n, s->b, 0, 0, NULL) > 0)
            return GRAM_POWER_NOT_DEFINITE;
        set_zero(w, s->x);
        return GRAM_POWER_DONE;
    }
    begin(w, largest);
    return gram_power_iterate(&w->run) == GRAM_OK ? GRAM_POWER_DONE : w->outcome;
}

static double error_of(struct power_work *w)
{
    (void)gram_power_estimate(&w->run); /* nothing of it can fail */
    if (w->plan->op->numerator < 0)
        return w->size[0];
    return w->size[0] > 0 ? w->size[1] / w->size[0] : w->size[2];
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
        plan->loops->round_f32(w->n, w->run.s.x); /* what is estimated is what is stored */
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
        w->plan->loops->store(&op->out, to,
                              op->is_real ? exp2(w->exponent * op->power)
                                          : ldexp(1, w->exponent / op->denominator * op->numerator),
                              w->run.s.x);
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
        .run = {.op = op, .passes = &passes},
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
    plan->loops = plan->work == GRAM_F32 ? &loops_f32 : &loops_f64;
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
                         "a has %lld rows, but the eigendecomposition takes at most %d: choose "
                         "another options.method",
                         (long long)n, EIGH_ORDER);
    return GRAM_OK;
}

static gram_status report_failure(gram_context *g, const struct power_plan *plan)
{
    static const char *const what[] = {
        [GRAM_POWER_NOT_FINITE] = "holds NaN or infinity",
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

/*
 * cpu_matrix_power_iterate.c - powers by iterations of matrix products, in the caller's dtype
 *
 * gram.h has the formulas and their sources.  Iterates of Newton and of the minimax polynomials are
 * polynomials in one symmetric matrix: they commute, so every product is symmetric and only half of
 * it is computed.  Newton-Schulz must not do so: with Z Y made symmetric its rounding errors grow
 * (condition 1e5, f32: diverged), so it takes whole products.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "cpu_matrix_power.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The square root of eps: an iteration of second order is done one step later. */
static double nearly_done(const struct power_plan *plan)
{
    return plan->work == GRAM_F32 ? 3e-4 : 1e-8;
}

/* Five matrices that change places. */
struct iterates {
    void *b, *x, *m, *w, *t;
};

static void swap(void **a, void **b)
{
    void *kept = *a;

    *a = *b;
    *b = kept;
}

static size_t matrix_bytes(int64_t n, gram_dtype dtype)
{
    return gram_round64((size_t)(n * n) * gram_dtype_size(dtype));
}

size_t cpu_matrix_power_iterate_bytes(int64_t n, gram_dtype dtype)
{
    if (n > (int64_t)1 << 28)
        return SIZE_MAX;
    return 5 * matrix_bytes(n, dtype) + gram_round64((size_t)(3 * n) * gram_dtype_size(dtype));
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
        cpu_matrix_power_symmetric(work, s->x, s->w, s->t);
    swap(&s->x, &s->t);
    for (int q = first_last[1] ? 0 : work->plan->op->denominator; q > 0; q /= 2) {
        if (q % 2) {
            cpu_matrix_power_symmetric(work, s->w, s->m, s->t);
            swap(&s->m, &s->t);
        }
        if (q > 1) {
            cpu_matrix_power_symmetric(work, s->w, s->w, s->t);
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

    memset(s->m, 0, matrix_bytes(work->n, work->plan->work));
    kernels->combine(work->n, 1, 0, s->m, s->m);
    for (int i = 0; i < work->plan->op->iterations; i++) {
        double before = error;
        cpu_matrix_power_product(work, s->m, s->x, s->w);
        error = kernels->from_identity(work->n, s->w);
        if (!isfinite(error))
            break;
        kernels->combine(work->n, 1.5, -0.5, s->w, s->w);
        cpu_matrix_power_product(work, s->x, s->w, s->t);
        swap(&s->x, &s->t);
        cpu_matrix_power_product(work, s->w, s->m, s->t);
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
        cpu_matrix_power_symmetric(work, s->x, s->m, s->t);
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
        cpu_matrix_power_symmetric(work, s->x, s->b, s->t);
        swap(&s->x, &s->t);
    }
    return GRAM_POWER_DONE;
}

gram_power_outcome cpu_matrix_power_iterate(struct power_work *w)
{
    const struct matrix_power_kernels *kernels = w->plan->kernels;
    const struct gram_matrix_power_op *op = w->plan->op;
    size_t bytes = matrix_bytes(w->n, w->plan->work);
    struct iterates s = {w->memory, w->memory + bytes, w->memory + 2 * bytes, w->memory + 3 * bytes,
                         w->memory + 4 * bytes};
    gram_power_outcome outcome;
    struct power_ends ends;
    double largest;

    cpu_matrix_power_load(w, s.b);
    ends = cpu_matrix_power_ends(w, s.b, w->memory + 5 * bytes);
    largest = ends.largest;
    w->shift = cpu_matrix_power_ridge(w, ends.smallest, largest);
    kernels->combine(w->n, w->shift, 1, s.b, s.b);
    largest += w->shift;
    if (!(largest > 0) && op->numerator < 0)
        return GRAM_POWER_NOT_DEFINITE;
    if (!(largest > 0) && op->denominator > 1) { /* zero, or indefinite */
        if (kernels->distance(w->n, s.b, 0, 0, NULL) > 0)
            return GRAM_POWER_NOT_DEFINITE;
        memset(s.x, 0, bytes);
        outcome = GRAM_POWER_DONE;
    } else {
        outcome = power_of(w, &s, largest);
    }
    w->x = s.x;
    w->spare[0] = s.b, w->spare[1] = s.m, w->spare[2] = s.w, w->spare[3] = s.t;
    return outcome;
}

/*
 * machine_cg.c - block conjugate gradients: one product with K serves all columns
 *
 * Each column has its own step lengths, so each converges as if it were alone (Hestenes and
 * Stiefel, 1952; Saad, Iterative methods for sparse linear systems, section 9.2).  The residual
 * that the recursion carries drifts from the true one by rounding, so rounds of iterations end with
 * the true residual, and the next round starts from it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_cg.h"
#include "threads.h"
#include <math.h>
#include <string.h>

#define real    float
#define NAME(f) f##_f32
#include "machine_vector.h"
#define real    double
#define NAME(f) f##_f64
#include "machine_vector.h"

enum {
    MOST_ITERATIONS = 300, /* in all rounds */
    MOST_ROUNDS = 4,
};

enum step {
    START,    /* norm_b = |b| */
    RESIDUAL, /* r = b - r, where r holds A x; norm_r = |r| */
    DESCEND,  /* alpha = rz / (d . ad); x += alpha d; r -= alpha ad; norm_r = |r| */
    TURN,     /* beta = (r . z) / rz; d = z + beta d; rz = r . z */
};

struct cg {
    const struct machine_system *system;
    int64_t n, columns;
    gram_dtype dtype;
    const char *b;
    char *x, *r, *z, *d, *ad;
    double *norm_b, *norm_r, *rz;
    enum step step;
};

size_t gram_machine_cg_bytes(int64_t n, int64_t columns, gram_dtype dtype)
{
    return 4 * gram_round64((size_t)(n * columns) * gram_dtype_size(dtype)) +
           3 * gram_round64((size_t)columns * sizeof(double));
}

static double dot(const struct cg *c, const char *a, const char *b, size_t at)
{
    if (c->dtype == GRAM_F32)
        return dot_f32(c->n, (const float *)(a + at), (const float *)(b + at));
    return dot_f64(c->n, (const double *)(a + at), (const double *)(b + at));
}

static void add(const struct cg *c, double alpha, const char *x, char *y, size_t at)
{
    if (c->dtype == GRAM_F32)
        add_f32(c->n, alpha, (const float *)(x + at), (float *)(y + at));
    else
        add_f64(c->n, alpha, (const double *)(x + at), (double *)(y + at));
}

static void turn(const struct cg *c, double beta, const char *x, char *y, size_t at)
{
    if (c->dtype == GRAM_F32)
        turn_f32(c->n, beta, (const float *)(x + at), (float *)(y + at));
    else
        turn_f64(c->n, beta, (const double *)(x + at), (double *)(y + at));
}

/* One column's part of a step; columns run side by side, each summed in one order. */
static void column_step(void *arg, int64_t column, int thread)
{
    const struct cg *c = arg;
    size_t at = (size_t)(column * c->n) * gram_dtype_size(c->dtype);
    double s;

    (void)thread;
    switch (c->step) {
    case START:
        c->norm_b[column] = sqrt(dot(c, c->b, c->b, at));
        break;
    case RESIDUAL:
        turn(c, -1, c->b, c->r, at);
        c->norm_r[column] = sqrt(dot(c, c->r, c->r, at));
        break;
    case DESCEND:
        s = dot(c, c->d, c->ad, at);
        s = s > 0 ? c->rz[column] / s : 0; /* 0: this column is solved */
        add(c, s, c->d, c->x, at);
        add(c, -s, c->ad, c->r, at);
        c->norm_r[column] = sqrt(dot(c, c->r, c->r, at));
        break;
    case TURN:
        s = dot(c, c->r, c->z, at);
        turn(c, c->rz[column] > 0 ? s / c->rz[column] : 0, c->z, c->d, at);
        c->rz[column] = s;
        break;
    }
}

static void each_column(gram_context *g, struct cg *c, enum step step)
{
    c->step = step;
    gram_parallel_for(g, c->columns, column_step, c);
}

static double largest_residual(const struct cg *c)
{
    double largest = 0;

    for (int64_t j = 0; j < c->columns; j++)
        if (c->norm_b[j] > 0)
            largest = fmax(largest, c->norm_r[j] / c->norm_b[j]);
    return largest;
}

static void multiply(gram_context *g, const struct cg *c, const char *v, char *out)
{
    gram_machine_blocks_multiply(g, c->system->k, c->system->ridge, c->columns, v, out);
}

/* Iterates from the true residual in r until the carried one is below tolerance. */
static gram_status one_round(gram_context *g, struct cg *c, double tolerance, int *iterations)
{
    size_t bytes = (size_t)(c->n * c->columns) * gram_dtype_size(c->dtype);

    memset(c->rz, 0, (size_t)c->columns * sizeof(double));
    memset(c->d, 0, bytes);
    while (*iterations < MOST_ITERATIONS && largest_residual(c) > tolerance) {
        gram_machine_preconditioner_apply(g, c->system->p, c->r, c->z);
        each_column(g, c, TURN);
        multiply(g, c, c->d, c->ad);
        each_column(g, c, DESCEND);
        ++*iterations;
        if (gram_cancelled(g))
            return gram_fail(g, GRAM_CANCELLED, "cancelled");
    }
    return GRAM_OK;
}

static gram_status iterate(gram_context *g, struct cg *c, double tolerance,
                           struct machine_cg_report *report)
{
    double before = INFINITY;

    *report = (struct machine_cg_report){0};
    each_column(g, c, START);
    for (int round = 0; round < MOST_ROUNDS; round++) {
        multiply(g, c, c->x, c->r);
        each_column(g, c, RESIDUAL);
        report->residual = largest_residual(c);
        if (report->residual <= tolerance || report->iterations >= MOST_ITERATIONS ||
            report->residual > 0.5 * before) /* rounding allows no more */
            break;
        before = report->residual;
        TRY(one_round(g, c, 0.7 * tolerance, &report->iterations));
    }
    return GRAM_OK;
}

gram_status gram_machine_cg(gram_context *g, const struct machine_system *system, double tolerance,
                            const void *b, void *x, struct machine_cg_report *report)
{
    struct cg c = {.system = system,
                   .n = system->k->n,
                   .columns = system->columns,
                   .dtype = system->k->dtype,
                   .b = b,
                   .x = x};
    size_t bytes = gram_machine_cg_bytes(c.n, c.columns, c.dtype);
    size_t part = gram_round64((size_t)(c.n * c.columns) * gram_dtype_size(c.dtype));
    size_t small = gram_round64((size_t)c.columns * sizeof(double));
    char *memory = gram_alloc(g, bytes);
    gram_status status;

    if (!memory)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    c.r = memory;
    c.z = c.r + part;
    c.d = c.z + part;
    c.ad = c.d + part;
    c.norm_b = (double *)(c.ad + part);
    c.norm_r = (double *)((char *)c.norm_b + small);
    c.rz = (double *)((char *)c.norm_r + small);
    status = iterate(g, &c, tolerance, report);
    gram_free(g, memory, bytes);
    return status;
}

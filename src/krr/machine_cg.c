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
#include "core/threads.h"
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

struct cg {
    const struct machine_system *system;
    int64_t n, columns;
    gram_dtype dtype;
    const char *b;
    char *x, *r, *z, *d;
    char *ad;                     /* (K + diag(ridge)) d; on a GPU K d in f64 */
    double *norm_b, *norm_r, *rz; /* one after the other */
    double *norms;                /* norm_b and norm_r on the host */
    enum gram_cg_step step;
};

/* Of the product with K. */
static size_t product_bytes(const gram_context *g, int64_t n, int64_t columns, gram_dtype dtype)
{
    size_t size = gram_machine_on_host(g) ? gram_dtype_size(dtype) : sizeof(double);

    return gram_round64((size_t)(n * columns) * size);
}

size_t gram_machine_cg_bytes(const gram_context *g, int64_t n, int64_t columns, gram_dtype dtype)
{
    return 3 * gram_round64((size_t)(n * columns) * gram_dtype_size(dtype)) +
           product_bytes(g, n, columns, dtype) + 3 * (size_t)columns * sizeof(double);
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
    size_t size = gram_dtype_size(c->dtype), at = (size_t)(column * c->n) * size;
    double s;

    (void)thread;
    switch (c->step) {
    case GRAM_CG_START:
        memset(c->x + at, 0, (size_t)c->n * size);
        memcpy(c->r + at, c->b + at, (size_t)c->n * size);
        c->norm_b[column] = c->norm_r[column] = sqrt(dot(c, c->b, c->b, at));
        break;
    case GRAM_CG_RESIDUAL:
        memcpy(c->r + at, c->ad + at, (size_t)c->n * size);
        turn(c, -1, c->b, c->r, at);
        c->norm_r[column] = sqrt(dot(c, c->r, c->r, at));
        break;
    case GRAM_CG_RESTART:
        memset(c->d + at, 0, (size_t)c->n * size);
        c->rz[column] = 0;
        break;
    case GRAM_CG_DESCEND:
        s = dot(c, c->d, c->ad, at);
        s = s > 0 ? c->rz[column] / s : 0; /* 0: this column is solved */
        add(c, s, c->d, c->x, at);
        add(c, -s, c->ad, c->r, at);
        c->norm_r[column] = sqrt(dot(c, c->r, c->r, at));
        break;
    case GRAM_CG_TURN:
        s = dot(c, c->r, c->z, at);
        turn(c, c->rz[column] > 0 ? s / c->rz[column] : 0, c->z, c->d, at);
        c->rz[column] = s;
        break;
    }
}

static gram_status each_column(gram_context *g, struct cg *c, enum gram_cg_step step)
{
    const struct gram_cg_op op = {.step = step,
                                  .dtype = c->dtype,
                                  .n = c->n,
                                  .columns = c->columns,
                                  .b = c->b,
                                  .x = c->x,
                                  .r = c->r,
                                  .z = c->z,
                                  .d = c->d,
                                  .product = (const double *)(const void *)c->ad,
                                  .ridge = c->system->ridge,
                                  .norm_b = c->norm_b,
                                  .norm_r = c->norm_r,
                                  .rz = c->rz};

    c->step = step;
    if (!gram_machine_on_host(g))
        return g->backend->cg_step(g, &op);
    gram_parallel_for(g, c->columns, column_step, c);
    return GRAM_OK;
}

/* Largest of |r| / |b|; waits for a GPU. */
static gram_status largest_residual(gram_context *g, const struct cg *c, double *out)
{
    double largest = 0;

    TRY(gram_machine_fetch(g, c->norms, c->norm_b, 2 * (size_t)c->columns * sizeof(double)));
    for (int64_t j = 0; j < c->columns; j++)
        if (c->norms[j] > 0)
            largest = fmax(largest, c->norms[c->columns + j] / c->norms[j]);
    *out = largest;
    return GRAM_OK;
}

/* ad = K v: see struct cg. */
static gram_status multiply(gram_context *g, const struct cg *c, const char *v)
{
    const struct machine_system *s = c->system;
    const struct gram_rows_combine_op op = {.dtype = c->dtype,
                                            .rows = c->n,
                                            .terms = c->n,
                                            .outputs = c->columns,
                                            .ld = c->n,
                                            .kernel = s->matrix,
                                            .alpha = v,
                                            .out = (double *)(void *)c->ad};

    if (!gram_machine_on_host(g))
        return g->backend->rows_combine(g, &op);
    gram_machine_blocks_multiply(g, s->k, s->ridge, c->columns, v, c->ad);
    return GRAM_OK;
}

/* z = P^-1 r. */
static gram_status precondition(gram_context *g, const struct cg *c)
{
    if (!gram_machine_on_host(g))
        return gram_machine_nystrom_apply(g, c->system->nystrom, c->r, c->z);
    gram_machine_preconditioner_apply(g, c->system->p, c->r, c->z);
    return GRAM_OK;
}

/* Iterates from the true residual in r until the carried one is below tolerance. */
static gram_status one_round(gram_context *g, struct cg *c, double tolerance, int *iterations)
{
    double carried;

    TRY(each_column(g, c, GRAM_CG_RESTART));
    TRY(largest_residual(g, c, &carried));
    while (*iterations < MOST_ITERATIONS && carried > tolerance) {
        TRY(precondition(g, c));
        TRY(each_column(g, c, GRAM_CG_TURN));
        TRY(multiply(g, c, c->d));
        TRY(each_column(g, c, GRAM_CG_DESCEND));
        TRY(largest_residual(g, c, &carried));
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
    TRY(each_column(g, c, GRAM_CG_START));
    for (int round = 0; round < MOST_ROUNDS; round++) {
        if (round > 0) {
            TRY(multiply(g, c, c->x));
            TRY(each_column(g, c, GRAM_CG_RESIDUAL));
        }
        TRY(largest_residual(g, c, &report->residual));
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
                   .n = system->n,
                   .columns = system->columns,
                   .dtype = system->dtype,
                   .b = b,
                   .x = x};
    size_t part = gram_round64((size_t)(c.n * c.columns) * gram_dtype_size(c.dtype));
    size_t norms = 2 * (size_t)c.columns * sizeof(double);
    struct machine_array memory;
    gram_status status;

    TRY(gram_machine_room(g, gram_machine_cg_bytes(g, c.n, c.columns, c.dtype), &memory));
    c.r = memory.data;
    c.z = c.r + part;
    c.d = c.z + part;
    c.ad = c.d + part;
    c.norm_b = (double *)(void *)(c.ad + product_bytes(g, c.n, c.columns, c.dtype));
    c.norm_r = c.norm_b + c.columns;
    c.rz = c.norm_r + c.columns;
    c.norms = gram_machine_on_host(g) ? c.norm_b : gram_alloc(g, norms);
    if (c.norms)
        status = iterate(g, &c, tolerance, report);
    else
        status = gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", norms);
    if (c.norms != c.norm_b)
        gram_free(g, c.norms, norms);
    gram_machine_array_free(g, &memory);
    return status;
}

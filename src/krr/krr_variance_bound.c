/*
 * krr_variance_bound.c - upper bounds of r^T (K + D)^-1 r by functions of a few rows
 *
 * K + D is a kernel matrix with a positive diagonal, and the form is the least value of a problem,
 *
 *   r^T (K + D)^-1 r = min_f sum_i (r_i - f(x_i))^2 / D_i + |f|^2,
 *
 * over the functions f of the kernel's space.  So every f gives an upper bound, however it was
 * found, and rounding matters only where its two positive terms are summed.  f = 0 gives r^T D^-1
 * r, which takes the ridge for the least eigenvalue that r has a part of; but a residual of
 * conjugate gradients with a preconditioner lies mostly where eigenvalues are large.  The best
 * f = sum_s v_s k(., x_s) of some rows S gives
 *
 *   |D^-1/2 (r - K_nS v)|^2 + v^T K_SS v,   (K_SS + K_Sn D^-1 K_nS) v = K_Sn D^-1 r,
 *
 * which is r^T P^-1 r for the Nystroem preconditioner P of S, and K + D >= P.  S are the pivots of
 * the solve's preconditioner, and all is in f64.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "krr_variance.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
    MOST_ROWS = 1000
};

/* ---- The span -------------------------------------------------------------------------------- */

static gram_status gather_points(gram_context *g, const struct krr_problem *p,
                                 const struct krr_pivots *pivots, struct krr_span *s)
{
    struct krr_gather op = {.dtype = GRAM_F64,
                            .count = s->rank,
                            .width = p->width,
                            .x = p->wide_x.data,
                            .out = s->points.data};
    struct krr_array index;
    gram_status status;

    TRY(gram_krr_send(g, pivots->row, (size_t)s->rank * sizeof *pivots->row, &index));
    op.index = index.data;
    status = gram_krr_gather(g, &op);
    gram_krr_free(g, &index);
    return status;
}

/* The matrix += K_Sn D^-1 K_nS of some rows; block has room for rank by as many, root is D^-1/2. */
static gram_status add_rows(gram_context *g, const struct krr_problem *p, const struct krr_span *s,
                            const int64_t first_count[2], double *block, const double *root)
{
    const int64_t first = first_count[0], count = first_count[1];
    gram_tensor points = gram_krr_matrix(g, s->points.data, s->rank, p->width, GRAM_F64);
    gram_tensor rows = gram_krr_matrix(g, (const double *)p->wide_x.data + first * p->width, count,
                                       p->width, GRAM_F64);
    gram_tensor k = gram_krr_matrix(g, block, s->rank, count, GRAM_F64);
    gram_tensor turned = gram_krr_by_columns(g, block, count, s->rank, GRAM_F64);
    gram_tensor sum = gram_krr_matrix(g, s->matrix.data, s->rank, s->rank, GRAM_F64);
    gram_matmul_options options = GRAM_MATMUL_OPTIONS_INIT;
    const struct krr_map scale = {.dtype = GRAM_F64,
                                  .rows = s->rank,
                                  .width = count,
                                  .w = root + first,
                                  .x = block,
                                  .z = block};

    options.beta = gram_number(1);
    options.c = &sum;
    TRY(gram_kernel(g, &points, &rows, &p->wide_kernel, &k));
    TRY(gram_krr_map(g, &scale));
    return gram_matmul_batched(g, &k, &turned, &options, &sum);
}

/* A little on the diagonal keeps the matrix positive definite where K_SS is singular. */
static gram_status begin_matrix(gram_context *g, const struct krr_problem *p,
                                const struct krr_span *s, double *add)
{
    gram_tensor points = gram_krr_matrix(g, s->points.data, s->rank, p->width, GRAM_F64);
    gram_tensor sum = gram_krr_matrix(g, s->matrix.data, s->rank, s->rank, GRAM_F64);
    const double trace =
        (double)s->rank * p->most_diagonal * (1 + (double)p->n * p->most_diagonal / p->least_ridge);

    for (int64_t i = 0; i < s->rank; i++)
        add[i] = 4 * DBL_EPSILON * trace;
    TRY(gram_kernel(g, &points, NULL, &p->wide_kernel, &sum));
    return gram_krr_add_diagonal(g, &sum, add);
}

static gram_status fill_matrix(gram_context *g, const struct krr_problem *p, struct krr_span *s,
                               double *numbers)
{
    const int64_t step = gram_most(1, gram_krr_block_entries(g) / s->rank);
    struct krr_array block = {0}, root = {0};
    gram_status status;

    TRY(begin_matrix(g, p, s, numbers));
    for (int64_t i = 0; i < p->n; i++)
        numbers[i] = 1 / sqrt(p->ridge[i]);
    TRY(gram_krr_send(g, numbers, (size_t)p->n * sizeof *numbers, &root));
    status =
        gram_krr_allocate(g, (size_t)(s->rank * gram_least(step, p->n)) * sizeof(double), &block);
    for (int64_t first = 0; first < p->n && status == GRAM_OK; first += step)
        status = add_rows(g, p, s, (int64_t[2]){first, gram_least(step, p->n - first)}, block.data,
                          root.data);
    gram_krr_free(g, &block);
    gram_krr_free(g, &root);
    return status;
}

static gram_status prepare(gram_context *g, const struct krr_problem *p,
                           const struct krr_pivots *pivots, struct krr_span *s)
{
    const size_t number = sizeof(double), side = 2 * (size_t)(s->rank * p->columns) * number;
    const size_t bytes = (size_t)gram_most(p->n, s->rank) * number;
    double *numbers;
    gram_status status;

    TRY(gram_krr_allocate(g, (size_t)(s->rank * p->width) * number, &s->points));
    TRY(gram_krr_allocate(g, (size_t)(s->rank * s->rank) * number, &s->matrix));
    TRY(gram_krr_allocate(g, side, &s->side));
    TRY(gram_krr_allocate(g, (size_t)(p->n * p->columns) * number, &s->vector));
    s->host = gram_alloc(g, side);
    if (!s->host)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", side);
    TRY(gather_points(g, p, pivots, s));
    numbers = gram_alloc(g, bytes);
    if (!numbers)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    status = fill_matrix(g, p, s, numbers);
    gram_free(g, numbers, bytes);
    g->call = p->call;
    return status;
}

gram_status gram_krr_span_create(gram_context *g, const struct krr_problem *p,
                                 const struct krr_pivots *pivots, struct krr_span *out)
{
    *out = (struct krr_span){.rank = gram_least(pivots->rows, MOST_ROWS)};
    return out->rank > 0 ? prepare(g, p, pivots, out) : GRAM_OK;
}

void gram_krr_span_destroy(gram_context *g, struct krr_span *s)
{
    const size_t bytes = s->side.bytes;

    gram_krr_free(g, &s->points);
    gram_krr_free(g, &s->matrix);
    gram_krr_free(g, &s->side);
    gram_krr_free(g, &s->vector);
    gram_free(g, s->host, bytes);
    *s = (struct krr_span){0};
}

/* ---- Bounds ---------------------------------------------------------------------------------- */

/* v of K_Sn D^-1 r, both in side; s->rank becomes 0 where the matrix is not positive definite. */
static gram_status solve(gram_context *g, const struct krr_problem *p, struct krr_span *s)
{
    gram_tensor a = gram_krr_matrix(g, s->matrix.data, s->rank, s->rank, GRAM_F64);
    gram_tensor v = gram_krr_by_columns(g, s->side.data, s->rank, p->columns, GRAM_F64);
    gram_tensor info = {.dtype = GRAM_I32, .device = a.device};
    gram_solve_options options = GRAM_SOLVE_OPTIONS_INIT;
    struct krr_array there;
    int32_t code = 0;
    gram_status status;

    options.factored = s->factored;
    options.factor = s->factored ? NULL : &a;
    TRY(gram_krr_allocate(g, sizeof code, &there));
    info.data = there.data;
    status = gram_solve_cholesky(g, &a, &v, &options, &v, &info);
    if (status == GRAM_OK)
        status = gram_krr_fetch(g, &code, there.data, sizeof code);
    gram_krr_free(g, &there);
    s->factored = true;
    if (status == GRAM_OK && code != 0)
        gram_krr_span_destroy(g, s);
    return status;
}

/* K_nS v in p->best, v and K_SS v in s->host. */
static gram_status find_function(gram_context *g, struct krr_problem *p, struct krr_span *s)
{
    const int64_t columns = p->columns, count = s->rank * columns;
    const size_t bytes = (size_t)(p->n * columns) * sizeof(double);
    double *v_data = s->side.data;
    gram_tensor x = gram_krr_matrix(g, p->wide_x.data, p->n, p->width, GRAM_F64);
    gram_tensor points = gram_krr_matrix(g, s->points.data, s->rank, p->width, GRAM_F64);
    gram_tensor vector = gram_krr_by_columns(g, s->vector.data, p->n, columns, GRAM_F64);
    gram_tensor v = gram_krr_by_columns(g, v_data, s->rank, columns, GRAM_F64);
    gram_tensor product = gram_krr_by_columns(g, v_data + count, s->rank, columns, GRAM_F64);

    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < p->n; i++)
            p->best[j * p->n + i] = p->residual[j * p->n + i] / p->ridge[i];
    TRY(gram_krr_store(g, s->vector.data, p->best, bytes));
    TRY(gram_kernel_matmul(g, &points, &x, &p->wide_kernel, &vector, NULL, &v));
    TRY(solve(g, p, s));
    if (s->rank == 0)
        return GRAM_OK;
    TRY(gram_kernel_matmul(g, &x, &points, &p->wide_kernel, &v, NULL, &vector));
    TRY(gram_kernel_matmul(g, &points, &points, &p->wide_kernel, &v, NULL, &product));
    TRY(gram_krr_fetch(g, p->best, s->vector.data, bytes));
    return gram_krr_fetch(g, s->host, v_data, 2 * (size_t)count * sizeof(double));
}

/* The sum of both terms, and what rounding may have taken from it: 16 u times the largest sums of
 * absolute values, as everywhere in this call. */
static double bound_of(const struct krr_problem *p, const struct krr_span *s, int64_t j)
{
    const double *r = p->residual + j * p->n, *f = p->best + j * p->n;
    const double *v = s->host + j * s->rank, *product = v + s->rank * p->columns;
    const double u16 = 16 * DBL_EPSILON, rank = (double)s->rank, n = (double)p->n;
    double misfit = 0, norm = 0, length = 0;

    for (int64_t i = 0; i < p->n; i++)
        misfit += (r[i] - f[i]) * (r[i] - f[i]) / p->ridge[i];
    for (int64_t i = 0; i < s->rank; i++) {
        norm += v[i] * product[i];
        length += v[i] * v[i];
    }
    misfit = sqrt(misfit) + u16 * sqrt(n * rank * length / p->least_ridge) * p->most_diagonal;
    return (1 + u16) * (misfit * misfit + fmax(norm, 0)) + u16 * rank * p->most_diagonal * length;
}

gram_status gram_krr_span_bounds(gram_context *g, struct krr_problem *p, struct krr_span *s,
                                 double *bound)
{
    gram_status status = s->rank > 0 ? find_function(g, p, s) : GRAM_OK;

    g->call = p->call;
    for (int64_t j = 0; j < p->columns; j++)
        bound[j] = s->rank > 0 ? bound_of(p, s, j) : INFINITY;
    return status;
}

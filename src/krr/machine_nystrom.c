/*
 * machine_nystrom.c - Nystrom's approximation of a stored kernel matrix, and its inverse by
 * Woodbury
 *
 * The rows are drawn uniformly.  What they leave of the diagonal, which becomes lambda, is measured
 * at a few rows that are drawn with them.  All that is formed from the rows is in f64, since C C^T
 * has the square of the norm of K.  Williams and Seeger, Using the Nystrom method to speed up
 * kernel machines, 2001; as a preconditioner: Frangella, Tropp and Udell, arXiv:2110.02820 (2021).
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_nystrom.h"
#include "core/random.h"
#include "machine_element.h"
#include "machine_precondition.h"
#include <math.h>

enum {
    MOST_TESTS = 128 /* rows at which the approximation is compared with the diagonal */
};

/* On the diagonal of the corner, which is 1 beside it: above what the rounding of a kernel matrix
 * in f32 can make of its smallest eigenvalues. */
static const double jitter = 1e-4;

/* Just below 1, so that rounding leaves P^-1 positive definite. */
static const double keep = 1 - 1e-6;

/* What making one works with. */
struct work {
    int64_t rank, tests;
    struct machine_array chosen; /* indices: of the rows, then of the tests */
    struct machine_array points; /* their features */
    struct machine_array narrow; /* a small kernel matrix in the dtype of K */
    struct machine_array corner; /* B + jitter I in f64 */
    struct machine_array cross;  /* f64, rank by tests: the kernel of rows and tests */
    struct machine_array answer; /* (B + jitter I)^-1 cross; later the identity */
    struct machine_array wide;   /* C in f64 */
    struct machine_array info;
};

static int64_t tests_of(int64_t n, int64_t rank)
{
    return n - rank < MOST_TESTS ? n - rank : MOST_TESTS;
}

size_t gram_machine_nystrom_bytes(int64_t n, int64_t columns, gram_dtype dtype)
{
    size_t rank = (size_t)gram_machine_preconditioner_rank(n), wide = sizeof(double);

    return rank * (size_t)n * (gram_dtype_size(dtype) + wide) + 2 * rank * (size_t)columns * wide +
           8 * (rank + MOST_TESTS) * (rank + MOST_TESTS) * wide;
}

static void work_destroy(gram_context *g, struct work *w)
{
    struct machine_array *all[] = {&w->chosen, &w->points, &w->narrow, &w->corner,
                                   &w->cross,  &w->answer, &w->wide,   &w->info};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        gram_machine_array_free(g, all[i]);
}

static gram_status doubles(gram_context *g, int64_t count, struct machine_array *out)
{
    return gram_machine_room(g, (size_t)count * sizeof(double), out);
}

/* Draws the rows and the tests. */
static gram_status choose(gram_context *g, const struct machine_nystrom *p, uint64_t seed,
                          struct work *w)
{
    size_t bytes = (size_t)p->n * sizeof(int64_t);
    int64_t *index = gram_alloc(g, bytes), count = p->rank + w->tests;
    gram_status status;

    if (!index)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    for (int64_t i = 0; i < p->n; i++)
        index[i] = i;
    gram_random_choose(&seed, index, p->n, count);
    status = gram_machine_send(g, index, (size_t)count * sizeof *index, &w->chosen);
    gram_free(g, index, bytes);
    return status;
}

/* out = the kernel of the chosen rows and of count chosen ones from first on, in f64. */
static gram_status small_kernel(gram_context *g, const struct machine_stored *k, struct work *w,
                                int64_t first, int64_t count, void *out)
{
    gram_tensor points = gram_machine_matrix(g, w->points.data, w->rank, k->x.shape[1], k->x.dtype);
    gram_tensor others = points;
    gram_tensor narrow = gram_machine_matrix(g, w->narrow.data, w->rank, count, k->x.dtype);
    const struct gram_rows_add_op add = {k->x.dtype, w->rank * count, out, w->narrow.data, 0, 1};

    others.data =
        (char *)others.data + (size_t)(first * others.stride[0]) * gram_dtype_size(others.dtype);
    others.shape[0] = count;
    TRY(gram_kernel(g, &points, first ? &others : NULL, k->kernel, &narrow));
    return g->backend->rows_add(g, &add);
}

/* Adds `value` to the diagonal of a matrix of `rows` rows in f64. */
static gram_status add_to_diagonal(gram_context *g, int64_t rows, double value, void *matrix)
{
    size_t bytes = (size_t)rows * sizeof(double);
    double *add = gram_alloc(g, bytes);
    struct gram_diagonal_op op = {GRAM_F64, rows, matrix, NULL};
    struct machine_array there = {0};
    gram_status status;

    if (!add)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    for (int64_t i = 0; i < rows; i++)
        add[i] = value;
    status = gram_machine_send(g, add, bytes, &there);
    op.add = there.data;
    if (status == GRAM_OK)
        status = g->backend->diagonal_add(g, &op);
    gram_machine_array_free(g, &there);
    gram_free(g, add, bytes);
    return status;
}

/* x = a^-1 x with a rank by rank and x rank by columns, f64, row-major; *done says whether a was
 * positive definite. */
static gram_status solve(gram_context *g, int64_t rank, int64_t columns, const void *a, void *x,
                         struct work *w, bool *done)
{
    gram_tensor matrix = gram_machine_matrix(g, a, rank, rank, GRAM_F64);
    gram_tensor right = gram_machine_matrix(g, x, rank, columns, GRAM_F64);
    gram_tensor info = {.data = w->info.data, .dtype = GRAM_I32, .device = right.device};
    int32_t code = 0;

    TRY(gram_solve_cholesky(g, &matrix, &right, NULL, &right, &info));
    TRY(gram_machine_fetch(g, &code, w->info.data, sizeof code));
    *done = code == 0;
    return GRAM_OK;
}

/* What the rows leave of the diagonal, on average over the tests. */
static gram_status residual(gram_context *g, const struct machine_nystrom *p, struct work *w,
                            double *out)
{
    int64_t count = p->rank * w->tests;
    size_t bytes = 2 * (size_t)count * sizeof(double);
    double *cross = gram_alloc(g, bytes), *answer = cross + count, left = 0;
    gram_status status;

    if (!cross)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    status = gram_machine_fetch(g, cross, w->cross.data, bytes / 2);
    if (status == GRAM_OK)
        status = gram_machine_fetch(g, answer, w->answer.data, bytes / 2);
    for (int64_t j = 0; status == GRAM_OK && j < w->tests; j++) {
        double rest = 1;

        for (int64_t i = 0; i < p->rank; i++)
            rest -= cross[i * w->tests + j] * answer[i * w->tests + j];
        left += fmax(rest, 0) / (double)w->tests;
    }
    *out = left;
    gram_free(g, cross, bytes);
    return status;
}

/* B + jitter I, and lambda from what the tests say; *done: B was good for it. */
static gram_status make_corner(gram_context *g, const struct machine_stored *k, double ridge,
                               struct work *w, struct machine_nystrom *p, bool *done)
{
    int64_t count = w->rank + w->tests;
    const struct gram_rows_gather_op gather = {p->dtype,       count,     k->x.shape[1],
                                               w->chosen.data, k->x.data, w->points.data};
    const struct gram_rows_add_op copy = {
        GRAM_F64, w->rank * w->tests, w->answer.data, w->cross.data, 0, 1};
    double left = 0;

    TRY(g->backend->rows_gather(g, &gather));
    TRY(small_kernel(g, k, w, 0, w->rank, w->corner.data));
    TRY(add_to_diagonal(g, w->rank, jitter, w->corner.data));
    TRY(small_kernel(g, k, w, w->rank, w->tests, w->cross.data));
    TRY(g->backend->rows_add(g, &copy));
    TRY(solve(g, w->rank, w->tests, w->corner.data, w->answer.data, w, done));
    if (*done)
        TRY(residual(g, p, w, &left));
    p->lambda = fmax(ridge, 0.5 * left);
    return GRAM_OK;
}

/* C, and the inverse of C C^T + lambda (B + jitter I). */
static gram_status make_inverse(gram_context *g, const void *matrix, struct work *w,
                                struct machine_nystrom *p, bool *done)
{
    const struct gram_rows_gather_op gather = {p->dtype,       p->rank, p->n,
                                               w->chosen.data, matrix,  p->rows.data};
    const struct gram_rows_add_op widen = {p->dtype, p->rank * p->n, w->wide.data, p->rows.data, 0,
                                           1};
    const struct gram_rows_add_op square = {GRAM_F64,       p->rank * p->rank, w->corner.data,
                                            w->answer.data, p->lambda,         1};
    const struct gram_rows_add_op zero = {GRAM_F64, p->rank * p->rank, p->inverse.data, NULL, 0, 1};
    gram_tensor wide = gram_machine_matrix(g, w->wide.data, p->rank, p->n, GRAM_F64);
    gram_tensor product = gram_machine_matrix(g, w->answer.data, p->rank, p->rank, GRAM_F64);
    gram_kernel_options inner = GRAM_KERNEL_OPTIONS_INIT;

    inner.inner = GRAM_DOT;
    TRY(g->backend->rows_gather(g, &gather));
    TRY(g->backend->rows_add(g, &widen));
    TRY(gram_kernel(g, &wide, NULL, &inner, &product));
    TRY(g->backend->rows_add(g, &square));
    TRY(g->backend->rows_add(g, &zero));
    TRY(add_to_diagonal(g, p->rank, 1, p->inverse.data));
    return solve(g, p->rank, p->rank, w->corner.data, p->inverse.data, w, done);
}

static gram_status allocate(gram_context *g, int64_t width, struct work *w,
                            struct machine_nystrom *p)
{
    size_t size = gram_dtype_size(p->dtype);
    int64_t most = p->rank > w->tests ? p->rank : w->tests;

    TRY(gram_machine_room(g, (size_t)((p->rank + w->tests) * width) * size, &w->points));
    TRY(gram_machine_room(g, (size_t)(p->rank * most) * size, &w->narrow));
    TRY(doubles(g, p->rank * p->rank, &w->corner));
    TRY(doubles(g, p->rank * w->tests, &w->cross));
    TRY(doubles(g, p->rank * most, &w->answer));
    TRY(doubles(g, p->rank * p->n, &w->wide));
    TRY(gram_machine_room(g, sizeof(int32_t), &w->info));
    TRY(gram_machine_room(g, (size_t)(p->rank * p->n) * size, &p->rows));
    TRY(doubles(g, p->rank * p->rank, &p->inverse));
    return doubles(g, 2 * p->rank * p->columns, &p->weight);
}

gram_status gram_machine_nystrom_create(gram_context *g, const struct machine_stored *k,
                                        double ridge, int64_t columns, uint64_t seed,
                                        struct machine_nystrom *out)
{
    struct machine_nystrom p = {.n = k->x.shape[0], .columns = columns, .dtype = k->x.dtype};
    struct work w = {.rank = gram_machine_preconditioner_rank(p.n)};
    bool done = false;
    gram_status status;

    p.rank = w.rank;
    w.tests = tests_of(p.n, p.rank);
    status = allocate(g, k->x.shape[1], &w, &p);
    if (status == GRAM_OK)
        status = choose(g, &p, seed, &w);
    if (status == GRAM_OK && p.rank > 0)
        status = make_corner(g, k, ridge, &w, &p, &done);
    if (status == GRAM_OK && done)
        status = make_inverse(g, k->matrix.data, &w, &p, &done);
    if (!done)
        p.rank = 0, p.lambda = 1;
    work_destroy(g, &w);
    if (status != GRAM_OK)
        gram_machine_nystrom_destroy(g, &p);
    *out = p;
    return status;
}

void gram_machine_nystrom_destroy(gram_context *g, struct machine_nystrom *p)
{
    gram_machine_array_free(g, &p->rows);
    gram_machine_array_free(g, &p->inverse);
    gram_machine_array_free(g, &p->weight);
    *p = (struct machine_nystrom){0};
}

gram_status gram_machine_nystrom_apply(gram_context *g, const struct machine_nystrom *p,
                                       const void *r, void *z)
{
    double *product = p->weight.data, *weight = product + p->rank * p->columns;
    const struct gram_rows_combine_op down = {p->dtype, p->rank,      p->n, p->columns,
                                              p->rank,  p->rows.data, r,    product};
    const struct gram_rows_combine_op solve = {GRAM_F64, p->rank,         p->rank, p->columns,
                                               p->rank,  p->inverse.data, product, weight};
    const struct gram_cg_precondition_op up = {p->dtype, p->n, p->columns, p->rank, p->rows.data,
                                               weight,   r,    z,          keep,    p->lambda};

    if (p->rank > 0) {
        TRY(g->backend->rows_combine(g, &down));
        TRY(g->backend->rows_combine(g, &solve));
    }
    return g->backend->cg_precondition(g, &up);
}

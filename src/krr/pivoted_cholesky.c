/*
 * pivoted_cholesky.c - a preconditioner for K + diag(ridge): randomly pivoted Cholesky of K
 *
 *   K ~ F F^T,   P = F F^T + lambda I,   P^-1 = (I - F (F^T F + lambda I)^-1 F^T) / lambda
 *
 * Pivots S are drawn a block at a time with probability proportional to what is left of the
 * diagonal, so that large residuals are met early and no n by n matrix is needed:
 *
 *   C = K[:, S] - F F[S, :]^T,   R R^T = C[S, :],   F = [F, C R^-T]
 *
 * lambda is the mean of the ridge, or half of what is left of the diagonal on average if that is
 * more.  Chen, Epperly, Tropp and Webber, Randomly pivoted Cholesky, arXiv:2207.06503 (2022);
 * blocks as in Epperly, Tropp and Webber, arXiv:2410.03969 (2024); preconditioning by it: Diaz,
 * Epperly, Frangella, Tropp and Webber, arXiv:2304.12465 (2023).
 *
 * Columns can be appended (gram_krr_append): the factor keeps those that it has, and what is left
 * of the diagonal; krr_rank.c says when that pays.
 *
 * Ranks of a communicator (krr_ranks.h) have the rows of F that are theirs.  For each step they
 * agree on the pivots (krr_draw.c), and exchange F[S, :] and C[S, :]: a rank receives
 * (100 by rank so far + 100 by 100) numbers, in about eight messages.  F^T F takes two exchanges
 * of rank^2 numbers of f64, and F^T v in each iteration two of rank numbers for each column.
 *
 * It is the same on every device: kernels and products of gram.h, and the device's passes.  What is
 * small, as pivots and the factor R, is dealt with on the host.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "core/blas.h"
#include "krr_draw.h"
#include "krr_passes.h"
#include "krr_ranks.h"
#include <math.h>
#include <string.h>

enum {
    BLOCK = 100,      /* pivots a step: large enough for matrix products, small against the rank */
    MOST_RANK = 1000, /* at first: where the iteration is slow, krr_rank.c has columns appended */
    LEAST_RANK = 200, /* below about 600 rows everything is one or two steps */
    WIDE_ROWS = 1 << 15 /* of F that are in f64 at a time */
};

/* What the construction works with: on the host, and where the context computes. */
struct work {
    int64_t pivot[BLOCK];
    double *left;              /* the preconditioner's */
    double *part;              /* sums of them: see krr_draw.h */
    double *corner;            /* BLOCK by BLOCK, column-major: C[S, :], then R */
    int64_t *index;            /* BLOCK by rank: elements of F or C that are gathered */
    void *fetched;             /* BLOCK by BLOCK of the dtype */
    size_t bytes;              /* of these, one after the other */
    struct krr_array diagonal; /* left where the context computes: itself on the CPU */
    struct krr_array points;   /* BLOCK by d: features of the pivots */
    struct krr_array factor;   /* BLOCK by rank, row-major: F[S, :] */
    struct krr_array narrow;   /* BLOCK by BLOCK of the dtype */
};

/* The rank that pays for n rows: about 8 sqrt(n). */
static int64_t rank_of(int64_t n)
{
    int64_t rank = (int64_t)(8 * sqrt((double)n)) / BLOCK * BLOCK;

    rank = rank < LEAST_RANK ? LEAST_RANK : rank < MOST_RANK ? rank : MOST_RANK;
    return rank < n / 2 ? rank : n / 2;
}

int64_t gram_krr_rank(int64_t n, int64_t asked)
{
    return asked > 0 ? gram_least(asked, n) : rank_of(n);
}

size_t gram_krr_preconditioner_bytes(const gram_context *g, int64_t n, int64_t columns,
                                     gram_dtype dtype)
{
    const struct gram_krr_passes *passes = g->backend->krr;
    size_t rank = (size_t)rank_of(n), wide = sizeof(double);
    size_t kept = rank * (size_t)n * gram_dtype_size(dtype) + rank * rank * wide +
                  passes->apply_bytes(n, (int64_t)rank, columns, dtype);

    if (passes->factorise)
        return kept;
    return kept + rank * (size_t)gram_least(n, WIDE_ROWS) * wide +
           7 * rank * rank * wide; /* see invert() */
}

/* ---- Pivots ---------------------------------------------------------------------------------- */

/* The pivots of a step, of which those of this process are `own` ones behind the first `before`. */
struct step {
    int64_t count, before, own;
};

static struct step step_of(const struct krr_preconditioner *p, const struct work *w, int64_t count)
{
    const int64_t first = gram_krr_ranks_first(p->ranks);
    struct step s = {.count = count};

    while (s.before < count && w->pivot[s.before] < first)
        s.before++;
    while (s.before + s.own < count && w->pivot[s.before + s.own] < first + p->n)
        s.own++;
    return s;
}

/* out = from[S, :] of `columns` columns: from is column-major with p->n rows, out row-major without
 * gaps.  Ranks tell each other the rows of their pivots. */
static gram_status gather_pivots(gram_context *g, const struct krr_preconditioner *p,
                                 struct work *w, const struct step *step, int64_t columns,
                                 const void *from, void *out)
{
    const size_t row_bytes = (size_t)columns * gram_dtype_size(p->dtype);
    const int64_t first = gram_krr_ranks_first(p->ranks);
    struct krr_gather op = {p->dtype, step->own * columns, 1, NULL, from, NULL};
    struct krr_array index;
    gram_status status = GRAM_OK;

    op.out = (char *)out + (size_t)step->before * row_bytes;
    for (int64_t i = 0; i < step->own; i++)
        for (int64_t k = 0; k < columns; k++)
            w->index[i * columns + k] = k * p->n + w->pivot[step->before + i] - first;
    if (op.count > 0) {
        TRY(gram_krr_send(g, w->index, (size_t)op.count * sizeof *w->index, &index));
        op.index = index.data;
        status = g->backend->krr->gather(g, &op);
        gram_krr_free(g, &index);
    }
    TRY(status);
    return gram_krr_ranks_pivot_rows(g, p->ranks, w->pivot, step->count, row_bytes, out);
}

static gram_status gather_points(gram_context *g, const gram_tensor *x, struct work *w,
                                 int64_t count)
{
    struct krr_gather op = {x->dtype, count, x->shape[1], NULL, x->data, w->points.data};
    struct krr_array index;
    gram_status status;

    TRY(gram_krr_send(g, w->pivot, (size_t)count * sizeof *w->pivot, &index));
    op.index = index.data;
    status = g->backend->krr->gather(g, &op);
    gram_krr_free(g, &index);
    return status;
}

/* ---- The factor ------------------------------------------------------------------------------ */

static char *column_at(const struct krr_preconditioner *p, int64_t column)
{
    return (char *)p->factor.data + (size_t)(column * p->n) * gram_dtype_size(p->dtype);
}

/* Columns of the factor as a matrix. */
static gram_tensor columns_view(const gram_context *g, const struct krr_preconditioner *p,
                                int64_t first, int64_t count)
{
    return gram_krr_by_columns(g, column_at(p, first), p->n, count, p->dtype);
}

/* K[:, S] of the rows that this process has. */
static gram_status kernel_columns(gram_context *g, const struct krr_system *s, struct work *w,
                                  int64_t count, const gram_tensor *out)
{
    gram_tensor points = gram_krr_matrix(g, w->points.data, count, s->x.shape[1], s->x.dtype);
    const gram_tensor x = gram_krr_ranks_own_rows(s->ranks, &s->x);
    gram_tensor next = *out;

    if (s->column)
        return s->column(g, s->user, w->pivot, count, out);
    TRY(gather_points(g, &s->x, w, count));
    return gram_kernel(g, &x, &points, s->kernel, &next);
}

/* C = K[:, S] - F F[S, :]^T into the next columns of the factor. */
static gram_status residual_columns(gram_context *g, const struct krr_system *s,
                                    struct krr_preconditioner *p, struct work *w, int64_t done,
                                    const struct step *step)
{
    gram_tensor rows = gram_krr_by_columns(g, w->factor.data, done, step->count, p->dtype);
    gram_tensor next = columns_view(g, p, done, step->count), before = columns_view(g, p, 0, done);
    gram_matmul_options options = GRAM_MATMUL_OPTIONS_INIT;

    options.alpha = gram_number(-1);
    options.beta = gram_number(1);
    options.c = &next;
    if (done > 0)
        TRY(gather_pivots(g, p, w, step, done, p->factor.data, w->factor.data));
    if (p->n == 0)
        return GRAM_OK;
    TRY(kernel_columns(g, s, w, step->count, &next));
    return done > 0 ? gram_matmul_batched(g, &before, &rows, &options, &next) : GRAM_OK;
}

/* R of C[S, :] and a little on its diagonal, to the host; false if there is none. */
static bool factor_corner(gram_context *g, struct work *w, gram_dtype dtype, int64_t count)
{
    double trace = 0;

    for (int64_t i = 0; i < count * count; i++)
        w->corner[i] = krr_element(dtype, w->fetched, i);
    for (int64_t i = 0; i < count; i++)
        trace += w->corner[i * count + i];
    for (int64_t i = 0; i < count; i++) /* 1e-6: above the rounding of f32 columns */
        w->corner[i * count + i] += 1e-6 * trace / (double)count;
    gram_blas_threads(g);
    return gram_blas_potrf(GRAM_F64, GRAM_LOWER, count, w->corner, count) == 0;
}

/* C R^-T in the place of C, and what it leaves of the diagonal; *done is false if C could not be
 * factored. */
static gram_status orthogonalise(gram_context *g, struct krr_preconditioner *p, struct work *w,
                                 int64_t first, const struct step *step, bool *done)
{
    const int64_t count = step->count, before = gram_krr_ranks_first(p->ranks);
    size_t bytes = (size_t)(count * count), n_bytes = (size_t)p->n * sizeof *w->left;
    struct krr_whiten op = {.dtype = p->dtype,
                            .n = p->n,
                            .count = count,
                            .columns = column_at(p, first),
                            .diagonal = w->diagonal.data,
                            .scratch = w->narrow.data};
    struct krr_array lower;
    gram_status status;

    TRY(gather_pivots(g, p, w, step, count, op.columns, w->narrow.data));
    TRY(gram_krr_fetch(g, w->fetched, w->narrow.data, bytes * gram_dtype_size(p->dtype)));
    *done = factor_corner(g, w, p->dtype, count);
    if (!*done || p->n == 0)
        return GRAM_OK;
    TRY(gram_krr_send(g, w->corner, bytes * sizeof *w->corner, &lower));
    op.lower = lower.data;
    status = g->backend->krr->whiten(g, &op);
    gram_krr_free(g, &lower);
    TRY(status);
    TRY(gram_krr_fetch(g, w->left, w->diagonal.data, n_bytes));
    for (int64_t i = step->before; i < step->before + step->own; i++)
        w->left[w->pivot[i] - before] = 0;
    return gram_krr_store(g, w->diagonal.data, w->left, n_bytes);
}

/* The pivots of a step that are given: `done` are behind, in `steps` steps. */
static int64_t take(const struct krr_pivots *given, int64_t steps, int64_t done, int64_t *out)
{
    const int64_t count = steps < given->steps ? given->step[steps] : 0;

    for (int64_t i = 0; i < count; i++)
        out[i] = given->row[done + i];
    return count;
}

static void note(struct krr_pivots *noted, int64_t count, const int64_t *pivot)
{
    for (int64_t i = 0; i < count; i++)
        noted->row[noted->rows++] = pivot[i];
    noted->step[noted->steps++] = count;
}

static double sum_of(const double *numbers, int64_t count)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++)
        sum += numbers[i];
    return sum;
}

/* The pivots of the next step: those that are given, or up to `most` that are drawn. */
static gram_status next_pivots(gram_context *g, const struct krr_draw *d,
                               const struct krr_pivots *given, uint64_t *state,
                               const int64_t step_done[2], int64_t *pivot, int64_t *count)
{
    if (!given)
        return gram_krr_draw(g, d, state, pivot, count);
    *count = take(given, step_done[0], step_done[1], pivot);
    if (d->ranks) /* one process has noted them as they were drawn */
        gram_krr_sort_pivots(pivot, *count);
    return GRAM_OK;
}

/* Fills F behind the `done` columns that it has; p->rank becomes the number of columns that could
 * be had. */
static gram_status fill(gram_context *g, const struct krr_system *s, struct krr_preconditioner *p,
                        struct work *w, int64_t done)
{
    const bool given = done == 0 && s->pivots && s->pivots->rows > 0;
    const struct krr_draw draw = {s->ranks, w->left, w->part, p->n};
    uint64_t state = s->seed ^ (uint64_t)done << 32; /* which depends on no step before */
    bool more = true;

    for (int64_t number = 0; done < p->rank; number++) {
        int64_t count = gram_least(p->rank - done, BLOCK);
        struct step step;

        TRY(next_pivots(g, &draw, given ? s->pivots : NULL, &state, (int64_t[2]){number, done},
                        w->pivot, &count));
        if (count == 0)
            break;
        step = step_of(p, w, count);
        TRY(residual_columns(g, s, p, w, done, &step));
        TRY(orthogonalise(g, p, w, done, &step, &more));
        TRY(gram_krr_ranks_flag(g, s->ranks, &more));
        if (!more)
            break;
        if (s->pivots && !given)
            note(s->pivots, count, w->pivot);
        done += count;
        p->sums[done] = sum_of(w->left, p->n);
        TRY(gram_krr_ranks_total(g, s->ranks, &p->sums[done]));
        if (gram_cancelled(g))
            return gram_fail(g, GRAM_CANCELLED, "cancelled");
    }
    p->rank = done;
    return GRAM_OK;
}

/* ---- The inner matrix ------------------------------------------------------------------------ */

/* matrix = 0 but for a number on its diagonal. */
static gram_status set_diagonal(gram_context *g, const gram_tensor *matrix, double number)
{
    int64_t rank = matrix->shape[0];
    size_t bytes = (size_t)rank * sizeof(double);
    double *diagonal = gram_alloc(g, bytes);
    gram_status status;

    if (!diagonal)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    for (int64_t i = 0; i < rank; i++)
        diagonal[i] = number;
    status = g->backend->krr->widen(g, GRAM_F64, rank * rank, NULL, matrix->data);
    if (status == GRAM_OK)
        status = gram_krr_add_diagonal(g, matrix, diagonal);
    gram_free(g, diagonal, bytes);
    return status;
}

/* square = F^T F + lambda I, by rows of F that pass through `wide`.  In f64, since F^T F has the
 * norm of K.  Ranks add up the squares of their rows. */
static gram_status multiply_factor(gram_context *g, const struct krr_preconditioner *p, void *wide,
                                   gram_tensor *square)
{
    gram_syrk_ema_options options = GRAM_SYRK_EMA_OPTIONS_INIT;

    options.beta = gram_number(1);
    options.sum = 1;
    TRY(set_diagonal(g, square, gram_krr_ranks_is_first(p->ranks) ? p->lambda : 0));
    for (int64_t first = 0; first < p->n; first += WIDE_ROWS) {
        const int64_t count = gram_least(WIDE_ROWS, p->n - first);
        const struct krr_move op = {
            .dtype = p->dtype,
            .rows = p->rank,
            .columns = count,
            .to = wide,
            .from = (const char *)p->factor.data + (size_t)first * gram_dtype_size(p->dtype),
            .to_stride = {count, 1},
            .from_stride = { p->n, 1},
            .wide = true
        };
        const gram_tensor rows = gram_krr_matrix(g, wide, p->rank, count, GRAM_F64);

        TRY(g->backend->krr->move(g, &op));
        TRY(gram_syrk_ema(g, &rows, &options, square, NULL));
    }
    return krr_add_ranks(g, p, square->data, p->rank * p->rank);
}

/* p->inner = (F^T F + lambda I)^-1. */
static gram_status solve_inner(gram_context *g, struct krr_preconditioner *p,
                               const struct krr_array memory[3])
{
    gram_tensor square = gram_krr_matrix(g, memory[1].data, p->rank, p->rank, GRAM_F64);
    gram_tensor inner = gram_krr_matrix(g, p->inner.data, p->rank, p->rank, GRAM_F64);
    gram_tensor info = {.data = memory[2].data, .dtype = GRAM_I32, .device = inner.device};
    int32_t code = 0;

    TRY(multiply_factor(g, p, memory[0].data, &square));
    TRY(set_diagonal(g, &inner, 1));
    TRY(gram_solve_cholesky(g, &square, &inner, NULL, &inner, &info));
    TRY(gram_krr_fetch(g, &code, info.data, sizeof code));
    if (code != 0) /* rounding made it indefinite: then P = lambda I */
        p->rank = 0;
    return GRAM_OK;
}

static gram_status invert(gram_context *g, struct krr_preconditioner *p)
{
    size_t rank = (size_t)p->rank, wide = sizeof(double);
    const size_t rows = (size_t)gram_least(p->n, WIDE_ROWS);
    const size_t bytes[] = {rank * rows * wide, rank * rank * wide, sizeof(int32_t)};
    struct krr_array memory[3] = {{0}};
    gram_status status = GRAM_OK;

    for (int i = 0; i < 3 && status == GRAM_OK; i++)
        status = gram_krr_allocate(g, bytes[i], &memory[i]);
    if (status == GRAM_OK)
        status = solve_inner(g, p, memory);
    for (int i = 0; i < 3; i++)
        gram_krr_free(g, &memory[i]);
    return status;
}

/* lambda, and the inner matrix with it. */
static gram_status finish(gram_context *g, struct krr_preconditioner *p, double ridge)
{
    p->lambda = p->all > 0 ? fmax(ridge, 0.5 * p->sums[p->rank] / (double)p->all) : ridge;
    if (g->backend->krr->factorise)
        return g->backend->krr->factorise(g, p);
    return p->rank > 0 ? invert(g, p) : GRAM_OK;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void work_destroy(gram_context *g, struct work *w)
{
    struct krr_array *all[] = {&w->diagonal, &w->points, &w->factor, &w->narrow};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        gram_krr_free(g, all[i]);
    gram_free(g, w->part, w->bytes);
}

static gram_status work_create(gram_context *g, const struct krr_system *s,
                               const struct krr_preconditioner *p, struct work *w)
{
    int64_t width = s->x.shape[1];
    size_t size = gram_dtype_size(p->dtype);
    size_t part = gram_round64((size_t)gram_ceil_div(p->n, KRR_DRAW_PART) * sizeof *w->part);
    size_t corner = gram_round64((size_t)(BLOCK * BLOCK) * sizeof *w->corner);
    size_t index = gram_round64((size_t)(BLOCK * gram_most(p->rank, BLOCK)) * sizeof *w->index);

    w->left = p->left;
    w->bytes = part + 2 * corner + index;
    w->part = gram_alloc(g, w->bytes);
    if (!w->part)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", w->bytes);
    w->corner = (double *)(void *)((char *)w->part + part);
    w->fetched = (char *)w->corner + corner;
    w->index = (int64_t *)(void *)((char *)w->fetched + corner);
    TRY(gram_krr_send(g, w->left, (size_t)p->n * sizeof *w->left, &w->diagonal));
    TRY(gram_krr_allocate(g, (size_t)(BLOCK * width) * size, &w->points));
    TRY(gram_krr_allocate(g, (size_t)(BLOCK * p->rank) * size, &w->factor));
    return gram_krr_allocate(g, (size_t)(BLOCK * BLOCK) * size, &w->narrow);
}

/* Of left and sums, one after the other. */
static size_t numbers_bytes(const struct krr_preconditioner *p)
{
    return (size_t)(p->n + p->room + 1) * sizeof(double);
}

/* For p->rank columns. */
static gram_status allocate(gram_context *g, struct krr_preconditioner *p)
{
    size_t size = gram_dtype_size(p->dtype);
    size_t scratch = g->backend->krr->apply_bytes(p->n, p->rank, p->columns, p->dtype);

    p->room = p->rank;
    p->left = gram_alloc(g, numbers_bytes(p));
    if (!p->left)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", numbers_bytes(p));
    p->sums = p->left + p->n;
    memset(p->sums, 0, (size_t)(p->room + 1) * sizeof *p->sums);
    TRY(gram_krr_allocate(g, (size_t)(p->n * p->rank) * size, &p->factor));
    TRY(gram_krr_allocate(g, (size_t)(p->rank * p->rank) * sizeof(double), &p->inner));
    return gram_krr_allocate(g, scratch, &p->scratch);
}

/* The factor's columns behind the first `done`, and what stands on all of them. */
static gram_status make(gram_context *g, const struct krr_system *s, double ridge, int64_t done,
                        struct krr_preconditioner *p)
{
    struct work w = {0};
    gram_status status = work_create(g, s, p, &w);

    if (status == GRAM_OK)
        status = fill(g, s, p, &w, done);
    if (status == GRAM_OK)
        status = finish(g, p, ridge);
    if (status == GRAM_OK)
        status = gram_krr_ranks_least(g, s->ranks, &p->rank); /* 0 where any found it indefinite */
    work_destroy(g, &w);
    return status;
}

gram_status gram_krr_precondition(gram_context *g, const struct krr_system *s, double ridge,
                                  struct krr_preconditioner *out)
{
    const int64_t all = s->x.shape[0], first = gram_krr_ranks_first(s->ranks);
    struct krr_preconditioner p = {.n = gram_krr_ranks_own(s->ranks, all),
                                   .all = all,
                                   .columns = s->columns,
                                   .dtype = s->x.dtype,
                                   .ranks = s->ranks,
                                   .add = s->ranks ? gram_krr_ranks_add : NULL};
    gram_status status;

    p.rank = s->pivots && s->pivots->rows > 0 ? s->pivots->rows : gram_krr_rank(all, s->rank);
    status = allocate(g, &p);
    for (int64_t i = 0; i < p.n && status == GRAM_OK; i++)
        p.left[i] = s->diagonal ? s->diagonal[first + i] : 1;
    if (status == GRAM_OK) {
        p.sums[0] = sum_of(p.left, p.n);
        status = gram_krr_ranks_total(g, s->ranks, &p.sums[0]);
    }
    if (status == GRAM_OK)
        status = make(g, s, ridge, 0, &p);
    if (status != GRAM_OK)
        gram_krr_preconditioner_destroy(g, &p);
    *out = p;
    return status;
}

gram_status gram_krr_append(gram_context *g, const struct krr_system *s, double ridge, int64_t rank,
                            struct krr_preconditioner *p)
{
    struct krr_preconditioner more = *p;
    const int64_t done = p->rank;
    gram_status status;

    more.rank = rank;
    more.left = more.sums = NULL;
    more.factor = more.inner = more.scratch = (struct krr_array){0};
    status = allocate(g, &more);
    if (status == GRAM_OK) {
        memcpy(more.left, p->left, (size_t)p->n * sizeof *p->left);
        memcpy(more.sums, p->sums, (size_t)(done + 1) * sizeof *p->sums);
        status = gram_krr_copy(g, more.factor.data, p->factor.data,
                               (size_t)(p->n * done) * gram_dtype_size(p->dtype));
    }
    if (status != GRAM_OK) {
        gram_krr_preconditioner_destroy(g, &more);
        return status;
    }
    gram_krr_preconditioner_destroy(g, p); /* before more memory is needed */
    *p = more;
    status = make(g, s, ridge, done, p);
    if (status == GRAM_OK && p->rank == 0) { /* rounding made it indefinite, and not before */
        p->rank = done;
        status = finish(g, p, ridge);
    }
    if (status != GRAM_OK)
        gram_krr_preconditioner_destroy(g, p);
    return status;
}

void gram_krr_preconditioner_destroy(gram_context *g, struct krr_preconditioner *p)
{
    gram_free(g, p->left, p->left ? numbers_bytes(p) : 0);
    gram_krr_free(g, &p->factor);
    gram_krr_free(g, &p->inner);
    gram_krr_free(g, &p->scratch);
    *p = (struct krr_preconditioner){0};
}

/*
 * cpu_kron_solve.c - systems with a Kronecker product on the CPU: X (F_1 (x) ... (x) F_N) = B
 *
 * Each factor is factorised once by LAPACK.  Rows of b then go through a chain, the last factor
 * first.  Where all factors are small, they are divided by in place: LAPACK wants the unknowns of a
 * system side by side and takes most of its time for calls, while in sweeps the other dimensions
 * are lanes (kron_solve_tile.h), and nothing is transposed.  Else, with the dimension of the factor
 * last, in memory without gaps, LAPACK solves for all other indices at once, and a transposition
 * brings the next dimension to that place.  With eigenvectors, F_i = V_i diag(w_i) V_i^T, the chain
 * is a product with each V_i, a division by the product of the eigenvalues plus the shift, and the
 * products with the V_i^T back.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "core/scratch.h"
#include "core/threads.h"
#include "cpu/cpu.h"
#include "cpu/cpu_kernels.h"
#include "cpu/move.h"
#include <limits.h>
#include <math.h>
#include <string.h>

struct kron_solve_plan {
    gram_context *g;
    const struct gram_kron_solve_op *op;
    gram_dtype dtype;
    int64_t order, rows, pieces; /* n; rows in a piece of b */
    bool parallel;               /* pieces at the same time */
    /* Offsets of each factor: LU, L or V; pivots or w; of small ones 1 over the diagonal, and where
     * LU has put the unknowns. */
    size_t factor[GRAM_MAX_FACTORS], values[GRAM_MAX_FACTORS], reciprocal[GRAM_MAX_FACTORS],
        from[GRAM_MAX_FACTORS];
    size_t work, iwork, buffers, buffer_bytes, bytes;
    int64_t lwork, liwork; /* of the eigenproblem */
    char *scratch;
    const char *made_of[GRAM_MAX_FACTORS]; /* the matrix that factor was made of; NULL: none yet */
    int info[GRAM_MAX_FACTORS];
    bool can_sweep[GRAM_MAX_FACTORS]; /* the factor as it is now */
    bool sweeps;                      /* all of them: LAPACK has nothing to solve */
    int64_t item;
    atomic_bool singular; /* an eigenvalue of the shifted product is 0 */
};

/* ---- Sweeps --------------------------------------------------------------------------------- */

enum {
    SHARE = 1 << 15 /* numbers that a thread takes at a time */
};

static bool is_small(const struct kron_solve_plan *p, int i)
{
    return p->op->method != GRAM_KRON_EIGEN && p->op->factor[i].rows <= KRON_SOLVE_SMALL;
}

/* Makes room for the sweeps of factor i, where its order and the method allow them. */
static void lay_out_sweeps(struct kron_solve_plan *p, int i)
{
    int64_t n = p->op->factor[i].rows;

    if (!is_small(p, i))
        return;
    p->reciprocal[i] = p->bytes;
    p->bytes += gram_round64((size_t)n * gram_dtype_size(p->dtype));
    p->from[i] = p->bytes;
    p->bytes += gram_round64((size_t)n * sizeof(int32_t));
}

/* 1 / d; false where that, or d, is not a normal number: dividing by d keeps more of it. */
static bool invert(gram_dtype dtype, const void *diagonal, int64_t at, void *reciprocal, int64_t j)
{
    if (dtype == GRAM_F32) {
        float d = ((const float *)diagonal)[at], r = 1 / d;
        ((float *)reciprocal)[j] = r;
        return isnormal(d) && isnormal(r);
    }
    double d = ((const double *)diagonal)[at], r = 1 / d;
    ((double *)reciprocal)[j] = r;
    return isnormal(d) && isnormal(r);
}

/* After a factorisation by LAPACK: true if factor i can be divided by in sweeps. */
static bool prepare_sweeps(const struct kron_solve_plan *p, int i)
{
    int64_t n = p->op->factor[i].rows;
    char *a = p->scratch + p->factor[i];
    int32_t *from = (int32_t *)(void *)(p->scratch + p->from[i]);
    const int32_t *pivots = (const int32_t *)(const void *)(p->scratch + p->values[i]);

    if (!is_small(p, i))
        return false;
    for (int64_t j = 0; j < n; j++) {
        from[j] = (int32_t)j;
        if (!invert(p->dtype, a, j * (n + 1), p->scratch + p->reciprocal[i], j))
            return false;
    }
    if (p->op->method == GRAM_KRON_CHOLESKY) {
        cpu_mirror(p->dtype, n, a); /* L to the other triangle too */
        return true;
    }
    for (int64_t j = n - 1; j >= 0; j--) { /* P z, as LAPACK's exchanges say */
        int32_t kept = from[j];
        from[j] = from[pivots[j] - 1];
        from[pivots[j] - 1] = kept;
    }
    return true;
}

struct division {
    const struct kron_solve_plan *plan;
    struct gram_kron_sweeps sweeps;
    int64_t right, systems, share;
    void *data;
};

static void divide_share(void *arg, int64_t index, int thread)
{
    const struct division *d = arg;
    int64_t first = index * d->share, last = gram_least(first + d->share, d->systems);

    (void)thread;
    gram_cpu_kernels_of(d->plan->g)
        ->kron_solve[d->plan->dtype](&d->sweeps, d->right, first, last, d->data);
}

/* Divides rows of p->order numbers by all factors, in place; shared: by all threads. */
static void divide_in_sweeps(const struct kron_solve_plan *p, int64_t rows, void *data, bool shared)
{
    struct division d = {.plan = p, .right = 1, .data = data};

    for (int i = p->op->count - 1; i >= 0; i--) {
        int64_t n = p->op->factor[i].rows;
        d.sweeps = (struct gram_kron_sweeps){
            .n = n,
            .matrix = p->scratch + p->factor[i],
            .reciprocal = p->scratch + p->reciprocal[i],
            .from = (const int32_t *)(const void *)(p->scratch + p->from[i]),
            .unit = p->op->method == GRAM_KRON_LU,
        };
        d.systems = rows * (p->order / n);
        d.share = shared ? gram_most(1, SHARE / n) : d.systems;
        if (shared)
            gram_parallel_for(p->g, gram_ceil_div(d.systems, d.share), divide_share, &d);
        else
            divide_share(&d, 0, 0);
        d.right *= n;
    }
}

enum {
    CHAIN_BYTES = 1 << 20, /* of rows on their way: what a core's second-level cache holds */
    LEAST_PIECES = 8,      /* of rows; with fewer BLAS's own threads work on each */
};

/* ---- Sizes --------------------------------------------------------------------------------- */

static gram_status fail_large(gram_context *g)
{
    return gram_fail(g, GRAM_UNSUPPORTED, "the factors or b are larger than BLAS can count");
}

static gram_status lay_out(gram_context *g, const struct gram_kron_solve_op *op,
                           struct kron_solve_plan *p)
{
    size_t size = gram_dtype_size(op->b.dtype);

    *p = (struct kron_solve_plan){.g = g, .op = op, .dtype = op->b.dtype, .order = op->b.cols};
    p->rows = gram_most(1, gram_least(op->b.rows, CHAIN_BYTES / 2 / (int64_t)size / p->order));
    if (g->threads >= LEAST_PIECES && op->b.rows >= g->threads) /* a piece for each */
        p->rows = gram_least(p->rows, gram_ceil_div(op->b.rows, g->threads));
    p->pieces = gram_ceil_div(op->b.rows, p->rows);
    p->parallel = p->pieces >= LEAST_PIECES;
    for (int i = 0; i < op->count; i++) {
        int64_t n = op->factor[i].rows, lwork, liwork;
        if (n > 30000 || !gram_blas_fits(n, p->order / n * p->rows, 0))
            return fail_large(g);
        p->factor[i] = p->bytes;
        p->bytes += gram_round64((size_t)(n * n) * size);
        p->values[i] = p->bytes;
        p->bytes += gram_round64((size_t)n * gram_most_bytes(size, sizeof(int32_t)));
        lay_out_sweeps(p, i);
        gram_blas_syevd_sizes(n, &lwork, &liwork);
        p->lwork = gram_most(p->lwork, lwork);
        p->liwork = gram_most(p->liwork, liwork);
    }
    p->work = p->iwork = p->bytes;
    if (op->method == GRAM_KRON_EIGEN) {
        p->iwork += gram_round64((size_t)p->lwork * size);
        p->bytes = p->iwork + gram_round64((size_t)p->liwork * sizeof(int32_t));
    }
    p->buffers = p->bytes;
    p->buffer_bytes = gram_round64((size_t)(p->rows * p->order) * size);
    p->bytes += (p->parallel ? (size_t)g->threads : 1) * 2 * p->buffer_bytes;
    return GRAM_OK;
}

/* ---- Factors ------------------------------------------------------------------------------- */

/* The whole matrix by columns, or both triangles of the one that is read; false: not finite. */
static bool load_factor(const struct kron_solve_plan *p, int i, const char *from)
{
    const struct gram_view *f = &p->op->factor[i];
    bool symmetric = p->op->method != GRAM_KRON_LU, lower = p->op->uplo == GRAM_LOWER;
    bool finite = true;

    for (int64_t c = 0; c < f->cols; c++)
        for (int64_t r = 0; r < f->rows; r++) {
            bool swap = symmetric && (lower ? r < c : r > c);
            int64_t at = (swap ? c : r) * f->row_stride + (swap ? r : c) * f->col_stride;
            int64_t to = c * f->rows + r;
            if (p->dtype == GRAM_F32) {
                float v = ((const float *)(const void *)from)[at];
                ((float *)(void *)(p->scratch + p->factor[i]))[to] = v;
                finite &= isfinite(v) != 0;
            } else {
                double v = ((const double *)(const void *)from)[at];
                ((double *)(void *)(p->scratch + p->factor[i]))[to] = v;
                finite &= isfinite(v) != 0;
            }
        }
    return finite;
}

/* 0, or not: the factor cannot be divided by.  LAPACKs differ in what they make of NaN. */
static int factorise(const struct kron_solve_plan *p, int i)
{
    const struct gram_solve_kernels *kernels = gram_cpu_kernels_of(p->g)->solve[p->dtype];
    char *a = p->scratch + p->factor[i], *values = p->scratch + p->values[i];
    int64_t n = p->op->factor[i].rows;
    int info = 0;

    if (p->op->method == GRAM_KRON_EIGEN)
        return gram_blas_syevd(p->dtype, GRAM_LOWER, n, a, n, values, p->scratch + p->work,
                               p->lwork, (int32_t *)(void *)(p->scratch + p->iwork), p->liwork);
    if (p->op->method == GRAM_KRON_CHOLESKY)
        info = gram_blas_potrf(p->dtype, GRAM_LOWER, n, a, n);
    else
        info = gram_blas_getrf(p->dtype, n, a, n, (int32_t *)(void *)values);
    return info || kernels->bad_diagonal(n, a, n, p->op->method == GRAM_KRON_CHOLESKY);
}

/* Factorises what the item has new; the first factor that fails, counted from 1, or 0. */
static int prepare_item(struct kron_solve_plan *p)
{
    int failed = 0;

    gram_blas_threads(p->g);
    p->sweeps = true;
    for (int i = 0; i < p->op->count; i++) {
        const char *from = gram_view_item(&p->op->factor[i], &p->op->batch, p->item);
        int64_t start = gram_trace_begin(p->g);
        if (p->made_of[i] != from) {
            p->info[i] = load_factor(p, i, from) ? factorise(p, i) : 1;
            p->can_sweep[i] = !p->info[i] && prepare_sweeps(p, i);
            gram_trace_end(p->g, "kron factorise", 0, start);
        }
        p->made_of[i] = from;
        p->sweeps &= p->can_sweep[i];
        if (p->info[i] && !failed)
            failed = i + 1;
    }
    return failed;
}

/* ---- Rows ---------------------------------------------------------------------------------- */

/* Solves F^T z = b for each of s rows of n, then makes the n dimension the first one. */
static void divide(const struct kron_solve_plan *p, int i, int64_t s, char *from, char *to)
{
    int64_t n = p->op->factor[i].rows;
    const char *a = p->scratch + p->factor[i];
    struct cpu_move transpose = {
        .from = from, .to_stride = {1, s},
             .from_stride = {n, 1},
             .rows = s, .cols = n
    };

    if (p->op->method == GRAM_KRON_CHOLESKY)
        gram_blas_potrs(p->dtype, GRAM_LOWER, n, s, a, n, from, n);
    else
        gram_blas_getrs(p->dtype, true, n, s, a, n,
                        (const int32_t *)(const void *)(p->scratch + p->values[i]), from, n);
    transpose.to = to;
    cpu_move(p->dtype, &transpose);
}

/* With V: s rows of n become n rows of s, coefficients of the eigenvectors; and back. */
static void to_eigenvectors(const struct kron_solve_plan *p, int i, int64_t s, const char *from,
                            char *to)
{
    int64_t n = p->op->factor[i].rows;

    gram_blas_gemm(p->dtype, (int64_t[]){s, n, n}, 1, (struct gram_blas_matrix){from, n, true},
                   (struct gram_blas_matrix){p->scratch + p->factor[i], n, false}, 0, to, s);
}

static void from_eigenvectors(const struct kron_solve_plan *p, int i, int64_t s, const char *from,
                              char *to)
{
    int64_t n = p->op->factor[i].rows;

    gram_blas_gemm(p->dtype, (int64_t[]){n, s, n}, 1,
                   (struct gram_blas_matrix){p->scratch + p->factor[i], n, false},
                   (struct gram_blas_matrix){from, s, true}, 0, to, n);
}

/* The eigenvalue of the product, plus the shift, that belongs to an index. */
static double eigenvalue(const struct kron_solve_plan *p, int64_t index)
{
    double value = 1;

    for (int i = p->op->count - 1; i >= 0; i--) {
        int64_t n = p->op->factor[i].rows, at = index % n;
        const void *w = p->scratch + p->values[i];
        value *= p->dtype == GRAM_F32 ? (double)((const float *)w)[at] : ((const double *)w)[at];
        index /= n;
    }
    return value + gram_hyper_at(&p->op->shift, &p->op->batch, p->item);
}

static void divide_by_eigenvalues(struct kron_solve_plan *p, int64_t rows, char *memory)
{
    for (int64_t k = 0; k < p->order; k++) {
        double w = eigenvalue(p, k);
        if (w == 0)
            atomic_store(&p->singular, true);
        for (int64_t r = k * rows; r < (k + 1) * rows; r++)
            if (p->dtype == GRAM_F32)
                ((float *)(void *)memory)[r] = (float)((double)((float *)(void *)memory)[r] / w);
            else
                ((double *)(void *)memory)[r] /= w;
    }
}

static void exchange(char **a, char **b)
{
    char *kept = *a;

    *a = *b;
    *b = kept;
}

/* Some rows of b, through all factors, to x. */
static void solve_rows(void *arg, int64_t index, int thread)
{
    struct kron_solve_plan *p = arg;
    const struct gram_kron_solve_op *op = p->op;
    int64_t first = index * p->rows, rows = gram_least(p->rows, op->b.rows - first);
    int64_t size = (int64_t)gram_dtype_size(p->dtype), start = gram_trace_begin(p->g);
    bool eigen = op->method == GRAM_KRON_EIGEN, by_rows = eigen || p->sweeps;
    char *at = p->scratch + p->buffers + (p->parallel ? (size_t)thread : 0) * 2 * p->buffer_bytes;
    char *other = at + p->buffer_bytes;
    struct cpu_move in = {
        .to = at,
        .from = gram_view_item(&op->b, &op->batch, p->item) + first * op->b.row_stride * size,
        .to_stride = {        p->order,                1},
        .from_stride = {op->b.row_stride, op->b.col_stride},
        .rows = rows,
        .cols = p->order,
    };
    struct cpu_move out = {
        .to = gram_view_item(&op->x, &op->batch, p->item) + first * op->x.row_stride * size,
        .to_stride = {      op->x.row_stride,   op->x.col_stride},
        .from_stride = {by_rows ? p->order : 1, by_rows ? 1 : rows},
        .rows = rows,
        .cols = p->order,
    };

    cpu_move(p->dtype, &in);
    if (p->sweeps)
        divide_in_sweeps(p, rows, at, !p->parallel);
    for (int i = op->count - 1; !p->sweeps && i >= 0; i--) {
        int64_t s = rows * (p->order / op->factor[i].rows);
        if (eigen)
            to_eigenvectors(p, i, s, at, other);
        else
            divide(p, i, s, at, other);
        exchange(&at, &other);
    }
    if (eigen)
        divide_by_eigenvalues(p, rows, at);
    for (int i = 0; eigen && i < op->count; i++) {
        from_eigenvectors(p, i, rows * (p->order / op->factor[i].rows), at, other);
        exchange(&at, &other);
    }
    out.from = at;
    cpu_move(p->dtype, &out);
    gram_trace_end(p->g, "kron solve", thread, start);
}

static int solve_item(struct kron_solve_plan *p)
{
    int failed = prepare_item(p);

    if (!failed) {
        atomic_store(&p->singular, false);
        if (p->parallel) {
            gram_blas_for(p->g, p->pieces, solve_rows, p);
        } else {
            for (int64_t i = 0; i < p->pieces; i++)
                solve_rows(p, i, 0);
        }
        failed = atomic_load(&p->singular) ? p->op->count + 1 : 0;
    }
    if (failed)
        cpu_fill_nan(&p->op->x, gram_view_item(&p->op->x, &p->op->batch, p->item));
    if (p->op->has_info)
        *(int32_t *)(void *)gram_view_item(&p->op->info, &p->op->batch, p->item) = failed;
    return failed;
}

/* ---- The call ------------------------------------------------------------------------------ */

static gram_status fail_numerical(gram_context *g, const struct gram_kron_solve_op *op, int failed,
                                  int64_t item)
{
    static const char *const what[] = {"is singular", "is not positive definite",
                                       "is not finite, or its eigenvalues did not converge"};

    if (failed > op->count)
        return gram_fail(g, GRAM_NUMERICAL,
                         "in item %lld, an eigenvalue of the product plus options.shift is 0",
                         (long long)item);
    return gram_fail(g, GRAM_NUMERICAL, "factors[%d] of item %lld %s", failed - 1, (long long)item,
                     what[op->method]);
}

/* Without unknowns no factor is looked at. */
static void clear_info(const struct gram_kron_solve_op *op)
{
    for (int64_t item = 0; op->has_info && item < op->batch.count; item++)
        *(int32_t *)(void *)gram_view_item(&op->info, &op->batch, item) = 0;
}

gram_status cpu_kron_solve(gram_context *g, const struct gram_kron_solve_op *op)
{
    struct gram_layout layout = {0};
    struct kron_solve_plan p;
    gram_status status = GRAM_OK;

    if (op->batch.count == 0 || op->b.rows == 0 || op->b.cols == 0) {
        TRY(gram_layout_open(g, &layout));
        clear_info(op);
        return GRAM_OK;
    }
    TRY(lay_out(g, op, &p));
    gram_take(&layout, &p.scratch, p.bytes);
    TRY(gram_layout_open(g, &layout));
    for (p.item = 0; p.item < op->batch.count; p.item++) {
        int failed = solve_item(&p);
        if (failed && !op->has_info && status == GRAM_OK)
            status = fail_numerical(g, op, failed, p.item);
    }
    return status;
}

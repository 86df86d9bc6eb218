/*
 * cpu_eigh_large.c - eigenproblems for LAPACK: all pairs by divide and conquer, or a range of them
 *
 * LAPACK destroys the matrix that it is given.  Where all vectors are wanted and their tensor has a
 * unit stride, divide and conquer works there and needs no copy; otherwise the triangle is copied
 * to scratch.  Many matrices of moderate order run one per thread, since LAPACK's own threads gain
 * nothing there.
 *
 * A range of pairs comes from bisection and inverse iteration on the tridiagonal form, and only the
 * vectors that are wanted are transformed back: half of the time of all pairs, with O(n) numbers
 * beside the copy of the matrix and the vectors.  LAPACK's stein leaves vectors of a large cluster
 * that are not orthogonal: 0.006 in f32 for 64 equal values of 65.  So they are made orthogonal by
 * the Cholesky factor of Z^T Z = L L^T: Z L^-T.  Two vectors overlap only as far as their values
 * are equal to rounding, so residuals stay small.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "cpu/cpu.h"
#include "cpu/move.h"
#include "cpu_eigh.h"
#include "linalg/solve_batch.h"
#include <math.h>
#include <string.h>

enum {
    MOST_ROWS = 32766, /* syevd counts 2 n^2 words of workspace in 32 bits */
    BATCH_ROWS = 512,  /* largest n that is left to one thread where there are enough items */
};

/* A thread's share of the scratch: the matrix, values, the tridiagonal form (diagonals and the
 * factors of reflections), LAPACK's workspace, vectors of a range and their Gram matrix. */
struct large_share {
    bool direct; /* LAPACK works in the memory of vectors */
    char *matrix, *w, *d, *z, *gram;
    void *work;
    int32_t *integers;
    int64_t lwork, liwork;
};

/* An item as LAPACK works on it. */
struct large_item {
    int64_t index, ld;
    void *a;
    gram_uplo uplo;
    bool row_major; /* the vectors that come out are to be transposed */
    int exponent;   /* a was multiplied by 2^-exponent */
    struct large_share s;
};

/* ---- Scratch --------------------------------------------------------------------------------- */

/* LAPACK counts n in 32 bits: its square does not overflow. */
static void lay_out(const struct eigh_plan *plan, struct gram_layout *l, struct large_share *s)
{
    const struct gram_eigh_op *op = plan->op;
    const int64_t n = op->a.rows, k = op->values.cols;
    const size_t size = gram_dtype_size(op->a.dtype);
    const bool divides = plan->driver == GRAM_EIGH_DRIVER_DIVIDE;
    const bool syevd = divides && op->has_vectors, range = !divides && op->has_vectors;

    s->direct = syevd && !op->by_value && k == n && gram_solve_layout(&op->vectors).direct;
    s->lwork = gram_blas_eigh_work(n);
    s->liwork = divides ? 0 : 7 * n;
    if (syevd)
        gram_blas_syevd_sizes(n, &s->lwork, &s->liwork);
    gram_take_many(l, &s->matrix, s->direct ? 0 : (size_t)(n * n), size);
    gram_take_many(l, &s->w, (size_t)n, size);
    gram_take_many(l, &s->d, syevd ? 0 : 3 * (size_t)n, size);
    gram_take_many(l, &s->work, (size_t)s->lwork, size);
    gram_take_many(l, &s->integers, (size_t)s->liwork, sizeof(int32_t));
    gram_take_many(l, &s->z, range ? (size_t)(n * k) : 0, size);
    gram_take_many(l, &s->gram, range ? (size_t)(k * k) : 0, size);
}

/* Items that are worked on at the same time, each by one thread. */
static int at_once(const gram_context *g, const struct eigh_plan *plan)
{
    int64_t n = plan->op->a.rows, count = plan->op->batch.count;

    return n <= BATCH_ROWS && count >= g->threads &&
                   gram_worth_waking(2 * (double)(n * n * n * count))
               ? g->threads
               : 1;
}

/* ---- All pairs, by divide and conquer -------------------------------------------------------- */

/* LAPACK is column-major: vectors that were made where they belong, but are stored by rows there,
 * are transposed in place.  Values alone come from the tridiagonal form by the root-free QL
 * method. */
static enum eigh_outcome divide(const struct eigh_plan *plan, const struct large_item *m)
{
    const struct gram_eigh_op *op = plan->op;
    int64_t n = op->a.rows, size = (int64_t)gram_dtype_size(op->a.dtype);
    char *w = m->s.w, *e = m->s.d;
    void *work = m->s.work;
    struct eigh_pairs pairs = {
        .w = w,
        .v = op->has_vectors && !m->s.direct ? m->a : NULL,
        .stride = {1, m->ld},
    };
    int info;

    if (op->has_vectors) {
        info = gram_blas_syevd(op->a.dtype, m->uplo, n, m->a, m->ld, w, work, m->s.lwork,
                               m->s.integers, m->s.liwork);
    } else {
        gram_blas_sytrd(op->a.dtype, m->uplo, n, m->a, m->ld, w, e, e + n * size, work);
        info = gram_blas_sterf(op->a.dtype, n, w, e);
    }
    if (info)
        return EIGH_NOT_CONVERGED;
    if (m->row_major)
        plan->kernels->transpose(n, m->a, m->ld);
    plan->kernels->raise(n, w, 1, m->exponent);
    cpu_eigh_choose(plan, n, &pairs);
    cpu_eigh_store(plan, m->index, &pairs);
    return EIGH_DONE;
}

/* ---- A range of pairs, by bisection and inverse iteration ------------------------------------ */

/* A limit for scaled values of the dtype: w <= limit says the same before and after.  No value of a
 * scaled matrix is beyond 2 n. */
static double scaled_limit(gram_dtype dtype, double limit, const struct large_item *m)
{
    double scaled = ldexp(limit, -m->exponent), most = 4 * (double)m->ld;

    if (dtype == GRAM_F32 && (double)(float)scaled > scaled)
        scaled = (double)nextafterf((float)scaled, -INFINITY);
    return fmin(fmax(scaled, -most), most);
}

/* Of the values that were found, the smallest: LAPACK's order, by blocks, stays. */
static void keep_smallest(const struct eigh_plan *plan, struct gram_blas_tridiagonal *t,
                          int32_t *order, int64_t keep)
{
    size_t size = gram_dtype_size(t->dtype);
    char *w = t->w;
    int64_t kept = 0;

    plan->kernels->sort(t->m, t->w, order);
    for (int64_t i = keep; i < t->m; i++)
        t->block[order[i]] = 0; /* blocks count from 1 */
    for (int64_t i = 0; i < t->m; i++) {
        if (t->block[i] == 0)
            continue;
        memmove(w + (size_t)kept * size, w + (size_t)i * size, size);
        t->block[kept++] = t->block[i];
    }
    t->m = kept;
}

/* z = z L^-T; false if z is not of full rank. */
static bool make_orthogonal(const struct gram_blas_tridiagonal *t, void *z, int64_t ldz, void *gram)
{
    struct gram_blas_matrix all = {.data = z, .ld = ldz, .transposed = true};

    if (t->m == 0)
        return true;
    gram_blas_syrk(t->dtype, GRAM_LOWER, t->m, t->n, 1, all, 0, gram, t->m);
    if (gram_blas_potrf(t->dtype, GRAM_LOWER, t->m, gram, t->m))
        return false;
    gram_blas_trsm(t->dtype, t->n, t->m, gram, t->m, z, ldz);
    return true;
}

/* The values of the range and, in z, their vectors; found: how many lie there. */
static enum eigh_outcome find_range(const struct eigh_plan *plan, const struct large_item *m,
                                    struct gram_blas_tridiagonal *t, void *z, void *gram,
                                    int64_t *found)
{
    int32_t *order = t->iwork + 3 * t->n, *fail = order + t->n;

    if (gram_blas_stebz(t))
        return EIGH_NOT_CONVERGED;
    *found = t->m;
    if (t->m > plan->op->values.cols)
        keep_smallest(plan, t, order, plan->op->values.cols);
    if (z && (gram_blas_stein(t, z, m->ld, fail) || !make_orthogonal(t, z, m->ld, gram)))
        return EIGH_NOT_CONVERGED;
    return EIGH_DONE;
}

/* Ascending order, which LAPACK's is only within a block. */
static void store_range(const struct eigh_plan *plan, const struct large_item *m,
                        const struct gram_blas_tridiagonal *t, void *z, int64_t found)
{
    int32_t *order = t->iwork + 3 * t->n;
    const struct cpu_move values = {
        .to = t->work,
        .from = t->w,
        .to_stride = {0, 1},
        .from_stride = {0, 1},
        .rows = 1,
        .cols = t->m,
        .order = order,
    };
    struct eigh_pairs pairs = {
        .w = t->work,
        .v = z,
        .stride = {1, m->ld},
        .order = order,
        .stored = t->m,
        .found = found,
    };

    plan->kernels->sort(t->m, t->w, order);
    cpu_move(t->dtype, &values);
    plan->kernels->raise(t->m, t->work, 1, m->exponent);
    cpu_eigh_store(plan, m->index, &pairs);
}

static enum eigh_outcome bisect(const struct eigh_plan *plan, const struct large_item *m)
{
    const struct gram_eigh_op *op = plan->op;
    int64_t n = op->a.rows, size = (int64_t)gram_dtype_size(op->a.dtype), found = 0;
    char *d = m->s.d, *tau = d + 2 * n * size;
    void *z = op->has_vectors ? m->s.z : NULL;
    int32_t *integers = m->s.integers;
    struct gram_blas_tridiagonal t = {
        .dtype = op->a.dtype,
        .n = n,
        .d = d,
        .e = d + n * size,
        .by_value = op->by_value,
        .first = op->first + 1,
        .last = op->first + op->count,
        .w = m->s.w,
        .block = integers,
        .split = integers + n,
        .work = m->s.work,
        .iwork = integers + 2 * n,
    };

    if (op->by_value) {
        t.lower = scaled_limit(op->a.dtype, op->lower, m);
        t.upper = scaled_limit(op->a.dtype, op->upper, m);
    }
    if (op->values.cols > 0 || op->by_value) {
        gram_blas_sytrd(op->a.dtype, m->uplo, n, m->a, m->ld, d, d + n * size, tau, t.work);
        if (find_range(plan, m, &t, z, m->s.gram, &found))
            return EIGH_NOT_CONVERGED;
        if (z)
            gram_blas_ormtr(op->a.dtype, m->uplo, n, t.m, m->a, m->ld, tau, z, n, t.work);
    }
    store_range(plan, m, &t, z, found);
    return EIGH_DONE;
}

/* ---- Items ----------------------------------------------------------------------------------- */

/* Brings the triangle to where LAPACK works, scaled; false if it is not finite. */
static bool load_item(const struct eigh_plan *plan, struct large_item *m)
{
    const struct gram_eigh_op *op = plan->op;
    bool lower = op->uplo == GRAM_LOWER;
    char *from = cpu_eigh_item(plan, &op->a, m->index);
    struct cpu_move c = {
        .from = from,
        .from_stride = {lower ? op->a.row_stride : op->a.col_stride,
                        lower ? op->a.col_stride : op->a.row_stride},
        .rows = op->a.rows,
        .cols = op->a.rows,
        .part = CPU_MOVE_LOWER,
    };

    m->a = m->s.matrix;
    m->ld = op->a.rows;
    m->uplo = GRAM_LOWER;
    if (m->s.direct) {
        struct gram_solve_layout layout = gram_solve_layout(&op->vectors);
        m->a = cpu_eigh_item(plan, &op->vectors, m->index);
        m->ld = layout.ld;
        m->row_major = layout.row_major;
    }
    if (m->a == (void *)from) {
        m->uplo = lower != m->row_major ? GRAM_LOWER : GRAM_UPPER;
    } else {
        c.to = m->a;
        c.to_stride[0] = 1;
        c.to_stride[1] = m->ld;
        cpu_move(op->a.dtype, &c);
    }
    return plan->kernels->scale(op->a.rows, m->a, m->ld, m->uplo, &m->exponent);
}

struct large_loop {
    const gram_context *g;
    struct eigh_plan *plan;
    char *scratch; /* share_bytes for each thread */
    size_t share_bytes;
};

static void solve_item(void *arg, int64_t index, int thread)
{
    const struct large_loop *loop = arg;
    struct eigh_plan *plan = loop->plan;
    struct large_item m = {.index = index};
    struct gram_layout layout = {0};
    int64_t start = gram_trace_begin(loop->g);
    enum eigh_outcome done = EIGH_NOT_FINITE;
    bool divides = plan->driver == GRAM_EIGH_DRIVER_DIVIDE;

    lay_out(plan, &layout, &m.s);
    gram_layout_place(&layout, loop->scratch + (size_t)thread * loop->share_bytes);
    if (load_item(plan, &m))
        done = (divides ? divide : bisect)(plan, &m);
    if (done != EIGH_DONE)
        cpu_eigh_fail(plan, index, done);
    gram_trace_end(loop->g, divides ? "syevd" : "syevx", thread, start);
}

static gram_status run(gram_context *g, struct eigh_plan *plan)
{
    struct large_loop loop = {.g = g, .plan = plan};
    struct gram_layout layout = {0}, share = {0};
    struct large_share one;
    const int threads = at_once(g, plan);

    lay_out(plan, &share, &one);
    loop.share_bytes = gram_layout_bytes(&share);
    gram_take_many(&layout, &loop.scratch, (size_t)threads, loop.share_bytes);
    TRY(gram_layout_open(g, &layout));
    cpu_blas_for(g, threads > 1, plan->op->batch.count, solve_item, &loop);
    return GRAM_OK;
}

static bool takes_divide(const struct gram_eigh_op *op)
{
    return op->a.rows <= MOST_ROWS;
}

static bool takes_bisection(const struct gram_eigh_op *op)
{
    (void)op;
    return true;
}

const struct eigh_driver cpu_eigh_divide = {"divide and conquer", takes_divide, run};
const struct eigh_driver cpu_eigh_bisection = {"bisection", takes_bisection, run};

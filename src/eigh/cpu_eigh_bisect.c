/*
 * cpu_eigh_bisect.c - a range of eigenpairs of one matrix: bisection and inverse iteration
 *
 * Both work on the tridiagonal form, and only the vectors that are wanted are transformed back:
 * half of the time of all pairs, with O(n) numbers beside the copy of the matrix and the vectors.
 *
 * LAPACK's stein leaves vectors of a large cluster that are not orthogonal: 0.006 in f32 for 64
 * equal values of 65.  So they are made orthogonal by the Cholesky factor of Z^T Z = L L^T: Z L^-T.
 * Two vectors overlap only as far as their values are equal to rounding, so residuals stay small.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "cpu/move.h"
#include "cpu_eigh_large.h"
#include <math.h>
#include <string.h>

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
static void store(const struct eigh_plan *plan, const struct large_item *m,
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

enum eigh_outcome cpu_eigh_bisect_item(const struct eigh_plan *plan, const struct large_layout *at,
                                       const struct large_item *m)
{
    const struct gram_eigh_op *op = plan->op;
    int64_t n = op->a.rows, size = (int64_t)gram_dtype_size(op->a.dtype), found = 0;
    char *d = m->s + at->d_at, *tau = d + 2 * n * size;
    void *z = op->has_vectors ? m->s + at->z_at : NULL;
    int32_t *integers = (int32_t *)(void *)(m->s + at->integers_at);
    struct gram_blas_tridiagonal t = {
        .dtype = op->a.dtype,
        .n = n,
        .d = d,
        .e = d + n * size,
        .by_value = op->by_value,
        .first = op->first + 1,
        .last = op->first + op->count,
        .w = m->s + at->w_at,
        .block = integers,
        .split = integers + n,
        .work = m->s + at->work_at,
        .iwork = integers + 2 * n,
    };

    if (op->by_value) {
        t.lower = scaled_limit(op->a.dtype, op->lower, m);
        t.upper = scaled_limit(op->a.dtype, op->upper, m);
    }
    if (op->values.cols > 0 || op->by_value) {
        gram_blas_sytrd(op->a.dtype, m->uplo, n, m->a, m->ld, d, d + n * size, tau, t.work);
        if (find_range(plan, m, &t, z, m->s + at->gram_at, &found))
            return EIGH_NOT_CONVERGED;
        if (z)
            gram_blas_ormtr(op->a.dtype, m->uplo, n, t.m, m->a, m->ld, tau, z, n, t.work);
    }
    store(plan, m, &t, z, found);
    return EIGH_DONE;
}

/*
 * cpu_eigh_divide.c - all eigenpairs of one matrix by LAPACK's divide and conquer
 *
 * LAPACK is column-major: vectors that were made where they belong, but are stored by rows there,
 * are transposed in place.  Values alone come from the tridiagonal form by the root-free QL method.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "cpu_eigh_large.h"

enum eigh_outcome cpu_eigh_divide_item(const struct eigh_plan *plan, const struct large_layout *at,
                                       const struct large_item *m)
{
    const struct gram_eigh_op *op = plan->op;
    int64_t n = op->a.rows, size = (int64_t)gram_dtype_size(op->a.dtype);
    char *w = m->s + at->w_at, *e = m->s + at->d_at;
    void *work = m->s + at->work_at;
    struct eigh_pairs pairs = {
        .w = w,
        .v = op->has_vectors && !at->direct ? m->a : NULL,
        .stride = {1, m->ld},
    };
    int info;

    if (op->has_vectors) {
        info = gram_blas_syevd(op->a.dtype, m->uplo, n, m->a, m->ld, w, work, at->lwork,
                               (int32_t *)(void *)(m->s + at->integers_at), at->liwork);
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

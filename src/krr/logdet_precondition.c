/*
 * logdet_precondition.c - a preconditioner whose determinant is known, and probes of its covariance
 *
 * What the passes apply is, with F of pivoted_cholesky.c, G = F^T F and a number `keep` just below
 * 1 (krr_passes.h),
 *
 *   P^-1 = (I - keep F (G + lambda I)^-1 F^T) / lambda,
 *   P = lambda (I + F B^-1 F^T),   B = (G + lambda I) / keep - G.
 *
 * With B = L L^T, S = sqrt(lambda) [I, F L^-T] has S S^T = P, and
 *
 *   log det P = n log lambda + log det((G + lambda I) / keep) - log det B.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "core/blas.h"
#include "logdet.h"
#include <math.h>
#include <string.h>

/* ---- The diagonal, by which pivots are drawn ------------------------------------------------- */

/* k(x_i, x_i) by kernel matrices of one point each; one is enough where it is the same for all.
 * fetched has room for as many numbers of the dtype. */
static gram_status load_diagonal(gram_context *g, const struct krr_system *s, void *fetched,
                                 double *diagonal)
{
    const bool same = s->kernel->inner == GRAM_DIFFERENCE && s->kernel->function != GRAM_EXPRESSION;
    const int64_t n = s->x.shape[0], count = same ? 1 : n, width = s->x.shape[1];
    const size_t bytes = (size_t)count * gram_dtype_size(s->x.dtype);
    gram_tensor x = gram_krr_matrix(g, s->x.data, count, width, s->x.dtype), out;
    struct krr_array there = {0};
    gram_status status;

    TRY(gram_krr_allocate(g, bytes, &there));
    x.ndim = 3;
    x.shape[1] = 1, x.shape[2] = width;
    x.stride[1] = width, x.stride[2] = 1;
    out = gram_krr_matrix(g, there.data, count, 1, s->x.dtype);
    out.ndim = 3;
    out.shape[2] = 1, out.stride[2] = 1;
    status = gram_kernel(g, &x, NULL, s->kernel, &out);
    if (status == GRAM_OK)
        status = gram_krr_fetch(g, fetched, there.data, bytes);
    gram_krr_free(g, &there);
    for (int64_t i = 0; i < n && status == GRAM_OK; i++)
        diagonal[i] = krr_element(s->x.dtype, fetched, same ? 0 : i);
    return status;
}

/* ---- The preconditioner ---------------------------------------------------------------------- */

/* lambda of at least so much of the diagonal is not lost in the rounding of the dtype. */
static double least_lambda(const struct krr_system *s)
{
    return (s->x.dtype == GRAM_F64 ? 1e-13 : 1e-6) * gram_krr_mean(s->diagonal, s->x.shape[0]);
}

static gram_status make(gram_context *g, struct krr_system *s, double ridge, struct logdet_base *b)
{
    const int64_t n = s->x.shape[0];
    const size_t bytes = 2 * (size_t)n * sizeof(double);
    double *diagonal = gram_alloc(g, bytes);
    gram_status status;

    if (!diagonal)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    status = load_diagonal(g, s, diagonal + n, diagonal);
    s->diagonal = diagonal;
    if (status == GRAM_OK)
        status = gram_krr_precondition(g, s, fmax(ridge, least_lambda(s)), &b->p);
    gram_free(g, diagonal, bytes);
    return status;
}

/* On a GPU products are quick, and the factorisation of the inner matrix, which the CPU makes, is
 * not: fewer columns than a solve has. */
static int64_t gpu_rank(int64_t n)
{
    return gram_least((int64_t)ceil(2 * sqrt((double)n)), n / 2);
}

/* The points without gaps, of the kernel without its regularization. */
static gram_status factorise(gram_context *g, const struct krr_kernel *k,
                             const gram_kernel_options *kernel, const gram_logdet_options *o,
                             struct logdet_base *b)
{
    struct krr_system s = {
        .columns = LOGDET_GROUP, .seed = o->seed, .rank = o->rank, .kernel = kernel};
    gram_kernel_options plain = *kernel;
    const double ridge = kernel->regularization.tensor ? 0 : kernel->regularization.value;
    struct gram_view v;
    struct krr_array points = {0};
    gram_status status;

    plain.regularization = gram_number(0);
    s.kernel = &plain;
    if (o->rank == 0 && gram_context_device(g).type != GRAM_CPU)
        s.rank = gpu_rank(k->x->shape[0]);
    TRY(gram_krr_view(g, "x", k->x, GRAM_READ, &v));
    TRY(gram_krr_allocate(g, (size_t)(v.rows * v.cols) * gram_dtype_size(v.dtype), &points));
    s.x = gram_krr_matrix(g, points.data, v.rows, v.cols, v.dtype);
    status = gram_krr_pack(g, &v, false, points.data);
    if (status == GRAM_OK)
        status = make(g, &s, ridge, b);
    gram_krr_free(g, &points);
    g->call = k->call;
    return status;
}

/* ---- Its determinant and its root ------------------------------------------------------------ */

static double logdet_of_factor(int64_t rank, const double *factor)
{
    double sum = 0;

    for (int64_t i = 0; i < rank; i++)
        sum += 2 * log(factor[i * (rank + 1)]);
    return sum;
}

/* c = G + lambda I, and its log-determinant, from the factor of it that a CPU keeps. */
static double from_factor(int64_t rank, double *factor, double *c)
{
    for (int64_t j = 1; j < rank; j++)
        memset(factor + j * rank, 0, (size_t)j * sizeof *factor);
    gram_blas_gemm(GRAM_F64, (int64_t[3]){rank, rank, rank}, 1,
                   (struct gram_blas_matrix){factor, rank, false},
                   (struct gram_blas_matrix){factor, rank, true}, 0, c, rank);
    return logdet_of_factor(rank, factor);
}

/* The same from the inverse, which a device keeps; NaN where rounding made that indefinite. */
static double from_inverse(int64_t rank, double *inverse, double *c)
{
    memset(c, 0, (size_t)(rank * rank) * sizeof *c);
    for (int64_t i = 0; i < rank; i++)
        c[i * (rank + 1)] = 1;
    if (gram_blas_potrf(GRAM_F64, GRAM_LOWER, rank, inverse, rank) != 0)
        return NAN;
    gram_blas_potrs(GRAM_F64, GRAM_LOWER, rank, rank, inverse, rank, c, rank);
    return -logdet_of_factor(rank, inverse);
}

/* L in b->root, and log det P, which is NaN where there is no L. */
static gram_status find_root(gram_context *g, struct logdet_base *b, double *inner)
{
    const int64_t rank = b->p.rank;
    const double lambda = b->p.lambda;

    TRY(gram_krr_fetch(g, inner, b->p.inner.data, (size_t)(rank * rank) * sizeof *inner));
    gram_blas_one_thread(); /* the bits do not depend on how many there are */
    b->logdet = (double)b->p.n * log(lambda) - (double)rank * log(KRR_KEEP) +
                (g->backend->krr->factorise ? from_factor : from_inverse)(rank, inner, b->root);
    for (int64_t i = 0; i < rank * rank; i++)
        b->root[i] *= (1 - KRR_KEEP) / KRR_KEEP;
    for (int64_t i = 0; i < rank; i++)
        b->root[i * (rank + 1)] += lambda;
    if (isnan(b->logdet) || gram_blas_potrf(GRAM_F64, GRAM_LOWER, rank, b->root, rank) != 0)
        b->logdet = NAN;
    else
        b->logdet -= logdet_of_factor(rank, b->root);
    return GRAM_OK;
}

static gram_status prepare(gram_context *g, struct logdet_base *b)
{
    const int64_t rank = b->p.rank;
    const size_t square = (size_t)(rank * rank) * sizeof(double);
    double *inner;
    gram_status status;

    b->bytes = square + 2 * (size_t)(rank * LOGDET_GROUP) * sizeof(double);
    b->root = gram_alloc(g, b->bytes);
    if (!b->root)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", b->bytes);
    b->signs = b->root + rank * rank;
    TRY(gram_krr_allocate(g, (size_t)(rank * LOGDET_GROUP) * gram_dtype_size(b->p.dtype),
                          &b->right));
    inner = gram_alloc(g, square);
    if (!inner)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", square);
    status = find_root(g, b, inner);
    gram_free(g, inner, square);
    return status;
}

void gram_logdet_base_destroy(gram_context *g, struct logdet_base *b)
{
    gram_krr_preconditioner_destroy(g, &b->p);
    gram_krr_free(g, &b->right);
    gram_free(g, b->root, b->bytes);
    *b = (struct logdet_base){0};
}

gram_status gram_logdet_base_create(gram_context *g, const struct krr_kernel *k,
                                    const gram_logdet_options *options, struct logdet_base *out)
{
    const gram_dtype dtype = k->x->dtype;
    gram_kernel_options kernel = GRAM_KERNEL_OPTIONS_INIT;
    gram_status status;

    *out = (struct logdet_base){0};
    TRY(gram_options_copy(g, &kernel, sizeof kernel, k->kernel));
    if (options->rank < 0 || k->x->shape[0] < 2 || kernel.output != GRAM_VALUE ||
        (dtype != GRAM_F32 && dtype != GRAM_F64))
        return GRAM_OK;
    TRY(factorise(g, k, &kernel, options, out));
    status = out->p.rank > 0 ? prepare(g, out) : GRAM_OK;
    if (status != GRAM_OK || out->p.rank == 0 || !(out->logdet - out->logdet == 0))
        gram_logdet_base_destroy(g, out);
    return status;
}

/* ---- Probes ---------------------------------------------------------------------------------- */

/* L^-T b->signs in their place, and in b->right. */
static gram_status turn_signs(gram_context *g, struct logdet_base *b, int64_t columns)
{
    const int64_t rank = b->p.rank;
    void *narrow = b->signs + rank * LOGDET_GROUP;

    for (int64_t j = 0; j < columns; j++) {
        double *y = b->signs + j * rank;

        for (int64_t i = rank - 1; i >= 0; i--) {
            const double *column = b->root + i * rank;
            double sum = y[i];

            for (int64_t k = i + 1; k < rank; k++)
                sum -= column[k] * y[k];
            y[i] = sum / column[i];
        }
    }
    for (int64_t i = 0; i < rank * columns; i++)
        krr_set_element(b->p.dtype, narrow, i, b->signs[i]);
    return gram_krr_store(g, b->right.data, narrow,
                          (size_t)(rank * columns) * gram_dtype_size(b->p.dtype));
}

gram_status gram_logdet_base_colour(gram_context *g, struct logdet_base *b, int64_t columns,
                                    void *probes)
{
    const struct krr_preconditioner *p = &b->p;
    const double scale = sqrt(p->lambda);
    gram_tensor factor = gram_krr_by_columns(g, p->factor.data, p->n, p->rank, p->dtype);
    gram_tensor right = gram_krr_by_columns(g, b->right.data, p->rank, columns, p->dtype);
    gram_tensor out = gram_krr_by_columns(g, probes, p->n, columns, p->dtype);
    gram_matmul_options options = GRAM_MATMUL_OPTIONS_INIT;

    TRY(turn_signs(g, b, columns));
    options.alpha = options.beta = gram_number(scale);
    options.c = &out;
    return gram_matmul_batched(g, &factor, &right, &options, &out);
}

gram_status gram_logdet_base_apply(gram_context *g, void *user, int64_t columns, const void *v,
                                   void *out)
{
    struct krr_preconditioner p = ((const struct logdet_base *)user)->p;

    p.columns = columns;
    return g->backend->krr->apply(g, &p, v, out);
}

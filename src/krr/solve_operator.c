/*
 * solve_operator.c - gram_solve_operator: a caller's operator under conjugate gradients
 *
 * The iteration keeps its vectors by columns, while an operator takes at most eight of them by
 * rows: products go through two buffers of n by eight.  A single column is the same both ways.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "krr_passes.h"
#include <math.h>
#include <string.h>

enum {
    BLOCK = 8 /* the most columns that an operator is given */
};

/* ---- Products -------------------------------------------------------------------------------- */

gram_status gram_krr_operator_check(gram_context *g, const char *name, const gram_operator *a)
{
    if (!a || !a->apply)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, a ? "%s.apply is NULL" : "%s is NULL", name);
    if (a->n < 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s.n is %lld, expected 0 or more", name,
                         (long long)a->n);
    if (a->dtype != GRAM_F32 && a->dtype != GRAM_F64)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s.dtype is %s, expected f32 or f64", name,
                         gram_dtype_name(a->dtype));
    return GRAM_OK;
}

static size_t buffer_bytes(const gram_operator *a)
{
    return gram_round64((size_t)(a->n * BLOCK) * gram_dtype_size(a->dtype));
}

gram_status gram_krr_operator_open(gram_context *g, const char *name, const gram_operator *a,
                                   struct krr_operator *out)
{
    *out = (struct krr_operator){.given = a, .name = name};
    return gram_krr_allocate(g, 2 * buffer_bytes(a), &out->memory);
}

/* Between `columns` vectors by columns and a buffer of as many by rows. */
static gram_status turn(gram_context *g, const gram_operator *a, int64_t columns, const void *from,
                        bool to_rows, bool wide, void *to)
{
    struct krr_move op = {
        .dtype = a->dtype,
        .rows = a->n,
        .columns = columns,
        .to = to,
        .from = from,
        .to_stride = {      1, a->n},
        .from_stride = {columns,    1},
        .wide = wide
    };

    if (to_rows) {
        op.to_stride[0] = columns, op.to_stride[1] = 1;
        op.from_stride[0] = 1, op.from_stride[1] = a->n;
    }
    return g->backend->krr->move(g, &op);
}

static gram_status apply_block(gram_context *g, const struct krr_operator *o, int64_t columns,
                               const void *v, bool wide, void *out)
{
    const gram_operator *a = o->given;
    char *in_rows = o->memory.data, *out_rows = in_rows + buffer_bytes(a);
    bool alone = columns == 1;
    void *result = alone && !wide ? out : out_rows;
    gram_tensor from = gram_krr_matrix(g, alone ? v : in_rows, a->n, columns, a->dtype);
    gram_tensor to = gram_krr_matrix(g, result, a->n, columns, a->dtype);
    gram_status status;

    if (!alone)
        TRY(turn(g, a, columns, v, true, false, in_rows));
    status = a->apply(a->user, &from, &to);
    if (status != GRAM_OK)
        return gram_fail(g, status, "%s.apply returned %s", o->name, gram_status_name(status));
    return result == out ? GRAM_OK : turn(g, a, columns, out_rows, false, wide, out);
}

static gram_status apply_all(gram_context *g, const struct krr_operator *o, int64_t columns,
                             const void *v, bool wide, void *out)
{
    const gram_operator *a = o->given;
    size_t size = gram_dtype_size(a->dtype), out_size = wide ? sizeof(double) : size;

    for (int64_t j = 0; j < columns; j += BLOCK)
        TRY(apply_block(g, o, gram_least(BLOCK, columns - j),
                        (const char *)v + (size_t)(j * a->n) * size, wide,
                        (char *)out + (size_t)(j * a->n) * out_size));
    return GRAM_OK;
}

gram_status gram_krr_operator_multiply(gram_context *g, void *user, int64_t columns, const void *v,
                                       void *out)
{
    const struct krr_operator *o = user;

    return apply_all(g, o, columns, v, g->backend->krr->wide_product, out);
}

gram_status gram_krr_operator_precondition(gram_context *g, void *user, int64_t columns,
                                           const void *v, void *out)
{
    return apply_all(g, user, columns, v, false, out);
}

/* ---- The call -------------------------------------------------------------------------------- */

/* A call that has been checked. */
struct solve {
    const gram_operator *a, *p;
    struct gram_view b, x; /* n by columns */
    gram_solve_operator_options options;
};

/* Where it computes. */
struct memory {
    struct krr_operator a, p;
    struct krr_array vectors, ridge;
    void *b, *x; /* by columns */
};

static gram_status check_options(gram_context *g, const gram_solve_operator_options *o)
{
    if (!(o->tolerance >= 0 && o->tolerance <= 1))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.tolerance is %g, expected 0 to 1",
                         o->tolerance);
    if (o->iterations < 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.iterations is %lld, expected 0 or more",
                         (long long)o->iterations);
    if (!(o->time_limit >= 0))
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.time_limit is %g, expected 0 or more",
                         o->time_limit);
    return GRAM_OK;
}

static gram_status view(gram_context *g, const struct solve *s, const char *name,
                        const gram_tensor *t, enum gram_access access, struct gram_view *out)
{
    TRY(gram_krr_view(g, name, t, access, out));
    TRY(gram_check_dtype(g, name, t, s->a->dtype));
    if (out->rows != s->a->n)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s has %lld rows, expected a.n, which is %lld",
                         name, (long long)out->rows, (long long)s->a->n);
    return GRAM_OK;
}

static gram_status describe(gram_context *g, const gram_tensor *b, const gram_tensor *x,
                            const gram_solve_operator_options *given, struct solve *s)
{
    int64_t elements;

    s->options = (gram_solve_operator_options)GRAM_SOLVE_OPERATOR_OPTIONS_INIT;
    TRY(gram_options_copy(g, &s->options, sizeof s->options, given));
    TRY(check_options(g, &s->options));
    TRY(gram_krr_operator_check(g, "a", s->a));
    if (s->p) {
        TRY(gram_krr_operator_check(g, "preconditioner", s->p));
        if (s->p->n != s->a->n || s->p->dtype != s->a->dtype)
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "preconditioner is %lld by %lld of %s, expected %lld by %lld of %s",
                             (long long)s->p->n, (long long)s->p->n, gram_dtype_name(s->p->dtype),
                             (long long)s->a->n, (long long)s->a->n, gram_dtype_name(s->a->dtype));
    }
    TRY(view(g, s, "b", b, GRAM_READ, &s->b));
    TRY(view(g, s, "x", x, GRAM_WRITE, &s->x));
    if (x->ndim != b->ndim || s->x.cols != s->b.cols)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "x has %d dimensions and %lld columns, expected %d and %lld as b",
                         (int)x->ndim, (long long)s->x.cols, (int)b->ndim, (long long)s->b.cols);
    TRY(gram_check_apart(g, "x", x, "b", b));
    if (__builtin_mul_overflow(s->a->n, s->b.cols + BLOCK, &elements) || elements > INT64_MAX / 64)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "%lld by %lld numbers are more than any memory has",
                         (long long)s->a->n, (long long)s->b.cols);
    if (!g->backend->krr)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return g->backend->krr->may_wait ? g->backend->krr->may_wait(g) : GRAM_OK;
}

/* The steps add a ridge to wide products: an operator's is 0. */
gram_status gram_krr_no_ridge(gram_context *g, int64_t n, struct krr_array *out)
{
    if (!g->backend->krr->wide_product)
        return GRAM_OK;
    TRY(gram_krr_allocate(g, (size_t)n * sizeof(double), out));
    return g->backend->memory_zero(g, out->data, (size_t)n * sizeof(double));
}

static gram_status prepare(gram_context *g, const struct solve *s, struct memory *m)
{
    size_t part = gram_round64((size_t)(s->a->n * s->b.cols) * gram_dtype_size(s->a->dtype));

    TRY(gram_krr_operator_open(g, "a", s->a, &m->a));
    if (s->p)
        TRY(gram_krr_operator_open(g, "preconditioner", s->p, &m->p));
    TRY(gram_krr_no_ridge(g, s->a->n, &m->ridge));
    TRY(gram_krr_allocate(g, 2 * part, &m->vectors));
    m->b = m->vectors.data;
    m->x = (char *)m->b + part;
    TRY(gram_krr_pack(g, &s->b, true, m->b));
    return s->options.warm_start ? gram_krr_pack(g, &s->x, true, m->x) : GRAM_OK;
}

static gram_status run(gram_context *g, const struct solve *s, struct memory *m,
                       struct krr_cg_report *found)
{
    const gram_solve_operator_options *o = &s->options;
    const struct krr_cg cg = {
        .dtype = s->a->dtype,
        .n = s->a->n,
        .columns = s->b.cols,
        .multiply = gram_krr_operator_multiply,
        .matrix = &m->a,
        .precondition = s->p ? gram_krr_operator_precondition : NULL,
        .preconditioner = &m->p,
        .ridge = m->ridge.data,
        .b = m->b,
        .x = m->x,
        .warm = o->warm_start != 0,
        .tolerance = o->tolerance > 0          ? o->tolerance
                     : s->a->dtype == GRAM_F32 ? 1e-5
                                               : 1e-10,
        .iterations = o->iterations > 0 ? o->iterations : 1000,
        .rounds = INT32_MAX,
        .check = KRR_CG_CHECK,
        .seconds = o->time_limit > 0 ? o->time_limit : INFINITY,
    };

    TRY(gram_krr_cg(g, &cg, found));
    if (found->end == KRR_CG_NOT_FINITE && found->iterations == 0)
        return GRAM_OK; /* x stays as it was */
    return gram_krr_unpack(g, &s->x, m->x);
}

gram_status gram_krr_cg_verdict(gram_context *g, const struct krr_cg_report *r)
{
    const long long iterations = (long long)r->iterations, column = (long long)r->column;

    switch (r->end) {
    case KRR_CG_REACHED:
        return GRAM_OK;
    case KRR_CG_STALLED:
        return gram_fail(g, GRAM_NUMERICAL,
                         "the relative residual is %.3g in column %lld after %lld iterations, and "
                         "rounding allows no less: expect less by options.tolerance, or take f64",
                         r->residual, column, iterations);
    case KRR_CG_ITERATIONS:
    case KRR_CG_SECONDS:
        return gram_fail(
            g, GRAM_NUMERICAL,
            "the relative residual is %.3g in column %lld after %lld iterations, where options.%s "
            "ended the call",
            r->residual, column, iterations,
            r->end == KRR_CG_SECONDS ? "time_limit" : "iterations");
    case KRR_CG_INDEFINITE:
        return gram_fail(g, GRAM_NUMERICAL,
                         "a is not positive definite: p^T A p is %.3g for the direction p of "
                         "iteration %lld in column %lld",
                         r->curvature, iterations, column);
    case KRR_CG_PRECONDITIONER:
        return gram_fail(g, GRAM_NUMERICAL,
                         "preconditioner is not positive definite: r^T P^-1 r is %.3g for the "
                         "residual r of iteration %lld in column %lld",
                         r->curvature, iterations, column);
    case KRR_CG_NOT_FINITE:
        break;
    }
    if (iterations == 0)
        return gram_fail(g, GRAM_NUMERICAL,
                         "NaN or infinity in column %lld of b or its first guess", column);
    return gram_fail(g, GRAM_NUMERICAL,
                     "NaN or infinity in a product of iteration %lld, column %lld", iterations,
                     column);
}

static void tell(const struct krr_cg_report *found, gram_solve_operator_report *report)
{
    gram_solve_operator_report told = {.size = report->size,
                                       .reached = found->end == KRR_CG_REACHED,
                                       .iterations = found->iterations,
                                       .products = found->products,
                                       .residual = found->residual,
                                       .column = found->column};

    if (found->end == KRR_CG_NOT_FINITE)
        told.residual = NAN;
    memcpy(report, &told, report->size < sizeof told ? report->size : sizeof told);
}

static gram_status solve(gram_context *g, const struct solve *s, gram_solve_operator_report *report)
{
    struct krr_cg_report found;
    struct memory m = {0};
    gram_status status = prepare(g, s, &m);

    if (status == GRAM_OK)
        status = run(g, s, &m, &found);
    gram_krr_free(g, &m.vectors);
    gram_krr_free(g, &m.ridge);
    gram_krr_free(g, &m.p.memory);
    gram_krr_free(g, &m.a.memory);
    TRY(status);
    if (g->backend->synchronize)
        TRY(g->backend->synchronize(g));
    if (report)
        tell(&found, report);
    return gram_krr_cg_verdict(g, &found);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): x is written */
gram_status gram_solve_operator(gram_context *g, const gram_operator *a,
                                const gram_operator *preconditioner, const gram_tensor *b,
                                const gram_solve_operator_options *options, gram_tensor *x,
                                gram_solve_operator_report *report)
{
    struct solve s = {.a = a, .p = preconditioner};

    TRY(gram_begin(g, __func__));
    if (report && report->size < sizeof report->size)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "report has size %zu, expected sizeof(gram_solve_operator_report)",
                         report->size);
    TRY(describe(g, b, x, options, &s));
    return gram_call_ended(g, solve(g, &s, report));
}

/*
 * cpu_solve_options.c - solves with condition estimates, a ladder of jitters, or refinement
 *
 * Like cpu_solve_large.c by LAPACK, but A is kept beside its factor.  Small items of a batch are
 * done in parallel, one thread each; others one after the other with all threads.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_solve_extra.h"
#include "core/blas.h"
#include "core/threads.h"
#include <math.h>
#include <string.h>

enum {
    PARALLEL_ORDER = 256 /* LAPACK's threads gain nothing up to here */
};

bool cpu_solve_is_extra(const struct gram_solve_op *op)
{
    return op->has_rcond || op->jitters || op->has_jittered || op->refine;
}

/* ---- Scratch -------------------------------------------------------------------------------- */

struct extra_scratch {
    size_t a, f, work, iwork, pivots, b, x, r, d, basis, bytes;
};

static size_t take(struct extra_scratch *s, size_t bytes)
{
    size_t at = s->bytes;

    s->bytes += gram_round64(bytes);
    return at;
}

static int64_t block_columns(const struct gram_solve_op *op)
{
    return gram_least(op->x.cols, SOLVE_RHS_BLOCK);
}

/* SIZE_MAX bytes: more than can be counted. */
static struct extra_scratch lay_out(const struct solve_plan *plan)
{
    const struct gram_solve_op *op = plan->op;
    size_t n = (size_t)op->a.rows, size = gram_dtype_size(op->a.dtype);
    size_t block = n * (size_t)block_columns(op);
    struct extra_scratch s = {0};

    if (n > 0 && n > SIZE_MAX / 64 / n)
        return (struct extra_scratch){.bytes = SIZE_MAX};
    s.a = take(&s, n * n * size);
    s.f = take(&s, n * n * size);
    s.work = take(&s, 4 * n * size);
    s.iwork = take(&s, n * sizeof(int32_t));
    s.pivots = take(&s, n * sizeof(int32_t));
    s.b = take(&s, block * size);
    if (op->refine) {
        s.x = take(&s, block * sizeof(double));
        s.r = take(&s, block * sizeof(double));
        s.d = take(&s, block * sizeof(float));
        s.basis = take(&s, n * (2 * REFINE_RESTART + 1) * sizeof(double));
    }
    return s;
}

static int64_t workers(const gram_context *g, const struct solve_plan *plan)
{
    bool parallel = plan->op->a.rows <= PARALLEL_ORDER && plan->own.count > 1;

    return parallel ? gram_least(plan->own.count, g->threads) : 1;
}

size_t cpu_solve_extra_bytes(const gram_context *g, const struct solve_plan *plan)
{
    size_t bytes = lay_out(plan).bytes;

    return bytes == SIZE_MAX ? bytes : bytes * (size_t)workers(g, plan);
}

/* ---- One matrix ----------------------------------------------------------------------------- */

static void add_to_diagonal(const struct extra_work *w, void *a, double s)
{
    for (int64_t i = 0; i < w->n && s != 0; i++)
        cpu_solve_extra_put(w, a, i * (w->n + 1), cpu_solve_extra_get(w, a, i * (w->n + 1)) + s);
}

/* f = a + s I, in f32 and scaled if low. */
static void copy_to_factor(struct extra_work *w, double s)
{
    const double *a = w->a;
    float *f = w->f;
    double scale;

    if (!w->low) {
        memcpy(w->f, w->a, (size_t)(w->n * w->n) * gram_dtype_size(w->plan->op->a.dtype));
        add_to_diagonal(w, w->f, s);
        return;
    }
    frexp(isfinite(w->norm + s) ? w->norm + s : 0, &w->exponent);
    w->exponent = (int)gram_most(w->exponent, -1000); /* 2^1000 can be multiplied by */
    scale = ldexp(1, -w->exponent);
    for (int64_t i = 0; i < w->n * w->n; i++)
        f[i] = (float)(a[i] * scale);
    for (int64_t i = 0; i < w->n * w->n && s != 0; i += w->n + 1)
        f[i] = (float)((a[i] + s) * scale);
}

static gram_dtype dtype_of_factor(const struct extra_work *w)
{
    return w->low ? GRAM_F32 : w->plan->op->a.dtype;
}

/* LAPACK's info; those of f64 and f32 have the same kernels but for the dtype. */
static int64_t factorise(const struct extra_work *w)
{
    gram_dtype dtype = dtype_of_factor(w);
    const struct gram_solve_kernels *kernels = w->plan->of_dtype[dtype];
    int64_t info = w->plan->lu ? gram_blas_getrf(dtype, w->n, w->f, w->n, w->pivots)
                               : gram_blas_potrf(dtype, GRAM_LOWER, w->n, w->f, w->n);
    int64_t bad = kernels->bad_diagonal(info ? info - 1 : w->n, w->f, w->n, !w->plan->lu);

    return bad ? bad : info;
}

void cpu_solve_extra_apply(const struct extra_work *w, gram_dtype dtype, int64_t columns, void *x)
{
    if (w->plan->lu)
        gram_blas_getrs(dtype, w->flip, w->n, columns, w->f, w->n, w->pivots, x, w->n);
    else
        gram_blas_potrs(dtype, GRAM_LOWER, w->n, columns, w->f, w->n, x, w->n);
}

/* Tries the ladder, from its first s on; a becomes a + s I.  What cannot be factored in f32 is, in
 * f64. */
static int64_t climb(struct extra_work *w)
{
    const struct gram_solve_op *op = w->plan->op;
    int64_t info = 1;

    for (int i = 0; info && (i == 0 || i < op->jitters); i++) {
        w->jitter = op->jitters ? op->jitter[i] : 0;
        for (w->low = op->refine; info; w->low = false) {
            copy_to_factor(w, w->jitter);
            info = factorise(w);
            if (!info || !w->low)
                break;
        }
    }
    add_to_diagonal(w, w->a, w->jitter);
    return info;
}

static double condition(const struct extra_work *w)
{
    gram_dtype dtype = dtype_of_factor(w);
    double norm = ldexp(cpu_solve_extra_norm(w, w->flip), w->low ? -w->exponent : 0);

    if (w->n == 0)
        return 1;
    return w->plan->lu
               ? gram_blas_gecon(dtype, w->flip, w->n, w->f, w->n, norm, w->work, w->iwork)
               : gram_blas_pocon(dtype, GRAM_LOWER, w->n, w->f, w->n, norm, w->work, w->iwork);
}

static void store_factor(const struct extra_work *w)
{
    const struct gram_view *v = &w->plan->op->factor;
    struct solve_copy c = {
        .to = cpu_solve_item(w->plan, v, w->own, 0),
        .from = w->f,
        .to_stride = {w->flip ? v->col_stride : v->row_stride,
                      w->flip ? v->row_stride : v->col_stride      },
        .from_stride = {                                      1, w->n},
        .rows = w->n,
        .cols = w->n,
        .part = w->plan->lu ? SOLVE_ALL : SOLVE_LOWER,
    };

    w->plan->kernels->copy(&c, 0, w->n);
}

/* ---- Right-hand sides ----------------------------------------------------------------------- */

/* Copies columns from j on between the caller's b or x and a block. */
static void move_block(const struct extra_work *w, const struct gram_view *v, char *item,
                       const int64_t first_count[2], void *block, bool in)
{
    char *data = item + first_count[0] * v->col_stride * (int64_t)gram_dtype_size(v->dtype);
    struct solve_copy c = {
        .to = in ? block : data,
        .from = in ? data : block,
        .to_stride = {in ? 1 : v->row_stride, in ? w->n : v->col_stride},
        .from_stride = {in ? v->row_stride : 1, in ? v->col_stride : w->n},
        .rows = w->n,
        .cols = first_count[1],
    };

    w->plan->kernels->copy(&c, 0, c.cols);
}

/* What refinement reports of one item of the batch. */
struct refined {
    double backward;
    int steps; /* -1: in f64 after all */
};

/* The block b solved: in place, or to x.  False: the factorisation in f64 broke down. */
static bool solve_block(struct extra_work *w, int64_t columns, struct refined *told, int64_t *info)
{
    double error = 0;

    if (w->low && cpu_solve_refine(w, columns, &error, &told->steps)) {
        told->backward = fmax(told->backward, error);
        return true;
    }
    if (w->low) {
        w->low = false;
        copy_to_factor(w, 0); /* a has the jitter already */
        *info = factorise(w);
        if (*info)
            return false;
    }
    if (w->plan->op->refine) {
        memcpy(w->x, w->b, (size_t)(w->n * columns) * sizeof(double));
        cpu_solve_extra_apply(w, GRAM_F64, columns, w->x);
        error = cpu_solve_backward(w, columns);
        told->backward = fmax(told->backward, error);
        told->steps = -1;
    } else {
        cpu_solve_extra_apply(w, w->plan->op->a.dtype, columns, w->b);
    }
    return true;
}

static void solve_columns(struct extra_work *w, int64_t shared, struct refined *told, int64_t *info)
{
    const struct gram_solve_op *op = w->plan->op;
    char *b = cpu_solve_item(w->plan, &op->b, w->own, shared);
    char *x = cpu_solve_item(w->plan, &op->x, w->own, shared);
    int64_t step = block_columns(op);

    for (int64_t j = 0; j < op->x.cols && w->n > 0 && !*info; j += step) {
        int64_t block[2] = {j, gram_least(step, op->x.cols - j)};
        move_block(w, &op->b, b, block, w->b, true);
        if (solve_block(w, block[1], told, info))
            move_block(w, &op->x, x, block, op->refine ? w->x : w->b, false);
    }
}

/* ---- One item of a -------------------------------------------------------------------------- */

static void put_number(const struct extra_work *w, const struct gram_view *v, int64_t shared,
                       double value)
{
    char *to = cpu_solve_item(w->plan, v, w->own, shared);

    if (v->dtype == GRAM_I32)
        *(int32_t *)(void *)to = (int32_t)value;
    else if (v->dtype == GRAM_F32)
        *(float *)(void *)to = (float)value;
    else
        *(double *)(void *)to = value;
}

static void report_matrix(const struct extra_work *w, int64_t info)
{
    const struct gram_solve_op *op = w->plan->op;

    if (op->has_rcond)
        put_number(w, &op->rcond, 0, info ? 0 : condition(w));
    if (op->has_jittered)
        put_number(w, &op->jittered, 0, info ? NAN : w->jitter);
    if (op->has_factor)
        store_factor(w);
    if (op->has_pivots)
        cpu_solve_pivots_out(w->plan, w->own, w->pivots);
}

static void solve_item(struct extra_work *w, struct solve_plan *plan)
{
    const struct gram_solve_op *op = plan->op;
    int64_t info;

    cpu_solve_extra_load(w);
    if (op->refine)
        w->norm = cpu_solve_extra_norm(w, true);
    info = climb(w);
    if (op->refine && w->jitter != 0)
        w->norm = cpu_solve_extra_norm(w, true);
    report_matrix(w, info);
    for (int64_t j = 0; j < plan->shared.count; j++) {
        struct refined told = {0};
        if (!info)
            solve_columns(w, j, &told, &info);
        if (info)
            told.backward = NAN;
        if (op->has_backward)
            put_number(w, &op->backward, j, told.backward);
        if (op->has_refinings)
            put_number(w, &op->refinings, j, told.steps);
    }
    for (int64_t j = 0; info && j < plan->shared.count; j++)
        plan->kernels->fill_nan(&op->x, cpu_solve_item(plan, &op->x, w->own, j));
    cpu_solve_report(plan, w->own, info);
}

struct extra_loop {
    struct solve_plan *plan;
    char *scratch;
    struct extra_scratch at;
    atomic_llong next; /* item of own that nobody has taken */
};

static void work(void *arg, int64_t worker, int thread)
{
    struct extra_loop *loop = arg;
    const struct gram_solve_op *op = loop->plan->op;
    char *s = loop->scratch + (size_t)worker * loop->at.bytes;
    struct extra_work w = {
        .plan = loop->plan,
        .n = op->a.rows,
        .a = s + loop->at.a,
        .f = s + loop->at.f,
        .pivots = (int32_t *)(void *)(s + loop->at.pivots),
        .iwork = (int32_t *)(void *)(s + loop->at.iwork),
        .work = s + loop->at.work,
        .b = s + loop->at.b,
        .x = s + loop->at.x,
        .r = (double *)(void *)(s + loop->at.r),
        .d = (float *)(void *)(s + loop->at.d),
        .basis = (double *)(void *)(s + loop->at.basis),
    };

    (void)thread;
    w.flip = !loop->plan->lu ? op->uplo == GRAM_UPPER
                             : op->has_factor && gram_solve_layout(&op->factor).row_major;
    while ((w.own = atomic_fetch_add(&loop->next, 1)) < loop->plan->own.count)
        solve_item(&w, loop->plan);
}

void cpu_solve_extra(gram_context *g, struct solve_plan *plan, void *scratch)
{
    struct extra_loop loop = {.plan = plan, .scratch = scratch, .at = lay_out(plan)};
    int64_t count = workers(g, plan);

    atomic_init(&loop.next, 0);
    if (count > 1) {
        gram_blas_for(g, count, work, &loop);
    } else {
        gram_blas_threads(g);
        work(&loop, 0, 0);
    }
}

/*
 * krr_solve.c - gram_krr_solve: checks the arguments, solves, and tells what was reached
 *
 * Everything of the size of y is kept in f64 on the host: what is done with it costs nothing beside
 * a product with the kernel matrix.  The points are where the context computes.
 *
 * SPDX-License-Identifier: MIT
 */
#include "krr_solve.h"
#include "core/backend.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_PRODUCTS = 1000
};

/* ---- The front ------------------------------------------------------------------------------- */

static gram_status check_number(gram_context *g, const char *name, double value)
{
    if (value >= 0 && value < INFINITY)
        return GRAM_OK;
    return gram_fail(g, GRAM_INVALID_ARGUMENT,
                     "options.%s is %g, expected a finite number of at least 0", name, value);
}

/* Centres, given or to be drawn, and the method go together. */
static gram_status check_centres(gram_context *g, gram_krr_options *o)
{
    const bool given = o->centres != NULL, drawn = o->centre_count != 0;

    if (o->centre_count < 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.centre_count is %lld, expected 0 or more",
                         (long long)o->centre_count);
    if (given && drawn)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.centres and options.centre_count are given, expected only one "
                         "of them");
    if (o->chosen && !drawn)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.chosen is given without options.centre_count, which it needs");
    if (o->method == GRAM_KRR_AUTO && (given || drawn))
        o->method = GRAM_KRR_CENTRES;
    if ((o->method == GRAM_KRR_CENTRES) == (given || drawn))
        return GRAM_OK;
    return gram_fail(g, GRAM_INVALID_ARGUMENT,
                     given || drawn ? "centres are given, but options.method is %d, expected "
                                      "GRAM_KRR_CENTRES"
                                    : "options.method is %d, GRAM_KRR_CENTRES, but neither "
                                      "options.centres nor options.centre_count is given",
                     (int)o->method);
}

/* A path, and what goes with one. */
static gram_status check_checkpoint(gram_context *g, const gram_krr_options *o)
{
    TRY(check_number(g, "checkpoint_seconds", o->checkpoint_seconds));
    if (o->checkpoint_iterations < 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.checkpoint_iterations is %lld, expected 0 or more",
                         (long long)o->checkpoint_iterations);
    if (!o->checkpoint && (o->resume || o->checkpoint_iterations > 0 || o->checkpoint_seconds > 0))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.%s is given without options.checkpoint, which it needs",
                         o->resume                      ? "resume"
                         : o->checkpoint_iterations > 0 ? "checkpoint_iterations"
                                                        : "checkpoint_seconds");
    if (o->checkpoint && o->method == GRAM_KRR_CHOLESKY)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.checkpoint is given, but options.method is %d, "
                         "GRAM_KRR_CHOLESKY, which keeps none",
                         (int)o->method);
    return GRAM_OK;
}

gram_status gram_krr_check_process(gram_context *g, gram_krr_method method, double ridge)
{
    if (method < GRAM_KRR_AUTO || method > GRAM_KRR_CG)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.method is %d, expected GRAM_KRR_AUTO, _CHOLESKY or _CG",
                         (int)method);
    if (!(ridge > 0 && ridge < INFINITY))
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.ridge is %g, expected a finite number above 0", ridge);
    return GRAM_OK;
}

static gram_status check_options(gram_context *g, gram_krr_options *o)
{
    if (o->method < GRAM_KRR_AUTO || o->method > GRAM_KRR_BLOCKS)
        return gram_fail(
            g, GRAM_INVALID_ARGUMENT,
            "options.method is %d, expected GRAM_KRR_AUTO, _CHOLESKY, _CG, _CENTRES or "
            "_BLOCKS",
            (int)o->method);
    TRY(check_centres(g, o));
    TRY(check_number(g, "ridge", o->ridge));
    TRY(check_number(g, "tolerance", o->tolerance));
    TRY(check_number(g, "held_out_rmse", o->held_out_rmse));
    TRY(check_number(g, "time_limit", o->time_limit));
    if (o->rank < -1)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.rank is %lld, expected -1 or more",
                         (long long)o->rank);
    if (o->products < 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.products is %lld, expected 0 or more",
                         (long long)o->products);
    if (o->memory < 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.memory is %lld, expected 0 or more",
                         (long long)o->memory);
    TRY(check_checkpoint(g, o));
    if (o->report && o->report->size < sizeof o->report->size)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.report has size %zu, expected sizeof(gram_krr_report)",
                         o->report->size);
    if (o->tolerance == 0)
        o->tolerance = o->held_out_rmse > 0 ? 0.03 : 0.01;
    if (o->products == 0)
        o->products = MOST_PRODUCTS;
    return GRAM_OK;
}

static gram_status check_kernel(gram_context *g, const gram_kernel_options *given,
                                gram_kernel_options *kernel)
{
    *kernel = (gram_kernel_options)GRAM_KERNEL_OPTIONS_INIT;
    if (!given)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "kernel is NULL");
    TRY(gram_struct_copy(g, "kernel.", kernel, sizeof *kernel, given));
    if (kernel->output != GRAM_VALUE)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "kernel.output is %d, expected GRAM_VALUE",
                         (int)kernel->output);
    if (kernel->regularization.tensor || kernel->regularization.value != 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "kernel.regularization is %g, expected 0: options.ridge is meant",
                         kernel->regularization.value);
    return gram_krr_check_symmetric(g, kernel);
}

static gram_status check_rows(gram_context *g, const char *name, const struct gram_view *v,
                              int64_t rows, int64_t columns)
{
    if (v->rows == rows && (columns < 0 || v->cols == columns))
        return GRAM_OK;
    if (columns < 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s has %lld rows, expected %lld as x", name,
                         (long long)v->rows, (long long)rows);
    return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s is %lld by %lld, expected %lld by %lld", name,
                     (long long)v->rows, (long long)v->cols, (long long)rows, (long long)columns);
}

/* The centres that are given, or how many are to be drawn; unknowns is their number. */
static gram_status view_centres(gram_context *g, struct krr_call *c, const gram_krr_options *o)
{
    const int64_t rows = c->views[0].rows;
    struct gram_view chosen;

    c->unknowns = o->method == GRAM_KRR_CENTRES ? o->centre_count : rows;
    if (o->method != GRAM_KRR_CENTRES)
        return GRAM_OK;
    if (o->centre_count > rows)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.centre_count is %lld, expected at most %lld, the rows of x",
                         (long long)o->centre_count, (long long)rows);
    if (o->chosen) {
        TRY(gram_krr_view(g, "options.chosen", o->chosen, GRAM_WRITE, &chosen));
        TRY(gram_check_dtype(g, "options.chosen", o->chosen, GRAM_I64));
        TRY(check_rows(g, "options.chosen", &chosen, o->centre_count, 1));
        if (o->centre_count > 1 && chosen.row_stride != 1)
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "options.chosen has the stride %lld, expected 1",
                             (long long)chosen.row_stride);
        TRY(gram_check_apart(g, "options.chosen", o->chosen, "alpha", c->alpha));
    }
    if (!o->centres)
        return GRAM_OK;
    TRY(gram_krr_view(g, "options.centres", o->centres, GRAM_READ, &c->views[4]));
    TRY(gram_check_dtype(g, "options.centres", o->centres, c->dtype));
    TRY(check_rows(g, "options.centres", &c->views[4], c->views[4].rows, c->views[0].cols));
    c->unknowns = c->views[4].rows;
    return gram_check_apart(g, "alpha", c->alpha, "options.centres", o->centres);
}

/* options.rows in the place of x. */
static gram_status take_rows(gram_context *g, struct krr_call *c, gram_krr_options *o,
                             gram_rows *rows)
{
    if (!o->rows)
        return GRAM_OK;
    if (c->x)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "x and options.rows are given, expected only one of them");
    if (o->method == GRAM_KRR_CHOLESKY || o->method == GRAM_KRR_BLOCKS)
        return gram_fail(
            g, GRAM_INVALID_ARGUMENT,
            "options.rows is given, but options.method is %d, GRAM_KRR_%s, which needs "
            "x",
            (int)o->method, o->method == GRAM_KRR_BLOCKS ? "BLOCKS" : "CHOLESKY");
    if (o->method == GRAM_KRR_AUTO)
        o->method = GRAM_KRR_CG;
    TRY(gram_krr_rows_check(g, o->rows, rows));
    c->views[0] = (struct gram_view){.rows = rows->rows, .cols = rows->columns};
    c->dtype = rows->dtype;
    return GRAM_OK;
}

/* x, unless there are options.rows, and the weights of its rows. */
static gram_status check_points(gram_context *g, struct krr_call *c, const gram_krr_options *o)
{
    if (c->x || !o->rows) {
        TRY(gram_krr_view(g, "x", c->x, GRAM_READ, &c->views[0]));
        TRY(gram_check_real(g, "x", c->x));
        if (c->x->ndim != 2)
            return gram_fail(g, GRAM_INVALID_ARGUMENT, "x has %d dimensions, expected 2",
                             (int)c->x->ndim);
        c->dtype = c->x->dtype;
    }
    if (!o->weights)
        return GRAM_OK;
    TRY(gram_krr_view(g, "options.weights", o->weights, GRAM_READ, &c->views[3]));
    TRY(gram_check_dtype(g, "options.weights", o->weights, c->dtype));
    return check_rows(g, "options.weights", &c->views[3], c->views[0].rows, 1);
}

static gram_status check_tensors(gram_context *g, struct krr_call *c, const gram_krr_options *o)
{
    struct gram_view *x = &c->views[0], *y = &c->views[1], *alpha = &c->views[2];

    TRY(check_points(g, c, o));
    TRY(gram_krr_view(g, "y", c->y, GRAM_READ, y));
    TRY(gram_check_dtype(g, "y", c->y, c->dtype));
    TRY(check_rows(g, "y", y, x->rows, -1));
    TRY(gram_krr_view(g, "alpha", c->alpha, GRAM_WRITE, alpha));
    if (c->alpha->dtype != GRAM_F64)
        TRY(gram_check_dtype(g, "alpha", c->alpha, c->dtype));
    if (c->alpha->ndim != c->y->ndim)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "alpha has %d dimensions, expected %d as y",
                         (int)c->alpha->ndim, (int)c->y->ndim);
    TRY(view_centres(g, c, o));
    TRY(check_rows(g, "alpha", alpha, c->unknowns, y->cols));
    if (!o->rows)
        TRY(gram_check_apart(g, "alpha", c->alpha, "x", c->x));
    TRY(gram_check_apart(g, "alpha", c->alpha, "y", c->y));
    return o->weights ? gram_check_apart(g, "alpha", c->alpha, "options.weights", o->weights)
                      : GRAM_OK;
}

static gram_status may_run(gram_context *g)
{
    if (!g->backend->krr)
        return gram_fail(g, GRAM_UNSUPPORTED, "%s does not offer this operation", g->backend->name);
    return g->backend->krr->may_wait ? g->backend->krr->may_wait(g) : GRAM_OK;
}

gram_status gram_krr_describe(gram_context *g, struct krr_call *c, const gram_krr_options *given,
                              struct krr_problem *p)
{
    p->options = (gram_krr_options)GRAM_KRR_OPTIONS_INIT;
    TRY(gram_options_copy(g, &p->options, sizeof p->options, given));
    TRY(check_options(g, &p->options));
    TRY(check_kernel(g, c->kernel, &p->kernel));
    TRY(take_rows(g, c, &p->options, &p->rows));
    TRY(check_tensors(g, c, &p->options));
    p->dtype = c->dtype;
    p->n = c->views[0].rows;
    p->width = c->views[0].cols;
    p->columns = c->views[1].cols;
    p->unknowns = c->unknowns;
    p->narrow_alpha = c->alpha->dtype == GRAM_F32;
    return may_run(g);
}

/* ---- To f64 and back ------------------------------------------------------------------------- */

/* Elements without gaps, where the context computes. */
static gram_status pack(gram_context *g, const struct gram_view *v, bool by_columns,
                        struct krr_array *out)
{
    TRY(gram_krr_allocate(g, (size_t)(v->rows * v->cols) * gram_dtype_size(v->dtype), out));
    return gram_krr_pack(g, v, by_columns, out->data);
}

/* From where the context computes to f64 on the host. */
static gram_status fetch_wide(gram_context *g, gram_dtype dtype, const struct krr_array *from,
                              int64_t count, double *out)
{
    size_t bytes = (size_t)count * gram_dtype_size(dtype);
    void *here = gram_alloc(g, bytes ? bytes : 1);
    gram_status status;

    if (!here)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    status = gram_krr_fetch(g, here, from->data, bytes);
    for (int64_t i = 0; status == GRAM_OK && i < count; i++)
        out[i] = krr_element(dtype, here, i);
    gram_free(g, here, bytes ? bytes : 1);
    return status;
}

static gram_status load(gram_context *g, const char *name, const struct gram_view *v, double *out)
{
    struct krr_array packed = {0};
    gram_status status = pack(g, v, true, &packed);

    if (status == GRAM_OK)
        status = fetch_wide(g, v->dtype, &packed, v->rows * v->cols, out);
    gram_krr_free(g, &packed);
    for (int64_t i = 0; status == GRAM_OK && i < v->rows * v->cols; i++)
        if (!isfinite(out[i]))
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "%s[%lld, %lld] is %g, expected a finite number", name,
                             (long long)(i % v->rows), (long long)(i / v->rows), out[i]);
    return status;
}

gram_status gram_krr_put(gram_context *g, const struct gram_view *v, const double *from)
{
    int64_t count = v->rows * v->cols;
    size_t bytes = (size_t)count * gram_dtype_size(v->dtype);
    struct krr_array packed = {0};
    void *here = count > 0 ? gram_alloc(g, bytes) : NULL;
    gram_status status;

    if (count == 0)
        return GRAM_OK;
    if (!here)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    for (int64_t i = 0; i < count; i++)
        krr_set_element(v->dtype, here, i, from[i]);
    status = gram_krr_send(g, here, bytes, &packed);
    if (status == GRAM_OK)
        status = gram_krr_unpack(g, v, packed.data);
    if (status == GRAM_OK && g->backend->synchronize)
        status = g->backend->synchronize(g);
    gram_krr_free(g, &packed);
    gram_free(g, here, bytes);
    return status;
}

/* ---- The problem ----------------------------------------------------------------------------- */

gram_status gram_krr_widen(gram_context *g, const char *name, const int64_t rows_columns[2],
                           gram_dtype dtype, const struct krr_array *from, struct krr_array *out)
{
    int64_t count = rows_columns[0] * rows_columns[1];
    size_t bytes = (size_t)count * sizeof(double);
    double *wide = gram_alloc(g, bytes ? bytes : 1);
    gram_status status;

    if (!wide)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    status = fetch_wide(g, dtype, from, count, wide);
    for (int64_t i = 0; status == GRAM_OK && i < count; i++)
        if (!isfinite(wide[i]))
            status = gram_fail(
                g, GRAM_INVALID_ARGUMENT, "%s[%lld, %lld] is %g, expected a finite number", name,
                (long long)(i / rows_columns[1]), (long long)(i % rows_columns[1]), wide[i]);
    if (status == GRAM_OK)
        status = gram_krr_allocate(g, bytes, out);
    if (status == GRAM_OK)
        status = gram_krr_store(g, out->data, wide, bytes);
    gram_free(g, wide, bytes ? bytes : 1);
    return status;
}

gram_status gram_krr_widen_view(gram_context *g, const char *name, const struct gram_view *v,
                                struct krr_array *out)
{
    struct krr_array packed = {0};
    gram_status status = pack(g, v, false, &packed);

    if (status == GRAM_OK)
        status = gram_krr_widen(g, name, (int64_t[2]){v->rows, v->cols}, v->dtype, &packed, out);
    gram_krr_free(g, &packed);
    return status;
}

/* x in its dtype, and in f64. */
static gram_status load_points(gram_context *g, const struct krr_call *c, struct krr_problem *p)
{
    TRY(pack(g, &c->views[0], false, &p->x));
    return gram_krr_widen(g, "x", (int64_t[2]){p->n, p->width}, p->dtype, &p->x, &p->wide_x);
}

/* The kernel of points in f64: lengths have the dtype of the points. */
static gram_status widen_kernel(gram_context *g, struct krr_problem *p)
{
    const gram_tensor *lengths = p->kernel.lengths;
    struct gram_view v;

    p->wide_kernel = p->kernel;
    if (!lengths || p->dtype == GRAM_F64)
        return GRAM_OK;
    TRY(gram_krr_view(g, "kernel.lengths", lengths, GRAM_READ, &v));
    TRY(gram_check_dtype(g, "kernel.lengths", lengths, p->dtype));
    TRY(check_rows(g, "kernel.lengths", &v, p->width, 1));
    TRY(gram_krr_widen_view(g, "kernel.lengths", &v, &p->wide_lengths));
    p->lengths = gram_krr_matrix(g, p->wide_lengths.data, p->width, 1, GRAM_F64);
    p->lengths.ndim = 1;
    p->wide_kernel.lengths = &p->lengths;
    return GRAM_OK;
}

/* The ridge of every row, and what the bounds want of them. */
static gram_status load_ridges(gram_context *g, const struct krr_call *c, struct krr_problem *p)
{
    double least = INFINITY, most = 0;

    if (p->options.weights)
        TRY(load(g, "options.weights", &c->views[3], p->ridge));
    for (int64_t i = 0; i < p->n; i++) {
        double weight = p->options.weights ? p->ridge[i] : 1;

        if (!(weight > 0))
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "options.weights[%lld] is %g, expected a number above 0", (long long)i,
                             weight);
        least = weight < least ? weight : least;
        most = weight > most ? weight : most;
        p->ridge[i] = p->options.method == GRAM_KRR_CENTRES ? weight : p->options.ridge / weight;
    }
    p->least_weight = least;
    p->room = p->options.ridge > 0 && p->n > 0 ? sqrt(most / least) : 1;
    p->least_ridge = p->n > 0 ? p->options.ridge / most : p->options.ridge;
    return GRAM_OK;
}

static gram_status load_centres(gram_context *g, const struct krr_call *c, struct krr_problem *p)
{
    if (p->options.method != GRAM_KRR_CENTRES)
        return GRAM_OK;
    if (p->options.centres)
        TRY(pack(g, &c->views[4], false, &p->centres));
    else
        TRY(gram_krr_draw_centres(g, p));
    return gram_krr_widen(g, "options.centres", (int64_t[2]){p->unknowns, p->width}, p->dtype,
                          &p->centres, &p->wide_centres);
}

static gram_status allocate(gram_context *g, struct krr_problem *p)
{
    size_t n = (size_t)p->n, most = p->unknowns > p->n ? (size_t)p->unknowns : n;
    size_t vector = most * (size_t)p->columns;
    double *at;

    p->bytes = (2 * n + 4 * vector + 3 * (size_t)p->columns + 1) * sizeof(double);
    p->memory = gram_alloc(g, p->bytes);
    if (!p->memory)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", p->bytes);
    memset(p->memory, 0, p->bytes);
    at = p->memory;
    p->ridge = at, at += n;
    p->diagonal = at, at += n;
    p->y = at, at += vector;
    p->alpha = at, at += vector;
    p->residual = at, at += vector;
    p->best = at, at += vector;
    p->norm_y = at, at += p->columns;
    p->norm_r = at, at += p->columns;
    p->target = at;
    return GRAM_OK;
}

static gram_status prepare(gram_context *g, const struct krr_call *c, struct krr_problem *p)
{
    TRY(allocate(g, p));
    TRY(p->rows.read ? gram_krr_rows_open(g, p) : load_points(g, c, p));
    TRY(load(g, "y", &c->views[1], p->y));
    TRY(load_ridges(g, c, p));
    if (p->options.warm_start)
        TRY(load(g, "alpha", &c->views[2], p->alpha));
    for (int64_t j = 0; j < p->columns; j++) {
        double sum = 0;

        for (int64_t i = j * p->n; i < (j + 1) * p->n; i++)
            sum += p->y[i] * p->y[i];
        p->norm_y[j] = sqrt(sum);
        if (sum == 0) /* alpha is 0, whatever it was */
            memset(p->alpha + j * p->unknowns, 0, (size_t)p->unknowns * sizeof *p->alpha);
    }
    TRY(widen_kernel(g, p));
    TRY(gram_krr_load_diagonal(g, "x", p));
    TRY(gram_krr_check_expression(g, p));
    TRY(load_centres(g, c, p));
    gram_krr_targets(p);
    return GRAM_OK;
}

void gram_krr_close(gram_context *g, struct krr_problem *p)
{
    gram_krr_free(g, &p->x);
    gram_krr_free(g, &p->wide_x);
    gram_krr_free(g, &p->wide_lengths);
    gram_krr_free(g, &p->centres);
    gram_krr_free(g, &p->wide_centres);
    gram_krr_checkpoint_close(g, p);
    gram_krr_rows_close(g, p);
    gram_free(g, p->memory, p->bytes);
}

gram_status gram_krr_open(gram_context *g, const gram_tensor *x, const gram_kernel_options *kernel,
                          const gram_krr_options *options, struct krr_problem *p)
{
    struct krr_call c = {.x = x, .kernel = kernel};

    p->options = *options;
    TRY(check_options(g, &p->options));
    TRY(check_kernel(g, kernel, &p->kernel));
    TRY(check_points(g, &c, options));
    TRY(may_run(g));
    p->dtype = x->dtype;
    p->n = p->unknowns = c.views[0].rows;
    p->width = c.views[0].cols;
    TRY(allocate(g, p));
    TRY(load_points(g, &c, p));
    TRY(load_ridges(g, &c, p));
    TRY(widen_kernel(g, p));
    TRY(gram_krr_load_diagonal(g, "x", p));
    return gram_krr_check_expression(g, p);
}

/* ---- By Cholesky ----------------------------------------------------------------------------- */

gram_status gram_krr_cholesky(gram_context *g, const struct krr_problem *p,
                              const struct krr_array *factor, bool factored,
                              const struct krr_array *right, int32_t *code)
{
    gram_tensor x = gram_krr_matrix(g, p->wide_x.data, p->n, p->width, GRAM_F64);
    gram_tensor k = gram_krr_matrix(g, factor->data, p->n, p->n, GRAM_F64);
    gram_tensor a = gram_krr_by_columns(g, right->data, p->n, p->columns, GRAM_F64);
    gram_tensor info = {.dtype = GRAM_I32, .device = k.device};
    gram_solve_options options = GRAM_SOLVE_OPTIONS_INIT;
    struct krr_array there = {0};
    gram_status status = GRAM_OK;

    options.factored = factored;
    options.factor = factored ? NULL : &k;
    TRY(gram_krr_allocate(g, sizeof *code, &there));
    info.data = there.data;
    if (!factored)
        status = gram_kernel(g, &x, NULL, &p->wide_kernel, &k);
    if (status == GRAM_OK && !factored)
        status = gram_krr_add_diagonal(g, &k, p->ridge);
    if (status == GRAM_OK)
        status = gram_solve_cholesky(g, &k, &a, &options, &a, &info);
    if (status == GRAM_OK)
        status = gram_krr_fetch(g, code, there.data, sizeof *code);
    gram_krr_free(g, &there);
    g->call = p->call;
    return status;
}

static gram_status solve_dense(gram_context *g, struct krr_problem *p, int32_t *code)
{
    size_t bytes = (size_t)(p->n * p->columns) * sizeof(double);
    struct krr_array matrix = {0}, right = {0};
    gram_status status;

    TRY(gram_krr_allocate(g, (size_t)(p->n * p->n) * sizeof(double), &matrix));
    status = gram_krr_allocate(g, bytes, &right);
    if (status == GRAM_OK)
        status = gram_krr_store(g, right.data, p->y, bytes);
    if (status == GRAM_OK)
        status = gram_krr_cholesky(g, p, &matrix, false, &right, code);
    if (status == GRAM_OK && *code == 0)
        status = gram_krr_fetch(g, p->alpha, right.data, bytes);
    gram_krr_free(g, &right);
    gram_krr_free(g, &matrix);
    return status;
}

/* ---- The solve ------------------------------------------------------------------------------- */

double gram_krr_seconds_left(const struct krr_problem *p)
{
    const double limit = p->options.time_limit;

    return limit > 0 ? fmax(0, p->start + limit - gram_seconds()) : INFINITY;
}

bool gram_krr_out_of_time(const struct krr_problem *p)
{
    return p->options.time_limit > 0 && gram_seconds() > p->start + p->options.time_limit;
}

gram_krr_end gram_krr_end_of(const struct krr_cg_report *last)
{
    switch (last->end) {
    case KRR_CG_ITERATIONS:
        return GRAM_KRR_PRODUCTS;
    case KRR_CG_SECONDS:
        return GRAM_KRR_TIME;
    case KRR_CG_INDEFINITE:
        return GRAM_KRR_INDEFINITE;
    default:
        return GRAM_KRR_ROUNDING;
    }
}

/* The message of a solve that ended too early. */
static gram_status verdict(gram_context *g, const struct krr_problem *p, const gram_krr_report *r,
                           const struct krr_cg_report *last, int32_t minor)
{
    const char *why =
        "rounding allows no less: expect less by options.tolerance, take a larger "
        "ridge, or options.refine with an alpha of f64";

    g->call = p->call;
    if (r->reached)
        return GRAM_OK;
    if (minor != 0 && p->options.method == GRAM_KRR_CENTRES)
        return gram_fail(g, GRAM_NUMERICAL,
                         "the kernel matrix of the centres is not positive definite in f64: the "
                         "leading minor of order %d is not positive",
                         (int)minor);
    if (minor != 0)
        return gram_fail(g, GRAM_NUMERICAL,
                         "the kernel matrix plus a ridge of %g is not positive definite in f64: "
                         "the leading minor of order %d is not positive",
                         p->options.ridge, (int)minor);
    if (r->end == GRAM_KRR_INDEFINITE && p->options.method == GRAM_KRR_BLOCKS)
        return gram_fail(g, GRAM_NUMERICAL,
                         "the kernel matrix of a block plus a ridge of %g is not positive definite "
                         "in f64; the relative residual is %.3g",
                         p->options.ridge, r->residual);
    if (r->end == GRAM_KRR_INDEFINITE)
        return gram_fail(g, GRAM_NUMERICAL,
                         "the kernel matrix plus a ridge of %g is not positive definite: p^T A p "
                         "is %.3g for a direction p; the relative residual is %.3g after %lld "
                         "products",
                         p->options.ridge, last->curvature, r->residual, (long long)r->products);
    if (r->end == GRAM_KRR_ROUNDING && p->options.method != GRAM_KRR_CENTRES &&
        gram_krr_singular_ridge(p) > 0)
        return gram_fail(
            g, GRAM_NUMERICAL,
            "the relative residual is %.3g after %lld products: the kernel matrix plus "
            "a ridge of %g is singular to working precision, so take a ridge of at "
            "least %.2g%s",
            r->residual, (long long)r->products, p->options.ridge, gram_krr_singular_ridge(p),
            p->dtype == GRAM_F32 && !p->options.refine ? ", or options.refine with an alpha of f64"
                                                       : "");
    if (r->end == GRAM_KRR_PRODUCTS)
        why = "options.products are used up";
    if (r->end == GRAM_KRR_TIME)
        why = "options.time_limit is over";
    return gram_fail(g, GRAM_NUMERICAL, "the relative residual is %.3g after %lld products: %s",
                     r->residual, (long long)r->products, why);
}

static void no_answer(struct krr_problem *p, gram_krr_report *report)
{
    for (int64_t i = 0; i < p->unknowns * p->columns; i++)
        p->alpha[i] = NAN;
    report->end = GRAM_KRR_INDEFINITE;
    report->residual = report->residual_rms = NAN;
    report->prediction_rms = report->prediction_sup = NAN;
}

/* Tries both methods as the options say; minor is not 0 where Cholesky's had to be the last. */
static gram_status run(gram_context *g, struct krr_problem *p, gram_krr_report *report,
                       struct krr_cg_report *last, int32_t *minor)
{
    gram_krr_method method = p->options.method;
    bool dense =
        method == GRAM_KRR_CHOLESKY || (method == GRAM_KRR_AUTO && p->n <= gram_krr_dense_rows(g));

    report->method = dense ? GRAM_KRR_CHOLESKY : GRAM_KRR_CG;
    if (method == GRAM_KRR_CENTRES) {
        report->method = method;
        report->rank = p->unknowns;
    }
    if (p->n == 0 || p->columns == 0 || p->unknowns == 0)
        return GRAM_OK;
    if (method == GRAM_KRR_CENTRES) {
        TRY(gram_krr_checkpoint_open(g, p));
        return gram_krr_centres(g, p, report, last, minor);
    }
    if (method == GRAM_KRR_BLOCKS) {
        report->method = method;
        TRY(gram_krr_checkpoint_open(g, p));
        return gram_krr_blocks(g, p, last);
    }
    if (dense) {
        TRY(solve_dense(g, p, minor));
        if (*minor != 0 && method == GRAM_KRR_CHOLESKY)
            return GRAM_OK;
        dense = *minor == 0;
        *minor = 0;
    }
    if (!dense)
        TRY(gram_krr_checkpoint_open(g, p));
    if (!p->keep.file)
        TRY(dense ? gram_krr_residual(g, p) : gram_krr_first_residual(g, p));
    if (dense)
        return GRAM_OK;
    report->method = GRAM_KRR_CG;
    return gram_krr_rounds(g, p, last, &report->rank);
}

static gram_status solve(gram_context *g, const struct krr_call *c, struct krr_problem *p,
                         gram_krr_report *report)
{
    struct krr_cg_report last = {.end = KRR_CG_STALLED};
    int32_t minor = 0;

    TRY(prepare(g, c, p));
    TRY(run(g, p, report, &last, &minor));
    report->products = p->products;
    report->reached = minor == 0 && gram_krr_excess(p) <= 1;
    report->end = report->reached ? GRAM_KRR_REACHED : gram_krr_end_of(&last);
    if (minor != 0)
        no_answer(p, report);
    else if (p->options.method != GRAM_KRR_CENTRES)
        gram_krr_bounds(p, report);
    TRY(gram_krr_put(g, &c->views[2], p->alpha));
    report->seconds = gram_seconds() - p->start;
    return verdict(g, p, report, &last, minor);
}

gram_status gram_krr_solve_whole(gram_context *g, struct krr_call *c,
                                 const gram_krr_options *options, struct krr_ranks *ranks)
{
    struct krr_problem p = {.start = gram_seconds(), .call = g->call, .ranks = ranks};
    gram_krr_report report = {0};
    gram_status status;
    bool answered;
    size_t size;

    TRY(gram_krr_describe(g, c, options, &p));
    status = solve(g, c, &p, &report);
    answered = status == GRAM_OK || status == GRAM_NUMERICAL;
    status = gram_krr_checkpoint_verdict(g, &p, status);
    gram_krr_close(g, &p);
    if (p.options.report && answered) {
        size = p.options.report->size;
        memcpy(p.options.report, &report, size < sizeof report ? size : sizeof report);
        p.options.report->size = size;
    }
    return status;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): alpha is written */
gram_status gram_krr_solve(gram_context *g, const gram_tensor *x, const gram_kernel_options *kernel,
                           const gram_tensor *y, const gram_krr_options *options,
                           gram_tensor *alpha)
{
    struct krr_call c = {.x = x, .y = y, .alpha = alpha, .kernel = kernel};
    gram_krr_options o = GRAM_KRR_OPTIONS_INIT;

    TRY(gram_begin(g, __func__));
    TRY(gram_options_copy(g, &o, sizeof o, options));
    if (o.communicator)
        return gram_call_ended(g, gram_krr_solve_ranks(g, &c, &o));
    return gram_call_ended(g, gram_krr_solve_whole(g, &c, options, NULL));
}

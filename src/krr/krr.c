/*
 * krr.c - arrays where a context computes, work on rows, the stored kernel matrix, and a solve
 *
 * A solve stores the kernel matrix, makes its preconditioner and iterates.
 *
 * SPDX-License-Identifier: MIT
 */
#include "krr.h"
#include "core/backend.h"
#include "krr_passes.h"
#include "krr_ranks.h"
#include <math.h>
#include <string.h>

/* ---- Arrays ---------------------------------------------------------------------------------- */

static bool on_host(const gram_context *g)
{
    return g->options.device.type == GRAM_CPU;
}

static gram_status wait(gram_context *g)
{
    return g->backend->synchronize ? g->backend->synchronize(g) : GRAM_OK;
}

gram_status gram_krr_allocate(gram_context *g, size_t bytes, struct krr_array *out)
{
    *out = (struct krr_array){.bytes = bytes ? bytes : 1, .own = true};
    if (!on_host(g))
        return g->backend->memory_allocate(g, out->bytes, &out->data);
    out->data = gram_alloc(g, out->bytes);
    return out->data ? GRAM_OK
                     : gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", out->bytes);
}

void gram_krr_free(gram_context *g, struct krr_array *a)
{
    if (a->own && a->data && on_host(g))
        gram_free(g, a->data, a->bytes);
    else if (a->own && a->data)
        g->backend->memory_free(g, a->data);
    *a = (struct krr_array){0};
}

gram_status gram_krr_store(gram_context *g, void *to, const void *host, size_t bytes)
{
    if (on_host(g)) {
        if (to != host)
            memcpy(to, host, bytes);
        return GRAM_OK;
    }
    if (bytes > 0)
        TRY(g->backend->memory_copy(g, to, host, bytes));
    return wait(g);
}

gram_status gram_krr_send(gram_context *g, const void *host, size_t bytes, struct krr_array *out)
{
    gram_status status;

    if (on_host(g)) {
        *out = (struct krr_array){.data = (void *)host, .bytes = bytes};
        return GRAM_OK;
    }
    TRY(gram_krr_allocate(g, bytes, out));
    status = gram_krr_store(g, out->data, host, bytes);
    if (status != GRAM_OK)
        gram_krr_free(g, out);
    return status;
}

gram_status gram_krr_fetch(gram_context *g, void *host, const void *from, size_t bytes)
{
    if (on_host(g)) {
        if (host != from)
            memcpy(host, from, bytes);
        return GRAM_OK;
    }
    if (bytes > 0)
        TRY(g->backend->memory_copy(g, host, from, bytes));
    return wait(g);
}

gram_status gram_krr_copy(gram_context *g, void *to, const void *from, size_t bytes)
{
    if (g->backend->memory_copy)
        return g->backend->memory_copy(g, to, from, bytes);
    memcpy(to, from, bytes);
    return GRAM_OK;
}

double gram_krr_mean(const double *v, int64_t n)
{
    double mean = 0;

    for (int64_t i = 0; i < n; i++)
        mean += v[i] / (double)n;
    return mean;
}

gram_tensor gram_krr_matrix(const gram_context *g, const void *data, int64_t rows, int64_t cols,
                            gram_dtype dtype)
{
    gram_tensor t = gram_matrix((void *)data, rows, cols, dtype);

    t.device = g->options.device;
    return t;
}

gram_tensor gram_krr_by_columns(const gram_context *g, const void *data, int64_t rows, int64_t cols,
                                gram_dtype dtype)
{
    gram_tensor t = gram_krr_matrix(g, data, rows, cols, dtype);

    t.stride[0] = 1;
    t.stride[1] = rows;
    return t;
}

/* ---- Work on rows ---------------------------------------------------------------------------- */

gram_status gram_krr_map(gram_context *g, const struct krr_map *op)
{
    return g->backend->krr->map(g, op);
}

gram_status gram_krr_gather(gram_context *g, const struct krr_gather *op)
{
    return g->backend->krr->gather(g, op);
}

gram_status gram_krr_combine(gram_context *g, const struct krr_combine *op)
{
    return g->backend->krr->combine(g, op);
}

size_t gram_krr_combine_bytes(const gram_context *g, int64_t rows, int64_t terms, int64_t outputs)
{
    const struct gram_krr_passes *passes = g->backend->krr;

    return passes->combine_bytes ? passes->combine_bytes(rows, terms, outputs) : 0;
}

gram_status gram_krr_add_diagonal(gram_context *g, const gram_tensor *matrix, const double *add)
{
    struct krr_diagonal op = {matrix->dtype, matrix->shape[0], matrix->data, NULL};
    struct krr_array there;
    gram_status status;

    TRY(gram_krr_send(g, add, (size_t)op.rows * sizeof *add, &there));
    op.add = there.data;
    status = g->backend->krr->add_diagonal(g, &op);
    gram_krr_free(g, &there);
    return status;
}

int64_t gram_krr_block_entries(const gram_context *g)
{
    return g->backend->krr->block_entries;
}

/* ---- Tensors of the caller's ----------------------------------------------------------------- */

gram_status gram_krr_check_symmetric(gram_context *g, const gram_kernel_options *kernel)
{
    if (kernel->metric && kernel->metric->kind == GRAM_DISTANCE_KULLBACK_LEIBLER)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "kernel.metric->kind is GRAM_DISTANCE_KULLBACK_LEIBLER, expected a "
                         "distance that is the same both ways");
    if (kernel->row_offset != kernel->column_offset)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "kernel.row_offset is %lld and kernel.column_offset is %lld, expected "
                         "equal offsets",
                         (long long)kernel->row_offset, (long long)kernel->column_offset);
    return GRAM_OK;
}

gram_status gram_krr_view(gram_context *g, const char *name, const gram_tensor *t,
                          enum gram_access access, struct gram_view *out)
{
    struct gram_batch batch = {.count = 1};
    const int dims = t ? (int)t->ndim : 0, core = dims == 1 ? 1 : 2;

    TRY(gram_batch_join(g, &batch, name, t, core));
    if (batch.ndim > 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "%s has %d dimensions, expected 1 or 2", name,
                         dims);
    TRY(gram_view_of(g, &batch, name, t, core, access, out));
    if (core == 1)
        gram_view_transpose(out);
    return g->backend->check_pointer ? g->backend->check_pointer(g, name, out) : GRAM_OK;
}

gram_status gram_krr_pack(gram_context *g, const struct gram_view *v, bool by_columns, void *to)
{
    const struct krr_move op = {
        .dtype = v->dtype,
        .rows = v->rows,
        .columns = v->cols,
        .to = to,
        .from = v->data,
        .to_stride = {by_columns ? 1 : v->cols, by_columns ? v->rows : 1},
        .from_stride = {           v->row_stride,            v->col_stride}
    };

    return v->rows > 0 && v->cols > 0 ? g->backend->krr->move(g, &op) : GRAM_OK;
}

gram_status gram_krr_unpack(gram_context *g, const struct gram_view *v, const void *from)
{
    const struct krr_move op = {
        .dtype = v->dtype,
        .rows = v->rows,
        .columns = v->cols,
        .to = v->data,
        .from = from,
        .to_stride = {v->row_stride, v->col_stride},
        .from_stride = {            1,       v->rows}
    };

    return v->rows > 0 && v->cols > 0 ? g->backend->krr->move(g, &op) : GRAM_OK;
}

gram_status gram_krr_kernel_multiply(gram_context *g, void *user, int64_t columns, const void *v,
                                     void *out)
{
    const struct krr_kernel *k = user;
    const int64_t n = k->x->shape[0];
    const gram_dtype dtype = k->x->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;
    const bool widens = g->backend->krr->wide_product && dtype != GRAM_F64;
    gram_tensor from = gram_krr_by_columns(g, v, n, columns, dtype);
    gram_tensor to = gram_krr_by_columns(g, widens ? k->narrow : out, n, columns, dtype);

    TRY(k->ranks ? gram_krr_ranks_multiply(g, k->ranks, k, &from, &to)
                 : gram_kernel_matmul(g, k->x, NULL, k->kernel, &from, NULL, &to));
    g->call = k->call;
    return widens ? g->backend->krr->widen(g, dtype, n * columns, to.data, out) : GRAM_OK;
}

void gram_krr_add_ridge(gram_dtype dtype, int64_t n, int64_t columns, const double *ridge,
                        const void *v, void *out)
{
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < n; i++) {
            int64_t at = j * n + i;
            krr_set_element(dtype, out, at,
                            krr_element(dtype, out, at) + ridge[i] * krr_element(dtype, v, at));
        }
}

/* ---- The matrix ------------------------------------------------------------------------------ */

/* Sizes of a matrix that is stored as the device wants it. */
static struct krr_matrix matrix_of(const gram_context *g, int64_t n, gram_dtype dtype)
{
    const struct gram_krr_passes *passes = g->backend->krr;
    struct krr_matrix k = {.n = n, .dtype = dtype, .size = n};

    if (passes->block_rows > 0)
        k.size = gram_least(n, passes->block_rows);
    k.ld = k.size + passes->pad_bytes / (int64_t)gram_dtype_size(dtype);
    k.count = gram_ceil_div(n, k.size > 0 ? k.size : 1);
    return k;
}

static size_t block_bytes(const struct krr_matrix *k)
{
    return gram_round64((size_t)(k->count * (k->count + 1) / 2 * k->size * k->ld) *
                        gram_dtype_size(k->dtype));
}

static size_t matrix_bytes(const gram_context *g, const struct krr_matrix *k)
{
    const struct gram_krr_passes *passes = g->backend->krr;

    return block_bytes(k) + (passes->multiply_bytes ? passes->multiply_bytes(k->n) : 0);
}

/* Rows [first, first + count) of a row-major matrix. */
static gram_tensor rows_view(const gram_tensor *x, int64_t first, int64_t count)
{
    gram_tensor rows = *x;

    rows.data = (char *)x->data + (size_t)(first * x->stride[0]) * gram_dtype_size(x->dtype);
    rows.shape[0] = count;
    return rows;
}

gram_status gram_krr_matrix_create(gram_context *g, const gram_tensor *x,
                                   const gram_kernel_options *kernel, struct krr_matrix *out)
{
    struct krr_matrix k = matrix_of(g, x->shape[0], x->dtype);
    bool whole = g->backend->krr->block_rows == 0;

    TRY(gram_krr_allocate(g, matrix_bytes(g, &k), &k.memory));
    k.extra = (char *)k.memory.data + block_bytes(&k);
    *out = k;
    for (int64_t i = 0; i < k.count; i++)
        for (int64_t j = 0; j <= i; j++) {
            gram_tensor xi = rows_view(x, i * k.size, krr_block_rows(&k, i));
            gram_tensor xj = rows_view(x, j * k.size, krr_block_rows(&k, j));
            gram_tensor block =
                gram_krr_matrix(g, krr_block(&k, i, j), xi.shape[0], xj.shape[0], k.dtype);
            block.stride[0] = k.ld;
            TRY(gram_kernel(g, &xi, whole ? NULL : &xj, kernel, &block));
            if (gram_cancelled(g))
                return gram_fail(g, GRAM_CANCELLED, "cancelled");
        }
    return GRAM_OK;
}

/* ---- The solve of a machine ------------------------------------------------------------------ */

enum {
    MACHINE_ITERATIONS = 300, /* of a machine's solve, in all rounds */
    MACHINE_ROUNDS = 4
};

static gram_status multiply_stored(gram_context *g, void *user, int64_t columns, const void *v,
                                   void *out)
{
    const struct krr_iteration *it = user;
    const struct krr_product op = {
        .k = it->k, .ridge = it->ridge, .columns = columns, .v = v, .product = out};

    if (!it->kernel)
        return g->backend->krr->multiply(g, &op);
    TRY(gram_krr_kernel_multiply(g, it->kernel, columns, v, out));
    if (!g->backend->krr->wide_product)
        gram_krr_add_ridge(it->k->dtype, it->k->n, columns, it->ridge, v, out);
    return GRAM_OK;
}

static gram_status precondition_stored(gram_context *g, void *user, int64_t columns, const void *v,
                                       void *out)
{
    struct krr_preconditioner p = *(const struct krr_preconditioner *)user;

    p.columns = columns;
    return p.ranks ? gram_krr_ranks_apply(g, &p, columns, v, out)
                   : g->backend->krr->apply(g, &p, v, out);
}

size_t gram_krr_iterate_bytes(const gram_context *g, int64_t n, int64_t columns, gram_dtype dtype)
{
    return gram_krr_cg_bytes(g, n, columns, dtype);
}

gram_status gram_krr_iterate(gram_context *g, const struct krr_iteration *it,
                             struct krr_report *report)
{
    const struct krr_cg cg = {.dtype = it->k->dtype,
                              .n = it->k->n,
                              .columns = it->columns,
                              .multiply = multiply_stored,
                              .matrix = (void *)it,
                              .precondition = precondition_stored,
                              .preconditioner = (void *)it->p,
                              .ridge = it->ridge,
                              .b = it->b,
                              .x = it->x,
                              .tolerance = it->tolerance,
                              .iterations = MACHINE_ITERATIONS,
                              .rounds = it->look ? 0 : MACHINE_ROUNDS,
                              .warm = it->warm,
                              .check = KRR_CG_CHECK,
                              .seconds = INFINITY,
                              .lenient = true,
                              .ranks = it->kernel ? it->kernel->ranks : NULL};
    struct krr_cg_report found;

    TRY(gram_krr_cg(g, &cg, &found));
    report->residual = found.residual;
    report->iterations = (int)found.iterations;
    return GRAM_OK;
}

/* ---- Solves ---------------------------------------------------------------------------------- */

int64_t gram_krr_dense_rows(const gram_context *g)
{
    return g->backend->krr->dense_rows;
}

size_t gram_krr_stored_bytes(const gram_context *g, int64_t n, int64_t columns, gram_dtype dtype)
{
    struct krr_matrix k = matrix_of(g, n, dtype);

    return matrix_bytes(g, &k) + gram_krr_preconditioner_bytes(g, n, columns, dtype) +
           gram_krr_iterate_bytes(g, n, columns, dtype);
}

size_t gram_krr_products_bytes(const gram_context *g, int64_t n, int64_t columns, gram_dtype dtype)
{
    const size_t narrow = g->backend->krr->wide_product ? sizeof(double) : 0;

    return (size_t)(n * columns) * narrow + gram_krr_preconditioner_bytes(g, n, columns, dtype) +
           gram_krr_iterate_bytes(g, n, columns, dtype);
}

/* What a solve has where the context computes. */
struct solve {
    struct krr_matrix k;
    struct krr_kernel kernel; /* where K is not stored */
    bool stored;
    struct krr_preconditioner p;
    struct krr_array ridge, b, narrow;
};

gram_status gram_krr_is_stored(gram_context *g, const struct krr_system *s, bool *stored)
{
    const struct krr_matrix k = matrix_of(g, s->x.shape[0], s->x.dtype);
    double room = s->memory;
    int64_t available;

    *stored = false;
    if (s->ranks) /* each of which would hold all of it */
        return GRAM_OK;
    if (room == 0) {
        TRY(gram_memory_available(g, &available));
        room = 0.8 * (double)available;
    }
    *stored = (double)matrix_bytes(g, &k) <= room;
    return GRAM_OK;
}

/* Products with K that is not stored. */
static gram_status prepare_products(gram_context *g, const struct krr_system *s, struct solve *w)
{
    const int64_t n = s->x.shape[0];

    w->k = matrix_of(g, n, s->x.dtype);
    w->kernel =
        (struct krr_kernel){.x = &s->x, .kernel = s->kernel, .call = g->call, .ranks = s->ranks};
    if (g->backend->krr->wide_product && s->x.dtype != GRAM_F64)
        TRY(gram_krr_allocate(g, (size_t)(n * s->columns) * gram_dtype_size(s->x.dtype),
                              &w->narrow));
    w->kernel.narrow = w->narrow.data;
    return GRAM_OK;
}

static gram_status prepare(gram_context *g, const struct krr_system *s, struct solve *w)
{
    int64_t n = s->x.shape[0];

    TRY(gram_krr_send(g, s->ridge, (size_t)n * sizeof *s->ridge, &w->ridge));
    TRY(gram_krr_send(g, s->b, (size_t)(n * s->columns) * gram_dtype_size(s->x.dtype), &w->b));
    TRY(gram_krr_is_stored(g, s, &w->stored));
    if (!w->stored)
        return prepare_products(g, s, w);
    TRY(gram_krr_matrix_create(g, &s->x, s->kernel, &w->k));
    return wait(g); /* for the clock */
}

static gram_status iterate(gram_context *g, const struct krr_system *s, struct solve *w, void *out,
                           struct krr_report *report)
{
    struct krr_iteration it = {.k = &w->k,
                               .kernel = w->stored ? NULL : &w->kernel,
                               .p = &w->p,
                               .ridge = w->ridge.data,
                               .columns = s->columns,
                               .tolerance = s->tolerance,
                               .warm = s->warm,
                               .look = s->warm,
                               .b = w->b.data,
                               .x = out};

    if (s->warm) { /* a guess that is good enough needs no preconditioner */
        TRY(gram_krr_iterate(g, &it, report));
        if (report->residual <= s->tolerance)
            return GRAM_OK;
        it.look = false;
    }
    TRY(gram_krr_precondition(g, s, gram_krr_mean(s->ridge, s->x.shape[0]), &w->p));
    return gram_krr_iterate(g, &it, report);
}

gram_status gram_krr_stored_solve(gram_context *g, const struct krr_system *s, void *out,
                                  struct krr_report *report)
{
    struct solve w = {0};
    double start = gram_seconds();
    gram_status status = prepare(g, s, &w);

    *report = (struct krr_report){.kernel_seconds = gram_seconds() - start};
    start = gram_seconds();
    if (status == GRAM_OK)
        status = iterate(g, s, &w, out, report);
    report->solve_seconds = gram_seconds() - start;
    report->stored = w.stored;
    gram_krr_preconditioner_destroy(g, &w.p);
    gram_krr_free(g, &w.k.memory);
    gram_krr_free(g, &w.narrow);
    gram_krr_free(g, &w.b);
    gram_krr_free(g, &w.ridge);
    return status;
}

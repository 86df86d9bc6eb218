/*
 * krr_rows.c - points of gram_krr_solve that are read in blocks, in the place of x (gram_rows), and
 * the centres that are drawn of either
 *
 * A block passes through a buffer of the host to where the context computes.  Nothing of n by d is
 * kept: what the centres need of all rows is K_mn f(K_nm v), which is a sum over blocks.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/backend.h"
#include "core/random.h"
#include "krr_solve.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_BYTES = 1 << 23, /* of a block in f64: long against a call, short against memory */
    PAIR_BYTES = 1 << 26,  /* the same for CG, which reads all rows once for each block */
    LEAST_BLOCK = 256
};

/* Four blocks lie in memory at a time, and more of them where a block is less. */
static int64_t block_bytes(const struct krr_problem *p)
{
    const int64_t memory = p->options.memory;

    if (p->options.method == GRAM_KRR_CENTRES)
        return BLOCK_BYTES;
    return memory > 0 ? gram_least(memory / 8, PAIR_BYTES) : PAIR_BYTES;
}

gram_status gram_krr_rows_check(gram_context *g, const gram_rows *given, gram_rows *out)
{
    *out = (gram_rows)GRAM_ROWS_INIT;
    TRY(gram_struct_copy(g, "options.rows->", out, sizeof *out, given));
    if (out->rows < 0 || out->columns < 0)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.rows is of %lld rows and %lld columns, expected 0 or more",
                         (long long)out->rows, (long long)out->columns);
    if (out->dtype != GRAM_F32 && out->dtype != GRAM_F64)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.rows->dtype is %d, expected GRAM_F32 or GRAM_F64",
                         (int)out->dtype);
    if (!out->read)
        return gram_fail(g, GRAM_INVALID_ARGUMENT, "options.rows->read is NULL");
    return GRAM_OK;
}

gram_status gram_krr_rows_open(gram_context *g, struct krr_problem *p)
{
    const int64_t row = gram_most(p->width, 1) * (int64_t)sizeof(double);
    size_t bytes;

    p->block = gram_least(gram_most(block_bytes(p) / row, LEAST_BLOCK), gram_most(p->n, 1));
    bytes = (size_t)(p->block * row);
    p->narrow_rows = gram_alloc(g, bytes);
    p->wide_rows = gram_alloc(g, bytes);
    if (!p->narrow_rows || !p->wide_rows)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", 2 * bytes);
    return GRAM_OK;
}

void gram_krr_rows_close(gram_context *g, struct krr_problem *p)
{
    const size_t bytes = (size_t)(p->block * gram_most(p->width, 1)) * sizeof(double);

    gram_free(g, p->narrow_rows, bytes);
    gram_free(g, p->wide_rows, bytes);
    p->narrow_rows = p->wide_rows = NULL;
}

gram_status gram_krr_rows_read(gram_context *g, struct krr_problem *p, int64_t first, int64_t count,
                               void *out)
{
    char message[GRAM_ROWS_MESSAGE] = "";

    if (count == 0 || p->rows.read(p->rows.user, first, count, out, message) == 0)
        return gram_cancelled(g) ? gram_fail(g, GRAM_CANCELLED, "cancelled") : GRAM_OK;
    message[sizeof message - 1] = '\0';
    return gram_fail(g, GRAM_IO, "options.rows cannot read the rows %lld to %lld: %s",
                     (long long)first, (long long)(first + count - 1),
                     *message ? message : "it does not say why");
}

const double *gram_krr_rows_widen(const struct krr_problem *p, int64_t count)
{
    if (p->dtype == GRAM_F64)
        return p->narrow_rows;
    for (int64_t i = 0; i < count * p->width; i++)
        p->wide_rows[i] = krr_element(p->dtype, p->narrow_rows, i);
    return p->wide_rows;
}

/* Each row adds to the hash as it does in identify(). */
static gram_status check_block(gram_context *g, struct krr_problem *p, int64_t first, int64_t count,
                               const double *wide)
{
    const size_t row = (size_t)p->width * gram_dtype_size(p->dtype);

    for (int64_t i = 0; i < count; i++) {
        p->keep.x = gram_krr_hash(p->keep.x, (const char *)p->narrow_rows + (size_t)i * row, row);
        for (int64_t j = 0; j < p->width; j++)
            if (!isfinite(wide[i * p->width + j]))
                return gram_fail(g, GRAM_INVALID_ARGUMENT,
                                 "x[%lld, %lld] is %g, expected a finite number",
                                 (long long)(first + i), (long long)j, wide[i * p->width + j]);
    }
    return GRAM_OK;
}

gram_status gram_krr_rows_scan(gram_context *g, struct krr_problem *p, krr_rows_scan *take)
{
    p->keep.x = gram_krr_hash_begin(p);
    for (int64_t first = 0; first < p->n; first += p->block) {
        const int64_t count = gram_least(p->block, p->n - first);
        const double *wide;
        struct krr_array there = {0};
        gram_status status;

        TRY(gram_krr_rows_read(g, p, first, count, p->narrow_rows));
        wide = gram_krr_rows_widen(p, count);
        TRY(check_block(g, p, first, count, wide));
        TRY(gram_krr_send(g, wide, (size_t)(count * p->width) * sizeof(double), &there));
        status = take(g, p, first, count, there.data);
        gram_krr_free(g, &there);
        TRY(status);
    }
    return GRAM_OK;
}

/* The rows of these numbers, to the host. */
static gram_status read_some(gram_context *g, struct krr_problem *p, const int64_t *row,
                             int64_t count, void *out)
{
    const size_t bytes = (size_t)p->width * gram_dtype_size(p->dtype);

    for (int64_t i = 0; i < count; i++)
        TRY(gram_krr_rows_read(g, p, row[i], 1, (char *)out + (size_t)i * bytes));
    return GRAM_OK;
}

gram_status gram_krr_rows_load(gram_context *g, struct krr_problem *p, const int64_t *row,
                               int64_t count, void *out)
{
    const size_t bytes = (size_t)(count * p->width) * gram_dtype_size(p->dtype);
    void *here = gram_alloc(g, bytes ? bytes : 1);
    gram_status status;

    if (!here)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    status = read_some(g, p, row, count, here);
    if (status == GRAM_OK)
        status = gram_krr_store(g, out, here, bytes);
    gram_free(g, here, bytes ? bytes : 1);
    return status;
}

/* ---- Centres --------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
    const int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;

    return (one > other) - (one < other);
}

/* Different rows of x in ascending order, all alike. */
static void draw(const struct krr_problem *p, int64_t *rows)
{
    uint64_t state = p->options.seed;

    for (int64_t i = 0; i < p->n; i++)
        rows[i] = i;
    for (int64_t i = 0; i < p->unknowns; i++) {
        int64_t other = i + (int64_t)(gram_random_unit(&state) * (double)(p->n - i)),
                kept = rows[i];

        rows[i] = rows[other];
        rows[other] = kept;
    }
    qsort(rows, (size_t)p->unknowns, sizeof *rows, by_number);
}

/* The centres that were drawn, and their numbers for the caller. */
static gram_status gather_centres(gram_context *g, struct krr_problem *p, const int64_t *rows)
{
    size_t bytes = (size_t)p->unknowns * sizeof *rows;
    struct krr_gather op = {.dtype = p->dtype,
                            .count = p->unknowns,
                            .width = p->width,
                            .x = p->x.data,
                            .out = p->centres.data};
    struct krr_array there = {0};
    gram_status status;

    if (p->rows.read) {
        status = gram_krr_rows_load(g, p, rows, p->unknowns, p->centres.data);
    } else {
        TRY(gram_krr_send(g, rows, bytes, &there));
        op.index = there.data;
        status = gram_krr_gather(g, &op);
        if (status == GRAM_OK && g->backend->synchronize)
            status = g->backend->synchronize(g);
        gram_krr_free(g, &there);
    }
    if (status == GRAM_OK && p->options.chosen)
        status = gram_krr_store(g, p->options.chosen->data, rows, bytes);
    return status;
}

gram_status gram_krr_draw_centres(gram_context *g, struct krr_problem *p)
{
    const size_t bytes = (size_t)p->n * sizeof(int64_t);
    gram_status status;
    int64_t *rows;

    TRY(gram_krr_allocate(g, (size_t)(p->unknowns * p->width) * gram_dtype_size(p->dtype),
                          &p->centres));
    rows = gram_alloc(g, bytes ? bytes : 1);
    if (!rows)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", bytes);
    draw(p, rows);
    status = gather_centres(g, p, rows);
    gram_free(g, rows, bytes ? bytes : 1);
    return status;
}

/* ---- Products -------------------------------------------------------------------------------- */

/* What a pass works with, where the context computes but for `here`. */
struct pass {
    const struct krr_rows_pass *of;
    gram_dtype dtype;
    struct krr_array u, h; /* block by columns; m by columns */
    void *here;            /* the larger of both, on the host */
    size_t bytes;
};

/* u = W u, or W (y - u); count rows by columns. */
static void between(const struct krr_problem *p, const struct krr_rows_pass *of, int64_t first,
                    int64_t count, void *u)
{
    const gram_dtype dtype = of->wide ? GRAM_F64 : p->dtype;

    if (!of->norm_u && !p->options.weights)
        return;
    for (int64_t j = 0; j < of->columns; j++)
        for (int64_t i = 0; i < count; i++) {
            double value = krr_element(dtype, u, j * count + i);

            if (of->norm_u)
                value = p->y[j * p->n + first + i] - value;
            value *= p->ridge[first + i]; /* the weight */
            krr_set_element(dtype, u, j * count + i, value);
            if (of->norm_u)
                of->norm_u[j] += value * value;
        }
}

static gram_status block(gram_context *g, struct krr_problem *p, struct pass *w, int64_t first,
                         int64_t count)
{
    const bool wide = w->of->wide;
    const int64_t m = p->unknowns, columns = w->of->columns;
    const size_t size = gram_dtype_size(w->dtype), bytes = (size_t)(count * columns) * size;
    const gram_kernel_options *kernel = wide ? &p->wide_kernel : &p->kernel;
    const void *rows = wide ? (const void *)gram_krr_rows_widen(p, count) : p->narrow_rows;
    const gram_tensor centres =
        gram_krr_matrix(g, wide ? p->wide_centres.data : p->centres.data, m, p->width, w->dtype);
    const gram_tensor v = gram_krr_by_columns(g, w->of->v, m, columns, w->dtype);
    gram_tensor u = gram_krr_by_columns(g, w->u.data, count, columns, w->dtype);
    gram_tensor h = gram_krr_by_columns(g, w->h.data, m, columns, w->dtype), x;
    struct krr_array there = {0};
    gram_status status;

    TRY(gram_krr_send(g, rows, (size_t)(count * p->width) * size, &there));
    x = gram_krr_matrix(g, there.data, count, p->width, w->dtype);
    status = gram_kernel_matmul(g, &x, &centres, kernel, &v, NULL, &u);
    if (status == GRAM_OK)
        status = gram_krr_fetch(g, w->here, w->u.data, bytes);
    if (status == GRAM_OK) {
        between(p, w->of, first, count, w->here);
        status = gram_krr_store(g, w->u.data, w->here, bytes);
    }
    if (status == GRAM_OK)
        status = gram_kernel_matmul(g, &centres, &x, kernel, &u, NULL, &h);
    if (status == GRAM_OK)
        status = gram_krr_fetch(g, w->here, w->h.data, (size_t)(m * columns) * size);
    gram_krr_free(g, &there);
    g->call = p->call;
    for (int64_t i = 0; i < m * columns && status == GRAM_OK; i++)
        w->of->out[i] += krr_element(w->dtype, w->here, i);
    return status;
}

gram_status gram_krr_rows_product(gram_context *g, struct krr_problem *p,
                                  const struct krr_rows_pass *of)
{
    struct pass w = {.of = of, .dtype = of->wide ? GRAM_F64 : p->dtype};
    const int64_t m = p->unknowns * of->columns, most = gram_most(p->block * of->columns, m);
    const size_t size = gram_dtype_size(w.dtype);
    gram_status status;

    p->products += 2;
    memset(of->out, 0, (size_t)m * sizeof *of->out);
    for (int64_t j = 0; of->norm_u && j < of->columns; j++)
        of->norm_u[j] = 0;
    w.bytes = (size_t)most * size;
    w.here = gram_alloc(g, w.bytes);
    if (!w.here)
        return gram_fail(g, GRAM_OUT_OF_MEMORY, "cannot allocate %zu bytes", w.bytes);
    status = gram_krr_allocate(g, (size_t)(p->block * of->columns) * size, &w.u);
    if (status == GRAM_OK)
        status = gram_krr_allocate(g, (size_t)m * size, &w.h);
    for (int64_t first = 0; first < p->n && status == GRAM_OK; first += p->block) {
        const int64_t count = gram_least(p->block, p->n - first);

        status = gram_krr_rows_read(g, p, first, count, p->narrow_rows);
        if (status == GRAM_OK)
            status = block(g, p, &w, first, count);
    }
    for (int64_t j = 0; of->norm_u && j < of->columns; j++)
        of->norm_u[j] = sqrt(of->norm_u[j]);
    gram_krr_free(g, &w.h);
    gram_krr_free(g, &w.u);
    gram_free(g, w.here, w.bytes);
    return status;
}

/*
 * matrix.c - numeric arrays of the commands: reading, conversion, room for results
 *
 * SPDX-License-Identifier: MIT
 */
#include "device.h"
#include "load.h"
#include "metrics.h"
#include "npy.h"
#include "parquet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gram_dtype wanted_dtype(enum dtype_choice choice, gram_dtype natural)
{
    return choice == DTYPE_F32 ? GRAM_F32 : choice == DTYPE_F64 ? GRAM_F64 : natural;
}

enum exit_status matrix_allocate(struct matrix *m, gram_dtype dtype, int ndim, const int64_t *shape,
                                 struct failure *why)
{
    int64_t count = 1, bytes = 0;
    int overflow = 0, empty = 0;

    m->t = (gram_tensor){.dtype = dtype, .ndim = ndim};
    for (int d = ndim - 1; d >= 0; d--) {
        m->t.shape[d] = shape[d];
        m->t.stride[d] = count;
        empty |= shape[d] == 0;
        overflow |= __builtin_mul_overflow(count, shape[d] > 1 ? shape[d] : 1, &count);
    }
    overflow |= __builtin_mul_overflow(count, (int64_t)gram_dtype_size(dtype), &bytes);
    bytes = empty ? 0 : bytes;
    if (!overflow || empty)
        m->memory = aligned_alloc(64, ((size_t)bytes + 64) / 64 * 64);
    m->t.data = m->memory;
    if (m->memory)
        return CLI_OK;
    return fail(why, CLI_NO_MEMORY, "out of memory for a matrix of %lld by %lld",
                (long long)(ndim > 1 ? shape[ndim - 2] : 1),
                (long long)(ndim > 0 ? shape[ndim - 1] : 1));
}

int64_t matrix_count(const struct matrix *m)
{
    int64_t count = 1;

    for (int d = 0; d < m->t.ndim; d++)
        count *= m->t.shape[d];
    return count;
}

const char *matrix_name(char name[MATRIX_NAME_BYTES], int64_t item, int64_t items)
{
    if (items <= 1)
        return "the matrix";
    snprintf(name, MATRIX_NAME_BYTES, "matrix %lld of the batch", (long long)item);
    return name;
}

static void put(const gram_tensor *t, int64_t i, double value)
{
    if (t->dtype == GRAM_F32)
        ((float *)t->data)[i] = (float)value;
    else
        ((double *)t->data)[i] = value;
}

static gram_dtype natural_dtype(const struct npy *a)
{
    return a->type == NPY_F16 ? GRAM_F16 : a->type == NPY_F32 ? GRAM_F32 : GRAM_F64;
}

/* Takes over the array's memory if its elements can stay as they are. */
static enum exit_status matrix_from_npy(struct npy *a, enum dtype_choice choice, struct matrix *out,
                                        struct failure *why)
{
    gram_dtype dtype = wanted_dtype(choice, natural_dtype(a));
    int64_t stride = 1;

    if ((dtype == natural_dtype(a)) && (dtype != GRAM_F64 || a->type == NPY_F64)) {
        out->t = (gram_tensor){.data = a->data, .dtype = dtype, .ndim = a->ndim};
        memcpy(out->t.shape, a->shape, sizeof a->shape);
        out->memory = a->data;
        a->data = NULL;
    } else {
        TRY(matrix_allocate(out, dtype, a->ndim, a->shape, why));
        for (int64_t i = 0; i < a->count; i++)
            put(&out->t, i, npy_get(a, i));
    }
    for (int i = 0; i < a->ndim; i++) {
        int d = a->fortran ? i : a->ndim - 1 - i;
        out->t.stride[d] = stride;
        stride *= a->shape[d] > 1 ? a->shape[d] : 1;
    }
    return CLI_OK;
}

static enum exit_status matrix_from_table(struct table *t, enum dtype_choice choice,
                                          struct matrix *out, struct failure *why)
{
    const int64_t shape[2] = {t->rows, t->width};

    TRY(matrix_allocate(out, wanted_dtype(choice, GRAM_F64), 2, shape, why));
    for (int64_t c = 0; c < t->width; c++) {
        for (int64_t row = 0; row < t->rows; row++)
            put(&out->t, row * t->width + c, t->columns[c].numbers[row]);
        free(t->columns[c].numbers);
        t->columns[c].numbers = NULL;
    }
    return CLI_OK;
}

static enum column_kind always_number(const void *user, const char *name)
{
    (void)user;
    (void)name;
    return COLUMN_NUMBER;
}

enum exit_status matrix_load_rows(const char *path, const struct input_settings *input,
                                  enum dtype_choice dtype, const struct parquet_rows *rows,
                                  struct matrix *out, struct failure *why)
{
    const struct csv_options options = {.comma = input->decimal == DECIMAL_COMMA,
                                        .kind = always_number};
    struct table table = {0};
    enum exit_status status;

    *out = (struct matrix){.memory = NULL};
    TRY(parquet_read_rows(path, &options, rows, &table, why));
    status = matrix_from_table(&table, dtype, out, why);
    table_free(&table);
    return status;
}

enum exit_status matrix_load(const char *path, const struct input_settings *input,
                             enum dtype_choice dtype, struct matrix *out, struct failure *why)
{
    const struct csv_options options = {.delimiter = input->delimiter,
                                        .comma = input->decimal == DECIMAL_COMMA,
                                        .header =
                                            input->no_header ? CSV_HEADER_NO : CSV_HEADER_AUTO,
                                        .kind = always_number};
    struct table table = {0};
    FILE *file;
    int is_npy;
    enum exit_status status;

    *out = (struct matrix){.memory = NULL};
    if (parquet_is(path))
        return matrix_load_rows(path, input, dtype, NULL, out, why);
    TRY(load_open(path, &file, &is_npy, why));
    if (is_npy) {
        struct npy array;
        status = npy_read_stream(file, text_name(path), &array, why);
        if (status == CLI_OK)
            status = matrix_from_npy(&array, dtype, out, why);
        free(array.data);
    } else {
        status = load_columns(file, path, &options, &table, why);
        if (status == CLI_OK)
            status = matrix_from_table(&table, dtype, out, why);
        table_free(&table);
    }
    text_close(file);
    return status;
}

enum exit_status matrix_check_square(const struct matrix *m, const char *path, struct failure *why)
{
    const int64_t *shape = m->t.shape;
    int ndim = m->t.ndim;

    if (ndim >= 2 && shape[ndim - 1] == shape[ndim - 2])
        return CLI_OK;
    return fail(why, CLI_BAD_DATA, "%s is %lld by %lld, expected a square matrix", text_name(path),
                (long long)(ndim > 1 ? shape[ndim - 2] : 1),
                (long long)(ndim > 0 ? shape[ndim - 1] : 1));
}

/* The order in memory does not change; strides are counted in elements. */
enum exit_status matrix_convert(struct matrix *m, gram_dtype dtype, struct failure *why)
{
    struct matrix converted;
    int64_t count = matrix_count(m);

    if (m->t.dtype == dtype)
        return CLI_OK;
    TRY(matrix_allocate(&converted, dtype, m->t.ndim, m->t.shape, why));
    for (int64_t i = 0; i < count; i++)
        put(&converted.t, i,
            m->t.dtype == GRAM_F32   ? (double)((float *)m->t.data)[i]
            : m->t.dtype == GRAM_F64 ? ((double *)m->t.data)[i]
                                     : npy_half(((uint16_t *)m->t.data)[i]));
    memcpy(converted.t.stride, m->t.stride, sizeof m->t.stride);
    matrix_free(m);
    *m = converted;
    return CLI_OK;
}

void matrix_free(struct matrix *m)
{
    free(m->memory);
    *m = (struct matrix){.memory = NULL};
}

/* ---- Results ------------------------------------------------------------------------------ */

enum exit_status matrix_common_dtype(struct matrix *a, struct matrix *b, struct failure *why)
{
    gram_dtype common = a->t.dtype == GRAM_F64 || b->t.dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32;

    if (a->t.dtype == b->t.dtype)
        return CLI_OK;
    TRY(matrix_convert(a, common, why));
    return matrix_convert(b, common, why);
}

enum exit_status matrix_result(const struct matrix *a, const struct matrix *b, int64_t rows,
                               int64_t cols, struct matrix *out, struct failure *why)
{
    int64_t shape[GRAM_MAX_DIMS];
    int ndim = a->t.ndim > b->t.ndim ? a->t.ndim : b->t.ndim;

    for (int d = 0; d < ndim - 2; d++) {
        int in_a = d - (ndim - a->t.ndim), in_b = d - (ndim - b->t.ndim);
        int64_t size_a = in_a < 0 ? 1 : a->t.shape[in_a], size_b = in_b < 0 ? 1 : b->t.shape[in_b];
        if (size_a != size_b && size_a != 1 && size_b != 1)
            return fail(why, CLI_BAD_DATA, "batches of %lld and %lld do not broadcast",
                        (long long)size_a, (long long)size_b);
        shape[d] = size_a == 1 ? size_b : size_a;
    }
    shape[ndim - 2] = rows;
    shape[ndim - 1] = cols;
    return matrix_allocate(out, a->t.dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32, ndim, shape, why);
}

/* ---- Pairs -------------------------------------------------------------------------------- */

static enum exit_status check_dimensions(const struct matrix *m, const char *path,
                                         struct failure *why)
{
    return m->t.ndim >= 2 ? CLI_OK
                          : fail(why, CLI_BAD_DATA, "%s has %d dimension%s, expected a matrix",
                                 text_name(path), m->t.ndim, m->t.ndim == 1 ? "" : "s");
}

static enum exit_status pair_load_one(const struct matrix_pair_job *job, const char *path,
                                      struct matrix *m, struct failure *why)
{
    const int dtype = job->metric->bits > 0 ? DTYPE_F32 : job->pair->dtype;

    TRY(matrix_load(path, &job->pair->input, (enum dtype_choice)dtype, m, why));
    TRY(check_dimensions(m, path, why));
    return metric_pack(job->metric, path, m, why);
}

static enum exit_status pair_load(const struct matrix_pair_job *job, int count, char *const *paths,
                                  struct matrix_pair *out, struct failure *why)
{
    *out = (struct matrix_pair){.two = count == 2};
    TRY(pair_load_one(job, paths[0], &out->x, why));
    if (!out->two)
        return CLI_OK;
    TRY(pair_load_one(job, paths[1], &out->y, why));
    int64_t x_cols = out->x.t.shape[out->x.t.ndim - 1], y_cols = out->y.t.shape[out->y.t.ndim - 1];
    if (x_cols != y_cols)
        return fail(why, CLI_BAD_DATA, "%s has %lld columns, but %s has %lld", text_name(paths[0]),
                    (long long)x_cols, text_name(paths[1]), (long long)y_cols);
    return matrix_common_dtype(&out->x, &out->y, why);
}

/* Room for one number for every row of x and every row of y. */
static enum exit_status pair_result(const struct matrix_pair *pair, struct matrix *out,
                                    struct failure *why)
{
    const struct matrix *x = &pair->x, *y = pair->two ? &pair->y : x;

    return matrix_result(x, y, x->t.shape[x->t.ndim - 2], y->t.shape[y->t.ndim - 2], out, why);
}

/* Where the context computes. */
static enum exit_status compute_there(gram_context *g, const struct matrix_pair_job *job,
                                      const struct matrix_pair *pair, struct matrix *out,
                                      struct failure *why)
{
    struct device_matrix x = {.memory = NULL}, y = x, result = x;
    enum exit_status status = device_matrix_send(g, &pair->x, &x, why);

    if (status == CLI_OK && pair->two)
        status = device_matrix_send(g, &pair->y, &y, why);
    if (status == CLI_OK)
        status = device_matrix_result(g, out, &result, why);
    if (status == CLI_OK)
        status = job->compute(g, job->settings, &x.t, pair->two ? &y.t : NULL, &result.t, why);
    if (status == CLI_OK)
        status = device_matrix_fetch(g, &result, out, why);
    device_matrix_free(g, &x);
    device_matrix_free(g, &y);
    device_matrix_free(g, &result);
    return status;
}

static enum exit_status pair_compute(const struct matrix_pair_job *job,
                                     const struct matrix_pair *pair, struct matrix *out,
                                     struct failure *why)
{
    enum exit_status status;
    gram_context *g;

    TRY(open_context(&job->pair->common, &g, why));
    status = compute_there(g, job, pair, out, why);
    gram_context_destroy(g);
    return status;
}

enum exit_status matrix_pair_run(const struct matrix_pair_job *job, int count, char *const *paths,
                                 struct failure *why)
{
    struct matrix_pair pair;
    struct matrix out = {.memory = NULL};
    enum exit_status status = pair_load(job, count, paths, &pair, why);

    if (status == CLI_OK)
        status = pair_result(&pair, &out, why);
    if (status == CLI_OK)
        status = pair_compute(job, &pair, &out, why);
    if (status == CLI_OK)
        status = matrix_save(&out, &job->pair->output, why);
    matrix_free(&pair.x);
    matrix_free(&pair.y);
    matrix_free(&out);
    return status;
}

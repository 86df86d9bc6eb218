/*
 * cpu_krylov_symmetric.c - products of a stored symmetric matrix with a few vectors
 *
 * The matrix is cut into square blocks on one side of its diagonal; each is read from memory once
 * and used twice, as itself and transposed (symmetric_tile.h), so a product moves half the matrix.
 * Blocks are dealt to a fixed number of parts with a sum of their own each, which are added up at
 * the end: the same result for any number of threads.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_krylov.h"
#include <math.h>
#include <string.h>

enum {
    EDGE = 256 /* of a block: x and y of its columns take 32 KiB */
};

/* Scratch: the vectors in rows of 64 bytes; of each part, a sum like them, and a block with its
 * transpose's product. */
static size_t rows_bytes(int64_t n)
{
    return (size_t)n * SYMMETRIC_ROW_BYTES;
}

static size_t block_bytes(gram_dtype dtype, int64_t n)
{
    int64_t edge = gram_least(EDGE, n);

    return gram_round64((size_t)(edge * edge) * gram_dtype_size(dtype)) + rows_bytes(edge);
}

size_t gram_symmetric_bytes(gram_dtype dtype, int64_t n)
{
    return rows_bytes(n) + KRYLOV_PARTS * (rows_bytes(n) + block_bytes(dtype, n));
}

int64_t gram_symmetric_columns(gram_dtype dtype)
{
    return SYMMETRIC_ROW_BYTES / (int64_t)gram_dtype_size(dtype);
}

static char *sum_of(const struct gram_symmetric *a, int64_t part)
{
    return a->scratch + (size_t)(part + 1) * rows_bytes(a->view.rows);
}

static char *block_of(const struct gram_symmetric *a, int64_t part)
{
    return sum_of(a, KRYLOV_PARTS) + (size_t)part * block_bytes(a->view.dtype, a->view.rows);
}

static double number_at(gram_dtype dtype, const char *from, int64_t i)
{
    return dtype == GRAM_F32 ? (double)((const float *)(const void *)from)[i]
                             : ((const double *)(const void *)from)[i];
}

static void put_number(gram_dtype dtype, char *to, int64_t i, double value)
{
    if (dtype == GRAM_F32)
        ((float *)(void *)to)[i] = (float)value;
    else
        ((double *)(void *)to)[i] = value;
}

/* The block of rows from i and columns from j on: where it is, or a copy. */
static void take_block(const struct gram_symmetric *a, int64_t part, const int64_t ij[2],
                       struct gram_symmetric_block *block)
{
    const struct gram_view *v = &a->view;
    int64_t size = (int64_t)gram_dtype_size(v->dtype);
    const char *from = v->data + (ij[0] * v->row_stride + ij[1] * v->col_stride) * size;
    char *to = block_of(a, part);

    block->a = from;
    block->lda = v->row_stride;
    if (v->col_stride == 1)
        return;
    for (int64_t r = 0; r < block->rows; r++)
        for (int64_t c = 0; c < block->cols; c++)
            put_number(v->dtype, to, r * block->cols + c,
                       number_at(v->dtype, from, r * v->row_stride + c * v->col_stride));
    block->a = to;
    block->lda = block->cols;
}

/* A block on the diagonal: a copy of its stored half, half of the diagonal itself, since it counts
 * twice. */
static void take_diagonal(const struct gram_symmetric *a, int64_t part, int64_t i,
                          struct gram_symmetric_block *block)
{
    const struct gram_view *v = &a->view;
    int64_t size = (int64_t)gram_dtype_size(v->dtype);
    const char *from = v->data + i * (v->row_stride + v->col_stride) * size;
    char *to = block_of(a, part);

    memset(to, 0, block_bytes(v->dtype, block->rows));
    for (int64_t r = 0; r < block->rows; r++) {
        int64_t first = a->uplo == GRAM_LOWER ? 0 : r, at = r * block->cols,
                end = a->uplo == GRAM_LOWER ? r + 1 : block->cols;
        if (v->col_stride == 1)
            memcpy(to + (at + first) * size, from + (r * v->row_stride + first) * size,
                   (size_t)((end - first) * size));
        for (int64_t c = first; v->col_stride != 1 && c < end; c++)
            put_number(v->dtype, to, at + c,
                       number_at(v->dtype, from, r * v->row_stride + c * v->col_stride));
        put_number(v->dtype, to, at + r, number_at(v->dtype, to, at + r) / 2);
    }
    block->a = to;
    block->lda = block->cols;
}

/* The kernel cannot add to one place in two ways: the transpose's product takes a detour. */
static void add_diagonal(const struct gram_symmetric *a, int64_t part, int64_t i,
                         struct gram_symmetric_block *block)
{
    gram_dtype dtype = a->view.dtype;
    int64_t edge = gram_least(EDGE, a->view.rows),
            count = block->rows * gram_symmetric_columns(dtype);
    char *to = block->y_j, *other = block_of(a, part) + block_bytes(dtype, edge) - rows_bytes(edge);

    take_diagonal(a, part, i, block);
    memset(other, 0, rows_bytes(block->rows));
    block->y_j = other;
    a->kernel(block);
    for (int64_t e = 0; e < count; e++)
        put_number(dtype, to, e, number_at(dtype, to, e) + number_at(dtype, other, e));
}

static void add_block(const struct gram_symmetric *a, int64_t part, int64_t i, int64_t j)
{
    const int64_t n = a->view.rows, ij[2] = {i, j};
    struct gram_symmetric_block block = {
        .rows = gram_least(EDGE, n - i),
        .cols = gram_least(EDGE, n - j),
        .x_i = a->scratch + rows_bytes(i),
        .x_j = a->scratch + rows_bytes(j),
        .y_i = sum_of(a, part) + rows_bytes(i),
        .y_j = sum_of(a, part) + rows_bytes(j),
    };

    if (i == j) {
        add_diagonal(a, part, i, &block);
        return;
    }
    take_block(a, part, ij, &block);
    a->kernel(&block);
}

static void multiply_part(void *arg, int64_t part, int thread)
{
    const struct gram_symmetric *a = arg;
    int64_t number = 0, blocks = gram_ceil_div(a->view.rows, EDGE);

    (void)thread;
    memset(sum_of(a, part), 0, rows_bytes(a->view.rows));
    for (int64_t i = 0; i < blocks; i++)
        for (int64_t j = 0; j <= i; j++, number++) {
            if (number % KRYLOV_PARTS != part)
                continue;
            if (a->uplo == GRAM_LOWER)
                add_block(a, part, i * EDGE, j * EDGE);
            else
                add_block(a, part, j * EDGE, i * EDGE);
        }
}

/* A share of the rows on their way in, scaled, or out: the sum of the parts, scaled. */
struct move {
    const struct gram_symmetric *a;
    int64_t columns;
    const char *in;
    char *out; /* or NULL */
};

static void move_share(void *arg, int64_t share, int thread)
{
    const struct move *m = arg;
    const struct gram_symmetric *a = m->a;
    gram_dtype dtype = a->view.dtype;
    int64_t n = a->view.rows, each = gram_ceil_div(n, KRYLOV_PARTS), b = m->columns,
            width = gram_symmetric_columns(dtype);
    int64_t first = gram_least(share * each, n), end = gram_least(first + each, n);

    (void)thread;
    if (!m->out)
        memset(a->scratch + rows_bytes(first), 0, rows_bytes(end - first));
    for (int64_t r = first; r < end; r++)
        for (int64_t c = 0; c < b; c++) {
            double sum = 0;
            if (!m->out) {
                put_number(dtype, a->scratch, r * width + c,
                           a->scale * number_at(dtype, m->in, r * b + c));
                continue;
            }
            for (int64_t part = 0; part < KRYLOV_PARTS; part++)
                sum += number_at(dtype, sum_of(a, part), r * width + c);
            put_number(dtype, m->out, r * b + c, a->scale * sum);
        }
}

gram_status gram_symmetric_multiply(void *user, int64_t columns, const void *in, void *out)
{
    struct gram_symmetric *a = user;
    struct move move = {.a = a, .columns = columns, .in = in};

    gram_parallel_for(a->g, KRYLOV_PARTS, move_share, &move);
    gram_parallel_for(a->g, KRYLOV_PARTS, multiply_part, a);
    move.out = out;
    gram_parallel_for(a->g, KRYLOV_PARTS, move_share, &move);
    return GRAM_OK;
}

/* The largest magnitude in some rows of the triangle. */
struct largest {
    const struct gram_symmetric *a;
    double most[KRYLOV_PARTS]; /* INFINITY where something is not finite */
};

static void largest_part(void *arg, int64_t part, int thread)
{
    struct largest *job = arg;
    const struct gram_symmetric *a = job->a;
    const struct gram_view *v = &a->view;
    double most = 0;

    (void)thread;
    for (int64_t i = part; i < v->rows; i += KRYLOV_PARTS) {
        int64_t first = a->uplo == GRAM_LOWER ? 0 : i,
                end = a->uplo == GRAM_LOWER ? i + 1 : v->rows;
        for (int64_t j = first; j < end; j++) {
            double value =
                fabs(number_at(v->dtype, v->data, i * v->row_stride + j * v->col_stride));
            most = value <= most ? most : value; /* NaN stays */
        }
    }
    job->most[part] = isfinite(most) ? most : INFINITY;
}

bool gram_symmetric_prepare(struct gram_symmetric *a)
{
    struct largest job = {.a = a};
    int exponent, far = a->view.dtype == GRAM_F32 ? 40 : 300;
    double most = 0;

    if (a->view.row_stride == 1 && a->view.col_stride != 1) { /* the same matrix by its columns */
        a->view.row_stride = a->view.col_stride;
        a->view.col_stride = 1;
        a->uplo = a->uplo == GRAM_LOWER ? GRAM_UPPER : GRAM_LOWER;
    }
    a->kernel = gram_cpu_kernels_of(a->g)->symmetric_block[a->view.dtype];
    gram_parallel_for(a->g, KRYLOV_PARTS, largest_part, &job);
    for (int i = 0; i < KRYLOV_PARTS; i++)
        most = fmax(most, job.most[i]);
    a->scale = 1;
    if (!isfinite(most))
        return false;
    frexp(most, &exponent);
    if (most > 0 && (exponent > far || exponent < -far))
        a->scale = ldexp(1, -exponent / 2);
    return true;
}

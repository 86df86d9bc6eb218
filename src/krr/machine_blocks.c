/*
 * machine_blocks.c - build a symmetric kernel matrix in blocks, and multiply by it
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_blocks.h"
#include "core/threads.h"
#include "machine_element.h"
#include "strip.h"
#include <string.h>

enum {
    BLOCK_ROWS = 1024, /* of a block: a kernel of a block takes long against a call */
    PART_ROWS = 96,    /* of a product that are one task: whole groups of strip_tile.h's rows, and
                          enough tasks for many threads where there are few rows */
    PAD_BYTES = 64     /* behind each row of a block: rows 4096 bytes apart share cache sets */
};

static int64_t block_count(int64_t n)
{
    return gram_ceil_div(n, BLOCK_ROWS);
}

static size_t matrix_bytes(int64_t n, gram_dtype dtype)
{
    size_t rows = n < BLOCK_ROWS ? (size_t)n : BLOCK_ROWS, edge = (size_t)block_count(n);

    return gram_round64(edge * (edge + 1) / 2 * rows * (rows * gram_dtype_size(dtype) + PAD_BYTES));
}

/* Of the vectors that the matrix is multiplied by at a time, or of their products. */
static size_t strip_bytes(int64_t n)
{
    return (size_t)n * 2 * GRAM_STRIP_BYTES;
}

size_t gram_machine_blocks_bytes(int64_t n, gram_dtype dtype)
{
    return matrix_bytes(n, dtype) + 2 * strip_bytes(n);
}

/* First element of block (i, j), j <= i. */
static char *block_at(const struct machine_blocks *k, int64_t i, int64_t j)
{
    return k->data + (size_t)((i * (i + 1) / 2 + j) * k->size * k->ld) * gram_dtype_size(k->dtype);
}

static int64_t rows_of(const struct machine_blocks *k, int64_t i)
{
    int64_t rest = k->n - i * k->size;

    return rest < k->size ? rest : k->size;
}

/* Rows [first, first + count) of a row-major matrix. */
static gram_tensor rows_view(const gram_tensor *x, int64_t first, int64_t count)
{
    gram_tensor rows = *x;

    rows.data = (char *)x->data + (size_t)(first * x->stride[0]) * gram_dtype_size(x->dtype);
    rows.shape[0] = count;
    return rows;
}

gram_status gram_machine_blocks_create(gram_context *g, const gram_tensor *x,
                                       const gram_kernel_options *kernel,
                                       struct machine_blocks *out)
{
    struct machine_blocks k = {.n = x->shape[0], .dtype = x->dtype};

    k.size = k.n < BLOCK_ROWS ? k.n : BLOCK_ROWS;
    k.ld = k.size + PAD_BYTES / (int64_t)gram_dtype_size(k.dtype);
    k.count = block_count(k.n);
    k.bytes = gram_machine_blocks_bytes(k.n, k.dtype);
    k.data = gram_alloc(g, k.bytes);
    if (!k.data)
        return gram_fail(g, GRAM_OUT_OF_MEMORY,
                         "cannot allocate %zu bytes for a kernel matrix of "
                         "%lld rows",
                         k.bytes, (long long)k.n);
    k.strips = k.data + matrix_bytes(k.n, k.dtype);
    k.product = k.strips + strip_bytes(k.n);
    *out = k;
    for (int64_t i = 0; i < k.count; i++)
        for (int64_t j = 0; j <= i; j++) {
            gram_tensor xi = rows_view(x, i * k.size, rows_of(&k, i));
            gram_tensor xj = rows_view(x, j * k.size, rows_of(&k, j));
            gram_tensor block = gram_matrix(block_at(&k, i, j), xi.shape[0], xj.shape[0], k.dtype);
            block.stride[0] = k.ld;
            TRY(gram_kernel(g, &xi, &xj, kernel, &block));
            if (gram_cancelled(g))
                return gram_fail(g, GRAM_CANCELLED, "cancelled");
        }
    return GRAM_OK;
}

void gram_machine_blocks_destroy(gram_context *g, struct machine_blocks *k)
{
    gram_free(g, k->data, k->bytes);
    *k = (struct machine_blocks){0};
}

/* The vectors of a product, in rows of one or two strips (gram_strip_op). */
struct multiply_job {
    const gram_context *g;
    const struct machine_blocks *k;
    const double *ridge;
    int64_t first, count; /* columns that are multiplied now */
    int strips;
    const char *v;
    char *out;
};

/* Numbers of a row of strips. */
static int64_t strip_width(const struct machine_blocks *k, int strips)
{
    return strips * (int64_t)(GRAM_STRIP_BYTES / gram_dtype_size(k->dtype));
}

static char *strip_at(const struct multiply_job *job, char *strips, int64_t row)
{
    return strips + (size_t)(row * job->strips) * GRAM_STRIP_BYTES;
}

/* The rows of v that belong to block i into strips, zeros beyond the columns. */
static void gather_rows(void *arg, int64_t i, int thread)
{
    const struct multiply_job *job = arg;
    const struct machine_blocks *k = job->k;
    int64_t width = strip_width(k, job->strips), n = k->n, first = i * k->size;
    char *to = strip_at(job, k->strips, first);

    (void)thread;
    memset(to, 0, (size_t)(rows_of(k, i) * job->strips) * GRAM_STRIP_BYTES);
    for (int64_t j = 0; j < job->count; j++)
        for (int64_t r = 0; r < rows_of(k, i); r++)
            machine_set_element(
                k->dtype, to, r * width + j,
                machine_element(k->dtype, job->v, (job->first + j) * n + first + r));
}

/* out = ridge * v + product for some rows. */
static void store_rows(const struct multiply_job *job, int64_t first, int64_t count,
                       const char *product)
{
    const struct machine_blocks *k = job->k;
    int64_t width = strip_width(k, job->strips);

    for (int64_t j = 0; j < job->count; j++)
        for (int64_t r = 0; r < count; r++) {
            int64_t row = first + r, at = (job->first + j) * k->n + row;

            machine_set_element(k->dtype, job->out, at,
                                job->ridge[row] * machine_element(k->dtype, job->v, at) +
                                    machine_element(k->dtype, product, r * width + j));
        }
}

static int64_t parts_of_block(const struct machine_blocks *k)
{
    return gram_ceil_div(k->size, PART_ROWS);
}

/* Some rows of a block i of the product: the matrix left of the diagonal as it is, below it
 * transposed.  Each block is read twice, but no two tasks write to one place, so the result does
 * not depend on which thread does what. */
static void multiply_rows(void *arg, int64_t task, int thread)
{
    const struct multiply_job *job = arg;
    const struct machine_blocks *k = job->k;
    int64_t i = task / parts_of_block(k), first = task % parts_of_block(k) * PART_ROWS;
    int64_t count = gram_least(rows_of(k, i) - first, PART_ROWS);
    size_t size = gram_dtype_size(k->dtype);
    char *product = strip_at(job, k->product, i * k->size + first);

    (void)thread;
    if (count <= 0) /* the last block may have fewer */
        return;
    memset(product, 0, (size_t)(count * job->strips) * GRAM_STRIP_BYTES);
    for (int64_t j = 0; j < k->count; j++) {
        const struct gram_strip_op op = {
            .dtype = k->dtype,
            .rows = i >= j ? count : rows_of(k, j),
            .cols = i >= j ? rows_of(k, j) : count,
            .lda = k->ld,
            .strips = job->strips,
            .transposed = i < j,
            .a = i >= j ? block_at(k, i, j) + (size_t)(first * k->ld) * size
                        : block_at(k, j, i) + (size_t)first * size,
            .v = strip_at(job, k->strips, j * k->size),
            .out = product,
        };

        job->g->backend->strip_multiply(job->g, &op);
    }
    store_rows(job, i * k->size + first, count, product);
}

void gram_machine_blocks_multiply(gram_context *g, const struct machine_blocks *k,
                                  const double *ridge, int64_t columns, const void *v, void *out)
{
    struct multiply_job job = {.g = g, .k = k, .ridge = ridge, .v = v, .out = out};
    int64_t most = strip_width(k, 2);

    for (; job.first < columns; job.first += most) {
        job.count = gram_least(most, columns - job.first);
        job.strips = job.count > most / 2 ? 2 : 1;
        gram_parallel_for(g, k->count, gather_rows, &job);
        gram_parallel_for(g, k->count * parts_of_block(k), multiply_rows, &job);
    }
}

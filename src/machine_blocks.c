/*
 * machine_blocks.c - build a symmetric kernel matrix in blocks, and multiply by it
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_blocks.h"
#include "blas.h"
#include "threads.h"

/* Rows of a block: a product of blocks takes long against a call, and there are enough of them for
 * the threads. */
enum {
    BLOCK_ROWS = 1024
};

static int64_t block_count(int64_t n)
{
    return gram_ceil_div(n, BLOCK_ROWS);
}

size_t gram_machine_blocks_bytes(int64_t n, gram_dtype dtype)
{
    size_t rows = n < BLOCK_ROWS ? (size_t)n : BLOCK_ROWS, edge = (size_t)block_count(n);

    return edge * (edge + 1) / 2 * rows * rows * gram_dtype_size(dtype);
}

/* First element of block (i, j), j <= i. */
static char *block_at(const struct machine_blocks *k, int64_t i, int64_t j)
{
    return k->data +
           (size_t)((i * (i + 1) / 2 + j) * k->size * k->size) * gram_dtype_size(k->dtype);
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
    k.count = block_count(k.n);
    k.bytes = gram_machine_blocks_bytes(k.n, k.dtype);
    k.data = gram_alloc(g, k.bytes);
    if (!k.data)
        return gram_fail(g, GRAM_OUT_OF_MEMORY,
                         "cannot allocate %zu bytes for a kernel matrix of "
                         "%lld rows",
                         k.bytes, (long long)k.n);
    *out = k;
    for (int64_t i = 0; i < k.count; i++)
        for (int64_t j = 0; j <= i; j++) {
            gram_tensor xi = rows_view(x, i * k.size, rows_of(&k, i));
            gram_tensor xj = rows_view(x, j * k.size, rows_of(&k, j));
            gram_tensor block = gram_matrix(block_at(&k, i, j), xi.shape[0], xj.shape[0], k.dtype);
            block.stride[0] = k.size;
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

struct multiply_job {
    const struct machine_blocks *k;
    const double *ridge;
    int64_t columns;
    const char *v;
    char *out;
};

/* out = ridge * v for the rows of block i. */
static void ridge_rows(const struct multiply_job *job, int64_t i)
{
    int64_t n = job->k->n, first = i * job->k->size, last = first + rows_of(job->k, i);

    for (int64_t j = 0; j < job->columns; j++)
        for (int64_t at = first; at < last; at++)
            if (job->k->dtype == GRAM_F32)
                ((float *)job->out)[j * n + at] =
                    (float)job->ridge[at] * ((const float *)job->v)[j * n + at];
            else
                ((double *)job->out)[j * n + at] =
                    job->ridge[at] * ((const double *)job->v)[j * n + at];
}

/* Rows of block i of the product: its blocks left of the diagonal as they are, those below it
 * transposed.  Each block is read twice, but no two tasks write to one place, so the result does
 * not depend on which thread does what. */
static void multiply_rows(void *arg, int64_t i, int thread)
{
    const struct multiply_job *job = arg;
    const struct machine_blocks *k = job->k;
    size_t size = gram_dtype_size(k->dtype);

    (void)thread;
    ridge_rows(job, i);
    for (int64_t j = 0; j < k->count; j++) {
        struct gram_blas_matrix block = {i >= j ? block_at(k, i, j) : block_at(k, j, i), k->size,
                                         i >= j};
        struct gram_blas_matrix v = {job->v + (size_t)(j * k->size) * size, k->n, false};

        gram_blas_gemm(k->dtype, (int64_t[3]){rows_of(k, i), job->columns, rows_of(k, j)}, 1, block,
                       v, 1, job->out + (size_t)(i * k->size) * size, k->n);
    }
}

void gram_machine_blocks_multiply(gram_context *g, const struct machine_blocks *k,
                                  const double *ridge, int64_t columns, const void *v, void *out)
{
    struct multiply_job job = {k, ridge, columns, v, out};

    gram_blas_one_thread();
    gram_parallel_for(g, k->count, multiply_rows, &job);
}

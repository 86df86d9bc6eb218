/*
 * machine_blocks.c - build a symmetric kernel matrix in blocks, and multiply by it
 *
 * SPDX-License-Identifier: MIT
 */
#include "machine_blocks.h"
#include "blas.h"
#include "threads.h"

/* Rows of a block: 4 MiB of f32, which stays in the last-level cache between its two uses. */
enum {
    BLOCK_ROWS = 1024
};

static int64_t block_count(int64_t n)
{
    return (n + BLOCK_ROWS - 1) / BLOCK_ROWS;
}

size_t machine_blocks_bytes(int64_t n, gram_dtype dtype)
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

gram_status machine_blocks_create(gram_context *g, const gram_tensor *x,
                                  const gram_kernel_options *kernel, struct machine_blocks *out)
{
    struct machine_blocks k = {.n = x->shape[0], .dtype = x->dtype};

    k.size = k.n < BLOCK_ROWS ? k.n : BLOCK_ROWS;
    k.count = block_count(k.n);
    k.bytes = machine_blocks_bytes(k.n, k.dtype);
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

void machine_blocks_destroy(gram_context *g, struct machine_blocks *k)
{
    gram_free(g, k->data, k->bytes);
    *k = (struct machine_blocks){0};
}

struct ridge_job {
    int64_t n;
    gram_dtype dtype;
    const double *ridge;
    const char *v;
    char *out;
};

/* out = ridge * v for one column. */
static void ridge_column(void *arg, int64_t column, int thread)
{
    const struct ridge_job *job = arg;
    size_t at = (size_t)(column * job->n) * gram_dtype_size(job->dtype);

    (void)thread;
    if (job->dtype == GRAM_F32)
        for (int64_t i = 0; i < job->n; i++)
            ((float *)(job->out + at))[i] =
                (float)job->ridge[i] * ((const float *)(job->v + at))[i];
    else
        for (int64_t i = 0; i < job->n; i++)
            ((double *)(job->out + at))[i] = job->ridge[i] * ((const double *)(job->v + at))[i];
}

void machine_blocks_multiply(gram_context *g, const struct machine_blocks *k, const double *ridge,
                             int64_t columns, const void *v, void *out)
{
    struct ridge_job job = {k->n, k->dtype, ridge, v, out};
    size_t size = gram_dtype_size(k->dtype);

    gram_parallel_for(g, columns, ridge_column, &job);
    gram_blas_threads(g);
    for (int64_t i = 0; i < k->count; i++)
        for (int64_t j = 0; j <= i; j++) {
            struct gram_blas_matrix block = {block_at(k, i, j), k->size, true};
            int64_t mi = rows_of(k, i), mj = rows_of(k, j);
            size_t at_i = (size_t)(i * k->size) * size, at_j = (size_t)(j * k->size) * size;
            struct gram_blas_matrix vi = {(const char *)v + at_i, k->n, false};
            struct gram_blas_matrix vj = {(const char *)v + at_j, k->n, false};

            gram_blas_gemm(k->dtype, (int64_t[3]){mi, columns, mj}, 1, block, vj, 1,
                           (char *)out + at_i, k->n);
            block.transposed = false;
            if (i != j)
                gram_blas_gemm(k->dtype, (int64_t[3]){mj, columns, mi}, 1, block, vi, 1,
                               (char *)out + at_j, k->n);
        }
}

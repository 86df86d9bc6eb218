/*
 * dense_data.c - row-major matrices that problems are made of and checked with
 *
 * SPDX-License-Identifier: MIT
 */
#include "dense_data.h"
#include <stdlib.h>

double *dense_doubles(int64_t count)
{
    double *memory = calloc((size_t)(count > 0 ? count : 1), sizeof *memory);

    if (!memory)
        harness_end_without_memory("a reference");
    return memory;
}

void dense_reflect(struct harness *h, int64_t n, double *a, bool both_sides, double *v)
{
    double length = 0;

    for (int64_t i = 0; i < n; i++) {
        v[i] = test_uniform(h) - 0.5;
        length += v[i] * v[i];
    }
    for (int side = 0; side < (both_sides ? 2 : 1); side++)
        for (int64_t j = 0; j < n; j++) {
            int64_t step = side ? 1 : n, from = side ? j * n : j;
            double sum = 0;
            for (int64_t i = 0; i < n; i++)
                sum += v[i] * a[from + i * step];
            for (int64_t i = 0; i < n; i++)
                a[from + i * step] -= 2 * sum / length * v[i];
        }
}

gram_tensor dense_random(struct harness *h, int64_t rows, int64_t cols, gram_dtype dtype)
{
    size_t bytes = (size_t)(rows * cols) * gram_dtype_size(dtype);
    gram_tensor t = gram_matrix(aligned_alloc(64, bytes / 64 * 64 + 64), rows, cols, dtype);

    for (int64_t i = 0; t.data && i < rows * cols; i++)
        test_put(&t, i, test_uniform(h) - 0.5);
    return t;
}

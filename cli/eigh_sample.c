/*
 * eigh_sample.c - symmetric matrices for measurements of eigenproblems, where the context computes
 *
 * SPDX-License-Identifier: MIT
 */
#include "eigh_sample.h"
#include <math.h>

const char *const eigh_driver_names[] = {"auto",      "closed", "jacobi",  "divide",
                                         "bisection", "krylov", "batched", NULL};

/* Element i, j of a random symmetric matrix, between -1 and 1. */
static double random_element(int64_t item, int64_t i, int64_t j)
{
    uint64_t state = (uint64_t)(i < j ? i : j) * 0x9E3779B97F4A7C15u ^ (uint64_t)(i < j ? j : i);

    state = (state ^ (uint64_t)item << 40) * 6364136223846793005u + 1442695040888963407u;
    state ^= state >> 29;
    state *= 0xBF58476D1CE4E5B9u;
    return (double)(int64_t)(state ^ state >> 32) / 0x1p63;
}

/* Of the Gaussian kernel of points on a line, ten of them within a bandwidth. */
static double kernel_element(int64_t item, int64_t i, int64_t j)
{
    double distance = (double)(i - j) / 10 * (1 + 1e-3 * (double)item);

    return exp(-distance * distance / 2);
}

static void fill(const gram_tensor *t, int kernel)
{
    int64_t at = 0;

    for (int64_t item = 0; item < t->shape[0]; item++)
        for (int64_t i = 0; i < t->shape[1]; i++)
            for (int64_t j = 0; j < t->shape[2]; j++, at++) {
                double value = kernel ? kernel_element(item, i, j) : random_element(item, i, j);
                if (t->dtype == GRAM_F64)
                    ((double *)t->data)[at] = value;
                else
                    ((float *)t->data)[at] = (float)value;
            }
}

enum exit_status eigh_sample_make(gram_context *g, const struct eigh_shape *of, int64_t pairs,
                                  int with_vectors, struct eigh_sample *out, struct failure *why)
{
    int64_t shape[] = {of->items, of->n, of->n};

    *out = (struct eigh_sample){.host.memory = NULL};
    if (of->n > INT64_MAX / 16 / of->n / of->items)
        return fail_memory(why, "the matrices");
    TRY(matrix_allocate(&out->host, of->dtype, 3, shape, why));
    fill(&out->host.t, of->kernel);
    TRY(device_matrix_send(g, &out->host, &out->a, why));
    shape[2] = pairs;
    if (with_vectors)
        TRY(device_matrix_allocate(g, of->dtype, 3, shape, &out->vectors, why));
    shape[1] = pairs;
    return device_matrix_allocate(g, of->dtype, 2, shape, &out->values, why);
}

void eigh_sample_free(gram_context *g, struct eigh_sample *s)
{
    device_matrix_free(g, &s->a);
    device_matrix_free(g, &s->values);
    device_matrix_free(g, &s->vectors);
    matrix_free(&s->host);
}

/*
 * cpu_layer_rows.c - rows that go into an embedding, checked and counted: see cpu_layer_rows.h
 *
 * SPDX-License-Identifier: MIT
 */
#include "cpu_layer_rows.h"
#include <string.h>

gram_status cpu_layer_rows_check(gram_context *g, const struct gram_layer_op *l)
{
    for (int64_t n = 0; n < l->samples; n++)
        for (int64_t s = 0; s < l->positions; s++) {
            int64_t row = cpu_layer_row_at(l, n, s);
            if (row < 0 || row >= l->in)
                return gram_fail(g, GRAM_INVALID_ARGUMENT,
                                 "activations has row %lld in sample %lld, expected 0 to %lld",
                                 (long long)row, (long long)n, (long long)l->in - 1);
        }
    return GRAM_OK;
}

size_t cpu_layer_rows_bytes(const struct gram_layer_op *l)
{
    return 3 * gram_round64((size_t)l->in * sizeof(double));
}

/* sum[r] += (how often row r is in the sample)^2; count is all 0 before and after. */
static void add_squares(const struct gram_layer_op *l, int64_t n, double *count, double *sum)
{
    for (int64_t s = 0; s < l->positions; s++)
        count[cpu_layer_row_at(l, n, s)]++;
    for (int64_t s = 0; s < l->positions; s++) {
        int64_t row = cpu_layer_row_at(l, n, s);
        sum[row] += count[row] * count[row];
        count[row] = 0;
    }
}

void cpu_layer_rows_moments(const struct gram_kfac_factors_op *op, void *scratch)
{
    const struct gram_layer_op *l = &op->layer;
    size_t array = gram_round64((size_t)l->in * sizeof(double));
    double *sum = scratch, *count = (double *)(void *)((char *)scratch + array);
    void *values = (char *)scratch + 2 * array;
    double all = (double)l->samples * (double)l->positions;
    bool reduced = op->setting == GRAM_KFAC_REDUCE;
    struct cpu_layer_store store = {.out = &op->a,
                                    .dtype = l->dtype,
                                    .rows = l->in,
                                    .cols = 1,
                                    .scale = 1 - op->keep,
                                    .add = op->keep};

    memset(scratch, 0, 2 * array);
    for (int64_t n = 0; n < l->samples; n++)
        for (int64_t s = 0; !reduced && s < l->positions; s++)
            sum[cpu_layer_row_at(l, n, s)]++;
    for (int64_t n = 0; reduced && n < l->samples; n++)
        add_squares(l, n, count, sum);
    if (l->padding_row >= 0 && l->padding_row < l->in)
        sum[l->padding_row] = 0;
    if (reduced)
        all *= (double)l->positions;
    if (all == 0)
        all = 1, store.scale = 0;
    for (int64_t r = 0; r < l->in; r++)
        if (l->dtype == GRAM_F32)
            ((float *)values)[r] = (float)(sum[r] / all);
        else
            ((double *)values)[r] = sum[r] / all;
    cpu_layer_store(&store, values, 1);
}

/*
 * cpu_optimizer_apply.c - what BLAS does to a block: products of unfoldings, and matrices applied
 *
 * BLAS is column-major: a row-major array of m by n is its matrix of n by m with leading dimension
 * n, and the upper triangle of a row-major matrix its lower one.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "cpu/move.h"
#include "cpu_optimizer.h"
#include <string.h>

/* to = x of a by n by rest, with the middle dimension first. */
static void middle_first(int64_t a, int64_t n, int64_t rest, size_t size, const char *x, char *to)
{
    size_t run = (size_t)rest * size;

    for (int64_t i = 0; i < a; i++)
        for (int64_t j = 0; j < n; j++)
            memcpy(to + (size_t)(j * a + i) * run, x + (size_t)(i * n + j) * run, run);
}

/* The upper triangle of matrix = keep matrix + take G_k G_k^T, G_k being the gradient with
 * dimension k as rows. */
static void add_gram(const struct cpu_optimizer_unit *u, int k, double keep, double take,
                     void *matrix)
{
    int64_t n = u->b->size[k], rest = u->b->count / n, before = 1;
    struct gram_blas_matrix rows = {u->g, rest, true};

    for (int i = 0; i < k; i++)
        before *= u->b->size[i];
    if (before > 1 && before == rest) { /* the last dimension that is not 1: rows are columns */
        rows = (struct gram_blas_matrix){u->g, n, false};
    } else if (before > 1) {
        middle_first(before, n, rest / before, gram_dtype_size(u->work), u->g, u->spare[0]);
        rows.data = u->spare[0];
    }
    gram_blas_syrk(u->work, GRAM_LOWER, n, rest, take, rows, keep, matrix, n);
}

void cpu_optimizer_accumulate(const struct cpu_optimizer_unit *u, double keep, double take,
                              void *matrix)
{
    for (int k = 0; k < u->b->order; k++) {
        const struct gram_optimizer_slot *factor = &u->b->factor[k];
        if (!factor->dtype)
            continue;
        cpu_optimizer_load(u->o, factor, u->work, false, matrix);
        add_gram(u, k, keep, take, matrix);
        if (!factor->packed)
            cpu_mirror(u->work, factor->n, matrix);
        cpu_optimizer_store(u->o, factor, u->work, matrix);
    }
}

void cpu_optimizer_turn(gram_dtype work, int64_t first, int64_t rest, const void *matrix,
                        const void *x, void *to)
{
    gram_blas_gemm(work, (int64_t[]){first, rest, first}, 1,
                   (struct gram_blas_matrix){matrix, first, false},
                   (struct gram_blas_matrix){x, rest, true}, 0, to, first);
}

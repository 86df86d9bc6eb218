/*
 * cpu_muon_iterate.c - the Newton-Schulz steps of Muon
 *
 * y is of the smaller side's order.  It and its square are symmetric, so that only a triangle of
 * each is computed, and one whole product a step is left: 4 n^3 multiply-adds for an n by n matrix
 * where the formula as written has 6 n^3.
 *
 * SPDX-License-Identifier: MIT
 */
#include "core/blas.h"
#include "cpu/cpu_mode.h"
#include "cpu/move.h"
#include "cpu_muon.h"
#include "cpu_optimizer.h"
#include <math.h>
#include <string.h>

/* Jordan et al. 2024: the slope at 0 is as large as it can be while singular values stay within
 * about 0.7 to 1.2. */
static const double muon_a = 3.4445, muon_b = -4.7750, muon_c = 2.0315;

static size_t square_bytes(const struct muon_matrix *m)
{
    int64_t n = gram_least(m->rows, m->cols);

    return gram_round64((size_t)(n * n) * gram_dtype_size(m->dtype));
}

size_t cpu_muon_bytes(const struct muon_matrix *m)
{
    return 2 * square_bytes(m);
}

static void add_diagonal(gram_dtype dtype, int64_t n, double value, void *matrix)
{
    for (int64_t i = 0; i < n; i++)
        if (dtype == GRAM_F32)
            ((float *)matrix)[i * (n + 1)] += (float)value;
        else
            ((double *)matrix)[i * (n + 1)] += value;
}

void *cpu_muon_orthogonalise(const struct muon_matrix *m, void *x, void *spare, void *scratch)
{
    const struct cpu_optimizer_math *math = cpu_optimizer_math(m->dtype);
    int64_t shape[] = {m->rows, m->cols}, count = m->rows * m->cols;
    struct cpu_mode mode = cpu_mode_of(shape, 2, m->rows <= m->cols ? 0 : 1);
    double norm = fmax(sqrt(math->squares(count, x)), m->least);
    void *y = scratch, *p = (char *)scratch + square_bytes(m);

    if (norm > 0)
        math->scale(count, 1 / norm, x);
    for (int i = 0; i < m->steps; i++) {
        void *kept = x;
        gram_blas_syrk(m->dtype, GRAM_LOWER, mode.n, mode.before * mode.after, 1,
                       (struct gram_blas_matrix){x, m->cols, mode.before == 1}, 0, y, mode.n);
        cpu_mirror(m->dtype, mode.n, y);
        memcpy(p, y, (size_t)(mode.n * mode.n) * gram_dtype_size(m->dtype));
        gram_blas_syrk(m->dtype, GRAM_LOWER, mode.n, mode.n, muon_c,
                       (struct gram_blas_matrix){y, mode.n, false}, muon_b, p, mode.n);
        cpu_mirror(m->dtype, mode.n, p);
        add_diagonal(m->dtype, mode.n, muon_a, p);
        cpu_mode_product(m->dtype, &mode, x, p, false, spare);
        x = spare;
        spare = kept;
    }
    return x;
}

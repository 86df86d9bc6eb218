/*
 * kfac_refresh.c - gram_kfac_refresh: the inverses of a layer's factors, or their eigenvectors
 *
 * Both factors of a layer are done in work memory first, so that they change together or not at
 * all.
 *
 * SPDX-License-Identifier: MIT
 */
#include "kfac.h"
#include <math.h>
#include <string.h>

static const double pi_most = 1e4; /* how far apart the damping of A and B may be */

/* count symmetric matrices of order n. */
static gram_tensor matrices(double *data, int64_t count, int64_t n)
{
    return gram_matrices(data, count, n, n, GRAM_F64);
}

/* The mean of the diagonals of count matrices of order n, or of count diagonals. */
static double mean_diagonal(int64_t count, int64_t n, bool diagonals, const double *a)
{
    double sum = 0;

    for (int64_t i = 0; i < count * n; i++)
        sum += a[diagonals ? i : i * n + i % n];
    return sum / (double)(count * n);
}

/* (from + shift I)^-1 of one matrix to `to`; spare holds one too.  1 where there is none. */
static gram_status invert(gram_context *g, int64_t n, const double *from, double shift,
                          double *spare, double *to, bool *failed)
{
    gram_matrix_power_options power = GRAM_MATRIX_POWER_OPTIONS_INIT;
    gram_tensor a = gram_matrix(spare, n, n, GRAM_F64), x = gram_matrix(to, n, n, GRAM_F64);
    int32_t info_value = 0;
    gram_tensor info = {.data = &info_value, .dtype = GRAM_I32};

    memcpy(spare, from, (size_t)(n * n) * sizeof *spare);
    memset(to, 0, (size_t)(n * n) * sizeof *to);
    for (int64_t i = 0; i < n; i++) {
        spare[i * n + i] += shift;
        to[i * n + i] = 1;
    }
    TRY(gram_solve_cholesky(g, &a, &x, NULL, &x, &info));
    if (info_value == 0 && gram_kfac_finite(n * n, to)) {
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < i; j++)
                to[i * n + j] = to[j * n + i] = (to[i * n + j] + to[j * n + i]) / 2;
        return GRAM_OK;
    }
    memcpy(spare, from, (size_t)(n * n) * sizeof *spare);
    power.numerator = -1, power.denominator = 1;
    power.ridge = gram_number(shift);
    TRY(gram_matrix_power(g, &a, &power, &x, &info));
    *failed = info_value != 0;
    return GRAM_OK;
}

/* pi and with it the damping of A and of B. */
static void split_damping(const gram_kfac *k, const struct kfac_layer *l, double shift[2])
{
    double a = mean_diagonal(l->groups, l->cols, l->diagonal, l->a);
    double b = mean_diagonal(l->groups, l->rows, false, l->b), pi = 1;

    if (a > 0 && b > 0)
        pi = fmin(fmax(sqrt(a / b), 1 / pi_most), pi_most);
    shift[0] = pi * sqrt(k->options.lambda);
    shift[1] = sqrt(k->options.lambda) / pi;
}

static gram_status refresh_factored(gram_context *g, gram_kfac *k, struct kfac_layer *l,
                                    bool *failed)
{
    double shift[2];

    split_damping(k, l, shift);
    for (int64_t i = 0; i < l->groups && !*failed && !l->diagonal; i++)
        TRY(invert(g, l->cols, l->a + i * l->cols * l->cols, shift[0], k->work[2],
                   k->work[0] + i * l->cols * l->cols, failed));
    for (int64_t i = 0; i < l->groups && !*failed; i++)
        TRY(invert(g, l->rows, l->b + i * l->rows * l->rows, shift[1], k->work[2],
                   k->work[1] + i * l->rows * l->rows, failed));
    if (*failed)
        return GRAM_OK;
    memcpy(l->b_inverse, k->work[1], (size_t)kfac_b_count(l) * sizeof(double));
    if (!l->diagonal)
        memcpy(l->a_inverse, k->work[0], (size_t)kfac_a_count(l) * sizeof(double));
    for (int64_t i = 0; l->diagonal && i < l->cols; i++)
        l->a_values[i] = 1 / (fmax(l->a[i], 0) + shift[0]);
    return GRAM_OK;
}

/* Eigenvectors to `to`, values to `values`, those below 0 as 0. */
static gram_status decompose(gram_context *g, int64_t count, int64_t n, double *from, double *to,
                             double *values, bool *failed)
{
    gram_tensor a = matrices(from, count, n), v = matrices(to, count, n);
    gram_tensor w = gram_matrix(values, count, n, GRAM_F64);
    gram_status status = gram_eigh(g, &a, NULL, &w, &v, NULL);

    *failed = status == GRAM_NUMERICAL;
    for (int64_t i = 0; status == GRAM_OK && i < count * n; i++)
        values[i] = fmax(values[i], 0);
    return *failed ? GRAM_OK : status;
}

static gram_status refresh_exact(gram_context *g, gram_kfac *k, struct kfac_layer *l, bool *failed)
{
    double *a_values = k->work[2], *b_values = k->work[3];
    int64_t n = l->groups;

    if (!l->diagonal)
        TRY(decompose(g, n, l->cols, l->a, k->work[0], a_values, failed));
    if (!*failed)
        TRY(decompose(g, n, l->rows, l->b, k->work[1], b_values, failed));
    if (*failed)
        return GRAM_OK;
    for (int64_t i = 0; l->diagonal && i < l->cols; i++)
        a_values[i] = fmax(l->a[i], 0);
    if (!l->diagonal)
        memcpy(l->a_inverse, k->work[0], (size_t)kfac_a_count(l) * sizeof(double));
    memcpy(l->b_inverse, k->work[1], (size_t)kfac_b_count(l) * sizeof(double));
    memcpy(l->a_values, a_values, (size_t)(n * l->cols) * sizeof(double));
    memcpy(l->b_values, b_values, (size_t)(n * l->rows) * sizeof(double));
    for (int64_t i = 0; l->corrected && i < kfac_m_count(l); i++) {
        int64_t row = i / l->cols, col = i % l->cols + row / l->rows * l->cols;
        l->corrections[i] = l->b_values[row] * l->a_values[col];
    }
    l->counts[KFAC_CORRECTIONS] = 0;
    return GRAM_OK;
}

gram_status gram_kfac_refresh(gram_context *g, gram_kfac *kfac)
{
    g->call = __func__;
    TRY(gram_kfac_check_context(g, kfac));
    if (kfac->owner)
        return gram_kfac_device_refresh(g, kfac);
    for (int64_t i = 0; i < kfac->count; i++) {
        struct kfac_layer *l = &kfac->layer[i];
        bool failed = false;

        g->call = __func__;
        if (l->counts[KFAC_A_UPDATES] == 0 || l->counts[KFAC_B_UPDATES] == 0)
            continue;
        if (kfac->options.damping == GRAM_KFAC_EXACT)
            TRY(refresh_exact(g, kfac, l, &failed));
        else
            TRY(refresh_factored(g, kfac, l, &failed));
        if (failed)
            kfac->failed++;
        else
            l->counts[KFAC_READY] = 1;
    }
    return GRAM_OK;
}

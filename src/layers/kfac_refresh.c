/*
 * kfac_refresh.c - gram_kfac_refresh: the inverses of a layer's factors, or their eigenvectors
 *
 * Both inverses of a layer are made in the memory to work in first, so that the layer gets both of
 * them or none.
 *
 * SPDX-License-Identifier: MIT
 */
#include "kfac.h"
#include <float.h>
#include <math.h>
#include <string.h>

static const double pi_most = 1e4; /* how far apart the damping of A and B may be */

double gram_kfac_least(const gram_kfac *k)
{
    return 4 * (k->options.state == GRAM_F32 ? (double)FLT_EPSILON : DBL_EPSILON);
}

/* The mean of the diagonals of count matrices of order n, or of count vectors that are
 * diagonals. */
static double mean_diagonal(const gram_kfac *k, int64_t count, int64_t n, bool diagonals,
                            const void *a)
{
    double sum = 0;

    for (int64_t i = 0; i < count * n; i++)
        sum += kfac_read(k->options.state, a, diagonals ? i : i * n + i % n);
    return sum / (double)(count * n);
}

/* Replaces a matrix by the mean of itself and its transpose. */
static void make_symmetric(gram_dtype dtype, int64_t n, void *a)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++) {
            double mean = (kfac_read(dtype, a, i * n + j) + kfac_read(dtype, a, j * n + i)) / 2;
            kfac_write(dtype, a, i * n + j, mean);
            kfac_write(dtype, a, j * n + i, mean);
        }
}

/* to = (from + shift I)^-1 for one matrix, with work 2 to work in.  *failed becomes true where
 * there is no inverse. */
static gram_status invert(gram_context *g, gram_kfac *k, int64_t n, const void *from, double shift,
                          void *to, bool *failed)
{
    const gram_dtype dtype = k->options.state;
    const size_t bytes = (size_t)(n * n) * gram_dtype_size(dtype);
    gram_matrix_power_options power = GRAM_MATRIX_POWER_OPTIONS_INIT;
    gram_tensor a = gram_matrix(k->work[2], n, n, dtype), x = gram_matrix(to, n, n, dtype);
    int32_t info_value = 0;
    gram_tensor info = {.data = &info_value, .dtype = GRAM_I32};

    memcpy(a.data, from, bytes);
    memset(to, 0, bytes);
    for (int64_t i = 0; i < n; i++) {
        kfac_write(dtype, a.data, i * n + i, kfac_read(dtype, from, i * n + i) + shift);
        kfac_write(dtype, to, i * n + i, 1);
    }
    TRY(gram_solve_cholesky(g, &a, &x, NULL, &x, &info));
    if (info_value == 0 && gram_kfac_finite(n * n, to, dtype, dtype)) {
        make_symmetric(dtype, n, to);
        return GRAM_OK;
    }
    memcpy(a.data, from, bytes);
    power.numerator = -1, power.denominator = 1;
    power.ridge = gram_number(shift);
    TRY(gram_matrix_power(g, &a, &power, &x, &info));
    *failed = info_value != 0 || !gram_kfac_finite(n * n, to, dtype, dtype);
    return GRAM_OK;
}

static void copy(const gram_kfac *k, int64_t count, const void *from, void *to)
{
    memcpy(to, from, (size_t)count * gram_dtype_size(k->options.state));
}

/* Computes pi, and with it the damping of A and of B, shift. */
static void split_damping(const gram_kfac *k, const struct kfac_layer *l, double shift[2])
{
    double a = mean_diagonal(k, l->groups, l->cols, l->diagonal, l->a);
    double b = mean_diagonal(k, l->groups, l->rows, false, l->b), pi = 1;
    const double least = gram_kfac_least(k);
    const int64_t a_order = l->diagonal ? 0 : l->groups * l->cols;

    if (a > 0 && b > 0)
        pi = fmin(fmax(sqrt(a / b), 1 / pi_most), pi_most);
    shift[0] = fmax(pi * sqrt(k->options.lambda), least * a * (double)a_order);
    shift[1] = fmax(sqrt(k->options.lambda) / pi, least * b * (double)(l->groups * l->rows));
}

static gram_status refresh_factored(gram_context *g, gram_kfac *k, struct kfac_layer *l,
                                    bool *failed)
{
    const gram_dtype dtype = k->options.state;
    const int64_t a_step = l->cols * l->cols, b_step = l->rows * l->rows;
    double shift[2];

    split_damping(k, l, shift);
    for (int64_t i = 0; i < l->groups && !*failed && !l->diagonal; i++)
        TRY(invert(g, k, l->cols, kfac_from(dtype, l->a, i * a_step), shift[0],
                   kfac_from(dtype, k->work[0], i * a_step), failed));
    for (int64_t i = 0; i < l->groups && !*failed; i++)
        TRY(invert(g, k, l->rows, kfac_from(dtype, l->b, i * b_step), shift[1],
                   kfac_from(dtype, k->work[1], i * b_step), failed));
    if (*failed)
        return GRAM_OK;
    copy(k, kfac_b_count(l), k->work[1], l->b_inverse);
    if (!l->diagonal)
        copy(k, kfac_a_count(l), k->work[0], l->a_inverse);
    for (int64_t i = 0; l->diagonal && i < l->cols; i++)
        kfac_write(dtype, l->a_values, i, 1 / (fmax(kfac_read(dtype, l->a, i), 0) + shift[0]));
    return GRAM_OK;
}

/* Eigenvectors of A (side 0) or B go to the work of this number, eigenvalues, those below 0 as 0,
 * to the work two behind. */
static gram_status decompose(gram_context *g, gram_kfac *k, const struct kfac_layer *l, int side,
                             bool *failed)
{
    const gram_dtype dtype = k->options.state;
    const int64_t n = side == 0 ? l->cols : l->rows;
    gram_tensor a = gram_matrices(side == 0 ? l->a : l->b, l->groups, n, n, dtype);
    gram_tensor v = gram_matrices(k->work[side], l->groups, n, n, dtype);
    gram_tensor w = gram_matrix(k->work[side + 2], l->groups, n, dtype);
    gram_status status = gram_eigh(g, &a, NULL, &w, &v, NULL);

    *failed = status == GRAM_NUMERICAL;
    for (int64_t i = 0; status == GRAM_OK && i < l->groups * n; i++)
        kfac_write(dtype, w.data, i, fmax(kfac_read(dtype, w.data, i), 0));
    return *failed ? GRAM_OK : status;
}

/* s = db da^T. */
static void make_corrections(const gram_kfac *k, const struct kfac_layer *l)
{
    const gram_dtype dtype = k->options.state;

    for (int64_t i = 0; i < kfac_m_count(l); i++) {
        int64_t row = i / l->cols, col = i % l->cols + row / l->rows * l->cols;
        kfac_write(dtype, l->corrections, i,
                   kfac_read(dtype, l->b_values, row) * kfac_read(dtype, l->a_values, col));
    }
}

static gram_status refresh_exact(gram_context *g, gram_kfac *k, struct kfac_layer *l, bool *failed)
{
    const gram_dtype dtype = k->options.state;

    if (!l->diagonal)
        TRY(decompose(g, k, l, 0, failed));
    if (!*failed)
        TRY(decompose(g, k, l, 1, failed));
    if (*failed)
        return GRAM_OK;
    for (int64_t i = 0; l->diagonal && i < l->cols; i++)
        kfac_write(dtype, k->work[2], i, fmax(kfac_read(dtype, l->a, i), 0));
    if (!l->diagonal)
        copy(k, kfac_a_count(l), k->work[0], l->a_inverse);
    copy(k, kfac_b_count(l), k->work[1], l->b_inverse);
    copy(k, l->groups * l->cols, k->work[2], l->a_values);
    copy(k, l->groups * l->rows, k->work[3], l->b_values);
    if (l->corrected)
        make_corrections(k, l);
    l->counts[KFAC_CORRECTIONS] = 0;
    return GRAM_OK;
}

gram_status gram_kfac_refresh(gram_context *g, gram_kfac *kfac)
{
    TRY(gram_begin(g, __func__));
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

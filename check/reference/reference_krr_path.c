/*
 * reference_krr_path.c - kernel ridge regression fitted again without a row, in long double
 *
 * SPDX-License-Identifier: MIT
 */
#include "reference.h"
#include <math.h>

/* The solution of a system of so many equations over the last column of a, which has order + 1
 * columns; by elimination with partial pivoting. */
static void eliminate(int64_t order, long double *a)
{
    const int64_t width = order + 1;

    for (int64_t c = 0; c < order; c++) {
        int64_t pivot = c;
        for (int64_t i = c + 1; i < order; i++)
            if (fabsl(a[i * width + c]) > fabsl(a[pivot * width + c]))
                pivot = i;
        for (int64_t j = c; j < width; j++) {
            long double swap = a[c * width + j];
            a[c * width + j] = a[pivot * width + j];
            a[pivot * width + j] = swap;
        }
        for (int64_t i = 0; i < order; i++) {
            long double factor = i == c ? 0 : a[i * width + c] / a[c * width + c];
            for (int64_t j = c; factor != 0 && j < width; j++)
                a[i * width + j] -= factor * a[c * width + j];
        }
    }
    for (int64_t i = 0; i < order; i++)
        a[i * width + order] /= a[i * width + i];
}

static long double mean_without(const struct reference_krr *r, int64_t out)
{
    long double sum = 0;

    for (int64_t i = 0; i < r->n; i++)
        sum += i == out ? 0 : r->y[i];
    return sum / (long double)(r->n - (out >= 0));
}

long double reference_krr_fit(const struct reference_krr *r, int64_t out, long double *alpha,
                              long double *room)
{
    const bool fitted = r->intercept == GRAM_KRR_INTERCEPT_FITTED;
    const int64_t left = r->n - (out >= 0), order = left + fitted, width = order + 1;
    long double b = 0;

    if (r->intercept == GRAM_KRR_INTERCEPT_MEAN)
        b = mean_without(r, out);
    for (int64_t i = 0, row = 0; i < r->n; i++) {
        int64_t column = 0;
        alpha[i] = 0;
        if (i == out)
            continue;
        for (int64_t j = 0; j < r->n; j++)
            if (j != out)
                room[row * width + column++] =
                    r->k[i * r->n + j] + (i == j ? r->ridge / r->weights[i] : 0);
        if (fitted)
            room[row * width + column] = room[left * width + row] = 1;
        room[row++ * width + order] = r->y[i] - b;
    }
    if (fitted)
        room[left * width + left] = room[left * width + order] = 0;
    if (left == 0)
        return r->intercept ? (long double)NAN : 0;
    eliminate(order, room);
    for (int64_t i = 0, row = 0; i < r->n; i++)
        if (i != out)
            alpha[i] = room[row++ * width + order];
    return fitted ? room[left * width + order] : b;
}

long double reference_krr_residual(const struct reference_krr *r, int64_t i, long double *room)
{
    long double *alpha = room + (r->n + 1) * (r->n + 2);
    long double predicted = reference_krr_fit(r, i, alpha, room);

    for (int64_t j = 0; j < r->n; j++)
        predicted += r->k[i * r->n + j] * alpha[j];
    return r->y[i] - predicted;
}

/*
 * eigh_zoo.c - symmetric matrices that eigensolvers have failed on
 *
 * SPDX-License-Identifier: MIT
 */
#include "eigh_zoo.h"
#include "check/harness/dense_data.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const zoo_names[ZOO_KINDS] = {
    [ZOO_ZERO] = "zero",
    [ZOO_IDENTITY] = "identity",
    [ZOO_DIAGONAL_EVEN] = "diagonal, even",
    [ZOO_DIAGONAL_GEOMETRIC] = "diagonal, geometric",
    [ZOO_DIAGONAL_CLUSTERED] = "diagonal, clustered",
    [ZOO_EVEN] = "even",
    [ZOO_GEOMETRIC] = "geometric",
    [ZOO_CLUSTERED] = "clustered",
    [ZOO_RANDOM] = "random",
    [ZOO_POSITIVE_EVEN] = "positive, even",
    [ZOO_POSITIVE_GEOMETRIC] = "positive, geometric",
    [ZOO_POSITIVE_CLUSTERED] = "positive, clustered",
    [ZOO_DOMINANT] = "dominant diagonal",
    [ZOO_WILKINSON] = "Wilkinson",
    [ZOO_GLUED] = "glued Wilkinson",
    [ZOO_TOEPLITZ] = "Toeplitz",
    [ZOO_RBF] = "Gaussian kernel",
    [ZOO_GRAM] = "Gram of low rank",
    [ZOO_ONES] = "ones",
    [ZOO_DUPLICATES] = "duplicates",
    [ZOO_SPARSE] = "sparse diagonal",
};

static void put(double *a, int64_t n, int64_t i, int64_t j, double value)
{
    a[i * n + j] = a[j * n + i] = value;
}

static double spread(enum zoo_kind kind, int64_t i, int64_t n, double eps)
{
    double part = n > 1 ? (double)i / (double)(n - 1) : 0;

    switch (kind) {
    case ZOO_DIAGONAL_EVEN:
    case ZOO_EVEN:
    case ZOO_POSITIVE_EVEN:
        return 1 - part * (1 - eps);
    case ZOO_DIAGONAL_CLUSTERED:
    case ZOO_CLUSTERED:
    case ZOO_POSITIVE_CLUSTERED:
        return i == 0 ? 1 : eps;
    default:
        return pow(eps, part);
    }
}

static void fill_spectrum(struct harness *h, enum zoo_kind kind, int64_t n, double eps, double *a)
{
    bool diagonal = kind <= ZOO_DIAGONAL_CLUSTERED, positive = kind >= ZOO_POSITIVE_EVEN;
    double *v = dense_doubles(n);

    for (int64_t i = 0; i < n; i++) {
        double sign = !positive && test_uniform(h) < 0.5 ? -1 : 1;
        a[i * n + i] = sign * spread(kind, i, n, eps);
    }
    for (int64_t i = 0; !diagonal && i < n && i < 20; i++)
        dense_reflect(h, n, a, true, v);
    free(v);
    for (int64_t i = 0; i < n; i++) /* rounding made them differ */
        for (int64_t j = 0; j < i; j++)
            put(a, n, i, j, a[i * n + j]);
}

/* The diagonal |i - (size - 1) / 2| in blocks, ones beside it, glue between the blocks. */
static void fill_wilkinson(int64_t n, int64_t size, double *a)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t block = i / size;
        a[i * n + i] = fabs((double)(i % size) - (double)(size - 1) / 2) / (double)size;
        if (i + 1 < n && (i + 1) % size == 0)
            put(a, n, i, i + 1, pow(10, -7 - (double)block));
        else if (i + 1 < n)
            put(a, n, i, i + 1, 1 / (double)size);
    }
}

/* The Gram matrix of n points in so many dimensions, or its Gaussian kernel. */
static void fill_points(struct harness *h, bool gaussian, int64_t n, int64_t dims, double *a)
{
    double *x = dense_doubles(n * dims);

    for (int64_t i = 0; i < n * dims; i++)
        x[i] = test_uniform(h) - 0.5;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            double product = 0, square = 0;
            for (int64_t k = 0; k < dims; k++) {
                double d = x[i * dims + k] - x[j * dims + k];
                product += x[i * dims + k] * x[j * dims + k];
                square += d * d;
            }
            put(a, n, i, j, gaussian ? exp(-square) : product);
        }
    free(x);
}

static void fill_duplicates(struct harness *h, int64_t n, double *a)
{
    int64_t block = n < 8 ? (n + 1) / 2 : n / 4;

    for (int64_t i = 0; i < block; i++)
        for (int64_t j = 0; j <= i; j++) {
            double value = 2 * test_uniform(h) - 1;
            for (int64_t k = 0; k + i < n; k += block)
                put(a, n, k + i, k + j, value);
        }
}

void zoo_fill(struct harness *h, enum zoo_kind kind, int64_t n, double eps, double *a)
{
    memset(a, 0, (size_t)(n * n) * sizeof *a);
    if (n <= 0 || kind == ZOO_ZERO)
        return;
    if (kind >= ZOO_DIAGONAL_EVEN && kind <= ZOO_POSITIVE_CLUSTERED && kind != ZOO_RANDOM)
        fill_spectrum(h, kind, n, eps, a);
    else if (kind == ZOO_WILKINSON || kind == ZOO_GLUED)
        fill_wilkinson(n, kind == ZOO_GLUED && n > 21 ? 21 : n, a);
    else if (kind == ZOO_RBF || kind == ZOO_GRAM)
        fill_points(h, kind == ZOO_RBF, n, kind == ZOO_RBF ? 2 : (n + 3) / 4, a);
    else if (kind == ZOO_DUPLICATES)
        fill_duplicates(h, n, a);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            double graded = pow(eps, (double)i / (double)n);
            if (kind == ZOO_RANDOM)
                put(a, n, i, j, 2 * test_uniform(h) - 1);
            else if (kind == ZOO_ONES)
                put(a, n, i, j, 1);
            else if (kind == ZOO_IDENTITY && i == j)
                a[i * n + i] = 1;
            else if (kind == ZOO_DOMINANT && i - j < 2)
                put(a, n, i, j, i == j ? graded : graded / 4 * test_uniform(h));
            else if (kind == ZOO_TOEPLITZ && i - j < 2)
                put(a, n, i, j, i == j ? 2 : -1);
            else if (kind == ZOO_SPARSE && i == j && (i % 9 == 4 || i == 0))
                a[i * n + i] = test_uniform(h);
        }
}

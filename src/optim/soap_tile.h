/*
 * soap_tile.h - template: small loops over bases and the moments in them
 *
 * Parameters, undefined at the end: SUFFIX (f32, f64), real (float, double).  Sums are in double.
 * Contracts: soap_kernels in cpu_soap.h.
 *
 * SPDX-License-Identifier: MIT
 */
#define PASTE_(a, b) a##_##b
#define PASTE(a, b)  PASTE_(a, b)
#define NAME(name)   PASTE(name, SUFFIX)

static double NAME(dot)(int64_t n, const void *first, const void *second)
{
    const real *x = first, *y = second;
    double part[4] = {0};
    int64_t i = 0;

    for (; i + 4 <= n; i += 4)
        for (int l = 0; l < 4; l++)
            part[l] += (double)x[i + l] * (double)y[i + l];
    for (; i < n; i++)
        part[0] += (double)x[i] * (double)y[i];
    return part[0] + part[1] + part[2] + part[3];
}

static void NAME(permute)(const struct cpu_mode *mode, const int32_t *order, const void *from,
                          void *to)
{
    const real *x = from;
    real *y = to;

    for (int64_t b = 0; b < mode->before; b++)
        for (int64_t j = 0; j < mode->n; j++)
            memcpy(y + (b * mode->n + j) * mode->after, x + (b * mode->n + order[j]) * mode->after,
                   (size_t)mode->after * sizeof *y);
}

static double NAME(off_diagonal)(int64_t n, const void *matrix)
{
    const real *a = matrix;
    double sum = 0;

    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++)
            sum += i == j ? 0 : (double)a[i + j * n] * (double)a[i + j * n];
    return sum;
}

static bool NAME(finite)(int64_t n, const void *from)
{
    const real *x = from;
    real sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += x[i] - x[i];
    return sum == 0;
}

static void NAME(widen)(int64_t n, const void *from, double *to)
{
    const real *x = from;

    for (int64_t i = 0; i < n; i++)
        to[i] = (double)x[i];
}

static void NAME(narrow)(int64_t n, const double *from, void *to)
{
    real *x = to;

    for (int64_t i = 0; i < n; i++)
        x[i] = (real)from[i];
}

const struct soap_kernels PASTE(cpu_soap, SUFFIX) = {
    .dot = NAME(dot),
    .permute = NAME(permute),
    .off_diagonal = NAME(off_diagonal),
    .finite = NAME(finite),
    .widen = NAME(widen),
    .narrow = NAME(narrow),
};

#undef PASTE_
#undef PASTE
#undef NAME
#undef SUFFIX
#undef real

/*
 * matrix_power_loops.h - template: small loops over an n by n matrix, column-major without gaps
 *
 * Parameters, undefined at the end: SUFFIX (f32, f64), real (float, double).  Sums are in double.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_MATRIX_POWER_LOOPS_H
#  define GRAM_MATRIX_POWER_LOOPS_H
/* One table a dtype: loops_f32, loops_f64. */
struct matrix_power_kernels {
    /* Both triangles from their mean. */
    void (*average)(int64_t n, void *a);
    /* to = shift I + factor from, which may be to. */
    void (*combine)(int64_t n, double shift, double factor, const void *from, void *to);
    /* The largest |a - shift I - factor b|, NaN if there is one; b may be NULL where factor is 0.
     * And the square root of the sum of the squares of a - I. */
    double (*distance)(int64_t n, const void *a, double shift, double factor, const void *b);
    double (*from_identity)(int64_t n, const void *a);
    /* The triangle of an f32 or f64 matrix of the caller's, times 2^-exponent, to the lower one;
     * and a matrix back, times factor. */
    void (*load)(const struct gram_view *v, const char *from, gram_uplo uplo, int exponent,
                 void *to);
    void (*store)(const struct gram_view *v, char *to, double factor, const void *from);
    /* Lanczos' vectors: v is set to numbers that look random; returned is w . v. */
    void (*start)(int64_t n, void *v);
    double (*dot)(int64_t n, const void *v, const void *w);
    /* w = (w - alpha v - beta u) * factor */
    void (*orthogonalise)(int64_t n, const double alpha_beta_factor[3], const void *v,
                          const void *u, void *w);
    void (*round_f32)(int64_t n, void *a); /* every element to f32 and back */
};
#endif

#define PASTE_(a, b) a##_##b
#define PASTE(a, b)  PASTE_(a, b)
#define NAME(name)   PASTE(name, SUFFIX)

static void NAME(average)(int64_t n, void *matrix)
{
    real *a = matrix;

    for (int64_t j0 = 0; j0 < n; j0 += TILE)
        for (int64_t i0 = j0; i0 < n; i0 += TILE)
            for (int64_t j = j0; j < n && j < j0 + TILE; j++)
                for (int64_t i = i0 > j ? i0 : j + 1; i < n && i < i0 + TILE; i++)
                    a[j + i * n] = a[i + j * n] = (a[i + j * n] + a[j + i * n]) / 2;
}

static void NAME(combine)(int64_t n, double shift, double factor, const void *from, void *to)
{
    const real *a = from;
    real *b = to;

    for (int64_t i = 0; i < n * n; i++)
        b[i] = (real)(factor * (double)a[i]);
    for (int64_t i = 0; i < n; i++)
        b[i * n + i] += (real)shift;
}

static double NAME(distance)(int64_t n, const void *left, double shift, double factor,
                             const void *right)
{
    const real *a = left, *b = right;
    double most = 0;
    bool bad = false;

    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++) {
            double d = (double)a[i + j * n] - (i == j ? shift : 0);
            d = fabs(b ? d - factor * (double)b[i + j * n] : d);
            bad |= isnan(d) != 0;
            most = d > most ? d : most;
        }
    return bad ? NAN : most;
}

static double NAME(from_identity)(int64_t n, const void *matrix)
{
    const real *a = matrix;
    double sum = 0;

    for (int64_t j = 0; j < n; j++) {
        double column = 0, d = (double)a[j + j * n] - 1;
        for (int64_t i = 0; i < n; i++)
            column += i == j ? 0 : (double)a[i + j * n] * (double)a[i + j * n];
        sum += column + d * d;
    }
    return sqrt(sum);
}

static void NAME(load)(const struct gram_view *v, const char *from, gram_uplo uplo, int exponent,
                       void *to)
{
    int64_t n = v->rows;
    real *a = to;

    for (int64_t j = 0; j < n; j++)
        for (int64_t i = j; i < n; i++) {
            int64_t at = uplo == GRAM_LOWER ? i * v->row_stride + j * v->col_stride
                                            : j * v->row_stride + i * v->col_stride;
            a[i + j * n] = (real)ldexp(element(v, from, at), -exponent);
        }
}

static void NAME(store)(const struct gram_view *v, char *to, double factor, const void *from)
{
    int64_t n = v->rows;
    const real *a = from;

    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            int64_t at = i * v->row_stride + j * v->col_stride;
            double value = (double)a[j + i * n] * factor;
            if (v->dtype == GRAM_F32)
                ((float *)(void *)to)[at] = (float)value;
            else
                ((double *)(void *)to)[at] = value;
        }
}

static void NAME(start)(int64_t n, void *vector)
{
    real *v = vector;
    uint64_t state = 1;

    for (int64_t i = 0; i < n; i++)
        v[i] = (real)(gram_random_unit(&state) - 0.5);
}

static double NAME(dot)(int64_t n, const void *left, const void *right)
{
    const real *v = left, *w = right;
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)w[i];
    return sum;
}

static void NAME(orthogonalise)(int64_t n, const double alpha_beta_factor[3], const void *one,
                                const void *two, void *to)
{
    const real *v = one, *u = two;
    real *w = to;

    for (int64_t i = 0; i < n; i++)
        w[i] = (real)(((double)w[i] - alpha_beta_factor[0] * (double)v[i] -
                       alpha_beta_factor[1] * (double)u[i]) *
                      alpha_beta_factor[2]);
}

static void NAME(round_f32)(int64_t n, void *matrix)
{
    real *a = matrix;

    for (int64_t i = 0; i < n * n; i++)
        a[i] = (real)(float)a[i];
}

static const struct matrix_power_kernels NAME(loops) = {
    .average = NAME(average),
    .combine = NAME(combine),
    .distance = NAME(distance),
    .from_identity = NAME(from_identity),
    .load = NAME(load),
    .store = NAME(store),
    .start = NAME(start),
    .dot = NAME(dot),
    .orthogonalise = NAME(orthogonalise),
    .round_f32 = NAME(round_f32),
};

#undef PASTE_
#undef PASTE
#undef NAME
#undef SUFFIX
#undef real

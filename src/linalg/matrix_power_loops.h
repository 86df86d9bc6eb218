/*
 * matrix_power_loops.h - template: small loops over an n by n matrix, column-major without gaps
 *
 * Parameters: SOURCE and real; see each_dtype.h, and struct power_loops in cpu_matrix_power.c.
 * Sums are in double.
 *
 * SPDX-License-Identifier: MIT
 */
static void CAT(average, SOURCE)(int64_t n, void *matrix)
{
    real *a = matrix;

    for (int64_t j0 = 0; j0 < n; j0 += TILE)
        for (int64_t i0 = j0; i0 < n; i0 += TILE)
            for (int64_t j = j0; j < n && j < j0 + TILE; j++)
                for (int64_t i = i0 > j ? i0 : j + 1; i < n && i < i0 + TILE; i++)
                    a[j + i * n] = a[i + j * n] = (a[i + j * n] + a[j + i * n]) / 2;
}

static void CAT(combine, SOURCE)(int64_t n, double shift, double factor, const void *from, void *to)
{
    const real *a = from;
    real *b = to;

    for (int64_t i = 0; i < n * n; i++)
        b[i] = (real)(factor * (double)a[i]);
    for (int64_t i = 0; i < n; i++)
        b[i * n + i] += (real)shift;
}

static double CAT(distance, SOURCE)(int64_t n, const void *left, double shift, double factor,
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

static double CAT(from_identity, SOURCE)(int64_t n, const void *matrix)
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

static void CAT(load, SOURCE)(const struct gram_view *v, const char *from, gram_uplo uplo,
                              int exponent, void *to)
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

static void CAT(store, SOURCE)(const struct gram_view *v, char *to, double factor, const void *from)
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

static void CAT(start, SOURCE)(int64_t n, void *vector)
{
    real *v = vector;
    uint64_t state = 1;

    for (int64_t i = 0; i < n; i++)
        v[i] = (real)(gram_random_unit(&state) - 0.5);
}

static double CAT(dot, SOURCE)(int64_t n, const void *left, const void *right)
{
    const real *v = left, *w = right;
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)w[i];
    return sum;
}

static void CAT(orthogonalise, SOURCE)(int64_t n, const double alpha_beta_factor[3],
                                       const void *one, const void *two, void *to)
{
    const real *v = one, *u = two;
    real *w = to;

    for (int64_t i = 0; i < n; i++)
        w[i] = (real)(((double)w[i] - alpha_beta_factor[0] * (double)v[i] -
                       alpha_beta_factor[1] * (double)u[i]) *
                      alpha_beta_factor[2]);
}

static void CAT(round_f32, SOURCE)(int64_t n, void *matrix)
{
    real *a = matrix;

    for (int64_t i = 0; i < n * n; i++)
        a[i] = (real)(float)a[i];
}

static const struct power_loops CAT(loops, SOURCE) = {
    .average = CAT(average, SOURCE),
    .combine = CAT(combine, SOURCE),
    .distance = CAT(distance, SOURCE),
    .from_identity = CAT(from_identity, SOURCE),
    .load = CAT(load, SOURCE),
    .store = CAT(store, SOURCE),
    .start = CAT(start, SOURCE),
    .dot = CAT(dot, SOURCE),
    .orthogonalise = CAT(orthogonalise, SOURCE),
    .round_f32 = CAT(round_f32, SOURCE),
};

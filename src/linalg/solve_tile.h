/*
 * solve_tile.h - template: factorises one small matrix and solves with it
 *
 * Factorisations are right-looking: their inner loops run down columns in whole blocks of
 * SOLVE_BLOCK rows, so they also touch rows of the block above the ones they are meant for.  There
 * Cholesky's column holds nothing that is read, and LU's multipliers are zero.
 *
 * From the caller: DTYPE, real (see kernels.h).  Contracts are in solve_kernels.h.
 *
 * SPDX-License-Identifier: MIT
 */
#define FN(name) CAT(CAT(name, DTYPE), ISA)

static int64_t FN(solve_bad_diagonal)(int64_t n, const void *matrix, int64_t ld, bool positive)
{
    const real *s = matrix;

    for (int64_t j = 0; j < n; j++) {
        real d = s[j * (ld + 1)];
        if (positive ? !(d > 0) : d == 0 || isnan(d))
            return j + 1;
    }
    return 0;
}

/* to -= f from, from the block of row first on. */
static inline void FN(solve_subtract)(int64_t first, int64_t ld, real f, const real *restrict from,
                                      real *restrict to)
{
    for (int64_t i = first / SOLVE_BLOCK * SOLVE_BLOCK; i < ld; i += SOLVE_BLOCK)
        for (int l = 0; l < SOLVE_BLOCK; l++)
            to[i + l] -= f * from[i + l];
}

/* to -= f from, for rows first <= i < ld only. */
static inline void FN(solve_subtract_below)(int64_t first, int64_t ld, real f,
                                            const real *restrict from, real *restrict to)
{
    int64_t i = first;

    for (; i % SOLVE_BLOCK; i++)
        to[i] -= f * from[i];
    FN(solve_subtract)(i, ld, f, from, to);
}

/* The sum of a b over rows first <= i < ld; first may be ld. */
static inline real FN(solve_dot)(int64_t first, int64_t ld, const real *a, const real *b)
{
    real part[SOLVE_BLOCK] = {0};
    int64_t i = first;

    for (; i % SOLVE_BLOCK; i++)
        part[i % SOLVE_BLOCK] += a[i] * b[i];
    for (; i < ld; i += SOLVE_BLOCK)
        for (int l = 0; l < SOLVE_BLOCK; l++)
            part[l] += a[i + l] * b[i + l];
    for (int half = SOLVE_BLOCK / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            part[l] += part[l + half];
    return part[0];
}

/* s = L L^T, the lower triangle of s in, L out. */
static int64_t FN(solve_cholesky)(int64_t n, void *matrix)
{
    int64_t ld = gram_solve_ld(n);
    real *s = matrix;

    for (int64_t j = 0; j < n; j++) {
        real *column = s + j * ld, d = column[j];
        if (!(d > 0))
            return j + 1;
        d = sizeof d == sizeof(float) ? (real)__builtin_sqrtf((float)d) : (real)__builtin_sqrt(d);
        for (int64_t i = j / SOLVE_BLOCK * SOLVE_BLOCK; i < ld; i += SOLVE_BLOCK)
            for (int l = 0; l < SOLVE_BLOCK; l++)
                column[i + l] /= d;
        column[j] = d;
        for (int64_t k = j + 1; k < n; k++)
            FN(solve_subtract)(k, ld, column[k], column, s + k * ld);
    }
    return 0;
}

static void FN(solve_cholesky_solve)(int64_t n, const void *matrix, void *rhs, int64_t columns)
{
    int64_t ld = gram_solve_ld(n);
    const real *s = matrix;

    for (int64_t c = 0; c < columns; c++) {
        real *x = (real *)rhs + c * ld;
        for (int64_t k = 0; k < n; k++) { /* L y = b */
            x[k] /= s[k * (ld + 1)];
            FN(solve_subtract_below)(k + 1, ld, x[k], s + k * ld, x);
        }
        for (int64_t k = n - 1; k >= 0; k--) /* L^T x = y */
            x[k] = (x[k] - FN(solve_dot)(k + 1, ld, s + k * ld, x)) / s[k * (ld + 1)];
    }
}

static void FN(solve_exchange)(real *a, real *b)
{
    real kept = *a;

    *a = *b;
    *b = kept;
}

/* s = P L U; a column whose pivot is zero is left as it is, as LAPACK does. */
static int64_t FN(solve_lu)(int64_t n, void *matrix, int32_t *pivots)
{
    int64_t ld = gram_solve_ld(n), info = 0;
    real *s = matrix, multiplier[SOLVE_SMALL] __attribute__((aligned(64)));

    for (int64_t j = 0; j < n; j++) {
        real *column = s + j * ld;
        int64_t p = j;
        for (int64_t i = j + 1; i < n; i++)
            if (fabs((double)column[i]) > fabs((double)column[p]))
                p = i;
        pivots[j] = (int32_t)(p + 1);
        for (int64_t k = 0; p != j && k < n; k++)
            FN(solve_exchange)(&s[j + k * ld], &s[p + k * ld]);
        if (!info && (column[j] == 0 || isnan(column[j])))
            info = j + 1;
        if (column[j] == 0)
            continue;
        for (int64_t i = j / SOLVE_BLOCK * SOLVE_BLOCK; i < ld; i++)
            multiplier[i] = i > j ? column[i] / column[j] : 0;
        for (int64_t i = j + 1; i < n; i++)
            column[i] = multiplier[i];
        for (int64_t k = j + 1; k < n; k++)
            FN(solve_subtract)(j + 1, ld, s[j + k * ld], multiplier, s + k * ld);
    }
    return info;
}

static void FN(solve_lu_solve)(int64_t n, const void *matrix, const int32_t *pivots, void *rhs,
                               int64_t columns)
{
    int64_t ld = gram_solve_ld(n);
    const real *s = matrix;

    for (int64_t c = 0; c < columns; c++) {
        real *x = (real *)rhs + c * ld;
        for (int64_t k = 0; k < n; k++)
            FN(solve_exchange)(&x[k], &x[pivots[k] - 1]);
        for (int64_t k = 0; k < n; k++) /* L y = P^T b */
            FN(solve_subtract_below)(k + 1, ld, x[k], s + k * ld, x);
        for (int64_t k = n - 1; k >= 0; k--) { /* U x = y */
            x[k] /= s[k * (ld + 1)];
            for (int64_t i = 0; i < k; i++)
                x[i] -= s[i + k * ld] * x[k];
        }
    }
}

static void FN(solve_lu_solve_transposed)(int64_t n, const void *matrix, const int32_t *pivots,
                                          void *rhs, int64_t columns)
{
    int64_t ld = gram_solve_ld(n);
    const real *s = matrix;

    for (int64_t c = 0; c < columns; c++) {
        real *x = (real *)rhs + c * ld;
        for (int64_t k = 0; k < n; k++) { /* U^T y = b */
            for (int64_t i = 0; i < k; i++)
                x[k] -= s[i + k * ld] * x[i];
            x[k] /= s[k * (ld + 1)];
        }
        for (int64_t k = n - 1; k >= 0; k--) /* L^T P^T x = y */
            x[k] -= FN(solve_dot)(k + 1, ld, s + k * ld, x);
        for (int64_t k = n - 1; k >= 0; k--)
            FN(solve_exchange)(&x[k], &x[pivots[k] - 1]);
    }
}

static const struct gram_solve_kernels FN(solve) = {
    .bad_diagonal = FN(solve_bad_diagonal),
    .cholesky = FN(solve_cholesky),
    .cholesky_solve = FN(solve_cholesky_solve),
    .lu = FN(solve_lu),
    .lu_solve = FN(solve_lu_solve),
    .lu_solve_transposed = FN(solve_lu_solve_transposed),
};

#undef FN

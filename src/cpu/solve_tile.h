/*
 * solve_tile.h - factorise and solve one small matrix, and move matrices of any strides
 *
 * A template: cpu_solve_small.c includes it once a dtype, with these defined (undefined here):
 *   real             float or double
 *   SQRT             sqrtf or sqrt
 *   COPY FILL_NAN BAD_DIAGONAL CHOLESKY CHOLESKY_SOLVE LU EXCHANGE LU_SOLVE
 *                    LU_SOLVE_TRANSPOSED
 *                    names of the functions; their contracts are in struct solve_tiles
 * All factorisations are right-looking: their inner loops run down a column, with unit stride.
 *
 * SPDX-License-Identifier: MIT
 */

static void COPY(const struct solve_copy *c, int64_t first, int64_t last)
{
    const int64_t tile = 32; /* two 32 by 32 tiles of doubles fit the first-level cache */

    for (int64_t top = 0; top < c->rows; top += tile) {
        int64_t bottom = top + tile < c->rows ? top + tile : c->rows;
        for (int64_t j = first; j < last; j++) {
            int64_t low = c->part == SOLVE_LOWER && j > top ? j : top;
            int64_t high = c->part == SOLVE_UPPER && j + 1 < bottom ? j + 1 : bottom;
            real *to = (real *)c->to + j * c->to_stride[1];
            const real *from = (const real *)c->from + j * c->from_stride[1];
            for (int64_t i = low; i < high; i++)
                to[i * c->to_stride[0]] = from[i * c->from_stride[0]];
        }
    }
}

static void FILL_NAN(const struct gram_view *shape, void *data)
{
    real *x = data;

    for (int64_t i = 0; i < shape->rows; i++)
        for (int64_t j = 0; j < shape->cols; j++)
            x[i * shape->row_stride + j * shape->col_stride] = (real)NAN;
}

static int64_t BAD_DIAGONAL(int64_t n, const void *matrix, int64_t ld, bool positive)
{
    const real *s = matrix;

    for (int64_t j = 0; j < n; j++) {
        real d = s[j * (ld + 1)];
        if (positive ? !(d > 0) : d == 0 || isnan(d))
            return j + 1;
    }
    return 0;
}

/* s = L L^T, the lower triangle of s in, L out. */
static int64_t CHOLESKY(int64_t n, void *matrix)
{
    real *s = matrix;

    for (int64_t j = 0; j < n; j++) {
        real *column = s + j * n;
        if (!(column[j] > 0))
            return j + 1;
        column[j] = SQRT(column[j]);
        for (int64_t i = j + 1; i < n; i++)
            column[i] /= column[j];
        for (int64_t k = j + 1; k < n; k++) {
            real *restrict to = s + k * n;
            for (int64_t i = k; i < n; i++)
                to[i] -= column[i] * column[k];
        }
    }
    return 0;
}

static void CHOLESKY_SOLVE(int64_t n, const void *matrix, void *rhs, int64_t width)
{
    const real *s = matrix;
    real(*x)[SOLVE_WIDTH] = rhs;

    for (int64_t k = 0; k < n; k++) { /* L y = b */
        for (int64_t c = 0; c < width; c++)
            x[k][c] /= s[k + k * n];
        for (int64_t i = k + 1; i < n; i++)
            for (int64_t c = 0; c < width; c++)
                x[i][c] -= s[i + k * n] * x[k][c];
    }
    for (int64_t k = n - 1; k >= 0; k--) { /* L^T x = y */
        for (int64_t i = k + 1; i < n; i++)
            for (int64_t c = 0; c < width; c++)
                x[k][c] -= s[i + k * n] * x[i][c];
        for (int64_t c = 0; c < width; c++)
            x[k][c] /= s[k + k * n];
    }
}

/* s = P L U; a column whose pivot is zero is left as it is, as LAPACK does. */
static int64_t LU(int64_t n, void *matrix, int32_t *pivots)
{
    real *s = matrix;
    int64_t info = 0;

    for (int64_t j = 0; j < n; j++) {
        real *column = s + j * n;
        int64_t p = j;
        for (int64_t i = j + 1; i < n; i++)
            if (fabs((double)column[i]) > fabs((double)column[p]))
                p = i;
        pivots[j] = (int32_t)(p + 1);
        for (int64_t k = 0; p != j && k < n; k++) {
            real kept = s[j + k * n];
            s[j + k * n] = s[p + k * n];
            s[p + k * n] = kept;
        }
        if (!info && (column[j] == 0 || isnan(column[j])))
            info = j + 1;
        if (column[j] == 0)
            continue;
        for (int64_t i = j + 1; i < n; i++)
            column[i] /= column[j];
        for (int64_t k = j + 1; k < n; k++) {
            real *restrict to = s + k * n;
            real top = to[j];
            for (int64_t i = j + 1; i < n; i++)
                to[i] -= column[i] * top;
        }
    }
    return info;
}

/* Swaps two rows of right-hand sides, which may be one. */
static void EXCHANGE(real *a, real *b, int64_t width)
{
    for (int64_t c = 0; c < width; c++) {
        real kept = a[c];
        a[c] = b[c];
        b[c] = kept;
    }
}

static void LU_SOLVE(int64_t n, const void *matrix, const int32_t *pivots, void *rhs, int64_t width)
{
    const real *s = matrix;
    real(*x)[SOLVE_WIDTH] = rhs;

    for (int64_t k = 0; k < n; k++)
        EXCHANGE(x[k], x[pivots[k] - 1], width);
    for (int64_t k = 0; k < n; k++) /* L y = P^T b */
        for (int64_t i = k + 1; i < n; i++)
            for (int64_t c = 0; c < width; c++)
                x[i][c] -= s[i + k * n] * x[k][c];
    for (int64_t k = n - 1; k >= 0; k--) { /* U x = y */
        for (int64_t c = 0; c < width; c++)
            x[k][c] /= s[k + k * n];
        for (int64_t i = 0; i < k; i++)
            for (int64_t c = 0; c < width; c++)
                x[i][c] -= s[i + k * n] * x[k][c];
    }
}

static void LU_SOLVE_TRANSPOSED(int64_t n, const void *matrix, const int32_t *pivots, void *rhs,
                                int64_t width)
{
    const real *s = matrix;
    real(*x)[SOLVE_WIDTH] = rhs;

    for (int64_t k = 0; k < n; k++) { /* U^T y = b */
        for (int64_t i = 0; i < k; i++)
            for (int64_t c = 0; c < width; c++)
                x[k][c] -= s[i + k * n] * x[i][c];
        for (int64_t c = 0; c < width; c++)
            x[k][c] /= s[k + k * n];
    }
    for (int64_t k = n - 1; k >= 0; k--) /* L^T P^T x = y */
        for (int64_t i = k + 1; i < n; i++)
            for (int64_t c = 0; c < width; c++)
                x[k][c] -= s[i + k * n] * x[i][c];
    for (int64_t k = n - 1; k >= 0; k--)
        EXCHANGE(x[k], x[pivots[k] - 1], width);
}

#undef real
#undef SQRT
#undef COPY
#undef FILL_NAN
#undef BAD_DIAGONAL
#undef CHOLESKY
#undef CHOLESKY_SOLVE
#undef LU
#undef EXCHANGE
#undef LU_SOLVE
#undef LU_SOLVE_TRANSPOSED

/*
 * kron_solve_tile.h - template: systems with one small factor, a lane each
 *
 * A tile is KRON_SOLVE_SIDE vectors of systems, copied to the stack.  KRON_SOLVE_ROWS unknowns of
 * all of them are in registers while the others are subtracted: a load serves as many multiply-adds
 * as there are rows, and the sums do not wait for each other.
 *
 * From the caller: DTYPE, real, vec (see kernels.h).  Contracts are in kron_kernels.h.
 *
 * SPDX-License-Identifier: MIT
 */
#define FN(name) CAT(CAT(name, DTYPE), ISA)
#define LANES    ((int)(VBYTES / sizeof(real)))
#define WIDTH    (KRON_SOLVE_SIDE * LANES)

struct FN(kron_solve_row) {
    vec part[KRON_SOLVE_SIDE];
};

/* Rows j to j + rows, whose sums over the other rows first <= k < last are taken off first; then
 * those over each other, upwards or back. */
static inline __attribute__((always_inline)) void
FN(kron_solve_rows)(struct FN(kron_solve_row) *restrict x, const struct gram_kron_sweeps *s,
                    int rows, int64_t j, int64_t first, int64_t last, bool back)
{
    const real *restrict a = (const real *)s->matrix + j * s->n, *reciprocal = s->reciprocal;
    vec sum[KRON_SOLVE_ROWS][KRON_SOLVE_SIDE];

    UNROLL_FOR (r, rows)
        UNROLL_FOR (v, KRON_SOLVE_SIDE)
            sum[r][v] = x[j + r].part[v];
    for (int64_t k = first; k < last; k++)
        UNROLL_FOR (r, rows)
            UNROLL_FOR (v, KRON_SOLVE_SIDE)
                sum[r][v] -= a[r * s->n + k] * x[k].part[v];
    UNROLL_FOR (i, rows) {
        const int r = back ? rows - 1 - i : i;
        if (!back || !s->unit)
            UNROLL_FOR (v, KRON_SOLVE_SIDE)
                sum[r][v] *= reciprocal[j + r];
        UNROLL_FOR (q, rows)
            if (back ? q < r : q > r)
                UNROLL_FOR (v, KRON_SOLVE_SIDE)
                    sum[q][v] -= a[q * s->n + j + r] * sum[r][v];
        UNROLL_FOR (v, KRON_SOLVE_SIDE)
            x[j + r].part[v] = sum[r][v];
    }
}

static void FN(kron_solve_sweep)(const struct gram_kron_sweeps *s, struct FN(kron_solve_row) * x)
{
    const int64_t whole = s->n / KRON_SOLVE_ROWS * KRON_SOLVE_ROWS;

    for (int64_t j = 0; j < whole; j += KRON_SOLVE_ROWS)
        FN(kron_solve_rows)(x, s, KRON_SOLVE_ROWS, j, 0, j, false);
    for (int64_t j = whole; j < s->n; j++)
        FN(kron_solve_rows)(x, s, 1, j, 0, j, false);
    for (int64_t j = s->n - 1; j >= whole; j--)
        FN(kron_solve_rows)(x, s, 1, j, j + 1, s->n, true);
    for (int64_t j = whole - KRON_SOLVE_ROWS; j >= 0; j -= KRON_SOLVE_ROWS)
        FN(kron_solve_rows)(x, s, KRON_SOLVE_ROWS, j, j + KRON_SOLVE_ROWS, s->n, true);
}

/* Systems whose unknowns lie side by side, as many as a tile holds. */
static void FN(kron_solve_whole)(const struct gram_kron_sweeps *s, int64_t right, real *data)
{
    struct FN(kron_solve_row) x[KRON_SOLVE_SMALL];

    for (int64_t j = 0; j < s->n; j++)
        __builtin_memcpy(&x[j], data + j * right, sizeof x[j]);
    FN(kron_solve_sweep)(s, x);
    for (int64_t j = 0; j < s->n; j++)
        __builtin_memcpy(data + j * right, &x[s->from[j]], sizeof x[j]);
}

/* Any others; lanes without one do the last one's work. */
static void FN(kron_solve_any)(const struct gram_kron_sweeps *s, int64_t right, int64_t first,
                               int count, real *data)
{
    struct FN(kron_solve_row) x[KRON_SOLVE_SMALL];
    real *at[WIDTH], *number = (real *)x;

    for (int l = 0; l < WIDTH; l++) {
        int64_t q = first + (l < count ? l : count - 1);
        at[l] = data + q / right * s->n * right + q % right;
        for (int64_t j = 0; j < s->n; j++)
            number[j * WIDTH + l] = at[l][j * right];
    }
    FN(kron_solve_sweep)(s, x);
    for (int l = 0; l < count; l++)
        for (int64_t j = 0; j < s->n; j++)
            at[l][j * right] = number[s->from[j] * WIDTH + l];
}

static void FN(kron_solve)(const struct gram_kron_sweeps *s, int64_t right, int64_t first,
                           int64_t last, void *memory)
{
    real *data = memory;

    while (first < last) {
        int64_t column = first % right;
        int count = (int)(last - first < WIDTH ? last - first : WIDTH);
        if (count == WIDTH && column + WIDTH <= right)
            FN(kron_solve_whole)(s, right, data + first / right * s->n * right + column);
        else
            FN(kron_solve_any)(s, right, first, count, data);
        first += count;
    }
}

#undef FN
#undef LANES
#undef WIDTH

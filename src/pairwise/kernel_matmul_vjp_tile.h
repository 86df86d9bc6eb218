/*
 * kernel_matmul_vjp_tile.h - template: weights of a kernel times a cotangent of few factors
 *
 *   out[i][w] = k[i][w] sum_c left[i][c] right[c][w]
 *
 * ROWS rows of a panel at a time: their sums and a row of right stay in registers, ROWS GRAD_NV +
 * GRAD_NV + 1 of them.
 *
 * From the caller: DTYPE, real, vec, GRAD_NV.  Contract: struct gram_cotangent_tile.
 *
 * SPDX-License-Identifier: MIT
 */
#define LANES    ((int)(VBYTES / sizeof(real)))
#define FN(name) CAT(CAT(name, DTYPE), ISA)
#define ROWS     4

static inline __attribute__((always_inline)) void
FN(cotangent_rows)(const struct gram_cotangent_tile *t, int64_t first, const int rows)
{
    const real *left = (const real *)t->left + first * t->depth;
    const vec *right = t->right, *k = (const vec *)t->k + first * (t->ldk / LANES);
    vec *to = (vec *)t->out + first * GRAD_NV, sum[ROWS][GRAD_NV] = {0};

    for (int64_t c = 0; c < t->depth; c++, left++, right += GRAD_NV)
        UNROLL_FOR (i, rows)
            UNROLL_FOR (v, GRAD_NV)
                sum[i][v] += left[i * t->depth] * right[v];
    UNROLL_FOR (i, rows)
        UNROLL_FOR (v, GRAD_NV)
            to[i * GRAD_NV + v] = k[i * (t->ldk / LANES) + v] * sum[i][v];
}

static void FN(cotangent)(const struct gram_cotangent_tile *t)
{
    int64_t i = 0;

    for (; i + ROWS <= t->rows; i += ROWS)
        FN(cotangent_rows)(t, i, ROWS);
    for (; i < t->rows; i++)
        FN(cotangent_rows)(t, i, 1);
}

#undef LANES
#undef FN
#undef ROWS

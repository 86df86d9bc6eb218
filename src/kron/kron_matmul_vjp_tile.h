/*
 * kron_matmul_vjp_tile.h - template: the gradient of a factor, a product of two long matrices
 *
 * Parameters, all undefined again at the end:
 *   WIDTH   full or half: names the functions      BYTES   of a vector
 * From the caller: DTYPE, real, KRON_VJP_ROWS (see kernels.h).
 *
 * The sum runs along the long side, with a tile of the result in registers: rows of right are read
 * one number at a time, a row of left one or two vectors at a time.  Tiles that stick out repeat
 * the last row and overlap the last columns; only what belongs to them is added.
 *
 * SPDX-License-Identifier: MIT
 */
#define LANES   ((int)(BYTES / sizeof(real)))
#define NAME(n) CAT(CAT(CAT(n, DTYPE), WIDTH), ISA)
#define VECTOR  NAME(kron_vjp_vector)

typedef real VECTOR __attribute__((vector_size(BYTES), aligned(sizeof(real)), may_alias));

/* tile[i][v] = sum over s of right[row i][s] left[s][at v ...]. */
static inline __attribute__((always_inline)) void
NAME(kron_vjp_sum)(const int vectors, int64_t depth, const real *const *rows, const real *left,
                   int64_t step, int64_t second, real (*tile)[2 * LANES])
{
    VECTOR acc[KRON_VJP_ROWS][2] = {0};

    for (int64_t s = 0; s < depth; s++, left += step) {
        VECTOR x[2];
        x[0] = *(const VECTOR *)left;
        if (vectors > 1)
            x[1] = *(const VECTOR *)(left + second);
        UNROLL_FOR (i, KRON_VJP_ROWS)
            UNROLL_FOR (v, vectors)
                acc[i][v] += rows[i][s] * x[v];
    }
    UNROLL_FOR (i, KRON_VJP_ROWS)
        UNROLL_FOR (v, vectors)
            *(VECTOR *)&tile[i][v * LANES] = acc[i][v];
}

/* A tile of the result: from row q and column p on, two vectors where there is more than one. */
static void NAME(kron_vjp_tile)(const struct gram_kron_gradient *t, int64_t from, int64_t depth,
                                int64_t q, int64_t p)
{
    int64_t rest = t->p - p, first = rest < LANES ? t->p - LANES : p;
    int64_t second = gram_least(LANES, t->p - LANES - first);
    int64_t cols = gram_least(rest, 2 * LANES), rows = gram_least(t->q - q, KRON_VJP_ROWS);
    const real *right[KRON_VJP_ROWS], *left = (const real *)t->left + from * t->p + first;
    real tile[KRON_VJP_ROWS][2 * LANES], *out = t->out;

    for (int i = 0; i < KRON_VJP_ROWS; i++)
        right[i] = (const real *)t->right + gram_least(q + i, t->q - 1) * t->right_step + from;
    if (rest > LANES)
        NAME(kron_vjp_sum)(2, depth, right, left, t->p, second, tile);
    else
        NAME(kron_vjp_sum)(1, depth, right, left, t->p, 0, tile);
    for (int64_t c = 0; c < cols; c++) {
        int64_t at = p + c - first; /* in the first vector, else in the second */
        at = at < LANES ? at : LANES + at - second;
        for (int64_t i = 0; i < rows; i++)
            out[(p + c) * t->q + q + i] += (real)t->alpha * tile[i][at];
    }
}

static void NAME(kron_vjp)(const struct gram_kron_gradient *t)
{
    const int64_t block = 512; /* of the sum: what is read again stays in the first-level cache */

    for (int64_t from = 0; from < t->depth; from += block)
        for (int64_t q = 0; q < t->q; q += KRON_VJP_ROWS)
            for (int64_t p = 0; p < t->p; p += 2 * LANES)
                NAME(kron_vjp_tile)(t, from, gram_least(block, t->depth - from), q, p);
}

#undef LANES
#undef NAME
#undef VECTOR
#undef WIDTH
#undef BYTES

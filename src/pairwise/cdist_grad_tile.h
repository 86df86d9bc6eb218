/*
 * cdist_grad_tile.h - template: the gradients of one tile, and the weights of one row
 *
 * Parameters, all undefined again at the end:
 *   POWER           names the functions: cdist_grad_<power>_<dtype>_<isa> and
 *                   cdist_grad_<power>_weights_<dtype>_<isa>
 *   SIGNED_POWER(t) sgn(t) |t|^exponent of a vector, 0 for 0
 *   STATE(t)        declarations that SIGNED_POWER uses, made once a call; may be empty
 * From the caller: DTYPE, real, vec, GRAD_NR, GRAD_NV (see kernels.h).
 *
 * The tile is GRAD_NR features by GRAD_NV vectors of points: with one coefficient a centre, already
 * multiplied into a, the whole cost of a step is the difference, its power and one fma.  With more
 * coefficients the weights a * power are written once and cdist_grad_sum_tile.h combines them.
 * Tile: accumulators and d stay in registers: 2 GRAD_NR GRAD_NV + GRAD_NV + 4 <= 32 (AVX-512), 16.
 *
 * SPDX-License-Identifier: MIT
 */
#define TILE    CAT(CAT(CAT(cdist_grad, POWER), DTYPE), ISA)
#define WEIGHTS CAT(CAT(CAT(CAT(cdist_grad, POWER), weights), DTYPE), ISA)

/* out[n][m] = sum over k of a[k][m] power(d[n][m] - b[k][n]) */
static void TILE(const struct gram_grad_tile *t, void *out)
{
    const real *b = t->b;
    const vec *a = t->a;
    vec d[GRAD_NR][GRAD_NV], acc[GRAD_NR][GRAD_NV] = {0};

    STATE(t)
    UNROLL_FOR (n, GRAD_NR)
        UNROLL_FOR (v, GRAD_NV)
            d[n][v] = ((const vec *)t->d)[n * GRAD_NV + v];
    for (int64_t k = 0; k < t->depth; k++, a += GRAD_NV, b += t->b_stride)
        UNROLL_FOR (n, GRAD_NR)
            UNROLL_FOR (v, GRAD_NV)
                acc[n][v] += a[v] * SIGNED_POWER(v_minus(d[n][v], b[n]));
    UNROLL_FOR (n, GRAD_NR)
        UNROLL_FOR (v, GRAD_NV)
            ((vec *)out)[n * GRAD_NV + v] = acc[n][v];
}

/* out[k][m] = a[k][m] power(d[m] - b[k][0]) */
static void WEIGHTS(const struct gram_grad_tile *t, void *out)
{
    const real *b = t->b;
    const vec *a = t->a;
    vec d[GRAD_NV], *w = out;

    STATE(t)
    UNROLL_FOR (v, GRAD_NV)
        d[v] = ((const vec *)t->d)[v];
    for (int64_t k = 0; k < t->depth; k++, a += GRAD_NV, b += t->b_stride, w += GRAD_NV)
        UNROLL_FOR (v, GRAD_NV)
            w[v] = a[v] * SIGNED_POWER(v_minus(d[v], b[0]));
}

#undef WEIGHTS
#undef TILE
#undef STATE
#undef SIGNED_POWER
#undef POWER

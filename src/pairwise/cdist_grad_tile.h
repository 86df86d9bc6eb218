/*
 * cdist_grad_tile.h - template: the sums of one tile of gradients
 *
 * Parameters:
 *   POWER           names the functions
 *   SIGNED_POWER(t) sgn(t) |t|^exponent of a vector, 0 for 0
 *   STATE(t)        declarations that SIGNED_POWER uses, made once a call; may be empty
 *   OUTPUTS         rows of the tile; undefined again at the end
 * From the caller: DTYPE, real, vec, GRAD_NR, GRAD_NV, GRAD_LEAD (see cdist_grad_kernels.h).
 *
 * Which of them are defined says what the tile is:
 *   POWER alone         features by points, with one coefficient a centre, already multiplied into
 *                       a: cdist_grad_<power>_<dtype>_<isa>; and the weights a * power of one row,
 *                       cdist_grad_<power>_weights_<dtype>_<isa>.  POWER, SIGNED_POWER and STATE
 *                       are undefined again at the end
 *   POWER and OUTPUTS   some outputs of one feature: cdist_grad_<power>_<outputs>_<dtype>_<isa>
 *   OUTPUTS alone       coefficients times weights: cdist_grad_sum_<outputs>_<dtype>_<isa>
 *
 * SPDX-License-Identifier: MIT
 */
#if defined(POWER) && defined(OUTPUTS)
#  define TILE CAT(CAT(CAT(CAT(cdist_grad, POWER), OUTPUTS), DTYPE), ISA)

/* out[o][m] = sum over k of c[k][o] a[k][m] power(d[m] - b[k][0])
 *
 * The weights of a centre are made GRAD_LEAD steps before they are used: a product that waited for
 * the long chain of a power would fill the processor's scheduler, one that finds its weight ready
 * runs beside the power of a later centre.
 * One vector at a time, OUTPUTS + 2 registers beside those of the power. */
static void TILE(const struct gram_grad_tile *t, void *out)
{
    STATE(t)

    for (int v = 0; v < GRAD_NV; v++) {
        const real *b = t->b, *c = t->c;
        const vec *a = (const vec *)t->a + v, d = ((const vec *)t->d)[v];
        vec acc[OUTPUTS] = {0}, ring[GRAD_LEAD];

        for (int64_t k = 0; k < t->depth + GRAD_LEAD; k++) {
            const vec ready = ring[k % GRAD_LEAD];

            if (k < t->depth) {
                ring[k % GRAD_LEAD] = a[0] * SIGNED_POWER(v_minus(d, b[0]));
                a += GRAD_NV, b += t->b_stride;
            }
            if (k >= GRAD_LEAD) {
                UNROLL_FOR (o, OUTPUTS)
                    acc[o] += c[o] * ready;
                c += OUTPUTS;
            }
        }
        UNROLL_FOR (o, OUTPUTS)
            ((vec *)out)[o * GRAD_NV + v] = acc[o];
    }
}

#elif defined(OUTPUTS)
#  define TILE CAT(CAT(CAT(cdist_grad_sum, OUTPUTS), DTYPE), ISA)

/* out[o][m] = sum over k of c[k][o] w[k][m]
 *
 * OUTPUTS GRAD_NV + GRAD_NV + 1 registers: at most 32 on AVX-512, 16 elsewhere. */
static void TILE(int64_t depth, const void *c_panel, const void *weights, void *out)
{
    const real *c = c_panel;
    const vec *w = weights;
    vec acc[OUTPUTS][GRAD_NV] = {0};

    for (int64_t k = 0; k < depth; k++, c += OUTPUTS, w += GRAD_NV)
        UNROLL_FOR (o, OUTPUTS)
            UNROLL_FOR (v, GRAD_NV)
                acc[o][v] += c[o] * w[v];
    UNROLL_FOR (o, OUTPUTS)
        UNROLL_FOR (v, GRAD_NV)
            ((vec *)out)[o * GRAD_NV + v] = acc[o][v];
}

#else
#  define TILE    CAT(CAT(CAT(cdist_grad, POWER), DTYPE), ISA)
#  define WEIGHTS CAT(CAT(CAT(CAT(cdist_grad, POWER), weights), DTYPE), ISA)

/* out[n][m] = sum over k of a[k][m] power(d[n][m] - b[k][n])
 *
 * The tile is GRAD_NR features by GRAD_NV vectors of points.  The whole cost of a step is the
 * difference, its power and one fma.  Accumulators and d stay in registers:
 * 2 GRAD_NR GRAD_NV + GRAD_NV + 4 <= 32 (AVX-512), 16. */
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

#  undef WEIGHTS
#  undef STATE
#  undef SIGNED_POWER
#  undef POWER
#endif

#undef TILE
#undef OUTPUTS

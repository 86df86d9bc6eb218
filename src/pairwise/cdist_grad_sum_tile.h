/*
 * cdist_grad_sum_tile.h - template: one tile of coefficients times weights
 *
 * Parameter, undefined again at the end:
 *   OUTPUTS   rows of the tile; names the function: cdist_grad_sum_<outputs>_<dtype>_<isa>
 * From the caller: DTYPE, real, vec, GRAD_NV (see kernels.h).
 *
 * OUTPUTS GRAD_NV + GRAD_NV + 1 registers: at most 32 on AVX-512, 16 elsewhere.
 *
 * SPDX-License-Identifier: MIT
 */
#define TILE CAT(CAT(CAT(cdist_grad_sum, OUTPUTS), DTYPE), ISA)

/* out[o][m] = sum over k of c[k][o] w[k][m] */
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

#undef TILE
#undef OUTPUTS

/*
 * cdist_grad_outputs_tile.h - template: the gradients of some outputs for one feature
 *
 * Parameters:
 *   POWER, SIGNED_POWER(t), STATE(t)   as in cdist_grad_tile.h; they stay defined
 *   OUTPUTS   rows of the tile; names the function:
 *             cdist_grad_<power>_<outputs>_<dtype>_<isa>; undefined again at the end
 * From the caller: DTYPE, real, vec, GRAD_NV, GRAD_LEAD (see cdist_grad_kernels.h).
 *
 * The weights of a centre are made GRAD_LEAD steps before they are used: a product that waited for
 * the long chain of a power would fill the processor's scheduler, one that finds its weight ready
 * runs beside the power of a later centre.
 * One vector at a time, OUTPUTS + 2 registers beside those of the power.
 *
 * SPDX-License-Identifier: MIT
 */
#define TILE CAT(CAT(CAT(CAT(cdist_grad, POWER), OUTPUTS), DTYPE), ISA)

/* out[o][m] = sum over k of c[k][o] a[k][m] power(d[m] - b[k][0]) */
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

#undef TILE
#undef OUTPUTS

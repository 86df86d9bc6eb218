/*
 * cdist_tile.h - template: one register tile of a pairwise sum
 *
 * Parameters, all undefined again at the end:
 *   METRIC        names the function: cdist_<metric>_<dtype>_<isa>
 *   TERM(a, b)    what the step is a function of; a is a number of x, b a vector of y
 *   STEP(acc, d)  adds one coordinate's term d to the accumulator
 *   ROWS          rows in registers at a time, divides MR: fewer where STEP needs registers
 *   STATE(t)      declarations that STEP uses, made once a call from t; may be empty
 * From the caller: DTYPE, real, vec, MR, NV (see kernels.h).
 *
 * The tile is MR rows by NV vectors.  x holds depth groups of MR numbers and y depth groups of NV
 * vectors, so both are read once, in order.  acc must stay in registers:
 * ROWS*NV + NV + 2 <= 32 on AVX-512, 16 on AVX2.
 *
 * SPDX-License-Identifier: MIT
 */
#define LANES ((int)(VBYTES / sizeof(real)))
#define TILE  CAT(CAT(CAT(cdist, METRIC), DTYPE), ISA)

static void TILE(const struct gram_tile *t)
{
    STATE(t)

    for (int first = 0; first < MR; first += ROWS) {
        const real *x = (const real *)t->x + first;
        const vec *y = t->y;
        vec *c = (vec *)((real *)t->c + first * t->ldc);
        int64_t ldc = t->ldc / LANES;
        vec acc[ROWS][NV] = {0};

        if (t->accumulate)
            UNROLL_FOR (i, ROWS)
                UNROLL_FOR (v, NV)
                    acc[i][v] = c[i * ldc + v];
        for (int64_t k = 0; k < t->depth; k++, x += MR, y += NV)
            UNROLL_FOR (i, ROWS)
                UNROLL_FOR (v, NV) {
                    const vec d = TERM(x[i], y[v]);
                    acc[i][v] = STEP(acc[i][v], d);
                }
        UNROLL_FOR (i, ROWS)
            UNROLL_FOR (v, NV)
                c[i * ldc + v] = acc[i][v];
    }
}

#undef LANES
#undef TILE
#undef METRIC
#undef TERM
#undef STEP
#undef ROWS
#undef STATE

/*
 * roof_loop.h - template: a loop of independent multiply-adds in registers, for one instruction set
 *
 * Parameters, undefined at the end: ROOF the function's name, ROOF_TARGET its target attribute,
 * ROOF_BYTES the width of a vector, ROOF_REAL its element.  Returns the number of multiply-adds,
 * lanes counted.  Twelve sums cover a latency of 4 cycles at 2 (or 3) a cycle.
 *
 * SPDX-License-Identifier: MIT
 */
#if !defined ROOF || !defined ROOF_TARGET || !defined ROOF_BYTES || !defined ROOF_REAL
#  error "roof_loop.h: a parameter is missing"
#endif

ROOF_TARGET static double ROOF(int64_t turns, double *sink)
{
    typedef ROOF_REAL vec __attribute__((vector_size(ROOF_BYTES)));
    enum {
        SUMS = 12,
        LANES = ROOF_BYTES / sizeof(ROOF_REAL)
    };
    vec sum[SUMS], factor = {0}, step = {0};

    factor += (ROOF_REAL)0.999, step += (ROOF_REAL)0.001;
    for (int i = 0; i < SUMS; i++)
        sum[i] = step * (ROOF_REAL)i;
    for (int64_t t = 0; t < turns; t++)
        for (int i = 0; i < SUMS; i++)
            sum[i] = sum[i] * factor + step;
    for (int i = 0; i < SUMS; i++)
        *sink += (double)sum[i][0];
    return (double)turns * SUMS * LANES;
}

#undef ROOF
#undef ROOF_TARGET
#undef ROOF_BYTES
#undef ROOF_REAL

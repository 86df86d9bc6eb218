/*
 * roof_loop.h - template: loops that do nothing but multiply-adds in registers, or nothing but
 * read, for one instruction set
 *
 * Parameters, undefined at the end: ROOF and ROOF_READ the functions' names, ROOF_TARGET their
 * target attribute, ROOF_BYTES the width of a vector, ROOF_REAL its element.  ROOF returns the
 * number of multiply-adds, lanes counted; twelve sums cover a latency of 4 cycles at 2 (or 3) a
 * cycle.  ROOF_READ reads whole blocks of eight vectors and returns the number of bytes.
 *
 * SPDX-License-Identifier: MIT
 */
#if !defined ROOF || !defined ROOF_READ || !defined ROOF_TARGET || !defined ROOF_BYTES || \
    !defined ROOF_REAL
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

ROOF_TARGET static double ROOF_READ(const void *from, size_t bytes, double *sink)
{
    typedef ROOF_REAL vec __attribute__((vector_size(ROOF_BYTES)));
    enum {
        SUMS = 8
    };
    const vec *at = from;
    const size_t blocks = bytes / (SUMS * sizeof(vec));
    vec sum[SUMS] = {{0}};

    for (size_t b = 0; b < blocks; b++, at += SUMS)
        for (int i = 0; i < SUMS; i++)
            sum[i] += at[i];
    for (int i = 0; i < SUMS; i++)
        *sink += (double)sum[i][0];
    return (double)(blocks * SUMS * sizeof(vec));
}

#undef ROOF
#undef ROOF_READ
#undef ROOF_TARGET
#undef ROOF_BYTES
#undef ROOF_REAL

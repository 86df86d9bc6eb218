/*
 * nearest_tile.h - template: the numbers of a row that are at most a limit
 *
 * From the caller: DTYPE, real, vec, ivec, VBYTES (see kernels.h).
 *
 * Nearly all vectors of a row hold no such number once some neighbours are known, so that four are
 * compared at a time, and the lanes are looked at only where one of them holds one.
 *
 * SPDX-License-Identifier: MIT
 */
#define LANES ((int)(VBYTES / sizeof(real)))
#define SCAN  CAT(CAT(nearest_scan, DTYPE), ISA)

static int64_t SCAN(int64_t n, const void *values, double limit, int32_t *columns, void *found)
{
    const real *v = values, most = (real)limit;
    const vec bound = (vec){0} + most;
    real *to = found;
    int64_t count = 0, c = 0;

    for (; c + 4 * LANES <= n; c += 4 * LANES) {
        const vec *at = (const vec *)(v + c);
        const ivec below =
            (at[0] <= bound) | (at[1] <= bound) | (at[2] <= bound) | (at[3] <= bound);
        if (!v_any(below))
            continue;
        for (int64_t l = c; l < c + 4 * LANES; l++)
            if (v[l] <= most) {
                columns[count] = (int32_t)l;
                to[count++] = v[l];
            }
    }
    for (; c < n; c++)
        if (v[c] <= most) {
            columns[count] = (int32_t)c;
            to[count++] = v[c];
        }
    return count;
}

#undef LANES
#undef SCAN

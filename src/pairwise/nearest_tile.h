/*
 * nearest_tile.h - template: the numbers of a row that are at most a limit
 *
 * From the caller: DTYPE, real, vec, ivec, VBYTES (see kernels.h).
 *
 * Nearly all vectors of a row hold no such number once some neighbours are known, so that four are
 * compared at a time, and the lanes are looked at only where one of them holds one; without
 * branches, since several of these hold one among the first neighbours.
 *
 * SPDX-License-Identifier: MIT
 */
#define LANES ((int)(VBYTES / sizeof(real)))
#define KEEP  CAT(CAT(nearest_keep, DTYPE), ISA)
#define SCAN  CAT(CAT(nearest_scan, DTYPE), ISA)

#if VBYTES == 64
#  define keep v_keep
#else
/* v_keep, lane by lane */
static int KEEP(vec a, vec bound, int32_t first, real *to, int32_t *places)
{
    int count = 0;

    for (int l = 0; l < LANES; l++) {
        places[count] = first + l;
        to[count] = a[l];
        count += a[l] <= bound[l];
    }
    return count;
}
#  define keep KEEP
#endif

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
        for (int i = 0; i < 4; i++)
            count += keep(at[i], bound, (int32_t)c + i * LANES, to + count, columns + count);
    }
    for (; c < n; c++)
        if (v[c] <= most) {
            columns[count] = (int32_t)c;
            to[count++] = v[c];
        }
    return count;
}

#undef keep
#undef LANES
#undef KEEP
#undef SCAN

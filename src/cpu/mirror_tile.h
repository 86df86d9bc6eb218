/*
 * mirror_tile.h - one triangle of a matrix to the other
 *
 * Parameters, undefined again at the end: SUFFIX (of mirror_) and real.
 *
 * SPDX-License-Identifier: MIT
 */
#define PASTE_(a, b) a##_##b
#define PASTE(a, b)  PASTE_(a, b)

static void PASTE(mirror, SUFFIX)(int64_t n, real *a)
{
    for (int64_t j0 = 0; j0 < n; j0 += TILE)
        for (int64_t i0 = j0; i0 < n; i0 += TILE)
            for (int64_t j = j0; j < n && j < j0 + TILE; j++)
                for (int64_t i = i0 > j ? i0 : j + 1; i < n && i < i0 + TILE; i++)
                    a[j + i * n] = a[i + j * n];
}

#undef PASTE_
#undef PASTE
#undef SUFFIX
#undef real

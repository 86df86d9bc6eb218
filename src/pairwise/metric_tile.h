/*
 * metric_tile.h - template: one register tile of a metric's one or two sums
 *
 * Parameters, all undefined again at the end:
 *   METRIC        names the function: metric_<metric>_<dtype>_<isa>
 *   TERM(a, b)    what the first sum adds, times the weight; a and b are vectors of x and y
 *   SECOND(a, b)  what the second sum adds, times the weight; only where SUMS is 2
 *   SUMS          1 or 2
 * From the caller: DTYPE, real, vec, MR, NV, METRIC_ROWS (see kernels.h).
 *
 * Panels are those of cdist_tile.h, and hold whole rows: sums begin with zero.  Terms take more
 * registers than those of a p-norm, so that only METRIC_ROWS rows are summed at a time.
 *
 * SPDX-License-Identifier: MIT
 */
#define LANES ((int)(VBYTES / sizeof(real)))
#define TILE  CAT(CAT(CAT(metric, METRIC), DTYPE), ISA)

static void TILE(const struct gram_tile *t)
{
    const int64_t ldc = t->ldc / LANES;

    for (int first = 0; first < MR; first += METRIC_ROWS) {
        const real *x = (const real *)t->x + first, *w = t->weights;
        const vec *y = t->y;
        vec *c = (vec *)((real *)t->c + first * t->ldc);
        vec acc[METRIC_ROWS][NV] = {0};
#if SUMS == 2
        vec *s = (vec *)((real *)t->second + first * t->ldc);
        vec second[METRIC_ROWS][NV] = {0};
#endif

        for (int64_t k = 0; k < t->depth; k++, x += MR, y += NV)
            UNROLL_FOR (i, METRIC_ROWS)
                UNROLL_FOR (v, NV) {
                    const vec a = (vec){0} + x[i];
                    acc[i][v] += w[k] * TERM(a, y[v]);
#if SUMS == 2
                    second[i][v] += w[k] * SECOND(a, y[v]);
#endif
                }
        UNROLL_FOR (i, METRIC_ROWS)
            UNROLL_FOR (v, NV) {
                c[i * ldc + v] = acc[i][v];
#if SUMS == 2
                s[i * ldc + v] = second[i][v];
#endif
            }
    }
}

#undef LANES
#undef TILE
#undef METRIC
#undef TERM
#undef SECOND
#undef SUMS

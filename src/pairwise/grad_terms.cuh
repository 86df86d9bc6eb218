/*
 * grad_terms.cuh - the sums of one tile of a gradient, a term for every centre
 *
 * Part of cdist_grad.cu.  A thread keeps d and the sums of TO outputs, TN features and TM points in
 * registers.  One output: c is multiplied into a, and with p = 1
 *   sum w sgn(t) = 2 sum w above(t) - sum w,
 * which makes a difference, a saturated product and an fma of a term.  More outputs share a term.
 * Every FOLD centres the sums go to the totals in shared memory, so that rounding errors grow with
 * FOLD + K / FOLD.  Where a coordinate is not an ordinary number, or a total is not finite, the
 * whole tile is done again by the careful way, which knows all the cases and keeps no registers.
 *
 * SPDX-License-Identifier: MIT
 */

#if STEP == GRAD_POWER
#  include "grad_power.cuh"
#endif

#define FOLD 256

static __device__ REAL *total_of(REAL *totals, int o, int i, int j)
{
    return totals + ((o * TN + i) * TM + j) * THREADS + threadIdx.x;
}

#if !SIGNS
/* Five of eight elements go by numbers, the others by special functions: what keeps both ways
 * equally busy. */
static __device__ constexpr bool by_numbers(int element)
{
    return element * 5 % 8 < 5;
}

/* weight sgn(t) |t|^(p-1) */
static __device__ REAL weighted(int element, REAL weight, REAL t, const struct grad_params *a)
{
#  if STEP == GRAD_POWER
    return by_numbers(element) ? table_term(weight, t, &a->power)
                               : weight * special_term(t, (float)a->fraction);
#  else
    const REAL fraction = (REAL)a->fraction;

    return weight *
           (by_numbers(element) ? quick_term<true>(t, fraction) : quick_term<false>(t, fraction));
#  endif
}

static __device__ void add_centre(struct grad_sums *sums, const REAL d[TN][TM],
                                  const struct grad_panels *p, int k,
                                  const struct grad_params *params)
{
    REAL a[TM], b[TN];

    read_points(a, p->a + k * A_LD);
    read_features(b, p->b + k * B_LD);
#  if TO == 1
    const REAL c = p->c[k];
#    pragma unroll
    for (int j = 0; j < TM; j++) {
        a[j] *= c;
        sums->weight[j] += a[j];
    }
#    pragma unroll
    for (int i = 0; i < TN; i++)
#    pragma unroll
        for (int j = 0; j < TM; j++) {
            const REAL t = d[i][j] - b[i];
            sums->at[0][i][j] +=
                STEP == GRAD_SIGN ? a[j] * above(t) : weighted(i * TM + j, a[j], t, params);
        }
#  else
    REAL c[TO];
    read_outputs(c, p->c + k * C_LD);
#    pragma unroll
    for (int i = 0; i < TN; i++)
#    pragma unroll
        for (int j = 0; j < TM; j++) {
            const REAL t = d[i][j] - b[i];
            const REAL v = STEP == GRAD_SIGN ? above(t) * (a[j] + a[j]) - a[j]
                                             : weighted(i * TM + j, a[j], t, params);
#    pragma unroll
            for (int o = 0; o < TO; o++)
                sums->at[o][i][j] += c[o] * v;
        }
#  endif
}

static __device__ void add_panel(struct grad_sums *sums, const REAL d[TN][TM],
                                 const struct grad_panels *p, const struct grad_params *params)
{
#  pragma unroll unrolled
    for (int k = 0; k < BK; k++)
        add_centre(sums, d, p, k, params);
}
#endif

static __device__ void fold(struct grad_sums *sums, REAL *totals)
{
#pragma unroll
    for (int o = 0; o < OWN; o++)
#pragma unroll
        for (int i = 0; i < TN; i++) {
#pragma unroll
            for (int j = 0; j < TM; j++) {
                REAL value = sums->at[o][i][j];
                if (TO == 1 && STEP == GRAD_SIGN)
                    value = 2 * value - sums->weight[j];
                *total_of(totals, o, i, j) += value;
                sums->at[o][i][j] = 0;
            }
        }
#pragma unroll
    for (int j = 0; j < TM; j++)
        sums->weight[j] = 0;
}

static __device__ void clear(REAL *totals)
{
    for (int e = 0; e < OWN * TN * TM; e++)
        totals[e * THREADS + threadIdx.x] = 0;
}

/* True if some number of this thread's part of a panel of b needs care. */
static __device__ bool suspect(const REAL *b)
{
    bool bad = false;

#pragma unroll 1
    for (int e = (int)threadIdx.x * LANES; e < BK * BN; e += THREADS * LANES) {
        REAL x[LANES];
        read_groups<LANES, 0>(x, b + e / BN * B_LD + e % BN);
#pragma unroll
        for (int l = 0; l < LANES; l++)
            bad |= needs_care(x[l]);
    }
    return bad;
}

/* Leaves the totals of the tile; true if they may be wrong. */
static __device__ bool quick_sums(const struct grad_params *a, const struct grad_tile *tile,
                                  REAL *panels, REAL *totals)
{
    const int count = panel_count(tile);
    struct grad_sums sums = {};
    REAL d[TN][TM];
    bool bad = false;

#pragma unroll
    for (int i = 0; i < TN; i++)
#pragma unroll
        for (int j = 0; j < TM; j++) {
            d[i][j] = coordinate(a, tile, feature_of(i), point_of(j));
            bad |= needs_care(d[i][j]);
        }
    clear(totals);
    load_panels(a, tile, panels, 0, count);
#pragma unroll 1
    for (int panel = 0; panel < count; panel++) {
        struct grad_panels now;
        ptx_copy_wait<0>();
        __syncthreads(); /* this panel is there, and the other one is no longer read */
        load_panels(a, tile, panels, panel + 1, count);
        now = panels_at(panels, panel);
        bad |= suspect(now.b);
        add_panel(&sums, d, &now, a);
        if ((panel + 1) % (FOLD / BK) == 0 || panel + 1 == count)
            fold(&sums, totals);
    }
#pragma unroll 1
    for (int e = 0; e < OWN * TN * TM; e++)
        bad |= !isfinite(totals[e * THREADS + threadIdx.x]);
    return bad;
}

/* The sums of a panel's centres for an element, added to the totals of its outputs. */
static __device__ void careful_element(const struct grad_panels *p, REAL d, int element, int left,
                                       double exponent, REAL *totals)
{
    const int i = element / TM, j = element % TM;
    const REAL *a = p->a + point_of(j), *b = p->b + feature_of(i);

#pragma unroll 1
    for (int k = 0; k < left; k++) {
        const REAL v = a[k * A_LD] * careful_term(d - b[k * B_LD], exponent);
#pragma unroll 1
        for (int o = 0; o < OWN; o++)
            *total_of(totals, o, i, j) += p->c[k * C_LD + output_of(o)] * v;
    }
}

static __device__ void careful_sums(const struct grad_params *a, const struct grad_tile *tile,
                                    REAL *panels, REAL *totals)
{
    const int count = panel_count(tile);

    __syncthreads(); /* the panels are no longer read */
    clear(totals);
    load_panels(a, tile, panels, 0, count);
#pragma unroll 1
    for (int panel = 0; panel < count; panel++) {
        const int left = centres_left(tile, panel);
        struct grad_panels now;
        ptx_copy_wait<0>();
        __syncthreads();
        load_panels(a, tile, panels, panel + 1, count);
        now = panels_at(panels, panel);
#pragma unroll 1
        for (int e = 0; e < TN * TM; e++)
            careful_element(&now, coordinate(a, tile, feature_of(e / TM), point_of(e % TM)), e,
                            left, tile->exponent, totals);
    }
}

static __device__ void finish_tile(const struct grad_params *a, const struct grad_tile *tile,
                                   REAL *totals)
{
#pragma unroll 1
    for (int e = 0; e < OWN * TN * TM; e++)
        store(a, tile, output_of(e / (TN * TM)), feature_of(e / TM % TN), point_of(e % TM),
              totals[e * THREADS + threadIdx.x]);
}

static __device__ void compute(const struct grad_params *a, const struct grad_tile *tile,
                               REAL *panels)
{
    REAL *const totals = panels + 2 * STAGE;

    if (STEP == GRAD_ANY || __syncthreads_or(quick_sums(a, tile, panels, totals)))
        careful_sums(a, tile, panels, totals);
    finish_tile(a, tile, totals);
}

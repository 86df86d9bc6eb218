/*
 * grad_terms.cuh - the sums of one tile of a gradient, a term for every centre
 *
 * Part of cdist_grad.cu, whose parameters it uses: the term itself, its powers in f32 from a table,
 * its signs by tensor cores, and the sums of a tile, which are made of them.
 *
 * SPDX-License-Identifier: MIT
 */
#include "real_power.cuh"

/* ---- The term: sgn(t) |t|^(p-1) ------------------------------------------------------------- */

/* quick_term() takes it that the coordinates are finite, and 0 or at least 2^-100 in size: no
 * difference is denormal then, and a sum that is not finite tells of everything else that needs
 * care.  careful_term() takes anything. */

static __device__ float signed_as(float size, float sign)
{
    return copysignf(size, sign);
}
static __device__ double signed_as(double size, double sign)
{
    return copysign(size, sign);
}
static __device__ float quick_root(float x)
{
    return ptx_sqrt_of_normal(x);
}
static __device__ double quick_root(double x)
{
    return sqrt(x);
}
static __device__ float power(float x, double e)
{
    return powf(x, (float)e);
}
static __device__ double power(double x, double e)
{
    return pow(x, e);
}

/* 1 for t > 0, 0 for t < 0 and 1/2 for 0, so that 2 s - 1 is the sign, that of a tie too. */
static __device__ float above(float t)
{
    return __saturatef(fmaf(t, 0x1p127f, 0.5f));
}
static __device__ double above(double t)
{
    return t > 0 ? 1 : t < 0 ? 0 : 0.5;
}

/* 2^(log fraction) by a polynomial of degree 4 (the minimax one on [-1/2, 1/2]), within 2.6e-6: the
 * special functions are the narrower way, so that most elements take only one of their two there.
 */
static __device__ float exp2_by_polynomial(float log, float fraction)
{
    const float magic = 12582912; /* 3 2^22: its last bit is worth 1 */
    const float rounded = fmaf(log, fraction, magic), n = rounded - magic;
    const float r = fmaf(log, fraction, -n);
    float y = fmaf(0.0095701019f, r, 0.0559178603f);

    y = fmaf(y, r, 0.2402474483f);
    y = fmaf(y, r, 0.6931218147f);
    y = fmaf(y, r, 0.9999992614f);
    return __int_as_float(__float_as_int(y) + (int)((unsigned)__float_as_int(rounded) << 23));
}

/* |t|^fraction; 0 counts as 2^-126. */
template <bool POLYNOMIAL> static __device__ REAL quick_power(REAL size, REAL fraction)
{
    const float log = ptx_log2(fmaxf((float)size, 0x1p-126f));

    return POLYNOMIAL ? exp2_by_polynomial(log, (float)fraction) : ptx_exp2(log * (float)fraction);
}

template <bool POLYNOMIAL> static __device__ REAL quick_term(REAL t, REAL fraction)
{
    const REAL size = magnitude(t);

    switch (STEP) {
    case GRAD_SIGN:
        return 2 * above(t) - 1;
    case GRAD_ROOT:
        return signed_as(quick_root(size), t);
    case GRAD_WHOLE:
        return t * product<WHOLE>(size);
    default:
        return t == 0 ? 0 : signed_as(quick_power<POLYNOMIAL>(size, fraction), t);
    }
}

static __device__ REAL careful_term(REAL t, double exponent)
{
    const REAL size = magnitude(t);

    if (!(size > 0))
        return t; /* 0 or NaN */
    if (STEP == GRAD_SIGN || exponent == 0)
        return signed_as((REAL)1, t);
    if (exponent == 1)
        return t;
    if (STEP == GRAD_ROOT)
        return signed_as((REAL)sqrt(size), t);
    if (STEP == GRAD_WHOLE)
        return t * product<WHOLE>(size);
    return signed_as(power(size, exponent), t);
}

/* True if quick_term does not do for x. */
static __device__ bool needs_care(float x)
{
    const unsigned bits = (unsigned)__float_as_int(x) << 1;

    /* 27: the exponent of 2^-100; without a branch */
    return (int)(bits >= 0xff000000u) | (int)(bits - 1 < (27u << 24) - 1);
}

static __device__ bool needs_care(double x)
{
    return !(fabs(x) <= 0x1.fffffffffffffp1023);
}

#if STEP == GRAD_POWER
/* ---- The same in f32, p > 1 and not whole --------------------------------------------------- */

/*
 * |t|^f, f the fraction of p - 1, is inv^-f P^f as in pair_terms.cuh, whose numbers these are: inv
 * is about 1 / t, with a sign, exponent and three bits that are all turned over, and -P = t inv
 * lies in [-4.5, -3.75].  The table knows the sign too.  |t| under 2^-126 counts as 0.
 *
 * Three of eight elements take the special functions, whose units would have nothing to do:
 * with L = |log2 t| these err by f L / 3 eps of the logarithm, f L / 3.6 eps at most of the
 * product's rounding and 3 eps of the rest.
 */
static __shared__ float powers[2 * 256 * 8]; /* sign, exponent and three bits of inv */

/* value 2^-(f n) */
static __device__ double scaled(const struct pair_power *power, double value, int n)
{
    const double *factor = n < 0 ? power->grow : power->shrink;

    for (int bit = 0, left = n < 0 ? -n : n; left; bit++, left >>= 1)
        value *= left & 1 ? factor[bit] : 1;
    return value;
}

static __device__ void fill_powers(const struct pair_power *power)
{
    for (int e = (int)threadIdx.x; e < 256; e += THREADS) { /* of inv: 2^(e - 127) */
        const double value = scaled(power, power->f32_most, e - 127);
#  pragma unroll 1
        for (int m = 0; m < 8; m++) {
            const float at = e == 0     ? __int_as_float(0x7fc00000)
                             : e == 255 ? 0
                                        : (float)(value * power->mantissa[m]);
            powers[8 * e + m] = -at; /* inv > 0 where t < 0 */
            powers[8 * (256 + e) + m] = at;
        }
    }
}

/* weight sgn(t) |t|^(p-1) */
static __device__ float table_term(float weight, float t, const struct pair_power *power)
{
    const unsigned inv = ~__float_as_uint(t) & 0xfff00000;
    const float scale = *(const float *)((const char *)powers + (inv >> 18));
    const float p = t * __uint_as_float(inv);
    const float q = fmaf(fmaf(-power->f32[3], p, power->f32[2]), p, -power->f32[1]);

    return product<WHOLE>(fabsf(t)) * weight * scale * ptx_fma_saturated(q, p, power->f32[0]);
}

static __device__ float special_term(float t, float fraction)
{
    const float size = fabsf(t);

    return product<WHOLE>(size) * signed_as(ptx_exp2(fraction * ptx_log2(size)), t);
}
#endif

#if SIGNS
/* ---- p = 1 and several outputs in f32: signs times weights by tensor cores ------------------ */

/*
 *   out[o, n, m] = sum_k sgn(d[n, m] - b[n, k]) (c[o, k] a[k, m])
 * is, for each point m, a product of a matrix of signs, which bfloat16 holds exactly, and one of
 * weights, each the sum of three bfloat16: 24 bits.  Both are made in registers, the weights for
 * all features of the warp at once.
 *
 * ptx_mma_bf16 takes 16 features, 16 centres and 8 outputs.  Lane g = lane / 4, t = lane % 4: rows
 * g and g + 8 are features 2 r and 2 r + 1 of the lane, its four centres along k are t, t + 4,
 * t + 8 and t + 12 of a panel, columns 2 t and 2 t + 1 of product q outputs 4 t + q and 4 t + 2 + q
 * (2 t and 2 t + 1 if there is one product): so reads from the panels meet no bank twice.
 */
#  define PRODUCTS (TO / 8) /* of 8 outputs */
#  define PARTS    3        /* of a weight */

static __device__ int shared_centre(int i)
{
    return (int)threadIdx.x % 4 + 4 * i;
}

static __device__ unsigned signs_of(float low, float high)
{
    const unsigned two = 0x40004000, minus_one = 0xbf80bf80;

    return ptx_fma_of_bfloats(ptx_upper_halves(above(low), above(high)), two, minus_one);
}

/* Two weights as sums of bfloat16, the largest ones first. */
static __device__ void split(float low, float high, unsigned parts[PARTS])
{
#  pragma unroll
    for (int i = 0; i < PARTS; i++) {
        parts[i] = ptx_bfloats_of_floats(low, high);
        low -= __int_as_float((int)(parts[i] << 16));
        high -= __int_as_float((int)(parts[i] & 0xffff0000u));
    }
}

/* The weights of 16 centres: registers of b of each product and part. */
static __device__ void find_weights(const struct grad_panels *p,
                                    unsigned weights[TM][PRODUCTS][PARTS][2])
{
#  pragma unroll
    for (int half = 0; half < 2; half++) {
        REAL a[2][TM], c[2][PRODUCTS];
#  pragma unroll
        for (int i = 0; i < 2; i++) {
            const int k = shared_centre(2 * half + i);
            read_groups<TM, 0>(a[i], p->a + k * A_LD + point_of(0));
            read_groups<PRODUCTS, 0>(c[i], p->c + k * C_LD + (int)threadIdx.x % 32 / 4 * PRODUCTS);
        }
#  pragma unroll
        for (int j = 0; j < TM; j++)
#  pragma unroll
            for (int q = 0; q < PRODUCTS; q++) {
                unsigned parts[PARTS];
                split(c[0][q] * a[0][j], c[1][q] * a[1][j], parts);
#  pragma unroll
                for (int i = 0; i < PARTS; i++)
                    weights[j][q][i][half] = parts[i];
            }
    }
}

/* Features 2 r and 2 r + 1 of point j: the smallest parts first. */
static __device__ void add_products(struct grad_sums *sums, int r, int j, const unsigned signs[4],
                                    const unsigned weights[PRODUCTS][PARTS][2])
{
#  pragma unroll
    for (int q = 0; q < PRODUCTS; q++) {
        float c[4];
#  pragma unroll
        for (int i = 0; i < 4; i++)
            c[i] = sums->at[i % 2 * PRODUCTS + q][2 * r + i / 2][j];
#  pragma unroll
        for (int i = PARTS - 1; i >= 0; i--)
            ptx_mma_bf16(c, signs, weights[q][i]);
#  pragma unroll
        for (int i = 0; i < 4; i++)
            sums->at[i % 2 * PRODUCTS + q][2 * r + i / 2][j] = c[i];
    }
}

/* 16 centres. */
static __device__ void add_centres(struct grad_sums *sums, const REAL d[TN][TM],
                                   const struct grad_panels *p)
{
    unsigned weights[TM][PRODUCTS][PARTS][2];

    find_weights(p, weights);
#  pragma unroll
    for (int i = 0; i < TN; i += LANES) {
        REAL b[4][LANES];
#  pragma unroll
        for (int k = 0; k < 4; k++)
            read_groups<LANES, 0>(b[k], p->b + shared_centre(k) * B_LD + feature_of(i));
#  pragma unroll
        for (int r = 0; r < LANES; r += 2)
#  pragma unroll
            for (int j = 0; j < TM; j++) {
                unsigned signs[4];
#  pragma unroll
                for (int s = 0; s < 4; s++) {
                    const int n = r + s % 2, k = s / 2 * 2;
                    signs[s] = signs_of(d[i + n][j] - b[k][n], d[i + n][j] - b[k + 1][n]);
                }
                add_products(sums, (i + r) / 2, j, signs, weights[j]);
            }
    }
}

static __device__ void add_panel(struct grad_sums *sums, const REAL d[TN][TM],
                                 const struct grad_panels *p, const struct grad_params *)
{
    struct grad_panels now = *p;

#  pragma unroll 1
    for (int k = 0; k < BK; k += 16) {
        add_centres(sums, d, &now);
        now.a += 16 * A_LD, now.b += 16 * B_LD, now.c += 16 * C_LD;
    }
}
#endif

/* ---- The sums of a tile --------------------------------------------------------------------- */

/*
 * A thread keeps d and the sums of TO outputs, TN features and TM points in registers.  One output:
 * c is multiplied into a, and with p = 1
 *   sum w sgn(t) = 2 sum w above(t) - sum w,
 * which makes a difference, a saturated product and an fma of a term.  More outputs share a term.
 * Every FOLD centres the sums go to the totals in shared memory, so that rounding errors grow with
 * FOLD + K / FOLD.  Where a coordinate is not an ordinary number, or a total is not finite, the
 * whole tile is done again by the careful way, which knows all the cases and keeps no registers.
 */
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

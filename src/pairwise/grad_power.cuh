/*
 * grad_power.cuh - sgn(t) |t|^(p-1) in f32, p > 1 and not whole
 *
 * |t|^f, f the fraction of p - 1, is inv^-f P^f as in pair_power.cuh, whose numbers these are: inv
 * is about 1 / t, with a sign, exponent and three bits that are all turned over, and -P = t inv
 * lies in [-4.5, -3.75].  The table knows the sign too.  |t| under 2^-126 counts as 0.
 *
 * Three of eight elements take the special functions, whose units would have nothing to do:
 * with L = |log2 t| these err by f L / 3 eps of the logarithm, f L / 3.6 eps at most of the
 * product's rounding and 3 eps of the rest.
 *
 * Part of cdist_grad.cu, whose parameters it uses.
 *
 * SPDX-License-Identifier: MIT
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
#pragma unroll 1
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

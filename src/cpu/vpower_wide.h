/*
 * vpower_wide.h - x^q for x >= 0 and any q, where the logarithm must be more exact than its dtype
 *
 * f32 computes in f64; f64 takes the logarithm as a sum of two numbers, to about 2^-68:
 *   ln m = 2 s (1 + z (1/3 + z V(z))), s = (m - 1) / (m + 1), z = s^2, V the atanh series.
 * A name and its `_tail` are one number: an unevaluated sum.
 *
 * SPDX-License-Identifier: MIT
 */

/* The product of a and b; what rounding takes from it goes to *tail. */
static inline vf64 product_f64(vf64 a, vf64 b, vf64 *tail)
{
    const vf64 p = a * b;

#if VBYTES == 64
    *tail = (vf64)_mm512_fmsub_pd((__m512d)a, (__m512d)b, (__m512d)p);
#elif VBYTES == 32
    *tail = (vf64)_mm256_fmsub_pd((__m256d)a, (__m256d)b, (__m256d)p);
#elif defined(__FP_FAST_FMA)
    for (int i = 0; i < VBYTES / 8; i++)
        (*tail)[i] = __builtin_fma(a[i], b[i], -p[i]);
#else
    /* Products of halves of the digits are exact. */
    const vu64 head = (vu64){0} + (UINT64_MAX << 27);
    const vf64 a_head = (vf64)((vu64)a & head), b_head = (vf64)((vu64)b & head);
    const vf64 a_tail = a - a_head, b_tail = b - b_head;

    *tail = ((a_head * b_head - p) + a_head * b_tail + a_tail * b_head) + a_tail * b_tail;
#endif
    return p;
}

/* log2(m) for 3/4 <= m <= 3/2 */
static inline vf64 log2_tail_f64(vf64 m, vf64 *tail)
{
    const double third = 0x1.5555555555555p-2, third_tail = 0x1.5555555555555p-56;
    const double factor = 0x1.71547652b82fep+1, factor_tail = 0x1.777d0ffda0d24p-55; /* 2 / ln 2 */
    const vf64 a = m - 1, b = m + 1, b_tail = m - (b - 1);
    vf64 s = a / b, s_tail, z, z_tail, t, t_tail, u, u_tail, k, k_tail;

    t = product_f64(s, b, &t_tail);
    s_tail = (((a - t) - t_tail) - s * b_tail) / b;
    z = product_f64(s, s, &z_tail);
    z_tail += 2 * s * s_tail;

    /* u = 1/3 + z V;  t = z u;  u = s t;  k = s + u */
    k = z * series_f64(z, 8, atanh_series_f64);
    u = third + k;
    u_tail = (third - u) + k + third_tail;
    t = product_f64(z, u, &t_tail);
    t_tail += z * u_tail + z_tail * u;
    u = product_f64(s, t, &u_tail);
    u_tail += s * t_tail + s_tail * t;
    k = s + u;
    k_tail = ((s - k) + u) + (u_tail + s_tail);

    t = product_f64(k, (vf64){0} + factor, &t_tail);
    *tail = t_tail + (k * factor_tail + k_tail * factor);
    return t;
}

/* x^q for finite x > 0 and |q| <= 2^70 */
static inline vf64 wide_power_of_f64(vf64 q, vf64 x)
{
    vf64 e, m = normalise_f64(x, &e), l, l_tail, h, h_tail, n, g;

    l = log2_tail_f64(m, &g);
    l = product_f64(q, l, &l_tail);
    l_tail += q * g;
    h = product_f64(q, e, &h_tail);
    n = round_f64(clamp_f64(h + l, -2044, 2046));
    g = ((h - n) + l) + (h_tail + l_tail);
    return exp2_of_f64(n, clamp_f64(g, -1, 1));
}

static inline vf64 wide_power_f64(const struct gram_power *w, vf64 x)
{
    return special_f64(w, x, wide_power_of_f64((vf64){0} + w->f64.q, x));
}

/* Half of a vector of f32, in f64: q log2(x) has 2^-44 to spare. */
static inline vf64 wide_power_half(const struct gram_power *w, vf32_half x)
{
    const double q = w->f64.q;
    vf64 e, m = normalise_f64(__builtin_convertvector(x, vf64), &e);
    vf64 y = clamp_f64(q * e + q * log2_mantissa_f64(m), -2044, 2046), n = round_f64(y);

    return exp2_of_f64(n, y - n);
}

static inline vf32 wide_power_f32(const struct gram_power *w, vf32 x)
{
    vf32_half part[2];
    vf32 r;

    __builtin_memcpy(part, &x, sizeof part);
    part[0] = __builtin_convertvector(wide_power_half(w, part[0]), vf32_half);
    part[1] = __builtin_convertvector(wide_power_half(w, part[1]), vf32_half);
    __builtin_memcpy(&r, part, sizeof part);
    return special_f32(w, x, r);
}

/*
 * vmath_series.h - coefficients of the series in vmath_dtype.h, lowest power first
 *
 * Chebyshev interpolants, computed with 60 digits: interpolation of the named function at the n + 1
 * Chebyshev nodes of the interval, n the degree, then expanded in powers.  "error" is the largest
 * one that the interpolant alone causes, relative to the function in whose formula it stands.
 *
 * SPDX-License-Identifier: MIT
 */

/* (e^g - 1 - g) / g^2 for |g| <= 0.3467, a little more than log(2) / 2; error of e^g 8e-9. */
static const float expm1_series_f32[] = {
    0.5f, 0.16666576846f, 0.0416665544377f, 0.00836320297158f, 0.00139262134663f,
};

/* The same; error 1e-17. */
static const double expm1_series_f64[] = {
    0x1.0000000000001p-1,  0x1.5555555555556p-3,  0x1.5555555553d4fp-5,  0x1.11111111109adp-7,
    0x1.6c16c17893833p-10, 0x1.a01a01a7c8d47p-13, 0x1.a019b8ef67c6cp-16, 0x1.71de0d9c145d0p-19,
    0x1.2891a8c1d838dp-22, 0x1.af38d53857513p-26,
};

/* (log2(m) / s - 2 / ln 2) / s^2 as a polynomial in s^2, with s = (m - 1) / (m + 1) and
 * 3/4 <= m <= 3/2, so that s^2 <= 0.0401; error 8e-11. */
static const float log2_series_f32[] = {
    0.96179668825f,
    0.577082541292f,
    0.411637611805f,
    0.342659429801f,
};

/* The same; error 5e-19. */
static const double log2_series_f64[] = {
    0x1.ec709dc3a03fdp-1, 0x1.2776c50efa006p-1, 0x1.a61762a6a6711p-2, 0x1.484b14a482677p-2,
    0x1.0c9a369b508f3p-2, 0x1.c6af80bcd2d48p-3, 0x1.864c9ba7f35bap-3, 0x1.921907da0732ap-3,
};

/* ((atanh(s) / s - 1) / s^2 - 1/3) / s^2 in s^2 <= 0.0401; error of atanh 2e-20. */
static const double atanh_series_f64[] = {
    0x1.9999999999999p-3, 0x1.24924924929a2p-3, 0x1.c71c71c5d1859p-4, 0x1.745d1846f9df8p-4,
    0x1.3b134f48c7465p-4, 0x1.1125432cc63f7p-4, 0x1.dd4bc703ca43bp-5, 0x1.f390140ece71dp-5,
};

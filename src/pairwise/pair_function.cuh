/*
 * pair_function.cuh - what becomes of a finished sum: value, weight or derivative
 *
 * Part of cdist.cu, whose parameters it uses.
 *
 * SPDX-License-Identifier: MIT
 */

static __device__ REAL raised(const struct pair_raise *r, int kind, REAL x)
{
    switch (kind == PAIR_RUN_TIME ? (int)r->kind : kind) {
    case PAIR_SAME:
        return x;
    case PAIR_UNIT:
        return 1;
    case PAIR_SQRT:
        return root(x);
    default:
        return power(x, r->e);
    }
}

/* (c[0] + c[1] t + c[2] t^2 + c[3] t^3) e^-t */
static __device__ REAL damped(const struct pair_map *map, REAL t)
{
    t = t > 2000 ? (REAL)2000 : t < -2000 ? (REAL)-2000 : t; /* e^-2000 = 0 */
    REAL sum = map->c[0];
    if (FUNCTION == PAIR_MATERN32 || FUNCTION == PAIR_MATERN52 || OUTPUT != PAIR_VALUE)
        sum = (((REAL)map->c[3] * t + (REAL)map->c[2]) * t + (REAL)map->c[1]) * t + sum;
    return sum * exp(-t);
}

/* (c[0] + c[1] t) (1 + t)^e */
static __device__ REAL rational(const struct pair_map *map, REAL t)
{
    REAL base;

    t = t > LARGEST / 4 ? LARGEST / 4 : t;
    if (t > (REAL)-0.5)
        base = exp((REAL)map->raise.e * log1p(t));
    else
        base = power(1 + t, map->raise.e);
    return ((REAL)map->c[0] + (REAL)map->c[1] * t) * base;
}

/* Written by cuda_expression.c: expression_constants() and expression_of(). */
#if FUNCTION == PAIR_EXPRESSION
#  include "pair_expression.cuh"
#endif

static __device__ REAL form(const struct pair_map *map, REAL t)
{
    const REAL factor = (REAL)map->factor;

    if (FUNCTION == PAIR_IDENTITY || FUNCTION == PAIR_COSINE)
        return OUTPUT == PAIR_VALUE ? t : t != t ? t : factor;
#if FUNCTION == PAIR_EXPRESSION
    return OUTPUT == PAIR_VALUE ? expression_of(map->constant, t)
                                : factor * expression_of(map->constant, t);
#endif
    if (FUNCTION <= PAIR_MATERN52)
        return damped(map, t);
    if (FUNCTION == PAIR_RATIONAL_QUADRATIC)
        return rational(map, t);
    if (OUTPUT == PAIR_BANDWIDTH_DERIVATIVE || factor == 0)
        return t != t ? t : (REAL)0;
    if (FUNCTION == PAIR_POLYNOMIAL)
        return factor * raised(&map->raise, PAIR_RUN_TIME, t);
    if (OUTPUT == PAIR_VALUE)
        return tanh(t);
    const REAL c = cosh(t);
    return factor / c / c;
}

static __device__ REAL mapped(const struct pair_map *map, REAL s)
{
    REAL slope = 1, t;

    if (FUNCTION == PAIR_IDENTITY && OUTPUT == PAIR_VALUE)
        return raised(&map->base, BASE, s);
    if (OUTPUT == PAIR_WEIGHT && map->sloped) {
        slope = raised(&map->slope, SLOPE, s);
        slope = s > 0 ? (slope > LARGEST ? LARGEST : slope) : 0 * s;
        if (FUNCTION == PAIR_EXPRESSION && slope == 0)
            return 0; /* whose own slope need not be finite */
    }
    t = (REAL)map->scale * raised(&map->base, BASE, s) + (REAL)map->shift;
    return slope * form(map, t);
}

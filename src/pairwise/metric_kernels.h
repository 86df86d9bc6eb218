/*
 * metric_kernels.h - what metrics add up and what becomes of their sums: the kernels of one dtype
 *
 * Included by kernels_dtype.h once for each dtype, which says DTYPE, real, vec and ivec.  Every
 * term is exactly zero where a and b are equal numbers, but for the second sums.  A NaN gives NaN
 * unless a comment says what else.
 *
 * SPDX-License-Identifier: MIT
 */
#define FN(f)        CAT(f, DTYPE)
#define SERIES(x, c) CAT(series, DTYPE)(x, sizeof(c) / sizeof *(c), c)

/* ---- Terms ---------------------------------------------------------------------------------- */

/* value where a mask is set, else 0 */
static inline vec FN(where)(ivec mask, vec value)
{
    return (vec)(mask & (ivec)value);
}

/* |a - b| / (|a| + |b|), 0 / 0 = 0 */
static inline vec FN(canberra)(vec a, vec b)
{
    const vec d = v_abs(a - b), size = v_abs(a) + v_abs(b);

    return FN(where)(size != 0, d / size);
}

/* (a - b)^2 / (a + b), 0 where a + b = 0 */
static inline vec FN(chi2)(vec a, vec b)
{
    const vec d = a - b, size = a + b;

    return FN(where)(size != 0, d * d / size);
}

static inline vec FN(difference)(vec a, vec b)
{
    return v_abs(a - b);
}

static inline vec FN(total)(vec a, vec b)
{
    return v_abs(a + b);
}

/* 1 where a and b differ, as a NaN does from everything */
static inline vec FN(differs)(vec a, vec b)
{
    return FN(where)(a != b, (vec){0} + 1);
}

/* All bits where a or b is NaN. */
static inline ivec FN(missing)(vec a, vec b)
{
    return (a != a) | (b != b); /* NOLINT(misc-redundant-expression) */
}

static inline vec FN(square_there)(vec a, vec b)
{
    const vec d = a - b;

    return FN(where)(~FN(missing)(a, b), d * d);
}

static inline vec FN(count_there)(vec a, vec b)
{
    return FN(where)(~FN(missing)(a, b), (vec){0} + 1);
}

/* term, but infinite where a or b is negative and the other one is no NaN */
static inline vec FN(of_distributions)(vec a, vec b, vec term)
{
    const vec zero = {0}, infinity = zero + (real)INFINITY;
    const vec bounded = FN(if_less)(a, zero, infinity + zero * b, term);

    return FN(if_less)(b, zero, infinity + zero * a, bounded);
}

/* a log(a / b), 0 where a = 0; infinite where b = 0 */
static inline vec FN(kullback_leibler)(vec a, vec b)
{
    const vec term =
        FN(where)((a != 0) | (b != b), a * FN(log)(a / (b + 0))); /* NOLINT: -0 counts as 0 */

    return FN(of_distributions)(a, b, term);
}

/*
 * a log(2 a / (a + b)) + b log(2 b / (a + b)) is (a + b) f(t) / 2 with t = |a - b| / (a + b) and
 *   f(t) = (1 + t) log(1 + t) + (1 - t) log(1 - t).
 * For t < 1/2 the logarithms would cancel, and f is t^2 times a polynomial of t^2; above, what
 * cancels costs no more than two bits.
 */
static inline vec FN(jensen_shannon)(vec a, vec b)
{
    const vec zero = {0}, sum = a + b, none = zero + 1;
    const vec t = FN(where)(sum != 0, v_abs(a - b) / sum), z = t * t, left = 1 - t;
    const vec series = z * SERIES(FN(clamp)(z, 0, (real)0.25), FN(entropy_series));
    const vec logs = FN(where)(left != 0, left * FN(log)(FN(if_less)(zero, left, left, none)));
    const vec direct = (1 + t) * FN(log)(1 + t) + logs;
    const vec term = (real)0.5 * sum * FN(if_less)(t, none * (real)0.5, series, direct);

    return FN(of_distributions)(a, b, term);
}

/* ---- Tiles ---------------------------------------------------------------------------------- */

#define METRIC     canberra
#define TERM(a, b) FN(canberra)(a, b)
#define SUMS       1
#include "pairwise/metric_tile.h"

#define METRIC     chi2
#define TERM(a, b) FN(chi2)(a, b)
#define SUMS       1
#include "pairwise/metric_tile.h"

#define METRIC     hamming
#define TERM(a, b) FN(differs)(a, b)
#define SUMS       1
#include "pairwise/metric_tile.h"

#define METRIC     kullback_leibler
#define TERM(a, b) FN(kullback_leibler)(a, b)
#define SUMS       1
#include "pairwise/metric_tile.h"

#define METRIC     jensen_shannon
#define TERM(a, b) FN(jensen_shannon)(a, b)
#define SUMS       1
#include "pairwise/metric_tile.h"

#define METRIC       braycurtis
#define TERM(a, b)   FN(difference)(a, b)
#define SECOND(a, b) FN(total)(a, b)
#define SUMS         2
#include "pairwise/metric_tile.h"

#define METRIC       nan_euclidean
#define TERM(a, b)   FN(square_there)(a, b)
#define SECOND(a, b) FN(count_there)(a, b)
#define SUMS         2
#include "pairwise/metric_tile.h"

static inline vec FN(sine)(vec x)
{
    return CAT(circle, DTYPE)(x, 0);
}

/* sin^2((x_0 - y_0) / 2) + c_x c_y sin^2((x_1 - y_1) / 2) of panels with three columns, the third
 * of which is c, the cosine of the first. */
static void CAT(CAT(metric_haversine, DTYPE), ISA)(const struct gram_tile *t)
{
    const real *x = t->x;
    const vec *y = t->y;

    for (int i = 0; i < MR; i++)
        for (int v = 0; v < NV; v++) {
            vec *to = (vec *)((real *)t->c + i * t->ldc) + v;
            const vec latitude = FN(sine)((real)0.5 * (y[v] - x[i]));
            const vec longitude = FN(sine)((real)0.5 * (y[NV + v] - x[MR + i]));
            const vec cosines = y[2 * NV + v] * x[2 * MR + i];
            *to = latitude * latitude + cosines * (longitude * longitude);
        }
}

/* ---- Finished sums -------------------------------------------------------------------------- */

/* asin(sqrt(h)) for h from 0 to 1, and a little more from rounding: above 1/2 it is
 * pi / 2 - asin(sqrt(1 - h)). */
static inline vec FN(asin_of_root)(vec h)
{
    const vec one = (vec){0} + 1, half = one * (real)0.5;
    const vec z = FN(if_less)(half, h, FN(if_less)(h, one, one - h, (vec){0}), h);
    const vec angle = v_sqrt(z) * SERIES(z, FN(arc_series));

    return FN(if_less)(half, h, (real)0x1.921fb54442d18p+0 - angle, angle);
}

/* What becomes of the sums: n of them, whole vectors. */
static void CAT(CAT(metric_finish, DTYPE), ISA)(int64_t n, void *values, const void *second,
                                                const struct gram_metric_finish *f)
{
    const vec *other = second;
    const real divisor = (real)f->divisor;
    const vec most = (vec){0} + (real)f->most;
    vec *out = values;

    n /= (int64_t)(VBYTES / sizeof(real));
    switch (f->form) {
    case GRAM_FINISH_DIVIDE:
        for (int64_t i = 0; i < n; i++)
            out[i] = FN(if_less)(most, out[i] / divisor, most, out[i] / divisor);
        break;
    case GRAM_FINISH_ROOT:
        for (int64_t i = 0; i < n; i++)
            out[i] = v_sqrt(out[i] / divisor);
        break;
    case GRAM_FINISH_RATIO:
        for (int64_t i = 0; i < n; i++)
            out[i] = out[i] / other[i];
        break;
    case GRAM_FINISH_UNION: /* with x + y and |x - y| of zeros and ones: max(x, y) */
        for (int64_t i = 0; i < n; i++)
            out[i] = FN(where)(out[i] != 0, 2 * out[i] / (out[i] + other[i]));
        break;
    case GRAM_FINISH_PRESENT:
    case GRAM_FINISH_PRESENT_ROOT:
        for (int64_t i = 0; i < n; i++) {
            const vec s = out[i] * (divisor / other[i]);
            out[i] = f->form == GRAM_FINISH_PRESENT ? s : v_sqrt(s);
        }
        break;
    case GRAM_FINISH_ANGLE:
        for (int64_t i = 0; i < n; i++)
            out[i] = 2 * FN(asin_of_root)(out[i]);
        break;
    default:
        break;
    }
}

#undef FN
#undef SERIES

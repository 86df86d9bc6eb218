/*
 * kernel_reduce_tile.h - template: extremes of a row of values, and exponentials of rows
 *
 * Of a soft sum, the exponents of a row refer to the largest one so far.  Without log-weights they
 * are scale times the difference of two values, so that an exponent has a small relative error, and
 * its exponential too.
 *
 * From the caller: DTYPE, real, vec, ivec, VBYTES (see kernels.h).  Contract: struct
 * gram_reduce_kernels.
 *
 * SPDX-License-Identifier: MIT
 */
#define LANES    ((int)(VBYTES / sizeof(real)))
#define FN(name) CAT(CAT(name, DTYPE), ISA)
#define OF(name) CAT(name, DTYPE)
#define CHAINS   4 /* as many comparisons at a time as hide the time of one */
#define MOST     ((real)(sizeof(real) == 4 ? 170 : 1400)) /* e^-MOST is zero or nearly so */

/* The larger one, or the first where the second is a NaN. */
static inline vec FN(reduce_larger)(vec a, vec b)
{
    return OF(if_less)(a, b, b, a);
}

/* The vector at p, where only `left` numbers belong to the row; the others become `fill`. */
static inline vec FN(reduce_rest)(const real *p, int64_t left, real fill)
{
    vec v = (vec){0} + fill;

    __builtin_memcpy(&v, p, (size_t)left * sizeof(real));
    return v;
}

/* The largest of sign * values + logs; logs are there if has_logs is set. */
static inline __attribute__((always_inline)) double
FN(reduce_largest_of)(int64_t n, const real *values, real scale, const real *logs,
                      const bool has_logs)
{
    const real first = has_logs ? scale * values[0] + logs[0] : scale * values[0];
    vec largest[CHAINS];
    ivec nan = {0};
    real most;
    int64_t j = 0;

    UNROLL_FOR (i, CHAINS)
        largest[i] = (vec){0} + first;
    for (; j + CHAINS * LANES <= n; j += CHAINS * LANES)
        UNROLL_FOR (i, CHAINS) {
            vec e = scale * ((const vec *)(values + j))[i];
            if (has_logs)
                e += ((const vec *)(logs + j))[i];
            largest[i] = FN(reduce_larger)(largest[i], e);
            nan |= OF(is_nan)(e);
        }
    for (; j < n; j += LANES) {
        const int64_t left = n - j < LANES ? n - j : LANES;
        vec e = scale * FN(reduce_rest)(values + j, left, values[0]);
        if (has_logs)
            e += FN(reduce_rest)(logs + j, left, logs[0]);
        largest[0] = FN(reduce_larger)(largest[0], e);
        nan |= OF(is_nan)(e);
    }
    if (v_any(nan))
        return (double)NAN;
    UNROLL_FOR (i, CHAINS)
        largest[0] = FN(reduce_larger)(largest[0], largest[i]);
    most = largest[0][0];
    for (int i = 1; i < LANES; i++)
        most = largest[0][i] > most ? largest[0][i] : most;
    return (double)most;
}

static double FN(reduce_largest)(int64_t n, const void *values, double scale, const void *logs)
{
    if (logs)
        return FN(reduce_largest_of)(n, values, (real)scale, logs, true);
    return FN(reduce_largest_of)(n, values, (real)scale, NULL, false);
}

/* The first of n values that equals `value`, or is a NaN where that is one; n if there is none. */
static int64_t FN(reduce_find)(int64_t n, const void *values, double value)
{
    const real *v = values, wanted = (real)value;
    const bool nan = value != value; /* NOLINT(misc-redundant-expression) */
    int64_t j = 0;

    for (; j + LANES <= n; j += LANES) {
        const vec at = *(const vec *)(v + j);
        if (v_any(nan ? OF(is_nan)(at) : at == wanted))
            break;
    }
    for (; j < n; j++)
        if (nan ? v[j] != v[j] : v[j] == wanted) /* NOLINT(misc-redundant-expression) */
            break;
    return j;
}

/* e^-x */
static inline vec FN(reduce_exp)(vec x)
{
    return OF(exp2_scaled)(OF(no_more)(x, MOST), -(real)0x1.71547652b82fep+0);
}

static inline __attribute__((always_inline)) void FN(reduce_row)(const struct gram_reduce_tile *t,
                                                                 int64_t r, const bool has_logs)
{
    const real *values = (const real *)t->values + r * t->ld, *logs = t->logs;
    const real scale = (real)t->scale, largest = (real)t->largest[r];
    real *to = (real *)t->weights + r * t->ldw;
    vec sum = ((const vec *)t->sums)[r];
    int64_t j = 0;

    for (; j + LANES <= t->cols; j += LANES) {
        const vec value = *(const vec *)(values + j);
        const vec x = has_logs ? largest - *(const vec *)(logs + j) - scale * value
                               : scale * (largest - value);
        const vec weight = FN(reduce_exp)(x);
        *(vec *)(to + j) = weight;
        sum += weight;
    }
    if (j < t->cols) {
        const int64_t left = t->cols - j;
        const vec value = FN(reduce_rest)(values + j, left, 0);
        const vec x = has_logs ? largest - FN(reduce_rest)(logs + j, left, 0) - scale * value
                               : scale * (largest - value);
        const vec all = FN(reduce_exp)(x);
        vec weight = {0};
        __builtin_memcpy(&weight, &all, (size_t)left * sizeof(real));
        *(vec *)(to + j) = weight;
        sum += weight;
    }
    ((vec *)t->sums)[r] = sum;
}

static void FN(reduce_weights)(const struct gram_reduce_tile *t)
{
    for (int64_t r = 0; r < t->rows; r++)
        if (t->logs)
            FN(reduce_row)(t, r, true);
        else
            FN(reduce_row)(t, r, false);
}

static const struct gram_reduce_kernels FN(reduce) = {
    .largest = FN(reduce_largest),
    .find = FN(reduce_find),
    .weights = FN(reduce_weights),
};

#undef LANES
#undef FN
#undef OF
#undef CHAINS
#undef MOST

/*
 * covariance_tile.h - template: the forms of cpu_covariance.h, over a buffer of sums
 *
 * Some vectors at a time go through passes in L1: powers of S, then the form, then the slope.
 *
 * From the caller: DTYPE, real, vec, ivec (see kernels.h).
 *
 * SPDX-License-Identifier: MIT
 */
#define LANES    ((int)(VBYTES / sizeof(real)))
#define VECTORS  32 /* of a pass: 2 KiB on AVX-512 */
#define LARGEST  ((real)(sizeof(real) == 4 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023))
#define MAP      CAT(CAT(covariance, DTYPE), ISA)
#define FN(name) CAT(name, DTYPE)

/* x^n, n > 0: the sign is right by itself. */
static inline vec FN(map_product)(vec x, int n)
{
    vec y = (vec){0} + 1;

    for (; n > 1; n /= 2, x *= x)
        if (n % 2)
            y *= x;
    return y * x;
}

/* The power r of |x| becomes that of x: NaN for most negative x if e is not an integer. */
static inline vec FN(map_signed)(const struct gram_raise *raise, vec x, vec r)
{
    const vec zero = {0};

    if (raise->odd)
        return FN(if_less)(x, zero, -r, r);
    if (raise->integer)
        return r;
    return FN(if_less)(zero - (real)INFINITY, x, FN(if_less)(x, zero, zero + (real)NAN, r), r);
}

/* x becomes x^e: n vectors. */
static void FN(map_raise)(const struct gram_raise *raise, int n, vec *x)
{
    switch (raise->kind) {
    case GRAM_RAISE_NONE:
        break;
    case GRAM_RAISE_ONE:
        for (int i = 0; i < n; i++)
            x[i] = (vec){0} + 1;
        break;
    case GRAM_RAISE_SQRT:
        for (int i = 0; i < n; i++)
            x[i] = v_sqrt_fast(x[i]);
        break;
    case GRAM_RAISE_PRODUCT:
        for (int i = 0; i < n; i++) {
            vec y = raise->root ? v_sqrt(x[i]) : (vec){0} + 1;
            y = raise->times > 0 ? y * FN(map_product)(x[i], raise->times) : y;
            x[i] = raise->inverse ? 1 / y : y;
        }
        break;
    case GRAM_RAISE_NARROW: {
        const struct FN(power) power = FN(power_load)(&raise->power);
        for (int i = 0; i < n; i++)
            x[i] = FN(map_signed)(raise, x[i], FN(power_of)(&power, x[i]));
        break;
    }
    case GRAM_RAISE_WIDE:
        for (int i = 0; i < n; i++)
            x[i] = FN(map_signed)(raise, x[i], FN(wide_power)(&raise->power, v_abs(x[i])));
        break;
    }
}

/* 1 / cosh(x)^2, and tanh(x) in *tangent: both from e^(2|x|) - 1, exact for small x too. */
static inline vec FN(map_tanh)(vec x, vec *tangent)
{
    const real two_log2_of_e = (real)(2 * 0x1.71547652b82fep+0), ln_2 = (real)0x1.62e42fefa39efp-1;
    const vec y = FN(clamp)(v_abs(x), 0, sizeof(real) == 4 ? 44 : 350) * two_log2_of_e,
              n = FN(round)(y);
    const vec power = FN(scale)((vec){0} + 1, n);
    const vec m = power * FN(expm1_small)((y - n) * ln_2) + (power - 1);
    const vec denominator = m + 2;

    *tangent = FN(copy_sign)(m / denominator, x);
    return 4 * ((m + 1) / denominator) / denominator;
}

/* (c[0] + c[1] t) (1 + t)^-e */
static void FN(map_rational)(const struct gram_map *map, int n, vec *t)
{
    const real c0 = (real)map->c[0], c1 = (real)map->c[1];
    const real lost = (real)(map->raise.e * 0x1.71547652b82fep+0);
    const bool wide = map->raise.kind == GRAM_RAISE_WIDE;
    vec base[VECTORS];

    for (int i = 0; i < n; i++) {
        t[i] = FN(clamp)(t[i], -LARGEST / 4, LARGEST / 4);
        base[i] = wide ? 1 + t[i] : 1 / (1 + t[i]);
    }
    FN(map_raise)(&map->raise, n, base);
    if (wide) /* what rounding 1 + t took away counts e times */
        for (int i = 0; i < n; i++) {
            const vec sum = 1 + t[i], part = sum - 1, tail = (1 - (sum - part)) + (t[i] - part);
            base[i] *= FN(exp2)(lost * tail / sum);
        }
    for (int i = 0; i < n; i++)
        t[i] = c0 * base[i] + c1 * (t[i] * base[i]);
}

/* ---- A caller's expression, operation by operation over some vectors ------------------------- */

/* A value is an array of vectors, one for each of s, or one constant that all lanes share: so an
 * operand has a step of 1 or 0.  The choice of an operation costs once per pass, not once per
 * number. */

/* Operands a, b, c and the result r: n vectors. */
struct FN(operands) {
    const vec *a, *b, *c;
    int step_a, step_b, step_c, n;
    vec *r;
};

/* 1 where mask is set, else 0 */
static inline vec FN(truth)(ivec mask)
{
    return (vec)(mask & (ivec)((vec){0} + 1));
}

/* All bits set, which is a NaN, where a is one. */
static inline ivec FN(is_nan)(vec a)
{
    return a != a; /* NOLINT(misc-redundant-expression) */
}

/* c ? a : b, bit by bit */
static inline vec FN(choose)(ivec c, vec a, vec b)
{
    return (vec)((c & (ivec)a) | (~c & (ivec)b));
}

#define A o->a[i * o->step_a]
#define B o->b[i * o->step_b]
#define C o->c[i * o->step_c]
#define EVERY(value)             \
  for (int i = 0; i < o->n; i++) \
    o->r[i] = (value);           \
  break

static void FN(evaluate_operator)(enum gram_op op, const struct FN(operands) * o)
{
    switch (op) {
    case GRAM_OP_ADD:
        EVERY(A + B);
    case GRAM_OP_SUBTRACT:
        EVERY(A - B);
    case GRAM_OP_MULTIPLY:
        EVERY(A * B);
    case GRAM_OP_DIVIDE:
        EVERY(A / B);
    case GRAM_OP_NEGATE:
        EVERY(-A);
    case GRAM_OP_LESS:
        EVERY(FN(truth)(A < B));
    case GRAM_OP_LESS_EQUAL:
        EVERY(FN(truth)(A <= B));
    case GRAM_OP_EQUAL:
        EVERY(FN(truth)(A == B));
    case GRAM_OP_NOT_EQUAL:
        EVERY(FN(truth)(A != B));
    default:
        EVERY(FN(choose)(A != 0, B, C));
    }
}

static void FN(evaluate_function)(enum gram_op op, const struct FN(operands) * o)
{
    vec tangent;

    switch (op) {
    case GRAM_OP_EXP:
        EVERY(FN(exp)(A));
    case GRAM_OP_EXP2:
        EVERY(FN(exp2)(A));
    case GRAM_OP_EXPM1:
        EVERY(FN(expm1)(A));
    case GRAM_OP_LOG:
        EVERY(FN(log)(A));
    case GRAM_OP_LOG2:
        EVERY(FN(log2)(A));
    case GRAM_OP_LOG1P:
        EVERY(FN(log1p)(A));
    case GRAM_OP_SQRT:
        EVERY(v_sqrt(A));
    case GRAM_OP_POW:
        EVERY(FN(pow)(A, B));
    case GRAM_OP_SIN:
        EVERY(FN(circle)(A, 0));
    case GRAM_OP_COS:
        EVERY(FN(circle)(A, 1));
    case GRAM_OP_SINH:
        EVERY(FN(sinh)(A));
    case GRAM_OP_COSH:
        EVERY(FN(cosh)(A));
    case GRAM_OP_TANH:
        EVERY((FN(map_tanh)(A, &tangent), tangent));
    case GRAM_OP_FABS:
        EVERY(v_abs(A));
    case GRAM_OP_FMIN:
        EVERY(FN(fmin)(A, B));
    case GRAM_OP_FMAX:
        EVERY(FN(fmax)(A, B));
    case GRAM_OP_ASIN:
        EVERY(FN(asin)(A));
    case GRAM_OP_ACOS:
        EVERY(FN(acos)(A));
    case GRAM_OP_ATAN:
        EVERY(FN(atan)(A));
    default:
        EVERY(FN(erf)(A));
    }
}

#undef A
#undef B
#undef C
#undef EVERY

/* The values at a place, see gram_instruction; constants are put into *constant. */
static const vec *FN(values_at)(const struct gram_evaluation *e, int place, const vec *t,
                                const vec *value, vec *constant)
{
    if (place > 0)
        return value + (place - 1) * e->step;
    if (place == 0)
        return t;
    *constant = (vec){0} + (real)e->constant[~place];
    return constant;
}

/* The norms of the points of n vectors, and the sums beside s, which may end before the last lane
 * of y. */
struct FN(norms) {
    real x;
    const real *y, *sum, *squares; /* NULL: not wanted */
    int64_t count;                 /* of these; the lanes behind it do not count */
};

static void FN(load_norms)(const struct FN(norms) * norms, enum gram_op op, int n, vec *to)
{
    const real *from = op == GRAM_OP_NORM_Y ? norms->y
                       : op == GRAM_OP_SUM  ? norms->sum
                                            : norms->squares;
    const int64_t bytes =
        (norms->count < n * LANES ? norms->count : n * LANES) * (int64_t)sizeof(real);

    if (op == GRAM_OP_NORM_X) {
        for (int i = 0; i < n; i++)
            to[i] = (vec){0} + norms->x;
        return;
    }
    to[n - 1] = (vec){0};
    __builtin_memcpy(to, from, (size_t)bytes);
}

/* Those of the points from lane `at` on. */
static struct FN(norms) FN(norms_from)(const struct FN(norms) * norms, int64_t at)
{
    return (struct FN(norms)){
        .x = norms->x,
        .y = norms->y ? norms->y + at : NULL,
        .sum = norms->sum ? norms->sum + at : NULL,
        .squares = norms->squares ? norms->squares + at : NULL,
        .count = norms->count - at,
    };
}

/* t becomes the expression of t, and stays NaN where it is: n vectors, n <= e->step. */
static void FN(evaluate_some)(const struct gram_evaluation *e, const struct FN(norms) * norms,
                              int n, vec *t)
{
    vec value[GRAM_EVALUATION_VECTORS], a, b, c;
    const vec *result;

    for (const struct gram_instruction *at = e->code; at < e->code + e->count; at++) {
        const struct FN(operands) o = {.a = FN(values_at)(e, at->arg[0], t, value, &a),
                                       .b = FN(values_at)(e, at->arg[1], t, value, &b),
                                       .c = FN(values_at)(e, at->arg[2], t, value, &c),
                                       .step_a = at->arg[0] >= 0,
                                       .step_b = at->arg[1] >= 0,
                                       .step_c = at->arg[2] >= 0,
                                       .n = n,
                                       .r = value + (at->to - 1) * e->step};
        if (at->op >= GRAM_OP_NORM_X && at->op <= GRAM_OP_SQUARES)
            FN(load_norms)(norms, (enum gram_op)at->op, n, o.r);
        else if (at->raise >= 0) {
            for (int i = 0; i < n; i++)
                o.r[i] = o.a[i];
            FN(map_raise)(&e->raise[at->raise], n, o.r);
        } else if (at->op < GRAM_OP_EXP)
            FN(evaluate_operator)((enum gram_op)at->op, &o);
        else
            FN(evaluate_function)((enum gram_op)at->op, &o);
    }
    result = FN(values_at)(e, e->result, t, value, &a);
    for (int i = 0; i < n; i++)
        t[i] = (vec)((ivec)result[i * (e->result >= 0)] | FN(is_nan)(t[i]));
}

/* The same for any n. */
static void FN(evaluate)(const struct gram_evaluation *e, const struct FN(norms) * norms, int n,
                         vec *t)
{
    for (int i = 0; i < n; i += e->step) {
        const struct FN(norms) part = FN(norms_from)(norms, (int64_t)i * LANES);
        FN(evaluate_some)(e, &part, n - i < e->step ? n - i : e->step, t + i);
    }
}

/* t becomes the form of t. */
static void FN(map_form)(const struct gram_map *map, const struct FN(norms) * norms, int n, vec *t)
{
    const real factor = (real)map->factor, log2_of_e = (real)0x1.71547652b82fep+0;
    const real c0 = (real)map->c[0], c1 = (real)map->c[1], c2 = (real)map->c[2],
               c3 = (real)map->c[3];
    vec tangent;

    switch (map->form) {
    case GRAM_MAP_CONSTANT:
        for (int i = 0; i < n; i++)
            t[i] = FN(clamp)(t[i], factor, factor);
        break;
    case GRAM_MAP_SAME:
        break;
    case GRAM_MAP_EXP:
        for (int i = 0; i < n; i++)
            t[i] = factor * FN(exp2)(-t[i]);
        break;
    case GRAM_MAP_POLY_EXP:
        for (int i = 0; i < n; i++) {
            const vec x = FN(clamp)(t[i], -2000, 2000); /* e^-2000 = 0 */
            t[i] = (((c3 * x + c2) * x + c1) * x + c0) * FN(exp2)(-log2_of_e * x);
        }
        break;
    case GRAM_MAP_POWER:
        FN(map_raise)(&map->raise, n, t);
        for (int i = 0; i < n; i++)
            t[i] *= factor;
        break;
    case GRAM_MAP_RATIONAL:
        FN(map_rational)(map, n, t);
        break;
    case GRAM_MAP_TANH:
        for (int i = 0; i < n; i++) {
            FN(map_tanh)(t[i], &tangent);
            t[i] = tangent;
        }
        break;
    case GRAM_MAP_SECH2:
        for (int i = 0; i < n; i++)
            t[i] = factor * FN(map_tanh)(t[i], &tangent);
        break;
    case GRAM_MAP_EXPRESSION:
        FN(evaluate)(map->evaluation, norms, n, t);
        for (int i = 0; i < n && factor != 1; i++)
            t[i] *= factor;
        break;
    }
}

/* What map->decays says: one pass, in registers. */
static inline __attribute__((always_inline)) void FN(map_decay_of)(const struct gram_map *map,
                                                                   int64_t n, vec *s,
                                                                   const bool root, const bool poly,
                                                                   const bool plain)
{
    const real scale = (real)map->scale, factor = (real)map->factor, most = (real)map->most;
    const real minus_log2_of_e = -(real)0x1.71547652b82fep+0;
    const real c0 = (real)map->c[0], c1 = (real)map->c[1], c2 = (real)map->c[2],
               c3 = (real)map->c[3];

    for (int64_t i = 0; i < n; i++) {
        const vec t = FN(no_more)(root ? v_sqrt_fast(s[i]) : s[i], most);
        if (poly) {
            const vec x = scale * t;
            s[i] = (((c3 * x + c2) * x + c1) * x + c0) * FN(exp2_scaled)(x, minus_log2_of_e);
        } else
            s[i] = plain ? FN(exp2_scaled)(t, -scale) : factor * FN(exp2_scaled)(t, -scale);
    }
}

static void FN(map_decay)(const struct gram_map *map, int64_t n, vec *s)
{
    const bool root = map->base.kind == GRAM_RAISE_SQRT, poly = map->form == GRAM_MAP_POLY_EXP;
    const bool plain = map->factor == 1;

    if (root && poly)
        FN(map_decay_of)(map, n, s, true, true, false);
    else if (poly)
        FN(map_decay_of)(map, n, s, false, true, false);
    else if (root && plain)
        FN(map_decay_of)(map, n, s, true, false, true);
    else if (plain)
        FN(map_decay_of)(map, n, s, false, false, true);
    else if (root)
        FN(map_decay_of)(map, n, s, true, false, false);
    else
        FN(map_decay_of)(map, n, s, false, false, false);
}

/* n vectors, n <= VECTORS */
static void FN(map_pass)(const struct gram_map *map, const struct FN(norms) * norms, int n, vec *s)
{
    const real scale = (real)map->scale, shift = (real)map->shift;
    const vec zero = {0};
    vec slope[VECTORS];

    if (map->decays) {
        FN(map_decay)(map, n, s);
        return;
    }
    if (map->sloped) {
        for (int i = 0; i < n; i++)
            slope[i] = s[i];
        FN(map_raise)(&map->slope, n, slope);
        for (int i = 0; i < n; i++)
            slope[i] =
                FN(if_less)(zero, v_abs(s[i]), FN(clamp)(slope[i], -LARGEST, LARGEST), 0 * s[i]);
    }
    FN(map_raise)(&map->base, n, s);
    if (scale != 1 || shift != 0)
        for (int i = 0; i < n; i++)
            s[i] = scale * s[i] + shift;
    FN(map_form)(map, norms, n, s);
    if (map->sloped)
        for (int i = 0; i < n; i++)
            s[i] = FN(if_less)(zero, v_abs(slope[i]), s[i] * slope[i], slope[i]);
}

static void MAP(int64_t n, void *values, const struct gram_map *map,
                const struct gram_map_norms *of)
{
    vec *s = values, rest = {0};
    int64_t whole = n / LANES, left = n % LANES;
    struct FN(norms) norms = {.count = n}, part;

    if (of) {
        norms.y = of->y, norms.sum = of->sum, norms.squares = of->squares;
        if (of->x)
            __builtin_memcpy(&norms.x, of->x, sizeof norms.x);
    }
    for (int64_t i = 0; i < whole; i += VECTORS) {
        part = FN(norms_from)(&norms, i * LANES);
        FN(map_pass)(map, &part, (int)(whole - i < VECTORS ? whole - i : VECTORS), s + i);
    }
    if (left) {
        part = FN(norms_from)(&norms, whole * LANES);
        __builtin_memcpy(&rest, s + whole, (size_t)left * sizeof(real));
        FN(map_pass)(map, &part, 1, &rest);
        __builtin_memcpy(s + whole, &rest, (size_t)left * sizeof(real));
    }
}

#undef LANES
#undef VECTORS
#undef LARGEST
#undef MAP
#undef FN

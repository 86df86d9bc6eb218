/*
 * expression_tile.h - template: a caller's expression, operation by operation over some vectors
 *
 * A value is an array of vectors, one for each of s, or one constant that all lanes share: so an
 * operand has a step of 1 or 0.  The choice of an operation costs once a pass, not once a number.
 *
 * From kernel_map_tile.h, whose part it is: DTYPE, real, vec, ivec, VECTORS, FN.
 *
 * SPDX-License-Identifier: MIT
 */

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
    default:
        EVERY(FN(fmax)(A, B));
    }
}

#undef A
#undef B
#undef C
#undef EVERY

/* The values at a place, see gram_instruction; constants are put into *constant. */
static const vec *FN(values_at)(const struct gram_evaluation *e, int place, const vec *t,
                                const vec (*value)[VECTORS], vec *constant)
{
    if (place > 0)
        return value[place - 1];
    if (place == 0)
        return t;
    *constant = (vec){0} + (real)e->constant[~place];
    return constant;
}

/* t becomes the expression of t, and stays NaN where it is: n vectors, n <= VECTORS. */
static void FN(evaluate)(const struct gram_evaluation *e, int n, vec *t)
{
    vec value[GRAM_EXPRESSION_REGISTERS][VECTORS], a, b, c;
    const vec(*const values)[VECTORS] = (const vec(*)[VECTORS])value;
    const vec *result;

    for (const struct gram_instruction *at = e->code; at < e->code + e->count; at++) {
        const struct FN(operands) o = {.a = FN(values_at)(e, at->arg[0], t, values, &a),
                                       .b = FN(values_at)(e, at->arg[1], t, values, &b),
                                       .c = FN(values_at)(e, at->arg[2], t, values, &c),
                                       .step_a = at->arg[0] >= 0,
                                       .step_b = at->arg[1] >= 0,
                                       .step_c = at->arg[2] >= 0,
                                       .n = n,
                                       .r = value[at->to - 1]};
        if (at->raise >= 0) {
            for (int i = 0; i < n; i++)
                o.r[i] = o.a[i];
            FN(map_raise)(&e->raise[at->raise], n, o.r);
        } else if (at->op < GRAM_OP_EXP)
            FN(evaluate_operator)((enum gram_op)at->op, &o);
        else
            FN(evaluate_function)((enum gram_op)at->op, &o);
    }
    result = FN(values_at)(e, e->result, t, values, &a);
    for (int i = 0; i < n; i++)
        t[i] = (vec)((ivec)result[i * (e->result >= 0)] | FN(is_nan)(t[i]));
}

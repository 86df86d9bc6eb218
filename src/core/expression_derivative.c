/*
 * expression_derivative.c - from the program of an expression to that of a derivative
 *
 * Derivatives are taken node by node, by the chain rule.  A derivative that is 0 whatever the
 * numbers is no node but NOTHING, and falls out of sums and products.  Where there is none:
 * |x|' = 0 at 0; fmin, fmax and ?: have that of the branch they take; comparisons have 0; pow(a, b)
 * has 0 by b at a = 0, its limit for b > 0, and 0 by a where b = 0.
 *
 * SPDX-License-Identifier: MIT
 */
#include "expression.h"

enum {
    FULL = -1,
    NOTHING = -2
};

static int make(struct gram_expression *e, enum gram_op op, int a, int b)
{
    return gram_expression_node(e, op, a, b, 0);
}

static int of(struct gram_expression *e, enum gram_op function, int a)
{
    return gram_expression_node(e, function, a, 0, 0);
}

static int number(struct gram_expression *e, double value)
{
    return gram_expression_number(e, value);
}

static bool is_one(const struct gram_expression *e, int node)
{
    return node >= 0 && e->node[node].op == GRAM_OP_NUMBER && e->node[node].number == 1;
}

/* factor * slope, where slope may be NOTHING. */
static int times(struct gram_expression *e, int factor, int slope)
{
    if (slope == NOTHING || is_one(e, factor))
        return slope;
    return is_one(e, slope) ? factor : make(e, GRAM_OP_MULTIPLY, factor, slope);
}

static int negative(struct gram_expression *e, int slope)
{
    return slope == NOTHING ? NOTHING : of(e, GRAM_OP_NEGATE, slope);
}

static int sum(struct gram_expression *e, int a, int b)
{
    if (a == NOTHING || b == NOTHING)
        return a == NOTHING ? b : a;
    return make(e, GRAM_OP_ADD, a, b);
}

static int quotient(struct gram_expression *e, int slope, int divisor)
{
    return slope == NOTHING ? NOTHING : make(e, GRAM_OP_DIVIDE, slope, divisor);
}

/* A choice between slopes. */
static int choose(struct gram_expression *e, int condition, int a, int b)
{
    if (a == NOTHING && b == NOTHING)
        return NOTHING;
    return gram_expression_node(e, GRAM_OP_SELECT, condition, a == NOTHING ? number(e, 0) : a,
                                b == NOTHING ? number(e, 0) : b);
}

/* log a, or 0 at a = 0, where a^b log a with b > 0 would be 0 times infinity. */
static int log_of_base(struct gram_expression *e, int a)
{
    int zero = number(e, 0);

    if (e->node[a].op == GRAM_OP_NUMBER && e->node[a].number != 0)
        return of(e, GRAM_OP_LOG, a);
    return gram_expression_node(e, GRAM_OP_SELECT, make(e, GRAM_OP_EQUAL, a, zero), zero,
                                of(e, GRAM_OP_LOG, a));
}

/* b a^(b-1), which is 0 for b = 0 and any a: the exponent is 0 there, not -1, since 0 times the
 * infinite 1 / a of a = 0 is no number. */
static int slope_by_base(struct gram_expression *e, int a, int b)
{
    int zero = number(e, 0);
    int lower = gram_expression_node(e, GRAM_OP_SELECT, make(e, GRAM_OP_EQUAL, b, zero), zero,
                                     make(e, GRAM_OP_SUBTRACT, b, number(e, 1)));

    if (e->node[b].op == GRAM_OP_NUMBER)
        lower = e->node[b].number == 0 ? zero : number(e, e->node[b].number - 1);
    return make(e, GRAM_OP_MULTIPLY, b, make(e, GRAM_OP_POW, a, lower));
}

/* a^b: b a^(b-1) a' + a^b log a b' */
static int slope_of_power(struct gram_expression *e, int node, int a_slope, int b_slope)
{
    const int a = e->node[node].arg[0], b = e->node[node].arg[1];
    const bool zero = e->node[b].op == GRAM_OP_NUMBER && e->node[b].number == 0;
    const bool one = e->node[b].op == GRAM_OP_NUMBER && e->node[b].number == 1;
    int by_base = NOTHING, by_exponent = NOTHING;

    if (a_slope != NOTHING && !zero)
        by_base = one ? a_slope : times(e, slope_by_base(e, a, b), a_slope);
    if (b_slope != NOTHING)
        by_exponent = times(e, node, times(e, log_of_base(e, a), b_slope));
    return sum(e, by_base, by_exponent);
}

/* The slopes of asin(a), atan(a) and erf(a); acos has minus that of asin. */
static int slope_of_inverse(struct gram_expression *e, enum gram_op op, int a)
{
    const double two_over_root_pi = 0x1.20dd750429b6dp+0;
    int one = number(e, 1), square;

    if (op == GRAM_OP_ASIN) { /* 1 - a^2 would lose its digits near 1 */
        square = make(e, GRAM_OP_MULTIPLY, make(e, GRAM_OP_SUBTRACT, one, a),
                      make(e, GRAM_OP_ADD, one, a));
        return make(e, GRAM_OP_DIVIDE, one, of(e, GRAM_OP_SQRT, square));
    }
    square = make(e, GRAM_OP_MULTIPLY, a, a);
    if (op == GRAM_OP_ATAN)
        return make(e, GRAM_OP_DIVIDE, one, make(e, GRAM_OP_ADD, one, square));
    return make(e, GRAM_OP_MULTIPLY, number(e, two_over_root_pi),
                of(e, GRAM_OP_EXP, of(e, GRAM_OP_NEGATE, square)));
}

/* The slope of a function f(a), divided by that of a; node is f(a). */
static int slope_of_function(struct gram_expression *e, int node)
{
    const int a = e->node[node].arg[0];
    const double ln_2 = 0x1.62e42fefa39efp-1;
    int one = number(e, 1), c;

    switch (e->node[node].op) {
    case GRAM_OP_EXP:
        return node;
    case GRAM_OP_EXP2:
        return make(e, GRAM_OP_MULTIPLY, number(e, ln_2), node);
    case GRAM_OP_EXPM1:
        return of(e, GRAM_OP_EXP, a);
    case GRAM_OP_LOG:
        return make(e, GRAM_OP_DIVIDE, one, a);
    case GRAM_OP_LOG2:
        return make(e, GRAM_OP_DIVIDE, number(e, 1 / ln_2), a);
    case GRAM_OP_LOG1P:
        return make(e, GRAM_OP_DIVIDE, one, make(e, GRAM_OP_ADD, one, a));
    case GRAM_OP_SQRT:
        return make(e, GRAM_OP_DIVIDE, number(e, 0.5), node);
    case GRAM_OP_SIN:
        return of(e, GRAM_OP_COS, a);
    case GRAM_OP_COS:
        return of(e, GRAM_OP_NEGATE, of(e, GRAM_OP_SIN, a));
    case GRAM_OP_SINH:
        return of(e, GRAM_OP_COSH, a);
    case GRAM_OP_COSH:
        return of(e, GRAM_OP_SINH, a);
    case GRAM_OP_ACOS:
        return of(e, GRAM_OP_NEGATE, slope_of_inverse(e, GRAM_OP_ASIN, a));
    case GRAM_OP_ASIN:
    case GRAM_OP_ATAN:
    case GRAM_OP_ERF:
        return slope_of_inverse(e, (enum gram_op)e->node[node].op, a);
    default: /* tanh: 1 - tanh^2 would lose its digits */
        c = make(e, GRAM_OP_DIVIDE, one, of(e, GRAM_OP_COSH, a));
        return make(e, GRAM_OP_MULTIPLY, c, c);
    }
}

static int slope_of_choice(struct gram_expression *e, int node, const int *slope)
{
    const struct gram_node n = e->node[node];
    int zero;

    switch (n.op) {
    case GRAM_OP_SELECT:
        return choose(e, n.arg[0], slope[1], slope[2]);
    case GRAM_OP_FMIN:
    case GRAM_OP_FMAX: /* where one argument is NaN, the value is the other one */
        return choose(e, make(e, GRAM_OP_EQUAL, node, n.arg[1]), slope[1], slope[0]);
    case GRAM_OP_FABS:
        zero = number(e, 0);
        return choose(
            e, make(e, GRAM_OP_LESS, zero, n.arg[0]), slope[0],
            choose(e, make(e, GRAM_OP_LESS, n.arg[0], zero), negative(e, slope[0]), NOTHING));
    default:
        return NOTHING; /* a comparison */
    }
}

/* slope[k] is that of the node's k'th argument. */
static int slope_of(struct gram_expression *e, int node, const int *slope)
{
    const struct gram_node n = e->node[node];

    switch (n.op) {
    case GRAM_OP_ADD:
        return sum(e, slope[0], slope[1]);
    case GRAM_OP_SUBTRACT:
        if (slope[0] == NOTHING || slope[1] == NOTHING)
            return sum(e, slope[0], negative(e, slope[1]));
        return make(e, GRAM_OP_SUBTRACT, slope[0], slope[1]);
    case GRAM_OP_MULTIPLY:
        return sum(e, times(e, n.arg[1], slope[0]), times(e, n.arg[0], slope[1]));
    case GRAM_OP_DIVIDE:
        return quotient(e, sum(e, slope[0], negative(e, times(e, node, slope[1]))), n.arg[1]);
    case GRAM_OP_NEGATE:
        return negative(e, slope[0]);
    case GRAM_OP_POW:
        return slope_of_power(e, node, slope[0], slope[1]);
    default:
        break;
    }
    if (gram_op_arity((enum gram_op)n.op) == 1 && n.op != GRAM_OP_FABS)
        return times(e, slope_of_function(e, node), slope[0]);
    return slope_of_choice(e, node, slope);
}

/* Whether the derivative is one by this node. */
static bool is_variable(const struct gram_node *n, int by)
{
    switch (by) {
    case GRAM_EXPRESSION_BY_S:
        return n->op == GRAM_OP_S;
    case GRAM_EXPRESSION_BY_NORM_X:
        return n->op == GRAM_OP_NORM_X;
    case GRAM_EXPRESSION_BY_NORM_Y:
        return n->op == GRAM_OP_NORM_Y;
    case GRAM_EXPRESSION_BY_SUM:
        return n->op == GRAM_OP_SUM;
    case GRAM_EXPRESSION_BY_SQUARES:
        return n->op == GRAM_OP_SQUARES;
    default:
        return n->op == GRAM_OP_PARAMETER && n->arg[0] == by;
    }
}

/* The slope by a norm, divided by the norm: what multiplies x in the derivative by x. */
static int slope_of_row(struct gram_expression *e, int slope, int by)
{
    const enum gram_op op = by == GRAM_EXPRESSION_BY_NORM_X ? GRAM_OP_NORM_X : GRAM_OP_NORM_Y;
    int norm = gram_expression_node(e, op, 0, 0, 0), zero = number(e, 0);

    return gram_expression_node(e, GRAM_OP_SELECT, make(e, GRAM_OP_EQUAL, norm, zero), zero,
                                make(e, GRAM_OP_DIVIDE, slope, norm));
}

/* The slope by a sum, which is 0 where the sum is, as it has none there by convention. */
static int slope_of_pair(struct gram_expression *e, int slope, int by)
{
    const bool squares = by == GRAM_EXPRESSION_BY_SQUARES;
    int of_sum = gram_expression_node(e, squares ? GRAM_OP_SQUARES : GRAM_OP_SUM, 0, 0, 0);
    int zero = number(e, 0);

    if (squares)
        slope = times(e, number(e, 2), slope);
    return gram_expression_node(e, GRAM_OP_SELECT, make(e, GRAM_OP_EQUAL, of_sum, zero), zero,
                                slope);
}

int gram_expression_derivative(struct gram_expression *e, int root, int by, int *slope)
{
    for (int i = 0; i <= root; i++) {
        const struct gram_node *n = &e->node[i];
        int of_args[3] = {NOTHING, NOTHING, NOTHING};
        bool constant = true;

        for (int k = 0; k < gram_op_arity((enum gram_op)n->op); k++) {
            of_args[k] = slope[n->arg[k]];
            constant &= of_args[k] == NOTHING;
        }
        if (is_variable(n, by))
            slope[i] = number(e, 1);
        else
            slope[i] = constant ? NOTHING : slope_of(e, i, of_args);
        if (slope[i] == FULL)
            return FULL;
    }
    if (slope[root] == NOTHING)
        return number(e, 0);
    if (by == GRAM_EXPRESSION_BY_SUM || by == GRAM_EXPRESSION_BY_SQUARES)
        return slope_of_pair(e, slope[root], by);
    return by <= GRAM_EXPRESSION_BY_NORM_X ? slope_of_row(e, slope[root], by) : slope[root];
}

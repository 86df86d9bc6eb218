/*
 * expression.c - operations, their nodes, and values of what does not depend on s
 *
 * SPDX-License-Identifier: MIT
 */
#include "expression.h"
#include <math.h>
#include <string.h>

static const struct {
    const char *name; /* of a function */
    int arity;
} ops[] = {
    [GRAM_OP_S] = {   NULL, 0},
      [GRAM_OP_NUMBER] = {   NULL, 0},
    [GRAM_OP_PARAMETER] = {   NULL, 0},
      [GRAM_OP_NORM_X] = {   NULL, 0},
    [GRAM_OP_NORM_Y] = {   NULL, 0},
      [GRAM_OP_SUM] = {   NULL, 0},
    [GRAM_OP_SQUARES] = {   NULL, 0},
      [GRAM_OP_ADD] = {   NULL, 2},
    [GRAM_OP_SUBTRACT] = {   NULL, 2},
      [GRAM_OP_MULTIPLY] = {   NULL, 2},
    [GRAM_OP_DIVIDE] = {   NULL, 2},
      [GRAM_OP_NEGATE] = {   NULL, 1},
    [GRAM_OP_LESS] = {   NULL, 2},
      [GRAM_OP_LESS_EQUAL] = {   NULL, 2},
    [GRAM_OP_EQUAL] = {   NULL, 2},
      [GRAM_OP_NOT_EQUAL] = {   NULL, 2},
    [GRAM_OP_SELECT] = {   NULL, 3},
      [GRAM_OP_EXP] = {  "exp", 1},
    [GRAM_OP_EXP2] = { "exp2", 1},
      [GRAM_OP_EXPM1] = {"expm1", 1},
    [GRAM_OP_LOG] = {  "log", 1},
      [GRAM_OP_LOG2] = { "log2", 1},
    [GRAM_OP_LOG1P] = {"log1p", 1},
      [GRAM_OP_SQRT] = { "sqrt", 1},
    [GRAM_OP_POW] = {  "pow", 2},
      [GRAM_OP_SIN] = {  "sin", 1},
    [GRAM_OP_COS] = {  "cos", 1},
      [GRAM_OP_SINH] = { "sinh", 1},
    [GRAM_OP_COSH] = { "cosh", 1},
      [GRAM_OP_TANH] = { "tanh", 1},
    [GRAM_OP_FABS] = { "fabs", 1},
      [GRAM_OP_FMIN] = { "fmin", 2},
    [GRAM_OP_FMAX] = { "fmax", 2},
      [GRAM_OP_ASIN] = { "asin", 1},
    [GRAM_OP_ACOS] = { "acos", 1},
      [GRAM_OP_ATAN] = { "atan", 1},
    [GRAM_OP_ERF] = {  "erf", 1},
};

int gram_op_arity(enum gram_op op)
{
    return ops[op].arity;
}

const char *gram_op_name(enum gram_op op)
{
    return ops[op].name;
}

static double function_value(enum gram_op op, double a, double b)
{
    switch (op) {
    case GRAM_OP_EXP:
        return exp(a);
    case GRAM_OP_EXP2:
        return exp2(a);
    case GRAM_OP_EXPM1:
        return expm1(a);
    case GRAM_OP_LOG:
        return log(a);
    case GRAM_OP_LOG2:
        return log2(a);
    case GRAM_OP_LOG1P:
        return log1p(a);
    case GRAM_OP_SQRT:
        return sqrt(a);
    case GRAM_OP_POW:
        return pow(a, b);
    case GRAM_OP_SIN:
        return sin(a);
    case GRAM_OP_COS:
        return cos(a);
    case GRAM_OP_SINH:
        return sinh(a);
    case GRAM_OP_COSH:
        return cosh(a);
    case GRAM_OP_TANH:
        return tanh(a);
    case GRAM_OP_FABS:
        return fabs(a);
    case GRAM_OP_FMIN:
        return fmin(a, b);
    case GRAM_OP_FMAX:
        return fmax(a, b);
    case GRAM_OP_ASIN:
        return asin(a);
    case GRAM_OP_ACOS:
        return acos(a);
    case GRAM_OP_ATAN:
        return atan(a);
    default:
        return erf(a);
    }
}

/* The value of an operation with arguments, in double. */
static double value_of(enum gram_op op, double a, double b, double c)
{
    switch (op) {
    case GRAM_OP_ADD:
        return a + b;
    case GRAM_OP_SUBTRACT:
        return a - b;
    case GRAM_OP_MULTIPLY:
        return a * b;
    case GRAM_OP_DIVIDE:
        return a / b;
    case GRAM_OP_NEGATE:
        return -a;
    case GRAM_OP_LESS:
        return a < b;
    case GRAM_OP_LESS_EQUAL:
        return a <= b;
    case GRAM_OP_EQUAL:
        return a == b;
    case GRAM_OP_NOT_EQUAL:
        return a != b;
    case GRAM_OP_SELECT:
        return a != 0 ? b : c;
    default:
        return function_value(op, a, b);
    }
}

static int put(struct gram_expression *e, const struct gram_node *node)
{
    for (int i = 0; i < e->count; i++) {
        const struct gram_node *old = &e->node[i];
        if (old->op == node->op && memcmp(old->arg, node->arg, sizeof node->arg) == 0 &&
            old->number == node->number)
            return i; /* there is no number -0: that is 0 and a sign */
    }
    if (e->count == GRAM_EXPRESSION_NODES)
        return -1;
    e->node[e->count] = *node;
    return e->count++;
}

int gram_expression_node(struct gram_expression *e, enum gram_op op, int a, int b, int c)
{
    const int arg[] = {a, b, c};
    struct gram_node node = {.op = (uint8_t)op, .uniform = !gram_op_is_variable(op)};
    bool numbers = ops[op].arity > 0;
    double value;

    if (a < 0 || b < 0 || c < 0)
        return -1; /* an argument found no place */
    for (int i = 0; i < 3; i++) {
        node.arg[i] = (int16_t)arg[i];
        if (i < ops[op].arity) {
            node.uniform &= e->node[arg[i]].uniform;
            numbers &= e->node[arg[i]].op == GRAM_OP_NUMBER;
        }
    }
    if (!numbers)
        return put(e, &node);
    value = value_of(op, e->node[a].number, e->node[b].number, e->node[c].number);
    /* -0 would be taken for 0; infinity and NaN have no literal */
    return isfinite(value) && (value != 0 || !signbit(value)) ? gram_expression_number(e, value)
                                                              : put(e, &node);
}

int gram_expression_number(struct gram_expression *e, double number)
{
    const struct gram_node node = {.op = GRAM_OP_NUMBER, .uniform = true, .number = number};

    return put(e, &node);
}

void gram_expression_exchange(struct gram_expression *e)
{
    for (int i = 0; i < e->count; i++) {
        struct gram_node *node = &e->node[i];
        if (node->op == GRAM_OP_NORM_X)
            node->op = GRAM_OP_NORM_Y;
        else if (node->op == GRAM_OP_NORM_Y)
            node->op = GRAM_OP_NORM_X;
    }
}

void gram_expression_uniform(const struct gram_expression *e, const double *parameters,
                             double *value)
{
    for (int i = 0; i < e->count; i++) {
        const struct gram_node *node = &e->node[i];
        double arg[3] = {0};

        if (!node->uniform)
            continue;
        for (int k = 0; k < ops[node->op].arity; k++)
            arg[k] = value[node->arg[k]];
        value[i] = node->op == GRAM_OP_NUMBER ? node->number
                   : node->op == GRAM_OP_PARAMETER
                       ? parameters[node->arg[0]]
                       : value_of((enum gram_op)node->op, arg[0], arg[1], arg[2]);
    }
}

/*
 * expression.h - a function of s, and perhaps of |x|, |y| and two more distances, that the caller
 * wrote as text, as a flat program
 *
 * The program is a list of operations in the order in which they can be done: every argument stands
 * before its use, no operation is there twice, none is without use, and the last one is the result.
 * Operations that depend neither on s nor on a norm are `uniform`: they have one value per item.
 * The others have a register; a backend that keeps values in an array needs `registers` of them.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef GRAM_EXPRESSION_H
#define GRAM_EXPRESSION_H
#include "context.h"

enum {
    GRAM_EXPRESSION_BYTES = 16384,  /* of text */
    GRAM_EXPRESSION_DEPTH = 64,     /* of brackets, signs and conditions in each other */
    GRAM_EXPRESSION_NAMES = 128,    /* that the text defines */
    GRAM_EXPRESSION_OPS = 512,      /* different operations in the text */
    GRAM_EXPRESSION_NODES = 2048,   /* of the text and its derivative */
    GRAM_EXPRESSION_REGISTERS = 64, /* values that are needed at once */
    GRAM_PARAMETER_BYTES = 32,      /* of a name, its end included */
};

enum gram_op {
    GRAM_OP_S,
    GRAM_OP_NUMBER,
    GRAM_OP_PARAMETER, /* arg[0] says which */
    GRAM_OP_NORM_X,    /* |x| and |y|: of the row and of the column */
    GRAM_OP_NORM_Y,
    GRAM_OP_SUM,     /* the sum of |x_k - y_k| */
    GRAM_OP_SQUARES, /* the sum of (x_k - y_k)^2 */
    GRAM_OP_ADD,
    GRAM_OP_SUBTRACT,
    GRAM_OP_MULTIPLY,
    GRAM_OP_DIVIDE,
    GRAM_OP_NEGATE,
    GRAM_OP_LESS, /* 1 or 0, as all comparisons */
    GRAM_OP_LESS_EQUAL,
    GRAM_OP_EQUAL,
    GRAM_OP_NOT_EQUAL,
    GRAM_OP_SELECT, /* arg[0] != 0 ? arg[1] : arg[2] */
    GRAM_OP_EXP,
    GRAM_OP_EXP2,
    GRAM_OP_EXPM1,
    GRAM_OP_LOG,
    GRAM_OP_LOG2,
    GRAM_OP_LOG1P,
    GRAM_OP_SQRT,
    GRAM_OP_POW,
    GRAM_OP_SIN,
    GRAM_OP_COS,
    GRAM_OP_SINH,
    GRAM_OP_COSH,
    GRAM_OP_TANH,
    GRAM_OP_FABS,
    GRAM_OP_FMIN,
    GRAM_OP_FMAX,
    GRAM_OP_ASIN,
    GRAM_OP_ACOS,
    GRAM_OP_ATAN,
    GRAM_OP_ERF,
    GRAM_OP_COUNT,
};

struct gram_node {
    uint8_t op; /* enum gram_op */
    bool uniform;
    int16_t arg[3];
    int16_t at; /* register */
    double number;
};

struct gram_expression {
    int count; /* of nodes; the last one is the result */
    int registers;
    int powers;    /* nodes pow(x, y) with a uniform y */
    bool norms;    /* the program has |x| or |y| */
    bool sums;     /* the program has one of the sums beside s */
    bool of_norms; /* the text has norms, of which the program may be a derivative */
    bool of_sums;  /* likewise */
    bool mirrors;  /* the value stays the same where |x| and |y| change places */
    struct gram_node node[GRAM_EXPRESSION_NODES];
};

static inline bool gram_op_is_variable(enum gram_op op)
{
    return op == GRAM_OP_S || (op >= GRAM_OP_NORM_X && op <= GRAM_OP_SQUARES);
}

/* True if the program, or the text that it comes from, needs more of a pair than s, the text
 * wherever the program does; e may be NULL. */
static inline bool gram_expression_is_wide(const struct gram_expression *e)
{
    return e && (e->norms || e->sums);
}
static inline bool gram_expression_is_of_wide(const struct gram_expression *e)
{
    return e && (e->of_norms || e->of_sums);
}

/* Number of arguments of an operation. */
int gram_op_arity(enum gram_op op);
/* The name that C has for a function; NULL for other operations. */
const char *gram_op_name(enum gram_op op);

/* Turns the program f(s, |x|, |y|) into that of f(s, |y|, |x|), which the transposed matrix has. */
void gram_expression_exchange(struct gram_expression *e);

/* The node of an operation, an old one where there is one like it; -1 if the program is full. */
int gram_expression_node(struct gram_expression *e, enum gram_op op, int a, int b, int c);
int gram_expression_number(struct gram_expression *e, double number);

/* value[i] of every uniform node i, in double. */
void gram_expression_uniform(const struct gram_expression *e, const double *parameters,
                             double *value);

/* What a program is: the text itself, or its derivative by s or, from 0, by a parameter; that by a
 * norm, divided by the norm and 0 where it is 0; or that by a sum, twice that by the sum of
 * squares, and 0 where the sum is 0.  They are what multiplies x_k, sgn(x_k - y_k), x_k - y_k. */
enum {
    GRAM_EXPRESSION_BY_SQUARES = -6,
    GRAM_EXPRESSION_BY_SUM = -5,
    GRAM_EXPRESSION_BY_NORM_Y = -4,
    GRAM_EXPRESSION_BY_NORM_X = -3,
    GRAM_EXPRESSION_ITSELF = -2,
    GRAM_EXPRESSION_BY_S = -1
};

/* expression_derivative.c: the node of such a derivative of root; -1 if the program is full.  slope
 * has room for GRAM_EXPRESSION_NODES numbers. */
int gram_expression_derivative(struct gram_expression *e, int root, int by, int *slope);

/* expression_parse.c: the nodes of options.expression; *root is that of its value. */
gram_status gram_expression_parse(gram_context *g, const gram_kernel_options *options,
                                  struct gram_expression *e, int *root);

/* expression_program.c: reads options.expression and makes the program of its value or of a
 * derivative.  A program is too large for the stack of every thread, so the context has memory for
 * one of each kind: *e stays until the next one of the same kind, of which the derivatives by all
 * parameters and the text itself are one. */
gram_status gram_expression_compile(gram_context *g, const gram_kernel_options *options, int by,
                                    struct gram_expression **e);

/* Frees that memory. */
void gram_expression_release(gram_context *g);
#endif

/*
 * expression_parse.c - reads an expression: C's operators and precedences, all in floating point
 *
 *   expression = binary ["?" expression ":" expression]
 *   binary     = unary {operator unary}           ||  &&  == !=  < <= > >=  + -  * /
 *   unary      = {"-" | "+" | "!"} primary
 *   primary    = number | name | function "(" expression {"," expression} ")" | "(" expression ")"
 *
 * Recursive descent; the text may come from anywhere.  The first error ends it: every function
 * returns a node, or -1 after it has written the message.
 *
 * SPDX-License-Identifier: MIT
 */
#include "expression_reader.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static int expression(struct gram_reader *r);

/* ---- Operands ------------------------------------------------------------------------------ */

static int call(struct gram_reader *r, size_t length)
{
    char expected[200];
    int op = gram_op_of_name(r->at, length), arg[3] = {0}, arity, used = 0;

    for (int other = 0; op < 0 && other < GRAM_OP_COUNT; other++)
        if (gram_op_name((enum gram_op)other))
            used += snprintf(expected + used, sizeof expected - (size_t)used, "%s %s",
                             used ? "" : "one of the functions", gram_op_name((enum gram_op)other));
    if (op < 0)
        return gram_reader_wrong(r, expected);
    r->at += length;
    (void)gram_reader_accept(r, "(");
    arity = gram_op_arity((enum gram_op)op);
    for (int i = 0; i < arity; i++) {
        arg[i] = expression(r);
        if (arg[i] < 0)
            return -1;
        gram_reader_skip_blanks(r);
        if (*r->at != (i + 1 < arity ? ',' : ')')) {
            snprintf(expected, sizeof expected, "\"%s\" in a call of %s, which has %d argument%s",
                     i + 1 < arity ? "," : ")", gram_op_name((enum gram_op)op), arity,
                     arity == 1 ? "" : "s");
            return gram_reader_wrong(r, expected);
        }
        r->at++;
    }
    return gram_reader_node(r, (enum gram_op)op, arg[0], arg[1], arg[2]);
}

static int primary(struct gram_reader *r)
{
    size_t length;
    int inner;

    if (gram_reader_accept(r, "(")) {
        inner = expression(r);
        if (inner >= 0 && !gram_reader_accept(r, ")"))
            return gram_reader_wrong(r, "an operator or \")\"");
        return inner;
    }
    if (isdigit((unsigned char)*r->at) || *r->at == '.')
        return gram_reader_number(r);
    length = gram_reader_name(r->at);
    if (length == 0)
        return gram_reader_wrong(r, "a number, a name, a function or \"(\"");
    if (r->at[length + strspn(r->at + length, " \t\r\n")] == '(')
        return call(r, length);
    return gram_reader_value(r, length);
}

static int unary(struct gram_reader *r)
{
    int signs = 0, value;
    char sign[GRAM_EXPRESSION_DEPTH];

    gram_reader_skip_blanks(r);
    for (; *r->at == '-' || *r->at == '+' || *r->at == '!'; gram_reader_skip_blanks(r)) {
        if (signs == GRAM_EXPRESSION_DEPTH)
            return gram_reader_wrong(r, "no more signs");
        sign[signs++] = *r->at++;
    }
    value = primary(r);
    while (value >= 0 && signs-- > 0) {
        if (sign[signs] == '-')
            value = gram_reader_node(r, GRAM_OP_NEGATE, value, 0, 0);
        else if (sign[signs] == '!')
            value = gram_reader_node(r, GRAM_OP_EQUAL, value, gram_expression_number(r->e, 0), 0);
    }
    return value;
}

/* ---- Operators ----------------------------------------------------------------------------- */

/* Longer marks first; swapped: a > b is b < a. */
static const struct binary {
    const char *mark;
    int rank;
    enum gram_op op;
    bool swapped;
} binaries[] = {
    {"||", 1,      GRAM_OP_COUNT, false},
    {"&&", 2,      GRAM_OP_COUNT, false},
    {"==", 3,      GRAM_OP_EQUAL, false},
    {"!=", 3,  GRAM_OP_NOT_EQUAL, false},
    {"<=", 4, GRAM_OP_LESS_EQUAL, false},
    {">=", 4, GRAM_OP_LESS_EQUAL,  true},
    { "<", 4,       GRAM_OP_LESS, false},
    { ">", 4,       GRAM_OP_LESS,  true},
    { "+", 5,        GRAM_OP_ADD, false},
    { "-", 5,   GRAM_OP_SUBTRACT, false},
    { "*", 6,   GRAM_OP_MULTIPLY, false},
    { "/", 6,     GRAM_OP_DIVIDE, false},
};

enum {
    BINARIES = sizeof binaries / sizeof *binaries
};

/* a && b is a ? b != 0 : 0; a || b is a ? 1 : b != 0. */
static int join(struct gram_reader *r, const struct binary *binary, int a, int b)
{
    int truth;

    if (binary->op != GRAM_OP_COUNT)
        return binary->swapped ? gram_reader_node(r, binary->op, b, a, 0)
                               : gram_reader_node(r, binary->op, a, b, 0);
    truth = gram_reader_node(r, GRAM_OP_NOT_EQUAL, b, gram_expression_number(r->e, 0), 0);
    if (truth < 0)
        return -1;
    return binary->rank == 1
               ? gram_reader_node(r, GRAM_OP_SELECT, a, gram_expression_number(r->e, 1), truth)
               : gram_reader_node(r, GRAM_OP_SELECT, a, truth, gram_expression_number(r->e, 0));
}

/* Operators of this rank and above, by climbing. */
static int operators(struct gram_reader *r, int rank)
{
    int left = unary(r), right;

    while (left >= 0) {
        const struct binary *found = NULL;

        for (int i = 0; i < BINARIES && !found; i++)
            if (binaries[i].rank >= rank && gram_reader_accept(r, binaries[i].mark))
                found = &binaries[i];
        if (!found)
            return left;
        right = operators(r, found->rank + 1);
        left = right < 0 ? -1 : join(r, found, left, right);
    }
    return -1;
}

static int expression(struct gram_reader *r)
{
    int condition, yes, no;

    if (++r->depth > GRAM_EXPRESSION_DEPTH)
        return gram_reader_wrong(r, "less than 64 brackets and conditions in each other");
    condition = operators(r, 1);
    if (condition >= 0 && gram_reader_accept(r, "?")) {
        yes = expression(r);
        if (yes < 0)
            return -1;
        if (!gram_reader_accept(r, ":"))
            return gram_reader_wrong(r, "an operator or the \":\" of \"? :\"");
        no = expression(r);
        condition = no < 0 ? -1 : gram_reader_node(r, GRAM_OP_SELECT, condition, yes, no);
    }
    r->depth--;
    return condition;
}

/* ---- The whole ----------------------------------------------------------------------------- */

gram_status gram_expression_parse(gram_context *g, const char *text,
                                  const gram_parameter *parameters, int count,
                                  struct gram_expression *e, int *root)
{
    struct gram_reader p = {.g = g,
                            .text = text,
                            .at = text,
                            .parameters = parameters,
                            .parameter_count = count,
                            .e = e};

    TRY(gram_reader_check_names(g, parameters, count));
    if (strnlen(text, GRAM_EXPRESSION_BYTES + 1) > GRAM_EXPRESSION_BYTES)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.expression has more than %d bytes, expected no more",
                         (int)GRAM_EXPRESSION_BYTES);
    e->count = 0;
    *root = expression(&p);
    gram_reader_skip_blanks(&p);
    if (*root >= 0 && *p.at)
        *root = gram_reader_wrong(&p, *p.at == '^' ? "an operator or the end; powers are pow(x, y)"
                                                   : "an operator or the end");
    return *root < 0 ? GRAM_INVALID_ARGUMENT : GRAM_OK;
}

/*
 * expression_parse.c - from the text of an expression to the nodes of its value
 *
 * The text has C's operators and precedences, all in floating point:
 *
 *   text       = {name "=" expression ";"} expression
 *   expression = binary ["?" expression ":" expression]
 *   binary     = unary {operator unary}           ||  &&  == !=  < <= > >=  + -  * /
 *   unary      = {"-" | "+" | "!"} primary
 *   primary    = number | name | function "(" expression {"," expression} ")" | "(" expression ")"
 *
 * It is read by recursive descent and may come from anywhere.  The first error ends it: every
 * function that gives a node gives -1 after it has written the message.
 *
 * SPDX-License-Identifier: MIT
 */
#include "expression.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text of an expression while it is read. */
struct reader {
    gram_context *g;
    const char *text, *at;
    const gram_kernel_options *options;
    const gram_parameter *parameters;
    int parameter_count, depth;
    struct gram_expression *e;
    /* Names that the text has defined so far. */
    struct {
        const char *name;
        size_t length;
        int node;
    } own[GRAM_EXPRESSION_NAMES];
    int own_count;
    char expected[320]; /* for messages: the functions that read operands call each other */
};

/* ---- Errors ---------------------------------------------------------------------------------- */

/* What stands at r->at, for a message: a word, a number or one character. */
static int seen(const struct reader *r)
{
    int length = 0;

    while (length < GRAM_PARAMETER_BYTES &&
           (isalnum((unsigned char)r->at[length]) || r->at[length] == '_'))
        length++;
    return length ? length : 1;
}

/* Says what stands at the reader's place and what was expected; -1. */
static int wrong(const struct reader *r, const char *expected)
{
    int position = (int)(r->at - r->text) + 1;
    unsigned char c = (unsigned char)*r->at;

    if (!c)
        gram_note(r->g, "options.expression ends after character %d, expected %s", position - 1,
                  expected);
    else if (c < ' ' || c > '~')
        gram_note(r->g, "options.expression has the byte 0x%02x at character %d, expected %s", c,
                  position, expected);
    else
        gram_note(r->g, "options.expression has \"%.*s\" at character %d, expected %s", seen(r),
                  r->at, position, expected);
    return -1;
}

static int full(const struct reader *r)
{
    gram_note(r->g,
              "options.expression has more than %d different operations up to character %d, but "
              "no more are supported",
              (int)GRAM_EXPRESSION_OPS, (int)(r->at - r->text));
    return -1;
}

/* A node of the text, within its limit. */
static int node(const struct reader *r, enum gram_op op, int a, int b, int c)
{
    int made = gram_expression_node(r->e, op, a, b, c);

    return made < GRAM_EXPRESSION_OPS ? made : full(r);
}

/* ---- Words ----------------------------------------------------------------------------------- */

static void skip_blanks(struct reader *r)
{
    r->at += strspn(r->at, " \t\r\n");
}

/* Passes mark if it comes next. */
static bool accept(struct reader *r, const char *mark)
{
    size_t length = strlen(mark);

    skip_blanks(r);
    if (strncmp(r->at, mark, length) != 0)
        return false;
    r->at += length;
    return true;
}

/* Length of the name that begins at text; 0: none does. */
static size_t name_length(const char *text)
{
    size_t length = 0;

    if (isdigit((unsigned char)*text))
        return 0;
    while (isalnum((unsigned char)text[length]) || text[length] == '_')
        length++;
    return length;
}

static bool is_name(const char *name, const char *text, size_t length)
{
    return strlen(name) == length && strncmp(name, text, length) == 0;
}

static const char *parameter_name(const gram_parameter *parameters, int which, char *buffer)
{
    if (parameters[which].name)
        return parameters[which].name;
    snprintf(buffer, GRAM_PARAMETER_BYTES, "p%d", which);
    return buffer;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

/* Copies the digits at *from, at most `most` of them in all; returns how many it passed. */
static int digits(const char **from, char *to, int *length, int most)
{
    int count = 0;

    for (; isdigit((unsigned char)**from); (*from)++, count++)
        if (*length < most)
            to[(*length)++] = **from;
    return count;
}

/*
 * The number that begins here.  strtod reads the digits without their point, which is not the same
 * in all locales: 1.25e-3 as 125e-5.
 */
static int read_number(struct reader *r)
{
    enum {
        MOST_DIGITS = 64
    };
    char text[MOST_DIGITS + 16];
    int length = 0, whole, fraction = 0, made;
    long exponent = 0;
    const char *start = r->at;
    double value;

    whole = digits(&r->at, text, &length, MOST_DIGITS);
    if (*r->at == '.') {
        r->at++;
        fraction = digits(&r->at, text, &length, MOST_DIGITS);
    }
    if (whole + fraction > MOST_DIGITS) {
        r->at = start;
        return wrong(r, "a number of at most 64 digits");
    }
    if (whole + fraction == 0)
        return wrong(r, "a digit");
    if (*r->at == 'e' || *r->at == 'E') {
        const char *mark = r->at + 1;
        if (!isdigit((unsigned char)mark[*mark == '-' || *mark == '+'])) {
            r->at = mark;
            return wrong(r, "the digits of an exponent");
        }
        exponent = strtol(mark, (char **)&r->at, 10);
    }
    if (exponent > 9999 || exponent < -9999)
        exponent = exponent > 0 ? 9999 : -9999;
    if (isalnum((unsigned char)*r->at) || *r->at == '_' || *r->at == '.')
        return wrong(r, "an operator after the number");
    snprintf(text + length, sizeof text - (size_t)length, "e%ld", exponent - fraction);
    value = strtod(text, NULL);
    if (isinf(value)) {
        r->at = start;
        return wrong(r, "a number within the range of double");
    }
    made = gram_expression_number(r->e, value);
    return made < GRAM_EXPRESSION_OPS ? made : full(r);
}

/* The function with the name of length bytes at text, or -1. */
static int function_of(const char *text, size_t length)
{
    for (int op = 0; op < GRAM_OP_COUNT; op++) {
        const char *name = gram_op_name((enum gram_op)op);
        if (name && strlen(name) == length && strncmp(name, text, length) == 0)
            return op;
    }
    return -1;
}

/* The node of the name of length bytes at text that the text has defined, or -1. */
static int own_node(const struct reader *r, const char *text, size_t length)
{
    for (int i = 0; i < r->own_count; i++)
        if (r->own[i].length == length && strncmp(r->own[i].name, text, length) == 0)
            return r->own[i].node;
    return -1;
}

/* x.y: s itself, or (|x|^2 + |y|^2 - |x - y|^2) / 2 for the Euclidean distance. */
static int dot(struct reader *r, size_t length)
{
    const gram_kernel_options *o = r->options;
    const bool numbers = !o->p.tensor && o->p.value == 2 && (o->root || !o->outer_power.tensor);
    const double outer = o->root ? 0.5 : o->outer_power.value;
    int s = node(r, GRAM_OP_S, 0, 0, 0), x, y, squares;

    if (o->inner == GRAM_DOT) {
        r->at += length;
        return s;
    }
    if (!numbers || (outer != 1 && outer != 0.5))
        return wrong(r,
                     "no dot unless s is an inner product, or options.p is 2 and "
                     "options.outer_power is 1 or 0.5");
    r->at += length;
    x = node(r, GRAM_OP_NORM_X, 0, 0, 0);
    y = node(r, GRAM_OP_NORM_Y, 0, 0, 0);
    squares = node(r, GRAM_OP_ADD, node(r, GRAM_OP_MULTIPLY, x, x, 0),
                   node(r, GRAM_OP_MULTIPLY, y, y, 0), 0);
    if (outer == 0.5)
        s = node(r, GRAM_OP_MULTIPLY, s, s, 0);
    return node(r, GRAM_OP_MULTIPLY, gram_expression_number(r->e, 0.5),
                node(r, GRAM_OP_SUBTRACT, squares, s, 0), 0);
}

/* d1 or d2: s where it is that distance, or else a sum beside it. */
static int distance(struct reader *r, bool squared)
{
    const gram_kernel_options *o = r->options;
    const double p = squared ? 2 : 1, outer = o->root ? 1 / p : o->outer_power.value;
    const bool known = o->inner == GRAM_DIFFERENCE && !o->metric && !o->p.tensor &&
                       o->p.value == p && (o->root || !o->outer_power.tensor);
    int sum;

    if (known && outer == 1 / p)
        return node(r, GRAM_OP_S, 0, 0, 0);
    sum = node(r,
               known && outer == 1 ? GRAM_OP_S
               : squared           ? GRAM_OP_SQUARES
                                   : GRAM_OP_SUM,
               0, 0, 0);
    return squared ? node(r, GRAM_OP_SQRT, sum, 0, 0) : sum;
}

/* The parameter, s, or what the text has defined, whose name is the next length bytes, which are
 * passed.  Names of the caller's come before dot, d1, d2, norm_x and norm_y. */
static int read_value(struct reader *r, size_t length)
{
    const int own = own_node(r, r->at, length);
    char buffer[GRAM_PARAMETER_BYTES];
    size_t used;

    if (own >= 0) {
        r->at += length;
        return own;
    }

    if (is_name("s", r->at, length)) {
        r->at += length;
        return node(r, GRAM_OP_S, 0, 0, 0);
    }
    for (int i = 0; i < r->parameter_count; i++)
        if (is_name(parameter_name(r->parameters, i, buffer), r->at, length)) {
            r->at += length;
            return node(r, GRAM_OP_PARAMETER, i, 0, 0);
        }
    if (is_name("dot", r->at, length))
        return dot(r, length);
    if (is_name("norm_x", r->at, length) || is_name("norm_y", r->at, length)) {
        const bool of_x = r->at[length - 1] == 'x';
        r->at += length;
        return node(r, of_x ? GRAM_OP_NORM_X : GRAM_OP_NORM_Y, 0, 0, 0);
    }
    if (is_name("d1", r->at, length) || is_name("d2", r->at, length)) {
        const bool squared = r->at[1] == '2';
        r->at += length;
        return distance(r, squared);
    }
    if (function_of(r->at, length) >= 0) {
        r->at += length;
        return wrong(r, "\"(\" after the name of a function");
    }
    used = (size_t)snprintf(r->expected, sizeof r->expected, "s, dot, d1, d2, norm_x, norm_y%s",
                            r->parameter_count ? " or a parameter:" : " (there are no parameters)");
    for (int i = 0; i < r->parameter_count; i++)
        used += (size_t)snprintf(r->expected + used, sizeof r->expected - used, " %s",
                                 parameter_name(r->parameters, i, buffer));
    return wrong(r, r->expected);
}

/* Refuses names of parameters that cannot be told from others. */
static gram_status check_names(gram_context *g, const gram_parameter *parameters, int count)
{
    char buffer[GRAM_PARAMETER_BYTES], other[GRAM_PARAMETER_BYTES];

    for (int i = 0; i < count; i++) {
        const char *name = parameter_name(parameters, i, buffer);
        size_t length = name_length(name);

        if (length == 0 || name[length] || length >= GRAM_PARAMETER_BYTES)
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "options.parameters[%d].name is \"%.40s\", expected 1 to %d letters, "
                             "digits and _, and no digit at the start",
                             i, name, (int)GRAM_PARAMETER_BYTES - 1);
        if (is_name("s", name, length) || function_of(name, length) >= 0)
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "options.parameters[%d].name is \"%s\", expected a name that "
                             "expressions do not define",
                             i, name);
        for (int j = 0; j < i; j++)
            if (strcmp(parameter_name(parameters, j, other), name) == 0)
                return gram_fail(g, GRAM_INVALID_ARGUMENT,
                                 "options.parameters[%d].name is \"%s\", expected a name that "
                                 "differs from that of options.parameters[%d]",
                                 i, name, j);
    }
    return GRAM_OK;
}

static int expression(struct reader *r);

/* ---- Operands -------------------------------------------------------------------------------- */

static int call(struct reader *r, size_t length)
{
    int op = function_of(r->at, length), arg[3] = {0}, arity, used = 0;

    for (int other = 0; op < 0 && other < GRAM_OP_COUNT; other++)
        if (gram_op_name((enum gram_op)other))
            used += snprintf(r->expected + used, sizeof r->expected - (size_t)used, "%s %s",
                             used ? "" : "one of the functions", gram_op_name((enum gram_op)other));
    if (op < 0)
        return wrong(r, r->expected);
    r->at += length;
    (void)accept(r, "(");
    arity = gram_op_arity((enum gram_op)op);
    for (int i = 0; i < arity; i++) {
        arg[i] = expression(r);
        if (arg[i] < 0)
            return -1;
        skip_blanks(r);
        if (*r->at != (i + 1 < arity ? ',' : ')')) {
            snprintf(r->expected, sizeof r->expected,
                     "\"%s\" in a call of %s, which has %d argument%s", i + 1 < arity ? "," : ")",
                     gram_op_name((enum gram_op)op), arity, arity == 1 ? "" : "s");
            return wrong(r, r->expected);
        }
        r->at++;
    }
    return node(r, (enum gram_op)op, arg[0], arg[1], arg[2]);
}

static int primary(struct reader *r)
{
    size_t length;
    int inner;

    if (accept(r, "(")) {
        inner = expression(r);
        if (inner >= 0 && !accept(r, ")"))
            return wrong(r, "an operator or \")\"");
        return inner;
    }
    if (isdigit((unsigned char)*r->at) || *r->at == '.')
        return read_number(r);
    length = name_length(r->at);
    if (length == 0)
        return wrong(r, "a number, a name, a function or \"(\"");
    if (r->at[length + strspn(r->at + length, " \t\r\n")] == '(')
        return call(r, length);
    return read_value(r, length);
}

static int unary(struct reader *r)
{
    int signs = 0, value;
    char sign[GRAM_EXPRESSION_DEPTH];

    skip_blanks(r);
    for (; *r->at == '-' || *r->at == '+' || *r->at == '!'; skip_blanks(r)) {
        if (signs == GRAM_EXPRESSION_DEPTH)
            return wrong(r, "no more signs");
        sign[signs++] = *r->at++;
    }
    value = primary(r);
    while (value >= 0 && signs-- > 0) {
        if (sign[signs] == '-')
            value = node(r, GRAM_OP_NEGATE, value, 0, 0);
        else if (sign[signs] == '!')
            value = node(r, GRAM_OP_EQUAL, value, gram_expression_number(r->e, 0), 0);
    }
    return value;
}

/* ---- Operators ------------------------------------------------------------------------------- */

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
    BINARIES = sizeof binaries / sizeof *binaries,
    RANKS = 6
};

/* a && b is a ? b != 0 : 0; a || b is a ? 1 : b != 0. */
static int join(struct reader *r, const struct binary *binary, int a, int b)
{
    int truth;

    if (binary->op != GRAM_OP_COUNT)
        return binary->swapped ? node(r, binary->op, b, a, 0) : node(r, binary->op, a, b, 0);
    truth = node(r, GRAM_OP_NOT_EQUAL, b, gram_expression_number(r->e, 0), 0);
    if (truth < 0)
        return -1;
    return binary->rank == 1 ? node(r, GRAM_OP_SELECT, a, gram_expression_number(r->e, 1), truth)
                             : node(r, GRAM_OP_SELECT, a, truth, gram_expression_number(r->e, 0));
}

/* The operator that comes next, which is not passed; NULL: there is none. */
static const struct binary *next_operator(struct reader *r)
{
    skip_blanks(r);
    for (int i = 0; i < BINARIES; i++)
        if (strncmp(r->at, binaries[i].mark, strlen(binaries[i].mark)) == 0)
            return &binaries[i];
    return NULL;
}

/* Operands and operators.  Those that wait for their right side have ever higher ranks, so there is
 * room for all; a call for each rank would be deep in brackets. */
static int operators(struct reader *r)
{
    const struct binary *waiting[RANKS];
    int left[RANKS], count = 0, value = unary(r);

    while (value >= 0) {
        const struct binary *found = next_operator(r);

        while (value >= 0 && count > 0 && (!found || waiting[count - 1]->rank >= found->rank)) {
            count--;
            value = join(r, waiting[count], left[count], value);
        }
        if (value < 0 || !found)
            return value;
        r->at += strlen(found->mark);
        waiting[count] = found, left[count++] = value;
        value = unary(r);
    }
    return -1;
}

static int expression(struct reader *r)
{
    int condition, yes, no;

    if (++r->depth > GRAM_EXPRESSION_DEPTH)
        return wrong(r, "fewer than 64 nested brackets and conditions");
    condition = operators(r);
    if (condition >= 0 && accept(r, "?")) {
        yes = expression(r);
        if (yes < 0)
            return -1;
        if (!accept(r, ":"))
            return wrong(r, "an operator or the \":\" of \"? :\"");
        no = expression(r);
        condition = no < 0 ? -1 : node(r, GRAM_OP_SELECT, condition, yes, no);
    }
    r->depth--;
    return condition;
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* Whether name = ... comes next, and not ==. */
static bool defines(struct reader *r)
{
    const char *mark;
    size_t length;

    skip_blanks(r);
    length = name_length(r->at);
    mark = r->at + length + strspn(r->at + length, " \t\r\n");
    return length > 0 && mark[0] == '=' && mark[1] != '=';
}

/* Reads name = expression; false after a message. */
static bool definition(struct reader *r)
{
    const size_t length = name_length(r->at);
    const char *name = r->at;
    char buffer[GRAM_PARAMETER_BYTES];
    bool taken = is_name("s", name, length) || function_of(name, length) >= 0 ||
                 own_node(r, name, length) >= 0;
    int made;

    for (int i = 0; i < r->parameter_count; i++)
        taken |= is_name(parameter_name(r->parameters, i, buffer), name, length);
    if (taken || r->own_count == GRAM_EXPRESSION_NAMES) {
        (void)wrong(r, taken ? "a name that is not in use before \"=\""
                             : "no more than 128 names with a value");
        return false;
    }
    r->at += length;
    (void)accept(r, "=");
    made = expression(r);
    if (made < 0)
        return false;
    if (!accept(r, ";")) {
        (void)wrong(r, "an operator or the \";\" behind the value of a name");
        return false;
    }
    r->own[r->own_count].name = name;
    r->own[r->own_count].length = length;
    r->own[r->own_count++].node = made;
    return true;
}

static int whole(struct reader *r)
{
    int root;

    while (defines(r))
        if (!definition(r))
            return -1;
    root = expression(r);
    skip_blanks(r);
    if (root >= 0 && *r->at)
        return wrong(r, *r->at == '^' ? "an operator or the end; powers are pow(x, y)"
                                      : "an operator or the end");
    return root;
}

gram_status gram_expression_parse(gram_context *g, const gram_kernel_options *options,
                                  struct gram_expression *e, int *root)
{
    const char *text = options->expression;
    const gram_parameter *parameters = options->parameters;
    const int count = (int)options->parameter_count;
    struct reader p = {.g = g,
                       .text = text,
                       .at = text,
                       .options = options,
                       .parameters = parameters,
                       .parameter_count = count,
                       .e = e};

    TRY(check_names(g, parameters, count));
    if (strnlen(text, GRAM_EXPRESSION_BYTES + 1) > GRAM_EXPRESSION_BYTES)
        return gram_fail(g, GRAM_INVALID_ARGUMENT,
                         "options.expression is longer than the %d bytes that are supported",
                         (int)GRAM_EXPRESSION_BYTES);
    e->count = 0;
    *root = whole(&p);
    return *root < 0 ? GRAM_INVALID_ARGUMENT : GRAM_OK;
}

/*
 * cuda_expression.c - a caller's expression as device code: the text of pair_expression.cuh
 *
 * Nothing of the caller's text gets into it: it is written anew from the program that was read, one
 * statement per operation.  What depends on parameters alone is computed once per item in double,
 * on the host or by expression_constants(), and comes to expression_of() as c[]:
 *
 *     exp(-s / (2 * L))
 *
 * becomes
 *
 *     static __device__ void expression_constants(const double *p, double *c)
 *     {
 *     const double u3 = p[0];
 *     const double u4 = 0x1...p-51 * u3;
 *     c[0] = u4;
 *     }
 *     static __device__ REAL expression_of(const double *c, REAL s)
 *     {
 *     const REAL v1 = -s;
 *     const REAL v5 = v1 / (REAL)c[0];
 *     const REAL v6 = exp(v5);
 *     return s != s ? s : v6;
 *     }
 *
 * An expression of |x| and |y| has them as further arguments, x and y; one of more distances than s
 * the two sums that they are made of, sum and squares.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cuda_cdist.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How operations without a name look; %s are their operands. */
static const char *const forms[GRAM_OP_COUNT] = {
    [GRAM_OP_ADD] = "%s + %s",
    [GRAM_OP_SUBTRACT] = "%s - %s",
    [GRAM_OP_MULTIPLY] = "%s * %s",
    [GRAM_OP_DIVIDE] = "%s / %s",
    [GRAM_OP_NEGATE] = "-%s",
    [GRAM_OP_LESS] = "%s < %s ? 1 : 0",
    [GRAM_OP_LESS_EQUAL] = "%s <= %s ? 1 : 0",
    [GRAM_OP_EQUAL] = "%s == %s ? 1 : 0",
    [GRAM_OP_NOT_EQUAL] = "%s != %s ? 1 : 0",
    [GRAM_OP_SELECT] = "%s != 0 ? %s : %s",
};

enum {
    OPERAND_BYTES = 48
};

/* Which constant a node is: -1 for one that is none. */
struct constants {
    int count;
    int16_t of[GRAM_EXPRESSION_NODES];
};

static void find_constants(const struct gram_expression *e, struct constants *c)
{
    bool wanted[GRAM_EXPRESSION_NODES] = {false};

    wanted[e->count - 1] = true;
    for (int i = 0; i < e->count; i++)
        for (int k = 0; k < gram_op_arity((enum gram_op)e->node[i].op); k++)
            wanted[e->node[i].arg[k]] |= !e->node[i].uniform;
    c->count = 0;
    for (int i = 0; i < e->count; i++) {
        bool constant = wanted[i] && e->node[i].uniform && e->node[i].op != GRAM_OP_NUMBER;
        c->of[i] = (int16_t)(constant ? c->count++ : -1);
    }
}

int gram_cuda_expression_constants(const struct gram_expression *e, const double *parameters,
                                   double *out)
{
    double value[GRAM_EXPRESSION_NODES];
    struct constants c;

    find_constants(e, &c);
    if (c.count > PAIR_CONSTANTS || !out)
        return c.count;
    gram_expression_uniform(e, parameters, value);
    for (int i = 0; i < e->count; i++)
        if (c.of[i] >= 0)
            out[c.of[i]] = value[i];
    return c.count;
}

/* A literal of all digits, in which no locale has a point. */
static void write_number(const char *cast, double number, char *text)
{
    int exponent;
    double fraction = frexp(fabs(number), &exponent);

    snprintf(text, OPERAND_BYTES, "%s%s0x%llxp%d%s", cast, signbit(number) ? "(-" : "",
             (unsigned long long)ldexp(fraction, 53), number == 0 ? 0 : exponent - 53,
             signbit(number) ? ")" : "");
}

/* A node where it is used: in double, or in REAL. */
static void write_operand(const struct gram_expression *e, const struct constants *c, int node,
                          bool real, char *text)
{
    const struct gram_node *n = &e->node[node];
    const char *cast = real ? "(REAL)" : "";

    if (n->op == GRAM_OP_NUMBER)
        write_number(cast, n->number, text);
    else if (n->op == GRAM_OP_S)
        snprintf(text, OPERAND_BYTES, "s");
    else if (n->op == GRAM_OP_NORM_X || n->op == GRAM_OP_NORM_Y)
        snprintf(text, OPERAND_BYTES, n->op == GRAM_OP_NORM_X ? "x" : "y");
    else if (n->op == GRAM_OP_SUM || n->op == GRAM_OP_SQUARES)
        snprintf(text, OPERAND_BYTES, n->op == GRAM_OP_SUM ? "sum" : "squares");
    else if (!n->uniform)
        snprintf(text, OPERAND_BYTES, "v%d", node);
    else if (c)
        snprintf(text, OPERAND_BYTES, "%sc[%d]", cast, c->of[node]);
    else
        snprintf(text, OPERAND_BYTES, "u%d", node);
}

/* x^e with an e that does not depend on s, in all its digits. */
static void write_power(FILE *out, const struct gram_expression *e, const struct constants *c,
                        const struct gram_node *n, const char *base)
{
    const struct gram_node *exponent = &e->node[n->arg[1]];
    bool known = exponent->op == GRAM_OP_NUMBER;
    char text[OPERAND_BYTES];

    write_operand(e, c, n->arg[1], false, text);
    if (known && exponent->number == 0.5)
        fprintf(out, "sqrt(%s)", base);
    else if (known && exponent->number >= 0 && exponent->number <= PAIR_MOST_WHOLE &&
             exponent->number == floor(exponent->number))
        fprintf(out, "product<%d>(%s)", (int)exponent->number, base);
    else
        fprintf(out, "power(%s, %s)", base, text);
}

/* The value of a node; c NULL: in double, from parameters. */
static void write_value(FILE *out, const struct gram_expression *e, const struct constants *c,
                        const struct gram_node *n)
{
    const enum gram_op op = (enum gram_op)n->op;
    const char *name = gram_op_name(op);
    char a[3][OPERAND_BYTES] = {"", "", ""};

    for (int k = 0; k < gram_op_arity(op); k++)
        write_operand(e, c, n->arg[k], c != NULL, a[k]);
    if (op == GRAM_OP_PARAMETER)
        fprintf(out, "p[%d]", n->arg[0]);
    else if (op == GRAM_OP_POW && c && e->node[n->arg[1]].uniform)
        write_power(out, e, c, n, a[0]);
    else if (name)
        fprintf(out, gram_op_arity(op) == 2 ? "%s(%s, %s)" : "%s(%s)", name, a[0], a[1]);
    else
        fprintf(out, forms[op], a[0], a[1], a[2]); // NOLINT(clang-diagnostic-format-nonliteral)
}

static void write_functions(FILE *out, const struct gram_expression *e, const struct constants *c)
{
    char text[OPERAND_BYTES];

    fprintf(out, "static __device__ void expression_constants(const double *p, double *c)\n{\n");
    for (int i = 0; i < e->count; i++) {
        if (!e->node[i].uniform || e->node[i].op == GRAM_OP_NUMBER)
            continue;
        fprintf(out, "const double u%d = ", i);
        write_value(out, e, NULL, &e->node[i]);
        fprintf(out, ";\n");
        if (c->of[i] >= 0)
            fprintf(out, "c[%d] = u%d;\n", c->of[i], i);
    }
    fprintf(out, "}\nstatic __device__ REAL expression_of(const double *c, REAL s%s%s)\n{\n",
            e->norms ? ", REAL x, REAL y" : "", e->sums ? ", REAL sum, REAL squares" : "");
    for (int i = 0; i < e->count; i++) {
        if (e->node[i].uniform || gram_op_is_variable((enum gram_op)e->node[i].op))
            continue;
        fprintf(out, "const REAL v%d = ", i);
        write_value(out, e, c, &e->node[i]);
        fprintf(out, ";\n");
    }
    write_operand(e, c, e->count - 1, true, text);
    fprintf(out, "return s != s ? s : %s;\n}\n", text);
}

char *gram_cuda_expression_text(const struct gram_expression *e)
{
    struct constants c;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return NULL;
    find_constants(e, &c);
    write_functions(out, e, &c);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

enum {
    CUDA_EXPRESSION_WORDS = 2 * GRAM_EXPRESSION_NODES
};

static void node_words(const struct gram_node *n, uint64_t words[2])
{
    words[0] = n->op;
    for (int k = 0; k < 3; k++)
        words[0] = words[0] << 16 | (uint16_t)n->arg[k];
    memcpy(&words[1], &n->number, sizeof n->number);
}

/* The program in words, which two expressions of the same text alone share, and their number. */
static size_t program_words(const struct gram_expression *e, uint64_t words[CUDA_EXPRESSION_WORDS])
{
    for (int i = 0; i < e->count; i++)
        node_words(&e->node[i], words + (ptrdiff_t)2 * i);
    return 2 * (size_t)e->count;
}

/* The cuda_code of an expression: its text is only written where the kernel has to be made. */
static char *write_text(const void *expression)
{
    return gram_cuda_expression_text(expression);
}

gram_status gram_cuda_expression_launch(gram_context *g, const struct gram_expression *e,
                                        struct cuda_variant *v, const struct cuda_grid *grid,
                                        void **params)
{
    uint64_t words[CUDA_EXPRESSION_WORDS];
    struct cuda_code code = {
        .name = "pair_expression.cuh", .identity = words, .write = write_text, .of = e};

    if (e) {
        code.identity_bytes = program_words(e, words) * sizeof *words;
        v->code = &code;
    }
    return cuda_launch(g, v, grid, params);
}

uint64_t gram_cuda_expression_number(const struct gram_expression *e)
{
    uint64_t value = 0xCBF29CE484222325u, words[2];

    for (int i = 0; i < e->count; i++) {
        node_words(&e->node[i], words);
        for (int k = 0; k < 2; k++)
            value = ((value ^ words[k]) * 0x100000001B3u) ^ (value >> 29);
    }
    return value;
}

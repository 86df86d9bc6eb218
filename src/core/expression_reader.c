/*
 * expression_reader.c - the words of an expression: numbers, names, and messages about them
 *
 * SPDX-License-Identifier: MIT
 */
#include "expression_reader.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Errors -------------------------------------------------------------------------------- */

/* What stands at r->at, for a message: a word, a number or one character. */
static int seen(const struct gram_reader *r)
{
    int length = 0;

    while (length < GRAM_PARAMETER_BYTES &&
           (isalnum((unsigned char)r->at[length]) || r->at[length] == '_'))
        length++;
    return length ? length : 1;
}

int gram_reader_wrong(const struct gram_reader *r, const char *expected)
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

static int full(const struct gram_reader *r)
{
    gram_note(r->g,
              "options.expression has more than %d different operations up to character %d, "
              "expected no more",
              (int)GRAM_EXPRESSION_OPS, (int)(r->at - r->text));
    return -1;
}

int gram_reader_node(const struct gram_reader *r, enum gram_op op, int a, int b, int c)
{
    int made = gram_expression_node(r->e, op, a, b, c);

    return made < GRAM_EXPRESSION_OPS ? made : full(r);
}

/* ---- Words --------------------------------------------------------------------------------- */

void gram_reader_skip_blanks(struct gram_reader *r)
{
    r->at += strspn(r->at, " \t\r\n");
}

/* Passes mark if it comes next. */
bool gram_reader_accept(struct gram_reader *r, const char *mark)
{
    size_t length = strlen(mark);

    gram_reader_skip_blanks(r);
    if (strncmp(r->at, mark, length) != 0)
        return false;
    r->at += length;
    return true;
}

size_t gram_reader_name(const char *text)
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

/* ---- Numbers ------------------------------------------------------------------------------- */

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
 * strtod reads the digits without their point, which is not the same in all locales: 1.25e-3 as
 * 125e-5.
 */
int gram_reader_number(struct gram_reader *r)
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
        return gram_reader_wrong(r, "a number of at most 64 digits");
    }
    if (whole + fraction == 0)
        return gram_reader_wrong(r, "a digit");
    if (*r->at == 'e' || *r->at == 'E') {
        const char *mark = r->at + 1;
        if (!isdigit((unsigned char)mark[*mark == '-' || *mark == '+'])) {
            r->at = mark;
            return gram_reader_wrong(r, "the digits of an exponent");
        }
        exponent = strtol(mark, (char **)&r->at, 10);
    }
    if (exponent > 9999 || exponent < -9999)
        exponent = exponent > 0 ? 9999 : -9999;
    if (isalnum((unsigned char)*r->at) || *r->at == '_' || *r->at == '.')
        return gram_reader_wrong(r, "an operator after the number");
    snprintf(text + length, sizeof text - (size_t)length, "e%ld", exponent - fraction);
    value = strtod(text, NULL);
    if (isinf(value)) {
        r->at = start;
        return gram_reader_wrong(r, "a number within the range of double");
    }
    made = gram_expression_number(r->e, value);
    return made < GRAM_EXPRESSION_OPS ? made : full(r);
}

/* A parameter, or s. */
int gram_reader_value(struct gram_reader *r, size_t length)
{
    char buffer[GRAM_PARAMETER_BYTES], expected[320];
    size_t used;

    if (is_name("s", r->at, length)) {
        r->at += length;
        return gram_reader_node(r, GRAM_OP_S, 0, 0, 0);
    }
    for (int i = 0; i < r->parameter_count; i++)
        if (is_name(parameter_name(r->parameters, i, buffer), r->at, length)) {
            r->at += length;
            return gram_reader_node(r, GRAM_OP_PARAMETER, i, 0, 0);
        }
    if (gram_op_of_name(r->at, length) >= 0) {
        r->at += length;
        return gram_reader_wrong(r, "\"(\" after the name of a function");
    }
    used = (size_t)snprintf(expected, sizeof expected, "s%s",
                            r->parameter_count ? " or a parameter:" : " (there are no parameters)");
    for (int i = 0; i < r->parameter_count; i++)
        used += (size_t)snprintf(expected + used, sizeof expected - used, " %s",
                                 parameter_name(r->parameters, i, buffer));
    return gram_reader_wrong(r, expected);
}

gram_status gram_reader_check_names(gram_context *g, const gram_parameter *parameters, int count)
{
    char buffer[GRAM_PARAMETER_BYTES], other[GRAM_PARAMETER_BYTES];

    for (int i = 0; i < count; i++) {
        const char *name = parameter_name(parameters, i, buffer);
        size_t length = gram_reader_name(name);

        if (length == 0 || name[length] || length >= GRAM_PARAMETER_BYTES)
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "options.parameters[%d].name is \"%.40s\", expected 1 to %d letters, "
                             "digits and _, no digit first",
                             i, name, (int)GRAM_PARAMETER_BYTES - 1);
        if (is_name("s", name, length) || gram_op_of_name(name, length) >= 0)
            return gram_fail(g, GRAM_INVALID_ARGUMENT,
                             "options.parameters[%d].name is \"%s\", expected no name that "
                             "expressions have already",
                             i, name);
        for (int j = 0; j < i; j++)
            if (strcmp(parameter_name(parameters, j, other), name) == 0)
                return gram_fail(g, GRAM_INVALID_ARGUMENT,
                                 "options.parameters[%d].name is \"%s\" like that of "
                                 "options.parameters[%d], expected another one",
                                 i, name, j);
    }
    return GRAM_OK;
}

/*
 * test_expression_text.c - what is wrong with an expression is said, with its place; limits
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "comma_locale.h"
#include <locale.h>
#include <stdlib.h>
#include <string.h>

static gram_kernel_options options_of(const char *text)
{
    gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;

    o.function = GRAM_EXPRESSION;
    o.expression = text;
    return o;
}

/* The kernel of 3 and 1, p = 1: of s = 2. */
static gram_status evaluate(struct harness *h, const gram_kernel_options *options, double *out)
{
    double x = 3, y = 1;
    gram_kernel_options o = *options;
    gram_tensor tx = gram_matrix(&x, 1, 1, GRAM_F64), ty = gram_matrix(&y, 1, 1, GRAM_F64),
                to = gram_matrix(out, 1, 1, GRAM_F64);

    o.p = gram_number(1);
    return gram_kernel(h->g, &tx, &ty, &o, &to);
}

/* options are refused with this status and a message that ends like this; out stays. */
static void refuses(struct harness *h, const gram_kernel_options *options, gram_status status,
                    const char *end)
{
    double out = 7;
    gram_status got = evaluate(h, options, &out);
    const char *message = gram_message(h->g);
    size_t length = strlen(message), tail = strlen(end);

    CHECK(h, got == status && length > tail && strcmp(message + length - tail, end) == 0,
          "\"%.60s\": %s, \"%s\"", options->expression ? options->expression : "NULL",
          gram_status_name(got), message);
    CHECK(h, strncmp(message, "gram_kernel: ", strlen("gram_kernel: ")) == 0, "%s", message);
    CHECK(h, out == 7, "out became %g", out);
}

static const struct {
    const char *text, *message;
} wrong[] = {
    {            "",
     "options.expression ends after character 0, expected a number, a name, a function or "
     "\"(\""                                                                                           },
    {           " ",           "ends after character 1, expected a number, a name, a function or \"(\""},
    {      "exp(-s",    "ends after character 6, expected \")\" in a call of exp, which has 1 argument"},
    {    "exp(-s))",                        "has \")\" at character 8, expected an operator or the end"},
    {      "(s + 1",                            "ends after character 6, expected an operator or \")\""},
    {         "s s",                        "has \"s\" at character 3, expected an operator or the end"},
    {       "s ^ 2",  "has \"^\" at character 3, expected an operator or the end; powers are pow(x, y)"},
    {      "s +* 2",         "has \"*\" at character 4, expected a number, a name, a function or \"(\""},
    {       "2 * b",
     "has \"b\" at character 5, expected s, dot, d1, d2, norm_x, norm_y (there are no parameters)"     },
    {         "exp",              "ends after character 3, expected \"(\" after the name of a function"},
    {    "log10(s)",
     "has \"log10\" at character 1, expected one of the functions exp exp2 expm1 log "
     "log2 log1p sqrt pow sin cos sinh cosh tanh fabs fmin fmax asin acos atan erf"                    },
    {        "s(2)",
     "has \"s\" at character 1, expected one of the functions exp exp2 expm1 log log2 "
     "log1p sqrt pow sin cos sinh cosh tanh fabs fmin fmax asin acos atan erf"                         },
    {      "pow(s)", "has \")\" at character 6, expected \",\" in a call of pow, which has 2 arguments"},
    {"pow(s, 1, 2)",
     "has \",\" at character 9, expected \")\" in a call of pow, which has 2 "
     "arguments"                                                                                       },
    {       "exp()",         "has \")\" at character 5, expected a number, a name, a function or \"(\""},
    {         "1.e",                       "ends after character 3, expected the digits of an exponent"},
    {        "1e+s",                     "has \"+\" at character 3, expected the digits of an exponent"},
    {           ".",                                         "ends after character 1, expected a digit"},
    {       "1.2.3",                  "has \".\" at character 4, expected an operator after the number"},
    {          "2s",                  "has \"s\" at character 2, expected an operator after the number"},
    {        "0x10",                "has \"x10\" at character 2, expected an operator after the number"},
    {          "1f",                  "has \"f\" at character 2, expected an operator after the number"},
    {   "1 + 1e999",       "has \"1e999\" at character 5, expected a number within the range of double"},
    {       "s ? 1",             "ends after character 5, expected an operator or the \":\" of \"? :\""},
    {       "s = 1",        "has \"s\" at character 1, expected a name that is not in use before \"=\""},
    {  "exp = 1; s",      "has \"exp\" at character 1, expected a name that is not in use before \"=\""},
    { "u=1; u=2; u",        "has \"u\" at character 6, expected a name that is not in use before \"=\""},
    {       "u = s",
     "ends after character 5, expected an operator or the \";\" behind the value of a name"            },
    {      "u = s;",           "ends after character 6, expected a number, a name, a function or \"(\""},
    {    "u = u; u",
     "has \"u\" at character 5, expected s, dot, d1, d2, norm_x, norm_y (there are no parameters)"     },
    {        "s; 1",                        "has \";\" at character 2, expected an operator or the end"},
    {       "s & 1",                        "has \"&\" at character 3, expected an operator or the end"},
    {         "s\n",                                                                                 ""},
    {      "s \x01",                "has the byte 0x01 at character 3, expected an operator or the end"},
    {    "\xc3\xa9",
     "has the byte 0xc3 at character 1, expected a number, a name, a function or "
     "\"(\""                                                                                           },
    {    "s // one",         "has \"/\" at character 4, expected a number, a name, a function or \"(\""},
    {       "\"s\"",        "has \"\"\" at character 1, expected a number, a name, a function or \"(\""},
};

static void messages(struct harness *h)
{
    for (int i = 0; i < LENGTH(wrong); i++) {
        gram_kernel_options o = options_of(wrong[i].text);
        double out;

        if (wrong[i].message[0])
            refuses(h, &o, GRAM_INVALID_ARGUMENT, wrong[i].message);
        else
            CHECK(h, evaluate(h, &o, &out) == GRAM_OK && out == 2, "%s", gram_message(h->g));
    }
}

/* `count` copies of part, then end. */
static char *repeated(const char *begin, const char *part, int count, const char *end)
{
    size_t size = strlen(begin) + strlen(part) * (size_t)count + strlen(end) + 1;
    char *text = malloc(size), *at = text;

    if (!text)
        abort();
    at = stpcpy(at, begin);
    for (int i = 0; i < count; i++)
        at = stpcpy(at, part);
    stpcpy(at, end);
    return text;
}

static void gives(struct harness *h, char *text, double want)
{
    gram_kernel_options o = options_of(text);
    double out = 0;

    CHECK(h, evaluate(h, &o, &out) == GRAM_OK && out == want, "%.40s: %g, not %g: %s", text, out,
          want, gram_message(h->g));
    free(text);
}

static void too_much(struct harness *h, char *text, gram_kernel_output output, gram_status status,
                     const char *end)
{
    gram_kernel_options o = options_of(text);

    o.output = output;
    refuses(h, &o, status, end);
    free(text);
}

/* At each limit, and one beyond. */
static void limits(struct harness *h)
{
    char *tall, text[4096];
    size_t used = 0;

    gives(h, repeated("0", "+s", 40, ""), 80);
    gives(h, repeated("s", " ", 16383, ""), 2);
    too_much(h, repeated("s", " ", 16384, ""), GRAM_VALUE, GRAM_INVALID_ARGUMENT,
             "options.expression is longer than the 16384 bytes that are supported");
    tall = repeated("", "(", 63, "s");
    gives(h, repeated(tall, ")", 63, ""), 2);
    free(tall);
    too_much(h, repeated("", "(", 64, "s"), GRAM_VALUE, GRAM_INVALID_ARGUMENT,
             "has \"s\" at character 65, expected fewer than 64 nested brackets and conditions");
    too_much(h, repeated("", "(", 4000, "s"), GRAM_VALUE, GRAM_INVALID_ARGUMENT,
             "has \"(\" at character 65, expected fewer than 64 nested brackets and conditions");
    gives(h, repeated("", "-", 64, "s"), 2);
    too_much(h, repeated("", "-", 65, "s"), GRAM_VALUE, GRAM_INVALID_ARGUMENT,
             "has \"-\" at character 65, expected no more signs");
    too_much(h, repeated("", "1", 65, "+s"), GRAM_VALUE, GRAM_INVALID_ARGUMENT,
             "expected a number of at most 64 digits");
    for (int i = 2; i < 180; i++) /* s, and with each a number, a product and a sum */
        used += (size_t)snprintf(text + used, sizeof text - used, "s*%d+", i);
    snprintf(text + used, sizeof text - used, "s");
    too_much(h, repeated(text, "", 0, ""), GRAM_VALUE, GRAM_INVALID_ARGUMENT,
             "has more than 512 different operations up to character 919, but no more are "
             "supported");
    /* Values that wait for the sum of all of them. */
    used = 0;
    for (int i = 0; i < 70; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "a%d = sin(s*%d); ", i, i + 2);
    used += (size_t)snprintf(text + used, sizeof text - used, "t = 0");
    for (int i = 0; i < 70; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "+a%d", i);
    used += (size_t)snprintf(text + used, sizeof text - used, "; 0");
    for (int i = 0; i < 70; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "+t*a%d", i);
    too_much(h, repeated(text, "", 0, ""), GRAM_VALUE, GRAM_UNSUPPORTED,
             "options.expression needs more than 64 intermediate values at once");
    used = 0; /* every pow(x, s) has five operations in its derivative */
    for (int i = 2; i < 10; i++) {
        for (int k = 0; k < 60; k++)
            used += (size_t)snprintf(text + used, sizeof text - used, "pow(");
        used += (size_t)snprintf(text + used, sizeof text - used, "%d*s", i);
        for (int k = 0; k < 60; k++)
            used += (size_t)snprintf(text + used, sizeof text - used, ",s)");
        used += (size_t)snprintf(text + used, sizeof text - used, i < 9 ? "+" : "");
    }
    too_much(h, repeated(text, "", 0, ""), GRAM_WEIGHT, GRAM_UNSUPPORTED,
             "the derivative of options.expression needs more than 2048 operations");
}

static void names(struct harness *h)
{
    static const struct {
        const char *name[2], *message;
    } bad[] = {
        {                              {"1a", "b"},
         "options.parameters[0].name is \"1a\", expected 1 to 31 letters, digits and _, and no "
         "digit at the start"                                                                                          },
        {                                {"a", ""},
         "options.parameters[1].name is \"\", expected 1 to 31 letters, digits and _, and no "
         "digit at the start"                                                                                          },
        {                             {"a b", "b"}, "expected 1 to 31 letters, digits and _, and no digit at the start"},
        {{"abcdefghijklmnopqrstuvwxyz_12345", "b"},
         "expected 1 to 31 letters, digits and _, and no digit at the start"                                           },
        {                               {"s", "b"},
         "options.parameters[0].name is \"s\", expected a name that expressions do not define"                         },
        {                             {"a", "pow"},
         "options.parameters[1].name is \"pow\", expected a name that expressions do not define"                       },
        {                               {"a", "a"},
         "options.parameters[1].name is \"a\", expected a name that differs from that of "
         "options.parameters[0]"                                                                                       },
        {                             {"p1", NULL},
         "options.parameters[1].name is \"p1\", expected a name that differs from that of "
         "options.parameters[0]"                                                                                       },
        {                         {"length", NULL},
         "has \"lenght\" at character 1, expected s, dot, d1, d2, norm_x, norm_y or a parameter: length p1"            },
    };

    for (int i = 0; i < LENGTH(bad); i++) {
        const gram_parameter p[2] = {
            {bad[i].name[0], gram_number(1)},
            {bad[i].name[1], gram_number(1)}
        };
        gram_kernel_options o = options_of("lenght + s");
        o.parameters = p, o.parameter_count = 2;
        refuses(h, &o, GRAM_INVALID_ARGUMENT, bad[i].message);
    }
}

static void options(struct harness *h)
{
    const gram_parameter infinite = {"a", gram_number(1 / 0.0)};
    gram_kernel_options o = options_of(NULL);

    refuses(h, &o, GRAM_INVALID_ARGUMENT,
            "options.expression is NULL, expected text with GRAM_EXPRESSION");
    o = options_of("s");
    o.function = GRAM_LAPLACE;
    refuses(h, &o, GRAM_INVALID_ARGUMENT,
            "options.function is 1, expected GRAM_EXPRESSION, because an expression or parameters "
            "are given");
    o = options_of("s");
    o.parameter_count = 9;
    refuses(h, &o, GRAM_INVALID_ARGUMENT, "options.parameter_count is 9, expected 0 to 8");
    o.parameter_count = -1;
    refuses(h, &o, GRAM_INVALID_ARGUMENT, "options.parameter_count is -1, expected 0 to 8");
    o.parameter_count = 1;
    refuses(h, &o, GRAM_INVALID_ARGUMENT, "options.parameters is NULL, expected 1 parameters");
    o.parameters = &infinite;
    CHECK(h,
          evaluate(h, &o, &(double){0}) == GRAM_INVALID_ARGUMENT &&
              strstr(gram_message(h->g), "options.parameters[0].value is inf"),
          "%s", gram_message(h->g));
    o = options_of("s");
    o.output = GRAM_BANDWIDTH_DERIVATIVE;
    refuses(h, &o, GRAM_INVALID_ARGUMENT,
            "options.output is GRAM_BANDWIDTH_DERIVATIVE, which GRAM_EXPRESSION does not have");
    o = options_of("s");
    o.output = GRAM_PARAMETER_DERIVATIVE;
    refuses(h, &o, GRAM_INVALID_ARGUMENT,
            "options.derivative is 0, expected the index of one of the 0 parameters");
    o.function = GRAM_LAPLACE;
    o.expression = NULL;
    refuses(h, &o, GRAM_INVALID_ARGUMENT,
            "options.output is GRAM_PARAMETER_DERIVATIVE, which only GRAM_EXPRESSION has");
}

/* Numbers are C's, whatever the process's locale says of decimal points; the last test. */
static void commas(struct harness *h)
{
    for (int turn = 0; turn < 2; turn++) {
        gives(h, repeated("1.5 * s + 25e-2", "", 0, ""), 3.25);
        gives(h, repeated("fmin(1,s)", "", 0, ""), 1);
        if (turn == 0 && !comma_locale())
            break;
    }
    setlocale(LC_ALL, "C");
}

static const struct test_function tests[] = {
    {"messages", messages},
    {  "limits",   limits},
    {   "names",    names},
    { "options",  options},
    {  "commas",   commas},
};

int main(void)
{
    return harness_run_tests(tests, LENGTH(tests));
}

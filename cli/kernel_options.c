/*
 * kernel_options.c - the options that describe a kernel, for `gram kernel` and `gram krr`
 *
 * SPDX-License-Identifier: MIT
 */
#include "kernel_options.h"
#include "number.h"
#include <math.h>
#include <string.h>

/* The options that a formula has. */
enum {
    USES_P = 1 << 0,
    USES_EXPONENT = 1 << 1,
    USES_BANDWIDTH = 1 << 2,
    USES_ALPHA = 1 << 3,
    USES_GAMMA = 1 << 4,
    USES_COEF0 = 1 << 5,
    USES_DEGREE = 1 << 6
};

/* A power that is a letter of the formula, and not a number. */
enum {
    FROM_P = -1,    /* --p */
    FROM_Q = -2,    /* --exponent */
    ONE_OVER_P = -3 /* 1 / p */
};

/* The meaning of every name of --kernel, in the same order. */
static const struct kernel_row {
    gram_inner inner;
    double p, outer_power;
    gram_function function;
    int uses;
} kernels[] = {
    {GRAM_DIFFERENCE, FROM_P, ONE_OVER_P,            GRAM_LAPLACE,USES_P | USES_BANDWIDTH                                                                  },
    {GRAM_DIFFERENCE, FROM_P, ONE_OVER_P,  GRAM_EXPONENTIAL_POWER,
     USES_P | USES_EXPONENT | USES_BANDWIDTH                                                            },
    {GRAM_DIFFERENCE, FROM_Q, ONE_OVER_P,  GRAM_EXPONENTIAL_POWER,        USES_EXPONENT | USES_BANDWIDTH},
    {GRAM_DIFFERENCE,      2,          1,           GRAM_GAUSSIAN,                        USES_BANDWIDTH},
    {GRAM_DIFFERENCE, FROM_P, ONE_OVER_P,           GRAM_MATERN32,               USES_P | USES_BANDWIDTH},
    {GRAM_DIFFERENCE, FROM_P, ONE_OVER_P,           GRAM_MATERN52,               USES_P | USES_BANDWIDTH},
    {GRAM_DIFFERENCE,      2,          1, GRAM_RATIONAL_QUADRATIC,           USES_BANDWIDTH | USES_ALPHA},
    {       GRAM_DOT,      2,          1,           GRAM_IDENTITY,                                     0},
    {       GRAM_DOT,      2,          1,         GRAM_POLYNOMIAL, USES_GAMMA | USES_COEF0 | USES_DEGREE},
    {       GRAM_DOT,      2,          1,            GRAM_SIGMOID,               USES_GAMMA | USES_COEF0},
    {       GRAM_DOT,      2,          1,             GRAM_COSINE,                                     0},
};
/* The meanings of s, in the order of --of. */
static const struct kernel_row arguments[] = {
    {GRAM_DIFFERENCE, FROM_P, ONE_OVER_P, GRAM_EXPRESSION, USES_P},
    {GRAM_DIFFERENCE, FROM_P,          1, GRAM_EXPRESSION, USES_P},
    {       GRAM_DOT,      2,          1, GRAM_EXPRESSION,      0},
};
static const char kernel_names[] =
    "laplace|lpq-laplace|product-laplace|gaussian|matern32|matern52|"
    "rational-quadratic|linear|polynomial|sigmoid|cosine";

const struct option_row kernel_rows[] = {
    CHOICE("kernel", 'k', "NAME", offsetof(struct kernel_settings, kernel), NULL, kernel_names,
           "the kernel; see above (default: laplace, unless there is an expression)"),
    TEXT("expression", 'e', "F", offsetof(struct kernel_settings, expression), NULL,
         "a kernel of your own, which is an expression of s; see above"),
    TEXTS("param", 0, "NAME=NUMBER", offsetof(struct kernel_settings, parameters),
          "a number that the expression calls NAME; up to eight may be given"),
    CHOICE("of", 0, "S", offsetof(struct kernel_settings, of), "distance", "distance|sum|product",
           "the meaning of s in the expression: d, d^p or x.y"),
    CHOICE("metric", 'm', "NAME", offsetof(struct kernel_settings, metric.metric), "minkowski",
           METRIC_NAMES, "the distance d, in the place of that of the p-norm: see gram cdist"),
    METRIC_WEIGHTS(offsetof(struct kernel_settings, metric.weights)),
    NUMBER("bandwidth", 'L', "L", offsetof(struct kernel_settings, bandwidth), NULL, 1e-300,
           INFINITY,
           "the length L (default: the median distance between rows of X, or of a sample of them)"),
    NUMBER("p", 'p', "P", offsetof(struct kernel_settings, p), NULL, 1e-300, 1e300,
           "the norm, p > 0, for kernels that have one (default: 2)"),
    NUMBER("exponent", 'q', "Q", offsetof(struct kernel_settings, exponent), NULL, 1e-300, 1e300,
           "the exponent q > 0 of lpq-laplace and product-laplace (default: 1)"),
    NUMBER("alpha", 0, "A", offsetof(struct kernel_settings, alpha), NULL, 1e-300, 1e300,
           "the alpha > 0 of rational-quadratic (default: 1)"),
    NUMBER("gamma", 0, "G", offsetof(struct kernel_settings, gamma), NULL, 0, 0,
           "the factor G of the product in polynomial and sigmoid (default: 1)"),
    NUMBER("coef0", 0, "C", offsetof(struct kernel_settings, coef0), NULL, 0, 0,
           "the number C that is added to the product in polynomial and sigmoid (default: 0)"),
    NUMBER("degree", 0, "D", offsetof(struct kernel_settings, degree), NULL, 0, 0,
           "the power D of polynomial (default: 3)"),
    INTEGER("seed", 0, "N", offsetof(struct kernel_settings, seed), "0", 0, 0x1p53,
            "the seed of the sample from which the median is computed"),
    OPTION_END,
};

/* Reads --param NAME=NUMBER. */
static enum exit_status read_parameters(const struct option_texts *texts,
                                        struct kernel_parameters *out, struct failure *why)
{
    for (out->count = 0; out->count < texts->count; out->count++) {
        const char *text = texts->text[out->count], *mark = strchr(text, '=');
        char *name = out->names[out->count];
        size_t length = mark ? (size_t)(mark - text) : 0;
        double value;

        if (!mark || length >= sizeof *out->names || !number_parse_all(mark + 1, &value))
            return fail(why, CLI_USAGE, "--param is \"%s\", expected a name, = and a number", text);
        memcpy(name, text, length);
        name[length] = '\0';
        out->at[out->count] = (gram_parameter){name, gram_number(value)};
    }
    return CLI_OK;
}

static const struct kernel_row *row_of(const struct kernel_settings *s)
{
    return s->expression ? &arguments[s->of] : &kernels[s->kernel < 0 ? 0 : s->kernel];
}

/* Refuses an option that the kernel's formula does not have, because it would have no effect. */
static enum exit_status check_used(const struct kernel_settings *s, struct failure *why)
{
    const struct {
        int use;
        const char *name;
        double given; /* NaN: not given */
    } options[] = {
        {        USES_P,         "p",         s->p},
        { USES_EXPONENT,  "exponent",  s->exponent},
        {USES_BANDWIDTH, "bandwidth", s->bandwidth},
        {    USES_ALPHA,     "alpha",     s->alpha},
        {    USES_GAMMA,     "gamma",     s->gamma},
        {    USES_COEF0,     "coef0",     s->coef0},
        {   USES_DEGREE,    "degree",    s->degree},
    };
    const char *name = kernel_names;
    const int uses = row_of(s)->uses;

    for (int k = 0; k < s->kernel; k++)
        name += strcspn(name, "|") + 1;
    for (int i = 0; i < LENGTH(options); i++)
        if (!isnan(options[i].given) && !(uses & options[i].use))
            return fail(why, CLI_USAGE, "--%s means nothing for %s %.*s%s", options[i].name,
                        s->expression ? "this" : "the kernel",
                        s->expression ? 10 : (int)strcspn(name, "|"),
                        s->expression ? "expression" : name,
                        options[i].use != USES_GAMMA ? ""
                        : uses & USES_BANDWIDTH      ? ", whose length is --bandwidth"
                                                     : "");
    return CLI_OK;
}

/* A metric takes the place of a distance, which some formulas do not have; weights are for all that
 * is a sum over the coordinates. */
static enum exit_status check_metric(const struct kernel_settings *s, int dtype,
                                     struct failure *why)
{
    const struct kernel_row *row = row_of(s);
    const int other = metric_kinds[s->metric.metric] != GRAM_DISTANCE_MINKOWSKI;
    const char *name = other ? "metric" : "weights";

    if (!other && !s->metric.weights)
        return CLI_OK;
    if (row->inner == GRAM_DOT ||
        (other && (row->p == FROM_Q || (s->expression && row->outer_power == 1))))
        return fail(why, CLI_USAGE, "--%s means nothing for what is not a function of d", name);
    if (other && !isnan(s->p))
        return fail(why, CLI_USAGE, "--p and --metric are given, expected only one of them");
    if ((row->uses & USES_BANDWIDTH) && isnan(s->bandwidth))
        return fail(why, CLI_USAGE, "--%s is given without --bandwidth, which has no default then",
                    name);
    return metric_check(&s->metric, dtype, why);
}

enum exit_status kernel_check(const struct kernel_settings *s, int dtype, struct failure *why)
{
    struct kernel_parameters parameters;

    if (s->expression && s->kernel >= 0)
        return fail(why, CLI_USAGE,
                    "--kernel and --expression are given, expected only one of them");
    if (!s->expression && s->parameters.count)
        return fail(why, CLI_USAGE, "--param is given without --expression, which it needs");
    TRY(check_used(s, why));
    TRY(check_metric(s, dtype, why));
    return read_parameters(&s->parameters, &parameters, why);
}

static double or_default(double given, double otherwise)
{
    return isnan(given) ? otherwise : given;
}

static gram_kernel_options kernel_options(const struct kernel_settings *s,
                                          const struct kernel_parameters *parameters)
{
    const struct kernel_row *row = row_of(s);
    gram_kernel_options o = GRAM_KERNEL_OPTIONS_INIT;
    double exponent = or_default(s->exponent, 1);
    double p = row->p == FROM_P ? or_default(s->p, 2) : row->p == FROM_Q ? exponent : row->p;

    o.inner = row->inner;
    o.p = gram_number(p);
    o.outer_power = gram_number(row->outer_power == ONE_OVER_P ? 1 / p : row->outer_power);
    o.function = row->function;
    o.bandwidth = gram_number(s->bandwidth);
    o.exponent = gram_number(exponent);
    o.alpha = gram_number(or_default(s->alpha, 1));
    o.gamma = gram_number(or_default(s->gamma, 1));
    o.coef0 = gram_number(or_default(s->coef0, 0));
    o.degree = gram_number(or_default(s->degree, 3));
    o.expression = s->expression;
    if (s->expression)
        o.parameters = parameters->at, o.parameter_count = parameters->count;
    return o;
}

/* Computes L for every item of x's batch, as a tensor in `median`, to which the options then
 * refer. */
static enum exit_status median_bandwidth(gram_context *g, const struct kernel_settings *s,
                                         const gram_tensor *x, gram_kernel_options *options,
                                         struct device_matrix *median, struct failure *why)
{
    gram_median_options how = GRAM_MEDIAN_OPTIONS_INIT;
    gram_status status;

    how.seed = (uint64_t)s->seed;
    TRY(device_matrix_allocate(g, x->dtype == GRAM_F64 ? GRAM_F64 : GRAM_F32, x->ndim - 2, x->shape,
                               median, why));
    status = gram_median_distance(g, x, options->p, &how, &median->t);
    options->bandwidth = gram_values(&median->t);
    return status == GRAM_OK ? CLI_OK : fail_gram(why, status, g);
}

/* s is a distance, or its p-th power where it is a sum: the square where the kernel is Gaussian or
 * rational quadratic. */
static void set_metric(const struct kernel_settings *s, const struct metric_weights *weights,
                       gram_distance *metric, gram_kernel_options *o)
{
    if (!metric_describe(&s->metric, o->p.value, weights, metric))
        return;
    o->metric = metric;
    o->outer_power = row_of(s)->outer_power == ONE_OVER_P ? gram_number(1) : o->p;
}

enum exit_status kernel_take(gram_context *g, const struct kernel_settings *s,
                             const struct input_settings *input, const gram_tensor *x,
                             struct kernel_taken *out, struct failure *why)
{
    gram_kernel_options *options = &out->options;

    TRY(read_parameters(&s->parameters, &out->parameters, why));
    *options = kernel_options(s, &out->parameters);
    TRY(metric_weights_load(g, &s->metric, input, x, &out->weights, why));
    set_metric(s, &out->weights, &out->metric, options);
    if ((row_of(s)->uses & USES_BANDWIDTH) && isnan(s->bandwidth))
        TRY(median_bandwidth(g, s, x, options, &out->median, why));
    if (isnan(options->bandwidth.value))
        options->bandwidth = gram_number(1); /* not used by this kernel */
    return CLI_OK;
}

void kernel_taken_free(gram_context *g, struct kernel_taken *k)
{
    device_matrix_free(g, &k->median);
    metric_weights_free(g, &k->weights);
}

/*
 * cmd_power.c - `gram power`: powers of symmetric matrices
 *
 * The result takes the place of the matrix that was read.
 *
 * SPDX-License-Identifier: MIT
 */
#include "device.h"
#include "number.h"
#include <math.h>

struct settings {
    struct common_settings common;
    struct input_settings input;
    struct output_settings output;
    const char *power;
    int method, precision, uplo, dtype;
    double ridge, relative_ridge, condition, tolerance, floor;
};

static const struct option_row rows[] = {
    TEXT("power", 'p', "K/Q", offsetof(struct settings, power), "-1/4",
         "the power: a fraction of whole numbers, or any number, for example -1/4, 1/2, -1, 3 or "
         "-0.123"),
    CHOICE("method", 'm', "NAME", offsetof(struct settings, method), "auto",
           "auto|eigh|coupled-newton|newton-schulz|minimax",
           "eigh: eigenvalues, in double; the others are iterations, in the type of the matrix"),
    CHOICE("precision", 0, "TYPE", offsetof(struct settings, precision), "auto",
           "auto|f64|f32|tf32x3|tf32",
           "the arithmetic of the products of an iteration on a GPU; on the CPU the last three "
           "are the same, and f64 matrices allow only auto and f64"),
    NUMBER("ridge", 0, "R", offsetof(struct settings, ridge), NULL, 0, 1e300,
           "add R to the diagonal first"),
    NUMBER("relative-ridge", 0, "R", offsetof(struct settings, relative_ridge), NULL, 0, 1e300,
           "add R times the largest eigenvalue to the diagonal first"),
    NUMBER("condition", 0, "C", offsetof(struct settings, condition), NULL, 1, 1e300,
           "minimax: a bound for the condition number, if no ridge gives one"),
    NUMBER("tolerance", 0, "E", offsetof(struct settings, tolerance), NULL, 0, 1e300,
           "fail if the estimate of the largest error of X^Q A^K - I is above E"),
    NUMBER("floor", 0, "F", offsetof(struct settings, floor), NULL, 0, 1,
           "raise eigenvalues below F times the largest one, including negative ones, to that "
           "value"),
    UPLO(offsetof(struct settings, uplo),
         "the triangle of A that is read; the other one may hold anything"),
    DTYPE(offsetof(struct settings, dtype),
          "auto: f32 if A is a float32 or float16 array, else f64"),
    OPTION_END,
};

static const struct option_group groups[] = {
    GROUP("Power", rows, 0),
    GROUP("Input", input_options, offsetof(struct settings, input)),
    GROUP("Output", output_options, offsetof(struct settings, output)),
    GROUP("Device", device_options, offsetof(struct settings, common)),
    GROUP("Other options", threads_options, offsetof(struct settings, common)),
    GROUP("", common_options, offsetof(struct settings, common)),
    GROUP_END,
};

/* Reads "-1/4", "2" or "0.123".  The library checks whether the power is possible. */
static enum exit_status parse_power(const char *text, gram_matrix_power_options *options,
                                    struct failure *why)
{
    double numerator = 0, denominator = 1;
    const char *end = number_parse(text, &numerator);

    if (end && !*end && numerator != rint(numerator)) {
        options->power = numerator;
        return CLI_OK;
    }
    if (end && *end == '/')
        end = number_parse(end + 1, &denominator);
    if (!end || *end || numerator != rint(numerator) || denominator != rint(denominator) ||
        fabs(numerator) > 1000 || fabs(denominator) > 1000)
        return fail(why, CLI_USAGE,
                    "--power is \"%s\", expected a fraction K or K/Q of whole numbers, such as "
                    "-1/4, or a number",
                    text);
    options->numerator = (int)numerator;
    options->denominator = (int)denominator;
    return CLI_OK;
}

static enum exit_status take_options(const struct settings *s, gram_matrix_power_options *o,
                                     struct failure *why)
{
    int relative = !isnan(s->relative_ridge);

    if (relative && !isnan(s->ridge))
        return fail(why, CLI_USAGE,
                    "--ridge and --relative-ridge are given, expected only one of them");
    TRY(parse_power(s->power, o, why));
    o->method = (gram_power_method)s->method;
    o->precision = (gram_power_precision)s->precision;
    o->uplo = s->uplo ? GRAM_UPPER : GRAM_LOWER;
    o->ridge = gram_number(relative ? s->relative_ridge : isnan(s->ridge) ? 0 : s->ridge);
    o->ridge_relative = relative;
    o->condition = isnan(s->condition) ? 0 : s->condition;
    o->tolerance = isnan(s->tolerance) ? 0 : s->tolerance;
    o->floor = isnan(s->floor) ? 0 : s->floor;
    return CLI_OK;
}

static enum exit_status load(const struct settings *s, const char *path, struct matrix *a,
                             struct failure *why)
{
    TRY(matrix_load(path, &s->input, (enum dtype_choice)s->dtype, a, why));
    TRY(matrix_check_square(a, path, why));
    return a->t.dtype == GRAM_F16 ? matrix_convert(a, GRAM_F32, why) : CLI_OK;
}

/* Reports the first item of the batch that has no result. */
static enum exit_status check_info(const struct matrix *info, const struct settings *s,
                                   struct failure *why)
{
    const int32_t *code = info->t.data;
    int64_t items = matrix_count(info);

    for (int64_t i = 0; i < items; i++) {
        char name[MATRIX_NAME_BYTES];
        const char *item = matrix_name(name, i, items);
        switch (code[i]) {
        case GRAM_POWER_DONE:
            continue;
        case GRAM_POWER_NOT_FINITE:
            return fail(why, CLI_BAD_DATA, "%s holds NaN or infinity", item);
        case GRAM_POWER_NOT_DEFINITE:
            return fail(why, CLI_FAILURE, "%s is not positive definite enough for power %s", item,
                        s->power);
        case GRAM_POWER_INEXACT:
            return fail(why, CLI_FAILURE, "%s has an error estimate above %g", item, s->tolerance);
        default:
            return fail(why, CLI_FAILURE, "%s: the iteration did not converge", item);
        }
    }
    return CLI_OK;
}

static enum exit_status call(gram_context *g, const struct settings *s, struct matrix *a,
                             struct device_matrix there[2], struct failure *why)
{
    gram_matrix_power_options options = GRAM_MATRIX_POWER_OPTIONS_INIT;
    struct matrix info = {.memory = NULL};
    enum exit_status status;
    gram_status done;

    TRY(take_options(s, &options, why));
    TRY(device_matrix_send(g, a, &there[0], why));
    TRY(device_matrix_allocate(g, GRAM_I32, a->t.ndim - 2, a->t.shape, &there[1], why));
    done = gram_matrix_power(g, &there[0].t, &options, &there[0].t, &there[1].t);
    if (done != GRAM_OK)
        return fail_gram(why, done, g);
    TRY(device_matrix_fetch(g, &there[0], a, why));
    TRY(matrix_allocate(&info, GRAM_I32, a->t.ndim - 2, a->t.shape, why));
    status = device_matrix_fetch(g, &there[1], &info, why);
    if (status == CLI_OK)
        status = check_info(&info, s, why);
    matrix_free(&info);
    return status;
}

static enum exit_status compute(const struct settings *s, struct matrix *a, struct failure *why)
{
    struct device_matrix there[2] = {{.memory = NULL}, {.memory = NULL}};
    enum exit_status status;
    gram_context *g;

    TRY(open_context(&s->common, &g, why));
    status = call(g, s, a, there, why);
    device_matrix_free(g, &there[0]);
    device_matrix_free(g, &there[1]);
    gram_context_destroy(g);
    return status;
}

static enum exit_status run(const void *settings, int count, char **operands, struct failure *why)
{
    const struct settings *s = settings;
    struct matrix a = {.memory = NULL};
    enum exit_status status = load(s, operands[0], &a, why);

    (void)count;
    if (status == CLI_OK)
        status = compute(s, &a, why);
    if (status == CLI_OK)
        status = matrix_save(&a, &s->output, why);
    matrix_free(&a);
    return status;
}

const struct command cmd_power = {
    .name = "power",
    .operands = "A",
    .summary = "compute powers of symmetric matrices, such as A^(-1/4)",
    .details =
        "Computes X = (A + R I)^(K/Q) for a symmetric positive semidefinite matrix A, and writes "
        "it. A is a numeric table in text or an .npy array; an array with more than two "
        "dimensions is a batch of matrices.\n\n"
        "The exit status is 1, and nothing is written, if the power of a matrix does not exist "
        "(for example, an inverse root of a singular matrix without a ridge), if an iteration "
        "does not converge, or if the error is above --tolerance.",
    .examples = "  gram power factor.npy --power -1/4 --relative-ridge 1e-6 -o root.npy",
    .least = 1,
    .most = 1,
    .settings_bytes = sizeof(struct settings),
    .groups = groups,
    .reads = 1,
    .run = run,
};

/*
 * fuzz_expression.c - any text as an expression: refused with a message, or a value and a
 * derivative
 *
 * SPDX-License-Identifier: MIT
 */
#include "gram/gram.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

/* The kernel of four numbers with 0, f32 or f64. */
static void evaluate(gram_context *g, const gram_kernel_options *options, gram_dtype dtype)
{
    const double s[] = {0, 0.75, 300, NAN};
    const float s_f32[] = {0, 0.75F, 300, NAN};
    double zero = 0, out[4] = {7, 7, 7, 7};
    gram_tensor x = gram_matrix(dtype == GRAM_F32 ? (void *)s_f32 : (void *)s, 4, 1, dtype),
                y = gram_matrix(&zero, 1, 1, dtype), to = gram_matrix(out, 4, 1, dtype);
    gram_status status = gram_kernel(g, &x, &y, options, &to);
    const float *out_f32 = (const float *)(void *)out;

    if (status == GRAM_OK) {
        require(dtype == GRAM_F32 ? isnan(out_f32[3]) : isnan(out[3]));
        return;
    }
    require(status == GRAM_INVALID_ARGUMENT || status == GRAM_UNSUPPORTED);
    require(strstr(gram_message(g), "options.expression") != NULL && out[0] == 7);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gram_context_options how = GRAM_CONTEXT_OPTIONS_INIT;
    gram_kernel_options options = GRAM_KERNEL_OPTIONS_INIT;
    const gram_parameter parameters[] = {
        { "a",    {2, NULL}},
        { "b", {-0.5, NULL}},
        {NULL,    {3, NULL}}
    };
    char *text = malloc(size + 1); /* exact, so that a sanitizer sees one byte too many */
    gram_context *g;

    how.threads = 1;
    require(text != NULL && gram_context_create(&how, &g) == GRAM_OK);
    memcpy(text, data, size);
    text[size] = '\0';
    options.p = gram_number(1);
    options.function = GRAM_EXPRESSION;
    options.expression = text;
    options.parameters = parameters, options.parameter_count = 3;
    for (int output = GRAM_VALUE; output <= GRAM_WEIGHT; output++) {
        options.output = (gram_kernel_output)output;
        evaluate(g, &options, GRAM_F32);
        evaluate(g, &options, GRAM_F64);
    }
    gram_context_destroy(g);
    free(text);
    return 0;
}

/*
 * tune_matrix.c - matrices of numbers for measurements, where the context computes, and their sizes
 *
 * SPDX-License-Identifier: MIT
 */
#include "tune_matrix.h"
#include "number.h"
#include <math.h>
#include <stdlib.h>

const char *tune_parse_size(const char *text, int64_t *out)
{
    double value = 0;
    const char *end = number_parse(text, &value);

    if (!end || !(value >= 1 && value <= 0x1p31) || value != floor(value))
        return NULL;
    *out = (int64_t)value;
    return end;
}

enum exit_status tune_size(const char *operand, int64_t *out, struct failure *why)
{
    const char *end = tune_parse_size(operand, out);

    if (!end || *end)
        return fail(why, CLI_USAGE, "size \"%.100s\" is not a number from 1 to 2^31", operand);
    return CLI_OK;
}

/* Numbers of which no two are alike, from 0 to 1. */
static void fill(void *to, int64_t count, gram_dtype dtype)
{
    uint64_t state = 1;

    for (int64_t i = 0; i < count; i++) {
        double value;
        state = state * 6364136223846793005u + 1442695040888963407u;
        value = (double)(state >> 11) / 9007199254740992.0;
        if (dtype == GRAM_F64)
            ((double *)to)[i] = value;
        else
            ((float *)to)[i] = (float)value;
    }
}

enum exit_status tune_matrix(gram_context *g, gram_dtype dtype, int64_t rows, int64_t cols,
                             struct device_matrix *out, struct failure *why)
{
    const int64_t shape[] = {rows, cols};
    gram_status status = GRAM_OK;
    void *host;

    TRY(device_matrix_allocate(g, dtype, 2, shape, out, why));
    host = malloc(out->bytes ? out->bytes : 1);
    if (!host)
        return fail_memory(why, "the rows");
    fill(host, rows * cols, dtype);
    status = gram_memory_copy(g, out->memory, host, out->bytes);
    if (status == GRAM_OK)
        status = gram_context_synchronize(g);
    free(host);
    return status == GRAM_OK ? CLI_OK : fail_gram(why, status, g);
}

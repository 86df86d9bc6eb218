/*
 * tune_kron.c - `gram tune kron`: which groups of Kronecker factors are fastest on a GPU
 *
 * SPDX-License-Identifier: MIT
 */
#include "tune_kron.h"
#include "json.h"
#include "number.h"
#include "tune_matrix.h"
#include <math.h>

/* Reads a whole number from 1 to 2^31; where it ends, or NULL. */
static const char *parse_size(const char *text, int64_t *out)
{
    double value = 0;
    const char *end = number_parse(text, &value);

    if (!end || !(value >= 1 && value <= 0x1p31) || value != floor(value))
        return NULL;
    *out = (int64_t)value;
    return end;
}

enum exit_status tune_kron_parse(int count, char **operands, struct tune_kron *t,
                                 struct failure *why)
{
    const char *end = parse_size(operands[0], &t->m);

    if (!end || *end)
        return fail(why, CLI_USAGE, "size \"%.100s\" is no number from 1 to 2^31", operands[0]);
    t->count = count - 1;
    if (t->count < 1 || t->count > GRAM_MAX_FACTORS)
        return fail(why, CLI_USAGE, "%d factors, expected 1 to %d", t->count, GRAM_MAX_FACTORS);
    for (int i = 0; i < t->count; i++) {
        end = parse_size(operands[i + 1], &t->rows[i]);
        t->cols[i] = t->rows[i];
        if (end && *end == 'x')
            end = parse_size(end + 1, &t->cols[i]);
        if (!end || *end)
            return fail(why, CLI_USAGE, "size \"%.100s\" is neither P nor PxQ", operands[i + 1]);
    }
    return CLI_OK;
}

static enum exit_status print(const gram_kron_tuning *t, int json, struct failure *why)
{
    struct output out;
    struct json j;

    TRY(output_open(&out, "-", why));
    j = json_to(&out);
    if (json) {
        json_object(&j, NULL);
        json_integer(&j, "candidates", t->candidates);
        json_integer(&j, "launches", t->launches);
        json_number(&j, "ms", t->ms);
        json_integer(&j, "table_launches", t->table_launches);
        json_number(&j, "table_ms", t->table_ms);
        json_bool(&j, "kept", t->kept);
        json_end(&j);
        return output_close(&out, why);
    }
    output_format(&out, "%d launches: %.4f ms a call, the fastest of %d\n", t->launches, t->ms,
                  t->candidates);
    output_format(&out, "%d launches: %.4f ms a call, the library's own choice\n",
                  t->table_launches, t->table_ms);
    if (!t->kept)
        output_text(&out, "It is not kept: gram cache info says why.\n");
    return output_close(&out, why);
}

/* The product of the sizes, -1 where it is beyond any memory. */
static int64_t product(const int64_t *size, int count)
{
    int64_t all = 1;

    for (int i = 0; i < count; i++)
        if (__builtin_mul_overflow(all, size[i], &all) || all > INT64_MAX / 16)
            return -1;
    return all;
}

enum exit_status tune_kron(gram_context *g, const struct tune_kron *t, struct failure *why)
{
    struct device_matrix x = {0}, y = {0}, factors[GRAM_MAX_FACTORS] = {{.memory = NULL}};
    const gram_tensor *pointers[GRAM_MAX_FACTORS];
    gram_kron_tuning result = {.size = sizeof result};
    int64_t in = product(t->rows, t->count), out = product(t->cols, t->count);
    enum exit_status status;

    if (in < 0 || out < 0 || in > INT64_MAX / 16 / t->m || out > INT64_MAX / 16 / t->m)
        return fail_memory(why, "x and y");
    status = tune_matrix(g, t->dtype, t->m, in, &x, why);
    for (int i = 0; i < t->count && status == CLI_OK; i++) {
        status = tune_matrix(g, t->dtype, t->rows[i], t->cols[i], &factors[i], why);
        pointers[i] = &factors[i].t;
    }
    if (status == CLI_OK)
        status = device_matrix_allocate(g, t->dtype, 2, (int64_t[]){t->m, out}, &y, why);
    if (status == CLI_OK) {
        gram_status done = gram_tune_kron(g, &x.t, pointers, t->count, NULL, &y.t, &result);
        if (done != GRAM_OK)
            status = fail_gram(why, done, g);
    }
    device_matrix_free(g, &x);
    device_matrix_free(g, &y);
    for (int i = 0; i < t->count; i++)
        device_matrix_free(g, &factors[i]);
    return status == CLI_OK ? print(&result, t->json, why) : status;
}

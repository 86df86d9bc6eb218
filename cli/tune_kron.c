/*
 * tune_kron.c - `gram tune kron`: finds the fastest groups of Kronecker factors on this machine
 *
 * SPDX-License-Identifier: MIT
 */
#include "tune_kron.h"
#include "kron_op.h"
#include "tune_matrix.h"
#include "tune_report.h"

enum exit_status tune_kron_parse(int count, char **operands, const char *op, struct tune_kron *t,
                                 struct failure *why)
{
    TRY(tune_size(operands[0], &t->m, why));
    t->count = count - 1;
    if (t->count < 1 || t->count > GRAM_MAX_FACTORS)
        return fail(why, CLI_USAGE, "there are %d factors, expected 1 to %d", t->count,
                    GRAM_MAX_FACTORS);
    for (int i = 0; i < t->count; i++) {
        const char *end = tune_parse_size(operands[i + 1], &t->rows[i]);
        t->cols[i] = t->rows[i];
        if (end && *end == 'x')
            end = tune_parse_size(end + 1, &t->cols[i]);
        if (!end || *end)
            return fail(why, CLI_USAGE, "size \"%.100s\" is not of the form P or PxQ",
                        operands[i + 1]);
    }
    return kron_op_parse(op, t->count, &t->transposed, why);
}

static enum exit_status print(const gram_kron_tuning *t, int json, struct failure *why)
{
    struct tune_report r;

    TRY(tune_report_open(&r, json, why));
    if (json) {
        json_integer(&r.j, "candidates", t->candidates);
        json_integer(&r.j, "launches", t->launches);
        json_number(&r.j, "ms", t->ms);
        json_integer(&r.j, "table_launches", t->table_launches);
        json_number(&r.j, "table_ms", t->table_ms);
        json_bool(&r.j, "kept", t->kept);
        return tune_report_close(&r, t->kept, why);
    }
    output_format(&r.out, "%d groups of factors: %.4f ms per call, the fastest of %d\n",
                  t->launches, t->ms, t->candidates);
    output_format(&r.out, "%d groups of factors: %.4f ms per call, the library's own choice\n",
                  t->table_launches, t->table_ms);
    return tune_report_close(&r, t->kept, why);
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
    gram_kron_options options = GRAM_KRON_OPTIONS_INIT;
    const int left = t->side == GRAM_LEFT;
    enum exit_status status;

    options.side = t->side;
    options.transpose_factors = t->transposed;
    if (left) { /* the factors' columns meet the rows of x */
        int64_t rows = in;
        in = out, out = rows;
    }
    if (in < 0 || out < 0 || in > INT64_MAX / 16 / t->m || out > INT64_MAX / 16 / t->m)
        return fail_memory(why, "x and y");
    status = tune_matrix(g, t->dtype, left ? in : t->m, left ? t->m : in, &x, why);
    for (int i = 0; i < t->count && status == CLI_OK; i++) {
        const int turned = (int)(t->transposed >> i & 1);
        status = tune_matrix(g, t->dtype, turned ? t->cols[i] : t->rows[i],
                             turned ? t->rows[i] : t->cols[i], &factors[i], why);
        pointers[i] = &factors[i].t;
    }
    if (status == CLI_OK)
        status = device_matrix_allocate(g, t->dtype, 2,
                                        (int64_t[]){left ? out : t->m, left ? t->m : out}, &y, why);
    if (status == CLI_OK) {
        gram_status done = gram_tune_kron(g, &x.t, pointers, t->count, &options, &y.t, &result);
        if (done != GRAM_OK)
            status = fail_gram(why, done, g);
    }
    device_matrix_free(g, &x);
    device_matrix_free(g, &y);
    for (int i = 0; i < t->count; i++)
        device_matrix_free(g, &factors[i]);
    return status == CLI_OK ? print(&result, t->json, why) : status;
}

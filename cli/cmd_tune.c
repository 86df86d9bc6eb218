/*
 * cmd_tune.c - `gram tune`: measures how a GPU computes one problem fastest, and remembers it
 *
 * SPDX-License-Identifier: MIT
 */
#include "device.h"
#include "json.h"
#include "number.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SIZES = 3
};

struct settings {
    struct common_settings common;
    double p;
    int dtype, symmetric, json;
};

static const struct option_row problem_rows[] = {
    NUMBER("p", 'p', "P", offsetof(struct settings, p), "2", 1e-300, INFINITY,
           "the norm: p > 0, inf is the largest difference"),
    CHOICE("dtype", 0, "TYPE", offsetof(struct settings, dtype), "f32", "f32|f64",
           "what the rows are made of"),
    FLAG("symmetric", 0, offsetof(struct settings, symmetric),
         "the rows of one matrix with each other; N is M"),
    OPTION_END,
};

static const struct option_row device_rows[] = {
    TEXT("device", 0, "DEVICE", offsetof(struct common_settings, device), "cuda",
         "the GPU: cuda or cuda:N"),
    OPTION_END,
};

static const struct option_group groups[] = {
    GROUP("Problem", problem_rows, 0),
    GROUP("Device", device_rows, offsetof(struct settings, common)),
    GROUP("Output", json_options, offsetof(struct settings, json)),
    GROUP("Other options", common_options, offsetof(struct settings, common)),
    GROUP_END,
};

static const char *const operations[] = {"cdist", "kernel", NULL};

static const char *operation(int i)
{
    return operations[i];
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

/* A matrix of the device with numbers in it. */
static enum exit_status make(gram_context *g, gram_dtype dtype, int64_t rows, int64_t cols,
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

static enum exit_status print(const gram_tuning *t, int json, struct failure *why)
{
    struct output out;
    struct json j;

    TRY(output_open(&out, "-", why));
    j = json_to(&out);
    if (json) {
        json_object(&j, NULL);
        json_integer(&j, "tile", t->tile);
        json_number(&j, "tile_ms", t->tile_ms);
        json_integer(&j, "table_tile", t->table_tile);
        json_number(&j, "table_ms", t->table_ms);
        json_integer(&j, "candidates", t->candidates);
        json_bool(&j, "kept", t->kept);
        json_end(&j);
    } else {
        output_format(&out, "tiles of %d x %d: %.4f ms a call, the fastest of %d\n", t->tile,
                      t->tile, t->tile_ms, t->candidates);
        output_format(&out, "tiles of %d x %d: %.4f ms a call, the table's choice\n", t->table_tile,
                      t->table_tile, t->table_ms);
        if (!t->kept)
            output_text(&out, "It is not kept: gram cache info says why.\n");
    }
    return output_close(&out, why);
}

static enum exit_status tune(gram_context *g, const struct settings *s, int kernel,
                             const int64_t size[SIZES], struct failure *why)
{
    const gram_dtype dtype = s->dtype == 0 ? GRAM_F32 : GRAM_F64;
    gram_kernel_options options = GRAM_KERNEL_OPTIONS_INIT;
    gram_tuning result = {.size = sizeof result};
    struct device_matrix x = {0}, y = {0}, out = {0};
    enum exit_status status = make(g, dtype, size[0], size[2], &x, why);

    options.p = gram_number(s->p);
    options.outer_power = gram_number(s->p > 0 && isfinite(s->p) ? 1 / s->p : 1);
    options.function = kernel ? GRAM_LAPLACE : GRAM_IDENTITY;
    if (status == CLI_OK && !s->symmetric)
        status = make(g, dtype, size[1], size[2], &y, why);
    if (status == CLI_OK)
        status = device_matrix_allocate(g, dtype, 2, size, &out, why);
    if (status == CLI_OK) {
        gram_status done =
            gram_tune(g, &x.t, s->symmetric ? NULL : &y.t, &options, &out.t, &result);
        if (done != GRAM_OK)
            status = fail_gram(why, done, g);
    }
    device_matrix_free(g, &x);
    device_matrix_free(g, &y);
    device_matrix_free(g, &out);
    return status == CLI_OK ? print(&result, s->json, why) : status;
}

static enum exit_status run(const void *settings, int count, char **operands, struct failure *why)
{
    const struct settings *s = settings;
    const int kernel = strcmp(operands[0], "kernel") == 0;
    int64_t size[SIZES];
    enum exit_status status;
    gram_context *g;

    (void)count;
    if (!kernel && strcmp(operands[0], "cdist") != 0)
        return fail(why, CLI_USAGE, "\"%.100s\" is neither cdist nor kernel", operands[0]);
    for (int i = 0; i < SIZES; i++) {
        double value = 0;
        const char *end = number_parse(operands[i + 1], &value);
        if (!end || *end || !(value >= 1 && value <= 0x1p31) || value != floor(value))
            return fail(why, CLI_USAGE, "size \"%.100s\" is no number from 1 to 2^31",
                        operands[i + 1]);
        size[i] = (int64_t)value;
    }
    if (s->symmetric && size[0] != size[1])
        return fail(why, CLI_USAGE, "--symmetric with %lld and %lld rows", (long long)size[0],
                    (long long)size[1]);
    TRY(open_context(&s->common, &g, why));
    status = tune(g, s, kernel, size, why);
    gram_context_destroy(g);
    return status;
}

const struct command cmd_tune = {
    .name = "tune",
    .operands = "cdist|kernel M N K",
    .summary = "measure how a GPU computes one problem fastest",
    .details =
        "Computes the distances, or a Laplace kernel, of M and N rows of K numbers on the GPU in "
        "every way that the library has, and keeps the fastest beside the compiled kernels (see "
        "gram cache). From then on all calls and processes take it for such problems: the same "
        "type, p (for most p its whole part) and layout, and sizes that are the same to the next "
        "power of two. gram cache clear forgets it.",
    .examples =
        "  gram tune cdist 30000 30000 1024 --p 1.3\n"
        "  gram tune kernel 20000 20000 256 --p 1 --symmetric",
    .least = SIZES + 1,
    .most = SIZES + 1,
    .settings_bytes = sizeof(struct settings),
    .groups = groups,
    .operand = operation,
    .run = run,
};

/*
 * cmd_tune.c - `gram tune`: measures how a problem is computed fastest on this machine, and stores
 * the choice
 *
 * SPDX-License-Identifier: MIT
 */
#include "device.h"
#include "tune_eigh.h"
#include "tune_kron.h"
#include "tune_matrix.h"
#include "tune_report.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SIZES = 3
};

struct settings {
    struct common_settings common;
    double p;
    int64_t largest, smallest;
    int dtype, symmetric, no_vectors, matrix, side, json;
    const char *op;
};

static const struct option_row problem_rows[] = {
    NUMBER("p", 'p', "P", offsetof(struct settings, p), NULL, 1e-300, INFINITY,
           "the norm, p > 0; inf is the largest difference (default: 2)"),
    CHOICE("dtype", 0, "TYPE", offsetof(struct settings, dtype), "f32", "f32|f64",
           "the type of rows and matrices"),
    FLAG("symmetric", 0, offsetof(struct settings, symmetric),
         "use the rows of one matrix with each other; N is M"),
    OPTION_END,
};

static const struct option_row eigh_rows[] = {
    INTEGER("largest", 0, "K", offsetof(struct settings, largest), NULL, 0, 0x1p31,
            "the K largest pairs (default: all pairs)"),
    INTEGER("smallest", 0, "K", offsetof(struct settings, smallest), NULL, 0, 0x1p31,
            "the K smallest pairs"),
    FLAG("no-vectors", 0, offsetof(struct settings, no_vectors), "compute only values"),
    CHOICE("matrix", 0, "KIND", offsetof(struct settings, matrix), "random", "random|kernel",
           "kernel: a Gaussian kernel matrix, whose few large values krylov finds faster"),
    OPTION_END,
};

static const struct option_row kron_rows[] = {
    CHOICE("side", 's', "SIDE", offsetof(struct settings, side), "right", "right|left",
           "the side of the factors: right is X (F1 x F2 ...), left is (F1 x F2 ...) X"),
    TEXT("op", 0, "LETTERS", offsetof(struct settings, op), NULL,
         "T for a factor that is transposed, N for one that is not: one letter per factor, or one "
         "for all; the sizes are those after transposition"),
    OPTION_END,
};

static const struct option_row device_rows[] = {
    TEXT("device", 0, "DEVICE", offsetof(struct common_settings, device), "cuda",
         "the GPU, cuda or cuda:N; also cpu for eigh and kron"),
    OPTION_END,
};

static const struct option_group groups[] = {
    GROUP("Problem", problem_rows, 0),
    GROUP("Eigenproblems", eigh_rows, 0),
    GROUP("Kronecker products", kron_rows, 0),
    GROUP("Device", device_rows, offsetof(struct settings, common)),
    GROUP("Output", json_options, offsetof(struct settings, json)),
    GROUP("Other options", threads_options, offsetof(struct settings, common)),
    GROUP("", common_options, offsetof(struct settings, common)),
    GROUP_END,
};

static const char *const operations[] = {"cdist", "kernel", "eigh", "kron", NULL};

static const char *operation(int i)
{
    return operations[i];
}

static enum exit_status print(const gram_tuning *t, int json, struct failure *why)
{
    struct tune_report r;

    TRY(tune_report_open(&r, json, why));
    if (json) {
        json_integer(&r.j, "tile", t->tile);
        json_number(&r.j, "tile_ms", t->tile_ms);
        json_integer(&r.j, "table_tile", t->table_tile);
        json_number(&r.j, "table_ms", t->table_ms);
        json_integer(&r.j, "candidates", t->candidates);
        json_bool(&r.j, "kept", t->kept);
    } else {
        output_format(&r.out, "tiles of %d x %d: %.4f ms per call, the fastest of %d\n", t->tile,
                      t->tile, t->tile_ms, t->candidates);
        output_format(&r.out, "tiles of %d x %d: %.4f ms per call, the table's choice\n",
                      t->table_tile, t->table_tile, t->table_ms);
    }
    return tune_report_close(&r, t->kept, why);
}

static enum exit_status tune(gram_context *g, const struct settings *s, int kernel,
                             const int64_t size[SIZES], struct failure *why)
{
    const gram_dtype dtype = s->dtype == 0 ? GRAM_F32 : GRAM_F64;
    const double p = isnan(s->p) ? 2 : s->p;
    gram_kernel_options options = GRAM_KERNEL_OPTIONS_INIT;
    gram_tuning result = {.size = sizeof result};
    struct device_matrix x = {0}, y = {0}, out = {0};
    enum exit_status status = tune_matrix(g, dtype, size[0], size[2], &x, why);

    options.p = gram_number(p);
    options.outer_power = gram_number(p > 0 && isfinite(p) ? 1 / p : 1);
    options.function = kernel ? GRAM_LAPLACE : GRAM_IDENTITY;
    if (status == CLI_OK && !s->symmetric)
        status = tune_matrix(g, dtype, size[1], size[2], &y, why);
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

static enum exit_status parse_sizes(int count, char **operands, int64_t size[SIZES],
                                    struct failure *why)
{
    for (int i = 0; i < count; i++) {
        TRY(tune_size(operands[i], &size[i], why));
    }
    return CLI_OK;
}

static enum exit_status run_eigh(const struct settings *s, const int64_t size[SIZES],
                                 struct failure *why)
{
    const struct tune_eigh t = {
        .shape = {s->dtype == 0 ? GRAM_F32 : GRAM_F64, size[0], size[1], s->matrix},
        .largest = s->largest,
        .smallest = s->smallest,
        .no_vectors = s->no_vectors,
        .json = s->json,
    };
    enum exit_status status;
    gram_context *g;

    if (!isnan(s->p) || s->symmetric)
        return fail(why, CLI_USAGE, "--p and --symmetric apply only to cdist and kernel");
    if (t.largest >= 0 && t.smallest >= 0)
        return fail(why, CLI_USAGE,
                    "--largest and --smallest are given, expected only one of them");
    if (t.largest > size[1] || t.smallest > size[1])
        return fail(why, CLI_USAGE,
                    "--largest or --smallest is more than %lld, the order of the matrices",
                    (long long)size[1]);
    TRY(open_context(&s->common, &g, why));
    status = tune_eigh(g, &t, why);
    gram_context_destroy(g);
    return status;
}

static enum exit_status run_kron(const struct settings *s, int count, char **operands,
                                 struct failure *why)
{
    struct tune_kron t = {.dtype = s->dtype == 0 ? GRAM_F32 : GRAM_F64,
                          .side = s->side == 1 ? GRAM_LEFT : GRAM_RIGHT,
                          .json = s->json};
    enum exit_status status;
    gram_context *g;

    if (!isnan(s->p) || s->symmetric)
        return fail(why, CLI_USAGE, "--p and --symmetric apply only to cdist and kernel");
    TRY(tune_kron_parse(count, operands, s->op, &t, why));
    TRY(open_context(&s->common, &g, why));
    status = tune_kron(g, &t, why);
    gram_context_destroy(g);
    return status;
}

static enum exit_status run(const void *settings, int count, char **operands, struct failure *why)
{
    const struct settings *s = settings;
    const int kernel = strcmp(operands[0], "kernel") == 0, eigh = strcmp(operands[0], "eigh") == 0;
    const int kron = strcmp(operands[0], "kron") == 0, sizes = eigh ? SIZES - 1 : SIZES;
    int64_t size[SIZES];
    enum exit_status status;
    gram_context *g;

    if (!kernel && !eigh && !kron && strcmp(operands[0], "cdist") != 0)
        return fail(why, CLI_USAGE, "\"%.100s\" is not one of cdist, kernel, eigh and kron",
                    operands[0]);
    if (!eigh && (s->largest >= 0 || s->smallest >= 0 || s->no_vectors || s->matrix))
        return fail(why, CLI_USAGE,
                    "--largest, --smallest, --no-vectors and --matrix apply only to eigh");
    if (!kron && (s->side || s->op))
        return fail(why, CLI_USAGE, "--side and --op apply only to kron");
    if (kron)
        return run_kron(s, count - 1, operands + 1, why);
    if (count != sizes + 1)
        return fail(why, CLI_USAGE, "expected the operands %s, got %d operands",
                    eigh ? "eigh B N" : "cdist|kernel M N K", count);
    TRY(parse_sizes(sizes, operands + 1, size, why));
    if (eigh)
        return run_eigh(s, size, why);
    if (s->symmetric && size[0] != size[1])
        return fail(why, CLI_USAGE,
                    "--symmetric is given, but M is %lld and N is %lld, expected equal sizes",
                    (long long)size[0], (long long)size[1]);
    TRY(open_context(&s->common, &g, why));
    status = tune(g, s, kernel, size, why);
    gram_context_destroy(g);
    return status;
}

const struct command cmd_tune = {
    .name = "tune",
    .operands = "cdist|kernel M N K | eigh B N | kron M P[xQ]...",
    .summary = "find the fastest way to compute a problem here",
    .details =
        "Computes the distances, or a Laplace kernel, of M and N rows of K numbers on the GPU in "
        "every way that the library offers, and keeps the fastest beside the compiled kernels "
        "(see gram cache). From then on, all calls of all processes use it for similar problems: "
        "those with the same type, layout and p (for most p, its whole part), and with sizes that "
        "are the same when they are rounded up to a power of two. gram cache clear removes the "
        "result.\n\n"
        "eigh does the same for B symmetric matrices of order N with every driver, on the GPU or "
        "on the CPU (--device cpu). The fastest driver is then used if no driver is requested, "
        "for problems with the same type, with vectors or without, with the same three leading "
        "bits of N, and with B and the number of pairs the same when they are rounded up to a "
        "power of two.\n\n"
        "kron measures, on the GPU or on the CPU, the product of a matrix of M rows and the "
        "Kronecker product of factors with P rows and Q columns (with --side left, of these "
        "factors and a matrix of M columns). It chooses which factors are applied together, and "
        "the size of the tiles. On the CPU, results keep their bits.",
    .examples =
        "  gram tune cdist 30000 30000 1024 --p 1.3\n"
        "  gram tune kernel 20000 20000 256 --p 1 --symmetric\n"
        "  gram tune eigh 32 512 --device cpu --threads 2\n"
        "  gram tune kron 1024 16 16 16 16\n"
        "  gram tune kron 1024 8x4 8x4 --side left --op TN\n"
        "  gram tune kron 1 8 8 8 8 8 8 8 --device cpu --threads 1",
    .least = SIZES,
    .most = GRAM_MAX_FACTORS + 2,
    .settings_bytes = sizeof(struct settings),
    .groups = groups,
    .operand = operation,
    .run = run,
};

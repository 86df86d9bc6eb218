/*
 * cmd_harness.c - `gram check`, `gram bench` and `gram profile`, on the tables of cases of the
 * tests
 *
 * SPDX-License-Identifier: MIT
 */
#include "check/harness/harness.h"
#include "device.h"
#include "eigh_curve.h"
#include "number.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_OPERANDS = 64
};

struct settings {
    struct common_settings common;
    const char *isa, *trace, *implementation, *curve;
    int dtype;
    double seconds;
    int json;
};

static const char dtypes[] = "f32|f64|f16|bf16|i32|i64"; /* as gram_dtype counts them, from 1 */

#define DTYPE_OF_PROBLEM                                                     \
  CHOICE("dtype", 0, "TYPE", offsetof(struct settings, dtype), NULL, dtypes, \
         "of the problem; the same as dtype=TYPE behind the sizes")

static const struct option_row isa_rows[] = {
    DTYPE_OF_PROBLEM,
    TEXT("isa", 0, "NAME", offsetof(struct settings, isa), NULL,
         "use this instruction set, one of those that gram info names (default: the best)"),
    OPTION_END,
};

static const struct option_row check_rows[] = {
    DTYPE_OF_PROBLEM,
    TEXT("isa", 0, "NAME", offsetof(struct settings, isa), NULL,
         "use this instruction set, one of those that gram info names (default: all of them, one "
         "after the other)"),
    OPTION_END,
};

static const struct option_row bench_rows[] = {
    NUMBER("seconds", 0, "S", offsetof(struct settings, seconds), "0.5", 0, 3600,
           "measure for at least S seconds"),
    FLAG("json", 0, offsetof(struct settings, json), "write JSON"),
    FILE_NAME("curve", 0, "FILE.csv", offsetof(struct settings, curve), NULL,
              "for eigh: write a table of the time and workspace of every driver over n, for B "
              "matrices with orders from 4 to N (default: B is 1 and N is 1024)"),
    OPTION_END,
};

static const struct option_row profile_rows[] = {
    TEXT("implementation", 0, "NAME", offsetof(struct settings, implementation), NULL,
         "for kron: naive, explicit, shuffle or gram; the same as implementation=NAME"),
    FILE_NAME("trace", 0, "FILE", offsetof(struct settings, trace), "trace.json",
              "the file for the trace, in the format of Perfetto and of about:tracing in Chrome"),
    OPTION_END,
};

static const struct option_group check_groups[] = {
    GROUP("Where", check_rows, 0),
    GROUP("Device", device_options, offsetof(struct settings, common)),
    GROUP("Other options", threads_options, offsetof(struct settings, common)),
    GROUP("", common_options, offsetof(struct settings, common)),
    GROUP_END,
};
static const struct option_group bench_groups[] = {
    GROUP("Measuring", bench_rows, 0),
    GROUP("Where", isa_rows, 0),
    GROUP("Device", device_options, offsetof(struct settings, common)),
    GROUP("Other options", threads_options, offsetof(struct settings, common)),
    GROUP("", common_options, offsetof(struct settings, common)),
    GROUP_END,
};
static const struct option_group profile_groups[] = {
    GROUP("Output", profile_rows, 0),
    GROUP("Where", isa_rows, 0),
    GROUP("Device", device_options, offsetof(struct settings, common)),
    GROUP("Other options", threads_options, offsetof(struct settings, common)),
    GROUP("", common_options, offsetof(struct settings, common)),
    GROUP_END,
};

static const char *operation(int i)
{
    return harness_ops[i] ? harness_ops[i]->name : NULL;
}

/* The operands, followed by the options as NAME=VALUE. */
struct request_words {
    char *word[MOST_OPERANDS + 2];
    char dtype[16], implementation[64];
    int count;
};

static enum exit_status add_options(const struct settings *s, int count, char **operands,
                                    struct request_words *to, struct failure *why)
{
    static const char *const names[] = {"f32", "f64", "f16", "bf16", "i32", "i64"};

    for (to->count = 0; to->count < count; to->count++)
        to->word[to->count] = operands[to->count];
    if ((s->dtype >= 0 || s->implementation) && count < 2)
        return fail(why, CLI_USAGE, "--%s is given without sizes, which it needs",
                    s->dtype >= 0 ? "dtype" : "implementation");
    if (s->dtype >= 0) {
        snprintf(to->dtype, sizeof to->dtype, "dtype=%s", names[s->dtype]);
        to->word[to->count++] = to->dtype;
    }
    if (s->implementation) {
        snprintf(to->implementation, sizeof to->implementation, "implementation=%s",
                 s->implementation);
        to->word[to->count++] = to->implementation;
    }
    return CLI_OK;
}

static enum exit_status call(int (*entry)(int, char *const *, const struct harness_options *),
                             const void *settings, int count, char **operands, struct failure *why)
{
    const struct settings *s = settings;
    struct harness_options options = {
        .isa = s->isa,
        .threads = s->common.threads > 0 ? (int)s->common.threads : 0,
        .json = s->json,
        .seconds = s->seconds,
        .trace = s->trace,
    };
    struct request_words words;
    int status;

    TRY(add_options(s, count, operands, &words, why));
    TRY(device_choose(s->common.device, &options.device, why));
    status = entry(words.count, words.word, &options);
    if (fflush(stdout) != 0)
        return fail(why, CLI_IO, "cannot write standard output: %s", strerror(errno));
    return (enum exit_status)status;
}

static enum exit_status run_check(const void *settings, int count, char **operands,
                                  struct failure *why)
{
    return call(harness_main_check, settings, count, operands, why);
}

/* gram bench eigh [B N] --curve FILE.csv */
static enum exit_status run_curve(const struct settings *s, int count, char **operands,
                                  struct failure *why)
{
    struct eigh_curve c = {.path = s->curve, .items = 1, .most = 1024, .seconds = s->seconds / 5};
    int64_t *const sizes[] = {&c.items, &c.most};
    enum exit_status status;
    gram_context *g;

    if (strcmp(operands[0], "eigh") != 0 || (count != 1 && count != 3) || s->json || s->isa)
        return fail(why, CLI_USAGE,
                    "--curve can be used only with eigh, alone or with B N, and without --json "
                    "and --isa");
    for (int i = 1; i < count; i++) {
        double value = 0;
        if (!number_parse_all(operands[i], &value) || !(value >= 1 && value <= 0x1p31) ||
            value != floor(value))
            return fail(why, CLI_USAGE, "size \"%.100s\" is not a number from 1 to 2^31",
                        operands[i]);
        *sizes[i - 1] = (int64_t)value;
    }
    if (s->dtype > 1)
        return fail(why, CLI_USAGE, "--dtype is not f32 or f64, which are the types of eigh");
    c.dtype = s->dtype == 1 ? GRAM_F64 : GRAM_F32;
    TRY(open_context(&s->common, &g, why));
    status = eigh_curve(g, &c, why);
    gram_context_destroy(g);
    return status;
}

/* A file of problems: @FILE. */
static enum exit_status other_files(const void *settings, int count, char **operands,
                                    struct files *files, struct failure *why)
{
    (void)settings, (void)why;
    if (count == 2 && operands[1][0] == '@')
        files_read(files, operands[1] + 1);
    return CLI_OK;
}

static enum exit_status run_bench(const void *settings, int count, char **operands,
                                  struct failure *why)
{
    const struct settings *s = settings;

    if (s->curve)
        return run_curve(s, count, operands, why);
    return call(harness_main_bench, settings, count, operands, why);
}

static enum exit_status run_profile(const void *settings, int count, char **operands,
                                    struct failure *why)
{
    return call(harness_main_profile, settings, count, operands, why);
}

const struct command cmd_check = {
    .name = "check",
    .operands = "[OP [SIZE]... [NAME=VALUE]...]",
    .summary = "compare an operation with its definition",
    .details =
        "Compares the results of an operation with those of naive loops in double. Without sizes, "
        "it runs the table of test problems of the operation OP, or of all operations, on every "
        "instruction set of this processor. With sizes, it checks one problem of these sizes. The "
        "exit status is 1 if an error is above its bound.\n\n"
        "With sizes, kron (M, then P or PxQ for each factor) compares all ways to compute a "
        "product with Kronecker factors, and prints a verdict and a difference for y and for each "
        "gradient.",
    .examples =
        "  gram check cdist\n  gram check cdist 1000 900 64 p=1.3 dtype=f64\n"
        "  gram check kron --dtype f64 16 32 32",
    .least = 0,
    .most = MOST_OPERANDS,
    .settings_bytes = sizeof(struct settings),
    .groups = check_groups,
    .operand = operation,
    .files = other_files,
    .run = run_check,
};

const struct command cmd_bench = {
    .name = "bench",
    .operands = "OP SIZE... [NAME=VALUE]...",
    .summary = "time an operation, after checking its answer",
    .details =
        "Prints the median and the least time of a call of the operation OP on a problem of the "
        "given sizes. On a GPU, a call ends when its work is done. With --json, it prints seconds "
        "(the median), seconds_min, checked, device, isa, threads and more.\n\n"
        "With --curve FILE.csv, eigh is measured over n: the least time of a call and the "
        "workspace of every driver, for all pairs of random matrices, and for at least a fifth of "
        "--seconds per point. A driver stops when a call takes more than 2 s. On a GPU, further "
        "rows without a time have the workspace that plans state for each of 1, 2, 4, ... GPUs "
        "that share one matrix. gram.plot.eigh_overview of the Python package draws the table.",
    .examples =
        "  gram bench cdist 4000 4000 256 p=1 --threads 2 --json\n"
        "  gram bench eigh 64 512 --curve eigh.csv",
    .least = 1,
    .most = MOST_OPERANDS,
    .settings_bytes = sizeof(struct settings),
    .groups = bench_groups,
    .operand = operation,
    .files = other_files,
    .run = run_bench,
};

const struct command cmd_profile = {
    .name = "profile",
    .operands = "OP SIZE... [NAME=VALUE]...",
    .summary = "show what an operation spends its time on",
    .details =
        "Runs the operation OP on a problem of the given sizes, and writes a trace of the work of "
        "every thread. On a GPU, the trace shows the host, which queues the work and waits for "
        "it.",
    .examples = "  gram profile kernel 4000 4000 64 --trace kernel.json",
    .least = 1,
    .most = MOST_OPERANDS,
    .settings_bytes = sizeof(struct settings),
    .groups = profile_groups,
    .operand = operation,
    .files = other_files,
    .run = run_profile,
};

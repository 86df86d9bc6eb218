/*
 * cmd_harness.c - `gram check`, `gram bench` and `gram profile`: the tables of cases of the tests
 *
 * SPDX-License-Identifier: MIT
 */
#include "device.h"
#include "harness.h"
#include <errno.h>
#include <string.h>

struct settings {
    struct common_settings common;
    const char *isa, *trace;
    double seconds;
    int json;
};

static const struct option_row isa_rows[] = {
    TEXT("isa", 0, "NAME", offsetof(struct settings, isa), NULL,
         "use this instruction set, one of those that gram info names (default: check runs them "
         "all, the others the best)"),
    OPTION_END,
};

static const struct option_row bench_rows[] = {
    NUMBER("seconds", 0, "S", offsetof(struct settings, seconds), "0.5", 0, 3600,
           "measure for at least so long"),
    FLAG("json", 0, offsetof(struct settings, json), "write JSON"),
    OPTION_END,
};

static const struct option_row profile_rows[] = {
    FILE_NAME("trace", 0, "FILE", offsetof(struct settings, trace), "trace.json",
              "where the trace goes, in the format of Chrome's about:tracing and of Perfetto"),
    OPTION_END,
};

static const struct option_group check_groups[] = {
    GROUP("Where", isa_rows, 0),
    GROUP("Device", device_options, offsetof(struct settings, common)),
    GROUP("Other options", common_options, offsetof(struct settings, common)),
    GROUP_END,
};
static const struct option_group bench_groups[] = {
    GROUP("Measuring", bench_rows, 0),
    GROUP("Where", isa_rows, 0),
    GROUP("Device", device_options, offsetof(struct settings, common)),
    GROUP("Other options", common_options, offsetof(struct settings, common)),
    GROUP_END,
};
static const struct option_group profile_groups[] = {
    GROUP("Output", profile_rows, 0),
    GROUP("Where", isa_rows, 0),
    GROUP("Device", device_options, offsetof(struct settings, common)),
    GROUP("Other options", common_options, offsetof(struct settings, common)),
    GROUP_END,
};

static const char *operation(int i)
{
    return harness_ops[i] ? harness_ops[i]->name : NULL;
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
    int status;

    TRY(device_choose(s->common.device, &options.device, why));
    status = entry(count, operands, &options);
    if (fflush(stdout) != 0)
        return fail(why, CLI_IO, "cannot write standard output: %s", strerror(errno));
    return (enum exit_status)status;
}

static enum exit_status run_check(const void *settings, int count, char **operands,
                                  struct failure *why)
{
    return call(harness_main_check, settings, count, operands, why);
}

static enum exit_status run_bench(const void *settings, int count, char **operands,
                                  struct failure *why)
{
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
    .summary = "compare an operation with its definition, computed naively in double",
    .details =
        "Without sizes runs the table of test problems of the operation OP, or of all "
        "operations, on every instruction set of this processor. With sizes checks one "
        "problem of these sizes. The exit status is 1 if an error is above its bound.",
    .examples = "  gram check cdist\n  gram check cdist 1000 900 64 p=1.3 dtype=f64",
    .least = 0,
    .most = 64,
    .settings_bytes = sizeof(struct settings),
    .groups = check_groups,
    .operand = operation,
    .run = run_check,
};

const struct command cmd_bench = {
    .name = "bench",
    .operands = "OP SIZE... [NAME=VALUE]...",
    .summary = "time an operation, after checking its answer",
    .details =
        "Prints the median and the least time of a call of the operation OP on a problem of "
        "the given sizes; on a GPU a call ends when its work there is done. With --json: seconds "
        "(the median), seconds_min, checked, device, isa, threads and more.",
    .examples = "  gram bench cdist 4000 4000 256 p=1 --threads 2 --json",
    .least = 1,
    .most = 64,
    .settings_bytes = sizeof(struct settings),
    .groups = bench_groups,
    .operand = operation,
    .run = run_bench,
};

const struct command cmd_profile = {
    .name = "profile",
    .operands = "OP SIZE... [NAME=VALUE]...",
    .summary = "show what an operation spends its time on",
    .details =
        "Runs the operation OP on a problem of the given sizes and writes a trace of the "
        "work of every thread; on a GPU, of the host's: it queues the work and waits for it.",
    .examples = "  gram profile kernel 4000 4000 64 --trace kernel.json",
    .least = 1,
    .most = 64,
    .settings_bytes = sizeof(struct settings),
    .groups = profile_groups,
    .operand = operation,
    .run = run_profile,
};

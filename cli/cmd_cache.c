/*
 * cmd_cache.c - `gram cache`: manages the compiled kernels for GPUs
 *
 * SPDX-License-Identifier: MIT
 */
#include "command.h"
#include "json.h"
#include "text.h"
#include <string.h>
#include <time.h>

enum {
    MOST_CHIPS = 32
};

struct settings {
    struct common_settings common;
    const char *arch;
    int json;
};

static const struct option_row warm_rows[] = {
    TEXT("arch", 0, "CHIP", offsetof(struct settings, arch), NULL,
         "the chips for which warm compiles, for example sm_90 or sm_90,sm_100 (more may follow "
         "as operands; default: the GPUs of this machine)"),
    OPTION_END,
};

static const struct option_group groups[] = {
    GROUP("Warming", warm_rows, 0),
    GROUP("Output", json_options, offsetof(struct settings, json)),
    GROUP("Other options", threads_options, offsetof(struct settings, common)),
    GROUP("", common_options, offsetof(struct settings, common)),
    GROUP_END,
};

/* ---- list and warm: one kernel per line ------------------------------------------------------ */

struct lines {
    struct output *out;
    struct json *json; /* NULL: text */
    const char *pattern;
    int warmed, compiled;
};

static void day_of(int64_t seconds, char text[32])
{
    time_t when = (time_t)seconds;
    struct tm parts;

    if (!gmtime_r(&when, &parts) || strftime(text, 32, "%Y-%m-%d", &parts) == 0)
        snprintf(text, 32, "unknown");
}

static void entry_json(struct json *j, const gram_cache_entry *e)
{
    json_object(j, NULL);
    json_string(j, "kernel", e->kernel);
    json_string(j, "chip", e->chip);
    json_string(j, "compiler", e->compiler);
    json_string(j, "options", e->options);
    json_integer(j, "bytes", e->bytes);
    json_integer(j, "used", e->used);
    json_number(j, "compile_ms", e->compile_ms);
    json_end(j);
}

static void entry_line(void *user, const gram_cache_entry *e)
{
    struct lines *lines = user;
    char day[32], time[32] = "", line[256];
    int used, left;

    lines->compiled += e->compile_ms > 0;
    if (lines->json) {
        entry_json(lines->json, e);
        return;
    }
    if (lines->warmed && e->compile_ms > 0)
        snprintf(time, sizeof time, "%7.0f ms  ", e->compile_ms);
    else if (lines->warmed)
        snprintf(time, sizeof time, "  present   ");
    day_of(e->used, day);
    used = snprintf(line, sizeof line, "%s%-16s %-10s %-10s %8lld bytes  %s  ", time, e->kernel,
                    e->chip, e->compiler, (long long)e->bytes, day);
    left = lines->out->columns - 1 - used;
    output_text(lines->out, line);
    /* A terminal shows the beginning of the options; files and --json have all of them. */
    if (left > 2 && text_characters(e->options) > left)
        output_format(lines->out, "%.*s..\n", (int)text_bytes(e->options, left - 2), e->options);
    else
        output_format(lines->out, "%s\n", e->options);
}

static enum exit_status run_list(gram_context *g, const struct settings *s, struct output *out,
                                 struct failure *why)
{
    struct json j = json_to(out);
    struct lines lines = {.out = out, .json = s->json ? &j : NULL};
    gram_status status;

    if (s->json)
        json_array(&j, NULL);
    status = gram_cache_list(g, entry_line, &lines);
    if (s->json)
        json_end(&j);
    return status == GRAM_OK ? CLI_OK : fail_gram(why, status, g);
}

/* Splits "sm_80,sm_90" in place; 0 if there are too many names. */
static int split_chips(char *text, const char **chips, int *count)
{
    char *rest = NULL;

    for (char *chip = strtok_r(text, ",", &rest); chip; chip = strtok_r(NULL, ",", &rest)) {
        if (*count == MOST_CHIPS)
            return 0;
        chips[(*count)++] = chip;
    }
    return 1;
}

static enum exit_status run_warm(gram_context *g, const struct settings *s, char **operands,
                                 struct output *out, struct failure *why)
{
    struct json j = json_to(out);
    struct lines lines = {.out = out, .json = s->json ? &j : NULL, .warmed = 1};
    const char *chips[MOST_CHIPS];
    char text[1024];
    int count = 0;
    int fits = 1;
    gram_status status;

    fits = snprintf(text, sizeof text, "%s", s->arch ? s->arch : "") < (int)sizeof text &&
           split_chips(text, chips, &count);
    for (int i = 0; operands[i] && fits; i++)
        fits = split_chips(operands[i], chips, &count);
    if (!fits)
        return fail(why, CLI_USAGE, "there are more chips than the %d that are supported",
                    MOST_CHIPS);
    if (s->json)
        json_array(&j, NULL);
    status = gram_cache_warm(g, chips, count, entry_line, &lines);
    if (s->json)
        json_end(&j);
    return status == GRAM_OK ? CLI_OK : fail_gram(why, status, g);
}

/* ---- info and clear ------------------------------------------------------------------------- */

static enum exit_status run_info(gram_context *g, const struct settings *s, struct output *out,
                                 struct failure *why)
{
    gram_cache cache = {.size = sizeof cache};
    gram_status status = gram_cache_info(g, &cache);
    struct json j = json_to(out);
    const double mib = 1024.0 * 1024;

    if (status != GRAM_OK)
        return fail_gram(why, status, g);
    if (s->json) {
        json_object(&j, NULL);
        json_string(&j, "path", cache.path);
        json_string(&j, "why_not", cache.why);
        json_integer(&j, "kernels", cache.kernels);
        json_integer(&j, "bytes", cache.bytes);
        json_integer(&j, "most_bytes", cache.most_bytes);
        json_integer(&j, "file_bytes", cache.file_bytes);
        json_integer(&j, "tuned", cache.tuned);
        json_end(&j);
        return CLI_OK;
    }
    output_format(out, "file      %s\n", cache.path[0] ? cache.path : "none");
    output_format(out, "in use    %s%s\n", cache.why[0] ? "no: " : "yes", cache.why);
    output_format(out, "kernels   %lld, %.1f MiB of code, at most %.0f MiB\n",
                  (long long)cache.kernels, (double)cache.bytes / mib,
                  (double)cache.most_bytes / mib);
    output_format(out, "tuned     %lld kinds of problems\n", (long long)cache.tuned);
    output_format(out, "on disk   %.1f MiB\n", (double)cache.file_bytes / mib);
    return CLI_OK;
}

static enum exit_status run_clear(gram_context *g, const struct settings *s, const char *pattern,
                                  struct output *out, struct failure *why)
{
    int64_t removed = 0;
    gram_status status = gram_cache_clear(g, pattern, &removed);
    struct json j = json_to(out);

    if (status != GRAM_OK)
        return fail_gram(why, status, g);
    if (s->json) {
        json_object(&j, NULL);
        json_integer(&j, "removed", removed);
        json_end(&j);
    } else {
        output_format(out, "%lld kernel%s removed\n", (long long)removed, removed == 1 ? "" : "s");
    }
    return CLI_OK;
}

/* ---- The command ---------------------------------------------------------------------------- */

static const char *const actions[] = {"list", "info", "clear", "warm", NULL};

static const char *action(int i)
{
    return actions[i];
}

static enum exit_status act(gram_context *g, const struct settings *s, int count, char **operands,
                            struct output *out, struct failure *why)
{
    const char *name = operands[0];

    if (strcmp(name, "warm") == 0)
        return run_warm(g, s, operands + 1, out, why);
    if (s->arch)
        return fail(why, CLI_USAGE, "--arch applies only to gram cache warm");
    if (strcmp(name, "clear") == 0 && count <= 2)
        return run_clear(g, s, operands[1], out, why);
    if (count > 1)
        return fail(why, CLI_USAGE, "unexpected operand \"%.100s\"", operands[count - 1]);
    if (strcmp(name, "list") == 0)
        return run_list(g, s, out, why);
    if (strcmp(name, "info") == 0)
        return run_info(g, s, out, why);
    return fail(why, CLI_USAGE, "\"%.100s\" is not one of list, info, clear and warm", name);
}

static enum exit_status run(const void *settings, int count, char **operands, struct failure *why)
{
    const struct settings *s = settings;
    enum exit_status status;
    gram_context *g;
    struct output out;

    TRY(open_context(&s->common, &g, why));
    status = output_open(&out, "-", why);
    if (status == CLI_OK) {
        status = act(g, s, count, operands, &out, why);
        if (status == CLI_OK)
            status = output_close(&out, why);
        else
            output_discard(&out);
    }
    gram_context_destroy(g);
    return status;
}

const struct command cmd_cache = {
    .name = "cache",
    .operands = "list|info|clear|warm [PATTERN|CHIP...]",
    .summary = "manage the compiled kernels for GPUs",
    .details =
        "Code for GPUs is compiled when it is first needed, and is kept in one file. list prints "
        "every kernel in the file: its source, chip, compiler, size, day of last use and options. "
        "info prints the place of the file, its size and its largest size, and the reason if it "
        "is not used. clear removes the kernels whose line (source, chip, compiler and options, "
        "separated by one blank) contains PATTERN, in which * stands for any text and ? for one "
        "character; without PATTERN it removes all of them. warm compiles the common kernels in "
        "advance, on several threads; it needs NVRTC, but no GPU.",
    .examples = "  gram cache info\n  gram cache warm --arch sm_90\n  gram cache clear sm_80",
    .least = 1,
    .most = MOST_CHIPS + 1,
    .settings_bytes = sizeof(struct settings),
    .groups = groups,
    .operand = action,
    .run = run,
};

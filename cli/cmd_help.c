/*
 * cmd_help.c - `gram help`: help, the manual page, shell completion
 *
 * SPDX-License-Identifier: MIT
 */
#include "help.h"
#include "load.h"

struct settings {
    struct common_settings common;
    int man, completion;
    const char *columns;
};

enum {
    COMPLETION_NONE,
    COMPLETION_BASH,
    COMPLETION_ZSH,
    COMPLETION_FISH
};

static const struct option_row rows[] = {
    FLAG("man", 0, offsetof(struct settings, man), "print the manual page, as troff"),
    CHOICE("completion", 0, "SHELL", offsetof(struct settings, completion), "none",
           "none|bash|zsh|fish", "print the completion script for SHELL, to be sourced by it"),
    TEXT("columns", 0, "DATA", offsetof(struct settings, columns), NULL,
         "print the names of the columns of a table, one per line"),
    OPTION_END,
};

static const struct option_group groups[] = {
    GROUP("Instead of help", rows, 0),
    GROUP("Other options", common_options, offsetof(struct settings, common)),
    GROUP_END,
};

static const char *command_name(int i)
{
    return commands[i] ? commands[i]->name : NULL;
}

static enum exit_status print_columns(struct output *out, const char *path, struct failure *why)
{
    const struct csv_options options = {.header = CSV_HEADER_YES};
    struct table t;
    enum exit_status status = load_table(path, &options, &t, why);

    for (int64_t c = 0; status == CLI_OK && c < t.width; c++)
        output_format(out, "%s\n", t.columns[c].name);
    table_free(&t);
    return status;
}

static enum exit_status run(const void *settings, int count, char **operands, struct failure *why)
{
    const struct settings *s = settings;
    const struct command *about = count > 0 ? command_find(operands[0]) : NULL;
    enum exit_status status = CLI_OK;
    struct output out;

    if (count > 0 && !about)
        return command_unknown(operands[0], why);
    TRY(output_open(&out, "-", why));
    if (s->columns)
        status = print_columns(&out, s->columns, why);
    else if (s->man)
        manual_page(&out);
    else if (s->completion == COMPLETION_BASH)
        completion_bash(&out);
    else if (s->completion == COMPLETION_ZSH)
        completion_zsh(&out);
    else if (s->completion == COMPLETION_FISH)
        completion_fish(&out);
    else if (about)
        help_command(&out, about);
    else
        help_program(&out);
    if (status == CLI_OK)
        return output_close(&out, why);
    output_discard(&out);
    return status;
}

const struct command cmd_help = {
    .name = "help",
    .operands = "[COMMAND]",
    .summary = "explain a command; print the manual page or shell completion",
    .details = "Explains COMMAND, or lists the commands.",
    .examples =
        "  gram help fit\n  gram help --man | man -l -\n"
        "  source <(gram help --completion bash)\n"
        "  gram help --completion fish | source",
    .least = 0,
    .most = 1,
    .settings_bytes = sizeof(struct settings),
    .groups = groups,
    .operand = command_name,
    .run = run,
};

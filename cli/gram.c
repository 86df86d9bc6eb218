/*
 * gram.c - the main program: finds the command, parses its options, and runs it
 *
 * SPDX-License-Identifier: MIT
 */
#include "address_space.h"
#include "help.h"
#include "interrupt.h"
#include "matrix.h"
#include "terminal.h"
#include "text.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum exit_status print_help(const struct command *command, struct failure *why)
{
    struct output out;

    TRY(output_open(&out, "-", why));
    if (command)
        help_command(&out, command);
    else
        help_program(&out);
    return output_close(&out, why);
}

static enum exit_status check_operands(const struct command *command, int count, char **operands,
                                       struct failure *why)
{
    int inputs = 0;

    if (count < command->least || count > command->most)
        return fail(why, CLI_USAGE, "expected %s, got %d operand%s (see gram %s --help)",
                    command->most == 0 ? "no operands" : command->operands, count,
                    count == 1 ? "" : "s", command->name);
    for (int i = 0; i < count; i++)
        inputs += strcmp(operands[i], "-") == 0;
    return inputs > 1 ? fail(why, CLI_USAGE, "standard input (-) can be read only once") : CLI_OK;
}

/* Adds the files that a table of options names; those that are not given are NULL. */
static enum exit_status add_outputs(const struct option_group *g, const char *settings,
                                    struct files *files, struct failure *why)
{
    if (g->rows == output_options)
        TRY(output_check_format((const void *)(settings + g->base), why));
    for (const struct option_row *row = g->rows; row->name; row++) {
        const char *path = NULL;
        if (row->kind == OPTION_FILE)
            memcpy(&path, settings + g->base + row->offset, sizeof path);
        if (path)
            TRY(files_write(files, row->name, path, why));
    }
    return CLI_OK;
}

/* Every file that the command reads or writes goes through here before the command runs. */
static enum exit_status check_files(const struct command *command, const void *settings, int count,
                                    char **operands, struct failure *why)
{
    struct files files = {.count = 0};

    for (int i = 0; i < count && command->reads; i++)
        files_read(&files, operands[i]);
    if (command->files)
        TRY(command->files(settings, count, operands, &files, why));
    for (const struct option_group *g = command->groups; g->title; g++)
        TRY(add_outputs(g, settings, &files, why));
    return CLI_OK;
}

static enum exit_status run(const struct command *command, int argc, char **argv,
                            struct failure *why)
{
    void *settings = calloc(1, command->settings_bytes);
    enum exit_status status;
    int count;

    if (!settings)
        return fail_memory(why, "the settings");
    status = options_parse(command, argc, argv, settings, &count, why);
    /* Every command's settings begin with the common ones. */
    if (status == CLI_OK && ((const struct common_settings *)settings)->help) {
        status = print_help(command, why);
    } else if (status == CLI_OK) {
        status = check_operands(command, count, argv, why);
        if (status == CLI_OK)
            status = check_files(command, settings, count, argv, why);
        if (status == CLI_OK)
            status = command->run(settings, count, argv, why);
    }
    free(settings);
    return status;
}

/* What was missing is on standard error, as every message is. */
static enum exit_status no_command(void)
{
    struct output out = {
        .stream = stderr,
        .path = "standard error",
        .slot = -1,
        .columns = terminal_columns(STDERR_FILENO),
        .colours = terminal_colours(STDERR_FILENO),
    };

    help_program(&out);
    return CLI_USAGE;
}

static void print_message(const char *command, const char *text)
{
    const bool colours = terminal_colours(STDERR_FILENO);

    /* In one piece: several processes may write at once. */
    fprintf(stderr, "%sgram%s%s:%s %s\n", colours ? "\033[1;31m" : "", command ? " " : "",
            command ? command : "", colours ? "\033[0m" : "", text);
}

static enum exit_status print_version(struct failure *why)
{
    struct output out;

    TRY(output_open(&out, "-", why));
    output_format(&out, "gram %s (libgram %s)\n", GRAM_VERSION, gram_version());
    return output_close(&out, why);
}

/*
 * A standard stream that the caller closed would be the next file that is opened, and messages
 * would end up in it.  What takes its place fails as the closed one would.
 */
static void keep_standard_streams(void)
{
    static const int opposite[] = {O_WRONLY, O_RDONLY, O_RDONLY};

    for (int i = 0; i < LENGTH(opposite); i++)
        if (fcntl(i, F_GETFD) == -1 && open("/dev/null", opposite[i]) == -1)
            _exit(CLI_IO);
}

#ifdef __linux__
__attribute__((section(".preinit_array"), used)) static void (*const before_libraries)(
    int argc, char **argv, char **environment) = address_space_before_libraries;
#endif

int main(int argc, char **argv)
{
    struct failure why = {""};
    const char *name = argc > 1 ? argv[1] : "";
    const struct command *command = command_find(name);
    enum exit_status status;

    address_space_restore();
    keep_standard_streams();
    interrupt_install();
    if (command)
        status = run(command, argc - 1, argv + 1, &why);
    else if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        status = print_version(&why);
    else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        status = print_help(NULL, &why);
    else if (argc < 2)
        status = no_command();
    else
        status = command_unknown(name, &why);
    text_mask(why.text); /* names from files may hold anything */
    if (why.text[0])
        print_message(command ? name : NULL, why.text);
    return status == CLI_INTERRUPTED ? interrupt_status() : (int)status;
}

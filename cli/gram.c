/*
 * gram.c - the command line: finds the command, parses its options, runs it
 *
 * SPDX-License-Identifier: MIT
 */
#include "help.h"
#include "interrupt.h"
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
        return fail(why, CLI_USAGE, "expected %s%s, got %d operand%s (see gram %s --help)",
                    command->most == 0 ? "no operands" : "operands ", command->operands, count,
                    count == 1 ? "" : "s", command->name);
    for (int i = 0; i < count; i++)
        inputs += strcmp(operands[i], "-") == 0;
    return inputs > 1 ? fail(why, CLI_USAGE, "standard input (-) can be read only once") : CLI_OK;
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
            status = command->run(settings, count, argv, why);
    }
    free(settings);
    return status;
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

int main(int argc, char **argv)
{
    struct failure why = {""};
    const char *name = argc > 1 ? argv[1] : "";
    const struct command *command = command_find(name);
    enum exit_status status;

    keep_standard_streams();
    interrupt_install();
    if (command)
        status = run(command, argc - 1, argv + 1, &why);
    else if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        status = print_version(&why);
    else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        status = print_help(NULL, &why);
    else if (argc < 2)
        status = fail(&why, CLI_USAGE, "no command given (see gram --help)");
    else
        status = fail(&why, CLI_USAGE, "unknown command \"%.100s\" (see gram --help)", name);
    /* Names from files may hold anything: no line ends and no terminal escapes in a message. */
    for (char *c = why.text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    if (why.text[0])
        fprintf(stderr, "gram%s%s: %s\n", command ? " " : "", command ? name : "", why.text);
    return (int)status;
}

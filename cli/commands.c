/*
 * commands.c - the list of all commands
 *
 * SPDX-License-Identifier: MIT
 */
#include "closest.h"
#include "command.h"
#include <string.h>

extern const struct command cmd_fit, cmd_cv, cmd_predict, cmd_score, cmd_importance, cmd_cdist,
    cmd_nearest, cmd_kernel, cmd_krr, cmd_solve, cmd_eigh, cmd_power, cmd_kron, cmd_info, cmd_cache,
    cmd_tune, cmd_check, cmd_bench, cmd_profile, cmd_help;

const struct command *const commands[] = {
    &cmd_fit,    &cmd_cv,   &cmd_predict, &cmd_score, &cmd_importance, &cmd_cdist, &cmd_nearest,
    &cmd_kernel, &cmd_krr,  &cmd_solve,   &cmd_eigh,  &cmd_power,      &cmd_kron,  &cmd_info,
    &cmd_cache,  &cmd_tune, &cmd_check,   &cmd_bench, &cmd_profile,    &cmd_help,  NULL,
};

const struct command *command_find(const char *name)
{
    for (int i = 0; commands[i]; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

enum exit_status command_unknown(const char *name, struct failure *why)
{
    struct closest closest = {.wanted = name};
    char hint[CLOSEST_HINT];

    for (int i = 0; commands[i]; i++)
        closest_offer(&closest, commands[i]->name);
    return fail(why, CLI_USAGE, "unknown command \"%.100s\"%s (see gram --help)", name,
                closest_hint(&closest, "gram ", "", hint));
}

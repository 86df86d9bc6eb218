/*
 * commands.c - the list of all commands
 *
 * SPDX-License-Identifier: MIT
 */
#include "command.h"
#include <string.h>

extern const struct command cmd_fit, cmd_predict, cmd_score, cmd_importance, cmd_cdist, cmd_kernel,
    cmd_solve, cmd_eigh, cmd_power, cmd_kron, cmd_info, cmd_cache, cmd_tune, cmd_check, cmd_bench,
    cmd_profile, cmd_help;

const struct command *const commands[] = {
    &cmd_fit,   &cmd_predict, &cmd_score, &cmd_importance, &cmd_cdist, &cmd_kernel,
    &cmd_solve, &cmd_eigh,    &cmd_power, &cmd_kron,       &cmd_info,  &cmd_cache,
    &cmd_tune,  &cmd_check,   &cmd_bench, &cmd_profile,    &cmd_help,  NULL,
};

const struct command *command_find(const char *name)
{
    for (int i = 0; commands[i]; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}
